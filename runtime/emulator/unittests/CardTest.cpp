//===- CardTest.cpp - Results read from a card ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the PTX ISA leaves a result open, flashcore-emu follows sm_90. The
// rules were read from the results of an NVIDIA H200
// (scripts/compare-with-card.py); operands are from there or chosen beside
// them, so that each rule is seen to end. Nothing here is evidence about a
// card: the comparison is.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include "math/Half.h"
#include "sim/Handlers.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
/// An instruction on %?1, %?2, %?3 (h, r, f, d by width) with its result in
/// register 0 of the width that `width` names.
struct Row {
  const char *text;
  char width;
  uint64_t operands[3];
  uint64_t result;
};
} // namespace

static void checkRow(const Row &row) {
  std::string body;
  for (int i = 1; i <= 3; ++i) {
    std::string n = std::to_string(i);
    body += "mov.b64 %d" + n + ", " + std::to_string(row.operands[i - 1]) +
            "; cvt.u32.u64 %r" + n + ", %d" + n + "; cvt.u16.u64 %h" + n +
            ", %d" + n + "; mov.b32 %f" + n + ", %r" + n + ";\n";
  }
  body += std::string(row.text) + "\n";
  if (row.width == 'h')
    body += "cvt.u64.u16 %d0, %h0;\n";
  if (row.width == 'r')
    body += "cvt.u64.u32 %d0, %r0;\n";
  body += "st.global.u64 [%g0], %d0;";
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody(body, config);
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << row.text << "\n"
                                                       << run.text();
  uint64_t got = run.word(0, 0) | uint64_t(run.word(0, 1)) << 32;
  EXPECT_EQ(got, row.result)
      << row.text << std::hex << " of " << row.operands[0] << ", "
      << row.operands[1] << ", " << row.operands[2];
}

TEST(Card, RemainderByZeroIsAllOnes) {
  const Row rows[] = {
      {"rem.u16 %h0, %h1, %h2;", 'h', {0x21, 0}, 0xffff},
      {"rem.s32 %r0, %r1, %r2;", 'r', {7, 0}, 0xffffffff},
      {"rem.u64 %d0, %d1, %d2;", 'd', {10, 0}, ~uint64_t(0)},
      {"rem.u64 %d0, %d1, %d2;", 'd', {10, 4}, 2},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, CarryOfASubtractionIsSetWhereNothingIsBorrowed) {
  const char *addSub = "add.cc.u32 %r4, %r1, %r3; subc.u32 %r0, %r1, %r2;";
  const char *subAdd = "sub.cc.u32 %r4, %r1, %r3; addc.u32 %r0, %r1, %r2;";
  const Row rows[] = {
      {addSub, 'r', {2, 0, 0}, 1},
      {addSub, 'r', {2, 0, ~0u}, 2},
      {subAdd, 'r', {2, 0, 0}, 3},
      {subAdd, 'r', {2, 0, 3}, 2},
      {"add.cc.u64 %d4, %d1, %d3; subc.cc.u64 %d4, %d1, %d2; subc.u64 %d0, 0, "
       "0;",
       'd',
       {1, 1, 0},
       ~uint64_t(0)},
      {"sub.cc.u64 %d4, %d1, %d3; addc.cc.u64 %d4, %d1, %d2; addc.u64 %d0, 0, "
       "0;",
       'd',
       {1, ~uint64_t(1), ~uint64_t(1)},
       0},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, WideBitFieldsReadWholeAmounts) {
  const uint64_t x = 0x56789abcdef00fed;
  const Row rows[] = {
      {"bfe.u64 %d0, %d1, %r2, %r3;", 'd', {x, 11, 0x100}, 0xacf13579bde01},
      {"bfe.u64 %d0, %d1, %r2, %r3;", 'd', {x, 0x100, 11}, 0},
      {"bfe.s64 %d0, %d1, %r2, %r3;", 'd', {x, 0x100, ~0u}, 0},
      {"bfe.s64 %d0, %d1, %r2, %r3;", 'd', {x, 0, 4}, ~uint64_t(2)},
      {"mov.b64 %d0, %d1; bfi.b64 %d0, %d1, %d0, %r2, %r3;",
       'd',
       {x, 1, 0x100},
       0xacf13579bde01fdb},
      {"mov.b64 %d0, %d1; bfi.b64 %d0, %d1, %d0, %r2, %r3;",
       'd',
       {x, 0x101, 8},
       x},
      // The 32-bit forms take the low byte.
      {"bfe.u32 %r0, %r1, %r2, %r3;", 'r', {0x12345678, 0x108, 0x104}, 6},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, LeastSearchCountFindsZero) {
  const char *text = "fns.b32 %r0, %r1, %r2, %r3;";
  const Row rows[] = {
      {text, 'r', {0, 0, 0x80000000}, 0},
      {text, 'r', {0, 0, 0x80000001}, 0xffffffff},
      {text, 'r', {0x14, 4, 0xfffffffe}, 2},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, ComparisonsOfF16Flush) {
  const char *less = "setp.lt.ftz.f16 %p0, %h1, %h2; selp.u32 %r0, 1, 0, %p0;";
  const char *pair = "set.le.ftz.u32.f16x2 %r0, %r1, %r2;";
  const Row rows[] = {
      {less, 'r', {0, 1}, 0},
      {less, 'r', {0, 0x400}, 1},
      {"setp.lt.f16 %p0, %h1, %h2; selp.u32 %r0, 1, 0, %p0;", 'r', {0, 1}, 1},
      {pair, 'r', {0, 0x00018001}, 0xffffffff},
      {pair, 'r', {0, 0x00018400}, 0xffff0000},
      {"set.le.u32.f16x2 %r0, %r1, %r2;", 'r', {0, 0x00018001}, 0xffff0000},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, XorSignLeavesNansCanonical) {
  const char *f32 = "min.NaN.xorsign.abs.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;";
  const char *pair = "max.xorsign.abs.f16x2 %r0, %r1, %r2;";
  const Row rows[] = {
      {f32, 'r', {0, 0xffc00000}, 0x7fffffff},
      {f32, 'r', {0x3f800000, 0xc0000000}, 0xbf800000},
      {f32, 'r', {0, 0x80000000}, 0x80000000},
      {pair, 'r', {0xfe00fe00, 0xfc007e00}, 0x7c007fff},
      {pair, 'r', {0x3c003c00, 0xfe00bc00}, 0xbc00bc00},
      {"min.xorsign.abs.bf16 %h0, %h1, %h2;", 'h', {0x7fc0, 0xff81}, 0x7fff},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, ZerosAreNormal) {
  const char *text = "testp.normal.f32 %p0, %f1; selp.u32 %r0, 1, 0, %p0;";
  const Row rows[] = {
      {text, 'r', {0}, 1},          {text, 'r', {0x80000000}, 1},
      {text, 'r', {1}, 0},          {text, 'r', {0x7f800000}, 0},
      {text, 'r', {0x00800000}, 1},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, DivisionFlushesBeforeRounding) {
  const char *up = "div.rp.ftz.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;";
  const char *down = "div.rm.ftz.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;";
  const Row rows[] = {
      {down, 'r', {0x00800000, 0xbf800001}, 0x80000000},
      {up, 'r', {0x00800000, 0x3f800001}, 0},
      {up, 'r', {0x00800000, 0x3f800000}, 0x00800000},
      {"div.rp.f32 %f0, %f1, %f2; mov.b32 %r0, %f0;",
       'r',
       {0x00800000, 0x3f800001},
       0x00800000},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, SignOperationsGiveCanonicalNans) {
  const Row rows[] = {
      {"abs.f32 %f0, %f1; mov.b32 %r0, %f0;", 'r', {0x7f800001}, 0x7fffffff},
      {"abs.f32 %f0, %f1; mov.b32 %r0, %f0;", 'r', {0xff800000}, 0x7f800000},
      {"abs.f16 %h0, %h1;", 'h', {0xfc7a}, 0x7fff},
      {"abs.f16 %h0, %h1;", 'h', {0xfc00}, 0x7c00},
      {"neg.bf16 %h0, %h1;", 'h', {0x7f81}, 0x7fff},
      {"neg.bf16 %h0, %h1;", 'h', {0x7c01}, 0xfc01},
      {"abs.f16x2 %r0, %r1;", 'r', {0x7c007c01}, 0x7c007fff},
      {"neg.bf16x2 %r0, %r1;", 'r', {0x7f807f81}, 0xff807fff},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, ReluGivesPositiveZero) {
  const Row rows[] = {
      {"cvt.rn.relu.f16.f32 %h0, %f1;", 'h', {0x80000000}, 0},
      {"cvt.rn.relu.f16.f32 %h0, %f1;", 'h', {0x3f800000}, 0x3c00},
      {"cvt.rz.relu.bf16x2.f32 %r0, %f1, %f2;",
       'r',
       {0x80000000, 0xff800001},
       0x7fff},
      {"cvt.rn.satfinite.relu.e4m3x2.f32 %h0, %f1, %f2;",
       'h',
       {0x80000000, 0xff800001},
       0x7f},
      {"cvt.rn.relu.f16x2.e5m2x2 %r0, %h1;", 'r', {0x1f80}, 0x1f000000},
      {"cvt.rn.f16x2.e5m2x2 %r0, %h1;", 'r', {0x1f80}, 0x1f008000},
      {"fma.rn.relu.f16 %h0, %h1, %h2, %h3;", 'h', {0, 0x8000, 0x8000}, 0},
      {"fma.rn.f16 %h0, %h1, %h2, %h3;", 'h', {0, 0x8000, 0x8000}, 0x8000},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, ConversionsOfNans) {
  const Row rows[] = {
      {"cvt.f32.f16 %f0, %h1; mov.b32 %r0, %f0;", 'r', {0xfc79}, 0x7fffffff},
      {"cvt.f32.bf16 %f0, %h1; mov.b32 %r0, %f0;", 'r', {0x7f81}, 0x7f810000},
      {"cvt.rna.tf32.f32 %r0, %f1;", 'r', {0x7f801001}, 0x7f800000},
      {"cvt.rna.tf32.f32 %r0, %f1;", 'r', {0x3f801001}, 0x3f802000},
      {"cvt.rna.satfinite.tf32.f32 %r0, %f1;", 'r', {0x7f807fff}, 0x7f804000},
      {"cvt.rna.satfinite.tf32.f32 %r0, %f1;", 'r', {0x7f800000}, 0x7f7fe000},
      {"cvt.rn.tf32.f32 %r0, %f1;", 'r', {0x7f802fff}, 0x7fffe000},
      {"cvt.rz.relu.tf32.f32 %r0, %f1;", 'r', {0x7f800000}, 0x7f800000},
      {"cvt.f64.f16 %d0, %h1;", 'd', {0xfc79}, 0xfff9e40000000000},
      {"cvt.f64.bf16 %d0, %h1;", 'd', {0x7f81}, 0x7ff8200000000000},
      {"cvt.f64.f32 %d0, %f1;", 'd', {0xffffffff}, 0xffffffffe0000000},
      {"cvt.ftz.f64.f32 %d0, %f1;", 'd', {0xffffffff}, 0x7fffffffe0000000},
      {"cvt.rn.f32.f64 %f0, %d1; mov.b32 %r0, %f0;",
       'r',
       {0xfff5555555555555},
       0xffeaaaaa},
      {"cvt.rn.sat.f32.f64 %f0, %d1; mov.b32 %r0, %f0;",
       'r',
       {0xfff5555555555555},
       0},
      {"cvt.rn.f16.f64 %h0, %d1;", 'h', {0xfff8000000000000}, 0xfe00},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, NarrowedF64IsFlushedAfterRounding) {
  const char *nearest = "cvt.rn.ftz.f32.f64 %f0, %d1; mov.b32 %r0, %f0;";
  const char *up = "cvt.rp.ftz.f32.f64 %f0, %d1; mov.b32 %r0, %f0;";
  const char *cut = "cvt.rz.ftz.f32.f64 %f0, %d1; mov.b32 %r0, %f0;";
  const uint64_t below = 0x380ffffffffffffe; // 2^-126 but for two ulps
  const Row rows[] = {
      {nearest, 'r', {below}, 0x00800000},
      {up, 'r', {below}, 0x00800000},
      {cut, 'r', {below}, 0},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, F64OperationsPassNansOn) {
  const uint64_t nan1 = 0x7ff0000000000001, nan2 = 0xfff0000000000002,
                 one = 0x3ff0000000000000, infinity = 0x7ff0000000000000,
                 quiet = 0x0008000000000000;
  const Row rows[] = {
      {"add.f64 %d0, %d1, %d2;", 'd', {nan1, one}, nan1 | quiet},
      {"sub.f64 %d0, %d1, %d2;", 'd', {nan1, nan2}, nan2 | quiet},
      {"sub.f64 %d0, %d1, %d2;", 'd', {infinity, infinity}, 0xfff8000000000000},
      {"div.rn.f64 %d0, %d1, %d2;", 'd', {nan1, nan2}, nan1 | quiet},
      {"fma.rn.f64 %d0, %d1, %d2, %d3;", 'd', {nan1, one, nan2}, nan2 | quiet},
      {"fma.rn.f64 %d0, %d1, %d2, %d3;", 'd', {one, nan1, nan2}, nan1 | quiet},
      {"max.f64 %d0, %d1, %d2;", 'd', {nan1, nan2}, nan2 | quiet},
      {"max.f64 %d0, %d1, %d2;", 'd', {nan1, one}, one},
      {"abs.f64 %d0, %d1;", 'd', {nan2}, nan2 | quiet},
      {"abs.f64 %d0, %d1;", 'd', {one | uint64_t(1) << 63}, one},
      {"neg.f64 %d0, %d1;", 'd', {nan1}, nan1 | quiet},
      {"sqrt.rn.f64 %d0, %d1;",
       'd',
       {one | uint64_t(1) << 63},
       0xfff8000000000000},
      {"cvt.rni.f64.f64 %d0, %d1;", 'd', {nan1}, nan1 | quiet},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Card, AtomicF64AdditionsPassNansOn) {
  auto add = [](const std::string &space, uint64_t old, uint64_t value) {
    bool isShared = space == "shared";
    std::string at = isShared ? "[tile]" : "[%g0]";
    RunConfig config;
    config.block = {1, 1, 1};
    RunResult run = runBody(
        "mov.b64 %d1, " + std::to_string(old) + "; mov.b64 %d2, " +
            std::to_string(value) + "; st." + space + ".b64 " + at +
            ", %d1; atom." + space + ".add.f64 %d0, " + at + ", %d2; ld." +
            space + ".b64 %d0, " + at + "; st.global.b64 [%g1], %d0;",
        config, isShared ? ".shared .align 8 .b8 tile[8];" : "");
    EXPECT_TRUE(run.report.clean()) << run.text();
    return run.word(1, 0) | uint64_t(run.word(1, 1)) << 32;
  };
  const uint64_t nan1 = 0x7ff0000000000001, nan2 = 0xfff0000000000002,
                 one = 0x3ff0000000000000, quiet = 0x0008000000000000;
  EXPECT_EQ(add("global", nan1, nan2), nan2);
  EXPECT_EQ(add("global", nan1, one), nan1);
  EXPECT_EQ(add("shared", nan1, nan2), nan1 | quiet);
  EXPECT_EQ(add("shared", one, nan2), nan2 | quiet);
  EXPECT_EQ(add("global", one, one), 0x4000000000000000u);
}

//===----------------------------------------------------------------------===//
// mma
//===----------------------------------------------------------------------===//

static constexpr MmaModel sm90 = {false, 16, 25, -133};
static constexpr MmaModel sm89 = {false, 8, 24, -132};

/// Element (0, 0) of an m16n8k32 whose first row of A and first column of B are
/// given; lane l holds k = 4 l .. 4 l + 3 and those 16 further.
static float multiplyFp8(const uint8_t (&row)[32], bool aIsE4M3,
                         const uint8_t (&column)[32], bool bIsE4M3, float c,
                         const MmaModel &model) {
  alignas(64) uint32_t a[4][32] = {}, b[2][32] = {};
  alignas(64) float in[4][32] = {}, out[4][32];
  for (unsigned lane = 0; lane < 4; ++lane)
    for (unsigned half = 0; half < 2; ++half) {
      std::memcpy(&a[2 * half][lane], row + 16 * half + 4 * lane, 4);
      std::memcpy(&b[half][lane], column + 16 * half + 4 * lane, 4);
    }
  in[0][0] = c;
  auto type = [](bool isE4M3) {
    return isE4M3 ? MatrixType::E4M3 : MatrixType::E5M2;
  };
  mmaElementwise({{out[0], out[1], out[2], out[3]},
                  {a[0], a[1], a[2], a[3]},
                  {b[0], b[1]},
                  {in[0], in[1], in[2], in[3]}},
                 type(aIsE4M3), type(bIsE4M3), 32, /*saturate=*/false, model);
  return out[0][0];
}

TEST(Card, Fp8SumsHalvesOfRegistersInTurn) {
  const uint8_t a[32] = {0x17, 0x31, 0xa3, 0xe7, 0xed, 0x48, 0xd4, 0x32,
                         0x37, 0xc8, 0x58, 0xcc, 0xb1, 0x50, 0x8c, 0x4f,
                         0x89, 0xdf, 0xb9, 0xca, 0x96, 0xeb, 0x30, 0x3f,
                         0xdb, 0xb9, 0xa7, 0x40, 0xab, 0xc5, 0x65, 0xd6};
  const uint8_t b[32] = {0xc6, 0x74, 0xf3, 0x34, 0x6b, 0xd7, 0xb6, 0x51,
                         0x48, 0xa0, 0x39, 0x06, 0x41, 0x20, 0x4d, 0x1c,
                         0x8c, 0xf7, 0x6f, 0xac, 0xb3, 0xa4, 0xcb, 0xa7,
                         0x44, 0x25, 0xa0, 0xa8, 0x3c, 0x69, 0x33, 0x71};
  // In the order of k the last bit would be one.
  EXPECT_EQ(bitsOf(multiplyFp8(a, true, b, false, floatOf(0x3eeb1fbd), sm90)),
            0x48a5757eu);
}

TEST(Card, Fp8AddsTheAccumulatorToNearest) {
  uint8_t a[32] = {}, b[32] = {};
  a[15] = 0xf7; // -240
  b[15] = 0x38; // 1
  EXPECT_EQ(bitsOf(multiplyFp8(a, true, b, true, floatOf(0x4ddc2269), sm90)),
            0x4ddc2262u);
  // 13 fraction bits are left of the accumulator by the model of sm_89.
  EXPECT_EQ(bitsOf(multiplyFp8(a, true, b, true, floatOf(0x4ddc2269), sm89)),
            0x4ddc2000u);
}

TEST(Card, SumsTooSmallForF32ArePositiveZero) {
  alignas(64) uint32_t a[4][32] = {}, b[2][32] = {};
  alignas(64) float c[4][32] = {}, d[4][32];
  auto multiply = [&](uint32_t first, uint32_t second) {
    a[0][0] = first | second << 16; // k = 0 and 1 of row 0
    b[0][0] = 0x1ca31cc7;
    selectHandlers().mma({{d[0], d[1], d[2], d[3]},
                          {a[0], a[1], a[2], a[3]},
                          {b[0], b[1]},
                          {c[0], c[1], c[2], c[3]}},
                         /*isBfloat=*/true, 16, sm90);
    return bitsOf(d[0][0]);
  };
  EXPECT_EQ(multiply(0x1756, 0x979a), 0u);
  // A product of -2^-146 and more is a subnormal number and keeps its sign.
  EXPECT_EQ(multiply(0, 0x9980) >> 31, 1u);
}

TEST(Card, Tf32SumsTooSmallForF32ArePositiveZero) {
  alignas(64) uint32_t a[2][32] = {}, b[1][32] = {};
  alignas(64) float c[4][32] = {}, d[4][32];
  auto multiply = [&](uint32_t second, uint32_t fourth) {
    a[0][1] = second; // lane k holds k of row 0 and of column 0
    a[0][3] = fourth;
    b[0][1] = 0x1ce76a6f;
    b[0][3] = 0x1cafc429;
    mmaElementwise({{d[0], d[1], d[2], d[3]},
                    {a[0], a[1]},
                    {b[0]},
                    {c[0], c[1], c[2], c[3]}},
                   MatrixType::TF32, MatrixType::TF32, 4, /*saturate=*/false,
                   sm90);
    return bitsOf(d[0][0]);
  };
  EXPECT_EQ(multiply(0x9873a370, 0x188a3c2f), 0u);
  EXPECT_EQ(multiply(0x9a73a370, 0) >> 31, 1u);
}

static constexpr MmaModel sm90ToHalf = {false, 16, 25, -133, true};

TEST(Card, F16AccumulatorsAreRoundedOnce) {
  const uint16_t row[16] = {0x471e, 0xb5a6, 0x3c83, 0x3bb9, 0x3c5c, 0xbf62,
                            0x345a, 0x480c, 0xc105, 0xc3dd, 0xc0f9, 0xb8e8,
                            0xc243, 0xc536, 0xc116, 0xc8ed};
  const uint16_t column[16] = {0x4a22, 0x4a89, 0x32cd, 0xbfd4, 0x4134, 0xb900,
                               0x3047, 0xb95a, 0x3f27, 0xc670, 0x3bb2, 0x3dde,
                               0xb1c3, 0xb05c, 0x44ce, 0xc087};
  alignas(64) uint32_t a[4][32] = {}, b[2][32] = {};
  alignas(64) float c[4][32] = {}, d[4][32];
  for (unsigned half = 0; half < 2; ++half) {
    std::memcpy(a[2 * half], row + 8 * half, 16);
    std::memcpy(b[half], column + 8 * half, 16);
  }
  auto multiply = [&](const MmaModel &model) {
    selectHandlers().mma({{d[0], d[1], d[2], d[3]},
                          {a[0], a[1], a[2], a[3]},
                          {b[0], b[1]},
                          {c[0], c[1], c[2], c[3]}},
                         /*isBfloat=*/false, 16, model);
    return halfFromSum(d[0][0]);
  };
  EXPECT_EQ(multiply(sm90ToHalf), 0x56c9u);
  EXPECT_EQ(multiply(sm90), 0x56c8u);
  // An infinity elsewhere takes the slower way.
  a[1][0] = 0x7c00;
  EXPECT_EQ(multiply(sm90ToHalf), 0x56c9u);
}

TEST(Card, F16SumsThatVanishArePositiveZero) {
  EXPECT_EQ(halfFromSum(-0x1p-25), 0u);
  EXPECT_EQ(halfFromSum(-0x1.8p-25), 0x8001u);
  EXPECT_EQ(halfFromSum(0x1.002p0), 0x3c00u);
  EXPECT_EQ(halfFromSum(0x1.0020000000001p0), 0x3c01u);
}

TEST(Card, Fp8WithF16AccumulatorsIsRoundedThrice) {
  const uint8_t a[32] = {0x0c, 0x92, 0x00, 0x15, 0x03, 0x00, 0x00, 0x1b,
                         0x00, 0x00, 0x80, 0x00, 0x00, 0x94, 0x83, 0x0f,
                         0x16, 0x00, 0x00, 0x1b, 0x93, 0x12, 0x00, 0x00,
                         0x03, 0x82, 0x81, 0x00, 0x81, 0x92, 0x03, 0x01};
  const uint8_t b[32] = {0x03, 0x18, 0x8d, 0x01, 0x1b, 0x81, 0x02, 0x8d,
                         0x1b, 0x82, 0x00, 0x19, 0x03, 0x80, 0x00, 0x1b,
                         0x90, 0x19, 0x10, 0x0e, 0x13, 0x81, 0x9b, 0x18,
                         0x83, 0x81, 0x82, 0x03, 0x8b, 0x80, 0x83, 0x80};
  float c = floatFromHalf(0x0e55);
  EXPECT_EQ(halfFromSum(multiplyFp8(a, false, b, false, c, sm90ToHalf)),
            0x0e50u);
  EXPECT_EQ(halfFromSum(multiplyFp8(a, false, b, false, c, sm90)), 0x0e51u);
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

/// Wavefronts of a load of `size` bytes from element `index` of an array, where
/// `index` computes %r1 from the lane in %t.
static uint64_t loadWavefronts(unsigned size, const std::string &index) {
  std::string load = size == 8 ? "ld.shared.b64 %d0, [%r2];"
                               : "ld.shared.v4.b32 {%r4,%r5,%r6,%r7}, [%r2];";
  std::string address = "mov.u32 %r2, tile; mad.lo.u32 %r2, %r1, " +
                        std::to_string(size) + ", %r2;";
  RunConfig config;
  config.options.checks = CheckMemory;
  RunResult run = runBody(index + address + load, config,
                          ".shared .align 128 .b8 tile[512];");
  EXPECT_TRUE(run.report.clean()) << run.text();
  return run.report.counters.wavefronts;
}

TEST(Card, WideBroadcastsMerge) {
  EXPECT_EQ(loadWavefronts(8, "mov.b32 %r1, 0;"), 1u);
  EXPECT_EQ(loadWavefronts(8, "mov.b32 %r1, %t;"), 2u);
  EXPECT_EQ(loadWavefronts(16, "mov.b32 %r1, 0;"), 2u);
  EXPECT_EQ(loadWavefronts(16, "mov.b32 %r1, %t;"), 4u);
}

/// The lane number without one bit.
static std::string laneWithout(unsigned bit) {
  return "and.b32 %r3, %t, " + std::to_string(31 & ~(2 * bit - 1)) +
         "; shr.u32 %r3, %r3, 1; and.b32 %r1, %t, " + std::to_string(bit - 1) +
         "; or.b32 %r1, %r1, %r3;";
}

// The emulator's rule for pairs, which no measurement stands behind yet.
TEST(Card, WideLoadsMergeWherePairsShareAnAddress) {
  for (auto [bit, merges] : {std::pair{1u, true}, {2u, true}, {4u, false}}) {
    EXPECT_EQ(loadWavefronts(8, laneWithout(bit)), merges ? 1u : 2u) << bit;
    EXPECT_EQ(loadWavefronts(16, laneWithout(bit)), merges ? 2u : 4u) << bit;
  }
}

TEST(Card, BypassingCopiesRequestASectorForEachDestination) {
  auto sectors = [](const std::string &cache, unsigned pitch) {
    RunConfig config;
    config.buffers[1].resize(512);
    RunResult run = runBody(
        "mov.u32 %r1, tile; mad.lo.u32 %r1, %t, " + std::to_string(pitch) +
            ", %r1; mul.wide.u32 %d0, %t, 16; add.u64 %d0, %d0, %g1;"
            "cp.async." +
            cache +
            ".shared.global [%r1], [%d0], 16; cp.async.commit_group;"
            "cp.async.wait_group 0;",
        config, ".shared .align 128 .b8 tile[4608];");
    EXPECT_TRUE(run.report.clean()) << run.text();
    return run.report.counters.sectors;
  };
  EXPECT_EQ(sectors("cg", 16), 16u);
  EXPECT_EQ(sectors("cg", 32), 32u);
  EXPECT_EQ(sectors("cg", 144), 32u);
  EXPECT_EQ(sectors("ca", 32), 16u);
}
