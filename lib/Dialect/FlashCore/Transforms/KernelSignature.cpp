//===- KernelSignature.cpp - What a kernel takes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments come in this order: a pointer a tensor, the dynamic sizes, then per
// tensor its dynamic offset and strides.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::flashcore;

StringRef mlir::flashcore::stringifyDim(Dim dim) {
  static constexpr StringLiteral names[kNumDims + 1] = {
      "batch",    "heads_q",  "heads_kv",   "seqlen_q",
      "seqlen_k", "head_dim", "head_dim_v", "1"};
  return names[static_cast<unsigned>(dim)];
}

KernelSignature::KernelSignature(AttentionOp op) {
  auto addTensor = [&](StringRef name, bool isOutput, Value value,
                       ArrayRef<Dim> axes) {
    KernelTensor tensor{name, isOutput, value, SmallVector<Dim, 4>(axes),
                        {},   0,        0};
    // Tiles are copied 16 bytes at a time, everything else element by element.
    constexpr int64_t copyBytes = 16;
    bool isCopied = name != "bias" && name != "lse";
    tensor.alignment =
        isCopied ? copyBytes : tensor.getType().getElementTypeBitWidth() / 8;
    SmallVector<int64_t> strides;
    // The op's verifier has checked that the layout is strided.
    (void)tensor.getType().getStridesAndOffset(strides, tensor.offset);
    tensor.strides.assign(strides.begin(), strides.end());
    tensors.push_back(std::move(tensor));
  };
  addTensor("q", false, op.getQuery(),
            {Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ, Dim::HeadDim});
  addTensor("k", false, op.getKey(),
            {Dim::Batch, Dim::HeadsKV, Dim::SeqlenK, Dim::HeadDim});
  addTensor("v", false, op.getValue(),
            {Dim::Batch, Dim::HeadsKV, Dim::SeqlenK, Dim::HeadDimV});
  addTensor("o", true, op.getOutput(),
            {Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ, Dim::HeadDimV});
  if (Value lse = op.getLse())
    addTensor("lse", true, lse, {Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ});
  if (Value bias = op.getBias()) {
    SmallVector<Dim> axes{Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ, Dim::SeqlenK};
    auto shape = cast<MemRefType>(bias.getType()).getShape();
    for (auto [axis, size] : llvm::zip_equal(axes, shape))
      if (size == 1)
        axis = Dim::One;
    addTensor("bias", false, bias, axes);
  }

  for (const KernelTensor &tensor : tensors)
    for (auto [dim, size] :
         llvm::zip_equal(tensor.axes, tensor.getType().getShape()))
      if (!ShapedType::isDynamic(size))
        extents[static_cast<unsigned>(dim)] = size;

  for (unsigned i = 0; i < tensors.size(); ++i)
    arguments.push_back({KernelArgument::Pointer, i});
  for (unsigned d = 0; d < kNumDims; ++d)
    if (!extents[d])
      arguments.push_back({KernelArgument::Size, 0, 0, static_cast<Dim>(d)});
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    unsigned index = i;
    if (ShapedType::isDynamic(tensor.offset))
      arguments.push_back({KernelArgument::Offset, index});
    for (auto [axis, stride] : llvm::enumerate(tensor.strides))
      if (ShapedType::isDynamic(stride))
        arguments.push_back(
            {KernelArgument::Stride, index, static_cast<unsigned>(axis)});
  }
}

unsigned KernelSignature::getTensorIndex(StringRef name) const {
  const auto *it = llvm::find_if(
      tensors, [&](const KernelTensor &tensor) { return tensor.name == name; });
  assert(it != tensors.end() && "the attention has no such tensor");
  return it - tensors.begin();
}

SmallVector<Type>
KernelSignature::getArgumentTypes(MLIRContext *context) const {
  SmallVector<Type> types;
  for (const KernelArgument &argument : arguments) {
    if (argument.kind != KernelArgument::Pointer) {
      types.push_back(IndexType::get(context));
      continue;
    }
    MemRefType type = tensors[argument.tensor].getType();
    types.push_back(MemRefType::get({}, type.getElementType(),
                                    MemRefLayoutAttrInterface(),
                                    type.getMemorySpace()));
  }
  return types;
}

DictionaryAttr KernelSignature::toDictionary(AttentionOp op,
                                             fcgpu::ScheduleAttr schedule,
                                             int64_t sharedMemoryBytes) const {
  Builder b(op.getContext());
  auto text = [&](StringRef value) { return b.getStringAttr(value); };
  // Dynamic sizes, strides and offsets are `unit`.
  auto number = [&](int64_t value) -> Attribute {
    return ShapedType::isDynamic(value) ? Attribute(b.getUnitAttr())
                                        : b.getI64IntegerAttr(value);
  };

  SmallVector<Attribute> argumentAttrs, tensorAttrs;
  for (const KernelArgument &argument : arguments) {
    static constexpr StringLiteral kinds[] = {"pointer", "size", "stride",
                                              "offset"};
    NamedAttrList entry;
    entry.set("kind", text(kinds[argument.kind]));
    if (argument.kind == KernelArgument::Size)
      entry.set("dim", text(stringifyDim(argument.dim)));
    else
      entry.set("tensor", text(tensors[argument.tensor].name));
    if (argument.kind == KernelArgument::Stride)
      entry.set("axis", number(argument.axis));
    argumentAttrs.push_back(entry.getDictionary(op.getContext()));
  }
  for (const KernelTensor &tensor : tensors) {
    SmallVector<Attribute> axes, strides;
    for (Dim dim : tensor.axes)
      axes.push_back(text(stringifyDim(dim)));
    for (int64_t stride : tensor.strides)
      strides.push_back(number(stride));
    tensorAttrs.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("name", text(tensor.name)),
         b.getNamedAttr("role", text(tensor.isOutput ? "output" : "input")),
         b.getNamedAttr("dtype",
                        TypeAttr::get(tensor.getType().getElementType())),
         b.getNamedAttr("axes", b.getArrayAttr(axes)),
         b.getNamedAttr("strides", b.getArrayAttr(strides)),
         b.getNamedAttr("offset", number(tensor.offset)),
         b.getNamedAttr("alignment", number(tensor.alignment))}));
  }
  NamedAttrList dims;
  for (unsigned d = 0; d < kNumDims; ++d)
    dims.set(stringifyDim(static_cast<Dim>(d)),
             number(extents[d].value_or(ShapedType::kDynamic)));
  SmallVector<Attribute> grid;
  for (auto [dim, tile] : {std::pair(Dim::SeqlenQ, schedule.getBlockM()),
                           {Dim::HeadsQ, schedule.getHeadGroup()},
                           {Dim::Batch, 1}})
    grid.push_back(
        b.getDictionaryAttr({b.getNamedAttr("dim", text(stringifyDim(dim))),
                             b.getNamedAttr("tile", number(tile))}));

  NamedAttrList kernel;
  kernel.set("arguments", b.getArrayAttr(argumentAttrs));
  kernel.set("tensors", b.getArrayAttr(tensorAttrs));
  kernel.set("dims", dims.getDictionary(op.getContext()));
  kernel.set("grid", b.getArrayAttr(grid));
  kernel.set("threads", b.getI64IntegerAttr(schedule.getNumThreads()));
  kernel.set("shared_memory", b.getI64IntegerAttr(sharedMemoryBytes));
  kernel.set("softmax_scale", b.getF32FloatAttr(op.getEffectiveScale()));
  kernel.set("causal",
             text(op.getCausal() ? stringifyCausalAlignment(*op.getCausal())
                                 : "none"));
  auto window = [&](std::optional<uint64_t> keys) {
    return number(keys ? static_cast<int64_t>(*keys) : ShapedType::kDynamic);
  };
  kernel.set("window_left", window(op.getWindowLeft()));
  kernel.set("window_right", window(op.getWindowRight()));
  kernel.set("softcap", op.getSoftcapAttr() ? Attribute(op.getSoftcapAttr())
                                            : b.getUnitAttr());
  return kernel.getDictionary(op.getContext());
}
