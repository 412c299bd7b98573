//===- CApiTest.cpp - The C interface of the runtime ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs CApiTest.c, and what C cannot test: threads, a GPU that is a fake, and
// exceptions.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "NaiveBundle.h"

#include "capi/Runtime.h"
#include "capi/Status.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

using namespace flashcore;
using namespace flashcore::testing;

extern "C" int flashcoreRunCApiTest(const char *path);

namespace {
/// The message of a status, which is destroyed.
std::string take(FlashCoreStatus status) {
  std::string message = flashcoreStatusGetMessage(status);
  flashcoreStatusDestroy(status);
  return message;
}

/// q, k, v, o and lse of one head and one row of each sequence, whose strides
/// say nothing.
constexpr int64_t sizes[] = {1, 1, 1, 16}, strides[] = {0, 0, 0, 1};
constexpr FlashCoreTensor tensors[] = {{"q", sizes, strides, 4},
                                       {"k", sizes, strides, 4},
                                       {"v", sizes, strides, 4},
                                       {"o", sizes, strides, 4},
                                       {"lse", sizes, strides, 3}};

class CApiTest : public ::testing::Test {
protected:
  void writeAndLoad(const nlohmann::json &manifest) {
    writeBundle(scratch.path(), manifest);
    ASSERT_EQ(take(flashcoreBundleLoad(scratch.path().c_str(), &bundle)), "");
  }
  FlashCoreModule load(FlashCoreDevice device) {
    FlashCoreModule module;
    EXPECT_EQ(take(flashcoreModuleLoad(device, bundle, &module)), "");
    return module;
  }
  FlashCorePlan plan(FlashCoreModule module) {
    FlashCorePlan plan;
    EXPECT_EQ(take(flashcorePlanCreate(module, tensors, 5, &plan)), "");
    return plan;
  }
  void TearDown() override { flashcoreBundleDestroy(bundle); }

  ScratchDirectory scratch;
  FlashCoreBundle bundle = {nullptr};
};
} // namespace

TEST_F(CApiTest, holdsFromC) {
  writeBundle(scratch.path(), naiveManifest());
  EXPECT_EQ(flashcoreRunCApiTest(scratch.path().c_str()), 0);
}

TEST_F(CApiTest, givesTheManifestAsItStands) {
  writeAndLoad(naiveManifest());
  EXPECT_EQ(flashcoreBundleGetManifest(bundle),
            withVariants(naiveManifest()).dump(2));
}

// With one key, o is v.
TEST_F(CApiTest, threadsQueueForTheEmulator) {
  writeAndLoad(naiveManifest());
  FlashCoreDevice device;
  ASSERT_EQ(take(flashcoreDeviceCreateEmulator(nullptr, &device)), "");
  FlashCoreModule module = load(device);
  FlashCorePlan shared = plan(module);
  auto run = [&](uint16_t value) {
    uint16_t row[16];
    std::fill(std::begin(row), std::end(row), value);
    for (int repeat = 0; repeat < 20; ++repeat) {
      uint64_t pointers[5];
      for (uint64_t &pointer : pointers) {
        EXPECT_EQ(take(flashcoreDeviceAllocate(device, 32, "row", &pointer)),
                  "");
        EXPECT_EQ(take(flashcoreDeviceCopyToDevice(device, pointer, row, 32)),
                  "");
      }
      EXPECT_EQ(take(flashcorePlanLaunch(shared, pointers, 0, nullptr)), "");
      uint16_t o[16] = {};
      EXPECT_EQ(take(flashcoreDeviceCopyToHost(device, o, pointers[3], 32)),
                "");
      EXPECT_EQ(std::memcmp(o, row, 32), 0);
      for (uint64_t pointer : pointers)
        EXPECT_EQ(take(flashcoreDeviceFree(device, pointer)), "");
    }
  };
  std::vector<std::thread> threads;
  for (uint16_t i = 0; i < 4; ++i)
    threads.emplace_back(run, static_cast<uint16_t>(0x3c00 + i));
  for (std::thread &thread : threads)
    thread.join();
  flashcorePlanDestroy(shared);
  flashcoreModuleDestroy(module);
  flashcoreDeviceDestroy(device);
}

TEST_F(CApiTest, asksALoadedGpu) {
  FakeCuda fake; // checks that everything is destroyed
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
  fake.functionAttributes[cuda::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = 24;
  fake.infoLog = "info : Used 128 registers";
  writeAndLoad(testManifest());
  FlashCoreDevice device = capi::wrapDevice(fake.open());
  EXPECT_STREQ(flashcoreDeviceGetKind(device), "cuda");
  EXPECT_STREQ(flashcoreDeviceGetName(device), "Fake GPU");
  EXPECT_STREQ(flashcoreDeviceGetChip(device), "sm_90");
  EXPECT_EQ(flashcoreDeviceGetMultiprocessors(device), 58);
  EXPECT_EQ(flashcoreDeviceGetSharedMemoryPerBlock(device), 101376);
  EXPECT_EQ(flashcoreDeviceGetSharedMemoryPerBlock({nullptr}), 0);
  EXPECT_TRUE(flashcoreDeviceRuns(device, bundle));
  EXPECT_FALSE(flashcoreDeviceRuns(device, {nullptr}));
  FlashCoreModule module = load(device);
  EXPECT_STREQ(flashcoreModuleGetCode(module), "PTX sm_80");
  EXPECT_STREQ(flashcoreModuleGetLog(module), "info : Used 128 registers");
  ASSERT_EQ(flashcoreModuleGetNumKernels(module), 1u);
  EXPECT_EQ(flashcoreModuleGetKernelRegisters(module, 0), 128);
  EXPECT_EQ(flashcoreModuleGetKernelLocalBytes(module, 0), 24);
  EXPECT_EQ(flashcoreModuleGetKernelSharedBytes(module, 0), 49152 + 16);
  flashcoreDeviceDestroy(device);
  flashcoreModuleDestroy(module);
}

TEST_F(CApiTest, saysWhatAGpuHasNoRoomFor) {
  FakeCuda fake;
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["dynamic_shared_memory"] = 192 * 1024;
  writeAndLoad(manifest);
  FlashCoreDevice device = capi::wrapDevice(fake.open());
  EXPECT_FALSE(flashcoreDeviceRuns(device, bundle));
  FlashCoreModule module;
  EXPECT_NE(take(flashcoreModuleLoad(device, bundle, &module)), "");
  flashcoreDeviceDestroy(device);
}

TEST_F(CApiTest, launchesIntoTheStreamOfTheCaller) {
  FakeCuda fake;
  writeAndLoad(testManifest());
  FlashCoreDevice device = capi::wrapDevice(fake.open());
  FlashCoreModule module = load(device);
  FlashCorePlan made = plan(module);
  flashcoreDeviceDestroy(device);
  flashcoreModuleDestroy(module);
  const uint64_t pointers[] = {0x1000, 0x2000, 0x3000, 0x4000, 0x5000};
  for (void *stream :
       {(void *)nullptr, FLASHCORE_STREAM_LEGACY, FLASHCORE_STREAM_PER_THREAD})
    EXPECT_EQ(take(flashcorePlanLaunch(made, pointers, 0, stream)), "");
  ASSERT_EQ(fake.launches.size(), 3u);
  EXPECT_EQ(
      fake.launches[0].arguments,
      (std::vector<uint64_t>{0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 1, 8, 0}));
  EXPECT_EQ((void *)fake.launches[1].stream, FLASHCORE_STREAM_LEGACY);
  EXPECT_EQ((void *)fake.launches[2].stream, FLASHCORE_STREAM_PER_THREAD);
  flashcorePlanDestroy(made);
}

constexpr const char *storePtx = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry store(.param .u64 out, .param .u64 number) {
  .reg .b64 %o, %n;
  ld.param.u64 %o, [out];
  ld.param.u64 %n, [number];
  st.global.u64 [%o], %n;
  ret;
})";

TEST_F(CApiTest, runsOneKernelOfAnyPtx) {
  FlashCoreDevice device;
  FlashCoreModule module;
  ASSERT_EQ(take(flashcoreDeviceCreateEmulator(nullptr, &device)), "");
  constexpr int64_t one[] = {1, 1, 1}, none[] = {1, 0, 1};
  ASSERT_EQ(
      take(flashcoreModuleLoadPtx(device, storePtx, "store", one, 0, &module)),
      "");
  EXPECT_STREQ(flashcoreModuleGetKernelName(module, 0), "store");
  uint64_t arguments[] = {0, 77}, stored = 0;
  ASSERT_EQ(take(flashcoreDeviceAllocate(device, 8, "out", arguments)), "");
  EXPECT_EQ(take(flashcoreModuleLaunch(module, 0, one, arguments, 2, nullptr)),
            "");
  EXPECT_EQ(take(flashcoreDeviceCopyToHost(device, &stored, arguments[0], 8)),
            "");
  EXPECT_EQ(stored, 77u);

  EXPECT_EQ(take(flashcoreModuleLaunch(module, 0, one, arguments, 1, nullptr)),
            "kernel 'store' expects 2 arguments, but got 1");
  EXPECT_EQ(take(flashcoreModuleLaunch(module, 1, one, arguments, 2, nullptr)),
            "expects the number of one of 1 kernels, but got 1");
  FlashCorePlan plan;
  EXPECT_EQ(take(flashcorePlanCreate(module, tensors, 5, &plan)),
            "expects a module of a bundle, but got one of other PTX: launch it "
            "with flashcoreModuleLaunch");
  flashcoreModuleDestroy(module);
  EXPECT_EQ(
      take(flashcoreModuleLoadPtx(device, storePtx, "other", one, 0, &module)),
      "expects PTX with a kernel 'other', but got none of that name");
  EXPECT_EQ(
      take(flashcoreModuleLoadPtx(device, storePtx, "store", none, 0, &module)),
      "expects a block of at least 1 thread in direction y, but got 0");
  flashcoreDeviceDestroy(device);
}

TEST_F(CApiTest, tellsKindsApart) {
  using capi::wrap;
  const std::pair<FlashCoreStatus, FlashCoreStatusKind> kinds[] = {
      {wrap(Status::success()), FlashCoreStatusSuccess},
      {wrap(Status::error("a")), FlashCoreStatusError},
      {wrap(Status::noDevice("a")), FlashCoreStatusNoDevice},
      {wrap(Status::kernelFault("a").note("b")), FlashCoreStatusKernelFault},
      {capi::fail(FlashCoreStatusUnsupported, "a"),
       FlashCoreStatusUnsupported}};
  for (const auto &[status, kind] : kinds) {
    EXPECT_EQ(flashcoreStatusGetKind(status), kind);
    EXPECT_EQ(flashcoreStatusIsSuccess(status), kind == FlashCoreStatusSuccess);
    EXPECT_EQ(take(status), kind == FlashCoreStatusSuccess ? ""
                            : kind == FlashCoreStatusKernelFault
                                ? "a\n  note: b"
                                : "a");
  }
}

TEST_F(CApiTest, faultsHaveTheReportOfTheEmulator) {
  for (const std::string report : {"", "{\"findings\": []}"}) {
    FlashCoreStatus status =
        capi::wrap(Status::kernelFault("a").attachReport(report));
    EXPECT_EQ(flashcoreStatusGetReport(status), report);
    flashcoreStatusDestroy(status);
  }
  EXPECT_STREQ(flashcoreStatusGetReport({nullptr}), "");
}

TEST_F(CApiTest, endsExceptions) {
  EXPECT_EQ(
      take(capi::guarded([]() -> FlashCoreStatus { throw std::bad_alloc(); })),
      "out of memory");
}

TEST_F(CApiTest, keepsStrings) {
  FlashCoreString string = capi::wrapString(std::string("a\0b", 3));
  EXPECT_EQ(flashcoreStringGetLength(string), 3u);
  EXPECT_EQ(std::memcmp(flashcoreStringGetData(string), "a\0b", 4), 0);
  flashcoreStringDestroy(string);
}
