//===- Npy.h - NumPy array files --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads and writes C-ordered .npy files, version 1 and 2, of the element types
// the tool knows. bf16, which NumPy lacks, travels as '<u2'.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_NPY_H
#define FLASHCORE_EMULATOR_TOOLS_NPY_H

#include "flashcore/Emulator/Error.h"

#include <vector>

namespace flashcore::emu {

struct NpyArray {
  /// As NumPy spells it: "<f2", "<f4", "<i4", ...
  std::string type;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;
};

Expected<NpyArray> readNpy(const std::string &path);
/// An empty string, or what went wrong; then the file is as it was before.
std::string writeNpy(const std::string &path, const NpyArray &array);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_NPY_H
