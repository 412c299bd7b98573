//===- Ptxas.h - Running NVIDIA's assembler ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_PTXAS_H
#define FLASHCORE_TARGET_PTXAS_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

/// What ptxas says a kernel uses; bytes, except for registers.
struct KernelResources {
  int64_t registers = 0;
  int64_t stackFrame = 0;
  int64_t spillStores = 0;
  int64_t spillLoads = 0;
  int64_t staticSharedMemory = 0;
};

/// The result of assembling PTX for one chip.
struct Cubin {
  std::string chip;
  std::string image;
  std::string assembler; ///< e.g. "ptxas 13.0.88"
  llvm::StringMap<KernelResources> kernels;
};

/// Where ptxas is: `explicitPath` if not empty, else in $CUDA_HOME/bin, on
/// PATH, or in ptxas/bin of the build (or install) tree of the program at
/// `programPath`. The error names what was searched and what to do.
llvm::Expected<std::string> findPtxas(llvm::StringRef explicitPath,
                                      llvm::StringRef programPath);

/// What ptxas says where it takes the asynchrony from products of warpgroups,
/// or ignores how registers are shared out: its remarks C7500 to C7599. Empty
/// if there is none. Such a kernel is right, but half as fast.
std::string findSerializedProducts(llvm::StringRef report);

/// Whether ptxas says that it does not know the chip: an older one, or a newer
/// one than its own CUDA supports.
bool isUnknownChip(llvm::StringRef report);

/// Assembles `ptx` for `chip` with -O3; nothing if this ptxas does not know the
/// chip. The error holds ptxas' own words. A kernel whose products it
/// serializes is an error, too.
llvm::Expected<std::optional<Cubin>>
assemble(llvm::StringRef ptxas, llvm::StringRef ptx, llvm::StringRef chip);

/// Reads the report of `ptxas -v`.
llvm::StringMap<KernelResources> parsePtxasReport(llvm::StringRef report);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_PTXAS_H
