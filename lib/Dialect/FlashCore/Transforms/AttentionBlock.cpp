//===- AttentionBlock.cpp - Phase 2: blocks over query tiles --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One linear number names the tile of a block: the x axis of a grid is the only
// one without a small limit.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"
#include "ScoreRegion.h"
#include "TileOperands.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Analysis/TileWalk.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

/// The loop of a persistent block over its tiles; the insertion point moves
/// into it. Returns the number of the tile.
Value AttentionBlock::buildTileWalk(Value block) {
  TileWalk walk = TileWalk::get(op.getContext());
  auto evaluate = [&](AffineMap map, ArrayRef<OpFoldResult> operands) {
    return asValue(
        affine::makeComposedFoldedAffineApply(b, b.getLoc(), map, operands));
  };
  Value numBlocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value numRounds = evaluate(
      walk.numRounds, {build(signature.getNumTiles()), numBlocks, block});
  auto loop = scf::ForOp::create(b, asValue(b.getIndexAttr(0)), numRounds,
                                 asValue(b.getIndexAttr(1)));
  loop->setAttr(fcgpu::kBlockTilesAttrName, b.getUnitAttr());
  b.setInsertionPointToStart(loop.getBody());
  return evaluate(walk.tile, {loop.getInductionVar(), numBlocks, block});
}

/// Whether numbers of tiles, batch entries and heads are below 2^32: those of a
/// grid are, and persistent blocks of warpgroups write rows of 16 columns or
/// more, of which no GPU holds as many.
bool AttentionBlock::hasNarrowNumbers() const {
  return schedule.getGrid() == fcgpu::Grid::Full ||
         schedule.getProduct() == fcgpu::Product::Warpgroup;
}

/// Quotient and remainder of such numbers, where the divisor is known at run
/// time only: a division of 64 bits takes several times as long as one of 32.
std::pair<Value, Value> AttentionBlock::divide(Value number, Value by) {
  Type i32 = b.getI32Type();
  Value narrow = arith::IndexCastUIOp::create(b, i32, number);
  Value divisor = arith::IndexCastUIOp::create(b, i32, by);
  auto widen = [&](Value value) -> Value {
    return arith::IndexCastUIOp::create(b, b.getIndexType(), value);
  };
  return {widen(arith::DivUIOp::create(b, narrow, divisor)),
          widen(arith::RemUIOp::create(b, narrow, divisor))};
}

/// Places along the axes of `basis`.
SmallVector<Value> AttentionBlock::delinearize(Value number,
                                               ArrayRef<OpFoldResult> basis) {
  bool isKnown = llvm::all_of(basis.drop_front(), [](OpFoldResult size) {
    return getConstantIntValue(size).has_value();
  });
  if (isKnown || !hasNarrowNumbers())
    return affine::AffineDelinearizeIndexOp::create(
               b, number, SmallVector<OpFoldResult>(basis))
        .getResults();
  SmallVector<Value> ids;
  for (OpFoldResult size : llvm::reverse(basis.drop_front())) {
    auto [quotient, rest] = divide(number, asValue(size));
    ids.push_back(rest);
    number = quotient;
  }
  ids.push_back(number);
  std::reverse(ids.begin(), ids.end());
  return ids;
}

/// The key head that the query head `head` reads.
Value AttentionBlock::findHeadKV(Value head) {
  OpFoldResult headsQ = getSize(Dim::HeadsQ), headsKV = getSize(Dim::HeadsKV);
  bool isKnown = getConstantIntValue(headsQ) && getConstantIntValue(headsKV);
  if (!isKnown && hasNarrowNumbers())
    return divide(head, divide(asValue(headsQ), asValue(headsKV)).first).first;
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  return asValue(apply(b.getAffineDimExpr(0).floorDiv(s0.floorDiv(s1)),
                       {head, headsQ, headsKV}));
}

/// Query block, batch and head group of a tile, where `grid_heads` heads at a
/// time take turns.
SmallVector<Value> AttentionBlock::findTileOfTurn(Value number) {
  OpFoldResult numBatch = getSize(Dim::Batch), numGroups = getNumHeadGroups();
  int64_t turn = schedule.getGridHeads();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult numHeads =
      apply(d0 * b.getAffineSymbolExpr(0), {numBatch, numGroups});
  auto divide = [&](Value value, OpFoldResult by) -> ValueRange {
    return affine::AffineDelinearizeIndexOp::create(
               b, value, SmallVector<OpFoldResult>{by}, /*hasOuterBound=*/false)
        .getResults();
  };
  ValueRange place = divide(number, apply(d0 * turn, {getNumQueryBlocks()}));
  OpFoldResult firstHead = apply(d0 * turn, {place[0]});
  // The last turn may be of fewer heads.
  OpFoldResult heads = b.getIndexAttr(turn);
  auto known = getConstantIntValue(numHeads);
  if (!known || *known % turn != 0)
    heads = affine::makeComposedFoldedAffineMin(
        b, b.getLoc(),
        AffineMap::get(2, 0, {b.getAffineConstantExpr(turn), d0 - d1},
                       op.getContext()),
        {numHeads, firstHead});
  ValueRange inTurn = divide(place[1], heads);
  Value head = asValue(apply(d0 + d1, {firstHead, inTurn[1]}));
  SmallVector<Value> ids = delinearize(head, {numBatch, numGroups});
  return {inTurn[0], ids[0], ids[1]};
}

/// The tile, from one linear number: the x axis of a grid is the only one
/// without a small limit.
void AttentionBlock::findTile(Value number) {
  OpFoldResult numBlocks = getNumQueryBlocks();
  OpFoldResult numBatch = getSize(Dim::Batch), numGroups = getNumHeadGroups();
  bool isQueryFastest =
      schedule.getGridOrder() == fcgpu::GridOrder::QueryFastest;
  SmallVector<OpFoldResult> basis{numBatch, numGroups, numBlocks};
  if (!isQueryFastest)
    basis = {numBlocks, numBatch, numGroups};
  // The blocks of one query tile are neighbours.
  if (isSplit())
    basis.push_back(getNumParts());
  SmallVector<Value> ids = schedule.getGridHeads() ? findTileOfTurn(number)
                                                   : delinearize(number, basis);
  Value batch = ids[isQueryFastest ? 0 : 1];
  Value headGroup = ids[isQueryFastest ? 1 : 2];
  Value queryBlock = ids[isQueryFastest ? 2 : 0];
  // The last query rows see the most keys: they go first.
  if (!isQueryFastest)
    queryBlock =
        asValue(apply(b.getAffineDimExpr(0) - b.getAffineDimExpr(1) - 1,
                      {numBlocks, queryBlock}));
  sequence = findSequence(frame, op, schedule.getBlockM(), batch, queryBlock);
  AffineExpr d0 = b.getAffineDimExpr(0);
  firstHead = asValue(apply(d0 * schedule.getHeadGroup(), {headGroup}));
  headKV = findHeadKV(firstHead);
  keyBegin = b.getIndexAttr(0);
  if (isSplit())
    splitKeys(ids[3]);
}

/// The keys of a split, and where its results go.
void AttentionBlock::splitKeys(Value split) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  partialEntry = apply(d0 * b.getAffineSymbolExpr(0) + d1,
                       {split, sequence.batch, getSize(Dim::Batch)});
  if (int64_t keys = schedule.getSplitKeys()) {
    keyBegin = apply(d0 * keys, {split});
    keyEnd = apply(d0 + keys, {keyBegin});
    return;
  }
  shareKeys(split);
}

/// Gives each split an equal share of the key tiles that the block's queries
/// see; the last ones may get less, or nothing.
void AttentionBlock::shareKeys(Value split) {
  int64_t blockM = schedule.getBlockM(), blockN = schedule.getBlockN();
  KeyMask mask = KeyMask::get(op);
  // What several ranges have in common is no region's.
  if (mask.hasHoles())
    mask.symbols.clear();
  KeyBounds bounds = getKeyBounds(op.getContext(), mask, blockM);
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult firstQuery = apply(d0 * blockM, {sequence.queryBlock});
  SmallVector<OpFoldResult> operands{firstQuery, sequence.seqlenQ,
                                     sequence.seqlenK};
  for (const BoundSymbol &symbol : mask.symbols)
    operands.push_back(computeOfBatchEntry(b, op, symbol.value, sequence.number,
                                           getCaptured(frame, op)));
  AffineMap begin = bounds.visibleBegin.insertResult(
      b.getAffineConstantExpr(0), bounds.visibleBegin.getNumResults());
  OpFoldResult firstTile = apply(
      d0.floorDiv(blockN),
      {affine::makeComposedFoldedAffineMax(b, b.getLoc(), begin, operands)});
  OpFoldResult endTile = apply(
      d0.ceilDiv(blockN), {affine::makeComposedFoldedAffineMin(
                              b, b.getLoc(), bounds.visibleEnd, operands)});
  OpFoldResult share = apply((d0 - d1).ceilDiv(b.getAffineSymbolExpr(0)),
                             {endTile, firstTile, getNumParts()});
  // Of a length known at run time only, short caches leave the last splits
  // without keys rather than all of them with too few.
  if (!getConstantIntValue(sequence.seqlenK))
    share =
        arith::MaxSIOp::create(
            b, asValue(share),
            asValue(b.getIndexAttr(llvm::divideCeil(kMinKeysOfSplit, blockN))))
            .getResult();
  OpFoldResult skipped;
  if (auto tiles = getConstantIntValue(share))
    skipped = apply(d0 * *tiles, {split});
  else
    skipped = arith::MulIOp::create(b, split, asValue(share)).getResult();
  keyBegin = apply((d0 + d1) * blockN, {firstTile, skipped});
  keyEnd = apply(d0 + d1 * blockN, {keyBegin, share});
}

Attribute AttentionBlock::getMapping(gpu::MappingId id) {
  if (schedule.getTileWarps() > 1)
    return gpu::GPUWarpgroupMappingAttr::get(op.getContext(), id);
  return gpu::GPUWarpMappingAttr::get(op.getContext(), id);
}

void AttentionBlock::build(function_ref<void()> prepare,
                           function_ref<void(Value warp)> buildTile) {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  if (!schedule.isPersistent())
    findTile(block);
  // Warps that share query rows follow each other.
  SmallVector<OpFoldResult> warps{
      b.getIndexAttr(schedule.getNumHolders() / schedule.getKeyWarps())};
  SmallVector<Attribute> mapping{getMapping(gpu::MappingId::LinearDim0)};
  if (schedule.getKeyWarps() > 1) {
    warps.push_back(b.getIndexAttr(schedule.getKeyWarps()));
    mapping.insert(mapping.begin(), getMapping(gpu::MappingId::LinearDim1));
  }
  prepare();
  auto forall =
      scf::ForallOp::create(b, warps, ValueRange(), b.getArrayAttr(mapping));
  b.setInsertionPoint(forall.getTerminator());
  if (schedule.isPersistent())
    findTile(buildTileWalk(block));
  buildTile(forall.getInductionVar(0));
  b.setInsertionPointAfter(forall);
  gpu::ReturnOp::create(b);
}

/// A block without keys may read the first entry and look at nothing there. Of
/// no sequences not even that exists, and a number that does stands for it.
Value AttentionBlock::getPageTable() {
  Value table = frame.getTensor(operand::kPageTable);
  if (!op.getCuSeqlensQ())
    return table;
  auto type = cast<MemRefType>(table.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  [[maybe_unused]] LogicalResult isStrided =
      type.getStridesAndOffset(strides, offset);
  assert(succeeded(isStrided) && !ShapedType::isDynamic(offset));
  auto metadata = memref::ExtractStridedMetadataOp::create(b, table);
  Value ends = memref::ReinterpretCastOp::create(
      b, type, frame.getTensor(operand::kCuSeqlensQ), b.getIndexAttr(offset),
      metadata.getConstifiedMixedSizes(), metadata.getConstifiedMixedStrides());
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt,
                                        asValue(frame.getSize(Dim::CuSeqlens)),
                                        asValue(b.getIndexAttr(1)));
  return arith::SelectOp::create(b, isThere, table, ends);
}

Value AttentionBlock::getKeys(StringRef tensor) {
  Value keys = frame.getTensor(tensor);
  if (!op.getPageTable())
    return sliceRows(b, keys, sequence.batch, headKV, sequence.firstKey,
                     sequence.seqlenK);
  OpFoldResult one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> strides(4, one);
  Value pool = memref::SubViewOp::create(
      b, keys, {zero, headKV, zero, zero},
      {frame.getSize(Dim::Pages), one, frame.getSize(Dim::PageSize),
       b.getIndexAttr(cast<MemRefType>(keys.getType()).getDimSize(3))},
      strides);
  // Behind the last tile a block may look up pages of one that is not there.
  Value number = sequence.number;
  if (schedule.isPersistent() && !op.getCuSeqlensQ())
    number = arith::MinSIOp::create(
        b, number,
        asValue(apply(b.getAffineDimExpr(0) - 1, {frame.getSize(Dim::Batch)})));
  Value table = memref::SubViewOp::create(
      b, getPageTable(), {number, zero},
      {one, frame.getSize(Dim::PagesPerSequence)}, {one, one});
  return fcgpu::ViewPagesOp::create(b, pool, table, asValue(sequence.seqlenK),
                                    schedule.getBlockN());
}

TilePlace AttentionBlock::getPlace(const WarpRows &rows) {
  Value seqlenQ = asValue(sequence.seqlenQ), begin = asValue(keyBegin);
  Value seqlenK = asValue(sequence.seqlenK);
  Value end = isSplit() ? asValue(keyEnd) : seqlenK;
  Value blockQuery = asValue(apply(b.getAffineDimExpr(0) * schedule.getBlockM(),
                                   {sequence.queryBlock}));
  return {sequence.number, rows.headQ, asValue(rows.row), seqlenQ,
          begin,           end,        seqlenK,           blockQuery};
}

WarpRows AttentionBlock::findRows(Value warp) {
  int64_t warpM = schedule.getWarpM(), rowWarps = schedule.getRowWarps();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  // The warps of one head are neighbours.
  AffineExpr rowTile = d1;
  Value headQ = firstHead;
  if (schedule.getHeadGroup() > 1) {
    rowTile = d1 % rowWarps;
    headQ = asValue(apply(d0 + d1.floorDiv(rowWarps), {firstHead, warp}));
  }
  OpFoldResult row = apply(d0 * schedule.getBlockM() + rowTile * warpM,
                           {sequence.queryBlock, warp});
  OpFoldResult rows =
      countRows(b, warpM, schedule.getBlockM(), row, sequence.seqlenQ);
  return {headQ, row, rows};
}
