//===- ResourceModelTest.cpp - Occupancy and predicted limiters -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ResourceModel.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
const TargetInfo &chip(llvm::StringRef name) { return *lookupTarget(name); }

AttentionProblem makeProblem(int64_t headDim, int64_t headDimV) {
  AttentionProblem problem;
  problem.headDim = headDim;
  problem.headDimV = headDimV;
  return problem;
}

AttentionProblem makeProblem(int64_t headDim) {
  return makeProblem(headDim, headDim);
}

ScheduleChoice makeChoice(int64_t blockM, int64_t blockN, int64_t numWarps) {
  ScheduleChoice choice;
  choice.blockM = blockM;
  choice.blockN = blockN;
  choice.numWarps = numWarps;
  choice.numStages = 2;
  return choice;
}

TEST(SharedMemoryBytes, CountsTheQueryTileAndBothRings) {
  EXPECT_EQ(getSharedMemoryBytes(makeProblem(/*headDim=*/64, /*headDimV=*/128),
                                 {/*blockM=*/32, /*blockN=*/16, /*numWarps=*/2,
                                  /*numStages=*/3}),
            2 * (32 * 64 + 3 * 16 * 64 + 3 * 16 * 128));
}

TEST(SharedMemoryBytes, KeyWarpsHaveTheirOwn) {
  ScheduleChoice choice{/*blockM=*/32, /*blockN=*/32, /*numWarps=*/4,
                        /*numStages=*/2};
  choice.keyWarps = 4;
  EXPECT_EQ(getSharedMemoryBytes(makeProblem(64), choice),
            4 * 2 * (32 * 64 + 2 * 32 * 64 + 2 * 32 * 64));
}

TEST(SharedMemoryBytes, PartialResultsMayBeTheLargerUse) {
  ScheduleChoice choice{/*blockM=*/64, /*blockN=*/16, /*numWarps=*/4,
                        /*numStages=*/2};
  choice.keyWarps = 2;
  EXPECT_EQ(getSharedMemoryBytes(makeProblem(/*headDim=*/16, /*headDimV=*/64),
                                 choice),
            4 * 4 * (32 * 64 + 32 + 32));
}

TEST(SharedMemoryBytes, WarpgroupsHaveBarriers) {
  ScheduleChoice choice{/*blockM=*/128, /*blockN=*/128, /*numWarps=*/8,
                        /*numStages=*/2};
  choice.query = QueryPlacement::Shared;
  choice.product = Product::Warpgroup;
  // Of two slots of Q, of K and of V.
  EXPECT_EQ(getSharedMemoryBytes(makeProblem(64), choice),
            2 * 64 * (128 + 2 * 128 + 2 * 128) + 3 * 2 * 2 * 8);
}

// The figures of NVIDIA's occupancy calculator for these kernels.
TEST(Occupancy, NamesWhatLimitsIt) {
  Occupancy byRegisters = getOccupancy(chip("sm_89"), 4, 128, 16 << 10);
  EXPECT_EQ(byRegisters.blocks, 4);
  EXPECT_EQ(byRegisters.limit, "registers");
  Occupancy byShared = getOccupancy(chip("sm_89"), 4, 64, 48 << 10);
  EXPECT_EQ(byShared.blocks, 2);
  EXPECT_EQ(byShared.limit, "shared memory");
  Occupancy byThreads = getOccupancy(chip("sm_89"), 16, 24, 0);
  EXPECT_EQ(byThreads.blocks, 3);
  EXPECT_EQ(byThreads.limit, "threads");
  Occupancy byBlocks = getOccupancy(chip("sm_86"), 1, 32, 0);
  EXPECT_EQ(byBlocks.blocks, 16);
  EXPECT_EQ(byBlocks.limit, "blocks");
}

TEST(Occupancy, RoundsRegistersUpToTheUnitOfAWarp) {
  // 168 registers a thread are 21 units of 256 for a warp, 169 are 22.
  EXPECT_EQ(getOccupancy(chip("sm_90"), 4, 168, 0).blocks, 3);
  EXPECT_EQ(getOccupancy(chip("sm_90"), 4, 169, 0).blocks, 2);
}

TEST(Occupancy, IsZeroWhenABlockDoesNotFit) {
  EXPECT_EQ(getOccupancy(chip("sm_89"), 32, 255, 0).blocks, 0);
  EXPECT_EQ(getOccupancy(chip("sm_89"), 4, 32, 100 << 10).blocks, 0);
}

// One tile of 64 keys for 128 rows of head_dim 64: 2 * 2 * 128 * 64 * 64 FLOP
// at 512 a cycle, and 128 * 64 exponentials at 16 a cycle.
TEST(TileCost, CountsTheWorkOfOneTile) {
  TileCost cost =
      getTileCost(makeProblem(64), chip("sm_89"), makeChoice(128, 64, 4));
  EXPECT_DOUBLE_EQ(cost.tensor, 4096);
  EXPECT_DOUBLE_EQ(cost.special, 512);
  // K and V of 64 x 64 halves, written once and read by four warps.
  EXPECT_DOUBLE_EQ(cost.shared, 2.0 * 2 * 64 * 64 * 5 / 128);
}

TEST(TileCost, SoftcapDoublesTheExponentials) {
  AttentionProblem problem = makeProblem(64);
  ScheduleChoice choice = makeChoice(128, 64, 4);
  TileCost plain = getTileCost(problem, chip("sm_89"), choice);
  problem.hasSpecials = true;
  TileCost capped = getTileCost(problem, chip("sm_89"), choice);
  EXPECT_DOUBLE_EQ(capped.special, 2 * plain.special);
  EXPECT_DOUBLE_EQ(capped.tensor, plain.tensor);
}

TEST(TileCost, QueryInSharedMemoryIsReadForEveryTile) {
  AttentionProblem problem = makeProblem(128);
  ScheduleChoice choice = makeChoice(128, 32, 4);
  TileCost inRegisters = getTileCost(problem, chip("sm_89"), choice);
  choice.query = QueryPlacement::Shared;
  TileCost inShared = getTileCost(problem, chip("sm_89"), choice);
  EXPECT_DOUBLE_EQ(inShared.shared - inRegisters.shared, 2.0 * 128 * 128 / 128);
  choice.query = QueryPlacement::Split;
  choice.querySteps = 6;
  TileCost split = getTileCost(problem, chip("sm_89"), choice);
  EXPECT_DOUBLE_EQ(split.shared - inRegisters.shared, 2.0 * 128 * 32 / 128);
}

TEST(PredictedLimiter, NamesTheBusiestUnit) {
  ScheduleChoice choice = makeChoice(128, 64, 4);
  EXPECT_EQ(predictLimiter(makeProblem(64), chip("sm_89"), choice),
            "tensor cores: 4096 cycles of an SM a key tile, then shared "
            "memory: 640");
  // A warp of 16 rows uses each fragment once.
  EXPECT_EQ(
      predictLimiter(makeProblem(64), chip("sm_90"), makeChoice(128, 64, 8)),
      "shared memory: 1152 cycles of an SM a key tile, then tensor "
      "cores: 768");
}

// Heads of a group are more query rows for the same keys.
TEST(TileCost, CountsTheRowsOfAllHeads) {
  AttentionProblem problem = makeProblem(64);
  ScheduleChoice grouped = makeChoice(32, 64, 4);
  grouped.headGroup = 4;
  TileCost cost = getTileCost(problem, chip("sm_89"), grouped);
  TileCost one = getTileCost(problem, chip("sm_89"), makeChoice(128, 64, 4));
  EXPECT_EQ(cost.tensor, one.tensor);
  EXPECT_EQ(cost.shared, one.shared);
}

TEST(PredictedLimiter, CountsTheBlocksOfAllSplits) {
  AttentionProblem problem = makeProblem(64);
  problem.batch = problem.headsQ = 1;
  problem.seqlenQ = 16;
  ScheduleChoice choice = makeChoice(16, 64, 1);
  choice.keySplits = 100;
  EXPECT_EQ(predictLimiter(problem, chip("sm_89"), choice),
            "latency: 100 blocks for 128 SMs");
  choice.keySplits = 128;
  EXPECT_NE(predictLimiter(problem, chip("sm_89"), choice).substr(0, 7),
            "latency");
}

TEST(PredictedLimiter, SaysWhenTheGridIsTooSmall) {
  AttentionProblem problem = makeProblem(64);
  problem.batch = 1;
  problem.headsQ = 8;
  problem.seqlenQ = problem.seqlenK = 512;
  EXPECT_EQ(predictLimiter(problem, chip("sm_89"), makeChoice(128, 64, 4)),
            "latency: 32 blocks for 128 SMs");
}
} // namespace
