//===- Preconditions.h - What a pass expects of a kernel --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes run by hand may come too early: each then says at an op what it
// expects there, and which pass makes it so.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_PRECONDITIONS_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_PRECONDITIONS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace mlir::fcgpu {

/// How far a kernel has come.
enum class Reached {
  Tiles,    ///< behind flashcore-online-softmax
  Rings,    ///< behind flashcore-promote-shared
  Slots,    ///< behind flashcore-hand-over-slots
  Barriers, ///< behind flashcore-insert-barriers
  Homes,    ///< behind flashcore-assign-layouts
};

/// Whether `kernel`, which is ours, has come that far; else an error at the
/// first op that has not.
LogicalResult checkReached(gpu::GPUFuncOp kernel, Reached reached);

} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_PRECONDITIONS_H
