//===- Bundle.cpp - Writing bundles ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the `fcgpu.program` dictionary into the manifest, and writes the files
// into a temporary sibling that is renamed at the end.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Bundle.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Support/CNumbers.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/ToolInit.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>

using namespace mlir;
using namespace mlir::flashcore;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kBundleFormat = "flashcore-bundle";
static constexpr int64_t kBundleVersion = 11;

/// Attributes have a one-to-one JSON form; `unit` is a value that is known at
/// run time only.
static json::Value toJSON(Attribute attr) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    json::Object object;
    for (NamedAttribute entry : dictionary)
      object[entry.getName().strref()] = toJSON(entry.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attr)) {
    json::Array values;
    for (Attribute element : array)
      values.push_back(toJSON(element));
    return values;
  }
  if (auto string = dyn_cast<StringAttr>(attr))
    return string.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return integer.getInt();
  if (auto real = dyn_cast<FloatAttr>(attr))
    return real.getValueAsDouble();
  if (auto type = dyn_cast<TypeAttr>(attr)) {
    std::string text;
    llvm::raw_string_ostream(text) << type.getValue();
    return text;
  }
  return nullptr;
}

/// FNV-1a, 64 bits: finds files that were cut short or mixed up.
static std::string checksum(llvm::StringRef data) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char byte : data)
    hash = (hash ^ byte) * 0x100000001b3u;
  return llvm::formatv("{0:x-16}", hash);
}

static json::Object describeFile(llvm::StringRef name, llvm::StringRef data) {
  return json::Object{{"file", name.str()},
                      {"bytes", static_cast<int64_t>(data.size())},
                      {"fnv1a64", checksum(data)}};
}

static json::Value describeResources(const BundleVariant &variant,
                                     llvm::StringRef kernel) {
  if (variant.cubins.empty())
    return nullptr;
  const Cubin &cubin = variant.cubins.front();
  KernelResources used = cubin.kernels.lookup(kernel);
  return json::Object{{"chip", cubin.chip},
                      {"registers", used.registers},
                      {"spill_stores", used.spillStores},
                      {"spill_loads", used.spillLoads},
                      {"static_shared_memory", used.staticSharedMemory}};
}

static json::Object describeKernel(const BundleKernel &kernel) {
  DictionaryAttr description = kernel.description;
  json::Object result{
      {"name", kernel.name},
      {"block", json::Array{toJSON(description.get("threads")), 1, 1}},
      {"grid", json::Array{toJSON(description.get("grid")), "1", "1"}},
      {"dynamic_shared_memory", toJSON(description.get("shared_memory"))},
      {"arguments", toJSON(description.get("arguments"))}};
  if (Attribute when = description.get("when"))
    result["when"] = toJSON(when);
  return result;
}

/// What is the same for all schedules.
static json::Object describeProgram(DictionaryAttr program) {
  json::Array ops;
  for (DictionaryAttr op : getProgramOps(program)) {
    json::Object described = *toJSON(op).getAsObject();
    for (llvm::StringRef key : {"kernel", "values"})
      described.erase(key);
    ops.push_back(std::move(described));
  }
  json::Object result{{"version", kBundleVersion}, {"ops", std::move(ops)}};
  for (llvm::StringRef key : {"sizes", "tensors", "intermediates", "views"})
    if (Attribute value = program.get(key))
      result[key] = toJSON(value);
  return result;
}

/// What it takes to launch the kernels, in whatever file they are.
static json::Object describeLaunch(DictionaryAttr program,
                                   ArrayRef<BundleKernel> bundleKernels) {
  json::Array kernels;
  for (const BundleKernel &kernel : bundleKernels)
    kernels.push_back(describeKernel(kernel));
  auto list = [&](llvm::StringRef key) -> json::Value {
    Attribute value = program.get(key);
    return value ? toJSON(value) : json::Value(json::Array());
  };
  return json::Object{{"values", list("values")},
                      {"workspace", list("workspace")},
                      {"kernels", std::move(kernels)}};
}

SmallVector<DictionaryAttr>
mlir::flashcore::getProgramOps(DictionaryAttr program) {
  auto ops = program ? program.getAs<ArrayAttr>("ops") : ArrayAttr();
  if (!ops)
    return {};
  return llvm::to_vector(ops.getAsRange<DictionaryAttr>());
}

StringRef mlir::flashcore::getMainKernel(DictionaryAttr program, unsigned op) {
  return getProgramOps(program)[op].getAs<StringAttr>("kernel").getValue();
}

/// The name that a program gives a tensor of an op.
static Attribute renameTensor(Attribute name, DictionaryAttr op) {
  if (auto operands = op.getAs<ArrayAttr>("operands"))
    for (auto operand : operands.getAsRange<DictionaryAttr>())
      if (operand.get("name") == name)
        return operand.get("tensor");
  return name; // of the only op, or the workspace
}

/// The same of a size, or of what host code computes.
static Attribute renameSize(Attribute name, DictionaryAttr op) {
  for (llvm::StringRef map : {"sizes", "values"})
    if (auto names = op.getAs<DictionaryAttr>(map))
      if (Attribute renamed = names.get(cast<StringAttr>(name)))
        return renamed;
  return name;
}

/// The arguments of a kernel of `op` in the names of its program.
static ArrayAttr renameArguments(ArrayAttr arguments, DictionaryAttr op) {
  SmallVector<Attribute> renamed;
  for (auto argument : arguments.getAsRange<DictionaryAttr>()) {
    NamedAttrList entry(argument);
    for (llvm::StringRef key : {"tensor", "copy_of"})
      if (Attribute name = entry.get(key))
        entry.set(key, renameTensor(name, op));
    if (Attribute name = entry.get("dim"))
      entry.set("dim", renameSize(name, op));
    renamed.push_back(entry.getDictionary(arguments.getContext()));
  }
  return ArrayAttr::get(arguments.getContext(), renamed);
}

SmallVector<BundleKernel>
mlir::flashcore::getBundleKernels(gpu::GPUModuleOp module) {
  auto program = module->getAttrOfType<DictionaryAttr>(fcgpu::kProgramAttrName);
  auto launches = program ? program.getAs<ArrayAttr>("launches") : ArrayAttr();
  SmallVector<BundleKernel> kernels;
  if (!launches)
    return kernels;
  SmallVector<DictionaryAttr> ops = getProgramOps(program);
  for (auto launch : launches.getAsRange<DictionaryAttr>()) {
    auto name = launch.getAs<StringAttr>("kernel");
    auto op = static_cast<unsigned>(launch.getAs<IntegerAttr>("op").getInt());
    NamedAttrList description(
        SymbolTable::lookupSymbolIn(module, name)
            ->getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName));
    description.set(
        "arguments",
        renameArguments(cast<ArrayAttr>(description.get("arguments")),
                        ops[op]));
    for (llvm::StringRef key : {"grid", "when"})
      if (Attribute value = launch.get(key))
        description.set(key, value);
    kernels.push_back({name.getValue().str(),
                       description.getDictionary(module.getContext()), op});
  }
  return kernels;
}

std::string mlir::flashcore::getLaunchComment(DictionaryAttr program,
                                              ArrayRef<BundleKernel> kernels) {
  if (kernels.empty())
    return {};
  json::Object launch = describeProgram(program);
  for (auto &[key, value] : describeLaunch(program, kernels))
    launch[key] = std::move(value);
  CNumbers numbers;
  // A line: JSON escapes the line ends of names.
  return llvm::formatv("// flashcore-launch: {0}\n",
                       json::Value(std::move(launch)));
}

std::optional<json::Object>
mlir::flashcore::describeMerge(const BundleVariant &variant) {
  SmallVector<DictionaryAttr> ops = getProgramOps(variant.program);
  if (ops.size() != 1 ||
      ops.front().getAs<StringAttr>("op").getValue() != "merge")
    return std::nullopt;
  return json::Object{{"chip", variant.chip},
                      {"kernel", describeKernel(variant.kernels.front())},
                      {"sizes", toJSON(variant.program.get("sizes"))},
                      {"tensors", toJSON(variant.program.get("tensors"))}};
}

/// Each PTX file has the name of its chip where there are several.
static std::string getPTXName(ArrayRef<BundleVariant> variants,
                              const BundleVariant &variant) {
  return variants.size() == 1 ? "kernels.ptx"
                              : "kernels." + variant.chip + ".ptx";
}

static std::string getCubinName(const Cubin &cubin) {
  return "kernels." + cubin.chip + ".cubin";
}

/// Whether a bundle, also one of an older version, has files of this name.
static bool isNameInBundle(llvm::StringRef name) {
  static const llvm::Regex names(
      "^(manifest\\.json|kernels(\\.sm_[0-9]+[af]?)?\\.(ptx|cubin))$");
  return names.match(name);
}

static json::Value describeVariant(ArrayRef<BundleVariant> variants,
                                   const BundleVariant &variant) {
  json::Array cubins;
  for (const Cubin &cubin : variant.cubins) {
    json::Object entry = describeFile(getCubinName(cubin), cubin.image);
    entry["chip"] = cubin.chip;
    cubins.push_back(std::move(entry));
  }
  json::Value assembler = nullptr;
  if (!variant.cubins.empty())
    assembler = variant.cubins.front().assembler;
  json::Object result = describeLaunch(variant.program, variant.kernels);
  result["chip"] = variant.chip;
  result["assembler"] = std::move(assembler);
  result["ptx"] = describeFile(getPTXName(variants, variant), variant.ptx);
  result["cubins"] = std::move(cubins);
  for (auto [kernel, entry] :
       llvm::zip_equal(variant.kernels, *result.getArray("kernels")))
    (*entry.getAsObject())["resources"] =
        describeResources(variant, kernel.name);
  return result;
}

static json::Value buildManifest(ArrayRef<BundleVariant> variants) {
  json::Array described;
  for (const BundleVariant &variant : variants)
    described.push_back(describeVariant(variants, variant));
  json::Object manifest = describeProgram(variants.front().program);
  manifest["format"] = kBundleFormat;
  manifest["compiler"] =
      "flashcore " FLASHCORE_VERSION ", LLVM " LLVM_VERSION_STRING;
  manifest["variants"] = std::move(described);
  return manifest;
}

std::vector<BundleFile>
mlir::flashcore::makeBundle(ArrayRef<BundleVariant> variants) {
  std::vector<BundleFile> files;
  for (const BundleVariant &variant : variants) {
    files.push_back({getPTXName(variants, variant), variant.ptx});
    for (const Cubin &cubin : variant.cubins)
      files.push_back({getCubinName(cubin), cubin.image});
  }
  CNumbers numbers;
  files.push_back(
      {"manifest.json",
       llvm::formatv("{0:2}", buildManifest(variants)).str() + "\n"});
  return files;
}

static llvm::Error makeError(llvm::StringRef path, const llvm::Twine &text) {
  return llvm::createStringError(std::make_error_code(std::errc::io_error),
                                 "cannot write '%s': %s", path.str().c_str(),
                                 text.str().c_str());
}

static llvm::Error writeFile(TemporaryDirectory &directory,
                             const BundleFile &file) {
  std::string path = directory.file(file.name);
  std::error_code ec;
  llvm::raw_fd_ostream os(path, ec, fs::CD_CreateAlways);
  if (ec)
    return makeError(path, ec.message());
  os << file.contents;
  os.close();
  if (os.has_error()) {
    llvm::Error error = makeError(path, os.error().message());
    os.clear_error();
    return error;
  }
  return llvm::Error::success();
}

/// Whether the directory holds a manifest of ours (the name is a common one).
static bool isBundle(llvm::StringRef directory) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, "manifest.json");
  if (!fs::is_regular_file(path))
    return false;
  auto buffer = llvm::MemoryBuffer::getFile(path);
  // The reader of JSON recurses.
  if (!buffer || checkNesting((*buffer)->getBuffer()))
    return false;
  CNumbers numbers;
  llvm::Expected<json::Value> manifest = json::parse((*buffer)->getBuffer());
  if (!manifest) {
    llvm::consumeError(manifest.takeError());
    return false;
  }
  const json::Object *object = manifest->getAsObject();
  return object && object->getString("format") == kBundleFormat;
}

/// An error if `directory` may not be replaced by a bundle.
static llvm::Error checkReplaceable(llvm::StringRef directory) {
  if (!isBundle(directory))
    return makeError(directory, "it exists and is not a bundle; remove it or "
                                "choose another name");
  std::error_code ec;
  for (fs::directory_iterator it(directory, ec, /*follow_symlinks=*/false), end;
       it != end && !ec; it.increment(ec)) {
    llvm::StringRef name = llvm::sys::path::filename(it->path());
    if (!isNameInBundle(name) ||
        fs::get_file_type(it->path(), /*Follow=*/false) !=
            fs::file_type::regular_file)
      return makeError(directory, "it holds '" + name +
                                      "', which is no file of a bundle; move "
                                      "it away or choose another name");
  }
  return ec ? makeError(directory, ec.message()) : llvm::Error::success();
}

/// Removes a bundle and nothing else: never what it does not know.
static std::error_code removeBundle(llvm::StringRef directory) {
  std::error_code ec;
  SmallVector<std::string> files;
  for (fs::directory_iterator it(directory, ec), end; it != end && !ec;
       it.increment(ec))
    if (isNameInBundle(llvm::sys::path::filename(it->path())))
      files.push_back(it->path());
  for (const std::string &file : files)
    fs::remove(file);
  return ec ? ec : fs::remove(directory);
}

/// Puts `temporary` in the place of the bundle `path`, and the bundle in that
/// of `temporary`.
static std::error_code exchange(llvm::StringRef temporary,
                                llvm::StringRef path) {
  std::string from = temporary.str(), to = path.str();
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                RENAME_EXCHANGE) == 0)
    return {};
  if (errno != EINVAL && errno != ENOSYS)
    return std::error_code(errno, std::generic_category());
  // A file system or kernel without the exchange: for a moment there is none.
  llvm::SmallString<128> aside;
  fs::createUniquePath(path + ".tmp-%%%%%%%%", aside, /*MakeAbsolute=*/false);
  if (std::error_code ec = fs::rename(path, aside))
    return ec;
  if (std::error_code ec = fs::rename(temporary, path)) {
    fs::rename(aside, path);
    return ec;
  }
  return fs::rename(aside, temporary);
}

/// Puts `temporary` at `path`, which holds a bundle or nothing.
static llvm::Error moveIntoPlace(llvm::StringRef temporary,
                                 llvm::StringRef path) {
  // Another writer may make the one into the other between our two calls.
  std::error_code ec;
  for (int attempts = 0; attempts < 100; ++attempts) {
    ec = fs::rename(temporary, path);
    if (!ec)
      return llvm::Error::success();
    if (ec != std::errc::directory_not_empty && ec != std::errc::file_exists)
      break;
    ec = exchange(temporary, path);
    if (!ec)
      break;
    if (ec != std::errc::no_such_file_or_directory)
      break;
  }
  std::error_code removal = removeBundle(temporary);
  if (ec)
    return makeError(path, ec.message());
  if (removal)
    return makeError(path, "the new bundle is in place, but what was there is "
                           "left at '" +
                               temporary + "': " + removal.message());
  return llvm::Error::success();
}

llvm::Error mlir::flashcore::writeBundle(llvm::StringRef path,
                                         ArrayRef<BundleVariant> variants) {
  return writeBundleFiles(path, makeBundle(variants));
}

llvm::Error mlir::flashcore::writeBundleFiles(llvm::StringRef bundle,
                                              ArrayRef<BundleFile> files) {
  // A link to a bundle stays a link: what it points to is replaced.
  llvm::SmallString<128> path(bundle);
  while (path.size() > 1 && llvm::sys::path::is_separator(path.back()))
    path.pop_back();
  if (fs::is_symlink_file(path)) {
    llvm::SmallString<128> target;
    if (std::error_code ec = fs::real_path(path, target))
      return makeError(path, ec.message());
    path = target;
  }
  if (fs::exists(path))
    if (llvm::Error error = checkReplaceable(path))
      return error;
  auto temporary = TemporaryDirectory::create((path + ".tmp-").str(),
                                              /*isPrivate=*/false);
  if (!temporary)
    return makeError(path, llvm::toString(temporary.takeError()));
  for (const BundleFile &file : files)
    if (llvm::Error error = writeFile(*temporary, file))
      return error;
  // From here on both names are in use, if only for a moment.
  SignalBlocker blocker;
  std::string name = temporary->path();
  temporary->release();
  return moveIntoPlace(name, path);
}
