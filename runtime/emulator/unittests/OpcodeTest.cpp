//===- OpcodeTest.cpp - Rarer instructions against C++ --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extended precision, dot products, byte permutations, rounded f64, packed
// comparisons and the like; rows as in AluTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "AluUtil.h"

#include "math/Half.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

using u128 = unsigned __int128;

TEST(Opcode, ExtendedPrecision) {
  // 64-bit sums in two halves; the carry out of the second goes to bit 0.
  auto addWide = [](u64 a, u64 b, u64) { return a + b; };
  auto carryOut = [](u64 a, u64 b, u64) { return u64((u128(a) + b) >> 64); };
  auto borrowOut = [](u64 a, u64 b, u64) { return u64(a < b); };
  auto all = [](u64 x) { return x ? ~u64(0) : 0; };
  const std::string split = "mov.b64 {%r4, %r5}, %d1; mov.b64 {%r6, %r7}, %d2;";
  const Row rows[] = {
      {split + "add.cc.u32 %r8, %r4, %r6; addc.u32 %r9, %r5, %r7;"
               "mov.b64 %d0, {%r8, %r9};",
       'd', addWide},
      {split + "add.cc.s32 %r8, %r4, %r6; addc.cc.s32 %r9, %r5, %r7;"
               "addc.u64 %d0, 0, 0;",
       'd', carryOut},
      {"add.cc.u64 %d4, %d1, %d2; addc.u64 %d0, 0, 0;", 'd', carryOut},
      {split + "sub.cc.u32 %r8, %r4, %r6; subc.u32 %r9, %r5, %r7;"
               "mov.b64 %d0, {%r8, %r9};",
       'd', [](u64 a, u64 b, u64) { return a - b; }},
      {"sub.cc.u64 %d4, %d1, %d2; subc.u64 %d0, 0, 0;", 'd',
       [=](u64 a, u64 b, u64 c) { return all(borrowOut(a, b, c)); }},
      {"sub.cc.s64 %d4, %d1, %d2; subc.cc.s64 %d5, %d1, %d2; subc.u64 %d0, 0, "
       "0;",
       'd',
       [=](u64 a, u64 b, u64) {
         bool first = a < b;
         return all(u128(a) < u128(b) + first);
       }},
      {"mad.lo.cc.u32 %r8, %r1, %r2, %r3; madc.hi.u32 %r9, %r1, %r2, %r3;"
       "mov.b64 %d0, {%r8, %r9};",
       'd',
       [](u64 a, u64 b, u64 c) {
         u64 twice = u32(c) | c << 32;
         return u64(u32(a)) * u32(b) + twice;
       }},
      {"mad.hi.cc.s64 %d4, %d1, %d2, %d3; madc.lo.cc.s64 %d5, %d1, %d2, %d3;"
       "addc.u64 %d0, %d5, 0;",
       'd',
       [](u64 a, u64 b, u64 c) {
         u64 high = u64((__int128(s64(a)) * s64(b)) >> 64);
         u128 low = u128(a * b) + c + u64((u128(high) + c) >> 64);
         return u64(low) + u64(low >> 64);
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Opcode, CarryThatNothingHasWritten) {
  RunResult run = runBody("addc.u32 %r0, 1, 2; st.global.u32 [%g0], %r0;");
  EXPECT_EQ(run.count(FindingKind::UninitializedRegister), 1u) << run.text();
  EXPECT_NE(run.text().find("CC.CF"), std::string::npos) << run.text();
}

static u64 signedProduct(u64 a, u64 b, unsigned bytes) {
  unsigned shift = 64 - 8 * bytes;
  __int128 product =
      __int128(s64(a << shift) >> shift) * (s64(b << shift) >> shift);
  return u64(product >> (8 * bytes));
}

static u64 low24(u64 x, bool isSigned) {
  return isSigned ? u64(s64(x << 40) >> 40) : x & 0xffffff;
}

TEST(Opcode, Products) {
  const Row rows[] = {
      {"mad.hi.s16 %h0, %h1, %h2, %h3;", 'h',
       [](u64 a, u64 b, u64 c) { return signedProduct(a, b, 2) + c; }},
      {"mad.hi.u32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) { return (u64(u32(a)) * u32(b) >> 32) + c; }},
      {"mad.hi.s64 %d0, %d1, %d2, %d3;", 'd',
       [](u64 a, u64 b, u64 c) { return signedProduct(a, b, 8) + c; }},
      {"mad.hi.sat.s32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) {
         s64 sum = s64(s32(signedProduct(a, b, 4))) + s32(c);
         return u64(std::clamp<s64>(sum, INT32_MIN, INT32_MAX));
       }},
      {"mul24.lo.u32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) { return low24(a, false) * low24(b, false); }},
      {"mul24.hi.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(s64(low24(a, true) * low24(b, true)) >> 16);
       }},
      {"mad24.lo.s32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) { return low24(a, true) * low24(b, true) + c; }},
      {"mad24.hi.u32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) {
         return (low24(a, false) * low24(b, false) >> 16) + c;
       }},
      {"add.sat.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(
             std::clamp<s64>(s64(s32(a)) + s32(b), INT32_MIN, INT32_MAX));
       }},
      {"sub.sat.s32 %r0, %r1, %r2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(
             std::clamp<s64>(s64(s32(a)) - s32(b), INT32_MIN, INT32_MAX));
       }},
      {"sad.u16 %h0, %h1, %h2, %h3;", 'h',
       [](u64 a, u64 b, u64 c) {
         return c + u64(std::abs(int(u16(a)) - int(u16(b))));
       }},
      {"sad.s64 %d0, %d1, %d2, %d3;", 'd',
       [](u64 a, u64 b, u64 c) {
         return c + (s64(a) < s64(b) ? b - a : a - b);
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Opcode, DotProducts) {
  auto dot4 = [](auto x, auto y) {
    return [=](u64 a, u64 b, u64 c) {
      for (unsigned i = 0; i < 4; ++i)
        c += u64(s64(decltype(x)(a >> 8 * i)) * decltype(y)(b >> 8 * i));
      return c;
    };
  };
  auto dot2 = [](auto x, auto y, unsigned high) {
    return [=](u64 a, u64 b, u64 c) {
      for (unsigned i = 0; i < 2; ++i)
        c += u64(s64(decltype(x)(a >> 16 * i)) *
                 decltype(y)(b >> (8 * i + 16 * high)));
      return c;
    };
  };
  const Row rows[] = {
      {"dp4a.u32.u32 %r0, %r1, %r2, %r3;", 'r', dot4(uint8_t(), uint8_t())},
      {"dp4a.s32.s32 %r0, %r1, %r2, %r3;", 'r', dot4(int8_t(), int8_t())},
      {"dp4a.u32.s32 %r0, %r1, %r2, %r3;", 'r', dot4(uint8_t(), int8_t())},
      {"dp4a.s32.u32 %r0, %r1, %r2, %r3;", 'r', dot4(int8_t(), uint8_t())},
      {"dp2a.lo.u32.u32 %r0, %r1, %r2, %r3;", 'r', dot2(u16(), uint8_t(), 0)},
      {"dp2a.hi.s32.u32 %r0, %r1, %r2, %r3;", 'r', dot2(s16(), uint8_t(), 1)},
      {"dp2a.lo.s32.s32 %r0, %r1, %r2, %r3;", 'r', dot2(s16(), int8_t(), 0)},
      {"dp2a.hi.u32.s32 %r0, %r1, %r2, %r3;", 'r', dot2(u16(), int8_t(), 1)},
  };
  for (const Row &row : rows)
    checkRow(row);
}

/// The tables of PTX ISA 9.7.9.7: bytes b.b3 b.b2 b.b1 b.b0 for c = 0..3.
TEST(Opcode, PermutationModes) {
  struct Mode {
    const char *name;
    uint16_t table[4];
  };
  static constexpr Mode modes[] = {
      {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}},
      {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
      {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}},
      {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
      {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}},
      {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}},
  };
  for (const Mode &mode : modes)
    checkRow({std::string("prmt.b32.") + mode.name + " %r0, %r1, %r2, %r3;",
              'r', [&](u64 a, u64 b, u64 c) {
                u64 bytes = u32(a) | b << 32, result = 0;
                for (unsigned i = 0; i < 4; ++i)
                  result |=
                      (bytes >> 8 * (mode.table[c & 3] >> 4 * i & 7) & 255)
                      << 8 * i;
                return result;
              }});
}

TEST(Opcode, Bits) {
  auto mask = [](u32 start, u32 count, bool clamp) -> u64 {
    if (clamp && start > 31)
      return 0;
    count = clamp && count > 31 ? 32 : count & 31;
    u64 bits = ((u64(1) << count) - 1) << (start & 31);
    return u32(bits);
  };
  auto extend = [](u32 a, u32 count, bool clamp, bool isSigned) -> u64 {
    if (clamp && count > 31)
      return a;
    count &= 31;
    if (count == 0)
      return 0;
    u64 field = a & ((u64(1) << count) - 1);
    bool negative = isSigned && field >> (count - 1);
    return negative ? field | ~u64(0) << count : field;
  };
  const Row rows[] = {
      {"bmsk.clamp.b32 %r0, %r1, %r2;", 'r',
       [=](u64 a, u64 b, u64) { return mask(u32(a), u32(b), true); }},
      {"bmsk.wrap.b32 %r0, %r1, %r2;", 'r',
       [=](u64 a, u64 b, u64) { return mask(u32(a), u32(b), false); }},
      {"szext.clamp.s32 %r0, %r1, %r2;", 'r',
       [=](u64 a, u64 b, u64) { return extend(u32(a), u32(b), true, true); }},
      {"szext.wrap.s32 %r0, %r1, %r2;", 'r',
       [=](u64 a, u64 b, u64) { return extend(u32(a), u32(b), false, true); }},
      {"szext.clamp.u32 %r0, %r1, %r2;", 'r',
       [=](u64 a, u64 b, u64) { return extend(u32(a), u32(b), true, false); }},
      {"and.b32 %r4, %r2, 31; and.b32 %r5, %r3, 15; sub.s32 %r5, %r5, 7;"
       "fns.b32 %r0, %r1, %r4, %r5;",
       'r',
       [](u64 a, u64 b, u64 c) {
         int at = int(b & 31), n = int(c & 15) - 7, step = n < 0 ? -1 : 1;
         if (n == 0)
           return a >> at & 1 ? u64(at) : ~u64(0);
         for (n = std::abs(n); at >= 0 && at < 32; at += step)
           if (a >> at & 1 && --n == 0)
             return u64(at);
         return ~u64(0);
       }},
      {"setp.ne.u32 %p1, %r3, 31; lop3.or.b32 %r4|%p0, %r1, %r2, %r3, 0x80, "
       "!%p1; selp.u32 %r5, 1, 0, %p0; xor.b32 %r0, %r4, %r5;",
       'r',
       [](u64 a, u64 b, u64 c) {
         u32 value = u32(a & b & c);
         return u64(value ^ u32(value != 0 || u32(c) == 31));
       }},
      {"lop3.and.b32 _|%p0, %r1, %r2, %r3, 0xfe, 1; selp.u32 %r0, 1, 0, %p0;",
       'r', [](u64 a, u64 b, u64 c) { return u64(u32(a | b | c) != 0); }},
      {"mov.b64 {%h4, %h5, %h6, %h7}, %d1; mov.b64 %d0, {%h7, %h6, %h5, %h4};",
       'd',
       [](u64 a, u64, u64) {
         return a << 48 | (a >> 16 & 0xffff) << 32 | (a >> 32 & 0xffff) << 16 |
                a >> 48;
       }},
      {"{ .reg .b8 %b<4>; mov.b32 {%b0, %b1, %b2, %b3}, %r1;"
       "mov.b32 %r0, {%b3, %b2, %b1, %b0}; }",
       'r', [](u64 a, u64, u64) { return u64(__builtin_bswap32(u32(a))); }},
      {"{ .reg .b8 %b<2>; mov.b16 {%b0, _}, %h1; mov.b16 {_, %b1}, %h2;"
       "mov.b16 %h0, {%b1, %b0}; }",
       'h', [](u64 a, u64 b, u64) { return (b >> 8 & 255) | (a & 255) << 8; }},
      {"slct.u16.s32 %h0, %h1, %h2, %r3;", 'h',
       [](u64 a, u64 b, u64 c) { return s32(c) >= 0 ? a : b; }},
      {"slct.b32.s32 %r0, %r1, %r2, %r3;", 'r',
       [](u64 a, u64 b, u64 c) { return s32(c) >= 0 ? a : b; }},
      {"slct.b64.f32 %d0, %d1, %d2, %f3;", 'd',
       [](u64 a, u64 b, u64 c) { return asFloat(c) >= 0 ? a : b; }},
      {"slct.ftz.b64.f32 %d0, %d1, %d2, %f3;", 'd',
       [](u64 a, u64 b, u64 c) { return flushed(asFloat(c)) >= 0 ? a : b; }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

static double asDouble(u64 x) { return std::bit_cast<double>(x); }

namespace {
/// The same operation of the host in another rounding mode. A NaN is the first
/// one of `operands`, made quiet, or else the negative default.
template <typename F>
u64 rounded(int mode, F f, std::initializer_list<double> operands) {
  std::fesetround(mode);
  volatile double result = f();
  std::fesetround(FE_TONEAREST);
  if (!std::isnan(result))
    return std::bit_cast<u64>(double(result));
  for (double operand : operands)
    if (std::isnan(operand))
      return std::bit_cast<u64>(operand) | 0x0008000000000000u;
  return 0xfff8000000000000u;
}
} // namespace

TEST(Opcode, RoundedDoubles) {
  struct Mode {
    const char *name;
    int host;
  };
  static constexpr Mode modes[] = {
      {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (const Mode &mode : modes) {
    auto text = [&](const char *opcode, const char *operands) {
      return std::string(opcode) + "." + mode.name + ".f64 %d0, " + operands;
    };
    int host = mode.host;
    using V = volatile double;
    checkRow({text("add", "%d1, %d2;"), 'd', [=](u64 a, u64 b, u64) {
                V x = asDouble(a), y = asDouble(b);
                return rounded(host, [&] { return x + y; }, {y, x});
              }});
    checkRow({text("sub", "%d1, %d2;"), 'd', [=](u64 a, u64 b, u64) {
                V x = asDouble(a), y = asDouble(b);
                return rounded(host, [&] { return x - y; }, {y, x});
              }});
    checkRow({text("mul", "%d1, %d2;"), 'd', [=](u64 a, u64 b, u64) {
                V x = asDouble(a), y = asDouble(b);
                return rounded(host, [&] { return x * y; }, {y, x});
              }});
    checkRow({text("div", "%d1, %d2;"), 'd', [=](u64 a, u64 b, u64) {
                V x = asDouble(a), y = asDouble(b);
                return rounded(host, [&] { return x / y; }, {x, y});
              }});
    checkRow({text("fma", "%d1, %d2, %d3;"), 'd', [=](u64 a, u64 b, u64 c) {
                V x = asDouble(a), y = asDouble(b), z = asDouble(c);
                return rounded(host, [&] { return std::fma(x, y, z); },
                               {y, z, x});
              }});
    checkRow({text("rcp", "%d1;"), 'd', [=](u64 a, u64, u64) {
                V x = asDouble(a), one = 1;
                return rounded(host, [&] { return one / x; }, {x});
              }});
    checkRow({text("sqrt", "%d1;"), 'd', [=](u64 a, u64, u64) {
                V x = asDouble(a);
                return rounded(host, [&] { return std::sqrt(x); }, {x});
              }});
    checkRow({std::string("rcp.") + mode.name +
                  ".f32 %f0, %f1; mov.b32 %r0, "
                  "%f0;",
              'r', [=](u64 a, u64, u64) {
                volatile float x = asFloat(a), one = 1;
                std::fesetround(host);
                volatile float quotient = one / x;
                std::fesetround(FE_TONEAREST);
                return fromFloat(quotient);
              }});
  }
}

TEST(Opcode, DoubleTestsAndApproximations) {
  auto isNormalOrZero = [](double x) { return x == 0 || std::isnormal(x); };
  const Row rows[] = {
      {"copysign.f64 %d0, %d1, %d2;", 'd',
       [](u64 a, u64 b, u64) { return (a >> 63) << 63 | (b << 1) >> 1; }},
      {"testp.subnormal.f64 %p0, %d1; testp.finite.f64 %p1, %d2;"
       "selp.u32 %r4, 1, 0, %p0; selp.u32 %r5, 2, 0, %p1;"
       "or.b32 %r0, %r4, %r5;",
       'r',
       [](u64 a, u64 b, u64) {
         return u64(std::fpclassify(asDouble(a)) == FP_SUBNORMAL) |
                u64(std::isfinite(asDouble(b))) << 1;
       }},
      {"testp.notanumber.f64 %p0, %d1; testp.normal.f64 %p1, %d2;"
       "selp.u32 %r4, 1, 0, %p0; selp.u32 %r5, 2, 0, %p1;"
       "or.b32 %r0, %r4, %r5;",
       'r',
       [=](u64 a, u64 b, u64) {
         return u64(std::isnan(asDouble(a))) | u64(isNormalOrZero(asDouble(b)))
                                                   << 1;
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
  // Newton steps refine these: about 20 right bits are asked for.
  RunConfig config;
  config.buffers = {
      {}, bytesOf(std::vector<double>{3.7, -0.01, 1e200, 5e-320}), {}, {}};
  config.block = {4, 1, 1};
  RunResult run = runBody(
      "mul.wide.u32 %at, %t, 8; add.u64 %d1, %at, %g1; ld.global.f64 %d2, "
      "[%d1]; rcp.approx.ftz.f64 %d3, %d2; abs.f64 %d4, %d2;"
      "rsqrt.approx.f64 %d4, %d4; mul.wide.u32 %at, %t, 16; add.u64 %d1, %at, "
      "%g0; st.global.v2.f64 [%d1], {%d3, %d4};",
      config);
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  double got[8];
  std::memcpy(got, run.buffers[0].data(), sizeof got);
  EXPECT_NEAR(got[0] * 3.7, 1, 1e-6);
  EXPECT_NEAR(got[1] * std::sqrt(3.7), 1, 1e-6);
  EXPECT_NEAR(got[2] * -0.01, 1, 1e-6);
  EXPECT_NEAR(got[5] * 1e100, 1, 1e-6);
  EXPECT_EQ(got[6], INFINITY); // a subnormal is flushed
  EXPECT_EQ(std::bit_cast<u64>(got[0]) & 0xffffffffu, 0u);
}

TEST(Opcode, RoundedDoublesOfIntegers) {
  static constexpr std::pair<const char *, int> modes[] = {
      {"rn", FE_TONEAREST},
      {"rz", FE_TOWARDZERO},
      {"rm", FE_DOWNWARD},
      {"rp", FE_UPWARD}};
  auto convert = [](auto x, int mode) {
    volatile long double source = x; // exact
    std::fesetround(mode);
    volatile double result = static_cast<double>(source);
    std::fesetround(FE_TONEAREST);
    return std::bit_cast<u64>(double(result));
  };
  for (const auto &[name, mode] : modes) {
    std::string opcode = std::string("cvt.") + name + ".f64.";
    checkRow({opcode + "s64 %d0, %d1;", 'd',
              [&](u64 a, u64, u64) { return convert(s64(a), mode); }});
    checkRow({opcode + "u64 %d0, %d1;", 'd',
              [&](u64 a, u64, u64) { return convert(a, mode); }});
  }
}

static float half(u64 x) { return floatFromHalf(x & 0xffff); }

TEST(Opcode, HalfModifiers) {
  auto flush = [](u64 x) {
    return x & 0x7c00 ? half(x) : std::copysign(0.0f, half(x));
  };
  auto flushResult = [](float x) -> u64 {
    uint16_t bits = halfFromFloat(x);
    return bits & 0x7c00 ? bits : bits & 0x8000;
  };
  auto saturate = [](float x) {
    float y = floatFromHalf(halfFromFloat(x));
    return u64(halfFromFloat(y > 0 ? std::min(y, 1.0f) : 0.0f));
  };
  auto packed = [](auto f) {
    return [=](u64 a, u64 b, u64 c) {
      return f(a, b, c) | f(a >> 16, b >> 16, c >> 16) << 16;
    };
  };
  auto minXor = [](u64 a, u64 b) -> u64 {
    u64 x = a & 0x7fff, y = b & 0x7fff, sign = (a ^ b) & 0x8000;
    bool xNan = x > 0x7c00, yNan = y > 0x7c00;
    if (xNan && yNan)
      return 0x7fff; // without a sign, as on sm_90
    return (xNan ? y : yNan ? x : std::min(x, y)) | sign;
  };
  const Row rows[] = {
      {"add.sat.f16 %h0, %h1, %h2;", 'h',
       [=](u64 a, u64 b, u64) { return saturate(half(a) + half(b)); }},
      {"mul.sat.f16x2 %r0, %r1, %r2;", 'r',
       packed([=](u64 a, u64 b, u64) { return saturate(half(a) * half(b)); })},
      {"add.ftz.f16 %h0, %h1, %h2;", 'h',
       [=](u64 a, u64 b, u64) { return flushResult(flush(a) + flush(b)); }},
      {"mul.rn.ftz.f16x2 %r0, %r1, %r2;", 'r', packed([=](u64 a, u64 b, u64) {
         return flushResult(flush(a) * flush(b));
       })},
      {"abs.ftz.f16 %h0, %h1;", 'h',
       [=](u64 a, u64, u64) { return flushResult(std::fabs(half(a))); }},
      {"neg.ftz.f16x2 %r0, %r1;", 'r',
       packed([=](u64 a, u64, u64) { return flushResult(-half(a)); })},
      {"min.xorsign.abs.f16 %h0, %h1, %h2;", 'h',
       [=](u64 a, u64 b, u64) { return minXor(a, b); }},
      {"min.xorsign.abs.f16x2 %r0, %r1, %r2;", 'r',
       packed([=](u64 a, u64 b, u64) { return minXor(a, b); })},
      {"max.NaN.xorsign.abs.f32 %r0, %f1, %f2;", 'r',
       [](u64 a, u64 b, u64) {
         float x = std::fabs(asFloat(a)), y = std::fabs(asFloat(b));
         u64 sign = (a ^ b) & 0x80000000u;
         bool nan = std::isnan(x) || std::isnan(y);
         return nan ? u64(0x7fffffff) : fromFloat(std::max(x, y)) | sign;
       }},
      {"setp.gt.f16x2 %p0|%p1, %r1, %r2; selp.u32 %r4, 1, 0, %p0;"
       "selp.u32 %r5, 2, 0, %p1; or.b32 %r0, %r4, %r5;",
       'r',
       [](u64 a, u64 b, u64) {
         return u64(half(a) > half(b)) | u64(half(a >> 16) > half(b >> 16))
                                             << 1;
       }},
      {"set.le.f16x2.f16x2 %r0, %r1, %r2;", 'r', packed([](u64 a, u64 b, u64) {
         return u64(half(a) <= half(b) ? 0x3c00 : 0);
       })},
      {"set.neu.u32.f16x2 %r0, %r1, %r2;", 'r', packed([](u64 a, u64 b, u64) {
         return u64(half(a) != half(b) ? 0xffff : 0);
       })},
      {"set.lt.f16.f16 %h0, %h1, %h2;", 'h',
       [](u64 a, u64 b, u64) { return u64(half(a) < half(b) ? 0x3c00 : 0); }},
      {"set.lt.u16.f16 %h0, %h1, %h2;", 'h',
       [](u64 a, u64 b, u64) { return u64(half(a) < half(b) ? 0xffff : 0); }},
      {"set.ge.f32.s64 %r0, %d1, %d2;", 'r',
       [](u64 a, u64 b, u64) {
         return u64(s64(a) >= s64(b) ? 0x3f800000 : 0);
       }},
  };
  for (const Row &row : rows)
    checkRow(row);
}

TEST(Opcode, SpecialRegistersOfSixteenBits) {
  RunResult run = runBody("mov.u16 %h0, %tid.x; mov.u16 %h1, %ntid.x;"
                          "mov.b32 %r0, {%h0, %h1}; mul.wide.u32 %at, %t, 4;"
                          "add.u64 %at, %at, %g0; st.global.u32 [%at], %r0;");
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 31), 31u | 32u << 16);
}

TEST(Opcode, HighHalvesOfClocks) {
  RunResult run = runBody("mov.u32 %r0, %clock_hi; mov.u32 %r1, "
                          "%globaltimer_hi; or.b32 %r0, %r0, %r1;"
                          "st.global.u32 [%g0], %r0;");
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 0u);
}

TEST(Opcode, BytesOfAllLanes) {
  RunResult run = runBody("cvt.u64.u32 %at, %t; add.u64 %at, %at, %g0;"
                          "st.global.u8 [%at], 65;");
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(std::string(run.buffers[0].begin(), run.buffers[0].begin() + 32),
            std::string(32, 'A'));
}

TEST(Opcode, WhatChangesNothing) {
  EXPECT_EQ(loadBodyError(
                "pmevent 3; pmevent.mask 0x10; discard.global.L2 [%d0], 128;"
                "applypriority.global.L2::evict_normal [%d0], 128;"
                "fence.proxy.alias; membar.proxy.alias; prefetch.L2 [%d0];"
                "createpolicy.cvt.L2.b64 %d1, %d2;"
                "ld.mmio.relaxed.sys.global.u32 %r0, [%d0];"),
            "");
  EXPECT_EQ(loadBodyError("prefetch.global.L2 %d0;"),
            "expects an address in brackets");
  EXPECT_EQ(loadBodyError("fence.proxy.of;"),
            "expects fence.proxy.alias or .async");
}

TEST(Opcode, RefusesFormsThatDoNotExist) {
  const std::pair<const char *, const char *> cases[] = {
      {"add.cc.u16 %h0, %h1, %h2;",
       "extended precision expects a 32- or 64-bit type"},
      {"add.sat.u32 %r0, %r1, %r2;", ".sat is supported for .s32 only"},
      {"mul24.wide.u32 %r0, %r1, %r2;", "expects mul24.{lo,hi}.{u32,s32}"},
      {"dp4a.u32.u64 %r0, %r1, %r2, %r3;",
       "expects dp4a or dp2a.{lo,hi} with two types .u32 or .s32"},
      {"dp2a.u32.u32 %r0, %r1, %r2, %r3;",
       "expects dp4a or dp2a.{lo,hi} with two types .u32 or .s32"},
      {"lop3.or.b32 %r0, %r1, %r2, %r3, 1, %p0;",
       "expects a register and a predicate, as in d|p"},
      {"lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 256, %p0;",
       "expects a truth table from 0 to 255"},
      {"setp.lt.f16x2 %p0, %r1, %r2;",
       "expects two predicates, as in p|q, for a packed comparison"},
      {"set.lt.f16x2.f16 %r0, %h1, %h2;",
       "expects set with a destination of 16 or 32 bits and a type that can be "
       "compared"},
      {"add.sat.bf16 %h0, %h1, %h2;",
       ".ftz and .sat are supported for f16 and f32 only"},
      {"neg.ftz.bf16 %h0, %h1;",
       ".ftz and .sat are supported for f16 and f32 only"},
      {"abs.ftz.f64 %d0, %d1;", ".ftz is supported for f16 and f32 only"},
      {"bmsk.b32 %r0, %r1, %r2;", "expects fns.b32, bmsk.{wrap,clamp}.b32 or "
                                  "szext.{wrap,clamp}.{u32,s32}"},
      {"mov.b64 %d0, {%h0, %h1, %h2};",
       "expects two elements on a vector mov, but got 3"},
      {"{ .reg .b8 %b<2>; mov.b32 {%b0, %b1}, %r0; }",
       "expects 4 bytes on this vector mov, but got 2"},
      {"mov.b16 {%h0, %h1}, %h2;",
       "expects a register for type .b8, but got '%h0' of type .b16"},
      {"mov.b32 {}, %r0;", "expects two elements on a vector mov, but got 0"},
      {"movmatrix.sync.aligned.m8n8.b16 %r0, %r1;",
       "expects movmatrix.sync.aligned.m8n8.trans.b16"},
      {"min.xorsign.f32 %f0, %f1, %f2;", "expects .abs after .xorsign"},
  };
  for (const auto &[text, message] : cases)
    EXPECT_EQ(loadBodyError(text), message) << text;
}
