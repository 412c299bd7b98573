//===- LayoutStoreTest.cpp - Products that are stored ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// C = A B for tiles of p0, p1 and p2, whose result goes where the tests say: an
// element of C must not be the product of another one, nor be away from its row
// and column, nor sum fewer products than its row.
//
//===----------------------------------------------------------------------===//

#include "LayoutUtil.h"

#include "check/Layout.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
/// The pitch of C in memory and whether it is described.
struct Result {
  uint64_t pitch = 32;
  std::vector<uint64_t> shape = {32, 32};
};
} // namespace

/// The tile of rows 0 to 15 and of columns from `column` on.
static std::string product(int column) {
  std::string body = clearAccumulator;
  for (int k = 0; k < 64; k += 16)
    body += loadA(0, 0, 0, k, 64) + loadTransposed(4, 1, k, column, 32) +
            loadTransposed(5, 1, k + 8, column, 32) + multiply;
  return body;
}

/// Two f16 each to rows `row` and `row` + 8 of C.
static std::string store(int row, int column, int pitch = 32) {
  return "cvt.rn.f16x2.f32 %r10, %f1, %f0; cvt.rn.f16x2.f32 %r11, %f3, %f2;" +
         addressOf(2, row, column, pitch) + "st.global.b32 [%at], %r10;" +
         addressOf(2, row + 8, column, pitch) + "st.global.b32 [%at], %r11;\n";
}

static RunResult run(const std::string &body, const Result &result = {},
                     unsigned elementBytes = 2,
                     const std::string &declarations = {}) {
  DeviceMemory memory;
  Arguments arguments;
  std::vector<uint16_t> ones(64 * 64, 0x3c00);
  const std::vector<uint64_t> shapes[] = {{32, 64}, {64, 32}, result.shape, {}};
  for (size_t i = 0; i < 4; ++i) {
    uint64_t at = memory.allocate("p" + std::to_string(i), ones.size() * 2);
    memory.write(at, ones.data(), ones.size() * 2);
    arguments.addPointer(at);
    if (shapes[i].empty())
      continue;
    std::vector<uint64_t> strides;
    if (i == 2 && shapes[i].size() == 2)
      strides = {result.pitch, 1};
    EXPECT_TRUE(
        memory.describe(at, i == 2 ? elementBytes : 2, shapes[i], strides));
  }
  Expected<Kernel> kernel =
      Kernel::load(kernelText(lanes + body, declarations));
  RunResult out;
  out.error = kernel ? "" : kernel.error().str();
  if (kernel)
    out.report = *launch(*kernel, memory, {{}, {32, 1, 1}, 0}, arguments);
  return out;
}

TEST(LayoutStore, EachProductAtItsPlace) {
  expectClean(run(product(8) + store(0, 8) + product(16) + store(0, 16)));
  // The same once more.
  expectClean(run(product(8) + store(0, 8) + store(0, 8)));
}

TEST(LayoutStore, AProductAtTwoPlaces) {
  // The second tile should have been that of columns 16 to 23.
  expectMismatch(run(product(8) + store(0, 8) + product(8) + store(0, 16)),
                 "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                 "'p2'[0,16], but it has been stored to 'p2'[0,8]");
  expectMismatch(run(product(8) + store(0, 16) + product(8) + store(0, 8)),
                 "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                 "'p2'[0,8], but it has been stored to 'p2'[0,16]");
  expectMismatch(run(product(8) + store(0, 16) + store(0, 24)),
                 "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                 "'p2'[0,24], but it has been stored to 'p2'[0,16]");
  expectMismatch(run(product(8) + store(0, 8) + store(16, 8)),
                 "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                 "'p2'[16,8], but it has been stored to 'p2'[0,8]");
}

TEST(LayoutStore, ElementsMayBeInAnotherOrder) {
  // Tiles that change places.
  expectClean(run(product(8) + store(0, 16) + product(16) + store(0, 8)));
  expectClean(run(product(8) + store(16, 0) + product(0) + store(0, 0)));
}

TEST(LayoutStore, ARowAndAColumnHaveOnePlace) {
  // Columns in another order, which is the same in both halves of the tile.
  std::string exchanged = "mov.f32 %f10, %f0; mov.f32 %f0, %f1;"
                          "mov.f32 %f1, %f10;";
  std::string both = exchanged + "mov.f32 %f10, %f2; mov.f32 %f2, %f3;"
                                 "mov.f32 %f3, %f10;\n";
  expectClean(run(product(8) + both + store(0, 8)));
  // Only in the upper one.
  expectMismatch(run(product(8) + exchanged + store(0, 8)),
                 "stores the product of 'p0'[8,:] and 'p1'[:,9] to "
                 "'p2'[8,9], but other products of this row and of this "
                 "column put it to 'p2'[8,7]");
}

static const std::string staging = ".shared .align 16 .b8 tile[1024];";

/// Two f16 each of rows 0 to 7 and 8 to 15 through shared memory.
static std::string stage(const std::string &between, int shift = 0) {
  return "cvt.rn.f16x2.f32 %r10, %f1, %f0; cvt.rn.f16x2.f32 %r11, %f3, %f2;"
         "mov.u32 %r12, tile; shl.b32 %r13, %t, 2; add.u32 %r12, %r12, %r13;" +
         between + "bar.warp.sync -1; ld.shared.b32 %r10, [%r12+" + num(shift) +
         "]; ld.shared.b32 %r11, [%r12+128];" + addressOf(2, 0, 8, 32) +
         "st.global.b32 [%at], %r10;" + addressOf(2, 8, 8, 32) +
         "st.global.b32 [%at], %r11;\n";
}
static const std::string toTile =
    "st.shared.b32 [%r12], %r10; st.shared.b32 [%r12+128], %r11;";

TEST(LayoutStore, FollowsSharedMemory) {
  auto staged = [](const std::string &body) {
    return run(body, {}, 2, staging);
  };
  expectClean(staged(product(8) + stage(toTile)));
  // Rows 8 to 15 twice.
  expectMismatch(staged(product(8) + stage(toTile, 128)),
                 "stores the product of 'p0'[8,:] and 'p1'[:,8] to 'p2'[8,8], "
                 "but it has been stored to 'p2'[0,8]");
}

TEST(LayoutStore, DataNextToProducts) {
  // What A had in the tile is not replaced in half of the lanes.
  std::string body = product(8) + stage(addressOf(0, 0, 0, 64) +
                                        "cp.async.ca.shared.global [%r12], "
                                        "[%at], 4; cp.async.wait_all;"
                                        "st.shared.b32 [%r12+128], %r11;"
                                        "setp.lt.u32 %p0, %t, 16;"
                                        "@%p0 st.shared.b32 [%r12], %r10;");
  expectMismatch(run(body, {}, 2, staging),
                 "stores 'p0'[4,0] to 'p2'[4,8], next to products of mma");
}

TEST(LayoutStore, SumsOfARowHaveEquallyManyProducts) {
  // Columns 8 to 15, without a step, and columns 16 to 23 of the same rows.
  auto tiles = [](int step, const std::string &way = {}) {
    std::string body = clearAccumulator +
                       "mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4;"
                       "mov.f32 %f6, %f4; mov.f32 %f7, %f4;\n";
    for (int k = 0; k < 64; k += 16) {
      body += loadA(0, 0, 0, k, 64);
      for (int tile = 0; tile < 2; ++tile)
        if (tile || k != step)
          body += loadTransposed(4, 1, k, 8 + 8 * tile, 32) +
                  loadTransposed(5, 1, k + 8, 8 + 8 * tile, 32) +
                  mma(tile ? "%f4,%f5,%f6,%f7" : accumulator, "%r0,%r1,%r2,%r3",
                      "%r4,%r5");
    }
    return body + way + store(0, 8) +
           "mov.f32 %f0, %f4; mov.f32 %f1, %f5; mov.f32 %f2, %f6;"
           "mov.f32 %f3, %f7;" +
           store(0, 16);
  };
  expectClean(run(tiles(-1)));
  // Lanes that exchange what they hold of two tiles, there and back.
  std::string selection =
      "setp.lt.u32 %p0, %t, 16; selp.f32 %f10, %f0, %f4, %p0;"
      "selp.f32 %f4, %f4, %f0, %p0; mov.f32 %f0, %f10;\n";
  expectClean(run(tiles(-1, selection + selection)));
  expectMismatch(run(tiles(32, selection + selection)),
                 "stores a sum of 64 products of 'p0'[0,:] and 'p1'[:,16], "
                 "but other sums of this row have 48");
  for (int step : {0, 32, 48})
    expectMismatch(run(tiles(step)),
                   "stores a sum of 64 products of 'p0'[0,:] and 'p1'[:,16], "
                   "but other sums of this row have 48");
}

TEST(LayoutStore, AnAccumulatorThatNoMmaHasAddedTo) {
  // Columns 8 to 15 are products and 16 to 23 zeros, both scaled for their row.
  std::string factor = "max.f32 %f8, %f0, %f1;"
                       "shfl.sync.bfly.b32 %f9, %f8, 1, 31, -1;"
                       "max.f32 %f8, %f8, %f9;"
                       "shfl.sync.bfly.b32 %f9, %f8, 2, 31, -1;"
                       "max.f32 %f8, %f8, %f9; rcp.approx.f32 %f8, %f8;\n";
  std::string scale = "mul.f32 %f0, %f0, %f8; mul.f32 %f1, %f1, %f8;"
                      "mul.f32 %f4, %f4, %f8; mul.f32 %f5, %f5, %f8;\n";
  // Lanes of rows 0 to 3 store products, the others zeros.
  auto tiles = [&](const std::string &way, const std::string &first) {
    return run("mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4;\n" + first + way +
               "setp.lt.u32 %p0, %t, 16; selp.f32 %f10, %f0, %f4, %p0;"
               "selp.f32 %f11, %f1, %f5, %p0; cvt.rn.f16x2.f32 %r10, %f11, "
               "%f10; selp.b64 %d0, 16, 32, %p0;\n" +
               addressOf(2, 0, 0, 32) +
               "add.u64 %at, %at, %d0; st.global.b32 [%at], %r10;\n");
  };
  std::string message =
      "stores an accumulator to 'p2'[4,16] that no mma has added to, next to "
      "products of mma";
  expectMismatch(tiles(factor + scale, product(8)), message);
  // In place, as a loop has it, and not scaled again.
  expectMismatch(tiles(factor + scale + scale, product(8)), message);
  // A row factor that an mma gave, as the row sum by columns of ones.
  std::string sum = clearAccumulator + "mov.b32 %r4, 0x3c003c00;" +
                    loadA(0, 0, 0, 0, 64) +
                    mma(accumulator, "%r0,%r1,%r2,%r3", "%r4,%r4") +
                    "rcp.approx.f32 %f8, %f0;\n";
  expectMismatch(tiles(scale, sum + product(8)), message);
  // Zeros that nothing scales are padding; without products there is nothing
  // that they stand beside; a factor of zero scales products.
  expectClean(tiles("", product(8)));
  expectClean(tiles(factor + scale, clearAccumulator));
  expectClean(tiles("mov.f32 %f8, %f4;" + scale, product(8)));
  // Of columns 16 to 23 of B, only the first are of a tensor, or none: one
  // alone does not say what a column is, but the mma has added to all of them.
  auto addColumns = [&](int count) {
    std::string body = "mov.f32 %f6, %f4; mov.f32 %f7, %f4;";
    body += "setp.lt.u32 %p0, %t, " + std::to_string(4 * count) + ";\n" +
            loadA(0, 0, 0, 0, 64) + loadTransposed(4, 1, 0, 16, 32) +
            loadTransposed(5, 1, 8, 16, 32);
    return body + "selp.b32 %r4, %r4, 0, %p0; selp.b32 %r5, %r5, 0, %p0;\n" +
           mma("%f4,%f5,%f6,%f7", "%r0,%r1,%r2,%r3", "%r4,%r5");
  };
  for (int count : {0, 1, 3})
    expectClean(tiles(factor + scale + addColumns(count), product(8)));
  // A maximum of zero that becomes a result of its own, as the lse does.
  expectClean(run("mov.f32 %f4, 0f00000000; mov.f32 %f5, %f4;\n" + product(8) +
                  factor + scale + store(0, 8) +
                  "mov.f32 %f0, %f4; mov.f32 %f1, %f5; mov.f32 %f2, %f4;"
                  "mov.f32 %f3, %f5;\n" +
                  store(0, 16)));
}

TEST(LayoutStore, NeedsAxesThatMatch) {
  // Of another extent, or nothing described: a copy of C for each of two.
  for (const std::vector<uint64_t> &shape :
       {std::vector<uint64_t>{64, 64}, std::vector<uint64_t>{}})
    expectClean(run(product(8) + store(0, 8) + store(0, 16), {64, shape}));
  // Sums stand for no product.
  std::string sum = "add.f32 %f0, %f0, %f1; add.f32 %f1, %f0, %f1;"
                    "add.f32 %f2, %f2, %f3; add.f32 %f3, %f2, %f3;\n";
  expectClean(run(product(8) + sum + store(0, 8) + store(0, 16)));
}

TEST(LayoutStore, FollowsScalesAndExchanges) {
  for (const std::string &way :
       {std::string("mul.f32 %f0, %f0, %f20; mul.f32 %f1, %f1, %f20;"),
        std::string("shfl.sync.bfly.b32 %f4, %f0, 1, 31, -1;"
                    "shfl.sync.bfly.b32 %f0, %f4, 1, 31, -1;"),
        std::string("setp.lt.u32 %p0, %t, 16; selp.f32 %f4, %f0, %f20, %p0;"
                    "selp.f32 %f0, %f4, %f0, %p0;")}) {
    std::string body =
        "mov.f32 %f20, 0f40000000;\n" + product(8) + way + store(0, 8);
    expectClean(run(body));
    expectMismatch(run(body + store(0, 16)),
                   "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                   "'p2'[0,16], but it has been stored to 'p2'[0,8]");
  }
}

TEST(LayoutStore, FloatResults) {
  auto storeFloats = [](int column) {
    return "mad.lo.u32 %r62, %r60, 32, %r61; add.u32 %r62, %r62, " +
           num(column) +
           "; mul.wide.u32 %at, %r62, 4; add.u64 %at, %at, %g2;"
           "st.global.v2.f32 [%at], {%f0, %f1};\n";
  };
  expectClean(run(product(8) + storeFloats(8), {}, 4));
  expectMismatch(run(product(8) + storeFloats(8) + storeFloats(16), {}, 4),
                 "stores the product of 'p0'[0,:] and 'p1'[:,8] to "
                 "'p2'[0,16], but it has been stored to 'p2'[0,8]");
}

TEST(LayoutStore, NothingBetweenTheRows) {
  Result padded{40, {32, 32}};
  expectClean(run(product(24) + store(0, 24, 40), padded));
  expectMismatch(run(product(24) + store(0, 26, 40), padded),
                 "stores a product of 'p0'[0,:] and 'p1'[:,30] between the "
                 "rows of 'p2', 32 elements after its first one");
}

TEST(LayoutStore, BlocksAreApart) {
  StoredProducts stored;
  uint32_t own[8] = {};
  stored.reset(0);
  EXPECT_EQ(stored.store(1, 1, own), 1u);
  EXPECT_EQ(stored.store(2, 1, own), 1u);
  EXPECT_EQ(stored.store(3, 2, own), 3u);
  EXPECT_EQ(stored.store(4, 2, own), 3u);
  EXPECT_EQ(stored.store(3, 3, own), 3u);
  EXPECT_EQ(stored.store(4, 2, own), 4u);
  EXPECT_EQ(stored.store(2, 2, own), 4u);
  stored.reset(1);
  EXPECT_EQ(stored.store(2, 1, own), 2u);
  EXPECT_EQ(stored.store(5, 2, own), 5u);
}
