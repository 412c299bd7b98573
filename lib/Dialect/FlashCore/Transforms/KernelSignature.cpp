//===- KernelSignature.cpp - What a kernel takes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments come in this order: a pointer a tensor, the workspace, the dynamic
// sizes, then per tensor its dynamic offset and strides, then tensor maps.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::flashcore;

KernelTensor::KernelTensor(StringRef name, bool isOutput, Value value,
                           ArrayRef<Dim> axes, int64_t alignment)
    : name(name), isOutput(isOutput), value(value), axes(axes),
      alignment(alignment) {
  SmallVector<int64_t> found;
  [[maybe_unused]] LogicalResult isStrided =
      getType().getStridesAndOffset(found, offset);
  assert(succeeded(isStrided) && "verifiers have checked that");
  strides.assign(found.begin(), found.end());
}

KernelSignature::KernelSignature(SmallVector<KernelTensor> theTensors)
    : tensors(std::move(theTensors)), extents(kNumDims + 1) {
  for (KernelTensor &tensor : tensors)
    for (int64_t axis = tensor.axes.size(); axis < tensor.getType().getRank();
         ++axis) {
      ownNames.push_back(tensor.name + "_" + std::to_string(axis));
      tensor.axes.push_back(static_cast<Dim>(extents.size()));
      extents.emplace_back();
    }
  for (const KernelTensor &tensor : tensors)
    for (auto [dim, size] :
         llvm::zip_equal(tensor.axes, tensor.getType().getShape()))
      if (!ShapedType::isDynamic(size))
        extents[static_cast<unsigned>(dim)] = size;
}

bool KernelSignature::hasDim(Dim dim) const {
  return dim != Dim::One && llvm::any_of(tensors, [&](const KernelTensor &t) {
           return llvm::is_contained(t.axes, dim);
         });
}

StringRef KernelSignature::getName(Dim dim) const {
  auto index = static_cast<unsigned>(dim);
  if (auto it = givenNames.find(index); it != givenNames.end())
    return it->second;
  return index <= kNumDims ? stringifyDim(dim)
                           : StringRef(ownNames[index - kNumDims - 1]);
}

SmallVector<KernelArgument> KernelSignature::listArguments(
    WorkspaceUse workspace,
    function_ref<bool(const KernelTensor &)> takesTensor,
    function_ref<bool(Dim)> takesSize) const {
  SmallVector<KernelArgument> result;
  for (auto [i, tensor] : llvm::enumerate(tensors))
    if (takesTensor(tensor))
      result.push_back({KernelArgument::Pointer, static_cast<unsigned>(i)});
  if (workspace != NoWorkspace)
    result.push_back({KernelArgument::Workspace});
  if (workspace == WritesWorkspace)
    result.back().isWritten = true;
  for (unsigned d = 0; d < extents.size(); ++d)
    if (Dim dim = static_cast<Dim>(d);
        !extents[d] && (hasDim(dim) || dim == Dim::KeySplits) && takesSize(dim))
      result.push_back({KernelArgument::Size, 0, 0, static_cast<Dim>(d)});
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    if (!takesTensor(tensor))
      continue;
    unsigned index = i;
    if (ShapedType::isDynamic(tensor.offset))
      result.push_back({KernelArgument::Offset, index});
    for (auto [axis, stride] : llvm::enumerate(tensor.strides))
      if (ShapedType::isDynamic(stride))
        result.push_back(
            {KernelArgument::Stride, index, static_cast<unsigned>(axis)});
  }
  return result;
}

/// Behind the other pointers.
static void addPointer(SmallVectorImpl<KernelArgument> &arguments,
                       const KernelArgument &pointer) {
  auto *place = llvm::find_if(arguments, [](const KernelArgument &argument) {
    return argument.kind != KernelArgument::Pointer &&
           argument.kind != KernelArgument::Workspace;
  });
  arguments.insert(place, pointer);
}

void KernelSignature::addCopy(SmallVectorImpl<KernelArgument> &arguments,
                              StringRef tensor, bool isWritten) const {
  KernelArgument copy{KernelArgument::Workspace, getTensorIndex(tensor)};
  copy.isCopy = true;
  copy.isWritten = isWritten;
  addPointer(arguments, copy);
}

void KernelSignature::addWorkspaceOf(SmallVectorImpl<KernelArgument> &arguments,
                                     StringRef tensor) const {
  KernelArgument workspace{KernelArgument::Workspace, getTensorIndex(tensor)};
  workspace.isOfType = true;
  addPointer(arguments, workspace);
}

int64_t KernelSignature::getCopyRow(unsigned tensor) const {
  return fcgpu::getTileColumns(tensors[tensor].getType().getShape().back());
}

unsigned KernelSignature::getTensorIndex(StringRef name) const {
  const auto *it = llvm::find_if(
      tensors, [&](const KernelTensor &tensor) { return tensor.name == name; });
  assert(it != tensors.end() && "the problem has no such tensor");
  return it - tensors.begin();
}

SmallVector<Type>
KernelSignature::getTypes(MLIRContext *context,
                          ArrayRef<KernelArgument> arguments) const {
  SmallVector<Type> types;
  for (const KernelArgument &argument : arguments) {
    switch (argument.kind) {
    case KernelArgument::Workspace:
      if (!argument.isCopy && !argument.isOfType) {
        types.push_back(MemRefType::get({}, Float32Type::get(context)));
        break;
      }
      [[fallthrough]];
    case KernelArgument::Pointer: {
      MemRefType type = tensors[argument.tensor].getType();
      types.push_back(MemRefType::get({}, type.getElementType(),
                                      MemRefLayoutAttrInterface(),
                                      type.getMemorySpace()));
      break;
    }
    case KernelArgument::TensorMap:
      types.push_back(LLVM::LLVMPointerType::get(context));
      break;
    case KernelArgument::Size:
    case KernelArgument::Stride:
    case KernelArgument::Offset:
      types.push_back(IndexType::get(context));
    }
  }
  return types;
}

void KernelSignature::nameSize(Dim size, StringRef name) {
  givenNames[static_cast<unsigned>(size)] = name.str();
}

ArrayAttr
KernelSignature::describeArguments(MLIRContext *context,
                                   ArrayRef<KernelArgument> arguments) const {
  Builder b(context);
  SmallVector<Attribute> result;
  for (const KernelArgument &argument : arguments) {
    static constexpr StringLiteral kinds[] = {
        "pointer", "size", "stride", "offset", "pointer", "tensor_map"};
    NamedAttrList entry;
    entry.set("kind", b.getStringAttr(kinds[argument.kind]));
    if (argument.kind == KernelArgument::Size)
      entry.set("dim", b.getStringAttr(getName(argument.dim)));
    else if (argument.kind == KernelArgument::Workspace || argument.isCopy)
      entry.set("tensor", b.getStringAttr("workspace"));
    else
      entry.set("tensor", b.getStringAttr(tensors[argument.tensor].name));
    if (argument.isCopy) {
      entry.set("copy_of", b.getStringAttr(tensors[argument.tensor].name));
      entry.set("row", b.getI64IntegerAttr(getCopyRow(argument.tensor)));
    }
    if (argument.kind == KernelArgument::Stride)
      entry.set("axis", b.getI64IntegerAttr(argument.axis));
    if (argument.kind == KernelArgument::TensorMap) {
      entry.set("box", b.getI64ArrayAttr(argument.box));
      entry.set("swizzle", b.getI64IntegerAttr(argument.swizzle));
      if (argument.raggedAxis)
        entry.set("ragged", b.getI64IntegerAttr(*argument.raggedAxis));
      if (argument.group)
        entry.set("group", b.getI64IntegerAttr(argument.group));
    }
    result.push_back(entry.getDictionary(context));
  }
  return b.getArrayAttr(result);
}

DictionaryAttr
KernelSignature::describeKernel(MLIRContext *context,
                                ArrayRef<KernelArgument> arguments,
                                const KernelLaunch &launch) const {
  Builder b(context);
  NamedAttrList kernel;
  kernel.set("arguments", describeArguments(context, arguments));
  kernel.set("threads", b.getI64IntegerAttr(launch.numThreads));
  kernel.set("shared_memory", b.getI64IntegerAttr(launch.sharedMemory));
  return kernel.getDictionary(context);
}
