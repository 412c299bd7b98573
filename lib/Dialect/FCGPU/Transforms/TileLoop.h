//===- TileLoop.h - Loops over block tiles and key tiles --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where in a kernel of flashcore-tile the work on one block tile stands: in its
// loop over warps or, if it is persistent, in a loop over block tiles in that.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_TILELOOP_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_TILELOOP_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::fcgpu {

/// Whether the loop walks the block tiles of a persistent kernel.
bool isTileLoop(scf::ForOp loop);
/// That loop in a loop over warps, or null.
scf::ForOp getTileLoop(scf::ForallOp warps);
/// The block of ops that work on one block tile.
Block *getTileBody(scf::ForallOp warps);
/// The innermost loop over key tiles that `op` stands in, or null.
scf::ForOp getKeyLoop(Operation *op);
/// Whether `op` gives the same wherever a kernel computes it: a number, or what
/// it reads of a tensor that no kernel writes meanwhile.
bool isRepeatable(Operation *op);
/// Adds `op` and all ops of the body of `loop` that it is computed from.
LogicalResult addBodySlice(scf::ForOp loop, Operation *op,
                           SetVector<Operation *> &slice);
/// The constant c if `value` is `base` + c.
std::optional<int64_t> getDistance(Value value, Value base);
/// Registers what ValueBoundsConstraintSet must know of the ops that numbers
/// and sizes of tiles are computed with.
void registerValueBounds(DialectRegistry &registry);
} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_TILELOOP_H
