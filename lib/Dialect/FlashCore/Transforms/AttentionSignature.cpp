//===- AttentionSignature.cpp - What an attention's kernels take ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tensors of an attention, and what its kernels are for a manifest.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/Transforms/AttentionKernels.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Schedule/TileStaging.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

/// The dimension of an axis of the table; none of one that only this tensor
/// has.
static std::optional<Dim> findDim(AttentionOp op, StringRef axis) {
  bool isPaged = static_cast<bool>(op.getPageTable());
  if (axis == "entries")
    return op.getCuSeqlensQ() ? Dim::Sequences : Dim::Batch;
  if (axis == "key_entries")
    return isPaged ? Dim::Pages : Dim::Batch;
  if (axis == "keys")
    return isPaged ? Dim::PageSize : Dim::SeqlenK;
  for (unsigned dim = 0; dim < kNumDims; ++dim)
    if (stringifyDim(static_cast<Dim>(dim)) == axis)
      return static_cast<Dim>(dim);
  return std::nullopt;
}

static KernelTensor getTensor(AttentionOp op, const OperandInfo &row,
                              Value value) {
  auto type = cast<MemRefType>(value.getType());
  SmallVector<Dim> axes;
  for (auto [axis, name] : llvm::enumerate(row.getAxes())) {
    std::optional<Dim> dim = findDim(op, name);
    if (!dim)
      break;
    bool isBroadcast = row.isBroadcast(axis) && type.getDimSize(axis) == 1;
    axes.push_back(isBroadcast ? Dim::One : *dim);
  }
  int64_t alignment = row.access == OperandInfo::Access::Rows
                          ? getAccessBytes(type)
                          : type.getElementTypeBitWidth() / 8;
  KernelTensor tensor(row.tensor, row.role == OperandInfo::Role::Output, value,
                      axes, alignment);
  tensor.isUpdated = row.role == OperandInfo::Role::Cache && op.getKNew();
  return tensor;
}

/// Query, key and value, then outputs, then all others.
static SmallVector<KernelTensor> getTensors(AttentionOp op) {
  SmallVector<KernelTensor> outputs, others;
  for (auto [row, value] : listOperands(op)) {
    if (row.role == OperandInfo::Role::Tile)
      continue;
    bool isOutput = row.role == OperandInfo::Role::Output;
    (isOutput ? outputs : others).push_back(getTensor(op, row, value));
  }
  // Query is turned in a copy.
  others.front().isCopied = static_cast<bool>(op.getRotaryCos());
  for (auto [i, value] : llvm::enumerate(op.getCapturedTensors())) {
    auto type = cast<MemRefType>(value.getType());
    others.emplace_back(getCaptureName(i), /*isOutput=*/false, value,
                        ArrayRef<Dim>(), type.getElementTypeBitWidth() / 8);
  }
  SmallVector<KernelTensor> tensors(others.begin(),
                                    others.begin() + kNumInputs);
  llvm::append_range(tensors, outputs);
  tensors.append(others.begin() + kNumInputs, others.end());
  return tensors;
}

/// What the sizes of `signature` leave open of how many parts there are.
static KeyParts findKeyParts(AttentionOp op, fcgpu::ScheduleAttr schedule,
                             const KernelSignature &signature) {
  // One part is merged, too: which of the kernels runs does not depend on it.
  if (schedule.getSplitCount() == fcgpu::SplitCount::Call)
    return {1, {{Dim::KeySplits, Dim::KeySplits}}, /*isMerged=*/true};
  int64_t keys = schedule.getSplitKeys();
  if (keys == 0)
    return {schedule.getKeySplits(), {}};
  SmallVector<std::pair<Dim, int64_t>> all{{Dim::SeqlenK, keys}};
  if (op.getPageTable()) {
    // Parts of whole pages, or a page's: there may be more than the keys need.
    int64_t page = signature.getExtent(Dim::PageSize).value_or(keys + 1);
    if (page <= keys)
      all = {{Dim::PagesPerSequence, keys / page}};
    else
      all = {{Dim::PagesPerSequence, 1}, {Dim::PageSize, keys}};
  }
  KeyParts parts;
  for (auto [dim, tile] : all) {
    if (auto size = signature.getExtent(dim))
      parts.count *= llvm::divideCeil(*size, tile);
    else
      parts.factors.push_back({dim, SizeFormula(dim).ceilDiv(tile)});
  }
  // One without a sink is the result as it is.
  parts.isMerged = static_cast<bool>(op.getSinkLogits());
  return parts;
}

/// What only the kernel of the append reads; others read the copy of query.
static bool isOfAppend(const KernelTensor &tensor) {
  return tensor.isCopied || tensor.name == "k_new" || tensor.name == "v_new" ||
         tensor.name == "rotary_cos" || tensor.name == "rotary_sin";
}

static bool isOfAppend(Dim dim) {
  return dim == Dim::Positions || dim == Dim::RotaryPairs;
}

/// Of a kernel that writes outputs as well.
static void setWorkspaceWritten(MutableArrayRef<KernelArgument> arguments) {
  for (KernelArgument &argument : arguments)
    argument.isWritten = argument.kind == KernelArgument::Workspace;
}

AttentionSignature::AttentionSignature(AttentionOp op,
                                       fcgpu::ScheduleAttr schedule,
                                       QueryRange queries)
    : KernelSignature(::getTensors(op)),
      keyParts(findKeyParts(op, schedule, *this)), isVarlen(op.getCuSeqlensQ()),
      isPaged(op.getPageTable()), isTurned(op.getRotaryCos()),
      keepsRest(op.getStage() == ScoresStage::Probabilities), queries(queries),
      tileKeys(schedule.getBlockN()) {
  // Kernels of both kinds of calls may split their keys.
  if (queries.most)
    nameSize(Dim::KeySplits, "key_splits_few_queries");
  if (op.getScores()) {
    scoresChoice =
        chooseScoresSchedule(AttentionProblem::get(op), schedule.getChoice());
    scoresArguments =
        listScoresArguments(*op.getStage(), /*writesOutput=*/true);
  }
  if (op.getKNew())
    listAppendArguments();
  if (schedule.isUnfused()) {
    listUnfusedArguments();
    return;
  }
  auto isOfSink = [](const KernelTensor &tensor) {
    return tensor.name == "sink_logits";
  };
  auto isInput = [&](const KernelTensor &tensor) {
    return !tensor.isOutput && !isOfSink(tensor) && !isOfAppend(tensor);
  };
  // Which rows are of a sequence.
  auto isOfMerge = [&](const KernelTensor &tensor) {
    return (tensor.isOutput && tensor.name != "scores") || isOfSink(tensor) ||
           tensor.name == "cu_seqlens_q";
  };
  auto isOfAttention = [](const KernelTensor &tensor) {
    return tensor.name != "scores" && !isOfAppend(tensor);
  };
  auto isPart = [&](Dim dim) {
    return llvm::any_of(keyParts.factors, [&](const KeyParts::Factor &factor) {
      return factor.size == dim;
    });
  };
  auto isSize = [&](Dim dim) {
    return (dim != Dim::KeySplits || isPart(dim)) && !isOfAppend(dim);
  };
  if (!keyParts.isSplit()) {
    arguments =
        listArguments(/*needsWorkspace=*/keepsRest, isOfAttention, isSize);
    setWorkspaceWritten(arguments);
    addCopyOfQuery(arguments);
    addTensorMaps(op, schedule);
    return;
  }
  arguments = listArguments(/*needsWorkspace=*/true, isInput, isSize);
  addCopyOfQuery(arguments);
  addTensorMaps(op, schedule);
  mergeArguments =
      listArguments(/*needsWorkspace=*/true, isOfMerge, [&](Dim dim) {
        return dim == Dim::Batch || dim == Dim::HeadsQ || dim == Dim::SeqlenQ ||
               dim == Dim::CuSeqlens || isPart(dim);
      });
  if (keepsRest)
    setWorkspaceWritten(mergeArguments);
}

/// For kernels behind that of the append, which turned the rows of query.
void AttentionSignature::addCopyOfQuery(
    SmallVectorImpl<KernelArgument> &list) const {
  if (getTensors().front().isCopied)
    addCopy(list, "q", /*isWritten=*/false);
}

/// Which rows there are, where they go, and what they are turned by.
void AttentionSignature::listAppendArguments() {
  auto isTaken = [&](const KernelTensor &tensor) {
    return isOfAppend(tensor) || tensor.isUpdated ||
           tensor.name == "seqused_k" || tensor.name == "page_table";
  };
  appendArguments =
      listArguments(/*needsWorkspace=*/false, isTaken, [&](Dim dim) {
        bool isOfQuery = dim == Dim::SeqlenQ || dim == Dim::HeadsQ;
        return dim <= Dim::RotaryPairs && dim != Dim::KeySplits &&
               (isTurned || !isOfQuery);
      });
  for (KernelArgument &argument : appendArguments)
    argument.isWritten = argument.kind == KernelArgument::Pointer &&
                         getTensors()[argument.tensor].isUpdated;
  if (isTurned)
    addCopy(appendArguments, "q", /*isWritten=*/true);
}

/// The stage says what scores are made of. They are an output, or go to the
/// workspace.
SmallVector<KernelArgument>
AttentionSignature::listScoresArguments(ScoresStage stage,
                                        bool writesOutput) const {
  auto isTaken = [&](const KernelTensor &tensor) {
    StringRef name = tensor.name;
    if (isOfAppend(tensor))
      return false;
    if (name == "scores")
      return writesOutput;
    if (name == "q" || name == "k" || name == "seqused_k")
      return true;
    if (name == "lse")
      return stage == ScoresStage::Probabilities;
    // What changes scores, or hides them.
    return stage >= ScoresStage::Changed && !tensor.isOutput && name != "v" &&
           name != "sink_logits" && name != "rng";
  };
  SmallVector<KernelArgument> result = listArguments(
      /*needsWorkspace=*/!writesOutput || keepsRest, isTaken, [](Dim dim) {
        return dim != Dim::HeadDimV && dim != Dim::KeySplits &&
               !isOfAppend(dim);
      });
  addCopyOfQuery(result);
  return result;
}

/// Of the three kernels with S and P between them.
void AttentionSignature::listUnfusedArguments() {
  arguments = listScoresArguments(ScoresStage::Masked, /*writesOutput=*/false);
  softmaxArguments = listArguments(
      /*needsWorkspace=*/true,
      [](const KernelTensor &tensor) {
        return tensor.name == "lse" || tensor.name == "sink_logits";
      },
      [](Dim dim) {
        return dim == Dim::Batch || dim == Dim::HeadsQ || dim == Dim::SeqlenQ ||
               dim == Dim::SeqlenK;
      });
  setWorkspaceWritten(softmaxArguments);
  valuesArguments = listArguments(
      /*needsWorkspace=*/false,
      [](const KernelTensor &tensor) {
        return tensor.name == "v" || tensor.name == "o" ||
               tensor.name == "seqused_k";
      },
      [](Dim dim) { return dim <= Dim::SeqlenK; });
  addWorkspaceOf(valuesArguments, "q");
}

/// Boxes of all panels of `rows` rows of one page, of which `map` has the rows
/// of a group. The tile that a sequence ends in is copied group by group, and
/// what is behind is outside of a map that is not ragged.
void AttentionSignature::addGroupMaps(KernelArgument map, int64_t rows,
                                      int64_t cols) {
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
void AttentionSignature::addTensorMaps(AttentionOp op,
                                       fcgpu::ScheduleAttr schedule) {
  if (!schedule.hasBulkCopies())
    return;
  bool hasQueryEnds = static_cast<bool>(op.getCuSeqlensQ());
  bool hasKeyEnds = op.getCuSeqlensK() || op.getSequsedK() || op.getPageTable();
  std::optional<int64_t> pageSize;
  if (op.getPageTable())
    pageSize = op.getKeyType().getDimSize(AttentionOp::Seqlen);
  int64_t keyRows = getBoxRows(schedule.getChoice(), pageSize);
  SmallVector<std::tuple<StringRef, TileRole, int64_t>> tiles{
      {"q", TileRole::Query, schedule.getWarpM()},
      {"k", TileRole::Key, keyRows},
      {"v", TileRole::Value, keyRows}};
  // Each warp stores its own rows.
  if (schedule.getOutput() == fcgpu::OutputRoute::Bulk)
    tiles.emplace_back("o", TileRole::Output,
                       schedule.getWarpM() / schedule.getTileWarps());
  for (auto [name, role, rows] : tiles) {
    unsigned index = getTensorIndex(name);
    MemRefType type = getTensors()[index].getType();
    KernelArgument map{KernelArgument::TensorMap, index};
    map.box.assign(type.getRank() - 2, 1);
    map.box.push_back(rows);
    map.box.push_back(fcgpu::kPanelBytes * 8 / type.getElementTypeBitWidth());
    map.swizzle = fcgpu::kPanelBytes;
    map.isCopy = getTensors()[index].isCopied;
    int64_t cols = type.getShape().back();
    map.group = getGroupRows(schedule.getChoice(), role, cols, pageSize);
    if (map.group) {
      addGroupMaps(std::move(map), rows, cols);
      continue;
    }
    bool isOfKeys = role == TileRole::Key || role == TileRole::Value;
    bool isRagged = isOfKeys ? hasKeyEnds : hasQueryEnds;
    // Loads need the other one, too (TensorBox.cpp).
    if (!isRagged || name != "o")
      arguments.push_back(map);
    if (!isRagged)
      continue;
    map.raggedAxis = type.getRank() - 2;
    map.box.insert(map.box.begin(), 1);
    arguments.push_back(std::move(map));
  }
}

/// Which calls launch a kernel.
void AttentionSignature::setCondition(NamedAttrList &kernel, Builder b) const {
  if (queries.isAll())
    return;
  std::string rows = print(getMeanQueries());
  std::string when = queries.most
                         ? rows + " <= " + std::to_string(*queries.most)
                         : rows + " >= " + std::to_string(queries.least);
  kernel.set("when", b.getStringAttr(when));
}

/// What the manifest calls the causal mask.
static StringRef describeCausal(AttentionOp op) {
  return op.getCausal() ? stringifyCausalAlignment(*op.getCausal())
                        : StringRef("none");
}

/// The attributes of the op, and its regions.
static DictionaryAttr describeAttributes(AttentionOp op) {
  Builder b(op.getContext());
  NamedAttrList result;
  result.set("softmax_scale", b.getF32FloatAttr(op.getEffectiveScale()));
  result.set("causal", b.getStringAttr(describeCausal(op)));
  auto window = [&](std::optional<uint64_t> keys) -> Attribute {
    if (!keys)
      return b.getUnitAttr();
    return b.getI64IntegerAttr(static_cast<int64_t>(*keys));
  };
  result.set("window_left", window(op.getWindowLeft()));
  result.set("window_right", window(op.getWindowRight()));
  result.set("softcap", op.getSoftcapAttr() ? Attribute(op.getSoftcapAttr())
                                            : b.getUnitAttr());
  if (auto stage = op.getStage())
    result.set("scores_stage", b.getStringAttr(stringifyScoresStage(*stage)));
  if (FloatAttr dropout = op.getDropoutAttr())
    result.set("dropout", dropout);
  if (auto style = op.getStyle())
    result.set("rotary", b.getStringAttr(stringifyRotaryStyle(*style)));
  if (auto size = op.getBlockSize())
    result.set("block_size", b.getI64ArrayAttr(*size));
  for (auto [name, region] :
       {std::pair<StringRef, Region *>("score", &op.getScoreRegion()),
        {"mask", &op.getMaskRegion()}})
    if (!region->empty())
      result.set(name, describeRegion(*region, op.getCapturedTensors()));
  return result.getDictionary(op.getContext());
}

DictionaryAttr
AttentionSignature::toDictionary(AttentionOp op, fcgpu::ScheduleAttr schedule,
                                 int64_t sharedMemoryBytes) const {
  MLIRContext *context = op.getContext();
  Builder b(context);
  NamedAttrList kernel = describeKernel(
      context, arguments,
      {getGrid(schedule), schedule.getNumThreads(), sharedMemoryBytes});
  kernel.set("op", b.getStringAttr("attention"));
  kernel.set("attributes", describeAttributes(op));
  kernel.append(describeProblem(context));
  setCondition(kernel, b);
  if (schedule.getSplitCount() == fcgpu::SplitCount::Call)
    kernel.set(
        "values",
        b.getArrayAttr(b.getDictionaryAttr(
            {b.getNamedAttr("name", b.getStringAttr(getName(Dim::KeySplits))),
             b.getNamedAttr("is",
                            b.getStringAttr(print(getKeySplits(schedule))))})));
  SmallVector<Attribute> workspace;
  for (const SizeFormula &bytes : getWorkspace())
    workspace.push_back(b.getStringAttr(print(bytes)));
  if (!workspace.empty())
    kernel.set("workspace", b.getArrayAttr(workspace));
  return kernel.getDictionary(context);
}

DictionaryAttr
AttentionSignature::toMergeDictionary(MLIRContext *context, int64_t numThreads,
                                      int64_t sharedMemory) const {
  NamedAttrList kernel = describeKernel(context, mergeArguments,
                                        {getRows(), numThreads, sharedMemory});
  setCondition(kernel, Builder(context));
  return kernel.getDictionary(context);
}

DictionaryAttr
AttentionSignature::toSoftmaxDictionary(MLIRContext *context) const {
  NamedAttrList kernel = describeKernel(context, softmaxArguments,
                                        {getSoftmaxGrid(), kSoftmaxThreads});
  setCondition(kernel, Builder(context));
  return kernel.getDictionary(context);
}

DictionaryAttr
AttentionSignature::toValuesDictionary(AttentionOp op,
                                       fcgpu::ScheduleAttr schedule) const {
  NamedAttrList kernel =
      describeKernel(op.getContext(), valuesArguments,
                     {getNumTiles(schedule), schedule.getNumThreads(),
                      getValuesSharedMemoryBytes(AttentionProblem::get(op),
                                                 schedule.getChoice())});
  setCondition(kernel, Builder(op.getContext()));
  return kernel.getDictionary(op.getContext());
}

DictionaryAttr AttentionSignature::toScoresDictionary(AttentionOp op) const {
  NamedAttrList kernel = describeKernel(
      op.getContext(), scoresArguments,
      {getScoresGrid(), scoresChoice.numWarps * kWarpSize,
       getScoresSharedMemoryBytes(AttentionProblem::get(op), scoresChoice)});
  setCondition(kernel, Builder(op.getContext()));
  return kernel.getDictionary(op.getContext());
}

DictionaryAttr
AttentionSignature::toAppendDictionary(AttentionOp op,
                                       int64_t numThreads) const {
  NamedAttrList kernel = describeKernel(op.getContext(), appendArguments,
                                        {getAppendGrid(), numThreads});
  setCondition(kernel, Builder(op.getContext()));
  return kernel.getDictionary(op.getContext());
}
