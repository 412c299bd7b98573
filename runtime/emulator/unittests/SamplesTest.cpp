//===- SamplesTest.cpp - CUDA kernels of many kinds -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/samples.cu compiled by nvcc and by clang, against the same in C++.
//
//===----------------------------------------------------------------------===//

#include "ForeignUtil.h"

#include "math/Half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
class Samples : public ForeignTest {};
} // namespace

FC_FOR_EACH_COMPILER(Samples);

template <typename F> static auto generate(size_t count, F f) {
  std::mt19937_64 random(count);
  std::vector<decltype(f(random))> values(count);
  for (auto &value : values)
    value = f(random);
  return values;
}

TEST_P(Samples, WarpSum) {
  Launcher l(file("samples"));
  std::vector<float> x(1000);
  std::iota(x.begin(), x.end(), 1.0f);
  l.input("x", x);
  uint64_t out = l.input("out", std::vector<float>{0});
  l.arguments.addValue<int>(1000);
  l.run("warpSum", {3, 1, 1}, {128, 1, 1});
  EXPECT_EQ(l.read<float>(out, 1)[0], 500500.0f);
}

TEST_P(Samples, Scan) {
  Launcher l(file("samples"));
  auto x = generate(256, [](auto &random) { return int(random() % 100) - 50; });
  l.input("x", x);
  uint64_t out = l.output("out", 1024);
  l.run("scan", {1, 1, 1}, {256, 1, 1});
  std::vector<int> want(256);
  std::partial_sum(x.begin(), x.end(), want.begin());
  EXPECT_EQ(l.read<int>(out, 256), want);
}

TEST_P(Samples, Lanes) {
  Launcher l(file("samples"));
  auto x = generate(64, [](auto &random) { return int(random() % 9); });
  l.input("x", x);
  uint64_t out = l.output("out", 64 * 16);
  l.run("lanes", {1, 1, 1}, {64, 1, 1});
  std::vector<int> got = l.read<int>(out, 256);
  for (size_t t = 0; t < 64; ++t) {
    const int *warp = x.data() + t / 32 * 32;
    uint32_t same = 0, odd = 0;
    int sum = 0, largest = 0, alike = 0;
    for (size_t i = 0; i < 32; ++i) {
      same |= uint32_t(warp[i] == x[t]) << i;
      odd |= uint32_t(warp[i] & 1) << i;
      sum += warp[i];
      largest = std::max(largest, warp[i]);
      alike += !(warp[i] & 1) && (warp[i] & 6) == (x[t] & 6);
    }
    EXPECT_EQ(uint32_t(got[4 * t]), same);
    EXPECT_EQ(got[4 * t + 1], sum + largest);
    EXPECT_EQ(uint32_t(got[4 * t + 2]), odd);
    EXPECT_EQ(got[4 * t + 3], x[t] & 1 ? 1 : alike);
  }
}

TEST_P(Samples, HalfWarpsMeetByThemselves) {
  Launcher l(file("samples"));
  std::vector<int> x(64);
  std::iota(x.begin(), x.end(), 100);
  l.input("x", x);
  uint64_t out = l.output("out", 256);
  l.run("halfWarps", {1, 1, 1}, {64, 1, 1});
  std::vector<int> got = l.read<int>(out, 64);
  for (size_t t = 0; t < 64; ++t)
    EXPECT_EQ(got[t], t % 32 < 16 ? x[t ^ 15] : 2 * x[t ^ 1]);
}

TEST_P(Samples, Histogram) {
  Launcher l(file("samples"));
  auto x = generate(5000, [](auto &random) {
    return static_cast<uint8_t>(random() & random());
  });
  std::vector<uint32_t> want(256);
  for (uint8_t value : x)
    ++want[value];
  l.input("x", x);
  uint64_t bins = l.input("bins", std::vector<uint32_t>(256, 0));
  l.arguments.addValue<int>(5000);
  l.run("histogram", {3, 1, 1}, {128, 1, 1});
  EXPECT_EQ(l.read<uint32_t>(bins, 256), want);
}

static int runStackMachine(const std::vector<uint8_t> &program, int thread) {
  uint32_t stack[16] = {};
  int top = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    uint32_t a = stack[top & 15], b = stack[(top - 1) & 15];
    int64_t wideA = int32_t(a), wideB = int32_t(b);
    switch (program[(i + size_t(thread)) % program.size()]) {
    case 0:
      stack[++top & 15] = uint32_t(thread);
      break;
    case 1:
      stack[--top & 15] = a + b;
      break;
    case 2:
      stack[--top & 15] = a - b;
      break;
    case 3:
      stack[--top & 15] = a * b;
      break;
    case 4:
      stack[top & 15] = 0 - a;
      break;
    case 5:
      stack[++top & 15] = a;
      break;
    case 6:
      stack[top & 15] = uint32_t(int32_t(a) >> 1);
      break;
    case 7:
      stack[top & 15] = a ^ b;
      break;
    case 8:
      stack[top & 15] = b ? uint32_t(wideA % wideB) : 7;
      break;
    default:
      top = 0;
      break;
    }
  }
  return int32_t(stack[top & 15]);
}

TEST_P(Samples, StackMachine) {
  Launcher l(file("samples"));
  auto program = generate(
      90, [](auto &random) { return static_cast<uint8_t>(random() % 10); });
  l.input("program", program);
  l.arguments.addValue<int>(90);
  uint64_t out = l.output("out", 256);
  l.run("stackMachine", {1, 1, 1}, {64, 1, 1});
  std::vector<int> got = l.read<int>(out, 64);
  for (int t = 0; t < 64; ++t)
    EXPECT_EQ(got[size_t(t)], runStackMachine(program, t)) << t;
}

TEST_P(Samples, Doubles) {
  Launcher l(file("samples"));
  auto x = generate(
      200, [](auto &random) { return double(int64_t(random())) * 0x1p-56; });
  l.input("x", x);
  uint64_t out = l.output("out", 200 * 48);
  l.arguments.addValue<int>(200);
  l.run("doubles", {2, 1, 1}, {128, 1, 1});
  std::vector<double> got = l.read<double>(out, 1200);
  for (size_t i = 0; i < 200; ++i) {
    double v = x[i];
    double product = v * 1.1;
    if (std::fma(v, 1.1, -product) > 0)
      product = std::nextafter(product, INFINITY);
    double towardsZero = v > 0 ? v : std::nextafter(v, 0.0);
    double want[] = {std::sqrt(std::fabs(v)) / (v * v + 1.0),
                     std::exp(v * 0.01),
                     std::log(std::fabs(v) + 1.0),
                     towardsZero + product,
                     1 / std::sqrt(std::fabs(v) + 0.5),
                     std::copysign(std::floor(v * 0.37), -v) +
                         double(int64_t(v))};
    for (size_t j = 0; j < 6; ++j)
      EXPECT_NEAR(got[6 * i + j], want[j], 1e-14 * std::fabs(want[j]))
          << j << " of " << v;
    EXPECT_EQ(got[6 * i + 3], want[3]);
  }
}

static uint32_t pack(uint16_t low, uint16_t high) {
  return low | uint32_t(high) << 16;
}

TEST_P(Samples, Halves) {
  // Multiples of 1/64, so that every sum is exact in f32.
  auto value = [](auto &random) { return float(int(random() % 256) - 128); };
  auto xf = generate(64, value), yf = generate(66, value);
  auto h = [&](size_t i) { return xf[i % 64] / 64; };
  auto b = [&](size_t i) { return yf[i % 64] / 32; };
  std::vector<uint32_t> x(32), y(32);
  for (size_t i = 0; i < 32; ++i) {
    x[i] = pack(halfFromFloat(h(2 * i)), halfFromFloat(h(2 * i + 1)));
    y[i] = pack(bfloatFromFloat(b(2 * i)), bfloatFromFloat(b(2 * i + 1)));
  }
  Launcher l(file("samples"));
  l.input("x", x);
  l.input("y", y);
  uint64_t hOut = l.output("hOut", 128), bOut = l.output("bOut", 128);
  uint64_t flags = l.output("flags", 128);
  l.run("halves", {1, 1, 1}, {32, 1, 1});
  auto round = [](float v) { return floatFromHalf(halfFromFloat(v)); };
  auto half = [&](float p, float q) {
    float sum = round(p * q + std::clamp(p + q, 0.0f, 1.0f));
    return halfFromFloat(std::max(sum, -round(p * q)));
  };
  auto bfloat = [](float p, float q) {
    float difference = floatFromBfloat(bfloatFromFloat(p - q));
    return bfloatFromFloat(p * q + difference);
  };
  std::vector<uint32_t> gotH = l.read<uint32_t>(hOut, 32);
  std::vector<uint32_t> gotB = l.read<uint32_t>(bOut, 32);
  std::vector<uint32_t> gotFlags = l.read<uint32_t>(flags, 32);
  for (size_t i = 0; i < 32; ++i) {
    size_t k = 2 * i;
    EXPECT_EQ(gotH[i], pack(half(h(k), h(k + 2)), half(h(k + 1), h(k + 3))));
    EXPECT_EQ(gotB[i],
              pack(bfloat(b(k), b(k + 2)), bfloat(b(k + 1), b(k + 3))));
    bool low = h(k) > h(k + 2), high = h(k + 1) > h(k + 3);
    uint32_t want = (h(k) > h(k + 3) ? 1u : 0) | (low && high ? 2u : 0) |
                    (b(k) < b(k + 3) ? 4u : 0);
    EXPECT_EQ(gotFlags[i], want + (low ? 16u : 0) + (high ? 1u << 20 : 0));
  }
}

TEST_P(Samples, WideIntegers) {
  auto x = generate(64, [](auto &random) { return uint64_t(random()); });
  x[0] = x[32] = ~uint64_t(0);
  Launcher l(file("samples"));
  l.input("x", x);
  uint64_t out = l.output("out", 32 * 32);
  l.run("wide", {1, 1, 1}, {32, 1, 1});
  std::vector<uint64_t> got = l.read<uint64_t>(out, 128);
  using u128 = unsigned __int128;
  for (size_t i = 0; i < 32; ++i) {
    uint64_t a = x[i], b = x[i + 32];
    u128 sum = u128(a) * b + a + (u128(b) << 64), square = u128(a) * a - b;
    EXPECT_EQ(got[4 * i], uint64_t(sum));
    EXPECT_EQ(got[4 * i + 1], uint64_t(sum >> 64));
    EXPECT_EQ(got[4 * i + 2], uint64_t(square >> 64) ^ uint64_t(square));
    int dot = 5;
    uint32_t permuted = 0;
    for (unsigned k = 0; k < 4; ++k) {
      dot += int8_t(a >> 8 * k) * int8_t(b >> 8 * k);
      uint64_t bytes = uint32_t(a) | b << 32;
      permuted |= uint32_t(bytes >> 8 * (0x4361 >> 4 * k & 7) & 255) << 8 * k;
    }
    EXPECT_EQ(got[4 * i + 3], uint32_t(dot) + (uint64_t(permuted) << 32));
  }
}

TEST_P(Samples, PointersInInitialisers) {
  Launcher l(file("samples"));
  uint64_t out = l.output("out", 24);
  l.run("pointerTable", {1, 1, 1}, {6, 1, 1});
  EXPECT_EQ(l.read<int>(out, 6), (std::vector<int>{3, 2, 1, 5, 0, 3}));
}

TEST_P(Samples, PrintfAndAssert) {
  Launcher l(file("samples"));
  l.input("x", std::vector<int>{7, -4, 90, 3});
  l.arguments.addValue<int>(91);
  testing::internal::CaptureStderr();
  Report report = l.launchKernel("report", {1, 1, 1}, {4, 1, 1});
  std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(report.clean()) << formatReport(report, l.file);
  EXPECT_EQ(printed, "thread 0:  3.50 first 0x10000000000 a%\n"
                     "thread 1: -2.00 later 0x20000000000 b%\n"
                     "thread 2: 45.00 later 0x40000000000 c%\n");
}

TEST_P(Samples, FailedAssertIsReported) {
  Launcher l(file("samples"));
  l.input("x", std::vector<int>{7, -4, 90, 3});
  l.arguments.addValue<int>(90);
  testing::internal::CaptureStderr();
  Report report = l.launchKernel("report", {1, 1, 1}, {4, 1, 1});
  testing::internal::GetCapturedStderr();
  ASSERT_EQ(report.findings.size(), 1u) << formatReport(report, l.file);
  EXPECT_EQ(report.findings[0].kind, FindingKind::Trap);
  const std::string &message = report.findings[0].message;
  EXPECT_NE(message.find("assertion 'x[i] < limit' failed at "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("samples.cu:"), std::string::npos) << message;
}

TEST_P(Samples, Gemm) {
  constexpr size_t m = 128, n = 64, k = 160;
  // Small integers: every sum is exact.
  auto value = [](auto &random) {
    return halfFromFloat(float(int(random() % 7) - 3));
  };
  auto a = generate(m * k, value), b = generate(n * k, value);
  Launcher l(file("samples"));
  l.input("a", a);
  l.input("b", b);
  uint64_t c = l.output("c", m * n * 4);
  l.arguments.addValue<int>(n).addValue<int>(k);
  Report report = l.run("gemm", {n / 64, m / 64, 1}, {128, 1, 1});
  EXPECT_EQ(report.counters.mma, m / 16 * (n / 8) * (k / 16));
  std::vector<float> got = l.read<float>(c, m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float want = 0;
      for (size_t d = 0; d < k; ++d)
        want += floatFromHalf(a[i * k + d]) * floatFromHalf(b[j * k + d]);
      ASSERT_EQ(got[i * n + j], want) << i << "," << j;
    }
}
