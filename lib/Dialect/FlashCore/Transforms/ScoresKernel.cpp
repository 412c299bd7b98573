//===- ScoresKernel.cpp - Phase 2: scores as an output --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last kernel of an attention whose scores are an output, and the first one
// with softmax unfused. A block writes one tile of them, each warp its rows of
// it: hidden keys and all, so that nothing of the output stays as it was. Other
// attentions do not keep their scores and skip tiles that no query sees.
//
//===----------------------------------------------------------------------===//

#include "Sequences.h"
#include "TileOperands.h"
#include "flashcore/Dialect/FlashCore/Transforms/AttentionKernels.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class ScoresKernelBuilder {
public:
  /// Writes to `target`. Probabilities need what rounding left of LSE.
  ScoresKernelBuilder(ImplicitLocOpBuilder &b, AttentionOp op,
                      KernelFrame &frame, fcgpu::ScheduleAttr schedule,
                      ScoresStage stage, Value target, Value lseRest = {})
      : b(b), op(op), frame(frame), schedule(schedule), stage(stage),
        target(target), lseRest(lseRest) {}

  void build();

private:
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  OpFoldResult countTiles(Dim dim, int64_t tile) {
    return apply(b.getAffineDimExpr(0).ceilDiv(tile), {frame.getSize(dim)});
  }
  void findTile(Value block);
  void buildWarpTile(Value warp);
  void addChanges(AttentionOp tile);

  ImplicitLocOpBuilder &b;
  AttentionOp op;
  KernelFrame &frame;
  fcgpu::ScheduleAttr schedule;
  ScoresStage stage;
  Value target, lseRest;
  /// What the block works on.
  Sequence sequence;
  Value headQ, headKV;
  OpFoldResult key;
};
} // namespace

SmallVector<OpFoldResult> LseRest::getShape() {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  OpFoldResult row = affine::makeComposedFoldedAffineApply(
      b, b.getLoc(), b.getAffineDimExpr(0).ceilDiv(kRowFloats) * kRowFloats,
      {frame.getSize(Dim::SeqlenQ)});
  return {frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ), row};
}

Value LseRest::view() {
  if (!isKept)
    return Value();
  ImplicitLocOpBuilder &b = frame.getBuilder();
  SmallVector<OpFoldResult> shape = getShape();
  Value rows = frame.viewWorkspace(b.getIndexAttr(0), shape);
  shape.back() = frame.getSize(Dim::SeqlenQ);
  SmallVector<OpFoldResult> begin(shape.size(), b.getIndexAttr(0)),
      strides(shape.size(), b.getIndexAttr(1));
  return memref::SubViewOp::create(b, rows, begin, shape, strides);
}

OpFoldResult LseRest::getEnd() {
  OpFoldResult end = frame.getBuilder().getIndexAttr(isKept);
  if (isKept)
    for (OpFoldResult size : getShape())
      end = frame.multiply(end, size);
  return end;
}

/// Blocks next to each other have keys next to each other of the same queries,
/// so that what they write is, too.
void ScoresKernelBuilder::findTile(Value block) {
  SmallVector<OpFoldResult> basis{
      frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ),
      countTiles(Dim::SeqlenQ, schedule.getBlockM()),
      countTiles(Dim::SeqlenK, schedule.getBlockN())};
  auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
  headQ = ids.getResult(1);
  sequence = findSequence(frame, op, schedule.getBlockM(), ids.getResult(0),
                          ids.getResult(2));
  AffineExpr d0 = b.getAffineDimExpr(0);
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  headKV = asValue(
      apply(d0.floorDiv(s0.floorDiv(s1)),
            {headQ, frame.getSize(Dim::HeadsQ), frame.getSize(Dim::HeadsKV)}));
  key = apply(d0 * schedule.getBlockN(), {ids.getResult(3)});
}

/// What of the op is done to scores up to their stage.
void ScoresKernelBuilder::addChanges(AttentionOp tile) {
  addRegions(frame, op, tile, stage);
  if (stage < ScoresStage::Masked) {
    tile.getMaskRegion().dropAllReferences();
    tile.getMaskRegion().getBlocks().clear();
    return;
  }
  tile.setCausalAttr(op.getCausalAttr());
  tile.setWindowLeftAttr(op.getWindowLeftAttr());
  tile.setWindowRightAttr(op.getWindowRightAttr());
}

void ScoresKernelBuilder::buildWarpTile(Value warp) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  int64_t blockM = schedule.getBlockM(), warpM = schedule.getWarpM();
  OpFoldResult blockRow = apply(d0 * blockM, {sequence.queryBlock});
  OpFoldResult row =
      apply(d0 * blockM + d1 * warpM, {sequence.queryBlock, warp});
  OpFoldResult rows = countRows(b, warpM, blockM, row, sequence.seqlenQ);
  auto slice = [&](Value tensor, Value head, OpFoldResult first,
                   OpFoldResult count) {
    return sliceRows(b, tensor, sequence.batch, head, first, count);
  };
  Value q = slice(frame.getTensor("q"), headQ, row, rows);
  Value k =
      slice(frame.getTensor("k"), headKV, sequence.firstKey, sequence.seqlenK);
  Value scores = slice(target, headQ, row, rows);
  // Read by whole coordinates.
  Value lse;
  if (stage == ScoresStage::Probabilities)
    lse = frame.getTensor("lse");
  Value operands[] = {sequence.number,
                      headQ,
                      asValue(row),
                      asValue(sequence.seqlenQ),
                      asValue(key),
                      asValue(apply(d0 + schedule.getBlockN(), {key})),
                      asValue(sequence.seqlenK),
                      asValue(blockRow)};
  // There is no value: the key stands in its place.
  auto tile = AttentionOp::create(b, q, k, k, scores, lse);
  if (lseRest)
    tile.getLseRestMutable().assign(lseRest);
  tile.getTileMutable().assign(operands);
  tile.setSoftmaxScaleAttr(b.getF32FloatAttr(op.getEffectiveScale()));
  tile.setStage(stage);
  tile->setAttr(fcgpu::kScheduleAttrName, schedule);
  addChanges(tile);
}

void ScoresKernelBuilder::build() {
  findTile(gpu::BlockIdOp::create(b, gpu::Dimension::x));
  Attribute mapping =
      gpu::GPUWarpMappingAttr::get(b.getContext(), gpu::MappingId::LinearDim0);
  auto forall = scf::ForallOp::create(
      b, SmallVector<OpFoldResult>{b.getIndexAttr(schedule.getNumWarps())},
      ValueRange(), b.getArrayAttr(mapping));
  b.setInsertionPoint(forall.getTerminator());
  buildWarpTile(forall.getInductionVar(0));
  b.setInsertionPointAfter(forall);
  gpu::ReturnOp::create(b);
}

gpu::GPUFuncOp
mlir::flashcore::buildScoresKernel(ImplicitLocOpBuilder &b, AttentionOp op,
                                   const AttentionSignature &signature,
                                   fcgpu::ScheduleAttr schedule,
                                   StringRef name) {
  auto ofScores = fcgpu::ScheduleAttr::get(b.getContext(), schedule.getChip(),
                                           signature.getScoresChoice());
  KernelFrame frame(b, signature, signature.getScoresArguments(), name,
                    ofScores.getNumThreads(), signature.toScoresDictionary(op));
  frame.getFunc()->setAttr(fcgpu::kScheduleAttrName, ofScores);
  ScoresKernelBuilder(b, op, frame, ofScores, *op.getStage(),
                      frame.getTensor("scores"),
                      LseRest(frame, signature).view())
      .build();
  return frame.getFunc();
}

gpu::GPUFuncOp mlir::flashcore::buildUnfusedScoresKernel(
    ImplicitLocOpBuilder &b, AttentionOp op,
    const AttentionSignature &signature, fcgpu::ScheduleAttr schedule,
    StringRef name, DictionaryAttr description) {
  KernelFrame frame(b, signature, signature.getArguments(), name,
                    schedule.getNumThreads(), description);
  frame.getFunc()->setAttr(fcgpu::kScheduleAttrName, schedule);
  UnfusedWorkspace workspace(frame, signature);
  ScoresKernelBuilder(b, op, frame, schedule, ScoresStage::Masked,
                      workspace.viewScores())
      .build();
  return frame.getFunc();
}
