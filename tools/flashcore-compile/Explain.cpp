//===- Explain.cpp - What was chosen, and why -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Asks the same pure functions as the passes do, and prints their answers.
//
//===----------------------------------------------------------------------===//

#include "Explain.h"
#include "flashcore/Analysis/ResourceModel.h"
#include "flashcore/Analysis/TuningFile.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::flashcore;

/// As flashcore-configure does, which has accepted the options before.
static std::variant<ScheduleChoice, std::string>
choose(const AttentionProblem &problem, const TargetInfo &target,
       const ConfigurePassOptions &options,
       std::vector<ScheduleReason> &reasons) {
  auto forced = std::get<ScheduleOptions>(getScheduleOptions(options));
  if (options.tuningFile.empty())
    return chooseSchedule(problem, target, forced, &reasons);
  llvm::Expected<TuningFile> tuning = TuningFile::read(options.tuningFile);
  if (!tuning)
    return llvm::toString(tuning.takeError());
  return chooseTunedSchedule(problem, target, forced, *tuning, &reasons).choice;
}

Explanation mlir::flashcore::explain(AttentionOp op,
                                     const ConfigurePassOptions &options) {
  auto schedule =
      op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  Explanation result{AttentionProblem::get(op), getChoice(schedule), {}, {}};
  // What is not our own choice was written into the IR by hand.
  std::vector<ScheduleReason> reasons;
  auto chosen = choose(result.problem, *lookupTarget(schedule.getChip()),
                       options, reasons);
  auto *choice = std::get_if<ScheduleChoice>(&chosen);
  if (choice && *choice == result.choice) {
    result.reasons = std::move(reasons);
    result.openSizes = describeOpenSizes(
        result.problem, *lookupTarget(schedule.getChip()),
        std::get<ScheduleOptions>(getScheduleOptions(options)));
  }
  return result;
}

static std::string describe(const AttentionProblem &problem) {
  auto size = [](std::optional<int64_t> value) {
    return value ? std::to_string(*value) : "?";
  };
  return llvm::formatv("batch {0}, heads {1}, seqlen {2} x {3}, head_dim {4}{5}"
                       "{6}",
                       size(problem.batch), size(problem.headsQ),
                       size(problem.seqlenQ), size(problem.seqlenK),
                       problem.headDim,
                       problem.headDim == problem.headDimV
                           ? ""
                           : "/" + std::to_string(problem.headDimV),
                       problem.isCausal ? ", causal" : "");
}

static std::string describeGrid(int64_t tiles, const ScheduleChoice &choice,
                                const TargetInfo &target) {
  if (choice.grid == fcgpu::Grid::Full)
    return llvm::formatv("{0} on {1} SMs", tiles, target.numSMs);
  int64_t blocks = std::min(tiles, target.numSMs * choice.getBlocksPerSM());
  return llvm::formatv("{0} on {1} SMs, for {2} tiles", blocks, target.numSMs,
                       tiles);
}

void mlir::flashcore::print(llvm::raw_ostream &os,
                            const Explanation &explanation,
                            const TargetInfo &target, const Cubin *cubin,
                            StringRef kernel) {
  const AttentionProblem &problem = explanation.problem;
  const ScheduleChoice &choice = explanation.choice;
  auto line = [&](StringRef name, const Twine &text) {
    os << llvm::formatv("  {0,-12} {1}\n", name, text.str());
  };
  os << "attention on " << target.chip << ": " << describe(problem) << "\n";
  if (explanation.reasons.empty())
    line("schedule", "given in the IR");
  for (const ScheduleReason &reason : explanation.reasons)
    line(reason.field,
         llvm::formatv("{0,-16} {1}", reason.value, reason.reason).str());

  int64_t sharedBytes =
      getSharedMemoryBytes(problem.headDim, problem.headDimV, choice);
  line("shared", llvm::formatv("{0} bytes a block, of {1}", sharedBytes,
                               target.sharedMemoryPerBlock)
                     .str());
  if (cubin) {
    KernelResources used = cubin->kernels.lookup(kernel);
    line("registers",
         llvm::formatv("{0} a thread, {1} bytes spilled ({2})", used.registers,
                       used.spillStores, cubin->assembler)
             .str());
    Occupancy occupancy =
        getOccupancy(target, choice.numWarps, used.registers, sharedBytes);
    line("occupancy",
         llvm::formatv("{0} x {1} warps an SM, limited by {2}",
                       occupancy.blocks, choice.numWarps, occupancy.limit)
             .str());
  } else {
    line("registers", "unknown: ptxas was not run (--emit=cubin or bundle)");
  }
  if (auto blocks = getNumBlocks(problem, choice.blockM, choice.headGroup))
    line("blocks", describeGrid(*blocks * choice.keySplits, choice, target));
  line("limiter", predictLimiter(problem, target, choice));
  for (const std::string &warning : explanation.openSizes)
    line("open sizes", warning);
}
