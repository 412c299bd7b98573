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

#include "AttentionWorkspace.h"
#include "KernelOps.h"
#include "ScoreRegion.h"
#include "Sequences.h"
#include "TileOperands.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScoresChoice.h"
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
  ScoresKernelBuilder(AttentionOp op, KernelFrame &frame,
                      fcgpu::ScheduleAttr schedule, ScoresStage stage,
                      Value target, Value lseRest = {})
      : b(frame.getBuilder()), op(op), frame(frame), schedule(schedule),
        stage(stage), target(target), lseRest(lseRest) {}

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
  void addChanges(ScoresTileOp tile);

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
void ScoresKernelBuilder::addChanges(ScoresTileOp tile) {
  addRegions(frame, op, tile, stage);
  if (stage < ScoresStage::Masked) {
    tile.getMaskRegion().dropAllReferences();
    tile.getMaskRegion().getBlocks().clear();
    return;
  }
  setBounds(op, tile);
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
  Value q = slice(frame.getTensor(operand::kQuery), headQ, row, rows);
  Value k = slice(frame.getTensor(operand::kKey), headKV, sequence.firstKey,
                  sequence.seqlenK);
  Value scores = slice(target, headQ, row, rows);
  // Read by whole coordinates.
  Value lse;
  if (stage == ScoresStage::Probabilities)
    lse = frame.getTensor(operand::kLse);
  TilePlace place{sequence.number,
                  headQ,
                  asValue(row),
                  asValue(sequence.seqlenQ),
                  asValue(key),
                  asValue(apply(d0 + schedule.getBlockN(), {key})),
                  asValue(sequence.seqlenK),
                  asValue(blockRow)};
  auto tile =
      ScoresTileOp::create(b, q, k, scores, lse, lseRest, place,
                           b.getF32FloatAttr(op.getEffectiveScale()), stage);
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

/// The stage says what scores are made of. They are an output, or go to the
/// workspace.
static SmallVector<KernelArgument>
listArguments(Operation *kernel, const AttentionSignature &signature,
              ScoresStage stage, bool writesOutput) {
  using Use = OperandInfo::Use;
  auto isTaken = [&](const KernelTensor &tensor) {
    if (AttentionSignature::isOfAppend(tensor))
      return false;
    switch (AttentionSignature::getUse(tensor)) {
    case Use::Product:
      return tensor.name != operand::kValue;
    case Use::Sequence:
      return true;
    case Use::Score:
      return isInScores(tensor.name, stage);
    case Use::Result:
      return tensor.name == operand::kLse &&
             stage == ScoresStage::Probabilities;
    case Use::Scores:
      return writesOutput;
    default:
      return false;
    }
  };
  SmallVector<KernelArgument> arguments =
      signature.listArguments(getWorkspaceUse(kernel), isTaken, [](Dim dim) {
        return dim != Dim::HeadDimV && dim != Dim::KeySplits &&
               !AttentionSignature::isOfAppend(dim);
      });
  signature.addCopyOfQuery(arguments);
  return arguments;
}

/// A block for each tile of scores.
static KernelLaunch getLaunch(AttentionOp op,
                              const AttentionSignature &signature,
                              fcgpu::ScheduleAttr schedule) {
  return {signature.countScoreTiles(schedule.getBlockM(), schedule.getBlockN()),
          schedule.getNumThreads(),
          getScoresSharedMemoryBytes(AttentionProblem::get(op),
                                     schedule.getChoice())};
}

namespace {
/// With softmax unfused it is the first kernel, and has the attention's
/// schedule; scores that are an output have one of their own.
struct ScoresKernel final
    : AttentionKernelOpInterface::ExternalModel<ScoresKernel, ScoresKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    auto op = kernel->getParentOfType<AttentionOp>();
    bool writesOutput = cast<ScoresKernelOp>(kernel).getWrites().empty();
    ScoresStage stage = writesOutput ? *op.getStage() : ScoresStage::Masked;
    fcgpu::ScheduleAttr schedule = signature.getSchedule();
    if (writesOutput)
      schedule = fcgpu::ScheduleAttr::get(
          op.getContext(), schedule.getChip(),
          chooseScoresSchedule(AttentionProblem::get(op),
                               schedule.getChoice()));
    return {
        writesOutput ? "_scores" : "",
        listArguments(kernel, signature, stage, writesOutput),
        getLaunch(op, signature, schedule), schedule,
        [=, &signature](KernelFrame &frame) {
          AttentionWorkspace workspace(frame, signature);
          Value target = writesOutput ? frame.getTensor(operand::kScores)
                                      : workspace.viewScores();
          Value rest = writesOutput ? workspace.viewLseRest() : Value();
          ScoresKernelBuilder(op, frame, schedule, stage, target, rest).build();
        }};
  }
};
} // namespace

void mlir::flashcore::attachScoresKernel(MLIRContext *context) {
  ScoresKernelOp::attachInterface<ScoresKernel>(*context);
}
