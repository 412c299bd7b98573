//===- ScoreFormulas.cpp - Factors of a score, where they cost least ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A score is a product of query and key times the softmax scale, and the
// exponential multiplies what it becomes once more. Factors move from one end
// of a formula to the other, or into what is computed once a row.
//
// A factor may move where no product that it leaves out, or that comes in its
// place, overflows unless the formula's does: masks of the least f32, doubled,
// are -inf, which hides keys. So values have bounds (getBound): products of
// query and key are small, and what a region loads as f32 may be anything.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;
using namespace mlir::flashcore;

/// The largest f32.
static constexpr double kLargest = std::numeric_limits<float>::max();
/// Above distances, and whatever else is made of coordinates.
static constexpr double kLargestInteger = 0x1p64;
/// Above products of f16 rows, of 256 columns. Those of bf16 are taken to be
/// as small: what is larger is near the end of f32 without a factor.
static constexpr double kLargestProduct = 0x1p40;

/// The largest that what is loaded may be.
static double getBoundOfType(Type type) {
  return type.isF16() ? 65504 : kLargest;
}

/// An upper bound of |value|, of a formula's f32, where that is finite: what is
/// infinite stays that whatever it is multiplied with.
static double getBound(Value value, Value score, double ofScore,
                       llvm::DenseMap<Value, double> &known) {
  if (value == score)
    return ofScore;
  if (auto it = known.find(value); it != known.end())
    return it->second;
  auto of = [&](Value operand) {
    return getBound(operand, score, ofScore, known);
  };
  auto ofAll = [&](ValueRange operands) {
    double most = 0;
    for (Value operand : operands)
      most = std::max(most, of(operand));
    return most;
  };
  Operation *op = value.getDefiningOp();
  double bound = kLargest;
  FloatAttr constant;
  if (matchPattern(value, m_Constant(&constant))) {
    double number = std::abs(constant.getValueAsDouble());
    bound = std::isinf(number) ? 0 : number;
  } else if (isa_and_nonnull<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    bound = kLargestInteger;
  } else if (isa_and_nonnull<math::LogOp, math::Log2Op>(op)) {
    bound = 256;
  } else if (isa_and_nonnull<math::TanhOp, math::SinOp, math::CosOp>(op)) {
    bound = 1;
  } else if (isa_and_nonnull<arith::NegFOp, math::AbsFOp, arith::MaximumFOp,
                             arith::MinimumFOp, arith::MaxNumFOp,
                             arith::MinNumFOp, math::FloorOp, math::CeilOp>(
                 op)) {
    bound = ofAll(op->getOperands());
  } else if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
    bound = ofAll({select.getTrueValue(), select.getFalseValue()});
  } else if (isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op)) {
    bound = of(op->getOperand(0)) + of(op->getOperand(1));
  } else if (isa_and_nonnull<arith::MulFOp>(op)) {
    bound = of(op->getOperand(0)) * of(op->getOperand(1));
  } else if (auto fma = dyn_cast_or_null<math::FmaOp>(op)) {
    bound = of(fma.getA()) * of(fma.getB()) + of(fma.getC());
  } else if (auto extension = dyn_cast_or_null<arith::ExtFOp>(op)) {
    bound = getBoundOfType(extension.getIn().getType());
  }
  return known[value] = std::min(bound, kLargest);
}

namespace {
/// A product with a constant.
struct Product {
  Value of;
  float factor;
};

/// Moves the factors of one formula.
class FactorMover {
public:
  FactorMover(Location loc, Region &change, float scale)
      : change(change), score(change.getArgument(ScoreArgument::Score)),
        yield(change.front().getTerminator()), b(loc, loc.getContext()),
        perKey(getDependents(change.front(),
                             {score, change.getArgument(ScoreArgument::Key)})),
        first(scale) {}

  /// To the end, and away from there. Returns them.
  float takeFactors();
  /// Lets the formula take what has not been multiplied with the scale yet.
  void scaleScore(bool mayContract);
  bool isIdentity() { return yield->getOperand(0) == score; }

private:
  static std::optional<Product> getProduct(Value value);
  /// Whether a value is the same for all keys of a query.
  bool isOfRow(Value value) { return !perKey.contains(value); }
  void takeLastFactors();
  bool takeFactorOfSum();
  bool takeFactorOfSum(Value x, Value a, Value other, float sign);
  double getBoundOf(Value value) {
    return getBound(value, score, kLargestProduct * first, bounds);
  }
  bool mayGrow(Value of, float factor);
  Value multiplyOfRow(Value a, float factor, double bound);
  void setResult(Value value) { yield->setOperand(0, value); }

  Region &change;
  Value score;
  Operation *yield;
  ImplicitLocOpBuilder b;
  llvm::DenseSet<Value> perKey;
  float first;    ///< that the score lacks
  float last = 1; ///< that the result lacks
  /// The largest part of `last` that the formula multiplies the result with, in
  /// its order.
  double growth = 1;
  llvm::DenseMap<Value, double> bounds;
};
} // namespace

std::optional<Product> FactorMover::getProduct(Value value) {
  auto op = value.getDefiningOp<arith::MulFOp>();
  for (unsigned side : {1, 0}) {
    FloatAttr constant;
    if (op && matchPattern(op->getOperand(side), m_Constant(&constant)))
      return Product{op->getOperand(1 - side),
                     constant.getValue().convertToFloat()};
  }
  return std::nullopt;
}

/// Whether the formula multiplies `of` with one factor more, in front of those
/// that have moved, and nothing on the way overflows.
bool FactorMover::mayGrow(Value of, float factor) {
  double next = factor * std::max(1.0, growth);
  if (getBoundOf(of) * next > kLargest)
    return false;
  growth = next;
  return true;
}

/// Where they are positive: the greatest score stays that.
void FactorMover::takeLastFactors() {
  while (auto product = getProduct(yield->getOperand(0))) {
    float all = last * product->factor;
    if (!std::isnormal(all) || all < 0 ||
        !mayGrow(product->of, product->factor))
      return;
    last = all;
    setResult(product->of);
  }
  if (isIdentity() && std::isnormal(last * first)) {
    last *= first;
    first = 1;
  }
}

/// a * factor, of the row. Beyond the largest f32 it is that, so that a product
/// with 0 is 0; what is infinite before stays so. `bound` is that of `a`.
Value FactorMover::multiplyOfRow(Value a, float factor, double bound) {
  auto constant = [&](float value) -> Value {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  };
  auto compare = [&](arith::CmpFPredicate predicate, Value x,
                     Value y) -> Value {
    return arith::CmpFOp::create(b, predicate, x, y);
  };
  Value product = arith::MulFOp::create(b, a, constant(factor));
  if (bound * std::abs(factor) <= kLargest)
    return product;
  Value infinity = constant(std::numeric_limits<float>::infinity());
  Value isLost = arith::AndIOp::create(
      b,
      compare(arith::CmpFPredicate::OEQ, math::AbsFOp::create(b, product),
              infinity),
      compare(arith::CmpFPredicate::OLT, math::AbsFOp::create(b, a), infinity));
  Value isPositive = compare(arith::CmpFPredicate::OGT, product, constant(0));
  Value largest = arith::SelectOp::create(b, isPositive, constant(kLargest),
                                          constant(-kLargest));
  return arith::SelectOp::create(b, isLost, largest, product);
}

/// x + a * other as c * (y + a / c * other), where x is c * y, or the score
/// with c the factor that it lacks, and `a` is of the row. What is made of
/// coordinates may be `other` for any `a`: that only distances times slopes
/// overflow sooner is in the op's description.
bool FactorMover::takeFactorOfSum(Value x, Value a, Value other, float sign) {
  if (!isOfRow(a))
    std::swap(a, other);
  bool isScore = x == score;
  Product product{x, first};
  if (!isScore)
    product = getProduct(x).value_or(Product{x, 0});
  float inverse = sign / product.factor, all = last * product.factor;
  if (!isOfRow(a) || !x.hasOneUse() || product.factor <= 0 ||
      !std::isnormal(inverse) || !std::isnormal(all))
    return false;
  double ofRow = getBoundOf(a), ofOther = getBoundOf(other);
  double most = std::max(1.0, std::abs(double(inverse)));
  bool isSmall = getBoundOf(x) * most + ofRow * ofOther * most <= kLargest;
  if (!isSmall && ofOther > kLargestInteger)
    return false;
  if (!isScore && !mayGrow(product.of, product.factor))
    return false;
  b.setInsertionPoint(yield);
  setResult(math::FmaOp::create(b, multiplyOfRow(a, inverse, ofRow), other,
                                product.of));
  last = all;
  if (isScore)
    first = 1;
  return true;
}

bool FactorMover::takeFactorOfSum() {
  Operation *sum = yield->getOperand(0).getDefiningOp();
  if (auto fma = dyn_cast_or_null<math::FmaOp>(sum))
    return fma->hasOneUse() &&
           takeFactorOfSum(fma.getC(), fma.getA(), fma.getB(), 1);
  if (!isa_and_nonnull<arith::AddFOp, arith::SubFOp>(sum) || !sum->hasOneUse())
    return false;
  auto take = [&](unsigned side, float sign) {
    auto product = sum->getOperand(side).getDefiningOp<arith::MulFOp>();
    return product && takeFactorOfSum(sum->getOperand(1 - side),
                                      product.getLhs(), product.getRhs(), sign);
  };
  if (isa<arith::SubFOp>(sum))
    return take(1, -1);
  return take(1, 1) || take(0, 1);
}

float FactorMover::takeFactors() {
  takeLastFactors();
  eraseDeadOps(change);
  takeFactorOfSum();
  eraseDeadOps(change);
  return last;
}

void FactorMover::scaleScore(bool mayContract) {
  auto getOnlyUser = [&] {
    return score.hasOneUse() ? *score.user_begin() : nullptr;
  };
  while (Operation *user = getOnlyUser()) {
    auto product = user->getNumResults() == 1 ? getProduct(user->getResult(0))
                                              : std::nullopt;
    if (!product || !std::isnormal(first * product->factor))
      break;
    first *= product->factor;
    user->replaceAllUsesWith(ValueRange(score));
    user->erase();
  }
  if (first == 1)
    return;
  b.setInsertionPointToStart(&change.front());
  Value factor = arith::ConstantOp::create(b, b.getF32FloatAttr(first));
  if (auto sum = dyn_cast_or_null<arith::AddFOp>(getOnlyUser())) {
    b.setInsertionPoint(sum);
    Value other = sum.getLhs() == score ? sum.getRhs() : sum.getLhs();
    sum.replaceAllUsesWith(
        math::FmaOp::create(b, score, factor, other).getResult());
    return sum.erase();
  }
  auto scaled =
      arith::MulFOp::create(b, score, factor,
                            mayContract ? arith::FastMathFlags::contract
                                        : arith::FastMathFlags::none);
  score.replaceAllUsesExcept(scaled, scaled);
}

ScoreFormulas::ScoreFormulas(TileOpInterface tile) {
  Location loc = tile->getLoc();
  auto schedule =
      tile->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  bool mayContract = !schedule.isInvariant();
  for (auto [from, to] : {std::pair(tile.findScoreRegion(), &change),
                          {tile.findMaskRegion(), &hide}}) {
    if (!from)
      continue;
    IRMapping mapping;
    from->cloneInto(to, mapping);
    simplifyRegion(loc, *to, mayContract);
  }
  if (change.empty()) {
    ImplicitLocOpBuilder b(loc, loc.getContext());
    createScoreRegion(b, change);
  }
  FactorMover mover(loc, change, tile.getScale());
  bool isCompared =
      !hide.empty() && !hide.getArgument(ScoreArgument::Score).use_empty();
  if (!isCompared)
    scale = mover.takeFactors();
  mover.scaleScore(mayContract);
  if (mover.isIdentity())
    change.getBlocks().clear();
}
