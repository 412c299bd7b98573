//===- ProgramChoice.cpp - Which kernels an attention is ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ProgramChoice.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

std::vector<ProgramKernel>
mlir::flashcore::listKernels(const ProgramNeeds &needs) {
  using Kind = ProgramKernel::Kind;
  using Role = WorkspaceRole;
  using Roles = SmallVector<Role, 3>;
  Roles query, rest,
      partials{Role::PartialOutputs, Role::PartialLses, Role::PartialLseRests};
  if (needs.turnsQuery)
    query = {Role::TurnedQuery};
  // Whichever kernel writes LSE leaves what rounding took of it.
  if (needs.scores == ScoresStage::Probabilities)
    rest = {Role::LseRest};
  std::vector<ProgramKernel> kernels;
  if (needs.appends)
    kernels.push_back({Kind::Append, {}, query});
  if (needs.isUnfused) {
    Roles written{Role::Probabilities};
    llvm::append_range(written, rest);
    kernels.push_back({Kind::Scores, query, {Role::Scores}});
    kernels.push_back({Kind::Softmax, {Role::Scores}, written});
    kernels.push_back({Kind::Values, {Role::Probabilities}, {}});
  } else if (needs.isSplit) {
    kernels.push_back({Kind::Attention, query, partials});
    kernels.push_back({Kind::Merge, partials, rest});
  } else {
    kernels.push_back({Kind::Attention, query, rest});
  }
  if (needs.scores) {
    Roles read = query;
    llvm::append_range(read, rest);
    kernels.push_back({Kind::Scores, read, {}});
  }
  return kernels;
}

SmallVector<WorkspaceRole>
mlir::flashcore::listWorkspace(ArrayRef<ProgramKernel> kernels) {
  SmallVector<WorkspaceRole> roles;
  for (const ProgramKernel &kernel : kernels)
    llvm::append_range(roles, kernel.writes);
  llvm::sort(roles);
  return roles;
}
