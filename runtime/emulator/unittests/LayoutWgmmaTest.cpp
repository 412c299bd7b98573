//===- LayoutWgmmaTest.cpp - The layout check of wgmma --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// p2[64,64] = p0[64,64] p1[64,64]^T by one warpgroup: tiles that bulk copies
// bring to shared memory, A from there or from registers. Right it is silent;
// mistakes in maps, descriptors, steps and fragments give other numbers and are
// reported.
//
//===----------------------------------------------------------------------===//

#include "LayoutUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static constexpr int size = 64, step = 16;

namespace {
/// A kernel, and its mistakes.
struct WgmmaGemm {
  bool isAInRegisters = false;
  std::string coordinatesB = "{0, 0}";
  /// In units of 16 bytes, for a step of 16 products of 2 bytes.
  int stepA = 2, stepB = 2;
  int isTransposedB = 0;
  TensorSwizzle swizzleB = TensorSwizzle::Bytes128;
  /// The registers of A, of a step.
  std::vector<int> fragment = {0, 1, 2, 3};
  /// Columns of the tile whose sums are stored at columns 0 to 7.
  int firstColumns = 0;

  std::string text() const;
  RunResult run() const;
};
} // namespace

static std::string sums() {
  std::string text = "{";
  for (int i = 0; i < size / 2; ++i)
    text += (i ? ", %f" : "%f") + num(i);
  return text + "}";
}

static std::string copy(int offset, const std::string &map,
                        const std::string &coordinates) {
  return "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
         "complete_tx::bytes [tiles+" +
         num(offset) + "], [%" + map + ", " + coordinates + "], [bar];\n";
}

std::string WgmmaGemm::text() const {
  // %r60: the row of a lane in its warp's 16 and in the tile; %r61: its column.
  std::string body =
      "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bar], 1;"
      "bar.sync 0; @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16384;" +
      copy(0, "m0", "{0, 0}") + copy(8192, "m1", coordinatesB) +
      "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;\n"
      "and.b32 %r61, %t, 31; shr.u32 %r60, %r61, 2; shr.u32 %r62, %t, 5;"
      "shl.b32 %r62, %r62, 4; add.u32 %r60, %r60, %r62; and.b32 %r61, %t, 3;"
      "shl.b32 %r61, %r61, 1; mov.u32 %r62, tiles; shr.u32 %r62, %r62, 4;"
      "cvt.u64.u32 %d0, %r62; or.b64 %d0, %d0, 0x4000004000000000;"
      "add.u64 %d1, %d0, 512;\n";
  if (isAInRegisters)
    for (int i = 0; i < size / step; ++i)
      body += loadA(4 * i, 0, 0, step * i, size);
  body += "wgmma.fence.sync.aligned;\n";
  for (int i = 0; i < size / step; ++i) {
    std::string a = "%d2";
    if (isAInRegisters) {
      a = "{";
      for (int each : fragment)
        a += (a.size() > 1 ? ", " : "") + reg(4 * i + each);
      a += "}";
    }
    body += "add.u64 %d2, %d0, " + num(stepA * i) + "; add.u64 %d3, %d1, " +
            num(stepB * i) +
            "; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " + sums() +
            ", " + a + ", %d3, " + (i ? "1" : "0") + ", 1, 1" +
            (isAInRegisters ? "" : ", 0") + ", " + num(isTransposedB) + ";\n";
  }
  body += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n";
  for (int column = 0; column < size; column += 8) {
    int first = (column ? column : firstColumns) / 2;
    for (int half = 0; half < 2; ++half)
      body += "cvt.rn.f16x2.f32 %r63, %f" + num(first + 2 * half + 1) + ", %f" +
              num(first + 2 * half) + ";" +
              addressOf(2, 8 * half, column, size) +
              "st.global.b32 [%at], %r63;\n";
  }
  return body;
}

RunResult WgmmaGemm::run() const {
  RunConfig config;
  config.block = {128, 1, 1};
  config.outputBytes = size * size * 2;
  std::vector<uint16_t> values(size * size);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint16_t>(0x3c00 + i * 7 % 64);
  config.buffers[0] = config.buffers[1] = bytesOf(values);
  config.shapes = {{size, size}, {size, size}, {size, size}};
  for (unsigned i = 0; i < 2; ++i) {
    TensorMap map;
    map.address = i;
    map.rank = 2;
    map.swizzle = i ? swizzleB : TensorSwizzle::Bytes128;
    map.sizes[0] = map.sizes[1] = map.box[0] = map.box[1] = size;
    map.strides[0] = 2;
    map.strides[1] = size * 2;
    config.maps.push_back(map);
  }
  return runSm90(text(), config,
                 ".shared .align 1024 .b8 tiles[16384]; .shared .align 8 .b8 "
                 "bar[8];");
}

static WgmmaGemm with(void (*change)(WgmmaGemm &)) {
  WgmmaGemm gemm;
  change(gemm);
  return gemm;
}

TEST(LayoutWgmma, RightProductsAreSilent) {
  expectClean(WgmmaGemm().run());
  expectClean(with([](WgmmaGemm &g) { g.isAInRegisters = true; }).run());
}

TEST(LayoutWgmma, ACopyFromElsewhere) {
  expectMismatch(with([](WgmmaGemm &g) { g.coordinatesB = "{1, 0}"; }).run(),
                 "multiplies 'p0'[:,0], row 0 of A at k = 0 (in shared "
                 "memory), by 'p1'[:,1], column 0 of B at k = 0 (in shared "
                 "memory)");
}

TEST(LayoutWgmma, StepsThatDoNotGoTogether) {
  expectMismatch(with([](WgmmaGemm &g) { g.stepB = 0; }).run());
  expectMismatch(with([](WgmmaGemm &g) { g.stepA = 0; }).run());
}

TEST(LayoutWgmma, ASwizzleThatOneSideKnows) {
  expectMismatch(
      with([](WgmmaGemm &g) { g.swizzleB = TensorSwizzle::None; }).run());
}

TEST(LayoutWgmma, ATransposedOperand) {
  expectMismatch(with([](WgmmaGemm &g) { g.isTransposedB = 1; }).run());
}

TEST(LayoutWgmma, RegistersOfAInAnotherOrder) {
  auto gemm = [](std::vector<int> order) {
    WgmmaGemm g;
    g.isAInRegisters = true;
    g.fragment = std::move(order);
    return g;
  };
  expectMismatch(gemm({1, 0, 2, 3}).run());
  expectMismatch(gemm({0, 2, 1, 3}).run());
}

TEST(LayoutWgmma, SumsThatAreStoredElsewhere) {
  expectMismatch(with([](WgmmaGemm &g) { g.firstColumns = 8; }).run());
}
