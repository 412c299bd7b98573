//===- ScoresChoiceTest.cpp - The schedule of the kernel of scores --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Target/TargetInfo.h"

#include <gtest/gtest.h>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

static AttentionProblem makeProblem(std::optional<int64_t> seqlenQ,
                                    int64_t headDim) {
  AttentionProblem problem;
  problem.batch = 2;
  problem.headsQ = problem.headsKV = 8;
  problem.seqlenQ = seqlenQ;
  problem.seqlenK = 4096;
  problem.headDim = problem.headDimV = headDim;
  return problem;
}

TEST(ScoresChoice, HasNoMoreRowsThanQueries) {
  for (auto [seqlenQ, rows] :
       {std::pair<std::optional<int64_t>, int64_t>(1, 16),
        {16, 16},
        {17, 32},
        {64, 64},
        {4096, 64},
        {std::nullopt, 64}}) {
    ScheduleChoice choice = chooseScoresSchedule(makeProblem(seqlenQ, 64), {});
    EXPECT_EQ(choice.blockM, rows);
    EXPECT_EQ(choice.getWarpM(), 16);
    EXPECT_EQ(checkFields(choice, FieldNames::Attribute), std::nullopt);
  }
}

TEST(ScoresChoice, FitsEveryChipWithEveryHeadDim) {
  for (auto [product, exchange] : {std::pair(Product::Warp, Exchange::None),
                                   {Product::Thread, Exchange::Padded},
                                   {Product::Wmma, Exchange::Padded},
                                   {Product::Wmma, Exchange::Wide}}) {
    ScheduleChoice attention;
    attention.product = product;
    attention.exchange = exchange;
    for (const TargetInfo &target : getTargets())
      for (int64_t headDim = 1; headDim <= 256; ++headDim) {
        AttentionProblem problem = makeProblem(std::nullopt, headDim);
        ScheduleChoice choice = chooseScoresSchedule(problem, attention);
        EXPECT_LE(getScoresSharedMemoryBytes(problem, choice),
                  target.sharedMemoryPerBlock)
            << target.chip.str() << ", head_dim " << headDim;
      }
  }
}

TEST(ScoresChoice, IsInvariantAsTheAttentionIs) {
  ScheduleChoice attention;
  attention.invariance = Invariance::Batch;
  ScheduleChoice choice = chooseScoresSchedule(makeProblem(1, 64), attention);
  EXPECT_TRUE(choice.isInvariant());
  EXPECT_EQ(checkFields(choice, FieldNames::Attribute), std::nullopt);
}

TEST(ScoresChoice, RefusesMoreTilesThanAGridHas) {
  AttentionProblem problem = makeProblem(1 << 20, 64);
  auto check = [&] {
    return checkScoresGrid(problem, chooseScoresSchedule(problem, {}));
  };
  // 2^14 x 2^10 x 2^4 blocks, then 2^13 as many.
  problem.seqlenK = 1 << 16;
  EXPECT_EQ(check(), std::nullopt);
  problem.seqlenK = int64_t(1) << 29;
  EXPECT_EQ(check(),
            "needs 2199023255552 blocks for its scores (batch 2, heads_q 8, "
            "seqlen_q 1048576, seqlen_k 536870912, tiles of 64 x 64), but CUDA "
            "launches at most 2147483647; compute it in several parts");
  problem.seqlenK = std::nullopt;
  EXPECT_EQ(check(), std::nullopt);
}
