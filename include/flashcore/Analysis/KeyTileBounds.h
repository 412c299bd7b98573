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

#include "flashcore/Analysis/MaskRegion.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/AffineMap.h"

#include <optional>

namespace mlir::flashcore {

/// What hides keys from a query, apart from the end of the sequence. Query i
/// sees key j iff
///   j < seqlen_k,
///   j <= i, when isTopLeft,
///   p - windowLeft <= j <= p + windowRight, with p = i + seqlen_k - seqlen_q,
///   j is at least each of `first` and at most each of `last`, and
///   what is left of a mask region shows it.
/// A causal mask that ends bottom right is a window: its windowRight is 0.
struct KeyMask {
  bool isTopLeft = false;
  std::optional<int64_t> windowLeft, windowRight;
  /// Bounds that a mask region gives, in d0, the query (MaskRegion.h), but for
  /// those that are a causal mask or a window.
  SmallVector<AffineExpr> first = {}, last = {};
  /// Where a mask region shows several ranges of keys, or one whose bounds are
  /// data of queries, those: what hides keys from all of them is above.
  SmallVector<RegionBounds> ranges = {};
  /// Data in these bounds: symbol s of an expression is number s of them.
  SmallVector<BoundSymbol> symbols = {};
  /// Whether a mask region gives any bounds, and whether there is more to it
  /// than those and the ranges.
  bool hasRegionBounds = false, hasOpaqueRegion = false;

  /// The mask of an op with these attributes. Windows wider than any sequence
  /// are cut, so that sums of coordinates do not overflow.
  static KeyMask get(std::optional<CausalAlignment> causal,
                     std::optional<uint64_t> windowLeft,
                     std::optional<uint64_t> windowRight);
  static KeyMask get(ScoreOpInterface op);

  /// Whether visible keys may lie apart, with tiles between them that are
  /// empty.
  bool hasHoles() const { return !ranges.empty(); }
  /// Whether bounds differ from query to query as data says.
  bool hasDataOfQueries() const;
  /// Takes those bounds away, which then hide nothing by proof.
  void dropDataOfQueries();
  /// The mask of one of several ranges alone.
  KeyMask getMaskOf(const RegionBounds &range) const;
  /// Whether bounds hide the first keys from some query.
  bool hidesFirstKeys() const { return windowLeft || !first.empty(); }
  /// The last keys that query `query` sees: the minimum of the results.
  SmallVector<AffineExpr> getLastKeys(AffineExpr query, AffineExpr seqlenQ,
                                      AffineExpr seqlenK) const;
  /// The first keys that query `query` sees: the maximum of the results.
  SmallVector<AffineExpr> getFirstKeys(AffineExpr query, AffineExpr seqlenQ,
                                       AffineExpr seqlenK) const;
};

/// Key rows [visibleBegin, visibleEnd) hold every key that some query of the
/// block sees; every query of the block sees all of [fullBegin, fullEnd). The
/// maps take dims (first query row of the block, seqlen_q, seqlen_k) and as
/// symbols those of the mask, where one of queries is the least of the block's,
/// and behind them the greatest of each one of queries. An end is the minimum
/// of its map's results, a begin the maximum of its map's results, and all of
/// them are 0 if that is negative.
struct KeyBounds {
  AffineMap visibleBegin, visibleEnd;
  AffineMap fullBegin, fullEnd;

  /// The same of the keys [key_begin, key_end) alone, counted from key_begin.
  /// The maps take the dims (key_begin, key_end) after the others.
  KeyBounds within() const;
};

/// Bounds for a block of `blockM` query rows. Key tile t is
///   empty    iff t * blockN >= visibleEnd or (t + 1) * blockN <= visibleBegin,
///   full     iff (t + 1) * blockN <= fullEnd and t * blockN >= fullBegin,
///   partial  otherwise.
/// Rows past seqlen_q count as rows: they are computed and never written.
KeyBounds getKeyBounds(MLIRContext *context, const KeyMask &mask,
                       int64_t blockM);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_KEYTILEBOUNDS_H
