//===- MergeRows.cpp - Phase 2: merging partial results -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block merges one query row. Its groups of threads take turns at the parts:
// each has the maximum, the sum and O of its own parts, a thread four columns
// of them, and what the groups have meets in shared memory. So LSE and O of a
// part are loaded at the same time, and those of most rows all at once; every
// sum has one order.
//
//===----------------------------------------------------------------------===//

#include "MergeRows.h"
#include "Exponentials.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Columns of a thread: 16 bytes of a partial O.
constexpr int64_t kColumns = 4;
/// Threads that a block has, where there are enough parts, and the most groups
/// that they make: each is a step of the last sum.
constexpr int64_t kThreads = 128, kMostGroups = 8;
/// Parts of a group whose loads are under way at the same time, where their
/// number is known and where not: then some may be loaded again.
constexpr int64_t kUnroll = 16, kUnrollOfOpenParts = 4;

/// What a group has beside its row of O: the largest LSE, what rounding it
/// left, and the sum of weights, which move in one access of 16 bytes.
constexpr int64_t kNumbers = 4;

class MergeBuilder {
public:
  MergeBuilder(KernelFrame &frame, const MergeParts &parts,
               const MergeGroups &groups, bool isInvariant, Value lseRest)
      : b(frame.getBuilder()), frame(frame), parts(parts),
        numParts(parts.number), groups(groups), isInvariant(isInvariant),
        lseRest(lseRest) {}

  void build();

private:
  /// What some parts of a row come to: their largest LSE, which is max + rest,
  /// and, relative to it, the sum of their weights and of their weighted O.
  struct Sums {
    Value max, rest, weight, output;
  };

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value constant(float value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value apply(AffineExpr expr, OpFoldResult operand) {
    return getValueOrCreateConstantIndexOp(
        b, b.getLoc(),
        affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, {operand}));
  }
  VectorType getColumnsType() {
    return VectorType::get({kColumns}, b.getF32Type());
  }
  Value broadcast(Value value) {
    return vector::BroadcastOp::create(b, getColumnsType(), value);
  }
  Value isEqual(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, constant(y));
  }
  /// A tensor that not all problems have.
  Value find(StringRef name) { return frame.findTensor(name); }
  void findRow();
  Value isOfSequence(Value ends);
  /// The part that the group has at a place of a round, alone.
  Sums load(Value round, int64_t place);
  bool hasRest() { return static_cast<bool>(parts.rest); }
  Value loadOutput(Value part);
  Value loadIfThere(VectorType type, int64_t numColumns, Value place,
                    function_ref<Value()> load);
  Value isColumn(Value place, int64_t numColumns) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, place,
                                 index(numColumns));
  }
  Sums add(ArrayRef<Sums> parts);
  Value subtract(const Sums &x, Value max, Value rest);
  Sums addSink(Sums row);
  Sums addRound(Value round, std::optional<Sums> before);
  Sums addParts();
  SmallVector<Sums> exchange(const Sums &own);
  /// Of what runs where `value` is 0.
  Block *getBlockIf(Value value) {
    Value isZero =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, index(0));
    return scf::IfOp::create(b, isZero, /*withElseRegion=*/false).thenBlock();
  }
  Value viewShared(int64_t begin, ArrayRef<int64_t> shape);
  void writeOutput(Value output, Value acc, Value factor);
  void writeLse(const LogSumExp &lse);
  void writeResults(const Sums &row);
  Value getZeros();

  ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  MergeParts parts;
  OpFoldResult numParts;
  MergeGroups groups;
  bool isInvariant;
  Value lseRest; ///< where what rounding leaves of LSE goes; may be null
  Value batch, head, query, group, column;
};
} // namespace

MergeGroups::MergeGroups(int64_t columns, std::optional<int64_t> numParts)
    : threads(llvm::divideCeil(columns, kColumns)),
      count(std::clamp<int64_t>(llvm::bit_floor<uint64_t>(kThreads / threads),
                                4, kMostGroups)),
      unroll(kUnrollOfOpenParts) {
  if (!numParts)
    return;
  count = std::min<int64_t>(count, llvm::PowerOf2Ceil(*numParts));
  unroll = std::min<int64_t>(kUnroll, llvm::divideCeil(*numParts, count));
}

int64_t MergeGroups::getColumns() const { return threads * kColumns; }

KernelLaunch MergeGroups::getLaunch() const {
  return {SizeFormula(Dim::SeqlenQ) * Dim::HeadsQ * Dim::Batch, count * threads,
          getSharedMemory()};
}

int64_t MergeGroups::getSharedMemory() const {
  return count > 1 ? count * (getColumns() + kNumbers) * sizeof(float) : 0;
}

void MergeBuilder::findRow() {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  SmallVector<OpFoldResult> basis{frame.getSize(Dim::Batch),
                                  frame.getSize(Dim::HeadsQ),
                                  frame.getSize(Dim::SeqlenQ)};
  auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
  batch = ids.getResult(0);
  head = ids.getResult(1);
  query = ids.getResult(2);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  auto place = affine::AffineDelinearizeIndexOp::create(
      b, thread, ArrayRef<int64_t>{groups.count, groups.threads});
  group = place.getResult(0);
  column = arith::MulIOp::create(b, place.getResult(1), index(kColumns));
}

/// Rows in front of the first sequence and behind the last are nobody's, and
/// have no partial results.
Value MergeBuilder::isOfSequence(Value ends) {
  Value last = apply(b.getAffineDimExpr(0) - 1, frame.getSize(Dim::CuSeqlens));
  auto load = [&](Value place) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(),
                                      memref::LoadOp::create(b, ends, place));
  };
  Value begins = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, query,
                                       load(index(0)));
  Value goesOn =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, query, load(last));
  return arith::AndIOp::create(b, begins, goesOn);
}

MergeBuilder::Sums MergeBuilder::load(Value round, int64_t place) {
  Value part = arith::AddIOp::create(
      b, arith::MulIOp::create(b, round, index(groups.getPartsOfRound())),
      index(place * groups.count));
  part = arith::AddIOp::create(b, part, group);
  auto known = getConstantIntValue(numParts);
  bool isThere = known && *known % groups.getPartsOfRound() == 0;
  Value last = apply(b.getAffineDimExpr(0) - 1, numParts);
  Value loaded = isThere ? part : arith::MinSIOp::create(b, part, last);
  SmallVector<Value> row{loaded, batch, head, query};
  Value lse = memref::LoadOp::create(b, parts.lse, row);
  Value rest = constant(0);
  if (hasRest())
    rest = memref::LoadOp::create(b, parts.rest, row);
  Value output = loadOutput(loaded);
  // One that is not there holds nothing.
  if (!isThere)
    lse = arith::SelectOp::create(
        b, arith::CmpIOp::create(b, arith::CmpIPredicate::sle, part, last), lse,
        constant(kMinusInf));
  return {lse, rest, constant(1), output};
}

/// The columns of the thread; behind the last one zeros.
Value MergeBuilder::loadOutput(Value part) {
  auto type = cast<MemRefType>(parts.output.getType());
  Type element = type.getElementType();
  int64_t elementBytes = element.getIntOrFloatBitWidth() / 8;
  int64_t width = std::min(kColumns, parts.rowBytes / elementBytes);
  SmallVector<Value> values;
  Value columns;
  for (int64_t first = 0; first < kColumns; first += width) {
    Value place = b.createOrFold<arith::AddIOp>(column, index(first));
    auto pieceType = VectorType::get({width}, element);
    Value piece = loadIfThere(pieceType, type.getDimSize(4), place, [&] {
      return vector::LoadOp::create(b, pieceType, parts.output,
                                    ValueRange{part, batch, head, query, place},
                                    /*nontemporal=*/false,
                                    llvm::MaybeAlign(width * elementBytes));
    });
    columns = piece;
    for (int64_t i = 0; width < kColumns && i < width; ++i)
      values.push_back(vector::ExtractOp::create(b, piece, i));
  }
  if (!values.empty())
    columns = vector::FromElementsOp::create(
        b, VectorType::get({kColumns}, element), values);
  return element.isF32()
             ? columns
             : arith::ExtFOp::create(b, getColumnsType(), columns).getResult();
}

/// What `load` makes, or zeros where there is no column at `place`.
Value MergeBuilder::loadIfThere(VectorType type, int64_t numColumns,
                                Value place, function_ref<Value()> load) {
  if (numColumns == groups.getColumns())
    return load();
  auto ifOp = scf::IfOp::create(b, type, isColumn(place, numColumns),
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, load());
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(
      b, ValueRange{arith::ConstantOp::create(b, b.getZeroAttr(type))});
  return ifOp.getResult(0);
}

/// The LSE of `x` less max + rest.
Value MergeBuilder::subtract(const Sums &x, Value max, Value rest) {
  Value difference = arith::SubFOp::create(b, x.max, max);
  if (!hasRest())
    return difference;
  return arith::AddFOp::create(b, difference,
                               arith::SubFOp::create(b, x.rest, rest));
}

MergeBuilder::Sums MergeBuilder::add(ArrayRef<Sums> parts) {
  // One is relative to its own LSE already.
  if (parts.size() == 1)
    return parts.front();
  Value max = parts.front().max, rest = parts.front().rest;
  for (const Sums &part : parts.drop_front()) {
    // Of two that are -inf the difference is no number.
    Value isAbove = arith::CmpFOp::create(
        b, arith::CmpFPredicate::OGT, subtract(part, max, rest), constant(0));
    max = arith::SelectOp::create(b, isAbove, part.max, max);
    rest = arith::SelectOp::create(b, isAbove, part.rest, rest);
  }
  Value safeMax = getSafeMax(b, max);
  Value weight = constant(0), output = getZeros();
  for (const Sums &part : parts) {
    Value exponent = arith::MulFOp::create(b, subtract(part, safeMax, rest),
                                           constant(llvm::numbers::log2ef));
    Value factor = math::Exp2Op::create(b, exponent);
    weight = math::FmaOp::create(b, part.weight, factor, weight);
    output = math::FmaOp::create(b, part.output, broadcast(factor), output);
  }
  return {max, rest, weight, output};
}

/// A sink is one more score, without a row of V.
MergeBuilder::Sums MergeBuilder::addSink(Sums row) {
  Value logits = find(operand::kSinkLogits);
  if (!logits)
    return row;
  Value logit = memref::LoadOp::create(b, logits, head);
  SinkWeights weights =
      weighSink(b, row.max, /*scale=*/1, logit, hasRest() ? row.rest : Value());
  return {weights.max, weights.rest,
          math::FmaOp::create(b, row.weight, weights.row, weights.sink),
          arith::MulFOp::create(b, row.output, broadcast(weights.row))};
}

MergeBuilder::Sums MergeBuilder::addRound(Value round,
                                          std::optional<Sums> before) {
  SmallVector<Sums> parts;
  if (before)
    parts.push_back(*before);
  for (int64_t place = 0; place < groups.unroll; ++place)
    parts.push_back(load(round, place));
  return add(parts);
}

/// Of the group's parts.
MergeBuilder::Sums MergeBuilder::addParts() {
  OpFoldResult numRounds = affine::makeComposedFoldedAffineApply(
      b, b.getLoc(), b.getAffineDimExpr(0).ceilDiv(groups.getPartsOfRound()),
      {numParts});
  if (getConstantIntValue(numRounds) == 1)
    return addRound(index(0), /*before=*/std::nullopt);
  // Of no keys there may be no part.
  Value max = constant(kMinusInf), zero = constant(0);
  auto loop = scf::ForOp::create(
      b, index(0), getValueOrCreateConstantIndexOp(b, b.getLoc(), numRounds),
      index(1), ValueRange{max, zero, zero, getZeros()});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  Sums next = addRound(loop.getInductionVar(),
                       Sums{args[0], args[1], args[2], args[3]});
  scf::YieldOp::create(
      b, ValueRange{next.max, next.rest, next.weight, next.output});
  return {loop.getResult(0), loop.getResult(1), loop.getResult(2),
          loop.getResult(3)};
}

/// A part of the block's shared memory, as f32.
Value MergeBuilder::viewShared(int64_t begin, ArrayRef<int64_t> shape) {
  auto space =
      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto typeOf = [&](ArrayRef<int64_t> shape, Type element) {
    return MemRefType::get(shape, element, MemRefLayoutAttrInterface(), space);
  };
  Value memory = gpu::DynamicSharedMemoryOp::create(
      b, typeOf(ShapedType::kDynamic, b.getI8Type()));
  int64_t bytes = groups.getSharedMemory();
  memory = memref::ReinterpretCastOp::create(
      b, typeOf(bytes, b.getI8Type()), memory, /*offset=*/0,
      ArrayRef<int64_t>{bytes}, ArrayRef<int64_t>{1});
  return memref::ViewOp::create(b, typeOf(shape, b.getF32Type()), memory,
                                index(begin * sizeof(float)), ValueRange());
}

/// The sums of all groups, in the first one, where the builder is then.
SmallVector<MergeBuilder::Sums> MergeBuilder::exchange(const Sums &own) {
  int64_t columns = groups.getColumns();
  Value outputs = viewShared(0, {groups.count, columns});
  Value numbers = viewShared(groups.count * columns, {groups.count, kNumbers});
  vector::StoreOp::create(b, own.output, outputs, ValueRange{group, column},
                          /*nontemporal=*/false, llvm::MaybeAlign(16));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(getBlockIf(column));
    vector::StoreOp::create(
        b,
        vector::FromElementsOp::create(
            b, VectorType::get({kNumbers}, b.getF32Type()),
            ValueRange{own.max, own.rest, own.weight, constant(0)}),
        numbers, ValueRange{group, index(0)},
        /*nontemporal=*/false, llvm::MaybeAlign(kNumbers * sizeof(float)));
  }
  gpu::BarrierOp::create(b);
  b.setInsertionPointToStart(getBlockIf(group));
  SmallVector<Sums> sums;
  for (int64_t i = 0; i < groups.count; ++i) {
    Value output = vector::LoadOp::create(
        b, getColumnsType(), outputs, ValueRange{index(i), column},
        /*nontemporal=*/false, llvm::MaybeAlign(16));
    Value ofGroup = vector::LoadOp::create(
        b, VectorType::get({kNumbers}, b.getF32Type()), numbers,
        ValueRange{index(i), index(0)},
        /*nontemporal=*/false, llvm::MaybeAlign(kNumbers * sizeof(float)));
    auto extract = [&](int64_t number) -> Value {
      return vector::ExtractOp::create(b, ofGroup, number);
    };
    Value max = extract(0), rest = extract(1);
    sums.push_back({max, rest, extract(2), output});
  }
  return sums;
}

void MergeBuilder::writeOutput(Value output, Value acc, Value factor) {
  auto type = cast<VectorType>(acc.getType());
  Value factors = vector::BroadcastOp::create(b, type, factor);
  Value o = isInvariant
                ? math::FmaOp::create(b, acc, factors, getZeros()).getResult()
                : arith::MulFOp::create(b, acc, factors).getResult();
  Type element = cast<MemRefType>(output.getType()).getElementType();
  if (!element.isF32())
    o = arith::TruncFOp::create(b, type.clone(element), o);
  // The columns of a thread are aligned as its first one is, or as rows are.
  int64_t elementBytes = element.getIntOrFloatBitWidth() / 8;
  int64_t width = std::min(kColumns, getAccessBytes(output) / elementBytes);
  int64_t numColumns = cast<MemRefType>(output.getType()).getDimSize(3);
  for (int64_t first = 0; first < kColumns; first += width) {
    Value part = o;
    if (width < kColumns)
      part = vector::ShuffleOp::create(
          b, o, o, llvm::to_vector(llvm::seq(first, first + width)));
    Value place = b.createOrFold<arith::AddIOp>(column, index(first));
    OpBuilder::InsertionGuard guard(b);
    if (numColumns != groups.getColumns())
      b.setInsertionPointToStart(scf::IfOp::create(b,
                                                   isColumn(place, numColumns),
                                                   /*withElseRegion=*/false)
                                     .thenBlock());
    vector::StoreOp::create(
        b, part, output, ValueRange{batch, head, query, place},
        /*nontemporal=*/false, llvm::MaybeAlign(width * elementBytes));
  }
}

void MergeBuilder::writeLse(const LogSumExp &lse) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(getBlockIf(column));
  SmallVector<Value> row{batch, head, query};
  memref::StoreOp::create(b, lse.value, find(operand::kLse), row);
  if (lseRest)
    memref::StoreOp::create(b, lse.getRest(b), lseRest, row);
}

Value MergeBuilder::getZeros() {
  auto type = VectorType::get({kColumns}, b.getF32Type());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getF32FloatAttr(0).getValue()));
}

void MergeBuilder::writeResults(const Sums &row) {
  Value isEmpty = isEqual(row.max, kMinusInf);
  // The largest part has weight 1, so only an empty row has a sum of 0.
  Value inverse = arith::DivFOp::create(b, constant(1), row.weight);
  inverse = arith::SelectOp::create(b, isEmpty, constant(0), inverse);
  writeOutput(frame.getTensor(operand::kOutput), row.output, inverse);
  if (find(operand::kLse))
    writeLse(getLogSumExp(b, row.max, /*scale=*/1, row.weight, isEmpty,
                          hasRest() ? row.rest : Value()));
}

void MergeBuilder::build() {
  {
    OpBuilder::InsertionGuard guard(b);
    findRow();
    if (Value ends = find(operand::kCuSeqlensQ))
      b.setInsertionPointToStart(
          scf::IfOp::create(b, isOfSequence(ends), /*withElseRegion=*/false)
              .thenBlock());
    Sums row = addParts();
    if (groups.count > 1)
      row = add(exchange(row));
    writeResults(addSink(row));
  }
  gpu::ReturnOp::create(b);
}

void mlir::flashcore::buildMerge(KernelFrame &frame, const MergeParts &parts,
                                 const MergeGroups &groups, bool isInvariant,
                                 Value lseRest) {
  MergeBuilder(frame, parts, groups, isInvariant, lseRest).build();
}
