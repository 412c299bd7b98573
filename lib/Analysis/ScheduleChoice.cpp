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

/// Query rows a warp owns when nobody says otherwise: 32 (two rows of
/// accumulators reuse every K and V fragment) where registers allow and the
/// grid still fills the chip, else 16.
static int64_t chooseWarpM(const AttentionProblem &problem,
                           const TargetInfo &target, int64_t numWarps) {
  if (problem.headDim > 64)
    return 16;
  if (!problem.batch || !problem.headsQ || !problem.seqlenQ)
    return 32;
  int64_t blocks = *problem.batch * *problem.headsQ *
                   llvm::divideCeil(*problem.seqlenQ, 32 * numWarps);
  return blocks >= target.numSMs ? 32 : 16;
}

static std::optional<std::string>
checkChoice(const AttentionProblem &problem, const TargetInfo &target,
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
  ScheduleChoice choice;
  choice.numWarps = options.numWarps ? options.numWarps : 4;
  if (choice.numWarps < 0)
    choice.blockM = options.blockM; // refused below
  else
    choice.blockM = options.blockM ? options.blockM
                                   : chooseWarpM(problem, target,
                                                 choice.numWarps) *
                                         choice.numWarps;
  choice.blockN = options.blockN ? options.blockN
                                 : (problem.headDim > 64 ? 32 : 64);
  choice.numStages = options.numStages ? options.numStages : 2;
  choice.minBlocks = options.minBlocks;
  choice.query = options.query.value_or(QueryPlacement::Registers);
  // Causal rows differ in length: the longest of all heads first keeps the tail
  // of the grid short. Otherwise the blocks of one head share its K and V in L2.
  choice.gridOrder =
      options.gridOrder.value_or(problem.isCausal ? GridOrder::HeadFastest
                                                  : GridOrder::QueryFastest);
  if (std::optional<std::string> error = checkChoice(problem, target, choice))
    return *error;
  return choice;
}
