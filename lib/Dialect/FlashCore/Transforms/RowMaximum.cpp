//===- RowMaximum.cpp - Following the maximum of a row --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact: with every tile. Stale: when a score exceeds it by too much. Folded:
// the same, of products that start at its negative. Checked: when an
// exponential does.
//
//===----------------------------------------------------------------------===//

#include "RowPolicies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

Value RowMaxPolicy::getInitialMax() const {
  return b.constant(kMinusInf, {b.warpM});
}

Value RowMaxPolicy::getProductStart(const RowState &) const {
  return b.constant(0.0f, {b.warpM, b.blockN});
}

Value RowMaxPolicy::readMax(const RowState &state) const {
  return state.rowMax;
}

Value RowMaxPolicy::readSum(const RowState &state) const {
  return sum.reduce(sum.getColumns(state));
}

namespace {
class ExactMaximum final : public RowMaxPolicy {
public:
  using RowMaxPolicy::RowMaxPolicy;

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    scores = mask.applyIfPartial(scores);
    Value rowMax = b.reduceMax(scores, state.rowMax);
    if (b.blockN <= kMostSubtractedKeys) {
      Value to = getSafeMax(b, rowMax);
      float scale = b.getExponentScale();
      Value factors = exponentiateDifference(b, state.rowMax, to, scale);
      state = {sum.rescaleOutput(state.acc, factors), rowMax,
               sum.rescaleSum(state.rowSum, factors)};
      return {state, exponentiateDifference(
                         b, scores, b.broadcastRows(to, b.blockN), scale)};
    }
    Value addend = b.getAddend(rowMax);
    auto isFar = [&]() -> SmallVector<Value> {
      RowReference to = b.getReference(getSafeMax(b, rowMax));
      return {b.subtract(scores, to), to.addend,
              b.getFactors(b.getReference(state.rowMax), to)};
    };
    auto isNear = [&]() -> SmallVector<Value> {
      // Rounded as the addend is that the state is relative to.
      Value before = arith::MulFOp::create(
          b, state.rowMax, b.constant(b.getExponentScale(), {b.warpM}));
      return {
          scores, addend,
          math::Exp2Op::create(b, arith::AddFOp::create(b, before, addend))};
    };
    auto related = b.branch(b.isAnyTrue(b.areFar(addend)), isFar, isNear);
    Value factors = related[2];
    state = {sum.rescaleOutput(state.acc, factors), rowMax,
             sum.rescaleSum(state.rowSum, factors)};
    return {state,
            b.exponentiate(related[0], b.broadcastRows(related[1], b.blockN))};
  }

private:
  /// In tiles of so many keys the maximum is subtracted from every score, one
  /// operation a score more: the kernels of small grids and of decoding wait
  /// longer for a branch and for its instructions.
  static constexpr int64_t kMostSubtractedKeys = 32;
};

/// Follows the maximum only if some score of the warp's rows exceeds its row's
/// by a factor of 2^8 after exponentiation (FlashAttention-4's conditional
/// rescaling): P then stays within the range of f16, and O and the sum relative
/// to the old maximum are as good.
class RareMaximum : public RowMaxPolicy {
public:
  /// `isOutputLate`: O is rescaled by a branch of its own, since the product
  /// before is not done when the scores are.
  RareMaximum(TileBuilder &b, const RowSumPolicy &sum, bool isOutputLate)
      : RowMaxPolicy(b, sum), isOutputLate(isOutputLate) {}

protected:
  /// By how many powers of 2 P may exceed 1: within the range of f16.
  static constexpr float kSlack = 8;

  /// A state and the scores of a tile, and the addends of their exponents,
  /// where these are not one constant. In the place of an O that is late stand
  /// the factors that its rows wait for.
  struct TileState {
    RowState state;
    Value scores, addend;

    SmallVector<Value> getValues() const {
      SmallVector<Value> values = state.getValues();
      values.push_back(scores);
      if (addend)
        values.push_back(addend);
      return values;
    }
    static TileState get(ValueRange values) {
      return {RowState::get(values), values[3],
              values.size() > 4 ? values[4] : Value()};
    }
    /// P, of scores that are relative to `addend`.
    Value exponentiate(TileBuilder &b) const {
      return b.exponentiate(scores, b.broadcastRows(addend, b.blockN));
    }
  };

  /// The slack in units of the raw scores.
  float getSlack() const { return kSlack / b.getExponentScale(); }

  /// What a tile begins with.
  TileState begin(const RowState &state, Value scores, Value addend = {}) const;
  /// What `follow` makes of the tile if the condition holds, else the tile. The
  /// branch is about rows, so each warp of a warpgroup takes the side that its
  /// own rows need.
  TileState branch(Value condition, const TileState &tile,
                   function_ref<TileState(TileState)> follow) const;
  /// In such a branch: the state relative to `rowMax`.
  RowState makeRelativeTo(const RowState &state, Value rowMax,
                          Value factors) const;
  /// The tile relative to the maximum with its own scores.
  TileState followScores(const TileState &tile, Value tileMax) const;
  /// The state behind the exponentials: `followed` if any branch was taken,
  /// which began with the O of `state`.
  Exponentials end(const RowState &state, const TileState &tile, Value p,
                   Value followed) const;

  /// What `exponentiate` makes of `follow(tile)` if any of `exceeds` or
  /// `orElse` (which may be null) is true, else of the tile as it is. Partial
  /// tiles take that branch, too, and are masked in it: full tiles then need no
  /// loop of their own to be rid of the mask.
  Exponentials
  followRarely(const RowState &state, const TileState &tile, Value exceeds,
               Value orElse, function_ref<TileState(TileState)> follow,
               function_ref<Value(const TileState &)> exponentiate) const;
  /// A tile, masked if it is partial, in such a branch.
  static TileState applyMask(TileState tile, const TileMask &mask,
                             Value isPartial) {
    if (isPartial)
      tile.scores = mask.apply(tile.scores);
    return tile;
  }

  Value rescale(Value acc, Value factors) const;

private:
  Value rescaleIf(Value condition, Value acc, Value factors) const;

  bool isOutputLate;
};

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

/// Looks at no score, but at the exponentials: where one of the warp's rows
/// exceeds 2^8, they are scaled down and the maximum follows by as much. That
/// costs half of the comparisons (integers, of which the hardware takes three
/// at once), and none of them delays an exponential. Rows that have no maximum
/// yet, and partial tiles, follow their scores as a stale maximum does. An
/// exponential that is infinite, of a score that exceeds the maximum by a
/// factor of 2^128, makes the row sum infinite: the rows are lost, and found by
/// it.
class CheckedMaximum final : public RareMaximum {
public:
  using RareMaximum::RareMaximum;

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override;
  Value isLost(const RowState &state) const override;

private:
  TileState followExponentials(const TileState &tile, Value largest) const;
};
} // namespace

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

/// The bits of floats that are not negative, which compare as they do; NaNs
/// are above all others.
static Value getBits(TileBuilder &b, Value tile) {
  return arith::BitcastOp::create(
      b, cast<VectorType>(tile.getType()).clone(b.getI32Type()), tile);
}

static Value getIntegers(TileBuilder &b, int32_t value, Value like) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<VectorType>(like.getType()), value));
}

/// The exponent of a f32 that is 1.
static constexpr int32_t kExponentBias = 127, kMantissaBits = 23;

Exponentials CheckedMaximum::exponentiate(RowState state, Value scores,
                                          const TileMask &mask) const {
  Value isPartial = mask.isPartial();
  // Rows that have no maximum yet are far.
  Value addend = b.getAddend(state.rowMax);
  Value follows = b.isAnyTrue(b.areFar(addend), isPartial);
  TileState tile =
      branch(follows, begin(state, scores, addend), [&](const TileState &tile) {
        TileState masked = applyMask(tile, mask, isPartial);
        return followScores(masked, masked.scores);
      });
  tile = {tile.state, tile.exponentiate(b), /*addend=*/Value()};
  Value bits = getBits(b, b.groupColumns(tile.scores));
  Value none = getIntegers(b, 0, getBits(b, b.constant(0, {b.warpM, 8})));
  Value largest = vector::MultiDimReductionOp::create(
      b, bits, none, ArrayRef<bool>{false, true, false},
      vector::CombiningKind::MAXSI);
  constexpr int32_t limit = (kExponentBias + static_cast<int32_t>(kSlack))
                            << kMantissaBits;
  Value exceeds = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, largest,
                                        getIntegers(b, limit, largest));
  exceeds = b.isAnyTrue(exceeds);
  tile = branch(exceeds, tile, [&](const TileState &tile) {
    return followExponentials(tile, largest);
  });
  return end(state, tile, tile.scores,
             arith::OrIOp::create(b, follows, exceeds));
}

/// Exponentials, which stand in the place of the scores, of which those of a
/// row are at most 1 or, if they are all smaller, stay as they are.
RareMaximum::TileState CheckedMaximum::followExponentials(const TileState &tile,
                                                          Value largest) const {
  Value zero = getIntegers(b, 0, getBits(b, b.constant(0, {b.warpM})));
  Value bits = vector::MultiDimReductionOp::create(
      b, largest, zero, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXSI);
  // Rounded up.
  Value exponent =
      arith::ShRSIOp::create(b, bits, getIntegers(b, kMantissaBits, bits));
  exponent = arith::SubIOp::create(b, exponent,
                                   getIntegers(b, kExponentBias - 1, bits));
  exponent = arith::MaxSIOp::create(b, exponent, zero);
  Value growth = arith::SIToFPOp::create(
      b, VectorType::get({b.warpM}, b.getF32Type()), exponent);
  Value rowMax = math::FmaOp::create(
      b, growth, b.constant(1 / b.getExponentScale(), {b.warpM}),
      tile.state.rowMax);
  Value factors = b.getFactors(b.getReference(tile.state.rowMax),
                               b.getReference(getSafeMax(b, rowMax)));
  return {
      makeRelativeTo(tile.state, rowMax, factors),
      arith::MulFOp::create(b, tile.scores, b.broadcastRows(factors, b.blockN)),
      /*addend=*/Value()};
}

/// Rows whose sum is no number, or infinite.
Value CheckedMaximum::isLost(const RowState &state) const {
  Value columns = sum.getColumns(state);
  Value infinity =
      b.constant(-kMinusInf, cast<VectorType>(columns.getType()).getShape());
  return b.isAnyTrue(
      arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, columns, infinity));
}

namespace {
struct Entry {
  fcgpu::RowMax kind;
  std::unique_ptr<RowMaxPolicy> (*create)(TileBuilder &b,
                                          const RowSumPolicy &sum,
                                          bool isOutputLate);
};

template <typename Policy>
std::unique_ptr<RowMaxPolicy> create(TileBuilder &b, const RowSumPolicy &sum,
                                     bool isOutputLate) {
  if constexpr (std::is_base_of_v<RareMaximum, Policy>)
    return std::make_unique<Policy>(b, sum, isOutputLate);
  else
    return std::make_unique<Policy>(b, sum);
}
} // namespace

static constexpr Entry table[] = {
    {fcgpu::RowMax::Exact, create<ExactMaximum>},
    {fcgpu::RowMax::Stale, create<StaleMaximum>},
    {fcgpu::RowMax::Folded, create<FoldedMaximum>},
    {fcgpu::RowMax::Checked, create<CheckedMaximum>},
};

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createRowMax(fcgpu::ScheduleAttr schedule, TileBuilder &b,
                              const RowSumPolicy &sum) {
  for (const Entry &entry : table)
    if (entry.kind == schedule.getRowMax())
      return entry.create(b, sum, schedule.getOverlap() == fcgpu::Overlap::PV);
  llvm_unreachable("every row_max has a row in the table");
}
