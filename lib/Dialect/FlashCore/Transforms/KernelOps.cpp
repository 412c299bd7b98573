//===- KernelOps.cpp - The ops that become kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelOps.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.cpp.inc"

using namespace mlir;

void mlir::flashcore::registerKernelOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, FlashCoreDialect *) {
    attachAttentionKernels(context);
    attachMergeKernels(context);
  });
}
