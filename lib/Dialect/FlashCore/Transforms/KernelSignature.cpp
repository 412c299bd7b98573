//===- KernelSignature.cpp - What a kernel takes --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments come in this order: a pointer a tensor, the workspace, the dynamic
// sizes, then per tensor its dynamic offset and strides.
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

KernelSignature::KernelSignature(AttentionOp op, fcgpu::ScheduleAttr schedule) {
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

  auto isInput = [](const KernelTensor &tensor) { return !tensor.isOutput; };
  auto isOutput = [](const KernelTensor &tensor) { return tensor.isOutput; };
  auto isAny = [](const auto &) { return true; };
  if (schedule.getKeySplits() == 1) {
    arguments = listArguments(/*needsWorkspace=*/false, isAny, isAny);
    return;
  }
  arguments = listArguments(/*needsWorkspace=*/true, isInput, isAny);
  mergeArguments =
      listArguments(/*needsWorkspace=*/true, isOutput, [](Dim dim) {
        return dim == Dim::Batch || dim == Dim::HeadsQ || dim == Dim::SeqlenQ;
      });
}

SmallVector<KernelArgument> KernelSignature::listArguments(
    bool needsWorkspace, function_ref<bool(const KernelTensor &)> takesTensor,
    function_ref<bool(Dim)> takesSize) const {
  SmallVector<KernelArgument> result;
  for (auto [i, tensor] : llvm::enumerate(tensors))
    if (takesTensor(tensor))
      result.push_back({KernelArgument::Pointer, static_cast<unsigned>(i)});
  if (needsWorkspace)
    result.push_back({KernelArgument::Workspace});
  for (unsigned d = 0; d < kNumDims; ++d)
    if (!extents[d] && takesSize(static_cast<Dim>(d)))
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

unsigned KernelSignature::getTensorIndex(StringRef name) const {
  const auto *it = llvm::find_if(
      tensors, [&](const KernelTensor &tensor) { return tensor.name == name; });
  assert(it != tensors.end() && "the attention has no such tensor");
  return it - tensors.begin();
}

SmallVector<Type>
KernelSignature::getTypes(MLIRContext *context,
                          ArrayRef<KernelArgument> arguments) const {
  SmallVector<Type> types;
  for (const KernelArgument &argument : arguments) {
    switch (argument.kind) {
    case KernelArgument::Pointer: {
      MemRefType type = tensors[argument.tensor].getType();
      types.push_back(MemRefType::get({}, type.getElementType(),
                                      MemRefLayoutAttrInterface(),
                                      type.getMemorySpace()));
      break;
    }
    case KernelArgument::Workspace:
      types.push_back(MemRefType::get({}, Float32Type::get(context)));
      break;
    case KernelArgument::Size:
    case KernelArgument::Stride:
    case KernelArgument::Offset:
      types.push_back(IndexType::get(context));
    }
  }
  return types;
}

/// A number; `unit` for one that is known at run time only.
static Attribute describeNumber(Builder &b, int64_t value) {
  return ShapedType::isDynamic(value) ? Attribute(b.getUnitAttr())
                                      : b.getI64IntegerAttr(value);
}

/// The factor ceil(dim / tile) of a grid or a size.
static Attribute describeFactor(Builder &b, Dim dim, int64_t tile) {
  return b.getDictionaryAttr(
      {b.getNamedAttr("dim", b.getStringAttr(stringifyDim(dim))),
       b.getNamedAttr("tile", b.getI64IntegerAttr(tile))});
}

/// The sizes of the partial results (see KernelFrame).
static ArrayAttr describeWorkspace(Builder &b, int64_t keySplits) {
  constexpr int64_t bytesOfF32 = 4;
  SmallVector<Attribute> terms, factors;
  auto addTerm = [&] {
    terms.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("bytes", b.getI64IntegerAttr(bytesOfF32 * keySplits)),
         b.getNamedAttr("factors", b.getArrayAttr(factors))}));
  };
  for (Dim dim : {Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ})
    factors.push_back(describeFactor(b, dim, 1));
  addTerm(); // LSE
  factors.push_back(describeFactor(b, Dim::HeadDimV, 1));
  addTerm(); // O
  return b.getArrayAttr(terms);
}

ArrayAttr
KernelSignature::describeArguments(MLIRContext *context,
                                   ArrayRef<KernelArgument> arguments) const {
  Builder b(context);
  SmallVector<Attribute> result;
  for (const KernelArgument &argument : arguments) {
    static constexpr StringLiteral kinds[] = {"pointer", "size", "stride",
                                              "offset", "pointer"};
    NamedAttrList entry;
    entry.set("kind", b.getStringAttr(kinds[argument.kind]));
    if (argument.kind == KernelArgument::Size)
      entry.set("dim", b.getStringAttr(stringifyDim(argument.dim)));
    else if (argument.kind == KernelArgument::Workspace)
      entry.set("tensor", b.getStringAttr("workspace"));
    else
      entry.set("tensor", b.getStringAttr(tensors[argument.tensor].name));
    if (argument.kind == KernelArgument::Stride)
      entry.set("axis", b.getI64IntegerAttr(argument.axis));
    result.push_back(entry.getDictionary(context));
  }
  return b.getArrayAttr(result);
}

DictionaryAttr KernelSignature::toDictionary(AttentionOp op,
                                             fcgpu::ScheduleAttr schedule,
                                             int64_t sharedMemoryBytes) const {
  Builder b(op.getContext());
  auto text = [&](StringRef value) { return b.getStringAttr(value); };
  auto number = [&](int64_t value) { return describeNumber(b, value); };

  SmallVector<Attribute> tensorAttrs;
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
  SmallVector<Attribute> grid{
      describeFactor(b, Dim::SeqlenQ, schedule.getBlockM()),
      describeFactor(b, Dim::HeadsQ, schedule.getHeadGroup()),
      describeFactor(b, Dim::Batch, 1)};

  NamedAttrList kernel;
  if (int64_t splits = schedule.getKeySplits(); splits > 1) {
    grid.push_back(
        b.getDictionaryAttr(b.getNamedAttr("count", number(splits))));
    kernel.set("workspace", describeWorkspace(b, splits));
  }
  kernel.set("arguments", describeArguments(op.getContext(), arguments));
  kernel.set("tensors", b.getArrayAttr(tensorAttrs));
  kernel.set("dims", dims.getDictionary(op.getContext()));
  kernel.set("grid", b.getArrayAttr(grid));
  if (schedule.isPersistent())
    kernel.set("max_blocks_per_sm", number(schedule.getBlocksPerSM()));
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

DictionaryAttr KernelSignature::toMergeDictionary(MLIRContext *context,
                                                  int64_t numThreads) const {
  Builder b(context);
  SmallVector<Attribute> grid;
  for (Dim dim : {Dim::SeqlenQ, Dim::HeadsQ, Dim::Batch})
    grid.push_back(describeFactor(b, dim, 1));
  return b.getDictionaryAttr(
      {b.getNamedAttr("arguments", describeArguments(context, mergeArguments)),
       b.getNamedAttr("grid", b.getArrayAttr(grid)),
       b.getNamedAttr("threads", b.getI64IntegerAttr(numThreads)),
       b.getNamedAttr("shared_memory", b.getI64IntegerAttr(0))});
}
