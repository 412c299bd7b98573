//===- KeyTileBounds.h - Which key tiles a query block sees -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Closed-form bounds of empty, partial and full key tiles, as affine maps: the
// compiler emits them, the unit tests evaluate the same maps and compare with
// brute force.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_KEYTILEBOUNDS_H
#define FLASHCORE_ANALYSIS_KEYTILEBOUNDS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/AffineMap.h"

#include <optional>

namespace mlir::flashcore {

/// Key rows [0, visibleEnd) hold every key that some query of the block sees;
/// every query of the block sees all of [0, fullEnd). Both maps take dims
/// (first query row of the block, seqlen_q, seqlen_k); the bound is the minimum
/// of the results, and 0 if that is negative.
struct KeyBounds {
  AffineMap visibleEnd;
  AffineMap fullEnd;
};

/// Bounds for a block of `blockM` query rows.
///
/// Query i sees key j iff j < seqlen_k and, when causal, j <= i + shift, with
/// shift = seqlen_k - seqlen_q (bottom_right) or 0 (top_left). Key tile t is
///   empty    iff t * blockN >= visibleEnd,
///   full     iff (t + 1) * blockN <= fullEnd,
///   partial  otherwise.
/// Rows past seqlen_q count as rows: they are computed and never written.
KeyBounds getKeyBounds(MLIRContext *context,
                       std::optional<CausalAlignment> causal, int64_t blockM);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_KEYTILEBOUNDS_H
