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
      RingType ring = op.getRing().getType();
      end = llvm::alignTo(end,
                          ring.hasPanels() ? kPanelAlignment : kRingAlignment);
      context.ringOffsets[op.getRing()] = end;
      end += ring.getSizeInBytes();
    });
    getOperation().walk([&](AllToAllOp op) {
      ofWarp = std::max(ofWarp, getExchangeBytes(op));
    });
    ofBlock = allocateBarriers(context, ofBlock);
    auto schedule =
        getOperation()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    context.numThreads = schedule.getNumThreads();
    context.warpBytes = llvm::alignTo(ofWarp, kRingAlignment);
    context.warpStart = llvm::alignTo(ofBlock, kRingAlignment);
    int64_t bytes =
        ofWarp ? context.warpStart + schedule.getNumWarps() * context.warpBytes
               : ofBlock;
    if (failed(checkSharedMemory(schedule, bytes)))
      return failure();
    context.target = flashcore::lookupTarget(schedule.getChip());
    return bytes;
  }

  /// Puts the barriers of the rings that are handed over behind `end`. Returns
  /// where they end.
  int64_t allocateBarriers(ThreadContext &context, int64_t end) {
    getOperation().walk([&](AcquireOp op) {
      TypedValue<RingType> ring = op.getRing();
      if (!context.ringBarriers.try_emplace(ring, end).second)
        return;
      rings.push_back(ring);
      end += getBarrierBytes(ring.getType());
    });
    return end;
  }

  LogicalResult checkSharedMemory(ScheduleAttr schedule, int64_t bytes) {
    const auto *target = flashcore::lookupTarget(schedule.getChip());
    if (!target)
      return getOperation().emitOpError(
          flashcore::unknownChipMessage(schedule.getChip()));
    if (bytes > target->sharedMemoryPerBlock)
      return getOperation().emitOpError("needs ")
             << bytes << " bytes of shared memory, but " << schedule.getChip()
             << " allows " << target->sharedMemoryPerBlock
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

  /// Whether the chip has instructions for all copies.
  LogicalResult checkCopies(const flashcore::TargetInfo &target) {
    WalkResult result = getOperation().walk([&](CopyOp op) {
      if (findFillAtom(target, op.getRing().getType()))
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
    auto schedule =
        getOperation()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    SmallVector<scf::ForallOp> foralls;
    getOperation().walk([&](scf::ForallOp op) { foralls.push_back(op); });
    for (scf::ForallOp forall : foralls) {
      SmallVector<int64_t> holders{schedule.getNumHolders() /
                                   schedule.getKeyWarps()};
      if (schedule.getKeyWarps() > 1)
        holders.push_back(schedule.getKeyWarps());
      if (forall.getStaticUpperBound() != ArrayRef<int64_t>(holders)) {
        auto error = forall.emitOpError("expects one loop over the ");
        llvm::interleave(holders, error, " x ");
        return error << (schedule.getTileWarps() > 1 ? " warpgroups" : " warps")
                     << " of the schedule";
      }
      if (schedule.hasProducer())
        separateRoles(forall, schedule, context);
      SmallVector<Value> ids{schedule.getTileWarps() > 1
                                 ? b.div(context.warp, schedule.getTileWarps())
                                 : context.warp};
      if (holders.size() == 2) {
        Value inner = arith::ConstantIndexOp::create(b, holders.back());
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

  /// Moves the loop over warps, and what the producer does beside it, to the
  /// sides of a branch, each with as many registers as it needs.
  void separateRoles(scf::ForallOp forall, ScheduleAttr schedule,
                     const ThreadContext &context) {
    IndexBuilder b(forall.getLoc(), forall);
    Value numConsumers = b.index(schedule.getNumConsumers());
    Value consumes = b.lessThan(context.warp, b.index(schedule.getNumWarps()));
    auto roles = scf::IfOp::create(b, consumes, /*withElseRegion=*/true);
    forall->moveBefore(roles.thenBlock()->getTerminator());
    SmallVector<ProduceOp> programs(roles->getBlock()->getOps<ProduceOp>());
    b.setInsertionPointToStart(roles.elseBlock());
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          context.thread, numConsumers);
    auto starts = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    for (ProduceOp program : programs) {
      Operation *end = starts.thenBlock()->getTerminator();
      end->getBlock()->getOperations().splice(
          end->getIterator(), program.getBody().front().getOperations());
      program.erase();
    }
    shareRegisters(roles, schedule, *context.target);
  }

  static void shareRegisters(scf::IfOp roles, ScheduleAttr schedule,
                             const flashcore::TargetInfo &target) {
    flashcore::RegisterShares shares = flashcore::getRegisterShares(
        target, schedule.getNumConsumers(),
        schedule.getNumThreads() - schedule.getNumConsumers());
    if (shares.ofConsumer <= shares.atLaunch)
      return;
    using Action = NVVM::SetMaxRegisterAction;
    for (auto [block, count, action] :
         {std::tuple(roles.thenBlock(), shares.ofConsumer, Action::increase),
          {roles.elseBlock(), shares.ofProducer, Action::decrease}}) {
      auto b = OpBuilder::atBlockBegin(block);
      NVVM::SetMaxRegisterOp::create(b, roles.getLoc(),
                                     static_cast<uint32_t>(count), action);
    }
  }

  /// One thread makes the barriers of the rings that are handed over, before
  /// any other looks at them.
  void initializeBarriers(IndexBuilder &b, const ThreadContext &context,
                          ScheduleAttr schedule) {
    if (rings.empty())
      return;
    OpBuilder::InsertionGuard guard(b);
    Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                          context.thread, b.index(0));
    auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    gpu::BarrierOp::create(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    for (TypedValue<RingType> ring : rings) {
      bool isOfAll = llvm::any_of(ring.getUsers(), [](Operation *user) {
        auto copy = dyn_cast<CopyOp>(user);
        return copy && copy.getScope() == CopyScope::Block;
      });
      int64_t numReaders =
          isOfAll ? schedule.getNumWarps() : schedule.getTileWarps();
      for (int64_t i = 0; i < ring.getType().getStages(); ++i)
        for (auto [side, count] : {std::pair(RingSide::Read, int64_t(1)),
                                   {RingSide::Fill, numReaders}})
          NVVM::MBarrierInitOp::create(
              b, getRingBarrier(b, context, ring, side, b.index(i)),
              arith::ConstantOp::create(
                  b, b.getI32IntegerAttr(static_cast<int32_t>(count))),
              /*predicate=*/Value());
    }
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
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    populateMemoryPatterns(converter, context, patterns);
    populateExchangePatterns(converter, context, patterns);
    populateComputePatterns(converter, context, patterns);
    populateWarpgroupPatterns(converter, context, patterns);
    populateHandoverPatterns(converter, context, patterns);
    populateLayoutPatterns(converter, context, patterns);
    populateScorePatterns(converter, context, patterns);
    return applyPartialConversion(getOperation(), target, std::move(patterns));
  }

  static void findThread(IndexBuilder &b, ThreadContext &context,
                         ScheduleAttr schedule) {
    context.thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
    context.lane = b.rem(context.thread, 32);
    context.warp = b.div(context.thread, 32);
    if (schedule.getTileWarps() > 1) {
      // Of what the lanes of a warp have in common ptxas must know that they
      // do, to branch by it.
      Value warp = arith::IndexCastOp::create(b, b.getI32Type(), context.warp);
      warp = gpu::ShuffleOp::create(b, warp, 0, 32, gpu::ShuffleMode::IDX)
                 .getShuffleResult();
      context.warp = arith::IndexCastOp::create(b, b.getIndexType(), warp);
      context.warpOfHolder = b.rem(context.warp, schedule.getTileWarps());
    }
    context.warpOffset = b.add(
        arith::MulIOp::create(b, context.warp, b.index(context.warpBytes)),
        b.index(context.warpStart));
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    rings.clear();
    ThreadContext context;
    FailureOr<int64_t> bytes = allocate(context);
    if (failed(bytes))
      return signalPassFailure();
    if (failed(checkCopies(*context.target)))
      return signalPassFailure();
    sharedMemory += *bytes;
    auto schedule =
        getOperation()->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    Block &entry = getOperation().getBody().front();
    IndexBuilder b(getOperation().getLoc(), &entry, entry.begin());
    findThread(b, context, schedule);
    context.sharedMemory = createSharedMemory(b, *bytes);
    initializeBarriers(b, context, schedule);
    if (failed(inlineWarps(b, context)))
      return signalPassFailure();
    LayoutMap layouts(getOperation());
    context.layouts = &layouts;
    if (failed(convert(context)))
      return signalPassFailure();
    if (context.ptxVersion)
      getOperation()->setAttr(kPTXVersionAttrName,
                              b.getI64IntegerAttr(context.ptxVersion));
    getOperation().walk([](Operation *op) { op->removeAttr(kLayoutAttrName); });
  }

  /// The rings that are handed over.
  SmallVector<TypedValue<RingType>> rings;
};
} // namespace
