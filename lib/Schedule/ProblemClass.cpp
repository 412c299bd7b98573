//===- ProblemClass.cpp - Problems that want one kind of kernel -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProblemClass.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;

int64_t mlir::flashcore::getWidestDim(const AttentionProblem &problem) {
  return std::max(problem.headDim, problem.headDimV);
}

HeadWidth mlir::flashcore::getHeadWidth(const AttentionProblem &problem) {
  int64_t dim = getWidestDim(problem);
  return dim <= 64    ? HeadWidth::Narrow
         : dim <= 128 ? HeadWidth::Wide
                      : HeadWidth::VeryWide;
}

bool mlir::flashcore::isThroughput(GridFill fill) {
  return fill == GridFill::Full || fill == GridFill::Unknown;
}

int64_t mlir::flashcore::getVisibleKeys(const AttentionProblem &problem) {
  int64_t keys = *problem.seqlenK;
  if (problem.windowKeys)
    keys = std::min(keys, *problem.windowKeys + *problem.seqlenQ - 1);
  return keys;
}

int64_t mlir::flashcore::getFewRowWarps(const AttentionProblem &problem) {
  return *problem.seqlenQ <= 16 ? 1 : 2;
}

int64_t mlir::flashcore::getFewRowHeads(const AttentionProblem &problem) {
  constexpr int64_t maxWarps = 8;
  int64_t group = *problem.headsQ / *problem.headsKV;
  int64_t heads = std::min(group, maxWarps / getFewRowWarps(problem));
  while (group % heads != 0)
    --heads;
  return heads;
}

/// Whether blocks of few rows are enough for the chip: each has all rows of its
/// heads, so that K and V are read once; or there are too few blocks, but
/// enough keys to share out.
static bool hasFewLongRows(const AttentionProblem &problem,
                           const TargetInfo &target) {
  constexpr int64_t minKeys = 1024, minKeysPerRow = 8;
  if (!problem.batch || !problem.headsQ || !problem.headsKV ||
      !problem.seqlenQ || !problem.seqlenK)
    return false;
  int64_t keys = getVisibleKeys(problem);
  if (keys / minKeysPerRow < *problem.seqlenQ)
    return false;
  int64_t rows = 16 * getFewRowWarps(problem);
  if (*getNumBlocks(problem, rows, getFewRowHeads(problem)) >
      target.device.numSMs)
    return *problem.seqlenQ <= rows;
  return keys >= minKeys;
}

/// Whether `blocks` of 128 rows keep the chip busy to the end. Of a few an SM,
/// some SMs get one more than others: twice as many blocks of 64 rows are then
/// faster, though each costs more than half as much; under a causal mask, where
/// blocks differ in length, longer. Very wide heads have 64 rows anyway.
static bool keepsBusy(const AttentionProblem &problem, const TargetInfo &target,
                      int64_t blocks) {
  if (getHeadWidth(problem) == HeadWidth::VeryWide)
    return blocks >= target.device.numSMs;
  return 2 * blocks > (problem.isCausal ? 5 : 3) * target.device.numSMs;
}

/// Whether `blocks` of 64 rows leave few SMs idle. Those of wide heads may
/// leave a third, unless a mask makes them differ in length: smaller ones would
/// read K and V more often, which costs more.
static bool keepsMostBusy(const AttentionProblem &problem,
                          const TargetInfo &target, int64_t blocks) {
  bool mayIdle = getHeadWidth(problem) != HeadWidth::Narrow &&
                 !problem.isCausal && !problem.hasWindow;
  return mayIdle ? 3 * blocks >= 2 * target.device.numSMs
                 : blocks >= target.device.numSMs;
}

GridFill mlir::flashcore::getGridFill(const AttentionProblem &problem,
                                      const TargetInfo &target) {
  std::optional<int64_t> blocks = getNumBlocks(problem, 128);
  if (!blocks)
    return GridFill::Unknown;
  if (hasFewLongRows(problem, target))
    return GridFill::FewRows;
  if (keepsBusy(problem, target, *blocks))
    return GridFill::Full;
  return keepsMostBusy(problem, target, *getNumBlocks(problem, 64))
             ? GridFill::Half
             : GridFill::Sparse;
}

llvm::StringRef mlir::flashcore::describe(HeadWidth width) {
  switch (width) {
  case HeadWidth::Narrow:
    return "heads up to 64";
  case HeadWidth::Wide:
    return "heads up to 128";
  case HeadWidth::VeryWide:
    return "heads over 128";
  }
  llvm_unreachable("unknown width");
}

llvm::StringRef mlir::flashcore::describe(GridFill fill) {
  switch (fill) {
  case GridFill::Unknown:
    return "sizes known at run time only";
  case GridFill::Full:
    return "a grid that keeps the chip busy with blocks of 128 rows";
  case GridFill::Half:
    return "a grid that keeps the chip busy with blocks of 64 rows, not of 128";
  case GridFill::Sparse:
    return "a grid too small to fill the chip with blocks of 64 rows";
  case GridFill::FewRows:
    return "few query rows over many keys";
  }
  llvm_unreachable("unknown fill");
}
