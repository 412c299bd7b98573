//===- AluTest.cpp - Instructions against C++ -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The instructions that kernels spend their time in; OpcodeTest.cpp has rarer
// ones. AluUtil.h says what a row is.
//
//===----------------------------------------------------------------------===//

#include "AluUtil.h"

#include "math/Half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

TEST(Alu, Integers) {
  const Row rows[] = {
      {"add.s32 %r0, %r1, %r2;", 'r', [](u64 a, u64 b, u64) { return a + b; }},
      {"sub.u64 %d0, %d1, %d2;", 'd', [](u64 a, u64 b, u64) { return a - b; }},
      {"add.s16 %h0, %h1, %h2;", 'h', [](u64 a, u64 b, u64) { return a + b; }},
      {"mul.lo.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u32(a) * u32(b); }},
      {"mul.hi.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u64(s64(s32(a)) * s32(b) >> 32); }},
      {"mul.hi.u64 %d0, %d1, %d2;", 'd',
       [](u64 a, u64 b, u64) {
         return u64(static_cast<unsigned __int128>(a) * b >> 64);
       }},
      {"mul.wide.s32 %d0, %r1, %r2;", 'd',
       [](u64 a, u64 b, u64) { return u64(s64(s32(a)) * s32(b)); }},
      {"mul.wide.u16 %r0, %h1, %h2;", 'r',
       [](u64 a, u64 b, u64) { return u64(u16(a)) * u16(b); }},
      {"mad.lo.u32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) { return u32(a) * u32(b) + u32(c); }},
      {"mad.wide.u32 %d0, %r1, %r2, %d3;", 'd',
       [](u64 a, u64 b, u64 c) { return u64(u32(a)) * u32(b) + c; }},
      {"min.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u64(std::min(s32(a), s32(b))); }},
      {"min.relu.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(std::max(0, std::min(s32(a), s32(b))));
       }},
      {"max.relu.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(std::max(0, std::max(s32(a), s32(b))));
       }},
      {"max.u32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u64(std::max(u32(a), u32(b))); }},
      {"max.s64 %d0, %d1, %d2;", 'd',
       [](u64 a, u64 b, u64) { return u64(std::max(s64(a), s64(b))); }},
      {"div.u32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u32(b) ? u32(a) / u32(b) : ~0u; }},
      {"rem.s64 %d0, %d1, %d2;", 'd',
       [](u64 a, u64 b, u64) {
         return s64(b) == -1 ? 0 : b ? u64(s64(a) % s64(b)) : ~u64(0);
       }},
      {"abs.s32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) { return s32(a) < 0 ? 0 - u32(a) : u32(a); }},
      {"neg.s64 %d0, %d1;", 'd', [](u64 a, u64, u64) { return 0 - a; }},
      {"sad.s32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) {
         s64 d = s64(s32(a)) - s32(b);
         return u64(c + u64(d < 0 ? -d : d));
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Alu, BitsAndShifts) {
  const Row rows[] = {
      {"and.b32 %r0, %r1, %r2;", 'r', [](u64 a, u64 b, u64) { return a & b; }},
      {"xor.b64 %d0, %d1, %d2;", 'd', [](u64 a, u64 b, u64) { return a ^ b; }},
      {"not.b16 %h0, %h1;", 'h', [](u64 a, u64, u64) { return ~a; }},
      {"shl.b32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return u32(b) > 31 ? 0 : u32(a) << u32(b); }},
      {"shr.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(s32(a) >> std::min<u32>(u32(b), 31));
       }},
      {"shr.u64 %d0, %d1, %r2;", 'd',
       [](u64 a, u64 b, u64) { return u32(b) > 63 ? 0 : a >> u32(b); }},
      {"shf.l.wrap.b32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) {
         return (u64(u32(b)) << 32 | u32(a)) << (c & 31) >> 32;
       }},
      {"shf.r.clamp.b32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) {
         return (u64(u32(b)) << 32 | u32(a)) >> std::min<u32>(u32(c), 32);
       }},
      {"lop3.b32 %r0, %r1, %r2, %r3, 0xCA;", 'r',
       [](u64 a, u64 b, u64 c) { return (a & b) | (~a & c); }},
      {"prmt.b32 %r0, %r1, %r2, 0x5410;", 'r',
       [](u64 a, u64 b, u64) { return (a & 0xffff) | (b & 0xffff) << 16; }},
      {"prmt.b32 %r0, %r1, %r2, 0xBA98;", 'r',
       [](u64 a, u64, u64) {
         u64 r = 0;
         for (int i = 0; i < 4; ++i)
           r |= (a >> (8 * i + 7) & 1 ? u64(0xff) : 0) << (8 * i);
         return r;
       }},
      {"popc.b64 %r0, %d1;", 'r',
       [](u64 a, u64, u64) { return u64(std::popcount(a)); }},
      {"clz.b32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) { return u64(std::countl_zero(u32(a))); }},
      {"brev.b32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) {
         u64 r = 0;
         for (int i = 0; i < 32; ++i)
           r |= (a >> i & 1) << (31 - i);
         return r;
       }},
      {"bfe.u32 %r0, %r1, 7, 9;", 'r',
       [](u64 a, u64, u64) { return a >> 7 & 0x1ff; }},
      {"bfe.s32 %r0, %r1, 28, 9;", 'r',
       [](u64 a, u64, u64) { return u64(s32(a) >> 28); }},
      {"bfi.b32 %r0, %r1, %r2, 8, 4;", 'r',
       [](u64 a, u64 b, u64) { return (b & ~u64(0xf00)) | (a & 0xf) << 8; }},
      {"bfind.u32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) {
         return u32(a) ? u64(31 - std::countl_zero(u32(a))) : ~u64(0);
       }},
      {"bfind.shiftamt.s32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) {
         u32 x = s32(a) < 0 ? ~u32(a) : u32(a);
         return x ? u64(std::countl_zero(x)) : ~u64(0);
       }},
      {"setp.lt.s32 %p0, %r1, %r2; selp.b32 %r0, %r1, %r2, %p0;", 'r',
       [](u64 a, u64 b, u64) { return s32(a) < s32(b) ? a : b; }},
      {"setp.hi.or.u32 %p0|%p1, %r1, %r2, 0; selp.u32 %r0, 1, 0, %p1;", 'r',
       [](u64 a, u64 b, u64) { return u64(u32(a) <= u32(b)); }},
      {"set.ltu.u32.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         return asFloat(a) >= asFloat(b) ? 0 : ~u64(0);
       }},
      {"mov.b64 {%r4, %r5}, %d1; mov.b64 %d0, {%r5, %r4};", 'd',
       [](u64 a, u64, u64) { return a << 32 | a >> 32; }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Alu, Floats) {
  const Row rows[] = {
      {"add.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) { return fromFloat(asFloat(a) + asFloat(b)); }},
      {"mul.rn.ftz.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         return fromFloat(flushed(flushed(asFloat(a)) * flushed(asFloat(b))));
       }},
      {"fma.rn.f32 %r0, %f1, %f2, %f3;", 'r',
       [](u64 a, u64 b, u64 c) {
         return fromFloat(std::fma(asFloat(a), asFloat(b), asFloat(c)));
       }},
      {"add.rz.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         double x = asFloat(a), y = asFloat(b), sum = x + y;
         float near = float(sum);
         if (std::isnan(sum) || std::isinf(x) || std::isinf(y))
           return fromFloat(near);
         // What f32 and then f64 lost; both parts are exact.
         double part = sum - x, lost = (x - (sum - part)) + (y - part);
         double rest = (sum - double(near)) + lost;
         if (rest != 0 && (rest < 0) == (near > 0))
           near = std::nextafter(near, 0.0f);
         return fromFloat(near);
       }},
      {"min.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         float x = asFloat(a), y = asFloat(b);
         if (std::isnan(x) || std::isnan(y))
           return fromFloat(std::isnan(x) ? y : x);
         if (x == y)
           return u64(u32(a) | u32(b));
         return fromFloat(std::min(x, y));
       }},
      {"max.NaN.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         float x = asFloat(a), y = asFloat(b);
         if (std::isnan(x) || std::isnan(y))
           return u64(0x7fffffff);
         return x == y ? u64(u32(a) & u32(b)) : fromFloat(std::max(x, y));
       }},
      {"max.f32 %r0, %f1, %f2, %f3;", 'r',
       [](u64 a, u64 b, u64 c) {
         auto larger = [](u64 a, u64 b) {
           float x = asFloat(a), y = asFloat(b);
           if (std::isnan(x) || std::isnan(y))
             return fromFloat(std::isnan(x) ? y : x);
           return x == y ? u64(u32(a) & u32(b)) : fromFloat(std::max(x, y));
         };
         return larger(a, larger(b, c));
       }},
      {"min.ftz.NaN.abs.f32 %r0, %f1, %f2, %f3;", 'r',
       [](u64 a, u64 b, u64 c) {
         float least = INFINITY;
         for (u64 each : {a, b, c}) {
           float x = std::fabs(flushed(asFloat(each)));
           if (std::isnan(x))
             return u64(0x7fffffff);
           least = std::min(least, x);
         }
         return fromFloat(least);
       }},
      {"rcp.approx.ftz.f32 %r0, %f1;", 'r',
       [](u64 a, u64, u64) {
         return fromFloat(flushed(1.0f / flushed(asFloat(a))));
       }},
      {"sqrt.rn.f32 %r0, %f1;", 'r',
       [](u64 a, u64, u64) { return fromFloat(std::sqrt(asFloat(a))); }},
      {"div.rn.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) { return fromFloat(asFloat(a) / asFloat(b)); }},
      {"add.sat.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         float x = asFloat(a) + asFloat(b);
         return fromFloat(x > 0 ? std::min(x, 1.0f) : 0.0f);
       }},
      {"setp.nan.f32 %p0, %f1, %f2; selp.u32 %r0, 1, 0, %p0;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(std::isnan(asFloat(a)) || std::isnan(asFloat(b)));
       }},
      {"cvt.rzi.s32.f32 %r0, %f1;", 'r',
       [](u64 a, u64, u64) {
         float x = asFloat(a);
         if (std::isnan(x))
           return u64(0);
         if (x >= 0x1p31f)
           return u64(0x7fffffff);
         return x <= -0x1p31f ? u64(0x80000000u) : u64(u32(s32(x)));
       }},
      {"cvt.rn.f32.s64 %r0, %d1;", 'r',
       [](u64 a, u64, u64) { return fromFloat(float(s64(a))); }},
      {"cvt.rn.f32.u32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) { return fromFloat(float(u32(a))); }},
      {"cvt.sat.s8.s32 %r0, %r1;", 'r',
       [](u64 a, u64, u64) { return u64(s64(std::clamp(s32(a), -128, 127))); }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Alu, SlctFlushesItsSelector) {
  for (auto [ftz, expected] : {std::pair<std::string, u32>{"", 6}, {".ftz", 5}})
    EXPECT_EQ(runBody("mov.b32 %f0, 0f80000001; mov.b32 %r1, 5;\n"
                      "mov.b32 %r2, 6; slct" +
                      ftz +
                      ".u32.f32 %r0, %r1, %r2, %f0; st.global.b32 [%g0], %r0;")
                  .word(0, 0),
              expected);
}

TEST(Alu, ApproximateExp2) {
  std::vector<float> inputs(1024);
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = -130.0f + 0.255f * float(i);
  RunConfig config;
  config.block = {1024, 1, 1};
  config.buffers = {{}, bytesOf(inputs), {}, {}};
  RunResult run = runBody("mul.wide.u32 %at, %t, 4; add.u64 %d1, %at, %g1;"
                          "ld.global.f32 %f1, [%d1]; ex2.approx.f32 %f0, %f1;"
                          "add.u64 %d0, %at, %g0; st.global.f32 [%d0], %f0;",
                          config);
  for (size_t i = 0; i < inputs.size(); ++i) {
    double exact = std::exp2(double(inputs[i]));
    float nearest = float(exact), got = asFloat(run.word(0, i));
    if (std::isinf(nearest)) {
      EXPECT_EQ(got, nearest);
      continue;
    }
    double ulp = double(std::nextafter(nearest, INFINITY)) - double(nearest);
    EXPECT_LE(std::fabs(double(got) - exact), ulp) << inputs[i];
  }
}

/// Independent of the bit tricks in Half.h.
static double slowHalf(u32 h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                 : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                : std::ldexp(mantissa, -24);
  return h & 0x8000 ? -value : value;
}

TEST(Half, AllValuesWiden) {
  for (u32 h = 0; h < 65536; ++h) {
    double want = slowHalf(h), got = floatFromHalf(h);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : want == got) << h;
    EXPECT_EQ(std::signbit(got), (h & 0x8000) != 0) << h;
  }
}

TEST(Half, NarrowingRoundsToNearestEven) {
  for (u32 h = 0; h < 65536; ++h) {
    float x = floatFromHalf(h);
    if (std::isnan(x)) {
      EXPECT_EQ(halfFromFloat(x), 0x7fff);
      continue;
    }
    EXPECT_EQ(halfFromFloat(x), h);
    if (std::isinf(x) || (h & 0x7fff) >= 0x7bff)
      continue;
    // Between h and its neighbour away from zero: the tie goes to even.
    double a = slowHalf(h), b = slowHalf(h + 1), middle = (a + b) / 2;
    EXPECT_EQ(halfFromFloat(float(middle)), h & 1 ? h + 1 : h);
    EXPECT_EQ(halfFromFloat(std::nextafter(float(middle), float(a))), h);
    EXPECT_EQ(halfFromFloat(std::nextafter(float(middle), float(b))), h + 1);
  }
  EXPECT_EQ(halfFromFloat(65519.996f), 0x7bff);
  EXPECT_EQ(halfFromFloat(65520.0f), 0x7c00);
}

TEST(Half, BfloatNarrowing) {
  for (u32 h = 0; h < 65536; ++h) {
    float x = floatFromBfloat(h);
    if (std::isnan(x))
      EXPECT_EQ(bfloatFromFloat(x), 0x7fff);
    else
      EXPECT_EQ(bfloatFromFloat(x), h);
    if (std::isnan(x) || (h & 0x7fff) >= 0x7f7f)
      continue;
    u32 tie = h << 16 | 0x8000;
    EXPECT_EQ(bfloatFromFloat(floatOf(tie)), h & 1 ? h + 1 : h);
    EXPECT_EQ(bfloatFromFloat(floatOf(tie - 1)), h);
    EXPECT_EQ(bfloatFromFloat(floatOf(tie + 1)), h + 1);
  }
}

TEST(Half, PackedArithmetic) {
  auto pairwise = [](auto f) {
    return [f](u64 a, u64 b, u64) {
      u64 low = f(u32(a) & 0xffff, u32(b) & 0xffff);
      u64 high = f(u32(a) >> 16 & 0xffff, u32(b) >> 16 & 0xffff);
      return low | high << 16;
    };
  };
  const Row rows[] = {
      {"cvt.rn.f16x2.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(halfFromFloat(asFloat(a))) << 16 |
                halfFromFloat(asFloat(b));
       }},
      {"cvt.rn.bf16x2.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(bfloatFromFloat(asFloat(a))) << 16 |
                bfloatFromFloat(asFloat(b));
       }},
      {"cvt.f32.f16 %r0, %h1;", 'r',
       [](u64 a, u64, u64) { return fromFloat(floatFromHalf(a & 0xffff)); }},
      {"add.f16x2 %r0, %r1, %r2;", 'r', pairwise([](u32 a, u32 b) {
         return u64(halfFromFloat(floatFromHalf(a) + floatFromHalf(b)));
       })},
      {"mul.bf16x2 %r0, %r1, %r2;", 'r', pairwise([](u32 a, u32 b) {
         return u64(bfloatFromFloat(floatFromBfloat(a) * floatFromBfloat(b)));
       })},
      {"fma.rn.f16 %h0, %h1, %h2, %h3;", 'h',
       [](u64 a, u64 b, u64 c) {
         // long double holds the exact sum of any finite case.
         long double sum = (long double)(floatFromHalf(a & 0xffff)) *
                               floatFromHalf(b & 0xffff) +
                           floatFromHalf(c & 0xffff);
         if (std::isnan(sum))
           return u64(0x7fff);
         float low = float(sum);
         if (low != sum && !std::isinf(low)) {
           if (std::fabs((long double)low) > std::fabs(sum))
             low = std::nextafter(low, 0.0f);
           low = floatOf(bitsOf(low) | 1);
         }
         return u64(halfFromFloat(low));
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
}
