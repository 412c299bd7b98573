//===- DistributeMemory.cpp - Rings, copies and results to lanes ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Patterns for everything that touches memory. A ring address is the slot, then
// the row, then the swizzled 16-byte chunk (see `!fcgpu.ring`). It is built in
// three steps: a lane's place in any slot, which no loop changes; then the
// slot; then a constant, which fits the instruction. From a single sum LLVM
// hoists the constants, each into a register of its own.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// 16-bit elements of a 16-byte chunk.
constexpr int64_t kChunk = 8;
/// Columns of 16 bytes that a lane stores at once, and lanes of a row of cores.
constexpr int64_t kWide = 8, kQuad = 4;
/// Rows after which the swizzle repeats.
constexpr int64_t kSwizzleRows = 8;

/// The slot of one tile.
class Slot {
public:
  /// `ring` is the view that stands for a ring of this type.
  Slot(IndexBuilder &b, Value ring, RingType type, Value tile)
      : b(b), ring(ring.getDefiningOp<memref::ViewOp>()), type(type) {
    if (type.getStages() > 1)
      start = b.mul(b.rem(tile, type.getStages()),
                    type.getSlotElements() * kElementBytes);
  }

  /// The elements of the slot from element `place` on.
  Value from(Value place) {
    int64_t elements = type.getSlotElements();
    Value shift = b.add(ring.getByteShift(), b.mul(place, kElementBytes));
    if (!start)
      return view(ring.getSource(), shift, type.getElementType(), elements);
    Value inFirst =
        view(ring.getSource(), shift, b.getI8Type(), type.getSizeInBytes());
    return view(inFirst, start, type.getElementType(), elements);
  }

private:
  static constexpr int64_t kElementBytes = 2;

  Value view(Value bytes, Value shift, Type element, int64_t count) {
    auto viewType =
        MemRefType::get({count}, element, MemRefLayoutAttrInterface(),
                        cast<MemRefType>(bytes.getType()).getMemorySpace());
    return memref::ViewOp::create(b, viewType, bytes, shift, ValueRange());
  }

  IndexBuilder &b;
  memref::ViewOp ring;
  RingType type;
  Value start; ///< in bytes; null if there is only one slot
};

/// The row-dependent half of the swizzle: what is xored to a chunk number in
/// row `row` (see swizzleChunk).
Value getSwizzleMask(IndexBuilder &b, Value row, int64_t cols) {
  int64_t group = getSwizzleGroup(cols);
  return b.rem(b.div(row, kSwizzleRows / group), group);
}

/// The element of a slot at which chunk `chunk` of row `row` begins.
Value getPlace(IndexBuilder &b, Value row, Value chunk, int64_t cols) {
  Value mask = getSwizzleMask(b, row, cols);
  return b.add(b.mul(row, cols), b.mul(b.bitXor(chunk, mask), kChunk));
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
    Slot slot(b, adaptor.getRing().front(), ring, adaptor.getTile().front());

    for (int64_t done = 0; done < rows; done += rowsPerPass) {
      OpBuilder::InsertionGuard guard(b);
      if (done + rowsPerPass > rows) { // more threads than rows are left
        Value isRow = b.lessThan(b.add(firstRow, done), b.index(rows));
        b.setInsertionPointToStart(
            scf::IfOp::create(b, isRow, /*withElseRegion=*/false).thenBlock());
      }
      copyRow(b, op, adaptor, slot, firstRow, done, firstChunk, threadsPerRow);
    }
  }

  /// How many elements of a chunk in row `row` to read, or null for all: rows
  /// past the end read nothing and are filled with zeros; so may be all rows of
  /// a copy whose predicate is false.
  Value getNumElements(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor,
                       Value row) const {
    Value exists;
    if (op.getPredicate() && op.getZeroFill())
      exists = adaptor.getPredicate().front();
    if (!op.getInBounds()) {
      Value source = adaptor.getSource().front();
      int64_t rowAxis = cast<MemRefType>(source.getType()).getRank() - 2;
      Value isRow = b.lessThan(row, memref::DimOp::create(b, source, rowAxis));
      exists =
          exists ? arith::AndIOp::create(b, isRow, exists).getResult() : isRow;
    }
    if (!exists)
      return {};
    return arith::SelectOp::create(b, exists, b.index(kChunk), b.index(0));
  }

  /// Copies chunks `firstChunk`, `firstChunk` + step, ... of row
  /// `firstRow` + done.
  void copyRow(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor, Slot &slot,
               Value firstRow, int64_t done, Value firstChunk,
               int64_t step) const {
    RingType ring = op.getRing().getType();
    Value source = adaptor.getSource().front();
    auto sourceType = cast<MemRefType>(source.getType());
    int64_t rowAxis = sourceType.getRank() - 2;
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    Value firstCol = indices.back();
    indices[rowAxis] = b.add(indices[rowAxis], b.add(firstRow, done));

    Value elements = getNumElements(b, op, adaptor, indices[rowAxis]);
    auto token = nvgpu::DeviceAsyncTokenType::get(op.getContext());
    int64_t cols = ring.getCols(), chunks = cols / kChunk;
    for (int64_t c = 0; c < chunks; c += step) {
      Value chunk = b.add(firstChunk, c);
      OpBuilder::InsertionGuard guard(b);
      if (c + step > chunks) { // more threads than chunks are left
        auto ifOp = scf::IfOp::create(b, b.lessThan(chunk, b.index(chunks)),
                                      /*withElseRegion=*/false);
        b.setInsertionPointToStart(ifOp.thenBlock());
      }
      indices[rowAxis + 1] = b.add(firstCol, b.mul(chunk, kChunk));
      // What leaves the swizzle as it is is the constant.
      int64_t row = done % kSwizzleRows, col = c % getSwizzleGroup(cols);
      Value target = slot.from(
          getPlace(b, b.add(firstRow, row), b.add(firstChunk, col), cols));
      nvgpu::DeviceAsyncCopyOp::create(
          b, token, target, b.index((done - row) * cols + (c - col) * kChunk),
          source, indices, b.getIndexAttr(kChunk), elements,
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

/// A tile as ldmatrix.x4, which fills four registers in a row from the cores
/// whose rows the lanes 0-7, 8-15, 16-23 and 24-31 name. An operand of mma.sync
/// takes neighbouring registers, so the cores that one operand consists of come
/// next to each other: (r, c), (r+1, c), (r, c+1), (r+1, c+1) as a rule, but
/// (r, c), (r, c+1), (r+1, c), (r+1, c+1) for the B operand stored (n, k).
/// Where only one column of cores is left, ldmatrix.x2 takes (r, c), (r+1, c)
/// from the addresses of the lanes 0-15.
struct DistributeRead final : ThreadPattern<ReadOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto layout = op->getAttrOfType<FragmentAttr>(kLayoutAttrName);
    if (!layout)
      return rewriter.notifyMatchFailure(op, "has no layout");
    bool transpose = layout.getOrder() == FragmentOrder::Column;
    bool columnsFirst = isStoredNK(op.getResult());
    RingType ring = op.getRing().getType();
    int64_t cols = ring.getCols(), group = getSwizzleGroup(cols);
    IndexBuilder b(op.getLoc(), rewriter);

    Slot slot(b, adaptor.getRing().front(), ring, adaptor.getTile().front());
    Value half = b.div(thread.lane, 2 * kCore);
    Value place = getPlace(b, b.rem(thread.lane, 2 * kCore), half, cols);
    Value turnedPlace = place;
    if (columnsFirst)
      turnedPlace =
          getPlace(b, b.add(b.rem(thread.lane, kCore), b.mul(half, kCore)),
                   b.rem(b.div(thread.lane, kCore), 2), cols);
    DenseMap<int64_t, Value> places;
    auto getAddress = [&](bool turns, int64_t low) {
      Value &address = places[2 * low + turns];
      if (!address) {
        Value start = turns ? turnedPlace : place;
        address =
            slot.from(low ? b.bitXor(start, b.index(low * kChunk)) : start);
      }
      return address;
    };

    int64_t coreRows = ring.getRows() / kCore;
    int64_t firstCore = op.getColumn() / kCore;
    int64_t coreCols = cast<VectorType>(op.getType()).getDimSize(1) / kCore;
    SmallVector<Value> cores(coreRows * coreCols);
    for (int64_t r = 0; r < coreRows; r += 2)
      for (int64_t c = 0; c < coreCols; c += 2) {
        // Of chunk n = first + c: (n + hi) ^ mask = (n - low) + (low ^ hi ^
        // mask), low = n mod group: n is even, hi is 0 or 1, and mask < group;
        // group is even or 1.
        int64_t chunk = firstCore + c, low = chunk % group;
        int64_t count = c + 1 < coreCols ? 4 : 2;
        bool turns = columnsFirst && count == 4;
        auto type = VectorType::get({count, 2}, ring.getElementType());
        Value matrices = nvgpu::LdMatrixOp::create(
            b, type, getAddress(turns, low),
            ValueRange{b.index(r * kCore * cols + (chunk - low) * kChunk)},
            transpose, static_cast<uint32_t>(count));
        for (int64_t i = 0; i < count; ++i)
          cores[(r + (turns ? i / 2 : i % 2)) * coreCols + c +
                (turns ? i % 2 : i / 2)] =
              vector::ExtractOp::create(b, matrices, i);
      }
    rewriter.replaceOpWithMultiple(op, {cores});
    return success();
  }

  /// Whether the tile is the right operand of a product whose k index runs
  /// along its rows.
  static bool isStoredNK(Value tile) {
    return llvm::any_of(tile.getUsers(), [&](Operation *user) {
      auto contract = dyn_cast<vector::ContractionOp>(user);
      return contract && contract.getRhs() == tile && !isColumnOrder(tile);
    });
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
    bool coversTarget = target.getDimSize(rowAxis) == type.getDimSize(0) &&
                        getConstantIntValue(op.getIndices()[rowAxis]) == 0;
    bool checkRows = !op.isDimInBounds(0) && !coversTarget;
    bool isRowVector = type.getRank() == 1;
    ValueRange parts = adaptor.getValueToStore();
    int64_t numRows = type.getDimSize(0) / kCore;
    int64_t perRow = parts.size() / numRows;
    for (int64_t r = 0; r < numRows; ++r) {
      OpBuilder::InsertionGuard guard(b);
      indices[rowAxis] = b.add(row, r * kCore);
      // Lanes whose row does not exist hand on what they hold, too.
      SmallVector<Value> rowParts(parts.slice(r * perRow, perRow));
      int64_t width = isRowVector ? 1 : getWidth(op.getVector());
      size_t numWide = width == kWide ? rowParts.size() : 0;
      if (!isRowVector && width == 2 && type.getElementTypeBitWidth() == 16) {
        numWide = llvm::alignDown(rowParts.size(), kQuad);
        for (size_t first = 0; first < numWide; first += kQuad)
          transposeQuad(b, MutableArrayRef(rowParts).slice(first, kQuad));
      }
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
        memref::StoreOp::create(b, rowParts.front(), memref, indices);
      else
        storeRow(b, rowParts, numWide, memref, indices);
    }
    rewriter.eraseOp(op);
    return success();
  }

  static int64_t getWidth(Value tile) {
    FragmentAttr layout = getLayout(tile);
    return layout ? layout.getWidth() : 2;
  }

  /// The lanes of a quad hold two columns each of four cores; afterwards lane q
  /// holds the row of core q.
  void transposeQuad(IndexBuilder &b, MutableArrayRef<Value> parts) const {
    SmallVector<Value> words;
    for (Value part : parts)
      words.push_back(toWord(b, part));
    for (int32_t distance : {1, 2}) {
      Value bit = b.rem(b.div(thread.lane, distance), 2);
      Value isUpper =
          arith::CmpIOp::create(b, arith::CmpIPredicate::ne, bit, b.index(0));
      for (int32_t i = 0; i < kQuad; ++i) {
        if (i & distance)
          continue;
        Value &low = words[i], &high = words[i | distance];
        Value given = arith::SelectOp::create(b, isUpper, low, high);
        Value taken = gpu::ShuffleOp::create(b, given, distance, /*width=*/32,
                                             gpu::ShuffleMode::XOR)
                          .getShuffleResult();
        low = arith::SelectOp::create(b, isUpper, taken, low);
        high = arith::SelectOp::create(b, isUpper, high, taken);
      }
    }
    for (auto [part, word] : llvm::zip_equal(parts, words))
      part = fromWord(b, word, cast<VectorType>(part.getType()));
  }
  static Value toWord(IndexBuilder &b, Value pair) {
    auto type = VectorType::get({1}, b.getI32Type());
    return vector::ExtractOp::create(
        b, vector::BitCastOp::create(b, type, pair), 0);
  }
  static Value fromWord(IndexBuilder &b, Value word, VectorType type) {
    auto words = VectorType::get({1}, b.getI32Type());
    return vector::BitCastOp::create(
        b, type, vector::FromElementsOp::create(b, words, word));
  }

  /// Stores what the lane holds of one row: of the first `numWide` parts
  /// kWide columns at a time, of the others one part at a time.
  void storeRow(IndexBuilder &b, ArrayRef<Value> parts, size_t numWide,
                Value memref, SmallVector<Value> indices) const {
    Value col = indices.back(), lane = b.rem(thread.lane, kQuad);
    auto type = cast<VectorType>(parts.front().getType());
    for (size_t first = 0; first < parts.size();) {
      size_t count = first < numWide ? kWide / type.getNumElements() : 1;
      int64_t width = count * type.getNumElements();
      indices.back() = b.add(b.add(col, b.mul(lane, width)), first * kCore);
      vector::StoreOp::create(
          b, concatenate(b, parts.slice(first, count)), memref, indices,
          /*nontemporal=*/false,
          llvm::MaybeAlign(width * type.getElementTypeBitWidth() / 8));
      first += count;
    }
  }

  /// The vectors, 1, 2 or 4 of them, as one.
  static Value concatenate(IndexBuilder &b, ArrayRef<Value> vectors) {
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
