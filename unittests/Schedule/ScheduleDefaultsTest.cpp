//===- ScheduleDefaultsTest.cpp - Schedules of many problems --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
TEST(ScheduleDefaults, TileShapesSuitMmaSync) {
  forEachDefault([](const AttentionProblem &, const TargetInfo &,
                    const ScheduleChoice &choice) {
    ASSERT_GE(choice.numWarps, 1);
    ASSERT_LE(choice.numWarps, kMaxWarps);
    EXPECT_GT(choice.blockM, 0);
    ASSERT_EQ(choice.numWarps % choice.keyWarps, 0);
    EXPECT_EQ(choice.blockM % (16 * choice.numWarps / choice.keyWarps), 0);
    EXPECT_GT(choice.blockN, 0);
    EXPECT_EQ(choice.blockN % 16, 0);
    EXPECT_GE(choice.numStages, 2);
  });
}

// Q, and K and V of every stage, of two bytes an element.
TEST(ScheduleDefaults, FitSharedMemory) {
  forEachDefault([](const AttentionProblem &problem, const TargetInfo &target,
                    const ScheduleChoice &choice) {
    // Warps that share query rows have a copy of them, and rings of their own.
    int64_t numRings = choice.keyWarps > 1 ? choice.numWarps : 1;
    int64_t bytes = 2 * (choice.keyWarps * choice.blockM * problem.headDim +
                         numRings * choice.numStages * choice.blockN *
                             (problem.headDim + problem.headDimV));
    EXPECT_LE(bytes, target.sharedMemoryPerBlock);
  });
}

// The f32 accumulators of O and S, spread over the threads of the block.
TEST(ScheduleDefaults, AccumulatorsFitRegisters) {
  forEachDefault([](const AttentionProblem &problem, const TargetInfo &,
                    const ScheduleChoice &choice) {
    if (choice.product == Product::Thread) // which may spill
      return;
    int64_t values = choice.getWarpM() * (problem.headDimV + choice.blockN);
    EXPECT_LT(values / (choice.getTileWarps() * kWarpSize),
              kMaxRegistersPerThread);
  });
}

// Nothing but a small grid with a known number of keys, all of them seen by
// most rows, divides them.
TEST(ScheduleDefaults, OtherProblemsKeepTheKeysTogether) {
  AttentionProblem filled = makeSmallProblem(64, 1024, 64);
  AttentionProblem half = makeSmallProblem(16, 512, 64);
  AttentionProblem few = makeSmallProblem(8, 512, 64);
  few.seqlenK = 96;
  AttentionProblem unknown = makeSmallProblem(8, 512, 64);
  unknown.seqlenK = std::nullopt;
  AttentionProblem window = makeSmallProblem(8, 512, 64);
  window.hasWindow = true;
  AttentionProblem veryWide = makeSmallProblem(8, 512, 256);
  for (const AttentionProblem &problem :
       {makeProblem(64, 64), filled, half, few, unknown, window, veryWide}) {
    ScheduleChoice choice = choose(problem, ada());
    EXPECT_EQ(choice.keyWarps, 1);
    EXPECT_EQ(choice.softmax, Softmax::Online);
  }
}

TEST(ScheduleDefaults, CausalRunsTheLongestRowsOfAllHeadsFirst) {
  AttentionProblem problem = makeProblem(64, 64);
  EXPECT_EQ(choose(problem, ada()).gridOrder, GridOrder::QueryFastest);
  problem.isCausal = true;
  EXPECT_EQ(choose(problem, ada()).gridOrder, GridOrder::HeadFastest);
}

TEST(ScheduleDefaults, SmallGridGetsSmallerBlocks) {
  AttentionProblem large = makeProblem(64, 64);
  large.batch = 64;
  large.headsQ = 16;
  large.seqlenQ = large.seqlenK = 1024;
  AttentionProblem small = large;
  small.batch = 1;
  small.headsQ = 2;
  EXPECT_LT(choose(small, ada()).blockM, choose(large, ada()).blockM);
}

// Two rows of accumulators of O would take all registers, whatever the grid.
TEST(ScheduleDefaults, VeryWideHeadsGetWarpsOf16Rows) {
  for (const TargetInfo &target : getTargets())
    for (auto [headDim, headDimV] : {std::pair<int64_t, int64_t>(136, 136),
                                     {256, 256},
                                     {64, 256},
                                     {192, 128},
                                     {256, 16}})
      for (const AttentionProblem &problem : makeProblems(headDim, headDimV)) {
        SCOPED_TRACE(target.chip.str() + ", head_dim " +
                     std::to_string(headDim) + ", head_dim_v " +
                     std::to_string(headDimV));
        ScheduleChoice choice = choose(problem, target);
        EXPECT_EQ(choice.blockM / choice.numWarps, choice.getRowMultiple());
      }
}

TEST(ScheduleDefaults, HeadsUpTo128MayUseWarpsOf32Rows) {
  for (int64_t headDim : {64, 128}) {
    ScheduleChoice choice = choose(makeProblem(headDim, headDim), ada());
    EXPECT_EQ(choice.blockM / choice.numWarps, 32);
  }
}

TEST(ScheduleDefaults, SoftcapBesideThreeBoundsTakesRegisters) {
  AttentionProblem problem = makeLargeProblem(64, 2048);
  problem.isCausal = problem.isTopLeft = problem.hasWindow = true;
  auto warpRows = [](const AttentionProblem &of) {
    return choose(of, ada()).getWarpM();
  };
  EXPECT_EQ(warpRows(problem), 32);
  problem.hasSpecials = true;
  EXPECT_EQ(warpRows(problem), 16);
  problem.isTopLeft = false;
  EXPECT_EQ(warpRows(problem), 32);
}

// S of 64 keys fits beside O of 16 rows a warp: in registers up to 128, in the
// shared memory of eight warps beyond.
TEST(ScheduleDefaults, TilesOf64KeysWhereTheyFit) {
  auto blockN = [](int64_t headDim, const char *chip) {
    return choose(makeProblem(headDim, headDim), *lookupTarget(chip)).blockN;
  };
  EXPECT_EQ(blockN(80, "sm_89"), 32);
  EXPECT_EQ(blockN(96, "sm_89"), 32);
  EXPECT_EQ(blockN(128, "sm_90"), 32);
  EXPECT_EQ(blockN(192, "sm_89"), 32);
  EXPECT_EQ(blockN(256, "sm_80"), 32);
  EXPECT_EQ(blockN(256, "sm_90"), 64);
  EXPECT_EQ(choose(makeProblem(64, 128), ada()).blockN, 64);
  AttentionProblem windowed = makeProblem(96, 96), narrow = makeProblem(80, 80);
  windowed.hasWindow = narrow.hasWindow = true;
  EXPECT_EQ(choose(windowed, ada()).blockN, 64);
  EXPECT_EQ(choose(narrow, ada()).blockN, 32);
  // The addresses of a bias whose strides are not known take registers.
  windowed.hasBias = windowed.hasLongScores = true;
  EXPECT_EQ(choose(windowed, ada()).blockN, 32);
}

// 16 rows a warp of a very wide head leave registers for Q, but at 256 not
// beside sizes known at run time; there half of it stays.
TEST(ScheduleDefaults, VeryWideHeadsKeepQInRegistersWhereTheyCan) {
  auto query = [](const AttentionProblem &problem) {
    return choose(problem, ada()).query;
  };
  EXPECT_EQ(query(makeProblem(136, 136)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(248, 248)), QueryPlacement::Registers);
  AttentionProblem known = makeLargeProblem(256, 512);
  EXPECT_EQ(choose(known, *lookupTarget("sm_90")).numWarps, 4);
  AttentionProblem softcap = known, bias = known, causal = known;
  causal.isCausal = softcap.hasSpecials = bias.hasBias = bias.hasLongScores =
      true;
  for (const AttentionProblem &problem : {known, causal, softcap, bias})
    EXPECT_EQ(query(problem), QueryPlacement::Registers);
  AttentionProblem strided = known;
  strided.hasOpenStrides = true;
  EXPECT_EQ(query(strided), QueryPlacement::Split);
  strided = makeSmallProblem(4, 247, 256);
  EXPECT_EQ(query(strided), QueryPlacement::Registers);
  strided.hasOpenStrides = true;
  EXPECT_EQ(query(strided), QueryPlacement::Shared);
  // Nor do few warps where anything else takes registers.
  AttentionProblem small = makeSmallProblem(4, 247, 256);
  small.hasSpecials = true;
  EXPECT_EQ(query(small), QueryPlacement::Shared);
  small = makeSmallProblem(4, 247, 256);
  small.hasWindow = true;
  EXPECT_EQ(query(small), QueryPlacement::Shared);
  EXPECT_EQ(query(makeSmallProblem(4, 25, 256)), QueryPlacement::Shared);
  // LLVM takes the loop over two tiles apart.
  EXPECT_EQ(query(makeSmallProblem(4, 64, 256)), QueryPlacement::Shared);
  EXPECT_EQ(query(makeSmallProblem(4, 65, 256)), QueryPlacement::Registers);
  ScheduleChoice half = choose(makeProblem(256, 256), ada());
  EXPECT_EQ(half.query, QueryPlacement::Split);
  EXPECT_EQ(half.querySteps, 8);
  AttentionProblem capped = makeProblem(256, 256);
  capped.hasSpecials = true;
  EXPECT_EQ(choose(capped, ada()).querySteps, 6);
  // Where eight warps fit, they share K and V instead.
  ScheduleChoice many = choose(makeProblem(256, 256), *lookupTarget("sm_90"));
  EXPECT_EQ(many.numWarps, 8);
  EXPECT_EQ(many.query, QueryPlacement::Shared);
  ScheduleOptions options;
  options.blockN = 64;
  auto forced = chooseSchedule(known, *lookupTarget("sm_90"), options);
  EXPECT_EQ(std::get<ScheduleDecision>(forced).choice.query,
            QueryPlacement::Shared);
}

// 32 rows a warp leave registers for 96 columns of Q beside as many of O, 16
// rows for all; but small fragments of 16 rows let another block run beside.
TEST(ScheduleDefaults, WideHeadsKeepQInRegistersWhereThatPays) {
  auto query = [](const AttentionProblem &problem) {
    return choose(problem, ada()).query;
  };
  EXPECT_EQ(query(makeProblem(80, 80)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(96, 96)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(104, 104)), QueryPlacement::Shared);
  for (auto [headDim, expected] : {std::pair(88, QueryPlacement::Registers),
                                   {96, QueryPlacement::Split}}) {
    AttentionProblem causal = makeProblem(headDim, headDim);
    causal.isCausal = true;
    EXPECT_EQ(query(causal), expected);
  }
  EXPECT_EQ(query(makeProblem(128, 64)), QueryPlacement::Registers);
  EXPECT_EQ(choose(makeProblem(128, 64), ada()).getWarpM(), 32);
  EXPECT_EQ(query(makeProblem(64, 128)), QueryPlacement::Registers);
  EXPECT_EQ(choose(makeProblem(64, 128), ada()).getWarpM(), 16);
  AttentionProblem narrow = makeProblem(80, 80), wide = makeProblem(128, 128);
  narrow.hasWindow = wide.hasWindow = true;
  EXPECT_EQ(query(narrow), QueryPlacement::Shared);
  EXPECT_EQ(query(wide), QueryPlacement::Registers);
}

// Blocks of 64 rows are faster than half as many of 128 while those are few an
// SM, under a causal mask longer.
TEST(ScheduleDefaults, GridsOfFewWavesHaveSmallerBlocks) {
  auto blockM = [](int64_t heads, int64_t headDim, bool isCausal) {
    AttentionProblem problem = makeSmallProblem(heads, 1024, headDim);
    problem.isCausal = isCausal;
    return choose(problem, ada()).blockM;
  };
  for (int64_t headDim : {64, 128}) {
    EXPECT_EQ(blockM(24, headDim, false), 64);
    EXPECT_EQ(blockM(25, headDim, false), 128);
    EXPECT_EQ(blockM(40, headDim, true), 64);
    EXPECT_EQ(blockM(41, headDim, true), 128);
  }
  ScheduleChoice half = choose(makeSmallProblem(24, 1024, 128), ada());
  EXPECT_EQ(half.numWarps, 4);
  EXPECT_EQ(half.blockN, 64);
  EXPECT_EQ(half.query, QueryPlacement::Registers);
  EXPECT_EQ(half.rowMax, RowMax::Stale);
}

// Heads take turns where blocks of 64 rows would have all of them read K and V
// of their own.
TEST(ScheduleDefaults, HeadsTakeTurnsWhereBlocksAreSmall) {
  auto gridHeads = [](int64_t headDim, int64_t seqlen, int64_t headsKV) {
    AttentionProblem problem = makeLargeProblem(headDim, seqlen);
    problem.headsKV = headsKV;
    problem.isCausal = true;
    return choose(problem, ada()).gridHeads;
  };
  EXPECT_EQ(gridHeads(256, 512, 32), 32);
  EXPECT_EQ(gridHeads(256, 512, 8), 128);
  EXPECT_EQ(gridHeads(256, 512, 1), 0);
  // Also where all heads are more than can be named.
  AttentionProblem huge = makeLargeProblem(256, 512);
  huge.batch = 128;
  huge.headsQ = 1 << 17;
  huge.headsKV = 1;
  huge.isCausal = true;
  EXPECT_EQ(choose(huge, ada()).gridHeads, kMaxGridHeads);
  EXPECT_EQ(gridHeads(256, 64, 32), 0);
  EXPECT_EQ(gridHeads(128, 512, 32), 0);
  AttentionProblem dense = makeLargeProblem(256, 512);
  dense.headsKV = 32;
  EXPECT_EQ(choose(dense, ada()).gridHeads, 0);
}

// What one option forces never makes the defaults of the others impossible.
TEST(ScheduleDefaults, LeaveRoomForOneForcedOption) {
  AttentionProblem window = makeProblem(128, 128), half = window;
  window.hasWindow = true;
  half = makeSmallProblem(12, 1024, 128);
  AttentionProblem grouped = makeProblem(16, 256);
  grouped.headsQ = 6;
  grouped.headsKV = 2;
  AttentionProblem manyHeads = window;
  manyHeads.headsQ = 32;
  manyHeads.headsKV = 2;
  ScheduleOptions stages, heads, allHeads, persistent;
  stages.numStages = 3;
  heads.headGroup = 3;
  allHeads.headGroup = 16;
  persistent.grid = Grid::Persistent;
  persistent.minBlocks = 2;
  EXPECT_EQ(choose(window, ada(), stages).blockN, 32);
  EXPECT_EQ(choose(half, ada(), stages).blockN, 32);
  EXPECT_EQ(choose(grouped, ada(), heads).query, QueryPlacement::Registers);
  EXPECT_EQ(choose(manyHeads, ada(), allHeads).blockN, 32);
  EXPECT_EQ(choose(half, ada(), persistent).blockN, 32);
}

// Tiles of 48 keys take the registers of known sizes, and a partial tile more.
TEST(ScheduleDefaults, TilesOf48KeysForWideHeadsOfKnownLength) {
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(104, 512), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(96, 4096), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(128, 256), ada()).blockN, 32);
  EXPECT_EQ(choose(makeProblem(128, 128), ada()).blockN, 32);
  EXPECT_EQ(choose(makeLargeProblem(80, 4096), ada()).blockN, 32);
  AttentionProblem softcap = makeLargeProblem(128, 4096);
  softcap.hasSpecials = true;
  EXPECT_EQ(choose(softcap, ada()).blockN, 48);
  softcap.isCausal = true;
  EXPECT_EQ(choose(softcap, ada()).blockN, 32);
  AttentionProblem topLeft = makeLargeProblem(128, 4096);
  topLeft.isCausal = topLeft.isTopLeft = true;
  EXPECT_EQ(choose(topLeft, ada()).blockN, 48);
  topLeft.seqlenK = 4000;
  EXPECT_EQ(choose(topLeft, ada()).blockN, 32);
  // Strides and numbers of heads take registers, too.
  AttentionProblem strided = makeLargeProblem(128, 4096), heads = strided;
  strided.hasOpenStrides = true;
  heads.headsKV = std::nullopt;
  EXPECT_EQ(choose(strided, ada()).blockN, 32);
  EXPECT_EQ(choose(heads, ada()).blockN, 32);
}

// An exact maximum has a loop for each kind of tile.
TEST(ScheduleDefaults, SmallGridsWithManyKindsOfTilesTakeOneLoop) {
  AttentionProblem dense = makeSmallProblem(4, 100, 64), causal = dense,
                   window = dense, softcap = dense, both = dense;
  window.hasWindow = softcap.hasSpecials = true;
  causal.isCausal = both.isCausal = both.hasBias = both.hasLongScores = true;
  for (const AttentionProblem &problem : {dense, causal, softcap})
    EXPECT_EQ(choose(problem, ada()).rowMax, RowMax::Exact);
  for (const AttentionProblem &problem : {window, both})
    EXPECT_NE(choose(problem, ada()).rowMax, RowMax::Exact);
}

// Every score of a bias has an address.
TEST(ScheduleDefaults, SmallGridsWithABiasHaveSmallerTiles) {
  AttentionProblem problem = makeSmallProblem(4, 100, 64);
  EXPECT_EQ(choose(problem, ada()).blockN, 128);
  problem.hasBias = problem.hasLongScores = true;
  EXPECT_EQ(choose(problem, ada()).blockN, 64);
}

// What a short region computes leaves the tiles as they are.
TEST(ScheduleDefaults, ShortRegionsHaveTheTilesOfPlainScores) {
  for (int64_t headDim : {64, 128}) {
    AttentionProblem plain = makeLargeProblem(headDim, 4096), region = plain;
    region.hasBias = region.hasRegion = true;
    ScheduleChoice choice = choose(region, ada());
    EXPECT_EQ(choice.getWarpM(), choose(plain, ada()).getWarpM());
    EXPECT_EQ(choice.blockN, choose(plain, ada()).blockN);
    EXPECT_EQ(choice.rowMax, RowMax::Stale);
    region.hasLongScores = true;
    EXPECT_LT(choose(region, ada()).getWarpM(), choice.getWarpM());
  }
}

TEST(ScheduleDefaults, TheMaximumIsFoldedWhereThatPays) {
  for (int64_t headDim : {64, 80})
    for (bool isCausal : {false, true}) {
      AttentionProblem problem = makeProblem(headDim, headDim);
      problem.isCausal = isCausal;
      EXPECT_EQ(choose(problem, ada()).rowMax, RowMax::Folded);
      EXPECT_EQ(choose(problem, ada()).rowSum, RowSum::Mma);
    }
  EXPECT_EQ(choose(makeProblem(88, 88), ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(makeProblem(256, 256), ada()).rowMax, RowMax::Stale);
}

// Its logarithm is of P as it is, not as a product has it.
TEST(ScheduleDefaults, SumsOfAnLseAreNotRounded) {
  for (int64_t headDim : {64, 88, 128, 256}) {
    AttentionProblem problem = makeProblem(headDim, headDim);
    EXPECT_EQ(choose(problem, ada()).rowSum, RowSum::Mma) << headDim;
    problem.hasLse = true;
    EXPECT_EQ(choose(problem, ada()).rowSum, RowSum::Add) << headDim;
    EXPECT_EQ(choose(problem, ada()).rowMax, RowMax::Stale) << headDim;
  }
  auto result = [] {
    AttentionProblem problem = makeProblem(64, 64);
    problem.hasLse = true;
    return std::get<ScheduleDecision>(chooseSchedule(problem, ada(), {}));
  }();
  for (const ScheduleReason &reason : result.reasons)
    if (reason.field == "row_sum")
      EXPECT_EQ(reason.reason,
                "lse: its sums are of weights that are not rounded");
}

TEST(ScheduleDefaults, ChangedScoresAreNotFolded) {
  AttentionProblem softcap = makeProblem(64, 64), bias = softcap;
  softcap.hasSpecials = bias.hasBias = bias.hasLongScores = true;
  EXPECT_EQ(choose(softcap, ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(bias, ada()).rowMax, RowMax::Stale);
  ScheduleOptions adds, overlaps;
  adds.rowSum = RowSum::Add;
  overlaps.overlap = Overlap::QK;
  for (const ScheduleOptions &options : {adds, overlaps}) {
    auto result = chooseSchedule(makeProblem(64, 64), ada(), options);
    EXPECT_EQ(std::get<ScheduleDecision>(result).choice.rowMax, RowMax::Stale);
  }
}

// The chips with the least shared memory: 99 KiB a block.
TEST(ScheduleDefaults, WidestHeadsFitTheSmallestSharedMemory) {
  for (const char *chip : {"sm_86", "sm_89"}) {
    const TargetInfo &target = *lookupTarget(chip);
    EXPECT_EQ(target.sharedMemoryPerBlock, 99 * 1024);
    for (const AttentionProblem &problem : makeProblems(256, 256)) {
      ScheduleChoice choice = choose(problem, target);
      EXPECT_LE(getSharedMemoryBytes(problem, choice), 99 * 1024);
    }
  }
}
} // namespace
