//===- Npy.h - NumPy array files --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes .npy files of f16, f32 and 16-bit integers. NumPy has no
// bf16, so bf16 arrays travel as uint16 that hold the bits.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_NPY_H
#define FLASHCORE_RUNTIME_NPY_H

#include "flashcore/Runtime/HostTensor.h"

namespace flashcore {

/// A packed array in C order.
struct NpyArray {
  /// NumPy's name of the element type: "<f2", "<f4" or "<u2".
  std::string descr;
  std::vector<int64_t> shape;
  std::string data;
};

StatusOr<NpyArray> readNpy(const std::filesystem::path &path);
Status writeNpy(const std::filesystem::path &path, const NpyArray &array);

/// Reads `path` into the elements of `tensor`; type and shape must agree.
Status readTensor(const std::filesystem::path &path, HostTensor &tensor);
/// Writes the elements of `tensor`, packed.
Status writeTensor(const std::filesystem::path &path, const HostTensor &tensor);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_NPY_H
