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
#include "DistributeRoles.h"
#include "Preconditions.h"
#include "WarpRoles.h"
#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
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
struct DistributePass final
    : mlir::fcgpu::impl::DistributePassBase<DistributePass> {
  static flashcore::SharedRing describe(AllocRingOp op) {
    RingType type = op.getRing().getType();
    flashcore::SharedRing ring;
    ring.scope = op.getScope();
    ring.numStages = type.getStages();
    ring.slotBytes = type.getSlotElements() * type.getElementBytes();
    ring.hasPanels = type.hasPanels();
    ring.isHandedOver =
        llvm::any_of(op.getRing().getUsers(),
                     [](Operation *user) { return isa<AcquireOp>(user); });
    ring.walk = op->getParentOfType<scf::IfOp>() ? 1 : 0;
    return ring;
  }

  /// Gives every ring and flag its offset. An error if the chip has too little.
  FailureOr<int64_t> allocate(ThreadContext &context) {
    flashcore::SharedMemoryNeeds needs;
    getOperation().walk([&](AllocRingOp op) {
      rings.push_back(op.getRing());
      needs.rings.push_back(describe(op));
    });
    getOperation().walk([&](AllToAllOp op) {
      needs.exchangeBytes = std::max(needs.exchangeBytes, getExchangeBytes(op));
    });
    context.target = flashcore::lookupTarget(launch.chip);
    if (!context.target)
      return getOperation().emitOpError(
          flashcore::unknownChipMessage(launch.chip));
    needs.scratch = context.scratch =
        getProductScratch(getOperation(), *context.target);
    SmallVector<Value> flags;
    getOperation().walk([&](AllocFlagOp op) { flags.push_back(op.getFlag()); });
    needs.numFlags = static_cast<int64_t>(flags.size());
    needs.numWarps = roles.numWarps;
    auto layout = flashcore::layOutSharedMemory(needs);
    for (auto [ring, offset, barriers] :
         llvm::zip_equal(rings, layout.rings, layout.barriers)) {
      context.ringOffsets[ring] = offset;
      if (barriers)
        context.ringBarriers[ring] = *barriers;
    }
    for (auto [i, flag] : llvm::enumerate(flags))
      context.flagOffsets[flag] =
          layout.flagStart + static_cast<int64_t>(i) * flashcore::kFlagBytes;
    context.numThreads = launch.numThreads;
    context.warpBytes = layout.warpBytes;
    context.warpStart = layout.warpStart;
    context.scratchStart = layout.scratchStart;
    if (failed(checkSharedMemory(*context.target, layout.bytes)))
      return failure();
    return layout.bytes;
  }

  LogicalResult checkSharedMemory(const flashcore::TargetInfo &target,
                                  int64_t bytes) {
    if (bytes > target.sharedMemoryPerBlock)
      return getOperation().emitOpError("needs ")
             << bytes << " bytes of shared memory, but " << launch.chip
             << " allows " << target.sharedMemoryPerBlock
             << "; use fewer stages or smaller blocks";
    auto kernel =
        getOperation()->getAttrOfType<DictionaryAttr>(kKernelAttrName);
    auto launched =
        kernel ? kernel.getAs<IntegerAttr>("shared_memory") : IntegerAttr();
    if (launched && bytes > launched.getInt())
      return getOperation().emitOpError("needs ")
             << bytes << " bytes of shared memory, but its launch gives it "
             << launched.getInt();
    return success();
  }

  /// The shared memory of the launch, of the size that the rings need. The
  /// symbol belongs to the module, which a pass over its kernels, run on
  /// several of them at once, must not change: phase 7 makes it.
  static Value createSharedMemory(IndexBuilder &b, int64_t bytes) {
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

  /// Iterations of a loop, or 0 if they are not known or more than any block
  /// has warps.
  static int64_t countIterations(ArrayRef<int64_t> bounds) {
    int64_t count = 1;
    for (int64_t bound : bounds)
      count *= ShapedType::isDynamic(bound) || bound > kMaxWarps ? 0 : bound;
    return count;
  }

  /// Whether the loop has one iteration for each warp, or warpgroup, that holds
  /// tiles.
  LogicalResult checkHolders(scf::ForallOp forall) {
    ArrayRef<int64_t> bounds = forall.getStaticUpperBound();
    if ((bounds.size() == 1 || bounds.size() == 2) &&
        countIterations(bounds) == roles.getNumHolders() &&
        getTileWarps(forall) == roles.tileWarps)
      return success();
    auto error = forall.emitOpError("expects a loop of one or two dimensions "
                                    "over the ")
                 << roles.getNumHolders()
                 << (roles.tileWarps > 1 ? " warpgroups" : " warps")
                 << " of the launch, but got ";
    llvm::interleave(
        bounds, error,
        [&](int64_t bound) {
          if (ShapedType::isDynamic(bound))
            error << "?";
          else
            error << bound;
        },
        " x ");
    return error;
  }

  /// Whether the chip has instructions for all copies.
  LogicalResult checkCopies(const flashcore::TargetInfo &target) {
    WalkResult result = getOperation().walk([&](CopyOp op) {
      if (findFillAtom(target, op))
        return WalkResult::advance();
      op.emitOpError("fills ")
          << op.getRing().getType() << ", for which " << target.chip
          << " has no instruction that is known here";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Every warp (or warpgroup) runs the body of the loop over them once.
  LogicalResult inlineWarps(IndexBuilder &b, ThreadContext &context) {
    bool anyFailed = false;
    getOperation().walk([&](scf::ForallOp forall) {
      anyFailed |= failed(checkHolders(forall));
    });
    if (anyFailed)
      return failure();
    if (roles.hasProducer)
      separateRoles(getOperation(), launch, roles, context);
    SmallVector<scf::ForallOp> foralls;
    getOperation().walk([&](scf::ForallOp op) { foralls.push_back(op); });
    for (scf::ForallOp forall : foralls) {
      SmallVector<Value> ids{roles.tileWarps > 1
                                 ? b.div(context.warp, roles.tileWarps)
                                 : context.warp};
      if (forall.getRank() == 2) {
        Value inner = arith::ConstantIndexOp::create(
            b, forall.getStaticUpperBound().back());
        ids = {arith::DivUIOp::create(b, ids.front(), inner),
               arith::RemUIOp::create(b, ids.front(), inner)};
      }
      IRRewriter rewriter(forall.getContext());
      rewriter.eraseOp(forall.getTerminator());
      rewriter.inlineBlockBefore(forall.getBody(), forall, ids);
      rewriter.eraseOp(forall);
    }
    return success();
  }

  /// One thread makes the barriers of the rings that are handed over, before
  /// any other looks at them.
  void initializeBarriers(IndexBuilder &b, const ThreadContext &context) {
    if (context.ringBarriers.empty())
      return;
    OpBuilder::InsertionGuard guard(b);
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          context.thread, b.index(0));
    auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    gpu::BarrierOp::create(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    initializeFlags(b, context);
    if (context.numInRoles)
      NVVM::MBarrierInitOp::create(
          b, getMeetingBarrier(b, context),
          arith::ConstantOp::create(
              b, b.getI32IntegerAttr(static_cast<int32_t>(context.numInRoles))),
          /*predicate=*/Value());
    bool hasBulkCopies = false;
    for (TypedValue<RingType> ring : llvm::reverse(rings)) {
      if (!context.ringBarriers.contains(ring))
        continue;
      bool isOfAll = llvm::any_of(ring.getUsers(), [](Operation *user) {
        auto copy = dyn_cast<CopyOp>(user);
        return copy && copy.getScope() == CopyScope::Block;
      });
      int64_t numReaders = isOfAll ? roles.numWarps : roles.tileWarps;
      int64_t numFillers = 1;
      hasBulkCopies |= ring.getType().hasPanels();
      // Of other copies and reads each lane says what it has done.
      if (!ring.getType().hasPanels()) {
        numFillers = kWarpSize;
        numReaders *= kWarpSize;
      }
      for (int64_t i = 0; i < ring.getType().getStages(); ++i)
        for (auto [side, count] : {std::pair(RingSide::Read, numFillers),
                                   {RingSide::Fill, numReaders}})
          NVVM::MBarrierInitOp::create(
              b, getRingBarrier(b, context, ring, side, b.index(i)),
              arith::ConstantOp::create(
                  b, b.getI32IntegerAttr(static_cast<int32_t>(count))),
              /*predicate=*/Value());
    }
    if (hasBulkCopies)
      NVVM::FenceMbarrierInitOp::create(b);
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
    target.addLegalOp<ViewPagesOp>();
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    populateMemoryPatterns(converter, context, patterns);
    populateWritePatterns(converter, context, patterns);
    populateExchangePatterns(converter, context, patterns);
    populateComputePatterns(converter, context, patterns);
    populateWarpgroupPatterns(converter, context, patterns);
    populatePlainPatterns(converter, context, patterns);
    populateHandoverPatterns(converter, context, patterns);
    populateStorePatterns(converter, context, patterns);
    populateLayoutPatterns(converter, context, patterns);
    populateScorePatterns(converter, context, patterns);
    populateDropoutPatterns(converter, context, patterns);
    return applyPartialConversion(getOperation(), target, std::move(patterns));
  }

  void findThread(IndexBuilder &b, ThreadContext &context) {
    context.thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    context.lane = b.rem(context.thread, 32);
    context.warp = b.div(context.thread, 32);
    if (roles.tileWarps > 1) {
      // Of what the lanes of a warp have in common ptxas must know that they
      // do, to branch by it.
      Value warp = arith::IndexCastOp::create(b, b.getI32Type(), context.warp);
      warp = gpu::ShuffleOp::create(b, warp, 0, 32, gpu::ShuffleMode::IDX)
                 .getShuffleResult();
      context.warp = arith::IndexCastOp::create(b, b.getIndexType(), warp);
      context.warpOfHolder = b.rem(context.warp, roles.tileWarps);
    }
    context.warpOffset = b.add(
        arith::MulIOp::create(b, context.warp, b.index(context.warpBytes)),
        b.index(context.warpStart));
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Homes)))
      return signalPassFailure();
    // Leave that nobody took: iterations that are not skipped give the same.
    getOperation().walk([](SkipUnlessOp skip) { skip.erase(); });
    rings.clear();
    launch = Launch::get(getOperation());
    roles = WarpRoles::get(getOperation(), launch);
    ThreadContext context;
    FailureOr<int64_t> bytes = allocate(context);
    if (failed(bytes))
      return signalPassFailure();
    if (failed(checkCopies(*context.target)))
      return signalPassFailure();
    sharedMemory += *bytes;
    Block &entry = getOperation().getBody().front();
    IndexBuilder b(getOperation().getLoc(), &entry, entry.begin());
    findThread(b, context);
    if (roles.hasProducer && !context.flagOffsets.empty())
      context.numInRoles = roles.getNumConsumers() + kWarpSize;
    context.sharedMemory = createSharedMemory(b, *bytes);
    initializeBarriers(b, context);
    if (failed(inlineWarps(b, context)))
      return signalPassFailure();
    lowerFlags(getOperation(), context);
    LayoutMap layouts(getOperation());
    context.layouts = &layouts;
    if (failed(convert(context)))
      return signalPassFailure();
    // Copies have read what they view.
    getOperation().walk([](ViewPagesOp view) {
      if (view->use_empty())
        view->erase();
    });
    if (context.ptxVersion)
      getOperation()->setAttr(kPTXVersionAttrName,
                              b.getI64IntegerAttr(context.ptxVersion));
    getOperation().walk([](Operation *op) {
      op->removeAttr(kHomeAttrName);
      op->removeAttr(kBlockTilesAttrName);
    });
  }

  Launch launch;
  WarpRoles roles;
  /// In the order of their allocation.
  SmallVector<TypedValue<RingType>> rings;
};
} // namespace
