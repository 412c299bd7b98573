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

TEST(SharedMemoryLayout, NothingNeedsNothing) {
  EXPECT_EQ(layOutSharedMemory({}).bytes, 0);
}
} // namespace
