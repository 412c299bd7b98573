//===- OnlineSoftmax.cpp - Phase 3: tiles as vector ops -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes tiles of attentions, of scores and of P V as vector ops on warp tiles
// (TileExpanders.h).
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "TileExpanders.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_ONLINESOFTMAXPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

namespace {
struct OnlineSoftmaxPass final
    : mlir::flashcore::impl::OnlineSoftmaxPassBase<OnlineSoftmaxPass> {
  static bool isInsideKeyParts(TileOpInterface op) {
    auto forall = op->getParentOfType<scf::ForallOp>();
    return forall && forall.getRank() == 2;
  }

  static fcgpu::ScheduleAttr getSchedule(TileOpInterface op) {
    return op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  }

  /// Rows are in global memory, or a view of pages there.
  static LogicalResult checkMemory(TileOpInterface op) {
    for (auto [name, value] :
         {std::pair<StringRef, Value>("query", op.findQuery()),
          {"key", op.findKey()},
          {"value", op.findValue()},
          {"output", op.getOutput()}}) {
      if (!value)
        continue;
      Attribute space = cast<MemRefType>(value.getType()).getMemorySpace();
      if (!isGlobalMemory(space) && !isa<fcgpu::PagesAttr>(space))
        return op->emitOpError("has ")
               << name << " in memory space " << space
               << ", but tiles read and write global memory: the default "
                  "space, #gpu.address_space<global> or 1";
    }
    return success();
  }

  LogicalResult checkPrecondition(TileOpInterface op) {
    fcgpu::ScheduleAttr schedule = getSchedule(op);
    if (!schedule)
      return op->emitOpError("has no fcgpu.schedule; flashcore-tile leaves it "
                             "on tiles");
    if (schedule.getKeyWarps() > 1 && !isInsideKeyParts(op))
      return op->emitOpError("has key_warps ")
             << schedule.getKeyWarps()
             << ", but does not stand in an scf.forall over rows and key parts";
    AttentionProblem problem = AttentionProblem::getOfTile(op);
    if (problem.seqlenK && *problem.seqlenK < 0)
      return op->emitOpError("expects a tile of at least 0 keys, but got ")
             << *problem.seqlenK;
    if (auto error = checkTileSchedule(problem, schedule.getChoice(),
                                       FieldNames::Attribute))
      return op->emitOpError(*error);
    if (auto tile = dyn_cast<ValuesTileOp>(op.getOperation())) {
      int64_t keys = tile.getProbabilities().getType().getShape().back();
      if (keys != schedule.getBlockN())
        return op->emitOpError("has probabilities of ")
               << keys << " keys a tile, but block_n " << schedule.getBlockN();
    }
    if (schedule.getRowMax() == fcgpu::RowMax::Checked &&
        !op->getParentOfType<scf::ForallOp>())
      return op->emitOpError(
          "has row_max checked, but stands in no scf.forall, "
          "which its block could walk again");
    if (failed(checkColumns(op, problem.headDim, problem.headDimV)) ||
        failed(checkMemory(op)))
      return failure();
    return checkRegions(op);
  }

  /// Behind the loop over warps, the same again of `op` with an exact maximum,
  /// if a flag is raised. Returns that, and the op there.
  static std::pair<Value, AttentionTileOp> addExactWalk(AttentionTileOp op) {
    auto forall = op->getParentOfType<scf::ForallOp>();
    ImplicitLocOpBuilder b(op.getLoc(), forall);
    Value flag =
        fcgpu::AllocFlagOp::create(b, fcgpu::FlagType::get(op.getContext()));
    b.setInsertionPointAfter(forall);
    Value isRaised = fcgpu::TestFlagOp::create(b, flag);
    auto ifOp = scf::IfOp::create(b, isRaised, /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
    IRMapping mapping;
    b.clone(*forall, mapping);
    auto again = cast<AttentionTileOp>(mapping.lookup(op.getOperation()));
    fcgpu::ScheduleAttr schedule = getSchedule(op);
    fcgpu::ScheduleChoice choice = schedule.getChoice();
    choice.rowMax = fcgpu::RowMax::Exact;
    again->setAttr(
        fcgpu::kScheduleAttrName,
        fcgpu::ScheduleAttr::get(op.getContext(), schedule.getChip(), choice));
    return {flag, again};
  }

  static void expand(AttentionTileOp op) {
    Value flag;
    if (getSchedule(op).getRowMax() == fcgpu::RowMax::Checked) {
      AttentionTileOp again;
      std::tie(flag, again) = addExactWalk(op);
      expandAttention(again);
    }
    expandAttention(op, flag);
  }

  static void expand(TileOpInterface op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([](AttentionTileOp tile) { expand(tile); })
        .Case([](ScoresTileOp tile) { expandScores(tile); })
        .Case([](ValuesTileOp tile) { expandValues(tile); })
        .DefaultUnreachable("every tile has an expansion");
  }

  void runOnOperation() override {
    SmallVector<TileOpInterface> ops;
    bool anyFailed = false;
    getOperation()->walk([&](Operation *op) {
      if (isa<AttentionOp>(op))
        anyFailed |=
            failed(op->emitOpError("is not a tile; run flashcore-tile first"));
      if (auto tile = dyn_cast<TileOpInterface>(op)) {
        anyFailed |= failed(checkPrecondition(tile));
        ops.push_back(tile);
      }
    });
    if (anyFailed)
      return signalPassFailure();
    for (TileOpInterface op : ops)
      expand(op);
  }
};
} // namespace
