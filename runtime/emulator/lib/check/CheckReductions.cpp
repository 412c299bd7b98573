//===- CheckReductions.cpp - Maxima and sums over lanes -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the layout check (see CheckLayout.cpp) that follows reductions by
// shfl. Of what a lane holds it knows the lanes that it is made of. Where two
// values meet that have a lane in common, one of them was read from the wrong
// lane, which shows when products of one row are scaled with the result:
//
//   8. Have all lanes of a row the same value, if it counts a lane twice?
//
// That alone would be no mistake: the lanes of a row may have values of their
// own (groups of columns), and a maximum may count a lane twice.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <bit>

using namespace flashcore::emu;

static const char *const reductionRule =
    "a butterfly over lanes meets other lanes in each step, so a row has one "
    "maximum and one sum in all of its lanes (PTX ISA 9.7.9.6)";

/// What is known of an operand; null for a constant or what no shfl brought.
static const LaneReduction *reductionIn(const Warp &warp, const LabelPlan &plan,
                                        uint32_t granule) {
  uint32_t slot = plan.reductions[granule];
  if (slot >= plan.numReductions)
    return nullptr;
  const LaneReduction &reduction = warp.labels.reductions[slot];
  return reduction.known ? &reduction : nullptr;
}

static uint32_t lanesOf(const LaneReduction *reduction, unsigned lane) {
  return reduction && reduction->known >> lane & 1 ? reduction->lanes[lane]
                                                   : 1u << lane;
}

/// Of the results of an instruction: those of its sources together.
void Machine::carryReduction(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  LaneReduction &to = warp.labels.reductions[labelPlan.reductions[ops[0]]];
  unsigned numValues = numReducedSources(inst);
  bool isSum = isReduction(inst.op);
  const LaneReduction *from[3] = {};
  bool isAnyKnown = false, isAnyShuffled = false, isAnyNew = false;
  unsigned numKnown = 0;
  for (unsigned i = 0; i < numValues; ++i) {
    from[i] = reductionIn(warp, labelPlan, ops[1 + i]);
    isAnyKnown |= from[i] != nullptr;
    numKnown += from[i] != nullptr;
    isAnyShuffled |= from[i] && from[i]->isShuffled;
    // What is added from the lane itself starts another round.
    bool isAddend = isSum || (numValues == 3 && i == 2);
    isAnyNew |= isAddend && !from[i] &&
                labelPlan.reductions[ops[1 + i]] != constantSlot;
  }
  if (!isAnyKnown) {
    to.known &= ~lanes;
    return;
  }
  LaneReduction result = to;
  result.isShuffled = numKnown == 1 && isAnyShuffled && !isAnyNew;
  result.known |= lanes;
  result.overlap &= ~lanes;
  forEachLane(lanes, [&](unsigned lane) {
    uint32_t all = 0, twice = 0;
    for (unsigned i = 0; i < numValues; ++i) {
      if (!from[i] && !(isSum && isAnyShuffled &&
                        labelPlan.reductions[ops[1 + i]] != constantSlot))
        continue;
      bool isRepeated = i > 0 && ops[1 + i] == ops[i];
      uint32_t own = lanesOf(from[i], lane);
      twice |= isSum && isAnyShuffled && !isRepeated ? all & own : 0;
      if (from[i] && from[i]->known >> lane & 1)
        result.overlap |= from[i]->overlap & 1u << lane;
      all |= own;
    }
    result.overlap |= twice ? 1u << lane : 0;
    result.lanes[lane] = isAnyNew && !isAnyShuffled ? 1u << lane : all;
  });
  warp.labels.hasOverlap |= result.overlap != 0;
  to = result;
}

void Machine::shuffleReduction(Warp &warp, const Inst &inst, uint32_t lanes,
                               const uint8_t (&from)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t slot = labelPlan.reductions[ops[0]];
  if (slot >= labelPlan.numReductions)
    return;
  const LaneReduction *source = reductionIn(warp, labelPlan, ops[2]);
  LaneReduction result = warp.labels.reductions[slot];
  result.isShuffled = true;
  result.known |= lanes;
  result.overlap &= ~lanes;
  forEachLane(lanes, [&](unsigned lane) {
    result.lanes[lane] = lanesOf(source, from[lane]);
    if (source && source->known & source->overlap & 1u << from[lane])
      result.overlap |= 1u << lane;
  });
  warp.labels.reductions[slot] = result;
}

/// "lanes 0 and 2".
static std::string describeLanes(uint32_t lanes) {
  std::string text = std::has_single_bit(lanes) ? "lane " : "lanes ";
  for (unsigned left = lanes; left; left &= left - 1) {
    bool isFirst = left == lanes, isLast = std::has_single_bit(left);
    text += isFirst ? "" : isLast ? " and " : ", ";
    text += std::to_string(std::countr_zero(left));
  }
  return text;
}

/// Asks whether products of a row meet one value of it.
void Machine::checkReduction(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  const LaneReduction *reduction = nullptr;
  const Label *products = nullptr;
  const float *values = nullptr;
  for (unsigned i = 0; i < inst.numSrcs; ++i) {
    if (const LaneReduction *here = reductionIn(warp, labelPlan, ops[i])) {
      reduction = here;
      values = warp.reg<float>(ops[i]);
    } else if (const Label *labels = warp.labels.ifHeld(slotOf(ops[i]))) {
      products = labels;
    }
  }
  if (!reduction || !products)
    return;
  lanes &= reduction->known;
  forEachLane(lanes & reduction->overlap, [&](unsigned lane) {
    if (!isProduct(products[lane]))
      return;
    for (unsigned other = 0; other < warpSize; ++other) {
      if (!(lanes >> other & 1) || values[other] == values[lane] ||
          !isProduct(products[other]) ||
          lowWord(products[other]) != lowWord(products[lane]))
        continue;
      find(FindingKind::LayoutMismatch, warp, inst, 1u << lane, [&] {
        return Text{"combines products of " +
                        tensors.describe(lowWord(products[lane])) +
                        " with a value of " +
                        describeLanes(reduction->lanes[lane]) +
                        " that counts some of them twice, but lane " +
                        std::to_string(other) + " of this row has another one",
                    reductionRule};
      });
      return;
    }
  });
}

void Machine::followReduction(Warp &warp, const Inst &inst, const LabelOp &op,
                              uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  switch (op.reduction) {
  case ReductionAction::None:
    break;
  case ReductionAction::Carry:
    carryReduction(warp, inst, lanes);
    break;
  case ReductionAction::Use:
    if (warp.labels.hasOverlap)
      checkReduction(warp, inst, lanes);
    [[fallthrough]];
  case ReductionAction::Clear:
    for (unsigned i = 0; i < inst.numDsts; ++i)
      if (uint32_t slot = labelPlan.reductions[ops[i]];
          slot < labelPlan.numReductions)
        warp.labels.reductions[slot].known &= ~lanes;
    break;
  }
}
