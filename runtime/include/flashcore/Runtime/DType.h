//===- DType.h - The element types of tensors -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All that the runtime knows of element types. One more is a word of the enum
// and a row of the table, and what a driver calls it (CudaDevice.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_DTYPE_H
#define FLASHCORE_RUNTIME_DTYPE_H

#include "flashcore/Runtime/Float16.h"

#include <array>
#include <string_view>

namespace flashcore {

enum class DType { F16, BF16, F32, I32, I8 };

/// Whether elements have fractions, infinities and NaNs.
inline constexpr bool isReal(DType dtype) { return dtype < DType::I32; }

/// An element type. Elements are handed around as bits, in the low ones of 32.
struct DTypeInfo {
  DType dtype;
  /// In manifests and messages.
  std::string_view name;
  /// In .npy files; integers of the same size where NumPy has no such type.
  std::string_view npyDescr;
  int64_t bytes;
  /// Digits of the significand, with the hidden one, and the exponent of the
  /// smallest positive value.
  int digits, leastExponent;
  uint32_t infinity;
  double (*load)(uint32_t bits);
  /// The nearest value, ties to even.
  uint32_t (*round)(double value);

  /// The bits without the sign.
  uint32_t magnitude(uint32_t bits) const {
    return bits & ((uint32_t(1) << (8 * bytes - 1)) - 1);
  }
};

/// In the order of the enum.
inline constexpr std::array<DTypeInfo, 5> DTypes{{
    {DType::F16, "f16", "<f2", 2, 11, -24, 0x7c00,
     [](uint32_t bits) -> double {
       return halfToFloat(static_cast<uint16_t>(bits));
     },
     [](double value) -> uint32_t { return floatToHalf(roundToOdd(value)); }},
    {DType::BF16, "bf16", "<u2", 2, 8, -133, 0x7f80,
     [](uint32_t bits) -> double {
       return bfloat16ToFloat(static_cast<uint16_t>(bits));
     },
     [](double value) -> uint32_t {
       return floatToBfloat16(roundToOdd(value));
     }},
    {DType::F32, "f32", "<f4", 4, 24, -149, 0x7f800000,
     [](uint32_t bits) -> double { return std::bit_cast<float>(bits); },
     [](double value) -> uint32_t {
       return std::bit_cast<uint32_t>(static_cast<float>(value));
     }},
    // Only what a region reads. No bits are an infinity or NaN.
    {DType::I32, "i32", "<i4", 4, 31, 0, 0x7fffffff,
     [](uint32_t bits) -> double { return static_cast<int32_t>(bits); },
     [](double value) -> uint32_t {
       constexpr double most = 0x7fffffff;
       // Written so that a NaN becomes 0.
       double cut = value >= most ? most : value > -most ? value : -most;
       return static_cast<uint32_t>(
           static_cast<int32_t>(value == value ? cut : 0));
     }},
    // The same. Booleans are 0 and 1.
    {DType::I8, "i8", "|i1", 1, 7, 0, 0x7f,
     [](uint32_t bits) -> double {
       return static_cast<int8_t>(static_cast<uint8_t>(bits));
     },
     [](double value) -> uint32_t {
       double cut = value >= 127 ? 127 : value > -128 ? value : -128;
       return static_cast<uint8_t>(
           static_cast<int8_t>(value == value ? cut : 0));
     }},
}};

inline constexpr const DTypeInfo &infoOf(DType dtype) {
  return DTypes[static_cast<size_t>(dtype)];
}
static_assert([] {
  for (size_t i = 0; i < DTypes.size(); ++i)
    if (DTypes[i].dtype != static_cast<DType>(i))
      return false;
  return true;
}());

inline constexpr int64_t byteSize(DType dtype) { return infoOf(dtype).bytes; }
inline constexpr std::string_view stringify(DType dtype) {
  return infoOf(dtype).name;
}

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_DTYPE_H
