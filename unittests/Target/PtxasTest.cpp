//===- PtxasTest.cpp - Reading what ptxas reports -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Ptxas.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
TEST(PtxasReport, ReadsEveryFieldOfAKernel) {
  auto kernels = parsePtxasReport(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'attention' for 'sm_89'\n"
      "ptxas info    : Function properties for attention\n"
      "    48 bytes stack frame, 40 bytes spill stores, 36 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 48 bytes "
      "cumulative "
      "stack size, 1024 bytes smem, 400 bytes cmem[0]\n"
      "ptxas info    : Compile time = 61.410 ms\n");
  ASSERT_EQ(kernels.size(), 1u);
  KernelResources used = kernels.lookup("attention");
  EXPECT_EQ(used.registers, 255);
  EXPECT_EQ(used.stackFrame, 48);
  EXPECT_EQ(used.spillStores, 40);
  EXPECT_EQ(used.spillLoads, 36);
  EXPECT_EQ(used.staticSharedMemory, 1024);
}

TEST(PtxasReport, LeavesOutStaticSharedMemoryWhenThereIsNone) {
  auto kernels = parsePtxasReport(
      "ptxas info    : Compiling entry function 'attention' for 'sm_89'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 400 bytes "
      "cmem[0]\n");
  KernelResources used = kernels.lookup("attention");
  EXPECT_EQ(used.registers, 168);
  EXPECT_EQ(used.staticSharedMemory, 0);
}

TEST(PtxasReport, KeepsKernelsApart) {
  auto kernels = parsePtxasReport(
      "ptxas info    : Compiling entry function 'first' for 'sm_89'\n"
      "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Used 40 registers, 16 bytes smem\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_89'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 50 registers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels.lookup("first").registers, 40);
  EXPECT_EQ(kernels.lookup("first").spillStores, 4);
  EXPECT_EQ(kernels.lookup("first").staticSharedMemory, 16);
  EXPECT_EQ(kernels.lookup("second").registers, 50);
  EXPECT_EQ(kernels.lookup("second").spillStores, 0);
  EXPECT_EQ(kernels.lookup("second").staticSharedMemory, 0);
}

TEST(PtxasReport, TellsOfSerializedProducts) {
  EXPECT_EQ(findSerializedProducts(
                "ptxas info    : (C7512) Potential Performance Loss: "
                "wgmma.mma_async instructions are serialized due to "
                "insufficient register resources for the wgmma pipeline in "
                "the function 'attention'\r\nptxas info    : 0 bytes gmem\n"),
            "(C7512) Potential Performance Loss: wgmma.mma_async instructions "
            "are serialized due to insufficient register resources for the "
            "wgmma pipeline in the function 'attention'");
  EXPECT_EQ(
      findSerializedProducts("ptxas info    : (C7508) setmaxnreg ignored"),
      "(C7508) setmaxnreg ignored");
  EXPECT_EQ(findSerializedProducts("ptxas info    : 0 bytes gmem\n"), "");
  EXPECT_EQ(findSerializedProducts("ptxas warning : (C7400) other"), "");
}

TEST(PtxasReport, IgnoresTextBeforeTheFirstKernel) {
  auto kernels =
      parsePtxasReport("ptxas info    : Used 99 registers\n"
                       "ptxas warning : Unresolved extern variable 'shared'\n");
  EXPECT_TRUE(kernels.empty());
}

TEST(PtxasReport, OfNothingIsEmpty) {
  EXPECT_TRUE(parsePtxasReport("").empty());
}
} // namespace
