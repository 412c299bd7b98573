//===- LocaleTest.cpp - A program in another language ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program that uses the runtime may have set a locale in which 0.5 is "0,5"
// and 1000 is "1.000". Files and messages are the same there.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/EmulatorDevice.h"

#include <clocale>
#include <cstdio>
#include <cstdlib>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class LocaleTest : public ::testing::Test {
protected:
  void SetUp() override {
    // Made here: a small machine has none but C.
    std::string command = "localedef -i de_DE -f UTF-8 " +
                          scratch.file("de_DE.UTF-8") + " >/dev/null 2>&1";
    setenv("LOCPATH", scratch.path().c_str(), 1);
    if (std::system(command.c_str()) || !std::setlocale(LC_ALL, "de_DE.UTF-8"))
      GTEST_SKIP() << "localedef cannot make a German locale";
    char number[8];
    std::snprintf(number, sizeof(number), "%g", 0.5);
    ASSERT_STREQ(number, "0,5");
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
  }

  ScratchDirectory scratch;
};
} // namespace

TEST_F(LocaleTest, doesNotChangeABundle) {
  nlohmann::json manifest = testManifest();
  manifest["attention"]["softcap"] = 2.5;
  writeBundle(scratch.path(), manifest);
  StatusOr<Bundle> bundle = Bundle::load(scratch.path());
  ASSERT_EQ(text(bundle), "");
  EXPECT_EQ(bundle->attention.softmaxScale, 0.25);
  EXPECT_EQ(bundle->attention.softcap, 2.5);
  StatusOr<Problem> problem =
      Problem::create(*bundle, testRequest(1, 4, 2, 1 << 20, 48));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->str(), "B1 H4/2 1048576x48 D16 f16 softcap=2.5");
}

TEST_F(LocaleTest, doesNotChangeWhatTheEmulatorReads) {
  Bundle bundle = loadTestBundle();
  bundle.kernels[0].arguments.resize(1);
  bundle.ptx.contents = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry attention(.param .u64 out) {
  .reg .b64 %rd<2>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [out];
  mov.f32 %f1, 1.5;
  st.global.f32 [%rd1], %f1;
  ret;
}
)";
  auto device = createEmulatorDevice();
  auto module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  auto out = DeviceBuffer::create(*device, 4, "out");
  ASSERT_EQ(text(out), "");
  KernelLaunch launch;
  launch.name = "attention";
  launch.block = bundle.kernels[0].block;
  launch.dynamicSharedMemory = bundle.kernels[0].dynamicSharedMemory;
  launch.arguments = {out->pointer()};
  // All threads write the same word, which one of its checks reports.
  (void)device->launch(**module, launch);
  float value = 0;
  ASSERT_EQ(text(device->copyToHost(&value, out->pointer(), 4)), "");
  EXPECT_EQ(value, 1.5f);
}
