//===- Inputs.h - The .npy files of a run -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the files of --q and so on, and takes from them the sizes that a bundle
// leaves open.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_INPUTS_H
#define FLASHCORE_RUN_INPUTS_H

#include "flashcore/Runtime/Npy.h"
#include "flashcore/Runtime/TensorSet.h"

namespace flashcore::run {

/// By tensor name.
using FileMap = std::map<std::string, std::filesystem::path>;

class InputFiles {
public:
  /// Checks the files, and adds to `dims` the sizes that they have. An error
  /// names the file and the axis that does not fit the bundle, `dims` or
  /// another file.
  Status takeSizes(const Bundle &bundle, const FileMap &files,
                   const NpyOptions &options,
                   std::map<std::string, int64_t, std::less<>> &dims);

  /// Fills the tensors; adds to `notes` what was converted, once.
  Status read(const FileMap &files, const NpyOptions &options, TensorSet &set,
              std::vector<std::string> &notes);

private:
  StatusOr<const NpyArray *> load(const std::filesystem::path &path);

  /// Each is read once, since a pipe can be read once only.
  std::map<std::filesystem::path, NpyArray> arrays;
};

} // namespace flashcore::run

#endif // FLASHCORE_RUN_INPUTS_H
