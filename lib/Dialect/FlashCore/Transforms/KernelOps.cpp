//===- KernelOps.cpp - The ops that become kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelOps.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Target/TargetInfo.h"

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.cpp.inc"

using namespace mlir;
using namespace mlir::flashcore;

StringRef mlir::flashcore::getChip(Operation *op) {
  return op->getAttrOfType<StringAttr>(fcgpu::kChipAttrName).getValue();
}

LogicalResult mlir::flashcore::checkHasChip(Operation *op) {
  auto chip = op->getAttrOfType<StringAttr>(fcgpu::kChipAttrName);
  if (!chip)
    return op->emitOpError("has no fcgpu.chip; run flashcore-configure first");
  if (!lookupTarget(chip))
    return op->emitOpError("is for an ") << unknownChipMessage(chip);
  return success();
}

void mlir::flashcore::registerKernelOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, FlashCoreDialect *) {
    attachAppendKernels(context);
    attachAttentionKernels(context);
    attachDeltaKernels(context);
    attachMergeKernels(context);
  });
}
