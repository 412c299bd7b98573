//===- AttentionKernels.h - The kernels of an attention ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that an attention may be made of, each in a file of its own.
// They keep a reference to their signature, which outlives them in the program.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H

#include "AttentionSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"

namespace mlir::flashcore {

/// Writes O and LSE, of split keys those of each part.
Kernel getAttentionKernel(AttentionOp op, const AttentionSignature &signature);

/// Makes the outputs of the partial results of all parts of the keys.
Kernel getMergeKernel(const AttentionSignature &signature);

/// Writes the new rows of key and value and, with rotary, the turned rows of
/// query.
Kernel getAppendKernel(AttentionOp op, const AttentionSignature &signature);

/// Writes the scores of `op` at their stage. It reads the log-sum-exp that the
/// kernels before it wrote.
Kernel getScoresKernel(AttentionOp op, const AttentionSignature &signature);

// With softmax unfused, in this order:
/// Leaves masked scores in the workspace.
Kernel getUnfusedScoresKernel(AttentionOp op,
                              const AttentionSignature &signature);
/// Makes P of them, and LSE.
Kernel getSoftmaxKernel(AttentionOp op, const AttentionSignature &signature);
/// Writes O = P V.
Kernel getValuesKernel(AttentionOp op, const AttentionSignature &signature);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
