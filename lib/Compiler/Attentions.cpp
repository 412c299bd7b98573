//===- Attentions.cpp - The attentions of a module and their names --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names come from functions, which a user wrote, and not from kernels, which
// may be shared. The pipeline leaves launches where the ops stood.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Attentions.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
#include "flashcore/Target/Bundle.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace mlir::flashcore;

bool mlir::flashcore::isCompiled(Operation *op) {
  return isa<KernelOpInterface, TileOpInterface>(op);
}

/// What is compiled by function; outside of any, under the null pointer.
static llvm::MapVector<Operation *, std::vector<Operation *>>
groupByFunction(ModuleOp module) {
  llvm::MapVector<Operation *, std::vector<Operation *>> groups;
  module.walk([&](Operation *op) {
    if (isCompiled(op))
      groups[op->getParentOfType<FunctionOpInterface>()].push_back(op);
  });
  return groups;
}

static std::string getName(Operation *function) {
  return function ? SymbolTable::getSymbolName(function).str() : "attention";
}

static std::string getName(Operation *function, size_t number, size_t count) {
  return getName(function) + (count == 1 ? "" : "." + std::to_string(number));
}

std::vector<CompiledOps> mlir::flashcore::findCompiledOps(ModuleOp module) {
  std::vector<CompiledOps> result;
  for (auto &[function, ops] : groupByFunction(module)) {
    bool isTogether = !findProgram(function).empty();
    for (auto [number, op] : llvm::enumerate(ops)) {
      if (number == 0 || !isTogether)
        result.push_back(
            {getName(function, number, isTogether ? 1 : ops.size()), {}});
      result.back().ops.push_back(op);
    }
  }
  return result;
}

LogicalResult mlir::flashcore::checkNames(ArrayRef<CompiledOps> all) {
  std::set<std::string> known;
  for (const CompiledOps &each : all)
    if (!known.insert(each.name).second)
      return each.ops.front()->emitError(
                 "expects attentions to have names of their own, but two are "
                 "called '")
             << each.name << "'; rename a function";
  return success();
}

LogicalResult mlir::flashcore::keepFunctionOf(StringRef name, ModuleOp module) {
  auto groups = groupByFunction(module);
  auto isHere = [&](const auto &group) {
    if (name == getName(group.first))
      return true;
    for (size_t number = 0; number < group.second.size(); ++number)
      if (name == getName(group.first, number, group.second.size()))
        return true;
    return false;
  };
  const auto *found = llvm::find_if(groups, isHere);
  if (found == groups.end()) {
    std::vector<CompiledOps> all = findCompiledOps(module);
    if (failed(checkNames(all)))
      return failure();
    auto names =
        llvm::map_range(all, [](const CompiledOps &each) { return each.name; });
    return module.emitError("expects --function to be one of ")
           << llvm::join(names, ", ") << ", but got '" << name << "'";
  }
  Operation *kept = found->first;
  for (auto &[function, attentions] : groups) {
    if (function == kept || !function || function->isAncestor(kept))
      continue;
    if (SymbolTable::symbolKnownUseEmpty(function, module)) {
      function->erase();
      continue;
    }
    cast<FunctionOpInterface>(function).eraseBody();
    SymbolTable::setSymbolVisibility(function,
                                     SymbolTable::Visibility::Private);
  }
  return success();
}

void mlir::flashcore::keepOpOfProgram(StringRef name, ModuleOp module) {
  for (auto &[function, ops] : groupByFunction(module)) {
    if (findProgram(function).empty() || name == getName(function))
      continue;
    for (size_t number = 0; number < ops.size(); ++number)
      if (name != getName(function, number, ops.size()))
        ops[number]->erase();
  }
}

std::vector<gpu::GPUModuleOp> mlir::flashcore::findKernels(ModuleOp module) {
  std::vector<gpu::GPUModuleOp> kernels;
  // Of a program with several ops there is one launch of each, and more.
  DenseSet<Operation *> seen;
  module.walk([&](gpu::LaunchFuncOp launch) {
    Operation *kernel =
        SymbolTable::lookupNearestSymbolFrom(launch, launch.getKernelAttr());
    auto module =
        kernel ? kernel->getParentOfType<gpu::GPUModuleOp>() : nullptr;
    auto program =
        module ? module->getAttrOfType<DictionaryAttr>(fcgpu::kProgramAttrName)
               : DictionaryAttr();
    SmallVector<DictionaryAttr> ops = getProgramOps(program);
    if (ops.empty())
      return;
    bool isFirst = ops.size() == 1
                       ? SymbolTable::getSymbolName(kernel).getValue() ==
                             getMainKernel(program, 0)
                       : seen.insert(module).second;
    if (isFirst)
      kernels.push_back(module);
  });
  return kernels;
}
