//===- AppendRows.h - Rows behind those of a cache --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_APPENDROWS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_APPENDROWS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"

namespace mlir::flashcore {

/// What the kernel of an append is made for. It takes k_new, v_new, seqused_k,
/// k and v, of pages page_table, and with rotary pairs rotary_cos and
/// rotary_sin.
struct AppendedRows {
  int64_t headDim, headDimV; ///< columns of k_new and of v_new
  bool isPaged = false;
  int64_t pairs = 0; ///< of columns, that a rotary embedding turns
  RotaryStyle style = RotaryStyle::Interleaved;
  /// Whether rows of q are turned, too, into q_turned or, where the kernel
  /// takes none, the copy of q in the workspace.
  bool turnsQueries = false;
  /// Whether all queries of an entry are turned by the position of the first.
  bool rotatesByOnePosition = false;
};

/// Makes the body of the kernel, with its return.
void buildAppend(KernelFrame &frame, const AppendedRows &rows);

KernelLaunch getAppendLaunch(const AppendedRows &rows);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_APPENDROWS_H
