//===- CudaDriverTest.cpp - Finding and explaining the driver -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Resolution of the entry points, and the text of driver errors.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TestBundle.h"

#include <set>

using namespace flashcore;
using namespace flashcore::testing;

TEST(CudaDriverTest, resolvesEveryEntryPoint) {
  std::set<std::string> symbols;
  int target = 0;
  StatusOr<CudaDriver> driver = resolveCudaDriver([&](const char *symbol) {
    symbols.insert(symbol);
    return static_cast<void *>(&target);
  });
  ASSERT_EQ(text(driver), "");
#define CHECK_MEMBER(member, symbol, parameters)                               \
  EXPECT_EQ(reinterpret_cast<void *>(driver->member), &target) << #symbol;     \
  EXPECT_TRUE(symbols.contains(#symbol));
  FLASHCORE_CUDA_ENTRY_POINTS(CHECK_MEMBER)
  FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(CHECK_MEMBER)
#undef CHECK_MEMBER
}

TEST(CudaDriverTest, takesADriverWithoutTheOptionalEntryPoints) {
  int target = 0;
#define IS_OPTIONAL(member, symbol, parameters)                                \
  if (std::string_view(name) == #symbol)                                       \
    return nullptr;
  StatusOr<CudaDriver> driver =
      resolveCudaDriver([&](const char *name) -> void * {
        FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(IS_OPTIONAL)
        return &target;
      });
#undef IS_OPTIONAL
  ASSERT_EQ(text(driver), "");
  EXPECT_EQ(driver->funcGetParamInfo, nullptr);
  EXPECT_EQ(driver->tensorMapEncodeTiled, nullptr);
}

TEST(CudaDriverTest, namesTheMissingEntryPoint) {
  int target = 0;
#define CHECK_MISSING(member, symbol, parameters)                              \
  EXPECT_EQ(text(resolveCudaDriver([&](const char *name) -> void * {           \
              return std::string_view(name) == #symbol ? nullptr : &target;    \
            })),                                                               \
            "expects the CUDA driver to have " #symbol ", but it has not\n"    \
            "  note: the driver is too old: install one for CUDA 12 or "       \
            "newer");
  FLASHCORE_CUDA_ENTRY_POINTS(CHECK_MISSING)
#undef CHECK_MISSING
}

TEST(CudaDriverTest, theFakeIsComplete) {
  FakeCuda fake;
  CudaDriver driver = fake.driver();
#define CHECK_MEMBER(member, symbol, parameters)                               \
  EXPECT_NE(driver.member, nullptr) << #symbol;
  FLASHCORE_CUDA_ENTRY_POINTS(CHECK_MEMBER)
  FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(CHECK_MEMBER)
#undef CHECK_MEMBER
}

TEST(CudaDriverTest, explainsAnError) {
  FakeCuda fake;
  EXPECT_EQ(
      cudaError(fake.driver(), 700, "cuLaunchKernel").str(),
      "cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): as "
      "planned\n  note: an earlier kernel failed and spoiled the context: "
      "destroy the device and open it again");
  EXPECT_EQ(cudaError(fake.driver(), 709, "cuMemFree").str(),
            "cuMemFree failed: CUDA_ERROR_FAKE (709): as planned\n"
            "  note: the context is lost: destroy the device and open it "
            "again");
  EXPECT_EQ(cudaError(fake.driver(), 999, "cuMemFree").str(),
            "cuMemFree failed: CUDA_ERROR_FAKE (999): as planned");
}

TEST(CudaDriverTest, survivesAnErrorThatTheDriverCannotExplain) {
  FakeCuda fake;
  fake.failAt("cuGetErrorName", 1);
  fake.failAt("cuGetErrorString", 1);
  EXPECT_EQ(cudaError(fake.driver(), 12345, "cuInit").str(),
            "cuInit failed: unknown CUresult (12345): no description");
}
