//===- DistributeRoles.h - Each warp its program ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEROLES_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEROLES_H

#include "DistributePatterns.h"
#include "WarpRoles.h"

namespace mlir::fcgpu {

/// Gives all that a kernel does from its first fcgpu.produce on to the sides of
/// a branch: one for the warps that multiply, with the loops over them, one for
/// those that only fill rings, with the programs. What is neither, both do.
/// Each side gets as many registers as it needs.
void separateRoles(gpu::GPUFuncOp kernel, const Launch &launch,
                   const WarpRoles &roles, const ThreadContext &context);

/// Flags as words of shared memory. `lowerFlags` runs before any thread looks
/// at one that `initializeFlags` has put down, with a barrier between them.
void initializeFlags(IndexBuilder &b, const ThreadContext &context);
void lowerFlags(gpu::GPUFuncOp kernel, const ThreadContext &context);

} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_DISTRIBUTEROLES_H
