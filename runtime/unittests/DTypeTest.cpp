//===- DTypeTest.cpp - The table of element types -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a row says is held against what its conversions do.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/DType.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace flashcore;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(DTypeTest, bytesAreThoseOfTheBits) {
  for (const DTypeInfo &info : DTypes) {
    if (!isReal(info.dtype))
      continue;
    uint32_t all = info.bytes == 4 ? ~0u : (1u << (8 * info.bytes)) - 1;
    EXPECT_EQ(info.round(-infinity) & ~all, 0u) << info.name;
    EXPECT_EQ(info.magnitude(info.round(-infinity)), info.infinity)
        << info.name;
    EXPECT_EQ(info.round(infinity), info.infinity) << info.name;
  }
}

TEST(DTypeTest, digitsAreThoseOfTheNeighbourOfOne) {
  for (const DTypeInfo &info : DTypes) {
    if (!isReal(info.dtype))
      continue;
    double next = info.load(info.round(1) + 1);
    EXPECT_EQ(next, 1 + std::ldexp(1, 1 - info.digits)) << info.name;
    // Half way to it is a tie, which goes to even.
    EXPECT_EQ(info.round((1 + next) / 2), info.round(1)) << info.name;
    EXPECT_EQ(info.round((1 + next) / 2 * (1 + 0x1p-40)), info.round(next))
        << info.name;
  }
}

TEST(DTypeTest, leastExponentIsThatOfTheSmallestNumber) {
  for (const DTypeInfo &info : DTypes)
    EXPECT_EQ(info.load(1), std::ldexp(1, info.leastExponent)) << info.name;
}

TEST(DTypeTest, integersAreCutToThoseOfTheType) {
  const DTypeInfo &info = infoOf(DType::I32);
  EXPECT_EQ(info.load(info.round(-7)), -7);
  EXPECT_EQ(info.load(info.round(2.75)), 2);
  EXPECT_EQ(info.load(info.round(1e12)), 0x7fffffff);
  EXPECT_EQ(info.load(info.round(-1e12)), -0x7fffffff);
  EXPECT_EQ(info.round(std::numeric_limits<double>::quiet_NaN()), 0u);
  const DTypeInfo &byte = infoOf(DType::I8);
  EXPECT_EQ(byte.round(-1), 0xffu);
  EXPECT_EQ(byte.load(0xff), -1);
  EXPECT_EQ(byte.load(byte.round(200)), 127);
  EXPECT_EQ(byte.load(byte.round(-200)), -128);
  EXPECT_EQ(byte.round(std::numeric_limits<double>::quiet_NaN()), 0u);
}

TEST(DTypeTest, namesAreThoseOfManifests) {
  EXPECT_EQ(stringify(DType::F16), "f16");
  EXPECT_EQ(stringify(DType::BF16), "bf16");
  EXPECT_EQ(stringify(DType::F32), "f32");
  EXPECT_EQ(stringify(DType::I32), "i32");
  EXPECT_EQ(stringify(DType::I8), "i8");
  EXPECT_EQ(byteSize(DType::I8), 1);
  EXPECT_EQ(byteSize(DType::BF16), 2);
  EXPECT_EQ(byteSize(DType::F32), 4);
}
} // namespace
