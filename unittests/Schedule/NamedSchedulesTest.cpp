//===- NamedSchedulesTest.cpp - Schedules that have a name ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/NamedSchedules.h"
#include "ScheduleProblems.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
ScheduleOptions getNamed(llvm::StringRef name, ScheduleOptions options = {}) {
  auto error = applyNamedSchedule(name, options);
  EXPECT_FALSE(error) << *error;
  return options;
}

TEST(NamedSchedules, EachWorksForTheAncestorsShapes) {
  for (const NamedSchedule &schedule : getNamedSchedules())
    for (int64_t dim : {32, 64, 128}) {
      const TargetInfo &target =
          schedule.name == "wgmma" ? *lookupTarget("sm_90a") : ada();
      ScheduleChoice choice =
          choose(makeLargeProblem(dim, 4096), target, getNamed(schedule.name));
      EXPECT_FALSE(schedule.text.empty());
      EXPECT_GT(choice.blockM, 0) << schedule.name.str();
    }
}

TEST(NamedSchedules, AStepChangesTheOneBefore) {
  ScheduleOptions plain = getNamed("fused-wmma-32x32");
  EXPECT_EQ(plain.blockM, 32);
  EXPECT_EQ(plain.copies, CopyPath::Registers);
  ScheduleOptions async = getNamed("+async");
  EXPECT_EQ(async.product, Product::Wmma);
  EXPECT_EQ(async.blockM, 64);
  EXPECT_EQ(async.copies, CopyPath::Async);
  EXPECT_EQ(async.exchange, Exchange::Plain);
  EXPECT_EQ(getNamed("+vector").exchange, Exchange::Wide);
  EXPECT_EQ(getNamed("+registers").exchange, Exchange::Fragments);
  EXPECT_EQ(getNamed("+128x64").blockM, 128);
  EXPECT_EQ(getNamed("+roles").copies, CopyPath::Producer);
  // What begins anew has nothing of the steps before.
  EXPECT_FALSE(getNamed("mma").exchange);
  EXPECT_FALSE(getNamed("default").product);
}

TEST(NamedSchedules, LeaveWhatIsAskedFor) {
  ScheduleOptions options;
  options.blockN = 16;
  EXPECT_EQ(getNamed("+64x64", options).blockN, 16);
  EXPECT_EQ(getNamed("+64x64", options).blockM, 64);
}

TEST(NamedSchedules, NameWhatThereIs) {
  ScheduleOptions options;
  auto error = applyNamedSchedule("+fast", options);
  ASSERT_TRUE(error);
  EXPECT_TRUE(
      llvm::StringRef(*error).starts_with("expects schedule to be scalar, "))
      << *error;
  EXPECT_TRUE(llvm::StringRef(*error).ends_with("but got '+fast'")) << *error;
}
} // namespace
