//===- AttentionKernels.h - The kernels of an attention ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What of kernels and their arguments is an attention's: its tensors, what its
// manifest says, and the results that one kernel leaves for the next.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// The signature of the kernels of one attention. With key_splits N > 1 there
/// are two: the first leaves N partial results a query row in the workspace,
/// the second merges them into the outputs.
class AttentionSignature : public KernelSignature {
public:
  AttentionSignature(AttentionOp op, fcgpu::ScheduleAttr schedule);

  /// Of the attention kernel.
  ArrayRef<KernelArgument> getArguments() const { return arguments; }
  /// Of the merge kernel; empty without one.
  ArrayRef<KernelArgument> getMergeArguments() const { return mergeArguments; }

  /// `fcgpu.kernel` of the attention kernel, whose grid is the product of
  /// ceil(seqlen_q / block_m), heads_q / head_group, batch and key_splits: of a
  /// persistent one at most max_blocks_per_sm blocks an SM are launched.
  DictionaryAttr toDictionary(AttentionOp op, fcgpu::ScheduleAttr schedule,
                              int64_t sharedMemoryBytes) const;
  /// `fcgpu.kernel` of the merge kernel: a block of `numThreads` a query row.
  DictionaryAttr toMergeDictionary(MLIRContext *context,
                                   int64_t numThreads) const;

private:
  void addTensorMaps(AttentionOp op, fcgpu::ScheduleAttr schedule);

  SmallVector<KernelArgument> arguments, mergeArguments;
};

/// The results of attentions over parts of the keys, in the workspace: O, then
/// LSE, in f32. Split s of batch entry b is entry s * batch + b.
struct PartialResults {
  Value output; ///< (key_splits * batch, heads_q, seqlen_q, head_dim_v)
  Value lse;    ///< (key_splits * batch, heads_q, seqlen_q)
};

/// Those of a kernel, which must take the workspace.
PartialResults getPartialResults(KernelFrame &frame, int64_t keySplits);

/// Makes the kernel that combines the partial results of `keySplits` parts of
/// the keys into the outputs, at the insertion point of `b`.
gpu::GPUFuncOp buildMergeKernel(ImplicitLocOpBuilder &b,
                                const AttentionSignature &signature,
                                StringRef name, int64_t keySplits);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONKERNELS_H
