//===- Toy.h - A dialect with an attention of its own -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOY_H
#define TOY_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"

#include "ToyDialect.h.inc"
#include "ToyEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ToyAttrs.h.inc"
#define GET_OP_CLASSES
#include "ToyOps.h.inc"

namespace toy {
/// Turns every toy.sdpa into a flashcore.attention.
std::unique_ptr<mlir::Pass> createToyToFlashCorePass();
} // namespace toy

#endif // TOY_H
