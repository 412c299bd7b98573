//===- MaskRegion.cpp - What a mask region says of key ranges -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/MaskRegion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/InterleavedRange.h"

#include <cstdlib>
#include <optional>

#define DEBUG_TYPE "flashcore-mask-region"

using namespace mlir;
using namespace mlir::flashcore;

/// Whether the expression, in d0, never falls (or, if `sign` is -1, never
/// rises) while d0, or data of a query, rises.
static bool isMonotone(AffineExpr expr, ArrayRef<BoundSymbol> symbols,
                       int64_t sign = 1) {
  if (isa<AffineConstantExpr>(expr))
    return true;
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return sign > 0 || !symbols[symbol.getPosition()].isOfQuery;
  if (isa<AffineDimExpr>(expr))
    return sign > 0;
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return false;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return isMonotone(binary.getLHS(), symbols, sign) &&
           isMonotone(binary.getRHS(), symbols, sign);
  case AffineExprKind::Mul: {
    auto factor = dyn_cast<AffineConstantExpr>(binary.getRHS());
    return factor && isMonotone(binary.getLHS(), symbols,
                                factor.getValue() < 0 ? -sign : sign);
  }
  case AffineExprKind::FloorDiv:
  case AffineExprKind::CeilDiv:
    return isMonotone(binary.getLHS(), symbols, sign); // by a positive constant
  default:
    return false;
  }
}

/// Places of the region's arguments.
namespace {
enum Argument : unsigned { BatchArgument = 1, QueryArgument = 3, KeyArgument };
} // namespace

/// Whether the value of a region depends on these arguments alone.
static bool dependsOn(Value value, Region &region,
                      ArrayRef<Argument> arguments) {
  if (value.getParentRegion() != &region)
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return llvm::any_of(arguments, [&](Argument argument) {
      return value == region.getArgument(argument);
    });
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return dependsOn(operand, region, arguments);
  });
}

/// Whether the value of a region is computed of what it reads.
static bool readsTensor(Value value, Region &region) {
  Operation *op = value.getDefiningOp();
  if (isa<ShapedType>(value.getType()))
    return true;
  return op && op->getParentRegion() == &region &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return readsTensor(operand, region);
         });
}

using Ranges = SmallVector<RegionBounds>;

/// All keys, of which something hides some.
static RegionBounds getUnknown() {
  RegionBounds bounds;
  bounds.isComplete = false;
  return bounds;
}

static bool isUnbounded(const RegionBounds &bounds) {
  return bounds.first.empty() && bounds.last.empty();
}

static void addAll(SmallVector<AffineExpr> &to, ArrayRef<AffineExpr> from) {
  for (AffineExpr bound : from)
    if (!llvm::is_contained(to, bound))
      to.push_back(bound);
}

/// Keys of both.
static Ranges intersect(const Ranges &lhs, const Ranges &rhs) {
  if (lhs.size() * rhs.size() > kMaxRegionRanges) {
    Ranges fewer = lhs.size() <= rhs.size() ? lhs : rhs;
    for (RegionBounds &bounds : fewer)
      bounds.isComplete = false;
    return fewer;
  }
  Ranges result;
  for (const RegionBounds &left : lhs)
    for (const RegionBounds &right : rhs) {
      RegionBounds &both = result.emplace_back(left);
      addAll(both.first, right.first);
      addAll(both.last, right.last);
      both.isComplete &= right.isComplete;
    }
  return result;
}

/// Keys of at least one.
static Ranges unite(const Ranges &lhs, const Ranges &rhs) {
  Ranges result = lhs;
  for (const RegionBounds &right : rhs)
    if (llvm::none_of(lhs, [&](const RegionBounds &left) {
          return left.first == right.first && left.last == right.last &&
                 left.isComplete == right.isComplete;
        }))
      result.push_back(right);
  auto all = llvm::find_if(result, [](const RegionBounds &bounds) {
    return isUnbounded(bounds) && bounds.isComplete;
  });
  if (all != result.end())
    return {*all};
  if (result.size() > kMaxRegionRanges || llvm::any_of(result, isUnbounded))
    return {getUnknown()};
  return result;
}

namespace {
class MaskReader {
public:
  MaskReader(Region &mask, SmallVectorImpl<BoundSymbol> &symbols)
      : mask(mask), symbols(symbols), context(mask.getContext()),
        query(getAffineDimExpr(0, context)), key(getAffineDimExpr(1, context)) {
  }

  Ranges read() {
    Ranges ranges =
        getRanges(mask.front().getTerminator()->getOperand(0), /*holds=*/true);
    // Where nothing is visible, there is nothing to walk either way.
    return ranges.empty() ? Ranges{getUnknown()} : ranges;
  }

private:
  /// Of constants, and of those that multiply or divide: no bound leaves 64
  /// bits.
  static constexpr int64_t kLargest = int64_t(1) << 30;
  static constexpr int64_t kLargestFactor = int64_t(1) << 14;
  /// The value in d0 and d1, query and key.
  std::optional<AffineExpr> getExpr(Value value);
  std::optional<AffineExpr> getDivision(Operation *op);
  AffineExpr getSymbol(Value value, bool isOfQuery);
  AffineExpr simplify(AffineExpr expr) {
    return simplifyAffineExpr(expr, /*numDims=*/2, symbols.size());
  }
  /// The ranges of keys for which a condition holds, or does not.
  Ranges getRanges(Value condition, bool holds);
  Ranges getRanges(arith::CmpIOp compare, arith::CmpIPredicate predicate);
  /// Adds what follows from a comparison; whether it follows from that, too.
  bool addComparison(Value lhs, arith::CmpIPredicate predicate, Value rhs);
  /// Of |value| <= limit - slack, and of lhs + slack <= rhs.
  bool addAbsolute(Value value, Value limit, int64_t slack);
  bool addLessEqual(Value lhs, Value rhs, int64_t slack);
  /// Of expr <= 0.
  bool addNotPositive(AffineExpr expr);
  bool addQueriesNotPositive(AffineExpr ofQuery);
  bool addBound(SmallVector<AffineExpr> &to, AffineExpr bound);

  Region &mask;
  SmallVectorImpl<BoundSymbol> &symbols;
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
    found &=
        !isa<AffineSymbolExpr>(part) && (!constant || constant.getValue() >= 0);
  });
  return found;
}

static bool hasSymbol(AffineExpr expr) {
  bool found = false;
  expr.walk([&](AffineExpr part) { found |= isa<AffineSymbolExpr>(part); });
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

AffineExpr MaskReader::getSymbol(Value value, bool isOfQuery) {
  auto *it = llvm::find_if(symbols, [&](const BoundSymbol &symbol) {
    return symbol.value == value;
  });
  unsigned position = it - symbols.begin();
  if (it == symbols.end())
    symbols.push_back({value, isOfQuery});
  return getAffineSymbolExpr(position, context);
}

std::optional<AffineExpr> MaskReader::getExpr(Value value) {
  if (value == mask.getArgument(QueryArgument))
    return query;
  if (value == mask.getArgument(KeyArgument))
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
  bool isNarrow = value.getType().isSignlessInteger(32);
  if (isNarrow && dependsOn(value, mask, {BatchArgument}))
    return getSymbol(value, /*isOfQuery=*/false);
  if (isNarrow && readsTensor(value, mask) &&
      dependsOn(value, mask, {BatchArgument, QueryArgument}))
    return getSymbol(value, /*isOfQuery=*/true);
  auto isWide = [](Value each) {
    return each.getType().isIndex() || each.getType().isSignlessInteger(32);
  };
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) && isWide(value) &&
      isWide(op->getOperand(0))) {
    auto source = getExpr(op->getOperand(0));
    // Data may be of any size, and negative.
    bool isExact = isa<arith::IndexCastOp>(op) && !isNarrow;
    return source && hasSymbol(*source) && !isExact ? std::nullopt : source;
  }
  if (isa<arith::FloorDivSIOp, arith::CeilDivSIOp, arith::DivSIOp,
          arith::DivUIOp>(op))
    return getDivision(op);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  auto lhs = getExpr(op->getOperand(0)), rhs = getExpr(op->getOperand(1));
  if (!lhs || !rhs ||
      (isNarrow && (hasSymbol(*lhs) || hasSymbol(*rhs)))) // may wrap
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
  bound = simplify(bound);
  if (!isMonotone(bound, symbols))
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

/// What `value` is the absolute value of, or null. By name: this library does
/// without the math dialect.
static Value getAbsolute(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && op->getName().getStringRef() == "math.absi")
    return op->getOperand(0);
  return {};
}

bool MaskReader::addNotPositive(AffineExpr expr) {
  std::optional<Sum> sum = split(simplify(expr));
  if (!sum)
    return false;
  auto [ofKey, ofQuery] = *sum;
  if (ofKey == getAffineConstantExpr(0, context))
    return addQueriesNotPositive(ofQuery);
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

/// A query sees all keys, or none: their bounds are so far apart.
bool MaskReader::addQueriesNotPositive(AffineExpr ofQuery) {
  constexpr int64_t farAway = int64_t(1) << 31;
  auto getConstant = [&](AffineExpr expr) {
    return dyn_cast<AffineConstantExpr>(simplify(expr));
  };
  if (auto constant = getConstant(ofQuery))
    return constant.getValue() <= 0 ||
           addBound(bounds.first, getAffineConstantExpr(farAway, context));
  // query < number, or query >= number.
  if (auto rest = getConstant(ofQuery - query)) {
    int64_t number = 1 - rest.getValue();
    return addBound(bounds.first, number <= 0
                                      ? getAffineConstantExpr(farAway, context)
                                      : query.floorDiv(number) * farAway);
  }
  auto rest = getConstant(ofQuery + query);
  if (!rest)
    return false;
  return rest.getValue() <= 0 ||
         addBound(bounds.last, query.floorDiv(rest.getValue()) * farAway - 1);
}

bool MaskReader::addAbsolute(Value value, Value limit, int64_t slack) {
  auto expr = getExpr(value), most = getExpr(limit);
  if (!expr || !most)
    return false;
  bool isAbove = addNotPositive(*expr + slack - *most);
  bool isBelow = addNotPositive(slack - *expr - *most);
  return isAbove && isBelow;
}

bool MaskReader::addComparison(Value lhs, arith::CmpIPredicate predicate,
                               Value rhs) {
  int64_t slack = 0;
  switch (predicate) {
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
  if (Value value = getAbsolute(lhs))
    return addAbsolute(value, rhs, slack);
  return addLessEqual(lhs, rhs, slack);
}

Ranges MaskReader::getRanges(arith::CmpIOp compare,
                             arith::CmpIPredicate predicate) {
  Value lhs = compare.getLhs(), rhs = compare.getRhs();
  auto read = [&](Value left, arith::CmpIPredicate relation, Value right) {
    bounds = {};
    bounds.isComplete = addComparison(left, relation, right);
    if (!bounds.isComplete)
      LDBG() << "bounds keys in part or not at all: " << compare;
    return Ranges{std::move(bounds)};
  };
  using Predicate = arith::CmpIPredicate;
  if (predicate == Predicate::ne)
    return unite(read(lhs, Predicate::slt, rhs),
                 read(lhs, Predicate::sgt, rhs));
  return read(lhs, predicate, rhs);
}

Ranges MaskReader::getRanges(Value condition, bool holds) {
  APInt constant;
  if (matchPattern(condition, m_ConstantInt(&constant)))
    return constant.isZero() == holds ? Ranges{} : Ranges{RegionBounds()};
  Operation *op = condition.getDefiningOp();
  if (isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op)) {
    Ranges lhs = getRanges(op->getOperand(0), holds);
    Ranges rhs = getRanges(op->getOperand(1), holds);
    return isa<arith::AndIOp>(op) == holds ? intersect(lhs, rhs)
                                           : unite(lhs, rhs);
  }
  if (isa_and_nonnull<arith::XOrIOp>(op) &&
      matchPattern(op->getOperand(1), m_ConstantInt(&constant)))
    return getRanges(op->getOperand(0), constant.isZero() == holds);
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
    auto getSide = [&](bool side, Value value) {
      return intersect(getRanges(select.getCondition(), side),
                       getRanges(value, holds));
    };
    return unite(getSide(true, select.getTrueValue()),
                 getSide(false, select.getFalseValue()));
  }
  auto compare = dyn_cast_or_null<arith::CmpIOp>(op);
  if (!compare || compare.getLhs().getType() == condition.getType()) {
    LDBG() << "bounds no keys, being no comparison of them: " << condition;
    return {getUnknown()};
  }
  return getRanges(compare,
                   holds ? compare.getPredicate()
                         : arith::invertPredicate(compare.getPredicate()));
}

void mlir::flashcore::dropUnusedSymbols(MutableArrayRef<RegionBounds> ranges,
                                        SmallVectorImpl<BoundSymbol> &symbols) {
  SmallVector<AffineExpr> replacements;
  SmallVector<BoundSymbol> used;
  for (auto [i, symbol] : llvm::enumerate(symbols)) {
    auto hasSymbol = [i = i](AffineExpr bound) {
      return bound.isFunctionOfSymbol(i);
    };
    bool isUsed = llvm::any_of(ranges, [&](const RegionBounds &range) {
      return llvm::any_of(range.first, hasSymbol) ||
             llvm::any_of(range.last, hasSymbol);
    });
    replacements.push_back(getAffineSymbolExpr(
        used.size(), symbol.value.getContext())); // of no bound, if unused
    if (isUsed)
      used.push_back(symbol);
  }
  for (RegionBounds &range : ranges)
    for (auto *bounds : {&range.first, &range.last})
      for (AffineExpr &bound : *bounds)
        bound = bound.replaceSymbols(replacements);
  symbols.assign(used.begin(), used.end());
}

SmallVector<RegionBounds>
mlir::flashcore::getRegionRanges(Region &mask,
                                 SmallVectorImpl<BoundSymbol> &symbols) {
  SmallVector<RegionBounds> ranges = MaskReader(mask, symbols).read();
  dropUnusedSymbols(ranges, symbols);
  for (const RegionBounds &range : ranges)
    LDBG() << "keys (d1) that query d0 sees: from "
           << llvm::interleaved_array(range.first) << " to "
           << llvm::interleaved_array(range.last)
           << (range.isComplete ? ", all of them" : ", some of them");
  return ranges;
}
