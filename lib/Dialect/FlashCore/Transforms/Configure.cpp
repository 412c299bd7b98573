//===- Configure.cpp - Phase 1: choose a schedule -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the shapes of each attention, asks chooseSchedule, and writes the
// answer onto the op. Also the gate for what the op can say and no phase lowers
// yet.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleCheck.h"
#include "flashcore/Analysis/TuningFile.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_CONFIGUREPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

/// What marks the errors of checkLowerable; it is not printed.
static constexpr StringLiteral kUnsupported = "flashcore.unsupported";

static InFlightDiagnostic emitUnsupported(AttentionOp op) {
  InFlightDiagnostic error = op.emitOpError();
  if (Diagnostic *diagnostic = error.getUnderlyingDiagnostic())
    diagnostic->getMetadata().emplace_back(kUnsupported);
  return error;
}

bool mlir::flashcore::isUnsupported(Diagnostic &diagnostic) {
  return llvm::any_of(
      diagnostic.getMetadata(), [](const DiagnosticArgument &argument) {
        return argument.getKind() ==
                   DiagnosticArgument::DiagnosticArgumentKind::String &&
               argument.getAsString() == kUnsupported;
      });
}

LogicalResult mlir::flashcore::checkLowerable(AttentionOp op) {
  std::pair<StringRef, bool> features[] = {
      {"alibi", static_cast<bool>(op.getAlibiSlopes())},
      {"sink", static_cast<bool>(op.getSinkLogits())},
      {"cu_seqlens", static_cast<bool>(op.getCuSeqlensQ())},
      {"seqused_k", static_cast<bool>(op.getSequsedK())},
      {"page_table", static_cast<bool>(op.getPageTable())},
      {"score region", !op.getScoreRegion().empty()},
      {"mask region", !op.getMaskRegion().empty()},
  };
  for (auto [name, used] : features)
    if (used)
      return emitUnsupported(op)
             << "uses " << name << ", which this version cannot lower yet";
  static constexpr StringLiteral axes[] = {"batch", "heads", "seqlen"};
  for (auto [name, value] :
       {std::pair<StringRef, Value>("query", op.getQuery()),
        {"key", op.getKey()},
        {"value", op.getValue()},
        {"output", op.getOutput()},
        {"bias", op.getBias()},
        {"lse", op.getLse()}}) {
    if (!value)
      continue;
    auto type = cast<ShapedType>(value.getType());
    for (auto [axis, size] : llvm::zip(axes, type.getShape()))
      if (size == 0)
        return emitUnsupported(op)
               << "has a " << name << " of " << axis
               << " 0: there is nothing to compute; sizes that may be 0 must "
                  "be dynamic";
    auto memref = dyn_cast<MemRefType>(type);
    if (memref && !isGlobalMemory(memref.getMemorySpace()))
      return emitUnsupported(op)
             << "has " << name << " in memory space " << memref.getMemorySpace()
             << ", but this version lowers global memory only: the default "
                "space, #gpu.address_space<global> or 1";
  }
  for (auto [name, dim] : {std::pair("head_dim", op.getHeadDim()),
                           {"head_dim_v", op.getHeadDimV()}})
    if (dim % 8 != 0 || dim < 16 || dim > 256)
      return emitUnsupported(op)
             << "has " << name << " " << dim
             << ", but this version lowers multiples of 8 from 16 to 256";
  return success();
}

std::variant<ScheduleOptions, std::string>
mlir::flashcore::getScheduleOptions(const ConfigurePassOptions &options) {
  ScheduleOptions result;
  result.blockM = options.blockM;
  result.blockN = options.blockN;
  result.numWarps = options.numWarps;
  result.numStages = options.numStages;
  result.minBlocks = options.minBlocks;
  result.keyWarps = options.keyWarps;
  result.headGroup = options.headGroup;
  result.keySplits = options.keySplits;
  result.querySteps = options.querySteps;
  result.gridHeads = options.gridHeads;
  std::string error;
  // Empty means "choose".
  auto parse = [&](StringRef name, StringRef text, auto &field,
                   StringRef values) {
    using Enum = typename std::decay_t<decltype(field)>::value_type;
    if (!text.empty() && !(field = fcgpu::symbolizeEnum<Enum>(text)) &&
        error.empty())
      error =
          ("expects " + name + " to be " + values + ", but got '" + text + "'")
              .str();
  };
  parse("query", options.query, result.query, "registers, shared or split");
  parse("grid-order", options.gridOrder, result.gridOrder,
        "query_fastest or head_fastest");
  parse("overlap", options.overlap, result.overlap, "none or qk");
  parse("row-max", options.rowMax, result.rowMax, "exact, stale or folded");
  parse("row-sum", options.rowSum, result.rowSum, "add or mma");
  parse("softmax", options.softmax, result.softmax, "online or one_pass");
  parse("grid", options.grid, result.grid, "full or persistent");
  if (!error.empty())
    return error;
  return result;
}

ScheduleChoice mlir::flashcore::getChoice(fcgpu::ScheduleAttr schedule) {
  return {
      schedule.getBlockM(),     schedule.getBlockN(),    schedule.getNumWarps(),
      schedule.getNumStages(),  schedule.getMinBlocks(), schedule.getQuery(),
      schedule.getGridOrder(),  schedule.getOverlap(),   schedule.getRowMax(),
      schedule.getRowSum(),     schedule.getKeyWarps(),  schedule.getSoftmax(),
      schedule.getHeadGroup(),  schedule.getKeySplits(), schedule.getGrid(),
      schedule.getQuerySteps(), schedule.getGridHeads()};
}

namespace {
struct ConfigurePass final
    : mlir::flashcore::impl::ConfigurePassBase<ConfigurePass> {
  using ConfigurePassBase::ConfigurePassBase;

  LogicalResult configure(AttentionOp op, const TargetInfo &target,
                          const ScheduleOptions &options,
                          const TuningFile *tuning) {
    if (failed(checkLowerable(op)))
      return failure();
    warnOfSwappedAxes(op);
    if (auto schedule =
            op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName)) {
      if (schedule.getChip() != target.chip)
        return op.emitOpError("has a schedule for ")
               << schedule.getChip() << ", but the target is " << target.chip;
      if (auto error = checkSchedule(AttentionProblem::get(op), target,
                                     getChoice(schedule)))
        return op.emitOpError(*error);
      return success();
    }
    auto problem = AttentionProblem::get(op);
    auto [result, refusal] =
        tuning ? chooseTunedSchedule(problem, target, options, *tuning)
               : TunedChoice{chooseSchedule(problem, target, options), ""};
    if (!refusal.empty())
      op.emitRemark(refusal);
    if (auto *error = std::get_if<std::string>(&result))
      return op.emitOpError(*error);
    const auto &choice = std::get<ScheduleChoice>(result);
    op->setAttr(fcgpu::kScheduleAttrName,
                fcgpu::ScheduleAttr::get(
                    &getContext(), target.chip, choice.blockM, choice.blockN,
                    choice.numWarps, choice.numStages, choice.query,
                    choice.gridOrder, choice.minBlocks, choice.overlap,
                    choice.rowMax, choice.rowSum, choice.keyWarps,
                    choice.softmax, choice.headGroup, choice.keySplits,
                    choice.grid, choice.querySteps, choice.gridHeads));
    ++numConfigured;
    return success();
  }

  void runOnOperation() override {
    FailureOr<std::string> name = findChip(getOperation(), chip);
    if (failed(name))
      return signalPassFailure();
    const TargetInfo *target = lookupTarget(*name);
    auto parsed = getScheduleOptions(
        {chip, blockM, blockN, numWarps, numStages, minBlocks, query, gridOrder,
         overlap, rowMax, rowSum, keyWarps, softmax, headGroup, keySplits, grid,
         querySteps, gridHeads});
    if (auto *error = std::get_if<std::string>(&parsed)) {
      emitError(getOperation()->getLoc()) << *error;
      return signalPassFailure();
    }
    const auto &options = std::get<ScheduleOptions>(parsed);
    std::optional<TuningFile> tuning;
    if (!tuningFile.empty()) {
      llvm::Expected<TuningFile> read = TuningFile::read(tuningFile);
      if (!read) {
        emitError(getOperation()->getLoc()) << llvm::toString(read.takeError());
        return signalPassFailure();
      }
      tuning = std::move(*read);
    }
    bool anyFailed = false;
    getOperation()->walk([&](AttentionOp op) {
      anyFailed |=
          failed(configure(op, *target, options, tuning ? &*tuning : nullptr));
    });
    if (anyFailed)
      signalPassFailure();
  }
};
} // namespace
