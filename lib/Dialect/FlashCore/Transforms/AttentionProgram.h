//===- AttentionProgram.h - The kernels of an attention ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONPROGRAM_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONPROGRAM_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

namespace mlir::flashcore {

/// Reports an attention without a schedule, or with one that cannot work.
LogicalResult checkSchedules(AttentionOp op);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONPROGRAM_H
