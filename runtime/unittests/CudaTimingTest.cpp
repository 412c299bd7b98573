//===- CudaTimingTest.cpp - Timing by graph replay ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of driver calls, the rotation over input sets, the statistics, and
// each failing call.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

#include <algorithm>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class CudaTimingTest : public ::testing::Test {
protected:
  CudaTimingTest() : device(fake.open()), bundle(loadTestBundle()) {
    StatusOr<std::unique_ptr<LoadedModule>> loaded = device->load(bundle);
    EXPECT_EQ(text(loaded), "");
    module = std::move(*loaded);
    for (uint64_t number = 0; number < 3; ++number) {
      KernelLaunch launch;
      launch.name = "attention";
      launch.block = {128, 1, 1};
      launch.dynamicSharedMemory = 49152;
      launch.arguments = {number, 0, 0, 0, 0, 0, 0, 0};
      sets.push_back({launch});
    }
  }

  StatusOr<Timing> time(const TimingOptions &options) {
    return device->time(*module, sets, options);
  }

  FakeCuda fake;
  std::unique_ptr<Device> device;
  Bundle bundle;
  std::unique_ptr<LoadedModule> module;
  std::vector<std::vector<KernelLaunch>> sets;
};
} // namespace

TEST_F(CudaTimingTest, capturesAndRotatesOverTheSets) {
  TimingOptions options;
  options.launchesPerReplay = 5;
  StatusOr<Timing> timing = time(options);
  ASSERT_EQ(text(timing), "");
  ASSERT_EQ(fake.launches.size(), 5u);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(fake.launches[i].isCaptured);
    EXPECT_EQ(fake.launches[i].arguments[0], i % 3);
  }
  EXPECT_EQ(timing->launchesPerReplay, 5);
  EXPECT_EQ(timing->replays, 15);
  EXPECT_EQ(fake.calls("cuGraphLaunch"), 16); // one uploads the graph
  EXPECT_EQ(timing->median, 200);             // 1 ms over 5 launches
}

TEST_F(CudaTimingTest, takesMedianMinimumAndMaximum) {
  TimingOptions options;
  options.launchesPerReplay = 10;
  options.replays = 4;
  fake.elapsed = {99, 4, 1, 3, 8}; // the first is not counted
  StatusOr<Timing> timing = time(options);
  ASSERT_EQ(text(timing), "");
  EXPECT_DOUBLE_EQ(timing->median, 350);
  EXPECT_DOUBLE_EQ(timing->min, 100);
  EXPECT_DOUBLE_EQ(timing->max, 800);
  EXPECT_EQ(timing->replays, 4);
}

TEST_F(CudaTimingTest, sizesAReplayToFiveMilliseconds) {
  fake.elapsed = {0.5f}; // five launches: 0.1 ms each
  StatusOr<Timing> timing = time({});
  ASSERT_EQ(text(timing), "");
  EXPECT_EQ(timing->launchesPerReplay, 50);
  // Warm-up and probe are launched directly, the rest is captured.
  EXPECT_EQ(fake.launches.size(), 5u + 5 + 50);
  EXPECT_EQ(std::count_if(fake.launches.begin(), fake.launches.end(),
                          [](const auto &l) { return l.isCaptured; }),
            50);
}

TEST_F(CudaTimingTest, boundsTheLaunchesOfAReplay) {
  fake.elapsed = {1000};
  EXPECT_EQ(time({})->launchesPerReplay, 4);
  fake.elapsed = {0};
  EXPECT_EQ(time({})->launchesPerReplay, 400);
}

TEST_F(CudaTimingTest, reportsEachCallThatFails) {
  const char *calls[] = {"cuEventCreate",        "cuEventRecord",
                         "cuEventSynchronize",   "cuEventElapsedTime",
                         "cuStreamBeginCapture", "cuStreamEndCapture",
                         "cuGraphInstantiate",   "cuGraphLaunch"};
  for (const char *call : calls) {
    fake.failAt(call, 999);
    EXPECT_EQ(text(time({})),
              std::string(call) + " failed: CUDA_ERROR_FAKE (999): as planned");
    EXPECT_FALSE(fake.isCapturing);
    fake.failAt(call, cuda::CUDA_SUCCESS);
  }
}

TEST_F(CudaTimingTest, endsTheCaptureAfterALaunchThatFails) {
  TimingOptions options;
  options.launchesPerReplay = 4;
  fake.failAt("cuLaunchKernel", 999, 2);
  EXPECT_EQ(text(time(options)),
            "cuLaunchKernel failed: CUDA_ERROR_FAKE (999): as planned\n"
            "  note: kernel 'attention', grid 1x1x1, block 128x1x1, 49152 "
            "bytes of dynamic shared memory, 128 registers a thread");
  EXPECT_EQ(fake.calls("cuStreamEndCapture"), 1);
}

TEST_F(CudaTimingTest, refusesNothingToTime) {
  sets.resize(1);
  EXPECT_EQ(text(device->time(*module, {}, {})),
            "expects at least one set of launches and one "
            "replay, but got 0 and 15");
  KernelLaunch empty = sets.front().front();
  empty.grid = {0, 1, 1};
  sets = {{empty}};
  EXPECT_EQ(text(time({})),
            "expects a launch to time, but got only empty grids\n"
            "  note: choose a batch, heads_q and seqlen_q of at least 1");
}

TEST(TimingTest, medianOfAnOddCount) {
  Timing timing = summarizeTimings({5, 1, 3}, 2);
  EXPECT_EQ(timing.median, 3);
  EXPECT_EQ(timing.min, 1);
  EXPECT_EQ(timing.max, 5);
  EXPECT_EQ(timing.replays, 3);
  EXPECT_EQ(timing.launchesPerReplay, 2);
}
