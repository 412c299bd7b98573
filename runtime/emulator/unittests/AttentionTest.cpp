//===- AttentionTest.cpp - A whole kernel, good and broken ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs/attention.ptx is a CUDA kernel compiled by nvcc. It must run without a
// finding under every schedule and give softmax(Q K^T) V; each of its
// synchronisations, once removed, must be missed.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include "math/Half.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
constexpr unsigned heads = 2, seqlen = 192, headDim = 64;
constexpr size_t numElements = size_t(heads) * seqlen * headDim;

struct Tensors {
  std::vector<uint16_t> q, k, v;
};
} // namespace

static Tensors makeTensors() {
  Tensors t;
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (std::vector<uint16_t> *x : {&t.q, &t.k, &t.v})
    for (size_t i = 0; i < numElements; ++i)
      x->push_back(halfFromFloat(normal(random)));
  return t;
}

static RunResult runAttention(const std::string &ptx, const Tensors &t,
                              const LaunchOptions &options = {}) {
  RunResult result;
  Expected<Kernel> kernel = Kernel::load(ptx);
  if (!kernel) {
    result.error = kernel.error().str();
    return result;
  }
  DeviceMemory memory;
  Arguments arguments;
  const std::vector<uint16_t> *inputs[] = {&t.q, &t.k, &t.v};
  const char *names[] = {"Q", "K", "V"};
  for (int i = 0; i < 3; ++i) {
    uint64_t at = memory.allocate(names[i], numElements * 2);
    memory.write(at, inputs[i]->data(), numElements * 2);
    EXPECT_TRUE(memory.describe(at, 2, {heads, seqlen, headDim}));
    arguments.addPointer(at);
  }
  uint64_t o = memory.allocate("O", numElements * 2);
  uint64_t lse = memory.allocate("lse", heads * seqlen * 4);
  arguments.addPointer(o).addPointer(lse).addValue<int>(seqlen);
  arguments.addValue<float>(0.125f * 1.44269504f);
  Expected<Report> report =
      launch(*kernel, memory, {{seqlen / 64, heads, 1}, {128, 1, 1}, 40960},
             arguments, options);
  if (!report) {
    result.error = report.error().str();
    return result;
  }
  result.report = *report;
  result.buffers.resize(2);
  result.buffers[0].resize(numElements * 2);
  result.buffers[1].resize(heads * seqlen * 4);
  memory.read(o, result.buffers[0].data(), result.buffers[0].size());
  memory.read(lse, result.buffers[1].data(), result.buffers[1].size());
  return result;
}

/// Largest error of O and lse over all rows.
static double largestError(const Tensors &t, const RunResult &run) {
  double worst = 0;
  auto at = [](const std::vector<uint16_t> &x, size_t i) {
    return double(floatFromHalf(x[i]));
  };
  for (size_t row = 0; row < size_t(heads) * seqlen; ++row) {
    size_t head = row / seqlen * seqlen;
    std::vector<double> p(seqlen);
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < seqlen; ++j) {
      double s = 0;
      for (size_t d = 0; d < headDim; ++d)
        s += at(t.q, row * headDim + d) * at(t.k, (head + j) * headDim + d);
      p[j] = s * 0.125;
      largest = std::max(largest, p[j]);
    }
    for (double &x : p)
      sum += x = std::exp(x - largest);
    for (size_t d = 0; d < headDim; ++d) {
      double o = 0;
      for (size_t j = 0; j < seqlen; ++j)
        o += p[j] / sum * at(t.v, (head + j) * headDim + d);
      uint16_t bits;
      std::memcpy(&bits, run.buffers[0].data() + (row * headDim + d) * 2, 2);
      worst = std::max(worst, std::fabs(o - floatFromHalf(bits)));
    }
    float lse;
    std::memcpy(&lse, run.buffers[1].data() + row * 4, 4);
    worst = std::max(worst, std::fabs(lse - largest - std::log(sum)));
  }
  return worst;
}

TEST(Attention, RightAndCleanUnderEverySchedule) {
  Tensors t = makeTensors();
  std::string ptx = readInput("attention.ptx");
  std::vector<uint8_t> first;
  for (Schedule schedule :
       {Schedule::Sequential, Schedule::Skewed, Schedule::Random})
    for (AsyncMode async :
         {AsyncMode::Lazy, AsyncMode::Eager, AsyncMode::Random}) {
      LaunchOptions options;
      options.schedule = schedule;
      options.async = async;
      options.scheduleSeed = options.asyncSeed = 3;
      RunResult run = runAttention(ptx, t, options);
      ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
      // P is rounded to f16: 2^-11 of values of size about 1.
      EXPECT_LT(largestError(t, run), 1e-3);
      if (first.empty())
        first = run.buffers[0];
      EXPECT_EQ(run.buffers[0], first);
    }
}

TEST(Attention, CountsAsPlanned) {
  RunResult run = runAttention(readInput("attention.ptx"), makeTensors());
  const Counters &c = run.report.counters;
  // Two products of 64x64x64 a tile: 2 * 128 mma a CTA and tile.
  EXPECT_EQ(c.mma, uint64_t(heads) * (seqlen / 64) * (seqlen / 64) * 256);
  // The swizzle leaves no bank conflict.
  EXPECT_EQ(c.wavefronts, c.idealWavefronts);
}

/// Whether the good kernel moved data in the line that holds text[at].
static bool isExecuted(const std::string &text, size_t at,
                       const Counters &counters) {
  auto line = static_cast<uint32_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at),
                     '\n'));
  return std::any_of(counters.lines.begin(), counters.lines.end(),
                     [&](const LineCounters &l) { return l.line == line; });
}

/// Blanks occurrence `index` of `what`; empty when there are fewer.
static std::string mutate(const std::string &ptx, const std::string &what,
                          unsigned index, size_t &at) {
  at = ptx.find(what);
  while (at != std::string::npos && index--)
    at = ptx.find(what, at + 1);
  if (at == std::string::npos)
    return {};
  std::string out = ptx;
  size_t end = out.find(';', at);
  out.replace(at, end + 1 - at, end + 1 - at, ' ');
  return out;
}

TEST(Attention, EveryMissingSynchronisationIsReported) {
  Tensors t = makeTensors();
  std::string ptx = readInput("attention.ptx");
  RunResult good = runAttention(ptx, t);
  unsigned mutants = 0;
  for (const char *what : {"bar.sync", "cp.async.wait_group",
                           "cp.async.commit_group", "cp.async.cg"})
    for (unsigned index = 0;; ++index) {
      size_t at = 0;
      std::string mutant = mutate(ptx, what, index, at);
      if (mutant.empty())
        break;
      // Loops that nvcc unrolled have a remainder that never runs here.
      bool isCopy = std::string(what) == "cp.async.cg";
      if (isCopy && !isExecuted(ptx, at, good.report.counters))
        continue;
      RunResult run = runAttention(mutant, t);
      // A missing copy may leave the bytes of an earlier tile, which no check
      // can tell from the right ones; then the result is wrong.
      bool seen = !run.report.clean();
      if (isCopy)
        seen = seen || largestError(t, run) > 1e-2;
      EXPECT_TRUE(seen) << what << " number " << index;
      ++mutants;
    }
  EXPECT_GE(mutants, 10u);
}

/// Runs a kernel whose text was edited at `at`, with the layout check alone.
static void expectMismatch(std::string ptx, const Tensors &t, size_t at,
                           size_t length, const std::string &with) {
  LaunchOptions options;
  options.checks = CheckLayout;
  ptx.replace(at, length, with);
  RunResult run = runAttention(ptx, t, options);
  EXPECT_GE(run.count(FindingKind::LayoutMismatch), 1u) << with << "\n"
                                                        << run.text();
}

/// The registers of the first or second `{...}` after `at`, split at commas.
static std::vector<std::string> listAt(const std::string &ptx, size_t at) {
  std::vector<std::string> names(1);
  for (size_t i = at + 1; ptx[i] != '}'; ++i)
    if (ptx[i] == ',')
      names.emplace_back();
    else
      names.back() += ptx[i];
  return names;
}

TEST(Attention, EveryWrongFragmentIsReported) {
  Tensors t = makeTensors();
  std::string ptx = readInput("attention.ptx");
  unsigned number = 0, mutants = 0;
  auto isSampled = [&] { return number++ % 6 == 0; };
  for (size_t at = 0; (at = ptx.find("ldmatrix.", at)) != std::string::npos;
       ++at) {
    if (!isSampled())
      continue;
    size_t end = ptx.find("];", at), list = ptx.find('{', at);
    std::vector<std::string> r = listAt(ptx, list);
    // 32 bytes or a row further; the first two and the last two registers
    // exchanged; the other orientation.
    expectMismatch(ptx, t, end, 0, "+32");
    expectMismatch(ptx, t, end, 0, "+128");
    expectMismatch(ptx, t, list, ptx.find('}', list) + 1 - list,
                   "{" + r[1] + "," + r[0] + "," + r[3] + "," + r[2] + "}");
    size_t shape = ptx.find(".x4", at) + 3;
    bool isTrans = ptx.compare(shape, 6, ".trans") == 0;
    expectMismatch(ptx, t, shape, isTrans ? 6 : 0, isTrans ? "" : ".trans");
    mutants += 4;
  }
  for (size_t at = 0; (at = ptx.find("mma.sync", at)) != std::string::npos;
       ++at) {
    if (!isSampled())
      continue;
    size_t a = ptx.find('{', ptx.find('{', at) + 1), b = ptx.find('{', a + 1);
    std::vector<std::string> ra = listAt(ptx, a), rb = listAt(ptx, b);
    expectMismatch(ptx, t, a, ptx.find('}', a) + 1 - a,
                   "{" + ra[0] + "," + ra[2] + "," + ra[1] + "," + ra[3] + "}");
    expectMismatch(ptx, t, b, ptx.find('}', b) + 1 - b,
                   "{" + rb[1] + "," + rb[0] + "}");
    mutants += 2;
  }
  EXPECT_GE(mutants, 35u);
}

TEST(Attention, RemovedSwizzleShowsAsBankConflicts) {
  std::string ptx = readInput("attention.ptx");
  RunResult good = runAttention(ptx, makeTensors());
  // Every ldmatrix reads the rows of one column: the address of lane 0's row.
  std::string body = "shl.b32 %r1, %t, 7; mov.u32 %r2, tile;"
                     "add.u32 %r2, %r2, %r1; mov.u32 %r3, 0;"
                     "st.shared.v4.u32 [%r2], {%r3,%r3,%r3,%r3};";
  RunResult bad = runBody(body, {}, ".shared .align 128 .b8 tile[4096];");
  EXPECT_EQ(good.report.counters.wavefronts,
            good.report.counters.idealWavefronts);
  EXPECT_EQ(bad.report.counters.wavefronts, 32u);
  EXPECT_EQ(bad.report.counters.idealWavefronts, 4u);
}
