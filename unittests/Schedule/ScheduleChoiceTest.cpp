//===- ScheduleChoiceTest.cpp - Schedules with forced fields --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
// A forced shape is that of warps with rows of their own, as it always was.
TEST(ScheduleOptions, ForcedShapesKeepTheKeysTogether) {
  for (auto field : {&ScheduleOptions::blockM, &ScheduleOptions::blockN,
                     &ScheduleOptions::numWarps, &ScheduleOptions::numStages}) {
    ScheduleOptions options;
    options.*field = field == &ScheduleOptions::numWarps    ? 2
                     : field == &ScheduleOptions::numStages ? 3
                                                            : 32;
    auto result = chooseSchedule(makeSmallProblem(8, 512, 32), ada(), options);
    EXPECT_EQ(std::get<ScheduleDecision>(result).choice.keyWarps, 1);
  }
}

TEST(ScheduleOptions, StaleMaximumOrOverlapTakeALoop) {
  ScheduleOptions stale, overlap;
  stale.rowMax = RowMax::Stale;
  overlap.overlap = Overlap::QK;
  for (const ScheduleOptions &options : {stale, overlap}) {
    auto result = chooseSchedule(makeSmallProblem(8, 512, 64), ada(), options);
    EXPECT_EQ(std::get<ScheduleDecision>(result).choice.softmax,
              Softmax::Online);
  }
}

TEST(ScheduleOptions, KeyWarpsMakeTheirOwnShape) {
  for (int64_t keyWarps : {2, 3, 4})
    for (int64_t headDim : {16, 40, 64}) {
      ScheduleOptions options;
      options.keyWarps = keyWarps;
      EXPECT_EQ(refuse(makeProblem(headDim, headDim), options), "accepted")
          << keyWarps << " key warps, head_dim " << headDim;
    }
}

TEST(ScheduleOptions, TilesAreThoseOfBlocksOfLists) {
  for (auto [queries, keys] : {std::pair<int64_t, int64_t>(128, 128),
                               {16, 16},
                               {48, 80},
                               {64, 256},
                               {1024, 96}})
    for (int64_t headDim : {16, 64, 80, 128, 192, 256})
      for (int64_t seqlen : {40, 512, 8192})
        for (const char *chip : {"sm_80", "sm_89", "sm_90a"}) {
          AttentionProblem problem = makeProblem(headDim, headDim);
          problem.batch = 2;
          problem.headsQ = problem.headsKV = 8;
          problem.seqlenQ = problem.seqlenK = seqlen;
          problem.blocks = {queries, keys, /*ofHeads=*/true};
          ScheduleChoice choice = choose(problem, *lookupTarget(chip));
          EXPECT_EQ(queries % choice.blockM, 0);
          EXPECT_EQ(keys % choice.blockN, 0);
          EXPECT_EQ(choice.keySplits, 1);
          EXPECT_EQ(choice.headGroup, 1);
          EXPECT_EQ(choice.softmax, Softmax::Online);
        }
}

// The usual blocks of FlexAttention leave two warpgroups, of which each walk
// begins with a load.
TEST(ScheduleOptions, WarpgroupsTakeBlocksOf128) {
  AttentionProblem problem = makeProblem(128, 128);
  problem.batch = 4;
  problem.headsQ = problem.headsKV = 16;
  problem.seqlenQ = problem.seqlenK = 4096;
  problem.blocks = {128, 128, /*ofHeads=*/false};
  ScheduleChoice choice = choose(problem, *lookupTarget("sm_90a"));
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockM, 128);
  EXPECT_EQ(choice.blockN, 128);
  // Smaller ones are for warps, unless warpgroups are asked for.
  problem.blocks = {64, 32, /*ofHeads=*/false};
  EXPECT_EQ(choose(problem, *lookupTarget("sm_90a")).product, Product::Warp);
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  choice = choose(problem, *lookupTarget("sm_90a"), options);
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockM, 64);
  EXPECT_EQ(choice.blockN, 32);
}

TEST(ScheduleOptions, ASplitQueryKeepsAllButAStepOrWhatIsAskedFor) {
  ScheduleOptions options;
  options.query = QueryPlacement::Split;
  for (auto [headDim, steps] : {std::pair(64, 3), {40, 2}, {24, 1}, {192, 6}}) {
    ScheduleChoice choice =
        choose(makeProblem(headDim, headDim), ada(), options);
    EXPECT_EQ(choice.querySteps, steps);
    EXPECT_EQ(choice.getKeptQueryColumns(headDim), 16 * steps);
  }
  options.querySteps = 2;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).querySteps, 2);
}

TEST(ScheduleOptions, EveryForcedOptionIsKept) {
  ScheduleOptions options;
  options.blockM = 96;
  options.blockN = 48;
  options.numWarps = 6;
  options.numStages = 4;
  options.minBlocks = 2;
  options.query = QueryPlacement::Shared;
  options.gridOrder = GridOrder::HeadFastest;
  options.headGroup = 2;
  options.keySplits = 3;
  AttentionProblem problem = makeProblem(64, 64);
  problem.headsQ = 4;
  problem.headsKV = 2;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.headGroup, 2);
  EXPECT_EQ(choice.keySplits, 3);
  EXPECT_EQ(choice.blockM, 96);
  EXPECT_EQ(choice.blockN, 48);
  EXPECT_EQ(choice.numWarps, 6);
  EXPECT_EQ(choice.numStages, 4);
  EXPECT_EQ(choice.minBlocks, 2);
  EXPECT_EQ(choice.query, QueryPlacement::Shared);
  EXPECT_EQ(choice.gridOrder, GridOrder::HeadFastest);
}

TEST(ScheduleOptions, OneForcedOptionIsKeptAndTheOthersFollow) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleOptions options;
  options.numWarps = 8;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.numWarps, 8);
  EXPECT_EQ(choice.blockM % (16 * 8), 0);

  options = {};
  options.blockM = 16;
  choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.numWarps, 1);

  options = {};
  options.numStages = 3;
  EXPECT_EQ(choose(problem, ada(), options).numStages, 3);
}

// The heads of a group share the warps, and each of them has all rows.
TEST(ScheduleOptions, AHeadGroupDividesTheWarps) {
  AttentionProblem problem = makeProblem(64, 64);
  problem.headsQ = 12;
  problem.headsKV = 2;
  ScheduleOptions options;
  for (auto [group, warps, rows] :
       {std::tuple(1, 4, 128), {2, 4, 64}, {3, 3, 32}, {6, 6, 32}}) {
    options.headGroup = group;
    ScheduleChoice choice = choose(problem, ada(), options);
    EXPECT_EQ(choice.numWarps, warps) << group;
    EXPECT_EQ(choice.blockM, rows) << group;
    EXPECT_EQ(choice.getWarpM(), 32) << group;
  }
}

TEST(ScheduleOptions, FewerWarpsThanHeadsAreRefusedWhateverIsOpen) {
  ScheduleOptions options;
  options.numWarps = 1;
  options.headGroup = 2;
  options.expectedQueries = 40;
  for (int64_t headDim : {32, 64, 128, 256})
    for (bool isOpen : {true, false}) {
      AttentionProblem problem = makeProblem(headDim, headDim);
      problem.headsQ = 6;
      problem.headsKV = 3;
      problem.isCausal = true;
      problem.isVarlen = problem.hasLengths = isOpen;
      if (isOpen)
        problem.batch = problem.seqlenQ = problem.seqlenK = std::nullopt;
      EXPECT_NE(refuse(problem, options).find("a multiple of head-group = 2"),
                std::string::npos)
          << refuse(problem, options) << ", head_dim " << headDim;
    }
}

TEST(ScheduleOptions, ForcedDefaultOfAnEnumIsKept) {
  AttentionProblem problem = makeProblem(64, 64);
  problem.isCausal = true;
  ScheduleOptions options;
  options.gridOrder = GridOrder::QueryFastest;
  options.query = QueryPlacement::Registers;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.gridOrder, GridOrder::QueryFastest);
  EXPECT_EQ(choice.query, QueryPlacement::Registers);
}

/// A problem with each of the things that take registers.
std::vector<AttentionProblem> makeVariants(const AttentionProblem &plain) {
  std::vector<AttentionProblem> variants(8, plain);
  variants[1].hasSpecials = true;
  variants[2].hasWindow = variants[2].isCausal = true;
  variants[3].hasBias = variants[3].hasLongScores = true;
  variants[4].hasOpenStrides = true;
  variants[5].hasLengths = variants[5].isPaged = true;
  variants[6].isCausal = variants[6].isTopLeft = variants[6].hasSpecials = true;
  variants[7].headsKV = plain.headsQ ? std::optional<int64_t>(1) : std::nullopt;
  return variants;
}

// What the bits of a row are made of depends on its head dims alone.
TEST(ScheduleOptions, InvariantFieldsAreTheSameForAllSizes) {
  ScheduleOptions options;
  options.invariance = Invariance::Batch;
  for (const TargetInfo &target : getTargets())
    for (auto [dim, dimV] : {std::pair(16, 16),
                             {64, 64},
                             {72, 72},
                             {96, 96},
                             {128, 128},
                             {192, 128},
                             {64, 256},
                             {136, 136},
                             {192, 192},
                             {200, 200},
                             {256, 64},
                             {224, 224},
                             {256, 256}}) {
      std::optional<int64_t> blockN;
      std::optional<Product> product;
      for (const AttentionProblem &plain : makeProblems(dim, dimV))
        for (const AttentionProblem &problem : makeVariants(plain)) {
          ScheduleChoice choice = choose(problem, target, options);
          EXPECT_TRUE(choice.isInvariant());
          EXPECT_EQ(choice.rowMax, RowMax::Exact);
          EXPECT_EQ(choice.rowSum, RowSum::Add);
          EXPECT_EQ(choice.keyWarps, 1);
          EXPECT_EQ(choice.keySplits, 1);
          EXPECT_EQ(choice.softmax, Softmax::Online);
          EXPECT_NE(choice.product, Product::Warpgroup);
          if (!blockN)
            blockN = choice.blockN;
          if (!product)
            product = choice.product;
          EXPECT_EQ(choice.product, *product) << dim << " " << dimV;
          EXPECT_EQ(choice.blockN, *blockN) << dim << " " << dimV;
        }
    }
}

// Rows and warps of a block are not in the bits.
TEST(ScheduleOptions, InvariantBlocksFollowTheGrid) {
  ScheduleOptions options;
  options.invariance = Invariance::Batch;
  EXPECT_EQ(choose(makeLargeProblem(64, 4096), ada(), options).blockM, 128);
  ScheduleChoice decode = choose(makeDecode(1, 1, 8192), ada(), options);
  EXPECT_EQ(decode.blockM, 16);
  EXPECT_EQ(decode.headGroup, 4);
  // Open addresses leave wide heads no registers for 32 rows a warp.
  EXPECT_EQ(choose(makeProblem(112, 112), ada(), options).getWarpM(), 32);
  EXPECT_EQ(choose(makeProblem(128, 128), ada(), options).getWarpM(), 16);
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), ada(), options).getWarpM(), 32);
}

TEST(ScheduleOptions, InvariantTilesMayBeForced) {
  ScheduleOptions options;
  options.invariance = Invariance::Batch;
  options.blockN = 32;
  EXPECT_EQ(choose(makeLargeProblem(64, 4096), ada(), options).blockN, 32);
}

TEST(ScheduleOptions, SplitsOfKnownAndOpenKeys) {
  AttentionProblem problem = makeDecode(1, 1, 1000);
  ScheduleChoice choice;
  EXPECT_EQ(getNumSplits(problem, choice), 1);
  choice.keySplits = 3;
  EXPECT_EQ(getNumSplits(problem, choice), 3);
  choice.keySplits = 1;
  choice.splitKeys = 256;
  EXPECT_EQ(getNumSplits(problem, choice), 4);
  problem.seqlenK = std::nullopt;
  EXPECT_EQ(getNumSplits(problem, choice), std::nullopt);
}

// What is assumed of sizes says less than those of a call.
TEST(ScheduleOptions, CallsSayIntoHowManyPartsOpenKeysAreSplit) {
  AttentionProblem decode = makeDecode(1, 1, 1000);
  decode.batch = decode.seqlenK = std::nullopt;
  ScheduleChoice choice = choose(decode, ada());
  EXPECT_EQ(choice.splitCount, SplitCount::Call);
  EXPECT_EQ(choice.keySplits, 2 * ada().device.numSMs / 8); // of 8 kv heads
  EXPECT_EQ(getNumSplits(decode, choice), std::nullopt);

  decode.hasWindow = true;
  decode.windowKeys = 1024; // for one query
  EXPECT_EQ(choose(decode, ada()).keySplits, 4);
  decode.windowKeys = 511;
  EXPECT_EQ(choose(decode, ada()).keySplits, 1);
  EXPECT_EQ(choose(decode, ada()).splitCount, SplitCount::Fixed);

  EXPECT_EQ(choose(makeDecode(1, 1, 8192), ada()).splitCount,
            SplitCount::Fixed);
  ScheduleOptions options;
  options.keySplits = 3;
  decode.windowKeys = 1024;
  EXPECT_EQ(choose(decode, ada(), options).splitCount, SplitCount::Fixed);
  options.splitCount = SplitCount::Call;
  EXPECT_EQ(choose(decode, ada(), options).keySplits, 3);
}

TEST(ScheduleOptions, SplitFormulaFollowsTheKernel) {
  ScheduleChoice choice;
  choice.blockM = 16;
  choice.headGroup = 4;
  choice.keySplits = 256;
  SplitFormula formula = getSplitFormula(choice, ada());
  EXPECT_EQ(formula.most, 256);
  EXPECT_EQ(formula.blocks, 2 * ada().device.numSMs);
  EXPECT_EQ(formula.rows, 16);
  EXPECT_EQ(formula.heads, 4);
  EXPECT_EQ(formula.keys, kMinKeysOfSplit);
  choice.product = Product::Warpgroup;
  EXPECT_EQ(getSplitFormula(choice, ada()).blocks, ada().device.numSMs);
}

// Of few expected queries all heads of a group share a block, as of known ones.
TEST(ScheduleOptions, ExpectedQueriesStandForOpenOnes) {
  AttentionProblem problem = makeDecode(1, 1, 1000);
  problem.batch = problem.seqlenQ = problem.seqlenK = std::nullopt;
  EXPECT_EQ(choose(problem, ada()).blockM, 128);
  ScheduleOptions options;
  options.expectedQueries = 16;
  ScheduleChoice few = choose(problem, ada(), options);
  EXPECT_EQ(few.blockM, 16);
  EXPECT_EQ(few.headGroup, 4);
  EXPECT_EQ(few.splitCount, SplitCount::Call);
  EXPECT_EQ(few.expectedQueries, 16);
  options.expectedQueries = 4096;
  EXPECT_EQ(choose(problem, ada(), options).blockM, 128);
  // Known ones are not asked for.
  problem.seqlenQ = 4096;
  options.expectedQueries = 16;
  EXPECT_EQ(choose(problem, ada(), options).blockM, 128);
}
} // namespace
