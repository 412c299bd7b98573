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
  return math::Exp2Op::create(
      b, math::FmaOp::create(b, state.rowMax, scale, b.getScaledMax(rowMax)));
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

  /// A state and the scores of a tile.
  struct TileState {
    RowState state;
    Value scores;
  };
  /// What comes in the place of O, whose rows are to be multiplied with
  /// `factors`.
  using RescaleOutput = function_ref<Value(Value factors)>;

  /// The slack in units of the raw scores.
  float getSlack() const { return kSlack / b.getExponentScale(); }

  /// What `exponentiate` makes of `follow(tile)` if any of `exceeds` is true,
  /// else of the tile as it is. A partial tile takes that branch, too, where it
  /// is masked first: full tiles then need no loop of their own to be rid of
  /// the mask. The branch is about rows, so each warp of a warpgroup takes the
  /// side that its own rows need.
  Exponentials
  followRarely(TileState tile, Value exceeds, Value isPartial,
               const TileMask &mask,
               function_ref<TileState(TileState, RescaleOutput)> follow,
               function_ref<Value(const TileState &)> exponentiate) const;

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
    auto follow = [&](TileState tile, RescaleOutput rescale) -> TileState {
      Value rowMax = b.reduceMax(getPartialMax(tile.scores), tile.state.rowMax);
      Value factors = getFactors(b, tile.state, rowMax);
      return {{rescale(factors), rowMax,
               sum.rescaleSum(tile.state.rowSum, factors)},
              tile.scores};
    };
    auto exponentiate = [&](const TileState &tile) {
      return b.exponentiateBelow(tile.scores, tile.state.rowMax);
    };
    return followRarely({state, scores}, exceeds, isPartial, mask, follow,
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
    auto follow = [&](TileState tile, RescaleOutput rescale) {
      return followStart(tile, rescale);
    };
    auto exponentiate = [&](const TileState &tile) {
      Value slack = b.constant(kSlack, {b.warpM, b.blockN});
      return b.exponentiate(tile.scores, slack);
    };
    return followRarely({state, scores}, exceeds, isPartial, mask, follow,
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
  TileState followStart(TileState tile, RescaleOutput rescale) const;

  /// Which rows have seen no key.
  Value isEmpty(const RowState &state) const {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, readSum(state),
                                 b.constant(0, {b.warpM}));
  }
};
} // namespace

/// Whether any element of a tile of i1 is true, or `orElse` (which may be
/// null).
static Value isAnyTrue(TileBuilder &b, Value tile, Value orElse) {
  if (!orElse)
    orElse = arith::ConstantOp::create(b, b.getBoolAttr(false));
  return vector::MultiDimReductionOp::create(
      b, tile, orElse, ArrayRef<bool>{true, true}, vector::CombiningKind::OR);
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

Exponentials RareMaximum::followRarely(
    TileState tile, Value exceeds, Value isPartial, const TileMask &mask,
    function_ref<TileState(TileState, RescaleOutput)> follow,
    function_ref<Value(const TileState &)> exponentiate) const {
  Value follows = isAnyTrue(b, exceeds, isPartial);
  // In the place of an O that is late go the factors it waits for.
  auto getValues = [](const TileState &tile) {
    SmallVector<Value> values = tile.state.getValues();
    values.push_back(tile.scores);
    return values;
  };
  TileState old = tile;
  if (isOutputLate)
    old.state.acc = b.constant(1.0f, {b.warpM});
  auto values = getValues(old);
  auto ifOp = scf::IfOp::create(b, TypeRange(ValueRange(values)), follows,
                                /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.elseBlock());
    scf::YieldOp::create(b, values);
    b.setInsertionPointToStart(ifOp.thenBlock());
    TileState partial = tile;
    if (isPartial)
      partial.scores = mask.apply(partial.scores);
    auto rescale = [&](Value factors) {
      return isOutputLate ? factors
                          : sum.rescaleOutput(tile.state.acc, factors);
    };
    scf::YieldOp::create(b, getValues(follow(partial, rescale)));
  }
  ResultRange results = ifOp.getResults();
  RowState state{results[0], results[1], results[2]};
  Value p = exponentiate({state, results[3]});
  // Behind the exponentials: canonicalisation would unite neighbours of one
  // condition, and O is what the first would then wait for.
  if (isOutputLate)
    state.acc = rescaleIf(follows, tile.state.acc, results[0]);
  return {state, p};
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
RareMaximum::TileState FoldedMaximum::followStart(TileState tile,
                                                  RescaleOutput rescale) const {
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
  return {{rescale(factors), arith::SubFOp::create(b, state.rowMax, raise),
           sum.rescaleSum(state.rowSum, factors)},
          arith::SubFOp::create(b, scores, b.broadcastRows(raise, b.blockN))};
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
};

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createRowMax(fcgpu::ScheduleAttr schedule, TileBuilder &b,
                              const RowSumPolicy &sum) {
  for (const Entry &entry : table)
    if (entry.kind == schedule.getRowMax())
      return entry.create(b, sum, schedule.getOverlap() == fcgpu::Overlap::PV);
  llvm_unreachable("every row_max has a row in the table");
}
