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

#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

namespace mlir::flashcore {
#define GEN_PASS_DEF_ONLINESOFTMAXPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

namespace {
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

/// By how many powers of 2 P may exceed 1 while the maximum is stale: within
/// the range of f16.
constexpr float kSlack = 8;

/// Expands one attention tile.
class TileExpander {
public:
  explicit TileExpander(AttentionOp op)
      : op(op), b(op.getLoc(), op),
        schedule(
            op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName)),
        mask(KeyMask::get(op)), warpM(schedule.getWarpM()),
        blockN(schedule.getBlockN()), headDimV(op.getHeadDimV()),
        half(op.getQueryType().getElementType()) {}

  void expand();

private:
  /// What the key loop carries: the unnormalised output, the row maximum of the
  /// raw scores, and the row sums in eight columns (by adding: partial sums,
  /// which are added up after the loop; by mma: the sum in each). With a folded
  /// maximum, what the products start at and the negative sums: see
  /// followStart.
  struct State {
    Value acc, rowMax, rowSum;
  };
  /// A state and the scores of a tile, which are relative to it.
  struct TileState {
    State state;
    Value scores;
  };
  /// What is written of a state: rows of the unnormalised output, the row
  /// maximum, which `maxToLn` turns into a natural logarithm, and the row sum.
  struct Result {
    Value acc, rowMax, rowSum;
    float maxToLn;
  };

  Value constant(float value, ArrayRef<int64_t> shape) {
    auto type = VectorType::get(shape, b.getF32Type());
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getF32FloatAttr(value).getValue()));
  }
  /// `rows` (one value a row) as a tile of `cols` equal columns.
  Value broadcastRows(Value rows, int64_t cols) {
    int64_t numRows = cast<VectorType>(rows.getType()).getDimSize(0);
    Value column = vector::ShapeCastOp::create(
        b, VectorType::get({numRows, 1}, b.getF32Type()), rows);
    return vector::BroadcastOp::create(
        b, VectorType::get({numRows, cols}, b.getF32Type()), column);
  }
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  Value tileOperand(AttentionOp::TileOperand index) {
    return op.getTile()[index];
  }

  bool coversAllKeys();
  bool endsWithTile(AttentionOp::TileOperand bound);
  OpFoldResult clamp(OpFoldResult bound);
  Value getKeyPart();
  OpFoldResult getFirstQueryOfBlock();
  OpFoldResult getCountOfPart(OpFoldResult count);
  void computeTileCounts();
  Value readTile(Value memref, Value row, int64_t rows, int64_t cols);
  Value contract(Value lhs, Value rhs, Value acc, bool transposedRhs);
  float getScoreScale();
  bool needsTailMask();
  template <typename Builder>
  Value mapScores(Value scores, Value key, Builder build);
  Value loadBias(Value query, Value key);
  Value changeScores(Value scores, Value key);
  Value maskScores(Value scores, Value key);
  Value branch(Value condition, function_ref<Value()> first,
               function_ref<Value()> second);
  void skipUnlessVisible(Value iteration);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  Value isPartial(Value iteration);
  Value groupColumns(Value tile);
  float getExponentScale();
  Value getSafeMax(Value rowMax);
  Value getScaledMax(Value rowMax);
  Value rescaleRows(Value tile, Value factors);
  State followMax(State state, Value rowMax);
  float getSlack();
  Value isAnyTrue(Value tile, Value orElse);
  Value getClearSigns(Value tile);
  Value isFoldedEmpty(State state);
  TileState followMaxRarely(TileState tile, Value isPartial, Value key);
  TileState followStart(TileState tile, Value isPartial, Value key);
  TileState followRarely(TileState tile, Value exceeds, Value isPartial,
                         Value key, function_ref<TileState(TileState)> follow);
  State unfold(State state);
  Value getTileKey(OpFoldResult iteration);
  bool isFolded() { return schedule.getRowMax() == fcgpu::RowMax::Folded; }
  Value buildScores(Value query, Value key, Value start);
  State accumulate(State state, Value scores, Value key, Value addend);
  Value getAddend(State state);
  State buildIteration(Value query, Value iteration, State state);
  State getEmptyState();
  State buildOnline(Value query);
  int64_t getNumTilesOfOnePass();
  bool mayLackTiles();
  Value maskUnlessFull(Value scores, int64_t i, Value key);
  State buildOnePass(Value query);
  Value sumRows(State state);
  Result mergeParts(State state);
  void writeRows(Value tile, Value memref, Value row, ArrayRef<Value> cols);
  void writeResult(Result result);
  void writeLse(Result result, Value isEmpty, Value row);

  AttentionOp op;
  ImplicitLocOpBuilder b;
  fcgpu::ScheduleAttr schedule;
  KeyMask mask;
  int64_t warpM, blockN, headDimV;
  Type half;
  /// Key tiles are counted from the first key of the op.
  OpFoldResult numTiles; ///< visible key tiles
  OpFoldResult endTile;  ///< one past the last of them
  /// Iterations [0, headEnd) and [tailBegin, numTiles) walk partial tiles.
  OpFoldResult headEnd, tailBegin;
};
} // namespace

bool TileExpander::coversAllKeys() {
  return getConstantIntValue(tileOperand(AttentionOp::TileKey)) == 0 &&
         getAsOpFoldResult(tileOperand(AttentionOp::TileKeyEnd)) ==
             getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenK));
}

/// Whether there is certainly a whole number of key tiles before `bound`.
bool TileExpander::endsWithTile(AttentionOp::TileOperand bound) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  AffineMap map = AffineMap::get(2, 0, d0 - d1);
  SmallVector<Value> operands{tileOperand(bound),
                              tileOperand(AttentionOp::TileKey)};
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

/// The first query row of the block is that of its warp 0: the tile's own, with
/// 0 in the place of the warp's number.
OpFoldResult TileExpander::getFirstQueryOfBlock() {
  Value query = tileOperand(AttentionOp::TileQuery);
  auto forall = op->getParentOfType<scf::ForallOp>();
  Operation *definition = query.getDefiningOp();
  if (!forall || !definition || !forall->isProperAncestor(definition))
    return getAsOpFoldResult(query);
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *op) { return forall->isProperAncestor(op); };
  (void)getBackwardSlice(query, &slice, options);
  IRMapping mapping;
  for (Value warp : forall.getInductionVars())
    mapping.map(warp, asValue(b.getIndexAttr(0)));
  for (Operation *op : slice)
    b.clone(*op, mapping);
  return mapping.lookup(query);
}

void TileExpander::computeTileCounts() {
  // The warps of a block walk the same tiles where they fill them together.
  bool isAlone = schedule.getKeyWarps() > 1;
  int64_t numQueries = isAlone ? warpM : schedule.getBlockM();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult firstQuery =
      isAlone ? getAsOpFoldResult(tileOperand(AttentionOp::TileQuery))
              : getFirstQueryOfBlock();
  SmallVector<OpFoldResult> operands{
      firstQuery, getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenQ)),
      getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenK))};
  KeyBounds bounds = getKeyBounds(op.getContext(), mask, numQueries);
  if (!coversAllKeys()) {
    bounds = bounds.within();
    for (auto bound : {AttentionOp::TileKey, AttentionOp::TileKeyEnd})
      operands.push_back(getAsOpFoldResult(tileOperand(bound)));
  }
  auto end = [&](AffineMap map) {
    return clamp(
        affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, operands));
  };
  auto begin = [&](AffineMap map) {
    return clamp(
        affine::makeComposedFoldedAffineMax(b, b.getLoc(), map, operands));
  };
  bool hasPartialEnd = bounds.visibleEnd != bounds.fullEnd ||
                       !endsWithTile(AttentionOp::TileKeyEnd) ||
                       !endsWithTile(AttentionOp::TileSeqlenK);
  OpFoldResult visibleEnd = end(bounds.visibleEnd);
  // The maximum of the clamp hides this bound, which copies need.
  if (coversAllKeys())
    visibleEnd = affine::makeComposedFoldedAffineMin(
        b, b.getLoc(), AffineMap::getMultiDimIdentityMap(2, op.getContext()),
        {visibleEnd, operands[2]});
  // Tiles are walked from the last visible one down.
  numTiles = endTile = apply(
      hasPartialEnd ? d0.ceilDiv(blockN) : d0.floorDiv(blockN), {visibleEnd});
  OpFoldResult numFull = endTile;
  if (hasPartialEnd)
    numFull = apply(d0.floorDiv(blockN), {end(bounds.fullEnd)});
  headEnd = apply(d0 - d1, {endTile, numFull});
  if (mask.windowLeft) {
    OpFoldResult firstTile =
        apply(d0.floorDiv(blockN), {begin(bounds.visibleBegin)});
    OpFoldResult firstFull =
        apply(d0.ceilDiv(blockN), {begin(bounds.fullBegin)});
    numTiles = clamp(apply(d0 - d1, {endTile, firstTile}));
    tailBegin = getCountOfPart(apply(d0 - d1, {endTile, firstFull}));
  }
  numTiles = getCountOfPart(numTiles);
  headEnd = getCountOfPart(headEnd);
}

Value TileExpander::readTile(Value memref, Value row, int64_t rows,
                             int64_t cols) {
  // Rows past the end of the memref read as zeros: a zero K row gives score 0
  // (the mask hides it), a zero V row keeps 0 * P from becoming NaN.
  Value zero = asValue(b.getIndexAttr(0));
  Value padding = arith::ConstantOp::create(b, b.getZeroAttr(half));
  auto type = VectorType::get({rows, cols}, half);
  return vector::TransferReadOp::create(b, type, memref,
                                        ValueRange{zero, zero, row, zero},
                                        padding, ArrayRef<bool>{false, true});
}

Value TileExpander::contract(Value lhs, Value rhs, Value acc,
                             bool transposedRhs) {
  AffineExpr m, n, k;
  bindDims(op.getContext(), m, n, k);
  auto map = [&](AffineExpr x, AffineExpr y) {
    return AffineMapAttr::get(AffineMap::get(3, 0, {x, y}, op.getContext()));
  };
  auto parallel = vector::IteratorTypeAttr::get(op.getContext(),
                                                vector::IteratorType::parallel);
  auto reduction = vector::IteratorTypeAttr::get(
      op.getContext(), vector::IteratorType::reduction);
  SmallVector<Attribute> maps{map(m, k), transposedRhs ? map(n, k) : map(k, n),
                              map(m, n)};
  SmallVector<Attribute> iterators{parallel, parallel, reduction};
  return vector::ContractionOp::create(b, lhs, rhs, acc, b.getArrayAttr(maps),
                                       b.getArrayAttr(iterators));
}

/// What a score that leaves changeScores still has to be multiplied with.
float TileExpander::getScoreScale() {
  if (auto softcap = op.getSoftcap())
    return softcap->convertToFloat();
  return op.getBias() ? 1.0f : op.getEffectiveScale();
}

/// The c in exp(scale * (s - max)) = exp2(c * s - c * max).
float TileExpander::getExponentScale() {
  return getScoreScale() * llvm::numbers::log2ef;
}

/// A map_scores whose result is what `build(score, query, key)` returns.
template <typename Builder>
Value TileExpander::mapScores(Value scores, Value key, Builder build) {
  auto map = fcgpu::MapScoresOp::create(
      b, scores.getType(), scores, tileOperand(AttentionOp::TileQuery), key);
  OpBuilder::InsertionGuard guard(b);
  Type index = b.getIndexType();
  Block *body =
      b.createBlock(&map.getBody(), {}, {b.getF32Type(), index, index},
                    {b.getLoc(), b.getLoc(), b.getLoc()});
  Value result =
      build(body->getArgument(0), body->getArgument(1), body->getArgument(2));
  fcgpu::YieldOp::create(b, result);
  return map.getResult();
}

/// The bias of one score, in f32. Rows and keys past the end of the sequences
/// read the last one: nobody looks at the result.
Value TileExpander::loadBias(Value query, Value key) {
  Value bias = op.getBias();
  auto type = cast<MemRefType>(bias.getType());
  auto inside = [&](Value index, AttentionOp::TileOperand extent) -> Value {
    Value last = asValue(
        apply(b.getAffineDimExpr(0) - 1, {OpFoldResult(tileOperand(extent))}));
    return arith::MinSIOp::create(b, index, last);
  };
  Value coordinates[] = {tileOperand(AttentionOp::TileBatch),
                         tileOperand(AttentionOp::TileHead),
                         inside(query, AttentionOp::TileSeqlenQ),
                         inside(key, AttentionOp::TileSeqlenK)};
  SmallVector<Value> indices;
  for (auto [coordinate, size] : llvm::zip_equal(coordinates, type.getShape()))
    indices.push_back(size == 1 ? asValue(b.getIndexAttr(0)) : coordinate);
  Value value = memref::LoadOp::create(b, bias, indices);
  if (!type.getElementType().isF32())
    value = arith::ExtFOp::create(b, b.getF32Type(), value);
  return value;
}

/// cap(scale * score + bias), but for the factor getScoreScale().
Value TileExpander::changeScores(Value scores, Value key) {
  if (!op.getSoftcap() && !op.getBias())
    return scores;
  auto factor = [&](float value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  };
  float capInverse =
      op.getSoftcap() ? 1.0f / op.getSoftcap()->convertToFloat() : 1.0f;
  return mapScores(scores, key, [&](Value score, Value query, Value keyIndex) {
    Value scale = factor(op.getEffectiveScale() * capInverse);
    Value result;
    if (op.getBias()) {
      Value bias = loadBias(query, keyIndex);
      if (op.getSoftcap())
        bias = arith::MulFOp::create(b, bias, factor(capInverse));
      result = math::FmaOp::create(b, score, scale, bias);
    } else {
      result = arith::MulFOp::create(b, score, scale);
    }
    return op.getSoftcap() ? math::TanhOp::create(b, result).getResult()
                           : result;
  });
}

/// In one pass, a warp walks as many tiles as any warp of any block may have.
int64_t TileExpander::getNumTilesOfOnePass() {
  int64_t seqlenK = *getConstantIntValue(tileOperand(AttentionOp::TileSeqlenK));
  return getTilesOfPart(seqlenK, getChoice(schedule));
}

/// Whether one pass may walk tiles that are not there.
bool TileExpander::mayLackTiles() {
  return schedule.getSoftmax() == fcgpu::Softmax::OnePass &&
         getConstantIntValue(numTiles) != getNumTilesOfOnePass();
}

/// Whether some key of a visited tile may lie past seqlen_k and still be
/// visible by all other rules.
bool TileExpander::needsTailMask() {
  if (mayLackTiles())
    return true;
  // j <= i + seqlen_k - seqlen_q < seqlen_k for every real row.
  if (op.getCausal() == CausalAlignment::BottomRight || mask.windowRight == 0)
    return false;
  return !endsWithTile(AttentionOp::TileSeqlenK);
}

Value TileExpander::maskScores(Value scores, Value key) {
  return mapScores(scores, key, [&](Value score, Value query, Value keyIndex) {
    AffineExpr d0, d1, d2, d3;
    bindDims(op.getContext(), d0, d1, d2, d3);
    SmallVector<OpFoldResult> operands{query,
                                       tileOperand(AttentionOp::TileSeqlenQ),
                                       tileOperand(AttentionOp::TileSeqlenK)};
    auto makeMap = [&](ArrayRef<AffineExpr> keys) {
      return AffineMap::get(operands.size(), 0, keys, op.getContext());
    };
    // One comparison an element for each side that is hidden.
    SmallVector<AffineExpr> last = mask.getLastKeys(d0, d1, d2);
    if (!needsTailMask())
      llvm::erase(last, d2 - 1);
    if (!coversAllKeys() && !endsWithTile(AttentionOp::TileKeyEnd)) {
      operands.push_back(tileOperand(AttentionOp::TileKeyEnd));
      last.push_back(d3 - 1);
    }
    Value visible;
    if (!last.empty())
      visible =
          arith::CmpIOp::create(b, arith::CmpIPredicate::sle, keyIndex,
                                asValue(affine::makeComposedFoldedAffineMin(
                                    b, b.getLoc(), makeMap(last), operands)));
    if (mask.windowLeft) {
      Value first = asValue(affine::makeComposedFoldedAffineMax(
          b, b.getLoc(), makeMap(mask.getFirstKeys(d0, d1, d2)), operands));
      Value isLate =
          arith::CmpIOp::create(b, arith::CmpIPredicate::sge, keyIndex, first);
      visible = visible ? arith::AndIOp::create(b, visible, isLate).getResult()
                        : isLate;
    }
    if (!visible)
      return score;
    Value hidden = arith::ConstantOp::create(b, b.getF32FloatAttr(kMinusInf));
    return arith::SelectOp::create(b, visible, score, hidden).getResult();
  });
}

/// `first()` if the condition holds, else `second()`.
Value TileExpander::branch(Value condition, function_ref<Value()> first,
                           function_ref<Value()> second) {
  auto build = [&](function_ref<Value()> side) {
    return [this, side](OpBuilder &builder, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(builder.getInsertionBlock());
      scf::YieldOp::create(b, side());
    };
  };
  return scf::IfOp::create(b, condition, build(first), build(second))
      .getResult(0);
}

/// A partial tile that some warp of the block sees may hide all its keys from
/// another. With sizes known at run time only, or with Q of the widest heads,
/// there are no registers left to find out.
void TileExpander::skipUnlessVisible(Value iteration) {
  bool hidesKeys = mask.causal || mask.windowLeft || mask.windowRight;
  bool isShared = schedule.getRowWarps() > 1 && schedule.getKeyWarps() == 1;
  bool hasSizes = getConstantIntValue(tileOperand(AttentionOp::TileSeqlenQ)) &&
                  getConstantIntValue(tileOperand(AttentionOp::TileSeqlenK));
  bool isFull = schedule.getQuery() == fcgpu::QueryPlacement::Registers &&
                std::max(op.getHeadDim(), headDimV) > kWidestWithSpareRegisters;
  if (!hidesKeys || !isShared || !hasSizes || isFull ||
      schedule.getOverlap() != fcgpu::Overlap::None)
    return;
  SmallVector<OpFoldResult> operands{
      getAsOpFoldResult(tileOperand(AttentionOp::TileQuery)),
      getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenQ)),
      getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenK))};
  KeyBounds bounds = getKeyBounds(op.getContext(), mask, warpM);
  AffineExpr end, bound, firstKey;
  bindDims(op.getContext(), end, bound, firstKey);
  auto getIteration = [&](AffineExpr tile, OpFoldResult key) {
    OpFoldResult first = getAsOpFoldResult(tileOperand(AttentionOp::TileKey));
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
    if (mask.windowLeft)
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

Value TileExpander::maskWhenPartial(Value scores, Value iteration, Value key) {
  auto isBefore = [&](OpFoldResult bound) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, iteration,
                                 asValue(bound));
  };
  auto masked = [&] { return maskScores(scores, key); };
  auto head = [&] {
    if (getConstantIntValue(headEnd) == 0)
      return scores;
    return branch(isBefore(headEnd), masked, [&] { return scores; });
  };
  return mask.windowLeft ? branch(isBefore(tailBegin), head, masked) : head();
}

/// Whether the tile of an iteration is partial; null if no tile is.
Value TileExpander::isPartial(Value iteration) {
  Value holds;
  auto add = [&](arith::CmpIPredicate predicate, OpFoldResult bound) {
    Value isSide =
        arith::CmpIOp::create(b, predicate, iteration, asValue(bound));
    holds = holds ? arith::OrIOp::create(b, holds, isSide).getResult() : isSide;
  };
  if (getConstantIntValue(headEnd) != 0)
    add(arith::CmpIPredicate::slt, headEnd);
  if (mask.windowLeft)
    add(arith::CmpIPredicate::sge, tailBegin);
  return holds;
}

/// Columns 8 apart side by side: reduced, they leave eight partial results a
/// row.
Value TileExpander::groupColumns(Value tile) {
  Type element = cast<VectorType>(tile.getType()).getElementType();
  return vector::ShapeCastOp::create(
      b, VectorType::get({warpM, blockN / 8, 8}, element), tile);
}

/// The maximum to subtract. A row that has seen no key yet takes 0.
Value TileExpander::getSafeMax(Value rowMax) {
  int64_t rows = cast<VectorType>(rowMax.getType()).getDimSize(0);
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowMax,
                                        constant(kMinusInf, {rows}));
  return arith::SelectOp::create(b, isEmpty, constant(0.0f, {rows}), rowMax);
}

/// -c * max, of the maximum to subtract.
Value TileExpander::getScaledMax(Value rowMax) {
  return arith::MulFOp::create(b, getSafeMax(rowMax),
                               constant(-getExponentScale(), {warpM}));
}

Value TileExpander::rescaleRows(Value tile, Value factors) {
  int64_t cols = cast<VectorType>(tile.getType()).getDimSize(1);
  return arith::MulFOp::create(b, tile, broadcastRows(factors, cols));
}

/// The state relative to `rowMax`, which is not below the state's own.
TileExpander::State TileExpander::followMax(State state, Value rowMax) {
  Value scale = constant(getExponentScale(), {warpM});
  Value factors = math::Exp2Op::create(
      b, math::FmaOp::create(b, state.rowMax, scale, getScaledMax(rowMax)));
  return {rescaleRows(state.acc, factors), rowMax,
          rescaleRows(state.rowSum, factors)};
}

/// The slack in units of the raw scores.
float TileExpander::getSlack() { return kSlack / getExponentScale(); }

/// Whether any element of a tile of i1 is true, or `orElse` (which may be
/// null).
Value TileExpander::isAnyTrue(Value tile, Value orElse) {
  if (!orElse)
    orElse = arith::ConstantOp::create(b, b.getBoolAttr(false));
  return vector::MultiDimReductionOp::create(
      b, tile, orElse, ArrayRef<bool>{true, true}, vector::CombiningKind::OR);
}

/// `follow(tile)` if any of `exceeds` is true, else the tile as it is. A
/// partial tile takes that branch, too, where it is masked first: full tiles
/// then need no loop of their own to be rid of the mask.
TileExpander::TileState
TileExpander::followRarely(TileState tile, Value exceeds, Value isPartial,
                           Value key,
                           function_ref<TileState(TileState)> follow) {
  Value follows = isAnyTrue(exceeds, isPartial);
  auto values = [](TileState tile) {
    return SmallVector<Value>{tile.state.acc, tile.state.rowMax,
                              tile.state.rowSum, tile.scores};
  };
  auto ifOp = scf::IfOp::create(b, TypeRange(ValueRange(values(tile))), follows,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, values(tile));
  b.setInsertionPointToStart(ifOp.thenBlock());
  if (isPartial)
    tile.scores = maskScores(tile.scores, key);
  scf::YieldOp::create(b, values(follow(tile)));
  return {{ifOp.getResult(0), ifOp.getResult(1), ifOp.getResult(2)},
          ifOp.getResult(3)};
}

/// Follows the maximum only if some score of the warp's rows exceeds its row's
/// by a factor of 2^8 after exponentiation (FlashAttention-4's conditional
/// rescaling): P then stays within the range of f16, and O and the sum relative
/// to the old maximum are as good.
TileExpander::TileState
TileExpander::followMaxRarely(TileState tile, Value isPartial, Value key) {
  auto getPartialMax = [&](Value scores) -> Value {
    return vector::MultiDimReductionOp::create(
        b, groupColumns(scores), constant(kMinusInf, {warpM, 8}),
        ArrayRef<bool>{false, true, false}, vector::CombiningKind::MAXNUMF);
  };
  Value limits = arith::AddFOp::create(b, tile.state.rowMax,
                                       constant(getSlack(), {warpM}));
  Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                        getPartialMax(tile.scores),
                                        broadcastRows(limits, 8));
  auto follow = [&](TileState tile) -> TileState {
    Value rowMax = vector::MultiDimReductionOp::create(
        b, getPartialMax(tile.scores), tile.state.rowMax,
        ArrayRef<bool>{false, true}, vector::CombiningKind::MAXNUMF);
    return {followMax(tile.state, rowMax), tile.scores};
  };
  return followRarely(tile, exceeds, isPartial, key, follow);
}

/// The sign bits of a tile, as flags that are set where it is not negative.
Value TileExpander::getClearSigns(Value tile) {
  auto type = cast<VectorType>(tile.getType()).clone(b.getI32Type());
  Value bits = arith::BitcastOp::create(b, type, tile);
  Value minusOne =
      arith::ConstantOp::create(b, DenseElementsAttr::get(type, -1));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, bits, minusOne);
}

/// Which rows have seen no key, of a state with negative sums.
Value TileExpander::isFoldedEmpty(State state) {
  state.rowSum = arith::NegFOp::create(b, state.rowSum);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sumRows(state),
                               constant(0, {warpM}));
}

/// Like followMaxRarely, of scores that are relative already: the products
/// started at -(max + slack). So a score that exceeds the old maximum too far
/// is one whose sign bit is clear, and nothing is subtracted from the others. A
/// row that has seen no key starts at 0 and takes any maximum; its sum is +0,
/// which is the only one without a sign bit. Also returns the scores relative
/// to the new start.
TileExpander::TileState TileExpander::followStart(TileState tile,
                                                  Value isPartial, Value key) {
  Value exceeds = vector::MultiDimReductionOp::create(
      b, groupColumns(getClearSigns(tile.scores)),
      getClearSigns(tile.state.rowSum), ArrayRef<bool>{false, true, false},
      vector::CombiningKind::OR);
  auto follow = [&](TileState tile) -> TileState {
    auto [state, scores] = tile;
    Value zero = constant(0, {warpM});
    Value tileMax = vector::MultiDimReductionOp::create(
        b, scores, constant(kMinusInf, {warpM}), ArrayRef<bool>{false, true},
        vector::CombiningKind::MAXNUMF);
    Value raise = getSafeMax(
        arith::AddFOp::create(b, tileMax, constant(getSlack(), {warpM})));
    Value growth = arith::MaxNumFOp::create(b, raise, zero);
    raise = arith::SelectOp::create(b, isFoldedEmpty(state), raise, growth);
    Value factors = math::Exp2Op::create(
        b, arith::MulFOp::create(b, growth,
                                 constant(-getExponentScale(), {warpM})));
    return {{rescaleRows(state.acc, factors),
             arith::SubFOp::create(b, state.rowMax, raise),
             rescaleRows(state.rowSum, factors)},
            arith::SubFOp::create(b, scores, broadcastRows(raise, blockN))};
  };
  return followRarely(tile, exceeds, isPartial, key, follow);
}

/// The state with the row maximum in the place of the start.
TileExpander::State TileExpander::unfold(State state) {
  Value rowMax =
      arith::SubFOp::create(b, constant(-getSlack(), {warpM}), state.rowMax);
  rowMax = arith::SelectOp::create(b, isFoldedEmpty(state),
                                   constant(kMinusInf, {warpM}), rowMax);
  return {state.acc, rowMax, arith::NegFOp::create(b, state.rowSum)};
}

/// The first key of the tile of an iteration.
Value TileExpander::getTileKey(OpFoldResult iteration) {
  AffineExpr d0, d1, d2, d3;
  bindDims(op.getContext(), d0, d1, d2, d3);
  int64_t parts = schedule.getKeyWarps();
  OpFoldResult part =
      parts > 1 ? OpFoldResult(getKeyPart()) : b.getIndexAttr(0);
  OpFoldResult firstKey = getAsOpFoldResult(tileOperand(AttentionOp::TileKey));
  return asValue(apply(d3 + (d0 - d1 * parts - d2 - 1) * blockN,
                       {endTile, iteration, part, firstKey}));
}

/// Q K^T of the tile from `key` on, added to `start`.
Value TileExpander::buildScores(Value query, Value key, Value start) {
  Value k = readTile(op.getKey(), key, blockN, op.getHeadDim());
  return contract(query, k, start, /*transposedRhs=*/true);
}

/// Adds a tile to the state: P = exp2(c * s + addend) to the sum, with the c of
/// getExponentScale(), and P V to O.
TileExpander::State TileExpander::accumulate(State state, Value scores,
                                             Value key, Value addend) {
  Value scale = constant(getExponentScale(), {warpM, blockN});
  Value p =
      math::Exp2Op::create(b, math::FmaOp::create(b, scores, scale, addend));
  Value pHalf =
      arith::TruncFOp::create(b, VectorType::get({warpM, blockN}, half), p);
  if (schedule.getRowSum() == fcgpu::RowSum::Mma) {
    auto type = VectorType::get({blockN, 8}, half);
    Value ones = arith::ConstantOp::create(
        b, DenseElementsAttr::get(
               type, b.getFloatAttr(half, isFolded() ? -1.0 : 1.0)));
    state.rowSum = contract(pHalf, ones, state.rowSum, /*transposedRhs=*/false);
  } else {
    state.rowSum = vector::MultiDimReductionOp::create(
        b, groupColumns(p), state.rowSum, ArrayRef<bool>{false, true, false},
        vector::CombiningKind::ADD);
  }
  Value v = readTile(op.getValue(), key, blockN, headDimV);
  state.acc = contract(pHalf, v, state.acc, /*transposedRhs=*/false);
  return state;
}

/// P relative to the maximum of the state.
Value TileExpander::getAddend(State state) {
  return broadcastRows(getScaledMax(state.rowMax), blockN);
}

TileExpander::State TileExpander::buildIteration(Value query, Value iteration,
                                                 State state) {
  Value key = getTileKey(iteration);
  Value start = isFolded() ? broadcastRows(state.rowMax, blockN)
                           : constant(0.0f, {warpM, blockN});
  Value scores = buildScores(query, key, start);
  scores = changeScores(scores, key);
  skipUnlessVisible(iteration);
  if (schedule.getRowMax() == fcgpu::RowMax::Exact) {
    scores = maskWhenPartial(scores, iteration, key);
    Value rowMax = vector::MultiDimReductionOp::create(
        b, scores, state.rowMax, ArrayRef<bool>{false, true},
        vector::CombiningKind::MAXNUMF);
    state = followMax(state, rowMax);
    return accumulate(state, scores, key, getAddend(state));
  }
  Value partial = isPartial(iteration);
  if (isFolded()) {
    TileState tile = followStart({state, scores}, partial, key);
    Value slack = constant(kSlack, {warpM, blockN});
    return accumulate(tile.state, tile.scores, key, slack);
  }
  TileState tile = followMaxRarely({state, scores}, partial, key);
  return accumulate(tile.state, tile.scores, key, getAddend(tile.state));
}

/// The state before the first tile.
TileExpander::State TileExpander::getEmptyState() {
  return {constant(0.0f, {warpM, headDimV}),
          constant(isFolded() ? 0.0f : kMinusInf, {warpM}),
          constant(0.0f, {warpM, 8})};
}

/// All tiles in a loop.
TileExpander::State TileExpander::buildOnline(Value query) {
  Value c0 = asValue(b.getIndexAttr(0)), c1 = asValue(b.getIndexAttr(1));
  State empty = getEmptyState();
  Value init[] = {empty.acc, empty.rowMax, empty.rowSum};
  auto loop = scf::ForOp::create(b, c0, asValue(numTiles), c1, init);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  State next = buildIteration(query, loop.getInductionVar(),
                              {args[0], args[1], args[2]});
  scf::YieldOp::create(b, ValueRange{next.acc, next.rowMax, next.rowSum});
  b.setInsertionPointAfter(loop);
  State last = {loop.getResult(0), loop.getResult(1), loop.getResult(2)};
  return isFolded() ? unfold(last) : last;
}

/// Masks the tile of iteration `i` where it is partial or not there at all.
Value TileExpander::maskUnlessFull(Value scores, int64_t i, Value key) {
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
  if (mask.windowLeft)
    add(arith::CmpIPredicate::sge, tailBegin);
  return isMasked ? branch(
                        isMasked, [&] { return maskScores(scores, key); },
                        [&] { return scores; })
                  : scores;
}

/// All scores first, then one maximum and all exponentials. Tiles that are not
/// there start at the end of the sequence: they read as zeros and are masked.
TileExpander::State TileExpander::buildOnePass(Value query) {
  int64_t count = getNumTilesOfOnePass();
  Value end = tileOperand(AttentionOp::TileSeqlenK);
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
    scores.push_back(buildScores(query, key, constant(0.0f, {warpM, blockN})));
  State state = getEmptyState();
  Value tileMax;
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = changeScores(scores[i], keys[i]);
    scores[i] = maskUnlessFull(scores[i], i, keys[i]);
    tileMax =
        tileMax ? arith::MaxNumFOp::create(b, tileMax, scores[i]) : scores[i];
  }
  state.rowMax = vector::MultiDimReductionOp::create(
      b, tileMax, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  for (auto [key, tile] : llvm::zip_equal(keys, scores))
    state = accumulate(state, tile, key, getAddend(state));
  return state;
}

/// The sum of each row: of its eight partial sums, or any of eight equal ones.
Value TileExpander::sumRows(State state) {
  auto kind = schedule.getRowSum() == fcgpu::RowSum::Mma
                  ? vector::CombiningKind::MAXNUMF
                  : vector::CombiningKind::ADD;
  return vector::MultiDimReductionOp::create(b, state.rowSum,
                                             constant(0.0f, {warpM}),
                                             ArrayRef<bool>{false, true}, kind);
}

/// This warp's share of the rows, over all keys: each part's share, relative to
/// the maximum of all, added up. Maxima are exponents of 2 here.
TileExpander::Result TileExpander::mergeParts(State state) {
  Value exponents = arith::MulFOp::create(
      b, state.rowMax, constant(getExponentScale(), {warpM}));
  Value tiles[] = {state.acc, exponents, sumRows(state)};
  auto exchange = fcgpu::AllToAllOp::create(
      b, tiles, getKeyPart(), static_cast<uint64_t>(schedule.getKeyWarps()));
  ValueRange accs = exchange.getSharesOf(0), maxima = exchange.getSharesOf(1),
             sums = exchange.getSharesOf(2);
  Value rowMax = maxima.front();
  for (Value other : maxima.drop_front())
    rowMax = arith::MaxNumFOp::create(b, rowMax, other);
  Value safeMax = getSafeMax(rowMax);
  int64_t cols = cast<VectorType>(accs.front().getType()).getDimSize(1);
  Value acc, rowSum;
  for (auto [partAcc, partMax, partSum] : llvm::zip_equal(accs, maxima, sums)) {
    Value factors =
        math::Exp2Op::create(b, arith::SubFOp::create(b, partMax, safeMax));
    Value columns = broadcastRows(factors, cols);
    acc = acc ? math::FmaOp::create(b, partAcc, columns, acc).getResult()
              : arith::MulFOp::create(b, partAcc, columns).getResult();
    rowSum = rowSum
                 ? math::FmaOp::create(b, partSum, factors, rowSum).getResult()
                 : arith::MulFOp::create(b, partSum, factors).getResult();
  }
  return {acc, rowMax, rowSum, llvm::numbers::ln2f};
}

/// Writes a tile (or row vector) to rows of `memref` from `row` on.
void TileExpander::writeRows(Value tile, Value memref, Value row,
                             ArrayRef<Value> cols) {
  Value zero = asValue(b.getIndexAttr(0));
  SmallVector<Value> indices{zero, zero, row};
  llvm::append_range(indices, cols);
  // A memref of all the rows of the warp has those of a share.
  auto rows = cast<MemRefType>(memref.getType()).getDimSize(2);
  SmallVector<bool> inBounds(cols.size() + 1, true);
  inBounds.front() = schedule.getKeyWarps() > 1 && rows == warpM;
  vector::TransferWriteOp::create(b, tile, memref, indices,
                                  ArrayRef<bool>(inBounds));
}

/// lse = max + ln(sum), ln(x) = log2(x) * ln(2).
void TileExpander::writeLse(Result result, Value isEmpty, Value row) {
  int64_t rows = cast<VectorType>(result.rowSum.getType()).getDimSize(0);
  Value log = arith::MulFOp::create(b, math::Log2Op::create(b, result.rowSum),
                                    constant(llvm::numbers::ln2f, {rows}));
  Value lse = math::FmaOp::create(b, result.rowMax,
                                  constant(result.maxToLn, {rows}), log);
  lse = arith::SelectOp::create(b, isEmpty, constant(kMinusInf, {rows}), lse);
  writeRows(lse, op.getLse(), row, {});
}

void TileExpander::writeResult(Result result) {
  auto type = cast<VectorType>(result.acc.getType());
  int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
  Value zero = constant(0.0f, {rows});
  // The largest visible score alone contributes 1, so a sum of 0 means that the
  // row sees no key.
  Value isEmpty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, result.rowSum, zero);
  Value inverse =
      arith::DivFOp::create(b, constant(1.0f, {rows}), result.rowSum);
  inverse = arith::SelectOp::create(b, isEmpty, zero, inverse);
  Value o = arith::MulFOp::create(b, result.acc, broadcastRows(inverse, cols));
  Type element = op.getOutputType().getElementType();
  if (!element.isF32())
    o = arith::TruncFOp::create(b, VectorType::get({rows, cols}, element), o);

  // Where the share of a part lies (see fcgpu.all_to_all).
  OpFoldResult row = b.getIndexAttr(0), col = b.getIndexAttr(0);
  int64_t parts = schedule.getKeyWarps();
  int64_t colShares = headDimV / cols;
  if (parts > 1) {
    AffineExpr d0 = b.getAffineDimExpr(0);
    row = apply(d0.floorDiv(colShares) * rows, {getKeyPart()});
    col = apply((d0 % colShares) * cols, {getKeyPart()});
  }
  writeRows(o, op.getOutput(), asValue(row), asValue(col));
  if (!op.getLse())
    return;
  if (colShares == 1)
    return writeLse(result, isEmpty, asValue(row));
  // The warps that share rows hold the same log-sum-exp.
  Value isFirst = arith::CmpIOp::create(
      b, arith::CmpIPredicate::eq, asValue(col), asValue(b.getIndexAttr(0)));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  writeLse(result, isEmpty, asValue(row));
}

void TileExpander::expand() {
  computeTileCounts();
  Value query = readTile(op.getQuery(), asValue(b.getIndexAttr(0)), warpM,
                         op.getHeadDim());
  State last = schedule.getSoftmax() == fcgpu::Softmax::OnePass
                   ? buildOnePass(query)
                   : buildOnline(query);
  if (schedule.getKeyWarps() > 1)
    writeResult(mergeParts(last));
  else
    writeResult({last.acc, last.rowMax, sumRows(last), getScoreScale()});
  op.erase();
}

namespace {
struct OnlineSoftmaxPass final
    : mlir::flashcore::impl::OnlineSoftmaxPassBase<OnlineSoftmaxPass> {
  static bool isInsideKeyParts(AttentionOp op) {
    auto forall = op->getParentOfType<scf::ForallOp>();
    return forall && forall.getRank() == 2;
  }

  LogicalResult checkPrecondition(AttentionOp op) {
    if (op.getTile().empty() || !op.hasPureBufferSemantics())
      return op.emitOpError("is not a tile on memrefs; run flashcore-tile "
                            "first");
    if (!op->hasAttr(fcgpu::kScheduleAttrName))
      return op.emitOpError("has no fcgpu.schedule; run flashcore-configure "
                            "first");
    auto schedule =
        op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
    if (schedule.getSoftmax() == fcgpu::Softmax::OnePass &&
        !getConstantIntValue(op.getTile()[AttentionOp::TileSeqlenK]))
      return op.emitOpError("has softmax one_pass, which needs a constant "
                            "seqlen_k");
    if (schedule.getKeyWarps() > 1 && !isInsideKeyParts(op))
      return op.emitOpError("has key_warps ")
             << schedule.getKeyWarps()
             << ", but does not stand in an scf.forall over rows and key parts";
    auto results = VectorType::get({schedule.getWarpM(), op.getHeadDimV()},
                                   Float32Type::get(&getContext()));
    if (failed(fcgpu::getShareType(results, schedule.getKeyWarps())))
      return op.emitOpError("has key_warps ")
             << schedule.getKeyWarps() << ", which cannot share "
             << schedule.getWarpM() << " x " << op.getHeadDimV()
             << " results evenly in whole 8x8 cores";
    return checkLowerable(op);
  }

  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    bool anyFailed = false;
    getOperation()->walk([&](AttentionOp op) {
      anyFailed |= failed(checkPrecondition(op));
      ops.push_back(op);
    });
    if (anyFailed)
      return signalPassFailure();
    for (AttentionOp op : ops)
      TileExpander(op).expand();
  }
};
} // namespace
