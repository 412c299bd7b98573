//===- SmallGridsTest.cpp - Schedules of few query rows or blocks ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
TEST(ScheduleOfSmallGrids, WarpsDivideTheKeys) {
  ScheduleChoice choice = choose(makeSmallProblem(8, 512, 64), ada());
  EXPECT_EQ(choice.keyWarps, 4);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.blockM, 32);
  EXPECT_EQ(choice.softmax, Softmax::OnePass);
  EXPECT_EQ(choice.rowSum, RowSum::Mma);
  EXPECT_EQ(choice.rowMax, RowMax::Exact);
}

TEST(ScheduleOfSmallGrids, SumsOfAnLseAreNotRounded) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  problem.hasLse = true;
  ScheduleChoice choice = choose(problem, ada());
  EXPECT_EQ(choice.softmax, Softmax::OnePass);
  EXPECT_EQ(choice.rowSum, RowSum::Add);
}

TEST(ScheduleOfSmallGrids, WideHeadsHaveRoomForTwo) {
  ScheduleChoice choice = choose(makeSmallProblem(8, 512, 128), ada());
  EXPECT_EQ(choice.keyWarps, 2);
  EXPECT_EQ(choice.numWarps, 2);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.softmax, Softmax::Online);
}

// 8 heads of 512 rows are 64 blocks of 64 rows, of 768 rows 96.
TEST(ScheduleOfSmallGrids, WideHeadsWouldRatherIdleThanReadKeysAgain) {
  const TargetInfo &hopper = *lookupTarget("sm_90");
  for (int64_t headDim : {96, 128, 256}) {
    EXPECT_LT(choose(makeSmallProblem(8, 512, headDim), hopper).blockM, 64);
    AttentionProblem problem = makeSmallProblem(8, 768, headDim);
    ScheduleChoice choice = choose(problem, hopper);
    EXPECT_EQ(choice.blockM, 64) << headDim;
    EXPECT_EQ(choice.numWarps, 4) << headDim;
    EXPECT_EQ(choice.blockN, 64) << headDim;
    problem.isCausal = true;
    EXPECT_LT(choose(problem, hopper).blockM, 64) << headDim;
  }
  EXPECT_EQ(choose(makeSmallProblem(8, 768, 64), hopper).keyWarps, 4);
}

TEST(ScheduleOfSmallGrids, WidestHeadsHaveLargeTilesWhereTheyFit) {
  AttentionProblem problem = makeSmallProblem(8, 768, 256);
  EXPECT_EQ(choose(problem, ada()).blockN, 32);
  problem.hasSpecials = true;
  EXPECT_EQ(choose(problem, *lookupTarget("sm_90")).blockN, 32);
}

// A last tile that the keys do not fill would have a loop of its own.
TEST(ScheduleOfSmallGrids, WidestHeadsHaveOneLoop) {
  EXPECT_NE(choose(makeSmallProblem(1, 1000, 256), ada()).rowMax,
            RowMax::Exact);
  EXPECT_EQ(choose(makeSmallProblem(1, 1000, 248), ada()).rowMax,
            RowMax::Exact);
}

TEST(ScheduleOfSmallGrids, CausalBlocksHaveFewerRows) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  problem.isCausal = true;
  ScheduleChoice choice = choose(problem, ada());
  EXPECT_EQ(choice.keyWarps, 4);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.softmax, Softmax::Online);
}

TEST(ScheduleOfSmallGrids, FewRowsMakeSmallerBlocks) {
  EXPECT_EQ(choose(makeSmallProblem(12, 128, 64), ada()).blockM, 16);
  EXPECT_EQ(choose(makeSmallProblem(1, 4096, 64), ada()).blockM, 32);
}

TEST(ScheduleOfSmallGrids, ManyOrUnevenKeysTakeALoop) {
  EXPECT_EQ(choose(makeSmallProblem(1, 4096, 64), ada()).softmax,
            Softmax::Online);
  EXPECT_EQ(choose(makeSmallProblem(8, 500, 64), ada()).softmax,
            Softmax::Online);
}

TEST(ScheduleOfSmallGrids, ColumnsOfOutputMustDivideToo) {
  EXPECT_EQ(choose(makeSmallProblem(8, 512, 40), ada()).keyWarps, 2);
  EXPECT_EQ(choose(makeSmallProblem(8, 512, 48), ada()).keyWarps, 4);
}

void expectUnsplit(const ScheduleChoice &choice) {
  EXPECT_EQ(choice.headGroup, 1);
  EXPECT_EQ(choice.keySplits, 1);
}

TEST(FewRows, BlocksOwnTheHeadsOfAKeyHeadAndPartOfTheKeys) {
  ScheduleChoice choice = choose(makeDecode(1, 1, 8192), ada());
  EXPECT_EQ(choice.headGroup, 4);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.keySplits, 32);
  choice = choose(makeDecode(1, 33, 65536), ada());
  EXPECT_EQ(choice.headGroup, 4);
  EXPECT_EQ(choice.numWarps, 8);
  EXPECT_EQ(choice.blockM, 32);
}

// 8 kv heads and a batch of 16 are a block an SM already. With 11 splits of a
// batch of 3, eight blocks would wait for the others to end; 21 are two waves.
TEST(FewRows, SplitsFillWaves) {
  for (auto [batch, splits] : {std::pair(1, 32), {2, 16}, {3, 21}, {16, 2}})
    EXPECT_EQ(choose(makeDecode(batch, 1, 65536), ada()).keySplits, splits)
        << batch;
}

// 160, 320 and 512 blocks, of which 256 run at once: 160 would leave 96 SMs
// with one block, which does not keep its memory busy, and 320 a second wave of
// 64; 1,280 are five full ones.
TEST(FewRows, FullGridsAreSplitForFullWaves) {
  for (auto [batch, splits] : {std::pair(20, 8), {40, 4}, {64, 1}, {1000, 1}}) {
    ScheduleChoice choice = choose(makeDecode(batch, 1, 8192), ada());
    EXPECT_EQ(choice.keySplits, splits) << batch;
    EXPECT_EQ(choice.headGroup, 4) << batch;
    EXPECT_EQ(choice.blockM, 16) << batch;
  }
}

// Also where the keys are too few to share out; but not where more blocks than
// one would have to read them.
TEST(FewRows, FullGridsKeepTheRowsOfAHeadTogether) {
  EXPECT_EQ(choose(makeDecode(64, 1, 512), ada()).headGroup, 4);
  EXPECT_EQ(choose(makeDecode(64, 32, 8192), ada()).blockM, 32);
  expectUnsplit(choose(makeDecode(64, 33, 8192), ada()));
  expectUnsplit(choose(makeDecode(64, 16, 100), ada()));
}

TEST(FewRows, OpenStridesTakeTheRegistersOfAStage) {
  auto stages = [](AttentionProblem problem) {
    return choose(problem, ada()).numStages;
  };
  AttentionProblem problem = makeSmallProblem(12, 1, 128);
  problem.seqlenK = 7000;
  EXPECT_EQ(stages(problem), 3);
  problem.hasOpenStrides = true;
  EXPECT_EQ(stages(problem), 2);
  // Of several heads, several warps share the copies.
  problem.headsQ = 48;
  EXPECT_EQ(stages(problem), 3);
  problem.headDim = problem.headDimV = 256;
  EXPECT_EQ(stages(problem), 2);
  // Sizes alone add nothing up.
  problem.hasOpenStrides = false;
  problem.seqlenK = std::nullopt;
  EXPECT_EQ(stages(problem), 3);
}

TEST(ScheduleOfSmallGrids, OpenStridesOfTheWidestHeadsLeaveSmallTiles) {
  AttentionProblem problem = makeSmallProblem(2, 929, 256);
  problem.isCausal = true;
  EXPECT_EQ(choose(problem, ada()).blockN, 32);
  problem.hasOpenStrides = true;
  EXPECT_EQ(choose(problem, ada()).blockN, 16);
}

TEST(FewRows, SplitsKeep256KeysEach) {
  EXPECT_EQ(choose(makeDecode(1, 1, 4096), ada()).keySplits, 16);
  EXPECT_EQ(choose(makeDecode(1, 1, 1023), ada()).keySplits, 1);
  AttentionProblem window = makeDecode(1, 1, 1 << 20);
  window.windowKeys = 2048;
  EXPECT_EQ(choose(window, ada()).keySplits, 8);
}

TEST(FewRows, KeepThirtyTwoKiBInFlight) {
  for (int64_t headDim : {64, 128, 256}) {
    ScheduleChoice choice = choose(makeDecode(1, 1, 8192, headDim), ada());
    EXPECT_EQ(2 * choice.blockN * 2 * headDim, 16 * 1024) << headDim;
    EXPECT_EQ(choice.numStages, 3) << headDim;
  }
}

// Every number of heads a kv head, on every chip.
TEST(FewRows, FitWhateverTheHeads) {
  for (const TargetInfo &target : getTargets())
    for (int64_t headDim = 16; headDim <= 256; headDim += 8)
      for (int64_t group : {1, 2, 3, 5, 6, 7, 8, 11, 12, 16, 64})
        for (int64_t seqlenQ : {1, 16, 17, 64}) {
          AttentionProblem problem = makeDecode(1, seqlenQ, 4096, headDim);
          problem.headsKV = 1;
          problem.headsQ = group;
          problem.hasBias = problem.hasWindow = group % 2;
          ScheduleChoice choice = choose(problem, target);
          EXPECT_EQ(group % choice.headGroup, 0);
          EXPECT_LE(choice.numWarps, 8);
          // A small chip is full sooner.
          if (target.capability >= 80)
            EXPECT_GT(choice.keySplits, 1);
        }
}

TEST(FewRows, OtherProblemsAreNotSplit) {
  // The grid is full, the keys are few, or there are as many rows as keys.
  for (AttentionProblem problem :
       {makeDecode(17, 33, 8192), makeDecode(1, 1, 1000),
        makeDecode(1, 8192, 8192), makeDecode(1, 512, 512, 64)})
    expectUnsplit(choose(problem, ada()));
  // There may be many rows.
  AttentionProblem open = makeDecode(1, 1, 8192);
  open.seqlenQ = std::nullopt;
  expectUnsplit(choose(open, ada()));
  open = makeDecode(1, 33, 8192);
  open.seqlenK = std::nullopt;
  expectUnsplit(choose(open, ada()));
}

// A batch or a cache of any length: few rows are few whatever they are.
TEST(FewRows, OtherSizesMayBeOpen) {
  for (auto size : {&AttentionProblem::batch, &AttentionProblem::seqlenK})
    for (int64_t seqlenQ : {1, 32}) {
      AttentionProblem problem = makeDecode(1, seqlenQ, 8192);
      ScheduleChoice known = choose(problem, ada());
      known.splitCount = SplitCount::Call;
      problem.*size = std::nullopt;
      EXPECT_EQ(choose(problem, ada()), known) << seqlenQ;
    }
  // What is known still counts.
  AttentionProblem batch = makeDecode(64, 1, 8192);
  batch.seqlenK = std::nullopt;
  EXPECT_EQ(choose(batch, ada()).keySplits, 1);
  AttentionProblem keys = makeDecode(1, 1, 512);
  keys.batch = std::nullopt;
  EXPECT_EQ(choose(keys, ada()).keySplits, 1);
}

TEST(FewRows, HeadsOfUnknownNumberAreNotGrouped) {
  for (auto size : {&AttentionProblem::headsQ, &AttentionProblem::headsKV}) {
    AttentionProblem problem = makeDecode(1, 1, 8192);
    problem.*size = std::nullopt;
    ScheduleChoice choice = choose(problem, ada());
    EXPECT_EQ(choice.blockM, 16);
    EXPECT_EQ(choice.headGroup, 1);
    EXPECT_GT(choice.keySplits, 1);
  }
}

// Warps and rows that are asked for leave no choice of a group.
TEST(FewRows, ForcedRowsAreNotGrouped) {
  ScheduleOptions options;
  options.blockM = 64;
  ScheduleChoice choice = choose(makeDecode(1, 1, 8192), ada(), options);
  EXPECT_EQ(choice.headGroup, 1);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.keySplits, 8);
}
} // namespace
