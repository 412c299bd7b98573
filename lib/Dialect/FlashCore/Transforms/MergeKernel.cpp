//===- MergeKernel.cpp - Phase 2: kernels that merge ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second kernel of an attention whose keys are split over blocks
// (Flash-Decoding, Dao et al. 2023), and that of flashcore.merge.
//
//===----------------------------------------------------------------------===//

#include "AttentionWorkspace.h"
#include "KernelOps.h"
#include "MergeRows.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Of the outputs, and which rows are of a sequence.
static SmallVector<KernelArgument>
listArguments(Operation *kernel, const AttentionSignature &signature) {
  return signature.listArguments(
      getWorkspaceUse(kernel),
      [](const KernelTensor &tensor) {
        using Use = OperandInfo::Use;
        Use use = AttentionSignature::getUse(tensor);
        return use == Use::Result || use == Use::Sink ||
               tensor.name == operand::kCuSeqlensQ;
      },
      [&](Dim dim) {
        return dim == Dim::Batch || dim == Dim::HeadsQ || dim == Dim::SeqlenQ ||
               dim == Dim::CuSeqlens || signature.getKeyParts().dependOn(dim);
      });
}

namespace {
struct MergeKernel final
    : AttentionKernelOpInterface::ExternalModel<MergeKernel, MergeKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    bool isInvariant = signature.getSchedule().isInvariant();
    // The order of sums is that of the groups, which must not follow the number
    // of parts where that does not change a row.
    MergeGroups groups(signature.getPartialColumns(),
                       isInvariant ? std::nullopt
                                   : signature.getKeyParts().getKnown());
    auto buildBody = [=, &signature](KernelFrame &frame) {
      OpFoldResult numParts = signature.getKeyParts().getNumber().build(
          frame.getBuilder(), [&](Dim dim) { return frame.getSize(dim); });
      AttentionWorkspace workspace(frame, signature);
      PartialResults partials = workspace.viewPartialResults();
      MergeParts parts{partials.output, partials.lse, partials.rest,
                       KernelFrame::kWorkspaceAlignment, numParts};
      buildMerge(frame, parts, groups, isInvariant, workspace.viewLseRest());
    };
    return {"_merge", listArguments(kernel, signature), groups.getLaunch(),
            /*schedule=*/nullptr, buildBody};
  }
};
} // namespace

static SmallVector<KernelTensor> getTensors(MergeOp op) {
  auto getElementBytes = [](Value value) {
    return cast<MemRefType>(value.getType()).getElementTypeBitWidth() / 8;
  };
  auto getRowBytes = [](Value value) {
    return getAccessBytes(cast<ShapedType>(value.getType()));
  };
  SmallVector<Dim> rows{Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ};
  SmallVector<Dim> parts{Dim::Parts, Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ};
  SmallVector<Dim> columns(rows), partColumns(parts);
  columns.push_back(Dim::HeadDimV);
  partColumns.push_back(Dim::HeadDimV);
  SmallVector<KernelTensor> tensors;
  tensors.emplace_back("outputs", false, op.getOutputs(), partColumns,
                       getRowBytes(op.getOutputs()));
  tensors.emplace_back("lses", false, op.getLses(), parts,
                       getElementBytes(op.getLses()));
  tensors.emplace_back(operand::kOutput, true, op.getOutput(), columns,
                       getRowBytes(op.getOutput()));
  if (Value lse = op.getLse())
    tensors.emplace_back(operand::kLse, true, lse, rows, getElementBytes(lse));
  if (Value logits = op.getSinkLogits())
    tensors.emplace_back(operand::kSinkLogits, false, logits,
                         ArrayRef<Dim>{Dim::HeadsQ}, getElementBytes(logits));
  return tensors;
}

namespace {
/// A merge has one kernel, on all of its tensors and sizes.
struct MergeKernels final
    : KernelOpInterface::ExternalModel<MergeKernels, MergeOp> {
  LogicalResult checkKernels(Operation *op) const { return checkHasChip(op); }

  std::vector<KernelProgram> getPrograms(Operation *operation) const {
    auto op = cast<MergeOp>(operation);
    auto signature = std::make_shared<KernelSignature>(::getTensors(op));
    MergeGroups groups(op.getHeadDimV(), signature->getExtent(Dim::Parts));
    auto buildBody = [groups](KernelFrame &frame) {
      Value outputs = frame.getTensor("outputs");
      MergeParts parts{outputs, frame.getTensor("lses"), /*rest=*/Value(),
                       getAccessBytes(outputs), frame.getSize(Dim::Parts)};
      buildMerge(frame, parts, groups, /*isInvariant=*/false);
    };
    return {getSingleKernelProgram(
        op, getKernelName("merge", op.getOutputType(), op.getHeadDimV()),
        signature, groups.getLaunch(), buildBody)};
  }
};
} // namespace

void mlir::flashcore::attachMergeKernels(MLIRContext *context) {
  MergeKernelOp::attachInterface<MergeKernel>(*context);
  MergeOp::attachInterface<MergeKernels>(*context);
}
