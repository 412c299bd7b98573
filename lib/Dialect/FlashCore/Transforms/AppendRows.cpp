//===- AppendRows.cpp - Phase 2: rows behind those of a cache -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks copy rows of k_new and v_new to where key and value have room for
// them; with `rotary` rows of k_new are turned on the way, and other blocks
// turn those of query, into a tensor or a copy that the kernels behind read in
// its place. A thread moves a few columns at a time, 16 bytes where rows allow
// it. Lengths and pages are data, which may be wrong: no row is written that
// key and value have no place for.
//
//===----------------------------------------------------------------------===//

#include "AppendRows.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
constexpr int64_t kNumThreads = 128;
/// Rows of a key head that a block has, of new ones or of the queries that read
/// it.
constexpr int64_t kRows = 16;
/// Columns that a thread moves at a time: 16 bytes.
constexpr int64_t kColumns = 8;

/// A row of a tensor: all its coordinates but the column.
struct Row {
  Value tensor;
  SmallVector<Value, 3> coordinates;
};

/// How the columns of a row are shared out: `pairs` pairs of a rotary embedding
/// in pieces of `pairsOfPiece`, then the columns from `firstColumn` on.
struct RowPieces {
  RowPieces(int64_t columns, int64_t pairs, RotaryStyle style)
      : firstColumn(2 * pairs) {
    int64_t rest = columns - firstColumn;
    columnsOfPiece = getPiece(rest | firstColumn, kColumns);
    numCopied = rest / columnsOfPiece;
    if (pairs == 0)
      return;
    // Those of two columns side by side fill 16 bytes.
    bool isHalf = style == RotaryStyle::Half;
    pairsOfPiece = getPiece(pairs, isHalf ? kColumns : kColumns / 2);
    numTurned = pairs / pairsOfPiece;
  }

  int64_t getNumber() const { return numTurned + numCopied; }

  int64_t firstColumn;
  int64_t columnsOfPiece, numCopied;
  int64_t pairsOfPiece = 1, numTurned = 0;

private:
  /// The largest power of two up to `most` that divides all of them.
  static int64_t getPiece(int64_t all, int64_t most) {
    return std::min(all & -all, most);
  }
};

class AppendBuilder {
public:
  AppendBuilder(const AppendedRows &rows, KernelFrame &frame)
      : b(frame.getBuilder()), rows(rows), frame(frame) {}

  void build();

private:
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value size(Dim dim) { return asValue(frame.getSize(dim)); }
  Value add(Value x, Value y) { return b.createOrFold<arith::AddIOp>(x, y); }
  Value add(Value x, int64_t y) { return y ? add(x, index(y)) : x; }
  Value subtract(Value x, Value y) { return arith::SubIOp::create(b, x, y); }
  Value multiply(Value x, int64_t y) {
    return y == 1 ? x : arith::MulIOp::create(b, x, index(y)).getResult();
  }
  Value divide(Value x, Value y) { return arith::DivUIOp::create(b, x, y); }
  Value remainder(Value x, Value y) { return arith::RemUIOp::create(b, x, y); }
  Value smaller(Value x, Value y) { return arith::MinSIOp::create(b, x, y); }
  Value larger(Value x, Value y) { return arith::MaxSIOp::create(b, x, y); }
  Value isLess(Value x, Value y) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, x, y);
  }
  Value load(StringRef tensor, ValueRange place) {
    Value number = memref::LoadOp::create(b, frame.getTensor(tensor), place);
    return arith::IndexCastOp::create(b, b.getIndexType(), number);
  }
  RowPieces getPieces(int64_t columns, int64_t pairs) {
    return RowPieces(columns, pairs, rows.style);
  }
  RowPieces getKeyPieces() { return getPieces(rows.headDim, rows.pairs); }
  RowPieces getValuePieces() { return getPieces(rows.headDimV, /*pairs=*/0); }

  Value countQueryBlocks();
  void findBlock();
  void shareItems(Value count, function_ref<void(Value)> move);
  void choose(Value condition, function_ref<void()> then,
              function_ref<void()> otherwise);
  void appendRows(Value chunk);
  void turnQueries(Value chunk);
  void moveKeyPiece(Value row, Value piece);
  void findPlace(Value key, function_ref<void(ValueRange)> write);
  void movePiece(const RowPieces &pieces, Value piece, Value position,
                 const Row &from, const Row &to);
  void copyPiece(const RowPieces &pieces, Value piece, const Row &from,
                 const Row &to);
  void turnPiece(const RowPieces &pieces, Value piece, Value position,
                 const Row &from, const Row &to);
  Value loadColumns(const Row &row, Value column, int64_t count);
  void storeColumns(Value values, const Row &row, Value column);
  Value extend(Value values);
  Value loadAngles(StringRef tensor, Value position, Value pair, int64_t count);

  ImplicitLocOpBuilder &b;
  const AppendedRows &rows;
  KernelFrame &frame;
  /// What the block works on: `used` keys are there, and there is room for
  /// `capacity`; an entry that is not there has no rows.
  Value batch, headKV, rowBlock, thread;
  Value used, capacity, isThere;
};
} // namespace

Value AppendBuilder::countQueryBlocks() {
  return asValue(affine::makeComposedFoldedAffineApply(
      b, b.getLoc(), b.getAffineDimExpr(0).ceilDiv(kRows),
      {frame.getSize(Dim::SeqlenQ)}));
}

void AppendBuilder::findBlock() {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  };
  OpFoldResult rowBlocks =
      rows.turnsQueries
          ? apply(d0.ceilDiv(kRows) + d1,
                  {frame.getSize(Dim::SeqlenQ), frame.getSize(Dim::SeqlenNew)})
          : apply(d0.ceilDiv(kRows), {frame.getSize(Dim::SeqlenNew)});
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  SmallVector<OpFoldResult> basis{frame.getSize(Dim::Batch),
                                  frame.getSize(Dim::HeadsKV), rowBlocks};
  auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
  batch = ids.getResult(0);
  headKV = ids.getResult(1);
  rowBlock = ids.getResult(2);
  capacity = rows.isPaged
                 ? asValue(frame.multiply(frame.getSize(Dim::PageSize),
                                          frame.getSize(Dim::PagesPerSequence)))
                 : size(Dim::SeqlenK);
  Value length = load(operand::kSequsedK, batch);
  used = larger(smaller(length, capacity), index(0));
  isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sge, length, index(0));
}

/// Lets the threads of the block take turns at `count` items.
void AppendBuilder::shareItems(Value count, function_ref<void(Value)> move) {
  auto loop = scf::ForOp::create(b, thread, count, index(kNumThreads));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  move(loop.getInductionVar());
}

/// Makes a branch; without an `otherwise` of one side only.
void AppendBuilder::choose(Value condition, function_ref<void()> then,
                           function_ref<void()> otherwise) {
  auto ifOp =
      scf::IfOp::create(b, condition,
                        /*withElseRegion=*/static_cast<bool>(otherwise));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  then();
  if (!otherwise)
    return;
  b.setInsertionPointToStart(ifOp.elseBlock());
  otherwise();
}

/// Makes `write` where key and value have a place for key `key` of the batch
/// entry, which is less than its capacity: a page may be anything.
void AppendBuilder::findPlace(Value key, function_ref<void(ValueRange)> write) {
  if (!rows.isPaged)
    return write({batch, headKV, key});
  Value pageSize = size(Dim::PageSize);
  Value page = load(operand::kPageTable, {batch, divide(key, pageSize)});
  Value row = remainder(key, pageSize);
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, page,
                                       size(Dim::Pages));
  choose(exists, [&] { write({page, headKV, row}); }, nullptr);
}

/// Columns from `column` on, which is a multiple of their number, as accesses
/// that the tensor allows.
Value AppendBuilder::loadColumns(const Row &row, Value column, int64_t count) {
  auto type = cast<MemRefType>(row.tensor.getType());
  int64_t elementBytes = type.getElementTypeBitWidth() / 8;
  int64_t width = std::min(count, getAccessBytes(row.tensor) / elementBytes);
  SmallVector<Value> parts;
  for (int64_t first = 0; first < count; first += width) {
    auto place = llvm::to_vector_of<Value>(row.coordinates);
    place.push_back(add(column, first));
    parts.push_back(vector::LoadOp::create(
        b, VectorType::get({width}, type.getElementType()), row.tensor, place,
        /*nontemporal=*/false, llvm::MaybeAlign(width * elementBytes)));
  }
  for (; parts.size() > 1; width *= 2) {
    SmallVector<Value> wider;
    for (size_t i = 0; i < parts.size(); i += 2)
      wider.push_back(vector::ShuffleOp::create(
          b, parts[i], parts[i + 1],
          llvm::to_vector(llvm::seq<int64_t>(0, 2 * width))));
    parts = std::move(wider);
  }
  return parts.front();
}

void AppendBuilder::storeColumns(Value values, const Row &row, Value column) {
  auto type = cast<VectorType>(values.getType());
  int64_t count = type.getNumElements();
  int64_t elementBytes = type.getElementTypeBitWidth() / 8;
  int64_t width = std::min(count, getAccessBytes(row.tensor) / elementBytes);
  for (int64_t first = 0; first < count; first += width) {
    Value part = values;
    if (width < count)
      part = vector::ShuffleOp::create(
          b, values, values, llvm::to_vector(llvm::seq(first, first + width)));
    auto place = llvm::to_vector_of<Value>(row.coordinates);
    place.push_back(add(column, first));
    vector::StoreOp::create(b, part, row.tensor, place, /*nontemporal=*/false,
                            llvm::MaybeAlign(width * elementBytes));
  }
}

Value AppendBuilder::extend(Value values) {
  return arith::ExtFOp::create(
      b, cast<VectorType>(values.getType()).clone(b.getF32Type()), values);
}

/// Positions past the last row have its angles.
Value AppendBuilder::loadAngles(StringRef tensor, Value position, Value pair,
                                int64_t count) {
  Value last = subtract(size(Dim::Positions), index(1));
  Row row{frame.getTensor(tensor), {smaller(position, last)}};
  return extend(loadColumns(row, pair, count));
}

void AppendBuilder::copyPiece(const RowPieces &pieces, Value piece,
                              const Row &from, const Row &to) {
  Value column =
      add(multiply(piece, pieces.columnsOfPiece), pieces.firstColumn);
  storeColumns(loadColumns(from, column, pieces.columnsOfPiece), to, column);
}

/// x' = x cos - y sin, y' = x sin + y cos, in f32, rounded once.
void AppendBuilder::turnPiece(const RowPieces &pieces, Value piece,
                              Value position, const Row &from, const Row &to) {
  int64_t count = pieces.pairsOfPiece;
  Value pair = multiply(piece, count);
  Value cos = loadAngles(operand::kRotaryCos, position, pair, count);
  Value sin = loadAngles(operand::kRotarySin, position, pair, count);
  auto turn = [&](Value x, Value y) -> std::pair<Value, Value> {
    auto times = [&](Value a, Value angle) {
      return arith::MulFOp::create(b, a, angle).getResult();
    };
    Value first = arith::SubFOp::create(b, times(x, cos), times(y, sin));
    Value second = arith::AddFOp::create(b, times(x, sin), times(y, cos));
    return {first, second};
  };
  auto round = [&](Value values) -> Value {
    Type element = cast<MemRefType>(to.tensor.getType()).getElementType();
    return arith::TruncFOp::create(
        b, cast<VectorType>(values.getType()).clone(element), values);
  };
  if (rows.style == RotaryStyle::Half) {
    Value other = add(pair, rows.pairs);
    auto [x, y] = turn(extend(loadColumns(from, pair, count)),
                       extend(loadColumns(from, other, count)));
    storeColumns(round(x), to, pair);
    storeColumns(round(y), to, other);
    return;
  }
  // Pairs side by side: 0 and 1, 2 and 3, and so on.
  Value column = multiply(pair, 2);
  Value both = extend(loadColumns(from, column, 2 * count));
  SmallVector<int64_t> even, mixed;
  for (int64_t i = 0; i < count; ++i) {
    even.push_back(2 * i);
    mixed.append({i, count + i});
  }
  SmallVector<int64_t> odd =
      llvm::map_to_vector(even, [](int64_t i) { return i + 1; });
  auto [x, y] = turn(vector::ShuffleOp::create(b, both, both, even),
                     vector::ShuffleOp::create(b, both, both, odd));
  storeColumns(round(vector::ShuffleOp::create(b, x, y, mixed)), to, column);
}

/// Piece `piece` of a row: those that are turned come first.
void AppendBuilder::movePiece(const RowPieces &pieces, Value piece,
                              Value position, const Row &from, const Row &to) {
  auto turn = [&] { turnPiece(pieces, piece, position, from, to); };
  auto copy = [&] {
    copyPiece(pieces, subtract(piece, index(pieces.numTurned)), from, to);
  };
  if (pieces.numTurned == 0)
    return copyPiece(pieces, piece, from, to);
  if (pieces.numCopied == 0)
    return turn();
  choose(isLess(piece, index(pieces.numTurned)), turn, copy);
}

/// Of row `row` of k_new and v_new, whose pieces are counted together.
void AppendBuilder::moveKeyPiece(Value row, Value piece) {
  RowPieces ofKey = getKeyPieces(), ofValue = getValuePieces();
  Value key = add(used, row);
  SmallVector<Value, 3> source{batch, headKV, row};
  findPlace(key, [&](ValueRange place) {
    SmallVector<Value, 3> goal(place);
    auto moveKey = [&] {
      movePiece(ofKey, piece, key, {frame.getTensor(operand::kKNew), source},
                {frame.getTensor(operand::kKey), goal});
    };
    auto moveValue = [&] {
      copyPiece(ofValue, subtract(piece, index(ofKey.getNumber())),
                {frame.getTensor(operand::kVNew), source},
                {frame.getTensor(operand::kValue), goal});
    };
    choose(isLess(piece, index(ofKey.getNumber())), moveKey, moveValue);
  });
}

/// Rows of k_new and v_new, as far as there is room for them.
void AppendBuilder::appendRows(Value chunk) {
  Value first = multiply(chunk, kRows);
  Value count = smaller(size(Dim::SeqlenNew), subtract(capacity, used));
  count = smaller(subtract(count, first), index(kRows));
  count = arith::SelectOp::create(b, isThere, count, index(0));
  int64_t numPieces = getKeyPieces().getNumber() + getValuePieces().getNumber();
  shareItems(multiply(count, numPieces), [&](Value item) {
    Value row = add(first, divide(item, index(numPieces)));
    moveKeyPiece(row, remainder(item, index(numPieces)));
  });
}

/// Rows of query, of all heads that read the block's key head.
void AppendBuilder::turnQueries(Value chunk) {
  Value first = multiply(chunk, kRows);
  Value count = smaller(subtract(size(Dim::SeqlenQ), first), index(kRows));
  RowPieces pieces = getKeyPieces();
  Value turned = frame.findTensor("q_turned");
  if (!turned)
    turned = frame.getCopy();
  Value heads = divide(size(Dim::HeadsQ), size(Dim::HeadsKV));
  Value firstHead = arith::MulIOp::create(b, headKV, heads);
  Value numPieces = index(pieces.getNumber());
  Value items =
      multiply(arith::MulIOp::create(b, count, heads), pieces.getNumber());
  shareItems(items, [&](Value item) {
    Value number = divide(item, numPieces);
    Value head = add(firstHead, divide(number, count));
    Value row = add(first, remainder(number, count));
    Value position = rows.rotatesByOnePosition ? used : add(used, row);
    SmallVector<Value, 3> place{batch, head, row};
    movePiece(pieces, remainder(item, numPieces), position,
              {frame.getTensor(operand::kQuery), place}, {turned, place});
  });
}

void AppendBuilder::build() {
  findBlock();
  if (!rows.turnsQueries) {
    appendRows(rowBlock);
  } else {
    Value numQueries = countQueryBlocks();
    choose(
        isLess(rowBlock, numQueries), [&] { turnQueries(rowBlock); },
        [&] { appendRows(subtract(rowBlock, numQueries)); });
  }
  gpu::ReturnOp::create(b);
}

void mlir::flashcore::buildAppend(KernelFrame &frame,
                                  const AppendedRows &rows) {
  AppendBuilder(rows, frame).build();
}

/// Blocks of rows of query, then as many as there may be of new ones.
KernelLaunch mlir::flashcore::getAppendLaunch(const AppendedRows &rows) {
  SizeFormula blocks =
      rows.turnsQueries
          ? SizeFormula(Dim::SeqlenQ).ceilDiv(kRows) + Dim::SeqlenNew
          : SizeFormula(Dim::SeqlenNew).ceilDiv(kRows);
  return {blocks * Dim::HeadsKV * Dim::Batch, kNumThreads};
}
