//===- CudaThreadTest.cpp - Streams, threads and shared code on a GPU -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches into streams of the caller, from several threads, of modules that
// share their code; launches that contradict the bundle; and each driver call
// made to fail in turn.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

#include <set>
#include <thread>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class CudaThreadTest : public ::testing::Test {
protected:
  CudaThreadTest() : device(fake.open()), bundle(loadTestBundle()) {
    launch.name = "attention";
    launch.block = {128, 1, 1};
    launch.dynamicSharedMemory = 49152;
    launch.arguments.resize(8);
  }

  std::unique_ptr<LoadedModule> load(const Bundle &from) {
    StatusOr<std::unique_ptr<LoadedModule>> module = device->load(from);
    EXPECT_EQ(text(module), "");
    return module.ok() ? std::move(*module) : nullptr;
  }

  /// Runs `work` on several threads at once.
  template <typename Work> static void runThreads(Work work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(work);
    for (std::thread &thread : threads)
      thread.join();
  }

  FakeCuda fake;
  std::unique_ptr<Device> device;
  Bundle bundle;
  KernelLaunch launch;
};
} // namespace

TEST_F(CudaThreadTest, launchesIntoTheStreamOfTheCaller) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  int target = 0;
  EXPECT_EQ(text(device->launch(*module, launch, Stream{&target})), "");
  EXPECT_EQ(text(device->launch(*module, launch)), "");
  ASSERT_EQ(fake.launches.size(), 2u);
  EXPECT_EQ(static_cast<void *>(fake.launches[0].stream), &target);
  EXPECT_NE(static_cast<void *>(fake.launches[1].stream), &target);
}

// A call that waits or copies would break the capture of the stream.
TEST_F(CudaThreadTest, aLaunchIsTheOnlyCallOnItsStream) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  fake.log.clear();
  fake.isCapturing = true;
  EXPECT_EQ(text(device->launch(*module, launch)), "");
  fake.isCapturing = false;
  EXPECT_EQ(fake.log,
            (std::vector<std::string>{"cuCtxGetCurrent", "cuCtxSetCurrent",
                                      "cuLaunchKernel", "cuCtxSetCurrent"}));
}

TEST_F(CudaThreadTest, leavesAContextThatIsCurrent) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  FakeCuda::setContext(FakeCuda::primaryContext());
  fake.log.clear();
  EXPECT_EQ(text(device->launch(*module, launch)), "");
  EXPECT_EQ(fake.log,
            (std::vector<std::string>{"cuCtxGetCurrent", "cuLaunchKernel"}));
}

// The fake refuses calls from a thread without a current context.
TEST_F(CudaThreadTest, serves4Threads) {
  runThreads([&] {
    std::unique_ptr<LoadedModule> module = load(bundle);
    StatusOr<DeviceBuffer> buffer = DeviceBuffer::create(*device, 4);
    ASSERT_EQ(text(buffer), "");
    uint32_t word = 7;
    EXPECT_EQ(text(device->copyToDevice(buffer->pointer(), &word, 4)), "");
    EXPECT_EQ(text(device->fill(buffer->pointer(), 9, 4)), "");
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(text(device->launch(*module, launch)), "");
    EXPECT_EQ(text(device->copyToHost(&word, buffer->pointer(), 4)), "");
    EXPECT_EQ(word, 9u);
    EXPECT_EQ(text(device->synchronize()), "");
  });
  EXPECT_EQ(fake.launches.size(), 80u);
}

TEST_F(CudaThreadTest, aDeviceMayBeClosedByAnotherThread) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  std::thread([&] {
    module.reset();
    device.reset();
  }).join();
  EXPECT_EQ(fake.liveObjects, 0);
}

TEST_F(CudaThreadTest, modulesOfTheSameCodeShareIt) {
  std::unique_ptr<LoadedModule> first = load(bundle);
  Bundle copy = loadTestBundle();
  std::unique_ptr<LoadedModule> second = load(copy);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 1);
  first.reset();
  EXPECT_EQ(fake.calls("cuModuleUnload"), 0);
  EXPECT_EQ(text(device->launch(*second, launch)), "");
  second.reset();
  EXPECT_EQ(fake.calls("cuModuleUnload"), 1);
  second = load(copy);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 2);
}

TEST_F(CudaThreadTest, otherCodeIsNotShared) {
  std::unique_ptr<LoadedModule> first = load(bundle);
  Bundle code = loadTestBundle();
  code.cubins[0].contents += "x";
  std::unique_ptr<LoadedModule> second = load(code);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 2);
  // The opt-in to shared memory is one of the function, so of the code.
  Bundle shared = loadTestBundle();
  shared.kernels[0].dynamicSharedMemory = 16;
  std::unique_ptr<LoadedModule> third = load(shared);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 3);
}

TEST_F(CudaThreadTest, aFailedLoadIsNotShared) {
  fake.failOnce("cuModuleLoadDataEx", 999);
  EXPECT_FALSE(device->load(bundle).ok());
  load(bundle);
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 2);
}

TEST_F(CudaThreadTest, threadsShareOneLoad) {
  std::unique_ptr<LoadedModule> first = load(bundle);
  runThreads([&] {
    for (int i = 0; i < 20; ++i)
      load(bundle);
  });
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 1);
}

TEST_F(CudaThreadTest, refusesALaunchOfAnotherBundle) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  const std::string note =
      "\n  note: plan the launch from the bundle that was loaded";
  KernelLaunch wrong = launch;
  wrong.kernel = 1;
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "expects the number of one of the 1 kernels of the bundle, but got "
            "1" +
                note);
  wrong = launch;
  wrong.arguments.pop_back();
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects 8 arguments, but got 7" + note);
  wrong = launch;
  wrong.block = {64, 1, 1};
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects blocks of 128x1x1 threads, but got "
            "64x1x1" +
                note);
  wrong = launch;
  wrong.dynamicSharedMemory = -1;
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects 49152 bytes of dynamic shared memory, "
            "but got -1" +
                note);
  wrong = launch;
  wrong.grid = {1, -1, 1};
  EXPECT_EQ(text(device->launch(*module, wrong)),
            "kernel 'attention' expects a grid of at least 0 blocks in "
            "direction y, but got -1");
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 0);
}

TEST_F(CudaThreadTest, comparesALaunchWithTheCallOfTheDriver) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  StatusOr<LaunchOverhead> overhead =
      device->measureOverhead(*module, launch, 40);
  ASSERT_EQ(text(overhead), "");
  EXPECT_GT(overhead->driver, 0);
  EXPECT_GT(overhead->runtime, 0);
  EXPECT_DOUBLE_EQ(overhead->added(), overhead->runtime - overhead->driver);
  // Two batches of 32 either way.
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 128);
  EXPECT_EQ(fake.calls("cuStreamSynchronize"), 4);
}

TEST_F(CudaThreadTest, refusesNoLaunchToCompare) {
  std::unique_ptr<LoadedModule> module = load(bundle);
  EXPECT_EQ(text(device->measureOverhead(*module, launch, 0)),
            "expects a grid that is not empty and at least one sample, but got "
            "1x1x1 and 0");
  launch.grid = {0, 1, 1};
  EXPECT_EQ(text(device->measureOverhead(*module, launch)),
            "expects a grid that is not empty and at least one sample, but got "
            "0x1x1 and 4096");
}

namespace {
/// Uses every driver call once; the first error, or "".
std::string useEverything(FakeCuda &fake) {
  StatusOr<std::unique_ptr<Device>> device =
      createCudaDevice(fake.driver(), 0, fake.cubinCache);
  if (!device.ok())
    return text(device);
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = (*device)->load(bundle);
  if (!module.ok())
    return text(module);
  StatusOr<DeviceBuffer> buffer = DeviceBuffer::create(**device, 4);
  if (!buffer.ok())
    return text(buffer);
  KernelLaunch launch;
  launch.name = "attention";
  launch.block = {128, 1, 1};
  launch.dynamicSharedMemory = 49152;
  launch.arguments.resize(8);
  std::vector<std::vector<KernelLaunch>> sets = {{launch}};
  uint32_t word = 0;
  std::string error;
  auto keepFirst = [&](const std::string &next) {
    if (error.empty())
      error = next;
  };
  keepFirst(text((*device)->fill(buffer->pointer(), 0, 4)));
  keepFirst(text((*device)->copyToDevice(buffer->pointer(), &word, 4)));
  keepFirst(text((*device)->launch(**module, launch)));
  keepFirst(text((*device)->copyToHost(&word, buffer->pointer(), 4)));
  keepFirst(text((*device)->time(**module, sets, {})));
  return error;
}
} // namespace

// The CUDA runtime reads the current device of a thread from its context.
TEST(CudaContextTest, isLeftAsItWas) {
  int other = 0;
  for (void *before :
       {static_cast<void *>(nullptr), static_cast<void *>(&other),
        static_cast<void *>(FakeCuda::primaryContext())}) {
    FakeCuda fake;
    FakeCuda::setContext(static_cast<cuda::CUcontext>(before));
    EXPECT_EQ(useEverything(fake), "");
    EXPECT_EQ(static_cast<void *>(FakeCuda::context()), before);
    fake.failOnce("cuLaunchKernel", 999);
    EXPECT_NE(useEverything(fake), "");
    EXPECT_EQ(static_cast<void *>(FakeCuda::context()), before);
  }
}

TEST(CudaFailureTest, everyCallThatFailsIsNamed) {
  // These explain, clean up or save time: their failures change no result.
  const std::set<std::string> harmless = {
      "cuGetErrorName",     "cuGetErrorString",
      "cuDriverGetVersion", "cuLinkCreate",
      "cuLinkAddData",      "cuLinkComplete",
      "cuLinkDestroy",      "cuModuleUnload",
      "cuStreamDestroy",    "cuGraphExecDestroy",
      "cuGraphDestroy",     "cuEventDestroy",
      "cuMemFree",          "cuDevicePrimaryCtxRelease"};
  std::vector<std::string> symbols;
#define ADD_SYMBOL(member, symbol, parameters) symbols.push_back(#symbol);
  FLASHCORE_CUDA_ENTRY_POINTS(ADD_SYMBOL)
#undef ADD_SYMBOL
  for (std::string symbol : symbols) {
    for (std::string_view suffix : {"_v2", "WithFlags"})
      if (symbol.ends_with(suffix))
        symbol.resize(symbol.size() - suffix.size());
    ScratchDirectory scratch;
    FakeCuda fake; // checks that everything is destroyed
    fake.cubinCache = scratch.path();
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    fake.failAt(symbol, 999);
    std::string error = useEverything(fake);
    if (!symbol.starts_with("cuGetError"))
      EXPECT_GT(fake.calls(symbol), 0) << symbol;
    if (harmless.contains(symbol))
      EXPECT_EQ(error, "") << symbol;
    else
      EXPECT_TRUE(error.starts_with(symbol)) << symbol << ": " << error;
  }
}
