//===- Attentions.h - The attentions of a module and their names *- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILER_ATTENTIONS_H
#define FLASHCORE_COMPILER_ATTENTIONS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mlir::flashcore {

/// Whether kernels are made of an op: of attentions, and of merges of results
/// of them, which count as one here.
bool isCompiled(Operation *op);

/// The ops of one program, and its name: that of their function, with `.0`,
/// `.1` and so on behind it where a function has several programs.
struct CompiledOps {
  std::string name;
  std::vector<Operation *> ops;

  /// That of one of the ops.
  std::string getNameOf(size_t number) const {
    return ops.size() == 1 ? name : name + "." + std::to_string(number);
  }
};

/// All programs, in the order of the module.
std::vector<CompiledOps> findCompiledOps(ModuleOp module);

/// Reports names that are not unique.
LogicalResult checkNames(ArrayRef<CompiledOps> all);

/// Leaves only the function called `name`, or of the attention called so, with
/// a body: the others that hold attentions become declarations, or go if
/// nothing uses them. Reports a name that there is not.
LogicalResult keepFunctionOf(StringRef name, ModuleOp module);

/// Erases the other ops of the program whose op is called `name`, if there is
/// one; they must be on memrefs.
void keepOpOfProgram(StringRef name, ModuleOp module);

/// After all phases: the module with the kernels of each program, in the order
/// of findCompiledOps. Equal ones of one op have the same.
std::vector<gpu::GPUModuleOp> findKernels(ModuleOp module);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_ATTENTIONS_H
