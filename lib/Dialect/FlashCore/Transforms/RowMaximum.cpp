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
#include "mlir/Dialect/SCF/IR/SCF.h"

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

/// What makes a state, which keeps the maximum itself, relative to `rowMax`,
/// which is not below its own.
static Value getFactors(TileBuilder &b, const RowState &state, Value rowMax) {
  Value scale = b.constant(b.getExponentScale(), {b.warpM});
  Value scaledMax = b.getScaledMax(rowMax);
  // A maximum that stays minus itself rounded is not 0 if that is not exact, so
  // that the state would change where a row sees no key of a tile.
  Value exponents =
      b.isInvariant
          ? arith::AddFOp::create(
                b, arith::MulFOp::create(b, state.rowMax, scale), scaledMax)
                .getResult()
          : math::FmaOp::create(b, state.rowMax, scale, scaledMax).getResult();
  return math::Exp2Op::create(b, exponents);
}

namespace {
class ExactMaximum final : public RowMaxPolicy {
public:
  using RowMaxPolicy::RowMaxPolicy;

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    scores = mask.applyIfPartial(scores);
    Value rowMax = b.reduceMax(scores, state.rowMax);
    Value factors = getFactors(b, state, rowMax);
    state = {sum.rescaleOutput(state.acc, factors), rowMax,
             sum.rescaleSum(state.rowSum, factors)};
    return {state, b.exponentiateBelow(scores, state.rowMax)};
  }
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

  /// A state and the scores of a tile. In the place of an O that is late stand
  /// the factors that its rows wait for.
  struct TileState {
    RowState state;
    Value scores;
  };

  /// The slack in units of the raw scores.
  float getSlack() const { return kSlack / b.getExponentScale(); }

  /// What a tile begins with.
  TileState begin(const RowState &state, Value scores) const;
  /// What `follow` makes of the tile if the condition holds, else the tile. The
  /// branch is about rows, so each warp of a warpgroup takes the side that its
  /// own rows need.
  TileState branch(Value condition, const TileState &tile,
                   function_ref<TileState(TileState)> follow) const;
  /// In such a branch: the tile relative to `rowMax`, its scores as they are.
  TileState makeRelativeTo(const TileState &tile, Value rowMax,
                           Value factors) const;
  /// The tile relative to the maximum with its own scores.
  TileState followScores(const TileState &tile, Value tileMax) const;
  /// The state behind the exponentials: `followed` if any branch was taken,
  /// which began with the O of `state`.
  Exponentials end(const RowState &state, const TileState &tile, Value p,
                   Value followed) const;

  /// What `exponentiate` makes of `follow(tile)` if any of `exceeds` is true,
  /// else of the tile as it is. A partial tile takes that branch, too, where it
  /// is masked first: full tiles then need no loop of their own to be rid of
  /// the mask.
  Exponentials
  followRarely(const RowState &state, Value scores, Value exceeds,
               Value isPartial, const TileMask &mask,
               function_ref<TileState(TileState)> follow,
               function_ref<Value(const TileState &)> exponentiate) const;

  Value rescale(const TileState &tile, Value factors) const;

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
    Value limits = arith::AddFOp::create(b, state.rowMax,
                                         b.constant(getSlack(), {b.warpM}));
    Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                          getPartialMax(scores),
                                          b.broadcastRows(limits, 8));
    auto follow = [&](const TileState &tile) {
      return followScores(tile, getPartialMax(tile.scores));
    };
    auto exponentiate = [&](const TileState &tile) {
      return b.exponentiateBelow(tile.scores, tile.state.rowMax);
    };
    return followRarely(state, scores, exceeds, isPartial, mask, follow,
                        exponentiate);
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
/// one without a sign bit.
class FoldedMaximum final : public RareMaximum {
public:
  using RareMaximum::RareMaximum;

  Value getInitialMax() const override { return b.constant(0.0f, {b.warpM}); }
  Value getProductStart(const RowState &state) const override {
    return b.broadcastRows(state.rowMax, b.blockN);
  }
  float getUnit() const override { return -1; }

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    Value isPartial = mask.isPartial();
    Value exceeds = vector::MultiDimReductionOp::create(
        b, b.groupColumns(getClearSigns(scores)),
        getClearSigns(sum.getColumns(state)),
        ArrayRef<bool>{false, true, false}, vector::CombiningKind::OR);
    auto follow = [&](const TileState &tile) { return followStart(tile); };
    auto exponentiate = [&](const TileState &tile) {
      Value slack = b.constant(kSlack, {b.warpM, b.blockN});
      return b.exponentiate(tile.scores, slack);
    };
    return followRarely(state, scores, exceeds, isPartial, mask, follow,
                        exponentiate);
  }

  Value readMax(const RowState &state) const override {
    Value rowMax = arith::SubFOp::create(b, b.constant(-getSlack(), {b.warpM}),
                                         state.rowMax);
    return arith::SelectOp::create(b, isEmpty(state),
                                   b.constant(kMinusInf, {b.warpM}), rowMax);
  }
  Value readSum(const RowState &state) const override {
    return sum.reduce(arith::NegFOp::create(b, sum.getColumns(state)));
  }

private:
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

/// Whether any element of a tile or vector of i1 is true, or `orElse` (which
/// may be null).
static Value isAnyTrue(TileBuilder &b, Value tile, Value orElse) {
  if (!orElse)
    orElse = arith::ConstantOp::create(b, b.getBoolAttr(false));
  SmallVector<bool> all(cast<VectorType>(tile.getType()).getRank(), true);
  return vector::MultiDimReductionOp::create(b, tile, orElse, all,
                                             vector::CombiningKind::OR);
}

/// The rows of `acc` multiplied with `factors` if the condition holds.
Value RareMaximum::rescaleIf(Value condition, Value acc, Value factors) const {
  auto ifOp = scf::IfOp::create(b, TypeRange(acc.getType()), condition,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, acc);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, sum.rescaleOutput(acc, factors));
  return ifOp.getResult(0);
}

RareMaximum::TileState RareMaximum::begin(const RowState &state,
                                          Value scores) const {
  TileState tile{state, scores};
  if (isOutputLate)
    tile.state.acc = b.constant(1.0f, {b.warpM});
  return tile;
}

RareMaximum::TileState
RareMaximum::branch(Value condition, const TileState &tile,
                    function_ref<TileState(TileState)> follow) const {
  auto getValues = [](const TileState &tile) {
    SmallVector<Value> values = tile.state.getValues();
    values.push_back(tile.scores);
    return values;
  };
  auto values = getValues(tile);
  auto ifOp = scf::IfOp::create(b, TypeRange(ValueRange(values)), condition,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, values);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, getValues(follow(tile)));
  ResultRange results = ifOp.getResults();
  return {RowState::get(results), results.back()};
}

/// The rows of O multiplied with `factors`, or those that it waits for.
Value RareMaximum::rescale(const TileState &tile, Value factors) const {
  Value acc = tile.state.acc;
  if (isOutputLate)
    return b.createOrFold<arith::MulFOp>(b.getLoc(), factors, acc);
  return sum.rescaleOutput(acc, factors);
}

RareMaximum::TileState RareMaximum::makeRelativeTo(const TileState &tile,
                                                   Value rowMax,
                                                   Value factors) const {
  return {{rescale(tile, factors), rowMax,
           sum.rescaleSum(tile.state.rowSum, factors)},
          tile.scores};
}

RareMaximum::TileState RareMaximum::followScores(const TileState &tile,
                                                 Value tileMax) const {
  Value rowMax = b.reduceMax(tileMax, tile.state.rowMax);
  return makeRelativeTo(tile, rowMax, getFactors(b, tile.state, rowMax));
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
    const RowState &state, Value scores, Value exceeds, Value isPartial,
    const TileMask &mask, function_ref<TileState(TileState)> follow,
    function_ref<Value(const TileState &)> exponentiate) const {
  Value follows = isAnyTrue(b, exceeds, isPartial);
  auto followMasked = [&](TileState tile) {
    if (isPartial)
      tile.scores = mask.apply(tile.scores);
    return follow(tile);
  };
  TileState tile = branch(follows, begin(state, scores), followMasked);
  return end(state, tile, exponentiate(tile), follows);
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
  auto [state, scores] = tile;
  Value zero = b.constant(0, {b.warpM});
  Value tileMax = b.reduceMax(scores, b.constant(kMinusInf, {b.warpM}));
  Value raise = b.getSafeMax(
      arith::AddFOp::create(b, tileMax, b.constant(getSlack(), {b.warpM})));
  Value growth = arith::MaxNumFOp::create(b, raise, zero);
  raise = arith::SelectOp::create(b, isEmpty(state), raise, growth);
  Value factors = math::Exp2Op::create(
      b, arith::MulFOp::create(b, growth,
                               b.constant(-b.getExponentScale(), {b.warpM})));
  return {{rescale(tile, factors),
           arith::SubFOp::create(b, state.rowMax, raise),
           sum.rescaleSum(state.rowSum, factors)},
          arith::SubFOp::create(b, scores, b.broadcastRows(raise, b.blockN))};
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
  Value isUnknown =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, state.rowMax,
                            b.constant(kMinusInf, {b.warpM}));
  Value follows = isAnyTrue(b, isUnknown, isPartial);
  TileState tile = branch(follows, begin(state, scores), [&](TileState tile) {
    if (isPartial)
      tile.scores = mask.apply(tile.scores);
    return followScores(tile, tile.scores);
  });
  tile.scores = b.exponentiateBelow(tile.scores, tile.state.rowMax);
  Value bits = getBits(b, b.groupColumns(tile.scores));
  Value none = getIntegers(b, 0, getBits(b, b.constant(0, {b.warpM, 8})));
  Value largest = vector::MultiDimReductionOp::create(
      b, bits, none, ArrayRef<bool>{false, true, false},
      vector::CombiningKind::MAXSI);
  constexpr int32_t limit = (kExponentBias + static_cast<int32_t>(kSlack))
                            << kMantissaBits;
  Value exceeds = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, largest,
                                        getIntegers(b, limit, largest));
  exceeds = isAnyTrue(b, exceeds, /*orElse=*/{});
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
  Value factors = getFactors(b, tile.state, rowMax);
  TileState scaled = makeRelativeTo(tile, rowMax, factors);
  scaled.scores =
      arith::MulFOp::create(b, tile.scores, b.broadcastRows(factors, b.blockN));
  return scaled;
}

/// Rows whose sum is no number, or infinite.
Value CheckedMaximum::isLost(const RowState &state) const {
  Value columns = sum.getColumns(state);
  Value infinity =
      b.constant(-kMinusInf, cast<VectorType>(columns.getType()).getShape());
  return isAnyTrue(
      b, arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, columns, infinity),
      /*orElse=*/{});
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
