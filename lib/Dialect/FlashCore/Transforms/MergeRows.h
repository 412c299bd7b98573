//===- MergeRows.h - Merging the parts of query rows ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The body of merges: those of attentions with split keys, whose parts are in
// the workspace, and those of flashcore.merge, whose parts are tensors.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEROWS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEROWS_H

#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// How the threads of a block, which has one query row, share out its parts.
struct MergeGroups {
  /// Of a row of `columns`; without `numParts` for any number of parts.
  MergeGroups(int64_t columns, std::optional<int64_t> numParts);

  int64_t getColumns() const;
  int64_t getPartsOfRound() const { return count * unroll; }
  /// A block a query row.
  KernelLaunch getLaunch() const;
  /// Bytes: a row of O and the numbers of each group.
  int64_t getSharedMemory() const;

  int64_t threads; ///< Threads of a group.
  int64_t count;   ///< Groups of a block.
  int64_t unroll;  ///< Parts of a group in one round.
};

/// What is merged.
struct MergeParts {
  Value output;        ///< (parts, batch, heads, seqlen_q, columns)
  Value lse;           ///< (parts, batch, heads, seqlen_q)
  Value rest;          ///< what rounding left of lse; may be null
  int64_t rowBytes;    ///< that rows of `output` are aligned to
  OpFoldResult number; ///< of parts
};

/// Makes the body of a kernel that writes o and, where the kernel takes them,
/// lse, with sink_logits, of sequences that cu_seqlens_q ends. If
/// `isInvariant`, parts that hold nothing for a row leave its bits as they are.
/// What rounding leaves of LSE goes to `lseRest`, which may be null.
void buildMerge(KernelFrame &frame, const MergeParts &parts,
                const MergeGroups &groups, bool isInvariant,
                Value lseRest = {});

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEROWS_H
