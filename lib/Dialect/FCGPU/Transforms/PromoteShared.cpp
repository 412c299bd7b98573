//===- PromoteShared.cpp - Phase 4: tiles through shared memory -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces each read of a 16-bit tile by a copy into a ring and a read of the
// ring. Relies on fcgpu.schedule for the number of stages and the place of Q.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
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

  LogicalResult checkPrecondition(vector::TransferReadOp read) {
    if (!read->getParentOfType<scf::ForallOp>())
      return read.emitOpError("reads a tile outside of an scf.forall over "
                              "warps");
    if (!read.getPermutationMap().isMinorIdentity() || read.getMask() ||
        !matchPattern(read.getPadding(), m_AnyZeroFloat()))
      return read.emitOpError("expects an unmasked, untransposed tile padded "
                              "with zeros");
    if (auto loop = read->getParentOfType<scf::ForOp>())
      if (getConstantIntValue(loop.getLowerBound()) != 0 ||
          getConstantIntValue(loop.getStep()) != 1)
        return read.emitOpError("expects its loop to start at 0 with step 1");
    return success();
  }

  void promote(vector::TransferReadOp read, ScheduleAttr schedule) {
    VectorType type = read.getVectorType();
    auto loop = read->getParentOfType<scf::ForOp>();
    auto forall = read->getParentOfType<scf::ForallOp>();
    int64_t stages = loop ? schedule.getNumStages() : schedule.getNumWarps();
    CopyScope scope = loop ? CopyScope::Block : CopyScope::Warp;
    Value tile = loop ? loop.getInductionVar() : forall.getInductionVar(0);

    OpBuilder b(getOperation().getContext());
    b.setInsertionPointToStart(&getOperation().getBody().front());
    auto ringType = RingType::get(b.getContext(), stages, type.getDimSize(0),
                                  type.getDimSize(1), type.getElementType());
    Value ring = AllocRingOp::create(b, read.getLoc(), ringType);

    b.setInsertionPoint(read);
    CopyOp::create(b, read.getLoc(), read.getBase(), read.getIndices(), ring,
                   tile, /*predicate=*/Value(), scope);
    // Q fragments that do not stay in registers are read anew by each user.
    if (!loop && schedule.getQuery() == QueryPlacement::Shared) {
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
    SmallVector<vector::TransferReadOp> reads;
    bool anyFailed = false;
    func.walk([&](vector::TransferReadOp read) {
      if (!isTileRead(read))
        return;
      anyFailed |= failed(checkPrecondition(read));
      reads.push_back(read);
    });
    if (anyFailed)
      return signalPassFailure();
    auto schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    for (vector::TransferReadOp read : reads)
      promote(read, schedule);
  }
};
} // namespace
