//===- BundleLoader.cpp - Reading a bundle directory ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bundle::load: the manifest is read key by key in the order of docs/Bundle.md,
// then the code files are compared with the sizes and checksums it states, and
// the PTX with the arguments. Names are plain, so that they can stand in any
// message, and files are read through the folder that was opened first.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Bundle.h"

#include "BundleOperands.h"
#include "KernelParameters.h"
#include "OpenFile.h"

#include "flashcore/Runtime/Dropout.h"
#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/JsonReader.h"
#include "flashcore/Runtime/Operands.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>

using namespace flashcore;
using nlohmann::json;
using Field = JsonReader::Field;

/// The sizes that every attention has; a manifest lists them all.
static constexpr std::string_view dimNames[] = {
    "batch", "heads_q", "heads_kv", "seqlen_q", "head_dim", "head_dim_v"};

/// That of keys which are rows, and those of keys in pages.
static constexpr std::string_view seqlenKName = "seqlen_k";
static constexpr std::string_view pageDimNames[] = {PagesDim, PageSizeDim,
                                                    PagesPerSequenceDim};

static constexpr const char *manifestName = "manifest.json";
static constexpr std::string_view notABundle =
    "expects a bundle directory, as 'flashcore-compile --emit=bundle' writes "
    "it";

/// Raised whenever a bundle of before would be misread.
static constexpr int64_t manifestVersion = 10;

/// Far more than any bundle has.
static constexpr int64_t maxManifestBytes = 1 << 26, maxCodeBytes = 1 << 30,
                         maxSharedBytes = 1 << 24, maxRegisters = 1 << 16,
                         maxSpillBytes = 1 << 30, maxKeySplits = 1 << 16,
                         maxCopyRow = 1 << 16, maxBlockSize = 1 << 16;

/// A text that is one of a few, mapped to its value.
template <typename T>
static T
readChoice(Field field,
           const std::vector<std::pair<std::string_view, T>> &choices) {
  std::string text = field.string(), expected;
  for (const auto &[name, value] : choices) {
    if (text == name)
      return value;
    expected += (expected.empty() ? "'" : " or '") + std::string(name) + "'";
  }
  field.refuse(expected);
  return choices.front().second;
}

static DType readDType(Field field) {
  std::vector<std::pair<std::string_view, DType>> choices;
  for (const DTypeInfo &info : DTypes)
    choices.emplace_back(info.name, info.dtype);
  return readChoice<DType>(field, choices);
}

static std::string join(const std::vector<std::string> &names) {
  std::string result;
  for (const std::string &name : names)
    result += (result.empty() ? "" : ", ") + name;
  return result;
}

static bool isOneOf(std::string_view text, const char *others) {
  return std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || std::strchr(others, c);
  });
}

/// Text that tools print as it is.
static std::string readText(Field field) {
  std::string text = field.string();
  if (std::any_of(text.begin(), text.end(),
                  [](unsigned char c) { return c < 0x20 || c >= 0x7f; }))
    field.refuse("printable ASCII text");
  return text;
}

/// The name of a kernel, tensor or size.
static std::string readName(Field field) {
  std::string name = field.string();
  if (name.empty() || !isOneOf(name, "_$%"))
    field.refuse("a name of letters, digits, '_', '$' and '%'");
  return name;
}

/// The name of a file of the bundle.
static std::string readFileName(Field field) {
  std::string name = field.string();
  if (name.empty() || name.front() == '.' || !isOneOf(name, "_-."))
    field.refuse("the name of a file in the bundle, of letters, digits, '_', "
                 "'-' and '.'");
  return name;
}

static Chip readChip(Field field) {
  StatusOr<Chip> chip = parseChip(field.string());
  if (chip.ok())
    return *chip;
  field.refuse("a chip name such as 'sm_89' or 'sm_90a'");
  return {};
}

namespace {
/// Makes a Bundle of each variant. Split from JsonReader, which knows JSON but
/// no schema.
class BundleLoader {
public:
  BundleLoader(const std::filesystem::path &directory, const OpenFile &folder)
      : folder(folder),
        reader((directory / manifestName).string(),
               "the file is damaged or was written by another version: compile "
               "the bundle again with this version's flashcore-compile") {
    bundle.directory = directory;
  }

  StatusOr<std::vector<Bundle>> load();

private:
  void readManifest(Field root);
  void readAttention(Field field);
  void readDims(Field field);
  TensorSpec readTensor(Field field);
  std::string readDimName(Field field);
  std::string readAxis(Field field);
  std::string readTensorName(Field field, bool allowWorkspace);
  Product readProduct(Field field);
  QueryRange readQueries(Field field);
  SplitFormula readKeySplits(Field field);
  ArgumentSpec readArgument(Field field);
  void readCopy(ArgumentSpec &argument, Field field);
  bool readGroup(ArgumentSpec &argument, Field field, const TensorSpec &tensor);
  void readTensorMap(ArgumentSpec &argument, Field field);
  KernelSpec readKernel(Field field);
  CodeImage readImage(Field field, std::optional<Chip> chip);
  void readVariant(Field field);
  void checkCaptured(Field attention, Field tensors);
  void checkArguments(const KernelSpec &kernel, Field field);
  void checkLaunchComment(const std::vector<Field> &kernels);

  const OpenFile &folder;
  /// What all variants share, and those of its fields that the variant has that
  /// is read now.
  Bundle bundle;
  std::vector<Bundle> variants;
  JsonReader reader;
};
} // namespace

std::string BundleLoader::readDimName(Field field) {
  std::string name = field.string();
  if (bundle.attention.dims.contains(name) ||
      (name == KeySplitsDim && !bundle.keySplits.empty()))
    return name;
  std::vector<std::string> known;
  for (const auto &[dim, size] : bundle.attention.dims)
    known.push_back(dim);
  field.refuse("the name of a size in 'attention.dims' (" + join(known) + ")");
  return name;
}

std::string BundleLoader::readAxis(Field field) {
  return field.isString() && field.string() == BroadcastAxis
             ? std::string(BroadcastAxis)
             : readDimName(field);
}

std::string BundleLoader::readTensorName(Field field, bool allowWorkspace) {
  std::string name = field.string();
  if (bundle.findTensor(name) || (allowWorkspace && name == WorkspaceName))
    return name;
  std::vector<std::string> known;
  for (const TensorSpec &tensor : bundle.tensors)
    known.push_back(tensor.name);
  field.refuse("the name of a tensor in 'tensors' (" + join(known) + ")");
  return name;
}

Product BundleLoader::readProduct(Field field) {
  Product product;
  for (Field factor : field.elements())
    if (factor.has("count"))
      product.push_back({"", 1, factor["count"].integer(1)});
    else
      product.push_back(
          {readDimName(factor["dim"]), factor["tile"].integer(1), std::nullopt,
           factor.has("plus") ? readDimName(factor["plus"]) : ""});
  return product;
}

/// Those of an object that may be for some calls only.
QueryRange BundleLoader::readQueries(Field field) {
  QueryRange range;
  if (!field.has("queries"))
    return range;
  range.least = field["queries"]["least"].integer();
  range.most = field["queries"]["most"].integerOrNull();
  if (range.most && *range.most < range.least)
    field["queries"]["most"].refuse("at least " + std::to_string(range.least) +
                                    ", or null");
  return range;
}

SplitFormula BundleLoader::readKeySplits(Field field) {
  return {readQueries(field),         field["most"].integer(1, maxKeySplits),
          field["blocks"].integer(1), field["rows"].integer(1),
          field["heads"].integer(1),  field["keys"].integer(1)};
}

void BundleLoader::readAttention(Field field) {
  AttentionSpec &attention = bundle.attention;
  auto isPositive = [](double number) {
    return std::isfinite(number) && number > 0;
  };
  attention.softmaxScale = field["softmax_scale"].number();
  if (!isPositive(attention.softmaxScale))
    field["softmax_scale"].refuse("a positive number");
  attention.mask.causal = readChoice<Causal>(
      field["causal"], {{"none", Causal::None},
                        {"bottom_right", Causal::BottomRight},
                        {"top_left", Causal::TopLeft}});
  attention.mask.windowLeft = field["window_left"].integerOrNull();
  attention.mask.windowRight = field["window_right"].integerOrNull();
  attention.softcap = field["softcap"].numberOrNull();
  if (attention.softcap && !isPositive(*attention.softcap))
    field["softcap"].refuse("a positive number or null");
  if (field.has("dropout")) {
    attention.dropout = field["dropout"].number();
    if (!isDropoutShare(*attention.dropout))
      field["dropout"].refuse("a number from 2^-17 to below 1 - 2^-17");
  }
  if (field.has("block_size")) {
    std::vector<Field> size = field["block_size"].elements();
    if (reader.ok() && size.size() != 2)
      field["block_size"].refuse("an array of 2 elements, queries and keys");
    if (reader.ok())
      attention.blockSize = {size[0].integer(1, maxBlockSize),
                             size[1].integer(1, maxBlockSize)};
  }
  using Type = ScoreProgram::Type;
  for (auto [key, type, program] :
       {std::tuple("score", Type::F32, &attention.score),
        {"mask", Type::I1, &attention.maskRegion}})
    if (field.has(key))
      *program =
          ScoreProgram::read(reader, field[key], type, attention.captured);
  if (field.has("scores_stage"))
    attention.scoresStage = readChoice<ScoresStage>(
        field["scores_stage"], {{"scaled", ScoresStage::Scaled},
                                {"capped", ScoresStage::Capped},
                                {"changed", ScoresStage::Changed},
                                {"masked", ScoresStage::Masked},
                                {"probabilities", ScoresStage::Probabilities}});
  if (field.has("rotary"))
    attention.rotary = readChoice<RotaryStyle>(
        field["rotary"], {{"interleaved", RotaryStyle::Interleaved},
                          {"half", RotaryStyle::Half}});
  readDims(field["dims"]);
}

void BundleLoader::readDims(Field dims) {
  for (const std::string &name : dims.keys())
    if (name != BroadcastAxis && !isOneOf(name, "_$%"))
      return dims.refuse("an object whose keys are names of letters, digits, "
                         "'_', '$' and '%'");
  for (const std::string &name : dims.keys())
    bundle.attention.dims[name] = dims[name].integerOrNull();
  if (dims.has(BroadcastAxis))
    dims.refuse("an object without the key '1', which names broadcast axes");
  if (dims.has(std::string(KeySplitsDim).c_str()))
    dims.refuse("an object without the key 'key_splits', which other sizes "
                "decide");
  for (std::string_view name : dimNames)
    dims[name];
  bool isPaged =
      std::any_of(std::begin(pageDimNames), std::end(pageDimNames),
                  [&](std::string_view name) { return dims.has(name); });
  if (!isPaged) {
    dims[seqlenKName];
    return;
  }
  for (std::string_view name : pageDimNames)
    dims[name];
  if (dims.has(seqlenKName))
    dims.refuse("an object without the key '" + std::string(seqlenKName) +
                "' where there is '" + std::string(PageSizeDim) + "'");
  // Kernels are made for one.
  int64_t pageSize = dims[PageSizeDim].integer(1);
  if (pageSize & (pageSize - 1))
    dims[PageSizeDim].refuse("a power of two");
  if (!dims[PagesPerSequenceDim].isNull())
    dims[PagesPerSequenceDim].integer(1);
}

TensorSpec BundleLoader::readTensor(Field field) {
  TensorSpec tensor;
  tensor.name = readName(field["name"]);
  if (bundle.findTensor(tensor.name) || tensor.name == WorkspaceName)
    field["name"].refuse("a name that no other tensor has");
  tensor.role = readChoice<TensorSpec::Role>(
      field["role"], {{"input", TensorSpec::Role::Input},
                      {"output", TensorSpec::Role::Output},
                      {"updated", TensorSpec::Role::Updated}});
  tensor.dtype = readDType(field["dtype"]);
  for (Field axis : field["axes"].elements())
    tensor.axes.push_back(readAxis(axis));
  for (Field stride : field["strides"].elements())
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

ArgumentSpec BundleLoader::readArgument(Field field) {
  using Kind = ArgumentSpec::Kind;
  ArgumentSpec argument;
  argument.kind =
      readChoice<Kind>(field["kind"], {{"pointer", Kind::Pointer},
                                       {"size", Kind::Size},
                                       {"stride", Kind::Stride},
                                       {"offset", Kind::Offset},
                                       {"tensor_map", Kind::TensorMap}});
  if (argument.kind == Kind::Size) {
    argument.dim = readDimName(field["dim"]);
    return argument;
  }
  bool isCopy = field.has("copy_of");
  argument.tensor =
      readTensorName(field["tensor"], isCopy || argument.kind == Kind::Pointer);
  if (isCopy)
    readCopy(argument, field);
  if (argument.kind == Kind::Stride) {
    const TensorSpec *tensor = bundle.findTensor(argument.tensor);
    int64_t rank = tensor ? static_cast<int64_t>(tensor->axes.size()) : 1;
    argument.axis = field["axis"].integer(0, rank - 1);
  }
  if (argument.kind == Kind::TensorMap && reader.ok())
    readTensorMap(argument, field);
  return argument;
}

/// What is said of a copy that begins the workspace.
void BundleLoader::readCopy(ArgumentSpec &argument, Field field) {
  using Kind = ArgumentSpec::Kind;
  if (argument.kind != Kind::Pointer && argument.kind != Kind::TensorMap)
    return field["kind"].refuse("'pointer' or 'tensor_map' beside 'copy_of'");
  if (argument.tensor != WorkspaceName)
    return field["tensor"].refuse("'" + std::string(WorkspaceName) +
                                  "' beside 'copy_of'");
  argument.copyOf = readTensorName(field["copy_of"], /*allowWorkspace=*/false);
  const TensorSpec *tensor = bundle.findTensor(argument.copyOf);
  if (!reader.ok() || !tensor)
    return;
  if (tensor->axes.size() < 2)
    return field["copy_of"].refuse("a tensor of rows");
  const auto &dims = bundle.attention.dims;
  auto columns = dims.find(tensor->axes.back());
  int64_t least = columns != dims.end() ? columns->second.value_or(1) : 1;
  argument.copyRow = field["row"].integer(least, maxCopyRow);
}

/// What is said of a map whose axes are those of groups of panels; false for
/// what no such map has.
bool BundleLoader::readGroup(ArgumentSpec &argument, Field field,
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
void BundleLoader::readTensorMap(ArgumentSpec &argument, Field field) {
  bool isCopy = !argument.copyOf.empty();
  if (!isCopy && argument.tensor == WorkspaceName)
    return field["tensor"].refuse("the name of a tensor");
  const TensorSpec &tensor =
      *bundle.findTensor(isCopy ? argument.copyOf : argument.tensor);
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
  for (Field side : box)
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

KernelSpec BundleLoader::readKernel(Field field) {
  KernelSpec kernel;
  kernel.name = readName(field["name"]);
  kernel.queries = readQueries(field);
  std::vector<Field> block = field["block"].elements();
  std::vector<Field> grid = field["grid"].elements();
  if (block.size() != 3)
    field["block"].refuse("an array of 3 elements");
  if (grid.size() != 3)
    field["grid"].refuse("an array of 3 elements");
  for (size_t i = 0; reader.ok() && i < 3; ++i) {
    kernel.block[i] = block[i].integer(1, 1024);
    kernel.grid[i] = readProduct(grid[i]);
  }
  if (field.has("max_blocks_per_sm"))
    kernel.maxBlocksPerSM = field["max_blocks_per_sm"].integer(1, 32);
  kernel.dynamicSharedMemory =
      field["dynamic_shared_memory"].integer(0, maxSharedBytes);
  for (Field argument : field["arguments"].elements())
    kernel.arguments.push_back(readArgument(argument));

  Field resources = field["resources"];
  if (!resources.isNull())
    kernel.resources = KernelResources{
        readChip(resources["chip"]),
        resources["registers"].integer(0, maxRegisters),
        resources["spill_stores"].integer(0, maxSpillBytes),
        resources["spill_loads"].integer(0, maxSpillBytes),
        resources["static_shared_memory"].integer(0, maxSharedBytes)};
  return kernel;
}

CodeImage BundleLoader::readImage(Field field, std::optional<Chip> chip) {
  CodeImage image;
  image.chip = chip ? *chip : readChip(field["chip"]);
  image.file = readFileName(field["file"]);
  int64_t bytes = field["bytes"].integer(0, maxCodeBytes);
  uint64_t checksum = 0;
  std::string digits = field["fnv1a64"].string();
  auto [rest, error] = std::from_chars(
      digits.data(), digits.data() + digits.size(), checksum, 16);
  if (digits.size() != 16 || error != std::errc() ||
      rest != digits.data() + digits.size())
    field["fnv1a64"].refuse("16 hexadecimal digits");
  if (!reader.ok())
    return image;

  constexpr std::string_view remedy =
      "the file was changed or not copied completely: copy or compile the "
      "bundle again";
  std::string path = (bundle.directory / image.file).string();
  StatusOr<OpenFile> file = folder.child(image.file);
  if (file.ok() && file->info().st_size != bytes)
    file = Status::error(path + ": expects " + std::to_string(bytes) +
                         " bytes, as manifest.json says, but got " +
                         std::to_string(file->info().st_size))
               .note(remedy);
  StatusOr<std::string> contents =
      file.ok() ? file->read(bytes) : StatusOr<std::string>(file.status());
  if (!contents.ok()) {
    reader.fail(contents.status());
    return image;
  }
  image.contents = std::move(*contents);
  if (uint64_t actual = fnv1a64(image.contents); actual != checksum)
    reader.fail(Status::error(path + ": expects the FNV-1a checksum " + digits +
                              ", as manifest.json says, but got " +
                              toHex(actual))
                    .note(remedy));
  return image;
}

/// What regions read is there, with an axis for each coordinate; and only they,
/// lengths, tables and the words of a dropout are integers.
void BundleLoader::checkCaptured(Field attention, Field tensors) {
  const std::vector<std::string> &captured = bundle.attention.captured;
  for (const auto &[key, program] :
       {std::pair("score", &bundle.attention.score),
        {"mask", &bundle.attention.maskRegion}}) {
    if (!*program)
      continue;
    std::vector<Field> values = attention[key]["values"].elements();
    for (size_t i = 0; i < values.size(); ++i)
      if (std::optional<ScoreProgram::Load> load = (*program)->findLoad(i)) {
        const TensorSpec *tensor = bundle.findTensor(captured[load->tensor]);
        if (!tensor)
          return values[i]["tensor"].refuse("the name of a tensor in "
                                            "'tensors'");
        if (load->rank != tensor->axes.size())
          return values[i]["operands"].refuse(
              "an array of " + std::to_string(tensor->axes.size()) +
              " elements, the axes of '" + tensor->name + "'");
        std::string type(stringify(tensor->dtype));
        if (values[i]["type"].string() != type)
          return values[i]["type"].refuse("'" + type + "', that of '" +
                                          tensor->name + "'");
      }
  }
  std::vector<Field> fields = tensors.elements();
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    const TensorSpec &tensor = bundle.tensors[i];
    bool isCaptured = std::count(captured.begin(), captured.end(), tensor.name);
    if (isCaptured && tensor.role != TensorSpec::Role::Input)
      fields[i]["role"].refuse("'input'");
    if (!isCaptured && !isReal(tensor.dtype) && !findOperand(tensor.name))
      fields[i]["dtype"].refuse("'f16', 'bf16' or 'f32'");
  }
}

/// Whether a launch has arguments of this kind.
static Status checkParameter(const PtxParameter &parameter,
                             const std::string &name) {
  if (parameter.bytes != ArgumentBytes && parameter.bytes != TensorMapSize)
    return Status::error("expects parameters of " +
                         std::to_string(ArgumentBytes) + " bytes, or " +
                         std::to_string(TensorMapSize) +
                         " for a tensor map, but got " +
                         std::to_string(parameter.bytes) + " in " + name);
  if (parameter.bytes == TensorMapSize &&
      parameter.alignment < TensorMapAlignment)
    return Status::error("expects tensor maps aligned to " +
                         std::to_string(TensorMapAlignment) +
                         " bytes, but got " +
                         std::to_string(parameter.alignment) + " in " + name);
  return Status::success();
}

/// The kinds of argument that `parameter` may be, if `kind` is none of them.
static const char *otherKind(ArgumentSpec::Kind kind,
                             const PtxParameter &parameter,
                             bool marksPointers) {
  using Kind = ArgumentSpec::Kind;
  if (parameter.bytes == TensorMapSize)
    return kind == Kind::TensorMap ? nullptr : "'tensor_map'";
  if (parameter.isPointer)
    return kind == Kind::Pointer ? nullptr : "'pointer'";
  if (kind == Kind::TensorMap || (marksPointers && kind == Kind::Pointer))
    return "'size', 'stride' or 'offset'";
  return nullptr;
}

/// The arguments of a launch are read by the code without a check, so the list
/// must be that of the code.
void BundleLoader::checkArguments(const KernelSpec &kernel, Field field) {
  std::optional<std::vector<PtxParameter>> parameters =
      readPtxParameters(bundle.ptx.contents, kernel.name);
  if (!parameters)
    return field["name"].refuse("the name of a kernel (.entry) in " +
                                bundle.ptx.file);
  std::string where = "of '" + kernel.name + "' in " + bundle.ptx.file;
  std::vector<Field> arguments = field["arguments"].elements();
  if (arguments.size() != parameters->size())
    return field["arguments"].refuse("an array of " +
                                     std::to_string(parameters->size()) +
                                     " elements, the parameters " + where);
  // A compiler that does not mark pointers marks none.
  bool marksPointers =
      std::any_of(parameters->begin(), parameters->end(),
                  [](const PtxParameter &each) { return each.isPointer; });
  for (size_t i = 0; i < arguments.size(); ++i) {
    const PtxParameter &parameter = (*parameters)[i];
    std::string name =
        "parameter " + std::to_string(i) + " of '" + kernel.name + "'";
    if (Status status = checkParameter(parameter, name); !status.ok())
      return reader.fail(
          Status::error((bundle.directory / bundle.ptx.file).string() + ": " +
                        status.message())
              .note("no kernel of flashcore-compile has others: compile the "
                    "bundle again"));
    if (const char *expected =
            otherKind(kernel.arguments[i].kind, parameter, marksPointers))
      return arguments[i]["kind"].refuse(std::string(expected) +
                                         " like parameter " +
                                         std::to_string(i) + " " + where);
  }
}

/// Compares an argument of the manifest with that of the comment.
static void compareArgument(Field argument, Field comment,
                            const std::string &where) {
  auto describe = [](Field value) {
    return value.isString() ? "'" + value.string() + "'"
                            : std::to_string(value.integer());
  };
  for (const char *key : {"kind", "dim", "tensor", "axis", "swizzle", "ragged",
                          "group", "copy_of", "row"}) {
    if (!argument.has(key)) {
      if (comment.has(key))
        return argument.refuse("an argument with '" + std::string(key) + "'" +
                               where);
      continue;
    }
    std::string expected = describe(comment[key]);
    if (describe(argument[key]) != expected)
      return argument[key].refuse(expected + where);
  }
  if (!argument.has("box"))
    return;
  std::vector<Field> box = argument["box"].elements(),
                     expected = comment["box"].elements();
  if (box.size() != expected.size())
    return argument["box"].refuse(
        "an array of " + std::to_string(expected.size()) + " elements" + where);
  for (size_t i = 0; i < box.size(); ++i)
    if (describe(box[i]) != describe(expected[i]))
      return box[i].refuse(describe(expected[i]) + where);
}

/// To the code all sizes are alike, and all pointers: only the launch that the
/// PTX describes tells whether two of them changed places.
void BundleLoader::checkLaunchComment(const std::vector<Field> &kernels) {
  std::optional<std::string_view> text = findLaunchComment(bundle.ptx.contents);
  if (!text)
    return;
  std::string file =
      (bundle.directory / bundle.ptx.file).string() + ": flashcore-launch";
  StatusOr<json> document = parseJson(file, std::string(*text));
  if (!document.ok())
    return reader.fail(document.status());
  JsonReader comment(file, "compile the bundle again");
  std::string where =
      ", as in the launch that " + bundle.ptx.file + " describes";
  for (Field described : comment.root(*document)["kernels"].elements()) {
    std::string name = described["name"].string();
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (bundle.kernels[i].name != name)
        continue;
      std::vector<Field> expected = described["arguments"].elements();
      std::vector<Field> arguments = kernels[i]["arguments"].elements();
      if (expected.size() != arguments.size())
        return kernels[i]["arguments"].refuse("an array of " +
                                              std::to_string(expected.size()) +
                                              " elements" + where);
      for (size_t j = 0; j < arguments.size(); ++j)
        compareArgument(arguments[j], expected[j], where);
    }
  }
  if (!comment.ok())
    reader.fail(comment.status());
}

void BundleLoader::readManifest(Field root) {
  if (root["format"].string() != "flashcore-bundle")
    root["format"].refuse("'flashcore-bundle'");
  std::string version = std::to_string(manifestVersion);
  if (reader.ok() && root["version"].integer() != manifestVersion)
    root["version"].refuse(version, "this runtime reads version " + version +
                                        ": recompile the bundle with the "
                                        "flashcore-compile of this release");
  if (!reader.ok())
    return;
  bundle.compiler = readText(root["compiler"]);
  readAttention(root["attention"]);
  for (Field tensor : root["tensors"].elements())
    bundle.tensors.push_back(readTensor(tensor));
  if (reader.ok())
    checkOperands(bundle, reader, root["attention"], root["tensors"]);
  if (reader.ok())
    checkCaptured(root["attention"], root["tensors"]);
  const Bundle shared = bundle;
  for (Field variant : root["variants"].elements()) {
    bundle = shared;
    readVariant(variant);
    variants.push_back(std::move(bundle));
  }
  if (variants.empty())
    root["variants"].refuse("an array of at least one variant");
}

void BundleLoader::readVariant(Field field) {
  bundle.chip = readChip(field["chip"]);
  for (const Bundle &other : variants)
    if (reader.ok() && other.chip.str() == bundle.chip.str())
      field["chip"].refuse("a chip that no other variant has");
  if (!field["assembler"].isNull())
    bundle.assembler = readText(field["assembler"]);
  if (field.has("key_splits"))
    for (Field formula : field["key_splits"].elements())
      bundle.keySplits.push_back(readKeySplits(formula));
  for (Field term : field["workspace"]["bytes"].elements())
    bundle.workspace.push_back({term["bytes"].integer(),
                                readProduct(term["factors"]),
                                readQueries(term)});
  for (Field kernel : field["kernels"].elements())
    bundle.kernels.push_back(readKernel(kernel));
  if (bundle.kernels.empty())
    field["kernels"].refuse("an array of at least one kernel");
  if (!reader.ok())
    return;
  bundle.ptx = readImage(field["ptx"], bundle.chip);
  for (Field cubin : field["cubins"].elements())
    bundle.cubins.push_back(readImage(cubin, std::nullopt));
  std::vector<Field> kernels = field["kernels"].elements();
  for (size_t i = 0; reader.ok() && i < kernels.size(); ++i)
    checkArguments(bundle.kernels[i], kernels[i]);
  if (reader.ok())
    checkLaunchComment(kernels);
}

StatusOr<std::vector<Bundle>> BundleLoader::load() {
  StatusOr<OpenFile> file = folder.child(manifestName);
  StatusOr<std::string> text = file.ok() ? file->read(maxManifestBytes)
                                         : StatusOr<std::string>(file.status());
  if (!text.ok())
    return Status(text.status()).note(notABundle);
  StatusOr<json> document =
      parseJson((bundle.directory / manifestName).string(), *text);
  if (!document.ok())
    return document.status();
  bundle.manifest = std::make_shared<const std::string>(std::move(*text));
  readManifest(reader.root(*document));
  if (!reader.ok())
    return reader.status();
  return std::move(variants);
}

StatusOr<std::vector<Bundle>>
Bundle::loadVariants(const std::filesystem::path &directory) {
  // A compiler may put a new bundle in the place of the one that is read. Then
  // files of the old one are gone, and the new one is whole.
  constexpr int maxTries = 100;
  for (int tries = 1;; ++tries) {
    StatusOr<OpenFile> folder = OpenFile::folder(directory);
    if (!folder.ok())
      return Status(folder.status()).note(notABundle);
    StatusOr<std::vector<Bundle>> variants =
        BundleLoader(directory, *folder).load();
    if (variants.ok() || folder->isCurrent() || tries == maxTries)
      return variants;
  }
}

StatusOr<Bundle> Bundle::load(const std::filesystem::path &directory,
                              const DeviceInfo *device) {
  StatusOr<std::vector<Bundle>> variants = loadVariants(directory);
  if (!variants.ok())
    return variants.status();
  return std::move((*variants)[chooseVariant(*variants, device)]);
}
