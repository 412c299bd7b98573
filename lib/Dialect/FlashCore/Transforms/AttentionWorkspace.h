//===- AttentionWorkspace.h - What kernels hand on --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Views of the workspace of an attention, where one of its kernels leaves
// results for the next. What lies in it, and where, is AttentionSignature's.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H

#include "AttentionSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"

namespace mlir::flashcore {

/// The results of attentions over parts of the keys, in f32.
struct PartialResults {
  Value output; ///< (parts, batch, heads_q, seqlen_q, columns of tiles)
  Value lse;    ///< (parts, batch, heads_q, seqlen_q)
  Value rest;   ///< of the same shape
};

/// The workspace as a kernel sees it, which must take it as f32 or, for a tile
/// of P, as elements of query's type.
class AttentionWorkspace {
public:
  AttentionWorkspace(KernelFrame &frame, const AttentionSignature &signature)
      : frame(frame), signature(signature) {}

  /// What rounding LSE to f32 left, (batch, heads_q, seqlen_q); null where the
  /// program does not keep it.
  Value viewLseRest();
  /// Partial results of all parts.
  PartialResults viewPartialResults();
  /// The same with parts and batch as one axis: part p of batch entry b is
  /// entry p * batch + b.
  PartialResults viewPartialEntries();
  /// Masked scores, (batch, heads_q, seqlen_q, columns).
  Value viewScores() { return view(WorkspaceRole::Scores); }
  /// Columns of a row of scores or P.
  OpFoldResult getColumns();
  /// P, two elements as an f32: (batch, heads_q, seqlen_q, columns / 2).
  Value viewPairs();
  /// P of the `rows` query rows of a tile, from `row` on, as the tile takes it:
  /// (tiles of keys, 1, rows, keys of a tile).
  Value viewTile(Value batch, Value head, OpFoldResult row, OpFoldResult rows);

private:
  using Shape = SmallVector<OpFoldResult, 5>;

  const WorkspacePart *find(WorkspaceRole role) const;
  Shape getShape(const WorkspacePart &part) const;
  OpFoldResult countFloats(const WorkspacePart &part);
  OpFoldResult getBegin(WorkspaceRole role);
  Value view(WorkspaceRole role);
  PartialResults viewPartials();

  KernelFrame &frame;
  const AttentionSignature &signature;
  bool areEntriesJoined = false;
};

/// What a kernel does with the workspace as f32.
KernelSignature::WorkspaceUse getWorkspaceUse(Operation *kernel);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H
