//===- DistributeScores.cpp - Changes of scores to lanes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fcgpu.map_scores: its region becomes straight code for each element of a
// lane. What depends on the row alone is cloned once a row, and the key of an
// element is compared in 32 bits, relative to the lane's first key: its side of
// the comparison is then a constant, and takes no register.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

namespace {
/// Clones the region of one map_scores.
class ScoreCloner {
public:
  ScoreCloner(IndexBuilder &b, MapScoresOp op, Value query, Value key)
      : b(b), body(op.getBody().front()), query(query), key(key),
        cols(op.getScores().getType().getDimSize(1)) {
    auto yield = cast<YieldOp>(body.getTerminator());
    result = yield.getValue();
    // In order, so that an op's operands are known before it.
    perElement.insert(score());
    perElement.insert(keyArgument());
    for (Operation &inner : body.without_terminator())
      if (!isPure(&inner) || usesElement(&inner))
        perElement.insert(inner.result_begin(), inner.result_end());
  }

  /// The value of the element that is `row` rows and `col` columns from the
  /// lane's first.
  Value clone(Value element, int64_t row, int64_t col) {
    IRMapping &mapping = getRow(row);
    mapping.map(score(), element);
    mapping.map(keyArgument(), b.add(key, col));
    for (Operation &inner : body.without_terminator())
      if (isPerElement(&inner) && !cloneComparison(&inner, mapping, col))
        b.clone(inner, mapping);
    return mapping.lookupOrDefault(result);
  }

private:
  BlockArgument score() { return body.getArgument(0); }
  BlockArgument keyArgument() { return body.getArgument(2); }

  bool isPerElement(Operation *inner) {
    return inner->getNumResults() == 0 ||
           perElement.contains(inner->getResult(0));
  }
  bool usesElement(Operation *inner) {
    bool found = false;
    inner->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands())
        found |= perElement.contains(operand);
    });
    return found;
  }

  /// The values of a row, which its first element makes.
  IRMapping &getRow(int64_t row) {
    auto [it, isNew] = rows.try_emplace(row);
    IRMapping &mapping = it->second;
    if (isNew) {
      mapping.map(body.getArgument(1), b.add(query, row));
      for (Operation &inner : body.without_terminator())
        if (!isPerElement(&inner))
          b.clone(inner, mapping);
    }
    return mapping;
  }

  /// key + col <= bound iff col <= bound - key, which is cut to what 32 bits
  /// hold just outside of the tile's columns.
  Value getColumn(Value bound) {
    Value &column = columns[bound];
    if (!column) {
      Value inTile =
          arith::MinSIOp::create(b, b.sub(bound, key), b.index(cols));
      column = arith::IndexCastOp::create(
          b, b.getI32Type(), arith::MaxSIOp::create(b, inTile, b.index(-1)));
    }
    return column;
  }

  /// Whether `inner` compares the key with a value of the row, signed or for
  /// equality; its clone then takes 32 bits.
  bool cloneComparison(Operation *inner, IRMapping &mapping, int64_t col) {
    auto compare = dyn_cast<arith::CmpIOp>(inner);
    if (!compare)
      return false;
    arith::CmpIPredicate predicate = compare.getPredicate();
    if (predicate >= arith::CmpIPredicate::ult)
      return false;
    bool isLhs = compare.getLhs() == keyArgument();
    Value bound = isLhs ? compare.getRhs() : compare.getLhs();
    if ((!isLhs && compare.getRhs() != keyArgument()) ||
        perElement.contains(bound))
      return false;
    Value column = arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(col)));
    Value limit = getColumn(mapping.lookupOrDefault(bound));
    mapping.map(compare.getResult(),
                arith::CmpIOp::create(b, predicate, isLhs ? column : limit,
                                      isLhs ? limit : column));
    return true;
  }

  IndexBuilder &b;
  Block &body;
  Value query, key, result;
  int64_t cols;
  llvm::DenseSet<Value> perElement;
  std::map<int64_t, IRMapping> rows;
  llvm::DenseMap<Value, Value> columns;
};

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
    ScoreCloner cloner(b, op, query, key);
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
