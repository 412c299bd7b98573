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
// slot.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

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

void mlir::fcgpu::waitForPhase(IndexBuilder &b, Value barrier, Value parity) {
  // How long the hardware may sleep between two looks, in nanoseconds.
  constexpr int32_t ticks = 10'000'000;
  NVVM::MBarrierTryWaitParityOp::create(
      b, barrier, parity,
      arith::ConstantOp::create(b, b.getI32IntegerAttr(ticks)));
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
  waitForPhase(b, barrier,
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

SmallVector<Value> mlir::fcgpu::getBoxStart(IndexBuilder &b,
                                            ValueRange coordinates) {
  SmallVector<Value> box;
  for (Value coordinate : llvm::reverse(coordinates))
    box.push_back(asI32(b, coordinate));
  return box;
}

static Value getI32(IndexBuilder &b, int64_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
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

/// The argument that is the tensor map of the tensor that argument `pointer`
/// points to, with boxes of `rows` rows of a panel of `ring`.
static std::optional<unsigned> findTensorMapArgument(gpu::GPUFuncOp kernel,
                                                     unsigned pointer,
                                                     RingType ring,
                                                     int64_t rows) {
  auto description = kernel->getAttrOfType<DictionaryAttr>(kKernelAttrName);
  auto arguments =
      description ? description.getAs<ArrayAttr>("arguments") : ArrayAttr();
  if (!arguments || pointer >= arguments.size())
    return std::nullopt;
  auto get = [&](size_t i, StringRef name) -> Attribute {
    auto entry = dyn_cast<DictionaryAttr>(arguments[i]);
    return entry ? entry.get(name) : Attribute();
  };
  Builder b(kernel.getContext());
  Attribute box = b.getI64ArrayAttr({1, 1, rows, ring.getPanelCols()});
  for (size_t i = 0; i < arguments.size(); ++i)
    if (get(i, "kind") == b.getStringAttr("tensor_map") &&
        get(i, "tensor") == get(pointer, "tensor") && get(i, "box") == box &&
        get(i, "swizzle") == b.getI64IntegerAttr(kPanelBytes))
      return i;
  return std::nullopt;
}

Value mlir::fcgpu::findTensorMap(IndexBuilder &b,
                                 ConversionPatternRewriter &rewriter,
                                 gpu::GPUFuncOp kernel, Value tensor,
                                 RingType ring, int64_t rows,
                                 MutableArrayRef<Value> coordinates) {
  for (;;) {
    if (auto cast = tensor.getDefiningOp<memref::CastOp>()) {
      tensor = cast.getSource();
      continue;
    }
    auto view = tensor.getDefiningOp<memref::SubViewOp>();
    if (!view)
      break;
    if (view.getType().getRank() != static_cast<int64_t>(coordinates.size()))
      return {};
    for (auto [coordinate, offset] :
         llvm::zip_equal(coordinates, view.getMixedOffsets())) {
      if (auto constant = getConstantIntValue(offset)) {
        coordinate = b.add(coordinate, *constant);
        continue;
      }
      Value value = cast<Value>(offset);
      Value remapped = rewriter.getRemappedValue(value);
      coordinate = b.add(coordinate, remapped ? remapped : value);
    }
    tensor = view.getSource();
  }
  auto root = tensor.getDefiningOp<memref::ReinterpretCastOp>();
  auto pointer =
      root ? dyn_cast<BlockArgument>(root.getSource()) : BlockArgument();
  if (!pointer || pointer.getOwner() != &kernel.getBody().front())
    return {};
  std::optional<unsigned> map =
      findTensorMapArgument(kernel, pointer.getArgNumber(), ring, rows);
  return map ? Value(kernel.getArgument(*map)) : Value();
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
    waitForPhase(b,
                 getRingBarrier(b, thread, op.getRing(), op.getSide(),
                                getSlot(b, ring, tile)),
                 asI32(b, phase));
    rewriter.eraseOp(op);
    return success();
  }
};

/// One lane of each warp says so.
struct DistributeRelease final : ThreadPattern<ReleaseOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    Value slot = getSlot(b, op.getRing().getType(), adaptor.getTile().front());
    Value barrier =
        getRingBarrier(b, thread, op.getRing(), RingSide::Fill, slot);
    runInFirstLane(b, thread, [&] {
      NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier,
                                     /*count=*/Value(), NVVM::MemScopeKind::CTA,
                                     /*relaxed=*/false);
    });
    rewriter.eraseOp(op);
    return success();
  }
};

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
      Value offset =
          b.add(b.mul(slot, ring.getSlotElements() * bytesOfElement),
                b.add(b.mul(row, kPanelBytes), first * rows * bytesOfElement));
      // The swizzle of panels (see !fcgpu.ring).
      constexpr int64_t swizzledRows = 8;
      Value chunk = b.bitXor(b.rem(number, chunks), b.rem(row, swizzledRows));
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

/// A tile as boxes of the tensor that its source is a part of.
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
    IndexBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> coordinates;
    for (ValueRange index : adaptor.getIndices())
      coordinates.push_back(index.front());
    Value map =
        findTensorMap(b, rewriter, op->getParentOfType<gpu::GPUFuncOp>(),
                      op.getSource(), ring, ring.getRows(), coordinates);
    if (!map)
      return rewriter.notifyMatchFailure(
          op, "copies from a tensor of which the kernel has no tensor map with "
              "boxes of a panel");
    const flashcore::CopyAtom &atom = *findFillAtom(*thread.target, ring);
    thread.use(atom);
    copyPanels(b, op, adaptor, map, coordinates, atom.bytes);
    rewriter.eraseOp(op);
    return success();
  }

private:
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

  /// Copies boxes of `rowBytes` bytes of each row.
  void copyPanels(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor,
                  Value map, MutableArrayRef<Value> coordinates,
                  int64_t rowBytes) const {
    RingType ring = op.getRing().getType();
    Value tile = adaptor.getTile().front();
    Value barrier = getRingBarrier(b, thread, op.getRing(), RingSide::Read,
                                   getSlot(b, ring, tile));
    NVVM::MBarrierArriveExpectTxOp::create(
        b, Type(), barrier, getI32(b, getCopiedBytes(op)),
        NVVM::MemScopeKind::CTA,
        /*relaxed=*/false, /*predicate=*/Value());
    Value start = getSlotAddress(b, adaptor.getRing().front(), ring, tile);
    Value firstCol = coordinates.back();
    int64_t boxCols = rowBytes / ring.getElementBytes();
    for (int64_t col = 0; col < getCopiedCols(op); col += boxCols) {
      coordinates.back() = b.add(firstCol, col);
      SmallVector<Value> box = getBoxStart(b, coordinates);
      int64_t offset = col * ring.getRows() * ring.getElementBytes();
      constexpr unsigned clusterSpace = 7;
      Value target = LLVM::AddrSpaceCastOp::create(
          b, LLVM::LLVMPointerType::get(b.getContext(), clusterSpace),
          asSharedPointer(b, b.add(start, offset)));
      NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
          b, target, map, box, barrier,
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
