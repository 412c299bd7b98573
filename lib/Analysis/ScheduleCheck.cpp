//===- ScheduleCheck.cpp - Schedules that cannot work ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For schedules of the defaults, of a user and of files alike.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleCheck.h"
#include "flashcore/Analysis/ResourceModel.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

std::optional<std::string>
mlir::flashcore::checkHeadGroup(const AttentionProblem &problem,
                                int64_t headGroup) {
  if (headGroup < 1)
    return llvm::formatv("expects head-group of at least 1, but got {0}",
                         headGroup);
  if (headGroup == 1)
    return std::nullopt;
  if (!problem.headsQ || !problem.headsKV)
    return llvm::formatv(
        "expects heads_q and heads_kv to be known at compile time for "
        "head-group {0}; make them static or use head-group 1",
        headGroup);
  int64_t group = *problem.headsQ / *problem.headsKV;
  if (group % headGroup != 0)
    return llvm::formatv(
        "expects head-group to divide heads_q / heads_kv = {0}, but got {1}",
        group, headGroup);
  return std::nullopt;
}

/// Whether the warps that share query rows can divide O among them.
static std::optional<std::string> checkShares(const AttentionProblem &problem,
                                              const ScheduleChoice &choice) {
  ShareGrid grid = getShareGrid(choice.getWarpM(), choice.keyWarps);
  if (problem.headDimV % (8 * grid.cols) == 0)
    return std::nullopt;
  return llvm::formatv(
      "expects key-warps to divide the {0} x {1} results of a warp into "
      "shares of whole 8x8 cores, but got {2}; use fewer key-warps or a larger "
      "block-m",
      choice.getWarpM(), problem.headDimV, choice.keyWarps);
}

/// What stands against taking all exponentials of a warp at once.
static std::optional<std::string> checkOnePass(const AttentionProblem &problem,
                                               const ScheduleChoice &choice) {
  if (choice.softmax != Softmax::OnePass)
    return std::nullopt;
  if (!problem.seqlenK)
    return "expects a seqlen_k known at compile time for softmax one_pass; "
           "use softmax online";
  if (choice.rowMax != RowMax::Exact)
    return llvm::formatv("expects row-max exact with softmax one_pass, which "
                         "has no earlier maximum, but got {0}",
                         stringifyRowMax(choice.rowMax));
  if (choice.overlap != Overlap::None)
    return "expects overlap none with softmax one_pass, which has no loop, "
           "but got qk";
  if (choice.keySplits > 1)
    return llvm::formatv("expects key-splits 1 with softmax one_pass, but got "
                         "{0}",
                         choice.keySplits);
  int64_t cols = choice.blockN * getTilesOfPart(*problem.seqlenK, choice);
  if (cols > kMaxRows)
    return llvm::formatv("expects at most {0} keys a warp with softmax "
                         "one_pass, but got {1}; use softmax online or more "
                         "key-warps",
                         kMaxRows, cols);
  return std::nullopt;
}

/// What stands against keeping a part of Q in registers.
static std::optional<std::string> checkSplit(const AttentionProblem &problem,
                                             const ScheduleChoice &choice) {
  if (choice.query != QueryPlacement::Split) {
    if (choice.querySteps == 0)
      return std::nullopt;
    return llvm::formatv("expects query-steps 0 unless query is split, but got "
                         "{0} with query {1}",
                         choice.querySteps,
                         stringifyQueryPlacement(choice.query));
  }
  int64_t steps = getQuerySteps(problem);
  if (steps < 2)
    return llvm::formatv("expects query registers or shared with head_dim {0}, "
                         "which is a single step of {1} columns, but got split",
                         problem.headDim, kQueryStep);
  if (choice.querySteps < 1 || choice.querySteps >= steps)
    return llvm::formatv("expects query-steps from 1 to {0} with query split "
                         "and head_dim {1}, but got {2}",
                         steps - 1, problem.headDim, choice.querySteps);
  return std::nullopt;
}

/// What stands against products that start at the negative of the maximum.
static std::optional<std::string>
checkFoldedMax(const AttentionProblem &problem, const ScheduleChoice &choice) {
  if (choice.rowMax != RowMax::Folded)
    return std::nullopt;
  if (problem.hasSoftcap || problem.hasBias)
    return llvm::formatv("expects row-max exact or stale with a {0}, which "
                         "changes the scores, but got folded",
                         problem.hasSoftcap ? "softcap" : "bias");
  if (choice.rowSum != RowSum::Mma)
    return "expects row-sum mma with row-max folded, but got add";
  if (choice.overlap != Overlap::None)
    return "expects overlap none with row-max folded, which needs the maximum "
           "of all earlier tiles before a product, but got qk";
  return std::nullopt;
}

/// Whether the blocks of a persistent grid can run at once: those that cannot
/// would walk their tiles when the others are done. `bytes` of shared memory
/// fit a block.
static std::optional<std::string> checkPersistent(const TargetInfo &target,
                                                  const ScheduleChoice &choice,
                                                  int64_t bytes) {
  int64_t warps = target.maxThreadsPerSM / kWarpSize;
  int64_t fitting =
      std::min({target.sharedMemoryPerSM / (bytes + kReservedSharedMemory),
                warps / choice.numWarps, target.maxBlocksPerSM});
  if (choice.getBlocksPerSM() <= fitting)
    return std::nullopt;
  return llvm::formatv(
      "expects min-blocks of at most {0} with grid persistent, whose blocks "
      "run at once: each needs {1} bytes of shared memory of the {2} and {3} "
      "warps of the {4} that an SM of {5} has, but got {6}; use smaller blocks "
      "or fewer stages",
      fitting, bytes, target.sharedMemoryPerSM, choice.numWarps, warps,
      target.chip, choice.minBlocks);
}

/// All blocks are along the x axis of the grid, which has a limit of its own.
static std::optional<std::string> checkGrid(const AttentionProblem &problem,
                                            const ScheduleChoice &choice) {
  constexpr uint64_t kMaxGrid = 2147483647;
  auto tiles = getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (!tiles)
    return std::nullopt;
  uint64_t blocks = 0;
  if (choice.grid == Grid::Full)
    blocks = llvm::SaturatingMultiply<uint64_t>(*tiles, choice.keySplits);
  if (choice.keySplits > 1) // a block merges the splits of a row
    blocks = std::max<uint64_t>(blocks, *getNumBlocks(problem, /*blockM=*/1));
  if (blocks <= kMaxGrid)
    return std::nullopt;
  return llvm::formatv("needs {0} blocks (batch {1}, heads_q {2}, seqlen_q "
                       "{3}, block-m {4}), but CUDA launches at most {5}; "
                       "compute it in several parts",
                       blocks, *problem.batch, *problem.headsQ,
                       *problem.seqlenQ, choice.blockM, kMaxGrid);
}

/// Whether the warps of a block come out even.
static std::optional<std::string> checkWarps(const AttentionProblem &problem,
                                             const ScheduleChoice &choice) {
  if (choice.numWarps < 1 || choice.numWarps > kMaxWarps)
    return llvm::formatv("expects num-warps from 1 to {0}, but got {1}",
                         kMaxWarps, choice.numWarps);
  if (choice.keyWarps < 1 || choice.numWarps % choice.keyWarps != 0)
    return llvm::formatv(
        "expects key-warps to divide num-warps = {0}, but got {1}",
        choice.numWarps, choice.keyWarps);
  if (auto error = checkHeadGroup(problem, choice.headGroup))
    return error;
  if (choice.numWarps % choice.headGroup != 0)
    return llvm::formatv(
        "expects num-warps to be a multiple of head-group = {0}, but got {1}",
        choice.headGroup, choice.numWarps);
  if (choice.keySplits < 1 || choice.keySplits > kMaxKeySplits)
    return llvm::formatv("expects key-splits from 1 to {0}, but got {1}",
                         kMaxKeySplits, choice.keySplits);
  if (choice.keyWarps > 1 && (choice.headGroup > 1 || choice.keySplits > 1))
    return llvm::formatv("expects key-warps 1 where head-group or key-splits "
                         "is over 1, but got {0}",
                         choice.keyWarps);
  return std::nullopt;
}

/// Whether rows and keys come out even, and numbers are such that products of
/// them do not overflow.
static std::optional<std::string> checkTiles(const ScheduleChoice &choice) {
  int64_t rowMultiple = 16 * choice.getRowWarps();
  if (choice.blockM <= 0 || choice.blockM % rowMultiple != 0)
    return llvm::formatv("expects block-m to be a positive multiple of 16 * "
                         "num-warps{0} = {1}, "
                         "but got {2}",
                         choice.keyWarps > 1    ? " / key-warps"
                         : choice.headGroup > 1 ? " / head-group"
                                                : "",
                         rowMultiple, choice.blockM);
  if (choice.blockN <= 0 || choice.blockN % 16 != 0)
    return llvm::formatv(
        "expects block-n to be a positive multiple of 16, but got {0}",
        choice.blockN);
  if (choice.numStages < 2)
    return llvm::formatv("expects num-stages of at least 2, but got {0}",
                         choice.numStages);
  for (auto [name, value, limit] :
       {std::tuple("block-m", choice.blockM, kMaxRows),
        {"block-n", choice.blockN, kMaxRows},
        {"num-stages", choice.numStages, kMaxStages},
        {"min-blocks", choice.minBlocks, kMaxBlocks}})
    if (value > limit)
      return llvm::formatv("expects {0} of at most {1}, but got {2}", name,
                           limit, value);
  return std::nullopt;
}

/// Whether heads can take turns.
static std::optional<std::string> checkGridHeads(const ScheduleChoice &choice) {
  if (choice.gridHeads < 0 || choice.gridHeads > kMaxGridHeads)
    return llvm::formatv("expects grid-heads from 0 to {0}, but got {1}",
                         kMaxGridHeads, choice.gridHeads);
  if (choice.gridHeads &&
      (choice.gridOrder != GridOrder::HeadFastest || choice.keySplits > 1))
    return llvm::formatv(
        "expects grid-order head_fastest and key-splits 1 with "
        "grid-heads {0}, but got {1} and {2}",
        choice.gridHeads, stringifyGridOrder(choice.gridOrder),
        choice.keySplits);
  return std::nullopt;
}

static std::optional<std::string>
checkSharedMemory(const AttentionProblem &problem, const TargetInfo &target,
                  const ScheduleChoice &choice) {
  int64_t bytes =
      getSharedMemoryBytes(problem.headDim, problem.headDimV, choice);
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv(
        "needs {0} bytes of shared memory (block-m {1}, block-n {2}, "
        "num-stages {3}, head_dim {4}{5}), but {6} allows {7}; use fewer "
        "stages or smaller blocks",
        bytes, choice.blockM, choice.blockN, choice.numStages, problem.headDim,
        choice.keyWarps == 1
            ? std::string()
            : llvm::formatv(", for each of {0} warps", choice.numWarps).str(),
        target.chip, target.sharedMemoryPerBlock);
  if (choice.grid == Grid::Persistent)
    if (auto error = checkPersistent(target, choice, bytes))
      return error;
  return std::nullopt;
}

static std::optional<std::string>
checkRegisters(const AttentionProblem &problem, const ScheduleChoice &choice) {
  int64_t registers = getFragmentRegisters(problem, choice);
  if (registers > kMaxRegistersPerThread)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments alone (block-m {1}, "
        "num-warps {2}, block-n {3}{4}), but a thread has {5}; use more "
        "warps or {6}",
        registers, choice.blockM, choice.numWarps, choice.blockN,
        choice.softmax == Softmax::OnePass ? ", softmax one_pass" : "",
        kMaxRegistersPerThread,
        choice.softmax == Softmax::OnePass ? "softmax online"
                                           : "a smaller block-n");
  return std::nullopt;
}

std::optional<std::string>
mlir::flashcore::checkSchedule(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice) {
  // What later checks divide by or multiply, earlier ones have bounded.
  if (auto error = checkWarps(problem, choice))
    return error;
  if (auto error = checkTiles(choice))
    return error;
  if (auto error = checkGridHeads(choice))
    return error;
  if (choice.minBlocks < 0)
    return llvm::formatv("expects min-blocks not to be negative, but got {0}",
                         choice.minBlocks);
  if (auto error = checkShares(problem, choice))
    return error;
  if (auto error = checkOnePass(problem, choice))
    return error;
  if (auto error = checkFoldedMax(problem, choice))
    return error;
  if (auto error = checkSplit(problem, choice))
    return error;
  if (auto error = checkGrid(problem, choice))
    return error;
  if (auto error = checkSharedMemory(problem, target, choice))
    return error;
  return checkRegisters(problem, choice);
}
