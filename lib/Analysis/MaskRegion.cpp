//===- MaskRegion.cpp - What a mask region says of key ranges -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/MaskRegion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <cstdlib>
#include <optional>

using namespace mlir;
using namespace mlir::flashcore;

/// Whether the expression, in d0, never falls (or, if `sign` is -1, never
/// rises) while d0 rises.
static bool isMonotone(AffineExpr expr, int64_t sign = 1) {
  if (isa<AffineConstantExpr>(expr))
    return true;
  if (isa<AffineDimExpr>(expr))
    return sign > 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return isMonotone(binary.getLHS(), sign) &&
           isMonotone(binary.getRHS(), sign);
  case AffineExprKind::Mul: {
    auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
    return factor &&
           isMonotone(binary.getLHS(), factor.getValue() < 0 ? -sign : sign);
  }
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
    return isMonotone(binary.getLHS(), sign); // by a positive constant
  default:
    return false;
  }
}

namespace {
class MaskReader {
public:
  explicit MaskReader(Region &mask)
      : mask(mask), context(mask.getContext()),
        query(getAffineDimExpr(0, context)), key(getAffineDimExpr(1, context)) {
  }

  RegionBounds read() {
    if (!addCondition(mask.front().getTerminator()->getOperand(0)))
      bounds.isComplete = false;
    return std::move(bounds);
  }

private:
  /// Of constants, and of those that multiply or divide: no bound leaves 64
  /// bits.
  static constexpr int64_t kLargest = int64_t(1) << 30;
  static constexpr int64_t kLargestFactor = int64_t(1) << 14;
  /// Places of the region's arguments.
  static constexpr unsigned kQuery = 3, kKey = 4;

  /// The value in d0 and d1, query and key.
  std::optional<AffineExpr> getExpr(Value value);
  std::optional<AffineExpr> getDivision(Operation *op);
  /// Adds what follows from a condition; whether it follows from that, too.
  bool addCondition(Value condition);
  bool addComparison(arith::CmpIOp compare);
  /// Of |value| <= limit - slack, and of lhs + slack <= rhs.
  bool addAbsolute(Value value, Value limit, int64_t slack);
  bool addLessEqual(Value lhs, Value rhs, int64_t slack);
  /// Of expr <= 0.
  bool addNotPositive(AffineExpr expr);
  bool addBound(SmallVector<AffineExpr> &to, AffineExpr bound);

  Region &mask;
  MLIRContext *context;
  AffineExpr query, key;
  RegionBounds bounds;
};
} // namespace

/// Whether the expression is of sums and products of numbers that are not
/// negative, as coordinates are.
static bool isNotNegative(AffineExpr expr) {
  bool found = true;
  expr.walk([&](AffineExpr part) {
    auto constant = dyn_cast<AffineConstantExpr>(part);
    found &= !constant || constant.getValue() >= 0;
  });
  return found;
}

/// Whether a product is in it, or it may be one that was folded.
static bool isProduct(AffineExpr expr) {
  bool found = isa<AffineConstantExpr>(expr);
  expr.walk(
      [&](AffineExpr part) { found |= part.getKind() == AffineExprKind::Mul; });
  return found;
}

std::optional<AffineExpr> MaskReader::getDivision(Operation *op) {
  auto lhs = getExpr(op->getOperand(0)), rhs = getExpr(op->getOperand(1));
  auto by = rhs ? dyn_cast<AffineConstantExpr>(*rhs) : AffineConstantExpr();
  if (!lhs || !by || by.getValue() <= 0 || by.getValue() > kLargestFactor)
    return std::nullopt;
  if (isa<arith::CeilDivSIOp>(op))
    return lhs->ceilDiv(by);
  // A quotient that is rounded to 0 is the floor of what is not negative.
  if (isa<arith::DivSIOp, arith::DivUIOp>(op) && !isNotNegative(*lhs))
    return std::nullopt;
  return lhs->floorDiv(by);
}

std::optional<AffineExpr> MaskReader::getExpr(Value value) {
  if (value == mask.getArgument(kQuery))
    return query;
  if (value == mask.getArgument(kKey))
    return key;
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    int64_t number = constant.getSExtValue();
    if (number < -kLargest || number > kLargest)
      return std::nullopt;
    return getAffineConstantExpr(number, context);
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  auto isWide = [](Value each) {
    return each.getType().isIndex() || each.getType().isSignlessInteger(32);
  };
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) && isWide(value) &&
      isWide(op->getOperand(0)))
    return getExpr(op->getOperand(0));
  if (isa<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::DivSIOp,
          arith::DivUIOp>(op))
    return getDivision(op);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto lhs = getExpr(op->getOperand(0)), rhs = getExpr(op->getOperand(1));
  if (!lhs || !rhs)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return *lhs + *rhs;
  if (isa<arith::SubIOp>(op))
    return *lhs - *rhs;
  // A product of 32 bits may wrap.
  if (isa<AffineConstantExpr>(*lhs))
    std::swap(lhs, rhs);
  auto factor = dyn_cast<AffineConstantExpr>(*rhs);
  bool isSmall = factor && std::abs(factor.getValue()) <= kLargestFactor;
  if (!isSmall || isProduct(*lhs) || !value.getType().isIndex())
    return std::nullopt;
  return *lhs * factor;
}

bool MaskReader::addBound(SmallVector<AffineExpr> &to, AffineExpr bound) {
  bound = simplifyAffineExpr(bound, /*numDims=*/2, /*numSymbols=*/0);
  if (!isMonotone(bound))
    return false;
  if (!llvm::is_contained(to, bound))
    to.push_back(bound);
  return true;
}

namespace {
/// A sum, apart.
struct Sum {
  AffineExpr ofKey, ofQuery;
};
} // namespace

/// The terms of a sum by what they depend on; nothing if one depends on both.
static std::optional<Sum> split(AffineExpr expr) {
  AffineExpr zero = getAffineConstantExpr(0, expr.getContext());
  if (expr.getKind() == AffineExprKind::Add) {
    auto sum = cast<AffineBinaryOpExpr>(expr);
    auto lhs = split(sum.getLHS()), rhs = split(sum.getRHS());
    if (!lhs || !rhs)
      return std::nullopt;
    return Sum{lhs->ofKey + rhs->ofKey, lhs->ofQuery + rhs->ofQuery};
  }
  bool hasQuery = expr.isFunctionOfDim(0), hasKey = expr.isFunctionOfDim(1);
  if (hasQuery && hasKey)
    return std::nullopt;
  return hasKey ? Sum{expr, zero} : Sum{zero, expr};
}

bool MaskReader::addNotPositive(AffineExpr expr) {
  std::optional<Sum> sum = split(simplifyAffineExpr(expr, 2, 0));
  if (!sum)
    return false;
  auto [ofKey, ofQuery] = *sum;
  // key <= -ofQuery, or -key <= -ofQuery.
  if (ofKey == key)
    return addBound(bounds.last, -ofQuery);
  if (ofKey == -key)
    return addBound(bounds.first, ofQuery);
  // key / n <= -ofQuery, or its negative.
  bool isNegative = false;
  auto binary = dyn_cast<AffineBinaryOpExpr>(ofKey);
  if (binary && binary.getKind() == AffineExprKind::Mul &&
      binary.getRHS() == getAffineConstantExpr(-1, context)) {
    isNegative = true;
    binary = dyn_cast<AffineBinaryOpExpr>(binary.getLHS());
  }
  if (!binary || binary.getKind() != AffineExprKind::FloorDiv ||
      binary.getLHS() != key)
    return false;
  AffineExpr by = binary.getRHS();
  return isNegative ? addBound(bounds.first, ofQuery * by)
                    : addBound(bounds.last, (1 - ofQuery) * by - 1);
}

bool MaskReader::addLessEqual(Value lhs, Value rhs, int64_t slack) {
  auto less = getExpr(lhs), more = getExpr(rhs);
  return less && more && addNotPositive(*less + slack - *more);
}

bool MaskReader::addAbsolute(Value value, Value limit, int64_t slack) {
  auto expr = getExpr(value), most = getExpr(limit);
  if (!expr || !most)
    return false;
  bool isAbove = addNotPositive(*expr + slack - *most);
  bool isBelow = addNotPositive(slack - *expr - *most);
  return isAbove && isBelow;
}

bool MaskReader::addComparison(arith::CmpIOp compare) {
  Value lhs = compare.getLhs(), rhs = compare.getRhs();
  int64_t slack = 0;
  switch (compare.getPredicate()) {
  case arith::CmpIPredicate::eq: {
    bool isBelow = addLessEqual(lhs, rhs, 0);
    bool isAbove = addLessEqual(rhs, lhs, 0);
    return isBelow && isAbove;
  }
  case arith::CmpIPredicate::slt:
    slack = 1;
    break;
  case arith::CmpIPredicate::sle:
    break;
  case arith::CmpIPredicate::sgt:
    slack = 1;
    std::swap(lhs, rhs);
    break;
  case arith::CmpIPredicate::sge:
    std::swap(lhs, rhs);
    break;
  default:
    return false;
  }
  // By name: this library does without the math dialect.
  Operation *op = lhs.getDefiningOp();
  if (op && op->getName().getStringRef() == "math.absi")
    return addAbsolute(op->getOperand(0), rhs, slack);
  return addLessEqual(lhs, rhs, slack);
}

bool MaskReader::addCondition(Value condition) {
  APInt constant;
  if (matchPattern(condition, m_ConstantInt(&constant)))
    return !constant.isZero();
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    bool first = addCondition(both.getLhs());
    bool second = addCondition(both.getRhs());
    return first && second;
  }
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  return compare && compare.getLhs().getType() != condition.getType() &&
         addComparison(compare);
}

RegionBounds mlir::flashcore::getRegionBounds(Region &mask) {
  return MaskReader(mask).read();
}
