//===- AttentionExpander.cpp - An attention tile as a loop over keys ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-2's loop on warp-tile vectors. Runs inside a kernel; knows
// nothing about memory levels or lanes.
//
//===----------------------------------------------------------------------===//

#include "AttentionExpander.h"
#include "TileExpanders.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Adds a tile to the state.
RowState AttentionExpander::accumulate(Exponentials tile, Value key) {
  RowState state = tile.state;
  Value kept = dropElements(tile.p, key);
  sumPolicy->accumulate(state, tile.p, kept, maxPolicy->getUnit(),
                        [&] { return readTile(TileRole::Value, key, blockN); });
  return state;
}

RowState AttentionExpander::buildIteration(Value query, Value iteration,
                                           RowState state) {
  Value key = getTileKey(iteration);
  Value scores = buildScores(query, key, maxPolicy->getProductStart(state));
  scores = changeScores(scores, key);
  skipUnlessVisible(iteration);
  auto applyIfPartial = [&](Value scores) {
    return maskWhenPartial(scores, iteration, key);
  };
  // Where the last tile alone may be partial, the first one, which takes the
  // branch of partial ones, has better things to do than to compare every key.
  bool isPartialAtEnd = !hidesInBlocks() && !getConstantIntValue(place.seqlenK);
  auto apply = [&](Value scores) {
    return hasBlocks()      ? maskListed(scores, iteration, key)
           : isPartialAtEnd ? applyIfPartial(scores)
                            : maskScores(scores, key);
  };
  auto isPartialTile = [&] { return isPartial(iteration, key); };
  TileMask mask{apply, applyIfPartial, isPartialTile};
  return accumulate(maxPolicy->exponentiate(state, scores, mask), key);
}

/// The state before the first tile.
RowState AttentionExpander::getEmptyState() {
  return {sumPolicy->getInitialOutput(), maxPolicy->getInitialMax(),
          sumPolicy->getInitialSum()};
}

/// All tiles in a loop.
RowState AttentionExpander::buildOnline(Value query) {
  Value c0 = asValue(b.getIndexAttr(0)), c1 = asValue(b.getIndexAttr(1));
  SmallVector<Value> init = getEmptyState().getValues();
  auto loop = scf::ForOp::create(b, c0, asValue(numTiles), c1, init);
  if (schedule.getOverlap() != fcgpu::Overlap::None)
    loop->setAttr(
        fcgpu::kOverlapAttrName,
        fcgpu::OverlapAttr::get(b.getContext(), schedule.getOverlap()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  RowState next = buildIteration(query, loop.getInductionVar(),
                                 RowState::get(loop.getRegionIterArgs()));
  scf::YieldOp::create(b, next.getValues());
  b.setInsertionPointAfter(loop);
  return RowState::get(loop.getResults());
}

/// All scores first, then one maximum and all exponentials. Tiles that are not
/// there start at the end of the sequence: they read as zeros and are masked.
/// The row maximum is exact (checkFields), with nothing to rescale.
RowState AttentionExpander::buildOnePass(Value query) {
  int64_t count = getNumTilesOfOnePass();
  Value end = place.seqlenK;
  SmallVector<Value> keys, scores;
  for (int64_t i = 0; i < count; ++i) {
    Value key = getTileKey(b.getIndexAttr(i));
    if (mayLackTiles()) {
      Value exists =
          arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                asValue(b.getIndexAttr(i)), asValue(numTiles));
      key = arith::SelectOp::create(b, exists, key, end);
    }
    keys.push_back(key);
  }
  for (Value key : keys)
    scores.push_back(
        buildScores(query, key, b.constant(0.0f, {warpM, blockN})));
  RowState state = getEmptyState();
  Value tileMax;
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = changeScores(scores[i], keys[i]);
    scores[i] = maskUnlessFull(scores[i], i, keys[i]);
    tileMax =
        tileMax ? arith::MaxNumFOp::create(b, tileMax, scores[i]) : scores[i];
  }
  state.rowMax = b.reduceMax(tileMax, state.rowMax);
  // The difference first, for any maximum: a branch would hold up what is short
  // of other work to do.
  Value safeMax = b.broadcastRows(getSafeMax(b, state.rowMax), blockN);
  for (auto [key, tile] : llvm::zip_equal(keys, scores)) {
    Value p = exponentiateDifference(b, tile, safeMax, b.getExponentScale());
    state = accumulate({state, p}, key);
  }
  return state;
}

/// Of a part of the keys without tiles for these queries, where the overlap
/// walks one all the same, the state before it.
RowState AttentionExpander::dropUnlessWalked(RowState state) {
  return RowState::get(b.branch(
      hasTiles, [&] { return state.getValues(); },
      [&] { return getEmptyState().getValues(); }));
}

void AttentionExpander::expand() {
  computeTileCounts();
  buildStream();
  Value query = readTile(TileRole::Query, asValue(b.getIndexAttr(0)), warpM);
  RowState last = schedule.getSoftmax() == fcgpu::Softmax::OnePass
                      ? buildOnePass(query)
                      : buildOnline(query);
  if (hasTiles)
    last = dropUnlessWalked(last);
  if (flag)
    fcgpu::RaiseOp::create(b, flag, maxPolicy->isLost(last));
  if (schedule.getKeyWarps() > 1)
    writeResult(mergeParts(last));
  else
    writeResult({sumPolicy->getOutput(last), maxPolicy->readMax(last),
                 maxPolicy->readSum(last), b.getScoreScale()});
  op.erase();
}

void mlir::flashcore::expandAttention(AttentionTileOp tile, Value flag) {
  AttentionExpander(tile, flag).expand();
}
