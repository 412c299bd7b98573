//===- AluUtil.h - Instructions against C++ ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each row is instructions on %?1, %?2, %?3 (h, r, f, d by width) with the
// result in register 0 of the width the row names, and the same in C++.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_UNITTESTS_ALUUTIL_H
#define FLASHCORE_EMULATOR_UNITTESTS_ALUUTIL_H

#include "TestUtil.h"

#include <bit>
#include <cmath>
#include <functional>

namespace flashcore::emu::test {

using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using s16 = int16_t;
using s32 = int32_t;
using s64 = int64_t;

struct Row {
  std::string text;
  char width; // of the result: 'h', 'r' or 'd'
  std::function<u64(u64, u64, u64)> reference;
};

/// Runs the row on many lanes and compares.
void checkRow(const Row &row);

inline float asFloat(u64 x) {
  return std::bit_cast<float>(static_cast<u32>(x));
}
/// The bits of a result; PTX has one NaN.
inline u64 fromFloat(float x) {
  return std::isnan(x) ? 0x7fffffffu : std::bit_cast<u32>(x);
}
inline float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

} // namespace flashcore::emu::test

#endif // FLASHCORE_EMULATOR_UNITTESTS_ALUUTIL_H
