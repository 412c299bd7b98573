//===- Float16.h - f16 and bf16 in software ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bit exact conversions between f32 and the two 16-bit formats, rounding to
// nearest, ties to even. Written out because neither g++ 12 nor every target of
// the runtime has a usable bf16 type, and the tests need the same bits on all.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_FLOAT16_H
#define FLASHCORE_RUNTIME_FLOAT16_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace flashcore {

inline float halfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) // infinity, or NaN with its payload
    return std::bit_cast<float>(sign | 0x7f800000 |
                                ((magnitude & 0x3ff) << 13));
  if (magnitude < 0x0400) // zero and subnormals: magnitude * 2^-24, exactly
    return std::bit_cast<float>(
        sign |
        std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  return std::bit_cast<float>(sign | ((magnitude << 13) + (112u << 23)));
}

inline uint16_t floatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) // NaN: keep the top of the payload, make it quiet
    return sign | 0x7e00 | static_cast<uint16_t>((bits >> 13) & 0x3ff);
  if (bits >= 0x477ff000) // 65520 and above round to infinity
    return sign | 0x7c00;
  if (bits < 0x38800000) { // below 2^-14: the result is subnormal or zero
    // 0.5f has the unit of 2^-24 in its last place, so the addition rounds.
    float shifted = std::bit_cast<float>(bits) + 0.5f;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  uint32_t odd = (bits >> 13) & 1;
  return sign |
         static_cast<uint16_t>((bits - (112u << 23) + 0xfff + odd) >> 13);
}

inline float bfloat16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

inline uint16_t floatToBfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) // NaN: truncate, but keep it a NaN
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// To f32 so that rounding the result once more to 16 bits is right: an inexact
/// value gets an odd last bit, which never looks like a tie.
inline float roundToOdd(double value) {
  float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest))
    return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (bits & 1)
    return nearest;
  float other = std::nextafter(
      nearest, static_cast<double>(nearest) < value ? INFINITY : -INFINITY);
  return other;
}

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_FLOAT16_H
