//===- Sequences.cpp - Which rows of Q and K a block works on -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lengths are data, which may be wrong: all are cut to what the tensors have,
// so that a kernel reads and writes nothing else.
//
//===----------------------------------------------------------------------===//

#include "Sequences.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class SequenceFinder {
public:
  SequenceFinder(KernelFrame &frame, AttentionOp op, int64_t blockM)
      : b(frame.getBuilder()), frame(frame), op(op), blockM(blockM) {}

  Sequence find(Value batch, Value queryBlock);

private:
  struct Rows {
    Value first, count;
  };
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  Value index(int64_t value) { return asValue(b.getIndexAttr(value)); }
  /// The number, or the bound that it is outside of.
  Value clamp(Value number, Value least, Value most) {
    return arith::MaxSIOp::create(b, arith::MinSIOp::create(b, number, most),
                                  least);
  }
  Value load(StringRef tensor, Value place);
  Value loadUsed(Value sequence);
  Value addNewKeys(Value used, Value numOld);
  Value getFirstBlock(Value sequence);
  Value search(Value block);
  Rows getRows(StringRef ends, Value sequence, Dim total);
  /// The most keys that a sequence may have.
  OpFoldResult getSeqlenK() {
    return op.getPageTable()
               ? frame.multiply(frame.getSize(Dim::PageSize),
                                frame.getSize(Dim::PagesPerSequence))
               : frame.getSize(Dim::SeqlenK);
  }

  ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  AttentionOp op;
  int64_t blockM;
};
} // namespace

Value SequenceFinder::load(StringRef tensor, Value place) {
  Value number = memref::LoadOp::create(b, frame.getTensor(tensor), place);
  return arith::IndexCastOp::create(b, b.getIndexType(), number);
}

/// Of no sequences there is nothing to load.
Value SequenceFinder::loadUsed(Value sequence) {
  if (!op.getCuSeqlensQ())
    return load(operand::kSequsedK, sequence);
  Value isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sgt,
                            asValue(frame.getSize(Dim::CuSeqlens)), index(1));
  auto ifOp = scf::IfOp::create(b, TypeRange(b.getIndexType()), isThere,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, load(operand::kSequsedK, sequence));
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, index(0));
  return ifOp.getResult(0);
}

/// Of the blocks of all sequences.
Value SequenceFinder::getFirstBlock(Value sequence) {
  AffineExpr end = b.getAffineDimExpr(0), number = b.getAffineDimExpr(1);
  return affine::AffineApplyOp::create(
      b, end.floorDiv(blockM) + number,
      ValueRange{load(operand::kCuSeqlensQ, sequence), sequence});
}

/// The last sequence whose first block is not behind `block`: half of those
/// that are left drop out at a time.
Value SequenceFinder::search(Value block) {
  Value one = index(1);
  Value sequences =
      arith::SubIOp::create(b, asValue(frame.getSize(Dim::CuSeqlens)), one);
  auto isOpen = [&](OpBuilder &, Location, ValueRange range) {
    Value left = arith::SubIOp::create(b, range[1], range[0]);
    Value holds =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, left, one);
    scf::ConditionOp::create(b, holds, range);
  };
  auto halve = [&](OpBuilder &, Location, ValueRange range) {
    Value middle = affine::AffineApplyOp::create(
        b, (b.getAffineDimExpr(0) + b.getAffineDimExpr(1)).floorDiv(2), range);
    Value isBehind = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt,
                                           getFirstBlock(middle), block);
    scf::YieldOp::create(
        b, ValueRange{arith::SelectOp::create(b, isBehind, range[0], middle),
                      arith::SelectOp::create(b, isBehind, middle, range[1])});
  };
  auto inside = [&](auto build) {
    return [&, build](OpBuilder &builder, Location loc, ValueRange range) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(builder.getInsertionBlock());
      build(builder, loc, range);
    };
  };
  SmallVector<Type> types(2, b.getIndexType());
  return scf::WhileOp::create(b, types, ValueRange{index(0), sequences},
                              inside(isOpen), inside(halve))
      .getResult(0);
}

SequenceFinder::Rows SequenceFinder::getRows(StringRef ends, Value sequence,
                                             Dim total) {
  Value zero = index(0), rows = asValue(frame.getSize(total));
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  // Of no sequences there is one end.
  Value next = affine::AffineMinOp::create(
      b, AffineMap::get(2, 0, {d0 + 1, d1 - 1}, b.getContext()),
      ValueRange{sequence, asValue(frame.getSize(Dim::CuSeqlens))});
  Value first = clamp(load(ends, sequence), zero, rows);
  Value end = clamp(load(ends, next), first, rows);
  return {first, arith::SubIOp::create(b, end, first)};
}

/// As many new keys as there is room for; none for an entry that is not there.
Value SequenceFinder::addNewKeys(Value used, Value numOld) {
  Value all =
      arith::AddIOp::create(b, numOld, asValue(frame.getSize(Dim::SeqlenNew)));
  Value numKeys = arith::MinSIOp::create(b, all, asValue(getSeqlenK()));
  Value zero = index(0);
  Value isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sge, used, zero);
  return arith::SelectOp::create(b, isThere, numKeys, zero);
}

Sequence SequenceFinder::find(Value batch, Value queryBlock) {
  Sequence found{batch,
                 batch,
                 b.getIndexAttr(0),
                 b.getIndexAttr(0),
                 frame.getSize(Dim::SeqlenQ),
                 getSeqlenK(),
                 queryBlock};
  if (op.getCuSeqlensQ()) {
    found.number = search(queryBlock);
    found.queryBlock =
        arith::SubIOp::create(b, queryBlock, getFirstBlock(found.number));
    Rows queries = getRows(operand::kCuSeqlensQ, found.number, Dim::SeqlenQ);
    found.firstQuery = queries.first;
    found.seqlenQ = queries.count;
    Value numKeys = asValue(found.seqlenK);
    if (op.getCuSeqlensK()) {
      Rows keys = getRows(operand::kCuSeqlensK, found.number, Dim::SeqlenK);
      found.firstKey = keys.first;
      numKeys = keys.count;
    }
    // A block without queries needs no keys.
    Value row = affine::AffineApplyOp::create(b, b.getAffineDimExpr(0) * blockM,
                                              found.queryBlock);
    Value exists =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, row, queries.count);
    found.seqlenK =
        arith::SelectOp::create(b, exists, numKeys, index(0)).getResult();
  }
  if (!op.getSequsedK())
    return found;
  Value used = loadUsed(found.number);
  found.seqlenK = clamp(used, index(0), asValue(found.seqlenK));
  if (op.getKNew())
    found.seqlenK = addNewKeys(used, asValue(found.seqlenK));
  return found;
}

Sequence mlir::flashcore::findSequence(KernelFrame &frame, AttentionOp op,
                                       int64_t blockM, Value batch,
                                       Value queryBlock) {
  return SequenceFinder(frame, op, blockM).find(batch, queryBlock);
}
