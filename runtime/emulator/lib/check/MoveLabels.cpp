//===- MoveLabels.cpp - Labels on their way -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves labels beside the data (see Layout.h), through registers, shuffles,
// shared memory and copies.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>
#include <bit>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Storage of labels
//===----------------------------------------------------------------------===//

void LabelFrame::reset(const LabelPlan &plan) {
  reductions.assign(plan.numReductions, {});
  hasOverlap = false;
  uint32_t numSlots = plan.numSlots;
  if (stamps.size() != numSlots)
    storage.reset(static_cast<char *>(::operator new[](
        size_t(numSlots) * warpSize * sizeof(Label), std::align_val_t(64))));
  stamps.assign(numSlots, 0);
  origins.assign(numSlots, {});
}

Label *LabelFrame::write(uint32_t slot) {
  if (!stamps[slot])
    std::fill_n(at(slot), warpSize, Label(0));
  hold(slot);
  return at(slot);
}

void LabelFrame::clear(uint32_t slot, uint32_t lanes) {
  if (slot == noSlot || !stamps[slot])
    return;
  if (lanes == ~0u) {
    stamps[slot] = 0;
    return;
  }
  forEachLane(lanes, [&](unsigned lane) { at(slot)[lane] = 0; });
  hold(slot);
}

void Machine::setUpLabels() {
  for (const Buffer &buffer : memory.buffers)
    if (buffer.live && buffer.layout)
      tensors.add(buffer);
  if (tensors.empty())
    return;
  labelPlan = planLabels(program);
  labelling = !labelPlan.isEmpty();
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// The labels of one half register after an instruction, or null for none.
static const Label *resultLabels(LabelFrame &frame, const LabelStep &step,
                                 const LabelKernels &kernels, bool isSum,
                                 Label *scratch) {
  alignas(64) static constexpr Label neutral[warpSize] = {};
  const Label *result = nullptr;
  bool isAnyHeld = false;
  for (uint32_t from : step.from) {
    if (from == noSlot)
      continue;
    const Label *labels = frame.stamps[from] ? frame.at(from) : neutral;
    isAnyHeld |= labels != neutral;
    if (result && isAnyHeld)
      kernels.merge(scratch, result, labels, isSum);
    result = result && isAnyHeld ? scratch : labels;
  }
  return isAnyHeld ? result : nullptr;
}

/// Where a result was summed up: as the products that it is made of, or nowhere
/// known if these were summed up in several ways. A factor of the row, such as
/// exp(old max - new max), has an origin but stands for no column. `slot` is
/// that of the products.
static LabelFrame::Origin resultOrigin(LabelFrame &frame, const LabelStep &step,
                                       uint32_t &slot) {
  LabelFrame::Origin result;
  unsigned numHeld = 0, numProducts = 0;
  for (uint32_t from : step.from) {
    const Label *labels = frame.ifHeld(from);
    if (!labels)
      continue;
    LabelFrame::Origin last = frame.origins[from];
    bool isOfProducts = isProduct(labels[0]);
    if (numHeld++ && !isOfProducts)
      continue;
    bool isSame = numProducts == 0 || result.depth == last.depth;
    numProducts += isOfProducts;
    result = last;
    result.depth = isSame ? last.depth : 0;
    slot = from;
  }
  if (numHeld > 1 && numProducts == 0)
    result.depth = 0;
  return result;
}

/// What is masked away has no origin; the value it is masked with may have.
/// Data of a tensor that stand in for products are neither.
static const Label *selectedLabels(LabelFrame &frame, const LabelStep &step,
                                   uint32_t predicate, Label *scratch) {
  const Label *a = frame.ifHeld(step.from[0]);
  const Label *b = frame.ifHeld(step.from[1]);
  if (!a && !b)
    return nullptr;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    const Label *from = predicate >> lane & 1 ? a : b;
    scratch[lane] = from ? from[lane] : 0;
    if (a && b && isMemory(a[lane]) != isMemory(b[lane]))
      scratch[lane] = 0;
  }
  return scratch;
}

/// Labels of an accumulator that is still zero in all lanes and is scaled for
/// its row; null for anything else: some lanes may have rows that see nothing,
/// whose factor is zero.
const Label *Machine::blankLabels(Warp &warp, const Inst &inst, uint32_t lanes,
                                  Label *scratch) {
  if (lanes != warp.live)
    return nullptr;
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned i = 1; i <= 2; ++i) {
    if (warp.labels.ifHeld(slotOf(ops[i])))
      continue;
    const Label *factor = warp.labels.ifHeld(slotOf(ops[3 - i]));
    const float *values = warp.reg<float>(ops[i]);
    uint32_t left = lanes;
    while (left) {
      auto lane = static_cast<unsigned>(std::countr_zero(left));
      if (values[lane] != 0 || (factor && isProduct(factor[lane])))
        break;
      left &= left - 1;
    }
    if (!left)
      return std::fill_n(scratch, warpSize, productLabel(0, blank)) - warpSize;
  }
  return nullptr;
}

/// Labels of a result go to its slot.
static void putLabels(LabelFrame &frame, uint32_t to, const Label *labels,
                      uint32_t lanes) {
  if (lanes == ~0u) {
    frame.hold(to);
    if (labels != frame.at(to))
      std::copy_n(labels, warpSize, frame.at(to));
    return;
  }
  Label *out = frame.write(to);
  forEachLane(lanes, [&](unsigned lane) { out[lane] = labels[lane]; });
}

/// Where the result of `step` was summed up. If that varies between lanes, as
/// where a predicate selects, `depths` takes it for each.
static LabelFrame::Origin laneOrigins(LabelFrame &frame, const LabelStep &step,
                                      bool isSelect, uint32_t predicate,
                                      LabelFrame::LaneDepths &depths) {
  uint32_t slot = noSlot;
  LabelFrame::Origin origin = resultOrigin(frame, step, slot);
  uint32_t a = step.from[0], b = step.from[1];
  bool isSelection = isSelect && frame.ifHeld(a) && frame.ifHeld(b) &&
                     (frame.origins[a].depth != frame.origins[b].depth ||
                      frame.origins[a].depth == LabelFrame::varying);
  if (!isSelection && origin.depth != LabelFrame::varying)
    return origin;
  for (unsigned lane = 0; lane < warpSize; ++lane)
    depths[lane] = frame.depthOf(
        isSelection ? (predicate >> lane & 1 ? a : b) : slot, lane);
  origin.depth = LabelFrame::varying;
  return origin;
}

void Machine::propagateLabels(Warp &warp, const Inst &inst, const LabelOp &op,
                              uint32_t lanes) {
  LabelFrame &frame = warp.labels;
  // Halves may change places, so all are read before any is written.
  alignas(64) Label scratch[4][warpSize];
  const Label *results[4];
  LabelFrame::Origin origins[4];
  LabelFrame::LaneDepths depths[4];
  const LabelStep *steps = &labelPlan.steps[op.firstStep];
  // Put together at its place, unless sources are there.
  bool inPlace = op.numSteps == 1 && lanes == ~0u && !op.isScale &&
                 std::count(steps->from, steps->from + 3, steps->to) == 0;
  auto workPlace = [&](unsigned i) {
    return inPlace ? frame.at(steps->to) : scratch[i];
  };
  auto isOverwritten = [&](unsigned i) {
    for (unsigned j = 0; j < op.numSteps; ++j)
      if (j != i && results[i] == frame.at(steps[j].to))
        return true;
    return false;
  };
  bool isSelect = op.action == LabelAction::Select;
  uint32_t predicate =
      isSelect ? *warp.reg<uint32_t>(program.operands[inst.firstOperand + 3])
               : 0;
  for (unsigned i = 0; i < op.numSteps; ++i) {
    if (isSelect)
      results[i] = selectedLabels(frame, steps[i], predicate, workPlace(i));
    else
      results[i] =
          resultLabels(frame, steps[i], *handlers.labels,
                       op.action == LabelAction::MergeSum, workPlace(i));
    if (op.isScale)
      if (const Label *labels = blankLabels(warp, inst, lanes, scratch[i]))
        results[i] = labels;
    if (results[i])
      origins[i] = laneOrigins(frame, steps[i], isSelect, predicate, depths[i]);
    if (results[i] && isOverwritten(i))
      results[i] = std::copy_n(results[i], warpSize, scratch[i]) - warpSize;
  }
  for (unsigned i = 0; i < op.numSteps; ++i) {
    uint32_t to = steps[i].to;
    if (!results[i]) {
      frame.clear(to, lanes);
      continue;
    }
    putLabels(frame, to, results[i], lanes);
    frame.origins[to] = origins[i];
    if (origins[i].depth == LabelFrame::varying)
      frame.laneDepths[to] = depths[i];
  }
}

void Machine::labelShuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                           const uint8_t (&from)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  shuffleReduction(warp, inst, lanes, from);
  for (unsigned half = 0; half < 2; ++half) {
    uint32_t to = slotOf(ops[0] + half);
    if (to == noSlot)
      continue;
    const Label *source = warp.labels.ifHeld(slotOf(ops[2] + half));
    if (!source) {
      warp.labels.clear(to, lanes);
      continue;
    }
    Label values[warpSize];
    std::copy_n(source, warpSize, values);
    uint32_t slot = slotOf(ops[2] + half);
    warp.labels.origins[to] = warp.labels.origins[slot];
    if (warp.labels.origins[slot].depth == LabelFrame::varying) {
      LabelFrame::LaneDepths depths = warp.labels.laneDepths.at(slot);
      warp.labels.setDepths(to, [&](unsigned lane) {
        return depths[lanes >> lane & 1 ? from[lane] : lane];
      });
    }
    Label *out = warp.labels.write(to);
    forEachLane(lanes, [&](unsigned lane) { out[lane] = values[from[lane]]; });
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void Machine::labelAccess(Warp &warp, const Inst &inst, StateSpace space,
                          uint32_t lanes, uint8_t *const (&hosts)[warpSize],
                          bool isStore) {
  bool isShared = space == StateSpace::Shared;
  if (space == StateSpace::Global && isStore)
    return labelStoredProducts(warp, inst, lanes, hosts);
  if (isShared ? cta->labels.empty() : isStore)
    return;
  const uint32_t *ops = program.operands.data() + inst.firstOperand + isStore;
  unsigned words = std::max(inst.elementBytes / 2u, 1u);
  unsigned halves = std::max<unsigned>(inst.regBytes / 2u, words);
  bool isLabelled =
      inst.elementBytes > 1 && (isShared || space == StateSpace::Global);
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    for (unsigned half = 0; half < halves; ++half) {
      uint32_t slot = slotOf(ops[v] + half);
      size_t offset = size_t(v) * inst.elementBytes + 2 * half;
      if (!isStore && slot == noSlot)
        continue;
      if (!isStore && (!isLabelled || half >= words)) {
        warp.labels.clear(slot, lanes);
        continue;
      }
      if (half >= words)
        break;
      const Label *stored = isStore ? warp.labels.ifHeld(slot) : nullptr;
      Label *loaded = isStore ? nullptr : warp.labels.write(slot);
      if (isStore)
        checkDepth(warp, inst, ops[v] + half);
      else
        warp.labels.origins[slot] = {};
      forEachLane(lanes, [&](unsigned lane) {
        const uint8_t *host = hosts[lane] + offset;
        if (!isShared) {
          tensors.labelWords(host, 1, &loaded[lane]);
          return;
        }
        Label &cell = cta->labels[size_t(host - cta->shared.data()) / 2];
        if (isStore)
          cell = stored && isLabelled ? stored[lane] : 0;
        else
          loaded[lane] = cell;
      });
    }
}

/// Bytes that cp.async brings into shared memory.
void Machine::labelCopy(const AsyncCopy &copy, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) {
    Label *to = &cta->labels[copy.to[lane] / 2];
    unsigned read = copy.fromBytes[lane] / 2u;
    if (read)
      tensors.labelWords(copy.from[lane], read, to);
    std::fill(to + read, to + copy.bytes / 2, Label(0));
  });
}

/// The labels of ldmatrix and stmatrix, which lie as their data do (see
/// Matrix.cpp).
void Machine::labelLoadMatrix(Warp &warp, const Inst &inst,
                              const LaneAccess &access) {
  alignas(64) static constexpr Label neutral[8] = {};
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix) {
    uint32_t low = slotOf(ops[matrix]), high = slotOf(ops[matrix] + 1);
    if (low == noSlot || high == noSlot)
      continue;
    const Label *rows[8];
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = matrix * 8 + row;
      rows[row] = access.lanes >> lane & 1
                      ? &cta->labels[access.address[lane] / 2]
                      : neutral;
    }
    warp.labels.hold(low);
    warp.labels.hold(high);
    warp.labels.origins[low] = warp.labels.origins[high] = {};
    handlers.labels->loadMatrix(rows, warp.labels.at(low), warp.labels.at(high),
                                inst.transposed);
  }
}

void Machine::labelStoreMatrix(Warp &warp, const Inst &inst,
                               const LaneAccess &access) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  for (unsigned matrix = 0; matrix < inst.vectorLength; ++matrix)
    for (unsigned half = 0; half < 2; ++half) {
      const Label *labels = warp.labels.ifHeld(slotOf(ops[matrix] + half));
      checkDepth(warp, inst, ops[matrix] + half);
      for (unsigned lane = 0; lane < warpSize; ++lane) {
        unsigned line = lane / 4, place = lane % 4 * 2 + half;
        unsigned row = matrix * 8 + (inst.transposed ? place : line);
        if (access.lanes >> row & 1)
          cta->labels[access.address[row] / 2 +
                      (inst.transposed ? line : place)] =
              labels ? labels[lane] : 0;
      }
    }
}
