//===- TileWalk.cpp - How persistent blocks walk tiles --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Back and forth: forth alone costs up to a quarter of the time of causal
// problems (the unit tests have both).
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/TileWalk.h"

using namespace mlir;
using namespace mlir::flashcore;

/// The place of the block in a round.
static AffineExpr getPlace(AffineExpr round, AffineExpr numBlocks,
                           AffineExpr block) {
  return (round % 2) * (numBlocks - 1 - block * 2) + block;
}

TileWalk TileWalk::get(MLIRContext *context) {
  AffineExpr round = getAffineDimExpr(0, context);
  AffineExpr numBlocks = getAffineSymbolExpr(0, context);
  AffineExpr block = getAffineSymbolExpr(1, context);
  TileWalk walk;
  walk.tile = AffineMap::get(
      1, 2, round * numBlocks + getPlace(round, numBlocks, block));

  AffineExpr numTiles = getAffineSymbolExpr(0, context);
  numBlocks = getAffineSymbolExpr(1, context);
  block = getAffineSymbolExpr(2, context);
  // The last round, which may not be full, has a tile for its first blocks.
  AffineExpr place = getPlace(numTiles.floorDiv(numBlocks), numBlocks, block);
  walk.numRounds = AffineMap::get(
      0, 3, (numTiles + numBlocks - 1 - place).floorDiv(numBlocks));
  return walk;
}
