//===- AttentionWorkspace.h - What kernels hand on --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Views of the workspace of an attention, where one of its kernels leaves
// results for the next. The kernel of a frame must take the workspace for any
// of them. AttentionSignature::getWorkspace has the same parts in bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H

#include "AttentionSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// What rounding LSE to f32 left, of probabilities that are an output: the
/// kernel that writes LSE leaves it for that of scores, in front of all else
/// that kernels have in the workspace as f32.
class LseRest {
public:
  /// Rows begin at multiples of so many floats, so that what is behind them is
  /// aligned.
  static constexpr int64_t kRowFloats = 4;

  LseRest(KernelFrame &frame, const AttentionSignature &signature)
      : frame(frame), isKept(signature.keepsLseRest()) {}

  /// (batch, heads_q, seqlen_q filled up) of f32; null where it is not kept.
  Value view();
  /// Where what is behind it begins.
  OpFoldResult getEnd();

private:
  SmallVector<OpFoldResult> getShape();

  KernelFrame &frame;
  bool isKept;
};

/// The results of attentions over parts of the keys, in the workspace: O, then
/// LSE, then what rounding that left, in f32.
struct PartialResults {
  static constexpr int64_t kFloatsOfLse = 2; ///< of a row

  Value output; ///< (axes, heads_q, seqlen_q, columns of tiles)
  Value lse;    ///< (axes, heads_q, seqlen_q)
  Value rest;   ///< of the same shape
};

/// Those of all parts of the keys, under `axes` in front of those of a row:
/// parts and batch, or one axis for both, where split s of batch entry b is
/// entry s * batch + b.
PartialResults viewPartialResults(KernelFrame &frame,
                                  const AttentionSignature &signature,
                                  ArrayRef<OpFoldResult> axes);

/// Masked scores and, behind them, P in the workspace: rows of all keys, filled
/// up to whole tiles. The kernel of `frame` must take it as f32 or, for tiles,
/// as query's type.
class UnfusedWorkspace {
public:
  UnfusedWorkspace(KernelFrame &frame, const AttentionSignature &signature);

  /// Columns of a row.
  OpFoldResult getColumns() const { return columns; }
  /// (batch, heads_q, seqlen_q, columns) of f32.
  Value viewScores();
  /// P, whose elements are half as large: (batch, heads_q, seqlen_q, columns /
  /// 2) of f32, two of them each.
  Value viewPairs();
  /// P of the `rows` query rows of a tile, from `row` on, as the tile takes it.
  Value viewTile(Value batch, Value head, OpFoldResult row, OpFoldResult rows);

private:
  OpFoldResult countRows();

  KernelFrame &frame;
  int64_t tileKeys;
  OpFoldResult begin, columns;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONWORKSPACE_H
