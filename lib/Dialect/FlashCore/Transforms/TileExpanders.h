//===- TileExpanders.h - Tiles as vector ops --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDERS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDERS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

namespace mlir::flashcore {

// Each writes a tile, which it erases, as vector ops on warp tiles.

/// As a loop over key tiles, or one pass over all. `flag` is raised where rows
/// are lost; null if none can be.
void expandAttention(AttentionTileOp tile, Value flag = {});
/// As one product.
void expandScores(ScoresTileOp tile);
/// As a loop with the second product alone.
void expandValues(ValuesTileOp tile);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_TILEEXPANDERS_H
