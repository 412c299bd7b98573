//===- Passes.h - Phases 4 to 6 ---------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_H
#define FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/Pass.h"

namespace mlir::fcgpu {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"

} // namespace mlir::fcgpu

#endif // FLASHCORE_DIALECT_FCGPU_TRANSFORMS_PASSES_H
