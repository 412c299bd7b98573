//===- TargetInfoTest.cpp - The table of chips ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
TEST(TargetInfo, FindsEveryChipByItsName) {
  for (const TargetInfo &target : getTargets())
    EXPECT_EQ(lookupTarget(target.chip), &target) << target.chip.str();
}

TEST(TargetInfo, KnowsNoOtherChip) {
  EXPECT_EQ(lookupTarget("sm_75"), nullptr);
  EXPECT_EQ(lookupTarget("sm_8"), nullptr);
  EXPECT_EQ(lookupTarget("SM_89"), nullptr);
  EXPECT_EQ(lookupTarget(""), nullptr);
}

TEST(TargetInfo, ListsOldestChipFirst) {
  EXPECT_TRUE(llvm::is_sorted(
      getTargets(), [](const TargetInfo &older, const TargetInfo &newer) {
        return older.chip < newer.chip;
      }));
}

// One KiB of each block belongs to the system (CUDA C++ Programming Guide,
// "Shared Memory" of compute capability 8.x and 9.0).
TEST(TargetInfo, OneBlockMayHaveAllSharedMemoryButOneKiB) {
  for (const TargetInfo &target : getTargets())
    EXPECT_EQ(target.sharedMemoryPerBlock + 1024, target.sharedMemoryPerSM)
        << target.chip.str();
}

TEST(TargetInfo, AdaLimitsOfTheProgrammingGuide) {
  const TargetInfo *ada = lookupTarget("sm_89");
  ASSERT_NE(ada, nullptr);
  EXPECT_EQ(ada->sharedMemoryPerBlock, 99 * 1024);
  EXPECT_EQ(ada->registersPerSM, 65536);
  EXPECT_EQ(ada->maxThreadsPerSM, 1536);
}

TEST(TargetInfo, UnknownChipMessageListsWhatThereIs) {
  EXPECT_EQ(unknownChipMessage("sm_75"),
            "unknown chip 'sm_75': expects one of sm_80, sm_86, sm_89, sm_90; "
            "older chips lack cp.async and bf16 mma.sync");
}
} // namespace
