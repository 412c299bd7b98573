//===- BitMapTest.cpp - Linear maps over bits -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/BitMap.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

#include <random>
#include <set>

using namespace mlir::flashcore;

namespace {
/// All points of the domain of a map, by counting.
std::vector<BitPoint> getDomain(const BitMap &map) {
  std::vector<BitPoint> points{BitPoint(map.getNumInputs(), 0)};
  for (unsigned input = 0; input < map.getNumInputs(); ++input) {
    std::vector<BitPoint> more;
    for (const BitPoint &point : points)
      for (int64_t number = 0; number < map.getInputSize(input); ++number) {
        more.push_back(point);
        more.back()[input] = number;
      }
    points = std::move(more);
  }
  return points;
}

/// A map between spaces of so many bits, with bases drawn at random.
BitMap drawMap(std::mt19937 &random, std::vector<unsigned> inputBits,
               std::vector<unsigned> outputBits) {
  std::vector<std::vector<BitPoint>> bases(inputBits.size());
  for (auto [input, bits] : llvm::zip(bases, inputBits))
    for (unsigned bit = 0; bit < bits; ++bit) {
      BitPoint &basis = input.emplace_back();
      for (unsigned output : outputBits)
        basis.push_back(random() % (1u << output));
    }
  return {static_cast<unsigned>(outputBits.size()), std::move(bases)};
}
} // namespace

TEST(BitMap, IsLinearOverBits) {
  std::mt19937 random(1);
  for (int draw = 0; draw < 20; ++draw) {
    BitMap map = drawMap(random, {2, 3}, {3, 2});
    for (const BitPoint &a : getDomain(map))
      for (const BitPoint &b : getDomain(map)) {
        BitPoint sum{a[0] ^ b[0], a[1] ^ b[1]};
        BitPoint x = map.apply(a), y = map.apply(b);
        EXPECT_EQ(map.apply(sum), (BitPoint{x[0] ^ y[0], x[1] ^ y[1]}));
      }
  }
}

TEST(BitMap, IdentityLeavesPointsAsTheyAre) {
  BitMap identity = BitMap::identity({3, 0, 2});
  for (const BitPoint &point : getDomain(identity))
    EXPECT_EQ(identity.apply(point), point);
}

TEST(BitMap, ComposesInOrder) {
  std::mt19937 random(2);
  for (int draw = 0; draw < 50; ++draw) {
    BitMap inner = drawMap(random, {2, 1}, {2, 2});
    BitMap outer = drawMap(random, {2, 2}, {4});
    BitMap both = outer.compose(inner);
    for (const BitPoint &point : getDomain(inner))
      EXPECT_EQ(both.apply(point), outer.apply(inner.apply(point)));
  }
}

TEST(BitMap, SliceKeepsCoordinates) {
  std::mt19937 random(3);
  BitMap map = drawMap(random, {3, 2}, {2, 3, 1});
  BitMap sliced = map.slice({2, 0});
  for (const BitPoint &point : getDomain(map)) {
    BitPoint all = map.apply(point);
    EXPECT_EQ(sliced.apply(point), (BitPoint{all[2], all[0]}));
  }
}

// An inverse exists where all points of the range are met, which counting says.
TEST(BitMap, InverseFindsAnOriginOfEveryPoint) {
  std::mt19937 random(4);
  int found = 0;
  for (int draw = 0; draw < 300; ++draw) {
    BitMap map = drawMap(random, {3, 2}, {2, 2});
    std::set<std::vector<int64_t>> range;
    for (const BitPoint &point : getDomain(map)) {
      BitPoint result = map.apply(point);
      range.emplace(result.begin(), result.end());
    }
    size_t all = map.getOutputSize(0) * map.getOutputSize(1);
    std::optional<BitMap> inverse = map.inverse();
    ASSERT_EQ(inverse.has_value(), range.size() == all);
    if (!inverse)
      continue;
    ++found;
    for (const BitPoint &point : getDomain(*inverse))
      EXPECT_EQ(map.apply(inverse->apply(point)), point);
  }
  EXPECT_GT(found, 50);
}

TEST(BitMap, InverseLeavesReplicasZero) {
  BitMap map(1, {{{1}, {0}}, {{0}, {2}}});
  std::optional<BitMap> inverse = map.inverse();
  ASSERT_TRUE(inverse);
  EXPECT_EQ(inverse->apply({3}), (BitPoint{1, 2}));
}

TEST(BitMap, InjectiveMapsMeetNoPointTwice) {
  std::mt19937 random(5);
  int injective = 0;
  for (int draw = 0; draw < 300; ++draw) {
    BitMap map = drawMap(random, {2, 1}, {2, 2});
    std::set<std::vector<int64_t>> range;
    for (const BitPoint &point : getDomain(map)) {
      BitPoint result = map.apply(point);
      range.emplace(result.begin(), result.end());
    }
    EXPECT_EQ(map.isInjective(), range.size() == getDomain(map).size());
    injective += map.isInjective();
  }
  EXPECT_GT(injective, 50);
}
