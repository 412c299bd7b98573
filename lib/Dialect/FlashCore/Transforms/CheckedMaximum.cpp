//===- CheckedMaximum.cpp - A row maximum that exponentials check ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RareMaximum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
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

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createCheckedMaximum(TileBuilder &b, const RowSumPolicy &sum,
                                      bool isOutputLate) {
  return std::make_unique<CheckedMaximum>(b, sum, isOutputLate);
}
