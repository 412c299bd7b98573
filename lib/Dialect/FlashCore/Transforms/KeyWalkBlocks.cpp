//===- KeyWalkBlocks.cpp - Walks over lists of blocks -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists name the blocks of keys that a block of queries sees, which lie
// anywhere. The loop still counts iterations; which keys one of them walks is a
// load from the lists, of a place that exists for any number, so that copies
// ahead, and both roles, have it as well. First come blocks that a mask is
// asked in, then the full ones, so that the loop can be split between them.
//
//===----------------------------------------------------------------------===//

#include "KeyWalk.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::flashcore;

/// Whether something hides keys of blocks that are not full.
bool KeyWalk::hidesInBlocks() {
  return mask.isTopLeft || mask.windowLeft || mask.windowRight ||
         op.findMaskRegion();
}

/// Where a list has the row of the op's block of queries: the tiles that walk
/// the keys together are in one, since block_m divides it (ScheduleCheck.cpp).
SmallVector<Value> KeyWalk::getListRow(Value list) {
  auto type = cast<MemRefType>(list.getType());
  Value zero = asValue(b.getIndexAttr(0));
  SmallVector<Value> row;
  for (Value coordinate : {place.batch, place.head})
    row.push_back(type.getDimSize(row.size()) == 1 ? zero : coordinate);
  row.push_back(
      asValue(apply(b.getAffineDimExpr(0).floorDiv(attention.getBlockQueries()),
                    {getAsOpFoldResult(place.blockQuery)})));
  return row;
}

/// The tiles of a block, of one that is longer than the keys those of all.
int64_t KeyWalk::getTilesOfBlock() {
  int64_t keys = attention.getBlockKeys();
  if (auto seqlenK = getConstantIntValue(place.seqlenK))
    keys = std::min(keys, std::max<int64_t>(*seqlenK, 1));
  return llvm::divideCeil(keys, blockN);
}

/// The tiles of the blocks that a list has.
Value KeyWalk::countTiles(Value counts) {
  Value count = arith::IndexCastOp::create(
      b, b.getIndexType(),
      memref::LoadOp::create(b, counts, getListRow(counts)));
  Value most =
      asValue(memref::getMixedSize(b, b.getLoc(), attention.getBlockIndices(),
                                   /*dim=*/3));
  count = arith::MinSIOp::create(b, count, most);
  Value zero = asValue(b.getIndexAttr(0));
  count = arith::MaxSIOp::create(b, count, zero);
  // Without keys there is none whose bias could be read.
  Value seqlenK = place.seqlenK;
  if (!getConstantIntValue(seqlenK)) {
    Value hasKeys =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, seqlenK, zero);
    count = arith::SelectOp::create(b, hasKeys, count, zero);
  }
  return asValue(
      apply(b.getAffineDimExpr(0) * getTilesOfBlock(), {OpFoldResult(count)}));
}

/// The walk of lists: `numTiles`, `headEnd`, `maskedTiles` and `listedTiles`.
void KeyWalk::computeBlockWalk() {
  maskedTiles = listedTiles = countTiles(attention.getBlockCounts());
  if (Value counts = attention.getFullBlockCounts())
    listedTiles = arith::AddIOp::create(b, maskedTiles, countTiles(counts));
  numTiles = getCountOfPart(getWalkedTiles(OpFoldResult(listedTiles)));
  headEnd = hidesInBlocks() ? getCountOfPart(OpFoldResult(maskedTiles))
                            : b.getIndexAttr(0);
}

/// The block at a position of a list, or the last one of the list's axis.
Value KeyWalk::loadBlock(Value indices, Value position) {
  SmallVector<Value> entry = getListRow(indices);
  Value last =
      asValue(apply(b.getAffineDimExpr(0) - 1,
                    {memref::getMixedSize(b, b.getLoc(), indices, /*dim=*/3)}));
  entry.push_back(arith::MinSIOp::create(b, position, last));
  // A negative number is one that is too large.
  return arith::IndexCastUIOp::create(
      b, b.getIndexType(), memref::LoadOp::create(b, indices, entry));
}

/// The first key of the tile of an iteration; past the last key, where copies
/// read nothing, if no block of the lists has such a tile.
Value KeyWalk::getListedKey(OpFoldResult iteration) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  int64_t parts = schedule.getKeyWarps(), keys = attention.getBlockKeys();
  int64_t tilesOfBlock = getTilesOfBlock();
  Value number = asValue(iteration);
  if (parts > 1)
    number = asValue(
        apply(d0 * parts + d1, {iteration, OpFoldResult(getKeyPart())}));
  auto toBlock = [&](Value tile) {
    return asValue(apply(d0.floorDiv(tilesOfBlock), {OpFoldResult(tile)}));
  };
  Value block = loadBlock(attention.getBlockIndices(), toBlock(number));
  if (Value indices = attention.getFullBlockIndices()) {
    Value isMasked = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number,
                                           maskedTiles);
    Value inFull =
        arith::MaxSIOp::create(b, arith::SubIOp::create(b, number, maskedTiles),
                               asValue(b.getIndexAttr(0)));
    Value full = loadBlock(indices, toBlock(inFull));
    block = arith::SelectOp::create(b, isMasked, block, full);
  }
  OpFoldResult seqlenK = getAsOpFoldResult(place.seqlenK);
  Value end = asValue(apply(d0.ceilDiv(keys), {seqlenK}));
  block = arith::MinUIOp::create(b, block, end);
  // With products that overlap, one tile is walked also where there is none.
  if (schedule.getOverlap() == fcgpu::Overlap::PV) {
    Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number,
                                          listedTiles);
    block = arith::SelectOp::create(b, isThere, block, end);
  }
  // Both lists begin with the first tile of a block.
  OpFoldResult key = apply(d0 * keys + (d1 % tilesOfBlock) * blockN,
                           {OpFoldResult(block), OpFoldResult(number)});
  // Where there are no keys, not even the first block begins in front of them.
  if (!getConstantIntValue(seqlenK))
    key = affine::makeComposedFoldedAffineMax(
        b, b.getLoc(), AffineMap::get(2, 0, {d0, 1 - d1}, op.getContext()),
        {key, seqlenK});
  return asValue(key);
}

/// Whether the tile from `key` on has keys that do not exist.
Value KeyWalk::isPastLastKey(Value key) {
  Value end =
      asValue(apply(b.getAffineDimExpr(0) + blockN, {OpFoldResult(key)}));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, end,
                               place.seqlenK);
}
