//===- ScoreBuilder.cpp - The scores of a tile, changed and masked ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes and masks, and which tiles need one. Rows and keys are those of
// the whole sequence.
//
//===----------------------------------------------------------------------===//

#include "ScoreBuilder.h"
#include "flashcore/Schedule/HiddenTiles.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Q K^T of the tile from `key` on, added to `start`.
Value ScoreBuilder::buildScores(Value query, Value key, Value start) {
  Value k = readTile(TileRole::Key, key, blockN);
  return b.contract(query, k, start, /*transposedRhs=*/true);
}

/// The coordinate, or the last one of the sequence; the first where it is
/// empty. Coordinates are not negative: an unsigned minimum says so of itself.
Value ScoreBuilder::getInside(Value index, Value extent) {
  AffineMap last = AffineMap::get(
      1, 0, {b.getAffineDimExpr(0) - 1, b.getAffineConstantExpr(0)},
      op.getContext());
  return arith::MinUIOp::create(
      b, index,
      asValue(affine::makeComposedFoldedAffineMax(b, b.getLoc(), last,
                                                  {OpFoldResult(extent)})));
}

/// What a region reads must be there: rows and keys past the end of the
/// sequences take the place of the last one, and nobody looks at the result.
std::pair<Value, Value> ScoreBuilder::getInside(Region &region, Value query,
                                                Value key) {
  if (cutsQueries && readsByQuery(region))
    query = getInside(query, place.seqlenQ);
  if (cutsKeys && readsByKey(region))
    key = getInside(key, place.seqlenK);
  return {query, key};
}

Value ScoreBuilder::isVisibleToRegion(Value score, Value query, Value key) {
  auto [row, column] = getInside(hide, query, key);
  return inlineRegion(b, hide, {score, place.batch, place.head, row, column});
}

/// The score as the regions change and, where all tiles are partial, hide it:
/// the rest is for maskScores.
Value ScoreBuilder::applyRegions(Value score, Value query, Value key) {
  if (!change.empty()) {
    auto [row, column] = getInside(change, query, key);
    score =
        inlineRegion(b, change, {score, place.batch, place.head, row, column});
  }
  if (!hidesEverywhere())
    return score;
  Value visible = isVisibleToRegion(score, query, key);
  Value hidden = arith::ConstantOp::create(b, b.getF32FloatAttr(kMinusInf));
  return arith::SelectOp::create(b, visible, score, hidden);
}

/// The scores as the regions leave them, but for the factor that they end with.
Value ScoreBuilder::changeScores(Value scores, Value key) {
  if (change.empty() && !hidesEverywhere())
    return scores;
  return mapReads(scores, key, [&](Value score, Value query, Value keyIndex) {
    return applyRegions(score, query, keyIndex);
  });
}

/// Whether some key of a visited tile may lie past seqlen_k and still be
/// visible by all other rules.
bool ScoreBuilder::needsTailMask() {
  if (mayLackTiles())
    return true;
  // j <= i + seqlen_k - seqlen_q < seqlen_k for every real row.
  if (mask.windowRight == 0)
    return false;
  // j <= i < seqlen_q <= seqlen_k.
  auto seqlenQ = getConstantIntValue(place.seqlenQ);
  auto seqlenK = getConstantIntValue(place.seqlenK);
  if (mask.isTopLeft && seqlenQ && seqlenK && *seqlenQ <= *seqlenK)
    return false;
  // The tiles of lists are anywhere.
  return hasBlocks() || !endsWithTile(place.seqlenK);
}

Value ScoreBuilder::maskScores(Value scores, Value key) {
  return mapReads(scores, key, [&](Value score, Value query, Value keyIndex) {
    AffineExpr d0, d1, d2, d3;
    bindDims(op.getContext(), d0, d1, d2, d3);
    SmallVector<OpFoldResult> operands{query, place.seqlenQ, place.seqlenK};
    auto compute = [&](auto make, ArrayRef<AffineExpr> keys) {
      auto map = AffineMap::get(operands.size(), symbols.size(), keys,
                                op.getContext());
      SmallVector<OpFoldResult> all = operands;
      llvm::append_range(all, symbols);
      return asValue(make(b, b.getLoc(), map, all));
    };
    // One comparison an element for each side that is hidden.
    SmallVector<AffineExpr> last = mask.getLastKeys(d0, d1, d2);
    if (!cutsKeys || !needsTailMask())
      llvm::erase(last, d2 - 1);
    if (!coversAllKeys() && !endsWithTile(place.keyEnd)) {
      operands.push_back(place.keyEnd);
      last.push_back(d3 - 1);
    }
    Value visible;
    if (!last.empty())
      visible = arith::CmpIOp::create(
          b, arith::CmpIPredicate::sle, keyIndex,
          compute(affine::makeComposedFoldedAffineMin, last));
    if (mask.hidesFirstKeys()) {
      Value first = compute(affine::makeComposedFoldedAffineMax,
                            mask.getFirstKeys(d0, d1, d2));
      Value isLate =
          arith::CmpIOp::create(b, arith::CmpIPredicate::sge, keyIndex, first);
      visible = visible ? arith::AndIOp::create(b, visible, isLate).getResult()
                        : isLate;
    }
    if (mask.hasHoles() || (hasBlocks() && !hide.empty())) {
      Value isShown = isVisibleToRegion(score, query, keyIndex);
      visible = visible ? arith::AndIOp::create(b, visible, isShown).getResult()
                        : isShown;
    }
    if (!visible)
      return score;
    Value hidden = arith::ConstantOp::create(b, b.getF32FloatAttr(kMinusInf));
    return arith::SelectOp::create(b, visible, score, hidden).getResult();
  });
}

/// `first()` if the condition holds, else `second()`.
Value ScoreBuilder::branch(Value condition, function_ref<Value()> first,
                           function_ref<Value()> second) {
  return b.branch(
      condition, [&] { return SmallVector<Value>{first()}; },
      [&] { return SmallVector<Value>{second()}; })[0];
}

Value ScoreBuilder::maskIf(Value condition, Value scores, Value key) {
  return branch(
      condition, [&] { return maskScores(scores, key); },
      [&] { return scores; });
}

/// A partial tile that some warp of the block sees may hide all its keys from
/// another, which then skips it, if that is decided.
void ScoreBuilder::skipUnlessVisible(Value iteration) {
  AttentionProblem problem = AttentionProblem::getOfTile(op);
  if (!skipsHiddenTiles(problem, schedule.getChoice()) || mask.hasHoles() ||
      hasBlocks())
    return;
  SmallVector<OpFoldResult> operands{getAsOpFoldResult(place.firstQuery),
                                     getAsOpFoldResult(place.seqlenQ),
                                     getAsOpFoldResult(place.seqlenK)};
  llvm::append_range(operands, symbols);
  KeyBounds bounds = getKeyBounds(op.getContext(), mask, warpM);
  AffineExpr end, bound, firstKey;
  bindDims(op.getContext(), end, bound, firstKey);
  auto getIteration = [&](AffineExpr tile, OpFoldResult key) {
    OpFoldResult first = getAsOpFoldResult(place.firstKey);
    return asValue(apply(end - tile, {endTile, key, first}));
  };
  Value firstSeen, endSeen;
  {
    // The loop can be split at what is known in front of it.
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(
        cast<BlockArgument>(iteration).getOwner()->getParentOp());
    firstSeen = getIteration((bound - firstKey).ceilDiv(blockN),
                             affine::makeComposedFoldedAffineMin(
                                 b, b.getLoc(), bounds.visibleEnd, operands));
    // Rows behind the last query see nothing.
    if (schedule.hasProducer() &&
        mayLackRows(problem.seqlenQ, schedule.getChoice())) {
      Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                           place.firstQuery, place.seqlenQ);
      firstSeen =
          arith::SelectOp::create(b, exists, firstSeen, asValue(numTiles));
    }
    if (mask.hidesFirstKeys())
      endSeen = getIteration((bound - firstKey).floorDiv(blockN),
                             affine::makeComposedFoldedAffineMax(
                                 b, b.getLoc(), bounds.visibleBegin, operands));
  }
  fcgpu::SkipUnlessOp::create(
      b, arith::CmpIOp::create(b, arith::CmpIPredicate::sge, iteration,
                               firstSeen));
  if (endSeen)
    fcgpu::SkipUnlessOp::create(
        b, arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iteration,
                                 endSeen));
}

Value ScoreBuilder::maskWhenPartial(Value scores, Value iteration, Value key) {
  if (mask.hasHoles())
    return maskIf(isOutsideOfFullRanges(key), scores, key);
  auto isBefore = [&](OpFoldResult bound) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iteration,
                                 asValue(bound));
  };
  if (hasBlocks()) {
    auto unmasked = [&] {
      return branch(
          isPastLastKey(key), [&] { return maskTail(scores, key); },
          [&] { return scores; });
    };
    if (!hidesInBlocks())
      return unmasked();
    return branch(
        isBefore(headEnd), [&] { return maskScores(scores, key); }, unmasked);
  }
  auto masked = [&] { return maskScores(scores, key); };
  auto head = [&] {
    if (getConstantIntValue(headEnd) == 0)
      return scores;
    return maskIf(isBefore(headEnd), scores, key);
  };
  return mask.hidesFirstKeys() ? branch(isBefore(tailBegin), head, masked)
                               : head();
}

/// Masks the tile of iteration `i` where it is partial or not there at all.
Value ScoreBuilder::maskUnlessFull(Value scores, int64_t i, Value key) {
  if (mask.hasHoles())
    return maskIf(isOutsideOfFullRanges(key), scores, key);
  Value isMasked;
  auto add = [&](arith::CmpIPredicate predicate, OpFoldResult bound) {
    Value holds = arith::CmpIOp::create(
        b, predicate, asValue(b.getIndexAttr(i)), asValue(bound));
    isMasked =
        isMasked ? arith::OrIOp::create(b, isMasked, holds).getResult() : holds;
  };
  if (getConstantIntValue(headEnd) != 0)
    add(arith::CmpIPredicate::slt, headEnd);
  if (mayLackTiles())
    add(arith::CmpIPredicate::sge, numTiles);
  if (mask.hidesFirstKeys())
    add(arith::CmpIPredicate::sge, tailBegin);
  return isMasked ? maskIf(isMasked, scores, key) : scores;
}

/// Hides keys that do not exist, and no others.
Value ScoreBuilder::maskTail(Value scores, Value key) {
  return mapScores(scores, key, [&](Value score, Value, Value keyIndex) {
    Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, keyIndex,
                                         place.seqlenK);
    Value hidden = arith::ConstantOp::create(b, b.getF32FloatAttr(kMinusInf));
    return arith::SelectOp::create(b, exists, score, hidden).getResult();
  });
}

/// What is hidden in the tile of an iteration, of whichever list.
Value ScoreBuilder::maskListed(Value scores, Value iteration, Value key) {
  auto unmasked = [&] { return maskTail(scores, key); };
  if (!hidesInBlocks())
    return unmasked();
  Value isMasked = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                         iteration, asValue(headEnd));
  return branch(isMasked, [&] { return maskScores(scores, key); }, unmasked);
}
