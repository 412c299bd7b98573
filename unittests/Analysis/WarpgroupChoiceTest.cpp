//===- WarpgroupChoiceTest.cpp - Schedules of kernels of warpgroups -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Analysis/ResourceModel.h"
#include "flashcore/Analysis/ScheduleCheck.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
const TargetInfo &hopper() { return *lookupTarget("sm_90a"); }

/// Enough blocks to fill the chip.
AttentionProblem makeLarge(int64_t headDim, int64_t headDimV) {
  AttentionProblem problem = makeProblem(headDim, headDimV);
  problem.batch = 4;
  problem.headsQ = problem.headsKV = 16;
  problem.seqlenQ = problem.seqlenK = 3072;
  return problem;
}

std::string refuseOnHopper(const AttentionProblem &problem,
                           const ScheduleOptions &options) {
  auto result = chooseSchedule(problem, hopper(), options);
  auto *error = std::get_if<std::string>(&result);
  return error ? *error : "accepted";
}

TEST(Warpgroups, HaveTheMeasuredShapes) {
  struct {
    int64_t headDim, numWarps, blockM, blockN;
  } expected[] = {{64, 12, 192, 128}, {128, 8, 128, 128}, {256, 8, 128, 64}};
  for (auto [headDim, numWarps, blockM, blockN] : expected) {
    ScheduleChoice choice = choose(makeLarge(headDim, headDim), hopper());
    EXPECT_EQ(choice.product, Product::Warpgroup) << headDim;
    EXPECT_EQ(choice.numWarps, numWarps) << headDim;
    EXPECT_EQ(choice.blockM, blockM) << headDim;
    EXPECT_EQ(choice.blockN, blockN) << headDim;
    EXPECT_EQ(choice.overlap, Overlap::PV) << headDim;
  }
}

TEST(Warpgroups, AreOfOneChip) {
  for (const TargetInfo &target : getTargets())
    EXPECT_EQ(choose(makeLarge(128, 128), target).product,
              target.chip == "sm_90a" ? Product::Warpgroup : Product::Warp)
        << target.chip.str();
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  EXPECT_EQ(refuse(makeLarge(128, 128), options),
            "expects product warp for sm_89, which has no products of "
            "warpgroups, but got warpgroup");
}

TEST(Warpgroups, DoAllMasksAndSizes) {
  std::vector<AttentionProblem> problems(6, makeLarge(128, 128));
  problems[0].isCausal = true;
  problems[1].hasBias = true;
  problems[2].seqlenK = std::nullopt;
  problems[3].seqlenK = 3000;
  problems[4].hasWindow = true;
  problems[5].headDim = 96;
  for (const AttentionProblem &problem : problems)
    EXPECT_EQ(choose(problem, hopper()).product, Product::Warpgroup);
}

TEST(Warpgroups, AreLeftForWhatIsForced) {
  ScheduleOptions stale;
  stale.rowMax = RowMax::Stale;
  EXPECT_EQ(choose(makeLarge(128, 128), hopper(), stale).product,
            Product::Warp);
  ScheduleOptions warp;
  warp.product = Product::Warp;
  EXPECT_EQ(choose(makeLarge(128, 128), hopper(), warp).product, Product::Warp);
  // What they can do as well is done.
  ScheduleOptions stages;
  stages.blockN = 64;
  stages.numStages = 3;
  ScheduleChoice choice = choose(makeLarge(128, 128), hopper(), stages);
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockN, 64);
  EXPECT_EQ(choice.numStages, 3);
}

// Where they have too few, ptxas lets products wait for each other.
TEST(Warpgroups, HaveRegistersBesideTheirFragments) {
  AttentionProblem wide = makeLarge(64, 256);
  ScheduleChoice choice = choose(wide, hopper());
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockN, 96);
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  options.blockN = 128;
  EXPECT_EQ(refuseOnHopper(wide, options),
            "needs 224 registers a thread for its fragments and 24 beside, but "
            "8 warps of product warpgroup have 240; use a smaller block-n");
}

// Blocks of 128 rows would leave most of the chip idle.
TEST(Warpgroups, AreForGridsThatFillTheChip) {
  AttentionProblem small = makeLarge(128, 128);
  small.batch = 1;
  small.headsQ = small.headsKV = 2;
  small.seqlenQ = 256;
  EXPECT_EQ(choose(small, hopper()).product, Product::Warp);
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  EXPECT_EQ(choose(small, hopper(), options).product, Product::Warpgroup);
}

TEST(Warpgroups, TakeWhatTheModelSays) {
  AttentionProblem problem = makeLarge(128, 128);
  ScheduleChoice choice = choose(problem, hopper());
  // Q, two stages of K and V, two barriers a slot.
  EXPECT_EQ(getSharedMemoryBytes(problem, choice),
            128 * 128 * 2 + 2 * 2 * 128 * 128 * 2 + 16 * (2 + 2 * 2));
  // O, S and P in pairs.
  EXPECT_EQ(getFragmentRegisters(problem, choice), 64 + 64 + 32);
  EXPECT_EQ(choice.getAllWarps(), 12);
}
} // namespace
