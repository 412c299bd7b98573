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
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <optional>

using namespace mlir;
using namespace mlir::flashcore;

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
  void setResult(Value value) { yield->setOperand(0, value); }

  Region &change;
  Value score;
  Operation *yield;
  ImplicitLocOpBuilder b;
  llvm::DenseSet<Value> perKey;
  float first;    ///< that the score lacks
  float last = 1; ///< that the result lacks
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

/// Where they are positive: the greatest score stays that.
void FactorMover::takeLastFactors() {
  while (auto product = getProduct(yield->getOperand(0))) {
    float all = last * product->factor;
    if (!std::isnormal(all) || all < 0)
      return;
    last = all;
    setResult(product->of);
  }
  if (isIdentity() && std::isnormal(last * first)) {
    last *= first;
    first = 1;
  }
}

/// x + a * other as c * (y + a / c * other), where x is c * y, or the score
/// with c the factor that it lacks, and `a` is of the row.
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
  b.setInsertionPoint(yield);
  Value factor = arith::ConstantOp::create(b, b.getF32FloatAttr(inverse));
  setResult(math::FmaOp::create(b, arith::MulFOp::create(b, a, factor), other,
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

ScoreFormulas::ScoreFormulas(AttentionOp tile) {
  Location loc = tile.getLoc();
  auto schedule =
      tile->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  bool mayContract = !schedule.isInvariant();
  for (auto [from, to] : {std::pair(&tile.getScoreRegion(), &change),
                          {&tile.getMaskRegion(), &hide}}) {
    if (from->empty())
      continue;
    IRMapping mapping;
    from->cloneInto(to, mapping);
    simplifyRegion(loc, *to, mayContract);
  }
  if (change.empty()) {
    ImplicitLocOpBuilder b(loc, loc.getContext());
    createScoreRegion(b, change);
  }
  FactorMover mover(loc, change, tile.getEffectiveScale());
  bool isCompared =
      !hide.empty() && !hide.getArgument(ScoreArgument::Score).use_empty();
  if (!isCompared)
    scale = mover.takeFactors();
  mover.scaleScore(mayContract);
  if (mover.isIdentity())
    change.getBlocks().clear();
}
