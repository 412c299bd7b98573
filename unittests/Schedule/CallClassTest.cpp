//===- CallClassTest.cpp - Kernels by the sizes of a call -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/CallClass.h"
#include "ScheduleProblems.h"
#include "flashcore/Schedule/OpenSizes.h"

#include <limits>

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
const TargetInfo &hopper() { return *lookupTarget("sm_90a"); }

/// Of one head of so many queries, in blocks of 64.
ExpectedGrid classOf(int64_t blocks, int64_t keys, int64_t numSMs) {
  return getCallClass(hopper(), 1, 64 * blocks, keys, numSMs);
}

TEST(CallClasses, BlocksOfAnSMAreTheBorders) {
  for (int64_t keys : {1, 1024, 65536}) {
    EXPECT_EQ(classOf(0, keys, 132), ExpectedGrid::Quarter);
    EXPECT_EQ(classOf(33, keys, 132), ExpectedGrid::Quarter);
    EXPECT_EQ(classOf(34, keys, 132), ExpectedGrid::Half);
    EXPECT_EQ(classOf(66, keys, 132), ExpectedGrid::Half);
    EXPECT_EQ(classOf(67, keys, 132), ExpectedGrid::One);
    EXPECT_EQ(classOf(132, keys, 132), ExpectedGrid::One);
    EXPECT_EQ(classOf(133, keys, 132), ExpectedGrid::Two);
    EXPECT_EQ(classOf(264, keys, 132), ExpectedGrid::Two);
    EXPECT_EQ(classOf(265, keys, 132), ExpectedGrid::Three);
    EXPECT_EQ(classOf(396, keys, 132), ExpectedGrid::Three);
    EXPECT_EQ(classOf(33, keys, 16), ExpectedGrid::Three);
  }
}

TEST(CallClasses, KeysDecideOfLargeGrids) {
  EXPECT_EQ(classOf(397, 1024, 132), ExpectedGrid::Short);
  EXPECT_EQ(classOf(397, 1025, 132), ExpectedGrid::Any);
}

TEST(CallClasses, RowsOfABlockAreOfOneSequence) {
  // 33 rows are a block as 64 are, of which 65 are two.
  EXPECT_EQ(getCallClass(hopper(), 66, 33, 1000, 132), ExpectedGrid::Half);
  EXPECT_EQ(getCallClass(hopper(), 66, 64, 1000, 132), ExpectedGrid::Half);
  EXPECT_EQ(getCallClass(hopper(), 66, 65, 1000, 132), ExpectedGrid::One);
}

TEST(CallClasses, AnyNumbersHaveOne) {
  int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(getCallClass(hopper(), most, most, most, most), ExpectedGrid::Any);
  EXPECT_EQ(getCallClass(hopper(), most, 1, 1, 1), ExpectedGrid::Short);
  EXPECT_EQ(getCallClass(hopper(), 0, most, 1, 0), ExpectedGrid::Quarter);
}

TEST(CallClasses, ChipsOfOneKindOfKernelHaveOne) {
  EXPECT_EQ(getCallClass(*lookupTarget("sm_75"), 1, 64, 64, 40),
            ExpectedGrid::Any);
  EXPECT_EQ(getCallClasses(*lookupTarget("sm_70")).size(), 1u);
  for (const TargetInfo &target : getTargets()) {
    llvm::ArrayRef<CallClass> classes = getCallClasses(target);
    EXPECT_LE(classes.size(), 8u) << target.chip.str();
    EXPECT_EQ(classes.back().grid, ExpectedGrid::Any) << target.chip.str();
  }
}

TEST(CallClasses, SayTheirConditions) {
  llvm::ArrayRef<CallClass> classes = getCallClasses(hopper());
  EXPECT_EQ(classes.front().describe(),
            "at most 0.25 blocks of 64 query rows an SM");
  EXPECT_EQ(classes.drop_back().back().describe(),
            "more blocks, over at most 1024 keys");
}

// What is assumed is of the class, and what is known stays.
TEST(CallClasses, AssumedSizesAreOfTheClass) {
  for (const CallClass &calls : getCallClasses(hopper()).drop_back())
    for (int known = 0; known < 4; ++known) {
      AttentionProblem problem = makeProblem(64, 64);
      problem.batch = problem.headsQ = problem.headsKV = problem.seqlenQ =
          problem.seqlenK = std::nullopt;
      if (known & 1)
        problem.headsQ = 4;
      if (known & 2)
        problem.seqlenQ = 100;
      AttentionProblem assumed = assumeSizesOf(problem, calls.grid, 132);
      EXPECT_TRUE(assumed.hasAssumedSizes);
      EXPECT_EQ(assumed.headsQ, known & 1 ? 4 : *assumed.headsQ);
      EXPECT_EQ(assumed.seqlenQ, known & 2 ? 100 : *assumed.seqlenQ);
      if (known != 3)
        EXPECT_EQ(getCallClass(hopper(), *assumed.batch * *assumed.headsQ,
                               *assumed.seqlenQ, *assumed.seqlenK, 132),
                  calls.grid)
            << calls.describe() << ", known " << known;
    }
  AttentionProblem known = makeSmallProblem(8, 512, 64);
  EXPECT_FALSE(assumeSizesOf(known, ExpectedGrid::Half, 132).hasAssumedSizes);
}

// 264 blocks run at once: 8 query tiles make as many of 33 parts, which the
// call says, 64 of 4, and 160 five waves of 8.
TEST(CallSplits, FollowTheWavesOfACall) {
  for (auto [batch, keys, splits] : {std::tuple(1, 300, 1),
                                     {1, 65536, 0},
                                     {8, 8192, 4},
                                     {12, 8192, 8},
                                     {16, 8192, 2},
                                     {17, 8192, 5},
                                     {20, 8192, 8},
                                     {24, 8192, 4},
                                     {32, 8192, 1},
                                     {40, 8192, 4},
                                     {48, 8192, 2},
                                     {64, 2048, 1}})
    EXPECT_EQ(getCallSplits(hopper(), makeDecode(batch, 1, keys), 132), splits)
        << batch << " x " << keys;
}

// Kernels of other products have one for calls that fill the chip.
TEST(CallSplits, AreOneOrTheCallsOfOtherChips) {
  const TargetInfo &turing = *lookupTarget("sm_75");
  for (auto [batch, splits] : {std::pair(1, 0), {8, 0}, {20, 1}, {64, 1}})
    EXPECT_EQ(getCallSplits(turing, makeDecode(batch, 1, 8192), 132), splits)
        << batch;
}

TEST(CallSplits, AreOneOfWhatIsNoCall) {
  AttentionProblem call = makeDecode(20, 1, 8192);
  call.headsKV = 0;
  EXPECT_EQ(getCallSplits(hopper(), call, 132), 1);
  call.headsKV = 5; // does not divide 32
  EXPECT_EQ(getCallSplits(hopper(), call, 132), 1);
  call = makeDecode(std::numeric_limits<int64_t>::max(), 1, 8192);
  EXPECT_EQ(getCallSplits(hopper(), call, 132), 1);
  EXPECT_EQ(getCallSplits(hopper(), makeDecode(20, 1, 8192), 0), 1);
}

/// A plain attention whose sizes are known at run time only.
AttentionProblem makeOpen(int64_t headDim) {
  AttentionProblem problem = makeProblem(headDim, headDim);
  problem.hasOpenStrides = true;
  return problem;
}

ScheduleChoice chooseFor(const AttentionProblem &problem, ExpectedGrid grid,
                         llvm::StringRef chip = "sm_90a") {
  ScheduleOptions options;
  options.expectedGrid = grid;
  ScheduleChoice choice = choose(problem, *lookupTarget(chip), options);
  EXPECT_EQ(choice.expectedGrid, grid);
  return choice;
}

TEST(ScheduleOfCallClasses, WarpgroupsAreForTheBlocksOfAnSM) {
  ScheduleChoice quarter = chooseFor(makeOpen(64), ExpectedGrid::Quarter);
  EXPECT_EQ(quarter.keyWarps, 4);
  EXPECT_EQ(quarter.softmax, Softmax::Online);
  EXPECT_EQ(chooseFor(makeOpen(64), ExpectedGrid::Half).keyWarps, 4);
  for (auto [headDim, grid, warps, keys, overlap, blocks] :
       {std::tuple(64, ExpectedGrid::One, 4, 128, Overlap::PV, 1),
        {128, ExpectedGrid::Quarter, 4, 128, Overlap::PV, 1},
        {128, ExpectedGrid::One, 4, 128, Overlap::PV, 1},
        {256, ExpectedGrid::One, 4, 64, Overlap::PV, 1},
        {64, ExpectedGrid::Two, 4, 64, Overlap::None, 2},
        {64, ExpectedGrid::Three, 4, 64, Overlap::None, 3},
        {128, ExpectedGrid::Two, 4, 64, Overlap::None, 2},
        {128, ExpectedGrid::Three, 4, 64, Overlap::None, 2},
        {256, ExpectedGrid::Two, 8, 64, Overlap::PV, 1},
        {64, ExpectedGrid::Short, 8, 64, Overlap::None, 2}}) {
    ScheduleChoice choice = chooseFor(makeOpen(headDim), grid);
    std::string name =
        std::to_string(headDim) + " " + stringifyExpectedGrid(grid).str();
    EXPECT_EQ(choice.product, Product::Warpgroup) << name;
    EXPECT_EQ(choice.numWarps, warps) << name;
    EXPECT_EQ(choice.blockN, keys) << name;
    EXPECT_EQ(choice.overlap, overlap) << name;
    EXPECT_EQ(choice.minBlocks, blocks) << name;
    EXPECT_EQ(choice.keySplits, 1) << name;
  }
  EXPECT_EQ(chooseFor(makeOpen(128), ExpectedGrid::Short).grid,
            Grid::Persistent);
}

TEST(ScheduleOfCallClasses, LongScoresKeepTheLargeBlocksOfLargeCalls) {
  AttentionProblem problem = makeOpen(64);
  problem.hasLongScores = problem.hasDropout = true;
  ScheduleChoice large = chooseFor(problem, ExpectedGrid::Any);
  for (ExpectedGrid grid : {ExpectedGrid::Two, ExpectedGrid::Three}) {
    ScheduleChoice choice = chooseFor(problem, grid);
    EXPECT_EQ(choice.blockM, large.blockM);
    EXPECT_EQ(choice.blockN, large.blockN);
    EXPECT_EQ(choice.overlap, large.overlap);
  }
}

TEST(ScheduleOfCallClasses, OtherChipsHaveSmallerBlocks) {
  AttentionProblem problem = makeOpen(64);
  EXPECT_EQ(chooseFor(problem, ExpectedGrid::Any, "sm_89").blockM, 128);
  EXPECT_EQ(chooseFor(problem, ExpectedGrid::Quarter, "sm_89").keyWarps, 4);
  EXPECT_LT(chooseFor(problem, ExpectedGrid::One, "sm_89").blockM, 128);
}

TEST(ScheduleOfCallClasses, KnownSizesAreNotAskedFor) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  ScheduleChoice known = choose(problem, hopper());
  ScheduleChoice other = chooseFor(problem, ExpectedGrid::Short);
  EXPECT_EQ(describeChange(known, other), "expected_grid short (not any)");
}
} // namespace
