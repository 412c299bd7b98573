//===- TensorMap.h - Tensor maps of bulk copies -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel that moves boxes of a tensor by bulk copies (TMA) takes a tensor map
// of 128 bytes as an argument. What such bytes look like, only a device knows;
// what they say of the tensor is worked out and checked here.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_TENSORMAP_H
#define FLASHCORE_RUNTIME_TENSORMAP_H

#include "flashcore/Runtime/Problem.h"

#include <cstddef>

namespace flashcore {

/// The arguments of cuTensorMapEncodeTiled but for the address, innermost axis
/// first. Elements outside of the tensor are zero, nothing is interleaved.
struct TensorMap {
  unsigned rank = 0;
  /// Bytes from the map's address to the tensor's.
  uint64_t bytesInFront = 0;
  /// Whether the tensor has no elements. A map has no empty axes, so it is that
  /// of one element, of which kernels copy nothing: they copy boxes that lie
  /// outside of it, which are zeros. The hardware still reads at its address,
  /// so a launch gives it one that exists.
  bool isEmpty = false;
  DType dtype = DType::F16;
  std::array<uint64_t, MaxTensorMapRank> sizes = {};
  /// Bytes; of axis 0 those of an element.
  std::array<uint64_t, MaxTensorMapRank> strides = {};
  std::array<uint32_t, MaxTensorMapRank> box = {};
  unsigned swizzle = 0; ///< 0, 32, 64 or 128 bytes
};

/// As a device made them, and as aligned as in cuda.h.
struct alignas(TensorMapSize) TensorMapBytes {
  std::array<std::byte, TensorMapSize> bytes;
};

/// What `argument`, which is a tensor map, says of a tensor of this geometry.
/// Refuses one that is too large for bulk copies.
StatusOr<TensorMap> makeTensorMap(const TensorGeometry &tensor,
                                  const ArgumentSpec &argument);

/// What a pointer or a tensor map is of: a tensor of `problem`, or a copy of
/// one, whose rows are `copyRow` apart.
TensorGeometry geometryOf(const Problem &problem, const ArgumentSpec &argument);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_TENSORMAP_H
