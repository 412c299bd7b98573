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

/// The name of each attention, in the order of the module: that of its
/// function, with `.0`, `.1` and so on behind it where a function has several.
/// Reports names that are not unique.
FailureOr<std::vector<std::string>> nameAttentions(ModuleOp module);

/// Leaves only the function called `name`, or of the attention called so, with
/// a body: the others that hold attentions become declarations, or go if
/// nothing uses them. Reports a name that there is not.
LogicalResult keepFunctionOf(StringRef name, ModuleOp module);

/// After all phases: the module with the kernels of each attention, in the
/// order of nameAttentions. Equal attentions have the same.
std::vector<gpu::GPUModuleOp> findKernels(ModuleOp module);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_ATTENTIONS_H
