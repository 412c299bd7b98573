//===- Convert.cpp - Conversions, one lane at a time ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every cvt of PTX ISA 9.7.9.21 that has no operation of its own. A source is
// held exactly (a double, or a 64-bit integer) and rounded once.
//
//===----------------------------------------------------------------------===//

#include "../sim/Handlers.h"
#include "Half.h"

#include <algorithm>
#include <cmath>

using namespace flashcore::emu;

namespace {
/// A binary floating-point format.
struct Format {
  int fractionBits;
  int minExponent;
  double largest;
  bool hasInfinity;
};
} // namespace

static Format formatOf(ScalarType type) {
  switch (type) {
  case ScalarType::F16:
  case ScalarType::F16x2:
    return {10, -14, 65504.0, true};
  case ScalarType::BF16:
  case ScalarType::BF16x2:
    return {7, -126, 0x1.fep127, true};
  case ScalarType::E4M3x2:
    return {3, -6, 448.0, false};
  case ScalarType::E5M2x2:
    return {2, -14, 57344.0, true};
  case ScalarType::TF32:
    return {10, -126, 0x1.ffcp127, true};
  default:
    return {23, -126, 0x1.fffffep127, true};
  }
}

static double roundIntegral(double x, Rounding rounding) {
  switch (rounding) {
  case Rounding::Rz:
    return std::trunc(x);
  case Rounding::Rm:
    return std::floor(x);
  case Rounding::Rp:
    return std::ceil(x);
  case Rounding::Rna:
    return std::round(x);
  case Rounding::Rn:
    break;
  }
  return std::nearbyint(x);
}

/// x rounded to a value of the format, still as a double.
static double roundTo(double x, const Format &format, Rounding rounding,
                      bool satFinite) {
  if (std::isnan(x) || x == 0)
    return x;
  double limit = std::copysign(format.largest, x);
  if (std::isinf(x))
    return satFinite ? limit : x;
  int exponent = std::max(std::ilogb(x), format.minExponent);
  double quantum = std::ldexp(1.0, exponent - format.fractionBits);
  double result = roundIntegral(x / quantum, rounding) * quantum;
  if (std::fabs(result) <= format.largest)
    return result;
  bool towardZero = rounding == Rounding::Rz ||
                    (rounding == Rounding::Rm && x > 0) ||
                    (rounding == Rounding::Rp && x < 0);
  return satFinite || towardZero ? limit : std::copysign(HUGE_VAL, x);
}

double flashcore::emu::decodeFp8(uint32_t bits, bool isE4M3) {
  int fraction = isE4M3 ? 3 : 2, bias = isE4M3 ? 7 : 15;
  int exponent = static_cast<int>(bits & 0x7f) >> fraction;
  int mantissa = static_cast<int>(bits) & ((1 << fraction) - 1);
  double sign = bits & 0x80 ? -1.0 : 1.0;
  bool special = isE4M3 ? (bits & 0x7f) == 0x7f : exponent == 31;
  if (special)
    return isE4M3 || mantissa ? NAN : sign * HUGE_VAL;
  double value = exponent == 0 ? std::ldexp(mantissa, 1 - bias - fraction)
                               : std::ldexp(mantissa + (1 << fraction),
                                            exponent - bias - fraction);
  return sign * value;
}

static uint32_t encodeFp8(double x, bool isE4M3) {
  int fraction = isE4M3 ? 3 : 2, bias = isE4M3 ? 7 : 15;
  uint32_t sign = std::signbit(x) ? 0x80u : 0u;
  if (std::isnan(x))
    return 0x7f;
  if (std::isinf(x))
    return sign | (isE4M3 ? 0x7fu : 0x7cu);
  x = std::fabs(x);
  if (x == 0)
    return sign;
  int exponent = std::max(std::ilogb(x), 1 - bias);
  int mantissa = static_cast<int>(std::ldexp(x, fraction - exponent));
  // A subnormal has no hidden bit, which the sum below accounts for.
  return sign |
         static_cast<uint32_t>(((exponent + bias - 1) << fraction) + mantissa);
}

static double decodeFloat(ScalarType type, uint64_t bits) {
  uint32_t low = static_cast<uint32_t>(bits);
  switch (type) {
  case ScalarType::F16:
    return floatFromHalf(low & 0xffff);
  case ScalarType::BF16:
    return floatFromBfloat(low & 0xffff);
  case ScalarType::F64:
    return doubleOf(bits);
  default:
    return floatOf(low);
  }
}

/// `x` is a value of the type already.
static uint64_t encodeFloat(ScalarType type, double x) {
  bool isNan = std::isnan(x);
  switch (type) {
  case ScalarType::F16:
    return isNan ? 0x7fff : halfFromFloat(static_cast<float>(x));
  case ScalarType::BF16:
    return isNan ? 0x7fff : bfloatFromFloat(static_cast<float>(x));
  case ScalarType::F64:
    return isNan ? 0x7fffffffffffffffu : bitsOf(x);
  default:
    return isNan ? 0x7fffffffu : bitsOf(static_cast<float>(x));
  }
}

/// Sign and payload, as the top of a double's fraction.
static uint64_t widenNan(ScalarType type, uint64_t bits) {
  if (type == ScalarType::F64)
    return bits;
  unsigned width = typeBytes(type) * 8;
  int fraction = formatOf(type).fractionBits;
  return (bits >> (width - 1) & 1) << 63 |
         (bits & ((uint64_t(1) << fraction) - 1)) << (52 - fraction);
}

/// The result for a NaN as on sm_90: conversions from and to f64 keep its sign
/// and the top of its payload and make it quiet, cvt.rna.tf32 truncates it and
/// with .satfinite gives the number before, as of an infinity, all others give
/// the canonical NaN. Operations with .ftz see a canonical f32.
static uint64_t convertNan(const ConvertInfo &info, uint64_t bits) {
  if (info.to == ScalarType::TF32) {
    if (info.rounding != Rounding::Rna)
      return 0x7fffe000u;
    return (bits & 0xffffe000u) - (info.satFinite ? 0x2000u : 0u);
  }
  if (info.to != ScalarType::F64 && info.from != ScalarType::F64)
    return encodeFloat(info.to, NAN);
  if (info.ftz && info.from == ScalarType::F32)
    bits = 0x7fffffffu;
  uint64_t wide = widenNan(info.from, bits) | 0x7ff8000000000000u;
  if (info.to == ScalarType::F64)
    return wide;
  unsigned width = typeBytes(info.to) * 8;
  int fraction = formatOf(info.to).fractionBits;
  uint64_t magnitude = wide >> (52 - fraction);
  uint64_t ones = (uint64_t(1) << (width - 1)) - 1;
  return (wide >> 63) << (width - 1) | (magnitude & ones);
}

static uint64_t floatToInteger(const ConvertInfo &info, double x) {
  unsigned width = typeBytes(info.to) * 8;
  bool isSigned = isSignedType(info.to);
  if (std::isnan(x))
    return width == 64 || info.from == ScalarType::F64
               ? uint64_t(1) << (width - 1)
               : 0;
  x = roundIntegral(x, info.rounding);
  double high = std::ldexp(1.0, static_cast<int>(isSigned ? width - 1 : width));
  double low = isSigned ? -high : 0.0;
  uint64_t largest = isSigned      ? (uint64_t(1) << (width - 1)) - 1
                     : width == 64 ? ~uint64_t(0)
                                   : (uint64_t(1) << width) - 1;
  if (x >= high)
    return largest;
  if (x <= low)
    return isSigned ? uint64_t(0) - (uint64_t(1) << (width - 1)) : 0;
  return isSigned || x < 0 ? static_cast<uint64_t>(static_cast<int64_t>(x))
                           : static_cast<uint64_t>(x);
}

/// Sign- or zero-extends from the source type.
static uint64_t extendInteger(ScalarType type, uint64_t bits) {
  unsigned shift = 64 - typeBytes(type) * 8;
  return isSignedType(type) ? static_cast<uint64_t>(
                                  static_cast<int64_t>(bits << shift) >> shift)
                            : bits << shift >> shift;
}

static uint64_t integerToInteger(const ConvertInfo &info, uint64_t bits) {
  uint64_t value = extendInteger(info.from, bits);
  if (!info.sat)
    return value;
  bool negative = isSignedType(info.from) && static_cast<int64_t>(value) < 0;
  unsigned width = typeBytes(info.to) * 8;
  bool isSigned = isSignedType(info.to);
  uint64_t largest = isSigned      ? (uint64_t(1) << (width - 1)) - 1
                     : width == 64 ? ~uint64_t(0)
                                   : (uint64_t(1) << width) - 1;
  if (negative) {
    int64_t smallest = isSigned ? -static_cast<int64_t>(largest) - 1 : 0;
    return static_cast<int64_t>(value) < smallest
               ? static_cast<uint64_t>(smallest)
               : value;
  }
  return std::min(value, largest);
}

/// `magnitude` as an f64 in a rounding mode; the host's cast takes the nearest.
static double roundMagnitude(uint64_t magnitude, bool negative,
                             Rounding rounding) {
  double nearest = static_cast<double>(magnitude);
  auto whole = static_cast<unsigned __int128>(nearest);
  bool down = rounding == Rounding::Rz ||
              rounding == (negative ? Rounding::Rp : Rounding::Rm);
  bool up = rounding == (negative ? Rounding::Rm : Rounding::Rp);
  if (down && whole > magnitude)
    return std::nextafter(nearest, 0.0);
  if (up && whole < magnitude)
    return std::nextafter(nearest, INFINITY);
  return nearest;
}

/// A 64-bit integer as an f64 if that is the result, or else as a double
/// rounded to odd, which has bits to spare for every other format.
static double integerAsDouble(const ConvertInfo &info, uint64_t bits) {
  uint64_t value = extendInteger(info.from, bits);
  bool negative = isSignedType(info.from) && static_cast<int64_t>(value) < 0;
  uint64_t magnitude = negative ? 0 - value : value;
  if (info.to == ScalarType::F64) {
    double rounded = roundMagnitude(magnitude, negative, info.rounding);
    return negative ? -rounded : rounded;
  }
  if (magnitude >> 53)
    magnitude = (magnitude & ~uint64_t(0x7ff)) |
                (magnitude & 0x7ff ? uint64_t(0x800) : 0);
  return negative ? -static_cast<double>(magnitude)
                  : static_cast<double>(magnitude);
}

static double adjust(const ConvertInfo &info, double x) {
  // An f64 is flushed once it is rounded.
  if (info.ftz && info.from != ScalarType::F64 && std::fabs(x) < 0x1p-126)
    x = std::copysign(0.0, x);
  if (info.toIntegral)
    x = roundIntegral(x, info.rounding);
  if (info.sat)
    x = x > 0 ? std::min(x, 1.0) : 0.0;
  if (info.relu && x <= 0)
    x = 0.0;
  return x;
}

static uint64_t convertPacked(const ConvertInfo &info, uint64_t a, uint64_t b) {
  bool fromE4M3 = info.from == ScalarType::E4M3x2;
  double high, low;
  if (fromE4M3 || info.from == ScalarType::E5M2x2) {
    high = decodeFp8(a >> 8 & 0xff, fromE4M3);
    low = decodeFp8(a & 0xff, fromE4M3);
  } else if (info.from == ScalarType::F16x2) {
    high = decodeFloat(ScalarType::F16, a >> 16);
    low = decodeFloat(ScalarType::F16, a);
  } else {
    high = decodeFloat(ScalarType::F32, a);
    low = decodeFloat(ScalarType::F32, b);
  }
  Format format = formatOf(info.to);
  high = roundTo(adjust(info, high), format, info.rounding, info.satFinite);
  low = roundTo(adjust(info, low), format, info.rounding, info.satFinite);
  if (info.to == ScalarType::E4M3x2 || info.to == ScalarType::E5M2x2) {
    bool isE4M3 = info.to == ScalarType::E4M3x2;
    return encodeFp8(high, isE4M3) << 8 | encodeFp8(low, isE4M3);
  }
  ScalarType half =
      info.to == ScalarType::F16x2 ? ScalarType::F16 : ScalarType::BF16;
  return encodeFloat(half, high) << 16 | encodeFloat(half, low);
}

uint64_t flashcore::emu::convertLane(const ConvertInfo &info, uint64_t a,
                                     uint64_t b) {
  switch (info.to) {
  case ScalarType::F16x2:
  case ScalarType::BF16x2:
  case ScalarType::E4M3x2:
  case ScalarType::E5M2x2:
    return convertPacked(info, a, b);
  default:
    break;
  }
  bool fromFloat = isFloatType(info.from), toFloat = isFloatType(info.to);
  if (!fromFloat && !toFloat) {
    uint64_t value = integerToInteger(info, a);
    // A register wider than the type takes the type's own extension.
    return extendInteger(info.to, value);
  }
  if (!toFloat) {
    double x = decodeFloat(info.from, a);
    if (info.ftz && std::fabs(x) < 0x1p-126)
      x = 0;
    return extendInteger(info.to, floatToInteger(info, x));
  }
  double x = fromFloat ? decodeFloat(info.from, a) : integerAsDouble(info, a);
  x = adjust(info, x);
  if (std::isnan(x))
    return convertNan(info, a);
  if (info.to != ScalarType::F64)
    x = roundTo(x, formatOf(info.to),
                info.toIntegral ? Rounding::Rn : info.rounding, info.satFinite);
  if (info.ftz && info.to == ScalarType::F32 && std::fabs(x) < 0x1p-126)
    x = std::copysign(0.0, x);
  return encodeFloat(info.to, x);
}
