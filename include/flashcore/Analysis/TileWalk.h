//===- TileWalk.h - How persistent blocks walk tiles ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which block tiles a block of a persistent grid works on, as affine maps: the
// compiler emits them, the unit tests evaluate the same maps.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_TILEWALK_H
#define FLASHCORE_ANALYSIS_TILEWALK_H

#include "mlir/IR/AffineMap.h"

namespace mlir::flashcore {

/// A walk of any number of blocks over block tiles. In round r the blocks take
/// the next num_blocks tiles, each one: in even rounds the first block takes
/// the first, in odd rounds the last block does. Where tiles are ordered from
/// the longest to the shortest, the block that gets the longest of a round so
/// gets the shortest of the next.
///
///     4 blocks, 10 tiles:   block 0: 0 7 8    block 1: 1 6 9
///                           block 2: 2 5      block 3: 3 4
struct TileWalk {
  /// Tiles of the block: ()[num_tiles, num_blocks, block].
  AffineMap numRounds;
  /// The number of its tile in a round: (round)[num_blocks, block].
  AffineMap tile;

  static TileWalk get(MLIRContext *context);
};

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_TILEWALK_H
