//===- TileWalk.cpp - How persistent blocks walk tiles --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same arithmetic as in the kernels of flashcore-tile, on numbers.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/TileWalk.h"

#include <algorithm>

using namespace mlir::flashcore;

/// The place of `block` in a round.
static int64_t getPlace(int64_t block, int64_t round, int64_t numBlocks) {
  return round % 2 == 0 ? block : numBlocks - 1 - block;
}

int64_t TileWalk::getNumRounds(int64_t block) const {
  int64_t full = numTiles / numBlocks, rest = numTiles % numBlocks;
  return full + (getPlace(block, full, numBlocks) < rest ? 1 : 0);
}

int64_t TileWalk::getTile(int64_t block, int64_t round) const {
  return round * numBlocks + getPlace(block, round, numBlocks);
}

int64_t mlir::flashcore::getMakespan(llvm::ArrayRef<int64_t> costs,
                                     int64_t numBlocks) {
  TileWalk walk{static_cast<int64_t>(costs.size()), numBlocks};
  int64_t longest = 0;
  for (int64_t block = 0; block < numBlocks; ++block) {
    int64_t cost = 0;
    for (int64_t round = 0; round < walk.getNumRounds(block); ++round)
      cost += costs[walk.getTile(block, round)];
    longest = std::max(longest, cost);
  }
  return longest;
}
