//===- RowMaximum.cpp - Following the maximum of a row --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact: with every tile. Stale: when a score exceeds it by too much. Folded:
// the same, of products that start at its negative.
//
//===----------------------------------------------------------------------===//

#include "TileExpander.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Columns 8 apart side by side: reduced, they leave eight partial results a
/// row.
Value TileExpander::groupColumns(Value tile) {
  Type element = cast<VectorType>(tile.getType()).getElementType();
  return vector::ShapeCastOp::create(
      b, VectorType::get({warpM, blockN / 8, 8}, element), tile);
}

/// The maximum to subtract. A row that has seen no key yet takes 0.
Value TileExpander::getSafeMax(Value rowMax) {
  int64_t rows = cast<VectorType>(rowMax.getType()).getDimSize(0);
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowMax,
                                        constant(kMinusInf, {rows}));
  return arith::SelectOp::create(b, isEmpty, constant(0.0f, {rows}), rowMax);
}

/// -c * max, of the maximum to subtract.
Value TileExpander::getScaledMax(Value rowMax) {
  return arith::MulFOp::create(b, getSafeMax(rowMax),
                               constant(-getExponentScale(), {warpM}));
}

Value TileExpander::rescaleRows(Value tile, Value factors) {
  int64_t cols = cast<VectorType>(tile.getType()).getDimSize(1);
  return arith::MulFOp::create(b, tile, broadcastRows(factors, cols));
}

/// The state relative to `rowMax`, which is not below the state's own.
TileExpander::State TileExpander::followMax(State state, Value rowMax) {
  Value scale = constant(getExponentScale(), {warpM});
  Value factors = math::Exp2Op::create(
      b, math::FmaOp::create(b, state.rowMax, scale, getScaledMax(rowMax)));
  return {rescaleRows(state.acc, factors), rowMax,
          rescaleRows(state.rowSum, factors)};
}

/// The slack in units of the raw scores.
float TileExpander::getSlack() { return kSlack / getExponentScale(); }

/// Whether any element of a tile of i1 is true, or `orElse` (which may be
/// null).
Value TileExpander::isAnyTrue(Value tile, Value orElse) {
  if (!orElse)
    orElse = arith::ConstantOp::create(b, b.getBoolAttr(false));
  return vector::MultiDimReductionOp::create(
      b, tile, orElse, ArrayRef<bool>{true, true}, vector::CombiningKind::OR);
}

/// `follow(tile)` if any of `exceeds` is true, else the tile as it is. A
/// partial tile takes that branch, too, where it is masked first: full tiles
/// then need no loop of their own to be rid of the mask.
TileExpander::TileState
TileExpander::followRarely(TileState tile, Value exceeds, Value isPartial,
                           Value key,
                           function_ref<TileState(TileState)> follow) {
  Value follows = isAnyTrue(exceeds, isPartial);
  auto values = [](TileState tile) {
    return SmallVector<Value>{tile.state.acc, tile.state.rowMax,
                              tile.state.rowSum, tile.scores};
  };
  auto ifOp = scf::IfOp::create(b, TypeRange(ValueRange(values(tile))), follows,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, values(tile));
  b.setInsertionPointToStart(ifOp.thenBlock());
  if (isPartial)
    tile.scores = maskScores(tile.scores, key);
  scf::YieldOp::create(b, values(follow(tile)));
  return {{ifOp.getResult(0), ifOp.getResult(1), ifOp.getResult(2)},
          ifOp.getResult(3)};
}

/// Follows the maximum only if some score of the warp's rows exceeds its row's
/// by a factor of 2^8 after exponentiation (FlashAttention-4's conditional
/// rescaling): P then stays within the range of f16, and O and the sum relative
/// to the old maximum are as good.
TileExpander::TileState
TileExpander::followMaxRarely(TileState tile, Value isPartial, Value key) {
  auto getPartialMax = [&](Value scores) -> Value {
    return vector::MultiDimReductionOp::create(
        b, groupColumns(scores), constant(kMinusInf, {warpM, 8}),
        ArrayRef<bool>{false, true, false}, vector::CombiningKind::MAXNUMF);
  };
  Value limits = arith::AddFOp::create(b, tile.state.rowMax,
                                       constant(getSlack(), {warpM}));
  Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                        getPartialMax(tile.scores),
                                        broadcastRows(limits, 8));
  auto follow = [&](TileState tile) -> TileState {
    Value rowMax = vector::MultiDimReductionOp::create(
        b, getPartialMax(tile.scores), tile.state.rowMax,
        ArrayRef<bool>{false, true}, vector::CombiningKind::MAXNUMF);
    return {followMax(tile.state, rowMax), tile.scores};
  };
  return followRarely(tile, exceeds, isPartial, key, follow);
}

/// The sign bits of a tile, as flags that are set where it is not negative.
Value TileExpander::getClearSigns(Value tile) {
  auto type = cast<VectorType>(tile.getType()).clone(b.getI32Type());
  Value bits = arith::BitcastOp::create(b, type, tile);
  Value minusOne =
      arith::ConstantOp::create(b, DenseElementsAttr::get(type, -1));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, bits, minusOne);
}

/// Which rows have seen no key, of a state with negative sums.
Value TileExpander::isFoldedEmpty(State state) {
  state.rowSum = arith::NegFOp::create(b, state.rowSum);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sumRows(state),
                               constant(0, {warpM}));
}

/// Like followMaxRarely, of scores that are relative already: the products
/// started at -(max + slack). So a score that exceeds the old maximum too far
/// is one whose sign bit is clear, and nothing is subtracted from the others. A
/// row that has seen no key starts at 0 and takes any maximum; its sum is +0,
/// which is the only one without a sign bit. Also returns the scores relative
/// to the new start.
TileExpander::TileState TileExpander::followStart(TileState tile,
                                                  Value isPartial, Value key) {
  Value exceeds = vector::MultiDimReductionOp::create(
      b, groupColumns(getClearSigns(tile.scores)),
      getClearSigns(tile.state.rowSum), ArrayRef<bool>{false, true, false},
      vector::CombiningKind::OR);
  auto follow = [&](TileState tile) -> TileState {
    auto [state, scores] = tile;
    Value zero = constant(0, {warpM});
    Value tileMax = vector::MultiDimReductionOp::create(
        b, scores, constant(kMinusInf, {warpM}), ArrayRef<bool>{false, true},
        vector::CombiningKind::MAXNUMF);
    Value raise = getSafeMax(
        arith::AddFOp::create(b, tileMax, constant(getSlack(), {warpM})));
    Value growth = arith::MaxNumFOp::create(b, raise, zero);
    raise = arith::SelectOp::create(b, isFoldedEmpty(state), raise, growth);
    Value factors = math::Exp2Op::create(
        b, arith::MulFOp::create(b, growth,
                                 constant(-getExponentScale(), {warpM})));
    return {{rescaleRows(state.acc, factors),
             arith::SubFOp::create(b, state.rowMax, raise),
             rescaleRows(state.rowSum, factors)},
            arith::SubFOp::create(b, scores, broadcastRows(raise, blockN))};
  };
  return followRarely(tile, exceeds, isPartial, key, follow);
}

/// The state with the row maximum in the place of the start.
TileExpander::State TileExpander::unfold(State state) {
  Value rowMax =
      arith::SubFOp::create(b, constant(-getSlack(), {warpM}), state.rowMax);
  rowMax = arith::SelectOp::create(b, isFoldedEmpty(state),
                                   constant(kMinusInf, {warpM}), rowMax);
  return {state.acc, rowMax, arith::NegFOp::create(b, state.rowSum)};
}

/// P relative to the maximum of the state.
Value TileExpander::getAddend(State state) {
  return broadcastRows(getScaledMax(state.rowMax), blockN);
}
