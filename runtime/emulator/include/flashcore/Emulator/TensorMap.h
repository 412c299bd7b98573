//===- TensorMap.h - Tensor maps of bulk copies -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel takes as a parameter of 128 bytes and gives to
// cp.async.bulk.tensor. The driver's encoding is not public, so the emulator
// has one of its own; it refuses a map that encodeTensorMap has not made.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TENSORMAP_H
#define FLASHCORE_EMULATOR_TENSORMAP_H

#include "flashcore/Emulator/Error.h"

#include <array>
#include <cstdint>
#include <optional>

namespace flashcore::emu {

inline constexpr unsigned maxTensorRank = 5;
using TensorMapBytes = std::array<uint8_t, 128>;

/// The pattern in which 16-byte pieces of shared memory change places: piece
/// bits 4 and up of an address are xored with those from bit 7 up.
enum class TensorSwizzle : uint8_t { None, Bytes32, Bytes64, Bytes128 };

/// The arguments of cuTensorMapEncodeTiled, innermost axis first; elements
/// outside of the tensor are zero, nothing is interleaved.
struct TensorMap {
  uint64_t address = 0;
  uint32_t elementBytes = 2;
  uint32_t rank = 1;
  uint64_t sizes[maxTensorRank] = {};
  /// Bytes from one element of an axis to the next; that of axis 0 is the size
  /// of an element, and is not looked at.
  uint64_t strides[maxTensorRank] = {};
  uint32_t box[maxTensorRank] = {};
  uint32_t elementStrides[maxTensorRank] = {1, 1, 1, 1, 1};
  TensorSwizzle swizzle = TensorSwizzle::None;

  /// Elements along an axis that a copy moves.
  uint32_t extent(unsigned axis) const {
    uint32_t step = axis ? elementStrides[axis] : 1;
    return (box[axis] + step - 1) / step;
  }
  /// Bytes that a copy moves, in shared memory.
  uint64_t boxBytes() const;
};

/// Refuses what is outside of the limits of cuTensorMapEncodeTiled.
Expected<TensorMapBytes> encodeTensorMap(const TensorMap &map);

/// Empty for bytes that encodeTensorMap has not made.
std::optional<TensorMap> decodeTensorMap(const uint8_t *bytes);

/// Where a byte of shared memory goes.
uint64_t swizzled(uint64_t address, TensorSwizzle swizzle);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TENSORMAP_H
