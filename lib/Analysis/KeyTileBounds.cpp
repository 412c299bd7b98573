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
  auto cut = [&](std::optional<uint64_t> window) -> std::optional<int64_t> {
    if (!window)
      return std::nullopt;
    return std::min(*window, widest);
  };
  // The window and the bottom-right diagonal count from the same position.
  if (causal == CausalAlignment::BottomRight)
    windowRight = 0;
  KeyMask mask;
  mask.isTopLeft = causal == CausalAlignment::TopLeft;
  mask.windowLeft = cut(windowLeft);
  mask.windowRight = cut(windowRight);
  return mask;
}

/// Moves the bound `query + n` of a region to the window that says the same,
/// where `n` is `own` more than the query's own key has.
static void takeWindow(SmallVector<AffineExpr> &bounds, int64_t own,
                       int64_t sign, unsigned numSymbols,
                       std::optional<int64_t> &window) {
  llvm::erase_if(bounds, [&](AffineExpr bound) {
    AffineExpr query = getAffineDimExpr(0, bound.getContext());
    auto distance = dyn_cast<AffineConstantExpr>(
        simplifyAffineExpr((bound - query - own) * sign, 1, numSymbols));
    if (!distance || distance.getValue() < 0)
      return false;
    int64_t keys = distance.getValue();
    window = window ? std::min(*window, keys) : keys;
    return true;
  });
}

bool KeyMask::hasDataOfQueries() const {
  return llvm::any_of(
      symbols, [](const BoundSymbol &symbol) { return symbol.isOfQuery; });
}

void KeyMask::dropDataOfQueries() {
  if (!hasDataOfQueries()) // then bounds may stand elsewhere
    return;
  auto isOfQueries = [&](AffineExpr bound) {
    for (auto [i, symbol] : llvm::enumerate(symbols))
      if (symbol.isOfQuery && bound.isFunctionOfSymbol(i))
        return true;
    return false;
  };
  for (RegionBounds &range : ranges)
    for (auto *bounds : {&range.first, &range.last}) {
      size_t numBounds = bounds->size();
      llvm::erase_if(*bounds, isOfQueries);
      range.isComplete &= bounds->size() == numBounds;
      hasOpaqueRegion |= !range.isComplete;
    }
  dropUnusedSymbols(ranges, symbols);
}

KeyMask KeyMask::get(ScoreOpInterface op) {
  KeyMask mask = get(op.getCausal(), op.getWindowLeft(), op.getWindowRight());
  Region *hide = op.findMaskRegion();
  if (!hide)
    return mask;
  // Lists say which tiles there are.
  if (op.hasBlockLists()) {
    mask.hasOpaqueRegion = true;
    return mask;
  }
  SmallVector<RegionBounds> ranges = getRegionRanges(*hide, mask.symbols);
  if (ranges.size() > 1 || mask.hasDataOfQueries()) {
    mask.ranges = std::move(ranges);
    mask.hasRegionBounds = true;
    mask.hasOpaqueRegion =
        llvm::any_of(mask.ranges, [](const RegionBounds &range) {
          return !range.isComplete;
        });
    return mask;
  }
  RegionBounds region = std::move(ranges.front());
  mask.first = std::move(region.first);
  mask.last = std::move(region.last);
  mask.hasRegionBounds = !mask.first.empty() || !mask.last.empty();
  mask.hasOpaqueRegion = !region.isComplete;
  auto seqlenQ = op.getKnownQueries(), seqlenK = op.getKnownKeys();
  if (seqlenQ && seqlenK) {
    unsigned numSymbols = mask.symbols.size();
    int64_t own = *seqlenK - *seqlenQ;
    takeWindow(mask.last, own, 1, numSymbols, mask.windowRight);
    takeWindow(mask.first, own, -1, numSymbols, mask.windowLeft);
  }
  AffineExpr query = getAffineDimExpr(0, op.getContext());
  if (llvm::is_contained(mask.last, query)) {
    llvm::erase(mask.last, query);
    mask.isTopLeft = true;
  }
  return mask;
}

KeyMask KeyMask::getMaskOf(const RegionBounds &range) const {
  KeyMask mask = *this;
  mask.ranges.clear();
  mask.first = range.first;
  mask.last = range.last;
  mask.hasOpaqueRegion = !range.isComplete;
  return mask;
}

SmallVector<AffineExpr> KeyMask::getLastKeys(AffineExpr query,
                                             AffineExpr seqlenQ,
                                             AffineExpr seqlenK) const {
  SmallVector<AffineExpr> keys{seqlenK - 1};
  if (isTopLeft)
    keys.push_back(query);
  if (windowRight)
    keys.push_back(query + seqlenK - seqlenQ + *windowRight);
  for (AffineExpr bound : last)
    keys.push_back(bound.replaceDims(query));
  return keys;
}

SmallVector<AffineExpr> KeyMask::getFirstKeys(AffineExpr query,
                                              AffineExpr seqlenQ,
                                              AffineExpr seqlenK) const {
  SmallVector<AffineExpr> keys;
  if (windowLeft)
    keys.push_back(query + seqlenK - seqlenQ - *windowLeft);
  for (AffineExpr bound : first)
    keys.push_back(bound.replaceDims(query));
  if (keys.empty())
    keys.push_back(getAffineConstantExpr(0, query.getContext()));
  return keys;
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
    return AffineMap::get(numDims + 2, visibleEnd.getNumSymbols(), results,
                          context);
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
  unsigned numSymbols = mask.symbols.size();
  SmallVector<AffineExpr> least, greatest;
  for (auto [i, symbol] : llvm::enumerate(mask.symbols)) {
    least.push_back(getAffineSymbolExpr(i, context));
    greatest.push_back(symbol.isOfQuery
                           ? getAffineSymbolExpr(numSymbols++, context)
                           : least.back());
  }
  auto makeMap = [&](ArrayRef<AffineExpr> keys, ArrayRef<AffineExpr> data,
                     int64_t shift) {
    SmallVector<AffineExpr> results;
    for (AffineExpr key : keys)
      results.push_back(key.replaceSymbols(data) + shift);
    return AffineMap::get(3, numSymbols, results, context);
  };
  auto endOf = [&](AffineExpr query, ArrayRef<AffineExpr> data) {
    return makeMap(mask.getLastKeys(query, seqlenQ, seqlenK), data, 1);
  };
  auto beginOf = [&](AffineExpr query, ArrayRef<AffineExpr> data) {
    return makeMap(mask.getFirstKeys(query, seqlenQ, seqlenK), data, 0);
  };
  // Later queries, and those of greater data, see later keys.
  return {beginOf(firstQuery, least), endOf(lastQuery, greatest),
          beginOf(lastQuery, greatest), endOf(firstQuery, least)};
}
