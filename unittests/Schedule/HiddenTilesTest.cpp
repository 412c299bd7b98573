//===- HiddenTilesTest.cpp - Tiles of which a warp sees nothing -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/HiddenTiles.h"
#include "gtest/gtest.h"

#include <functional>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
/// Whether tiles are skipped in a causal problem of known sizes and blocks of
/// four warps, after `change`.
using Change = std::function<void(AttentionProblem &, ScheduleChoice &)>;
bool skipsAfter(const Change &change) {
  AttentionProblem problem;
  problem.headDim = problem.headDimV = 64;
  problem.seqlenQ = problem.seqlenK = 512;
  problem.isCausal = true;
  ScheduleChoice schedule;
  schedule.blockM = schedule.blockN = 64;
  schedule.numWarps = 4;
  schedule.query = QueryPlacement::Registers;
  schedule.overlap = Overlap::None;
  change(problem, schedule);
  return skipsHiddenTiles(problem, schedule);
}

TEST(HiddenTiles, AreSkippedUnderAMask) {
  EXPECT_TRUE(skipsAfter([](AttentionProblem &, ScheduleChoice &) {}));
  EXPECT_FALSE(skipsAfter([](AttentionProblem &problem, ScheduleChoice &) {
    problem.isCausal = false;
  }));
  EXPECT_TRUE(skipsAfter([](AttentionProblem &problem, ScheduleChoice &) {
    problem.isCausal = false;
    problem.hasWindow = true;
  }));
}

TEST(HiddenTiles, AreThoseOfOtherRowsOfTheBlock) {
  auto skips = [](int64_t numWarps, int64_t keyWarps, int64_t headGroup) {
    return skipsAfter([&](AttentionProblem &, ScheduleChoice &schedule) {
      schedule.numWarps = numWarps;
      schedule.keyWarps = keyWarps;
      schedule.headGroup = headGroup;
    });
  };
  EXPECT_FALSE(skips(1, 1, 1));
  EXPECT_FALSE(skips(4, 2, 1));
  EXPECT_FALSE(skips(4, 1, 4));
  EXPECT_TRUE(skips(4, 1, 2));
}

TEST(HiddenTiles, TakeRegistersThatSizesOfRunTimeTake) {
  EXPECT_FALSE(skipsAfter([](AttentionProblem &problem, ScheduleChoice &) {
    problem.seqlenQ = std::nullopt;
  }));
  EXPECT_FALSE(skipsAfter([](AttentionProblem &problem, ScheduleChoice &) {
    problem.seqlenK = std::nullopt;
  }));
}

TEST(HiddenTiles, TakeRegistersThatTheWidestHeadsTake) {
  auto skips = [](int64_t headDim, int64_t headDimV, QueryPlacement query) {
    return skipsAfter([&](AttentionProblem &problem, ScheduleChoice &schedule) {
      problem.headDim = headDim;
      problem.headDimV = headDimV;
      schedule.query = query;
    });
  };
  EXPECT_TRUE(skips(248, 248, QueryPlacement::Registers));
  EXPECT_FALSE(skips(256, 64, QueryPlacement::Registers));
  EXPECT_FALSE(skips(64, 256, QueryPlacement::Split));
  EXPECT_TRUE(skips(256, 256, QueryPlacement::Shared));
}

TEST(HiddenTiles, TakeRegistersThatAnOverlapTakes) {
  for (Overlap overlap : {Overlap::QK, Overlap::PV})
    EXPECT_FALSE(skipsAfter([&](AttentionProblem &, ScheduleChoice &schedule) {
      schedule.overlap = overlap;
    }));
}

// The last block of 256 rows has 1 to 64, 65 to 128, ... of them.
TEST(HiddenTiles, AreAllTilesOfWarpgroupsWithoutRows) {
  auto skips = [](int64_t seqlenQ) {
    return skipsAfter([&](AttentionProblem &problem, ScheduleChoice &schedule) {
      problem.isCausal = false;
      problem.seqlenQ = seqlenQ;
      schedule.product = Product::Warpgroup;
      schedule.numWarps = 16;
      schedule.blockM = 256;
    });
  };
  EXPECT_FALSE(skips(1024));
  EXPECT_TRUE(skips(1025));
  EXPECT_TRUE(skips(1024 + 192));
  EXPECT_FALSE(skips(1024 + 193));
}
} // namespace
