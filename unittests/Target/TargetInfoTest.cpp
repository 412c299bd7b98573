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
  EXPECT_EQ(lookupTarget("sm_61"), nullptr);
  EXPECT_EQ(lookupTarget("sm_8"), nullptr);
  EXPECT_EQ(lookupTarget("SM_89"), nullptr);
  EXPECT_EQ(lookupTarget(""), nullptr);
}

TEST(TargetInfo, ListsOldestChipFirst) {
  EXPECT_TRUE(llvm::is_sorted(
      getTargets(), [](const TargetInfo &older, const TargetInfo &newer) {
        return std::pair(older.capability, older.isChipSpecific) <
               std::pair(newer.capability, newer.isChipSpecific);
      }));
}

TEST(TargetInfo, NamesOfOneChipDifferInItsOwnInstructions) {
  const TargetInfo &all = *lookupTarget("sm_90"),
                   &own = *lookupTarget("sm_90a");
  EXPECT_FALSE(all.isChipSpecific);
  EXPECT_TRUE(own.isChipSpecific);
  EXPECT_EQ(own.capability, all.capability);
  EXPECT_EQ(own.sharedMemoryPerBlock, all.sharedMemoryPerBlock);
  EXPECT_GT(own.device.tensorFlops, all.device.tensorFlops);
}

// One KiB of each block belongs to the system since compute capability 8.0
// (CUDA C++ Programming Guide, "Shared Memory" of 8.x and 9.0).
TEST(TargetInfo, OneBlockMayHaveAllSharedMemoryButOneKiB) {
  for (const TargetInfo &target : getTargets()) {
    EXPECT_EQ(target.getReservedSharedMemory(),
              target.capability < 80 ? 0 : 1024);
    EXPECT_EQ(target.sharedMemoryPerBlock + target.getReservedSharedMemory(),
              target.sharedMemoryPerSM)
        << target.chip.str();
  }
}

TEST(TargetInfo, AdaLimitsOfTheProgrammingGuide) {
  const TargetInfo *ada = lookupTarget("sm_89");
  ASSERT_NE(ada, nullptr);
  EXPECT_EQ(ada->sharedMemoryPerBlock, 99 * 1024);
  EXPECT_EQ(ada->registersPerSM, 65536);
  EXPECT_EQ(ada->maxThreadsPerSM, 1536);
}

// setmaxnreg takes multiples of 8 from 24 to 256, and of all that the launch
// gave no register may be missing.
TEST(TargetInfo, RegistersAreSharedOutInUnitsOfEight) {
  const TargetInfo &hopper = *lookupTarget("sm_90a");
  auto expect = [&](int64_t warpgroups, int64_t atLaunch, int64_t ofConsumer,
                    int64_t ofProducer, int64_t blocks = 1,
                    bool readsPages = false) {
    RegisterShares shares =
        getRegisterShares(hopper, blocks, 128 * warpgroups, 128, readsPages);
    EXPECT_EQ(shares.atLaunch, atLaunch) << warpgroups;
    EXPECT_EQ(shares.ofConsumer, ofConsumer) << warpgroups;
    EXPECT_EQ(shares.ofProducer, ofProducer) << warpgroups;
    EXPECT_LE(shares.ofConsumer * warpgroups + shares.ofProducer,
              shares.atLaunch * (warpgroups + 1))
        << warpgroups;
    EXPECT_LE(shares.atLaunch * 128 * (warpgroups + 1) * blocks,
              hopper.registersPerSM)
        << warpgroups;
  };
  expect(1, 248, 240, 248);
  expect(2, 168, 240, 24);
  expect(3, 128, 160, 32);
  expect(2, 80, 104, 32, /*blocks=*/2);
  expect(1, 80, 136, 24, /*blocks=*/3);
  // Where there are registers to spare, copies of pages get them.
  expect(2, 168, 232, 40, /*blocks=*/1, /*readsPages=*/true);
  expect(3, 128, 160, 32, /*blocks=*/1, /*readsPages=*/true);
  expect(2, 80, 104, 32, /*blocks=*/2, /*readsPages=*/true);
}

TEST(TargetInfo, PTXVersionIsTheNewestThatIsNeeded) {
  const TargetInfo &ada = *lookupTarget("sm_89");
  EXPECT_EQ(getPTXVersion(ada, 0), 80u);
  EXPECT_EQ(getPTXVersion(ada, 70), 80u);
  EXPECT_EQ(getPTXVersion(ada, 84), 84u);
  TargetInfo newer = ada;
  newer.ptxVersion = 86;
  EXPECT_EQ(getPTXVersion(newer, 84), 86u);
}

TEST(TargetInfo, FeaturesKeepANewerPTXVersion) {
  EXPECT_EQ(raisePTXFeature("", 80), "+ptx80");
  EXPECT_EQ(raisePTXFeature("+ptx80", 84), "+ptx84");
  EXPECT_EQ(raisePTXFeature("+ptx83", 80), "+ptx83");
  EXPECT_EQ(raisePTXFeature("+a,+ptx78,-b", 80), "+ptx80,+a,-b");
  EXPECT_EQ(raisePTXFeature("+ptxas", 80), "+ptx80,+ptxas");
}

TEST(TargetInfo, BlackwellLimitsOfTheProgrammingGuide) {
  for (const char *chip : {"sm_120", "sm_121"}) {
    const TargetInfo *blackwell = lookupTarget(chip);
    ASSERT_NE(blackwell, nullptr);
    EXPECT_EQ(blackwell->sharedMemoryPerBlock, 99 * 1024);
    EXPECT_EQ(blackwell->registersPerSM, 65536);
    EXPECT_EQ(blackwell->maxThreadsPerSM, 48 * 32);
    EXPECT_EQ(blackwell->maxBlocksPerSM, 24);
    EXPECT_FALSE(blackwell->isChipSpecific);
  }
  EXPECT_EQ(getPTXVersion(*lookupTarget("sm_120"), 0), 87u);
  EXPECT_EQ(getPTXVersion(*lookupTarget("sm_121"), 0), 88u);
}

TEST(TargetInfo, FindsTheTargetThatIsBestOnADevice) {
  auto find = [](llvm::StringRef device) {
    const TargetInfo *target = findTargetFor(device);
    return target ? target->chip.str() : "none";
  };
  EXPECT_EQ(find("sm_80"), "sm_80");
  EXPECT_EQ(find("sm_87"), "sm_86");
  EXPECT_EQ(find("sm_89"), "sm_89");
  EXPECT_EQ(find("sm_90"), "sm_90a");
  EXPECT_EQ(find("sm_100"), "sm_90"); // what is for 9.0 alone runs nowhere else
  EXPECT_EQ(find("sm_120"), "sm_120");
  EXPECT_EQ(find("sm_130"), "sm_121"); // nobody knows what it has
  for (const char *device : {"", "ampere", "sm_61", "90"})
    EXPECT_EQ(find(device), "none") << device;
}

// A driver says what a device has, whatever is known of its kind.
TEST(TargetInfo, KernelsForADeviceStayWithinItsSharedMemory) {
  auto find = [](llvm::StringRef device, int64_t kibibytes) {
    std::string names;
    for (const TargetInfo *target : findTargetsFor(device, kibibytes * 1024))
      names += target->chip.str() + " ";
    return names;
  };
  EXPECT_EQ(find("sm_90", 227), "sm_90a sm_90 sm_89 sm_86 sm_80 sm_75 sm_70 ");
  EXPECT_EQ(find("sm_120", 99), "sm_120 sm_89 sm_86 sm_75 sm_70 ");
  EXPECT_EQ(find("sm_130", 227),
            "sm_121 sm_120 sm_90 sm_89 sm_86 sm_80 sm_75 sm_70 ");
  EXPECT_EQ(find("sm_130", 64), "sm_75 ");
  EXPECT_EQ(find("sm_90", 48), "");
  EXPECT_EQ(find("sm_61", 99), "");
  EXPECT_EQ(findTargetFor("sm_90", 48 * 1024), nullptr);
}

TEST(TargetInfo, UnknownChipMessageListsWhatThereIs) {
  EXPECT_EQ(
      unknownChipMessage("sm_61"),
      "unknown chip 'sm_61': expects one of sm_70, sm_75, sm_80, sm_86, "
      "sm_89, sm_90, sm_90a, sm_120, sm_121; older chips have no tensor cores");
}

TEST(TargetInfo, UnknownChipMessageNamesTheChipWhosePTXRuns) {
  auto advice = [](llvm::StringRef chip) {
    return llvm::StringRef(unknownChipMessage(chip)).split("; ").second.str();
  };
  auto runs = [](std::string chip, std::string older) {
    return chip + " runs the PTX that is made for " + older +
           ": compile for that";
  };
  EXPECT_EQ(advice("sm_100"), runs("sm_100", "sm_90"));
  EXPECT_EQ(advice("sm_120a"), runs("sm_120a", "sm_120"));
  EXPECT_EQ(advice("sm_100a"), runs("sm_100a", "sm_90"));
  EXPECT_EQ(advice("sm_87"), runs("sm_87", "sm_86"));
  EXPECT_EQ(advice("sm_61"), "older chips have no tensor cores");
  for (const char *chip : {"", "ampere", "sm_", "sm_x", "sm_90b", "90"})
    EXPECT_EQ(advice(chip), "") << chip;
}
} // namespace
