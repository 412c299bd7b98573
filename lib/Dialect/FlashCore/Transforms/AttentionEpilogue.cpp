//===- AttentionEpilogue.cpp - What a tile writes in the end
//-----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue: the exchange of warps that divide the keys, O and log-sum-exp.
//
//===----------------------------------------------------------------------===//

#include "AttentionExpander.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// This warp's share of the rows, over all keys: each part's share, relative to
/// the maximum of all, added up.
RowResult AttentionExpander::mergeParts(RowState state) {
  Value tiles[] = {sumPolicy->getOutput(state), maxPolicy->readMax(state),
                   maxPolicy->readSum(state)};
  auto exchange = fcgpu::AllToAllOp::create(
      b, tiles, getKeyPart(), static_cast<uint64_t>(schedule.getKeyWarps()));
  ValueRange accs = exchange.getSharesOf(0), maxima = exchange.getSharesOf(1),
             sums = exchange.getSharesOf(2);
  Value rowMax = maxima.front();
  for (Value other : maxima.drop_front())
    rowMax = arith::MaxNumFOp::create(b, rowMax, other);
  RowReference reference = b.getReference(getSafeMax(b, rowMax));
  int64_t cols = cast<VectorType>(accs.front().getType()).getDimSize(1);
  Value acc, rowSum;
  for (auto [partAcc, partMax, partSum] : llvm::zip_equal(accs, maxima, sums)) {
    Value factors = b.getFactors(b.getReference(partMax), reference);
    Value columns = b.broadcastRows(factors, cols);
    acc = acc ? math::FmaOp::create(b, partAcc, columns, acc).getResult()
              : arith::MulFOp::create(b, partAcc, columns).getResult();
    rowSum = rowSum
                 ? math::FmaOp::create(b, partSum, factors, rowSum).getResult()
                 : arith::MulFOp::create(b, partSum, factors).getResult();
  }
  return {acc, rowMax, rowSum, b.getScoreScale()};
}

void AttentionExpander::writeLse(RowResult result, Value isEmpty, Value row) {
  LogSumExp lse = getLogSumExp(b, result.rowMax, result.maxToLn, result.rowSum,
                               isEmpty, result.maxRest);
  writeRows(lse.value, attention.getLse(), row, {});
  if (Value rest = attention.getLseRest())
    writeRows(lse.getRest(b), rest, row, {});
}

/// The logit of the head is one more score of each row, without a row of V.
RowResult AttentionExpander::addSink(RowResult result) {
  if (!attention.getSinkLogits())
    return result;
  Value logit =
      memref::LoadOp::create(b, attention.getSinkLogits(), place.head);
  Value sink = vector::BroadcastOp::create(b, result.rowSum.getType(), logit);
  SinkWeights weights = weighSink(b, result.rowMax, result.maxToLn, sink);
  result.rowSum =
      math::FmaOp::create(b, result.rowSum, weights.row, weights.sink);
  result.rowMax = weights.max;
  if (attention.getLseRest())
    result.maxRest = weights.rest;
  result.maxToLn = 1.0f;
  result.accFactor = weights.row;
  return result;
}

void AttentionExpander::writeResult(RowResult result) {
  result = addSink(result);
  auto type = cast<VectorType>(result.acc.getType());
  int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
  Value zero = b.constant(0.0f, {rows});
  // The largest visible score alone contributes 1, and so does a larger sink:
  // a sum of 0 means that the row sees neither.
  Value isEmpty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, result.rowSum, zero);
  Value factor = scaleKept(result.accFactor, rows);
  Value inverse = arith::DivFOp::create(b, factor, result.rowSum);
  inverse = arith::SelectOp::create(b, isEmpty, zero, inverse);
  Value factors = b.broadcastRows(inverse, cols);
  // Hidden keys add zeros of either sign, which a zero may take: none has one.
  Value o = b.isInvariant
                ? math::FmaOp::create(b, result.acc, factors,
                                      b.constant(0.0f, {rows, cols}))
                      .getResult()
                : arith::MulFOp::create(b, result.acc, factors).getResult();
  Type element = getElementTypeOrSelf(op.getOutput().getType());
  if (!element.isF32())
    o = arith::TruncFOp::create(b, VectorType::get({rows, cols}, element), o);

  // Where the share of a part lies (see fcgpu.all_to_all).
  OpFoldResult row = b.getIndexAttr(0), col = b.getIndexAttr(0);
  int64_t parts = schedule.getKeyWarps();
  int64_t colShares = b.columnsV / cols;
  if (parts > 1) {
    AffineExpr d0 = b.getAffineDimExpr(0);
    row = apply(d0.floorDiv(colShares) * rows, {getKeyPart()});
    col = apply((d0 % colShares) * cols, {getKeyPart()});
  }
  auto write = writeRows(o, op.getOutput(), asValue(row), asValue(col));
  if (schedule.getOutput() == fcgpu::OutputRoute::Bulk)
    stage(write, TileRole::Output, cols, /*isInLoop=*/false);
  if (!attention.getLse())
    return;
  if (colShares == 1)
    return writeLse(result, isEmpty, asValue(row));
  // The warps that share rows hold the same log-sum-exp.
  Value isFirst = arith::CmpIOp::create(
      b, arith::CmpIPredicate::eq, asValue(col), asValue(b.getIndexAttr(0)));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  writeLse(result, isEmpty, asValue(row));
}
