//===- Sequences.h - Which rows of Q and K a block works on -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Batch entries may be shorter than their tensors (seqused_k), and sequences
// may lie back to back (cu_seqlens). The kernel reads the lengths: grids follow
// from the sizes of tensors, so that the host never needs to know them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SEQUENCES_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SEQUENCES_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// A sequence, and a block of its queries.
struct Sequence {
  /// What regions call the batch.
  Value number;
  /// Where the tensors have it: on the batch axis, and its first rows.
  Value batch;
  OpFoldResult firstQuery, firstKey;
  OpFoldResult seqlenQ, seqlenK;
  /// Queries queryBlock * block_m and on.
  Value queryBlock;
};

/// What blocks `queryBlock` of the batch entry `batch` stands for in a kernel
/// on `op`. With cu_seqlens, block floor(cu_q[s] / blockM) + s is the first of
/// sequence s: each has as many blocks as it needs, and one more at most, which
/// gets no keys.
Sequence findSequence(KernelFrame &frame, AttentionOp op, int64_t blockM,
                      Value batch, Value queryBlock);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SEQUENCES_H
