//===- RegionArithmetic.cpp - What a region computes, in fewer cycles -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Regions are written as people write formulas: with coordinates of 64 bits,
// floor remainders and divisions. A kernel computes them for every score.
// Bounds are read off a region before, which knows formulas better than their
// parts.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace mlir;
using namespace mlir::flashcore;

static std::optional<int64_t> getConstant(Value value) {
  APInt constant;
  if (!matchPattern(value, m_ConstantInt(&constant)))
    return std::nullopt;
  return constant.getSExtValue();
}

namespace {
/// Numbers from `least` to `most`, of 32 bits.
struct Range {
  int64_t least = std::numeric_limits<int32_t>::min();
  int64_t most = std::numeric_limits<int32_t>::max();

  bool isNarrow() const {
    Range all;
    return least >= all.least && most <= all.most;
  }
};

/// The same number in 32 bits.
struct Narrow {
  Value value;
  Range range;
};

class RegionSimplifier {
public:
  /// `mayContract`: whether LLVM chooses which products are rounded.
  RegionSimplifier(Location loc, Region &region, bool mayContract)
      : body(region.front()), b(loc, loc.getContext()),
        mayContract(mayContract) {
    b.setInsertionPointToStart(&body);
  }

  void simplify();

private:
  /// MaskRegion.h: sums of two coordinates stay within 32 bits.
  static constexpr int64_t kLargestCoordinate = (int64_t(1) << 30) - 1;

  std::optional<Narrow> narrow(Operation *op);
  std::optional<Narrow> narrowBinary(Operation *op);
  std::optional<Narrow> narrowQuotient(Operation *op);
  std::optional<Narrow> narrowRemainder(const Narrow &of, int64_t by);
  std::optional<Narrow> getFloorRemainder(arith::SubIOp op);
  std::optional<Narrow> create(StringRef name, ValueRange operands,
                               Range range);
  /// Constants may stand outside.
  std::optional<Narrow> find(Value value) {
    if (auto number = getConstant(value))
      return getNarrow(*number);
    auto *it = narrows.find(value);
    return it == narrows.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<Narrow> getNarrow(int64_t number) {
    Range range{number, number};
    return range.isNarrow() ? std::optional(Narrow{constant(number), range})
                            : std::nullopt;
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  void replaceUses(Operation *op);
  void replaceReal(Operation *op);
  void addCoordinates();

  Block &body;
  ImplicitLocOpBuilder b;
  bool mayContract;
  llvm::MapVector<Value, Narrow> narrows;
};
} // namespace

static bool isNumber(Type type) {
  return type.isIndex() || type.isSignlessInteger(32);
}

std::optional<Narrow>
RegionSimplifier::create(StringRef name, ValueRange operands, Range range) {
  if (!range.isNarrow())
    return std::nullopt;
  Operation *op = b.create(b.getLoc(), b.getStringAttr(name), operands,
                           TypeRange(b.getI32Type()));
  // What the range says.
  if (auto arithmetic = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op))
    op->setAttr(arithmetic.getIntegerOverflowAttrName(),
                arith::IntegerOverflowFlagsAttr::get(
                    b.getContext(), arith::IntegerOverflowFlags::nsw));
  return Narrow{op->getResult(0), range};
}

/// Of a sum, a difference, a product, the lesser or the greater.
std::optional<Narrow> RegionSimplifier::narrowBinary(Operation *op) {
  auto lhs = find(op->getOperand(0)), rhs = find(op->getOperand(1));
  if (!lhs || !rhs)
    return std::nullopt;
  auto [a, c] = std::pair(lhs->range, rhs->range);
  Range range;
  if (isa<arith::AddIOp>(op)) {
    range = {a.least + c.least, a.most + c.most};
  } else if (isa<arith::SubIOp>(op)) {
    range = {a.least - c.most, a.most - c.least};
  } else if (isa<arith::MulIOp>(op)) {
    auto [least, most] = std::minmax({a.least * c.least, a.least * c.most,
                                      a.most * c.least, a.most * c.most});
    range = {least, most};
  } else if (isa<arith::MinSIOp>(op)) {
    range = {std::min(a.least, c.least), std::min(a.most, c.most)};
  } else {
    range = {std::max(a.least, c.least), std::max(a.most, c.most)};
  }
  return create(op->getName().getStringRef(), {lhs->value, rhs->value}, range);
}

/// x mod n, of numbers that are not negative, or floored for a power of two.
std::optional<Narrow> RegionSimplifier::narrowRemainder(const Narrow &of,
                                                        int64_t by) {
  if (llvm::isPowerOf2_64(by))
    return create("arith.andi", {of.value, constant(by - 1)}, {0, by - 1});
  if (of.range.least >= 0)
    return create("arith.remui", {of.value, constant(by)}, {0, by - 1});
  auto rest = create("arith.remsi", {of.value, constant(by)}, {1 - by, by - 1});
  Value isBelow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                        rest->value, constant(0));
  Value other = arith::AddIOp::create(b, rest->value, constant(by));
  return create("arith.select", {isBelow, other, rest->value}, {0, by - 1});
}

/// x - x floordiv n * n.
std::optional<Narrow> RegionSimplifier::getFloorRemainder(arith::SubIOp op) {
  auto product = op.getRhs().getDefiningOp<arith::MulIOp>();
  auto quotient = product
                      ? product.getLhs().getDefiningOp<arith::FloorDivSIOp>()
                      : arith::FloorDivSIOp();
  if (!quotient || quotient.getLhs() != op.getLhs())
    return std::nullopt;
  auto by = getConstant(quotient.getRhs());
  std::optional<Narrow> of = find(op.getLhs());
  if (!of || !by || *by <= 0 || *by > kLargestCoordinate ||
      getConstant(product.getRhs()) != by)
    return std::nullopt;
  return narrowRemainder(*of, *by);
}

std::optional<Narrow> RegionSimplifier::narrowQuotient(Operation *op) {
  std::optional<Narrow> of = find(op->getOperand(0));
  auto by = getConstant(op->getOperand(1));
  if (!of || !by || *by <= 0 || *by > kLargestCoordinate)
    return std::nullopt;
  bool isPositive = of->range.least >= 0;
  if (isa<arith::RemSIOp, arith::RemUIOp>(op))
    return isPositive ? narrowRemainder(*of, *by) : std::nullopt;
  bool isFloor = isa<arith::FloorDivSIOp>(op);
  if (!isFloor && !isPositive)
    return std::nullopt;
  Range range{llvm::divideFloorSigned(of->range.least, *by),
              llvm::divideFloorSigned(of->range.most, *by)};
  if (llvm::isPowerOf2_64(*by))
    return create("arith.shrsi", {of->value, constant(llvm::Log2_64(*by))},
                  range);
  return create(isPositive ? "arith.divui" : "arith.floordivsi",
                {of->value, constant(*by)}, range);
}

std::optional<Narrow> RegionSimplifier::narrow(Operation *op) {
  Value result = op->getResult(0);
  if (auto value = getConstant(result)) {
    Range range{*value, *value};
    return range.isNarrow() ? std::optional(Narrow{constant(*value), range})
                            : std::nullopt;
  }
  if (auto sub = dyn_cast<arith::SubIOp>(op))
    if (auto rest = getFloorRemainder(sub))
      return rest;
  if (isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::MinSIOp,
          arith::MaxSIOp>(op))
    return narrowBinary(op);
  if (isa<arith::FloorDivSIOp, arith::DivSIOp, arith::DivUIOp, arith::RemSIOp,
          arith::RemUIOp>(op))
    return narrowQuotient(op);
  if (isa<math::AbsIOp>(op)) {
    std::optional<Narrow> of = find(op->getOperand(0));
    Range range = of ? of->range : Range();
    int64_t most = std::max(std::abs(range.least), std::abs(range.most));
    return of ? create("math.absi", {of->value}, {0, most}) : std::nullopt;
  }
  if (isa<arith::IndexCastOp>(op))
    return find(op->getOperand(0));
  return std::nullopt;
}

/// What takes 64 bits and could do with 32.
void RegionSimplifier::replaceUses(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    auto lhs = find(compare.getLhs()), rhs = find(compare.getRhs());
    bool isSigned = compare.getPredicate() < arith::CmpIPredicate::ult;
    if (lhs && rhs && isSigned && compare.getLhs().getType().isIndex()) {
      compare.getLhsMutable().assign(lhs->value);
      compare.getRhsMutable().assign(rhs->value);
    }
    return;
  }
  // Places in memory are 64 bits wide, but made of fewer.
  bool isLoad = op->getName().getStringRef() == "memref.load";
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<Narrow> of = find(operand.get());
    if (!isLoad || !of || !operand.get().getType().isIndex() ||
        isa<BlockArgument>(operand.get()) || getConstant(operand.get()))
      continue;
    operand.set(arith::IndexCastOp::create(b, b.getIndexType(), of->value));
  }
}

/// Divisions by constants are products, and an absolute value costs nothing of
/// a real number.
void RegionSimplifier::replaceReal(Operation *op) {
  FloatAttr divisor;
  if (auto division = dyn_cast<arith::DivFOp>(op);
      division && matchPattern(division.getRhs(), m_Constant(&divisor))) {
    float inverse = 1.0f / divisor.getValue().convertToFloat();
    if (!std::isnormal(inverse))
      return;
    Value factor = arith::ConstantOp::create(b, b.getF32FloatAttr(inverse));
    division.replaceAllUsesWith(
        arith::MulFOp::create(b, division.getLhs(), factor).getResult());
    return;
  }
  if (auto convert = dyn_cast<arith::SIToFPOp>(op))
    if (auto size = convert.getIn().getDefiningOp<math::AbsIOp>()) {
      Value real =
          arith::SIToFPOp::create(b, b.getF32Type(), size.getOperand());
      convert.replaceAllUsesWith(math::AbsFOp::create(b, real).getResult());
    }
}

void RegionSimplifier::addCoordinates() {
  for (Value argument : body.getArguments())
    if (argument.getType().isIndex())
      narrows[argument] = {
          arith::IndexCastOp::create(b, b.getI32Type(), argument),
          {0, kLargestCoordinate}};
}

void mlir::flashcore::eraseDeadOps(Region &region) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(region.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void RegionSimplifier::simplify() {
  addCoordinates();
  for (Operation &op : llvm::make_early_inc_range(body.without_terminator())) {
    b.setInsertionPointAfter(&op);
    Value result = op.getResult(0);
    if (isNumber(result.getType()) && !narrows.contains(result)) {
      auto found = narrow(&op);
      if (!found && result.getType().isSignlessInteger(32))
        found = Narrow{result, Range()};
      if (found) {
        narrows[result] = *found;
        if (result.getType().isSignlessInteger(32) && found->value != result)
          result.replaceAllUsesWith(found->value);
      }
    }
    b.setInsertionPoint(&op);
    replaceUses(&op);
    b.setInsertionPointAfter(&op);
    replaceReal(&op);
  }
  for (Operation &op : body)
    if (mayContract && isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op))
      op.setAttr("fastmath",
                 arith::FastMathFlagsAttr::get(op.getContext(),
                                               arith::FastMathFlags::contract));
  eraseDeadOps(*body.getParent());
}

void mlir::flashcore::simplifyRegion(Location loc, Region &region,
                                     bool mayContract) {
  RegionSimplifier(loc, region, mayContract).simplify();
}
