//===- KernelFrame.cpp - Kernels and their arguments ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments are bare pointers and numbers; from them and from what is static
// this makes the memrefs that a kernel works on.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flashcore;

KernelFrame::KernelFrame(ImplicitLocOpBuilder &b,
                         const KernelSignature &signature,
                         ArrayRef<KernelArgument> arguments, StringRef name,
                         int64_t numThreads, DictionaryAttr description)
    : b(b), signature(signature), arguments(arguments) {
  auto type = b.getFunctionType(signature.getTypes(b.getContext(), arguments),
                                TypeRange());
  func = gpu::GPUFuncOp::create(b, name, type);
  func->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func.setKnownBlockSizeAttr(
      b.getDenseI32ArrayAttr({static_cast<int32_t>(numThreads), 1, 1}));
  func->setAttr(fcgpu::kKernelAttrName, description);
  setArgumentAttributes();

  b.setInsertionPointToStart(&func.getBody().front());
  sizes.resize(signature.getEndOfDims());
  for (unsigned d = 0; d < sizes.size(); ++d)
    if (auto extent = signature.getExtent(static_cast<Dim>(d)))
      sizes[d] = b.getIndexAttr(*extent);
  tensors.resize(signature.getTensors().size());
  for (auto [argument, value] : llvm::zip_equal(arguments, func.getArguments()))
    if (argument.kind == KernelArgument::Size)
      sizes[static_cast<unsigned>(argument.dim)] = value;
  for (const KernelArgument &argument : arguments)
    if (argument.kind == KernelArgument::Pointer)
      tensors[argument.tensor] = reinterpret(argument.tensor);
  for (auto [argument, value] :
       llvm::zip_equal(arguments, func.getArguments())) {
    if (argument.kind != KernelArgument::Workspace || !argument.isCopy)
      continue;
    copy = viewCopy(argument, value);
    if (!tensors[argument.tensor])
      tensors[argument.tensor] = copy;
  }
}

/// The tensors do not overlap, rows start at multiples of their alignment (so
/// does the pointer, unless the offset is the caller's), and nobody else writes
/// what is read while the kernel runs. The parts of a workspace are apart.
void KernelFrame::setArgumentAttributes() {
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    int64_t alignment = 0;
    bool isRead = false;
    if (argument.kind == KernelArgument::Pointer) {
      const KernelTensor &tensor = signature.getTensors()[argument.tensor];
      if (!ShapedType::isDynamic(tensor.offset))
        alignment = tensor.alignment;
      isRead = !tensor.isOutput && !argument.isWritten;
    } else if (argument.kind == KernelArgument::Workspace) {
      alignment = kWorkspaceAlignment;
      isRead = !argument.isWritten;
    } else {
      continue;
    }
    func.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
    if (alignment)
      func.setArgAttr(i, "llvm.align", b.getI32IntegerAttr(alignment));
    if (isRead)
      func.setArgAttr(i, "llvm.readonly", b.getUnitAttr());
  }
}

Value KernelFrame::reinterpret(unsigned i) {
  const KernelTensor &tensor = signature.getTensors()[i];
  OpFoldResult offset = b.getIndexAttr(tensor.offset);
  SmallVector<OpFoldResult> shape, strides;
  for (Dim dim : tensor.axes)
    shape.push_back(getSize(dim));
  for (int64_t stride : tensor.strides)
    strides.push_back(b.getIndexAttr(stride));
  Value base;
  for (auto [argument, value] :
       llvm::zip_equal(arguments, func.getArguments())) {
    if (argument.kind == KernelArgument::Size ||
        argument.kind == KernelArgument::Workspace ||
        argument.kind == KernelArgument::TensorMap || argument.tensor != i)
      continue;
    if (argument.kind == KernelArgument::Pointer)
      base = value;
    else if (argument.kind == KernelArgument::Offset)
      offset = value;
    else
      strides[argument.axis] = value;
  }
  auto layout =
      StridedLayoutAttr::get(b.getContext(), tensor.offset, tensor.strides);
  SmallVector<int64_t> staticShape;
  for (OpFoldResult size : shape)
    staticShape.push_back(
        getConstantIntValue(size).value_or(ShapedType::kDynamic));
  MemRefType original = tensor.getType();
  auto type = MemRefType::get(staticShape, original.getElementType(), layout,
                              original.getMemorySpace());
  return memref::ReinterpretCastOp::create(b, type, base, offset, shape,
                                           strides);
}

Value KernelFrame::findTensor(StringRef name) const {
  for (auto [tensor, value] : llvm::zip_equal(signature.getTensors(), tensors))
    if (tensor.name == name)
      return value;
  return Value();
}

/// Row-major but for the columns that fill up its rows.
Value KernelFrame::viewCopy(const KernelArgument &argument, Value base) {
  const KernelTensor &tensor = signature.getTensors()[argument.tensor];
  SmallVector<OpFoldResult> shape =
      llvm::map_to_vector(tensor.axes, [&](Dim dim) { return getSize(dim); });
  SmallVector<OpFoldResult> strides(shape.size(), b.getIndexAttr(1));
  size_t rows = shape.size() - 2;
  strides[rows] = b.getIndexAttr(signature.getCopyRow(argument.tensor));
  for (size_t axis = rows; axis > 0; --axis)
    strides[axis - 1] = multiply(strides[axis], shape[axis]);
  return makeView(base, b.getIndexAttr(0), shape, strides);
}

/// In elements of f32: rows of a copy are whole numbers of them.
OpFoldResult KernelFrame::getEndOfCopy() {
  OpFoldResult end = b.getIndexAttr(0);
  for (const KernelTensor &tensor : signature.getTensors()) {
    if (!tensor.isCopied)
      continue;
    int64_t row = signature.getCopyRow(&tensor - signature.getTensors().data());
    int64_t bits = tensor.getType().getElementTypeBitWidth();
    end = b.getIndexAttr(row * bits / 32);
    for (Dim dim : ArrayRef(tensor.axes).drop_back())
      end = multiply(end, getSize(dim));
  }
  return end;
}

OpFoldResult KernelFrame::multiply(OpFoldResult x, OpFoldResult y) {
  auto xValue = getConstantIntValue(x), yValue = getConstantIntValue(y);
  if (xValue && yValue)
    return b.getIndexAttr(*xValue * *yValue);
  auto asValue = [&](OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  };
  return arith::MulIOp::create(b, asValue(x), asValue(y)).getResult();
}

/// A sum of sizes.
OpFoldResult KernelFrame::add(OpFoldResult x, OpFoldResult y) {
  auto xValue = getConstantIntValue(x), yValue = getConstantIntValue(y);
  if (xValue && yValue)
    return b.getIndexAttr(*xValue + *yValue);
  if (xValue == 0)
    return y;
  auto asValue = [&](OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  };
  return arith::AddIOp::create(b, asValue(x), asValue(y)).getResult();
}

Value KernelFrame::makeView(Value base, OpFoldResult offset,
                            ArrayRef<OpFoldResult> shape,
                            ArrayRef<OpFoldResult> strides) {
  auto known = [](OpFoldResult ofr) {
    return getConstantIntValue(ofr).value_or(ShapedType::kDynamic);
  };
  auto layout = StridedLayoutAttr::get(b.getContext(), known(offset),
                                       llvm::map_to_vector(strides, known));
  auto type = MemRefType::get(llvm::map_to_vector(shape, known),
                              cast<MemRefType>(base.getType()).getElementType(),
                              layout);
  return memref::ReinterpretCastOp::create(b, type, base, offset, shape,
                                           strides);
}

Value KernelFrame::findWorkspace(bool isOfType) {
  for (auto [argument, value] : llvm::zip_equal(arguments, func.getArguments()))
    if (argument.kind == KernelArgument::Workspace && !argument.isCopy &&
        argument.isOfType == isOfType)
      return value;
  llvm_unreachable("the kernel takes no such workspace");
}

Value KernelFrame::viewWorkspace(OpFoldResult offset,
                                 ArrayRef<OpFoldResult> shape) {
  SmallVector<OpFoldResult> strides(shape.size(), b.getIndexAttr(1));
  for (size_t axis = shape.size() - 1; axis > 0; --axis)
    strides[axis - 1] = multiply(strides[axis], shape[axis]);
  return makeView(findWorkspace(/*isOfType=*/false),
                  add(getEndOfCopy(), offset), shape, strides);
}

Value KernelFrame::viewWorkspaceOfType(OpFoldResult offset,
                                       ArrayRef<OpFoldResult> shape,
                                       ArrayRef<OpFoldResult> strides) {
  return makeView(findWorkspace(/*isOfType=*/true), offset, shape, strides);
}
