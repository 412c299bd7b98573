//===- ScoresExpander.cpp - A tile of scores ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One tile of Q K^T, which ScoreBuilder.cpp changes and hides as those of an
// attention, and which is written as it is. Nothing is walked, so no bounds of
// keys are needed: every tile is taken for a partial one.
//
//===----------------------------------------------------------------------===//

#include "ScoreBuilder.h"
#include "TileExpanders.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class ScoresExpander : ScoreBuilder {
public:
  explicit ScoresExpander(ScoresTileOp tile) : ScoreBuilder(tile), tile(tile) {}

  void expand();

private:
  Value getProbabilities(Value scores, Value key);
  Value clearTail(Value scores, Value key);
  void writeScores(Value scores, Value key);

  ScoresTileOp tile;
};
} // namespace

/// exp(score - lse), of an lse that is two numbers. Where it is -inf the row
/// sees no key, and all its scores are -inf, too.
Value ScoresExpander::getProbabilities(Value scores, Value key) {
  return mapScores(scores, key, [&](Value score, Value query, Value) -> Value {
    auto constant = [&](float value) -> Value {
      return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
    };
    SmallVector<Value> row{place.batch, place.head,
                           getInside(query, place.seqlenQ)};
    Value lse = memref::LoadOp::create(b, tile.getLse(), row);
    // score * scale - lse, rounded once: near the maximum it is small.
    Value exponent =
        math::FmaOp::create(b, score, constant(b.getScoreScale()),
                            arith::NegFOp::create(b, getSafeMax(b, lse)));
    if (Value rest = tile.getLseRest())
      exponent = arith::SubFOp::create(b, exponent,
                                       memref::LoadOp::create(b, rest, row));
    return math::Exp2Op::create(
        b, arith::MulFOp::create(b, exponent, constant(llvm::numbers::log2ef)));
  });
}

/// 0 for keys past the end of the sequence, which no mask hides yet.
Value ScoresExpander::clearTail(Value scores, Value key) {
  if (endsWithTile(place.seqlenK))
    return scores;
  return mapScores(scores, key, [&](Value score, Value, Value keyIndex) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, keyIndex,
                                         place.seqlenK);
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    return arith::SelectOp::create(b, exists, score, zero).getResult();
  });
}

/// Writes the tile to the columns from `key` on, as far as there are any.
void ScoresExpander::writeScores(Value scores, Value key) {
  auto memref = cast<MemRefType>(op.getOutput().getType());
  Type element = memref.getElementType();
  if (!element.isF32())
    scores = arith::TruncFOp::create(
        b, VectorType::get({warpM, blockN}, element), scores);
  int64_t columns = memref.getDimSize(AttentionOp::HeadDim);
  bool hasWholeTiles = !ShapedType::isDynamic(columns) && columns % blockN == 0;
  Value zero = asValue(b.getIndexAttr(0));
  vector::TransferWriteOp::create(b, scores, op.getOutput(),
                                  ValueRange{zero, zero, zero, key},
                                  ArrayRef<bool>{false, hasWholeTiles});
}

void ScoresExpander::expand() {
  mask = KeyMask::get(op.getCausal(), op.getWindowLeft(), op.getWindowRight());
  mask.hasOpaqueRegion = op.findMaskRegion() != nullptr;
  numTiles = b.getIndexAttr(1);
  ScoresStage stage = tile.getStage();
  Value key = place.firstKey;
  Value query = readTile(TileRole::Query, asValue(b.getIndexAttr(0)), warpM);
  Value scores = buildScores(query, key, b.constant(0.0f, {warpM, blockN}));
  scores = changeScores(scores, key);
  scores = stage >= ScoresStage::Masked ? maskScores(scores, key)
                                        : clearTail(scores, key);
  if (stage == ScoresStage::Probabilities)
    scores = getProbabilities(scores, key);
  else if (b.getScoreScale() != 1)
    scores = arith::MulFOp::create(
        b, scores, b.constant(b.getScoreScale(), {warpM, blockN}));
  writeScores(scores, key);
  op.erase();
}

void mlir::flashcore::expandScores(ScoresTileOp tile) {
  ScoresExpander(tile).expand();
}
