//===- LayoutTest.cpp - Fragments that do and do not fit together ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp multiplies tiles of p0 and p1 (and p2), whose fragments it loads in
// the order of PTX ISA 9.7.14.5.8. Each test changes where a fragment comes
// from, or how it gets to the mma. Whole kernels are in AttentionTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "LayoutUtil.h"

#include "sim/Handlers.h"

#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
using Shapes = std::vector<std::vector<uint64_t>>;
} // namespace

static RunResult run(const std::string &body, const Shapes &shapes,
                     const std::string &declarations = {}) {
  RunConfig config;
  for (size_t i = 0; i < 4; ++i) {
    uint64_t count = 1024;
    if (i < shapes.size())
      for (uint64_t extent : shapes[i])
        count *= extent;
    config.buffers[i] = bytesOf(std::vector<uint16_t>(count, 0x3c00));
  }
  config.shapes = shapes;
  return runBody(lanes + clearAccumulator + body, config, declarations);
}

static const Shapes matrices = {{32, 64}, {32, 64}};

//===----------------------------------------------------------------------===//
// Rules at the mma
//===----------------------------------------------------------------------===//

TEST(Layout, MatchingFragmentsAreClean) {
  std::string body;
  for (int k = 0; k < 64; k += 16)
    body += loadA(0, 0, 16, k, 64) + loadB(4, 1, 8, k, 64) + multiply;
  expectClean(run(body, matrices));
}

TEST(Layout, RowsOfAFragmentShareTheirProducts) {
  std::string loads = loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, 16, 64);
  expectMismatch(
      run(loads + mma(accumulator, "%r0,%r2,%r1,%r3", "%r4,%r5"), matrices),
      "row 0 of A at k = 0 (register %r0, lane 0) is 'p0'[:,16], but row 8 of "
      "A at k = 0 (register %r2, lane 0) is 'p0'[:,24]");
  // A swizzle that only one side knows: odd columns from another chunk.
  std::string swizzled = "and.b32 %r63, %r60, 1; shl.b32 %r63, %r63, 3;"
                         "xor.b32 %r61, %r61, %r63;\n";
  RunResult one =
      run(loadA(0, 0, 0, 16, 64) + swizzled + loadB(4, 1, 0, 16, 64) + multiply,
          matrices);
  expectMismatch(one, "column 0 of B at k = 0 (register %r4, lane 0) is "
                      "'p1'[:,16], but column 1 of B at k = 0 (register %r4, "
                      "lane 4) is 'p1'[:,24]");
  EXPECT_EQ(one.report.findings[0].place.lanes, 1u << 4);
}

TEST(Layout, FactorsShareTheirIndex) {
  RunResult shifted =
      run(loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, 32, 64) + multiply, matrices);
  expectMismatch(shifted,
                 "multiplies 'p0'[:,16], row 0 of A at k = 0 (register %r0, "
                 "lane 0), by 'p1'[:,32], column 0 of B at k = 0 (register "
                 "%r4, lane 0)");
  std::string json = reportToJson(shifted.report, "test.ptx");
  EXPECT_NE(json.find("\"layout-mismatch\""), std::string::npos);
  EXPECT_NE(json.find("\"check\": \"layout\""), std::string::npos);
  expectMismatch(run(loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, 16, 64) +
                         mma(accumulator, "%r0,%r1,%r2,%r3", "%r5,%r4"),
                     matrices));
}

TEST(Layout, ARowIsOneRowAtAllProducts) {
  expectMismatch(
      run(loadA(0, 0, 0, 16, 64) + loadBlock(4, 1, 0, 16, 64) +
              loadBlock(5, 1, 1, 24, 64) + multiply,
          matrices),
      "column 0 of B at k = 0 (register %r4, lane 0) is 'p1'[0,:], but column "
      "0 of B at k = 8 (register %r5, lane 0) is 'p1'[1,:]");
}

TEST(Layout, AnAccumulatorKeepsItsRowAndColumn) {
  std::string first = loadA(0, 0, 0, 0, 64) + loadB(4, 1, 0, 0, 64) + multiply;
  std::string second = loadB(4, 1, 0, 16, 64) + multiply;
  expectMismatch(run(first + loadA(0, 0, 1, 16, 64) + second, matrices),
                 "adds products of 'p0'[1,:], row 0 of A, to an accumulator of "
                 "'p0'[0,:] (register %f0, lane 0)");
  // A new tile begins with a new accumulator.
  expectClean(run(first + clearAccumulator + loadA(0, 0, 1, 16, 64) + second,
                  matrices));
  // Scaled for its row, as a running softmax does.
  std::string scale = "mul.f32 %f0, %f0, 0f3F000000;";
  // A factor of several rows, as the first tile of a softmax is begun with.
  std::string begin = "max.f32 %f20, %f0, %f1; mul.f32 %f0, %f20, 0f00000000;"
                      "mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;";
  expectMismatch(
      run(first + begin + first + loadA(0, 0, 1, 16, 64) + second, matrices));
  expectMismatch(
      run(first + scale + loadA(0, 0, 1, 16, 64) + second, matrices));
}

TEST(Layout, ATransposedTileIsReported) {
  // p1 is [64 products, 32 columns]; its block is read as if it were B^T.
  Shapes shapes = {{32, 64}, {64, 32}};
  auto body = [](bool isTransposed) {
    auto load = isTransposed ? loadTransposed : loadBlock;
    return loadA(0, 0, 0, 16, 64) + load(4, 1, 16, 8, 32) +
           load(5, 1, 24, 8, 32) + multiply;
  };
  expectClean(run(body(true), shapes));
  expectMismatch(
      run(body(false), shapes),
      "column 0 of B at k = 0 (register %r4, lane 0) is 'p1'[16,:], but "
      "column 0 of B at k = 8 (register %r5, lane 0) is 'p1'[24,:]");
  // With 8 products an mma only the accumulator remembers the other reading.
  auto small = [](bool isTransposed) {
    auto load = isTransposed ? loadTransposed : loadBlock;
    std::string step = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                       "{%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, "
                       "{%f0,%f1,%f2,%f3};\n";
    return loadBlock(0, 0, 0, 16, 64) + loadBlock(1, 0, 8, 16, 64) +
           loadTransposed(4, 1, 16, 8, 32) + step + loadBlock(0, 0, 0, 24, 64) +
           loadBlock(1, 0, 8, 24, 64) + load(4, 1, 24, 8, 32) + step;
  };
  expectClean(run(small(true), shapes));
  expectMismatch(run(small(false), shapes),
                 "adds products of 'p1'[24,:], column 0 of B, to an "
                 "accumulator of 'p1'[:,8] (register %f0, lane 0)");
}

TEST(Layout, SmallShapesOfMma) {
  auto body = [](int column) {
    return loadBlock(0, 0, 0, 8, 64) + loadBlock(1, 0, 8, 8, 64) +
           loadBlock(4, 1, 0, column, 64) +
           "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
           "{%f0,%f1,%f2,%f3}, {%r0,%r1}, {%r4}, {%f0,%f1,%f2,%f3};";
  };
  expectClean(run(body(8), matrices));
  expectMismatch(run(body(16), matrices));
}

//===----------------------------------------------------------------------===//
// What is not known is not judged
//===----------------------------------------------------------------------===//

TEST(Layout, HalfAccumulators) {
  auto products = [](int column) {
    return loadA(0, 0, 0, 0, 64) + loadB(4, 1, 0, column, 64) +
           "mov.b32 %r6, 0; mov.b32 %r7, 0; mma.sync.aligned.m16n8k16.row.col."
           "f16.f16.f16.f16 {%r6,%r7}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
           "{%r6,%r7};";
  };
  expectClean(run(products(0), matrices));
  expectMismatch(run(products(16), matrices),
                 "multiplies 'p0'[:,0], row 0 of A at k = 0 (register %r0, "
                 "lane 0), by 'p1'[:,16], column 0 of B at k = 0 (register "
                 "%r4, lane 0)");
  // Pairs of products are the operand of another mma.
  auto second = [&](const std::string &registers) {
    return products(0) + loadTransposed(4, 2, 0, 0, 32) +
           "mov.b32 %r5, 0; mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
           "{%f0,%f1,%f2,%f3}, {" +
           registers + "}, {%r4}, {%f0,%f1,%f2,%f3};";
  };
  const Shapes three = {{32, 64}, {32, 64}, {32, 32}};
  expectClean(run(second("%r6,%r7"), three));
  expectMismatch(run(products(0) + loadTransposed(4, 2, 8, 0, 32) +
                         "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                         "{%f0,%f1,%f2,%f3}, {%r6,%r7}, {%r4}, "
                         "{%f0,%f1,%f2,%f3};",
                     three));
}

/// A and B of tf32 from 4-byte tensors; lane / 4 is the row, lane % 4 the
/// product.
static RunResult runTf32(unsigned depth, int columnOfB, bool isSwapped) {
  auto load = [](int to, int buffer, int row, int column) {
    return "shr.u32 %r60, %t, 2; and.b32 %r61, %t, 3; mad.lo.u32 %r62, %r60, "
           "64, %r61; add.u32 %r62, %r62, " +
           num(row * 64 + column) +
           "; mul.wide.u32 %at, %r62, 4; add.u64 %at, %at, %g" + num(buffer) +
           "; ld.global.f32 %f8, [%at]; cvt.rna.tf32.f32 " + reg(to) +
           ", %f8;\n";
  };
  std::string body = load(0, 0, 0, 0) + load(1, 0, 8, 0) + load(2, 0, 0, 4) +
                     load(3, 0, 8, 4) + load(4, 1, 0, columnOfB) +
                     load(5, 1, 0, columnOfB + 4);
  std::string a = isSwapped ? "%r1,%r0" : "%r0,%r1";
  body += depth == 8 ? "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                       "{%f0,%f1,%f2,%f3}, {" +
                           a + ",%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};"
                     : "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
                       "{%f0,%f1,%f2,%f3}, {" +
                           a + "}, {%r4}, {%f0,%f1,%f2,%f3};";
  DeviceMemory memory;
  Arguments arguments;
  std::vector<float> ones(32 * 64, 1.0f);
  for (const char *name : {"p0", "p1", "p2", "p3"}) {
    uint64_t at = memory.allocate(name, ones.size() * 4);
    memory.write(at, ones.data(), ones.size() * 4);
    arguments.addPointer(at);
    EXPECT_TRUE(memory.describe(at, 4, {32, 64}));
  }
  Expected<Kernel> kernel = Kernel::load(kernelText(clearAccumulator + body));
  RunResult result;
  result.error = kernel ? "" : kernel.error().str();
  if (kernel)
    result.report = *launch(*kernel, memory, {{}, {32, 1, 1}, 0}, arguments);
  return result;
}

TEST(Layout, Tf32) {
  for (unsigned depth : {4u, 8u}) {
    expectClean(runTf32(depth, 0, false));
    expectMismatch(runTf32(depth, 4, false),
                   "multiplies 'p0'[:,0], row 0 of A at k = 0 (register %r0, "
                   "lane 0), by 'p1'[:,4], column 0 of B at k = 0 (register "
                   "%r4, lane 0)");
  }
  expectMismatch(runTf32(8, 0, true),
                 "row 0 of A at k = 0 (register %r1, lane 0) is 'p0'[8,:], but "
                 "row 0 of A at k = 4 (register %r2, lane 0) is 'p0'[0,:]");
}

TEST(Layout, NeedsDescribedTensors) {
  std::string body = loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, 32, 64) + multiply;
  expectClean(run(body, {}));
  expectClean(run(body, {{32, 64}}));
  // Axes of different extents need not be the same.
  expectClean(run(body, {{32, 64}, {32, 4, 16}}));
  RunConfig config;
  config.options.checks = CheckAll & ~CheckLayout;
  config.buffers[0] = config.buffers[1] =
      bytesOf(std::vector<uint16_t>(4096, 0x3c00));
  config.shapes = matrices;
  expectClean(runBody(lanes + clearAccumulator + body, config));
}

TEST(Layout, ConvolutionsAreLeftAlone) {
  // Taps of 16 channels: each adds the rows one further, with weights
  // [column, tap * 16 + channel].
  std::string body;
  for (int tap = 0; tap < 3; ++tap)
    body += loadA(0, 0, tap, 0, 16) + loadB(4, 1, 0, 16 * tap, 48) + multiply;
  expectClean(run(body, {{64, 16}, {8, 48}}));
  // The same with weights [column, tap, channel], and with 8 channels, where
  // one mma covers two taps.
  expectClean(run(body, {{64, 16}, {8, 3, 16}}));
  std::string half = loadBlock(0, 0, 0, 0, 8) + loadBlock(1, 0, 8, 0, 8) +
                     loadBlock(2, 0, 1, 0, 8) + loadBlock(3, 0, 9, 0, 8) +
                     loadB(4, 1, 0, 0, 16) + multiply;
  expectClean(run(half, {{64, 8}, {8, 2, 8}}));
  expectClean(run(half, {{64, 8}, {8, 16}}));
}

TEST(Layout, SlidingWindowsAreLeftAlone) {
  // A[m,k] = p0[m + k]: rows and products run along one axis.
  std::string body = "and.b32 %r60, %r60, 31;\n" + loadA(0, 0, 0, 0, 1) +
                     loadB(4, 1, 0, 0, 64) + multiply;
  std::string even = "shl.b32 %r60, %r60, 1;\n";
  expectClean(run(even + body, {{64}, {32, 64}}));
}

TEST(Layout, DescriptionsAreChecked) {
  DeviceMemory memory;
  uint64_t at = memory.allocate("x", 4096);
  EXPECT_TRUE(memory.describe(at, 2, {32, 64}));
  EXPECT_TRUE(memory.describe(at + 64, 2, {31, 64}, {64, 1}));
  EXPECT_TRUE(memory.describe(at, 2, {64, 31}, {1, 66}));
  EXPECT_TRUE(memory.describe(at, 4, {}));
  EXPECT_TRUE(memory.describe(at, 2, {0, 64}));
  EXPECT_FALSE(memory.describe(at, 2, {33, 64}));
  EXPECT_FALSE(memory.describe(at + 2, 2, {32, 64}));
  EXPECT_FALSE(memory.describe(at, 2, {32, 64}, {64}));
  EXPECT_FALSE(memory.describe(at, 2, {32, 64}, {32, 1})) << "overlaps";
  EXPECT_FALSE(memory.describe(at, 2, {32, 64}, {0, 1})) << "broadcast";
  EXPECT_FALSE(memory.describe(at, 2, {UINT64_MAX, UINT64_MAX, 2}));
  EXPECT_FALSE(memory.describe(at, 0, {32, 64}));
  EXPECT_FALSE(memory.describe(0, 2, {1}));
}

/// p0 has rows of 64 at a pitch of 72, p1 is [product, column] in memory.
TEST(Layout, FollowsStrides) {
  auto launchWith = [](int column) {
    DeviceMemory memory;
    Arguments arguments;
    std::vector<uint16_t> ones(32 * 72, 0x3c00);
    for (const char *name : {"p0", "p1", "p2", "p3"}) {
      uint64_t at = memory.allocate(name, ones.size() * 2);
      memory.write(at, ones.data(), ones.size() * 2);
      arguments.addPointer(at);
      if (name[1] == '0')
        EXPECT_TRUE(memory.describe(at, 2, {32, 64}, {72, 1}));
      if (name[1] == '1')
        EXPECT_TRUE(memory.describe(at, 2, {32, 64}, {1, 32}));
    }
    Expected<Kernel> kernel = Kernel::load(
        kernelText(lanes + clearAccumulator + loadA(0, 0, 0, column, 72) +
                   loadTransposed(4, 1, 48, 8, 32) +
                   loadTransposed(5, 1, 56, 8, 32) + multiply));
    RunResult result;
    result.report = *launch(*kernel, memory, {{}, {32, 1, 1}, 0}, arguments);
    return result;
  };
  expectClean(launchWith(48));
  expectMismatch(launchWith(32),
                 "multiplies 'p0'[:,32], row 0 of A at k = 0 (register %r0, "
                 "lane 0), by 'p1'[:,48], column 0 of B at k = 0 (register "
                 "%r4, lane 0)");
  // The right half of the fragment is padding, of which nothing is known.
  expectMismatch(launchWith(56));
}

//===----------------------------------------------------------------------===//
// Ways to the mma
//===----------------------------------------------------------------------===//

/// Loads A and B, B from `column`, does `way` to %r4 and %r5, and multiplies.
static RunResult by(const std::string &way, int column,
                    const std::string &declarations = {}) {
  return run(loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, column, 64) + way +
                 multiply,
             matrices, declarations);
}
static void expectFollowed(const std::string &way,
                           const std::string &declarations = {}) {
  expectClean(by(way, 16, declarations));
  expectMismatch(by(way, 32, declarations));
}

TEST(Layout, FollowsMovesAndSelections) {
  expectFollowed("mov.b32 %r10, %r4; mov.b32 %r4, %r10;");
  expectFollowed("mov.b32 {%h0,%h1}, %r4; mov.b32 %r4, {%h0,%h1};");
  expectFollowed("mov.b64 %d0, {%r4,%r5}; mov.b64 {%r4,%r5}, %d0;");
  expectFollowed("prmt.b32 %r10, %r4, %r5, 0x5410;"
                 "prmt.b32 %r11, %r4, %r5, 0x7632;"
                 "prmt.b32 %r4, %r10, %r11, 0x5410;"
                 "prmt.b32 %r5, %r10, %r11, 0x7632;");
  expectFollowed("setp.lt.u32 %p0, %t, 16; mov.b32 %r10, 0;"
                 "selp.b32 %r4, %r4, %r10, %p0;");
  expectFollowed("setp.lt.u32 %p0, %t, 16; @%p0 mov.b32 %r10, %r4;"
                 "@!%p0 mov.b32 %r10, %r4; mov.b32 %r4, %r10;");
  expectFollowed("mul.rn.f16x2 %r4, %r4, %r4; neg.f16x2 %r5, %r5;");
  expectFollowed("mov.b32 {%h0,%h1}, %r4; cvt.f32.f16 %f10, %h0;"
                 "cvt.f32.f16 %f11, %h1; mul.f32 %f10, %f10, 0f40000000;"
                 "cvt.rn.f16x2.f32 %r4, %f11, %f10;");
  // A half that changed places is one.
  expectMismatch(by("mov.b32 {%h0,%h1}, %r4; mov.b32 %r4, {%h1,%h0};", 16));
  expectMismatch(by("prmt.b32 %r4, %r4, %r4, 0x1032;", 16));
  // Bits that were computed with are not followed.
  expectClean(by("xor.b32 %r4, %r4, 1; xor.b32 %r5, %r5, 1;", 32));
}

TEST(Layout, ConvertedIntegersHaveNoOrigin) {
  // A has labels, of which the first slot is one; B is made of whole numbers.
  std::string b = "cvt.rn.f16.u32 %h0, %t; mov.b32 %r4, {%h0,%h0};"
                  "xor.b32 %r5, %r4, 1;";
  expectClean(by(b, 16));
  expectClean(by(b, 32));
}

TEST(Layout, FollowsShuffles) {
  std::string there = "shfl.sync.bfly.b32 %r10, %r4, 4, 31, -1;";
  std::string back = "shfl.sync.bfly.b32 %r4, %r10, 4, 31, -1;";
  expectFollowed(there + back);
  // Lanes of one column exchanged: its products are in another order.
  expectMismatch(by("shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1;", 16));
}

static const std::string tile = ".shared .align 16 .b8 tile[1024];";

TEST(Layout, FollowsSharedMemory) {
  std::string at = "shl.b32 %r20, %t, 3; mov.u32 %r21, tile;"
                   "add.u32 %r21, %r21, %r20;\n";
  expectFollowed(at + "st.shared.b32 [%r21], %r4; ld.shared.b32 %r4, [%r21];",
                 tile);
  expectFollowed(at + "st.shared.v2.b32 [%r21], {%r4,%r5};"
                      "ld.shared.b64 %d0, [%r21]; mov.b64 {%r4,%r5}, %d0;",
                 tile);
  expectFollowed(at + "mov.b32 {%h0,%h1}, %r4; st.shared.b16 [%r21], %h0;"
                      "st.shared.b16 [%r21+2], %h1;"
                      "ld.shared.b32 %r4, [%r21];",
                 tile);
  // Through a generic address.
  expectFollowed(at + "cvta.shared.u64 %d1, tile; mul.wide.u32 %d2, %t, 8;"
                      "add.u64 %d1, %d1, %d2; st.b32 [%d1], %r4;"
                      "ld.b32 %r4, [%d1];",
                 tile);
  // Overwritten by something else.
  expectClean(by(at + "st.shared.v2.b32 [%r21], {%r4,%r5};"
                      "mov.b32 %r10, 0; st.shared.v2.b32 [%r21], {%r10,%r10};"
                      "ld.shared.v2.b32 {%r4,%r5}, [%r21];",
                 32, tile));
}

TEST(Layout, FollowsMatrixMoves) {
  std::string at = "shl.b32 %r20, %t, 4; mov.u32 %r21, tile;"
                   "and.b32 %r20, %r20, 255; add.u32 %r21, %r21, %r20;\n";
  auto move = [&](const std::string &to, const std::string &from) {
    return at + "stmatrix.sync.aligned.m8n8.x2" + to +
           ".shared.b16 [%r21], {%r4,%r5}; bar.warp.sync -1;"
           "ldmatrix.sync.aligned.m8n8.x2" +
           from + ".shared.b16 {%r4,%r5}, [%r21];";
  };
  expectFollowed(move("", ""), tile);
  expectFollowed(move(".trans", ".trans"), tile);
  expectMismatch(by(move("", ".trans"), 16, tile));
}

TEST(Layout, FollowsCpAsync) {
  // Row n of B's 16 products: two copies of 16 bytes, at a pitch of 32.
  auto copy = [](int column, const std::string &bytes) {
    return "and.b32 %r20, %t, 1; shr.u32 %r22, %t, 1;"
           "mad.lo.u32 %r23, %r22, 64, " +
           num(column) +
           "; mad.lo.u32 %r23, %r20, 8, %r23; mul.wide.u32 %at, %r23, 2;"
           "add.u64 %at, %at, %g1; shl.b32 %r24, %t, 4; mov.u32 %r21, tile;"
           "add.u32 %r24, %r24, %r21; setp.lt.u32 %p0, %t, 16;"
           "@%p0 cp.async.ca.shared.global [%r24], [%at], 16, " +
           bytes +
           "; cp.async.wait_all; bar.warp.sync -1;"
           "mad.lo.u32 %r26, %r60, 16, %r61; shl.b32 %r26, %r26, 1;"
           "add.u32 %r26, %r26, %r21; ld.shared.b32 %r4, [%r26];"
           "ld.shared.b32 %r5, [%r26+16];";
  };
  expectClean(by(copy(16, "16"), 16, tile));
  expectMismatch(by(copy(24, "16"), 16, tile));
  // What is filled with zeros has no origin, the rest still has one.
  expectClean(by(copy(24, "0"), 16, tile));
  expectMismatch(by(copy(24, "8"), 16, tile));
}

TEST(Layout, FollowsFloatTensors) {
  auto launchWith = [](int column) {
    DeviceMemory memory;
    Arguments arguments;
    std::vector<uint32_t> ones(32 * 64, 0x3c003c00);
    for (const char *name : {"p0", "p1", "p2", "p3"}) {
      uint64_t at = memory.allocate(name, ones.size() * 4);
      memory.write(at, ones.data(), ones.size() * 4);
      arguments.addPointer(at);
      EXPECT_TRUE(memory.describe(at, name[1] == '1' ? 4 : 2, {32, 64}));
    }
    std::string body = loadA(0, 0, 0, 16, 64);
    for (int i = 0; i < 2; ++i)
      body += "mad.lo.u32 %r62, %r60, 64, %r61; add.u32 %r62, %r62, " +
              num(column + 8 * i) +
              "; mul.wide.u32 %at, %r62, 4; add.u64 %at, %at, %g1;"
              "ld.global.v2.f32 {%f10,%f11}, [%at];"
              "cvt.rn.f16x2.f32 " +
              reg(4 + i) + ", %f11, %f10;";
    Expected<Kernel> kernel =
        Kernel::load(kernelText(lanes + clearAccumulator + body + multiply));
    RunResult result;
    result.report = *launch(*kernel, memory, {{}, {32, 1, 1}, 0}, arguments);
    return result;
  };
  expectClean(launchWith(16));
  expectMismatch(launchWith(0));
}

//===----------------------------------------------------------------------===//
// Products as operands
//===----------------------------------------------------------------------===//

static const Shapes attentionShapes = {{16, 64}, {32, 64}, {32, 64}};

/// S = Q K^T for 16 keys from `key`, in %f0 .. %f7.
static std::string scores(int key) {
  std::string body = "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0;"
                     "mov.f32 %f7, %f0;\n";
  for (int k = 0; k < 64; k += 16)
    body += loadA(0, 0, 0, k, 64) + loadB(4, 1, key, k, 64) + multiply +
            loadB(4, 1, key + 8, k, 64) +
            mma("%f4,%f5,%f6,%f7", "%r0,%r1,%r2,%r3", "%r4,%r5");
  return body;
}

/// O = P V for the keys from `key`, with the accumulator in %f8 .. %f11.
static std::string output(int key, const std::string &pack) {
  return "mov.f32 %f8, 0f00000000; mov.f32 %f9, %f8; mov.f32 %f10, %f8;"
         "mov.f32 %f11, %f8;\n" +
         pack + loadTransposed(4, 2, key, 8, 64) +
         loadTransposed(5, 2, key + 8, 8, 64) +
         mma("%f8,%f9,%f10,%f11", "%r0,%r1,%r2,%r3", "%r4,%r5");
}

static const std::string packScores = "cvt.rn.f16x2.f32 %r0, %f1, %f0;"
                                      "cvt.rn.f16x2.f32 %r1, %f3, %f2;"
                                      "cvt.rn.f16x2.f32 %r2, %f5, %f4;"
                                      "cvt.rn.f16x2.f32 %r3, %f7, %f6;\n";

TEST(Layout, ScoresMeetTheValuesOfTheirKeys) {
  expectClean(run(scores(16) + output(16, packScores), attentionShapes));
  expectMismatch(run(scores(16) + output(0, packScores), attentionShapes),
                 "multiplies 'p1'[16,:], row 0 of A at k = 0 (register %r0, "
                 "lane 0), by 'p2'[0,:], column 0 of B at k = 0 (register %r4, "
                 "lane 0)");
  expectMismatch(
      run(scores(16) + output(16, "cvt.rn.f16x2.f32 %r0, %f0, %f1;"
                                  "cvt.rn.f16x2.f32 %r1, %f2, %f3;"
                                  "cvt.rn.f16x2.f32 %r2, %f4, %f5;"
                                  "cvt.rn.f16x2.f32 %r3, %f6, %f7;\n"),
          attentionShapes));
}

static std::string subtract(const std::string &score) {
  return "sub.f32 " + score + ", " + score + ", %f12;";
}
/// By as much as the row has moved in whole steps: %f14 less the maximum.
static std::string addDifference(const std::string &score) {
  return "cvt.rpi.f32.f32 %f15, %f12; min.f32 %f16, %f14, 0f46800000;"
         "sub.f32 %f17, %f16, %f15; add.f32 " +
         score + ", " + score + ", %f17; mov.f32 %f14, %f17;\n";
}

/// The row maximum of two columns of each thread, of %f0 and %f1 and so on,
/// which `shift` takes from both.
static std::string softmax(const std::string &mask,
                           std::string (*shift)(const std::string &score)) {
  std::string body = mask;
  for (int half = 0; half < 4; half += 2) {
    std::string low = "%f" + num(half), high = "%f" + num(half + 1),
                low2 = "%f" + num(half + 4), high2 = "%f" + num(half + 5);
    body += "mov.f32 %f12, 0fFF800000; max.f32 %f12, %f12, " + low +
            "; max.f32 %f12, %f12, " + high + "; max.f32 %f12, %f12, " + low2 +
            "; max.f32 %f12, %f12, " + high2 +
            "; mov.b32 %r30, %f12; shfl.sync.bfly.b32 %r31, %r30, 1, 31, -1;"
            "mov.b32 %f13, %r31; max.f32 %f12, %f12, %f13;"
            "mov.b32 %r30, %f12; shfl.sync.bfly.b32 %r31, %r30, 2, 31, -1;"
            "mov.b32 %f13, %r31; max.f32 %f12, %f12, %f13;\n";
    for (const std::string &s : {low, high, low2, high2})
      body += shift(s) + "ex2.approx.f32 " + s + ", " + s + ";\n";
  }
  return body;
}

TEST(Layout, SoftmaxKeepsRowAndKey) {
  std::string causal = "setp.ge.u32 %p0, %r60, %r61;"
                       "selp.f32 %f0, %f0, 0fFF800000, %p0;"
                       "setp.gt.u32 %p0, %r60, %r61;"
                       "selp.f32 %f1, %f1, 0fFF800000, %p0;"
                       "mov.f32 %f4, 0fFF800000; mov.f32 %f5, %f4;\n";
  for (auto shift : {subtract, addDifference})
    for (const std::string &mask : {std::string(), causal}) {
      std::string body =
          "mov.f32 %f14, 0f00000000;\n" + scores(0) + softmax(mask, shift);
      expectClean(run(body + output(0, packScores), attentionShapes));
      expectMismatch(run(body + output(16, packScores), attentionShapes));
    }
}

TEST(Layout, ValuesOfOtherColumnsAndOfOneOtherKey) {
  // Odd keys are read one chunk of columns further, and key 7 in the row of key
  // 6: the columns move at each k, the keys all but once.
  std::string load = addressOf(2, 0, 8, 64, true) +
                     "setp.eq.u32 %p0, %r61, 6; selp.b32 %r63, 16, 144, %p0;"
                     "cvt.u64.u32 %d0, %r63; add.u64 %d0, %at, %d0;"
                     "ld.global.b16 %h0, [%at]; ld.global.b16 %h1, [%d0];"
                     "mov.b32 %r4, {%h0, %h1};\n";
  std::string body = scores(0) + packScores + load +
                     loadTransposed(5, 2, 8, 8, 64) +
                     "mov.f32 %f8, 0f00000000; mov.f32 %f9, %f8;"
                     "mov.f32 %f10, %f8; mov.f32 %f11, %f8;\n" +
                     mma("%f8,%f9,%f10,%f11", "%r0,%r1,%r2,%r3", "%r4,%r5");
  expectMismatch(run(body, attentionShapes),
                 "multiplies 'p1'[7,:], row 0 of A at k = 7 (register %r0, "
                 "lane 3), by 'p2'[6,:], column 0 of B at k = 7 (register %r4, "
                 "lane 3)");
}

TEST(Layout, OneMistakeIsReportedOnce) {
  // The scores belong to the wrong keys, but only the first product says so.
  std::string body = loadA(0, 0, 0, 16, 64) + loadB(4, 1, 0, 32, 64) + multiply;
  body += loadA(0, 0, 0, 32, 64) + multiply + loadA(0, 0, 0, 32, 64) + multiply;
  EXPECT_EQ(run(body, matrices).report.findings.size(), 1u);
}

//===----------------------------------------------------------------------===//
// The vector kernels against their definition
//===----------------------------------------------------------------------===//

static Component mergeComponent(Component a, Component b, bool isSum) {
  if (a == b)
    return a;
  if (isSum)
    return mixed;
  if (a == mixed || b == mixed)
    return a == mixed ? b : a;
  return a == 0 ? b : b == 0 ? a : mixed;
}

static Label mergeLabel(Label a, Label b, bool isSum) {
  if (isMemory(a) && b != 0 && !isMemory(b))
    a = 0;
  if (isMemory(b) && a != 0 && !isMemory(a))
    b = 0;
  Component low = mergeComponent(lowWord(a), lowWord(b), isSum);
  Component high = mergeComponent(highWord(a), highWord(b), isSum);
  return low == mixed && high == memoryMark ? productLabel(mixed, mixed)
                                            : productLabel(low, high);
}

TEST(Layout, KernelsFollowTheirDefinition) {
  std::mt19937 random(5);
  auto component = [&]() -> Component {
    const Component some[] = {0, mixed, 1u << 24, 2u << 24 | 7};
    return some[random() % 4];
  };
  for (const HandlerTable *table : allHandlers()) {
    const LabelKernels &kernels = *table->labels;
    for (int round = 0; round < 50; ++round) {
      alignas(64) Label a[32], b[32], d[32];
      for (unsigned i = 0; i < 32; ++i) {
        a[i] = random() % 3 ? productLabel(component(), component())
                            : memoryLabel(1 + random() % 2);
        b[i] = random() % 3 ? productLabel(component(), component())
                            : memoryLabel(1 + random() % 2);
      }
      bool isSum = round & 1;
      kernels.merge(d, a, b, isSum);
      for (unsigned i = 0; i < 32; ++i)
        ASSERT_EQ(d[i], mergeLabel(a[i], b[i], isSum)) << a[i] << " " << b[i];
      Label first = memoryLabel(100), rowStep = 64, pairStep = 2;
      kernels.fill(d, first, rowStep, pairStep);
      for (unsigned i = 0; i < 32; ++i)
        ASSERT_EQ(d[i], first + i / 4 * rowStep + i % 4 * pairStep);
      EXPECT_TRUE(kernels.matches(d, first, rowStep, pairStep));
      d[random() % 32] ^= Label(1) << random() % 64;
      EXPECT_FALSE(kernels.matches(d, first, rowStep, pairStep));
    }
    alignas(64) Label matrix[8][8], low[32], high[32];
    const Label *rows[8];
    for (unsigned i = 0; i < 8; ++i) {
      rows[i] = matrix[i];
      for (unsigned j = 0; j < 8; ++j)
        matrix[i][j] = memoryLabel(8 * i + j);
    }
    for (bool isTransposed : {false, true}) {
      kernels.loadMatrix(rows, low, high, isTransposed);
      for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned line = lane / 4, place = lane % 4 * 2;
        EXPECT_EQ(low[lane],
                  isTransposed ? matrix[place][line] : matrix[line][place]);
        EXPECT_EQ(high[lane], isTransposed ? matrix[place + 1][line]
                                           : matrix[line][place + 1]);
      }
    }
  }
}
