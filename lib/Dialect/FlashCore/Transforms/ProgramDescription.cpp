//===- ProgramDescription.cpp - What a manifest says of a program ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The keys are those of docs/Bundle.md. A program of one op has the names that
// the op gives its tensors and sizes; of several, each says which tensor of the
// program is which of its own.
//
//===----------------------------------------------------------------------===//

#include "ProgramDescription.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class ProgramDescriber {
public:
  ProgramDescriber(MLIRContext *context, ArrayRef<OpPrograms> ops)
      : b(context), ops(ops), tensors(ops) {}

  DictionaryAttr
  describe(function_ref<StringRef(unsigned, unsigned, unsigned)> getKernel);

private:
  StringAttr text(const Twine &value) { return b.getStringAttr(value); }
  /// A number; `unit` for one that is known at run time only.
  Attribute number(int64_t value) {
    return ShapedType::isDynamic(value) ? Attribute(b.getUnitAttr())
                                        : b.getI64IntegerAttr(value);
  }
  bool isOfSeveral() const { return ops.size() > 1; }

  void addValues(unsigned op, const KernelProgram &program);
  std::string print(unsigned op, const KernelProgram &program,
                    const SizeFormula &formula);
  std::string printCondition(unsigned op, const KernelProgram &program);
  DictionaryAttr describe(const ProgramTensor &tensor);
  ArrayAttr describeAll(ProgramTensor::Kind kind);
  DictionaryAttr describeSizes();
  NamedAttrList describeOp(unsigned number);
  ArrayAttr describeOperands(unsigned number);
  void addWorkspace(unsigned op);

  Builder b;
  ArrayRef<OpPrograms> ops;
  ProgramTensors tensors;
  SmallVector<Attribute> values, workspace;
  /// What host code computes for programs, and its names.
  DenseMap<std::pair<const KernelProgram *, unsigned>, std::string> valueNames;
};
} // namespace

void ProgramDescriber::addValues(unsigned op, const KernelProgram &program) {
  for (const ProgramValue &value : program.values) {
    std::string is = print(op, program, value.is);
    std::string name =
        tensors.takeValueName(program.sizes->getName(value.size));
    values.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("name", text(name)), b.getNamedAttr("is", text(is))}));
    valueNames[{&program, static_cast<unsigned>(value.size)}] = name;
  }
}

/// The text of a formula in the names of the program.
std::string ProgramDescriber::print(unsigned op, const KernelProgram &program,
                                    const SizeFormula &formula) {
  return formula.print([&](Dim dim) -> StringRef {
    auto it = valueNames.find({&program, static_cast<unsigned>(dim)});
    if (it != valueNames.end())
      return it->second;
    StringRef name = tensors.findSizeName(op, dim);
    return name.empty() ? program.sizes->getName(dim) : name;
  });
}

/// Which calls a program is for; empty for all.
std::string ProgramDescriber::printCondition(unsigned op,
                                             const KernelProgram &program) {
  const CallCondition &condition = program.condition;
  if (condition.isAlways())
    return "";
  std::string number = print(op, program, condition.number);
  return condition.most ? number + " <= " + std::to_string(*condition.most)
                        : number + " >= " + std::to_string(condition.least);
}

DictionaryAttr ProgramDescriber::describe(const ProgramTensor &tensor) {
  NamedAttrList result;
  SmallVector<Attribute> axes, strides;
  for (unsigned size : tensor.sizes)
    axes.push_back(text(tensors.getSizeName(size)));
  SmallVector<int64_t> strideValues;
  int64_t offset = 0;
  [[maybe_unused]] LogicalResult isStrided =
      tensor.type.getStridesAndOffset(strideValues, offset);
  assert(succeeded(isStrided) && "verifiers have checked that");
  for (int64_t stride : strideValues)
    strides.push_back(number(stride));
  result.set("name", text(tensor.name));
  result.set("dtype", TypeAttr::get(tensor.type.getElementType()));
  result.set("axes", b.getArrayAttr(axes));
  result.set("strides", b.getArrayAttr(strides));
  result.set("offset", number(offset));
  result.set("alignment", number(tensor.alignment));
  if (tensor.kind == ProgramTensor::Argument)
    result.set("role", text(!tensor.isWritten    ? "input"
                            : tensor.isReadFirst ? "updated"
                                                 : "output"));
  if (tensor.kind == ProgramTensor::View) {
    result.set("of", text(tensors.getTensors()[tensor.base].name));
    result.set("begin", b.getI64ArrayAttr(tensor.begin));
    result.set("base_axes",
               b.getI64ArrayAttr(llvm::to_vector_of<int64_t>(tensor.axes)));
  }
  return result.getDictionary(b.getContext());
}

ArrayAttr ProgramDescriber::describeAll(ProgramTensor::Kind kind) {
  SmallVector<Attribute> result;
  for (const ProgramTensor &tensor : tensors.getTensors())
    if (tensor.kind == kind)
      result.push_back(describe(tensor));
  return b.getArrayAttr(result);
}

DictionaryAttr ProgramDescriber::describeSizes() {
  NamedAttrList sizes;
  for (const ProgramTensor &tensor : tensors.getTensors())
    for (unsigned size : tensor.sizes)
      if (StringRef name = tensors.getSizeName(size);
          name != stringifyDim(Dim::One))
        sizes.set(name, number(tensors.getExtent(size).value_or(
                            ShapedType::kDynamic)));
  return sizes.getDictionary(b.getContext());
}

/// Its own names, and which tensors of the program they are.
ArrayAttr ProgramDescriber::describeOperands(unsigned number) {
  SmallVector<Attribute> operands;
  const KernelSignature &own = ops[number].getSizes();
  for (auto [index, operand] : llvm::enumerate(own.getTensors())) {
    SmallVector<Attribute> axes;
    for (Dim dim : operand.axes)
      axes.push_back(text(own.getName(dim)));
    operands.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("name", text(operand.name)),
         b.getNamedAttr("tensor", text(tensors.getTensor(number, index).name)),
         b.getNamedAttr("role", text(operand.getRole())),
         b.getNamedAttr("axes", b.getArrayAttr(axes))}));
  }
  return b.getArrayAttr(operands);
}

NamedAttrList ProgramDescriber::describeOp(unsigned number) {
  const OpPrograms &op = ops[number];
  const KernelProgram &program = op.programs.front();
  NamedAttrList result;
  result.set("op", text(op.op->getName().stripDialect()));
  result.set("attributes",
             program.attributes ? program.attributes : b.getDictionaryAttr({}));
  if (!isOfSeveral())
    return result;
  result.set("operands", describeOperands(number));
  NamedAttrList sizes;
  const KernelSignature &own = op.getSizes();
  for (unsigned d = 0; d < own.getEndOfDims(); ++d)
    if (auto dim = static_cast<Dim>(d);
        !tensors.findSizeName(number, dim).empty())
      sizes.set(own.getName(dim), text(tensors.findSizeName(number, dim)));
  result.set("sizes", sizes.getDictionary(b.getContext()));
  NamedAttrList values;
  for (const KernelProgram &each : op.programs)
    for (const ProgramValue &value : each.values)
      values.set(each.sizes->getName(value.size),
                 text(valueNames[{&each, static_cast<unsigned>(value.size)}]));
  result.set("values", values.getDictionary(b.getContext()));
  return result;
}

/// Terms of one op stand as they are. Several have the same bytes one after
/// another, so that there are as many as one of them wants.
void ProgramDescriber::addWorkspace(unsigned op) {
  std::string sum;
  for (const KernelProgram &program : ops[op].programs) {
    std::string condition = printCondition(op, program);
    for (const SizeFormula &bytes : program.workspace) {
      std::string term = print(op, program, bytes);
      if (!isOfSeveral()) {
        NamedAttrList entry;
        entry.set("bytes", text(term));
        if (!condition.empty())
          entry.set("when", text(condition));
        workspace.push_back(entry.getDictionary(b.getContext()));
        continue;
      }
      if (!condition.empty())
        term = "(" + condition + ") * (" + term + ")";
      sum += (sum.empty() ? "" : " + ") + term;
    }
  }
  if (sum.empty())
    return;
  StringAttr bytes = text(sum);
  if (!workspace.empty())
    bytes = text("max(" +
                 cast<DictionaryAttr>(workspace.front())
                     .getAs<StringAttr>("bytes")
                     .getValue() +
                 ", " + sum + ")");
  workspace.assign({b.getDictionaryAttr({b.getNamedAttr("bytes", bytes)})});
}

DictionaryAttr ProgramDescriber::describe(
    function_ref<StringRef(unsigned, unsigned, unsigned)> getKernel) {
  SmallVector<Attribute> described, launches;
  for (auto [number, op] : llvm::enumerate(ops)) {
    for (const KernelProgram &program : op.programs)
      addValues(number, program);
    NamedAttrList entry = describeOp(number);
    for (auto [index, program] : llvm::enumerate(op.programs))
      for (auto [place, kernel] : llvm::enumerate(program.kernels)) {
        StringAttr name = text(getKernel(number, index, place));
        if (kernel.suffix.empty() && !entry.get("kernel"))
          entry.set("kernel", name);
        NamedAttrList launch;
        launch.set("kernel", name);
        launch.set("op", b.getI64IntegerAttr(number));
        launch.set("grid", text(print(number, program, kernel.launch.grid)));
        if (std::string when = printCondition(number, program); !when.empty())
          launch.set("when", text(when));
        launches.push_back(launch.getDictionary(b.getContext()));
      }
    described.push_back(entry.getDictionary(b.getContext()));
    addWorkspace(number);
  }
  NamedAttrList result;
  auto setUnlessEmpty = [&](StringRef name, ArrayAttr list) {
    if (!list.empty())
      result.set(name, list);
  };
  result.set("ops", b.getArrayAttr(described));
  result.set("sizes", describeSizes());
  result.set("tensors", describeAll(ProgramTensor::Argument));
  setUnlessEmpty("intermediates", describeAll(ProgramTensor::Intermediate));
  setUnlessEmpty("views", describeAll(ProgramTensor::View));
  setUnlessEmpty("values", b.getArrayAttr(values));
  setUnlessEmpty("workspace", b.getArrayAttr(workspace));
  result.set("launches", b.getArrayAttr(launches));
  return result.getDictionary(b.getContext());
}

DictionaryAttr mlir::flashcore::describeProgram(
    MLIRContext *context, ArrayRef<OpPrograms> ops,
    function_ref<StringRef(unsigned, unsigned, unsigned)> getKernel) {
  return ProgramDescriber(context, ops).describe(getKernel);
}
