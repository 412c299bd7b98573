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
void attachAppendKernels(MLIRContext *context);
void attachAttentionKernels(MLIRContext *context);
void attachDeltaKernels(MLIRContext *context);
void attachMergeKernels(MLIRContext *context);

/// The chip that flashcore-configure has written onto an op without a schedule.
StringRef getChip(Operation *op);
/// Reports that it has not, or that there is no such chip.
LogicalResult checkHasChip(Operation *op);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPS_H
