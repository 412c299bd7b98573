//===- PTX.h - From NVVM ops to PTX -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_PTX_H
#define FLASHCORE_TARGET_PTX_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/Timing.h"

#include <string>

namespace mlir::flashcore {

enum class PTXStage {
  LLVM, ///< optimised LLVM IR, as text
  PTX,  ///< PTX assembly
};

/// What of the kernels in a module decides which of the backend's passes run.
struct BackendTraits {
  bool hasDynamicSizes = false;
  bool seesOneKey = false;
};

/// Whether the backend's pass `pass` gains more than the time it takes.
bool isWorthRunning(llvm::StringRef pass, BackendTraits traits);

/// Whether the mask in the description of an op (of `fcgpu.program`) shows a
/// query at most one key.
bool seesOneKey(DictionaryAttr op);

/// Registers the translations to LLVM IR that `emitPTX` needs.
void registerPTXTranslations(DialectRegistry &registry);

/// Translates a module of LLVM and NVVM ops (after flashcore-to-nvvm),
/// optimises it with those of LLVM's passes that change a kernel, and prints
/// it. `chip` must be one of getTargets(): for any other, or for ops it lacks,
/// LLVM would abort the process. PTX begins with a comment that says how its
/// kernels are launched (docs/Bundle.md). Errors are reported at the module.
/// The steps are timed below `timing`.
FailureOr<std::string> emitPTX(gpu::GPUModuleOp module, llvm::StringRef chip,
                               PTXStage stage,
                               TimingScope timing = TimingScope());

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_PTX_H
