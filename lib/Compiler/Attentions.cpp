//===- Attentions.cpp - The attentions of a module and their names --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names come from functions, which a user wrote, and not from kernels, which
// may be shared. The pipeline leaves one launch of a first kernel for each
// attention, where it stood; so it does for each merge.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Attentions.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
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

FailureOr<std::vector<std::string>>
mlir::flashcore::nameAttentions(ModuleOp module) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (auto &[function, attentions] : groupByFunction(module))
    for (auto [number, attention] : llvm::enumerate(attentions)) {
      names.push_back(getName(function, number, attentions.size()));
      if (!known.insert(names.back()).second)
        return attention->emitError("expects attentions to have names of their "
                                    "own, but two are called '")
                   << names.back() << "'; rename a function",
               failure();
    }
  return names;
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
    FailureOr<std::vector<std::string>> names = nameAttentions(module);
    if (failed(names))
      return failure();
    return module.emitError("expects --function to be one of ")
           << llvm::join(*names, ", ") << ", but got '" << name << "'";
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

std::vector<gpu::GPUModuleOp> mlir::flashcore::findKernels(ModuleOp module) {
  std::vector<gpu::GPUModuleOp> kernels;
  module.walk([&](gpu::LaunchFuncOp launch) {
    Operation *kernel =
        SymbolTable::lookupNearestSymbolFrom(launch, launch.getKernelAttr());
    auto description =
        kernel ? kernel->getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName)
               : DictionaryAttr();
    // That of a second kernel says nothing of the tensors, and where calls of
    // few queries have kernels of their own, those of others stand beside them.
    if (!description || !description.contains("tensors"))
      return;
    auto module = kernel->getParentOfType<gpu::GPUModuleOp>();
    auto first = llvm::find_if(module.getOps(), [](Operation &op) {
      auto each = op.getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName);
      return each && each.contains("tensors");
    });
    if (&*first == kernel)
      kernels.push_back(module);
  });
  return kernels;
}
