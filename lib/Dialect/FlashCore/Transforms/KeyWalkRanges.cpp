//===- KeyWalkRanges.cpp - Walks over several ranges of keys ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mask region may show ranges of keys that lie apart. The loop still counts
// iterations: which tile one of them walks is a closed form of its number, so
// that both roles, copies ahead and splits of the keys have it as well.
//
//===----------------------------------------------------------------------===//

#include "KeyWalk.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Tiles begin to end - 1.
struct TileRange {
  Value begin, end;
};
} // namespace

/// Exchanges the ranges if the second one ends later.
static void sortByEnd(ImplicitLocOpBuilder &b, TileRange &first,
                      TileRange &second) {
  Value isLater = b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sgt,
                                                second.end, first.end);
  auto choose = [&](Value yes, Value no) {
    return b.createOrFold<arith::SelectOp>(isLater, yes, no);
  };
  TileRange later{choose(second.begin, first.begin),
                  choose(second.end, first.end)};
  second = {choose(first.begin, second.begin), choose(first.end, second.end)};
  first = later;
}

/// The walk of a mask with holes: `numTiles`, `endTile`, `holes` and
/// `fullRanges`. The bounds of keys take `operands`, those of `numQueries`
/// queries.
void KeyWalk::computeRanges(ArrayRef<OpFoldResult> operands,
                            int64_t numQueries) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult firstKey = getAsOpFoldResult(place.firstKey);
  auto getTile = [&](AffineMap map, bool isEnd, bool roundsUp) {
    OpFoldResult key = isEnd ? getEnd(map, operands) : getBegin(map, operands);
    return apply(roundsUp ? d0.ceilDiv(blockN) : d0.floorDiv(blockN), {key});
  };
  SmallVector<TileRange> ranges;
  for (const RegionBounds &range : mask.ranges) {
    KeyBounds bounds = getBounds(mask.getMaskOf(range), numQueries);
    Value begin = asValue(getTile(bounds.visibleBegin, false, false));
    Value end = asValue(getTile(bounds.visibleEnd, true, true));
    // A range without keys stands in front of all others.
    Value hasTiles =
        b.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::slt, begin, end);
    Value zero = asValue(b.getIndexAttr(0));
    ranges.push_back({b.createOrFold<arith::SelectOp>(hasTiles, begin, zero),
                      b.createOrFold<arith::SelectOp>(hasTiles, end, zero)});
    auto getKey = [&](AffineMap map, bool isEnd) {
      return asValue(
          apply(d0 * blockN + d1,
                {getTile(map, isEnd, /*roundsUp=*/!isEnd), firstKey}));
    };
    if (range.isComplete)
      fullRanges.push_back({getKey(bounds.fullBegin, /*isEnd=*/false),
                            getKey(bounds.fullEnd, /*isEnd=*/true)});
  }
  for (size_t i = 0; i < ranges.size(); ++i)
    for (size_t j = i + 1; j < ranges.size(); ++j)
      sortByEnd(b, ranges[i], ranges[j]);
  // Of each range, the tiles in front of those that ranges before it have:
  // these end later, so that nothing between is left out.
  endTile = getWalkedTiles(getAsOpFoldResult(ranges.front().end));
  Value covered = ranges.front().begin;
  Value count = b.createOrFold<arith::SubIOp>(ranges.front().end, covered);
  for (const TileRange &range : llvm::drop_begin(ranges)) {
    Value end = b.createOrFold<arith::MinSIOp>(range.end, covered);
    holes.push_back({count, b.createOrFold<arith::SubIOp>(covered, end)});
    covered = b.createOrFold<arith::MinSIOp>(range.begin, end);
    count = b.createOrFold<arith::AddIOp>(
        count, b.createOrFold<arith::SubIOp>(end, covered));
  }
  numTiles = getCountOfPart(getWalkedTiles(getAsOpFoldResult(count)));
}

/// How many tiles the walk leaves out before its tile `number`.
Value KeyWalk::getTilesPassedOver(Value number) {
  Value zero = asValue(b.getIndexAttr(0)), sum = zero;
  for (const Hole &hole : holes) {
    Value isBehind =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, number, hole.begin);
    Value tiles = arith::SelectOp::create(b, isBehind, hole.tiles, zero);
    sum = b.createOrFold<arith::AddIOp>(sum, tiles);
  }
  return sum;
}

/// Whether the tile from `key` on may have hidden keys.
Value KeyWalk::isOutsideOfFullRanges(Value key) {
  Value outside;
  for (const FullRange &range : fullRanges) {
    Value isBefore =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, key, range.begin);
    Value isBehind =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, key, range.end);
    Value isOutside = arith::OrIOp::create(b, isBefore, isBehind);
    outside = outside ? arith::AndIOp::create(b, outside, isOutside).getResult()
                      : isOutside;
  }
  return outside
             ? outside
             : arith::ConstantOp::create(b, b.getBoolAttr(true)).getResult();
}
