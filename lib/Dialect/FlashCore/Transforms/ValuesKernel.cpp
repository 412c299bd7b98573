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
#include "AttentionKernels.h"
#include "AttentionWorkspace.h"
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
    Value p = UnfusedWorkspace(frame, signature)
                  .viewTile(batch, rows.headQ, rows.row, rows.rows);
    auto tile = ValuesTileOp::create(b, p, v, o, block.getPlace(rows));
    setBounds(op, tile);
    tile->setAttr(fcgpu::kScheduleAttrName, signature.getSchedule());
  };
  block.build(/*prepare=*/[] {}, buildTile);
}

Kernel mlir::flashcore::getValuesKernel(AttentionOp op,
                                        const AttentionSignature &signature) {
  SmallVector<KernelArgument> arguments = signature.listArguments(
      KernelSignature::NoWorkspace,
      [](const KernelTensor &tensor) {
        return tensor.name == operand::kValue ||
               tensor.name == operand::kOutput ||
               AttentionSignature::getUse(tensor) == OperandInfo::Use::Sequence;
      },
      [](Dim dim) { return dim <= Dim::SeqlenK; });
  signature.addWorkspaceOf(arguments, operand::kQuery);
  fcgpu::ScheduleAttr schedule = signature.getSchedule();
  return {"_values",
          std::move(arguments),
          {signature.getNumTiles(), schedule.getNumThreads(),
           getValuesSharedMemoryBytes(AttentionProblem::get(op),
                                      schedule.getChoice())},
          schedule,
          [=, &signature](KernelFrame &frame) {
            buildValues(op, frame, signature);
          }};
}
