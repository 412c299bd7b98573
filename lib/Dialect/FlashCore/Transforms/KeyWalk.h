//===- KeyWalk.h - Which keys a tile of queries walks -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the expansions of all tiles begin with: where a tile stands, which tiles
// of keys its block sees and in which order it walks them, and reads and writes
// of rows. KeyWalk.cpp has walks of one range of keys, KeyWalkRanges.cpp those
// of several, KeyWalkBlocks.cpp those of lists of blocks.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KEYWALK_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KEYWALK_H

#include "RowPolicies.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Schedule/TileStaging.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

namespace mlir::flashcore {

class KeyWalk {
protected:
  /// `scoreScale` is what scores still have to be multiplied with.
  KeyWalk(TileOpInterface op, float scoreScale)
      : op(op), attention(dyn_cast<AttentionTileOp>(op.getOperation())),
        place{op.getBatch(),   op.getHead(),      op.getFirstQuery(),
              op.getSeqlenQ(), op.getFirstKey(),  op.getKeyEnd(),
              op.getSeqlenK(), op.getBlockQuery()},
        b(op, scoreScale), schedule(op->getAttrOfType<fcgpu::ScheduleAttr>(
                               fcgpu::kScheduleAttrName)),
        mask(KeyMask::get(op)), warpM(b.warpM), blockN(b.blockN) {}

  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }

  // The walk: sets `numTiles` and what else is said of it below.
  void computeTileCounts();
  /// The first key of the tile of an iteration.
  Value getTileKey(OpFoldResult iteration);
  /// Whether the tile of an iteration is partial; null if no tile is.
  Value isPartial(Value iteration, Value key);
  Value isPastLastKey(Value key);
  Value isOutsideOfFullRanges(Value key);
  bool hasBlocks() { return op.hasBlockLists(); }
  bool hidesInBlocks();
  bool coversAllKeys();
  bool endsWithTile(Value bound);
  bool hasWholeTilesOnly();
  int64_t getNumTilesOfOnePass();
  bool mayLackTiles();
  Value getKeyPart();

  // Rows of memory:
  Value readTile(TileRole role, Value row, int64_t rows);
  void stage(Operation *access, TileRole role, int64_t cols, bool isInLoop,
             std::optional<int64_t> pageSize = std::nullopt);
  vector::TransferWriteOp writeRows(Value tile, Value memref, Value row,
                                    ArrayRef<Value> cols);

private:
  OpFoldResult clamp(OpFoldResult bound);
  OpFoldResult getWalkedTiles(OpFoldResult count);
  OpFoldResult getCountOfPart(OpFoldResult count);
  KeyBounds getBounds(const KeyMask &of, int64_t numQueries);
  OpFoldResult getBegin(AffineMap map, ArrayRef<OpFoldResult> operands);
  OpFoldResult getEnd(AffineMap map, ArrayRef<OpFoldResult> operands);
  void computeSymbols();
  void computeRanges(ArrayRef<OpFoldResult> operands, int64_t numQueries);
  Value getTilesPassedOver(Value number);
  SmallVector<Value> getListRow(Value list);
  int64_t getTilesOfBlock();
  Value countTiles(Value counts);
  void computeBlockWalk();
  Value loadBlock(Value indices, Value position);
  Value getListedKey(OpFoldResult iteration);

protected:
  TileOpInterface op;
  AttentionTileOp attention; ///< the same; null for other tiles
  TilePlace place;
  TileBuilder b;
  fcgpu::ScheduleAttr schedule;
  KeyMask mask;
  int64_t warpM, blockN;
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

private:
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
  /// Of lists of blocks: the tiles of blocks that a mask is asked in, which are
  /// walked first, and those of all.
  Value maskedTiles, listedTiles;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KEYWALK_H
