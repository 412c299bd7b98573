//===- ReductionSlice.cpp - What is reduced over lanes --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the registers that hold what shfl brought from other lanes, summed up,
// maximised, scaled and moved, on its way to an instruction that scales or
// shifts products of an mma with it.
//
//===----------------------------------------------------------------------===//

#include "LabelSlice.h"

#include <algorithm>

using namespace flashcore::emu;

namespace {
class ReductionSlicer {
public:
  ReductionSlicer(const Program &program, const std::vector<bool> &products)
      : program(program), isProduct(products), isReduced(products.size()),
        isNeeded(products.size()), isShuffled(products.size()),
        isAccumulator(findProducts(program)) {
    findReduced();
  }
  void plan(LabelPlan &plan);
  const std::vector<bool> &reduced() const { return isReduced; }

private:
  const uint32_t *operandsOf(const Inst &inst) const {
    return program.operands.data() + inst.firstOperand;
  }
  bool joinsProduct(const Inst &inst) const;
  bool isUse(const Inst &inst) const;
  bool isShift(const Inst &inst) const;
  bool isAnyReduced(const Inst &inst) const;
  void findReduced();
  void findNeeded();

  const Program &program;
  const std::vector<bool> &isProduct;
  std::vector<bool> isReduced, isNeeded;
  /// As shfl gave it: not yet put together with the lane's own.
  std::vector<bool> isShuffled;
  /// Written by an mma, though it may begin with a factor of the row times 0.
  const std::vector<bool> isAccumulator;
};
} // namespace

unsigned flashcore::emu::numReducedSources(const Inst &inst) {
  if (inst.kind != InstKind::Alu)
    return 0;
  if (inst.op == AluOp::SelpB32)
    return 2;
  // To a whole number, as a maximum that moves in steps is.
  const bool isRounding = inst.op == AluOp::Convert &&
                          inst.conversion->from == ScalarType::F32 &&
                          inst.conversion->to == ScalarType::F32;
  return isFloat32(inst.op) || isRounding || inst.op == AluOp::MovB32
             ? inst.numSrcs
             : 0;
}

bool ReductionSlicer::isAnyReduced(const Inst &inst) const {
  const uint32_t *ops = operandsOf(inst) + 1;
  return std::any_of(ops, ops + numReducedSources(inst),
                     [&](uint32_t granule) { return isReduced[granule]; });
}

/// Whether one source is reduced and another is a product that is not.
bool ReductionSlicer::joinsProduct(const Inst &inst) const {
  const uint32_t *ops = operandsOf(inst) + 1;
  return isAnyReduced(inst) &&
         std::any_of(ops, ops + numReducedSources(inst), [&](uint32_t granule) {
           return !isReduced[granule] && isProduct[granule];
         });
}

/// Arithmetic on something reduced and a product, or something that is scaled
/// in place.
bool ReductionSlicer::isUse(const Inst &inst) const {
  const uint32_t *ops = operandsOf(inst);
  if (inst.kind != InstKind::Alu || !isFloat32(inst.op) || isReduction(inst.op))
    return false;
  const bool isInPlace =
      !isReduced[ops[0]] && isAnyReduced(inst) &&
      std::count(ops + 1, ops + 1 + numReducedSources(inst), ops[0]);
  return isInPlace || joinsProduct(inst);
}

/// The same by an addition, which is no sum of products then; but one with what
/// another lane has of them is.
bool ReductionSlicer::isShift(const Inst &inst) const {
  if (inst.kind != InstKind::Alu || !isAddition(inst.op) || !joinsProduct(inst))
    return false;
  const uint32_t *ops = operandsOf(inst);
  return !isShuffled[ops[1]] && !isShuffled[ops[2]];
}

void ReductionSlicer::findReduced() {
  for (bool changed = true; changed;) {
    changed = false;
    auto add = [&](std::vector<bool> &set, uint32_t granule) {
      if (granule == sinkGranule || set[granule])
        return;
      changed = true;
      set[granule] = true;
    };
    for (const Inst &inst : program.code) {
      const uint32_t *ops = operandsOf(inst);
      const bool isShuffle = inst.kind == InstKind::Shuffle;
      const bool isMove =
          inst.kind == InstKind::Alu && inst.op == AluOp::MovB32;
      if (isShuffle || (isMove && isShuffled[ops[1]]))
        add(isShuffled, ops[0]);
      const bool isCarried =
          isAnyReduced(inst) && !isUse(inst) && !isShift(inst);
      if (isShuffle || (isCarried && !isAccumulator[ops[0]]))
        add(isReduced, ops[0]);
    }
  }
}

void ReductionSlicer::findNeeded() {
  for (bool changed = true; changed;) {
    changed = false;
    auto need = [&](uint32_t granule) {
      changed |= isReduced[granule] && !isNeeded[granule];
      isNeeded[granule] = isReduced[granule];
    };
    for (const Inst &inst : program.code) {
      const uint32_t *ops = operandsOf(inst);
      if (inst.kind == InstKind::Shuffle && isNeeded[ops[0]])
        need(ops[2]);
      if (isUse(inst) || (numReducedSources(inst) && isNeeded[ops[0]]))
        std::for_each(ops + 1, ops + 1 + numReducedSources(inst), need);
    }
  }
}

void ReductionSlicer::plan(LabelPlan &plan) {
  for (size_t pc = 0; pc < program.code.size(); ++pc)
    if (LabelAction &action = plan.ops[pc].action;
        action == LabelAction::MergeSum && isShift(program.code[pc]))
      action = LabelAction::Merge;
  findNeeded();
  plan.reductions.assign(plan.slots.size(), noSlot);
  for (size_t granule = 0; granule < isNeeded.size(); ++granule)
    if (isNeeded[granule])
      plan.reductions[granule] = plan.numReductions++;
  if (!plan.numReductions)
    return;
  for (const FrameConstant &constant : program.constants)
    plan.reductions[constant.granule] = constantSlot;
  for (size_t pc = 0; pc < program.code.size(); ++pc) {
    const Inst &inst = program.code[pc];
    const uint32_t *ops = operandsOf(inst);
    bool isWritten = std::any_of(ops, ops + inst.numDsts, [&](uint32_t to) {
      return plan.reductions[to] < plan.numReductions;
    });
    if (isUse(inst))
      plan.ops[pc].reduction = ReductionAction::Use;
    else if (isWritten && inst.kind != InstKind::Shuffle)
      plan.ops[pc].reduction = numReducedSources(inst) && !isShift(inst)
                                   ? ReductionAction::Carry
                                   : ReductionAction::Clear;
  }
}

std::vector<bool>
flashcore::emu::findReduced(const Program &program,
                            const std::vector<bool> &products) {
  return ReductionSlicer(program, products).reduced();
}

void flashcore::emu::planReductions(const Program &program,
                                    const std::vector<bool> &products,
                                    LabelPlan &plan) {
  std::vector<bool> labelled(plan.slots.size());
  for (size_t granule = 0; granule < labelled.size(); ++granule)
    labelled[granule] = products[granule] && plan.slots[granule] != noSlot;
  ReductionSlicer(program, labelled).plan(plan);
}
