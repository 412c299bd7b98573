//===- OnlineSoftmax.cpp - Phase 3: the loop over key tiles ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes an attention tile as FlashAttention-2's loop on warp-tile vectors.
// Runs inside a kernel; knows nothing about memory levels or lanes. Which tiles
// are empty, partial or full comes from Analysis/KeyTileBounds.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "TileExpander.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/DebugLog.h"

#include <algorithm>

#define DEBUG_TYPE "flashcore-online-softmax"

namespace mlir::flashcore {
#define GEN_PASS_DEF_ONLINESOFTMAXPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

bool TileExpander::coversAllKeys() {
  return getConstantIntValue(place.firstKey) == 0 &&
         getAsOpFoldResult(place.keyEnd) == getAsOpFoldResult(place.seqlenK);
}

/// Whether there is certainly a whole number of key tiles before `bound`.
bool TileExpander::endsWithTile(Value bound) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  AffineMap map = AffineMap::get(2, 0, d0 - d1);
  SmallVector<Value> operands{bound, place.firstKey};
  affine::fullyComposeAffineMapAndOperands(&map, &operands);
  affine::canonicalizeMapAndOperands(&map, &operands);
  return simplifyAffineMap(map).getResult(0).isMultipleOf(blockN);
}

/// The bound, or 0 if it is negative.
OpFoldResult TileExpander::clamp(OpFoldResult bound) {
  if (auto value = getConstantIntValue(bound))
    return b.getIndexAttr(std::max<int64_t>(*value, 0));
  return arith::MaxSIOp::create(b, asValue(bound), asValue(b.getIndexAttr(0)))
      .getResult();
}

/// The number of tiles, but at least 1 where a product waits for the next
/// tile's, so that it begins and ends outside of the loop. Where no key is
/// visible, that is a tile whose keys are all hidden, or one of which a part of
/// the keys drops what it adds: `hasTiles` is set to whether it is there.
OpFoldResult TileExpander::getWalkedTiles(OpFoldResult count) {
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
Value TileExpander::getKeyPart() {
  return op->getParentOfType<scf::ForallOp>().getInductionVar(1);
}

/// How many of the first `count` tiles the warp walks: tiles p, p + key_warps,
/// ... are those of part p.
OpFoldResult TileExpander::getCountOfPart(OpFoldResult count) {
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
KeyBounds TileExpander::getBounds(const KeyMask &of, int64_t numQueries) {
  KeyBounds bounds = getKeyBounds(op.getContext(), of, numQueries);
  return coversAllKeys() ? bounds : bounds.within();
}

OpFoldResult TileExpander::getBegin(AffineMap map,
                                    ArrayRef<OpFoldResult> operands) {
  return clamp(
      affine::makeComposedFoldedAffineMax(b, b.getLoc(), map, operands));
}

OpFoldResult TileExpander::getEnd(AffineMap map,
                                  ArrayRef<OpFoldResult> operands) {
  return clamp(
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, operands));
}

/// The data in bounds. That of queries is found in front of the loop over
/// warps, by all of them: where what a block works on is known inside only, a
/// persistent one, such bounds are not used.
void TileExpander::computeSymbols() {
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

void TileExpander::computeTileCounts() {
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
Value TileExpander::readTile(TileRole role, Value row, int64_t rows) {
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
void TileExpander::stage(Operation *access, TileRole role, int64_t cols,
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
int64_t TileExpander::getNumTilesOfOnePass() {
  int64_t seqlenK = *getConstantIntValue(place.seqlenK);
  return getTilesOfPart(seqlenK, schedule.getChoice());
}

/// Whether one pass may walk tiles that are not there.
bool TileExpander::mayLackTiles() {
  return schedule.getSoftmax() == fcgpu::Softmax::OnePass &&
         getConstantIntValue(numTiles) != getNumTilesOfOnePass();
}

/// The first key of the tile of an iteration.
Value TileExpander::getTileKey(OpFoldResult iteration) {
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

/// Q K^T of the tile from `key` on, added to `start`.
Value TileExpander::buildScores(Value query, Value key, Value start) {
  Value k = readTile(TileRole::Key, key, blockN);
  return b.contract(query, k, start, /*transposedRhs=*/true);
}

/// Adds a tile to the state.
RowState TileExpander::accumulate(Exponentials tile, Value key) {
  RowState state = tile.state;
  Value kept = dropElements(tile.p, key);
  sumPolicy->accumulate(state, tile.p, kept, maxPolicy->getUnit(),
                        [&] { return readTile(TileRole::Value, key, blockN); });
  return state;
}

RowState TileExpander::buildIteration(Value query, Value iteration,
                                      RowState state) {
  Value key = getTileKey(iteration);
  Value scores = buildScores(query, key, maxPolicy->getProductStart(state));
  scores = changeScores(scores, key);
  skipUnlessVisible(iteration);
  auto apply = [&](Value scores) {
    return hasBlocks() ? maskListed(scores, iteration, key)
                       : maskScores(scores, key);
  };
  auto applyIfPartial = [&](Value scores) {
    return maskWhenPartial(scores, iteration, key);
  };
  auto isPartialTile = [&] { return isPartial(iteration, key); };
  TileMask mask{apply, applyIfPartial, isPartialTile};
  return accumulate(maxPolicy->exponentiate(state, scores, mask), key);
}

/// The state before the first tile.
RowState TileExpander::getEmptyState() {
  return {sumPolicy->getInitialOutput(), maxPolicy->getInitialMax(),
          sumPolicy->getInitialSum()};
}

/// All tiles in a loop.
RowState TileExpander::buildOnline(Value query) {
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
RowState TileExpander::buildOnePass(Value query) {
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
RowState TileExpander::dropUnlessWalked(RowState state) {
  return RowState::get(b.branch(
      hasTiles, [&] { return state.getValues(); },
      [&] { return getEmptyState().getValues(); }));
}

void TileExpander::expand() {
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

namespace {
struct OnlineSoftmaxPass final
    : mlir::flashcore::impl::OnlineSoftmaxPassBase<OnlineSoftmaxPass> {
  static bool isInsideKeyParts(TileOpInterface op) {
    auto forall = op->getParentOfType<scf::ForallOp>();
    return forall && forall.getRank() == 2;
  }

  static fcgpu::ScheduleAttr getSchedule(TileOpInterface op) {
    return op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
  }

  /// The columns that kernels are made for.
  static LogicalResult checkColumns(TileOpInterface op,
                                    const AttentionProblem &problem) {
    for (auto [name, dim] : {std::pair("head_dim", problem.headDim),
                             {"head_dim_v", problem.headDimV}})
      if (dim > kMostColumns)
        return emitUnsupported(op)
               << "has " << name << " " << dim
               << ", but this version lowers 1 to " << kMostColumns;
    return success();
  }

  /// Rows are in global memory, or a view of pages there.
  static LogicalResult checkMemory(TileOpInterface op) {
    for (auto [name, value] :
         {std::pair<StringRef, Value>("query", op.findQuery()),
          {"key", op.findKey()},
          {"value", op.findValue()},
          {"output", op.getOutput()}}) {
      if (!value)
        continue;
      Attribute space = cast<MemRefType>(value.getType()).getMemorySpace();
      if (!isGlobalMemory(space) && !isa<fcgpu::PagesAttr>(space))
        return op->emitOpError("has ")
               << name << " in memory space " << space
               << ", but tiles read and write global memory: the default "
                  "space, #gpu.address_space<global> or 1";
    }
    return success();
  }

  LogicalResult checkPrecondition(TileOpInterface op) {
    fcgpu::ScheduleAttr schedule = getSchedule(op);
    if (!schedule)
      return op->emitOpError("has no fcgpu.schedule; flashcore-tile leaves it "
                             "on tiles");
    if (schedule.getKeyWarps() > 1 && !isInsideKeyParts(op))
      return op->emitOpError("has key_warps ")
             << schedule.getKeyWarps()
             << ", but does not stand in an scf.forall over rows and key parts";
    AttentionProblem problem = AttentionProblem::getOfTile(op);
    if (problem.seqlenK && *problem.seqlenK < 0)
      return op->emitOpError("expects a tile of at least 0 keys, but got ")
             << *problem.seqlenK;
    if (auto error = checkTileSchedule(problem, schedule.getChoice(),
                                       FieldNames::Attribute))
      return op->emitOpError(*error);
    if (auto tile = dyn_cast<ValuesTileOp>(op.getOperation())) {
      int64_t keys = tile.getProbabilities().getType().getShape().back();
      if (keys != schedule.getBlockN())
        return op->emitOpError("has probabilities of ")
               << keys << " keys a tile, but block_n " << schedule.getBlockN();
    }
    if (schedule.getRowMax() == fcgpu::RowMax::Checked &&
        !op->getParentOfType<scf::ForallOp>())
      return op->emitOpError(
          "has row_max checked, but stands in no scf.forall, "
          "which its block could walk again");
    if (failed(checkColumns(op, problem)) || failed(checkMemory(op)))
      return failure();
    return checkRegions(op);
  }

  /// Behind the loop over warps, the same again of `op` with an exact maximum,
  /// if a flag is raised. Returns that, and the op there.
  static std::pair<Value, AttentionTileOp> addExactWalk(AttentionTileOp op) {
    auto forall = op->getParentOfType<scf::ForallOp>();
    ImplicitLocOpBuilder b(op.getLoc(), forall);
    Value flag =
        fcgpu::AllocFlagOp::create(b, fcgpu::FlagType::get(op.getContext()));
    b.setInsertionPointAfter(forall);
    Value isRaised = fcgpu::TestFlagOp::create(b, flag);
    auto ifOp = scf::IfOp::create(b, isRaised, /*withElseRegion=*/false);
    b.setInsertionPointToStart(ifOp.thenBlock());
    IRMapping mapping;
    b.clone(*forall, mapping);
    auto again = cast<AttentionTileOp>(mapping.lookup(op.getOperation()));
    fcgpu::ScheduleAttr schedule = getSchedule(op);
    fcgpu::ScheduleChoice choice = schedule.getChoice();
    choice.rowMax = fcgpu::RowMax::Exact;
    again->setAttr(
        fcgpu::kScheduleAttrName,
        fcgpu::ScheduleAttr::get(op.getContext(), schedule.getChip(), choice));
    return {flag, again};
  }

  static void expand(AttentionTileOp op) {
    Value flag;
    if (getSchedule(op).getRowMax() == fcgpu::RowMax::Checked) {
      AttentionTileOp again;
      std::tie(flag, again) = addExactWalk(op);
      TileExpander(again).expand();
    }
    TileExpander(op, flag).expand();
  }

  static void expand(TileOpInterface op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case([](AttentionTileOp tile) { expand(tile); })
        .Case([](ScoresTileOp tile) { TileExpander(tile).expandScores(tile); })
        .Case([](ValuesTileOp tile) { TileExpander(tile).expandValues(tile); })
        .DefaultUnreachable("every tile has an expansion");
  }

  void runOnOperation() override {
    SmallVector<TileOpInterface> ops;
    bool anyFailed = false;
    getOperation()->walk([&](Operation *op) {
      if (isa<AttentionOp>(op))
        anyFailed |=
            failed(op->emitOpError("is not a tile; run flashcore-tile first"));
      if (auto tile = dyn_cast<TileOpInterface>(op)) {
        anyFailed |= failed(checkPrecondition(tile));
        ops.push_back(tile);
      }
    });
    if (anyFailed)
      return signalPassFailure();
    for (TileOpInterface op : ops)
      expand(op);
  }
};
} // namespace
