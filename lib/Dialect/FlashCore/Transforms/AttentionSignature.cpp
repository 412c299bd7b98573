//===- AttentionSignature.cpp - Tensors and sizes of an attention ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What of the op its kernels know as tensors, and how sizes split its keys.
//
//===----------------------------------------------------------------------===//

#include "AttentionSignature.h"
#include "ScoreRegion.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
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

AttentionSignature::AttentionSignature(AttentionOp op,
                                       fcgpu::ScheduleAttr schedule)
    : KernelSignature(::getTensors(op)), schedule(schedule),
      keyParts(findKeyParts(op, schedule, *this)),
      needs{static_cast<bool>(op.getKNew()),
            static_cast<bool>(op.getRotaryCos()), schedule.isUnfused(),
            keyParts.isSplit(), op.getStage()},
      isVarlen(op.getCuSeqlensQ()), isPaged(op.getPageTable()) {}

OperandInfo::Use AttentionSignature::getUse(const KernelTensor &tensor) {
  const OperandInfo *row =
      llvm::find_if(getOperandTable(), [&](const OperandInfo &row) {
        return row.tensor == tensor.name;
      });
  return row == getOperandTable().end() ? Use::Score : row->use;
}

bool AttentionSignature::isOfAppend(Dim dim) {
  return dim == Dim::Positions || dim == Dim::RotaryPairs;
}

void AttentionSignature::addCopyOfQuery(
    SmallVectorImpl<KernelArgument> &arguments) const {
  if (getTensors().front().isCopied)
    addCopy(arguments, operand::kQuery, /*isWritten=*/false);
}
