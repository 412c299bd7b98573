//===- TileWalkTest.cpp - Walks by brute force ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates the maps that kernels use: every tile is walked once, and the
// busiest block has little more to do than the others.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/TileWalk.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class TileWalkTest : public testing::Test {
protected:
  int64_t evaluate(AffineMap map, llvm::ArrayRef<int64_t> values) {
    Builder b(&context);
    SmallVector<Attribute> operands, results;
    for (int64_t value : values)
      operands.push_back(b.getIndexAttr(value));
    EXPECT_TRUE(succeeded(map.constantFold(operands, results)));
    return cast<IntegerAttr>(results.front()).getInt();
  }

  std::vector<int64_t> getTiles(int64_t numTiles, int64_t numBlocks,
                                int64_t block) {
    std::vector<int64_t> tiles;
    int64_t numRounds = evaluate(walk.numRounds, {numTiles, numBlocks, block});
    for (int64_t round = 0; round < numRounds; ++round)
      tiles.push_back(evaluate(walk.tile, {round, numBlocks, block}));
    return tiles;
  }

  /// What the busiest block has to do, where tile t costs `costs[t]`.
  int64_t getMakespan(llvm::ArrayRef<int64_t> costs, int64_t numBlocks) {
    int64_t makespan = 0;
    for (int64_t block = 0; block < numBlocks; ++block) {
      int64_t cost = 0;
      for (int64_t tile : getTiles(costs.size(), numBlocks, block))
        cost += costs[tile];
      makespan = std::max(makespan, cost);
    }
    return makespan;
  }

  MLIRContext context;
  TileWalk walk = TileWalk::get(&context);
};

/// The same, of blocks that take every num_blocks-th tile.
int64_t getMakespanOfStrides(llvm::ArrayRef<int64_t> costs, int64_t numBlocks) {
  std::vector<int64_t> blocks(numBlocks);
  for (size_t tile = 0; tile < costs.size(); ++tile)
    blocks[tile % numBlocks] += costs[tile];
  return *std::max_element(blocks.begin(), blocks.end());
}

/// What no schedule can be better than.
int64_t getBound(llvm::ArrayRef<int64_t> costs, int64_t numBlocks) {
  int64_t sum = std::accumulate(costs.begin(), costs.end(), int64_t(0));
  return std::max<int64_t>(llvm::divideCeil(sum, numBlocks),
                           *std::max_element(costs.begin(), costs.end()));
}

/// Key tiles of the block tiles of a causal problem, the longest first.
std::vector<int64_t> makeCausalCosts(int64_t numHeads, int64_t seqlen,
                                     int64_t blockM, int64_t blockN) {
  std::vector<int64_t> costs;
  for (int64_t row = seqlen / blockM; row > 0; --row)
    costs.insert(costs.end(), numHeads, llvm::divideCeil(row * blockM, blockN));
  return costs;
}

TEST_F(TileWalkTest, GoesBackAndForth) {
  using Tiles = std::vector<int64_t>;
  EXPECT_EQ(getTiles(10, 4, 0), (Tiles{0, 7, 8}));
  EXPECT_EQ(getTiles(10, 4, 1), (Tiles{1, 6, 9}));
  EXPECT_EQ(getTiles(10, 4, 2), (Tiles{2, 5}));
  EXPECT_EQ(getTiles(10, 4, 3), (Tiles{3, 4}));
  EXPECT_EQ(getTiles(7, 4, 0), (Tiles{0}));
  EXPECT_EQ(getTiles(7, 4, 1), (Tiles{1, 6}));
}

// Also by more blocks than there are tiles, and where there is none.
TEST_F(TileWalkTest, WalksEveryTileOnce) {
  for (int64_t numTiles = 0; numTiles < 30; ++numTiles)
    for (int64_t numBlocks = 1; numBlocks < 35; ++numBlocks) {
      std::vector<int64_t> tiles;
      for (int64_t block = 0; block < numBlocks; ++block)
        llvm::append_range(tiles, getTiles(numTiles, numBlocks, block));
      std::sort(tiles.begin(), tiles.end());
      std::vector<int64_t> expected(numTiles);
      std::iota(expected.begin(), expected.end(), int64_t(0));
      EXPECT_EQ(tiles, expected) << numTiles << " by " << numBlocks;
    }
}

TEST_F(TileWalkTest, SharesEqualTilesEvenly) {
  std::vector<int64_t> costs(1000, 1);
  EXPECT_EQ(getMakespan(costs, 132), 8);
  EXPECT_EQ(getMakespan(costs, 264), 4);
}

// 16 Ki tokens of hidden size 2048 on 132 SMs, one and two blocks each: within
// one round of the optimum, where strides alone lose far more.
TEST_F(TileWalkTest, BalancesCausalTiles) {
  for (int64_t headDim : {64, 128, 256})
    for (int64_t seqlen : {512, 1024, 4096, 16384}) {
      int64_t numHeads = 2048 / headDim * (16384 / seqlen);
      std::vector<int64_t> costs = makeCausalCosts(numHeads, seqlen, 128, 64);
      for (int64_t numBlocks : {132, 264})
        EXPECT_LE(getMakespan(costs, numBlocks),
                  1.04 * getBound(costs, numBlocks))
            << headDim << ", " << seqlen << ", " << numBlocks;
    }
  std::vector<int64_t> costs = makeCausalCosts(32, 4096, 128, 64);
  EXPECT_GE(getMakespanOfStrides(costs, 264), 1.24 * getBound(costs, 264));
}
} // namespace
