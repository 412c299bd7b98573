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
  KeyMask mask;
  int64_t seqlenQ, seqlenK, blockM, blockN;

  bool isVisible(int64_t query, int64_t key) const {
    int64_t position = query + seqlenK - seqlenQ;
    if (key >= seqlenK)
      return false;
    if (mask.isTopLeft && key > query)
      return false;
    if (mask.windowLeft && key < position - *mask.windowLeft)
      return false;
    return !mask.windowRight || key <= position + *mask.windowRight;
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

/// The maps of KeyBounds, evaluated for one block.
struct Bounds {
  int64_t visibleBegin, visibleEnd, fullBegin, fullEnd;

  /// `range` has the operands of KeyBounds::within().
  Bounds(const KeyBounds &bounds, int64_t firstQuery, const Problem &problem,
         ArrayRef<int64_t> range = {}) {
    SmallVector<int64_t> operands{firstQuery, problem.seqlenQ, problem.seqlenK};
    llvm::append_range(operands, range);
    auto evaluate = [&](AffineMap map, bool isEnd) {
      SmallVector<int64_t> values = map.compose(operands);
      int64_t value = isEnd ? *std::min_element(values.begin(), values.end())
                            : *std::max_element(values.begin(), values.end());
      return std::max<int64_t>(0, value);
    };
    visibleBegin = evaluate(bounds.visibleBegin, /*isEnd=*/false);
    visibleEnd = evaluate(bounds.visibleEnd, /*isEnd=*/true);
    fullBegin = evaluate(bounds.fullBegin, /*isEnd=*/false);
    fullEnd = evaluate(bounds.fullEnd, /*isEnd=*/true);
  }

  TileKind classify(int64_t tile, int64_t blockN) const {
    int64_t begin = tile * blockN, end = begin + blockN;
    if (begin >= visibleEnd || end <= visibleBegin)
      return TileKind::Empty;
    return end <= fullEnd && begin >= fullBegin ? TileKind::Full
                                                : TileKind::Partial;
  }
};

class KeyTileBounds : public testing::TestWithParam<KeyMask> {
protected:
  /// Calls `check` for every block of every small problem.
  template <typename Callback> void forEachBlock(Callback check) {
    for (int64_t seqlenQ = 1; seqlenQ <= 9; ++seqlenQ)
      for (int64_t seqlenK = 0; seqlenK <= 9; ++seqlenK)
        for (int64_t blockM : {1, 2, 3, 4, 16})
          for (int64_t blockN : {1, 2, 3, 4, 16}) {
            Problem problem{GetParam(), seqlenQ, seqlenK, blockM, blockN};
            KeyBounds bounds = getKeyBounds(&context, problem.mask, blockM);
            for (int64_t query = 0; query < seqlenQ; query += blockM)
              check(problem, query, Bounds(bounds, query, problem));
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
  // A window counts from the last key, the top-left diagonal from the first:
  // where they cross, the bounds may keep a tile in which no pair is visible.
  bool isExact = !GetParam().isTopLeft || !GetParam().windowLeft;
  forEachBlock([&](const Problem &problem, int64_t query, Bounds bounds) {
    // One tile more than there are keys.
    for (int64_t tile = 0; tile * problem.blockN <= problem.seqlenK; ++tile) {
      TileKind kind = bounds.classify(tile, problem.blockN);
      TileKind expected = problem.classify(query, tile);
      if (!isExact && expected == TileKind::Empty)
        EXPECT_NE(kind, TileKind::Full) << describe(problem, query, tile);
      else
        EXPECT_EQ(kind, expected) << describe(problem, query, tile);
    }
  });
}

TEST_P(KeyTileBounds, FullKeysAreVisibleKeys) {
  forEachBlock([](const Problem &problem, int64_t query, Bounds bounds) {
    EXPECT_LE(bounds.visibleBegin, bounds.fullBegin)
        << describe(problem, query, 0);
    EXPECT_LE(bounds.fullEnd, bounds.visibleEnd) << describe(problem, query, 0);
    EXPECT_LE(bounds.visibleEnd, problem.seqlenK)
        << describe(problem, query, 0);
  });
}

// Bounds within a range of keys are those of the whole, cut to the range and
// counted from its first key.
TEST_P(KeyTileBounds, RangesAreCountedFromTheirFirstKey) {
  forEachBlock([&](const Problem &problem, int64_t query, Bounds whole) {
    KeyBounds bounds =
        getKeyBounds(&context, problem.mask, problem.blockM).within();
    for (int64_t begin = 0; begin <= problem.seqlenK + 2; ++begin)
      for (int64_t end = begin; end <= problem.seqlenK + 2; ++end) {
        Bounds part(bounds, query, problem, {begin, end});
        auto inside = [&](int64_t key) {
          return std::max<int64_t>(0, std::min(key, end) - begin);
        };
        EXPECT_EQ(part.visibleEnd, inside(whole.visibleEnd));
        EXPECT_EQ(part.fullEnd, inside(whole.fullEnd));
        EXPECT_EQ(part.visibleBegin,
                  std::max<int64_t>(0, whole.visibleBegin - begin));
        EXPECT_EQ(part.fullBegin,
                  std::max<int64_t>(0, whole.fullBegin - begin));
      }
  });
}

INSTANTIATE_TEST_SUITE_P(
    AllMasks, KeyTileBounds,
    testing::Values(KeyMask{}, KeyMask{/*isTopLeft=*/true, {}, {}},
                    KeyMask{false, {}, 0}, KeyMask{false, 0, 0},
                    KeyMask{false, 2, {}}, KeyMask{false, {}, 2},
                    KeyMask{false, 3, 1}, KeyMask{false, 20, 20},
                    KeyMask{false, 2, 0}, KeyMask{true, {}, 1},
                    KeyMask{true, 2, 1}),
    [](const auto &info) -> std::string {
      const KeyMask &mask = info.param;
      std::string name = mask.isTopLeft ? "TopLeft" : "Window";
      if (mask.windowLeft)
        name += "Left" + std::to_string(*mask.windowLeft);
      if (mask.windowRight)
        name += "Right" + std::to_string(*mask.windowRight);
      return name;
    });

void expectMask(const KeyMask &mask, const KeyMask &expected) {
  EXPECT_EQ(mask.isTopLeft, expected.isTopLeft);
  EXPECT_EQ(mask.windowLeft, expected.windowLeft);
  EXPECT_EQ(mask.windowRight, expected.windowRight);
}

// Whatever other window there is.
TEST(KeyMask, ABottomRightDiagonalIsAWindow) {
  constexpr auto bottomRight = CausalAlignment::BottomRight;
  expectMask(KeyMask::get(bottomRight, {}, {}), {false, {}, 0});
  expectMask(KeyMask::get(bottomRight, 2, 3), {false, 2, 0});
}

TEST(KeyMask, ATopLeftDiagonalStandsBesideOne) {
  constexpr auto topLeft = CausalAlignment::TopLeft;
  expectMask(KeyMask::get(topLeft, {}, {}), {true, {}, {}});
  expectMask(KeyMask::get(topLeft, 2, 3), {true, 2, 3});
}

TEST(KeyMask, WindowsWiderThanAnySequenceAreCut) {
  KeyMask mask = KeyMask::get({}, ~uint64_t(0), uint64_t(1) << 62);
  EXPECT_EQ(mask.windowLeft, int64_t(1) << 40);
  EXPECT_EQ(mask.windowRight, int64_t(1) << 40);
}
} // namespace
