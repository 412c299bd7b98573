//===- Npy.h - NumPy array files --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads .npy files of floating point and writes those of f16, f32 and bf16.
// NumPy has no bf16: ml_dtypes saves it as '<V2', and as '<u2' it is what users
// without ml_dtypes have, the bits as integers; both are read, and '<u2' is
// written.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_NPY_H
#define FLASHCORE_RUNTIME_NPY_H

#include "flashcore/Runtime/HostTensor.h"

namespace flashcore {

/// A packed array in C order.
struct NpyArray {
  /// NumPy's name of the element type: "<f2", "<f4", "<f8", "<u2", or "<V2" for
  /// all names of bf16.
  std::string descr;
  std::vector<int64_t> shape;
  std::string data;
};

/// How files and tensors may differ.
struct NpyOptions {
  /// Round elements of another floating point type to that of the tensor.
  bool convert = false;
  /// Of files of q, k, v and o: BSHD has seqlen before heads. Files of other
  /// tensors have the axes of the tensor.
  Layout layout = Layout::BHSD;
};

/// An array in Fortran order is brought into C order.
StatusOr<NpyArray> readNpy(const std::filesystem::path &path);
Status writeNpy(const std::filesystem::path &path, const NpyArray &array);

/// For each axis of the tensor the one of the file that holds it.
std::vector<size_t> fileAxes(const std::vector<std::string> &axes,
                             Layout layout);

/// Checks that `array`, read from `file`, has elements for a tensor of `dtype`.
Status verifyType(const NpyArray &array, const std::string &file,
                  std::string_view name, DType dtype,
                  const NpyOptions &options = {});

/// Copies `array`, read from `file`, into the elements of `tensor`; shapes must
/// agree. Returns what to tell the user about a conversion, or nothing.
StatusOr<std::string> assignTensor(HostTensor &tensor, const NpyArray &array,
                                   const std::string &file,
                                   const NpyOptions &options = {});
/// Writes the elements of `tensor`, packed.
Status writeTensor(const std::filesystem::path &path, const HostTensor &tensor,
                   const NpyOptions &options = {});

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_NPY_H
