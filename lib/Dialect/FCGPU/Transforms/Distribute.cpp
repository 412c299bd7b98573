//===- Distribute.cpp - Phase 6: warp tiles to lanes ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets the stage (thread ids, shared memory offsets, the warp loop), runs the
// 1:N conversion of DistributeCompute.cpp and DistributeMemory.cpp. Loads of
// fragments stay where the tile was read: ptxas orders the instructions of a
// block anyway.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <algorithm>

namespace mlir::fcgpu {
#define GEN_PASS_DEF_DISTRIBUTEPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// A ring starts at a multiple of this many bytes: one row of all 32 banks.
constexpr int64_t kRingAlignment = 128;

struct DistributePass final
    : mlir::fcgpu::impl::DistributePassBase<DistributePass> {
  /// Gives every ring its offset: first those of the block, then the parts of
  /// the warps with their own, which an exchange uses again. An error if the
  /// chip has too little.
  FailureOr<int64_t> allocate(ThreadContext &context) {
    int64_t ofBlock = 0, ofWarp = 0;
    getOperation().walk([&](AllocRingOp op) {
      int64_t &end = op.getScope() == CopyScope::Block ? ofBlock : ofWarp;
      end = llvm::alignTo(end, kRingAlignment);
      context.ringOffsets[op.getRing()] = end;
      end += op.getRing().getType().getSizeInBytes();
    });
    getOperation().walk([&](AllToAllOp op) {
      ofWarp = std::max(ofWarp, getExchangeBytes(op));
    });
    auto schedule =
        getOperation()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    context.numThreads = schedule.getNumThreads();
    context.warpBytes = llvm::alignTo(ofWarp, kRingAlignment);
    context.warpStart = llvm::alignTo(ofBlock, kRingAlignment);
    int64_t bytes =
        ofWarp ? context.warpStart + schedule.getNumWarps() * context.warpBytes
               : ofBlock;
    const auto *target = flashcore::lookupTarget(schedule.getChip());
    context.target = target;
    if (!target)
      return getOperation().emitOpError(
                 flashcore::unknownChipMessage(schedule.getChip())),
             failure();
    if (bytes > target->sharedMemoryPerBlock)
      return getOperation().emitOpError("needs ")
                 << bytes << " bytes of shared memory, but "
                 << schedule.getChip() << " allows "
                 << target->sharedMemoryPerBlock
                 << "; use fewer stages or smaller blocks",
             failure();
    auto kernel =
        getOperation()->getAttrOfType<DictionaryAttr>(kKernelAttrName);
    auto launched =
        kernel ? kernel.getAs<IntegerAttr>("shared_memory") : IntegerAttr();
    if (launched && bytes > launched.getInt())
      return getOperation().emitOpError("needs ")
                 << bytes << " bytes of shared memory, but its launch gives it "
                 << launched.getInt(),
             failure();
    return bytes;
  }

  /// The shared memory of the launch, of the size that the rings need. The
  /// symbol belongs to the module, which a pass over its kernels, run on
  /// several of them at once, must not change: phase 7 makes it.
  Value createSharedMemory(ImplicitLocOpBuilder &b, int64_t bytes) {
    auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                            gpu::AddressSpace::Workgroup);
    auto typeOf = [&](int64_t size) {
      return MemRefType::get({size}, b.getI8Type(), MemRefLayoutAttrInterface(),
                             space);
    };
    Value base =
        gpu::DynamicSharedMemoryOp::create(b, typeOf(ShapedType::kDynamic));
    return memref::ReinterpretCastOp::create(
        b, typeOf(bytes), base,
        /*offset=*/0, ArrayRef<int64_t>{bytes}, ArrayRef<int64_t>{1});
  }

  /// Every warp runs the body of the loop over warps once.
  LogicalResult inlineWarps(ImplicitLocOpBuilder &b, ThreadContext &context) {
    auto schedule =
        getOperation()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    SmallVector<scf::ForallOp> foralls;
    getOperation().walk([&](scf::ForallOp op) { foralls.push_back(op); });
    for (scf::ForallOp forall : foralls) {
      SmallVector<int64_t> warps{schedule.getNumWarps() /
                                 schedule.getKeyWarps()};
      if (schedule.getKeyWarps() > 1)
        warps.push_back(schedule.getKeyWarps());
      if (forall.getStaticUpperBound() != ArrayRef<int64_t>(warps)) {
        auto error = forall.emitOpError("expects one loop over the ");
        llvm::interleave(warps, error, " x ");
        return error << " warps of the schedule";
      }
      SmallVector<Value> ids{context.warp};
      if (warps.size() == 2) {
        Value inner = arith::ConstantIndexOp::create(b, warps.back());
        ids = {arith::DivUIOp::create(b, context.warp, inner),
               arith::RemUIOp::create(b, context.warp, inner)};
      }
      IRRewriter rewriter(forall.getContext());
      rewriter.eraseOp(forall.getTerminator());
      rewriter.inlineBlockBefore(forall.getBody(), forall, ids);
      rewriter.eraseOp(forall);
    }
    return success();
  }

  LogicalResult convert(const ThreadContext &context) {
    MLIRContext *ctx = &getContext();
    TileTypeConverter converter(*context.layouts);
    RewritePatternSet patterns(ctx);
    ConversionTarget target(*ctx);
    target.markUnknownOpDynamicallyLegal([&](Operation *op) {
      return converter.isLegal(op->getOperands()) &&
             converter.isLegal(op->getResults());
    });
    target.addIllegalDialect<FCGPUDialect>();
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    populateMemoryPatterns(converter, context, patterns);
    populateExchangePatterns(converter, context, patterns);
    populateComputePatterns(converter, context, patterns);
    populateLayoutPatterns(converter, context, patterns);
    populateScorePatterns(converter, context, patterns);
    return applyPartialConversion(getOperation(), target, std::move(patterns));
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    ThreadContext context;
    FailureOr<int64_t> bytes = allocate(context);
    if (failed(bytes))
      return signalPassFailure();
    sharedMemory += *bytes;
    Block &entry = getOperation().getBody().front();
    auto b =
        ImplicitLocOpBuilder::atBlockBegin(getOperation().getLoc(), &entry);
    context.thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    context.lane = arith::RemUIOp::create(
        b, context.thread, arith::ConstantIndexOp::create(b, 32));
    context.warp = arith::DivUIOp::create(
        b, context.thread, arith::ConstantIndexOp::create(b, 32));
    context.warpOffset = arith::AddIOp::create(
        b,
        arith::MulIOp::create(
            b, context.warp,
            arith::ConstantIndexOp::create(b, context.warpBytes)),
        arith::ConstantIndexOp::create(b, context.warpStart));
    context.sharedMemory = createSharedMemory(b, *bytes);
    if (failed(inlineWarps(b, context)))
      return signalPassFailure();
    LayoutMap layouts(getOperation());
    context.layouts = &layouts;
    if (failed(convert(context)))
      return signalPassFailure();
    getOperation().walk([](Operation *op) { op->removeAttr(kLayoutAttrName); });
  }
};
} // namespace
