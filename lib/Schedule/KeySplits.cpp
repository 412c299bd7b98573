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

/// Keys that a block walks in the time that it takes to begin and end, and that
/// a launch of the kernel that merges takes.
static constexpr int64_t kKeysOfBlock = 48, kKeysOfMerge = 160;

bool mlir::flashcore::paysMoreSplits(int64_t tiles, int64_t seqlenK,
                                     int64_t few, int64_t more,
                                     int64_t numSMs) {
  // What one more wave has to gain: the one before may not be full.
  constexpr double leastGain = 1.03;
  auto countWaves = [&](int64_t splits) {
    return llvm::divideCeil(tiles * splits, kStreamingBlocksPerSM * numSMs);
  };
  // In keys that a block streams while as many run as fit. Blocks that are too
  // few for a whole wave take as long as one.
  auto getTime = [&](int64_t splits) -> int64_t {
    return countWaves(splits) *
               (llvm::divideCeil(seqlenK, splits) + kKeysOfBlock) +
           (splits > 1 ? kKeysOfMerge : 0);
  };
  double gain = countWaves(more) > countWaves(few) ? leastGain : 1;
  return gain * getTime(more) < getTime(few);
}

int64_t mlir::flashcore::chooseKeySplitsOfWarps(const AttentionProblem &problem,
                                                const TargetInfo &target,
                                                const ScheduleChoice &choice) {
  // Of any grid.
  constexpr int64_t maxBlocks = int64_t(1) << 31;
  if (choice.blockM < 1)
    return 1; // refused later
  int64_t tiles = *getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (tiles < 1 || tiles > maxBlocks)
    return 1;
  int64_t keys = getVisibleKeys(problem), best = 1;
  for (int64_t splits = 2;
       splits <= std::min(kMaxKeySplits, keys / kMinKeysOfSplit); ++splits)
    if (paysMoreSplits(tiles, keys, best, splits, target.device.numSMs))
      best = splits;
  return best;
}
