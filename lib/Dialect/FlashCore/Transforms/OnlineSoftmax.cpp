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
/// log2(e): exp(x) = exp2(x * log2e).
constexpr float kLog2e = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

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
  /// which are added up after the loop; by mma: the sum in each).
  struct State {
    Value acc, rowMax, rowSum;
  };

  Value constant(float value, ArrayRef<int64_t> shape) {
    auto type = VectorType::get(shape, b.getF32Type());
    return arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getF32FloatAttr(value).getValue()));
  }
  /// `rows` (one value a row) as a tile of `cols` equal columns.
  Value broadcastRows(Value rows, int64_t cols) {
    Value column = vector::ShapeCastOp::create(
        b, VectorType::get({warpM, 1}, b.getF32Type()), rows);
    return vector::BroadcastOp::create(
        b, VectorType::get({warpM, cols}, b.getF32Type()), column);
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
  OpFoldResult getFirstQueryOfBlock();
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
  Value branch(Value iteration, OpFoldResult bound, function_ref<Value()> first,
               function_ref<Value()> second);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  Value groupColumns(Value tile);
  Value getSafeMax(Value rowMax);
  Value rescaleRows(Value tile, Value factors);
  State followMax(State state, Value rowMax);
  State followMaxRarely(State state, Value scores);
  State buildIteration(Value query, Value iteration, State state);
  void writeResults(State state);

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
  // All warps of a block walk the same tiles, since they fill them together.
  int64_t blockM = schedule.getBlockM();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult firstQuery = getFirstQueryOfBlock();
  SmallVector<OpFoldResult> operands{
      firstQuery, getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenQ)),
      getAsOpFoldResult(tileOperand(AttentionOp::TileSeqlenK))};
  KeyBounds bounds = getKeyBounds(op.getContext(), mask, blockM);
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
  // Tiles are walked from the last visible one down.
  numTiles = endTile =
      apply(hasPartialEnd ? d0.ceilDiv(blockN) : d0.floorDiv(blockN),
            {end(bounds.visibleEnd)});
  OpFoldResult numFull = endTile;
  if (hasPartialEnd)
    numFull = apply(d0.floorDiv(blockN), {end(bounds.fullEnd)});
  headEnd = apply(d0 - d1, {endTile, numFull});
  if (!mask.windowLeft)
    return;
  OpFoldResult firstTile =
      apply(d0.floorDiv(blockN), {begin(bounds.visibleBegin)});
  OpFoldResult firstFull = apply(d0.ceilDiv(blockN), {begin(bounds.fullBegin)});
  numTiles = clamp(apply(d0 - d1, {endTile, firstTile}));
  tailBegin = apply(d0 - d1, {endTile, firstFull});
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

/// Whether some key of a visited tile may lie past seqlen_k and still be
/// visible by all other rules.
bool TileExpander::needsTailMask() {
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

/// `first` in the iterations before `bound`, `second()` from there on.
Value TileExpander::branch(Value iteration, OpFoldResult bound,
                           function_ref<Value()> first,
                           function_ref<Value()> second) {
  Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                         iteration, asValue(bound));
  auto ifOp = scf::IfOp::create(
      b, isBefore,
      [&](OpBuilder &builder, Location loc) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(builder.getInsertionBlock());
        scf::YieldOp::create(b, first());
      },
      [&](OpBuilder &builder, Location loc) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToStart(builder.getInsertionBlock());
        scf::YieldOp::create(b, second());
      });
  return ifOp.getResult(0);
}

Value TileExpander::maskWhenPartial(Value scores, Value iteration, Value key) {
  auto masked = [&] { return maskScores(scores, key); };
  auto head = [&] {
    if (getConstantIntValue(headEnd) == 0)
      return scores;
    return branch(iteration, headEnd, masked, [&] { return scores; });
  };
  return mask.windowLeft ? branch(iteration, tailBegin, head, masked) : head();
}

/// Columns 8 apart side by side: reduced, they leave eight partial results a
/// row.
Value TileExpander::groupColumns(Value tile) {
  return vector::ShapeCastOp::create(
      b, VectorType::get({warpM, blockN / 8, 8}, b.getF32Type()), tile);
}

/// The maximum to subtract. A row that has seen no key yet takes 0.
Value TileExpander::getSafeMax(Value rowMax) {
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowMax,
                                        constant(kMinusInf, {warpM}));
  return arith::SelectOp::create(b, isEmpty, constant(0.0f, {warpM}), rowMax);
}

Value TileExpander::rescaleRows(Value tile, Value factors) {
  int64_t cols = cast<VectorType>(tile.getType()).getDimSize(1);
  return arith::MulFOp::create(b, tile, broadcastRows(factors, cols));
}

/// The state relative to `rowMax`, which is not below the state's own.
TileExpander::State TileExpander::followMax(State state, Value rowMax) {
  float c = getScoreScale() * kLog2e;
  Value scaledMax =
      arith::MulFOp::create(b, getSafeMax(rowMax), constant(-c, {warpM}));
  Value factors = math::Exp2Op::create(
      b, math::FmaOp::create(b, state.rowMax, constant(c, {warpM}), scaledMax));
  return {rescaleRows(state.acc, factors), rowMax,
          rescaleRows(state.rowSum, factors)};
}

/// Follows the maximum only if some score of the warp's rows exceeds its row's
/// by a factor of 2^8 after exponentiation (FlashAttention-4's conditional
/// rescaling): P then stays within the range of f16, and O and the sum relative
/// to the old maximum are as good.
TileExpander::State TileExpander::followMaxRarely(State state, Value scores) {
  constexpr float slack = 8;
  Value limits = arith::AddFOp::create(
      b, state.rowMax, constant(slack / (getScoreScale() * kLog2e), {warpM}));
  Value partialMax = vector::MultiDimReductionOp::create(
      b, groupColumns(scores), constant(kMinusInf, {warpM, 8}),
      ArrayRef<bool>{false, true, false}, vector::CombiningKind::MAXNUMF);
  Value exceeds = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT,
                                        partialMax, broadcastRows(limits, 8));
  Value none = arith::ConstantOp::create(b, b.getBoolAttr(false));
  Value any = vector::MultiDimReductionOp::create(
      b, exceeds, none, ArrayRef<bool>{true, true}, vector::CombiningKind::OR);
  Type types[] = {state.acc.getType(), state.rowMax.getType(),
                  state.rowSum.getType()};
  auto ifOp = scf::IfOp::create(b, types, any, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  Value rowMax = vector::MultiDimReductionOp::create(
      b, partialMax, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  State next = followMax(state, rowMax);
  scf::YieldOp::create(b, ValueRange{next.acc, next.rowMax, next.rowSum});
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, ValueRange{state.acc, state.rowMax, state.rowSum});
  return {ifOp.getResult(0), ifOp.getResult(1), ifOp.getResult(2)};
}

TileExpander::State TileExpander::buildIteration(Value query, Value iteration,
                                                 State state) {
  AffineExpr d0, d1, d2;
  bindDims(op.getContext(), d0, d1, d2);
  OpFoldResult firstKey = getAsOpFoldResult(tileOperand(AttentionOp::TileKey));
  Value key = asValue(
      apply(d2 + (d0 - d1 - 1) * blockN, {endTile, iteration, firstKey}));
  Value k = readTile(op.getKey(), key, blockN, op.getHeadDim());
  Value scores = contract(query, k, constant(0.0f, {warpM, blockN}),
                          /*transposedRhs=*/true);
  scores = changeScores(scores, key);
  scores = maskWhenPartial(scores, iteration, key);

  if (schedule.getRowMax() == fcgpu::RowMax::Stale) {
    state = followMaxRarely(state, scores);
  } else {
    Value rowMax = vector::MultiDimReductionOp::create(
        b, scores, state.rowMax, ArrayRef<bool>{false, true},
        vector::CombiningKind::MAXNUMF);
    state = followMax(state, rowMax);
  }
  // exp(scale * (s - max)) = exp2(c * s - c * max), c = scale * log2(e).
  float c = getScoreScale() * kLog2e;
  Value scaledMax =
      arith::MulFOp::create(b, getSafeMax(state.rowMax), constant(-c, {warpM}));
  Value p = math::Exp2Op::create(
      b, math::FmaOp::create(b, scores, constant(c, {warpM, blockN}),
                             broadcastRows(scaledMax, blockN)));
  Value pHalf =
      arith::TruncFOp::create(b, VectorType::get({warpM, blockN}, half), p);
  if (schedule.getRowSum() == fcgpu::RowSum::Mma) {
    auto type = VectorType::get({blockN, 8}, half);
    Value ones = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getFloatAttr(half, 1.0)));
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

void TileExpander::writeResults(State state) {
  Value zero = constant(0.0f, {warpM});
  // By mma, all eight columns hold the sum.
  auto kind = schedule.getRowSum() == fcgpu::RowSum::Mma
                  ? vector::CombiningKind::MAXNUMF
                  : vector::CombiningKind::ADD;
  Value sum = vector::MultiDimReductionOp::create(
      b, state.rowSum, zero, ArrayRef<bool>{false, true}, kind);
  // The largest visible score alone contributes 1, so a sum of 0 means that the
  // row sees no key.
  Value isEmpty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, zero);
  Value inverse = arith::DivFOp::create(b, constant(1.0f, {warpM}), sum);
  inverse = arith::SelectOp::create(b, isEmpty, zero, inverse);
  Value o =
      arith::MulFOp::create(b, state.acc, broadcastRows(inverse, headDimV));
  Type element = op.getOutputType().getElementType();
  if (!element.isF32())
    o = arith::TruncFOp::create(b, VectorType::get({warpM, headDimV}, element),
                                o);
  Value c0 = asValue(b.getIndexAttr(0));
  vector::TransferWriteOp::create(b, o, op.getOutput(),
                                  ValueRange{c0, c0, c0, c0},
                                  ArrayRef<bool>{false, true});
  if (!op.getLse())
    return;
  // lse = scale * max + ln(sum), ln(x) = log2(x) * ln(2).
  Value log = arith::MulFOp::create(b, math::Log2Op::create(b, sum),
                                    constant(kLn2, {warpM}));
  Value lse = math::FmaOp::create(b, state.rowMax,
                                  constant(getScoreScale(), {warpM}), log);
  lse = arith::SelectOp::create(b, isEmpty, constant(kMinusInf, {warpM}), lse);
  vector::TransferWriteOp::create(b, lse, op.getLse(), ValueRange{c0, c0, c0},
                                  ArrayRef<bool>{false});
}

void TileExpander::expand() {
  computeTileCounts();
  Value c0 = asValue(b.getIndexAttr(0)), c1 = asValue(b.getIndexAttr(1));
  Value query = readTile(op.getQuery(), c0, warpM, op.getHeadDim());
  Value init[] = {constant(0.0f, {warpM, headDimV}),
                  constant(kMinusInf, {warpM}), constant(0.0f, {warpM, 8})};
  auto loop = scf::ForOp::create(b, c0, asValue(numTiles), c1, init);
  b.setInsertionPointToStart(loop.getBody());
  ValueRange args = loop.getRegionIterArgs();
  State next = buildIteration(query, loop.getInductionVar(),
                              {args[0], args[1], args[2]});
  scf::YieldOp::create(b, ValueRange{next.acc, next.rowMax, next.rowSum});
  b.setInsertionPointAfter(loop);
  writeResults({loop.getResult(0), loop.getResult(1), loop.getResult(2)});
  op.erase();
}

namespace {
struct OnlineSoftmaxPass final
    : mlir::flashcore::impl::OnlineSoftmaxPassBase<OnlineSoftmaxPass> {
  LogicalResult checkPrecondition(AttentionOp op) {
    if (op.getTile().empty() || !op.hasPureBufferSemantics())
      return op.emitOpError("is not a tile on memrefs; run flashcore-tile "
                            "first");
    if (!op->hasAttr(fcgpu::kScheduleAttrName))
      return op.emitOpError("has no fcgpu.schedule; run flashcore-configure "
                            "first");
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
