//===- ProgramReader.cpp - Reading how kernels are launched ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Key by key in the order of docs/Bundle.md. Names are plain, so that they can
// stand in any message and in expressions.
//
//===----------------------------------------------------------------------===//

#include "ProgramReader.h"

#include <algorithm>
#include <cctype>

using namespace flashcore;
using Field = JsonReader::Field;

/// Far more than any bundle has.
static constexpr int64_t maxSharedBytes = 1 << 24, maxRegisters = 1 << 16,
                         maxSpillBytes = 1 << 30, maxCopyRow = 1 << 16;

/// What expressions read in another way, and the names of what has no size.
static constexpr std::string_view reservedNames[] = {
    "and", "floordiv", "ceildiv", "min", "max", MultiprocessorsName};

static bool isReserved(std::string_view name) {
  return std::find(std::begin(reservedNames), std::end(reservedNames), name) !=
         std::end(reservedNames);
}

bool flashcore::isOfLetters(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) ||
           others.find(static_cast<char>(c)) != others.npos;
  });
}

std::string flashcore::readText(const Field &field) {
  std::string text = field.string();
  if (std::any_of(text.begin(), text.end(),
                  [](unsigned char c) { return c < 0x20 || c >= 0x7f; }))
    field.refuse("printable ASCII text");
  return text;
}

std::string flashcore::readName(const Field &field) {
  std::string name = field.string();
  if (name.empty() || !isOfLetters(name, "_$%"))
    field.refuse("a name of letters, digits, '_', '$' and '%'");
  return name;
}

Chip flashcore::readChip(const Field &field) {
  StatusOr<Chip> chip = parseChip(field.string());
  if (chip.ok())
    return *chip;
  field.refuse("a chip name such as 'sm_89' or 'sm_90a'");
  return {};
}

void flashcore::expectOnly(const Field &field,
                           std::initializer_list<std::string_view> known) {
  for (const std::string &key : field.keys())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return field.refuseKey(key);
}

TensorSpec::Role flashcore::readRole(const Field &field) {
  return readChoice<TensorSpec::Role>(field,
                                      {{"input", TensorSpec::Role::Input},
                                       {"output", TensorSpec::Role::Output},
                                       {"updated", TensorSpec::Role::Updated}});
}

static DType readDType(const Field &field) {
  std::vector<std::pair<std::string_view, DType>> choices;
  for (const DTypeInfo &info : DTypes)
    choices.emplace_back(info.name, info.dtype);
  return readChoice<DType>(field, choices);
}

/// The keys of a map as "a, b".
template <typename Map> static std::string listKeys(const Map &map) {
  std::string text;
  for (const auto &[name, value] : map)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

//===----------------------------------------------------------------------===//
// Sizes and expressions
//===----------------------------------------------------------------------===//

void ProgramReader::readSizes(const Field &field) {
  for (const std::string &name : field.keys()) {
    if (name.empty() || !isOfLetters(name, "_$%"))
      return field.refuse("an object whose keys are names of letters, digits, "
                          "'_', '$' and '%'");
    if (name == BroadcastAxis)
      return field.refuse(
          "an object without the key '1', which names broadcast axes");
    if (isReserved(name))
      return field.refuse("an object without the key '" + name +
                          "', which is a word of expressions");
    program.sizes[name] = field[name].integerOrNull();
  }
}

bool ProgramReader::isNumber(std::string_view name) const {
  return program.sizes.contains(name) ||
         std::any_of(
             program.values.begin(), program.values.end(),
             [&](const ValueSpec &value) { return value.name == name; });
}

std::string ProgramReader::listNumbers() const {
  std::string names = listKeys(program.sizes);
  for (const ValueSpec &value : program.values)
    names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

std::string ProgramReader::readSizeName(const Field &field) {
  std::string name = field.string();
  if (!isNumber(name))
    field.refuse("the name of a size in 'sizes' or 'values' (" + listNumbers() +
                 ")");
  return name;
}

std::string ProgramReader::readAxis(const Field &field) {
  return field.isString() && field.string() == BroadcastAxis
             ? std::string(BroadcastAxis)
             : readSizeName(field);
}

Expression ProgramReader::readExpression(const Field &field, bool ofGrid) {
  std::string text = field.string();
  if (!reader.ok())
    return {};
  StatusOr<Expression> expression = Expression::parse(text);
  if (!expression.ok()) {
    field.refuse("an expression of sizes", expression.status().message());
    return {};
  }
  for (const std::string &name : expression->names())
    if (!isNumber(name) && !(ofGrid && name == MultiprocessorsName))
      field.refuse("an expression of sizes and values (" + listNumbers() + ")",
                   "there is no '" + name + "'");
  return std::move(*expression);
}

/// Of an object that may be for some calls only.
std::optional<Expression> ProgramReader::readCondition(const Field &field) {
  if (!field.has("when"))
    return std::nullopt;
  return readExpression(field["when"]);
}

void ProgramReader::readValue(const Field &field) {
  expectOnly(field, {"name", "is"});
  std::string name = readName(field["name"]);
  if (isReserved(name) || isNumber(name) || name == BroadcastAxis)
    field["name"].refuse("a name that no size and no other value has");
  Expression is = readExpression(field["is"]);
  program.values.push_back({name, std::move(is)});
}

//===----------------------------------------------------------------------===//
// Tensors and arguments
//===----------------------------------------------------------------------===//

std::string ProgramReader::readTensorName(const Field &field,
                                          bool allowWorkspace) {
  std::string name = field.string();
  if (program.findAnyTensor(name) || (allowWorkspace && name == WorkspaceName))
    return name;
  std::string known;
  auto add = [&](const TensorSpec &tensor) {
    known += (known.empty() ? "" : ", ") + tensor.name;
  };
  std::for_each(program.tensors.begin(), program.tensors.end(), add);
  std::for_each(program.intermediates.begin(), program.intermediates.end(),
                add);
  std::for_each(program.views.begin(), program.views.end(), add);
  field.refuse("the name of a tensor in 'tensors' (" + known + ")");
  return name;
}

TensorSpec ProgramReader::readTensor(const Field &field) {
  expectOnly(field, {"name", "role", "dtype", "axes", "strides", "offset",
                     "alignment"});
  TensorSpec tensor = readShape(field);
  tensor.role = readRole(field["role"]);
  return tensor;
}

/// What of a tensor is said wherever it lies.
TensorSpec ProgramReader::readShape(const Field &field) {
  TensorSpec tensor;
  tensor.name = readName(field["name"]);
  if (program.findAnyTensor(tensor.name) || tensor.name == WorkspaceName)
    field["name"].refuse("a name that no other tensor has");
  tensor.dtype = readDType(field["dtype"]);
  for (const Field &axis : field["axes"].elements())
    tensor.axes.push_back(readAxis(axis));
  for (const Field &stride : field["strides"].elements())
    tensor.strides.push_back(stride.integerOrNull());
  if (tensor.strides.size() != tensor.axes.size())
    field["strides"].refuse("an array of " +
                            std::to_string(tensor.axes.size()) +
                            " elements, one an axis");
  tensor.offset = field["offset"].integerOrNull();
  tensor.alignment = field["alignment"].integer(1, 256);
  if (tensor.alignment % byteSize(tensor.dtype) ||
      (tensor.alignment & (tensor.alignment - 1)))
    field["alignment"].refuse("a power of two that is a multiple of the size "
                              "of " +
                              std::string(stringify(tensor.dtype)));
  return tensor;
}

ViewSpec ProgramReader::readView(const Field &field) {
  expectOnly(field, {"name", "dtype", "axes", "strides", "offset", "alignment",
                     "of", "begin", "base_axes"});
  ViewSpec view;
  static_cast<TensorSpec &>(view) = readShape(field);
  view.base = readTensorName(field["of"], /*allowWorkspace=*/false);
  for (const Field &begin : field["begin"].elements())
    view.begin.push_back(begin.integer());
  const TensorSpec *base = program.findAnyTensor(view.base);
  if (!reader.ok() || !base)
    return view;
  if (view.begin.size() != base->axes.size())
    field["begin"].refuse("an array of " + std::to_string(base->axes.size()) +
                          " elements, the axes of '" + base->name + "'");
  if (view.dtype != base->dtype)
    field["dtype"].refuse("'" + std::string(stringify(base->dtype)) +
                          "', that of '" + base->name + "'");
  auto rank = static_cast<int64_t>(base->axes.size());
  for (const Field &axis : field["base_axes"].elements()) {
    int64_t least = view.baseAxes.empty()
                        ? 0
                        : static_cast<int64_t>(view.baseAxes.back()) + 1;
    view.baseAxes.push_back(static_cast<size_t>(axis.integer(least, rank - 1)));
  }
  if (reader.ok() && view.baseAxes.size() != view.axes.size())
    field["base_axes"].refuse("an array of " +
                              std::to_string(view.axes.size()) +
                              " elements, one an axis");
  return view;
}

ArgumentSpec ProgramReader::readArgument(const Field &field) {
  using Kind = ArgumentSpec::Kind;
  expectOnly(field, {"kind", "dim", "tensor", "axis", "box", "swizzle",
                     "ragged", "group", "copy_of", "row"});
  ArgumentSpec argument;
  argument.kind =
      readChoice<Kind>(field["kind"], {{"pointer", Kind::Pointer},
                                       {"size", Kind::Size},
                                       {"stride", Kind::Stride},
                                       {"offset", Kind::Offset},
                                       {"tensor_map", Kind::TensorMap}});
  if (argument.kind == Kind::Size) {
    argument.dim = readSizeName(field["dim"]);
    return argument;
  }
  bool isCopy = field.has("copy_of");
  argument.tensor =
      readTensorName(field["tensor"], isCopy || argument.kind == Kind::Pointer);
  if (isCopy)
    readCopy(argument, field);
  if (argument.kind == Kind::Stride) {
    const TensorSpec *tensor = program.findAnyTensor(argument.tensor);
    int64_t rank = tensor ? static_cast<int64_t>(tensor->axes.size()) : 1;
    argument.axis = field["axis"].integer(0, rank - 1);
  }
  if (argument.kind == Kind::TensorMap && reader.ok())
    readTensorMap(argument, field);
  return argument;
}

/// What is said of a copy that begins the workspace.
void ProgramReader::readCopy(ArgumentSpec &argument, const Field &field) {
  using Kind = ArgumentSpec::Kind;
  if (argument.kind != Kind::Pointer && argument.kind != Kind::TensorMap)
    return field["kind"].refuse("'pointer' or 'tensor_map' beside 'copy_of'");
  if (argument.tensor != WorkspaceName)
    return field["tensor"].refuse("'" + std::string(WorkspaceName) +
                                  "' beside 'copy_of'");
  argument.copyOf = readTensorName(field["copy_of"], /*allowWorkspace=*/false);
  const TensorSpec *tensor = program.findAnyTensor(argument.copyOf);
  if (!reader.ok() || !tensor)
    return;
  if (tensor->axes.size() < 2)
    return field["copy_of"].refuse("a tensor of rows");
  auto columns = program.sizes.find(tensor->axes.back());
  int64_t least =
      columns != program.sizes.end() ? columns->second.value_or(1) : 1;
  argument.copyRow = field["row"].integer(least, maxCopyRow);
}

/// What is said of a map whose axes are those of groups of panels; false for
/// what no such map has.
bool ProgramReader::readGroup(ArgumentSpec &argument, const Field &field,
                              const TensorSpec &tensor) {
  constexpr size_t axes = 4, rowAxis = 2;
  argument.group = field["group"].integer(1, 256);
  if (reader.ok() && tensor.axes.size() != axes)
    field["group"].refuse("no group of a tensor of " +
                          std::to_string(tensor.axes.size()) + " axes");
  if (reader.ok() && argument.raggedAxis.value_or(rowAxis) != rowAxis)
    field["ragged"].refuse(std::to_string(rowAxis) + " beside 'group'");
  return reader.ok();
}

/// What cuTensorMapEncodeTiled demands, as far as the manifest fixes it.
void ProgramReader::readTensorMap(ArgumentSpec &argument, const Field &field) {
  bool isCopy = !argument.copyOf.empty();
  if (!isCopy && argument.tensor == WorkspaceName)
    return field["tensor"].refuse("the name of a tensor");
  const TensorSpec &tensor =
      *program.findAnyTensor(isCopy ? argument.copyOf : argument.tensor);
  if (isCopy && argument.copyRow * byteSize(tensor.dtype) % TensorMapStrideUnit)
    return field["row"].refuse("rows of a multiple of " +
                               std::to_string(TensorMapStrideUnit) + " bytes");
  if (tensor.axes.empty() || tensor.axes.size() > MaxTensorMapRank)
    return field["tensor"].refuse("a tensor of 1 to " +
                                  std::to_string(MaxTensorMapRank) + " axes");
  if (!isCopy && tensor.strides.back() != 1)
    return field["tensor"].refuse("a tensor whose last stride is 1");
  if (!isCopy && tensor.alignment % TensorMapStrideUnit)
    return field["tensor"].refuse("a tensor whose alignment is a multiple of " +
                                  std::to_string(TensorMapStrideUnit));
  if (field.has("ragged"))
    argument.raggedAxis = static_cast<size_t>(field["ragged"].integer(
        0, static_cast<int64_t>(tensor.axes.size()) - 2));
  size_t rank = tensor.axes.size() + (argument.raggedAxis ? 1 : 0);
  if (field.has("group")) {
    if (!readGroup(argument, field, tensor))
      return;
    rank = MaxTensorMapRank;
  }
  if (reader.ok() && rank > MaxTensorMapRank)
    return field["ragged"].refuse("no ragged axis of a tensor of " +
                                  std::to_string(MaxTensorMapRank) + " axes");
  std::vector<Field> box = field["box"].elements();
  if (reader.ok() && box.size() != rank)
    field["box"].refuse(
        "an array of " + std::to_string(rank) + " elements, one an axis of " +
        (argument.group ? "groups of '" : "'") + tensor.name + "'" +
        (argument.raggedAxis && !argument.group ? " and one in front" : ""));
  for (const Field &side : box)
    argument.box.push_back(static_cast<uint32_t>(side.integer(1, 256)));
  int64_t swizzle = field["swizzle"].integer(0, 128);
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    field["swizzle"].refuse("0, 32, 64 or 128");
  if (!reader.ok())
    return;
  argument.swizzle = static_cast<unsigned>(swizzle);
  int64_t bytes = argument.box.back() * byteSize(tensor.dtype);
  if (bytes % TensorMapStrideUnit || (swizzle && bytes > swizzle))
    box.back().refuse(
        "elements of a multiple of " + std::to_string(TensorMapStrideUnit) +
        " bytes" +
        (swizzle
             ? " and at most the " + std::to_string(swizzle) + " of the swizzle"
             : "") +
        ", " + std::to_string(byteSize(tensor.dtype)) + " bytes each");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static KernelResources readResources(const Field &field) {
  expectOnly(field, {"chip", "registers", "spill_stores", "spill_loads",
                     "static_shared_memory"});
  return {readChip(field["chip"]), field["registers"].integer(0, maxRegisters),
          field["spill_stores"].integer(0, maxSpillBytes),
          field["spill_loads"].integer(0, maxSpillBytes),
          field["static_shared_memory"].integer(0, maxSharedBytes)};
}

KernelSpec ProgramReader::readKernel(const Field &field) {
  expectOnly(field, {"name", "when", "block", "grid", "dynamic_shared_memory",
                     "arguments", "resources"});
  KernelSpec kernel;
  kernel.name = readName(field["name"]);
  kernel.when = readCondition(field);
  std::vector<Field> block = field["block"].elements();
  std::vector<Field> grid = field["grid"].elements();
  if (block.size() != 3)
    field["block"].refuse("an array of 3 elements");
  if (grid.size() != 3)
    field["grid"].refuse("an array of 3 elements");
  for (size_t i = 0; reader.ok() && i < 3; ++i) {
    kernel.block[i] = block[i].integer(1, 1024);
    kernel.grid[i] = readExpression(grid[i], /*ofGrid=*/true);
  }
  kernel.dynamicSharedMemory =
      field["dynamic_shared_memory"].integer(0, maxSharedBytes);
  for (const Field &argument : field["arguments"].elements())
    kernel.arguments.push_back(readArgument(argument));
  // A program may launch a kernel again, on other tensors.
  if (const KernelSpec *other = program.findKernel(kernel.name))
    if (other->block != kernel.block ||
        other->dynamicSharedMemory != kernel.dynamicSharedMemory ||
        other->arguments.size() != kernel.arguments.size())
      field["name"].refuse("a name that no kernel has of another block, shared "
                           "memory or number of arguments");
  if (field.has("resources") && !field["resources"].isNull())
    kernel.resources = readResources(field["resources"]);
  return kernel;
}

void ProgramReader::readTensors(const Field &field) {
  for (const Field &tensor : field.elements())
    program.tensors.push_back(readTensor(tensor));
}

void ProgramReader::readDerived(const Field &root) {
  if (root.has("intermediates"))
    for (const Field &tensor : root["intermediates"].elements()) {
      expectOnly(tensor,
                 {"name", "dtype", "axes", "strides", "offset", "alignment"});
      program.intermediates.push_back(readShape(tensor));
      if (program.intermediates.back().offset != 0)
        tensor["offset"].refuse("0");
    }
  if (root.has("views"))
    for (const Field &view : root["views"].elements())
      program.views.push_back(readView(view));
}

void ProgramReader::readLaunch(const Field &field) {
  for (const Field &value : field["values"].elements())
    readValue(value);
  for (const Field &term : field["workspace"].elements()) {
    expectOnly(term, {"bytes", "when"});
    Expression bytes = readExpression(term["bytes"]);
    program.workspace.push_back({std::move(bytes), readCondition(term)});
  }
  for (const Field &kernel : field["kernels"].elements())
    program.kernels.push_back(readKernel(kernel));
  if (program.kernels.empty())
    field["kernels"].refuse("an array of at least one kernel");
}

HostProgram flashcore::readLaunchComment(JsonReader &reader, const Field &root,
                                         std::string &op) {
  HostProgram program;
  if (root["version"].integer() != ManifestVersion)
    root["version"].refuse(std::to_string(ManifestVersion));
  expectOnly(root, {"version", "ops", "sizes", "tensors", "values", "workspace",
                    "kernels"});
  std::vector<Field> ops = root["ops"].elements();
  if (reader.ok() && ops.size() != 1)
    root["ops"].refuse("an array of 1 element",
                       "a program of several ops runs as a bundle");
  if (!reader.ok())
    return program;
  op = readName(ops.front()["op"]);
  ProgramReader launch(reader, program);
  launch.readSizes(root["sizes"]);
  launch.readTensors(root["tensors"]);
  launch.readLaunch(root);
  return program;
}
