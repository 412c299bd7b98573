//===- AppendKernel.cpp - Phase 2: kernels that append --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first kernel of an attention with `append`, and that of flashcore.append.
//
//===----------------------------------------------------------------------===//

#include "AppendRows.h"
#include "AttentionSignature.h"
#include "KernelOps.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::flashcore;

static int64_t getPairs(Value cos) {
  return cos ? cast<ShapedType>(cos.getType()).getDimSize(1) : 0;
}

/// What the two ops say alike.
template <typename OpT> static AppendedRows getRows(OpT op) {
  return {op.getHeadDim(), op.getHeadDimV(),
          static_cast<bool>(op.getPageTable()), getPairs(op.getRotaryCos()),
          op.getStyle().value_or(RotaryStyle::Interleaved)};
}

/// Which rows there are, where they go, and what they are turned by.
static SmallVector<KernelArgument>
listArguments(const AttentionSignature &signature, bool isTurned) {
  auto isTaken = [&](const KernelTensor &tensor) {
    return AttentionSignature::isOfAppend(tensor) || tensor.isUpdated ||
           AttentionSignature::getUse(tensor) == OperandInfo::Use::Sequence;
  };
  auto isSize = [&](Dim dim) {
    bool isOfQuery = dim == Dim::SeqlenQ || dim == Dim::HeadsQ;
    return dim <= Dim::RotaryPairs && dim != Dim::KeySplits &&
           (isTurned || !isOfQuery);
  };
  SmallVector<KernelArgument> arguments =
      signature.listArguments(KernelSignature::NoWorkspace, isTaken, isSize);
  markUpdated(arguments, signature);
  if (isTurned)
    signature.addCopy(arguments, operand::kQuery, /*isWritten=*/true);
  return arguments;
}

namespace {
struct AppendKernel final
    : AttentionKernelOpInterface::ExternalModel<AppendKernel, AppendKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    auto op = kernel->getParentOfType<AttentionOp>();
    AppendedRows rows = getRows(op);
    rows.turnsQueries = !cast<AppendKernelOp>(kernel).getWrites().empty();
    rows.rotatesByOnePosition = op.rotatesByOnePosition();
    return {"_append", listArguments(signature, rows.turnsQueries),
            getAppendLaunch(rows), /*schedule=*/nullptr,
            [rows](KernelFrame &frame) { buildAppend(frame, rows); }};
  }
};
} // namespace

static SmallVector<KernelTensor> getTensors(AppendOp op) {
  bool isPaged = static_cast<bool>(op.getPageTable());
  SmallVector<KernelTensor> tensors;
  auto add = [&](StringRef name, Value value, ArrayRef<Dim> axes,
                 bool isOutput = false) {
    if (!value)
      return;
    auto type = cast<MemRefType>(value.getType());
    bool hasRows = isa<FloatType>(type.getElementType());
    tensors.emplace_back(name, isOutput, value, axes,
                         hasRows ? getAccessBytes(type)
                                 : type.getElementTypeBitWidth() / 8);
  };
  Dim entries = isPaged ? Dim::Pages : Dim::Batch;
  Dim keys = isPaged ? Dim::PageSize : Dim::SeqlenK;
  add(operand::kKey, op.getKey(), {entries, Dim::HeadsKV, keys, Dim::HeadDim});
  add(operand::kValue, op.getValue(),
      {entries, Dim::HeadsKV, keys, Dim::HeadDimV});
  for (KernelTensor &cache : tensors)
    cache.isUpdated = true;
  add(operand::kKNew, op.getKNew(),
      {Dim::Batch, Dim::HeadsKV, Dim::SeqlenNew, Dim::HeadDim});
  add(operand::kVNew, op.getVNew(),
      {Dim::Batch, Dim::HeadsKV, Dim::SeqlenNew, Dim::HeadDimV});
  add(operand::kSequsedK, op.getSequsedK(), {Dim::Batch});
  add(operand::kPageTable, op.getPageTable(),
      {Dim::Batch, Dim::PagesPerSequence});
  add(operand::kRotaryCos, op.getRotaryCos(),
      {Dim::Positions, Dim::RotaryPairs});
  add(operand::kRotarySin, op.getRotarySin(),
      {Dim::Positions, Dim::RotaryPairs});
  SmallVector<Dim> queries{Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ, Dim::HeadDim};
  add(operand::kQuery, op.getQuery(), queries);
  add("q_turned", op.getTurned(), queries, /*isOutput=*/true);
  return tensors;
}

namespace {
/// One kernel, on all tensors and sizes of the op.
struct AppendKernels final
    : KernelOpInterface::ExternalModel<AppendKernels, AppendOp> {
  LogicalResult checkKernels(Operation *op) const { return checkHasChip(op); }

  std::vector<KernelProgram> getPrograms(Operation *operation) const {
    auto op = cast<AppendOp>(operation);
    auto signature = std::make_shared<KernelSignature>(::getTensors(op));
    AppendedRows rows = getRows(op);
    rows.turnsQueries = static_cast<bool>(op.getQuery());
    KernelProgram program = getSingleKernelProgram(
        op, getKernelName("append", op.getKeyType(), op.getHeadDim()),
        signature, getAppendLaunch(rows),
        [rows](KernelFrame &frame) { buildAppend(frame, rows); });
    if (auto style = op.getStyle()) {
      Builder b(op.getContext());
      program.attributes = b.getDictionaryAttr(b.getNamedAttr(
          "rotary", b.getStringAttr(stringifyRotaryStyle(*style))));
    }
    return {std::move(program)};
  }
};
} // namespace

void mlir::flashcore::attachAppendKernels(MLIRContext *context) {
  AppendKernelOp::attachInterface<AppendKernel>(*context);
  AppendOp::attachInterface<AppendKernels>(*context);
}
