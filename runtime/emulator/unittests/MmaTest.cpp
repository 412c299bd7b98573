//===- MmaTest.cpp - The tensor-core model against its definition ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference works element by element on wide integers, in the order of the
// published model, and shares no code with Mma.cpp.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include "math/Half.h"
#include "sim/Handlers.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
struct Problem {
  bool isBfloat = false;
  unsigned k = 16;
  uint16_t a[16][16], b[16][8];
  float c[16][8];
};
} // namespace

static double widen(const Problem &p, uint16_t x) {
  return p.isBfloat ? floatFromBfloat(x) : floatFromHalf(x);
}

static int exponentOf(double x, int smallest) {
  return std::max(std::ilogb(x), smallest);
}

/// One fused step by the definition.
static float referenceStep(const Problem &p, unsigned row, unsigned col,
                           unsigned k0, unsigned k1, float c,
                           const MmaModel &model) {
  const int bits = model.fractionBits;
  int smallest = p.isBfloat ? -126 : -14;
  int emax = c == 0 ? model.zeroExponent : exponentOf(c, -126);
  double special = c;
  for (unsigned k = k0; k < k1; ++k) {
    double x = widen(p, p.a[row][k]), y = widen(p, p.b[k][col]);
    special += x * y;
    if (x != 0 && y != 0 && std::isfinite(x) && std::isfinite(y))
      emax = std::max(emax, exponentOf(x, smallest) + exponentOf(y, smallest));
  }
  if (!std::isfinite(special))
    return std::isnan(special) ? floatOf(0x7fffffffu) : float(special);
  __int128 sum = static_cast<__int128>(std::trunc(std::ldexp(c, bits - emax)));
  for (unsigned k = k0; k < k1; ++k)
    sum += static_cast<__int128>(std::trunc(std::ldexp(
        widen(p, p.a[row][k]) * widen(p, p.b[k][col]), bits - emax)));
  bool negative = sum < 0;
  unsigned __int128 magnitude = negative ? -sum : sum;
  while (magnitude >> 24 && magnitude >> 24 != 0) {
    // Drop bits below the 24 leading ones, towards zero.
    int width = 0;
    for (unsigned __int128 m = magnitude; m; m >>= 1)
      ++width;
    magnitude = magnitude >> (width - 24) << (width - 24);
    break;
  }
  double value = std::ldexp(double(magnitude), emax - bits);
  value = std::trunc(value * 0x1p149) * 0x1p-149;
  return float(negative ? -value : value);
}

static float reference(const Problem &p, unsigned row, unsigned col,
                       const MmaModel &model) {
  float acc = p.c[row][col];
  if (model.plain) {
    for (unsigned k = 0; k < p.k; ++k)
      acc = std::fma(float(widen(p, p.a[row][k])), float(widen(p, p.b[k][col])),
                     acc);
    return acc;
  }
  unsigned group = std::min(model.group, p.k);
  for (unsigned k0 = 0; k0 < p.k; k0 += group)
    acc = referenceStep(p, row, col, k0, k0 + group, acc, model);
  return acc;
}

/// Lays the problem out as fragments (PTX ISA 9.7.14.5.8) and multiplies.
static void multiply(const HandlerTable &table, const Problem &p,
                     const MmaModel &model, float (&d)[16][8]) {
  alignas(64) uint32_t a[4][32], b[2][32];
  alignas(64) float c[4][32], out[4][32];
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned group = lane / 4, pair = lane % 4 * 2;
    for (unsigned r = 0; r < p.k / 4; ++r) {
      unsigned row = group + (r & 1) * 8, col = pair + (r >> 1) * 8;
      a[r][lane] = p.a[row][col] | uint32_t(p.a[row][col + 1]) << 16;
    }
    for (unsigned r = 0; r < p.k / 8; ++r)
      b[r][lane] = p.b[pair + 8 * r][group] |
                   uint32_t(p.b[pair + 8 * r + 1][group]) << 16;
    for (unsigned r = 0; r < 4; ++r)
      c[r][lane] = p.c[group + (r >> 1) * 8][pair + (r & 1)];
  }
  table.mma({{out[0], out[1], out[2], out[3]},
             {a[0], a[1], a[2], a[3]},
             {b[0], b[1]},
             {c[0], c[1], c[2], c[3]}},
            p.isBfloat, p.k, model);
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned r = 0; r < 4; ++r)
      d[lane / 4 + (r >> 1) * 8][lane % 4 * 2 + (r & 1)] = out[r][lane];
}

enum class Kind { Normal, Wide, RawBits, Zeros, Tiny };

static Problem makeProblem(std::mt19937 &random, bool isBfloat, unsigned k,
                           Kind kind) {
  Problem p;
  p.isBfloat = isBfloat;
  p.k = k;
  std::normal_distribution<float> normal;
  auto half = [&]() -> uint16_t {
    float x = normal(random);
    if (kind == Kind::RawBits)
      return static_cast<uint16_t>(random());
    if (kind == Kind::Zeros && random() % 4)
      return static_cast<uint16_t>(random() % 2 ? 0x8000 : 0);
    if (kind == Kind::Tiny)
      x = std::ldexp(x, isBfloat ? -66 : -14);
    if (kind == Kind::Wide)
      x = std::ldexp(x, int(random() % (isBfloat ? 60 : 24)) -
                            (isBfloat ? 30 : 14));
    return isBfloat ? bfloatFromFloat(x) : halfFromFloat(x);
  };
  for (auto &row : p.a)
    for (uint16_t &x : row)
      x = half();
  for (auto &row : p.b)
    for (uint16_t &x : row)
      x = half();
  for (auto &row : p.c)
    for (float &x : row) {
      x = kind == Kind::Wide
              ? std::ldexp(normal(random), int(random() % 60) - 30)
              : normal(random);
      if (kind == Kind::Zeros)
        x = random() % 3 ? 0.0f : std::ldexp(x, -int(random() % 149));
      if (kind == Kind::Tiny)
        x = random() % 2 ? 0.0f : std::ldexp(x, -120);
      if (kind == Kind::RawBits)
        x = floatOf(static_cast<uint32_t>(random()));
    }
  return p;
}

static void checkKind(Kind kind) {
  const MmaModel models[] = {
      {true, 16, 25, -133}, {false, 16, 25, -133}, {false, 8, 24, -132}};
  std::mt19937 random(static_cast<unsigned>(kind) + 1);
  for (int i = 0; i < 60; ++i) {
    Problem p = makeProblem(random, i & 1, i % 3 ? 16 : 8, kind);
    for (const MmaModel &model : models)
      for (const HandlerTable *table : allHandlers()) {
        if (model.plain && kind == Kind::RawBits)
          continue; // NaN payloads of plain fma are the host's
        float d[16][8];
        multiply(*table, p, model, d);
        for (unsigned row = 0; row < 16; ++row)
          for (unsigned col = 0; col < 8; ++col) {
            float want = reference(p, row, col, model);
            ASSERT_EQ(bitsOf(d[row][col] + 0.0f), bitsOf(want + 0.0f))
                << table->isa << " group " << model.group << " bfloat "
                << p.isBfloat << " k " << p.k << " element " << row << ","
                << col << ": " << d[row][col] << " instead of " << want;
          }
      }
  }
}

TEST(Mma, NormalInputs) { checkKind(Kind::Normal); }
TEST(Mma, WideExponents) { checkKind(Kind::Wide); }
TEST(Mma, SubnormalInfiniteAndNan) { checkKind(Kind::RawBits); }
TEST(Mma, TinyProducts) { checkKind(Kind::Tiny); }
TEST(Mma, ZerosAndTinyAccumulators) { checkKind(Kind::Zeros); }

TEST(Mma, TruncatesLikeTheHardware) {
  // 1 + 2^-25 - 1: the small term is below the 24 fraction bits of sm_89.
  Problem p = {};
  p.a[0][0] = 0x3c00;
  p.a[0][1] = 0x0001; // 2^-24
  p.a[0][2] = 0xbc00;
  p.b[0][0] = p.b[2][0] = 0x3c00;
  p.b[1][0] = 0x3800; // 0.5
  float d[16][8];
  multiply(selectHandlers(), p, {false, 8, 24, -132}, d);
  EXPECT_EQ(d[0][0], 0.0f);
  multiply(selectHandlers(), p, {false, 16, 25, -133}, d);
  EXPECT_EQ(d[0][0], 0x1p-25f);
}

/// m16n8k32: lane = 4 * row + k / 4, four bytes a register.
TEST(Mma, Fp8FollowsTheAdaModel) {
  std::mt19937 random(9);
  for (int round = 0; round < 20; ++round) {
    bool aIsE4M3 = round & 1, bIsE4M3 = round & 2;
    alignas(64) uint32_t a[4][32], b[2][32];
    alignas(64) float c[4][32], d[4][32];
    uint8_t am[16][32], bm[32][8];
    for (auto &row : am)
      for (uint8_t &x : row)
        x = static_cast<uint8_t>(random() % 2 << 7 | (40 + random() % 32));
    for (auto &row : bm)
      for (uint8_t &x : row)
        x = static_cast<uint8_t>(random() % 2 << 7 | (40 + random() % 32));
    for (unsigned lane = 0; lane < 32; ++lane) {
      unsigned group = lane / 4, k = lane % 4 * 4;
      for (unsigned r = 0; r < 4; ++r)
        std::memcpy(&a[r][lane], &am[group + (r & 1) * 8][k + (r >> 1) * 16],
                    4);
      for (unsigned r = 0; r < 2; ++r) {
        b[r][lane] = 0;
        for (unsigned i = 0; i < 4; ++i)
          b[r][lane] |= uint32_t(bm[k + r * 16 + i][group]) << (8 * i);
      }
      for (unsigned r = 0; r < 4; ++r)
        c[r][lane] = float(int(random() % 64) - 32);
    }
    mmaFp8({{d[0], d[1], d[2], d[3]},
            {a[0], a[1], a[2], a[3]},
            {b[0], b[1]},
            {c[0], c[1], c[2], c[3]}},
           aIsE4M3, bIsE4M3, {false, 8, 24, -132});
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned r = 0; r < 4; ++r) {
        unsigned row = lane / 4 + (r >> 1) * 8, col = lane % 4 * 2 + (r & 1);
        double acc = c[r][lane];
        for (unsigned k0 = 0; k0 < 32; k0 += 16) {
          int emax = acc == 0 ? -132 : std::ilogb(acc);
          double sum = 0;
          auto ex = [](double x, bool e4m3) {
            return std::max(std::ilogb(x), e4m3 ? -6 : -14);
          };
          for (unsigned k = k0; k < k0 + 16; ++k)
            emax =
                std::max(emax, ex(decodeFp8(am[row][k], aIsE4M3), aIsE4M3) +
                                   ex(decodeFp8(bm[k][col], bIsE4M3), bIsE4M3));
          double unit = std::ldexp(1.0, emax - 13);
          sum = std::trunc(acc / unit);
          for (unsigned k = k0; k < k0 + 16; ++k)
            sum += std::trunc(decodeFp8(am[row][k], aIsE4M3) *
                              decodeFp8(bm[k][col], bIsE4M3) / unit);
          acc = sum * unit;
          if (acc != 0) {
            double step = std::ldexp(1.0, std::ilogb(acc) - 13);
            acc = std::trunc(acc / step) * step;
          }
        }
        ASSERT_EQ(double(d[r][lane]), acc) << row << "," << col;
      }
  }
}

TEST(Mma, ResultMayShareRegistersWithTheAccumulator) {
  // D permutes the registers of C: it must be read whole before it is written.
  std::string body = "mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;"
                     "mov.b32 %r4, 0; mov.f32 %f0, 0f3F800000;"
                     "mov.f32 %f1, 0f40000000; mov.f32 %f2, 0f40400000;"
                     "mov.f32 %f3, 0f40800000;"
                     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%f3,%f2,%f1,%f0}, {%r1,%r2,%r3,%r4}, {%r1,%r2}, "
                     "{%f0,%f1,%f2,%f3};"
                     "mul.wide.u32 %at, %t, 16; add.u64 %d0, %at, %g0;"
                     "st.global.v4.f32 [%d0], {%f0,%f1,%f2,%f3};";
  RunResult run = runBody(body);
  ASSERT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 0x40800000u);
  EXPECT_EQ(run.word(0, 1), 0x40400000u);
  EXPECT_EQ(run.word(0, 2), 0x40000000u);
  EXPECT_EQ(run.word(0, 3), 0x3f800000u);
}
