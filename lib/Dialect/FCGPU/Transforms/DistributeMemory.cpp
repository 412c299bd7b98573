//===- DistributeMemory.cpp - Rings and copies to lanes -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Patterns for rings, and copies and reads of them. A ring address is the slot,
// then the row, then the swizzled 16-byte chunk (see `!fcgpu.ring`). It is
// built in three steps: a lane's place in any slot, which no loop changes; then
// the slot; then a constant, which fits the instruction. From a single sum LLVM
// hoists the constants, each into a register of its own.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
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
  if (ring.isPlain())
    return b.add(b.mul(row, ring.getPitch()),
                 b.mul(chunk, ring.getChunkCols()));
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

/// A tile copy, spread over the threads so that neighbours copy neighbouring
/// pieces of a row: whole chunks by 16-byte cp.async or, where rows do not
/// begin at multiples of 16 bytes, parts of one, the smallest through
/// registers.
struct DistributeCopy final : ThreadPattern<CopyOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getRing().getType().hasPanels())
      return rewriter.notifyMatchFailure(op, "is into a ring with panels");
    thread.use(*findFillAtom(*thread.target, op));
    IndexBuilder b(op.getLoc(), rewriter);
    if (op.getPredicate() && !op.getZeroFill()) {
      auto ifOp = scf::IfOp::create(b, adaptor.getPredicate().front(),
                                    /*withElseRegion=*/false);
      b.setInsertionPointToStart(ifOp.thenBlock());
    }
    copyTile(b, op, adaptor);
    if (isHandedOver(op))
      sayFilled(b, op, adaptor);
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// What one thread copies of a row at a time.
  struct Pieces {
    const flashcore::CopyAtom &atom;
    int64_t columns;  ///< of a piece
    int64_t count;    ///< of a row of the ring
    int64_t inSource; ///< of a row of the source
    int64_t inChunk;

    bool isAsynchronous() const {
      return atom.completion == flashcore::CopyCompletion::Groups;
    }
  };

  /// Whether a warp of its own copies.
  bool isHandedOver(CopyOp op) const {
    return thread.ringBarriers.contains(op.getRing());
  }

  /// Each lane says so of what it has copied, when that has arrived.
  void sayFilled(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor) const {
    Value slot =
        b.rem(adaptor.getTile().front(), op.getRing().getType().getStages());
    Value barrier =
        getRingBarrier(b, thread, op.getRing(), RingSide::Read, slot);
    if (getPieces(op).isAsynchronous())
      NVVM::CpAsyncMBarrierArriveOp::create(b, barrier, /*noinc=*/true);
    else
      NVVM::MBarrierArriveOp::create(b, b.getI64Type(), barrier,
                                     /*count=*/Value(), NVVM::MemScopeKind::CTA,
                                     /*relaxed=*/false);
  }

  Pieces getPieces(CopyOp op) const {
    RingType ring = op.getRing().getType();
    const flashcore::CopyAtom &atom = *findFillAtom(*thread.target, op);
    int64_t columns = atom.bytes / ring.getElementBytes();
    return {atom, columns, ring.getCols() / columns,
            op.getSource().getType().getShape().back() / columns,
            ring.getChunkCols() / columns};
  }

  /// Threads of a row: the largest power of two that divides its pieces, so
  /// that none is idle. But neighbours must share the 32-byte sectors of a row.
  static int64_t getThreadsOfRow(const Pieces &pieces, int64_t numThreads) {
    constexpr int64_t sectorBytes = 32, lineBytes = 128;
    int64_t threads = pieces.count & -pieces.count;
    if (threads * pieces.atom.bytes < sectorBytes)
      threads =
          std::min<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(pieces.count)),
                            lineBytes / pieces.atom.bytes);
    // All threads have as many rows.
    return std::min(threads, numThreads & -numThreads);
  }

  void copyTile(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor) const {
    RingType ring = op.getRing().getType();
    int64_t rows = ring.getRows();
    bool byBlock = op.getScope() == CopyScope::Block && !isHandedOver(op);
    int64_t numThreads = byBlock ? thread.numThreads : 32;
    Value id = byBlock ? thread.thread : thread.lane;
    Pieces pieces = getPieces(op);
    int64_t threadsPerRow = getThreadsOfRow(pieces, numThreads);
    int64_t rowsPerPass = numThreads / threadsPerRow;
    Value firstRow = b.div(id, threadsPerRow);
    Value firstPiece = b.rem(id, threadsPerRow);
    Slot slot(b, adaptor.getRing().front(), ring, adaptor.getTile().front());
    // Parts of chunks are many: their addresses would take all registers.
    constexpr int64_t passesAtOnce = 4;
    int64_t rowsAtOnce = passesAtOnce * rowsPerPass;
    int64_t inLoop =
        pieces.inChunk > 1 ? rows / rowsAtOnce * rowsAtOnce : int64_t(0);
    auto copyRows = [&](Value first, int64_t begin, int64_t end) {
      for (int64_t done = begin; done < end; done += rowsPerPass) {
        OpBuilder::InsertionGuard guard(b);
        if (done + rowsPerPass > rows) { // more threads than rows are left
          Value isRow = b.lessThan(b.add(first, done), b.index(rows));
          b.setInsertionPointToStart(
              scf::IfOp::create(b, isRow, /*withElseRegion=*/false)
                  .thenBlock());
        }
        copyRow(b, op, adaptor, slot, first, done, firstPiece, threadsPerRow);
      }
    };
    if (inLoop > 0) {
      OpBuilder::InsertionGuard guard(b);
      auto loop = scf::ForOp::create(b, b.index(0), b.index(inLoop),
                                     b.index(rowsAtOnce));
      b.setInsertionPointToStart(loop.getBody());
      copyRows(b.add(firstRow, loop.getInductionVar()), 0, rowsAtOnce);
    }
    copyRows(firstRow, inLoop, rows);
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

  /// Where a piece goes: an element of a slot, and how many behind it.
  struct Target {
    Value memref;
    int64_t shift;
  };

  /// The target of piece `firstPiece` + c of row `firstRow` + done.
  Target getTarget(IndexBuilder &b, RingType ring, Slot &slot,
                   const Pieces &pieces, Value firstRow, int64_t done,
                   Value firstPiece, int64_t c) const {
    // What leaves the swizzle as it is is the constant.
    int64_t row = done % kSwizzleRows;
    int64_t low = c % (getSwizzleGroup(ring.getRowChunks()) * pieces.inChunk);
    Value piece = b.add(firstPiece, low), chunk = piece;
    if (pieces.inChunk > 1)
      chunk = b.div(piece, pieces.inChunk);
    Value place = getPlace(b, b.add(firstRow, row), chunk, ring);
    if (pieces.inChunk > 1)
      place = b.add(place, b.mul(b.rem(piece, pieces.inChunk), pieces.columns));
    return {slot.from(place),
            (done - row) * ring.getPitch() + (c - low) * pieces.columns};
  }

  /// Copies pieces `firstPiece`, `firstPiece` + step, ... of row
  /// `firstRow` + done.
  void copyRow(IndexBuilder &b, CopyOp op, OneToNOpAdaptor adaptor, Slot &slot,
               Value firstRow, int64_t done, Value firstPiece,
               int64_t step) const {
    RingType ring = op.getRing().getType();
    Pieces pieces = getPieces(op);
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
    Value elements;
    if (exists && pieces.isAsynchronous())
      elements = selectElements(b, pieces, exists);
    for (int64_t c = 0; c < pieces.count; c += step) {
      Value piece = b.add(firstPiece, c);
      OpBuilder::InsertionGuard guard(b);
      if (c + step > pieces.count) { // more threads than pieces are left
        auto ifOp =
            scf::IfOp::create(b, b.lessThan(piece, b.index(pieces.count)),
                              /*withElseRegion=*/false);
        b.setInsertionPointToStart(ifOp.thenBlock());
      }
      indices[rowAxis + 1] = b.add(firstCol, b.mul(piece, pieces.columns));
      Value isThere = exists;
      bool isRow = pieces.inSource == pieces.count;
      if (!isRow && c + step > pieces.inSource) { // the last are zeros
        isThere = b.lessThan(piece, b.index(pieces.inSource));
        if (exists)
          isThere = arith::AndIOp::create(b, exists, isThere);
        if (pieces.isAsynchronous())
          elements = selectElements(b, pieces, isThere);
      }
      Target target =
          getTarget(b, ring, slot, pieces, firstRow, done, firstPiece, c);
      if (pieces.isAsynchronous())
        copyAsync(b, pieces, target, source.getMemref(), indices, elements);
      else
        copyNow(b, pieces, target, source.getMemref(), indices, isThere);
    }
  }

  static Value selectElements(IndexBuilder &b, const Pieces &pieces,
                              Value exists) {
    return arith::SelectOp::create(b, exists, b.index(pieces.columns),
                                   b.index(0));
  }

  /// Of the piece, only the first `elements` are read, if that is not null, and
  /// zeros fill the rest.
  static void copyAsync(IndexBuilder &b, const Pieces &pieces, Target target,
                        Value source, ValueRange indices, Value elements) {
    // Only whole chunks go past L1.
    UnitAttr bypassL1 = pieces.inChunk == 1 ? b.getUnitAttr() : UnitAttr();
    nvgpu::DeviceAsyncCopyOp::create(
        b, nvgpu::DeviceAsyncTokenType::get(b.getContext()), target.memref,
        b.index(target.shift), source, indices, b.getIndexAttr(pieces.columns),
        elements, bypassL1);
  }

  /// By way of registers: the piece, or zeros if it does not exist.
  static void copyNow(IndexBuilder &b, const Pieces &pieces, Target target,
                      Value source, ValueRange indices, Value exists) {
    Type type = cast<MemRefType>(source.getType()).getElementType();
    llvm::MaybeAlign align(pieces.atom.bytes);
    if (pieces.columns > 1)
      type = VectorType::get({pieces.columns}, type);
    auto load = [&](OpBuilder &builder, Location loc) -> Value {
      if (pieces.columns > 1)
        return vector::LoadOp::create(builder, loc, cast<VectorType>(type),
                                      source, indices, /*nontemporal=*/false,
                                      align);
      return memref::LoadOp::create(builder, loc, source, indices);
    };
    Value piece;
    if (exists) {
      piece = scf::IfOp::create(
                  b, exists,
                  [&](OpBuilder &builder, Location loc) {
                    scf::YieldOp::create(builder, loc, load(builder, loc));
                  },
                  [&](OpBuilder &builder, Location loc) {
                    Value zero = arith::ConstantOp::create(
                        builder, loc, builder.getZeroAttr(type));
                    scf::YieldOp::create(builder, loc, zero);
                  })
                  .getResult(0);
    } else {
      piece = load(b, b.getLoc());
    }
    Value place = b.index(target.shift);
    if (pieces.columns > 1)
      vector::StoreOp::create(b, piece, target.memref, place,
                              /*nontemporal=*/false, align);
    else
      memref::StoreOp::create(b, piece, target.memref, place);
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
    if (op.getRing().getType().getLayout() != RingLayout::Rows)
      return rewriter.notifyMatchFailure(op, "is of a ring for tiles in place");
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

/// A tile that stays in its slot of plain rows: the slot.
struct DistributeReadOfPlain final : ThreadPattern<ReadOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ReadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    RingType ring = op.getRing().getType();
    if (!op.isInPlace() || !ring.isPlain() || op.getColumn() != 0)
      return rewriter.notifyMatchFailure(op, "is no whole tile in place of a "
                                             "ring of plain rows");
    IndexBuilder b(op.getLoc(), rewriter);
    Slot slot(b, adaptor.getRing().front(), ring, adaptor.getTile().front());
    rewriter.replaceOp(op, slot.from(b.index(0)));
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateMemoryPatterns(const TileTypeConverter &converter,
                                         const ThreadContext &context,
                                         RewritePatternSet &patterns) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<DistributeCommit, DistributeWait>(converter, ctx);
  patterns.add<DistributeAllocRing, DistributeCopy, DistributeRead,
               DistributeReadOfPlain>(converter, ctx, context);
}
