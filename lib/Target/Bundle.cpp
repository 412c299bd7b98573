//===- Bundle.cpp - Writing bundles ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the `fcgpu.kernel` dictionary into the manifest, and writes the files
// into a temporary sibling that is renamed at the end.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Bundle.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::flashcore;
namespace fs = llvm::sys::fs;
namespace json = llvm::json;

static constexpr llvm::StringLiteral kBundleFormat = "flashcore-bundle";
static constexpr int64_t kBundleVersion = 4;

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

static json::Value describeResources(const BundleContents &contents,
                                     llvm::StringRef kernel) {
  if (contents.cubins.empty())
    return nullptr;
  const Cubin &cubin = contents.cubins.front();
  KernelResources used = cubin.kernels.lookup(kernel);
  return json::Object{{"chip", cubin.chip},
                      {"registers", used.registers},
                      {"spill_stores", used.spillStores},
                      {"spill_loads", used.spillLoads},
                      {"static_shared_memory", used.staticSharedMemory}};
}

static std::string getCubinName(const Cubin &cubin) {
  return "kernels." + cubin.chip + ".cubin";
}

static json::Object describeKernel(const BundleKernel &kernel) {
  DictionaryAttr description = kernel.description;
  json::Object result{
      {"name", kernel.name},
      {"block", json::Array{toJSON(description.get("threads")), 1, 1}},
      {"grid", json::Array{toJSON(description.get("grid")), json::Array(),
                           json::Array()}},
      {"dynamic_shared_memory", toJSON(description.get("shared_memory"))},
      {"arguments", toJSON(description.get("arguments"))}};
  if (Attribute limit = description.get("max_blocks_per_sm"))
    result["max_blocks_per_sm"] = toJSON(limit);
  return result;
}

/// What it takes to launch the kernels, whatever file they are in: the manifest
/// has it, and so has a comment in the PTX.
static json::Object describeLaunch(ArrayRef<BundleKernel> bundleKernels) {
  DictionaryAttr attention = bundleKernels.front().description;
  json::Array kernels;
  for (const BundleKernel &kernel : bundleKernels)
    kernels.push_back(describeKernel(kernel));
  json::Value workspace = json::Array();
  if (Attribute terms = attention.get("workspace"))
    workspace = toJSON(terms);
  return json::Object{
      {"version", kBundleVersion},
      {"attention",
       json::Object{{"softmax_scale", toJSON(attention.get("softmax_scale"))},
                    {"causal", toJSON(attention.get("causal"))},
                    {"window_left", toJSON(attention.get("window_left"))},
                    {"window_right", toJSON(attention.get("window_right"))},
                    {"softcap", toJSON(attention.get("softcap"))},
                    {"dims", toJSON(attention.get("dims"))}}},
      {"tensors", toJSON(attention.get("tensors"))},
      {"workspace", json::Object{{"bytes", std::move(workspace)}}},
      {"kernels", std::move(kernels)}};
}

SmallVector<BundleKernel>
mlir::flashcore::getBundleKernels(gpu::GPUModuleOp module) {
  SmallVector<BundleKernel> kernels;
  module.walk([&](Operation *op) {
    if (auto kernel = op->getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName))
      kernels.push_back({SymbolTable::getSymbolName(op).str(), kernel});
  });
  return kernels;
}

std::string mlir::flashcore::getLaunchComment(ArrayRef<BundleKernel> kernels) {
  if (kernels.empty())
    return {};
  // A line: JSON escapes the line ends of names.
  return llvm::formatv("// flashcore-launch: {0}\n",
                       json::Value(describeLaunch(kernels)));
}

static json::Value buildManifest(const BundleContents &contents) {
  json::Array cubins;
  for (const Cubin &cubin : contents.cubins) {
    json::Object entry = describeFile(getCubinName(cubin), cubin.image);
    entry["chip"] = cubin.chip;
    cubins.push_back(std::move(entry));
  }
  json::Value assembler = nullptr;
  if (!contents.cubins.empty())
    assembler = contents.cubins.front().assembler;
  json::Object manifest = describeLaunch(contents.kernels);
  manifest["format"] = kBundleFormat;
  manifest["compiler"] =
      "flashcore " FLASHCORE_VERSION ", LLVM " LLVM_VERSION_STRING;
  manifest["assembler"] = std::move(assembler);
  manifest["chip"] = contents.chip;
  manifest["ptx"] = describeFile("kernels.ptx", contents.ptx);
  manifest["cubins"] = std::move(cubins);
  for (auto [kernel, entry] :
       llvm::zip_equal(contents.kernels, *manifest.getArray("kernels")))
    (*entry.getAsObject())["resources"] =
        describeResources(contents, kernel.name);
  return manifest;
}

static llvm::Error makeError(llvm::StringRef path, const llvm::Twine &text) {
  return llvm::createStringError(std::make_error_code(std::errc::io_error),
                                 "cannot write '%s': %s", path.str().c_str(),
                                 text.str().c_str());
}

static llvm::Error writeFile(llvm::StringRef directory, llvm::StringRef name,
                             llvm::StringRef data) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  std::error_code ec;
  llvm::raw_fd_ostream os(path, ec, fs::CD_CreateAlways);
  if (ec)
    return makeError(path, ec.message());
  os << data;
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
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return false;
  llvm::Expected<json::Value> manifest = json::parse((*buffer)->getBuffer());
  if (!manifest) {
    llvm::consumeError(manifest.takeError());
    return false;
  }
  const json::Object *object = manifest->getAsObject();
  return object && object->getString("format") == kBundleFormat;
}

/// Writes all files of a bundle into `directory`.
static llvm::Error writeFiles(llvm::StringRef directory,
                              const BundleContents &contents) {
  if (llvm::Error error = writeFile(directory, "kernels.ptx", contents.ptx))
    return error;
  for (const Cubin &cubin : contents.cubins)
    if (llvm::Error error =
            writeFile(directory, getCubinName(cubin), cubin.image))
      return error;
  std::string text =
      llvm::formatv("{0:2}", buildManifest(contents)).str() + "\n";
  return writeFile(directory, "manifest.json", text);
}

/// Puts `temporary` in the place of `path`. What was there is kept aside until
/// the new one is in place.
static llvm::Error replaceDirectory(llvm::StringRef temporary,
                                    llvm::StringRef path) {
  llvm::SmallString<128> old;
  bool exists = fs::exists(path);
  if (exists) {
    fs::createUniquePath(path + ".old-%%%%%%%%", old, /*MakeAbsolute=*/false);
    if (std::error_code ec = fs::rename(path, old))
      return makeError(path, ec.message());
  }
  if (std::error_code ec = fs::rename(temporary, path)) {
    if (exists)
      fs::rename(old, path);
    return makeError(path, ec.message());
  }
  if (exists)
    fs::remove_directories(old);
  return llvm::Error::success();
}

llvm::Error mlir::flashcore::writeBundle(llvm::StringRef name,
                                         const BundleContents &contents) {
  // A link to a bundle stays a link: what it points to is replaced.
  llvm::SmallString<128> path(name);
  while (path.size() > 1 && llvm::sys::path::is_separator(path.back()))
    path.pop_back();
  if (fs::is_symlink_file(path)) {
    llvm::SmallString<128> target;
    if (std::error_code ec = fs::real_path(path, target))
      return makeError(path, ec.message());
    path = target;
  }
  if (fs::exists(path) && !isBundle(path))
    return makeError(path, "it exists and is not a bundle; remove it or choose "
                           "another name");
  llvm::SmallString<128> temporary;
  fs::createUniquePath(path + ".tmp-%%%%%%%%", temporary,
                       /*MakeAbsolute=*/false);
  if (std::error_code ec = fs::create_directory(temporary))
    return makeError(path, ec.message());
  llvm::Error error = writeFiles(temporary, contents);
  if (!error)
    error = replaceDirectory(temporary, path);
  if (error)
    fs::remove_directories(temporary);
  return error;
}
