//===- TileWalk.h - How persistent blocks walk tiles ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which block tiles a block of a persistent grid works on, and how evenly that
// shares them out.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_TILEWALK_H
#define FLASHCORE_ANALYSIS_TILEWALK_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace mlir::flashcore {

/// The walk of `numBlocks` blocks over `numTiles` block tiles, right for every
/// number of blocks. In round r the blocks take the next numBlocks tiles, each
/// one: in even rounds the first block takes the first, in odd rounds the last
/// block does. Where tiles are ordered from the longest to the shortest, the
/// block that gets the longest of a round so gets the shortest of the next.
///
///     4 blocks, 10 tiles:   block 0: 0 7 8    block 1: 1 6 9
///                           block 2: 2 5      block 3: 3 4
struct TileWalk {
  int64_t numTiles, numBlocks;

  /// Tiles that `block` takes.
  int64_t getNumRounds(int64_t block) const;
  /// The tile of a block in a round before its last.
  int64_t getTile(int64_t block, int64_t round) const;
};

/// What the walk of the busiest block costs, where tile t costs `costs[t]`.
int64_t getMakespan(llvm::ArrayRef<int64_t> costs, int64_t numBlocks);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_TILEWALK_H
