//===- TileStagingTest.cpp - How tiles go through shared memory -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/TileStaging.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
/// Four warps with 16 of 64 query rows each.
ScheduleChoice makeSchedule() {
  ScheduleChoice schedule;
  schedule.blockM = schedule.blockN = 64;
  schedule.numWarps = 4;
  schedule.numStages = 3;
  schedule.query = QueryPlacement::Registers;
  return schedule;
}

TileStaging stage(const ScheduleChoice &schedule, TileRole role,
                  bool isInLoop = true) {
  return chooseStaging(schedule, role, /*cols=*/40, isInLoop);
}

TEST(TileStaging, BlockCopiesKeysAndValues) {
  TileStaging expected{CopyScope::Block, CopyScope::Block,        3,
                       TileNumber::Turn,
                       /*kept=*/0,       /*home=*/Home::Registers};
  for (TileRole role : {TileRole::Key, TileRole::Value})
    for (bool isInLoop : {false, true})
      EXPECT_EQ(stage(makeSchedule(), role, isInLoop), expected);
}

TEST(TileStaging, EachWarpCopiesItsQueries) {
  TileStaging expected{CopyScope::Warp,    CopyScope::Block,        4,
                       TileNumber::Holder,
                       /*kept=*/40,        /*home=*/Home::Registers};
  EXPECT_EQ(stage(makeSchedule(), TileRole::Query), expected);
}

TEST(TileStaging, PlaceOfQueriesSaysWhatIsKept) {
  ScheduleChoice schedule = makeSchedule();
  schedule.query = QueryPlacement::Shared;
  EXPECT_EQ(stage(schedule, TileRole::Query).kept, 0);
  schedule.query = QueryPlacement::Split;
  schedule.querySteps = 2;
  EXPECT_EQ(stage(schedule, TileRole::Query).kept, 32);
  EXPECT_EQ(stage(schedule, TileRole::Key).kept, 0);
}

TEST(TileStaging, WarpsThatDivideTheKeysHaveAllForThemselves) {
  ScheduleChoice schedule = makeSchedule();
  schedule.keyWarps = 2;
  TileStaging key{CopyScope::Warp, CopyScope::Warp,         3, TileNumber::Turn,
                  /*kept=*/0,      /*home=*/Home::Registers};
  EXPECT_EQ(stage(schedule, TileRole::Key), key);
  TileStaging query{CopyScope::Warp,    CopyScope::Warp,         1,
                    TileNumber::Holder,
                    /*kept=*/40,        /*home=*/Home::Registers};
  EXPECT_EQ(stage(schedule, TileRole::Query), query);
}

TEST(TileStaging, OnlyWarpCopiesForItselfOutsideOfLoops) {
  ScheduleChoice schedule = makeSchedule();
  schedule.numWarps = 1;
  EXPECT_EQ(stage(schedule, TileRole::Key, /*isInLoop=*/false).copy,
            CopyScope::Warp);
  EXPECT_EQ(stage(schedule, TileRole::Key, /*isInLoop=*/true).copy,
            CopyScope::Block);
  EXPECT_EQ(stage(schedule, TileRole::Key, /*isInLoop=*/false).ring,
            CopyScope::Block);
}

TEST(TileStaging, WarpgroupsTakeTilesInPlace) {
  ScheduleChoice schedule = makeSchedule();
  schedule.product = Product::Warpgroup;
  schedule.numWarps = 8;
  schedule.query = QueryPlacement::Shared;
  TileStaging query{CopyScope::Warp,    CopyScope::Block,     2,
                    TileNumber::Holder,
                    /*kept=*/0,         /*home=*/Home::Shared};
  EXPECT_EQ(stage(schedule, TileRole::Query), query);
  EXPECT_TRUE(stage(schedule, TileRole::Key).isInPlace());
  EXPECT_TRUE(stage(schedule, TileRole::Value).isInPlace());
}

/// Two warpgroups, tiles of 128 keys.
ScheduleChoice makeWarpgroups(RowSum rowSum) {
  ScheduleChoice schedule = makeSchedule();
  schedule.product = Product::Warpgroup;
  schedule.numWarps = 8;
  schedule.blockM = schedule.blockN = 128;
  schedule.query = QueryPlacement::Shared;
  schedule.rowSum = rowSum;
  return schedule;
}

TEST(TileStaging, PanelsOfAPageLieTogether) {
  ScheduleChoice schedule = makeWarpgroups(RowSum::Add);
  for (int64_t pageSize : {8, 16, 64}) {
    for (TileRole role : {TileRole::Key, TileRole::Value})
      EXPECT_EQ(getGroupRows(schedule, role, 128, pageSize), 8);
    // Ones are behind the panels of a whole page.
    EXPECT_EQ(getGroupRows(makeWarpgroups(RowSum::Mma), TileRole::Value, 128,
                           pageSize),
              pageSize);
    EXPECT_EQ(
        getGroupRows(makeWarpgroups(RowSum::Mma), TileRole::Key, 128, pageSize),
        8);
  }
  EXPECT_EQ(chooseStaging(schedule, TileRole::Key, 128, true, 16).group, 8);
  EXPECT_EQ(chooseStaging(schedule, TileRole::Key, 128, true).group, 0);
}

TEST(TileStaging, PartsOfPagesAreBoxes) {
  ScheduleChoice schedule = makeWarpgroups(RowSum::Mma);
  EXPECT_EQ(getBoxRows(schedule, std::nullopt), 128);
  EXPECT_EQ(getBoxRows(schedule, 64), 64);
  EXPECT_EQ(getBoxRows(schedule, 512), 128);
  schedule.blockN = 80;
  EXPECT_EQ(getBoxRows(schedule, 64), 16);
  EXPECT_EQ(getGroupRows(schedule, TileRole::Value, 128, 64), 16);
}

// What products without mma.sync take from plain rows, nobody else fills.
TEST(TileStaging, PlainTilesAreInPlace) {
  ScheduleChoice schedule = makeSchedule();
  schedule.query = QueryPlacement::Shared;
  for (Product product : {Product::Wmma, Product::Thread})
    for (Exchange exchange : {Exchange::Plain, Exchange::Padded}) {
      schedule.product = product;
      schedule.exchange = exchange;
      for (TileRole role : {TileRole::Query, TileRole::Key, TileRole::Value}) {
        TileStaging staging = chooseStaging(schedule, role, 128, true);
        EXPECT_TRUE(staging.isInPlace());
        EXPECT_EQ(staging.kept, 0);
        EXPECT_EQ(staging.layout, exchange == Exchange::Plain
                                      ? RingLayout::Plain
                                      : RingLayout::Padded);
      }
    }
}

// Rows of P are a warp's own, and go through a ring of its own.
TEST(TileStaging, EachWarpCopiesItsProbabilities) {
  ScheduleChoice schedule = makeSchedule();
  TileStaging staging =
      chooseStaging(schedule, TileRole::Probabilities, 64, /*isInLoop=*/true);
  EXPECT_EQ(staging.copy, CopyScope::Warp);
  EXPECT_EQ(staging.ring, CopyScope::Warp);
  EXPECT_EQ(staging.number, TileNumber::Turn);
  EXPECT_EQ(staging.slots, schedule.numStages);
  EXPECT_EQ(staging.kept, 0);
  EXPECT_FALSE(staging.isInPlace());
}

TEST(TileStaging, OtherPanelsHaveAllRows) {
  ScheduleChoice schedule = makeWarpgroups(RowSum::Add);
  // A tile in one page, one panel, part of a panel, rows of Q, other copies.
  EXPECT_EQ(getGroupRows(schedule, TileRole::Key, 128, 128), 0);
  EXPECT_EQ(getGroupRows(schedule, TileRole::Key, 64, 16), 0);
  EXPECT_EQ(getGroupRows(schedule, TileRole::Key, 96, 16), 0);
  EXPECT_EQ(getGroupRows(schedule, TileRole::Query, 128, 16), 0);
  EXPECT_EQ(getGroupRows(schedule, TileRole::Output, 128, 16), 0);
  EXPECT_EQ(getGroupRows(makeSchedule(), TileRole::Key, 128, 16), 0);
}
} // namespace
