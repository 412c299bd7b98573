//===- ForeignTest.cpp - PTX of other compilers ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/kernels.cu compiled by nvcc and by clang; the same C++ runs here.
//
//===----------------------------------------------------------------------===//

#include "ForeignUtil.h"

#include <bit>
#include <numeric>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
class Foreign : public ForeignTest {};
} // namespace

FC_FOR_EACH_COMPILER(Foreign);

TEST_P(Foreign, ListsKernels) {
  Expected<std::vector<std::string>> names =
      Kernel::list(readInput(file("kernels")));
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), 5u);
  Expected<Kernel> none = Kernel::load(readInput(file("kernels")));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("several kernels"), std::string::npos);
}

TEST_P(Foreign, Reduce) {
  Launcher l(file("kernels"));
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 1.0f);
  l.input("x", x);
  uint64_t out = l.input("out", std::vector<float>{0.0f});
  l.arguments.addValue<int>(1000);
  l.run("reduce", {4, 1, 1}, {256, 1, 1});
  EXPECT_EQ(l.read<float>(out, 1)[0], 500500.0f);
}

static int64_t integersReference(int v) {
  int64_t r = 0;
  int a = 0, b = 1;
  switch (v & 7) {
  case 0:
    r = v * 3;
    break;
  case 1:
    r = v / 7;
    break;
  case 2:
    r = v % 5;
    break;
  case 3:
    r = std::popcount(static_cast<uint32_t>(v));
    break;
  case 4:
    r = std::countl_zero(static_cast<uint32_t>(v));
    break;
  case 5: {
    uint32_t reversed = 0;
    for (int i = 0; i < 32; ++i)
      reversed |= (static_cast<uint32_t>(v) >> i & 1u) << (31 - i);
    r = static_cast<int>(reversed);
    break;
  }
  case 6:
    for (int i = 0; i < (v & 31); ++i) {
      int next = a + b;
      a = b;
      b = next;
    }
    r = a;
    break;
  default:
    r = static_cast<int64_t>(v) * v >> 3;
    break;
  }
  uint64_t bytes = static_cast<uint32_t>(v) |
                   static_cast<uint64_t>(~static_cast<uint32_t>(v)) << 32;
  uint32_t permuted = 0;
  for (int i = 0; i < 4; ++i)
    permuted |=
        static_cast<uint32_t>(bytes >> (8 * (0x3715 >> 4 * i & 7)) & 255)
        << 8 * i;
  return r + v + (v >> 3 & 7) + static_cast<int>(permuted);
}

TEST_P(Foreign, Integers) {
  Launcher l(file("kernels"));
  std::vector<int> x(1000);
  for (int i = 0; i < 1000; ++i)
    x[size_t(i)] = (i - 500) * 4217;
  l.input("x", x);
  uint64_t out = l.output("out", 8000);
  l.arguments.addValue<int>(1000);
  l.run("integers", {4, 1, 1}, {256, 1, 1});
  std::vector<int64_t> got = l.read<int64_t>(out, 1000);
  for (size_t i = 0; i < 1000; ++i)
    ASSERT_EQ(got[i], integersReference(x[i])) << x[i];
}

TEST_P(Foreign, LastBlockSeesAllPartialSums) {
  for (Schedule schedule :
       {Schedule::Sequential, Schedule::Skewed, Schedule::Random}) {
    Launcher l(file("kernels"));
    l.options.schedule = schedule;
    l.input("x", std::vector<float>(1000, 1.0f));
    l.output("partial", 32);
    uint64_t out = l.output("out", 4);
    l.arguments.addValue<int>(1000);
    l.run("lastBlock", {8, 1, 1}, {128, 1, 1});
    EXPECT_EQ(l.read<float>(out, 1)[0], 1000.0f);
  }
}

TEST_P(Foreign, TransposeShowsItsBankConflicts) {
  Launcher l(file("kernels"));
  std::vector<float> x(64 * 64);
  std::iota(x.begin(), x.end(), 0.0f);
  l.input("x", x);
  uint64_t out = l.output("out", x.size() * 4);
  l.arguments.addValue<int>(64);
  Report report = l.run("transpose", {2, 2, 1}, {32, 8, 1});
  std::vector<float> got = l.read<float>(out, x.size());
  for (size_t i = 0; i < 64; ++i)
    for (size_t j = 0; j < 64; ++j)
      ASSERT_EQ(got[i * 64 + j], x[j * 64 + i]);
  // 128 warp stores without a conflict, 128 warp loads of one bank.
  EXPECT_EQ(report.counters.idealWavefronts, 256u);
  EXPECT_EQ(report.counters.wavefronts, 128u + 128u * 32);
}

TEST_P(Foreign, CtasThatWaitForLaterOnesFinish) {
  Launcher l(file("kernels"));
  uint64_t flags = l.input("flags", std::vector<int>(3, 0));
  l.run("chain", {3, 1, 1}, {1, 1, 1});
  EXPECT_EQ(l.read<int>(flags, 3), std::vector<int>(3, 1));
}
