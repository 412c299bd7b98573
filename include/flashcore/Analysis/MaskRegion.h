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
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::flashcore {

/// A visible key is at least each of `first` and at most each of `last`:
/// expressions in d0, the query, of which none falls from one query to the
/// next, and in symbols, which are data. None falls where a symbol of queries
/// rises.
struct RegionBounds {
  SmallVector<AffineExpr> first, last;
  /// Whether every such key is visible, so that the bounds are the mask.
  bool isComplete = true;
};

/// Ranges of keys of which a visible one is in at least one: in the complete
/// ones every key is visible. They follow from comparisons (arith.cmpi) of sums
/// of query, key and constants, their quotients by constants, and absolute
/// values, joined by and, or, not (arith.xori with true) and arith.select.
/// What more ranges than kMaxRegionRanges would say, and what is not
/// understood, is a range of all keys that is not complete. Coordinates are
/// taken to be so small that sums of 32 bits do not wrap.
///
/// A value of 32 bits that depends on the batch entry alone, as a length that
/// the region loads, or on batch entry and query, as the first token of a
/// query's document, is a symbol of the bounds: `symbols` gets it.
inline constexpr size_t kMaxRegionRanges = 3;
struct BoundSymbol {
  Value value; ///< of the region
  bool isOfQuery;
};
SmallVector<RegionBounds>
getRegionRanges(Region &mask, SmallVectorImpl<BoundSymbol> &symbols);

/// Takes away the symbols that none of the ranges has.
void dropUnusedSymbols(MutableArrayRef<RegionBounds> ranges,
                       SmallVectorImpl<BoundSymbol> &symbols);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_MASKREGION_H
