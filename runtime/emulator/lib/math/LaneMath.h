//===- LaneMath.h - Scalar expressions of AluOps.def ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The helpers that AluOps.def names. As in Half.h, all are force-inlined.
// References to sections are to the PTX ISA manual.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_MATH_LANEMATH_H
#define FLASHCORE_EMULATOR_LIB_MATH_LANEMATH_H

#include "Half.h"
#include "Rounding.h"

#include <math.h>

namespace flashcore::emu {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;
using f32 = float;
using f64 = double;

//===----------------------------------------------------------------------===//
// Floating point
//===----------------------------------------------------------------------===//

/// Tests bits, since compilers reason about `x != x` from what produced x.
FC_INLINE f32 canon(f32 x) {
  return (bitsOf(x) & 0x7fffffffu) > 0x7f800000u ? floatOf(0x7fffffffu) : x;
}
/// An f64 has a rule of its own, nanOf.
f64 canon(f64 x) = delete;
FC_INLINE bool isNan(f64 x) {
  return (bitsOf(x) & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}
/// The NaN of an f64 operation as on sm_90: the first operand that is a NaN,
/// made quiet, or else the negative default.
FC_INLINE f64 nanOf(f64 result) {
  return isNan(result) ? doubleOf(0xfff8000000000000u) : result;
}
template <typename... Rest>
FC_INLINE f64 nanOf(f64 result, f64 first, Rest... rest) {
  f64 other = nanOf(result, rest...);
  u64 quiet = bitsOf(first) | 0x0008000000000000u;
  return isNan(first) ? doubleOf(quiet) : other;
}
FC_INLINE f32 ftz(f32 x) {
  u32 bits = bitsOf(x);
  return floatOf((bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits);
}
FC_INLINE f64 ftz(f64 x) {
  u64 bits = bitsOf(x);
  return bits & 0x7ff0000000000000u ? x : doubleOf(bits & 0x8000000000000000u);
}
/// The .approx.ftz functions of f64 read and write the high word only.
FC_INLINE f64 highWord(f64 x) {
  return doubleOf(bitsOf(x) & 0xffffffff00000000u);
}
FC_INLINE f64 highResult(f64 x) {
  return isNan(x) ? doubleOf(0x7fffffff00000000u) : ftz(highWord(x));
}
FC_INLINE u16 ftzHalf(u32 x) {
  return static_cast<u16>(x & 0x7c00u ? x & 0xffffu : x & 0x8000u);
}
FC_INLINE u32 ftzBits(u32 x) {
  return (x & 0x7f800000u) == 0 ? x & 0x80000000u : x;
}
FC_INLINE f32 fmaF32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
FC_INLINE f64 fmaF64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
FC_INLINE f32 sqrtF32(f32 a) { return __builtin_sqrtf(a); }
FC_INLINE f64 sqrtF64(f64 a) { return __builtin_sqrt(a); }
FC_INLINE f32 rsqrtF32(f32 a) {
  return static_cast<f32>(1.0 / __builtin_sqrt(static_cast<f64>(a)));
}

/// 9.7.3.16 to .23: the approximate functions. Ours are closer to the exact
/// value than the hardware's (within 1 ulp of f32 here, 2 ulp there).
FC_INLINE f32 exp2F32(f32 a) {
  f64 x = a > -160.0f ? (a < 130.0f ? a : 130.0f) : -160.0f;
  // The low bits of x + 1.5 * 2^52 are x rounded to an integer.
  f64 shifted = x + 0x1.8p52;
  f64 f = x - (shifted - 0x1.8p52);
  f64 p = 1.3215486790144309e-6;
  p = p * f + 1.5252733804059840e-5;
  p = p * f + 1.5403530393381610e-4;
  p = p * f + 1.3333558146428443e-3;
  p = p * f + 9.6181291076284772e-3;
  p = p * f + 5.5504108664821580e-2;
  p = p * f + 2.4022650695910071e-1;
  p = p * f + 6.9314718055994531e-1;
  p = p * f + 1.0;
  f64 scale = doubleOf((bitsOf(shifted) + 1023u) << 52);
  f32 result = static_cast<f32>(p * scale);
  return a != a ? floatOf(0x7fffffffu) : result;
}
FC_INLINE f32 log2F32(f32 a) {
  return static_cast<f32>(::log2(static_cast<f64>(a)));
}
FC_INLINE f32 sinF32(f32 a) { return ::sinf(a); }
FC_INLINE f32 cosF32(f32 a) { return ::cosf(a); }
FC_INLINE f32 tanhF32(f32 a) {
  return static_cast<f32>(::tanh(static_cast<f64>(a)));
}
/// 9.7.3.8: div.approx gives 0 for 2^126 < |b| < 2^128 and NaN for inf / such
/// b.
FC_INLINE f32 divApprox(f32 a, f32 b) {
  f32 size = __builtin_fabsf(b);
  bool huge = size > 0x1p126f && size < __builtin_inff();
  f32 quotient = huge ? a * 0.0f : a / b;
  return canon(quotient);
}

/// aux: whether subnormal inputs are flushed first.
FC_INLINE u32 negBits(u32 a, int flush) {
  a = flush ? ftzBits(a) : a;
  return (a & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : a ^ 0x80000000u;
}
FC_INLINE u32 absBits(u32 a, int flush) {
  a = (flush ? ftzBits(a) : a) & 0x7fffffffu;
  return a > 0x7f800000u ? 0x7fffffffu : a;
}
FC_INLINE f64 negF64(f64 a) {
  return nanOf(doubleOf(bitsOf(a) ^ 0x8000000000000000u), a);
}
FC_INLINE f64 absF64(f64 a) {
  return nanOf(doubleOf(bitsOf(a) & 0x7fffffffffffffffu), a);
}

/// One NaN loses against a number; +0 is larger than -0 (9.7.3.11).
FC_INLINE f32 minNum(f32 a, f32 b) {
  f32 both = floatOf(bitsOf(a) | bitsOf(b));
  f32 m = a < b ? a : (b < a ? b : both);
  return a != a ? canon(b) : (b != b ? a : m);
}
FC_INLINE f32 maxNum(f32 a, f32 b) {
  f32 both = floatOf(bitsOf(a) & bitsOf(b));
  f32 m = a > b ? a : (b > a ? b : both);
  return a != a ? canon(b) : (b != b ? a : m);
}
FC_INLINE f32 minNan(f32 a, f32 b) {
  return (a != a || b != b) ? floatOf(0x7fffffffu) : minNum(a, b);
}
FC_INLINE f32 maxNan(f32 a, f32 b) {
  return (a != a || b != b) ? floatOf(0x7fffffffu) : maxNum(a, b);
}
FC_INLINE f64 minNum(f64 a, f64 b) {
  f64 both = doubleOf(bitsOf(a) | bitsOf(b));
  f64 m = a < b ? a : (b < a ? b : both);
  return isNan(a) ? nanOf(b, b) : (isNan(b) ? a : m);
}
FC_INLINE f64 maxNum(f64 a, f64 b) {
  f64 both = doubleOf(bitsOf(a) & bitsOf(b));
  f64 m = a > b ? a : (b > a ? b : both);
  return isNan(a) ? nanOf(b, b) : (isNan(b) ? a : m);
}

//===----------------------------------------------------------------------===//
// 16-bit floats
//===----------------------------------------------------------------------===//

template <typename F> FC_INLINE u16 half2(u32 a, u32 b, F f) {
  return halfFromFloat(
      f(floatFromHalf(a & 0xffffu), floatFromHalf(b & 0xffffu)));
}
template <typename F> FC_INLINE u16 bfloat2(u32 a, u32 b, F f) {
  return bfloatFromFloat(
      f(floatFromBfloat(a & 0xffffu), floatFromBfloat(b & 0xffffu)));
}
template <typename F> FC_INLINE u32 half2x2(u32 a, u32 b, F f) {
  return half2(a, b, f) | static_cast<u32>(half2(a >> 16, b >> 16, f)) << 16;
}
template <typename F> FC_INLINE u32 bfloat2x2(u32 a, u32 b, F f) {
  return bfloat2(a, b, f) | static_cast<u32>(bfloat2(a >> 16, b >> 16, f))
                                << 16;
}
template <typename F> FC_INLINE u32 half1x2(u32 a, F f) {
  return halfFromFloat(f(floatFromHalf(a & 0xffffu))) |
         static_cast<u32>(halfFromFloat(f(floatFromHalf(a >> 16)))) << 16;
}
template <typename F> FC_INLINE u32 bfloat1x2(u32 a, F f) {
  return bfloatFromFloat(f(floatFromBfloat(a & 0xffffu))) |
         static_cast<u32>(bfloatFromFloat(f(floatFromBfloat(a >> 16)))) << 16;
}

/// The sign operations give the canonical NaN too.
FC_INLINE u32 negHalf(u32 a, u32 infinity) {
  a &= 0xffffu;
  return (a & 0x7fffu) > infinity ? 0x7fffu : a ^ 0x8000u;
}
FC_INLINE u32 absHalf(u32 a, u32 infinity) {
  a &= 0x7fffu;
  return a > infinity ? 0x7fffu : a;
}

/// Bits of aux for the 16-bit fma.
enum : int { fmaSat = 1, fmaRelu = 2 };

FC_INLINE f32 clampFma(f32 x, int aux) {
  f32 saturated = x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
  x = aux & fmaSat ? saturated : x;
  f32 positive = x <= 0.0f ? 0.0f : x;
  return aux & fmaRelu ? positive : x;
}
FC_INLINE u16 fmaHalf(u32 a, u32 b, u32 c, int aux) {
  f64 product = static_cast<f64>(floatFromHalf(a & 0xffffu)) *
                static_cast<f64>(floatFromHalf(b & 0xffffu));
  f64 sum = addToOdd(product, static_cast<f64>(floatFromHalf(c & 0xffffu)));
  return halfFromFloat(clampFma(narrowToOdd(sum), aux));
}
FC_INLINE u16 fmaBfloat(u32 a, u32 b, u32 c, int aux) {
  f64 product = static_cast<f64>(floatFromBfloat(a & 0xffffu)) *
                static_cast<f64>(floatFromBfloat(b & 0xffffu));
  f64 sum = addToOdd(product, static_cast<f64>(floatFromBfloat(c & 0xffffu)));
  return bfloatFromFloat(clampFma(narrowToOdd(sum), aux));
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

FC_INLINE u64 mulHiU64(u64 a, u64 b) {
  return static_cast<u64>(static_cast<unsigned __int128>(a) * b >> 64);
}
FC_INLINE s64 mulHiS64(s64 a, s64 b) {
  return static_cast<s64>(static_cast<__int128>(a) * b >> 64);
}
FC_INLINE u64 pair(u32 low, u32 high) {
  return static_cast<u64>(high) << 32 | low;
}

/// Division by zero is unspecified in PTX; sm_90 gives all ones, also as the
/// remainder.
template <typename T> FC_INLINE T safeDiv(T a, T b) {
  if (b == 0)
    return static_cast<T>(~static_cast<T>(0));
  if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1))
    return static_cast<T>(u64(0) - static_cast<u64>(a));
  return static_cast<T>(a / b);
}
template <typename T> FC_INLINE T safeRem(T a, T b) {
  if (b == 0)
    return static_cast<T>(~static_cast<T>(0));
  if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1))
    return 0;
  return static_cast<T>(a % b);
}

FC_INLINE u32 popcount64(u64 a) {
  return static_cast<u32>(__builtin_popcountll(a));
}
FC_INLINE u64 bitReverse(u64 x) {
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(x);
}
/// brev of 32 bits is the high half of that of 64.
FC_INLINE u64 bitReverse(u32 x) { return bitReverse(static_cast<u64>(x)); }

FC_INLINE u32 bfindSigned(s64 a, int flip) {
  u64 magnitude = static_cast<u64>(a < 0 ? ~a : a);
  u32 position = 63u - static_cast<u32>(__builtin_clzll(magnitude | 1));
  return magnitude ? position ^ static_cast<u32>(flip) : ~0u;
}

/// 9.7.8.6: the truth table is indexed by the bits of a, b, c.
FC_INLINE u32 lop3(u32 a, u32 b, u32 c, int table) {
  u32 result = 0;
  for (int i = 0; i < 8; ++i) {
    u32 term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    result |= table >> i & 1 ? term : 0;
  }
  return result;
}

/// 9.7.9.7, default mode: nibble i of c picks byte i; bit 3 copies its sign.
FC_INLINE u32 prmt(u32 a, u32 b, u32 c) {
  u64 bytes = pair(a, b);
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 selector = c >> (4 * i);
    u32 byte = static_cast<u32>(bytes >> (8 * (selector & 7))) & 0xffu;
    u32 sign = byte & 0x80u ? 0xffu : 0u;
    result |= (selector & 8 ? sign : byte) << (8 * i);
  }
  return result;
}

/// The selectors that the default mode needs to do what a special mode does
/// with the low two bits of c: 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
FC_INLINE u32 prmtSelectors(u32 c, int mode) {
  u32 first = c & 3u, selectors = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 larger = i > first ? i : first, smaller = i > first ? first : i;
    u32 byte = mode == 1   ? first + i
               : mode == 2 ? (first - i) & 7u
               : mode == 3 ? first
               : mode == 4 ? larger
               : mode == 5 ? smaller
                           : (first & 1u) * 2 + (i & 1u);
    selectors |= byte << (4 * i);
  }
  return selectors;
}

/// Value of the `bits` wide field of a at `shift`.
FC_INLINE s32 fieldOf(u32 a, u32 shift, u32 bits, bool isSigned) {
  u32 field = a << (32 - bits - shift);
  return isSigned ? static_cast<s32>(field) >> (32 - bits)
                  : static_cast<s32>(field >> (32 - bits));
}
FC_INLINE u32 dp4a(u32 a, u32 b, int aux) {
  u32 sum = 0;
  for (u32 i = 0; i < 4; ++i)
    sum += static_cast<u32>(fieldOf(a, 8 * i, 8, aux & 1) *
                            fieldOf(b, 8 * i, 8, aux & 2));
  return sum;
}
FC_INLINE u32 dp2a(u32 a, u32 b, int aux) {
  u32 sum = 0;
  for (u32 i = 0; i < 2; ++i)
    sum +=
        static_cast<u32>(fieldOf(a, 16 * i, 16, aux & 1) *
                         fieldOf(b, 8 * i + (aux & 4 ? 16u : 0u), 8, aux & 2));
  return sum;
}

FC_INLINE s32 clampS32(s64 x) {
  s64 low = x < -0x80000000LL ? -0x80000000LL : x;
  return static_cast<s32>(low > 0x7fffffffLL ? 0x7fffffffLL : low);
}

/// 9.7.1.23 (bmsk).
FC_INLINE u32 bitMask(u32 a, u32 b, int clamp) {
  u32 start = a & 31u, count = b & 31u;
  u32 low = clamp && a > 31 ? 0 : ~0u << start;
  bool toTheTop = start + count > 31 || (clamp && (a > 31 || b > 31));
  u32 high = toTheTop ? 0 : ~0u << ((start + count) & 31u);
  return low & ~high;
}
/// 9.7.1.22 (szext).
FC_INLINE u32 signZeroExtend(u32 a, u32 b, int clamp, bool isSigned) {
  u32 count = b & 31u;
  bool all = clamp && b > 31;
  u32 high = all ? 0 : ~0u << count;
  bool negative =
      isSigned && count != 0 && !all && (a >> ((count - 1) & 31u) & 1u);
  return (a & ~high) | (negative ? high : 0);
}
/// 9.7.1.16 (fns): the n-th set bit from `base`, n < 0 searching downwards.
/// ptxas negates n, so sm_90 gives 0 for the n that has no negative.
FC_INLINE u32 findNthSet(u32 mask, u32 base, s32 n) {
  if (n == INT32_MIN)
    return 0;
  if (n == 0)
    return base < 32 && (mask >> base & 1u) ? base : ~0u;
  s32 left = n < 0 ? -n : n;
  s64 step = n < 0 ? -1 : 1;
  for (s64 at = base; at >= 0 && at < 32; at += step)
    if ((mask >> at & 1u) && --left == 0)
      return static_cast<u32>(at);
  return ~0u;
}

/// A position or length of bfe and bfi. PTX takes the low byte of each; sm_90
/// does so in the 32-bit forms, while the 64-bit forms read the whole register.
FC_INLINE u64 fieldAmount(u32 amount, u32 width) {
  return width == 64 ? amount : amount & 0xffu;
}
FC_INLINE u64 bfeUnsigned(u64 a, u32 position, u32 length, u32 width) {
  u64 pos = fieldAmount(position, width), len = fieldAmount(length, width);
  u64 shifted = pos >= width ? 0 : a >> pos;
  return len >= 64 ? shifted : shifted & ((u64(1) << len) - 1);
}
FC_INLINE u64 bfeSigned(u64 a, u32 position, u32 length, u32 width) {
  u64 pos = fieldAmount(position, width), len = fieldAmount(length, width);
  if (len == 0)
    return 0;
  u64 signBit = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
  bool negative = a >> signBit & 1;
  u64 field = bfeUnsigned(a, position, length, width);
  u64 kept = pos >= width ? 0 : (len < width - pos ? len : width - pos);
  u64 high = kept >= 64 ? 0 : ~u64(0) << kept;
  return negative ? field | high : field;
}
FC_INLINE u64 bfi(u64 a, u64 b, u32 position, u32 length, u32 width) {
  u64 pos = fieldAmount(position, width), len = fieldAmount(length, width);
  if (pos >= width || len == 0)
    return b;
  u64 ones = len >= 64 ? ~u64(0) : (u64(1) << len) - 1;
  u64 field = ones << pos;
  return (b & ~field) | (a << pos & field);
}

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_MATH_LANEMATH_H
