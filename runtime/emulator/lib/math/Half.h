//===- Half.h - f16 and bf16 as bit patterns --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Branch-free conversions that compilers turn into vector code. Every function
// is force-inlined: the files that use them are compiled once per instruction
// set, and a shared out-of-line copy could run on a machine that lacks it.
// NaN results are the canonical ones of the hardware (0x7fff, 0x7fffffff).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_MATH_HALF_H
#define FLASHCORE_EMULATOR_LIB_MATH_HALF_H

#include <cstdint>

#define FC_INLINE [[gnu::always_inline]] static inline

namespace flashcore::emu {

FC_INLINE uint32_t bitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
FC_INLINE float floatOf(uint32_t x) { return __builtin_bit_cast(float, x); }
FC_INLINE uint64_t bitsOf(double x) { return __builtin_bit_cast(uint64_t, x); }
FC_INLINE double doubleOf(uint64_t x) { return __builtin_bit_cast(double, x); }

FC_INLINE float floatFromHalf(uint32_t half) {
  uint32_t magnitude = (half & 0x7fffu) << 13;
  // 2^112 rebiases the exponent and normalises subnormals on the way.
  uint32_t bits = bitsOf(floatOf(magnitude) * 0x1p112f);
  bits = magnitude >= 0x0f800000u ? bits | 0x7f800000u : bits;
  return floatOf(bits | (half & 0x8000u) << 16);
}

FC_INLINE uint16_t halfFromFloat(float x) {
  uint32_t bits = bitsOf(x);
  uint32_t sign = (bits >> 16) & 0x8000u;
  uint32_t magnitude = bits & 0x7fffffffu;
  // Adding 0.5 rounds to multiples of 2^-24, the subnormal spacing.
  uint32_t subnormal = bitsOf(floatOf(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t odd = (magnitude >> 13) & 1u;
  uint32_t normal = (magnitude + 0xfffu + odd - 0x38000000u) >> 13;
  uint32_t special = magnitude > 0x7f800000u ? 0x7fffu : 0x7c00u;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x47800000u ? special : result;
  return static_cast<uint16_t>(result == 0x7fffu ? result : result | sign);
}

FC_INLINE float floatFromBfloat(uint32_t x) { return floatOf(x << 16); }

FC_INLINE uint16_t bfloatFromFloat(float x) {
  uint32_t bits = bitsOf(x);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu
                                                                  : rounded);
}

/// Rounds to odd: keeps the information that a narrower rounding needs.
FC_INLINE double addToOdd(double a, double b) {
  double sum = a + b;
  double bPart = sum - a;
  double err = (a - (sum - bPart)) + (b - bPart);
  uint64_t bits = bitsOf(sum);
  bool towardLarger = (err > 0) == (sum > 0);
  uint64_t sticky = towardLarger ? bits | 1 : (bits & 1 ? bits : bits - 1);
  bool finite = (bits & 0x7ff0000000000000u) != 0x7ff0000000000000u;
  return err != 0 && finite && sum != 0 ? doubleOf(sticky) : sum;
}

/// f64 to f32 by rounding to odd, so that the next narrowing rounds once.
FC_INLINE float narrowToOdd(double x) {
  float nearest = static_cast<float>(x);
  double back = nearest;
  uint32_t bits = bitsOf(nearest);
  bool isFinite = (bits & 0x7f800000u) != 0x7f800000u;
  bool tooLarge = (x > 0) ? back > x : back < x;
  uint32_t truncated = tooLarge ? bits - 1 : bits;
  return back != x && isFinite ? floatOf(truncated | 1u) : nearest;
}

/// The sum of an mma as f16, rounded to nearest; one that vanishes is +0.
FC_INLINE uint16_t halfFromSum(double sum) {
  uint16_t half = halfFromFloat(narrowToOdd(sum));
  return half == 0x8000u ? 0 : half;
}

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_MATH_HALF_H
