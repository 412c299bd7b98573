//===- Overlap.h - Tensors that share bytes ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Blocks of a kernel run in any order, so what one writes no other may read.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_OVERLAP_H
#define FLASHCORE_RUNTIME_OVERLAP_H

#include "flashcore/Runtime/Launch.h"

namespace flashcore {

/// A tensor and where it lies; `address` is without its offset.
struct PlacedTensor {
  const TensorGeometry &geometry;
  DevicePointer address;
};

/// Elements of `elementBytes` bytes. `address` is that of element (0, ..., 0);
/// strides are in elements and of any sign.
struct StridedMemory {
  DevicePointer address;
  int64_t elementBytes;
  std::span<const int64_t> sizes, strides;
};

/// Whether an element of one has a byte of an element of the other. Tensors may
/// lie in each other's gaps, as the parts of a packed qkv do. Where finding out
/// takes long, which strides that do not nest can bring about, it is yes.
bool shareBytes(const StridedMemory &a, const StridedMemory &b);
bool shareBytes(const PlacedTensor &a, const PlacedTensor &b);

/// Checks that no tensor that a kernel writes, nor the workspace, shares bytes
/// with another. `pointers` are in the order of the problem's tensors; inputs
/// may be the same, and so may k and v to which rows are appended.
Status verifyOverlaps(const Problem &problem,
                      std::span<const DevicePointer> pointers,
                      DevicePointer workspace);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_OVERLAP_H
