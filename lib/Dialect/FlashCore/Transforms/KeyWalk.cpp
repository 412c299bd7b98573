//===- KeyWalk.cpp - Which key tiles a tile of queries walks ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tiles that some query of a block sees, counted from the last one down,
// and which of them are partial. What of a mask is known comes from
// Analysis/KeyTileBounds.
//
//===----------------------------------------------------------------------===//

#include "KeyWalk.h"
#include "ScoreRegion.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "llvm/Support/DebugLog.h"

#include <algorithm>

#define DEBUG_TYPE "flashcore-online-softmax"

using namespace mlir;
using namespace mlir::flashcore;

bool KeyWalk::coversAllKeys() {
  return getConstantIntValue(place.firstKey) == 0 &&
         getAsOpFoldResult(place.keyEnd) == getAsOpFoldResult(place.seqlenK);
}

/// Whether there is certainly a whole number of key tiles before `bound`.
bool KeyWalk::endsWithTile(Value bound) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  AffineMap map = AffineMap::get(2, 0, d0 - d1);
  SmallVector<Value> operands{bound, place.firstKey};
  affine::fullyComposeAffineMapAndOperands(&map, &operands);
  affine::canonicalizeMapAndOperands(&map, &operands);
  return simplifyAffineMap(map).getResult(0).isMultipleOf(blockN);
}

/// The bound, or 0 if it is negative.
OpFoldResult KeyWalk::clamp(OpFoldResult bound) {
  if (auto value = getConstantIntValue(bound))
    return b.getIndexAttr(std::max<int64_t>(*value, 0));
  return arith::MaxSIOp::create(b, asValue(bound), asValue(b.getIndexAttr(0)))
      .getResult();
}

/// The number of tiles, but at least 1 where a product waits for the next
/// tile's, so that it begins and ends outside of the loop. Where no key is
/// visible, that is a tile whose keys are all hidden, or one of which a part of
/// the keys drops what it adds: `hasTiles` is set to whether it is there.
OpFoldResult KeyWalk::getWalkedTiles(OpFoldResult count) {
  if (schedule.getOverlap() != fcgpu::Overlap::PV)
    return count;
  if (!coversAllKeys() && getConstantIntValue(count).value_or(0) <= 0) {
    Value isThere = b.createOrFold<arith::CmpIOp>(
        arith::CmpIPredicate::sgt, asValue(count), asValue(b.getIndexAttr(0)));
    hasTiles =
        hasTiles ? b.createOrFold<arith::AndIOp>(hasTiles, isThere) : isThere;
  }
  AffineMap map =
      AffineMap::get(1, 0, {b.getAffineDimExpr(0), b.getAffineConstantExpr(1)},
                     op.getContext());
  return affine::makeComposedFoldedAffineMax(b, b.getLoc(), map, {count});
}

/// Which of the warps that share the query rows this is.
Value KeyWalk::getKeyPart() {
  return op->getParentOfType<scf::ForallOp>().getInductionVar(1);
}

/// How many of the first `count` tiles the warp walks: tiles p, p + key_warps,
/// ... are those of part p.
OpFoldResult KeyWalk::getCountOfPart(OpFoldResult count) {
  int64_t parts = schedule.getKeyWarps();
  if (parts == 1)
    return count;
  if (auto value = getConstantIntValue(count); value && *value % parts == 0)
    return b.getIndexAttr(*value / parts);
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  return apply((d0 - d1).ceilDiv(parts), {count, getKeyPart()});
}

/// The bounds of keys of `numQueries` queries, counted from the first key of
/// the op.
KeyBounds KeyWalk::getBounds(const KeyMask &of, int64_t numQueries) {
  KeyBounds bounds = getKeyBounds(op.getContext(), of, numQueries);
  return coversAllKeys() ? bounds : bounds.within();
}

OpFoldResult KeyWalk::getBegin(AffineMap map, ArrayRef<OpFoldResult> operands) {
  return clamp(
      affine::makeComposedFoldedAffineMax(b, b.getLoc(), map, operands));
}

OpFoldResult KeyWalk::getEnd(AffineMap map, ArrayRef<OpFoldResult> operands) {
  return clamp(
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, operands));
}

/// The data in bounds. That of queries is found in front of the loop over
/// warps, by all of them: where what a block works on is known inside only, a
/// persistent one, such bounds are not used.
void KeyWalk::computeSymbols() {
  Value batch = place.batch;
  Value begin = place.blockQuery;
  Value seqlenQ = place.seqlenQ;
  auto forall = op->getParentOfType<scf::ForallOp>();
  auto isKnown = [&](Value value) {
    return !forall || forall.isDefinedOutsideOfLoop(value);
  };
  if (mask.hasDataOfQueries() && forall)
    moveLoopInvariantCode(forall);
  if (!isKnown(batch) || !isKnown(begin) || !isKnown(seqlenQ))
    mask.dropDataOfQueries();
  OpBuilder::InsertionGuard guard(b);
  if (forall && mask.hasDataOfQueries())
    b.setInsertionPoint(forall);
  SmallVector<OpFoldResult> greatest;
  for (const BoundSymbol &symbol : mask.symbols) {
    if (!symbol.isOfQuery) {
      symbols.push_back(computeOfBatchEntry(b, op, symbol.value, batch,
                                            op.getCapturedTensors()));
      continue;
    }
    AffineMap map = AffineMap::get(
        2, 0,
        {b.getAffineDimExpr(0) + schedule.getBlockM(), b.getAffineDimExpr(1)},
        op.getContext());
    Value end = asValue(affine::makeComposedFoldedAffineMin(b, b.getLoc(), map,
                                                            {begin, seqlenQ}));
    auto [low, high] =
        computeOfQueries(b, op, symbol.value, batch, begin, end,
                         schedule.getBlockM(), op.getCapturedTensors());
    symbols.push_back(low);
    greatest.push_back(high);
  }
  llvm::append_range(symbols, greatest);
}

void KeyWalk::computeTileCounts() {
  // The warps of a block walk the same tiles where they fill them together.
  bool isAlone = schedule.getKeyWarps() > 1;
  int64_t numQueries = isAlone ? warpM : schedule.getBlockM();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  Value firstQuery = isAlone ? place.firstQuery : place.blockQuery;
  SmallVector<OpFoldResult> operands{getAsOpFoldResult(firstQuery),
                                     getAsOpFoldResult(place.seqlenQ),
                                     getAsOpFoldResult(place.seqlenK)};
  if (!coversAllKeys())
    for (auto bound : {place.firstKey, place.keyEnd})
      operands.push_back(getAsOpFoldResult(bound));
  if (hasBlocks())
    return computeBlockWalk();
  computeSymbols();
  llvm::append_range(operands, symbols);
  if (mask.hasHoles())
    return computeRanges(operands, numQueries);
  KeyBounds bounds = getBounds(mask, numQueries);
  // A bound of a region may be the same for all queries, within a tile.
  bool hasPartialEnd = bounds.visibleEnd != bounds.fullEnd ||
                       !mask.last.empty() || !endsWithTile(place.keyEnd) ||
                       !endsWithTile(place.seqlenK);
  OpFoldResult visibleEnd = getEnd(bounds.visibleEnd, operands);
  // The maximum of the clamp hides this bound, which copies need.
  if (coversAllKeys())
    visibleEnd = affine::makeComposedFoldedAffineMin(
        b, b.getLoc(), AffineMap::getMultiDimIdentityMap(2, op.getContext()),
        {visibleEnd, operands[2]});
  // Tiles are walked from the last visible one down.
  numTiles = endTile = getWalkedTiles(apply(
      hasPartialEnd ? d0.ceilDiv(blockN) : d0.floorDiv(blockN), {visibleEnd}));
  OpFoldResult numFull = endTile;
  if (hasPartialEnd)
    numFull = apply(d0.floorDiv(blockN), {getEnd(bounds.fullEnd, operands)});
  headEnd = apply(d0 - d1, {endTile, numFull});
  if (mask.hidesFirstKeys()) {
    OpFoldResult firstTile =
        apply(d0.floorDiv(blockN), {getBegin(bounds.visibleBegin, operands)});
    OpFoldResult firstFull =
        apply(d0.ceilDiv(blockN), {getBegin(bounds.fullBegin, operands)});
    numTiles = getWalkedTiles(clamp(apply(d0 - d1, {endTile, firstTile})));
    tailBegin = getCountOfPart(apply(d0 - d1, {endTile, firstFull}));
  }
  numTiles = getCountOfPart(numTiles);
  headEnd = getCountOfPart(headEnd);
}

/// The tile of `rows` rows from `row` on of Q, K or V.
Value KeyWalk::readTile(TileRole role, Value row, int64_t rows) {
  Value memref = role == TileRole::Query ? op.findQuery()
                 : role == TileRole::Key ? op.findKey()
                                         : op.findValue();
  int64_t numColumns = cast<MemRefType>(memref.getType()).getDimSize(3);
  int64_t cols = fcgpu::getTileColumns(numColumns);
  // Rows past the end of the memref read as zeros: a zero K row gives score 0
  // (the mask hides it), a zero V row keeps 0 * P from becoming NaN. So do
  // columns behind its own, which then add nothing to a product.
  Value zero = asValue(b.getIndexAttr(0));
  Value padding = arith::ConstantOp::create(b, b.getZeroAttr(b.half));
  auto type = VectorType::get({rows, cols}, b.half);
  auto read = vector::TransferReadOp::create(
      b, type, memref, ValueRange{zero, zero, row, zero}, padding,
      ArrayRef<bool>{false, cols == numColumns});
  // Upstream makes straight code of a loop over one tile.
  bool isInLoop = role != TileRole::Query &&
                  schedule.getSoftmax() != fcgpu::Softmax::OnePass &&
                  getConstantIntValue(numTiles) != 1;
  std::optional<int64_t> pageSize;
  if (auto pages = memref.getDefiningOp<fcgpu::ViewPagesOp>())
    pageSize = pages.getPageSize();
  stage(read, role, cols, isInLoop, pageSize);
  return read;
}

/// Says how the tile that is read or written goes through shared memory.
void KeyWalk::stage(Operation *access, TileRole role, int64_t cols,
                    bool isInLoop, std::optional<int64_t> pageSize) {
  TileStaging staging =
      chooseStaging(schedule.getChoice(), role, cols, isInLoop, pageSize);
  auto attr = fcgpu::StagingAttr::get(
      op.getContext(), staging.copy, staging.ring, staging.slots,
      staging.number, staging.kept, staging.home, staging.group, staging.layout,
      staging.viaRegisters);
  LDBG() << attr << " for " << *access;
  access->setAttr(fcgpu::kStagingAttrName, attr);
}

/// In one pass, a warp walks as many tiles as any warp of any block may have.
int64_t KeyWalk::getNumTilesOfOnePass() {
  int64_t seqlenK = *getConstantIntValue(place.seqlenK);
  return getTilesOfPart(seqlenK, schedule.getChoice());
}

/// Whether one pass may walk tiles that are not there.
bool KeyWalk::mayLackTiles() {
  return schedule.getSoftmax() == fcgpu::Softmax::OnePass &&
         getConstantIntValue(numTiles) != getNumTilesOfOnePass();
}

/// The first key of the tile of an iteration.
Value KeyWalk::getTileKey(OpFoldResult iteration) {
  if (hasBlocks())
    return getListedKey(iteration);
  AffineExpr d0, d1, d2, d3;
  bindDims(op.getContext(), d0, d1, d2, d3);
  int64_t parts = schedule.getKeyWarps();
  OpFoldResult part =
      parts > 1 ? OpFoldResult(getKeyPart()) : b.getIndexAttr(0);
  OpFoldResult firstKey = getAsOpFoldResult(place.firstKey);
  OpFoldResult end = endTile;
  if (!holes.empty()) {
    Value number = asValue(apply(d0 * parts + d1, {iteration, part}));
    end = apply(d0 - d1, {end, getTilesPassedOver(number)});
  }
  OpFoldResult key = apply(d3 + (d0 - d1 * parts - d2 - 1) * blockN,
                           {end, iteration, part, firstKey});
  // A tile that is walked though there are no keys begins behind them: nothing
  // is read from memory then.
  OpFoldResult seqlenK = getAsOpFoldResult(place.seqlenK);
  if (schedule.getOverlap() == fcgpu::Overlap::PV &&
      !getConstantIntValue(seqlenK))
    key = affine::makeComposedFoldedAffineMax(
        b, b.getLoc(), AffineMap::get(2, 0, {d0, 1 - d1}, op.getContext()),
        {key, seqlenK});
  return asValue(key);
}

/// Whether every tile that is walked lies in front of the end of the keys.
bool KeyWalk::hasWholeTilesOnly() {
  auto seqlenK = getConstantIntValue(place.seqlenK);
  return seqlenK.value_or(0) > 0 && coversAllKeys() && !hasBlocks() &&
         !mayLackTiles() && endsWithTile(place.seqlenK);
}

/// Whether the tile of an iteration is partial; null if no tile is.
Value KeyWalk::isPartial(Value iteration, Value key) {
  if (mask.hasHoles())
    return isOutsideOfFullRanges(getTileKey(iteration));
  Value holds;
  auto add = [&](arith::CmpIPredicate predicate, OpFoldResult bound) {
    Value isSide =
        arith::CmpIOp::create(b, predicate, iteration, asValue(bound));
    holds = holds ? arith::OrIOp::create(b, holds, isSide).getResult() : isSide;
  };
  if (getConstantIntValue(headEnd) != 0)
    add(arith::CmpIPredicate::slt, headEnd);
  if (mask.hidesFirstKeys() && !hasBlocks())
    add(arith::CmpIPredicate::sge, tailBegin);
  if (hasBlocks()) {
    Value isPast = isPastLastKey(key);
    holds = holds ? arith::OrIOp::create(b, holds, isPast).getResult() : isPast;
  }
  return holds;
}

/// Writes a tile (or row vector) to rows of `memref` from `row` on.
vector::TransferWriteOp KeyWalk::writeRows(Value tile, Value memref, Value row,
                                           ArrayRef<Value> cols) {
  Value zero = asValue(b.getIndexAttr(0));
  SmallVector<Value> indices{zero, zero, row};
  llvm::append_range(indices, cols);
  // A memref of all the rows of the warp has those of a share.
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<bool> inBounds{schedule.getKeyWarps() > 1 &&
                             type.getDimSize(2) == warpM};
  if (!cols.empty()) // those of tiles
    inBounds.push_back(type.getDimSize(3) >= b.columnsV);
  return vector::TransferWriteOp::create(b, tile, memref, indices,
                                         ArrayRef<bool>(inBounds));
}
