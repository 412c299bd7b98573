//===- KernelParameters.h - What a kernel takes -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A launch hands over an array of arguments without its length: the driver
// reads as many as the code has parameters. So the manifest's list is compared
// with the code, with the PTX when a bundle is read and with what a device
// loaded.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_KERNELPARAMETERS_H
#define FLASHCORE_RUNTIME_LIB_KERNELPARAMETERS_H

#include "flashcore/Runtime/Bundle.h"

namespace flashcore {

/// Every argument of a launch that is no tensor map has this size.
inline constexpr int64_t ArgumentBytes = 8;

struct PtxParameter {
  int64_t bytes = 0;
  /// As `.align` says; 0 without.
  int64_t alignment = 0;
  /// Marked `.ptr`; LLVM marks all pointers, other compilers none.
  bool isPointer = false;
};

/// Reads the parameter list of kernel `name`, and nothing else of `ptx`;
/// nullopt when it is not there or cannot be read.
std::optional<std::vector<PtxParameter>>
readPtxParameters(std::string_view ptx, std::string_view name);

/// The JSON of the line '// flashcore-launch: ...', which stands before the
/// first directive; nullopt where there is none.
std::optional<std::string_view> findLaunchComment(std::string_view ptx);

/// Compares the arguments of `kernel` with the sizes of the parameters of its
/// loaded code.
Status verifyParameters(const KernelSpec &kernel,
                        const std::vector<int64_t> &parameterBytes);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_KERNELPARAMETERS_H
