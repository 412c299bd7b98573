//===- ValuesKernel.cpp - Phase 2: P V of probabilities in memory ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The third kernel of an attention with softmax unfused. Its tiles read P from
// the workspace. Keys that bounds of the mask hide have probability 0, and are
// skipped.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"
#include "AttentionWorkspace.h"
#include "KernelOps.h"
#include "TileOperands.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Schedule/ResourceModel.h"

using namespace mlir;
using namespace mlir::flashcore;

static void buildValues(AttentionOp op, KernelFrame &frame,
                        const AttentionSignature &signature) {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  AttentionBlock block(op, frame, signature);
  auto buildTile = [&](Value warp) {
    WarpRows rows = block.findRows(warp);
    Value batch = block.getSequence().batch;
    Value v = block.getKeys(operand::kValue);
    Value o = sliceRows(b, frame.getTensor(operand::kOutput), batch, rows.headQ,
                        rows.row, rows.rows);
    Value p = AttentionWorkspace(frame, signature)
                  .viewTile(batch, rows.headQ, rows.row, rows.rows);
    auto tile = ValuesTileOp::create(b, p, v, o, block.getPlace(rows));
    setBounds(op, tile);
    tile->setAttr(fcgpu::kScheduleAttrName, signature.getSchedule());
  };
  block.build(/*prepare=*/[] {}, buildTile);
}

static SmallVector<KernelArgument>
listArguments(Operation *kernel, const AttentionSignature &signature) {
  SmallVector<KernelArgument> arguments = signature.listArguments(
      getWorkspaceUse(kernel),
      [](const KernelTensor &tensor) {
        return tensor.name == operand::kValue ||
               tensor.name == operand::kOutput ||
               AttentionSignature::getUse(tensor) == OperandInfo::Use::Sequence;
      },
      [](Dim dim) { return dim <= Dim::SeqlenK; });
  signature.addWorkspaceOf(arguments, operand::kQuery);
  return arguments;
}

namespace {
struct ValuesKernel final
    : AttentionKernelOpInterface::ExternalModel<ValuesKernel, ValuesKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    auto op = kernel->getParentOfType<AttentionOp>();
    fcgpu::ScheduleAttr schedule = signature.getSchedule();
    return {"_values",
            listArguments(kernel, signature),
            {signature.getNumTiles(), schedule.getNumThreads(),
             getValuesSharedMemoryBytes(AttentionProblem::get(op),
                                        schedule.getChoice())},
            schedule,
            [=, &signature](KernelFrame &frame) {
              buildValues(op, frame, signature);
            }};
  }
};
} // namespace

void mlir::flashcore::attachValuesKernel(MLIRContext *context) {
  ValuesKernelOp::attachInterface<ValuesKernel>(*context);
}
