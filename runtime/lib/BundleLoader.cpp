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

#include "KernelParameters.h"
#include "OpenFile.h"
#include "manifest/ProgramReader.h"
#include "ops/Op.h"

#include "flashcore/Runtime/FileUtils.h"
#include "flashcore/Runtime/JsonReader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

using namespace flashcore;
using nlohmann::json;
using Field = JsonReader::Field;

static constexpr const char *manifestName = "manifest.json";
static constexpr std::string_view notABundle =
    "expects a bundle directory, as 'flashcore-compile --emit=bundle' writes "
    "it";

static constexpr std::string_view remedy =
    "the file is damaged or was written by another version: compile the bundle "
    "again with this version's flashcore-compile";

/// Far more than any bundle has.
static constexpr int64_t maxManifestBytes = 1 << 26, maxCodeBytes = 1 << 30;

/// The name of a file of the bundle.
static std::string readFileName(Field field) {
  std::string name = field.string();
  if (name.empty() || name.front() == '.' || !isOfLetters(name, "_-."))
    field.refuse("the name of a file in the bundle, of letters, digits, '_', "
                 "'-' and '.'");
  return name;
}

static const Op &readOp(Field field) {
  std::vector<std::pair<std::string_view, const Op *>> choices;
  for (const Op &op : getOps())
    if (op.read)
      choices.emplace_back(op.name, &op);
  return *readChoice<const Op *>(field, choices);
}

namespace {
/// Makes a Bundle of each variant. Split from JsonReader, which knows JSON but
/// no schema.
class BundleLoader {
public:
  BundleLoader(const std::filesystem::path &directory, const OpenFile &folder)
      : folder(folder),
        reader((directory / manifestName).string(), std::string(remedy)) {
    bundle.directory = directory;
  }

  StatusOr<std::vector<Bundle>> load();

private:
  void readManifest(Field root);
  void readOps(ProgramReader &program, Field root);
  ProgramPart readPart(Field field);
  CodeImage readImage(Field field, std::optional<Chip> chip);
  void readVariant(Field field);
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

  constexpr std::string_view remedyOfImage =
      "the file was changed or not copied completely: copy or compile the "
      "bundle again";
  std::string path = (bundle.directory / image.file).string();
  StatusOr<OpenFile> file = folder.child(image.file);
  if (file.ok() && file->info().st_size != bytes)
    file = Status::error(path + ": expects " + std::to_string(bytes) +
                         " bytes, as manifest.json says, but got " +
                         std::to_string(file->info().st_size))
               .note(remedyOfImage);
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
                    .note(remedyOfImage));
  return image;
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
  std::vector<bool> isCompared(kernels.size(), false);
  for (Field described : comment.root(*document)["kernels"].elements()) {
    std::string name = described["name"].string();
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (bundle.kernels[i].name != name || isCompared[i])
        continue;
      isCompared[i] = true;
      std::vector<Field> expected = described["arguments"].elements();
      std::vector<Field> arguments = kernels[i]["arguments"].elements();
      if (expected.size() != arguments.size())
        return kernels[i]["arguments"].refuse("an array of " +
                                              std::to_string(expected.size()) +
                                              " elements" + where);
      for (size_t j = 0; j < arguments.size(); ++j)
        compareArgument(arguments[j], expected[j], where);
      break; // another launch of it is compared with the next one
    }
  }
  if (!comment.ok())
    reader.fail(comment.status());
}

void BundleLoader::readManifest(Field root) {
  if (root["format"].string() != "flashcore-bundle")
    root["format"].refuse("'flashcore-bundle'");
  std::string version = std::to_string(ManifestVersion);
  if (reader.ok() && root["version"].integer() != ManifestVersion)
    root["version"].refuse(version, "this runtime reads version " + version +
                                        ": recompile the bundle with the "
                                        "flashcore-compile of this release");
  if (!reader.ok())
    return;
  expectOnly(root, {"format", "version", "compiler", "ops", "sizes", "tensors",
                    "intermediates", "views", "variants"});
  bundle.compiler = readText(root["compiler"]);
  ProgramReader program(reader, bundle);
  program.readSizes(root["sizes"]);
  readOps(program, root);
  if (!reader.ok())
    return;
  const Bundle shared = bundle;
  for (Field variant : root["variants"].elements()) {
    bundle = shared;
    readVariant(variant);
    variants.push_back(std::move(bundle));
  }
  if (variants.empty())
    root["variants"].refuse("an array of at least one variant");
}

/// What the kernels compute, and its tensors.
void BundleLoader::readOps(ProgramReader &program, Field root) {
  std::vector<Field> ops = root["ops"].elements();
  if (reader.ok() && ops.empty())
    root["ops"].refuse("an array of at least 1 element");
  if (!reader.ok())
    return;
  if (ops.size() > 1) {
    bundle.op = ProgramOpName;
    program.readTensors(root["tensors"]);
    program.readDerived(root);
    for (Field op : ops)
      if (reader.ok())
        bundle.parts.push_back(readPart(op));
    return;
  }
  expectOnly(ops.front(), {"op", "attributes"});
  for (const char *key : {"intermediates", "views"})
    if (root.has(key))
      return root.refuseKey(key);
  const Op &op = readOp(ops.front()["op"]);
  bundle.op = op.name;
  if (reader.ok())
    op.read(bundle, reader, ops.front()["attributes"], root);
  program.readTensors(root["tensors"]);
  if (reader.ok())
    op.check(bundle, reader, ops.front()["attributes"], root);
}

/// A tensor of an op: that of the program under another name, with the op's
/// names of its axes.
static json describeOperand(const TensorSpec &tensor, Field operand) {
  json numbers = json::array(), axes = json::array();
  for (const std::optional<int64_t> &stride : tensor.strides)
    numbers.push_back(stride ? json(*stride) : json());
  for (Field axis : operand["axes"].elements())
    axes.push_back(axis.string());
  return {{"name", operand["name"].string()},
          {"role", operand["role"].string()},
          {"dtype", stringify(tensor.dtype)},
          {"axes", axes},
          {"strides", numbers},
          {"offset", tensor.offset ? json(*tensor.offset) : json()},
          {"alignment", tensor.alignment}};
}

/// An op of several, read as if it were in a bundle of its own.
ProgramPart BundleLoader::readPart(Field field) {
  expectOnly(field, {"op", "attributes", "operands", "sizes"});
  ProgramPart part;
  Bundle alone;
  const Op &op = readOp(field["op"]);
  alone.op = op.name;
  json document = {{"attributes", field["attributes"].raw()},
                   {"sizes", json::object()},
                   {"tensors", json::array()}};
  for (const std::string &name : field["sizes"].keys()) {
    std::string size = field["sizes"][name].string();
    auto known = bundle.sizes.find(size);
    part.sizes[name] = size;
    if (known != bundle.sizes.end())
      document["sizes"][name] = known->second ? json(*known->second) : json();
    else
      field["sizes"][name].refuse("the name of a size in 'sizes'");
  }
  for (Field operand : field["operands"].elements()) {
    expectOnly(operand, {"name", "tensor", "role", "axes"});
    std::string name = operand["tensor"].string();
    const TensorSpec *tensor = bundle.findAnyTensor(name);
    if (!tensor)
      operand["tensor"].refuse("the name of a tensor");
    if (!reader.ok())
      return part;
    part.tensors[operand["name"].string()] = name;
    document["tensors"].push_back(describeOperand(*tensor, operand));
  }
  JsonReader ofOp((bundle.directory / manifestName).string() + ", op " +
                      std::to_string(bundle.parts.size()) + " ('" +
                      std::string(op.name) + "')",
                  std::string(remedy));
  Field root = ofOp.root(document);
  ProgramReader program(ofOp, alone);
  program.readSizes(root["sizes"]);
  if (ofOp.ok())
    op.read(alone, ofOp, root["attributes"], root);
  program.readTensors(root["tensors"]);
  if (ofOp.ok())
    op.check(alone, ofOp, root["attributes"], root);
  if (!ofOp.ok())
    reader.fail(ofOp.status());
  part.bundle = std::make_shared<const Bundle>(std::move(alone));
  return part;
}

void BundleLoader::readVariant(Field field) {
  expectOnly(field, {"chip", "assembler", "ptx", "cubins", "values",
                     "workspace", "kernels"});
  bundle.chip = readChip(field["chip"]);
  for (const Bundle &other : variants)
    if (reader.ok() && other.chip.str() == bundle.chip.str())
      field["chip"].refuse("a chip that no other variant has");
  if (!field["assembler"].isNull())
    bundle.assembler = readText(field["assembler"]);
  ProgramReader(reader, bundle).readLaunch(field);
  std::vector<Field> kernels = field["kernels"].elements();
  for (Field kernel : kernels)
    kernel["resources"];
  if (!reader.ok())
    return;
  bundle.ptx = readImage(field["ptx"], bundle.chip);
  for (Field cubin : field["cubins"].elements())
    bundle.cubins.push_back(readImage(cubin, std::nullopt));
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
  constexpr int maxTries = 10'000; // seconds of nothing but replacements
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
