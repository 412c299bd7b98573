//===- AluUtil.cpp - Instructions against C++ -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See AluUtil.h.
//
//===----------------------------------------------------------------------===//

#include "AluUtil.h"

#include <iterator>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static constexpr unsigned numCases = 128;

static std::vector<u64> makeInputs(unsigned seed) {
  static const u64 edges[] = {0,
                              1,
                              ~u64(0),
                              0x80000000u,
                              0x7fffffffu,
                              0x8000000000000000u,
                              0x7fffffffffffffffu,
                              0x8000,
                              0x7fff,
                              31,
                              32,
                              33,
                              63,
                              64,
                              0x3f800000,
                              0xff800000,
                              0x7f800000,
                              0x7fc00000,
                              0x00000001,
                              0x00800000};
  std::mt19937_64 random(seed);
  std::vector<u64> values(numCases);
  for (u64 &value : values) {
    value = random();
    if (random() % 3 == 0)
      value = edges[random() % std::size(edges)];
    else if (random() % 3 == 0)
      value &= 0x3f;
  }
  return values;
}

void test::checkRow(const Row &row) {
  std::vector<u64> a = makeInputs(1), b = makeInputs(2), c = makeInputs(3);
  std::string body = "mul.wide.u32 %at, %t, 8;\n";
  for (int i = 1; i <= 3; ++i) {
    std::string n = std::to_string(i);
    body += "add.u64 %d9, %at, %g" + n + "; ld.global.u64 %d" + n +
            ", [%d9]; cvt.u32.u64 %r" + n + ", %d" + n + "; cvt.u16.u64 %h" +
            n + ", %d" + n + "; mov.b32 %f" + n + ", %r" + n + ";\n";
  }
  body += row.text + "\n";
  if (row.width == 'h')
    body += "cvt.u64.u16 %d0, %h0;\n";
  if (row.width == 'r')
    body += "cvt.u64.u32 %d0, %r0;\n";
  body += "add.u64 %d9, %at, %g0; st.global.u64 [%d9], %d0;";
  RunConfig config;
  config.block = {numCases, 1, 1};
  config.buffers = {{}, bytesOf(a), bytesOf(b), bytesOf(c)};
  RunResult run = runBody(body, config);
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << row.text << "\n"
                                                       << run.text();
  for (unsigned i = 0; i < numCases; ++i) {
    u64 got = 0;
    std::memcpy(&got, run.buffers[0].data() + i * 8, 8);
    u64 want = row.reference(a[i], b[i], c[i]);
    if (row.width != 'd')
      want &= row.width == 'h' ? 0xffffu : 0xffffffffu;
    EXPECT_EQ(got, want) << row.text << " of " << std::hex << a[i] << ", "
                         << b[i] << ", " << c[i];
    if (got != want)
      return;
  }
}
