//===- TritonTest.cpp - PTX of Triton -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/triton_kernels.py compiled by Triton, as it is. Triton passes two
// pointers to scratch memory behind the arguments, which are null here.
//
//===----------------------------------------------------------------------===//

#include "ForeignUtil.h"

#include "math/Half.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static Report runTriton(Launcher &l, const char *kernel, Dim3 grid,
                        uint64_t shared) {
  l.arguments.addPointer(0).addPointer(0);
  return l.run(kernel, grid, {128, 1, 1}, shared);
}

TEST(Triton, Softmax) {
  constexpr size_t rows = 5, columns = 208;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> x(rows * columns);
  for (float &value : x)
    value = normal(random);
  Launcher l("triton_softmax.ptx");
  uint64_t out = l.output("out", x.size() * 4);
  l.input("x", x);
  l.arguments.addValue<int>(columns).addValue<int>(columns);
  runTriton(l, "softmax", {rows, 1, 1}, 16);
  std::vector<float> got = l.read<float>(out, x.size());
  for (size_t row = 0; row < rows; ++row) {
    const float *in = x.data() + row * columns;
    double largest = *std::max_element(in, in + columns), sum = 0;
    for (size_t i = 0; i < columns; ++i)
      sum += std::exp(in[i] - largest);
    for (size_t i = 0; i < columns; ++i) {
      double want = std::exp(in[i] - largest) / sum;
      EXPECT_NEAR(got[row * columns + i], want, 1e-5 * want);
    }
  }
}

TEST(Triton, CausalAttention) {
  constexpr size_t heads = 2, seqlen = 112, headDim = 64;
  constexpr size_t count = heads * seqlen * headDim;
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> q(count), k(count), v(count);
  for (std::vector<uint16_t> *tensor : {&q, &k, &v})
    for (uint16_t &value : *tensor)
      value = halfFromFloat(normal(random));
  Launcher l("triton_attention.ptx");
  l.input("q", q);
  l.input("k", k);
  l.input("v", v);
  uint64_t o = l.output("o", count * 2);
  uint64_t lse = l.output("lse", heads * seqlen * 4);
  l.arguments.addValue<int>(seqlen).addValue<float>(0.125f * 1.44269504f);
  Report report = runTriton(l, "attention", {2, heads, 1}, 24576);
  EXPECT_GT(report.counters.mma, 0u);
  std::vector<uint16_t> gotO = l.read<uint16_t>(o, count);
  std::vector<float> gotLse = l.read<float>(lse, heads * seqlen);
  for (size_t row = 0; row < heads * seqlen; ++row) {
    size_t head = row / seqlen * seqlen, numKeys = row - head + 1;
    std::vector<double> p(numKeys);
    double sum = 0;
    for (size_t j = 0; j < numKeys; ++j) {
      double s = 0;
      for (size_t d = 0; d < headDim; ++d)
        s += double(floatFromHalf(q[row * headDim + d])) *
             floatFromHalf(k[(head + j) * headDim + d]);
      sum += p[j] = std::exp(s * 0.125);
    }
    EXPECT_NEAR(gotLse[row], std::log(sum), 1e-4);
    for (size_t d = 0; d < headDim; ++d) {
      double want = 0;
      for (size_t j = 0; j < numKeys; ++j)
        want += p[j] / sum * floatFromHalf(v[(head + j) * headDim + d]);
      // P and O are rounded to f16.
      ASSERT_NEAR(floatFromHalf(gotO[row * headDim + d]), want, 3e-3) << row;
    }
  }
}

TEST(Triton, Matmul) {
  constexpr size_t m = 80, n = 96, k = 112;
  std::mt19937 random(3);
  std::vector<uint16_t> a(m * k), b(k * n);
  for (std::vector<uint16_t> *matrix : {&a, &b})
    for (uint16_t &value : *matrix)
      value = bfloatFromFloat(float(int(random() % 7) - 3));
  Launcher l("triton_matmul.ptx");
  l.input("a", a);
  l.input("b", b);
  uint64_t c = l.output("c", m * n * 4);
  l.arguments.addValue<int>(m).addValue<int>(n).addValue<int>(k);
  runTriton(l, "matmul", {2, 2, 1}, 16384);
  std::vector<float> got = l.read<float>(c, m * n);
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float want = 0;
      for (size_t d = 0; d < k; ++d)
        want += floatFromBfloat(a[i * k + d]) * floatFromBfloat(b[d * n + j]);
      ASSERT_EQ(got[i * n + j], want) << i << "," << j;
    }
}
