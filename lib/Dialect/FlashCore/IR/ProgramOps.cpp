//===- ProgramOps.cpp - Constraints of programs of kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What each kernel of a program may have of the workspace, and in which order
// kernels write and read it.
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Reports that an op is no part of a program.
static LogicalResult verifyIsInProgram(Operation *op) {
  auto attention = op->getParentOfType<AttentionOp>();
  if (attention && attention.findProgram() &&
      attention.findProgram()->isAncestor(op->getParentRegion()))
    return success();
  return op->emitOpError("expects to be in the program of a "
                         "flashcore.attention, but stands outside of one");
}

LogicalResult WorkspaceOp::verify() { return verifyIsInProgram(*this); }

LogicalResult FewQueriesOp::verify() {
  if (failed(verifyIsInProgram(*this)))
    return failure();
  if (static_cast<int64_t>(getMost()) < 1)
    return emitOpError("expects at_most to be positive, but got ")
           << static_cast<int64_t>(getMost());
  return success();
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

namespace {
/// Values that a kernel has all of, or none.
struct Group {
  SmallVector<WorkspaceRole, 3> roles;
  bool isOptional = false;
};
} // namespace

static Group optional(ArrayRef<WorkspaceRole> roles) {
  return {SmallVector<WorkspaceRole, 3>(roles), /*isOptional=*/true};
}

static std::string describe(ArrayRef<WorkspaceRole> roles) {
  std::string text;
  for (auto [i, role] : llvm::enumerate(roles))
    text += (i == 0                  ? ""
             : i + 1 == roles.size() ? " and "
                                     : ", ") +
            stringifyWorkspaceRole(role).str();
  return text.empty() ? "nothing" : text;
}

/// P3 of what a kernel reads or writes.
static LogicalResult verifyValues(Operation *op, StringRef verb,
                                  ValueRange values, ArrayRef<Group> groups) {
  SmallVector<WorkspaceRole> given;
  for (Value value : values) {
    auto workspace = value.getDefiningOp<WorkspaceOp>();
    if (!workspace)
      return op->emitOpError("expects to ")
             << verb << " values of flashcore.workspace, but got one of "
             << value.getType();
    WorkspaceRole role = workspace.getRole();
    if (llvm::is_contained(given, role))
      return op->emitOpError("expects to ")
             << verb << " each value once, but got "
             << stringifyWorkspaceRole(role) << " twice";
    if (llvm::none_of(groups, [&](const Group &group) {
          return llvm::is_contained(group.roles, role);
        }))
      return op->emitOpError("does not ")
             << verb << " " << stringifyWorkspaceRole(role);
    given.push_back(role);
  }
  for (const Group &group : groups) {
    auto count = llvm::count_if(group.roles, [&](WorkspaceRole role) {
      return llvm::is_contained(given, role);
    });
    if (static_cast<size_t>(count) != group.roles.size() &&
        !(group.isOptional && count == 0))
      return op->emitOpError("expects to ")
             << verb << " " << describe(group.roles) << ", but got "
             << describe(given);
  }
  return success();
}

static LogicalResult verifyKernel(ProgramKernelInterface kernel,
                                  ArrayRef<Group> reads,
                                  ArrayRef<Group> writes) {
  return failure(
      failed(verifyIsInProgram(kernel)) ||
      failed(verifyValues(kernel, "read", kernel.getReads(), reads)) ||
      failed(verifyValues(kernel, "write", kernel.getWrites(), writes)));
}

/// Operands of the attention are read and written, too, without a name here.
void mlir::flashcore::getEffectsOfKernel(
    ProgramKernelInterface kernel,
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  for (OpOperand &operand : kernel->getOpOperands()) {
    if (operand.getOperandNumber() < kernel.getReads().size())
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    else
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
  }
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}

static constexpr WorkspaceRole kPartials[] = {WorkspaceRole::PartialOutputs,
                                              WorkspaceRole::PartialLses,
                                              WorkspaceRole::PartialLseRests};

LogicalResult AppendKernelOp::verify() {
  return verifyKernel(*this, {}, {optional(WorkspaceRole::TurnedQuery)});
}

LogicalResult AttentionKernelOp::verify() {
  return verifyKernel(*this, {optional(WorkspaceRole::TurnedQuery)},
                      {optional(kPartials), optional(WorkspaceRole::LseRest)});
}

LogicalResult MergeKernelOp::verify() {
  return verifyKernel(
      *this, {Group{SmallVector<WorkspaceRole, 3>(ArrayRef(kPartials))}},
      {optional(WorkspaceRole::LseRest)});
}

LogicalResult ScoresKernelOp::verify() {
  return verifyKernel(
      *this,
      {optional(WorkspaceRole::TurnedQuery), optional(WorkspaceRole::LseRest)},
      {optional(WorkspaceRole::Scores)});
}

LogicalResult SoftmaxKernelOp::verify() {
  return verifyKernel(
      *this, {{{WorkspaceRole::Scores}}},
      {{{WorkspaceRole::Probabilities}}, optional(WorkspaceRole::LseRest)});
}

LogicalResult ValuesKernelOp::verify() {
  return verifyKernel(*this, {{{WorkspaceRole::Probabilities}}}, {});
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// P2
static LogicalResult verifyUses(WorkspaceOp workspace) {
  Value value = workspace.getMemref();
  StringRef name = stringifyWorkspaceRole(workspace.getRole());
  SmallVector<ProgramKernelInterface> users;
  for (Operation *user : value.getUsers()) {
    auto kernel = dyn_cast<ProgramKernelInterface>(user);
    if (!kernel || user->getBlock() != workspace->getBlock())
      return user->emitOpError("uses ")
             << name << ", but is no kernel of the block that makes it";
    users.push_back(kernel);
  }
  llvm::sort(users, [](ProgramKernelInterface x, ProgramKernelInterface y) {
    return x->isBeforeInBlock(y);
  });
  for (auto [i, user] : llvm::enumerate(users)) {
    bool writes = llvm::is_contained(user.getWrites(), value);
    bool reads = llvm::is_contained(user.getReads(), value);
    if (i == 0 && reads)
      return user->emitOpError("reads ")
             << name << ", but no kernel before it writes it";
    if (i > 0 && writes)
      return user->emitOpError("writes ")
             << name << ", but a kernel before it has written it";
  }
  return success();
}

/// P1 and P2 of a block; `mayBranch` of one that is no branch itself.
static LogicalResult verifyBlock(Operation *op, Region &region,
                                 bool mayBranch) {
  bool hasKernel = false, hasBranch = false;
  for (Operation &inner : region.front()) {
    if (isa<ProgramKernelInterface>(inner)) {
      if (hasBranch)
        return inner.emitOpError("stands beside an scf.if, whose branches have "
                                 "all kernels of a program");
      hasKernel = true;
      continue;
    }
    if (auto workspace = dyn_cast<WorkspaceOp>(inner)) {
      if (failed(verifyUses(workspace)))
        return failure();
      continue;
    }
    if (isa<FewQueriesOp>(inner) || inner.hasTrait<OpTrait::IsTerminator>())
      continue;
    auto branch = dyn_cast<RegionBranchOpInterface>(inner);
    bool isOfFewQueries =
        branch && inner.getNumOperands() == 1 && inner.getNumResults() == 0 &&
        inner.getNumRegions() == 2 &&
        inner.getOperand(0).getDefiningOp<FewQueriesOp>() != nullptr;
    if (!mayBranch || !isOfFewQueries)
      return inner.emitOpError("is no part of a program, which is of kernels, "
                               "flashcore.workspace and an scf.if of a "
                               "flashcore.few_queries");
    if (hasKernel || hasBranch)
      return inner.emitOpError("expects to have all kernels of a program in "
                               "its branches, but stands beside others");
    for (Region &nested : inner.getRegions())
      if (nested.empty())
        return inner.emitOpError("expects kernels in both branches");
      else if (failed(verifyBlock(&inner, nested, /*mayBranch=*/false)))
        return failure();
    hasBranch = true;
  }
  if (!hasKernel && !hasBranch)
    return op->emitOpError("expects a program of kernels, but got none");
  return success();
}

LogicalResult mlir::flashcore::verifyProgram(Operation *op, Region &program) {
  if (program.empty() || program.getNumArguments() != 0)
    return op->emitOpError("expects a program to be a block without arguments");
  return verifyBlock(op, program, /*mayBranch=*/true);
}
