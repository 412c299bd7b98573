//===- PromoteShared.cpp - Phase 4: tiles through shared memory -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces each read of a 16-bit tile by a copy into a ring and a read of the
// ring. Relies on fcgpu.schedule for the number of stages, the place of Q, and
// whether the warps of a block read the same key tiles.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_PROMOTESHAREDPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct PromoteSharedPass final
    : mlir::fcgpu::impl::PromoteSharedPassBase<PromoteSharedPass> {
  static bool isTileRead(vector::TransferReadOp read) {
    VectorType type = read.getVectorType();
    return type.getRank() == 2 && type.getElementTypeBitWidth() == 16 &&
           isa<MemRefType>(read.getBase().getType());
  }

  LogicalResult checkPrecondition(vector::TransferReadOp read,
                                  ScheduleAttr schedule) {
    auto forall = read->getParentOfType<scf::ForallOp>();
    if (!forall)
      return read.emitOpError("reads a tile outside of an scf.forall over "
                              "warps");
    if (!read.getPermutationMap().isMinorIdentity() || read.getMask() ||
        !matchPattern(read.getPadding(), m_AnyZeroFloat()))
      return read.emitOpError("expects an unmasked, untransposed tile padded "
                              "with zeros");
    VectorType type = read.getVectorType();
    if (type.getDimSize(0) % 16 != 0 || type.getDimSize(1) % 8 != 0 ||
        type.getDimSize(1) < 16)
      return read.emitOpError("expects rows in multiples of 16 and columns in "
                              "multiples of 8 from 16 on, but got ")
             << type.getDimSize(0) << " and " << type.getDimSize(1);
    if (getConstantIntValue(read.getIndices().back()) != 0)
      return read.emitOpError("expects a tile that starts at column 0");
    int64_t cols = cast<ShapedType>(read.getBase().getType()).getShape().back();
    if (cols != type.getDimSize(1))
      return read.emitOpError("expects a tile of whole rows, but got ")
             << type.getDimSize(1) << " columns of "
             << (ShapedType::isDynamic(cols) ? "?" : std::to_string(cols));
    auto loop = read->getParentOfType<scf::ForOp>();
    if (!loop)
      return success();
    if (getConstantIntValue(loop.getLowerBound()) != 0 ||
        getConstantIntValue(loop.getStep()) != 1)
      return read.emitOpError("expects its loop to start at 0 with step 1");
    if (schedule.getKeyWarps() == 1 && dependsOnWarp(read, forall))
      return read.emitOpError("reads a tile in a loop that differs between "
                              "warps");
    return success();
  }

  /// Whether what `read` reads is computed from the warp's number: then the
  /// warps cannot share the tile.
  static bool dependsOnWarp(vector::TransferReadOp read, scf::ForallOp forall) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.filter = [&](Operation *op) { return forall->isAncestor(op); };
    if (failed(getBackwardSlice(read.getOperation(), &slice, options)))
      return true;
    slice.remove(forall);
    return llvm::any_of(slice, [&](Operation *op) {
      return !isa<scf::ForOp>(op) &&
             llvm::any_of(forall.getInductionVars(), [&](Value warp) {
               return llvm::is_contained(op->getOperands(), warp);
             });
    });
  }

  void promote(vector::TransferReadOp read, ScheduleAttr schedule) {
    VectorType type = read.getVectorType();
    auto loop = read->getParentOfType<scf::ForOp>();
    auto forall = read->getParentOfType<scf::ForallOp>();
    OpBuilder b(getOperation().getContext());
    b.setInsertionPoint(read);
    // A tile that all warps read is the block's, and so are those that they
    // walk together. (Outside a loop that is the only key tile: its loop had
    // one iteration and is gone.)
    bool isDivided = schedule.getKeyWarps() > 1;
    bool isShared =
        !isDivided &&
        (loop || (schedule.getNumWarps() > 1 && !dependsOnWarp(read, forall)));
    int64_t stages = loop || isShared ? schedule.getNumStages()
                     : isDivided      ? 1
                                      : schedule.getNumWarps();
    CopyScope scope = isShared ? CopyScope::Block : CopyScope::Warp;
    Value tile =
        loop ? loop.getInductionVar() : forall.getInductionVars().back();
    if (isShared && !loop)
      tile = arith::ConstantIndexOp::create(b, read.getLoc(), 0);

    b.setInsertionPointToStart(&getOperation().getBody().front());
    auto ringType = RingType::get(b.getContext(), stages, type.getDimSize(0),
                                  type.getDimSize(1), type.getElementType());
    // Warps that divide the keys do all by themselves.
    Value ring =
        AllocRingOp::create(b, read.getLoc(), ringType,
                            isDivided ? CopyScope::Warp : CopyScope::Block);

    b.setInsertionPoint(read);
    CopyOp::create(b, read.getLoc(), read.getBase(), read.getIndices(), ring,
                   tile, /*predicate=*/Value(), scope);
    // Q fragments that do not stay in registers are read anew by each user.
    if (!isShared && !loop && schedule.getQuery() == QueryPlacement::Shared) {
      for (OpOperand &use : llvm::make_early_inc_range(read->getUses())) {
        b.setInsertionPoint(use.getOwner());
        use.set(ReadOp::create(b, read.getLoc(), type, ring, tile));
      }
    } else {
      read.replaceAllUsesWith(
          ReadOp::create(b, read.getLoc(), type, ring, tile).getResult());
    }
    read.erase();
    ++numPromoted;
  }

  void runOnOperation() override {
    gpu::GPUFuncOp func = getOperation();
    if (!isOurKernel(func))
      return;
    auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    SmallVector<vector::TransferReadOp> reads;
    bool anyFailed = false;
    func.walk([&](vector::TransferReadOp read) {
      if (!isTileRead(read))
        return;
      anyFailed |= failed(checkPrecondition(read, schedule));
      reads.push_back(read);
    });
    if (anyFailed)
      return signalPassFailure();
    for (vector::TransferReadOp read : reads)
      promote(read, schedule);
  }
};
} // namespace
