//===- Description.cpp - The launch that a PTX file describes -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Description.h. The reader keeps the first error and goes on with harmless
// values, so that it reads as straight code.
//
//===----------------------------------------------------------------------===//

#include "Description.h"
#include "flashcore/Emulator/OptionText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace flashcore::emu;
using nlohmann::json;

static constexpr std::string_view prefix = "// flashcore-launch: ";
/// That of the manifest: the words are the same.
static constexpr uint64_t knownVersion = 10;

const DescribedTensor *Description::findTensor(std::string_view name) const {
  auto it = std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto &each) { return each.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

const DescribedKernel *Description::findKernel(std::string_view name) const {
  auto it = std::find_if(kernels.begin(), kernels.end(),
                         [&](const auto &each) { return each.name == name; });
  return it == kernels.end() ? nullptr : &*it;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

namespace {
/// A value of the document with its path; all share the place of the first
/// error.
class Field {
public:
  Field(const json &value, std::string &error, std::string path = {})
      : value(&value), error(&error), path(std::move(path)) {}

  void refuse(const std::string &expected) const {
    if (!error->empty())
      return;
    *error = (path.empty() ? "" : path + ": ") + "expects " + expected +
             ", but got " + describe();
  }

  bool has(const char *key) const {
    return value->is_object() && value->contains(key);
  }
  Field operator[](const char *key) const {
    static const json none;
    if (has(key))
      return {value->at(key), *error, path.empty() ? key : path + "." + key};
    refuse(std::string("an object with '") + key + "'");
    return {none, *error, path};
  }
  std::vector<Field> elements() const {
    std::vector<Field> out;
    if (!value->is_array())
      refuse("an array");
    else
      for (size_t i = 0; i < value->size(); ++i)
        out.emplace_back((*value)[i], *error,
                         path + "[" + std::to_string(i) + "]");
    return out;
  }
  std::vector<std::pair<std::string, Field>> members() const {
    std::vector<std::pair<std::string, Field>> out;
    if (!value->is_object())
      refuse("an object");
    else
      for (const auto &[key, member] : value->items())
        out.push_back({key, {member, *error, path + "." + key}});
    return out;
  }
  std::string string() const {
    if (value->is_string())
      return value->get<std::string>();
    refuse("a string");
    return {};
  }
  uint64_t integer(uint64_t min = 0, uint64_t max = INT64_MAX) const {
    // A number below zero is no unsigned one to the library.
    uint64_t number =
        value->is_number_unsigned() ? value->get<uint64_t>() : UINT64_MAX;
    if (number >= min && number <= max)
      return number;
    refuse("an integer from " + std::to_string(min) + " to " +
           std::to_string(max));
    return min;
  }
  std::optional<uint64_t> integerOrNull(uint64_t min = 0) const {
    if (value->is_null())
      return std::nullopt;
    return integer(min);
  }

private:
  /// Not what is in an array or an object, which may be nested without end.
  std::string describe() const {
    if (value->is_structured())
      return (value->empty() ? "an empty " : "an ") +
             std::string(value->type_name());
    std::string text = value->dump(-1, ' ', /*ensure_ascii=*/true,
                                   json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 60) + "..." : text;
  }

  const json *value;
  std::string *error;
  std::string path;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static bool hasSize(const Description &out, const std::string &name) {
  return out.dims.contains(name) ||
         (name == Description::keySplitsName && !out.keySplits.empty());
}

/// Those of an object that may be for some calls only.
static QueryRange readQueries(const Field &field) {
  QueryRange range;
  if (field.has("queries")) {
    range.least = field["queries"]["least"].integer();
    range.most = field["queries"]["most"].integerOrNull();
  }
  return range;
}

static SizeProduct readProduct(const Field &field, const Description &out) {
  SizeProduct product;
  for (const Field &factor : field.elements()) {
    if (factor.has("count")) {
      product.push_back({{}, factor["count"].integer(1)});
      continue;
    }
    auto readDim = [&](const char *key) {
      std::string dim = factor[key].string();
      if (!hasSize(out, dim))
        factor[key].refuse("a name of 'attention.dims'");
      return dim;
    };
    product.push_back({readDim("dim"), factor["tile"].integer(1),
                       factor.has("plus") ? readDim("plus") : ""});
  }
  return product;
}

static DescribedTensor readTensor(const Field &field, const Description &out) {
  DescribedTensor tensor;
  tensor.name = field["name"].string();
  if (tensor.name.empty() || tensor.name == Description::workspaceName ||
      out.findTensor(tensor.name))
    field["name"].refuse("a name of its own");
  tensor.dtype = field["dtype"].string();
  static constexpr std::string_view dtypes[] = {"f16", "bf16", "f32", "i32",
                                                "i8"};
  if (std::find(std::begin(dtypes), std::end(dtypes), tensor.dtype) ==
      std::end(dtypes))
    field["dtype"].refuse("f16, bf16, f32, i32 or i8");
  std::string role = field["role"].string();
  tensor.isOutput = role == "output";
  if (!tensor.isOutput && role != "input" && role != "updated")
    field["role"].refuse("input, output or updated");
  for (const Field &axis : field["axes"].elements()) {
    tensor.axes.push_back(axis.string());
    if (tensor.axes.back() != "1" && !out.dims.contains(tensor.axes.back()))
      axis.refuse("1 or a name of 'attention.dims'");
  }
  for (const Field &stride : field["strides"].elements())
    tensor.strides.push_back(stride.integerOrNull());
  if (tensor.strides.size() != tensor.axes.size())
    field["strides"].refuse("a stride for each axis");
  tensor.offset = field["offset"].integerOrNull();
  return tensor;
}

static void readBox(const Field &field, const DescribedTensor &tensor,
                    DescribedArgument &argument) {
  if (field.has("ragged"))
    argument.raggedAxis = static_cast<size_t>(field["ragged"].integer(
        0, static_cast<int64_t>(tensor.axes.size()) - 2));
  if (field.has("group"))
    argument.group = static_cast<uint32_t>(field["group"].integer(1, 256));
  std::vector<Field> box = field["box"].elements();
  if (argument.group && (tensor.axes.size() != 4 || box.size() != 5 ||
                         argument.raggedAxis.value_or(2) != 2))
    field["group"].refuse("a tensor of 4 axes, a box of 5 sides, and no "
                          "ragged axis but 2");
  if (!argument.group &&
      box.size() != tensor.axes.size() + (argument.raggedAxis ? 1 : 0))
    field["box"].refuse("a side for each axis of '" + tensor.name + "'" +
                        (argument.raggedAxis ? " and one in front" : ""));
  for (const Field &side : box)
    argument.box.push_back(static_cast<uint32_t>(side.integer(1, 256)));
  argument.swizzle = static_cast<unsigned>(field["swizzle"].integer(0, 128));
  if (argument.swizzle != 0 && argument.swizzle != 32 &&
      argument.swizzle != 64 && argument.swizzle != 128)
    field["swizzle"].refuse("0, 32, 64 or 128");
}

static DescribedArgument readArgument(const Field &field,
                                      const Description &out) {
  using Kind = DescribedArgument::Kind;
  static constexpr std::pair<const char *, Kind> kinds[] = {
      {"pointer", Kind::Pointer},
      {"size", Kind::Size},
      {"stride", Kind::Stride},
      {"offset", Kind::Offset},
      {"tensor_map", Kind::TensorMap}};
  DescribedArgument argument;
  std::string kind = field["kind"].string();
  auto it =
      std::find_if(std::begin(kinds), std::end(kinds),
                   [&](const auto &entry) { return kind == entry.first; });
  if (it == std::end(kinds)) {
    field["kind"].refuse("pointer, size, stride, offset or tensor_map");
    return argument;
  }
  argument.kind = it->second;
  if (argument.kind == Kind::Size) {
    argument.name = field["dim"].string();
    if (!hasSize(out, argument.name))
      field["dim"].refuse("a name of 'attention.dims'");
    return argument;
  }
  argument.name = field["tensor"].string();
  const DescribedTensor *tensor = out.findTensor(argument.name);
  if (field.has("copy_of")) {
    argument.copyOf = field["copy_of"].string();
    argument.copyRow = field["row"].integer(1);
    tensor = out.findTensor(argument.copyOf);
    if (!tensor || argument.name != Description::workspaceName)
      return field["copy_of"].refuse("a name of 'tensors', and the workspace "
                                     "for 'tensor'"),
             argument;
  }
  bool isWorkspace = argument.kind == Kind::Pointer &&
                     argument.name == Description::workspaceName;
  if (!tensor && !isWorkspace)
    field["tensor"].refuse("a name of 'tensors'");
  else if (argument.kind == Kind::Stride)
    argument.axis = static_cast<size_t>(
        field["axis"].integer(0, std::max<size_t>(tensor->axes.size(), 1) - 1));
  else if (argument.kind == Kind::TensorMap)
    readBox(field, *tensor, argument);
  return argument;
}

static DescribedKernel readKernel(const Field &field, const Description &out) {
  DescribedKernel kernel;
  kernel.name = field["name"].string();
  if (kernel.name.empty() || out.findKernel(kernel.name))
    field["name"].refuse("a name of its own");
  std::vector<Field> block = field["block"].elements();
  std::vector<Field> grid = field["grid"].elements();
  if (block.size() != 3)
    return field["block"].refuse("3 dimensions"), kernel;
  if (grid.size() != 3)
    return field["grid"].refuse("3 dimensions"), kernel;
  kernel.block = {static_cast<uint32_t>(block[0].integer(1, UINT32_MAX)),
                  static_cast<uint32_t>(block[1].integer(1, UINT32_MAX)),
                  static_cast<uint32_t>(block[2].integer(1, UINT32_MAX))};
  for (size_t i = 0; i < 3; ++i)
    kernel.grid[i] = readProduct(grid[i], out);
  kernel.queries = readQueries(field);
  kernel.sharedBytes = field["dynamic_shared_memory"].integer();
  if (field.has("max_blocks_per_sm"))
    kernel.maxBlocksPerMultiprocessor = field["max_blocks_per_sm"].integer(1);
  for (const Field &argument : field["arguments"].elements())
    kernel.arguments.push_back(readArgument(argument, out));
  return kernel;
}

static Description readDocument(const Field &root) {
  Description out;
  if (root["version"].integer() != knownVersion)
    root["version"].refuse("version " + std::to_string(knownVersion));
  for (const auto &[name, size] : root["attention"]["dims"].members())
    out.dims[name] = size.integerOrNull();
  for (const Field &tensor : root["tensors"].elements())
    out.tensors.push_back(readTensor(tensor, out));
  if (root.has("key_splits"))
    for (const Field &formula : root["key_splits"].elements())
      out.keySplits.push_back(
          {readQueries(formula), formula["most"].integer(1),
           formula["blocks"].integer(1), formula["rows"].integer(1),
           formula["heads"].integer(1), formula["keys"].integer(1)});
  for (const Field &term : root["workspace"]["bytes"].elements())
    out.workspace.push_back({term["bytes"].integer(),
                             readProduct(term["factors"], out),
                             readQueries(term)});
  for (const Field &kernel : root["kernels"].elements())
    out.kernels.push_back(readKernel(kernel, out));
  if (out.kernels.empty())
    root["kernels"].refuse("a kernel");
  return out;
}

std::string_view flashcore::emu::findDescription(std::string_view ptx,
                                                 SrcLoc &loc) {
  for (uint32_t number = 1; !ptx.empty(); ++number) {
    size_t end = std::min(ptx.find('\n'), ptx.size());
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(std::min(end + 1, ptx.size()));
    if (line.starts_with(prefix)) {
      loc = {number, static_cast<uint32_t>(prefix.size() + 1)};
      return line.substr(prefix.size());
    }
    bool isBlank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!isBlank && !line.starts_with("//"))
      break;
  }
  return {};
}

Expected<std::optional<Description>>
flashcore::emu::readDescription(std::string_view ptx) {
  SrcLoc loc;
  std::string_view text = findDescription(ptx, loc);
  if (!loc.line)
    return std::optional<Description>();
  // Null where it is no JSON.
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return Error{loc, "flashcore-launch: expects one JSON object on this line"};
  std::string error;
  Description description = readDocument(Field(document, error));
  if (!error.empty())
    return Error{loc, "flashcore-launch: " + error};
  return std::optional(std::move(description));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

static std::string listNames(const Description &description) {
  std::string names;
  for (const auto &[name, size] : description.dims)
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string flashcore::emu::openSizes(const Description &description,
                                      const Sizes &given) {
  std::string open;
  for (const auto &[name, size] : description.dims)
    if (!size && !given.contains(name))
      open += " --dim " + name + "=N";
  return open;
}

/// No kernel checks this, and with other sizes each would read past its
/// tensors.
static Error verifyHeads(const Sizes &sizes) {
  auto q = sizes.find("heads_q"), kv = sizes.find("heads_kv");
  if (q == sizes.end() || kv == sizes.end())
    return {};
  bool isMultiple = kv->second ? q->second % kv->second == 0 : q->second == 0;
  if (isMultiple)
    return {};
  return {{},
          "expects heads_q to be a multiple of heads_kv, but got " +
              std::to_string(q->second) + " and " + std::to_string(kv->second)};
}

static uint64_t sizeOr(const Sizes &sizes, const char *name, uint64_t other) {
  auto it = sizes.find(name);
  return it == sizes.end() ? other : it->second;
}

/// Batch entries, or sequences that lie back to back.
static uint64_t countSequences(const Sizes &sizes) {
  uint64_t ends = sizeOr(sizes, "cu_seqlens", 0);
  return ends ? std::max<uint64_t>(ends - 1, 1) : sizeOr(sizes, "batch", 1);
}

static uint64_t divideCeil(uint64_t value, uint64_t by) {
  return value / by + (value % by != 0);
}

uint64_t flashcore::emu::countQueries(const Sizes &sizes) {
  uint64_t rows = sizeOr(sizes, "seqlen_q", 0);
  return sizes.contains("cu_seqlens") ? divideCeil(rows, countSequences(sizes))
                                      : rows;
}

static uint64_t countKeySplits(const Description &description,
                               const Sizes &sizes) {
  uint64_t queries = countQueries(sizes);
  uint64_t keys = sizeOr(sizes, "seqlen_k",
                         sizeOr(sizes, "page_size", 1) *
                             sizeOr(sizes, "pages_per_sequence", 1));
  for (const SplitFormula &formula : description.keySplits) {
    if (!formula.queries.has(queries))
      continue;
    uint64_t tiles = divideCeil(queries, formula.rows);
    if (__builtin_mul_overflow(tiles, countSequences(sizes), &tiles) ||
        __builtin_mul_overflow(
            tiles, sizeOr(sizes, "heads_q", 1) / formula.heads, &tiles))
      return 1;
    uint64_t splits = formula.blocks / std::max<uint64_t>(tiles, 1);
    splits = std::min({splits, keys / formula.keys, formula.most});
    return std::max<uint64_t>(splits, 1);
  }
  return 1;
}

Expected<Sizes>
flashcore::emu::bindSizes(const Description &description,
                          const std::vector<std::string> &given) {
  Sizes sizes;
  for (const std::string &text : given) {
    size_t equal = std::min(text.find('='), text.size());
    std::string name = text.substr(0, equal);
    uint64_t number = 0;
    if (equal == text.size() ||
        !parseNumber(std::string_view(text).substr(equal + 1), number) ||
        number > INT64_MAX)
      return Error{{}, "--dim expects NAME=NUMBER, but got '" + text + "'"};
    auto it = description.dims.find(name);
    if (it == description.dims.end())
      return Error{{},
                   "--dim expects a name of " + listNames(description) +
                       ", but got '" + name + "'"};
    if (it->second.value_or(number) != number)
      return Error{{},
                   "--dim " + text + ": the kernel was compiled for " + name +
                       " = " + std::to_string(*it->second)};
    if (!sizes.insert({name, number}).second)
      return Error{{}, "--dim gives " + name + " twice"};
  }
  for (const auto &[name, size] : description.dims)
    if (size)
      sizes.insert({name, *size});
  std::string missing = openSizes(description, sizes);
  if (!missing.empty())
    return Error{{},
                 "the kernel leaves sizes open: expects" + missing +
                     " with numbers for N"};
  Error error = verifyHeads(sizes);
  if (!error.message.empty())
    return error;
  if (!description.keySplits.empty())
    sizes[Description::keySplitsName] = countKeySplits(description, sizes);
  return sizes;
}

static Error tooLarge(const std::string &what) {
  return {{}, what + " does not fit 64 bits at these sizes"};
}

Expected<uint64_t> flashcore::emu::evaluate(const SizeProduct &product,
                                            const Sizes &sizes) {
  uint64_t result = 1;
  for (const SizeFactor &factor : product) {
    uint64_t value = factor.number;
    if (!factor.dim.empty()) {
      uint64_t size = sizes.find(factor.dim)->second;
      value = size / factor.number + (size % factor.number != 0);
    }
    uint64_t plus = factor.plus.empty() ? 0 : sizes.find(factor.plus)->second;
    if (__builtin_add_overflow(value, plus, &value) ||
        __builtin_mul_overflow(result, value, &result))
      return tooLarge("a grid or a workspace");
  }
  return result;
}

Expected<uint64_t>
flashcore::emu::workspaceBytes(const Description &description,
                               const Sizes &sizes) {
  uint64_t total = 0;
  for (const WorkspaceTerm &term : description.workspace) {
    if (!term.queries.has(countQueries(sizes)))
      continue;
    Expected<uint64_t> elements = evaluate(term.factors, sizes);
    if (!elements)
      return elements;
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(*elements, term.bytes, &bytes) ||
        __builtin_add_overflow(total, bytes, &total))
      return tooLarge("the workspace");
  }
  return total;
}

Expected<BoundTensor> flashcore::emu::bindTensor(const DescribedTensor &tensor,
                                                 const Sizes &sizes,
                                                 const std::string &fill) {
  BoundTensor out;
  std::vector<uint64_t> extents;
  for (const std::string &axis : tensor.axes)
    extents.push_back(axis == "1" ? 1 : sizes.find(axis)->second);
  out.offset = tensor.offset.value_or(0);
  out.strides.resize(extents.size());
  uint64_t dense = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    out.strides[i] = tensor.strides[i].value_or(dense);
    if (__builtin_mul_overflow(dense, std::max<uint64_t>(extents[i], 1),
                               &dense))
      return tooLarge("tensor '" + tensor.name + "'");
  }
  std::string shape, strides;
  for (size_t i = 0; i < extents.size(); ++i) {
    shape += (i ? "," : "") + std::to_string(extents[i]);
    strides += (i ? "," : "") + std::to_string(out.strides[i]);
  }
  out.text = tensor.dtype + "[" + shape + ":" + strides + "+" +
             std::to_string(out.offset) + "]:" + fill;
  return out;
}
