//===- CudaModuleTest.cpp - Loading code on a GPU -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Choice of the code, limits before and after loading, and each failing call.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

using namespace flashcore;
using namespace flashcore::testing;

static const std::string from =
    "\n  note: loading cubin sm_89 from test.fcb/kernels.sm_89.cubin";

/// What loading a bundle says.
static std::string load(FakeCuda &fake,
                        const nlohmann::json &manifest = testManifest()) {
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle(manifest);
  return text(device->load(bundle));
}

static std::string planned(const std::string &call) {
  return call + " failed: CUDA_ERROR_FAKE (999): as planned";
}

TEST(CudaModuleTest, loadsTheCubinThatFits) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  EXPECT_EQ((*module)->code(), "cubin sm_89");
  EXPECT_EQ(fake.image, testCubin);
  ASSERT_EQ((*module)->kernels().size(), 1u);
  EXPECT_EQ((*module)->kernels()[0].registers, 128);
  EXPECT_EQ((*module)->kernels()[0].staticSharedMemory, 16);
  EXPECT_EQ(
      fake.setAttributes[cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES],
      49152);
}

namespace {
/// A bundle for sm_80, and for sm_90a with wgmma, on a device of 9.0.
class VariantsTest : public ::testing::Test {
protected:
  VariantsTest() {
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
    variants = {loadTestBundle(), loadTestBundle()};
    variants[1].chip = variants[1].ptx.chip = {90, 'a'};
    variants[1].cubins.clear();
    variants[1].ptx.contents += "// wgmma.fence\n";
    device = fake.open();
  }

  FakeCuda fake;
  std::vector<Bundle> variants;
  std::unique_ptr<Device> device;
};
} // namespace

TEST_F(VariantsTest, loadsTheBest) {
  StatusOr<LoadedVariant> loaded = device->loadBest(variants);
  ASSERT_EQ(text(loaded), "");
  EXPECT_EQ(loaded->variant, 1u);
  EXPECT_EQ(loaded->module->code(), "PTX sm_90a");
  EXPECT_EQ(loaded->module->warning(), "");
}

TEST_F(VariantsTest, warnsWhereTheBestWouldBeSlow) {
  fake.infoLog = "ptxas info : (C7509) Potential Performance Loss";
  StatusOr<LoadedVariant> loaded = device->loadBest(variants);
  ASSERT_EQ(text(loaded), "");
  EXPECT_EQ(loaded->variant, 0u);
  EXPECT_EQ(loaded->module->code(), "PTX sm_80");
  EXPECT_EQ(loaded->module->warning(),
            "the kernels for sm_80 run in the place of those for sm_90a: the "
            "driver's assembler makes slow code of these kernels: (C7509) "
            "Potential Performance Loss\n  note: compile the bundle with a "
            "ptxas, so that it holds a cubin\n  note: loading PTX sm_90a from "
            "test.fcb/kernels.ptx");
}

TEST_F(VariantsTest, takesAnotherForAnyError) {
  fake.failOnce("cuModuleLoadDataEx", cuda::CUDA_ERROR_INVALID_PTX);
  StatusOr<LoadedVariant> loaded = device->loadBest(variants);
  ASSERT_EQ(text(loaded), "");
  EXPECT_EQ(loaded->variant, 0u);
  EXPECT_NE(loaded->module->warning(), "");
}

TEST_F(VariantsTest, saysWhyTheBestFailsWhereAllDo) {
  fake.failAt("cuModuleGetFunction", 999);
  EXPECT_EQ(text(device->loadBest(variants)),
            planned("cuModuleGetFunction") +
                "\n  note: looking for kernel 'attention'\n"
                "  note: loading PTX sm_90a from test.fcb/kernels.ptx");
}

TEST_F(VariantsTest, refusesADeviceThatRunsNone) {
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 7;
  device.reset();
  device = fake.open();
  EXPECT_EQ(text(device->loadBest(variants)),
            text(chooseCode(variants[0], device->info())));
}

// 12.0 runs the PTX of sm_90, but gives a block as little as 8.9 does.
TEST_F(VariantsTest, takesTheNewestThatTheDeviceHasRoomFor) {
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 12;
  device.reset();
  device = fake.open();
  variants[1].chip = variants[1].ptx.chip = {90, 0};
  EXPECT_EQ(device->loadBest(variants)->variant, 1u);
  variants[1].kernels[0].dynamicSharedMemory = 192 * 1024;
  StatusOr<LoadedVariant> loaded = device->loadBest(variants);
  ASSERT_EQ(text(loaded), "");
  EXPECT_EQ(loaded->variant, 0u);
  EXPECT_EQ(loaded->module->warning(), "");
}

TEST(CudaModuleTest, loadsThePtxOnANewerChip) {
  FakeCuda fake;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
  std::unique_ptr<Device> device = fake.open();
  Bundle bundle = loadTestBundle();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  EXPECT_EQ((*module)->code(), "PTX sm_80");
  EXPECT_EQ(fake.image, testPtx);
}

TEST(CudaModuleTest, refusesAnOlderChip) {
  FakeCuda fake;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 7;
  fake.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 5;
  EXPECT_EQ(load(fake), "expects a device that runs sm_80 code, but got sm_75\n"
                        "  note: the bundle test.fcb holds PTX for sm_80 and "
                        "cubins for sm_89\n"
                        "  note: compile it again for sm_75");
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 0);
}

TEST(CudaModuleTest, keepsTheLogOfTheAssembler) {
  FakeCuda fake;
  fake.jitLog = "ptxas line 7: unknown opcode";
  fake.failAt("cuModuleLoadDataEx", cuda::CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load(fake), "cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX "
                        "(218): as planned\n"
                        "  note: ptxas line 7: unknown opcode" +
                            from);
}

TEST(CudaModuleTest, explainsPtxNewerThanTheDriver) {
  FakeCuda fake;
  fake.failAt("cuModuleLoadDataEx", cuda::CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(load(fake),
            "cuModuleLoadDataEx failed: CUDA_ERROR_FAKE (222): as planned\n"
            "  note: the PTX is newer than the driver, which is for CUDA 12.4: "
            "install a newer driver, or compile for an older PTX version" +
                from);
}

TEST(CudaModuleTest, reportsAKernelThatIsNotThere) {
  FakeCuda fake;
  fake.failAt("cuModuleGetFunction", 999);
  EXPECT_EQ(load(fake), planned("cuModuleGetFunction") +
                            "\n  note: looking for kernel 'attention'" + from);
}

TEST(CudaModuleTest, reportsAFailingQuery) {
  FakeCuda fake;
  fake.failAt("cuFuncGetAttribute", 999);
  EXPECT_EQ(load(fake), planned("cuFuncGetAttribute(4)") +
                            "\n  note: kernel 'attention'" + from);
}

TEST(CudaModuleTest, reportsAFailingOptIn) {
  FakeCuda fake;
  fake.failAt("cuFuncSetAttribute", 999);
  EXPECT_EQ(load(fake),
            planned("cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)") +
                "\n  note: kernel 'attention', 49152 bytes" + from);
}

TEST(CudaModuleTest, refusesSharedMemoryBeforeLoading) {
  FakeCuda fake;
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["dynamic_shared_memory"] = 101376;
  EXPECT_EQ(load(fake, manifest),
            "kernel 'attention' needs 101392 bytes of shared memory per block, "
            "but Fake GPU allows 101376\n"
            "  note: use fewer stages or a smaller BLOCK_N\n"
            "  note: compile it again for sm_89");
  EXPECT_EQ(fake.calls("cuModuleLoadDataEx"), 0);
}

TEST(CudaModuleTest, refusesStaticSharedMemoryThatOnlyTheDriverKnows) {
  FakeCuda fake;
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["resources"] = nullptr;
  fake.functionAttributes[cuda::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = 65536;
  EXPECT_EQ(load(fake, manifest),
            "kernel 'attention' needs 114688 bytes of shared memory per block, "
            "but Fake GPU allows 101376\n"
            "  note: use fewer stages or a smaller BLOCK_N" +
                from);
}

TEST(CudaModuleTest, refusesTooManyThreads) {
  FakeCuda fake;
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["block"] = {1024, 2, 1};
  EXPECT_EQ(load(fake, manifest),
            "kernel 'attention' needs 2048 threads per block, but Fake GPU "
            "allows 1024\n  note: use fewer warps");
}

TEST(CudaModuleTest, refusesABlockPastOneLimit) {
  FakeCuda fake;
  nlohmann::json manifest = testManifest();
  manifest["kernels"][0]["block"] = {1, 1, 128};
  EXPECT_EQ(load(fake, manifest),
            "kernel 'attention' needs a block of 128 threads in direction z, "
            "but Fake GPU allows 64");
}

TEST(CudaModuleTest, refusesRegistersThatDoNotFitTheBlock) {
  FakeCuda fake;
  fake.functionAttributes[cuda::CU_FUNC_ATTRIBUTE_NUM_REGS] = 255;
  fake.functionAttributes[cuda::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 96;
  EXPECT_EQ(load(fake),
            "kernel 'attention' needs 128 threads per block, but with 255 "
            "registers a thread the device allows 96\n"
            "  note: use fewer warps or smaller tiles" +
                from);
}
