//===- RareMaximum.cpp - Following a row maximum rarely -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What policies share that follow a maximum only where a score exceeds it by
// too much, and the plain one of them, a stale maximum.
//
//===----------------------------------------------------------------------===//

#include "RareMaximum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::flashcore;

/// The rows of `acc` multiplied with `factors` if the condition holds.
Value RareMaximum::rescaleIf(Value condition, Value acc, Value factors) const {
  return b.branch(
      condition,
      [&] { return SmallVector<Value>{sum.rescaleOutput(acc, factors)}; },
      [&] { return SmallVector<Value>{acc}; })[0];
}

RareMaximum::TileState RareMaximum::begin(const RowState &state, Value scores,
                                          Value addend) const {
  TileState tile{state, scores, addend};
  if (isOutputLate)
    tile.state.acc = b.constant(1.0f, {b.warpM});
  return tile;
}

RareMaximum::TileState
RareMaximum::branch(Value condition, const TileState &tile,
                    function_ref<TileState(TileState)> follow) const {
  return TileState::get(b.branch(
      condition, [&] { return follow(tile).getValues(); },
      [&] { return tile.getValues(); }));
}

/// The rows of O multiplied with `factors`, or those that it waits for.
Value RareMaximum::rescale(Value acc, Value factors) const {
  if (isOutputLate)
    return b.createOrFold<arith::MulFOp>(b.getLoc(), factors, acc);
  return sum.rescaleOutput(acc, factors);
}

RowState RareMaximum::makeRelativeTo(const RowState &state, Value rowMax,
                                     Value factors) const {
  return {rescale(state.acc, factors), rowMax,
          sum.rescaleSum(state.rowSum, factors)};
}

RareMaximum::TileState RareMaximum::followScores(const TileState &tile,
                                                 Value tileMax) const {
  Value rowMax = b.reduceMax(tileMax, tile.state.rowMax);
  RowReference to = b.getReference(getSafeMax(b, rowMax));
  Value factors = b.getFactors(b.getReference(tile.state.rowMax), to);
  return {makeRelativeTo(tile.state, rowMax, factors),
          b.subtract(tile.scores, to), to.addend};
}

Exponentials RareMaximum::end(const RowState &state, const TileState &tile,
                              Value p, Value followed) const {
  RowState result = tile.state;
  // Behind the exponentials: canonicalisation would unite neighbours of one
  // condition, and O is what the first would then wait for.
  if (isOutputLate)
    result.acc = rescaleIf(followed, state.acc, tile.state.acc);
  return {result, p};
}

Exponentials RareMaximum::followRarely(
    const RowState &state, const TileState &tile, Value exceeds, Value orElse,
    function_ref<TileState(TileState)> follow,
    function_ref<Value(const TileState &)> exponentiate) const {
  Value follows = b.isAnyTrue(exceeds, orElse);
  TileState followed = branch(follows, tile, follow);
  return end(state, followed, exponentiate(followed), follows);
}

namespace {
class StaleMaximum final : public RareMaximum {
public:
  using RareMaximum::RareMaximum;

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    Value isPartial = mask.isPartial();
    // A row that is far exceeds with any score.
    RowReference reference = b.getReference(state.rowMax);
    Value limits = arith::SelectOp::create(
        b, reference.isFar, b.constant(kMinusInf, {b.warpM}),
        arith::AddFOp::create(b, state.rowMax,
                              b.constant(getSlack(), {b.warpM})));
    Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                          getPartialMax(scores),
                                          b.broadcastRows(limits, 8));
    auto follow = [&](const TileState &tile) {
      TileState masked = applyMask(tile, mask, isPartial);
      return followScores(masked, getPartialMax(masked.scores));
    };
    auto exponentiate = [&](const TileState &tile) {
      return tile.exponentiate(b);
    };
    return followRarely(state, begin(state, scores, reference.addend), exceeds,
                        isPartial, follow, exponentiate);
  }

private:
  /// The maxima of each row's columns n mod 8.
  Value getPartialMax(Value scores) const {
    return vector::MultiDimReductionOp::create(
        b, b.groupColumns(scores), b.constant(kMinusInf, {b.warpM, 8}),
        ArrayRef<bool>{false, true, false}, vector::CombiningKind::MAXNUMF);
  }
};
} // namespace

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createStaleMaximum(TileBuilder &b, const RowSumPolicy &sum,
                                    bool isOutputLate) {
  return std::make_unique<StaleMaximum>(b, sum, isOutputLate);
}
