//===- AttentionBlock.h - Blocks over query tiles ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernel of an attention and that of P V have in common: which query
// tile a block has, which of its rows a warp has, and the keys it walks.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONBLOCK_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONBLOCK_H

#include "AttentionSignature.h"
#include "Sequences.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

namespace mlir::flashcore {

/// The query rows of a warp: from `row` of the sequence on, `rows` of them.
struct WarpRows {
  Value headQ;
  OpFoldResult row, rows;
};

/// Builds the body of a kernel on query tiles, where the frame's builder is.
class AttentionBlock {
public:
  AttentionBlock(AttentionOp op, KernelFrame &frame,
                 const AttentionSignature &signature)
      : op(op), frame(frame), signature(signature),
        schedule(signature.getSchedule()), b(frame.getBuilder()) {}

  /// Makes what `prepare` makes, then the loop over the warps of the block,
  /// with `buildTile` in it, then the kernel's end.
  void build(function_ref<void()> prepare,
             function_ref<void(Value warp)> buildTile);

  // In `buildTile`:
  const Sequence &getSequence() const { return sequence; }
  WarpRows findRows(Value warp);
  /// Where the tile of the warp's rows stands.
  TilePlace getPlace(const WarpRows &rows);
  /// The rows of K or V that the block's sequence has.
  Value getKeys(StringRef tensor);
  /// Where partial results of the block's keys are on their first axis.
  OpFoldResult getPartialEntry() const { return partialEntry; }
  /// Parts of the keys.
  OpFoldResult getNumParts() {
    return build(signature.getKeyParts().getNumber());
  }

private:
  Value buildTileWalk(Value block);
  void findTile(Value number);
  SmallVector<Value> findTileOfTurn(Value number);
  bool hasNarrowNumbers() const;
  std::pair<Value, Value> divide(Value number, Value by);
  SmallVector<Value> delinearize(Value number, ArrayRef<OpFoldResult> basis);
  Value findHeadKV(Value head);
  void splitKeys(Value split);
  void shareKeys(Value split);
  Value getPageTable();
  Attribute getMapping(gpu::MappingId id);
  OpFoldResult getSize(Dim dim) const { return frame.getSize(dim); }
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  OpFoldResult build(const SizeFormula &formula) {
    return formula.build(b, [&](Dim dim) { return getSize(dim); });
  }
  OpFoldResult getNumQueryBlocks() {
    return build(signature.getNumQueryBlocks());
  }
  OpFoldResult getNumHeadGroups() {
    return build(signature.getNumHeadGroups());
  }
  bool isSplit() const { return signature.getKeyParts().isSplit(); }

  AttentionOp op;
  KernelFrame &frame;
  const AttentionSignature &signature;
  fcgpu::ScheduleAttr schedule;
  ImplicitLocOpBuilder &b;
  /// What the block works on: query heads from firstHead on, keys from keyBegin
  /// on.
  Sequence sequence;
  Value firstHead, headKV;
  OpFoldResult keyBegin;
  /// Of a split: one past its last key, and the entry of its partial results.
  OpFoldResult keyEnd, partialEntry;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONBLOCK_H
