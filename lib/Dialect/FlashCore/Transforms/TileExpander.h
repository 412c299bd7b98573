//===- TileExpander.h - An attention tile as a loop over keys ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What flashcore-online-softmax does with one tile. OnlineSoftmax.cpp has the
// loop, TileScores.cpp what happens to scores before the exponentials,
// TileReads.cpp what they read of tensors,
// TileBlocks.cpp the walk of lists of blocks, TileDropout.cpp what of P meets
// no V, TileResult.cpp what is written in the end, TileScoresOutput.cpp a tile
// of scores, TileValues.cpp one of P V; how scores become P and sums is for
// RowPolicies.h.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H

#include "RowPolicies.h"
#include "ScoreRegion.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Schedule/TileStaging.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

namespace mlir::flashcore {
/// Expands one attention tile.
class TileExpander {
public:
  /// `flag` is raised where rows are lost; null if none can be.
  explicit TileExpander(TileOpInterface op, Value flag = {})
      : op(op), attention(dyn_cast<AttentionTileOp>(op.getOperation())),
        place{op.getBatch(),   op.getHead(),      op.getFirstQuery(),
              op.getSeqlenQ(), op.getFirstKey(),  op.getKeyEnd(),
              op.getSeqlenK(), op.getBlockQuery()},
        flag(flag), formulas(op), change(formulas.change), hide(formulas.hide),
        b(op, formulas.scale), schedule(op->getAttrOfType<fcgpu::ScheduleAttr>(
                                   fcgpu::kScheduleAttrName)),
        mask(KeyMask::get(op)), warpM(b.warpM), blockN(b.blockN),
        sumPolicy(createRowSum(schedule, b)),
        maxPolicy(createRowMax(schedule, b, *sumPolicy)) {}

  /// Of an attention.
  void expand();
  void expandScores(ScoresTileOp scores);
  void expandValues(ValuesTileOp values);

private:
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }

  bool coversAllKeys();
  bool endsWithTile(Value bound);
  OpFoldResult clamp(OpFoldResult bound);
  OpFoldResult getWalkedTiles(OpFoldResult count);
  Value getKeyPart();
  OpFoldResult getCountOfPart(OpFoldResult count);
  KeyBounds getBounds(const KeyMask &of, int64_t numQueries);
  OpFoldResult getBegin(AffineMap map, ArrayRef<OpFoldResult> operands);
  OpFoldResult getEnd(AffineMap map, ArrayRef<OpFoldResult> operands);
  void computeSymbols();
  void computeTileCounts();
  void computeRanges(ArrayRef<OpFoldResult> operands, int64_t numQueries);
  Value getTilesPassedOver(Value number);
  bool hasBlocks() { return op.hasBlockLists(); }
  bool hidesInBlocks();
  SmallVector<Value> getListRow(Value list);
  int64_t getTilesOfBlock();
  Value countTiles(Value counts);
  void computeBlockWalk();
  Value loadBlock(Value indices, Value position);
  Value getListedKey(OpFoldResult iteration);
  Value isPastLastKey(Value key);
  Value maskTail(Value scores, Value key);
  Value maskListed(Value scores, Value iteration, Value key);
  Value isOutsideOfFullRanges(Value key);
  Value readTile(TileRole role, Value row, int64_t rows);
  void stage(Operation *access, TileRole role, int64_t cols, bool isInLoop,
             std::optional<int64_t> pageSize = std::nullopt);
  bool needsTailMask();
  /// A map_scores whose result is what `build(score, query, key)` returns.
  template <typename Builder>
  Value mapScores(Value scores, Value key, Builder build);
  Value mapReads(Value scores, Value key,
                 function_ref<Value(Value, Value, Value)> build);
  Value pairReads(fcgpu::MapScoresOp map);
  Value areAligned(Value memref);
  bool hasWholeTilesOnly();
  Value isWhole(Value key);
  Value getInside(Value index, Value extent);
  bool hidesEverywhere() {
    return mask.hasOpaqueRegion && !mask.hasHoles() && !hasBlocks();
  }
  std::pair<Value, Value> getInside(Region &region, Value query, Value key);
  Value isVisibleToRegion(Value score, Value query, Value key);
  Value applyRegions(Value score, Value query, Value key);
  Value changeScores(Value scores, Value key);
  Value maskScores(Value scores, Value key);
  Value branch(Value condition, function_ref<Value()> first,
               function_ref<Value()> second);
  Value maskIf(Value condition, Value scores, Value key);
  void skipUnlessVisible(Value iteration);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  Value isPartial(Value iteration, Value key);
  Value getTileKey(OpFoldResult iteration);
  Value buildScores(Value query, Value key, Value start);
  void buildStream();
  Value dropElements(Value p, Value key);
  Value scaleKept(Value factors, int64_t rows);
  RowState accumulate(Exponentials tile, Value key);
  RowState buildIteration(Value query, Value iteration, RowState state);
  RowState getEmptyState();
  RowState dropUnlessWalked(RowState state);
  RowState buildOnline(Value query);
  int64_t getNumTilesOfOnePass();
  bool mayLackTiles();
  Value maskUnlessFull(Value scores, int64_t i, Value key);
  RowState buildOnePass(Value query);
  RowResult mergeParts(RowState state);
  vector::TransferWriteOp writeRows(Value tile, Value memref, Value row,
                                    ArrayRef<Value> cols);
  RowResult addSink(RowResult result);
  Value getProbabilities(ScoresTileOp tile, Value scores, Value key);
  Value clearTail(Value scores, Value key);
  void writeScores(Value scores, Value key);
  Value readProbabilities(Value probabilities, Value key);
  void writeResult(RowResult result);
  void writeLse(RowResult result, Value isEmpty, Value row);

  TileOpInterface op;
  AttentionTileOp attention; ///< the same; null for other tiles
  TilePlace place;
  Value flag;
  /// The regions of the op as they are computed.
  ScoreFormulas formulas;
  Region &change, &hide;
  TileBuilder b;
  fcgpu::ScheduleAttr schedule;
  KeyMask mask;
  int64_t warpM, blockN;
  std::unique_ptr<RowSumPolicy> sumPolicy;
  std::unique_ptr<RowMaxPolicy> maxPolicy;
  /// Of a dropout: what the random numbers of the head begin with.
  SmallVector<Value> stream;
  /// Key tiles are counted from the first key of the op.
  OpFoldResult numTiles; ///< visible key tiles
  /// Whether there are any, where one is walked that may not be there; else
  /// null.
  Value hasTiles;
  OpFoldResult endTile; ///< one past the last of them
  /// Iterations [0, headEnd) and [tailBegin, numTiles) walk partial tiles.
  OpFoldResult headEnd, tailBegin;
  /// The symbols of the mask's bounds (KeyBounds), in front of the loop.
  SmallVector<OpFoldResult> symbols;
  /// From the place `begin` in the walk on, `tiles` more are passed over.
  struct Hole {
    Value begin, tiles;
  };
  SmallVector<Hole> holes;
  /// Keys of which every tile is full: of a mask with holes, the others are
  /// partial.
  struct FullRange {
    Value begin, end;
  };
  SmallVector<FullRange> fullRanges;
  /// Whether what is built is for tiles that may reach past these ends.
  bool cutsQueries = true, cutsKeys = true;
  /// Of lists of blocks: the tiles of blocks that a mask is asked in, which are
  /// walked first, and those of all.
  Value maskedTiles, listedTiles;
};
template <typename Builder>
Value TileExpander::mapScores(Value scores, Value key, Builder build) {
  auto map = fcgpu::MapScoresOp::create(b, scores.getType(), scores,
                                        place.firstQuery, key);
  OpBuilder::InsertionGuard guard(b);
  Type index = b.getIndexType();
  Block *body =
      b.createBlock(&map.getBody(), {}, {b.getF32Type(), index, index},
                    {b.getLoc(), b.getLoc(), b.getLoc()});
  Value result =
      build(body->getArgument(0), body->getArgument(1), body->getArgument(2));
  fcgpu::YieldOp::create(b, result);
  return map.getResult();
}
} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDER_H
