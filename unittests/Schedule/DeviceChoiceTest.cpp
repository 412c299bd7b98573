//===- DeviceChoiceTest.cpp - The kernels that each device gets -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of every compute capability with tensor cores: what is compiled for it by
// default can be launched on it, and no older chip has better that fits.
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "gtest/gtest.h"

#include <map>

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
std::vector<unsigned> getCapabilities() {
  return {
#define FLASHCORE_CAPABILITY(number, sharedPerBlock, sharedPerSM, registers,   \
                             threads, blocks)                                  \
  number,
#include "flashcore/Target/Capabilities.def"
  };
}

std::string nameOf(unsigned capability) {
  return "sm_" + std::to_string(capability);
}

/// Head dims of every row width, of open and of known sizes, decode among them.
std::vector<AttentionProblem> getProblems() {
  std::vector<AttentionProblem> problems;
  for (int64_t dim : {1, 5, 12, 33, 250})
    problems.push_back(makeProblem(dim, dim));
  for (int64_t dim = 8; dim <= 256; dim += 8)
    for (AttentionProblem &problem : makeProblems(dim, dim))
      problems.push_back(problem);
  for (auto [dim, dimV] : {std::pair<int64_t, int64_t>(64, 256), {192, 128}})
    problems.push_back(makeProblem(dim, dimV));
  for (int64_t dim : {64, 128, 256})
    problems.push_back(makeDecode(4, 1, 8192, dim));
  size_t numProblems = problems.size();
  for (size_t i = 0; i < numProblems; ++i) {
    problems.push_back(problems[i]);
    problems.back().element = ElementKind::BF16;
  }
  return problems;
}

/// Of two kernels the faster is that of the higher class: what multiplies, and
/// whether copies run ahead by themselves.
std::pair<int, bool> getClass(const ScheduleChoice &choice) {
  auto rank = [&] {
    switch (choice.product) {
    case Product::Thread:
      return 0;
    case Product::Wmma:
      return 1;
    case Product::Warp:
      return 2;
    case Product::Warpgroup:
      return 3;
    }
    return -1;
  };
  return {rank(), choice.copies != CopyPath::Registers};
}

/// Shared memory and class of a default.
struct Kernel {
  int64_t sharedBytes, numThreads;
  std::pair<int, bool> rank;
};
/// Those of one problem for each chip.
using Kernels = std::map<const TargetInfo *, Kernel>;

Kernels choose(const AttentionProblem &problem) {
  Kernels kernels;
  for (const TargetInfo &target : getTargets()) {
    ScheduleChoice choice = choose(problem, target);
    kernels[&target] = {getSharedMemoryBytes(problem, choice),
                        choice.numWarps * kWarpSize, getClass(choice)};
  }
  return kernels;
}

TEST(DeviceChoice, OfEveryCapability) {
  std::string text;
  for (unsigned capability : getCapabilities())
    text += std::to_string(capability) + ":" +
            findTargetFor(nameOf(capability))->chip.str() + " ";
  EXPECT_EQ(text, "70:sm_70 72:sm_70 75:sm_75 80:sm_80 86:sm_86 87:sm_86 "
                  "88:sm_86 89:sm_89 90:sm_90a 100:sm_90 103:sm_90 110:sm_90 "
                  "120:sm_120 121:sm_121 ");
}

TEST(DeviceChoice, DefaultsFitTheDeviceAndNoOlderOnesAreOfABetterClass) {
  for (const AttentionProblem &problem : getProblems()) {
    Kernels kernels = choose(problem);
    for (unsigned capability : getCapabilities()) {
      std::string device = nameOf(capability);
      SCOPED_TRACE(device + ", head_dim " + std::to_string(problem.headDim) +
                   (problem.element == ElementKind::BF16 ? ", bf16" : ""));
      int64_t limit = lookupLimits(capability)->sharedMemoryPerBlock;
      const Kernel &chosen = kernels[findTargetFor(device)];
      EXPECT_LE(chosen.sharedBytes, limit);
      EXPECT_LE(chosen.numThreads, 1024);
      // With shared memory without end every target that runs is in the list.
      for (const TargetInfo *other : findTargetsFor(device, INT64_MAX))
        if (kernels[other].sharedBytes <= limit)
          EXPECT_GE(chosen.rank, kernels[other].rank) << other->chip.str();
    }
  }
}

// What the table of capabilities is for: by its age alone 12.0 would get
// kernels that it cannot launch, if nothing were made for it.
TEST(DeviceChoice, KernelsOfOlderChipsDoNotAllFit) {
  ScheduleChoice hopper = choose(makeProblem(256, 256), *lookupTarget("sm_90"));
  EXPECT_GT(getSharedMemoryBytes(makeProblem(256, 256), hopper),
            lookupLimits(120)->sharedMemoryPerBlock);
}

// The limits are those of 8.9, so the blocks are, too, but for how many of them
// fill the card.
TEST(DeviceChoice, Sm120HasTheBlocksOfSm89) {
  for (const char *chip : {"sm_120", "sm_121"})
    for (int64_t dim = 8; dim <= 256; dim += 8)
      for (bool isCausal : {false, true}) {
        AttentionProblem problem = makeLargeProblem(dim, 4096);
        problem.isCausal = isCausal;
        ScheduleChoice ours = choose(problem, *lookupTarget(chip)),
                       theirs = choose(problem, ada());
        EXPECT_EQ(ours.blockM, theirs.blockM) << chip << " " << dim;
        EXPECT_EQ(ours.blockN, theirs.blockN) << chip << " " << dim;
        EXPECT_EQ(ours.numWarps, theirs.numWarps) << chip << " " << dim;
        EXPECT_EQ(ours.numStages, theirs.numStages) << chip << " " << dim;
        EXPECT_EQ(ours.product, Product::Warp) << chip << " " << dim;
        EXPECT_EQ(ours.copies, CopyPath::Async) << chip << " " << dim;
      }
}
} // namespace
