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
        warpM(schedule.getWarpM()), blockN(schedule.getBlockN()),
        headDimV(op.getHeadDimV()), half(op.getQueryType().getElementType()) {}

  void expand();

private:
  /// What the key loop carries: the unnormalised output, the row maximum of the
  /// raw scores, and eight partial row sums (the sum of a row is the sum of its
  /// eight; adding them up waits until after the loop).
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

  OpFoldResult clampedMin(AffineMap map, ArrayRef<OpFoldResult> operands);
  OpFoldResult getFirstQueryOfBlock();
  void computeTileCounts();
  Value readTile(Value memref, Value row, int64_t rows, int64_t cols);
  Value contract(Value lhs, Value rhs, Value acc, bool transposedRhs);
  bool needsTailMask();
  Value maskScores(Value scores, Value key);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  State buildIteration(Value query, Value iteration, State state);
  void writeResults(State state);

  AttentionOp op;
  ImplicitLocOpBuilder b;
  fcgpu::ScheduleAttr schedule;
  int64_t warpM, blockN, headDimV;
  Type half;
  OpFoldResult numTiles, numMasked; ///< visible key tiles; those with a mask
};
} // namespace

OpFoldResult TileExpander::clampedMin(AffineMap map,
                                      ArrayRef<OpFoldResult> operands) {
  OpFoldResult bound =
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, operands);
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
  KeyBounds bounds = getKeyBounds(op.getContext(), op.getCausal(), blockM);
  numTiles =
      apply(d0.ceilDiv(blockN), {clampedMin(bounds.visibleEnd, operands)});
  OpFoldResult numFull =
      apply(d0.floorDiv(blockN), {clampedMin(bounds.fullEnd, operands)});
  numMasked = apply(d0 - d1, {numTiles, numFull});
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

/// Whether some key of a visited tile may lie past seqlen_k and still be under
/// the causal diagonal.
bool TileExpander::needsTailMask() {
  if (op.getCausal() == CausalAlignment::BottomRight)
    return false; // j <= i + seqlen_k - seqlen_q < seqlen_k for every real row
  auto seqlenK = getConstantIntValue(tileOperand(AttentionOp::TileSeqlenK));
  return !seqlenK || *seqlenK % blockN != 0;
}

Value TileExpander::maskScores(Value scores, Value key) {
  auto map = fcgpu::MapScoresOp::create(
      b, scores.getType(), scores, tileOperand(AttentionOp::TileQuery), key);
  OpBuilder::InsertionGuard guard(b);
  Type index = b.getIndexType();
  Block *body =
      b.createBlock(&map.getBody(), {}, {b.getF32Type(), index, index},
                    {b.getLoc(), b.getLoc(), b.getLoc()});
  Value score = body->getArgument(0), query = body->getArgument(1);
  Value keyIndex = body->getArgument(2);
  Value seqlenQ = tileOperand(AttentionOp::TileSeqlenQ);
  Value seqlenK = tileOperand(AttentionOp::TileSeqlenK);
  // One comparison an element: key <= the last key that the query sees.
  Value last;
  if (op.getCausal())
    last = query;
  if (op.getCausal() == CausalAlignment::BottomRight)
    last = arith::AddIOp::create(b, query,
                                 arith::SubIOp::create(b, seqlenK, seqlenQ));
  if (needsTailMask()) {
    Value end = arith::SubIOp::create(b, seqlenK, asValue(b.getIndexAttr(1)));
    last = last ? arith::MinSIOp::create(b, last, end).getResult() : end;
  }
  Value visible =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, keyIndex, last);
  Value hidden = arith::ConstantOp::create(b, b.getF32FloatAttr(kMinusInf));
  Value result = arith::SelectOp::create(b, visible, score, hidden);
  fcgpu::YieldOp::create(b, result);
  return map.getResult();
}

Value TileExpander::maskWhenPartial(Value scores, Value iteration, Value key) {
  if (getConstantIntValue(numMasked) == 0)
    return scores;
  Value isPartial = arith::CmpIOp::create(b, arith::CmpIPredicate::slt,
                                          iteration, asValue(numMasked));
  auto ifOp = scf::IfOp::create(b, TypeRange{scores.getType()}, isPartial,
                                /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  scf::YieldOp::create(b, maskScores(scores, key));
  b.setInsertionPointToStart(ifOp.elseBlock());
  scf::YieldOp::create(b, scores);
  return ifOp.getResult(0);
}

TileExpander::State TileExpander::buildIteration(Value query, Value iteration,
                                                 State state) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  Value key = asValue(apply((d0 - d1 - 1) * blockN, {numTiles, iteration}));
  Value k = readTile(op.getKey(), key, blockN, op.getHeadDim());
  Value scores = contract(query, k, constant(0.0f, {warpM, blockN}),
                          /*transposedRhs=*/true);
  scores = maskWhenPartial(scores, iteration, key);

  Value rowMax = vector::MultiDimReductionOp::create(
      b, scores, state.rowMax, ArrayRef<bool>{false, true},
      vector::CombiningKind::MAXNUMF);
  // A row that has seen no key yet takes 0 as its maximum.
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, rowMax,
                                        constant(kMinusInf, {warpM}));
  Value safeMax =
      arith::SelectOp::create(b, isEmpty, constant(0.0f, {warpM}), rowMax);
  // exp(scale * (s - max)) = exp2(c * s - c * max), c = scale * log2(e).
  float c = op.getEffectiveScale() * kLog2e;
  Value scaledMax = arith::MulFOp::create(b, safeMax, constant(-c, {warpM}));
  Value rescale = math::Exp2Op::create(
      b, math::FmaOp::create(b, state.rowMax, constant(c, {warpM}), scaledMax));
  Value p = math::Exp2Op::create(
      b, math::FmaOp::create(b, scores, constant(c, {warpM, blockN}),
                             broadcastRows(scaledMax, blockN)));

  // Columns 8 apart are added up: the eight partial sums of a row.
  Value groups = vector::ShapeCastOp::create(
      b, VectorType::get({warpM, blockN / 8, 8}, b.getF32Type()), p);
  Value rowSum =
      arith::MulFOp::create(b, state.rowSum, broadcastRows(rescale, 8));
  rowSum = vector::MultiDimReductionOp::create(
      b, groups, rowSum, ArrayRef<bool>{false, true, false},
      vector::CombiningKind::ADD);

  Value acc =
      arith::MulFOp::create(b, state.acc, broadcastRows(rescale, headDimV));
  Value pHalf =
      arith::TruncFOp::create(b, VectorType::get({warpM, blockN}, half), p);
  Value v = readTile(op.getValue(), key, blockN, headDimV);
  acc = contract(pHalf, v, acc, /*transposedRhs=*/false);
  return {acc, rowMax, rowSum};
}

void TileExpander::writeResults(State state) {
  Value zero = constant(0.0f, {warpM});
  Value sum = vector::MultiDimReductionOp::create(b, state.rowSum, zero,
                                                  ArrayRef<bool>{false, true},
                                                  vector::CombiningKind::ADD);
  // The largest visible score alone contributes 1, so a sum of 0 means that the
  // row sees no key.
  Value isEmpty =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, zero);
  Value inverse = arith::DivFOp::create(b, constant(1.0f, {warpM}), sum);
  inverse = arith::SelectOp::create(b, isEmpty, zero, inverse);
  Value o =
      arith::MulFOp::create(b, state.acc, broadcastRows(inverse, headDimV));
  o = arith::TruncFOp::create(b, VectorType::get({warpM, headDimV}, half), o);
  Value c0 = asValue(b.getIndexAttr(0));
  vector::TransferWriteOp::create(b, o, op.getOutput(),
                                  ValueRange{c0, c0, c0, c0},
                                  ArrayRef<bool>{false, true});
  if (!op.getLse())
    return;
  // lse = scale * max + ln(sum), ln(x) = log2(x) * ln(2).
  Value log = arith::MulFOp::create(b, math::Log2Op::create(b, sum),
                                    constant(kLn2, {warpM}));
  Value lse = math::FmaOp::create(
      b, state.rowMax, constant(op.getEffectiveScale(), {warpM}), log);
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
    if (getConstantIntValue(op.getTile()[AttentionOp::TileKey]) != 0)
      return op.emitOpError("starts at a key other than 0, which this version "
                            "cannot lower yet");
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
