//===- ProgramChoiceTest.cpp - Which kernels an attention is --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ProgramChoice.h"

#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
using Kind = ProgramKernel::Kind;
using Role = WorkspaceRole;

std::vector<Kind> getKinds(const ProgramNeeds &needs) {
  std::vector<Kind> kinds;
  for (const ProgramKernel &kernel : listKernels(needs))
    kinds.push_back(kernel.kind);
  return kinds;
}

std::vector<Role> getWorkspace(const ProgramNeeds &needs) {
  llvm::SmallVector<Role> roles = listWorkspace(listKernels(needs));
  return {roles.begin(), roles.end()};
}

TEST(ProgramChoiceTest, OneKernelNeedsNoWorkspace) {
  EXPECT_EQ(listKernels({}), std::vector<ProgramKernel>{{Kind::Attention}});
  EXPECT_TRUE(getWorkspace({}).empty());
}

TEST(ProgramChoiceTest, SplitKeysAreMerged) {
  ProgramNeeds needs;
  needs.isSplit = true;
  EXPECT_EQ(getKinds(needs), (std::vector{Kind::Attention, Kind::Merge}));
  EXPECT_EQ(getWorkspace(needs),
            (std::vector{Role::PartialOutputs, Role::PartialLses,
                         Role::PartialLseRests}));
}

TEST(ProgramChoiceTest, UnfusedSoftmaxGoesThroughMemory) {
  ProgramNeeds needs;
  needs.isUnfused = true;
  EXPECT_EQ(getKinds(needs),
            (std::vector{Kind::Scores, Kind::Softmax, Kind::Values}));
  EXPECT_EQ(getWorkspace(needs),
            (std::vector{Role::Scores, Role::Probabilities}));
}

TEST(ProgramChoiceTest, AnAppendIsInFront) {
  ProgramNeeds needs;
  needs.appends = true;
  EXPECT_EQ(getKinds(needs), (std::vector{Kind::Append, Kind::Attention}));
  EXPECT_TRUE(getWorkspace(needs).empty());
  needs.turnsQuery = true;
  std::vector<ProgramKernel> kernels = listKernels(needs);
  EXPECT_EQ(kernels.front().writes.front(), Role::TurnedQuery);
  EXPECT_EQ(kernels.back().reads.front(), Role::TurnedQuery);
}

TEST(ProgramChoiceTest, ScoresAreBehindAllOthers) {
  ProgramNeeds needs;
  needs.scores = ScoresStage::Masked;
  EXPECT_EQ(getKinds(needs), (std::vector{Kind::Attention, Kind::Scores}));
  EXPECT_TRUE(getWorkspace(needs).empty());
}

/// The rest of LSE is of whichever kernel writes LSE.
TEST(ProgramChoiceTest, ProbabilitiesReadTheRestOfLse) {
  for (bool isSplit : {false, true})
    for (bool isUnfused : {false, true}) {
      if (isSplit && isUnfused)
        continue;
      ProgramNeeds needs;
      needs.isSplit = isSplit;
      needs.isUnfused = isUnfused;
      needs.scores = ScoresStage::Probabilities;
      Kind writer = isSplit     ? Kind::Merge
                    : isUnfused ? Kind::Softmax
                                : Kind::Attention;
      std::vector<ProgramKernel> kernels = listKernels(needs);
      for (const ProgramKernel &kernel : kernels)
        EXPECT_EQ(llvm::is_contained(kernel.writes, Role::LseRest),
                  kernel.kind == writer);
      EXPECT_EQ(kernels.back().kind, Kind::Scores);
      EXPECT_TRUE(llvm::is_contained(kernels.back().reads, Role::LseRest));
      // In front of what else there is.
      EXPECT_EQ(getWorkspace(needs).front(), Role::LseRest);
    }
}
} // namespace
