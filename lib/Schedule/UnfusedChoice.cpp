//===- UnfusedChoice.cpp - Schedules of three kernels ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Q K^T, softmax and P V as kernels of their own, which is asked for and never
// a default. Shapes and copies are those of other kernels with these products.
//
//===----------------------------------------------------------------------===//

#include "ScheduleChooser.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// The fields of `choice` that its kernels have only one value for.
static ScheduleOptions getFixed() {
  ScheduleOptions fixed;
  fixed.query = QueryPlacement::Shared;
  fixed.overlap = Overlap::None;
  fixed.rowMax = RowMax::Exact;
  fixed.rowSum = RowSum::Add;
  fixed.keyWarps = fixed.headGroup = fixed.keySplits = 1;
  fixed.splitCount = SplitCount::Fixed;
  fixed.grid = Grid::Full;
  fixed.output = OutputRoute::Direct;
  return fixed;
}

ScheduleOptions mlir::flashcore::closeUnfused(const AttentionProblem &problem,
                                              const TargetInfo &target,
                                              ScheduleOptions options) {
  if (options.softmax != Softmax::Unfused)
    return options;
  ScheduleOptions closed = getFixed();
  closed.product = canMultiply(problem, target, Product::Wmma) ? Product::Wmma
                                                               : Product::Warp;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (!options.name)                                                           \
    options.name = closed.name;
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return options;
}

void mlir::flashcore::explainUnfused(const ScheduleOptions &asked,
                                     ScheduleDecision &decision) {
  if (asked.softmax != Softmax::Unfused)
    return;
  ScheduleOptions closed = getFixed();
  closed.product = decision.choice.product;
  for (ScheduleReason &reason : decision.reasons) {
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, text) \
  if (reason.field == key && !asked.name && closed.name)                       \
    reason.reason = "as kernels of softmax unfused take it";
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  }
}
