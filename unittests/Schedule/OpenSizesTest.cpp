//===- OpenSizesTest.cpp - What sizes known at run time cost --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/OpenSizes.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
AttentionProblem makeProblem() {
  AttentionProblem problem;
  problem.batch = 1;
  problem.headsQ = 32;
  problem.headsKV = 8;
  problem.seqlenQ = 4096;
  problem.seqlenK = 8192;
  problem.headDim = problem.headDimV = 64;
  return problem;
}

std::vector<std::string> describe(const AttentionProblem &problem,
                                  const ScheduleOptions &options = {}) {
  auto choose = [&](const AttentionProblem &problem) {
    return chooseSchedule(problem, *lookupTarget("sm_89"), options);
  };
  auto now = std::get<ScheduleDecision>(choose(problem));
  return describeOpenSizes(problem, now.choice, choose);
}

TEST(OpenSizes, KnownSizesHaveNothingToSay) {
  EXPECT_TRUE(describe(makeProblem()).empty());
}

TEST(OpenSizes, AnOpenQueryLengthMayBeOne) {
  AttentionProblem problem = makeProblem();
  problem.seqlenQ = std::nullopt;
  std::vector<std::string> lines = describe(problem);
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0].find("with seqlen_q 1 known at compile time: block_m 16 "
                          "(not 128), "),
            0u)
      << lines[0];
  EXPECT_NE(lines[0].find(", head_group 4 (not 1)"), std::string::npos)
      << lines[0];
}

TEST(OpenSizes, ASizeThatChangesNothingIsNotNamed) {
  // One query: the batch alone decides how its keys are shared out.
  AttentionProblem problem = makeProblem();
  problem.seqlenQ = 1;
  problem.batch = std::nullopt;
  std::vector<std::string> lines = describe(problem);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "with batch 1 known at compile time: split_count fixed "
                      "(not call)");
}

TEST(OpenSizes, WhatIsAskedForDoesNotChange) {
  AttentionProblem problem = makeProblem();
  problem.seqlenQ = 1;
  problem.batch = std::nullopt;
  ScheduleOptions options;
  options.keySplits = 8;
  EXPECT_TRUE(describe(problem, options).empty());
}
} // namespace
