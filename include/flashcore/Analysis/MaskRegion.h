//===- MaskRegion.h - What a mask region says of key ranges -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Comparisons of a mask region that bound the keys of a query, so that tiles
// outside are skipped and those inside have no mask: proofs, not guesses. What
// is not understood bounds nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_MASKREGION_H
#define FLASHCORE_ANALYSIS_MASKREGION_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Region.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::flashcore {

/// A visible key is at least each of `first` and at most each of `last`:
/// expressions in d0, the query, of which none falls from one query to the
/// next.
struct RegionBounds {
  SmallVector<AffineExpr> first, last;
  /// Whether every such key is visible, so that the bounds are the mask.
  bool isComplete = true;
};

/// The bounds that follow from a mask region: from comparisons (arith.cmpi) of
/// sums of query, key and constants, their quotients by constants, and absolute
/// values, joined by arith.andi. Coordinates are taken to be so small that
/// sums of 32 bits do not wrap.
RegionBounds getRegionBounds(Region &mask);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_MASKREGION_H
