//===- HostLaunch.cpp - Launches of kernels -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostLaunch.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::flashcore;

HostLaunch::HostLaunch(ImplicitLocOpBuilder &b,
                       const KernelSignature &signature)
    : b(b), sizes(signature.getEndOfDims()), values(signature.getEndOfDims()) {
  for (const KernelTensor &tensor : signature.getTensors())
    metadata.push_back(
        memref::ExtractStridedMetadataOp::create(b, tensor.value));
  for (auto [tensor, data] : llvm::zip_equal(signature.getTensors(), metadata))
    for (auto [dim, size] : llvm::zip_equal(tensor.axes, data.getSizes()))
      values[static_cast<int>(dim)] = size;
  for (unsigned d = 0; d < sizes.size(); ++d)
    sizes[d] = signature.getExtent(static_cast<Dim>(d))
                   ? OpFoldResult(b.getIndexAttr(
                         *signature.getExtent(static_cast<Dim>(d))))
                   : OpFoldResult(values[d]);
}

Value HostLaunch::asValue(OpFoldResult ofr) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
}

void HostLaunch::setSize(Dim dim, OpFoldResult size) {
  sizes[static_cast<int>(dim)] = size;
  values[static_cast<int>(dim)] = asValue(size);
}

void HostLaunch::launch(gpu::GPUFuncOp kernel,
                        ArrayRef<KernelArgument> arguments,
                        const Workspace &workspace, const SizeFormula &grid) {
  OpFoldResult blocks = build(grid);
  SmallVector<Value> operands;
  for (const KernelArgument &argument : arguments) {
    auto data = metadata[argument.tensor];
    switch (argument.kind) {
    case KernelArgument::Pointer:
      operands.push_back(data.getBaseBuffer());
      break;
    case KernelArgument::Size:
      operands.push_back(values[static_cast<int>(argument.dim)]);
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
  auto description =
      kernel->getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName);
  auto get = [&](StringRef name) {
    return description.getAs<IntegerAttr>(name).getInt();
  };
  Value one = asValue(b.getIndexAttr(1));
  Value threads = asValue(b.getIndexAttr(get("threads")));
  Value shared =
      arith::ConstantOp::create(b, b.getI32IntegerAttr(get("shared_memory")));
  gpu::LaunchFuncOp::create(
      b, kernel, gpu::KernelDim3{asValue(blocks), one, one},
      gpu::KernelDim3{threads, one, one}, shared, operands);
}
