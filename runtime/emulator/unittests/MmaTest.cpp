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

enum class Kind { Normal, Wide, RawBits, Zeros, Tiny, Full };

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
    if (kind == Kind::Full)
      x = 2 - std::ldexp(1.0f, -7 + int(random() % 2));
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
      if (kind == Kind::Full)
        x = random() % 2 ? 0x1.fffffep0f : -x;
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
TEST(Mma, SumsThatNeedMostBits) { checkKind(Kind::Full); }
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
    mmaElementwise({{d[0], d[1], d[2], d[3]},
                    {a[0], a[1], a[2], a[3]},
                    {b[0], b[1]},
                    {c[0], c[1], c[2], c[3]}},
                   aIsE4M3 ? MatrixType::E4M3 : MatrixType::E5M2,
                   bIsE4M3 ? MatrixType::E4M3 : MatrixType::E5M2, 32, false,
                   {false, 8, 24, -132});
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

namespace {
/// D = A B + C of one instruction run in a kernel; fragments in the order of
/// the operands, one word a register and lane.
struct Fragments {
  std::string opcode;
  unsigned numD, numA, numB;
  std::vector<uint32_t> a, b, c;

  uint32_t &at(std::vector<uint32_t> &words, unsigned reg, unsigned lane) {
    words.resize(std::max<size_t>(words.size(), (reg + 1) * 32));
    return words[reg * 32 + lane];
  }
  std::vector<uint32_t> run() {
    auto load = [](char reg, unsigned buffer, unsigned first, unsigned count) {
      std::string text;
      for (unsigned i = 0; i < count; ++i)
        text += "ld.global.b32 %" + std::string(1, reg) +
                std::to_string(first + i) + ", [%d" + std::to_string(buffer) +
                "+" + std::to_string(i * 128) + "];\n";
      return text;
    };
    auto list = [](char reg, unsigned first, unsigned count) {
      std::string text = "{";
      for (unsigned i = 0; i < count; ++i)
        text +=
            (i ? ", %" : "%") + std::string(1, reg) + std::to_string(first + i);
      return text + "}";
    };
    // Accumulators of f32 are in %f, all others in %r.
    char acc = opcode.find(".f32.") != std::string::npos ? 'f' : 'r';
    std::string body = "mul.wide.u32 %at, %t, 4;\n";
    for (unsigned i = 0; i < 4; ++i) {
      std::string n = std::to_string(i);
      body += "add.u64 %d" + n + ", %at, %g" + n + ";\n";
    }
    body +=
        load('r', 1, 0, numA) + load('r', 2, 8, numB) + load(acc, 3, 16, numD);
    body += "mma.sync.aligned." + opcode + " " + list(acc, 20, numD) + ", " +
            list('r', 0, numA) + ", " + list('r', 8, numB) + ", " +
            list(acc, 16, numD) + ";\n";
    for (unsigned i = 0; i < numD; ++i)
      body += "st.global.b32 [%d0+" + std::to_string(i * 128) + "], %" +
              std::string(1, acc) + std::to_string(20 + i) + ";\n";
    RunConfig config;
    config.buffers = {{}, bytesOf(a), bytesOf(b), bytesOf(c)};
    config.outputBytes = numD * 128;
    RunResult result = runBody(body, config);
    EXPECT_TRUE(result.error.empty() && result.report.clean()) << result.text();
    std::vector<uint32_t> d(numD * 32);
    std::memcpy(d.data(), result.buffers[0].data(), d.size() * 4);
    return d;
  }
};
} // namespace

/// Small integers in every type, so that the sum is exact and only the places
/// of the elements matter (PTX ISA 9.7.14.5).
static void checkLayout(const std::string &opcode, unsigned k, unsigned bytes,
                        bool halfAccumulators, uint32_t (*encode)(int value)) {
  std::mt19937 random(k * 8 + bytes);
  int a[16][32], b[32][8], c[16][8];
  for (auto &row : a)
    for (int &x : row)
      x = int(random() % 4);
  for (auto &row : b)
    for (int &x : row)
      x = int(random() % 4);
  for (auto &row : c)
    for (int &x : row)
      x = int(random() % 16);
  bool isInteger = opcode.find(".s32.") != std::string::npos;
  auto accumulator = [&](int x) {
    return isInteger ? uint32_t(x) : bitsOf(float(x));
  };
  unsigned each = 4 / bytes;
  Fragments f{
      opcode, halfAccumulators ? 2u : 4u, k * bytes / 8, k * bytes / 16, {}, {},
      {}};
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned group = lane / 4, thread = lane % 4;
    for (unsigned i = 0; i < each; ++i) {
      for (unsigned r = 0; r < f.numA; ++r)
        f.at(f.a, r, lane) |=
            encode(a[group + r % 2 * 8][(thread + r / 2 * 4) * each + i])
            << 8 * bytes * i;
      for (unsigned r = 0; r < f.numB; ++r)
        f.at(f.b, r, lane) |= encode(b[(thread + r * 4) * each + i][group])
                              << 8 * bytes * i;
    }
    for (unsigned r = 0; r < 4; ++r) {
      int x = c[group + r / 2 * 8][thread * 2 + r % 2];
      if (halfAccumulators)
        f.at(f.c, r / 2, lane) |= uint32_t(halfFromFloat(float(x)))
                                  << 16 * (r % 2);
      else
        f.at(f.c, r, lane) = accumulator(x);
    }
  }
  std::vector<uint32_t> d = f.run();
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned r = 0; r < 4; ++r) {
      unsigned row = lane / 4 + r / 2 * 8, col = lane % 4 * 2 + r % 2;
      int want = c[row][col];
      for (unsigned i = 0; i < k; ++i)
        want += a[row][i] * b[i][col];
      if (halfAccumulators)
        EXPECT_EQ(d[r / 2 * 32 + lane] >> 16 * (r % 2) & 0xffff,
                  halfFromFloat(float(want)))
            << opcode;
      else
        EXPECT_EQ(d[r * 32 + lane], accumulator(want)) << opcode;
    }
}

TEST(Mma, EveryShapeHasItsLayout) {
  auto half = [](int x) -> uint32_t { return halfFromFloat(float(x)); };
  auto bfloat = [](int x) -> uint32_t { return bfloatFromFloat(float(x)); };
  auto word = [](int x) { return bitsOf(float(x)); };
  auto byte = [](int x) { return uint32_t(x); };
  // 0, 1, 2, 3 as e4m3 and e5m2.
  auto e4m3 = [](int x) -> uint32_t {
    return x == 0 ? 0 : x == 1 ? 0x38 : x == 2 ? 0x40 : 0x44;
  };
  auto e5m2 = [](int x) -> uint32_t {
    return x == 0 ? 0 : x == 1 ? 0x3c : x == 2 ? 0x40 : 0x42;
  };
  checkLayout("m16n8k16.row.col.f32.f16.f16.f32", 16, 2, false, half);
  checkLayout("m16n8k8.row.col.f32.bf16.bf16.f32", 8, 2, false, bfloat);
  checkLayout("m16n8k16.row.col.f16.f16.f16.f16", 16, 2, true, half);
  checkLayout("m16n8k8.row.col.f16.f16.f16.f16", 8, 2, true, half);
  checkLayout("m16n8k4.row.col.f32.tf32.tf32.f32", 4, 4, false, word);
  checkLayout("m16n8k8.row.col.f32.tf32.tf32.f32", 8, 4, false, word);
  checkLayout("m16n8k16.row.col.f32.e4m3.e4m3.f32", 16, 1, false, e4m3);
  checkLayout("m16n8k32.row.col.f32.e5m2.e5m2.f32", 32, 1, false, e5m2);
  checkLayout("m16n8k32.row.col.f16.e4m3.e4m3.f16", 32, 1, true, e4m3);
  checkLayout("m16n8k16.row.col.s32.u8.u8.s32", 16, 1, false, byte);
  checkLayout("m16n8k32.row.col.s32.s8.u8.s32", 32, 1, false, byte);
}

/// One product or two in row 0, column 0; the first word of D.
static uint32_t firstOfD(const std::string &opcode, unsigned numD, uint32_t a,
                         uint32_t b, uint32_t c) {
  Fragments f{opcode, numD, 4, 2, {}, {}, {}};
  f.at(f.a, 3, 31) = f.at(f.b, 1, 31) = f.at(f.c, numD - 1, 31) = 0;
  f.at(f.a, 0, 0) = a;
  f.at(f.b, 0, 0) = b;
  f.at(f.c, 0, 0) = c;
  return f.run()[0];
}

TEST(Mma, SignsSaturationAndRounding) {
  EXPECT_EQ(firstOfD("m16n8k32.row.col.s32.s8.u8.s32", 4, 0x80, 0xff, 5),
            uint32_t(-128 * 255 + 5));
  EXPECT_EQ(
      firstOfD("m16n8k32.row.col.s32.s8.s8.s32", 4, 0x80, 0x80, 0x7fffffff),
      0x7fffffffu + 16384);
  EXPECT_EQ(firstOfD("m16n8k32.row.col.satfinite.s32.s8.s8.s32", 4, 0x80, 0x80,
                     0x7fffffff),
            0x7fffffffu);
  // tf32 has 10 bits of fraction; the others are ignored.
  EXPECT_EQ(firstOfD("m16n8k8.row.col.f32.tf32.tf32.f32", 4,
                     bitsOf(1.0f) | 0x1fff, bitsOf(3.0f), bitsOf(0.5f)),
            bitsOf(3.5f));
  // 2048 + 1 is a tie of f16, 2048 + 3 rounds up.
  uint32_t one = halfFromFloat(1), three = halfFromFloat(3);
  EXPECT_EQ(firstOfD("m16n8k16.row.col.f16.f16.f16.f16", 2, one, one, 0x6800),
            0x6800u);
  EXPECT_EQ(firstOfD("m16n8k16.row.col.f16.f16.f16.f16", 2, one, three, 0x6800),
            0x6802u);
  EXPECT_EQ(firstOfD("m16n8k16.row.col.f16.f16.f16.f16", 2, one, 0x7c00, 0),
            0x7c00u);
}
