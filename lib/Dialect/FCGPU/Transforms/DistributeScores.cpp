//===- DistributeScores.cpp - Changes of scores to lanes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fcgpu.map_scores: its region becomes straight code for each element of a
// lane. What depends on the row alone is cloned once a row, and so is what
// grows by the same amount from key to key, in its first column: in the others
// it is a constant away. Keys are compared in 32 bits, relative to the lane's
// first key: their side of the comparison is then a constant, and takes no
// register. Loads that are paired read what a lane has side by side at once.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "TileLoop.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <cstdlib>
#include <map>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

namespace {
/// A value that grows by the same amount from column to column: by `factor`, or
/// that times `scale`, a value of the row.
struct Linear {
  int64_t factor = 0;
  Value scale = {};
  /// Whether a whole number does so as it is, not only modulo 2^32.
  bool isExact = true;
};

/// Clones the region of one map_scores.
class ScoreCloner {
public:
  /// `hasPairs`: whether a lane has an even column and the next one together.
  ScoreCloner(IndexBuilder &b, MapScoresOp op, Value query, Value key,
              bool hasPairs)
      : b(b), body(op.getBody().front()), query(query), key(key),
        cols(op.getScores().getType().getDimSize(1)), hasPairs(hasPairs) {
    auto yield = cast<YieldOp>(body.getTerminator());
    result = yield.getValue();
    // In order, so that an op's operands are known before it.
    perElement.insert(body.getArgument(0));
    linear[body.getArgument(2)] = {1};
    for (Operation &inner : body.without_terminator()) {
      if (isRepeatable(&inner) && !usesColumn(&inner))
        continue;
      if (auto found = getLinear(&inner))
        linear[inner.getResult(0)] = *found;
      else
        perElement.insert(inner.result_begin(), inner.result_end());
    }
    for (Operation &inner : llvm::reverse(body.without_terminator()))
      if (isa<memref::LoadOp>(inner) ||
          (inner.getNumResults() == 1 && places.contains(inner.getResult(0))))
        places.insert(inner.operand_begin(), inner.operand_end());
  }

  /// The value of the element that is `row` rows and `col` columns from the
  /// lane's first.
  Value clone(Value element, int64_t row, int64_t col) {
    IRMapping mapping = getRow(row);
    mapping.map(body.getArgument(0), element);
    for (auto [value, growth] : linear)
      mapping.erase(value);
    for (Operation &inner : body.without_terminator()) {
      if (!isPerElement(&inner) || cloneComparison(&inner, mapping, row, col) ||
          clonePaired(&inner, mapping, row, col))
        continue;
      inner.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          if (linear.contains(operand) && !mapping.contains(operand))
            mapping.map(operand, getValue(operand, row, col));
      });
      b.clone(inner, mapping)->removeAttr(kPairedAttrName);
    }
    return linear.contains(result) ? getValue(result, row, col)
                                   : mapping.lookupOrDefault(result);
  }

private:
  bool isPerElement(Operation *inner) {
    return inner->getNumResults() == 0 ||
           perElement.contains(inner->getResult(0));
  }
  bool isOfRow(Value value) {
    return !perElement.contains(value) && !linear.contains(value);
  }
  bool usesColumn(Operation *inner) {
    bool found = false;
    inner->walk([&](Operation *nested) {
      found |= !llvm::all_of(nested->getOperands(),
                             [&](Value operand) { return isOfRow(operand); });
    });
    return found;
  }

  /// How a value of the row, or a linear one, grows.
  std::optional<Linear> getGrowth(Value value) {
    if (perElement.contains(value))
      return std::nullopt;
    return linear.lookup(value); // or 0
  }
  std::optional<Linear> getLinear(Operation *op);
  std::optional<Linear>
  getLinearInteger(Operation *op,
                   function_ref<std::optional<Linear>(Value)> getGrowth);
  std::optional<Linear> getRowGrowth(Value value);
  std::optional<Linear> computeRowGrowth(Value value);
  std::optional<Linear> getLinearReal(Operation *op);
  Value getValue(Value value, int64_t row, int64_t col);
  IRMapping &getRow(int64_t row);
  bool cloneComparison(Operation *inner, IRMapping &mapping, int64_t row,
                       int64_t col);
  Value getLimit(arith::CmpIOp compare, int64_t row, int64_t growth);
  bool clonePaired(Operation *inner, IRMapping &mapping, int64_t row,
                   int64_t col);
  Value getPair(memref::LoadOp load, int64_t row, int64_t col);

  IndexBuilder &b;
  Block &body;
  Value query, key, result;
  int64_t cols;
  bool hasPairs;
  llvm::DenseSet<Value> perElement;
  llvm::MapVector<Value, Linear> linear;
  /// What places of loads are computed from.
  llvm::DenseSet<Value> places;
  llvm::DenseMap<Value, std::optional<Linear>> rowGrowths;
  /// The values of a row, in its first column.
  std::map<int64_t, IRMapping> rows;
  /// Those that ops compare there, by row.
  std::map<std::pair<Operation *, int64_t>, Value> limits;
  /// What paired loads have read, by row and even column.
  std::map<std::tuple<Operation *, int64_t, int64_t>, Value> pairs;
};
} // namespace

/// Of a whole number: sums, differences, products with constants, and casts.
/// Those of 32 bits may wrap unless they say that they do not.
std::optional<Linear> ScoreCloner::getLinearInteger(
    Operation *op, function_ref<std::optional<Linear>(Value)> getGrowth) {
  auto lhs = getGrowth(op->getOperand(0));
  if (!lhs)
    return std::nullopt;
  bool isWide = op->getResult(0).getType().isIndex();
  if (isa<arith::IndexCastOp>(op)) {
    if (isWide && !lhs->isExact)
      return std::nullopt;
    // Coordinates are small.
    lhs->isExact &= isWide || isa<BlockArgument>(op->getOperand(0));
    return lhs;
  }
  auto arithmetic = dyn_cast<arith::ArithIntegerOverflowFlagsInterface>(op);
  auto rhs = arithmetic ? getGrowth(op->getOperand(1)) : lhs;
  if (!arithmetic || !rhs)
    return std::nullopt;
  Linear result;
  result.isExact =
      (isWide || arithmetic.hasNoSignedWrap()) && lhs->isExact && rhs->isExact;
  APInt constant;
  constexpr int64_t maxFactor = int64_t(1) << 20;
  if (isa<arith::AddIOp>(op))
    result.factor = lhs->factor + rhs->factor;
  else if (isa<arith::SubIOp>(op))
    result.factor = lhs->factor - rhs->factor;
  else if (isa<arith::MulIOp>(op) && rhs->factor == 0 &&
           matchPattern(op->getOperand(1), m_ConstantInt(&constant)) &&
           constant.getSExtValue() >= -maxFactor &&
           constant.getSExtValue() <= maxFactor)
    result.factor = lhs->factor * constant.getSExtValue();
  else
    return std::nullopt;
  return std::abs(result.factor) <= maxFactor ? std::optional(result)
                                              : std::nullopt;
}

/// Of a real one: sums, differences, and the product with a value of the row.
std::optional<Linear> ScoreCloner::getLinearReal(Operation *op) {
  auto lhs = getGrowth(op->getOperand(0));
  if (isa<arith::SIToFPOp>(op) && lhs && lhs->isExact)
    return Linear{lhs->factor};
  if (isa<arith::NegFOp>(op) && lhs)
    return Linear{-lhs->factor, lhs->scale};
  auto rhs = op->getNumOperands() == 2 ? getGrowth(op->getOperand(1))
                                       : std::optional<Linear>();
  if (!lhs || !rhs)
    return std::nullopt;
  bool isSum = isa<arith::AddFOp>(op);
  if (isSum || isa<arith::SubFOp>(op)) {
    // Of a sum of both kinds there is no one scale.
    if (lhs->factor && rhs->factor && lhs->scale != rhs->scale)
      return std::nullopt;
    return Linear{lhs->factor + (isSum ? rhs->factor : -rhs->factor),
                  lhs->factor ? lhs->scale : rhs->scale};
  }
  bool isLeft = lhs->factor != 0;
  Linear one = isLeft ? *lhs : *rhs;
  Value other = op->getOperand(isLeft ? 1 : 0);
  if (isa<arith::MulFOp>(op) && !one.scale && isOfRow(other))
    return Linear{one.factor, other};
  return std::nullopt;
}

std::optional<Linear> ScoreCloner::getLinear(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumRegions() != 0 ||
      op->getNumResults() != 1)
    return std::nullopt;
  Type type = op->getResult(0).getType();
  if (type.isF32())
    return getLinearReal(op);
  bool isInteger = type.isIndex() || type.isSignlessInteger(32);
  return isInteger ? getLinearInteger(
                         op, [&](Value value) { return getGrowth(value); })
                   : std::nullopt;
}

/// How a whole number in the first column grows from row to row.
std::optional<Linear> ScoreCloner::getRowGrowth(Value value) {
  auto it = rowGrowths.find(value);
  if (it != rowGrowths.end())
    return it->second;
  std::optional<Linear> growth = computeRowGrowth(value);
  rowGrowths[value] = growth;
  return growth;
}

std::optional<Linear> ScoreCloner::computeRowGrowth(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != &body)
    return Linear{value == body.getArgument(1) ? 1 : 0};
  auto growthOf = [&](Value operand) { return getRowGrowth(operand); };
  auto isConstant = [&](Value operand) {
    auto growth = growthOf(operand);
    return growth && growth->factor == 0;
  };
  if (op->getNumRegions() == 0 && llvm::all_of(op->getOperands(), isConstant))
    return Linear{};
  bool isInteger = value.getType().isIndex() || value.getType().isInteger(32);
  return isInteger ? getLinearInteger(op, growthOf) : std::nullopt;
}

/// A linear value in a column.
Value ScoreCloner::getValue(Value value, int64_t row, int64_t col) {
  IRMapping &mapping = getRow(row);
  Value first = mapping.lookup(value);
  Linear growth = linear.lookup(value);
  int64_t distance = growth.factor * col;
  // A place that other rows and columns have, too, is the same value there.
  auto ofRow =
      places.contains(value) ? getRowGrowth(value) : std::optional<Linear>();
  if (ofRow && ofRow->factor != 0) {
    first = getRow(0).lookup(value);
    distance += ofRow->factor * row;
  }
  if (distance == 0)
    return first;
  if (first.getType().isIndex())
    return b.add(first, distance);
  if (first.getType().isSignlessInteger())
    return arith::AddIOp::create(
        b, first,
        arith::ConstantOp::create(
            b, b.getI32IntegerAttr(static_cast<int32_t>(distance))));
  Value real = arith::ConstantOp::create(
      b, b.getFloatAttr(first.getType(), static_cast<double>(distance)));
  if (growth.scale)
    return math::FmaOp::create(b, mapping.lookupOrDefault(growth.scale), real,
                               first);
  return arith::AddFOp::create(b, first, real);
}

/// The values of a row, which its first element makes.
IRMapping &ScoreCloner::getRow(int64_t row) {
  auto [it, isNew] = rows.try_emplace(row);
  IRMapping &mapping = it->second;
  if (isNew) {
    mapping.map(body.getArgument(1), b.add(query, row));
    mapping.map(body.getArgument(2), key);
    for (Operation &inner : body.without_terminator())
      if (!isPerElement(&inner))
        b.clone(inner, mapping);
  }
  return mapping;
}

/// The difference of both sides in the first column, cut to what 32 bits hold
/// just outside of what `growth` makes of it in the columns of the tile.
Value ScoreCloner::getLimit(arith::CmpIOp compare, int64_t row,
                            int64_t growth) {
  Value &limit = limits[{compare, row}];
  if (!limit) {
    IRMapping &mapping = getRow(row);
    auto getFirst = [&](Value side) -> Value {
      Value first = mapping.lookupOrDefault(side);
      if (first.getType().isIndex())
        return first;
      return arith::IndexCastOp::create(b, b.getIndexType(), first);
    };
    Value lhs = getFirst(compare.getLhs()), rhs = getFirst(compare.getRhs());
    Value difference = growth < 0 ? b.sub(lhs, rhs) : b.sub(rhs, lhs);
    int64_t most = std::abs(growth) * (cols - 1) + 1;
    Value inTile = arith::MinSIOp::create(b, difference, b.index(most));
    limit = arith::IndexCastOp::create(
        b, b.getI32Type(), arith::MaxSIOp::create(b, inTile, b.index(-1)));
  }
  return limit;
}

/// Whether `inner` compares what is linear with that or with a value of the
/// row, signed or for equality; its clone then takes 32 bits. It is, of growths
/// m and n, lhs + m col <= rhs + n col iff (m - n) col <= rhs - lhs.
bool ScoreCloner::cloneComparison(Operation *inner, IRMapping &mapping,
                                  int64_t row, int64_t col) {
  auto compare = dyn_cast<arith::CmpIOp>(inner);
  if (!compare || compare.getPredicate() >= arith::CmpIPredicate::ult)
    return false;
  auto lhs = getGrowth(compare.getLhs()), rhs = getGrowth(compare.getRhs());
  if (!lhs || !rhs || !lhs->isExact || !rhs->isExact ||
      lhs->factor == rhs->factor)
    return false;
  int64_t growth = lhs->factor - rhs->factor;
  Value column = arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(std::abs(growth) * col)));
  Value limit = getLimit(compare, row, growth);
  bool isLhs = growth > 0;
  mapping.map(compare.getResult(),
              arith::CmpIOp::create(b, compare.getPredicate(),
                                    isLhs ? column : limit,
                                    isLhs ? limit : column));
  return true;
}

/// Both elements from an even column on; two bytes as one number, of which a
/// part costs less than an element of a vector of bytes.
Value ScoreCloner::getPair(memref::LoadOp load, int64_t row, int64_t col) {
  Value &pair = pairs[{load, row, col}];
  if (pair)
    return pair;
  IRMapping &mapping = getRow(row);
  auto indices = llvm::map_to_vector(load.getIndices(), [&](Value index) {
    return linear.contains(index) ? getValue(index, row, col)
                                  : mapping.lookupOrDefault(index);
  });
  Type element = load.getMemRefType().getElementType();
  constexpr int64_t width = 2;
  auto read = vector::LoadOp::create(b, VectorType::get(width, element),
                                     load.getMemRef(), indices);
  read.setAlignment(width * element.getIntOrFloatBitWidth() / 8);
  pair = read.getResult();
  if (!element.isInteger(8))
    return pair;
  auto both = VectorType::get(1, b.getIntegerType(width * 8));
  Value bits = vector::ExtractOp::create(
      b, vector::BitCastOp::create(b, both, pair), /*position=*/0);
  return pair = arith::ExtUIOp::create(b, b.getI32Type(), bits);
}

static Value getElement(IndexBuilder &b, Value pair, int64_t place) {
  if (isa<VectorType>(pair.getType()))
    return vector::ExtractOp::create(b, pair, place);
  if (place != 0)
    pair = arith::ShRUIOp::create(
        b, pair, arith::ConstantOp::create(b, b.getI32IntegerAttr(8)));
  return arith::TruncIOp::create(b, b.getI8Type(), pair);
}

/// Whether `inner` is a paired load, whose clone is then an element of a pair.
bool ScoreCloner::clonePaired(Operation *inner, IRMapping &mapping, int64_t row,
                              int64_t col) {
  auto load = dyn_cast<memref::LoadOp>(inner);
  if (!load || !hasPairs || !load->hasAttr(kPairedAttrName))
    return false;
  // The last coordinate grows with the key, and others do not.
  if (getGrowth(load.getIndices().back()).value_or(Linear()).factor != 1 ||
      !llvm::all_of(load.getIndices().drop_back(),
                    [&](Value index) { return isOfRow(index); }))
    return false;
  int64_t place = col % 2;
  mapping.map(load.getResult(),
              getElement(b, getPair(load, row, col - place), place));
  return true;
}

/// Whether lanes have an even column and the next one together.
static bool hasPairs(const TileLayout &layout) {
  auto areEven = [&](TileLayout::Input input) {
    return llvm::all_of(getBases(layout, input, TileLayout::Column),
                        [](int64_t basis) { return basis % 2 == 0; });
  };
  return layout.getRun(TileLayout::Column) > 1 && areEven(TileLayout::Lane) &&
         areEven(TileLayout::Warp);
}

namespace {
struct DistributeMapScores final : ThreadPattern<MapScoresOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(MapScoresOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const TileLayout *layout = thread.layouts->lookup(op.getScores());
    if (!layout || *layout != *thread.layouts->lookup(op.getResult()))
      return rewriter.notifyMatchFailure(op, "moves scores to other lanes");
    IndexBuilder b(op.getLoc(), rewriter);
    auto placeOf = [&](ValueRange start, TileLayout::Axis axis) {
      return b.add(start.front(), getPlace(b, *layout, axis, thread));
    };
    Value query = placeOf(adaptor.getQuery(), TileLayout::Row);
    Value key = placeOf(adaptor.getKey(), TileLayout::Column);
    ScoreCloner cloner(b, op, query, key, hasPairs(*layout));
    TileRegisters registers(*layout, op.getScores().getType());
    int64_t reg = 0;
    SmallVector<Value> results;
    for (Value part : adaptor.getScores()) {
      auto type = cast<VectorType>(part.getType());
      SmallVector<Value> elements;
      for (int64_t i = 0; i < type.getNumElements(); ++i, ++reg)
        elements.push_back(cloner.clone(vector::ExtractOp::create(b, part, i),
                                        registers.getRow(reg),
                                        registers.getColumn(reg)));
      results.push_back(vector::FromElementsOp::create(b, type, elements));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }
};
} // namespace

void mlir::fcgpu::populateScorePatterns(const TileTypeConverter &converter,
                                        const ThreadContext &context,
                                        RewritePatternSet &patterns) {
  patterns.add<DistributeMapScores>(converter, patterns.getContext(), context);
}
