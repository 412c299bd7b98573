//===- DistributeHandover.cpp - Slots that change hands -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A ring that warps of their own fill has two mbarriers a slot: `filled`
// completes a phase when all bytes of a tile have arrived, `freed` when all
// warps that read it have released it. Tile number t is the (t / stages)-th of
// its slot, whose parity tells the phases apart. Copies are bulk copies of
// boxes of a tensor map, an argument of the kernel, one for each panel of the
// slot, or cp.async of all lanes of a warp (DistributeMemory.cpp).
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::kBarrierBytes;

Value mlir::fcgpu::asSharedPointer(IndexBuilder &b, Value address) {
  constexpr unsigned sharedSpace = 3;
  return LLVM::IntToPtrOp::create(
      b, LLVM::LLVMPointerType::get(b.getContext(), sharedSpace),
      arith::IndexCastOp::create(b, b.getI64Type(), address),
      LLVM::DereferenceableAttr());
}

void mlir::fcgpu::fenceAsyncProxy(IndexBuilder &b) {
  MLIRContext *context = b.getContext();
  NVVM::FenceProxyOp::create(
      b, NVVM::ProxyKindAttr::get(context, NVVM::ProxyKind::async_shared),
      NVVM::SharedSpaceAttr::get(context, NVVM::SharedSpace::shared_cta));
}

static bool isInRole(IndexBuilder &b, const ThreadContext &thread) {
  return thread.numInRoles &&
         !isa<gpu::GPUFuncOp>(b.getInsertionBlock()->getParentOp());
}

int64_t mlir::fcgpu::getNumPresent(IndexBuilder &b,
                                   const ThreadContext &thread) {
  return isInRole(b, thread) ? thread.numInRoles : thread.numThreads;
}

Value mlir::fcgpu::getMeetingBarrier(IndexBuilder &b,
                                     const ThreadContext &thread) {
  // Who meets asks for a flag.
  int64_t offset =
      thread.flagOffsets.begin()->second + flashcore::kMeetingBarrierOffset;
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(b, thread.sharedMemory);
  return asSharedPointer(b, b.add(base, offset));
}

Value mlir::fcgpu::getI32(IndexBuilder &b, int64_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

void mlir::fcgpu::waitForPhase(IndexBuilder &b, const ThreadContext &thread,
                               Value barrier, Value parity) {
  constexpr unsigned hasTryWait = 90;
  if (thread.target->capability >= hasTryWait) {
    // How long the hardware may sleep between two looks, in nanoseconds.
    constexpr int64_t ticks = 10'000'000;
    NVVM::MBarrierTryWaitParityOp::create(b, barrier, parity, getI32(b, ticks));
    return;
  }
  scf::WhileOp::create(
      b, TypeRange(), ValueRange(),
      [&](OpBuilder &builder, Location loc, ValueRange) {
        Value isDone = NVVM::MBarrierTestWaitOp::create(
            builder, loc, builder.getI1Type(), barrier, parity);
        Value yes =
            arith::ConstantOp::create(builder, loc, builder.getBoolAttr(true));
        scf::ConditionOp::create(
            builder, loc, arith::XOrIOp::create(builder, loc, isDone, yes),
            ValueRange());
      },
      [](OpBuilder &builder, Location loc, ValueRange) {
        scf::YieldOp::create(builder, loc);
      });
}

void mlir::fcgpu::meetBlock(IndexBuilder &b, const ThreadContext &thread,
                            int64_t meeting) {
  if (!isInRole(b, thread)) {
    gpu::BarrierOp::create(b);
    return;
  }
  // Each role has an instruction of its own, which bar.sync is not meant for:
  // synccheck asks that a block reaches one together.
  Value barrier = getMeetingBarrier(b, thread);
  NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier, /*count=*/Value(),
                                 NVVM::MemScopeKind::CTA, /*relaxed=*/false);
  waitForPhase(b, thread, barrier,
               arith::ConstantOp::create(
                   b, b.getI32IntegerAttr(static_cast<int32_t>(meeting % 2))));
}

void mlir::fcgpu::runInFirstLane(IndexBuilder &b, const ThreadContext &thread,
                                 function_ref<void()> body) {
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                        thread.lane, b.index(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  body();
}

static Value asI32(IndexBuilder &b, Value index) {
  return arith::IndexCastOp::create(b, b.getI32Type(), index);
}

Value mlir::fcgpu::getRingBarrier(IndexBuilder &b, const ThreadContext &thread,
                                  TypedValue<RingType> ring, RingSide side,
                                  Value slot) {
  Value base =
      memref::ExtractAlignedPointerAsIndexOp::create(b, thread.sharedMemory);
  int64_t offset = thread.ringBarriers.lookup(ring);
  // What is filled is read, what is free is filled.
  if (side == RingSide::Fill)
    offset += ring.getType().getStages() * kBarrierBytes;
  return asSharedPointer(
      b, b.add(b.add(base, b.mul(slot, kBarrierBytes)), offset));
}

static Value getSlot(IndexBuilder &b, RingType ring, Value tile) {
  return b.rem(tile, ring.getStages());
}

static int64_t getSlotBytes(RingType ring) {
  return ring.getSlotElements() * ring.getElementBytes();
}

Value mlir::fcgpu::getSlotAddress(IndexBuilder &b, Value view, RingType ring,
                                  Value tile) {
  Value start = memref::ExtractAlignedPointerAsIndexOp::create(b, view);
  return b.add(start, b.mul(getSlot(b, ring, tile), getSlotBytes(ring)));
}

namespace {

struct DistributeAcquire final : ThreadPattern<AcquireOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(AcquireOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    RingType ring = op.getRing().getType();
    Value tile = adaptor.getTile().front();
    Value phase = b.rem(b.div(tile, ring.getStages()), 2);
    // Nothing was in a slot before its first tile: the phase before the first
    // counts as complete.
    if (op.getSide() == RingSide::Fill)
      phase = b.bitXor(phase, b.index(1));
    waitForPhase(b, thread,
                 getRingBarrier(b, thread, op.getRing(), op.getSide(),
                                getSlot(b, ring, tile)),
                 asI32(b, phase));
    rewriter.eraseOp(op);
    return success();
  }
};

/// One lane of each warp says so of products, which warps execute as one, and
/// each lane of what it has read itself.
struct DistributeRelease final : ThreadPattern<ReleaseOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    RingType ring = op.getRing().getType();
    Value slot = getSlot(b, ring, adaptor.getTile().front());
    Value barrier =
        getRingBarrier(b, thread, op.getRing(), RingSide::Fill, slot);
    auto arrive = [&] {
      NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier,
                                     /*count=*/Value(), NVVM::MemScopeKind::CTA,
                                     /*relaxed=*/false);
    };
    if (ring.hasPanels())
      runInFirstLane(b, thread, arrive);
    else
      arrive();
    rewriter.eraseOp(op);
    return success();
  }
};

/// Bytes from the start of a slot of panels to column `col` of a row.
static Value getRowOffset(IndexBuilder &b, RingType ring, Value row,
                          int64_t col) {
  Value group;
  if (ring.hasGroups()) {
    group = b.mul(b.div(row, ring.getGroup()), ring.getGroupStride());
    row = b.rem(row, ring.getGroup());
  }
  Value offset =
      b.add(b.mul(row, kPanelBytes), ring.getPanelOffset(/*row=*/0, col));
  return group ? b.add(group, offset) : offset;
}

/// Each thread writes chunks of rows, which products then read by the other
/// proxy.
struct DistributeFill final : ThreadPattern<FillOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(FillOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    RingType ring = op.getRing().getType();
    int64_t first = op.getColumn(), rows = ring.getRows();
    int64_t chunks =
        llvm::divideCeil(ring.getCols() - first, ring.getChunkCols());
    Value start =
        memref::ExtractAlignedPointerAsIndexOp::create(b, adaptor.getRing()[0]);
    auto type = VectorType::get({ring.getChunkCols()}, ring.getElementType());
    Value values = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, Attribute(op.getValue())));
    auto loop = scf::ForOp::create(b, thread.thread,
                                   b.index(ring.getStages() * rows * chunks),
                                   b.index(getNumPresent(b, thread)));
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value number = loop.getInductionVar();
      Value row = b.rem(b.div(number, chunks), rows);
      Value slot = b.div(number, rows * chunks);
      int64_t bytesOfElement = ring.getElementBytes();
      Value offset = b.add(b.mul(slot, ring.getSlotElements() * bytesOfElement),
                           getRowOffset(b, ring, row, first));
      // The swizzle of panels (see !fcgpu.ring).
      Value chunk = b.bitXor(b.rem(number, chunks), b.rem(row, kSwizzledRows));
      Value address = b.add(b.add(start, offset), b.mul(chunk, kChunkBytes));
      LLVM::StoreOp::create(b, values, asSharedPointer(b, address),
                            /*alignment=*/kChunkBytes);
    }
    fenceAsyncProxy(b);
    // Behind the test of the flag and the fills in front of this one.
    int64_t meeting = 1;
    for (Operation *before = op->getPrevNode(); before;
         before = before->getPrevNode())
      meeting += isa<FillOp>(before);
    meetBlock(b, thread, meeting);
    rewriter.eraseOp(op);
    return success();
  }
};

/// A tile as boxes of the tensor that its source is a part of: one a panel or,
/// of pages, one for each part of a panel that is in one, or in groups of
/// panels one for each page.
struct DistributeBulkCopy final : ThreadPattern<CopyOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RingType ring = op.getRing().getType();
    if (!ring.hasPanels() || !thread.ringBarriers.contains(op.getRing()))
      return rewriter.notifyMatchFailure(op, "is not into a ring of panels");
    if (op.getPredicate())
      return rewriter.notifyMatchFailure(op, "has a predicate");
    auto pages = op.getSource().getDefiningOp<ViewPagesOp>();
    int64_t rows =
        pages ? std::gcd(pages.getPageSize(), ring.getRows()) : ring.getRows();
    std::optional<BoxSource> source = BoxSource::find(
        op->getParentOfType<gpu::GPUFuncOp>(), op.getSource(), ring, rows);
    if (!source || !source->isLoadable())
      return rewriter.notifyMatchFailure(
          op, "copies from a tensor of which the kernel has no tensor map with "
              "boxes of a panel");
    IndexBuilder b(op.getLoc(), rewriter);
    thread.use(*findFillAtom(*thread.target, op));
    Value tile = adaptor.getTile().front();
    Destination target{getSlotAddress(b, adaptor.getRing().front(), ring, tile),
                       getRingBarrier(b, thread, op.getRing(), RingSide::Read,
                                      getSlot(b, ring, tile))};
    NVVM::MBarrierArriveExpectTxOp::create(
        b, Type(), target.barrier, getI32(b, getCopiedBytes(op)),
        NVVM::MemScopeKind::CTA,
        /*relaxed=*/false, /*predicate=*/Value());
    copyRows(b, rewriter, op, adaptor, *source, rows, target);
    rewriter.eraseOp(op);
    return success();
  }

private:
  struct Destination {
    Value address, barrier;
  };

  static int64_t getCopiedCols(CopyOp op) {
    return cast<MemRefType>(op.getSource().getType()).getShape().back();
  }

  /// Whole panels, whatever their columns.
  static int64_t getCopiedBytes(CopyOp op) {
    RingType ring = op.getRing().getType();
    return ring.getRows() *
           llvm::alignTo(getCopiedCols(op) * ring.getElementBytes(),
                         kPanelBytes);
  }

  static SmallVector<Value> getCorner(OneToNOpAdaptor adaptor) {
    SmallVector<Value> corner;
    for (ValueRange index : adaptor.getIndices())
      corner.push_back(index.front());
    return corner;
  }

  /// Whether all rows of the tile are in the source.
  static Value isWhole(IndexBuilder &b, ConversionPatternRewriter &rewriter,
                       CopyOp op, OneToNOpAdaptor adaptor) {
    Value source = op.getSource(), rows;
    int64_t rowAxis = cast<MemRefType>(source.getType()).getRank() - 2;
    if (auto pages = source.getDefiningOp<ViewPagesOp>()) {
      Value remapped = rewriter.getRemappedValue(pages.getRows());
      rows = remapped ? remapped : Value(pages.getRows());
    } else {
      rows = memref::DimOp::create(b, source, rowAxis);
    }
    Value end = b.add(adaptor.getIndices()[rowAxis].front(),
                      op.getRing().getType().getRows());
    return arith::CmpIOp::create(b, arith::CmpIPredicate::sle, end, rows);
  }

  /// Boxes of the plain map where all rows are there, as in most tiles.
  void copyRows(IndexBuilder &b, ConversionPatternRewriter &rewriter, CopyOp op,
                OneToNOpAdaptor adaptor, const BoxSource &source, int64_t rows,
                const Destination &target) const {
    SmallVector<Value> corner = getCorner(adaptor);
    auto copyWhole = [&] {
      SmallVector<TensorBox> boxes;
      for (int64_t row = 0; row < op.getRing().getType().getRows(); row += rows)
        boxes.push_back(source.getBox(b, rewriter, corner, row));
      for (auto [i, box] : llvm::enumerate(boxes))
        copyBox(b, op, box, static_cast<int64_t>(i) * rows, target);
    };
    if (!source.isRagged() || op.getInBounds())
      return copyWhole();
    auto ifOp = scf::IfOp::create(b, isWhole(b, rewriter, op, adaptor),
                                  /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    copyWhole();
    b.setInsertionPointToStart(ifOp.elseBlock());
    copyEnd(b, rewriter, op, corner, source, rows, target);
  }

  /// A tile that a sequence ends in, or that is behind it. There are few: a
  /// loop takes fewer registers.
  void copyEnd(IndexBuilder &b, ConversionPatternRewriter &rewriter, CopyOp op,
               SmallVector<Value> corner, const BoxSource &source, int64_t rows,
               Destination target) const {
    RingType ring = op.getRing().getType();
    if (ring.hasGroups())
      rows = ring.getGroup();
    if (rows == ring.getRows())
      return copyRagged(b, rewriter, op, source, corner, target);
    auto loop = scf::ForOp::create(b, b.index(0),
                                   b.index(ring.getRows() / rows), b.index(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value number = loop.getInductionVar();
    Value &row = corner[corner.size() - 2];
    row = b.add(row, b.mul(number, rows));
    target.address =
        b.add(target.address, b.mul(number, ring.getPanelOffset(rows, 0)));
    copyRagged(b, rewriter, op, source, corner, target);
  }

  void copyRagged(IndexBuilder &b, ConversionPatternRewriter &rewriter,
                  CopyOp op, const BoxSource &source, ArrayRef<Value> corner,
                  const Destination &target) const {
    TensorBox box = source.getRaggedBox(b, rewriter, corner);
    auto ifOp = scf::IfOp::create(b, box.isInside, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    copyBox(b, op, box, /*row=*/0, target);
    b.setInsertionPointToStart(ifOp.elseBlock());
    copyBox(b, op, source.getBoxOutside(b, rewriter), /*row=*/0, target);
  }

  /// All columns of the rows of a box, which are those from `row` on of a slot.
  /// Of groups of panels, a box has them all.
  void copyBox(IndexBuilder &b, CopyOp op, const TensorBox &box, int64_t row,
               const Destination &target) const {
    RingType ring = op.getRing().getType();
    int64_t boxCols =
        findFillAtom(*thread.target, op)->bytes / ring.getElementBytes();
    int64_t cols = ring.hasGroups() ? boxCols : getCopiedCols(op);
    for (int64_t col = 0; col < cols; col += boxCols) {
      int64_t offset = ring.getPanelOffset(row, col);
      constexpr unsigned clusterSpace = 7;
      Value pointer = LLVM::AddrSpaceCastOp::create(
          b, LLVM::LLVMPointerType::get(b.getContext(), clusterSpace),
          asSharedPointer(b, b.add(target.address, offset)));
      NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
          b, pointer, box.map, box.getStart(b, col), target.barrier,
          /*im2colOffsets=*/ValueRange(),
          /*multicastMask=*/Value(), /*l2CacheHint=*/Value(),
          NVVM::TMALoadMode::TILE, /*isCTAOnly=*/false,
          /*group=*/NVVM::CTAGroupKindAttr(), /*predicate=*/Value());
    }
  }
};
} // namespace

void mlir::fcgpu::populateHandoverPatterns(const TileTypeConverter &converter,
                                           const ThreadContext &context,
                                           RewritePatternSet &patterns) {
  patterns.add<DistributeAcquire, DistributeRelease, DistributeFill,
               DistributeBulkCopy>(converter, patterns.getContext(), context);
}
