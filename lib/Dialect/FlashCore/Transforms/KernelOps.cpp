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

std::string mlir::flashcore::getKernelName(StringRef what, ShapedType elements,
                                           int64_t columns) {
  std::string name;
  llvm::raw_string_ostream(name)
      << what << "_" << elements.getElementType() << "_d" << columns;
  return name;
}

void mlir::flashcore::markUpdated(MutableArrayRef<KernelArgument> arguments,
                                  const KernelSignature &signature) {
  for (KernelArgument &argument : arguments)
    argument.isWritten = argument.kind == KernelArgument::Pointer &&
                         signature.getTensors()[argument.tensor].isUpdated;
}

KernelProgram mlir::flashcore::getSingleKernelProgram(
    Operation *op, std::string name, std::shared_ptr<KernelSignature> signature,
    const KernelLaunch &launch, std::function<void(KernelFrame &)> buildBody) {
  SmallVector<KernelArgument> arguments = signature->listArguments(
      KernelSignature::NoWorkspace, [](const KernelTensor &) { return true; },
      [](Dim dim) { return dim != Dim::KeySplits; });
  markUpdated(arguments, *signature);
  KernelProgram program{std::move(name), getChip(op), std::move(signature)};
  program.kernels.push_back({"", std::move(arguments), launch,
                             /*schedule=*/nullptr, std::move(buildBody)});
  return program;
}

void mlir::flashcore::registerKernelOpInterfaceExternalModels(
    DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, FlashCoreDialect *) {
    attachAppendKernels(context);
    attachAttentionKernels(context);
    attachDeltaKernels(context);
    attachMergeKernels(context);
    attachAttentionKernel(context);
    attachScoresKernel(context);
    attachSoftmaxKernel(context);
    attachValuesKernel(context);
  });
}
