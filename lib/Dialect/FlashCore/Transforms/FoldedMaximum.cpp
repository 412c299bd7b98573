//===- FoldedMaximum.cpp - A row maximum that products start at -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RareMaximum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Like a stale maximum, of scores that are relative already: the products
/// start at -(max + slack), which is what the state keeps; the sums are
/// negative. So a score that exceeds the old maximum too far is one whose sign
/// bit is clear, and nothing is subtracted from the others. A row that has seen
/// no key starts at 0 and takes any maximum; its sum is +0, which is the only
/// one without a sign bit. What is kept are multiples of a step, so that what
/// is added to scores and what O is rescaled by agree. Products would lose
/// their own digits if they started far above 0, so those of a row whose
/// maximum is far below start at a limit, and the rest is added in the branch.
class FoldedMaximum final : public RareMaximum {
public:
  using RareMaximum::RareMaximum;

  Value getInitialMax() const override { return b.constant(0.0f, {b.warpM}); }
  Value getProductStart(const RowState &state) const override {
    return b.broadcastRows(getStart(state), b.blockN);
  }
  float getUnit() const override { return -1; }

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    Value isPartial = mask.isPartial();
    Value exceeds = vector::MultiDimReductionOp::create(
        b, b.groupColumns(getClearSigns(scores)),
        getClearSigns(sum.getColumns(state)),
        ArrayRef<bool>{false, true, false}, vector::CombiningKind::OR);
    Value isFar =
        b.isAnyTrue(arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                          state.rowMax, getLimit()),
                    isPartial);
    auto follow = [&](const TileState &tile) {
      return followStart(applyMask(tile, mask, isPartial));
    };
    auto exponentiate = [&](const TileState &tile) {
      Value slack = b.constant(getFoldedSlack() * b.getExponentScale(),
                               {b.warpM, b.blockN});
      return b.exponentiate(tile.scores, slack);
    };
    return followRarely(state, begin(state, scores), exceeds, isFar, follow,
                        exponentiate);
  }

  Value readMax(const RowState &state) const override {
    Value rowMax = arith::SubFOp::create(
        b, b.constant(-getFoldedSlack(), {b.warpM}), state.rowMax);
    return arith::SelectOp::create(b, isEmpty(state),
                                   b.constant(kMinusInf, {b.warpM}), rowMax);
  }
  Value readSum(const RowState &state) const override {
    return sum.reduce(arith::NegFOp::create(b, sum.getColumns(state)));
  }

private:
  /// In units of the raw scores, a power of 2: that of which starts are
  /// multiples. A score loses no digit to its start while neighbours in f32 are
  /// no further apart than this, so it is as large as the range of f16 allows:
  /// exponents of a maximum are then at least -4 and at most 10, and scores
  /// keep their digits up to 2^25 of these exponents.
  float getStep() const {
    return std::exp2(std::floor(std::log2(getSlack() / 2)));
  }
  /// The slack as a multiple of it.
  float getFoldedSlack() const {
    return getStep() * std::round(getSlack() / getStep());
  }
  /// The largest start: rounded products that start there are as good as those
  /// of a row that is not far.
  Value getLimit() const {
    float farthest = TileBuilder::kFarthest / b.getExponentScale();
    return b.constant(std::exp2(std::floor(std::log2(farthest))), {b.warpM});
  }
  /// What the products of a row start at.
  Value getStart(const RowState &state) const {
    return arith::MinNumFOp::create(b, state.rowMax, getLimit());
  }
  Value getClearSigns(Value tile) const;
  TileState followStart(const TileState &tile) const;

  /// Which rows have seen no key.
  Value isEmpty(const RowState &state) const {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, readSum(state),
                                 b.constant(0, {b.warpM}));
  }
};
} // namespace

/// The sign bits of a tile, as flags that are set where it is not negative.
Value FoldedMaximum::getClearSigns(Value tile) const {
  auto type = cast<VectorType>(tile.getType()).clone(b.getI32Type());
  Value bits = arith::BitcastOp::create(b, type, tile);
  Value minusOne =
      arith::ConstantOp::create(b, DenseElementsAttr::get(type, -1));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, bits, minusOne);
}

/// The tile relative to a start that all its scores are below.
RareMaximum::TileState FoldedMaximum::followStart(const TileState &tile) const {
  const RowState &state = tile.state;
  auto inSteps = [&](Value value) -> Value {
    Value steps =
        arith::MulFOp::create(b, value, b.constant(1 / getStep(), {b.warpM}));
    return arith::MulFOp::create(b, math::CeilOp::create(b, steps),
                                 b.constant(getStep(), {b.warpM}));
  };
  Value tileMax = b.reduceMax(tile.scores, b.constant(kMinusInf, {b.warpM}));
  Value raise = arith::AddFOp::create(b, tileMax,
                                      b.constant(getFoldedSlack(), {b.warpM}));
  Value start = getStart(state);
  Value kept = arith::SubFOp::create(b, start, inSteps(raise));
  // A start only falls, but for that of the first key.
  Value fallen = arith::MinNumFOp::create(b, kept, state.rowMax);
  Value isFirst = arith::AndIOp::create(
      b, isEmpty(state),
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, tileMax,
                            b.constant(kMinusInf, {b.warpM})));
  kept = arith::SelectOp::create(b, isFirst, kept, fallen);
  Value factors =
      exponentiateDifference(b, kept, state.rowMax, b.getExponentScale());
  // Of rows without a key any factor is one of zeros, if it is finite.
  factors = arith::MinNumFOp::create(b, factors, b.constant(1, {b.warpM}));
  Value difference = arith::SubFOp::create(b, kept, start);
  return {makeRelativeTo(state, kept, factors),
          arith::AddFOp::create(b, tile.scores,
                                b.broadcastRows(difference, b.blockN)),
          /*addend=*/Value()};
}

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createFoldedMaximum(TileBuilder &b, const RowSumPolicy &sum,
                                     bool isOutputLate) {
  return std::make_unique<FoldedMaximum>(b, sum, isOutputLate);
}
