//===- ForeignUtil.h - Kernels of other compilers ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs kernels of a PTX file in Inputs with all checks, and expects no finding.
// A test that takes its file from the parameter runs for each compiler.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_FOREIGNUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_FOREIGNUTIL_H

#include "TestUtil.h"

namespace flashcore::emu::test {

/// The parameter is what follows the name of the .cu file.
class ForeignTest : public testing::TestWithParam<const char *> {
protected:
  std::string file(const char *stem) const {
    return std::string(stem) + GetParam();
  }
};

#define FC_FOR_EACH_COMPILER(SUITE)                                            \
  INSTANTIATE_TEST_SUITE_P(Nvcc, SUITE, testing::Values(".ptx"));              \
  INSTANTIATE_TEST_SUITE_P(Clang, SUITE, testing::Values(".clang.ptx"))

struct Launcher {
  std::string file;
  DeviceMemory memory;
  Arguments arguments;
  LaunchOptions options;

  explicit Launcher(std::string file) : file(std::move(file)) {}

  template <typename T>
  uint64_t input(const char *name, const std::vector<T> &v) {
    uint64_t at = memory.allocate(name, v.size() * sizeof(T));
    memory.write(at, v.data(), v.size() * sizeof(T));
    arguments.addPointer(at);
    return at;
  }
  uint64_t output(const char *name, size_t bytes) {
    uint64_t at = memory.allocate(name, bytes);
    arguments.addPointer(at);
    return at;
  }
  template <typename T> std::vector<T> read(uint64_t at, size_t count) {
    std::vector<T> v(count);
    EXPECT_TRUE(memory.read(at, v.data(), count * sizeof(T)));
    return v;
  }
  /// Whatever it finds is for the caller to judge.
  Report launchKernel(const char *kernelName, Dim3 grid, Dim3 block,
                      uint64_t shared = 0) {
    Expected<Kernel> kernel = Kernel::load(readInput(file), kernelName);
    EXPECT_TRUE(kernel.ok()) << (kernel ? "" : kernel.error().str(file));
    if (!kernel)
      return {};
    Expected<Report> report =
        launch(*kernel, memory, {grid, block, shared}, arguments, options);
    EXPECT_TRUE(report.ok()) << (report ? "" : report.error().str());
    return report ? *report : Report();
  }
  Report run(const char *kernelName, Dim3 grid, Dim3 block,
             uint64_t shared = 0) {
    Report report = launchKernel(kernelName, grid, block, shared);
    EXPECT_TRUE(report.clean()) << formatReport(report, file);
    return report;
  }
};

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_FOREIGNUTIL_H
