//===- KeySplits.cpp - How many blocks share a query tile -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleChooser.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

int64_t mlir::flashcore::getTilesOfPart(int64_t seqlenK,
                                        const ScheduleChoice &choice) {
  return llvm::divideCeil(llvm::divideCeil(seqlenK, choice.blockN),
                          choice.keyWarps);
}

std::optional<int64_t>
mlir::flashcore::getNumSplits(const AttentionProblem &problem,
                              const ScheduleChoice &choice) {
  if (choice.splitCount == SplitCount::Call)
    return std::nullopt;
  if (!choice.splitKeys)
    return choice.keySplits;
  if (!problem.seqlenK)
    return std::nullopt;
  return llvm::divideCeil(*problem.seqlenK, choice.splitKeys);
}

SplitFormula mlir::flashcore::getSplitFormula(const ScheduleChoice &choice,
                                              const TargetInfo &target) {
  int64_t blocksOfSM = choice.hasBulkCopies() ? 1 : kStreamingBlocksPerSM;
  return {choice.keySplits, blocksOfSM * target.device.numSMs, choice.blockM,
          choice.headGroup, kMinKeysOfSplit};
}

std::optional<int64_t> mlir::flashcore::getMostSplits(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleOptions &options, const ScheduleChoice &choice,
    bool paysSplitCount) {
  SplitCount count = options.splitCount.value_or(
      paysSplitCount && !options.keySplits ? SplitCount::Call
                                           : SplitCount::Fixed);
  if (count == SplitCount::Fixed || choice.blockM < 1 || choice.headGroup < 1)
    return std::nullopt;
  int64_t splits = kMaxKeySplits;
  if (problem.seqlenK) {
    int64_t keys = problem.seqlenQ ? getVisibleKeys(problem) : *problem.seqlenK;
    splits = std::min(splits, keys / kMinKeysOfSplit);
  }
  // The fewest tiles: the batch is assumed to be 1.
  if (auto blocks = getNumBlocks(problem, choice.blockM, choice.headGroup))
    splits = std::min(splits, getSplitFormula(choice, target).blocks /
                                  std::max<int64_t>(*blocks, 1));
  // A call may have one part, but a kernel that merges none is another.
  return std::max<int64_t>(splits, options.splitCount ? 2 : 1);
}

/// What the last blocks of a grid add to its time, as a share of it. Blocks
/// that stream keys finish together, two an SM; what is left over then has the
/// memory for itself, which less than a block an SM cannot keep busy.
static double getTail(int64_t blocks, const TargetInfo &target) {
  int64_t rest = blocks % (kStreamingBlocksPerSM * target.device.numSMs);
  if (rest == 0)
    return 0;
  return static_cast<double>(
             std::max<int64_t>(target.device.numSMs - rest, 0)) /
         blocks;
}

int64_t mlir::flashcore::chooseKeySplitsOfWarps(const AttentionProblem &problem,
                                                const TargetInfo &target,
                                                const ScheduleChoice &choice) {
  constexpr int64_t maxExtraSplits = 3;
  constexpr double shortTail = 0.05;
  // Of any grid.
  constexpr int64_t maxBlocks = int64_t(1) << 31;
  if (choice.blockM < 1)
    return 1; // refused later
  int64_t blocks = *getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (blocks < 1 || blocks > maxBlocks)
    return 1;
  int64_t first = std::max<int64_t>(
      kStreamingBlocksPerSM * target.device.numSMs / blocks, 1);
  int64_t splits = first;
  for (int64_t more = first; more <= first + maxExtraSplits; ++more) {
    if (getTail(blocks * more, target) < getTail(blocks * splits, target))
      splits = more;
    if (getTail(blocks * splits, target) <= shortTail)
      break;
  }
  splits = std::min(splits, getVisibleKeys(problem) / kMinKeysOfSplit);
  return std::clamp<int64_t>(splits, 1, kMaxKeySplits);
}
