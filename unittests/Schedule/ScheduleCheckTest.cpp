//===- ScheduleCheckTest.cpp - Schedules that are refused -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ScheduleCheck.h"
#include "ScheduleProblems.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
TEST(ScheduleRefusal, TooManyWarps) {
  ScheduleOptions options;
  options.numWarps = 33;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-warps from 1 to 32, but got 33");
}

TEST(ScheduleRefusal, NegativeWarps) {
  ScheduleOptions options;
  options.numWarps = -4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-warps from 1 to 32, but got -4");
}

TEST(ScheduleRefusal, BlockMIsNoMultiple) {
  ScheduleOptions options;
  options.blockM = 96;
  options.numWarps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps = 64, "
            "but got 96");
}

TEST(ScheduleRefusal, NegativeBlockM) {
  ScheduleOptions options;
  options.blockM = -64;
  options.numWarps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps = 64, "
            "but got -64");
}

TEST(ScheduleRefusal, BlockNIsNoMultiple) {
  ScheduleOptions options;
  options.blockN = 72;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-n to be a positive multiple of 16, but got 72");
}

TEST(ScheduleRefusal, NegativeBlockN) {
  ScheduleOptions options;
  options.blockN = -16;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-n to be a positive multiple of 16, but got -16");
}

TEST(ScheduleRefusal, OneStage) {
  ScheduleOptions options;
  options.numStages = 1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-stages of at least 2, but got 1");
}

TEST(ScheduleRefusal, NegativeMinBlocks) {
  ScheduleOptions options;
  options.minBlocks = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects min-blocks not to be negative, but got -1");
}

TEST(ScheduleRefusal, HeadGroups) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleOptions options;
  options.headGroup = 2;
  EXPECT_EQ(refuse(problem, options),
            "expects heads_q and heads_kv to be known at compile time for "
            "head-group 2; make them static or use head-group 1");
  problem.headsQ = 6;
  problem.headsKV = 2;
  EXPECT_EQ(refuse(problem, options),
            "expects head-group to divide heads_q / heads_kv = 3, but got 2");
  options.headGroup = -3;
  EXPECT_EQ(refuse(problem, options),
            "expects head-group of at least 1, but got -3");
  options.headGroup = 3;
  options.numWarps = 4;
  EXPECT_EQ(refuse(problem, options),
            "expects num-warps to be a multiple of head-group = 3, but got 4");
  // Of few rows, too, for whose stages the rows of a warp are counted.
  AttentionProblem fewRows = problem;
  fewRows.seqlenQ = 18;
  options.numWarps = 2;
  EXPECT_EQ(refuse(fewRows, options),
            "expects num-warps to be a multiple of head-group = 3, but got 2");
  options.numWarps = 6;
  options.blockM = 48;
  EXPECT_EQ(refuse(problem, options),
            "expects block-m to be a positive multiple of 16 * num-warps / "
            "head-group = 32, but got 48");
}

TEST(ScheduleRefusal, KeySplits) {
  ScheduleOptions options;
  options.keySplits = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-splits from 1 to 256, but got -1");
  options.keySplits = 257;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-splits from 1 to 256, but got 257");
}

// What lets the bits of a row depend on other rows, or on how many keys they
// see.
TEST(ScheduleRefusal, Invariance) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  auto refuseWith = [&](auto ScheduleOptions::*field, auto value) {
    ScheduleOptions options;
    options.invariance = Invariance::Batch;
    options.*field = value;
    return refuse(problem, options);
  };
  for (auto [rowMax, word] : {std::pair(RowMax::Stale, "stale"),
                              {RowMax::Folded, "folded"},
                              {RowMax::Checked, "checked"}})
    EXPECT_EQ(refuseWith(&ScheduleOptions::rowMax, rowMax),
              std::string("expects row-max exact with invariance batch, since "
                          "any other follows what other rows need, but got ") +
                  word);
  EXPECT_EQ(refuseWith(&ScheduleOptions::rowSum, RowSum::Mma),
            "expects row-sum add with invariance batch, since sums are of one "
            "kind, but got mma");
  EXPECT_EQ(refuseWith(&ScheduleOptions::keyWarps, 2),
            "expects key-warps 1 with invariance batch, since warps would "
            "divide what their rows see, but got 2");
  EXPECT_EQ(refuseWith(&ScheduleOptions::keySplits, 2),
            "expects key-splits 1 with invariance batch, since blocks would "
            "divide what their rows see, but got 2");
  EXPECT_EQ(refuseWith(&ScheduleOptions::softmax, Softmax::OnePass),
            "expects softmax online with invariance batch, since one pass is "
            "for known numbers of keys, but got one_pass");
}

TEST(ScheduleRefusal, SplitKeys) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  ScheduleOptions options;
  options.splitKeys = 128;
  EXPECT_EQ(refuse(problem, options),
            "expects invariance batch with split-keys 128, but got none; use "
            "key-splits");
  options.invariance = Invariance::Batch;
  EXPECT_EQ(refuse(problem, options), "accepted");
  for (int64_t keys : {-64, 96, (1 << 20) + 64}) {
    options.splitKeys = keys;
    EXPECT_EQ(refuse(problem, options),
              "expects split-keys to be 0 or a multiple of block-n = 64 up to "
              "1048576, but got " +
                  std::to_string(keys));
  }
  options.splitKeys = 128;
  options.gridOrder = GridOrder::HeadFastest;
  options.gridHeads = 4;
  EXPECT_EQ(refuse(problem, options),
            "expects grid full and grid-heads 0 with split-keys 128, but got "
            "full and 4");
  options.gridHeads = 0;
  problem.hasLengths = problem.isVarlen = true;
  EXPECT_EQ(refuse(problem, options),
            "expects split-keys 0 with cu_seqlens and without page_table, but "
            "got 128");
  problem.isPaged = true;
  problem.pageSize = 16;
  EXPECT_EQ(refuse(problem, options), "accepted");
}

// 2 * (64 * 128 + 4 * 64 * (128 + 128)) bytes.
TEST(ScheduleRefusal, TooMuchSharedMemory) {
  ScheduleOptions options;
  options.blockM = 64;
  options.blockN = 64;
  options.numWarps = 4;
  options.numStages = 4;
  EXPECT_EQ(refuse(makeProblem(128, 128), options),
            "needs 147456 bytes of shared memory (block-m 64, block-n 64, "
            "num-stages 4, head_dim 128), but sm_89 allows 101376; use fewer "
            "stages or smaller blocks");
}

// 128 rows a warp: (128 * (64 + 16) + 128 * 64 / 2) / 32 lanes.
TEST(ScheduleRefusal, TooManyRegisters) {
  ScheduleOptions options;
  options.blockM = 128;
  options.blockN = 16;
  options.numWarps = 1;
  options.query = QueryPlacement::Registers;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "needs 448 registers a thread for its fragments alone (block-m "
            "128, num-warps 1, block-n 16), but a thread has 255; use more "
            "warps or a smaller block-n");
}

// The bytes of these do not fit 64 bits; no limit may be passed by wrapping.
TEST(ScheduleRefusal, BlocksBeyondAnySize) {
  ScheduleOptions options;
  options.blockN = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.blockM = int64_t(1) << 62;
  options.numWarps = 4;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.numStages = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.headGroup = int64_t(1) << 62;
  EXPECT_NE(refuse(makeDecode(1, 1, 8192), options), "accepted");
  options = {};
  options.blockM = options.blockN = int64_t(1) << 62;
  EXPECT_NE(refuse(makeDecode(1, 1, 8192), options), "accepted");
}

TEST(ScheduleRefusal, KeyWarpsThatCannotShare) {
  ScheduleOptions options;
  options.keyWarps = 4;
  options.numWarps = 6;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-warps to divide num-warps = 6, but got 4");
  options = {};
  options.keyWarps = 2;
  options.numWarps = 4;
  options.blockM = 48;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps / "
            "key-warps = 32, but got 48");
  options = {};
  options.keyWarps = 4;
  options.blockM = 16;
  EXPECT_EQ(refuse(makeProblem(40, 40), options),
            "expects key-warps to divide the 16 x 40 results of a warp into "
            "shares of whole 8x8 cores, but got 4; use fewer key-warps or a "
            "larger block-m");
  options = {};
  options.keyWarps = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options.keyWarps = -1;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
}

TEST(ScheduleRefusal, OnePassThatCannotWork) {
  ScheduleOptions options;
  options.softmax = Softmax::OnePass;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects a seqlen_k known at compile time for softmax one_pass; "
            "use softmax online");
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  options.rowMax = RowMax::Stale;
  EXPECT_EQ(refuse(problem, options),
            "expects row-max exact with softmax one_pass, which has no earlier "
            "maximum, but got stale");
  options.rowMax = RowMax::Exact;
  options.overlap = Overlap::QK;
  EXPECT_EQ(refuse(problem, options),
            "expects overlap none with softmax one_pass, which has no loop, "
            "but got qk");
  options.overlap = Overlap::None;
  problem.headsKV = std::nullopt; // else few rows over many keys
  problem.seqlenK = 1 << 20;
  EXPECT_EQ(refuse(problem, options),
            "expects at most 4096 keys a warp with softmax one_pass, but got "
            "262144; use softmax online or more key-warps");
  // S of 16 rows and 1024 keys: 512 registers, and Q.
  problem.seqlenK = 4096;
  options.blockM = 16;
  options.numWarps = options.keyWarps = 4;
  EXPECT_EQ(refuse(problem, options),
            "needs 528 registers a thread for its fragments alone (block-m 16, "
            "num-warps 4, block-n 32, softmax one_pass), but a thread has 255; "
            "use more warps or softmax online");
}

TEST(ScheduleRefusal, ASplitQueryThatCannotWork) {
  ScheduleOptions options;
  options.querySteps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps 0 unless query is split, but got 4 with query "
            "registers");
  options.query = QueryPlacement::Split;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps from 1 to 3 with query split and head_dim 64, "
            "but got 4");
  options.querySteps = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps from 1 to 1024 with query split, but got -1");
  options.querySteps = 1;
  EXPECT_EQ(refuse(makeProblem(16, 16), options),
            "expects query registers or shared with head_dim 16, which is a "
            "single step of 16 columns, but got split");
}

TEST(ScheduleRefusal, HeadsThatCannotTakeTurns) {
  ScheduleOptions options;
  options.gridHeads = 8;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects grid-order head_fastest and key-splits 1 with grid-heads "
            "8, but got query_fastest and 1");
  options.gridHeads = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects grid-heads from 0 to 1048576, but got -1");
}

TEST(ScheduleRefusal, AFoldedMaximumThatCannotWork) {
  ScheduleOptions options;
  options.rowMax = RowMax::Folded;
  AttentionProblem softcap = makeProblem(64, 64), bias = softcap;
  softcap.hasSpecials = bias.hasBias = bias.hasLongScores = true;
  EXPECT_EQ(refuse(softcap, options),
            "expects row-max exact or stale with a softcap, which changes the "
            "scores, but got folded");
  EXPECT_EQ(refuse(bias, options),
            "expects row-max exact or stale with a bias, which changes the "
            "scores, but got folded");
  options.rowSum = RowSum::Add;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects row-sum mma with row-max folded, but got add");
  options.rowSum = RowSum::Mma;
  options.overlap = Overlap::QK;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects overlap none with row-max folded, which needs the maximum "
            "of all earlier tiles before a product, but got qk");
}

TEST(ScheduleRefusal, SumsOfAProductForAnLse) {
  ScheduleOptions options;
  options.rowSum = RowSum::Mma;
  AttentionProblem problem = makeProblem(64, 64);
  EXPECT_EQ(refuse(problem, options), "accepted");
  problem.hasLse = true;
  const char *error =
      "expects row-sum add with lse, which is the logarithm of a "
      "sum of weights that are not rounded, but got mma";
  EXPECT_EQ(refuse(problem, options), error);
  options.product = Product::Warpgroup;
  ScheduleResult result =
      chooseSchedule(problem, *lookupTarget("sm_90a"), options);
  EXPECT_EQ(std::get<std::string>(result), error);
  // A folded maximum, which such sums cancel the rounding of, goes with them.
  options = {};
  options.rowMax = RowMax::Folded;
  EXPECT_EQ(refuse(problem, options),
            "expects row-sum mma with row-max folded, but got add");
}

TEST(ScheduleRefusal, SumsOfAProductBehindADropout) {
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  options.rowSum = RowSum::Mma;
  AttentionProblem problem = makeProblem(128, 128);
  problem.hasDropout = problem.hasLongScores = true;
  auto refuseOn = [&](const char *chip) {
    ScheduleResult result =
        chooseSchedule(problem, *lookupTarget(chip), options);
    auto *error = std::get_if<std::string>(&result);
    return error ? *error : "accepted";
  };
  EXPECT_EQ(refuseOn("sm_90a"),
            "expects row-sum add with product warpgroup and a dropout, which "
            "the sums of rows do not see, but got mma");
  options.rowSum = RowSum::Add;
  EXPECT_EQ(refuseOn("sm_90a"), "accepted");
  // A product of warps has one of its own for the sums.
  options.product = Product::Warp;
  options.rowSum = RowSum::Mma;
  EXPECT_EQ(refuseOn("sm_90a"), "accepted");
}

TEST(ScheduleRefusal, ListsOfBlocksThatTilesDoNotFit) {
  AttentionProblem problem = makeProblem(64, 64);
  problem.headsQ = 4;
  problem.headsKV = 2;
  problem.blocks = {128, 64, /*ofHeads=*/true};
  auto refuseWith = [&](auto set) {
    ScheduleOptions options;
    set(options);
    return refuse(problem, options);
  };
  EXPECT_EQ(refuseWith([](ScheduleOptions &) {}), "accepted");
  EXPECT_EQ(refuseWith([](ScheduleOptions &options) {
              options.blockM = 96;
              options.numWarps = 3;
            }),
            "expects block-m to divide the 128 queries of a block of the lists "
            "(block_size), but got 96");
  EXPECT_EQ(refuseWith([](ScheduleOptions &options) { options.blockN = 48; }),
            "expects block-n to divide the 64 keys of a block of the lists "
            "(block_size), but got 48");
  EXPECT_EQ(refuseWith([](ScheduleOptions &options) { options.headGroup = 2; }),
            "expects head-group 1 with block lists of each head, since the "
            "heads of a block walk the same keys, but got 2");
  EXPECT_EQ(refuseWith([](ScheduleOptions &options) { options.keySplits = 3; }),
            "expects key-splits 1 with block lists, which are walked by one "
            "block, but got 3");
  problem.blocks->ofHeads = false;
  EXPECT_EQ(refuseWith([](ScheduleOptions &options) { options.headGroup = 2; }),
            "accepted");
}

// Errors call a field as where it stands does.
TEST(ScheduleRefusal, NamesFieldsOfTheAttribute) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleChoice choice = choose(problem, ada());
  auto check = [&](const ScheduleChoice &choice) {
    return checkSchedule(problem, ada(), choice, FieldNames::Attribute)
        .value_or("accepted");
  };
  EXPECT_EQ(check(choice), "accepted");
  ScheduleChoice uneven = choice, large = choice, steps = choice;
  uneven.blockM = 24;
  EXPECT_EQ(check(uneven), "expects block_m to be a positive multiple of 16 * "
                           "num_warps = 64, but got 24");
  large.numStages = 64;
  EXPECT_NE(check(large).find("num_stages 64, head_dim 64"), std::string::npos);
  steps.query = QueryPlacement::Split;
  steps.querySteps = 4;
  EXPECT_EQ(check(steps), "expects query_steps from 1 to 3 with query split "
                          "and head_dim 64, but got 4");
}

// A tile knows its rows and keys, but not the heads of its block.
TEST(ScheduleRefusal, OfATile) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleChoice choice = choose(problem, ada());
  choice.headGroup = 2;
  choice.numStages = 64;
  EXPECT_FALSE(checkTileSchedule(problem, choice, FieldNames::Attribute));
  choice.softmax = Softmax::OnePass;
  EXPECT_EQ(checkTileSchedule(problem, choice, FieldNames::Attribute),
            "expects a seqlen_k known at compile time for softmax one_pass; "
            "use softmax online");
}

TEST(PersistentGrid, IsNoDefault) {
  EXPECT_EQ(choose(makeProblem(64, 64), ada()).grid, Grid::Full);
  ScheduleOptions options;
  options.grid = Grid::Persistent;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).grid, Grid::Persistent);
}

// Of shared memory, then of warps.
TEST(PersistentGrid, HasBlocksThatRunAtOnce) {
  ScheduleOptions options;
  options.grid = Grid::Persistent;
  options.blockM = 64;
  options.blockN = 64;
  options.numWarps = 4;
  options.numStages = 2;
  options.minBlocks = 2;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).getBlocksPerSM(), 2);
  options.minBlocks = 3;
  EXPECT_NE(refuse(makeProblem(64, 64), options)
                .find("expects min-blocks of at most 2 with grid persistent"),
            std::string::npos);
  options.grid = Grid::Full;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).minBlocks, 3);
  options.grid = Grid::Persistent;
  options.blockM = 256;
  options.blockN = 16;
  options.numWarps = 16;
  options.minBlocks = 4;
  EXPECT_NE(refuse(makeProblem(16, 16), options)
                .find("each needs 10240 bytes of shared memory of the 102400 "
                      "and 16 warps of the 48"),
            std::string::npos);
  options.minBlocks = 0;
  EXPECT_EQ(choose(makeProblem(16, 16), ada(), options).getBlocksPerSM(), 1);
}
} // namespace
