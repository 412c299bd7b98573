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

#include "HostLaunch.h"
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
/// The kernels of one attention; `merge` is null unless its keys are split,
/// `softmax` and `values` unless it is unfused, `scores` unless they are an
/// output.
struct Kernels {
  gpu::GPUFuncOp append, attention, merge, softmax, values, scores;

  unsigned getNumber() const {
    return llvm::count_if(
        ArrayRef{append, attention, merge, softmax, values, scores},
        [](gpu::GPUFuncOp kernel) { return static_cast<bool>(kernel); });
  }
};

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
  Kernels buildKernels(gpu::GPUModuleOp module);
  /// Makes what says, on the host in front of the attention, whether a call has
  /// such queries; there is a most.
  Value buildQueryTest();
  /// Makes launches of `kernels` where `point` is.
  void buildLaunches(Kernels kernels, OpBuilder::InsertPoint point);

private:
  std::string getKernelName();
  DictionaryAttr getDescription() {
    return signature.toDictionary(op, schedule, getSharedMemory());
  }
  gpu::GPUFuncOp buildMainKernel(ArrayRef<KernelArgument> arguments,
                                 StringRef name, DictionaryAttr description);
  void buildUnfused(Kernels &kernels, const std::string &name);
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
  void findSizes();
  /// The larger of 1 and `operand` + `plus`.
  OpFoldResult getAtLeastOne(OpFoldResult operand, int64_t plus = 0);
  OpFoldResult getNumSequences();
  OpFoldResult getMeanQueries();
  OpFoldResult computeKeySplits();
  OpFoldResult countFloatsOfRest();
  OpFoldResult countFloats();
  OpFoldResult countScores();
  Value allocate(Type element, OpFoldResult count);
  Value viewWorkspace(Type element, OpFoldResult count);
  void allocateScores();
  void allocateWorkspace();
  void buildUnfusedLaunches(Kernels kernels);
  void buildAppendLaunch(gpu::GPUFuncOp kernel);
  void buildScoresLaunch(gpu::GPUFuncOp kernel);
  void buildLaunch(gpu::GPUFuncOp kernel, ArrayRef<KernelArgument> arguments,
                   OpFoldResult grid, int64_t numThreads, int64_t sharedMemory);

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
  /// Of sequences back to back one more for each: Sequences.cpp.
  OpFoldResult getNumQueryBlocks() {
    AffineExpr blocks = b.getAffineDimExpr(0).ceilDiv(schedule.getBlockM());
    if (op.getCuSeqlensQ())
      return apply(blocks + b.getAffineDimExpr(1),
                   {getSize(Dim::SeqlenQ), getSize(Dim::CuSeqlens)});
    return apply(blocks, {getSize(Dim::SeqlenQ)});
  }

  OpFoldResult getNumHeadGroups() {
    return apply(b.getAffineDimExpr(0).floorDiv(schedule.getHeadGroup()),
                 {getSize(Dim::HeadsQ)});
  }

  /// Block tiles: those of a full grid, one a block.
  OpFoldResult getNumTiles() {
    return apply(b.getAffineDimExpr(0) * b.getAffineSymbolExpr(0) *
                     b.getAffineSymbolExpr(1) * b.getAffineSymbolExpr(2),
                 {getNumQueryBlocks(), getNumHeadGroups(), getSize(Dim::Batch),
                  getNumParts()});
  }
  /// Tiles of `blockM` x `blockN` scores.
  OpFoldResult countScoreTiles(int64_t blockM, int64_t blockN) {
    return apply(
        b.getAffineDimExpr(0).ceilDiv(blockM) * b.getAffineSymbolExpr(0) *
            b.getAffineSymbolExpr(1) * b.getAffineSymbolExpr(2),
        {getSize(Dim::SeqlenQ),
         apply(b.getAffineDimExpr(0).ceilDiv(blockN), {getSize(Dim::SeqlenK)}),
         getSize(Dim::HeadsQ), getSize(Dim::Batch)});
  }
  OpFoldResult getNumParts() {
    return signature.getKeyParts().getNumber(
        b, [&](Dim dim) { return getSize(dim); });
  }
  OpFoldResult getGrid();

  bool isSplit() const { return signature.getKeyParts().isSplit(); }
  bool needsWorkspace() {
    return isSplit() || schedule.isUnfused() || op.getRotaryCos() ||
           signature.keepsLseRest();
  }

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
  /// On the host.
  std::optional<HostLaunch> host;
  /// What is allocated, and pointers to it of f32 and of query's type.
  Value workspace;
  HostLaunch::Workspace pointers;
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

Kernels KernelBuilder::buildKernels(gpu::GPUModuleOp module) {
  std::string name = getKernelName() + (queries.most ? "_few_queries" : "");
  Kernels kernels;
  b.setInsertionPointToEnd(module.getBody());
  if (op.getKNew()) {
    kernels.append = buildAppendKernel(b, op, signature, name + "_append");
    b.setInsertionPointToEnd(module.getBody());
  }
  if (schedule.isUnfused())
    buildUnfused(kernels, name);
  else
    kernels.attention =
        buildMainKernel(signature.getArguments(), name, getDescription());
  if (isSplit()) {
    b.setInsertionPointAfter(kernels.attention);
    kernels.merge =
        buildMergeKernel(b, signature, name + "_merge", schedule.isInvariant());
  }
  if (op.getScores()) {
    b.setInsertionPointToEnd(module.getBody());
    kernels.scores =
        buildScoresKernel(b, op, signature, schedule, name + "_scores");
  }
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

/// Makes those that leave S and P in the workspace, and that of P V.
void KernelBuilder::buildUnfused(Kernels &kernels, const std::string &name) {
  kernels.attention = buildUnfusedScoresKernel(b, op, signature, schedule, name,
                                               getDescription());
  b.setInsertionPointAfter(kernels.attention);
  kernels.softmax = buildSoftmaxKernel(b, op, signature, name + "_softmax");
  b.setInsertionPointAfter(kernels.softmax);
  kernels.values =
      buildMainKernel(signature.getValuesArguments(), name + "_values",
                      signature.toValuesDictionary(op, schedule));
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
  Value numRounds = evaluate(walk.numRounds, {getNumTiles(), numBlocks, block});
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
  auto give = [&](MutableOperandRange operand, Value value) {
    if (value)
      operand.assign(value);
  };
  auto giveWhole = [&](MutableOperandRange operand, StringRef name) {
    give(operand, frame.findTensor(name));
  };
  give(tiled.getLseRestMutable(), rest);
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

/// What the host knows of the tensors, and sizes that it computes.
void KernelBuilder::findSizes() {
  host.emplace(b, signature);
  sizes.assign(host->getSizes().begin(), host->getSizes().end());
}

OpFoldResult KernelBuilder::getAtLeastOne(OpFoldResult operand, int64_t plus) {
  AffineMap map = AffineMap::get(
      1, 0, {b.getAffineConstantExpr(1), b.getAffineDimExpr(0) + plus},
      op.getContext());
  return affine::makeComposedFoldedAffineMax(b, b.getLoc(), map, {operand});
}

OpFoldResult KernelBuilder::getNumSequences() {
  return op.getCuSeqlensQ() ? getAtLeastOne(getSize(Dim::CuSeqlens), -1)
                            : getSize(Dim::Batch);
}

OpFoldResult KernelBuilder::getMeanQueries() {
  if (!op.getCuSeqlensQ())
    return getSize(Dim::SeqlenQ);
  return apply(b.getAffineDimExpr(0).ceilDiv(b.getAffineSymbolExpr(0)),
               {getSize(Dim::SeqlenQ), getNumSequences()});
}

Value KernelBuilder::buildQueryTest() {
  b.setInsertionPoint(op);
  findSizes();
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sle,
                               asValue(getMeanQueries()),
                               asValue(b.getIndexAttr(*queries.most)));
}

/// SplitFormula, of the sizes of a call.
OpFoldResult KernelBuilder::computeKeySplits() {
  SplitFormula formula =
      getSplitFormula(schedule.getChoice(), *lookupTarget(schedule.getChip()));
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  auto constant = [&](int64_t value) { return b.getAffineConstantExpr(value); };
  OpFoldResult tiles =
      apply(d0.ceilDiv(formula.rows) * s0 * s1.floorDiv(formula.heads),
            {getMeanQueries(), getNumSequences(), getSize(Dim::HeadsQ)});
  tiles = getAtLeastOne(tiles);
  OpFoldResult keys = op.getPageTable()
                          ? apply(d0 * s0, {getSize(Dim::PagesPerSequence),
                                            getSize(Dim::PageSize)})
                          : getSize(Dim::SeqlenK);
  OpFoldResult wanted = apply(constant(formula.blocks).floorDiv(s0), {tiles});
  AffineMap least = AffineMap::get(
      2, 0, {constant(formula.most), d0, d1.floorDiv(formula.keys)},
      op.getContext());
  OpFoldResult splits =
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), least, {wanted, keys});
  return getAtLeastOne(splits);
}

/// Of what LSE is rounded by, which is kept for the kernel of scores.
OpFoldResult KernelBuilder::countFloatsOfRest() {
  if (!signature.keepsLseRest())
    return b.getIndexAttr(0);
  constexpr int64_t floats = LseRest::kRowFloats;
  return apply(
      b.getAffineDimExpr(0).ceilDiv(floats) * floats *
          b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1),
      {getSize(Dim::SeqlenQ), getSize(Dim::HeadsQ), getSize(Dim::Batch)});
}

/// Of that, and of the partial results, which one kernel makes and the next one
/// uses all.
OpFoldResult KernelBuilder::countFloats() {
  OpFoldResult rest = countFloatsOfRest();
  if (!isSplit())
    return rest;
  int64_t floatsOfRow =
      signature.getPartialColumns() + PartialResults::kFloatsOfLse;
  OpFoldResult partials = apply(
      b.getAffineDimExpr(0) * b.getAffineSymbolExpr(0) *
          b.getAffineSymbolExpr(1) * b.getAffineSymbolExpr(2) * floatsOfRow,
      {getSize(Dim::SeqlenQ), getSize(Dim::HeadsQ), getSize(Dim::Batch),
       getNumParts()});
  return apply(b.getAffineDimExpr(0) + b.getAffineDimExpr(1), {partials, rest});
}

/// Of softmax unfused: in rows of whole tiles.
OpFoldResult KernelBuilder::countScores() {
  int64_t keys = signature.getTileKeys();
  return apply(b.getAffineDimExpr(0).ceilDiv(keys) * keys *
                   b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1) *
                   b.getAffineSymbolExpr(2),
               {getSize(Dim::SeqlenK), getSize(Dim::SeqlenQ),
                getSize(Dim::HeadsQ), getSize(Dim::Batch)});
}

Value KernelBuilder::allocate(Type element, OpFoldResult count) {
  auto type = MemRefType::get({ShapedType::kDynamic}, element);
  return gpu::AllocOp::create(b, type, /*asyncToken=*/Type(),
                              /*asyncDependencies=*/ValueRange(),
                              ValueRange{asValue(count)},
                              /*symbolOperands=*/ValueRange())
      .getMemref();
}

static Value getBase(ImplicitLocOpBuilder &b, Value memref) {
  return memref::ExtractStridedMetadataOp::create(b, memref).getBaseBuffer();
}

/// A pointer to `count` elements, which the workspace of bytes has room for.
Value KernelBuilder::viewWorkspace(Type element, OpFoldResult count) {
  return getBase(b, memref::ViewOp::create(
                        b, MemRefType::get({ShapedType::kDynamic}, element),
                        workspace, asValue(b.getIndexAttr(0)),
                        ValueRange{asValue(count)}));
}

/// Room for S and, behind it, for as many elements of P: 4 bytes and 2 each;
/// in front of them for what LSE is rounded by.
void KernelBuilder::allocateScores() {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult scores = countScores(), rest = countFloatsOfRest();
  workspace =
      allocate(b.getI8Type(), apply(d0 * (4 + 2) + d1 * 4, {scores, rest}));
  pointers.floats =
      viewWorkspace(b.getF32Type(), apply(d0 + d1, {scores, rest}));
  pointers.typed = viewWorkspace(op.getQueryType().getElementType(),
                                 apply(d0 * (2 + 1) + d1 * 2, {scores, rest}));
}

/// Room for a copy of query, and for floats or for S and P.
void KernelBuilder::allocateWorkspace() {
  if (schedule.isUnfused())
    return allocateScores();
  if (!op.getRotaryCos()) {
    workspace = allocate(b.getF32Type(), countFloats());
    pointers.floats = getBase(b, workspace);
    return;
  }
  Type element = op.getQueryType().getElementType();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult elements =
      apply(d0 * b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1) *
                signature.getCopyRow(/*tensor=*/0),
            {getSize(Dim::SeqlenQ), getSize(Dim::HeadsQ), getSize(Dim::Batch)});
  if (!isSplit() && !signature.keepsLseRest()) {
    workspace = allocate(element, elements);
    pointers.typed = getBase(b, workspace);
    return;
  }
  OpFoldResult bytes = apply(d0 * 2 + d1 * 4, {elements, countFloats()});
  workspace = allocate(b.getI8Type(), bytes);
  pointers.typed = viewWorkspace(element, elements);
  pointers.floats =
      viewWorkspace(b.getF32Type(), apply(d0.floorDiv(4), {bytes}));
}

void KernelBuilder::buildLaunch(gpu::GPUFuncOp kernel,
                                ArrayRef<KernelArgument> arguments,
                                OpFoldResult grid, int64_t numThreads,
                                int64_t sharedMemory) {
  host->launch(kernel, arguments, pointers, grid, numThreads, sharedMemory);
}

/// Blocks of the attention kernel. How many SMs the device has is known to us
/// from its chip alone; the kernel is right for any number of blocks.
OpFoldResult KernelBuilder::getGrid() {
  if (schedule.isUnfused())
    return countScoreTiles(schedule.getBlockM(), schedule.getBlockN());
  OpFoldResult tiles = getNumTiles();
  if (!schedule.isPersistent())
    return tiles;
  int64_t limit = lookupTarget(schedule.getChip())->device.numSMs *
                  schedule.getBlocksPerSM();
  AffineMap map = AffineMap::get(
      1, 0, {b.getAffineDimExpr(0), b.getAffineConstantExpr(limit)},
      op.getContext());
  return affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, {tiles});
}

/// In front of the others, which read what it writes.
void KernelBuilder::buildAppendLaunch(gpu::GPUFuncOp kernel) {
  AffineExpr d0, d1;
  bindDims(op.getContext(), d0, d1);
  OpFoldResult rows =
      op.getRotaryCos()
          ? apply(d0.ceilDiv(kAppendRows) + d1,
                  {getSize(Dim::SeqlenQ), getSize(Dim::SeqlenNew)})
          : apply(d0.ceilDiv(kAppendRows), {getSize(Dim::SeqlenNew)});
  OpFoldResult grid =
      apply(d0 * b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1),
            {rows, getSize(Dim::HeadsKV), getSize(Dim::Batch)});
  buildLaunch(kernel, signature.getAppendArguments(), grid,
              kernel.getKnownBlockSizeAttr()[0], /*sharedMemory=*/0);
}

/// Behind the others: probabilities need the log-sum-exp of all keys.
void KernelBuilder::buildScoresLaunch(gpu::GPUFuncOp kernel) {
  fcgpu::ScheduleChoice choice = signature.getScoresChoice();
  buildLaunch(kernel, signature.getScoresArguments(),
              countScoreTiles(choice.blockM, choice.blockN),
              choice.numWarps * kWarpSize,
              getScoresSharedMemoryBytes(AttentionProblem::get(op), choice));
}

/// Those behind that of the scores.
void KernelBuilder::buildUnfusedLaunches(Kernels kernels) {
  OpFoldResult rows =
      apply(b.getAffineDimExpr(0).ceilDiv(kSoftmaxRows) *
                b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1),
            {getSize(Dim::SeqlenQ), getSize(Dim::HeadsQ), getSize(Dim::Batch)});
  buildLaunch(kernels.softmax, signature.getSoftmaxArguments(), rows,
              kSoftmaxThreads, /*sharedMemory=*/0);
  buildLaunch(kernels.values, signature.getValuesArguments(), getNumTiles(),
              schedule.getNumThreads(),
              getValuesSharedMemoryBytes(AttentionProblem::get(op),
                                         schedule.getChoice()));
}

void KernelBuilder::buildLaunches(Kernels kernels,
                                  OpBuilder::InsertPoint point) {
  b.restoreInsertionPoint(point);
  findSizes();
  constexpr int keySplits = static_cast<int>(Dim::KeySplits);
  if (schedule.getSplitCount() == fcgpu::SplitCount::Call) {
    sizes[keySplits] = computeKeySplits();
    host->setSize(Dim::KeySplits, sizes[keySplits]);
  }
  OpFoldResult grid = getGrid();
  workspace = Value();
  if (needsWorkspace())
    allocateWorkspace();
  if (kernels.append)
    buildAppendLaunch(kernels.append);
  buildLaunch(kernels.attention, signature.getArguments(), grid,
              schedule.getNumThreads(), getSharedMemory());
  if (schedule.isUnfused())
    buildUnfusedLaunches(kernels);
  if (isSplit())
    host->launchForRows(kernels.merge, signature.getMergeArguments(), pointers);
  if (kernels.scores)
    buildScoresLaunch(kernels.scores);
  if (workspace)
    gpu::DeallocOp::create(b, /*asyncToken=*/Type(),
                           /*asyncDependencies=*/ValueRange(), workspace);
}

/// Launches of all kernels of an attention, in the place of the op: where there
/// are two sets, the second is for calls of few queries.
static void replaceByLaunches(AttentionOp op,
                              MutableArrayRef<KernelBuilder> builders,
                              ArrayRef<Kernels> kernels) {
  OpBuilder b(op);
  if (builders.size() == 1) {
    builders[0].buildLaunches(kernels[0], b.saveInsertionPoint());
  } else {
    auto branch =
        scf::IfOp::create(b, op.getLoc(), builders[1].buildQueryTest(),
                          /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    builders[1].buildLaunches(kernels[1], b.saveInsertionPoint());
    b.setInsertionPointToStart(branch.elseBlock());
    builders[0].buildLaunches(kernels[0], b.saveInsertionPoint());
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
    DenseMap<ArrayAttr, SmallVector<Kernels>> kernels;
    for (AttentionOp op : ops) {
      castToDefaultSpace(op);
      std::vector<KernelBuilder> builders = getBuilders(op);
      SmallVector<Attribute> keys;
      for (KernelBuilder &builder : builders)
        keys.push_back(builder.getKey());
      SmallVector<Kernels> &entry =
          kernels[ArrayAttr::get(&getContext(), keys)];
      if (entry.empty()) {
        gpu::GPUModuleOp gpuModule = builders.front().createModule(module);
        for (KernelBuilder &builder : builders) {
          entry.push_back(builder.buildKernels(gpuModule));
          numKernels += entry.back().getNumber();
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
