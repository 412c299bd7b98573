//===- HostLaunch.cpp - Launches of kernels -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostLaunch.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::flashcore;

HostLaunch::HostLaunch(ImplicitLocOpBuilder &b,
                       const KernelSignature &signature)
    : b(b), sizes(signature.getEndOfDims()) {
  for (const KernelTensor &tensor : signature.getTensors())
    metadata.push_back(
        memref::ExtractStridedMetadataOp::create(b, tensor.value));
  for (auto [tensor, data] : llvm::zip_equal(signature.getTensors(), metadata))
    for (auto [dim, size] : llvm::zip_equal(tensor.axes, data.getSizes()))
      sizes[static_cast<int>(dim)] = size;
  for (unsigned d = 0; d < sizes.size(); ++d)
    if (auto extent = signature.getExtent(static_cast<Dim>(d)))
      sizes[d] = b.getIndexAttr(*extent);
}

Value HostLaunch::asValue(OpFoldResult ofr) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
}

void HostLaunch::launch(gpu::GPUFuncOp function, const Kernel &kernel,
                        const Workspace &workspace) {
  OpFoldResult blocks = build(kernel.launch.grid);
  SmallVector<Value> operands;
  for (const KernelArgument &argument : kernel.arguments) {
    auto data = metadata[argument.tensor];
    switch (argument.kind) {
    case KernelArgument::Pointer:
      operands.push_back(data.getBaseBuffer());
      break;
    case KernelArgument::Size:
      operands.push_back(asValue(sizes[static_cast<int>(argument.dim)]));
      break;
    case KernelArgument::Stride:
      operands.push_back(data.getStrides()[argument.axis]);
      break;
    case KernelArgument::Offset:
      operands.push_back(data.getOffset());
      break;
    case KernelArgument::Workspace:
      operands.push_back(argument.isCopy || argument.isOfType
                             ? workspace.typed
                             : workspace.floats);
      break;
    case KernelArgument::TensorMap:
      // Upstream's launch passes no structures by value: whoever lowers the
      // host code hears of it. The runtime makes the map.
      operands.push_back(
          UnrealizedConversionCastOp::create(
              b, LLVM::LLVMPointerType::get(b.getContext()),
              argument.isCopy ? workspace.typed : Value(data.getBaseBuffer()))
              .getResult(0));
      break;
    }
  }
  Value one = asValue(b.getIndexAttr(1));
  Value threads = asValue(b.getIndexAttr(kernel.launch.numThreads));
  Value shared = arith::ConstantOp::create(
      b, b.getI32IntegerAttr(kernel.launch.sharedMemory));
  gpu::LaunchFuncOp::create(
      b, function, gpu::KernelDim3{asValue(blocks), one, one},
      gpu::KernelDim3{threads, one, one}, shared, operands);
}
