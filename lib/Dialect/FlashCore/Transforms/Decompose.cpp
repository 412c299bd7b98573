//===- Decompose.cpp - Phase 1: the program of an attention ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each attention the list of its kernels. Which those are, and what they
// leave one another, is ProgramChoice.h.
//
//===----------------------------------------------------------------------===//

#include "AttentionProgram.h"
#include "AttentionSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/Debug.h"

#define DEBUG_TYPE "flashcore-decompose"

namespace mlir::flashcore {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

/// The op with an empty program, in its place.
static AttentionOp addProgram(AttentionOp op) {
  OpBuilder b(op);
  OperationState state(op.getLoc(), op->getName(), op->getOperands(),
                       op->getResultTypes(),
                       llvm::to_vector(op->getDiscardableAttrs()));
  state.propertiesAttr = op->getPropertiesAsAttribute();
  for (Region &region : op->getRegions())
    state.addRegion()->takeBody(region);
  state.addRegion()->emplaceBlock();
  auto result = cast<AttentionOp>(b.create(state));
  op.erase();
  return result;
}

static Operation *createKernel(ImplicitLocOpBuilder &b,
                               ProgramKernel::Kind kind, ValueRange reads,
                               ValueRange writes) {
  using Kind = ProgramKernel::Kind;
  switch (kind) {
  case Kind::Append:
    return AppendKernelOp::create(b, reads, writes);
  case Kind::Attention:
    return AttentionKernelOp::create(b, reads, writes);
  case Kind::Scores:
    return ScoresKernelOp::create(b, reads, writes);
  case Kind::Softmax:
    return SoftmaxKernelOp::create(b, reads, writes);
  case Kind::Values:
    return ValuesKernelOp::create(b, reads, writes);
  case Kind::Merge:
    return MergeKernelOp::create(b, reads, writes);
  }
  llvm_unreachable("every kind of kernel has an op");
}

/// Writes the kernels that `schedule` makes of the op where `b` is.
static size_t buildKernels(ImplicitLocOpBuilder &b, AttentionOp op,
                           fcgpu::ScheduleAttr schedule) {
  AttentionSignature signature(op, schedule);
  std::vector<ProgramKernel> kernels = listKernels(signature.getNeeds());
  DenseMap<WorkspaceRole, Value> values;
  for (WorkspaceRole role : listWorkspace(kernels))
    values[role] = WorkspaceOp::create(b, signature.getPartType(role), role);
  auto find = [&](ArrayRef<WorkspaceRole> roles) {
    return llvm::map_to_vector(
        roles, [&](WorkspaceRole role) { return values.lookup(role); });
  };
  for (const ProgramKernel &kernel : kernels) {
    [[maybe_unused]] Operation *made =
        createKernel(b, kernel.kind, find(kernel.reads), find(kernel.writes));
    LLVM_DEBUG(llvm::dbgs() << "flashcore-decompose: " << *made << "\n");
  }
  return kernels.size();
}

namespace {
struct DecomposePass final
    : mlir::flashcore::impl::DecomposePassBase<DecomposePass> {
  void decompose(AttentionOp op) {
    op = addProgram(op);
    auto find = [&](StringRef name) {
      return op->getAttrOfType<fcgpu::ScheduleAttr>(name);
    };
    fcgpu::ScheduleAttr general = find(fcgpu::kScheduleAttrName),
                        few = find(fcgpu::kFewQueriesAttrName);
    auto b = ImplicitLocOpBuilder::atBlockBegin(op.getLoc(),
                                                &op.findProgram()->front());
    if (!few) {
      numKernels += buildKernels(b, op, general);
      return;
    }
    Value isFew =
        FewQueriesOp::create(b, b.getI1Type(), few.getExpectedQueries());
    auto branch = scf::IfOp::create(b, isFew, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    numKernels += buildKernels(b, op, few);
    b.setInsertionPointToStart(branch.elseBlock());
    numKernels += buildKernels(b, op, general);
  }

  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    bool anyFailed = false;
    getOperation()->walk([&](AttentionOp op) {
      if (op.findProgram())
        return;
      anyFailed |= failed(checkIsOnMemrefs(op)) || failed(checkSchedules(op));
      ops.push_back(op);
    });
    if (anyFailed)
      return signalPassFailure();
    for (AttentionOp op : ops)
      decompose(op);
  }
};
} // namespace
