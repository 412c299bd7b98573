//===- TileOperands.h - What kernels hand to their tiles --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the kernels of an attention have in common when they make a tile of it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEOPERANDS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEOPERANDS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// Some rows of one batch entry and head of a tensor.
Value sliceRows(ImplicitLocOpBuilder &b, Value tensor, OpFoldResult entry,
                Value head, OpFoldResult row, OpFoldResult rows);

/// How many of the `warpM` rows from `row` on a sequence of `seqlen` rows has,
/// whose blocks are of `blockM`: fewer, or none, at its end.
OpFoldResult countRows(ImplicitLocOpBuilder &b, int64_t warpM, int64_t blockM,
                       OpFoldResult row, OpFoldResult seqlen);

/// Gives a tile the bounds of the mask of the op.
template <typename TileOp> void setBounds(AttentionOp op, TileOp tile) {
  tile.setCausalAttr(op.getCausalAttr());
  tile.setWindowLeftAttr(op.getWindowLeftAttr());
  tile.setWindowRightAttr(op.getWindowRightAttr());
}

/// What the regions of `op` read from outside, as a kernel has it.
SmallVector<Value> getCaptured(KernelFrame &frame, AttentionOp op);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEOPERANDS_H
