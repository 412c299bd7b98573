//===- TileExpander.h - An attention tile as a loop over keys ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What flashcore-online-softmax does with one tile. OnlineSoftmax.cpp has the
// loop, TileScores.cpp what happens to scores before the exponentials,
// RowMaximum.cpp how the row maximum is followed, TileResult.cpp what is
// written in the end.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H

#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Analysis/TileStaging.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <limits>

namespace mlir::flashcore {
inline constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

/// By how many powers of 2 P may exceed 1 while the maximum is stale: within
/// the range of f16.
inline constexpr float kSlack = 8;

/// Expands one attention tile.
class TileExpander {
public:
  explicit TileExpander(AttentionOp op)
      : op(op), b(op.getLoc(), op),
        schedule(
            op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName)),
        mask(KeyMask::get(op)), warpM(schedule.getWarpM()),
        blockN(schedule.getBlockN()), headDimV(op.getHeadDimV()),
        half(op.getQueryType().getElementType()) {}

  void expand();

private:
  /// What the key loop carries: the unnormalised output, the row maximum of the
  /// raw scores, and the row sums in eight columns (by adding: partial sums,
  /// which are added up after the loop; by mma: the sum in each). With a folded
  /// maximum, what the products start at and the negative sums: see
  /// followStart.
  struct State {
    Value acc, rowMax, rowSum;
  };
  /// A state and the scores of a tile, which are relative to it.
  struct TileState {
    State state;
    Value scores;
  };
  /// What is written of a state: rows of the unnormalised output, the row
  /// maximum, which `maxToLn` turns into a natural logarithm, and the row sum.
  struct Result {
    Value acc, rowMax, rowSum;
    float maxToLn;
  };

  Value constant(float value, ArrayRef<int64_t> shape) {
    auto type = VectorType::get(shape, b.getF32Type());
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getF32FloatAttr(value).getValue()));
  }
  /// `rows` (one value a row) as a tile of `cols` equal columns.
  Value broadcastRows(Value rows, int64_t cols) {
    int64_t numRows = cast<VectorType>(rows.getType()).getDimSize(0);
    Value column = vector::ShapeCastOp::create(
        b, VectorType::get({numRows, 1}, b.getF32Type()), rows);
    return vector::BroadcastOp::create(
        b, VectorType::get({numRows, cols}, b.getF32Type()), column);
  }
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  Value tileOperand(AttentionOp::TileOperand index) {
    return op.getTile()[index];
  }

  bool coversAllKeys();
  bool endsWithTile(AttentionOp::TileOperand bound);
  OpFoldResult clamp(OpFoldResult bound);
  OpFoldResult getWalkedTiles(OpFoldResult count);
  Value getKeyPart();
  OpFoldResult getCountOfPart(OpFoldResult count);
  void computeTileCounts();
  Value readTile(TileRole role, Value row, int64_t rows);
  Value contract(Value lhs, Value rhs, Value acc, bool transposedRhs);
  float getScoreScale();
  bool needsTailMask();
  template <typename Builder>
  Value mapScores(Value scores, Value key, Builder build);
  Value loadBias(Value query, Value key);
  Value changeScores(Value scores, Value key);
  Value maskScores(Value scores, Value key);
  Value branch(Value condition, function_ref<Value()> first,
               function_ref<Value()> second);
  void skipUnlessVisible(Value iteration);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  Value isPartial(Value iteration);
  Value groupColumns(Value tile);
  float getExponentScale();
  Value getSafeMax(Value rowMax);
  Value getScaledMax(Value rowMax);
  Value rescaleRows(Value tile, Value factors);
  State followMax(State state, Value rowMax);
  float getSlack();
  Value isAnyTrue(Value tile, Value orElse);
  Value getClearSigns(Value tile);
  Value isFoldedEmpty(State state);
  TileState followMaxRarely(TileState tile, Value isPartial, Value key);
  TileState followStart(TileState tile, Value isPartial, Value key);
  TileState followRarely(TileState tile, Value exceeds, Value isPartial,
                         Value key, function_ref<TileState(TileState)> follow);
  State unfold(State state);
  Value getTileKey(OpFoldResult iteration);
  bool isFolded() { return schedule.getRowMax() == fcgpu::RowMax::Folded; }
  Value buildScores(Value query, Value key, Value start);
  State accumulate(State state, Value scores, Value key, Value addend);
  Value getAddend(State state);
  State buildIteration(Value query, Value iteration, State state);
  State getEmptyState();
  State buildOnline(Value query);
  int64_t getNumTilesOfOnePass();
  bool mayLackTiles();
  Value maskUnlessFull(Value scores, int64_t i, Value key);
  State buildOnePass(Value query);
  Value sumRows(State state);
  Result mergeParts(State state);
  void writeRows(Value tile, Value memref, Value row, ArrayRef<Value> cols);
  void writeResult(Result result);
  void writeLse(Result result, Value isEmpty, Value row);

  AttentionOp op;
  ImplicitLocOpBuilder b;
  fcgpu::ScheduleAttr schedule;
  KeyMask mask;
  int64_t warpM, blockN, headDimV;
  Type half;
  /// Key tiles are counted from the first key of the op.
  OpFoldResult numTiles; ///< visible key tiles
  OpFoldResult endTile;  ///< one past the last of them
  /// Iterations [0, headEnd) and [tailBegin, numTiles) walk partial tiles.
  OpFoldResult headEnd, tailBegin;
};
} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H
