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

#include "flashcore/Analysis/ScheduleChoice.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_CONFIGUREPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

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
      return op.emitOpError("uses ")
             << name << ", which this version cannot lower yet";
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
        return op.emitOpError("has a ")
               << name << " of " << axis
               << " 0: there is nothing to compute; sizes that may be 0 must "
                  "be dynamic";
    auto memref = dyn_cast<MemRefType>(type);
    if (memref && memref.getMemorySpace())
      return op.emitOpError("has ")
             << name << " in memory space " << memref.getMemorySpace()
             << ", but this version lowers the default (global) one only";
  }
  for (auto [name, dim] : {std::pair("head_dim", op.getHeadDim()),
                           {"head_dim_v", op.getHeadDimV()}})
    if (dim % 8 != 0 || dim < 16 || dim > 256)
      return op.emitOpError("has ")
             << name << " " << dim
             << ", but this version lowers multiples of 8 from 16 to 256";
  return success();
}

namespace {
/// The extent of `axis`, if any of the values knows it.
std::optional<int64_t> getExtent(ArrayRef<ShapedType> types, unsigned axis) {
  for (ShapedType type : types)
    if (!type.isDynamicDim(axis))
      return type.getDimSize(axis);
  return std::nullopt;
}

AttentionProblem getProblem(AttentionOp op) {
  AttentionProblem problem;
  problem.batch =
      getExtent({op.getQueryType(), op.getKeyType()}, AttentionOp::Batch);
  problem.headsQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Head);
  problem.seqlenQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Seqlen);
  problem.seqlenK =
      getExtent({op.getKeyType(), op.getValueType()}, AttentionOp::Seqlen);
  problem.headDim = op.getHeadDim();
  problem.headDimV = op.getHeadDimV();
  problem.isCausal = op.getCausal().has_value();
  return problem;
}

struct ConfigurePass final
    : mlir::flashcore::impl::ConfigurePassBase<ConfigurePass> {
  using ConfigurePassBase::ConfigurePassBase;

  /// Parses the two enum options; empty means "choose".
  LogicalResult parseOptions(ScheduleOptions &options) {
    options = {blockM, blockN, numWarps, numStages, minBlocks, {}, {}};
    if (!query.empty() &&
        !(options.query = fcgpu::symbolizeQueryPlacement(query)))
      return emitError(getOperation()->getLoc())
             << "expects query to be registers or shared, but got '" << query
             << "'";
    if (!gridOrder.empty() &&
        !(options.gridOrder = fcgpu::symbolizeGridOrder(gridOrder)))
      return emitError(getOperation()->getLoc())
             << "expects grid-order to be query_fastest or head_fastest, but "
                "got '"
             << gridOrder << "'";
    return success();
  }

  LogicalResult configure(AttentionOp op, const TargetInfo &target,
                          const ScheduleOptions &options) {
    if (failed(checkLowerable(op)))
      return failure();
    if (auto schedule =
            op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName)) {
      if (schedule.getChip() != target.chip)
        return op.emitOpError("has a schedule for ")
               << schedule.getChip() << ", but the target is " << target.chip;
      ScheduleChoice given{schedule.getBlockM(),    schedule.getBlockN(),
                           schedule.getNumWarps(),  schedule.getNumStages(),
                           schedule.getMinBlocks(), schedule.getQuery(),
                           schedule.getGridOrder()};
      if (auto error = checkSchedule(getProblem(op), target, given))
        return op.emitOpError(*error);
      return success();
    }
    auto result = chooseSchedule(getProblem(op), target, options);
    if (auto *error = std::get_if<std::string>(&result))
      return op.emitOpError(*error);
    const auto &choice = std::get<ScheduleChoice>(result);
    op->setAttr(fcgpu::kScheduleAttrName,
                fcgpu::ScheduleAttr::get(
                    &getContext(), target.chip, choice.blockM, choice.blockN,
                    choice.numWarps, choice.numStages, choice.query,
                    choice.gridOrder, choice.minBlocks));
    ++numConfigured;
    return success();
  }

  void runOnOperation() override {
    const TargetInfo *target = lookupTarget(chip);
    ScheduleOptions options;
    if (!target) {
      emitError(getOperation()->getLoc()) << unknownChipMessage(chip);
      return signalPassFailure();
    }
    if (failed(parseOptions(options)))
      return signalPassFailure();
    bool anyFailed = false;
    getOperation()->walk([&](AttentionOp op) {
      anyFailed |= failed(configure(op, *target, options));
    });
    if (anyFailed)
      signalPassFailure();
  }
};
} // namespace
