//===- FlashCoreDialect.cpp - The flashcore dialect -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registers the ops of the flashcore dialect, and has what their interfaces
// share.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

#include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.cpp.inc"
#include "flashcore/Dialect/FlashCore/IR/FlashCoreEnums.cpp.inc"
#include "flashcore/Dialect/FlashCore/IR/FlashCoreInterfaces.cpp.inc"

void FlashCoreDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "flashcore/Dialect/FlashCore/IR/FlashCoreOps.cpp.inc"
      >();
}

SmallVector<Value> mlir::flashcore::getCapturedTensors(Operation *op) {
  llvm::SetVector<Value> values;
  auto scoreOp = cast<ScoreOpInterface>(op);
  for (Region *region : {scoreOp.findScoreRegion(), scoreOp.findMaskRegion()}) {
    if (!region)
      continue;
    region->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (isa<ShapedType>(operand.getType()) &&
            !op->isAncestor(operand.getParentBlock()->getParentOp()))
          values.insert(operand);
    });
  }
  return values.takeVector();
}

int64_t mlir::flashcore::getDropoutThreshold(std::optional<APFloat> share) {
  return share ? std::llround(0x1p16 * share->convertToFloat()) : 0;
}
