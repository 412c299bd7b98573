//===- DistributeMemory.cpp - Rings, copies and results to lanes ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Patterns for everything that touches memory. Ring addresses are elements of a
// rank-1 memref: slot, then row, then the swizzled 16-byte chunk (see
// `!fcgpu.ring`). What does not depend on the loop is written so that LLVM can
// hoist it: a lane's part, xor a constant, plus a constant, plus the slot.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// 16-bit elements of a 16-byte chunk.
constexpr int64_t kChunk = 8;

/// First element of the slot that holds `tile`.
Value getSlotStart(IndexBuilder &b, RingType ring, Value tile) {
  if (ring.getStages() == 1)
    return b.index(0);
  return b.mul(b.rem(tile, ring.getStages()), ring.getSlotElements());
}

/// The row-dependent half of the swizzle: what is xored to a chunk number in
/// row `row` (see swizzleChunk).
Value getSwizzleMask(IndexBuilder &b, Value row, int64_t cols) {
  int64_t group = getSwizzleGroup(cols);
  return b.rem(b.div(row, 8 / group), group);
}

struct DistributeAllocRing final : ThreadPattern<AllocRingOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(AllocRingOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto type = cast<MemRefType>(
        getTypeConverter()->convertType(op.getRing().getType()));
    IndexBuilder b(op.getLoc(), rewriter);
    int64_t constant = thread.ringOffsets.lookup(op.getRing());
    Value offset = op.getScope() == CopyScope::Warp
                       ? b.add(thread.warpOffset, constant)
                       : b.index(constant);
    rewriter.replaceOpWithNewOp<memref::ViewOp>(op, type, thread.sharedMemory,
                                                offset, ValueRange());
    return success();
  }
};

/// A tile copy as 16-byte cp.async, spread over the threads so that neighbours
/// copy neighbouring chunks of a row.
struct DistributeCopy final : ThreadPattern<CopyOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    IndexBuilder b(op.getLoc(), rewriter);
    if (op.getPredicate() && !op.getZeroFill()) {
      auto ifOp = scf::IfOp::create(b, adaptor.getPredicate().front(),
                                    /*withElseRegion=*/false);
      b.setInsertionPointToStart(ifOp.thenBlock());
    }
    copyTile(b, op, adaptor);
    rewriter.eraseOp(op);
    return success();
  }

  void copyTile(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor) const {
    RingType ring = op.getRing().getType();
    int64_t rows = ring.getRows(), chunks = ring.getCols() / kChunk;
    bool byBlock = op.getScope() == CopyScope::Block;
    int64_t numThreads = byBlock ? thread.numThreads : 32;
    Value id = byBlock ? thread.thread : thread.lane;
    // Threads of a row: the largest power of two that divides its chunks, so
    // that none is idle. But neighbours must share the 32-byte sectors of a row
    // of oddly many chunks.
    int64_t threadsPerRow = std::min(chunks & -chunks, numThreads);
    if (threadsPerRow == 1)
      threadsPerRow =
          std::min<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(chunks)), 8);
    int64_t rowsPerPass = numThreads / threadsPerRow;
    Value firstRow = b.div(id, threadsPerRow);
    Value firstChunk = b.rem(id, threadsPerRow);
    Value slot = getSlotStart(b, ring, adaptor.getTile().front());

    for (int64_t done = 0; done < rows; done += rowsPerPass) {
      Value row = b.add(firstRow, done);
      OpBuilder::InsertionGuard guard(b);
      if (done + rowsPerPass > rows) { // more threads than rows are left
        auto ifOp = scf::IfOp::create(b, b.lessThan(row, b.index(rows)),
                                      /*withElseRegion=*/false);
        b.setInsertionPointToStart(ifOp.thenBlock());
      }
      copyRow(b, op, adaptor, slot, row, firstChunk, threadsPerRow);
    }
  }

  /// Copies chunks `firstChunk`, `firstChunk` + step, ... of one row.
  void copyRow(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor, Value slot,
               Value row, Value firstChunk, int64_t step) const {
    RingType ring = op.getRing().getType();
    Value source = adaptor.getSource().front();
    auto sourceType = cast<MemRefType>(source.getType());
    int64_t rowAxis = sourceType.getRank() - 2;
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    Value firstCol = indices.back();
    indices[rowAxis] = b.add(indices[rowAxis], row);

    // Rows past the end read nothing and are filled with zeros; so may be all
    // rows of a copy whose predicate is false.
    Value numRows = memref::DimOp::create(b, source, rowAxis);
    Value exists = b.lessThan(indices[rowAxis], numRows);
    if (op.getPredicate() && op.getZeroFill())
      exists = arith::AndIOp::create(b, exists, adaptor.getPredicate().front());
    Value elements =
        arith::SelectOp::create(b, exists, b.index(kChunk), b.index(0));
    Value mask = getSwizzleMask(b, row, ring.getCols());
    Value rowStart = b.add(slot, b.mul(row, ring.getCols()));
    auto token = nvgpu::DeviceAsyncTokenType::get(op.getContext());
    int64_t chunks = ring.getCols() / kChunk;
    for (int64_t c = 0; c < chunks; c += step) {
      Value chunk = b.add(firstChunk, c);
      OpBuilder::InsertionGuard guard(b);
      if (c + step > chunks) { // more threads than chunks are left
        auto ifOp = scf::IfOp::create(b, b.lessThan(chunk, b.index(chunks)),
                                      /*withElseRegion=*/false);
        b.setInsertionPointToStart(ifOp.thenBlock());
      }
      indices[rowAxis + 1] = b.add(firstCol, b.mul(chunk, kChunk));
      Value target = b.add(rowStart, b.mul(b.bitXor(chunk, mask), kChunk));
      nvgpu::DeviceAsyncCopyOp::create(b, token, adaptor.getRing().front(),
                                       ValueRange{target}, source, indices,
                                       b.getIndexAttr(kChunk), elements,
                                       /*bypassL1=*/b.getUnitAttr());
    }
  }
};

struct DistributeCommit final : OpConversionPattern<CommitCopiesOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(CommitCopiesOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncCommitGroupOp>(op);
    return success();
  }
};

struct DistributeWait final : OpConversionPattern<WaitCopiesOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult
  matchAndRewrite(WaitCopiesOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncWaitGroupOp>(
        op, static_cast<int32_t>(op.getInFlight()));
    return success();
  }
};

/// A tile as ldmatrix.x4: lanes 0-7, 8-15, 16-23, 24-31 name the rows of the
/// cores (r, c), (r+1, c), (r, c+1), (r+1, c+1). Where only one column of cores
/// is left, ldmatrix.x2 takes the first two, from the addresses of the lanes
/// 0-15.
struct DistributeRead final : ThreadPattern<ReadOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto layout = op->getAttrOfType<FragmentAttr>(kLayoutAttrName);
    if (!layout)
      return rewriter.notifyMatchFailure(op, "has no layout");
    bool transpose = layout.getOrder() == FragmentOrder::Column;
    RingType ring = op.getRing().getType();
    int64_t cols = ring.getCols(), group = getSwizzleGroup(cols);
    IndexBuilder b(op.getLoc(), rewriter);

    // The mask repeats every eight rows, so it depends on the lane alone.
    Value row = b.rem(thread.lane, 2 * kCore);
    Value mask = getSwizzleMask(b, b.rem(thread.lane, kCore), cols);
    Value lanePart =
        b.add(b.mul(row, cols),
              b.mul(b.bitXor(b.div(thread.lane, 2 * kCore), mask), kChunk));
    Value slot = getSlotStart(b, ring, adaptor.getTile().front());

    int64_t coreRows = ring.getRows() / kCore, coreCols = cols / kCore;
    SmallVector<Value> cores(coreRows * coreCols);
    for (int64_t r = 0; r < coreRows; r += 2)
      for (int64_t c = 0; c < coreCols; c += 2) {
        // (c + hi) ^ mask = (c - low) + (low ^ hi ^ mask), low = c mod group:
        // c is even, hi is 0 or 1, and mask < group; group is even or 1.
        int64_t low = c % group;
        Value index =
            low ? b.bitXor(lanePart, b.index(low * kChunk)) : lanePart;
        index =
            b.add(b.add(slot, index), r * kCore * cols + (c - low) * kChunk);
        int64_t count = c + 1 < coreCols ? 4 : 2;
        auto type = VectorType::get({count, 2}, ring.getElementType());
        Value matrices = nvgpu::LdMatrixOp::create(
            b, type, adaptor.getRing().front(), ValueRange{index}, transpose,
            static_cast<uint32_t>(count));
        for (int64_t i = 0; i < count; ++i)
          cores[(r + i % 2) * coreCols + c + i / 2] =
              vector::ExtractOp::create(b, matrices, i);
      }
    rewriter.replaceOpWithMultiple(op, {cores});
    return success();
  }
};

/// A result tile (or row vector): each lane stores what it holds of the rows
/// that exist.
struct DistributeWrite final : ThreadPattern<vector::TransferWriteOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::TransferWriteOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getVectorType();
    auto target = dyn_cast<MemRefType>(op.getBase().getType());
    if (!target || !op.getPermutationMap().isMinorIdentity() || op.getMask())
      return rewriter.notifyMatchFailure(op, "is not a plain memref write");
    bool hasColumns = type.getRank() == 1 || op.isDimInBounds(1) ||
                      target.getShape().back() == type.getShape().back();
    if (type.getRank() > 1 && (isColumnOrder(op.getVector()) || !hasColumns))
      return rewriter.notifyMatchFailure(
          op, "writes a tile in column order, or columns that may not exist");
    IndexBuilder b(op.getLoc(), rewriter);
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    int64_t rowAxis = target.getRank() - type.getRank();
    Value memref = adaptor.getBase().front();
    Value row = b.add(indices[rowAxis], b.div(thread.lane, 4));
    bool checkRows = op.isDimInBounds(0) == false &&
                     target.getDimSize(rowAxis) != type.getDimSize(0);
    bool isRowVector = type.getRank() == 1;
    ValueRange parts = adaptor.getValueToStore();
    int64_t numRows = type.getDimSize(0) / kCore;
    int64_t perRow = parts.size() / numRows;
    for (int64_t r = 0; r < numRows; ++r) {
      OpBuilder::InsertionGuard guard(b);
      indices[rowAxis] = b.add(row, r * kCore);
      Value stores;
      if (checkRows)
        stores = b.lessThan(indices[rowAxis],
                            memref::DimOp::create(b, memref, rowAxis));
      if (isRowVector) {
        // All four lanes of a quad hold the row's value; the first stores it.
        Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                            b.rem(thread.lane, 4), b.index(0));
        stores = stores ? arith::AndIOp::create(b, stores, first).getResult()
                        : first;
      }
      if (stores)
        b.setInsertionPointToStart(
            scf::IfOp::create(b, stores, /*withElseRegion=*/false).thenBlock());
      if (isRowVector)
        memref::StoreOp::create(b, parts[r], memref, indices);
      else
        storeRow(b, parts.slice(r * perRow, perRow), getWidth(op.getVector()),
                 memref, indices);
    }
    rewriter.eraseOp(op);
    return success();
  }

  static int64_t getWidth(Value tile) {
    FragmentAttr layout = getLayout(tile);
    return layout ? layout.getWidth() : 2;
  }

  /// Stores what the lane holds of one row: `width` elements at a time, which
  /// are as many columns next to each other.
  void storeRow(IndexBuilder &b, ValueRange parts, int64_t width, Value memref,
                SmallVector<Value> indices) const {
    Value col = b.add(indices.back(), b.mul(b.rem(thread.lane, 4), width));
    auto type = cast<VectorType>(parts.front().getType());
    unsigned bytes = width * type.getElementTypeBitWidth() / 8;
    size_t count = width / type.getNumElements();
    for (size_t first = 0; first < parts.size(); first += count) {
      indices.back() = b.add(col, first * kCore);
      vector::StoreOp::create(b, concatenate(b, parts.slice(first, count)),
                              memref, indices, /*nontemporal=*/false,
                              llvm::MaybeAlign(bytes));
    }
  }

  /// The vectors, 1, 2 or 4 of them, as one.
  static Value concatenate(IndexBuilder &b, ValueRange vectors) {
    SmallVector<Value> level(vectors);
    while (level.size() > 1) {
      int64_t size = cast<VectorType>(level.front().getType()).getNumElements();
      SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(2 * size));
      SmallVector<Value> next;
      for (size_t i = 0; i < level.size(); i += 2)
        next.push_back(
            vector::ShuffleOp::create(b, level[i], level[i + 1], all));
      level = std::move(next);
    }
    return level.front();
  }
};
} // namespace

void mlir::fcgpu::populateMemoryPatterns(const TileTypeConverter &converter,
                                         const ThreadContext &context,
                                         RewritePatternSet &patterns) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<DistributeCommit, DistributeWait>(converter, ctx);
  patterns.add<DistributeAllocRing, DistributeCopy, DistributeRead,
               DistributeWrite>(converter, ctx, context);
}
