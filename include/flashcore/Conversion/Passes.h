//===- Passes.h - Phase 7 ---------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_CONVERSION_PASSES_H
#define FLASHCORE_CONVERSION_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/Pass.h"

namespace mlir {
class LLVMTypeConverter;
class RewritePatternSet;
} // namespace mlir

namespace mlir::flashcore {

/// Patterns of flashcore-to-nvvm that upstream lacks: bf16 mma.sync, and
/// approximate math as single PTX instructions.
void populateFlashCoreToNVVMPatterns(const LLVMTypeConverter &converter,
                                     RewritePatternSet &patterns);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashcore/Conversion/Passes.h.inc"

} // namespace mlir::flashcore

#endif // FLASHCORE_CONVERSION_PASSES_H
