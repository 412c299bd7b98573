//===- SharedMemoryLayoutTest.cpp - Offsets of rings and barriers ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;
using mlir::fcgpu::CopyScope;

namespace {
SharedRing makeRing(int64_t numStages, int64_t slotBytes,
                    CopyScope scope = CopyScope::Block) {
  SharedRing ring;
  ring.scope = scope;
  ring.numStages = numStages;
  ring.slotBytes = slotBytes;
  return ring;
}

SharedRing makePanels(int64_t numStages, int64_t slotBytes) {
  SharedRing ring = makeRing(numStages, slotBytes);
  ring.hasPanels = ring.isHandedOver = true;
  return ring;
}

using Offsets = std::vector<int64_t>;

TEST(SharedMemoryLayout, RingsFollowEachOther) {
  SharedMemoryLayout layout =
      layOutSharedMemory({{makeRing(2, 4096), makeRing(3, 512)}});
  EXPECT_EQ(layout.rings, Offsets({0, 8192}));
  EXPECT_EQ(layout.bytes, 8192 + 3 * 512);
}

// Rows of all 32 banks; the 128-byte swizzle repeats every 1024 bytes.
TEST(SharedMemoryLayout, RingsAreAligned) {
  SharedMemoryLayout layout = layOutSharedMemory(
      {{makeRing(1, 32), makeRing(1, 128), makePanels(1, 1024)}});
  EXPECT_EQ(layout.rings, Offsets({0, 128, 1024}));
}

// Two barriers of 8 bytes a slot, those of the last ring first.
TEST(SharedMemoryLayout, BarriersAreBehindTheRings) {
  SharedMemoryLayout layout =
      layOutSharedMemory({{makePanels(3, 1024), makePanels(2, 2048)}});
  EXPECT_EQ(layout.rings, Offsets({0, 3072}));
  EXPECT_EQ(layout.barriers[0], 7168 + 2 * 2 * 8);
  EXPECT_EQ(layout.barriers[1], 7168);
  EXPECT_EQ(layout.bytes, 7168 + 2 * (2 + 3) * 8);
}

TEST(SharedMemoryLayout, RingsThatAreNotHandedOverHaveNone) {
  SharedMemoryLayout layout = layOutSharedMemory({{makeRing(3, 1024)}});
  EXPECT_EQ(layout.barriers[0], std::nullopt);
  EXPECT_EQ(layout.bytes, 3072);
}

TEST(SharedMemoryLayout, WarpsHavePartsOfTheirOwnBehindTheBlock) {
  SharedMemoryLayout layout =
      layOutSharedMemory({{makeRing(1, 192), makeRing(1, 256, CopyScope::Warp),
                           makeRing(2, 256, CopyScope::Warp)},
                          /*exchangeBytes=*/0,
                          /*numWarps=*/4});
  EXPECT_EQ(layout.rings, Offsets({0, 0, 256}));
  EXPECT_EQ(layout.warpStart, 256);
  EXPECT_EQ(layout.warpBytes, 768);
  EXPECT_EQ(layout.bytes, 256 + 4 * 768);
}

// The parts are as large as the larger of what is in them at different times.
TEST(SharedMemoryLayout, ExchangeUsesThePartsAgain) {
  auto getPart = [](int64_t exchangeBytes) {
    return layOutSharedMemory({{makeRing(1, 1024, CopyScope::Warp)},
                               exchangeBytes,
                               /*numWarps=*/2})
        .warpBytes;
  };
  EXPECT_EQ(getPart(1000), 1024);
  EXPECT_EQ(getPart(1025), 1152);
}

// One walk's rings are no longer used when the next begins, but a barrier
// cannot be made twice.
TEST(SharedMemoryLayout, WalksShareMemoryButNoBarriers) {
  SharedRing again = makePanels(1, 2048);
  again.walk = 1;
  SharedMemoryLayout layout =
      layOutSharedMemory({{makePanels(1, 1024), makePanels(2, 1024), again}});
  EXPECT_EQ(layout.rings, Offsets({0, 1024, 0}));
  EXPECT_EQ(layout.barriers[2], 3072);
  EXPECT_EQ(layout.barriers[1], 3072 + 2 * 8);
  EXPECT_EQ(layout.bytes, 3072 + 2 * (1 + 2 + 1) * 8);
}

TEST(SharedMemoryLayout, FlagsAreBehindTheBarriers) {
  SharedMemoryNeeds needs{{makePanels(1, 1024)}};
  needs.numFlags = 2;
  SharedMemoryLayout layout = layOutSharedMemory(needs);
  EXPECT_EQ(layout.flagStart, 1024 + 2 * 8);
  EXPECT_EQ(layout.bytes, 1024 + 2 * 8 + 2 * kFlagBytes);
}

// Results and left operands of one product never share memory with those of
// another kind: a lane may read the one while another writes the other.
TEST(SharedMemoryLayout, ScratchIsBehindAWarpsOwnRings) {
  SharedMemoryNeeds needs;
  needs.numWarps = 2;
  needs.scratch.add(16, /*lhsCols=*/0, /*resultCols=*/64, /*isPadded=*/true);
  needs.scratch.add(16, /*lhsCols=*/64, /*resultCols=*/32, /*isPadded=*/true);
  EXPECT_EQ(needs.scratch.resultBytes, 16 * 72 * 4);
  EXPECT_EQ(needs.scratch.lhsBytes, 16 * 72 * 2);
  SharedMemoryLayout layout = layOutSharedMemory(needs);
  EXPECT_EQ(layout.scratchStart, 0);
  EXPECT_EQ(layout.warpBytes, 4608 + 2304);
  EXPECT_EQ(layout.bytes, 2 * layout.warpBytes);
  ProductScratch plain;
  plain.add(16, 64, 64, /*isPadded=*/false);
  EXPECT_EQ(plain.getBytes(), 16 * 64 * (4 + 2));
}

// An odd number of chunks of 16 bytes: eight rows share no bank.
TEST(SharedMemoryLayout, PaddedRowsShareNoBank) {
  for (int64_t cols = 16; cols <= 256; cols += 8) {
    int64_t pitch = mlir::fcgpu::getPaddedColumns(cols);
    EXPECT_EQ(pitch / 8 % 2, 1) << cols;
    EXPECT_GE(pitch, cols);
    EXPECT_LE(pitch, cols + 8);
  }
}

// Lanes store and load 8 columns of f32 of four rows at a time.
TEST(SharedMemoryLayout, FourRowsOfResultsShareNoBank) {
  for (int64_t cols = 16; cols <= 256; cols += 16) {
    int64_t pitch = ProductScratch::getResultPitch(cols, /*isPadded=*/true);
    EXPECT_EQ(pitch % 16, 8) << cols;
    EXPECT_GE(pitch, cols);
  }
}

// Where results stay in fragments, left operands take the place of others.
TEST(SharedMemoryLayout, ScratchTakesTurns) {
  ProductScratch scratch;
  scratch.takesTurns = true;
  scratch.add(16, /*lhsCols=*/0, /*resultCols=*/64, /*isPadded=*/true);
  scratch.add(16, /*lhsCols=*/64, /*resultCols=*/16, /*isPadded=*/true);
  EXPECT_EQ(scratch.getLhsStart(), 0);
  EXPECT_EQ(scratch.getBytes(), 16 * 72 * 4);
}

TEST(SharedMemoryLayout, NothingNeedsNothing) {
  EXPECT_EQ(layOutSharedMemory({}).bytes, 0);
}
} // namespace
