//===- TestBundle.cpp - Bundles for tests ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest that most tests start from, and the files around it.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <cstdlib>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

ScratchDirectory::ScratchDirectory() {
  std::string name =
      (std::filesystem::temp_directory_path() / "flashcore-test-XXXXXX")
          .string();
  EXPECT_NE(mkdtemp(name.data()), nullptr);
  directory = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

void ScratchDirectory::write(std::string_view name,
                             std::string_view contents) const {
  EXPECT_TRUE(writeFile(directory / name, contents).ok());
}

json flashcore::testing::describeTensor(const char *name, const char *role,
                                        const char *dtype,
                                        std::vector<std::string> axes,
                                        const json &offset) {
  std::vector<json> strides(axes.size());
  strides.back() = 1;
  int64_t alignment = std::string_view(dtype).ends_with("32") ? 4 : 16;
  return {{"name", name},          {"role", role},       {"dtype", dtype},
          {"axes", axes},          {"strides", strides}, {"offset", offset},
          {"alignment", alignment}};
}

static json tensor(const char *name, const char *role, const char *dtype,
                   std::vector<std::string> axes) {
  return describeTensor(name, role, dtype, std::move(axes), nullptr);
}

std::string flashcore::testing::refusalWith(json manifest, const char *pointer,
                                            const json &value) {
  ScratchDirectory scratch;
  manifest[json::json_pointer(pointer)] = value;
  writeBundle(scratch.path(), manifest);
  StatusOr<Bundle> bundle = Bundle::load(scratch.path());
  std::string message = bundle.ok() ? "" : bundle.status().message();
  size_t name = message.find("manifest.json");
  return name == message.npos ? message : message.substr(name);
}

static json code(const char *file, std::string_view contents) {
  return {{"file", file},
          {"bytes", contents.size()},
          {"fnv1a64", toHex(fnv1a64(contents))}};
}

static json testKernel() {
  return {{"name", "attention"},
          {"block", {128, 1, 1}},
          {"grid", {"(seqlen_q ceildiv 64) * heads_q * batch", "1", "1"}},
          {"dynamic_shared_memory", 49152},
          {"arguments",
           {{{"kind", "pointer"}, {"tensor", "q"}},
            {{"kind", "pointer"}, {"tensor", "k"}},
            {{"kind", "pointer"}, {"tensor", "v"}},
            {{"kind", "pointer"}, {"tensor", "o"}},
            {{"kind", "pointer"}, {"tensor", "lse"}},
            {{"kind", "size"}, {"dim", "seqlen_k"}},
            {{"kind", "stride"}, {"tensor", "k"}, {"axis", 1}},
            {{"kind", "offset"}, {"tensor", "v"}}}},
          {"resources",
           {{"chip", "sm_89"},
            {"registers", 128},
            {"spill_stores", 0},
            {"spill_loads", 0},
            {"static_shared_memory", 16}}}};
}

json flashcore::testing::testManifest() {
  json cubin = code("kernels.sm_89.cubin", testCubin);
  cubin["chip"] = "sm_89";
  return {{"format", "flashcore-bundle"},
          {"version", 11},
          {"compiler", "flashcore test"},
          {"assembler", "ptxas test"},
          {"chip", "sm_80"},
          {"ptx", code("kernels.ptx", testPtx)},
          {"cubins", json::array({cubin})},
          {"attention",
           {{"softmax_scale", 0.25},
            {"causal", "none"},
            {"window_left", nullptr},
            {"window_right", nullptr},
            {"softcap", nullptr},
            {"dims",
             {{"batch", nullptr},
              {"heads_q", nullptr},
              {"heads_kv", nullptr},
              {"seqlen_q", nullptr},
              {"seqlen_k", nullptr},
              {"head_dim", 16},
              {"head_dim_v", 16}}}}},
          {"tensors",
           {tensor("q", "input", "f16",
                   {"batch", "heads_q", "seqlen_q", "head_dim"}),
            tensor("k", "input", "f16",
                   {"batch", "heads_kv", "seqlen_k", "head_dim"}),
            tensor("v", "input", "f16",
                   {"batch", "heads_kv", "seqlen_k", "head_dim_v"}),
            tensor("o", "output", "f16",
                   {"batch", "heads_q", "seqlen_q", "head_dim_v"}),
            tensor("lse", "output", "f32", {"batch", "heads_q", "seqlen_q"})}},
          {"values", json::array()},
          {"workspace", json::array()},
          {"kernels", json::array({testKernel()})}};
}

json flashcore::testing::staticManifest(int64_t seqlenQ, int64_t seqlenK,
                                        const char *causal) {
  json manifest = testManifest();
  manifest["attention"]["causal"] = causal;
  manifest["attention"]["dims"] = {{"batch", 1},          {"heads_q", 2},
                                   {"heads_kv", 2},       {"seqlen_q", seqlenQ},
                                   {"seqlen_k", seqlenK}, {"head_dim", 16},
                                   {"head_dim_v", 16}};
  json &tensors = manifest["tensors"];
  for (json &tensor : tensors)
    tensor["offset"] = 0;
  tensors[0]["strides"] =
      tensors[3]["strides"] = {seqlenQ * 32, seqlenQ * 16, 16, 1};
  tensors[1]["strides"] =
      tensors[2]["strides"] = {seqlenK * 32, seqlenK * 16, 16, 1};
  tensors[4]["strides"] = {seqlenQ * 2, seqlenQ, 1};
  return manifest;
}

json flashcore::testing::splitManifest() {
  json manifest = staticManifest();
  const std::string rows = "seqlen_q * heads_q * batch";
  manifest["workspace"] = {{{"bytes", rows + " * 120"}}};
  json pointer = {{"kind", "pointer"}, {"tensor", "workspace"}};
  json &attention = manifest["kernels"][0];
  multiplyGrid(attention, "3");
  attention["arguments"] = {{{"kind", "pointer"}, {"tensor", "q"}}, pointer};
  json merge = attention;
  merge["name"] = "merge";
  merge["block"] = {4, 1, 1};
  merge["grid"][0] = rows;
  merge["dynamic_shared_memory"] = 0;
  merge["arguments"] = {{{"kind", "pointer"}, {"tensor", "o"}}, pointer};
  manifest["kernels"].push_back(merge);
  setPtx(manifest, ptxFor(manifest));
  return manifest;
}

void flashcore::testing::addBias(json &manifest, const char *dtype,
                                 std::vector<std::string> axes) {
  json bias = tensor("bias", "input", dtype, std::move(axes));
  bias["strides"] = std::vector<json>(4);
  bias["alignment"] = std::string_view(dtype) == "f32" ? 4 : 2;
  manifest["tensors"].push_back(std::move(bias));
  manifest["kernels"][0]["arguments"].push_back(
      {{"kind", "pointer"}, {"tensor", "bias"}});
  setPtx(manifest, ptxFor(manifest));
}

void flashcore::testing::addVector(json &manifest, const char *name,
                                   const char *dtype, const char *axis) {
  json vector = tensor(name, "input", dtype, {axis});
  vector["offset"] = 0;
  vector["alignment"] = 4;
  manifest["tensors"].push_back(std::move(vector));
  manifest["kernels"][0]["arguments"].push_back(
      {{"kind", "pointer"}, {"tensor", name}});
  setPtx(manifest, ptxFor(manifest));
}

json flashcore::testing::dropoutManifest() {
  json manifest = staticManifest();
  manifest["attention"]["dropout"] = 0.25;
  manifest["attention"]["dims"]["rng_0"] = RngWords;
  addVector(manifest, "rng", "i32", "rng_0");
  return manifest;
}

json flashcore::testing::appendManifest(bool isTurned) {
  json manifest = staticManifest(3, 12);
  json &tensors = manifest["tensors"], &dims = manifest["attention"]["dims"];
  dims["seqlen_new"] = 2;
  tensors[1]["role"] = tensors[2]["role"] = "updated";
  addVector(manifest, "seqused_k", "i32", "batch");
  for (const char *name : {"k", "v"}) {
    json rows = tensors[1];
    rows["name"] = std::string(name) + "_new";
    rows["role"] = "input";
    rows["axes"] = {"batch", "heads_kv", "seqlen_new",
                    *name == 'k' ? "head_dim" : "head_dim_v"};
    rows["strides"] = {64, 32, 16, 1};
    tensors.push_back(std::move(rows));
  }
  if (!isTurned)
    return manifest;
  manifest["attention"]["rotary"] = "half";
  dims["positions"] = nullptr;
  dims["rotary_pairs"] = 4;
  for (const char *name : {"rotary_cos", "rotary_sin"}) {
    json angles = tensor(name, "input", "f16", {"positions", "rotary_pairs"});
    angles["strides"] = {4, 1};
    angles["offset"] = 0;
    angles["alignment"] = 8;
    tensors.push_back(std::move(angles));
  }
  return manifest;
}

json flashcore::testing::varlenManifest(int64_t seqlenQ, int64_t seqlenK,
                                        int64_t sequences, const char *causal,
                                        bool hasSequsedK) {
  json manifest = staticManifest(seqlenQ, seqlenK, causal);
  manifest["attention"]["dims"]["cu_seqlens"] = sequences + 1;
  addVector(manifest, "cu_seqlens_q", "i32", "cu_seqlens");
  addVector(manifest, "cu_seqlens_k", "i32", "cu_seqlens");
  if (!hasSequsedK)
    return manifest;
  manifest["attention"]["dims"]["sequences"] = sequences;
  addVector(manifest, "seqused_k", "i32", "sequences");
  return manifest;
}

/// Moves the keys into pages. The axis `entry` is that of the table's rows.
static void addPages(json &manifest, int64_t pageSize, int64_t pagesPerSequence,
                     int64_t pages, const char *entry) {
  json &dims = manifest["attention"]["dims"], &tensors = manifest["tensors"];
  dims.erase("seqlen_k");
  dims["pages"] = pages;
  dims["page_size"] = pageSize;
  dims["pages_per_sequence"] = pagesPerSequence;
  for (size_t i : {1, 2}) {
    tensors[i]["axes"][0] = "pages";
    tensors[i]["axes"][2] = "page_size";
  }
  json &arguments = manifest["kernels"][0]["arguments"];
  arguments[5]["dim"] = "pages_per_sequence";
  json table =
      tensor("page_table", "input", "i32", {entry, "pages_per_sequence"});
  table["strides"] = {pagesPerSequence, 1};
  table["offset"] = 0;
  table["alignment"] = 4;
  tensors.push_back(std::move(table));
  arguments.push_back({{"kind", "pointer"}, {"tensor", "page_table"}});
  setPtx(manifest, ptxFor(manifest));
}

json flashcore::testing::pagedManifest(int64_t seqlenQ, int64_t pageSize,
                                       int64_t pagesPerSequence, int64_t pages,
                                       int64_t entries, const char *causal) {
  json manifest = staticManifest(seqlenQ, pageSize, causal);
  manifest["attention"]["dims"]["batch"] = entries;
  addPages(manifest, pageSize, pagesPerSequence, pages, "batch");
  return manifest;
}

json flashcore::testing::pagedVarlenManifest(int64_t seqlenQ, int64_t pageSize,
                                             int64_t pagesPerSequence,
                                             int64_t pages, int64_t sequences,
                                             const char *causal) {
  json manifest = staticManifest(seqlenQ, pageSize, causal);
  json &dims = manifest["attention"]["dims"];
  dims["cu_seqlens"] = sequences + 1;
  dims["sequences"] = sequences;
  addPages(manifest, pageSize, pagesPerSequence, pages, "sequences");
  addVector(manifest, "cu_seqlens_q", "i32", "cu_seqlens");
  addVector(manifest, "seqused_k", "i32", "sequences");
  return manifest;
}

/// What setPtx was given, by checksum.
static std::map<std::string, std::string> &ptxTexts() {
  static std::map<std::string, std::string> texts;
  return texts;
}

void flashcore::testing::setPtx(json &manifest, const std::string &text) {
  manifest["ptx"] = code("kernels.ptx", text);
  ptxTexts()[manifest["ptx"]["fnv1a64"]] = text;
}

static std::string parameterFor(const json &kind, const std::string &name) {
  if (kind == "tensor_map")
    return ".param .align 64 .b8 " + name + "[128]";
  return (kind == "pointer" ? ".param .u64 .ptr .align 16 " : ".param .u64 ") +
         name;
}

std::string flashcore::testing::ptxFor(const json &manifest) {
  std::string text;
  for (const json &kernel : manifest["kernels"]) {
    std::string parameters;
    for (const json &argument : kernel["arguments"])
      parameters += (parameters.empty() ? "" : ", ") +
                    parameterFor(argument["kind"],
                                 "p" + std::to_string(parameters.size()));
    text += ".visible .entry " + kernel["name"].get<std::string>() + "(" +
            parameters + ")\n";
  }
  return text;
}

void flashcore::testing::multiplyGrid(json &kernel, const char *factor) {
  kernel["grid"][0] = kernel["grid"][0].get<std::string>() + " * " + factor;
}

/// Moves the parts of `attention` to where a manifest has them.
static void describeOp(json &manifest) {
  auto attention = manifest.find("attention");
  if (attention == manifest.end())
    return;
  json attributes = *attention;
  manifest.erase(attention);
  if (attributes.is_object() && attributes.contains("dims")) {
    manifest["sizes"] = attributes["dims"];
    attributes.erase("dims");
  }
  manifest["ops"] = {{{"op", "attention"}, {"attributes", attributes}}};
}

json flashcore::testing::withVariants(json manifest) {
  if (!manifest.is_object())
    return manifest;
  describeOp(manifest);
  if (manifest.contains("variants"))
    return manifest;
  json variant = json::object();
  for (const char *key :
       {"chip", "assembler", "ptx", "cubins", "values", "workspace", "kernels"})
    if (auto it = manifest.find(key); it != manifest.end()) {
      variant[key] = *it;
      manifest.erase(it);
    }
  manifest["variants"] = json::array({variant});
  return manifest;
}

void flashcore::testing::setPtxOfVariants(json &manifest) {
  std::string text;
  for (const json &variant : manifest["variants"])
    text += ptxFor(variant);
  for (json &variant : manifest["variants"])
    setPtx(variant, text);
}

void flashcore::testing::writeBundle(const std::filesystem::path &directory,
                                     const json &manifest) {
  std::filesystem::create_directories(directory);
  json complete = withVariants(manifest);
  std::string ptx(testPtx);
  json::json_pointer checksum("/variants/0/ptx/fnv1a64");
  if (complete.contains(checksum) && complete[checksum].is_string())
    if (auto it = ptxTexts().find(complete[checksum]); it != ptxTexts().end())
      ptx = it->second;
  EXPECT_TRUE(writeFile(directory / "kernels.ptx", ptx).ok());
  EXPECT_TRUE(writeFile(directory / "kernels.sm_89.cubin", testCubin).ok());
  EXPECT_TRUE(writeFile(directory / "manifest.json", complete.dump(2)).ok());
}

Bundle flashcore::testing::loadTestBundle(const json &manifest) {
  ScratchDirectory scratch;
  json complete = manifest; // with the PTX that the arguments need
  if (ptxFor(manifest) != ptxFor(testManifest()))
    setPtx(complete, ptxFor(manifest));
  writeBundle(scratch.path(), complete);
  StatusOr<Bundle> bundle = Bundle::load(scratch.path());
  EXPECT_EQ(text(bundle), "");
  if (!bundle.ok())
    std::abort();
  // Messages name the directory; a fixed one makes them comparable.
  bundle->directory = "test.fcb";
  return std::move(*bundle);
}

ProblemRequest flashcore::testing::testRequest(int64_t batch, int64_t headsQ,
                                               int64_t headsKV, int64_t seqlenQ,
                                               int64_t seqlenK) {
  ProblemRequest request;
  request.dims = {{"batch", batch},
                  {"heads_q", headsQ},
                  {"heads_kv", headsKV},
                  {"seqlen_q", seqlenQ},
                  {"seqlen_k", seqlenK}};
  return request;
}
