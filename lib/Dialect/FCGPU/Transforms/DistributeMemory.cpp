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
using flashcore::TileLayout;

namespace {
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
                    type.getSlotElements() * type.getElementBytes());
  }

  /// The elements of the slot from element `place` on.
  Value from(Value place) {
    int64_t elements = type.getSlotElements();
    Value shift =
        b.add(ring.getByteShift(), b.mul(place, type.getElementBytes()));
    if (!start)
      return view(ring.getSource(), shift, type.getElementType(), elements);
    Value inFirst =
        view(ring.getSource(), shift, b.getI8Type(), type.getSizeInBytes());
    return view(inFirst, start, type.getElementType(), elements);
  }

private:
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
Value getSwizzleMask(IndexBuilder &b, Value row, RingType ring) {
  int64_t group = getSwizzleGroup(ring.getRowChunks());
  return b.rem(b.div(row, kSwizzleRows / group), group);
}

/// The element of a slot at which chunk `chunk` of row `row` begins.
Value getPlace(IndexBuilder &b, Value row, Value chunk, RingType ring) {
  Value mask = getSwizzleMask(b, row, ring);
  return b.add(b.mul(row, ring.getCols()),
               b.mul(b.bitXor(chunk, mask), ring.getChunkCols()));
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

/// The rows that a copy reads: of a memref, or in the pages that a table names.
class CopiedRows {
public:
  /// `source` is what `op` copies from, behind all conversions.
  CopiedRows(CopyOp op, Value source)
      : source(source), view(op.getSource().getDefiningOp<ViewPagesOp>()),
        rows(op.getRing().getType().getRows()), isInBounds(op.getInBounds()) {}

  Value getMemref() { return view ? view.getPool() : source; }

  Value getNumRows(IndexBuilder &b) {
    if (view)
      return view.getRows();
    int64_t rowAxis = cast<MemRefType>(source.getType()).getRank() - 2;
    return memref::DimOp::create(b, source, rowAxis);
  }

  /// The place in the memref of what is `row` rows behind `corner` of a tile of
  /// the source.
  SmallVector<Value> locate(IndexBuilder &b, ArrayRef<Value> corner,
                            Value row) {
    SmallVector<Value> place(corner);
    Value &first = place[place.size() - 2];
    if (!view) {
      first = b.add(first, row);
      return place;
    }
    // What does not depend on the tile is for the compiler to see.
    int64_t pageSize = view.getPageSize(), step = view.getStep();
    Value entry, rowInPage;
    if (step % pageSize == 0) {
      entry = b.add(b.div(first, pageSize), b.div(row, pageSize));
      rowInPage = b.rem(row, pageSize);
    } else if (pageSize % step == 0 && rows <= step) {
      entry = b.div(first, pageSize);
      rowInPage = b.add(b.rem(first, pageSize), row);
    } else {
      Value whole = b.add(first, row);
      entry = b.div(whole, pageSize);
      rowInPage = b.rem(whole, pageSize);
    }
    Value page = memref::LoadOp::create(
        b, view.getTable(), ValueRange{b.index(0), getAsked(b, entry)});
    place[0] = arith::IndexCastOp::create(b, b.getIndexType(), page);
    first = rowInPage;
    return place;
  }

private:
  /// The entry, or the first one if no row that exists is in its page.
  Value getAsked(IndexBuilder &b, Value entry) {
    if (isInBounds)
      return entry;
    Value hasRows =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                              b.mul(entry, view.getPageSize()), view.getRows());
    return arith::SelectOp::create(b, hasRows, entry, b.index(0));
  }

  Value source;
  ViewPagesOp view;
  int64_t rows; ///< of a tile
  bool isInBounds;
};

/// A tile copy as 16-byte cp.async, spread over the threads so that neighbours
/// copy neighbouring chunks of a row.
struct DistributeCopy final : ThreadPattern<CopyOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getRing().getType().hasPanels())
      return rewriter.notifyMatchFailure(op, "is into a ring with panels");
    thread.use(*findFillAtom(*thread.target, op.getRing().getType()));
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
    int64_t rows = ring.getRows(), chunks = ring.getRowChunks();
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

  /// Whether row `row` is read, or null if it certainly is: rows past the end
  /// read nothing and are filled with zeros; so may be all rows of a copy whose
  /// predicate is false.
  Value getExists(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor,
                  CopiedRows &source, Value row) const {
    Value exists;
    if (op.getPredicate() && op.getZeroFill())
      exists = adaptor.getPredicate().front();
    if (!op.getInBounds()) {
      Value isRow = b.lessThan(row, source.getNumRows(b));
      exists =
          exists ? arith::AndIOp::create(b, isRow, exists).getResult() : isRow;
    }
    return exists;
  }

  /// Copies chunks `firstChunk`, `firstChunk` + step, ... of row
  /// `firstRow` + done.
  void copyRow(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor, Slot &slot,
               Value firstRow, int64_t done, Value firstChunk,
               int64_t step) const {
    RingType ring = op.getRing().getType();
    CopiedRows source(op, adaptor.getSource().front());
    SmallVector<Value> indices;
    for (ValueRange index : adaptor.getIndices())
      indices.push_back(index.front());
    size_t rowAxis = indices.size() - 2;
    Value firstCol = indices.back();
    Value row = b.add(firstRow, done);

    Value exists =
        getExists(b, op, adaptor, source, b.add(indices[rowAxis], row));
    indices = source.locate(b, indices, row);
    auto token = nvgpu::DeviceAsyncTokenType::get(op.getContext());
    int64_t cols = ring.getCols(), chunks = ring.getRowChunks();
    int64_t chunkCols =
        findFillAtom(*thread.target, ring)->bytes / ring.getElementBytes();
    Value elements;
    if (exists)
      elements =
          arith::SelectOp::create(b, exists, b.index(chunkCols), b.index(0));
    for (int64_t c = 0; c < chunks; c += step) {
      Value chunk = b.add(firstChunk, c);
      OpBuilder::InsertionGuard guard(b);
      if (c + step > chunks) { // more threads than chunks are left
        auto ifOp = scf::IfOp::create(b, b.lessThan(chunk, b.index(chunks)),
                                      /*withElseRegion=*/false);
        b.setInsertionPointToStart(ifOp.thenBlock());
      }
      indices[rowAxis + 1] = b.add(firstCol, b.mul(chunk, chunkCols));
      // What leaves the swizzle as it is is the constant.
      int64_t row = done % kSwizzleRows, col = c % getSwizzleGroup(chunks);
      Value target = slot.from(
          getPlace(b, b.add(firstRow, row), b.add(firstChunk, col), ring));
      nvgpu::DeviceAsyncCopyOp::create(
          b, token, target,
          b.index((done - row) * cols + (c - col) * chunkCols),
          source.getMemref(), indices, b.getIndexAttr(chunkCols), elements,
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

/// A tile as ldmatrix.x4, which fills four registers in a row from the cores,
/// eight rows of a chunk, whose rows the lanes 0-7, 8-15, 16-23 and 24-31 name.
/// An operand of mma.sync takes neighbouring registers, so the cores that one
/// operand consists of come next to each other: (r, c), (r+1, c), (r, c+1),
/// (r+1, c+1) as a rule, but (r, c), (r, c+1), (r+1, c), (r+1, c+1) for the B
/// operand stored (n, k). Where only one column of cores is left, ldmatrix.x2
/// takes (r, c), (r+1, c) from the addresses of the lanes 0-15.
struct DistributeRead final : ThreadPattern<ReadOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getInPlace() || op.getRing().getType().hasPanels())
      return rewriter.notifyMatchFailure(op, "is of a ring with panels");
    const TileLayout *layout = thread.layouts->lookup(op.getResult());
    const TileLayout &matrix = flashcore::getLdMatrixLayout();
    bool transpose = layout && *layout == matrix.transpose();
    if (!layout || (!transpose && *layout != matrix))
      return rewriter.notifyMatchFailure(op, "is not what ldmatrix loads");
    const flashcore::CopyAtom &atom = *findReadAtom(*thread.target);
    thread.use(atom);
    bool columnsFirst = !transpose && isRightOperand(op.getResult());
    RingType ring = op.getRing().getType();
    int64_t cols = ring.getCols();
    int64_t chunkCols = atom.bytes / ring.getElementBytes();
    int64_t group = getSwizzleGroup(ring.getRowChunks());
    IndexBuilder b(op.getLoc(), rewriter);
    Slot slot(b, adaptor.getRing().front(), ring, adaptor.getTile().front());
    Value half = b.div(thread.lane, 2 * kCore);
    Value place = getPlace(b, b.rem(thread.lane, 2 * kCore), half, ring);
    Value turnedPlace = place;
    if (columnsFirst)
      turnedPlace =
          getPlace(b, b.add(b.rem(thread.lane, kCore), b.mul(half, kCore)),
                   b.rem(b.div(thread.lane, kCore), 2), ring);
    DenseMap<int64_t, Value> places;
    auto getAddress = [&](bool turns, int64_t low) {
      Value &address = places[2 * low + turns];
      if (!address) {
        Value start = turns ? turnedPlace : place;
        address =
            slot.from(low ? b.bitXor(start, b.index(low * chunkCols)) : start);
      }
      return address;
    };

    int64_t coreRows = ring.getRows() / kCore;
    int64_t firstCore = op.getColumn() / chunkCols;
    int64_t coreCols = cast<VectorType>(op.getType()).getDimSize(1) / chunkCols;
    int64_t partSize = getPartSize(ring.getElementType());
    SmallVector<Value> cores(coreRows * coreCols);
    for (int64_t r = 0; r < coreRows; r += 2)
      for (int64_t c = 0; c < coreCols; c += 2) {
        // Of chunk n = first + c: (n + hi) ^ mask = (n - low) + (low ^ hi ^
        // mask), low = n mod group: n is even, hi is 0 or 1, and mask < group;
        // group is even or 1.
        int64_t chunk = firstCore + c, low = chunk % group;
        int64_t count = c + 1 < coreCols ? 4 : 2;
        bool turns = columnsFirst && count == 4;
        auto type = VectorType::get({count, partSize}, ring.getElementType());
        Value matrices = nvgpu::LdMatrixOp::create(
            b, type, getAddress(turns, low),
            ValueRange{b.index(r * kCore * cols + (chunk - low) * chunkCols)},
            transpose, static_cast<uint32_t>(count));
        for (int64_t i = 0; i < count; ++i)
          cores[(r + (turns ? i / 2 : i % 2)) * coreCols + c +
                (turns ? i % 2 : i / 2)] =
              vector::ExtractOp::create(b, matrices, i);
      }
    rewriter.replaceOpWithMultiple(op, {cores});
    return success();
  }

  /// Whether the tile is the right operand of a product.
  static bool isRightOperand(Value tile) {
    return llvm::any_of(tile.getUsers(), [&](Operation *user) {
      auto contract = dyn_cast<vector::ContractionOp>(user);
      return contract && contract.getRhs() == tile;
    });
  }
};

/// A result tile (or vector): each lane stores what it holds of the rows that
/// exist, 16 bytes at a time where the columns allow it.
struct DistributeWrite final : ThreadPattern<vector::TransferWriteOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::TransferWriteOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getVectorType();
    auto target = dyn_cast<MemRefType>(op.getBase().getType());
    const TileLayout *layout = thread.layouts->lookup(op.getVector());
    if (!target || !layout || !op.getPermutationMap().isMinorIdentity() ||
        op.getMask())
      return rewriter.notifyMatchFailure(op, "is not a plain memref write");
    bool hasColumns = type.getRank() == 1 || op.isDimInBounds(1) ||
                      target.getShape().back() == type.getShape().back();
    if (layout->getRank() != type.getRank() || !hasColumns)
      return rewriter.notifyMatchFailure(op,
                                         "writes columns that may not exist");
    if (type.getRank() > 1 && !isOfRows(TileRegisters(*layout, type),
                                        getPartSize(type.getElementType())))
      return rewriter.notifyMatchFailure(op, "has several rows in a part");
    IndexBuilder b(op.getLoc(), rewriter);
    Memory memory{adaptor.getBase().front(), {}, {}};
    for (ValueRange index : adaptor.getIndices())
      memory.indices.push_back(index.front());
    size_t rowAxis = target.getRank() - type.getRank();
    bool coversTarget = target.getDimSize(rowAxis) == type.getDimSize(0) &&
                        getConstantIntValue(op.getIndices()[rowAxis]) == 0;
    if (!op.isDimInBounds(0) && !coversTarget)
      memory.rowAxis = rowAxis;
    memory.indices[rowAxis] = b.add(
        memory.indices[rowAxis], getPlace(b, *layout, TileLayout::Row, thread));
    if (type.getRank() == 1)
      storeVector(b, adaptor.getValueToStore(), type, *layout, memory);
    else
      storeTile(b, adaptor.getValueToStore(), type, *layout, memory);
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Where the lane's first place is, and the axis of rows that may not exist.
  struct Memory {
    Value memref;
    SmallVector<Value> indices;
    std::optional<size_t> rowAxis;

    /// Null where all rows exist.
    Value isRow(IndexBuilder &b, Value row) const {
      if (!rowAxis)
        return {};
      return b.lessThan(row, memref::DimOp::create(b, memref, *rowAxis));
    }
  };

  void storeVector(IndexBuilder &b, ValueRange values, VectorType type,
                   const TileLayout &layout, const Memory &memory) const {
    TileRegisters registers(layout, type);
    for (auto [reg, value] : llvm::enumerate(values)) {
      OpBuilder::InsertionGuard guard(b);
      SmallVector<Value> indices = memory.indices;
      indices.back() = b.add(indices.back(), registers.getRow(reg));
      Value exists = memory.isRow(b, indices.back());
      // Of the lanes that hold the same, the first stores it.
      Value isFirst = isFirstReplica(b, layout, thread.lane);
      Value stores = exists && isFirst
                         ? arith::AndIOp::create(b, exists, isFirst).getResult()
                         : (exists ? exists : isFirst);
      if (stores)
        b.setInsertionPointToStart(
            scf::IfOp::create(b, stores, /*withElseRegion=*/false).thenBlock());
      memref::StoreOp::create(b, value, memory.memref, indices);
    }
  }

  /// Of the rows of a lane, each after the other, with those of the other lanes
  /// of the warp.
  void storeTile(IndexBuilder &b, ValueRange parts, VectorType type,
                 const TileLayout &tileLayout, const Memory &memory) const {
    TileLayout layout = getLayoutOfRow(tileLayout);
    int64_t warpRows = layout.getBox()[TileLayout::Row];
    VectorType rowType =
        VectorType::get({warpRows, type.getDimSize(1)}, type.getElementType());
    int64_t wideCols = getWideColumns(rowType, layout);
    TileRegisters registers(tileLayout, type);
    int64_t size = registers.size() / static_cast<int64_t>(parts.size());
    llvm::MapVector<int64_t, SmallVector<Value>> partsOfRow;
    for (auto [i, part] : llvm::enumerate(parts))
      partsOfRow[registers.getRow(static_cast<int64_t>(i) * size)].push_back(
          part);
    for (auto &[row, rowParts] : partsOfRow) {
      OpBuilder::InsertionGuard guard(b);
      SmallVector<Value> indices = memory.indices;
      Value &rowIndex = indices[indices.size() - 2];
      rowIndex = b.add(rowIndex, row);
      // Lanes whose row does not exist hand on what they hold, too.
      int64_t numWide =
          wideCols * static_cast<int64_t>(rowParts.size()) / type.getDimSize(1);
      SmallVector<Value> wide;
      auto wideType =
          VectorType::get({warpRows, wideCols}, type.getElementType());
      const TileLayout &store = flashcore::getStoreLayout();
      if (numWide)
        wide = convertParts(b, ArrayRef(rowParts).take_front(numWide), wideType,
                            layout, store, thread.lane);
      if (Value exists = memory.isRow(b, rowIndex))
        b.setInsertionPointToStart(
            scf::IfOp::create(b, exists, /*withElseRegion=*/false).thenBlock());
      if (numWide)
        storeRuns(b, wide, wideType, store, /*firstCol=*/0, memory, indices);
      if (wideCols < type.getDimSize(1))
        storeRuns(b, ArrayRef(rowParts).drop_front(numWide),
                  VectorType::get({warpRows, type.getDimSize(1) - wideCols},
                                  type.getElementType()),
                  layout, wideCols, memory, indices);
    }
  }

  /// Whether each part of `size` registers is of one row.
  static bool isOfRows(const TileRegisters &registers, int64_t size) {
    return llvm::all_of(llvm::seq<int64_t>(registers.size()), [&](int64_t reg) {
      return registers.getRow(reg) == registers.getRow(reg / size * size);
    });
  }

  /// What of a layout is in a warp's registers of one row.
  static TileLayout getLayoutOfRow(const TileLayout &layout) {
    TileLayout::Bases registers;
    for (const flashcore::BitPoint &basis :
         layout.getBases(TileLayout::Register))
      if (basis[TileLayout::Row] == 0)
        registers.push_back(basis);
    return {layout.getRank(), std::move(registers),
            TileLayout::Bases(layout.getBases(TileLayout::Lane))};
  }

  /// The first columns of a warp's rows that lanes can hand each other so that
  /// each gets 16 bytes next to each other; 0 where they are so already.
  int64_t getWideColumns(VectorType rowType, const TileLayout &layout) const {
    const TileLayout &store = flashcore::getStoreLayout();
    int64_t run = store.getRun(TileLayout::Column);
    int64_t bits = rowType.getElementTypeBitWidth();
    const flashcore::CopyAtom *atom = flashcore::findCopyAtom(
        *thread.target, flashcore::CopyRoute::RegistersToGlobal,
        flashcore::CopyCompletion::Immediate);
    int64_t cols = llvm::alignDown(rowType.getDimSize(1),
                                   store.getBox()[TileLayout::Column]);
    if (!atom || run * bits != 8 * atom->bytes ||
        layout.getRun(TileLayout::Column) >= run || cols == 0 ||
        getBases(layout, TileLayout::Lane, TileLayout::Row) !=
            getBases(store, TileLayout::Lane, TileLayout::Row))
      return 0;
    auto type = VectorType::get({rowType.getDimSize(0), cols},
                                rowType.getElementType());
    return canConvert(type, layout, store) ? cols : 0;
  }

  /// Stores the parts of one row of boxes, which begins at column `firstCol`,
  /// as far as a lane has columns next to each other.
  void storeRuns(IndexBuilder &b, ValueRange parts, VectorType type,
                 const TileLayout &layout, int64_t firstCol,
                 const Memory &memory, SmallVector<Value> indices) const {
    TileRegisters registers(layout, type);
    int64_t size = registers.size() / static_cast<int64_t>(parts.size());
    int64_t run = layout.getRun(TileLayout::Column);
    Value col = b.add(
        indices.back(),
        evaluate(b, getBases(layout, TileLayout::Lane, TileLayout::Column),
                 thread.lane));
    for (int64_t reg = 0; reg < registers.size(); reg += run) {
      indices.back() = b.add(col, firstCol + registers.getColumn(reg));
      if (run < size) {
        memref::StoreOp::create(b, getElement(b, parts, reg), memory.memref,
                                indices);
        continue;
      }
      vector::StoreOp::create(
          b, concatenate(b, parts.slice(reg / size, run / size)), memory.memref,
          indices, /*nontemporal=*/false,
          llvm::MaybeAlign(run * type.getElementTypeBitWidth() / 8));
    }
  }

  /// The vectors, a power of two of them, as one.
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
