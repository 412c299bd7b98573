//===- Tile.cpp - Phase 2: blocks and warps -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns each attention into a kernel and its launch. The kernel is built here,
// not outlined, so that its arguments are the ones the manifest lists. Relies
// on fcgpu.schedule; what a tile computes is left to the next phase.
//
//===----------------------------------------------------------------------===//

#include "AttentionLaunches.h"
#include "ScoreRegion.h"
#include "Sequences.h"
#include "TileOperands.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Analysis/TileWalk.h"
#include "flashcore/Dialect/FlashCore/Transforms/AttentionKernels.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_TILEPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// The query rows of a warp: from `row` of the sequence on, `rows` of them.
struct WarpRows {
  Value headQ;
  OpFoldResult row, rows;
};

/// Builds the kernels of one attention, and their launches.
class KernelBuilder {
public:
  KernelBuilder(AttentionOp op, fcgpu::ScheduleAttr schedule,
                QueryRange queries)
      : op(op), schedule(schedule), signature(op, schedule, queries),
        queries(queries), b(dropDebugInfo(op.getLoc()), op) {}

  /// All that the kernel's code depends on.
  ArrayAttr getKey() { return b.getArrayAttr({getDescription(), schedule}); }
  /// Makes a gpu.module for kernels of the attention at the end of `module`.
  gpu::GPUModuleOp createModule(ModuleOp module);
  /// Makes the kernels at the end of `module`.
  SmallVector<LaunchedKernel> buildKernels(gpu::GPUModuleOp module);
  /// What launches the kernels, where `point` is.
  AttentionLaunches getLaunches(OpBuilder::InsertPoint point) {
    b.restoreInsertionPoint(point);
    return AttentionLaunches(b, schedule, signature);
  }

private:
  std::string getKernelName();
  DictionaryAttr getDescription() {
    return signature.toDictionary(op, schedule, getSharedMemory());
  }
  gpu::GPUFuncOp buildMainKernel(ArrayRef<KernelArgument> arguments,
                                 StringRef name, DictionaryAttr description);
  void buildBody(KernelFrame &frame);
  Value buildTileWalk(Value block);
  void findTile(KernelFrame &frame, Value number);
  SmallVector<Value> findTileOfTurn(Value number);
  void splitKeys(KernelFrame &frame, Value split);
  void shareKeys(KernelFrame &frame, Value split);
  SmallVector<Value> getTileOperands(Value headQ, OpFoldResult row);
  WarpRows findRows(Value warp);
  void buildWarpTile(KernelFrame &frame, PartialResults partials, Value warp);
  void buildValuesTile(KernelFrame &frame, Value warp);
  Value slice(Value tensor, OpFoldResult entry, Value head, OpFoldResult row,
              OpFoldResult rows) {
    return sliceRows(b, tensor, entry, head, row, rows);
  }
  Value getPageTable(KernelFrame &frame);
  Value getKeys(KernelFrame &frame, StringRef tensor);
  OpFoldResult getSize(Dim dim) const { return sizes[static_cast<int>(dim)]; }
  /// Of the attention kernel.
  int64_t getSharedMemory() {
    AttentionProblem problem = AttentionProblem::get(op);
    return schedule.isUnfused()
               ? getScoresSharedMemoryBytes(problem, schedule.getChoice())
               : getSharedMemoryBytes(problem, schedule.getChoice());
  }
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  OpFoldResult build(const SizeFormula &formula) {
    return formula.build(b, [&](Dim dim) { return getSize(dim); });
  }
  OpFoldResult getNumQueryBlocks() {
    return build(signature.getNumQueryBlocks(schedule));
  }
  OpFoldResult getNumHeadGroups() {
    return build(signature.getNumHeadGroups(schedule));
  }
  OpFoldResult getNumParts() {
    return build(signature.getKeyParts().getNumber());
  }

  bool isSplit() const { return signature.getKeyParts().isSplit(); }

  AttentionOp op;
  fcgpu::ScheduleAttr schedule;
  AttentionSignature signature;
  QueryRange queries;
  ImplicitLocOpBuilder b;
  SmallVector<OpFoldResult> sizes;
  /// What the block works on: query heads from firstHead on, keys from keyBegin
  /// on.
  Sequence sequence;
  Value firstHead, headKV;
  OpFoldResult keyBegin;
  /// Of a split: one past its last key, and the entry of its partial results.
  OpFoldResult keyEnd, partialEntry;
};
} // namespace

std::string KernelBuilder::getKernelName() {
  std::string type;
  llvm::raw_string_ostream(type) << op.getQueryType().getElementType();
  return "attention_" + type + "_d" + std::to_string(op.getHeadDim()) +
         (op.getCausal() ? "_causal" : "");
}

gpu::GPUModuleOp KernelBuilder::createModule(ModuleOp module) {
  SymbolTable symbols(module);
  b.setInsertionPointToEnd(module.getBody());
  auto gpuModule = gpu::GPUModuleOp::create(
      b, getKernelName(), createGPUTargets(module, schedule.getChip()));
  symbols.insert(gpuModule);
  return gpuModule;
}

/// In the order in which they run: that of the append is in front of the
/// others, which read what it writes, and that of the scores behind them, since
/// probabilities need the log-sum-exp of all keys.
SmallVector<LaunchedKernel>
KernelBuilder::buildKernels(gpu::GPUModuleOp module) {
  std::string name = getKernelName() + (queries.most ? "_few_queries" : "");
  SmallVector<LaunchedKernel> kernels;
  auto add = [&](gpu::GPUFuncOp kernel, ArrayRef<KernelArgument> arguments,
                 const SizeFormula &grid) {
    kernels.push_back({kernel, SmallVector<KernelArgument>(arguments), grid});
    b.setInsertionPointToEnd(module.getBody());
  };
  b.setInsertionPointToEnd(module.getBody());
  if (op.getKNew())
    add(buildAppendKernel(b, op, signature, name + "_append"),
        signature.getAppendArguments(), signature.getAppendGrid());
  if (schedule.isUnfused()) {
    add(buildUnfusedScoresKernel(b, op, signature, schedule, name,
                                 getDescription()),
        signature.getArguments(), signature.getGrid(schedule));
    add(buildSoftmaxKernel(b, op, signature, name + "_softmax"),
        signature.getSoftmaxArguments(), signature.getSoftmaxGrid());
    add(buildMainKernel(signature.getValuesArguments(), name + "_values",
                        signature.toValuesDictionary(op, schedule)),
        signature.getValuesArguments(), signature.getNumTiles(schedule));
  } else {
    add(buildMainKernel(signature.getArguments(), name, getDescription()),
        signature.getArguments(), signature.getGrid(schedule));
  }
  if (isSplit())
    add(buildMergeKernel(b, signature, name + "_merge", schedule.isInvariant()),
        signature.getMergeArguments(), AttentionSignature::getRows());
  if (op.getScores())
    add(buildScoresKernel(b, op, signature, schedule, name + "_scores"),
        signature.getScoresArguments(), signature.getScoresGrid());
  return kernels;
}

/// Makes a kernel whose tiles write O.
gpu::GPUFuncOp
KernelBuilder::buildMainKernel(ArrayRef<KernelArgument> arguments,
                               StringRef name, DictionaryAttr description) {
  KernelFrame frame(b, signature, arguments, name, schedule.getNumThreads(),
                    description);
  frame.getFunc()->setAttr(fcgpu::kScheduleAttrName, schedule);
  buildBody(frame);
  return frame.getFunc();
}

/// The loop of a persistent block over its tiles; the insertion point moves
/// into it. Returns the number of the tile.
Value KernelBuilder::buildTileWalk(Value block) {
  TileWalk walk = TileWalk::get(op.getContext());
  auto evaluate = [&](AffineMap map, ArrayRef<OpFoldResult> operands) {
    return asValue(
        affine::makeComposedFoldedAffineApply(b, b.getLoc(), map, operands));
  };
  Value numBlocks = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value numRounds =
      evaluate(walk.numRounds,
               {build(signature.getNumTiles(schedule)), numBlocks, block});
  auto loop = scf::ForOp::create(b, asValue(b.getIndexAttr(0)), numRounds,
                                 asValue(b.getIndexAttr(1)));
  loop->setAttr(fcgpu::kBlockTilesAttrName, b.getUnitAttr());
  b.setInsertionPointToStart(loop.getBody());
  return evaluate(walk.tile, {loop.getInductionVar(), numBlocks, block});
}

/// Query block, batch and head group of a tile, where `grid_heads` heads at a
/// time take turns.
SmallVector<Value> KernelBuilder::findTileOfTurn(Value number) {
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
  auto ids = affine::AffineDelinearizeIndexOp::create(
      b, head, SmallVector<OpFoldResult>{numBatch, numGroups});
  return {inTurn[0], ids.getResult(0), ids.getResult(1)};
}

/// The tile, from one linear number: the x axis of a grid is the only one
/// without a small limit.
void KernelBuilder::findTile(KernelFrame &frame, Value number) {
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
  SmallVector<Value> ids =
      schedule.getGridHeads()
          ? findTileOfTurn(number)
          : SmallVector<Value>(
                affine::AffineDelinearizeIndexOp::create(b, number, basis)
                    .getResults());
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
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  firstHead = asValue(apply(d0 * schedule.getHeadGroup(), {headGroup}));
  headKV =
      asValue(apply(d0.floorDiv(s0.floorDiv(s1)),
                    {firstHead, getSize(Dim::HeadsQ), getSize(Dim::HeadsKV)}));
  keyBegin = b.getIndexAttr(0);
  if (isSplit())
    splitKeys(frame, ids[3]);
}

/// The keys of a split, and where its results go.
void KernelBuilder::splitKeys(KernelFrame &frame, Value split) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  partialEntry = apply(d0 * b.getAffineSymbolExpr(0) + d1,
                       {split, sequence.batch, getSize(Dim::Batch)});
  if (int64_t keys = schedule.getSplitKeys()) {
    keyBegin = apply(d0 * keys, {split});
    keyEnd = apply(d0 + keys, {keyBegin});
    return;
  }
  shareKeys(frame, split);
}

/// Gives each split an equal share of the key tiles that the block's queries
/// see; the last ones may get less, or nothing.
void KernelBuilder::shareKeys(KernelFrame &frame, Value split) {
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

void KernelBuilder::buildBody(KernelFrame &frame) {
  sizes.resize(signature.getEndOfDims());
  for (unsigned d = 0; d < sizes.size(); ++d)
    sizes[d] = frame.getSize(static_cast<Dim>(d));
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  if (!schedule.isPersistent())
    findTile(frame, block);
  // Warps that share query rows follow each other.
  SmallVector<OpFoldResult> warps{
      b.getIndexAttr(schedule.getNumHolders() / schedule.getKeyWarps())};
  SmallVector<gpu::MappingId> ids{gpu::MappingId::LinearDim0};
  if (schedule.getKeyWarps() > 1) {
    warps.push_back(b.getIndexAttr(schedule.getKeyWarps()));
    ids.insert(ids.begin(), gpu::MappingId::LinearDim1);
  }
  SmallVector<Attribute> mapping;
  for (gpu::MappingId id : ids)
    mapping.push_back(
        schedule.getTileWarps() > 1
            ? Attribute(gpu::GPUWarpgroupMappingAttr::get(op.getContext(), id))
            : gpu::GPUWarpMappingAttr::get(op.getContext(), id));
  PartialResults partials;
  if (isSplit())
    partials = getPartialResults(frame, signature, getNumParts());
  auto forall =
      scf::ForallOp::create(b, warps, ValueRange(), b.getArrayAttr(mapping));
  b.setInsertionPoint(forall.getTerminator());
  if (schedule.isPersistent())
    findTile(frame, buildTileWalk(block));
  if (schedule.isUnfused())
    buildValuesTile(frame, forall.getInductionVar(0));
  else
    buildWarpTile(frame, partials, forall.getInductionVar(0));
  b.setInsertionPointAfter(forall);
  gpu::ReturnOp::create(b);
}

/// A block without keys may read the first entry and look at nothing there. Of
/// no sequences not even that exists, and a number that does stands for it.
Value KernelBuilder::getPageTable(KernelFrame &frame) {
  Value table = frame.getTensor("page_table");
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
      b, type, frame.getTensor("cu_seqlens_q"), b.getIndexAttr(offset),
      metadata.getConstifiedMixedSizes(), metadata.getConstifiedMixedStrides());
  Value isThere = arith::CmpIOp::create(b, arith::CmpIPredicate::sgt,
                                        asValue(frame.getSize(Dim::CuSeqlens)),
                                        asValue(b.getIndexAttr(1)));
  return arith::SelectOp::create(b, isThere, table, ends);
}

/// The rows of K or V that the block's sequence has.
Value KernelBuilder::getKeys(KernelFrame &frame, StringRef tensor) {
  Value keys = frame.getTensor(tensor);
  if (!op.getPageTable())
    return slice(keys, sequence.batch, headKV, sequence.firstKey,
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
      b, getPageTable(frame), {number, zero},
      {one, frame.getSize(Dim::PagesPerSequence)}, {one, one});
  return fcgpu::ViewPagesOp::create(b, pool, table, asValue(sequence.seqlenK),
                                    schedule.getBlockN());
}

/// `tile` of the warp's rows from `row` on.
SmallVector<Value> KernelBuilder::getTileOperands(Value headQ,
                                                  OpFoldResult row) {
  Value seqlenQ = asValue(sequence.seqlenQ), begin = asValue(keyBegin);
  Value seqlenK = asValue(sequence.seqlenK);
  Value end = isSplit() ? asValue(keyEnd) : seqlenK;
  Value blockQuery = asValue(apply(b.getAffineDimExpr(0) * schedule.getBlockM(),
                                   {sequence.queryBlock}));
  return {sequence.number, headQ, asValue(row), seqlenQ,
          begin,           end,   seqlenK,      blockQuery};
}

WarpRows KernelBuilder::findRows(Value warp) {
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

void KernelBuilder::buildWarpTile(KernelFrame &frame, PartialResults partials,
                                  Value warp) {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  WarpRows found = findRows(warp);
  Value headQ = found.headQ;
  OpFoldResult row = found.row, rows = found.rows;
  Value batch = sequence.batch;
  OpFoldResult firstRow = row;
  if (getConstantIntValue(sequence.firstQuery) != 0)
    firstRow = apply(d0 + d1, {sequence.firstQuery, row});
  Value q = slice(frame.getTensor("q"), batch, headQ, firstRow, rows);
  Value k = getKeys(frame, "k");
  Value v = getKeys(frame, "v");
  OpFoldResult entry = isSplit() ? partialEntry : OpFoldResult(batch);
  Value output = isSplit() ? partials.output : frame.getTensor("o");
  Value o = slice(output, entry, headQ, firstRow, rows);
  Value lse;
  if (isSplit())
    lse = slice(partials.lse, entry, headQ, firstRow, rows);
  else if (op.getLse())
    lse = slice(frame.getTensor("lse"), entry, headQ, firstRow, rows);
  Value rest = isSplit() ? partials.rest : LseRest(frame, signature).view();
  if (rest)
    rest = slice(rest, entry, headQ, firstRow, rows);
  SmallVector<Value> place = getTileOperands(headQ, row);
  auto tiled = AttentionOp::create(b, q, k, v, o, lse);
  auto giveWhole = [&](MutableOperandRange operand, StringRef name) {
    if (Value tensor = frame.findTensor(name))
      operand.assign(tensor);
  };
  if (rest)
    tiled.getLseRestMutable().assign(rest);
  // Of a part of the keys it is for the merge.
  if (!isSplit())
    giveWhole(tiled.getSinkLogitsMutable(), "sink_logits");
  giveWhole(tiled.getRngMutable(), "rng");
  giveWhole(tiled.getBlockCountsMutable(), "block_counts");
  giveWhole(tiled.getBlockIndicesMutable(), "block_indices");
  giveWhole(tiled.getFullBlockCountsMutable(), "full_block_counts");
  giveWhole(tiled.getFullBlockIndicesMutable(), "full_block_indices");
  tiled.getTileMutable().assign(place);
  tiled.setSoftmaxScaleAttr(b.getF32FloatAttr(op.getEffectiveScale()));
  tiled.setCausalAttr(op.getCausalAttr());
  tiled.setWindowLeftAttr(op.getWindowLeftAttr());
  tiled.setWindowRightAttr(op.getWindowRightAttr());
  tiled.setDropoutAttr(op.getDropoutAttr());
  tiled.setBlockSizeAttr(op.getBlockSizeAttr());
  tiled->setAttr(fcgpu::kScheduleAttrName, schedule);
  addRegions(frame, op, tiled);
}

/// A tile of P V. There are no query and key: output and value stand in their
/// place. Keys that bounds of the mask hide have probability 0, and are
/// skipped.
void KernelBuilder::buildValuesTile(KernelFrame &frame, Value warp) {
  auto [headQ, row, rows] = findRows(warp);
  Value v = getKeys(frame, "v");
  Value o = slice(frame.getTensor("o"), sequence.batch, headQ, row, rows);
  Value p = UnfusedWorkspace(frame, signature)
                .viewTile(sequence.batch, headQ, row, rows);
  SmallVector<Value> operands = getTileOperands(headQ, row);
  auto tile = AttentionOp::create(b, o, v, v, o);
  tile.getProbabilitiesMutable().assign(p);
  tile.getTileMutable().assign(operands);
  tile.setSoftmaxScaleAttr(b.getF32FloatAttr(op.getEffectiveScale()));
  tile.setCausalAttr(op.getCausalAttr());
  tile.setWindowLeftAttr(op.getWindowLeftAttr());
  tile.setWindowRightAttr(op.getWindowRightAttr());
  tile->setAttr(fcgpu::kScheduleAttrName, schedule);
}

/// Launches of all kernels of an attention, in the place of the op: where there
/// are two sets, the second is for calls of few queries.
static void replaceByLaunches(AttentionOp op,
                              MutableArrayRef<KernelBuilder> builders,
                              ArrayRef<SmallVector<LaunchedKernel>> kernels) {
  OpBuilder b(op);
  if (builders.size() == 1) {
    builders[0].getLaunches(b.saveInsertionPoint()).build(kernels[0]);
  } else {
    auto branch = scf::IfOp::create(
        b, op.getLoc(),
        builders[1].getLaunches(b.saveInsertionPoint()).buildQueryTest(),
        /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    builders[1].getLaunches(b.saveInsertionPoint()).build(kernels[1]);
    b.setInsertionPointToStart(branch.elseBlock());
    builders[0].getLaunches(b.saveInsertionPoint()).build(kernels[0]);
  }
  op.erase();
}

namespace {
struct TilePass final : mlir::flashcore::impl::TilePassBase<TilePass> {
  /// What the kernel builder relies on, beyond the op's verifier.
  LogicalResult checkPrecondition(AttentionOp op) {
    if (failed(checkIsOnHost(op, getOperation(), "attention")))
      return failure();
    if (!op->hasAttr(fcgpu::kScheduleAttrName))
      return op.emitOpError(
          "has no fcgpu.schedule; run flashcore-configure first");
    if (!op.getTile().empty())
      return op.emitOpError("is a tile already, but stands outside a kernel");
    AttentionProblem problem = AttentionProblem::get(op);
    for (StringRef name :
         {fcgpu::kScheduleAttrName, fcgpu::kFewQueriesAttrName}) {
      auto schedule = op->getAttrOfType<fcgpu::ScheduleAttr>(name);
      if (!schedule)
        continue;
      const TargetInfo *target = lookupTarget(schedule.getChip());
      if (!target)
        return op.emitOpError("has a schedule for an ")
               << unknownChipMessage(schedule.getChip());
      if (auto error = checkSchedule(problem, *target, schedule.getChoice(),
                                     FieldNames::Attribute))
        return op.emitOpError(*error);
    }
    return checkLowerable(op);
  }

  /// Builders of the kernels of an attention: those for all calls, or those for
  /// calls of many queries and then those for calls of few.
  static std::vector<KernelBuilder> getBuilders(AttentionOp op) {
    auto find = [&](StringRef name) {
      return op->getAttrOfType<fcgpu::ScheduleAttr>(name);
    };
    fcgpu::ScheduleAttr general = find(fcgpu::kScheduleAttrName),
                        few = find(fcgpu::kFewQueriesAttrName);
    QueryRange fewQueries, others;
    if (few) {
      fewQueries.most = few.getExpectedQueries();
      others.least = *fewQueries.most + 1;
    }
    std::vector<KernelBuilder> builders;
    builders.emplace_back(op, general, others);
    if (few)
      builders.emplace_back(op, few, fewQueries);
    return builders;
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<AttentionOp> ops;
    bool anyFailed = false;
    module.walk([&](AttentionOp op) {
      if (op->getParentOfType<gpu::GPUFuncOp>())
        return;
      anyFailed |= failed(checkPrecondition(op));
      ops.push_back(op);
    });
    if (anyFailed)
      return signalPassFailure();
    // Equal attentions share a kernel.
    DenseMap<ArrayAttr, SmallVector<SmallVector<LaunchedKernel>>> kernels;
    for (AttentionOp op : ops) {
      castToDefaultSpace(op);
      std::vector<KernelBuilder> builders = getBuilders(op);
      SmallVector<Attribute> keys;
      for (KernelBuilder &builder : builders)
        keys.push_back(builder.getKey());
      SmallVector<SmallVector<LaunchedKernel>> &entry =
          kernels[ArrayAttr::get(&getContext(), keys)];
      if (entry.empty()) {
        gpu::GPUModuleOp gpuModule = builders.front().createModule(module);
        for (KernelBuilder &builder : builders) {
          entry.push_back(builder.buildKernels(gpuModule));
          numKernels += entry.back().size();
        }
      }
      replaceByLaunches(op, builders, entry);
    }
    if (!ops.empty())
      module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                      UnitAttr::get(&getContext()));
  }
};
} // namespace
