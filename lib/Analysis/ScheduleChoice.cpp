//===- ScheduleChoice.cpp - Choosing a kernel's schedule ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The defaults are the winners of the measurements in docs/performance.md;
// everything a user forces is kept, and refused when it cannot work.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleChoice.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

int64_t mlir::flashcore::getSharedMemoryBytes(int64_t headDim, int64_t headDimV,
                                              int64_t blockM, int64_t blockN,
                                              int64_t numStages) {
  constexpr int64_t elementBytes = 2;
  return elementBytes *
         (blockM * headDim + numStages * blockN * (headDim + headDimV));
}

/// Registers a thread cannot do without: its part of the O and S accumulators
/// and of Q, when that is kept.
static int64_t getFragmentRegisters(const AttentionProblem &problem,
                                    const ScheduleChoice &choice) {
  int64_t warpM = choice.blockM / choice.numWarps;
  int64_t elements = warpM * (problem.headDimV + choice.blockN);
  if (choice.query == QueryPlacement::Registers)
    elements += warpM * problem.headDim / 2; // two 16-bit values a register
  return elements / kWarpSize;
}

/// Whether the accumulators alone fill half of the registers at 32 rows a warp.
static bool isWide(const AttentionProblem &problem) {
  return std::max(problem.headDim, problem.headDimV) > 64;
}

/// Blocks of the grid with `blockM` query rows each, if the sizes are known.
static std::optional<int64_t> getNumBlocks(const AttentionProblem &problem,
                                           int64_t blockM) {
  if (!problem.batch || !problem.headsQ || !problem.seqlenQ)
    return std::nullopt;
  return *problem.batch * *problem.headsQ *
         llvm::divideCeil(*problem.seqlenQ, blockM);
}

/// The defaults, measured in docs/performance.md ("Default schedules").
static ScheduleChoice getDefaults(const AttentionProblem &problem,
                                  const TargetInfo &target) {
  ScheduleChoice choice;
  choice.numWarps = 4;
  choice.numStages = 2;
  choice.blockN = isWide(problem) ? 32 : 64;
  // 32 rows a warp: two rows of accumulators use every K and V fragment twice.
  choice.blockM = 128;
  std::optional<int64_t> blocks = getNumBlocks(problem, 128);
  if (isWide(problem)) {
    // O takes half of the registers, so Q is read again for every tile. Sizes
    // and strides known at run time only need registers of their own.
    choice.query = QueryPlacement::Shared;
    if (!blocks || !problem.seqlenK)
      choice.blockM = 64;
  }
  if (!blocks || *blocks >= target.numSMs)
    return choice;
  // Too few blocks to fill the chip: smaller ones, then also fewer warps and
  // more bytes in flight, since little else hides their latency.
  choice.blockM = 64;
  choice.query = QueryPlacement::Registers;
  if (*getNumBlocks(problem, 64) < target.numSMs) {
    choice.blockM = 32;
    choice.numWarps = 2;
    if (isWide(problem))
      choice.numStages = 3;
    else
      choice.blockN = 128;
  }
  return choice;
}

static std::optional<std::string> checkChoice(const AttentionProblem &problem,
                                              const TargetInfo &target,
                                              const ScheduleChoice &choice) {
  if (choice.numWarps < 1 || choice.numWarps > 32)
    return llvm::formatv("expects num-warps from 1 to 32, but got {0}",
                         choice.numWarps);
  if (choice.blockM <= 0 || choice.blockM % (16 * choice.numWarps) != 0)
    return llvm::formatv(
        "expects block-m to be a positive multiple of 16 * num-warps = {0}, "
        "but got {1}",
        16 * choice.numWarps, choice.blockM);
  if (choice.blockN <= 0 || choice.blockN % 16 != 0)
    return llvm::formatv(
        "expects block-n to be a positive multiple of 16, but got {0}",
        choice.blockN);
  if (choice.numStages < 2)
    return llvm::formatv("expects num-stages of at least 2, but got {0}",
                         choice.numStages);
  if (choice.minBlocks < 0)
    return llvm::formatv("expects min-blocks not to be negative, but got {0}",
                         choice.minBlocks);
  int64_t bytes =
      getSharedMemoryBytes(problem.headDim, problem.headDimV, choice.blockM,
                           choice.blockN, choice.numStages);
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv(
        "needs {0} bytes of shared memory (block-m {1}, block-n {2}, "
        "num-stages {3}, head_dim {4}), but {5} allows {6}; use fewer stages "
        "or smaller blocks",
        bytes, choice.blockM, choice.blockN, choice.numStages, problem.headDim,
        target.chip, target.sharedMemoryPerBlock);
  int64_t registers = getFragmentRegisters(problem, choice);
  if (registers > kMaxRegistersPerThread)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments alone (block-m {1}, "
        "num-warps {2}, block-n {3}), but a thread has {4}; use more warps or "
        "a smaller block-n",
        registers, choice.blockM, choice.numWarps, choice.blockN,
        kMaxRegistersPerThread);
  return std::nullopt;
}

std::variant<ScheduleChoice, std::string>
mlir::flashcore::chooseSchedule(const AttentionProblem &problem,
                                const TargetInfo &target,
                                const ScheduleOptions &options) {
  ScheduleChoice choice = getDefaults(problem, target);
  int64_t warpM = choice.blockM / choice.numWarps;
  if (options.numWarps) {
    choice.numWarps = options.numWarps;
    choice.blockM = warpM * choice.numWarps;
  }
  if (options.blockM)
    choice.blockM = options.blockM;
  if (options.blockN)
    choice.blockN = options.blockN;
  if (options.numStages)
    choice.numStages = options.numStages;
  choice.minBlocks = options.minBlocks;
  choice.query = options.query.value_or(choice.query);
  // Causal rows differ in length: the longest of all heads first keeps the tail
  // of the grid short. Otherwise the blocks of one head share its K and V in
  // L2.
  choice.gridOrder = options.gridOrder.value_or(
      problem.isCausal ? GridOrder::HeadFastest : GridOrder::QueryFastest);
  if (std::optional<std::string> error = checkChoice(problem, target, choice))
    return *error;
  return choice;
}
