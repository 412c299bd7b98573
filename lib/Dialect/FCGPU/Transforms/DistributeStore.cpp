//===- DistributeStore.cpp - Results by way of slots ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each warp has 16 of the 64 rows of a slot for itself: it writes them by
// stmatrix, whose matrices are the cores of an accumulator, and one of its
// lanes lets bulk copies take them, boxes of a panel. So no warp waits for
// another, and what a warp waits for is that lane.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

void mlir::fcgpu::syncWarp(IndexBuilder &b) {
  NVVM::SyncWarpOp::create(
      b, arith::ConstantOp::create(b, b.getI32IntegerAttr(-1)));
}

/// What all earlier copies of the lane have done: read their slots or, too,
/// written their results.
static void awaitCopies(IndexBuilder &b, const ThreadContext &thread,
                        bool untilRead) {
  runInFirstLane(b, thread, [&] {
    NVVM::CpAsyncBulkWaitGroupOp::create(
        b, b.getI32IntegerAttr(0), untilRead ? b.getUnitAttr() : UnitAttr());
  });
}

namespace {
struct DistributeStore final : ThreadPattern<StoreOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RingType ring = op.getRing().getType();
    auto type = cast<VectorType>(op.getValue().getType());
    const TileLayout *layout = thread.layouts->lookup(op.getValue());
    auto atoms = flashcore::findMmaAtoms(
        *thread.target, flashcore::OperandPlace::SharedMemory,
        flashcore::ElementKind::F16, flashcore::ElementKind::F32);
    if (!layout || atoms.empty() || *layout != atoms.front()->acc.getCore())
      return rewriter.notifyMatchFailure(op, "is no result of warpgroups");
    IndexBuilder b(op.getLoc(), rewriter);
    Value firstRow = b.mul(thread.warpOfHolder, kRowsOfWarp);
    SmallVector<Value> coordinates;
    for (ValueRange index : adaptor.getIndices())
      coordinates.push_back(index.front());
    size_t rowAxis = coordinates.size() - 2;
    coordinates[rowAxis] = b.add(coordinates[rowAxis], firstRow);
    std::optional<BoxSource> target =
        BoxSource::find(op->getParentOfType<gpu::GPUFuncOp>(), op.getTarget(),
                        ring, kRowsOfWarp);
    if (!target)
      return rewriter.notifyMatchFailure(
          op, "stores to a tensor of which the kernel has no tensor map with "
              "boxes of a warp's rows");
    Value slot = getSlotAddress(b, adaptor.getRing().front(), ring,
                                adaptor.getTile().front());
    Value rows = b.add(slot, b.mul(firstRow, kPanelBytes));
    // A walk that is done again must not be overtaken by the first one.
    awaitCopies(b, thread, /*untilRead=*/false);
    syncWarp(b);
    writeRows(b, ring, rows, TileRegisters(*layout, type), adaptor.getValue());
    fenceAsyncProxy(b);
    syncWarp(b);
    TensorBox box = target->isRagged()
                        ? target->getRaggedBox(b, rewriter, coordinates)
                        : target->getBox(b, rewriter, coordinates);
    runInFirstLane(b, thread, [&] {
      if (box.isInside)
        b.setInsertionPointToStart(
            scf::IfOp::create(b, box.isInside, /*withElseRegion=*/false)
                .thenBlock());
      startCopies(b, ring, rows, box);
    });
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// stmatrix writes matrix i from register i; lanes 8 i to 8 i + 7 have the
  /// addresses of its rows. Up to four: two rows of cores, two columns.
  void writeRows(IndexBuilder &b, RingType ring, Value rows,
                 const TileRegisters &registers, ValueRange parts) const {
    thread.use(*flashcore::findCopyAtom(*thread.target,
                                        flashcore::CopyRoute::RegistersToShared,
                                        flashcore::CopyCompletion::Immediate));
    Value inCore = b.rem(thread.lane, kCore), core = b.div(thread.lane, kCore);
    Value row = b.add(inCore, b.mul(b.rem(core, 2), kCore));
    // Chunk c of a row lies at c xor (row mod 8); of c = 2 n + high, n is a
    // constant.
    Value swizzled = b.bitXor(b.div(core, 2), inCore);
    Value start = b.add(rows, b.mul(row, kPanelBytes));
    int64_t chunks = ring.getCols() / kCore;
    int64_t chunksOfPanel = ring.getPanelCols() / kCore;
    for (int64_t chunk = 0; chunk < chunks; chunk += 2) {
      Value place = b.bitXor(swizzled, b.index(chunk % chunksOfPanel));
      int64_t panel = chunk / chunksOfPanel * ring.getRows() * kPanelBytes;
      Value address = b.add(b.add(start, b.mul(place, kChunkBytes)), panel);
      SmallVector<Value> matrices;
      for (int64_t c = chunk; c < std::min(chunk + 2, chunks); ++c)
        for (int64_t r : {int64_t(0), kCore})
          matrices.push_back(
              asRegister(b, parts[registers.find({r, c * kCore}) / 2]));
      NVVM::StMatrixOp::create(
          b, asSharedPointer(b, address), matrices, NVVM::MMALayout::row,
          NVVM::LdStMatrixShapeAttr::get(b.getContext(), kCore, kCore),
          NVVM::LdStMatrixEltType::B16);
    }
  }

  /// The columns behind those of the tensor, up to a panel, are left out.
  void startCopies(IndexBuilder &b, RingType ring, Value rows,
                   const TensorBox &box) const {
    thread.use(*flashcore::findCopyAtom(*thread.target,
                                        flashcore::CopyRoute::SharedToGlobal,
                                        flashcore::CopyCompletion::Groups));
    for (int64_t col = 0; col < ring.getCols(); col += ring.getPanelCols()) {
      int64_t panel = col / ring.getPanelCols() * ring.getRows() * kPanelBytes;
      NVVM::CpAsyncBulkTensorSharedCTAToGlobalOp::create(
          b, box.map, asSharedPointer(b, b.add(rows, panel)),
          box.getStart(b, col),
          /*l2CacheHint=*/Value(), NVVM::TMAStoreMode::TILE,
          /*predicate=*/Value());
    }
    NVVM::CpAsyncBulkCommitGroupOp::create(b);
  }
};

struct DistributeAwaitStores final : ThreadPattern<AwaitStoresOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(AwaitStoresOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    awaitCopies(b, thread, /*untilRead=*/true);
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateStorePatterns(const TileTypeConverter &converter,
                                        const ThreadContext &context,
                                        RewritePatternSet &patterns) {
  patterns.add<DistributeStore, DistributeAwaitStores>(
      converter, patterns.getContext(), context);
}
