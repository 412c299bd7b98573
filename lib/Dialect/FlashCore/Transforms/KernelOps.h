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
// The same of a kernel of an attention, in the file of its kernel.
void attachAttentionKernel(MLIRContext *context);
void attachScoresKernel(MLIRContext *context);
void attachSoftmaxKernel(MLIRContext *context);
void attachValuesKernel(MLIRContext *context);

/// The chip that flashcore-configure has written onto an op without a schedule.
StringRef getChip(Operation *op);
/// Reports that it has not, or that there is no such chip.
LogicalResult checkHasChip(Operation *op);

/// "merge_f16_d128", of what an op computes, its elements and its columns.
std::string getKernelName(StringRef what, ShapedType elements, int64_t columns);

/// Lets a kernel write to the tensors that it updates.
void markUpdated(MutableArrayRef<KernelArgument> arguments,
                 const KernelSignature &signature);

/// The program of an op without a schedule that has one kernel, on all of its
/// tensors and sizes.
KernelProgram getSingleKernelProgram(
    Operation *op, std::string name, std::shared_ptr<KernelSignature> signature,
    const KernelLaunch &launch, std::function<void(KernelFrame &)> buildBody);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPS_H
