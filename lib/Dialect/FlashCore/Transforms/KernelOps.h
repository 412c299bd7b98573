//===- KernelOps.h - The ops that become kernels ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPS_H

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"

namespace mlir::flashcore {

// Each lets one op of the dialect have the interface.
void attachAttentionKernels(MLIRContext *context);
void attachMergeKernels(MLIRContext *context);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPS_H
