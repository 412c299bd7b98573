//===- EmulatorDeviceTest.cpp - The emulator as a device ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A hand-written kernel in a bundle: it runs, and what it does wrong is a
// kernel fault that names the buffer.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/Bundle.h"

#include <gtest/gtest.h>

#include <set>

using namespace flashcore;

namespace {
/// Adds 1 to 32 words.
constexpr char ptx[] = R"(
.version 8.0
.target sm_89
.address_size 64
.visible .entry add_one(.param .u64 p) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  add.s32 %r2, %r2, 1;
  st.global.u32 [%rd4], %r2;
  ret;
}
)";

Bundle makeBundle(std::string text) {
  Bundle bundle;
  bundle.directory = "test.fcb";
  bundle.chip.number = 89;
  bundle.ptx.chip.number = 89;
  bundle.ptx.file = "kernels.ptx";
  bundle.ptx.contents = std::move(text);
  KernelSpec kernel;
  kernel.name = "add_one";
  kernel.block = {32, 1, 1};
  kernel.arguments.resize(1);
  bundle.kernels.push_back(kernel);
  return bundle;
}

KernelLaunch makeLaunch(DevicePointer pointer) {
  KernelLaunch launch;
  launch.name = "add_one";
  launch.block = {32, 1, 1};
  launch.arguments = {pointer};
  return launch;
}

TEST(EmulatorDeviceTest, runsPtx) {
  auto device = createEmulatorDevice();
  Bundle bundle = makeBundle(ptx);
  auto module = device->load(bundle);
  ASSERT_TRUE(module.ok()) << module.status().str();
  EXPECT_EQ((*module)->code(), "PTX sm_89 on the emulator");
  auto buffer = DeviceBuffer::create(*device, 32 * sizeof(uint32_t));
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(device->fill(buffer->pointer(), 41, buffer->bytes()).ok());
  ASSERT_TRUE(device->launch(**module, makeLaunch(buffer->pointer())).ok());
  ASSERT_TRUE(device->synchronize().ok());
  uint32_t words[32] = {};
  ASSERT_TRUE(
      device->copyToHost(words, buffer->pointer(), buffer->bytes()).ok());
  for (uint32_t word : words)
    EXPECT_EQ(word, 42u);
}

TEST(EmulatorDeviceTest, findingIsAKernelFault) {
  auto device = createEmulatorDevice();
  Bundle bundle = makeBundle(ptx);
  auto module = device->load(bundle);
  ASSERT_TRUE(module.ok()) << module.status().str();
  auto buffer = DeviceBuffer::create(*device, 16 * sizeof(uint32_t));
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(device->fill(buffer->pointer(), 41, buffer->bytes()).ok());
  Status status = device->launch(**module, makeLaunch(buffer->pointer()));
  EXPECT_TRUE(status.isKernelFault());
  EXPECT_EQ(status.message().rfind("kernel 'add_one' has ", 0), 0u);
  ASSERT_FALSE(status.notes().empty());
  EXPECT_NE(
      status.notes().front().find("past the end of 'buffer 0' (64 bytes)"),
      std::string::npos)
      << status.str();
  EXPECT_NE(status.report().find("\"kind\": \"out-of-bounds\""),
            std::string::npos);
  EXPECT_EQ(Status::error("another").report(), "");
}

TEST(EmulatorDeviceTest, findingsNameTheTensor) {
  auto device = createEmulatorDevice();
  EXPECT_TRUE(device->info().checksBounds);
  Bundle bundle = makeBundle(ptx);
  auto module = device->load(bundle);
  ASSERT_TRUE(module.ok()) << module.status().str();
  auto buffer = DeviceBuffer::create(*device, 16 * sizeof(uint32_t), "v");
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(device->fill(buffer->pointer(), 41, buffer->bytes()).ok());
  Status status = device->launch(**module, makeLaunch(buffer->pointer()));
  ASSERT_FALSE(status.notes().empty());
  EXPECT_NE(
      status.notes().front().find("0 bytes past the end of 'v' (64 bytes)"),
      std::string::npos)
      << status.str();
}

TEST(EmulatorDeviceTest, refusesHugeBuffers) {
  auto device = createEmulatorDevice();
  auto pointer = device->allocate(int64_t(1) << 40, "v");
  ASSERT_FALSE(pointer.ok());
  EXPECT_EQ(pointer.status().message(),
            "the emulator has buffers of at most 34359738368 bytes, but got "
            "1099511627776");
}

// A program that runs for long must not grow with each buffer it had.
TEST(EmulatorDeviceTest, usesAddressesAgain) {
  auto device = createEmulatorDevice({{"check", "memory,init"}});
  ASSERT_TRUE(device.ok());
  Bundle bundle = makeBundle(ptx);
  auto module = (*device)->load(bundle);
  std::set<DevicePointer> addresses;
  DevicePointer last = 0;
  for (int i = 0; i < 5000; ++i) {
    auto buffer = DeviceBuffer::create(**device, 32 * sizeof(uint32_t), "b");
    ASSERT_TRUE(buffer.ok());
    addresses.insert(last = buffer->pointer());
    if (i == 4999) { // poison, though another buffer was written there
      Status status = (*device)->launch(**module, makeLaunch(last));
      EXPECT_TRUE(status.isKernelFault());
    }
    ASSERT_TRUE((*device)->fill(last, 7, buffer->bytes()).ok());
    if (i == 4999)
      EXPECT_TRUE((*device)->launch(**module, makeLaunch(last)).ok());
  }
  EXPECT_EQ(addresses.size(), 1024u);
  uint32_t word = 0;
  EXPECT_FALSE((*device)->copyToHost(&word, last, 4).ok()); // released
}

TEST(EmulatorDeviceTest, takesOptions) {
  // Reading what nobody wrote is a finding, unless that check is off.
  auto runUnwritten = [](const EmulatorOptions &options) {
    auto device = createEmulatorDevice(options);
    EXPECT_TRUE(device.ok());
    auto module = (*device)->load(makeBundle(ptx));
    auto buffer = DeviceBuffer::create(**device, 32 * sizeof(uint32_t));
    return (*device)->launch(**module, makeLaunch(buffer->pointer()));
  };
  EXPECT_TRUE(runUnwritten({}).isKernelFault());
  EXPECT_TRUE(runUnwritten({{"check", "memory,race"},
                            {"mma", "plain"},
                            {"schedule", "random:3"},
                            {"async", "eager"},
                            {"threads", "0"}})
                  .ok());
}

TEST(EmulatorDeviceTest, hasTheMultiprocessorsOfItsOption) {
  EXPECT_EQ(createEmulatorDevice()->info().limits.multiprocessors, 132);
  auto device = createEmulatorDevice({{"multiprocessors", "3"}});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->info().limits.multiprocessors, 3);
}

TEST(EmulatorDeviceTest, refusesBadOptions) {
  auto device = createEmulatorDevice({{"mma", "sm70"}});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().message(),
            "option 'mma' of the emulator expects auto, plain, sm80 or sm90, "
            "but got 'sm70'");
  EXPECT_EQ(createEmulatorDevice({{"speed", "9"}}).status().message(),
            "option 'speed' of the emulator is unknown");
  for (const char *number : {"0", "-1", "two", "2x", "", "1048577"})
    EXPECT_EQ(
        createEmulatorDevice({{"multiprocessors", number}}).status().message(),
        "option 'multiprocessors' of the emulator expects 1 to 1048576, but "
        "got '" +
            std::string(number) + "'");
}

TEST(EmulatorDeviceTest, refusesWhatItCannotParse) {
  auto device = createEmulatorDevice();
  Bundle bundle = makeBundle("nonsense");
  auto module = device->load(bundle);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().message().rfind(
                "the emulator cannot load kernel 'add_one': "
                "test.fcb/kernels.ptx:1:1: error: ",
                0),
            0u)
      << module.status().str();
}

TEST(EmulatorDeviceTest, refusesToTime) {
  auto device = createEmulatorDevice();
  Bundle bundle = makeBundle(ptx);
  auto module = device->load(bundle);
  ASSERT_TRUE(module.ok());
  std::vector<std::vector<KernelLaunch>> sets = {{makeLaunch(0)}};
  auto timing = device->time(**module, sets, {});
  ASSERT_FALSE(timing.ok());
  EXPECT_EQ(timing.status().message(),
            "the emulator cannot time a kernel: its speed says nothing of a "
            "GPU's; use --device=cuda");
}
} // namespace
