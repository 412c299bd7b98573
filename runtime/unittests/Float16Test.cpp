//===- Float16Test.cpp - Conversions of 16-bit formats --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All 65536 values of both formats, and the roundings between neighbours,
// against definitions that share no code with the conversions.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>

using namespace flashcore;

namespace {
/// A 16-bit format by its numbers of bits.
struct Format {
  int exponentBits, mantissaBits;
  float (*toFloat)(uint16_t);
  uint16_t (*fromFloat)(float);

  uint16_t infinityBits() const {
    return static_cast<uint16_t>(((1 << exponentBits) - 1) << mantissaBits);
  }
  /// The value by the definition of IEEE 754. One exponent past the largest
  /// finite value continues the scale, for roundings at the end of the range.
  double value(int magnitude) const {
    int mantissa = magnitude & ((1 << mantissaBits) - 1);
    int exponent = magnitude >> mantissaBits;
    int bias = (1 << (exponentBits - 1)) - 1;
    if (exponent == 0)
      return std::ldexp(mantissa, 1 - bias - mantissaBits);
    return std::ldexp(mantissa + (1 << mantissaBits),
                      exponent - bias - mantissaBits);
  }
};

/// Names a parameter in the list of tests.
[[maybe_unused]] void PrintTo(const Format &format, std::ostream *stream) {
  *stream << format.exponentBits << " exponent bits";
}

class Float16Test : public ::testing::TestWithParam<Format> {};
} // namespace

TEST_P(Float16Test, readsAllValues) {
  const Format &format = GetParam();
  for (int bits = 0; bits < 65536; ++bits) {
    int magnitude = bits & 0x7fff;
    float actual = format.toFloat(static_cast<uint16_t>(bits));
    EXPECT_EQ(std::signbit(actual), bits >= 0x8000) << bits;
    if (magnitude > format.infinityBits())
      EXPECT_TRUE(std::isnan(actual)) << bits;
    else if (magnitude == format.infinityBits())
      EXPECT_TRUE(std::isinf(actual)) << bits;
    else
      EXPECT_EQ(std::abs(actual), format.value(magnitude)) << bits;
  }
}

TEST_P(Float16Test, allValuesSurviveTheRoundTrip) {
  const Format &format = GetParam();
  const int quiet = 1 << (format.mantissaBits - 1);
  for (int bits = 0; bits < 65536; ++bits) {
    bool isNaN = (bits & 0x7fff) > format.infinityBits();
    EXPECT_EQ(format.fromFloat(format.toFloat(static_cast<uint16_t>(bits))),
              isNaN ? bits | quiet : bits);
  }
}

TEST_P(Float16Test, roundsToNearestEven) {
  const Format &format = GetParam();
  const float infinity = std::numeric_limits<float>::infinity();
  for (int low = 0; low < format.infinityBits(); ++low) {
    double middle = (format.value(low) + format.value(low + 1)) / 2;
    // Of bf16 the middle past the largest value is no f32 below infinity.
    float exact = static_cast<float>(middle);
    if (exact != middle)
      continue;
    int even = low % 2 ? low + 1 : low;
    for (int sign : {0, 0x8000}) {
      float at = sign ? -exact : exact;
      EXPECT_EQ(format.fromFloat(at), even | sign) << low;
      EXPECT_EQ(format.fromFloat(std::nextafter(at, 0.0f)), low | sign) << low;
      EXPECT_EQ(
          format.fromFloat(std::nextafter(at, sign ? -infinity : infinity)),
          (low + 1) | sign)
          << low;
    }
  }
}

TEST_P(Float16Test, extremesOfF32) {
  const Format &format = GetParam();
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(format.fromFloat(Limits::max()), format.infinityBits());
  EXPECT_EQ(format.fromFloat(-Limits::infinity()),
            format.infinityBits() | 0x8000);
  EXPECT_EQ(format.fromFloat(Limits::denorm_min()), 0);
  EXPECT_TRUE(
      std::isnan(format.toFloat(format.fromFloat(Limits::quiet_NaN()))));
  // A payload in the low bits alone must not turn into an infinity.
  EXPECT_TRUE(std::isnan(
      format.toFloat(format.fromFloat(std::bit_cast<float>(0x7f800001)))));
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Float16Test,
    ::testing::Values(Format{5, 10, halfToFloat, floatToHalf},
                      Format{8, 7, bfloat16ToFloat, floatToBfloat16}),
    [](const auto &info) { return info.index ? "bf16" : "f16"; });
