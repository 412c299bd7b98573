//===- LayoutReductionTest.cpp - Maxima and sums over lanes ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// C = A B of one tile, whose rows are scaled or shifted with something that the
// four lanes of each row reduce first.
//
//===----------------------------------------------------------------------===//

#include "LayoutUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

/// Rows 0 to 7 of A B, after `way`, which finds them in %f0 and %f1.
static RunResult run(const std::string &way) {
  RunConfig config;
  for (unsigned buffer = 0; buffer < 2; ++buffer) {
    std::vector<uint8_t> &bytes = config.buffers[buffer];
    bytes.resize(16 * 16 * 2);
    // f16 of 1 to 2, none like its neighbours.
    for (size_t i = 0; i < 256; ++i) {
      auto bits =
          static_cast<uint16_t>(0x3c00 | (i * 397 + buffer * 31) % 1021);
      bytes[2 * i] = static_cast<uint8_t>(bits);
      bytes[2 * i + 1] = static_cast<uint8_t>(bits >> 8);
    }
  }
  config.shapes = {{16, 16}, {16, 16}, {16, 16}};
  return runBody(lanes + clearAccumulator + loadA(0, 0, 0, 0, 16) +
                     loadB(4, 1, 0, 0, 16) + multiply + way +
                     "cvt.rn.f16x2.f32 %r10, %f1, %f0;" +
                     addressOf(2, 0, 0, 16) + "st.global.b32 [%at], %r10;\n",
                 config);
}

/// %f8 becomes the reduction of itself by butterflies.
static std::string butterfly(const std::string &op,
                             const std::vector<int> &distances) {
  std::string body;
  for (int distance : distances)
    body += "shfl.sync.bfly.b32 %f9, %f8, " + num(distance) + ", 31, -1;" + op +
            " %f8, %f8, %f9;\n";
  return body;
}
static const std::string ownMaximum = "max.f32 %f8, %f0, %f1;\n";
static const std::string ownSum = "add.f32 %f8, %f0, %f1;\n";
static const std::string shift = "sub.f32 %f0, %f0, %f8;"
                                 "sub.f32 %f1, %f1, %f8;\n";
static const std::string scale = "rcp.approx.f32 %f8, %f8;"
                                 "mul.f32 %f0, %f0, %f8;"
                                 "mul.f32 %f1, %f1, %f8;\n";

TEST(LayoutReduction, AllLanesOfARow) {
  for (const std::vector<int> &distances :
       {std::vector{1, 2}, {2, 1}, {3, 1}}) {
    expectClean(run(ownMaximum + butterfly("max.f32", distances) + shift));
    expectClean(run(ownSum + butterfly("add.f32", distances) + scale));
  }
}

TEST(LayoutReduction, ALaneThatCountsTwice) {
  std::string message = "combines products of 'p0'[0,:] with a value of lanes "
                        "0 and 2 that counts some of them twice, but lane 1 of "
                        "this row has another one";
  expectMismatch(run(ownMaximum + butterfly("max.f32", {2, 2}) + shift),
                 message);
  expectMismatch(run(ownSum + butterfly("add.f32", {2, 2}) + scale), message);
  // Through scales, a constant and a copy, as the fused form of exp2(s - m)
  // has.
  expectMismatch(run(ownMaximum + butterfly("max.f32", {2, 2}) +
                     "max.f32 %f8, %f8, 0fFF800000; mul.f32 %f9, %f8, "
                     "0fBF800000; mov.f32 %f10, %f9; mov.f32 %f11, 0f3F800000;"
                     "fma.rn.f32 %f0, %f0, %f11, %f10;"
                     "fma.rn.f32 %f1, %f1, %f11, %f10;\n"),
                 message);
  // Over a row maximum of another tile, which was right.
  expectMismatch(run(ownMaximum + butterfly("max.f32", {1, 2}) +
                     "mov.f32 %f7, %f8; add.f32 %f8, %f0, %f1;\n" +
                     butterfly("max.f32", {2, 2}) + "max.f32 %f8, %f8, %f7;\n" +
                     shift),
                 "combines products of 'p0'[0,:] with a value of lanes 0, 1, 2 "
                 "and 3 that counts some of them twice, but lane 1 of this row "
                 "has another one");
}

TEST(LayoutReduction, GroupsOfColumnsHaveTheirOwn) {
  // Four columns, which two lanes hold.
  expectClean(run(ownMaximum + butterfly("max.f32", {1}) + scale));
  // The same, of this tile and of one before.
  expectClean(run(ownMaximum + butterfly("max.f32", {1}) +
                  "max.f32 %f8, %f8, %f0; max.f32 %f8, %f8, %f1;\n" +
                  butterfly("max.f32", {1}) + scale));
}

TEST(LayoutReduction, ATreeAndABroadcast) {
  // Lanes at the end of a segment of four get their own value back.
  std::string tree;
  for (int distance : {2, 1})
    tree += "shfl.sync.down.b32 %f9, %f8, " + num(distance) +
            ", 0x1c1f, -1; add.f32 %f8, %f8, %f9;\n";
  expectClean(run(ownSum + tree +
                  "shfl.sync.idx.b32 %f8, %f8, 0, 0x1c1f, -1;\n" + scale));
  expectMismatch(run(ownSum + tree + scale),
                 "combines products of 'p0'[0,:] with a value of lanes 1, 2 "
                 "and 3 that counts some of them twice, but lane 0 of this row "
                 "has another one");
}

TEST(LayoutReduction, SumsOfLanesUntilTheEnd) {
  // The row sum of an online softmax: each lane has its part, scaled with what
  // all lanes share, and the parts meet behind the loop.
  std::string body = ownMaximum + butterfly("max.f32", {1, 2}) +
                     "mov.f32 %f7, %f8; add.f32 %f6, %f0, %f1;\n";
  for (const std::string &step :
       {std::string("mul.f32 %f6, %f6, %f7; add.f32 %f6, %f6, %f0;"),
        std::string("fma.rn.f32 %f6, %f6, %f7, %f1;")})
    body += step + "\n";
  body += "mov.f32 %f8, %f6;\n";
  expectClean(run(body + butterfly("add.f32", {1, 2}) + scale));
  expectMismatch(run(body + butterfly("add.f32", {2, 2}) + scale));
}

TEST(LayoutReduction, SumsThatBeginWithAFactorOfTheRow) {
  // Times 0, where another tile is to begin.
  std::string begin = "setp.ne.u32 %p0, %t, %t;"
                      "@%p0 mul.f32 %f0, %f8, 0f00000000;\n";
  expectClean(run(ownSum + butterfly("add.f32", {1, 2}) + begin + scale));
  expectMismatch(run(ownSum + butterfly("add.f32", {2, 2}) + begin + scale));
}
