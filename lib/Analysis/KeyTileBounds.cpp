//===- KeyTileBounds.cpp - Which key tiles a query block sees -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See the header for the formulas.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/KeyTileBounds.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::flashcore;

KeyMask KeyMask::get(std::optional<CausalAlignment> causal,
                     std::optional<uint64_t> windowLeft,
                     std::optional<uint64_t> windowRight) {
  constexpr uint64_t widest = uint64_t(1) << 40;
  auto cut = [](std::optional<uint64_t> window) -> std::optional<int64_t> {
    if (!window)
      return std::nullopt;
    return std::min(*window, widest);
  };
  // The window and the bottom-right diagonal count from the same position.
  if (causal == CausalAlignment::BottomRight)
    windowRight = 0;
  return {causal == CausalAlignment::TopLeft, cut(windowLeft),
          cut(windowRight)};
}

SmallVector<AffineExpr> KeyMask::getLastKeys(AffineExpr query,
                                             AffineExpr seqlenQ,
                                             AffineExpr seqlenK) const {
  SmallVector<AffineExpr> keys{seqlenK - 1};
  if (isTopLeft)
    keys.push_back(query);
  if (windowRight)
    keys.push_back(query + seqlenK - seqlenQ + *windowRight);
  return keys;
}

SmallVector<AffineExpr> KeyMask::getFirstKeys(AffineExpr query,
                                              AffineExpr seqlenQ,
                                              AffineExpr seqlenK) const {
  if (windowLeft)
    return {query + seqlenK - seqlenQ - *windowLeft};
  return {getAffineConstantExpr(0, query.getContext())};
}

KeyBounds KeyBounds::within() const {
  MLIRContext *context = visibleEnd.getContext();
  unsigned numDims = visibleEnd.getNumDims();
  AffineExpr keyBegin = getAffineDimExpr(numDims, context);
  AffineExpr keyEnd = getAffineDimExpr(numDims + 1, context);
  auto shift = [&](AffineMap map, bool isEnd) {
    SmallVector<AffineExpr> results;
    for (AffineExpr result : map.getResults())
      results.push_back(result - keyBegin);
    if (isEnd)
      results.push_back(keyEnd - keyBegin);
    return AffineMap::get(numDims + 2, 0, results, context);
  };
  return {shift(visibleBegin, /*isEnd=*/false),
          shift(visibleEnd, /*isEnd=*/true), shift(fullBegin, /*isEnd=*/false),
          shift(fullEnd, /*isEnd=*/true)};
}

KeyBounds mlir::flashcore::getKeyBounds(MLIRContext *context,
                                        const KeyMask &mask, int64_t blockM) {
  AffineExpr firstQuery, seqlenQ, seqlenK;
  bindDims(context, firstQuery, seqlenQ, seqlenK);
  AffineExpr lastQuery = firstQuery + (blockM - 1);
  auto makeMap = [&](ArrayRef<AffineExpr> results) {
    return AffineMap::get(3, 0, results, context);
  };
  auto endOf = [&](AffineExpr query) {
    SmallVector<AffineExpr> ends;
    for (AffineExpr last : mask.getLastKeys(query, seqlenQ, seqlenK))
      ends.push_back(last + 1);
    return makeMap(ends);
  };
  auto beginOf = [&](AffineExpr query) {
    return makeMap(mask.getFirstKeys(query, seqlenQ, seqlenK));
  };
  // Later queries see later keys.
  return {beginOf(firstQuery), endOf(lastQuery), beginOf(lastQuery),
          endOf(firstQuery)};
}
