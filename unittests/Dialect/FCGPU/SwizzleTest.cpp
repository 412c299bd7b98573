//===- SwizzleTest.cpp - Where a ring keeps its chunks --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Properties of the swizzle of !fcgpu.ring, for every row length it may have
// to serve: all multiples of 8 elements from 16 to 576 (the widest head known).
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

#include <tuple>

#include <set>

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// 32 banks of 4 bytes are eight groups of 16 bytes.
constexpr int64_t kBankGroups = 8;

class Swizzle : public testing::TestWithParam<int64_t> {
protected:
  int64_t numChunks() const { return GetParam(); }
  /// Bank group of the 16 bytes at (row, logical chunk).
  int64_t bankGroup(int64_t row, int64_t chunk) const {
    return (row * numChunks() + swizzleChunk(row, chunk, numChunks())) %
           kBankGroups;
  }
};

TEST_P(Swizzle, PermutesTheChunksOfEachRow) {
  for (int64_t row = 0; row < 64; ++row) {
    std::set<int64_t> physical;
    for (int64_t chunk = 0; chunk < numChunks(); ++chunk)
      physical.insert(swizzleChunk(row, chunk, numChunks()));
    EXPECT_EQ(physical.size(), static_cast<size_t>(numChunks()));
    EXPECT_EQ(*physical.begin(), 0);
    EXPECT_EQ(*physical.rbegin(), numChunks() - 1);
  }
}

// One phase of ldmatrix reads one chunk column of eight rows.
TEST_P(Swizzle, EightRowsOfAChunkColumnHaveEightBankGroups) {
  for (int64_t firstRow = 0; firstRow < 64; firstRow += 8)
    for (int64_t chunk = 0; chunk < numChunks(); ++chunk) {
      std::set<int64_t> groups;
      for (int64_t row = firstRow; row < firstRow + 8; ++row)
        groups.insert(bankGroup(row, chunk));
      EXPECT_EQ(groups.size(), 8u) << "row " << firstRow << " chunk " << chunk;
    }
}

// Addresses of tiles 8 rows apart differ by a constant.
TEST_P(Swizzle, RepeatsEveryEightRows) {
  for (int64_t row = 0; row < 64; ++row)
    for (int64_t chunk = 0; chunk < numChunks(); ++chunk)
      EXPECT_EQ(swizzleChunk(row, chunk, numChunks()),
                swizzleChunk(row + 8, chunk, numChunks()));
}

TEST_P(Swizzle, LeavesTheFirstRowInPlace) {
  for (int64_t chunk = 0; chunk < numChunks(); ++chunk)
    EXPECT_EQ(swizzleChunk(/*row=*/0, chunk, numChunks()), chunk);
}

INSTANTIATE_TEST_SUITE_P(AllRowLengths, Swizzle,
                         testing::Range<int64_t>(2, 73));

// The two tables in the description of !fcgpu.ring.
TEST(SwizzleTable, MatchesTheDescription) {
  const int64_t of64[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int64_t of16[] = {0, 0, 0, 0, 1, 1, 1, 1};
  for (int64_t row = 0; row < 8; ++row) {
    EXPECT_EQ(swizzleChunk(row, /*chunk=*/0, /*chunks=*/8), of64[row]);
    EXPECT_EQ(swizzleChunk(row, /*chunk=*/0, /*chunks=*/2), of16[row]);
  }
}

TEST(SwizzleGroup, IsOneForAnOddNumberOfChunks) {
  EXPECT_EQ(getSwizzleGroup(2), 2);
  EXPECT_EQ(getSwizzleGroup(5), 1);
  EXPECT_EQ(getSwizzleGroup(12), 4);
  EXPECT_EQ(getSwizzleGroup(16), 8);
  EXPECT_EQ(getSwizzleGroup(72), 8);
}

TEST(RingType, ChunksOfARowAreSixteenBytes) {
  MLIRContext context;
  context.loadDialect<FCGPUDialect>();
  auto ring = RingType::get(&context, /*stages=*/3, /*rows=*/64, /*cols=*/96,
                            Float16Type::get(&context));
  EXPECT_EQ(ring.getChunkCols(), 8);
  EXPECT_EQ(ring.getRowChunks(), 12);
}

TEST(RingType, SizeIsThatOfAllSlots) {
  MLIRContext context;
  context.loadDialect<FCGPUDialect>();
  auto ring = RingType::get(&context, /*stages=*/3, /*rows=*/64, /*cols=*/96,
                            Float16Type::get(&context));
  EXPECT_EQ(ring.getSlotElements(), 64 * 96);
  EXPECT_EQ(ring.getSizeInBytes(), 3 * 64 * 96 * 2);
}

/// In units of 1024 bytes, the first panels of groups of rows, and how far the
/// second ones are behind.
TEST(RingType, PanelsAreInsideOfGroups) {
  MLIRContext context;
  context.loadDialect<FCGPUDialect>();
  auto get = [&](int64_t cols, int64_t group) {
    return RingType::get(&context, /*stages=*/2, /*rows=*/128, cols,
                         Float16Type::get(&context), RingLayout::Panels, group);
  };
  for (auto [group, first, second] :
       {std::tuple(0, 2, 16), {8, 4, 1}, {16, 4, 2}, {64, 2, 8}}) {
    RingType ring = get(128, group);
    EXPECT_EQ(ring.getPanelOffset(16, 0), first * 1024) << group;
    EXPECT_EQ(ring.getPanelOffset(16, 64), (first + second) * 1024) << group;
    EXPECT_EQ(ring.getPanelStride(), second * 1024) << group;
    EXPECT_EQ(ring.getPanelOffset(3, 8), 3 * 128 + 16) << group;
    EXPECT_EQ(ring.getSizeInBytes(), 2 * 128 * 128 * 2) << group;
  }
  // A panel of ones.
  EXPECT_EQ(get(136, 16).getPanelOffset(16, 128), (6 + 4) * 1024);
  EXPECT_EQ(get(136, 16).getGroupStride(), 6 * 1024);
}
} // namespace
