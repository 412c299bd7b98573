//===- AttentionKernel.cpp - Phase 2: the kernel of an attention ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block has a query tile of one head, or of some that share their keys, and
// walks all keys or a part of them; each warp has rows of it, as a tile that
// the online softmax is written on.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"
#include "AttentionWorkspace.h"
#include "KernelOps.h"
#include "ScoreRegion.h"
#include "TileOperands.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/TileStaging.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class AttentionKernelBuilder {
public:
  AttentionKernelBuilder(AttentionOp op, KernelFrame &frame,
                         const AttentionSignature &signature)
      : op(op), frame(frame), signature(signature), b(frame.getBuilder()),
        block(op, frame, signature) {}

  void build();

private:
  void buildTile(Value warp);
  bool isSplit() const { return signature.getKeyParts().isSplit(); }

  AttentionOp op;
  KernelFrame &frame;
  const AttentionSignature &signature;
  ImplicitLocOpBuilder &b;
  AttentionBlock block;
  PartialResults partials; ///< of split keys
};
} // namespace

void AttentionKernelBuilder::buildTile(Value warp) {
  const Sequence &sequence = block.getSequence();
  WarpRows rows = block.findRows(warp);
  OpFoldResult firstRow = rows.row;
  if (getConstantIntValue(sequence.firstQuery) != 0)
    firstRow = affine::makeComposedFoldedAffineApply(
        b, b.getLoc(), b.getAffineDimExpr(0) + b.getAffineDimExpr(1),
        {sequence.firstQuery, rows.row});
  auto slice = [&](Value tensor, OpFoldResult entry) {
    return sliceRows(b, tensor, entry, rows.headQ, firstRow, rows.rows);
  };
  Value q = slice(frame.getTensor(operand::kQuery), sequence.batch);
  Value k = block.getKeys(operand::kKey);
  Value v = block.getKeys(operand::kValue);
  OpFoldResult entry =
      isSplit() ? block.getPartialEntry() : OpFoldResult(sequence.batch);
  Value o = slice(
      isSplit() ? partials.output : frame.getTensor(operand::kOutput), entry);
  Value lse;
  if (isSplit())
    lse = slice(partials.lse, entry);
  else if (op.getLse())
    lse = slice(frame.getTensor(operand::kLse), entry);
  Value rest = isSplit() ? partials.rest
                         : AttentionWorkspace(frame, signature).viewLseRest();
  if (rest)
    rest = slice(rest, entry);
  TilePlace place = block.getPlace(rows);
  auto tile = AttentionTileOp::create(
      b, q, k, v, o, lse, place, b.getF32FloatAttr(op.getEffectiveScale()));
  auto giveWhole = [&](MutableOperandRange operand, StringRef name) {
    if (Value tensor = frame.findTensor(name))
      operand.assign(tensor);
  };
  if (rest)
    tile.getLseRestMutable().assign(rest);
  // Of a part of the keys it is for the merge.
  if (!isSplit())
    giveWhole(tile.getSinkLogitsMutable(), operand::kSinkLogits);
  giveWhole(tile.getRngMutable(), operand::kRng);
  giveWhole(tile.getBlockCountsMutable(), operand::kBlockCounts);
  giveWhole(tile.getBlockIndicesMutable(), operand::kBlockIndices);
  giveWhole(tile.getFullBlockCountsMutable(), operand::kFullBlockCounts);
  giveWhole(tile.getFullBlockIndicesMutable(), operand::kFullBlockIndices);
  setBounds(op, tile);
  tile.setDropoutAttr(op.getDropoutAttr());
  tile.setBlockSizeAttr(op.getBlockSizeAttr());
  tile->setAttr(fcgpu::kScheduleAttrName, signature.getSchedule());
  addRegions(frame, op, tile);
}

void AttentionKernelBuilder::build() {
  auto prepare = [&] {
    if (isSplit())
      partials = AttentionWorkspace(frame, signature).viewPartialEntries();
  };
  block.build(prepare, [&](Value warp) { buildTile(warp); });
}

/// Boxes of all panels of `rows` rows of one page, of which `map` has the rows
/// of a group. The tile that a sequence ends in is copied group by group, and
/// what is behind is outside of a map that is not ragged.
static void addGroupMaps(SmallVectorImpl<KernelArgument> &arguments,
                         KernelArgument map, int64_t rows, int64_t cols) {
  int64_t panelCols = map.box.back();
  auto add = [&](int64_t groups) {
    map.box = {1, groups, cols / panelCols, map.group, panelCols};
    arguments.push_back(map);
  };
  add(rows / map.group);
  if (rows != map.group)
    add(1);
  map.raggedAxis = AttentionOp::Seqlen;
  add(1);
}

/// The tiles that bulk copies move: boxes of a panel's columns. They end with
/// the rows of a sequence, wherever it ends in the tensor.
static void addTensorMaps(SmallVectorImpl<KernelArgument> &arguments,
                          AttentionOp op, const AttentionSignature &signature) {
  fcgpu::ScheduleAttr schedule = signature.getSchedule();
  if (!schedule.hasBulkCopies())
    return;
  bool hasQueryEnds = static_cast<bool>(op.getCuSeqlensQ());
  bool hasKeyEnds = op.getCuSeqlensK() || op.getSequsedK() || op.getPageTable();
  std::optional<int64_t> pageSize;
  if (op.getPageTable())
    pageSize = op.getKeyType().getDimSize(AttentionOp::Seqlen);
  int64_t keyRows = getBoxRows(schedule.getChoice(), pageSize);
  SmallVector<std::tuple<StringRef, TileRole, int64_t>> tiles{
      {operand::kQuery, TileRole::Query, schedule.getWarpM()},
      {operand::kKey, TileRole::Key, keyRows},
      {operand::kValue, TileRole::Value, keyRows}};
  // Each warp stores its own rows.
  if (schedule.getOutput() == fcgpu::OutputRoute::Bulk)
    tiles.emplace_back(operand::kOutput, TileRole::Output,
                       schedule.getWarpM() / schedule.getTileWarps());
  for (auto [name, role, rows] : tiles) {
    unsigned index = signature.getTensorIndex(name);
    const KernelTensor &tensor = signature.getTensors()[index];
    MemRefType type = tensor.getType();
    KernelArgument map{KernelArgument::TensorMap, index};
    map.box.assign(type.getRank() - 2, 1);
    map.box.push_back(rows);
    map.box.push_back(fcgpu::kPanelBytes * 8 / type.getElementTypeBitWidth());
    map.swizzle = fcgpu::kPanelBytes;
    map.isCopy = tensor.isCopied;
    int64_t cols = type.getShape().back();
    map.group = getGroupRows(schedule.getChoice(), role, cols, pageSize);
    if (map.group) {
      addGroupMaps(arguments, std::move(map), rows, cols);
      continue;
    }
    bool isOfKeys = role == TileRole::Key || role == TileRole::Value;
    bool isRagged = isOfKeys ? hasKeyEnds : hasQueryEnds;
    // Loads need the other one, too (TensorBox.cpp).
    if (!isRagged || name != operand::kOutput)
      arguments.push_back(map);
    if (!isRagged)
      continue;
    map.raggedAxis = type.getRank() - 2;
    map.box.insert(map.box.begin(), 1);
    arguments.push_back(std::move(map));
  }
}

/// Of split keys, outputs and the sink are the merge's.
static SmallVector<KernelArgument>
listArguments(Operation *kernel, AttentionOp op,
              const AttentionSignature &signature) {
  using Use = OperandInfo::Use;
  const KeyParts &parts = signature.getKeyParts();
  auto isTaken = [&](const KernelTensor &tensor) {
    Use use = AttentionSignature::getUse(tensor);
    if (AttentionSignature::isOfAppend(tensor) || use == Use::Scores)
      return false;
    return !parts.isSplit() || (use != Use::Result && use != Use::Sink);
  };
  auto isSize = [&](Dim dim) {
    return (dim != Dim::KeySplits || parts.dependOn(dim)) &&
           !AttentionSignature::isOfAppend(dim);
  };
  SmallVector<KernelArgument> arguments =
      signature.listArguments(getWorkspaceUse(kernel), isTaken, isSize);
  signature.addCopyOfQuery(arguments);
  addTensorMaps(arguments, op, signature);
  return arguments;
}

/// Of a persistent kernel, which is right for any number of blocks, as many as
/// the device has room for.
static SizeFormula getGrid(const AttentionSignature &signature) {
  fcgpu::ScheduleAttr schedule = signature.getSchedule();
  if (!schedule.isPersistent())
    return signature.getNumTiles();
  return SizeFormula::min(
      {signature.getNumTiles(),
       SizeFormula(Dim::Multiprocessors) * schedule.getBlocksPerSM()});
}

namespace {
struct AttentionKernel final
    : AttentionKernelOpInterface::ExternalModel<AttentionKernel,
                                                AttentionKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    auto op = kernel->getParentOfType<AttentionOp>();
    fcgpu::ScheduleAttr schedule = signature.getSchedule();
    return {
        "",
        listArguments(kernel, op, signature),
        {getGrid(signature), schedule.getNumThreads(),
         getSharedMemoryBytes(AttentionProblem::get(op), schedule.getChoice())},
        schedule,
        [=, &signature](KernelFrame &frame) {
          AttentionKernelBuilder(op, frame, signature).build();
        }};
  }
};
} // namespace

void mlir::flashcore::attachAttentionKernel(MLIRContext *context) {
  AttentionKernelOp::attachInterface<AttentionKernel>(*context);
}
