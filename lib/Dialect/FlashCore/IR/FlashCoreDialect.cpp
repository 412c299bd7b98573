//===- FlashCoreDialect.cpp - The flashcore dialect -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the ops of the flashcore dialect. The op itself is
// in AttentionOp.cpp.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace mlir::flashcore;

#include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.cpp.inc"
#include "flashcore/Dialect/FlashCore/IR/FlashCoreEnums.cpp.inc"

void FlashCoreDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "flashcore/Dialect/FlashCore/IR/FlashCoreOps.cpp.inc"
      >();
}
