//===- CudaDeviceTest.cpp - Opening, memory and launches on a GPU ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Drives the CUDA device with a fake driver; every driver call is made to fail
// once.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

#include "flashcore/Runtime/Check.h"

using namespace flashcore;
using namespace flashcore::testing;

/// A launch of the kernel of the test bundle.
static KernelLaunch testLaunch() {
  KernelLaunch launch;
  launch.name = "attention";
  launch.block = {128, 1, 1};
  launch.dynamicSharedMemory = 49152;
  launch.arguments.resize(8);
  return launch;
}

static std::string planned(const std::string &call) {
  return call + " failed: CUDA_ERROR_FAKE (999): as planned";
}

TEST(CudaDeviceTest, readsNameChipAndLimits) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  EXPECT_EQ(device->info().kind, "cuda");
  EXPECT_EQ(device->info().name, "Fake GPU");
  EXPECT_EQ(device->info().chip.str(), "sm_89");
  EXPECT_EQ(device->info().limits.sharedMemoryPerBlock, 101376);
  EXPECT_EQ(device->info().limits.threadsPerBlock, 1024);
  EXPECT_EQ(device->info().limits.block[2], 64);
  EXPECT_EQ(device->info().limits.grid[1], 65535);
  EXPECT_EQ(device->info().limits.l2Bytes, 1 << 25);
  EXPECT_EQ(device->info().limits.multiprocessors, 58);
}

TEST(CudaDeviceTest, twoDigitCapabilities) {
  FakeCuda fake;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 12;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
  EXPECT_EQ(fake.open()->info().chip.str(), "sm_120");
}

TEST(CudaDeviceTest, aDriverWithoutGpuIsNoDevice) {
  const std::string message =
      "no CUDA device: the driver found no GPU; run on a machine with one";
  {
    FakeCuda fake;
    fake.failAt("cuInit", cuda::CUDA_ERROR_NO_DEVICE);
    StatusOr<std::unique_ptr<Device>> device = createCudaDevice(fake.driver());
    EXPECT_EQ(text(device), message);
    EXPECT_TRUE(device.status().isNoDevice());
  }
  FakeCuda fake;
  fake.deviceCount = 0;
  StatusOr<std::unique_ptr<Device>> device = createCudaDevice(fake.driver());
  EXPECT_EQ(text(device), message);
  EXPECT_TRUE(device.status().isNoDevice());
}

TEST(CudaDeviceTest, aDriverThatDoesNotStartIsAnError) {
  FakeCuda fake;
  fake.failAt("cuInit", 999);
  StatusOr<std::unique_ptr<Device>> device = createCudaDevice(fake.driver());
  EXPECT_EQ(text(device),
            planned("cuInit") +
                "\n  note: the driver is installed but does not start: check "
                "that its kernel module is loaded and of the same version");
  EXPECT_FALSE(device.status().isNoDevice());
}

TEST(CudaDeviceTest, refusesANumberWithoutDevice) {
  FakeCuda fake;
  fake.deviceCount = 2;
  for (int ordinal : {-1, 2})
    EXPECT_EQ(text(createCudaDevice(fake.driver(), ordinal)),
              "expects a device number from 0 to 1, but got " +
                  std::to_string(ordinal));
}

TEST(CudaDeviceTest, reportsEachCallThatFailsWhileOpening) {
  const std::pair<const char *, const char *> calls[] = {
      {"cuDeviceGetCount", "cuDeviceGetCount"},
      {"cuDeviceGet", "cuDeviceGet"},
      {"cuDeviceGetName", "cuDeviceGetName"},
      {"cuDeviceGetAttribute", "cuDeviceGetAttribute(75)"},
      {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain"},
      {"cuCtxGetCurrent", "cuCtxGetCurrent"},
      {"cuCtxSetCurrent", "cuCtxSetCurrent"},
      {"cuStreamCreate", "cuStreamCreate"}};
  for (const auto &[symbol, call] : calls) {
    FakeCuda fake; // checks that what was opened is closed again
    fake.failAt(symbol, 999);
    EXPECT_EQ(text(createCudaDevice(fake.driver())), planned(call));
  }
}

TEST(CudaDeviceTest, reportsEachMemoryCallThatFails) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  int word = 0;
  StatusOr<DeviceBuffer> buffer = DeviceBuffer::create(*device, 4);
  ASSERT_TRUE(buffer.ok());
  fake.failAt("cuMemAlloc", 2);
  EXPECT_EQ(text(device->allocate(64, "q")),
            "cuMemAlloc(64 bytes) failed: CUDA_ERROR_OUT_OF_MEMORY (2): as "
            "planned\n"
            "  note: the device is full: free memory or use a smaller problem");
  fake.failAt("cuMemcpyHtoDAsync", 999);
  EXPECT_EQ(text(device->copyToDevice(buffer->pointer(), &word, 4)),
            planned("cuMemcpyHtoDAsync"));
  fake.failAt("cuMemcpyDtoHAsync", 999);
  EXPECT_EQ(text(device->copyToHost(&word, buffer->pointer(), 4)),
            planned("cuMemcpyDtoHAsync"));
  fake.failAt("cuMemsetD32Async", 999);
  EXPECT_EQ(text(device->fill(buffer->pointer(), 0, 4)),
            planned("cuMemsetD32Async"));
  fake.failAt("cuStreamSynchronize", 999);
  EXPECT_EQ(text(device->synchronize()), planned("cuStreamSynchronize"));
  fake.failAt("cuMemFree", 999);
}

TEST(CudaDeviceTest, copiesAndFills) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  StatusOr<DeviceBuffer> buffer = DeviceBuffer::create(*device, 8);
  ASSERT_TRUE(buffer.ok());
  uint32_t words[2] = {1, 2}, back[2] = {};
  EXPECT_EQ(text(device->copyToDevice(buffer->pointer(), words, 8)), "");
  EXPECT_EQ(text(device->fill(buffer->pointer(), 7, 4)), "");
  EXPECT_EQ(text(device->copyToHost(back, buffer->pointer(), 8)), "");
  EXPECT_EQ(back[0], 7u);
  EXPECT_EQ(back[1], 2u);
}

TEST(CudaDeviceTest, anEmptyBufferTakesNoCopies) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  StatusOr<DeviceBuffer> buffer = DeviceBuffer::create(*device, 0);
  ASSERT_EQ(text(buffer), "");
  EXPECT_EQ(text(device->copyToDevice(buffer->pointer(), nullptr, 0)), "");
  EXPECT_EQ(text(device->copyToHost(nullptr, buffer->pointer(), 0)), "");
  EXPECT_EQ(text(device->fill(buffer->pointer(), 0, 0)), "");
  EXPECT_EQ(fake.calls("cuMemcpyHtoDAsync"), 0);
}

TEST(CudaDeviceTest, aMovedBufferIsFreedOnce) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  {
    StatusOr<DeviceBuffer> first = DeviceBuffer::create(*device, 16);
    StatusOr<DeviceBuffer> second = DeviceBuffer::create(*device, 16);
    ASSERT_TRUE(first.ok() && second.ok());
    *first = std::move(*second);
    EXPECT_EQ(fake.calls("cuMemFree"), 1);
    DeviceBuffer third(std::move(*first));
    EXPECT_EQ(third.bytes(), 16);
  }
  EXPECT_EQ(fake.calls("cuMemFree"), 2);
}

TEST(CudaDeviceTest, launchesWithArgumentsInOrder) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  ProblemRequest request = testRequest(2, 4, 2, 65, 48);
  request.offset = 24;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  PointerMap pointers = {
      {"q", 4096}, {"k", 8192}, {"v", 12288}, {"o", 16384}, {"lse", 20480}};
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(*problem, pointers, 1);
  ASSERT_EQ(text(launches), "");
  EXPECT_EQ(text(device->launch(**module, launches->front())), "");

  ASSERT_EQ(fake.launches.size(), 1u);
  const FakeCuda::Launch &launch = fake.launches[0];
  EXPECT_EQ(launch.kernel, "attention");
  EXPECT_EQ(launch.grid, (std::array<unsigned, 3>{2 * 4 * 2, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<unsigned, 3>{128, 1, 1}));
  EXPECT_EQ(launch.sharedBytes, 49152u);
  EXPECT_EQ(launch.arguments, (std::vector<uint64_t>{4096, 8192, 12288, 16384,
                                                     20480, 48, 48 * 16, 24}));
}

TEST(CudaDeviceTest, doesNotLaunchAnEmptyGrid) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  KernelLaunch launch = testLaunch();
  launch.grid = {0, 1, 1};
  EXPECT_EQ(text(device->launch(**module, launch)), "");
  EXPECT_EQ(fake.calls("cuLaunchKernel"), 0);
}

TEST(CudaDeviceTest, explainsALaunchThatFails) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  KernelLaunch launch = testLaunch();
  launch.grid = {3, 2, 1};
  fake.failAt("cuLaunchKernel", 999);
  EXPECT_EQ(text(device->launch(**module, launch)),
            planned("cuLaunchKernel") +
                "\n  note: kernel 'attention', grid 3x2x1, block 128x1x1, "
                "49152 bytes of dynamic shared memory, 128 registers a thread");
}

TEST(CudaDeviceTest, refusesAGridPastTheLimit) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  KernelLaunch launch = testLaunch();
  launch.grid = {1, 65536, 1};
  EXPECT_EQ(
      text(device->launch(**module, launch)),
      "kernel 'attention' needs 65536 blocks in direction y, but Fake GPU "
      "allows 65535\n  note: split the batch into several calls");
}

TEST(CudaDeviceTest, aKernelThatFaultsIsNamedWithItsProblem) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  StatusOr<Problem> problem = Problem::create(bundle, testRequest());
  ASSERT_EQ(text(problem), "");
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set), "");
  // The first three synchronize the uploads of q, k and v.
  fake.failAt("cuStreamSynchronize", cuda::CUDA_ERROR_ILLEGAL_ADDRESS, 3);
  Status status = runOnce(*device, **module, *set);
  EXPECT_EQ(text(status),
            "cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): as "
            "planned\n  note: while running attention for B1 H4/2 S32x48 D16 "
            "f16 lse");
  EXPECT_TRUE(status.isKernelFault());
}
