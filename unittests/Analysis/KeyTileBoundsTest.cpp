//===- KeyTileBoundsTest.cpp - Tile bounds against brute force ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/KeyTileBounds.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
enum class TileKind { Empty, Partial, Full };

struct Problem {
  std::optional<CausalAlignment> causal;
  int64_t seqlenQ, seqlenK, blockM, blockN;

  bool isVisible(int64_t query, int64_t key) const {
    if (key >= seqlenK)
      return false;
    if (!causal)
      return true;
    return key <= query + (*causal == CausalAlignment::BottomRight
                               ? seqlenK - seqlenQ
                               : 0);
  }

  /// By looking at every element of the tile.
  TileKind classify(int64_t firstQuery, int64_t tile) const {
    int64_t numVisible = 0;
    for (int64_t query = firstQuery; query < firstQuery + blockM; ++query)
      for (int64_t key = tile * blockN; key < (tile + 1) * blockN; ++key)
        numVisible += isVisible(query, key);
    if (numVisible == 0)
      return TileKind::Empty;
    return numVisible == blockM * blockN ? TileKind::Full : TileKind::Partial;
  }
};

int64_t evaluate(AffineMap map, int64_t firstQuery, const Problem &problem) {
  SmallVector<int64_t> bounds =
      map.compose({firstQuery, problem.seqlenQ, problem.seqlenK});
  return std::max<int64_t>(0, *std::min_element(bounds.begin(), bounds.end()));
}

class KeyTileBounds
    : public testing::TestWithParam<std::optional<CausalAlignment>> {
protected:
  /// Calls `check` for every block of every small problem.
  template <typename Callback> void forEachBlock(Callback check) {
    for (int64_t seqlenQ = 1; seqlenQ <= 9; ++seqlenQ)
      for (int64_t seqlenK = 0; seqlenK <= 9; ++seqlenK)
        for (int64_t blockM : {1, 2, 3, 4, 16})
          for (int64_t blockN : {1, 2, 3, 4, 16}) {
            Problem problem{GetParam(), seqlenQ, seqlenK, blockM, blockN};
            KeyBounds bounds = getKeyBounds(&context, problem.causal, blockM);
            for (int64_t query = 0; query < seqlenQ; query += blockM)
              check(problem, query, evaluate(bounds.visibleEnd, query, problem),
                    evaluate(bounds.fullEnd, query, problem));
          }
  }

  MLIRContext context;
};

std::string describe(const Problem &problem, int64_t query, int64_t tile) {
  return "seqlen_q " + std::to_string(problem.seqlenQ) + ", seqlen_k " +
         std::to_string(problem.seqlenK) + ", block_m " +
         std::to_string(problem.blockM) + ", block_n " +
         std::to_string(problem.blockN) + ", query " + std::to_string(query) +
         ", tile " + std::to_string(tile);
}

TEST_P(KeyTileBounds, ClassifiesEveryTile) {
  forEachBlock([](const Problem &problem, int64_t query, int64_t visibleEnd,
                  int64_t fullEnd) {
    // One tile more than there are keys.
    for (int64_t tile = 0; tile * problem.blockN <= problem.seqlenK; ++tile) {
      TileKind kind = TileKind::Partial;
      if (tile * problem.blockN >= visibleEnd)
        kind = TileKind::Empty;
      else if ((tile + 1) * problem.blockN <= fullEnd)
        kind = TileKind::Full;
      EXPECT_EQ(kind, problem.classify(query, tile))
          << describe(problem, query, tile);
    }
  });
}

TEST_P(KeyTileBounds, FullKeysAreVisibleKeys) {
  forEachBlock([](const Problem &problem, int64_t query, int64_t visibleEnd,
                  int64_t fullEnd) {
    EXPECT_LE(fullEnd, visibleEnd) << describe(problem, query, 0);
    EXPECT_LE(visibleEnd, problem.seqlenK) << describe(problem, query, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(AllAlignments, KeyTileBounds,
                         testing::Values(std::nullopt,
                                         CausalAlignment::BottomRight,
                                         CausalAlignment::TopLeft),
                         [](const auto &info) -> std::string {
                           if (!info.param)
                             return "NotCausal";
                           return *info.param == CausalAlignment::BottomRight
                                      ? "BottomRight"
                                      : "TopLeft";
                         });
} // namespace
