//===- BundleLoaderTest.cpp - Refusals of the bundle loader ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each test changes one thing in a good bundle and compares the whole message.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <atomic>
#include <cstdio>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

static const std::string remedy =
    "\n  note: the file is damaged or was written by another version: compile "
    "the bundle again with this version's flashcore-compile";
static const std::string copyRemedy =
    "\n  note: the file was changed or not copied completely: copy or compile "
    "the bundle again";

namespace {
class BundleLoaderTest : public ::testing::Test {
protected:
  /// What the loader says about `manifest`, without the path of the manifest.
  std::string refusal(const json &manifest) {
    writeBundle(scratch.path(), manifest);
    return load();
  }
  std::string load() {
    std::string message = text(Bundle::load(scratch.path()));
    std::string prefix = scratch.file("");
    for (size_t at; (at = message.find(prefix)) != std::string::npos;)
      message.erase(at, prefix.size());
    return message;
  }
  /// The refusal after the value at `pointer` became `value`.
  std::string refusal(const char *pointer, const json &value) {
    json manifest = testManifest();
    manifest[json::json_pointer(pointer)] = value;
    return refusal(manifest);
  }

  ScratchDirectory scratch;
};
} // namespace

TEST_F(BundleLoaderTest, readsEveryField) {
  Bundle bundle = loadTestBundle();
  EXPECT_EQ(bundle.compiler, "flashcore test");
  EXPECT_EQ(bundle.assembler, "ptxas test");
  EXPECT_EQ(bundle.chip.str(), "sm_80");
  EXPECT_EQ(bundle.ptx.contents, testPtx);
  ASSERT_EQ(bundle.cubins.size(), 1u);
  EXPECT_EQ(bundle.cubins[0].chip.str(), "sm_89");
  EXPECT_EQ(bundle.cubins[0].contents, testCubin);
  EXPECT_EQ(bundle.attention.softmaxScale, 0.25);
  EXPECT_EQ(bundle.attention.mask.causal, Causal::None);
  EXPECT_EQ(bundle.attention.mask.windowLeft, std::nullopt);
  EXPECT_EQ(bundle.attention.mask.windowRight, std::nullopt);
  EXPECT_EQ(bundle.attention.softcap, std::nullopt);
  EXPECT_EQ(bundle.sizes.at("head_dim"), 16);
  EXPECT_EQ(bundle.sizes.at("batch"), std::nullopt);
  ASSERT_EQ(bundle.tensors.size(), 5u);
  EXPECT_EQ(bundle.tensors[4].dtype, DType::F32);
  EXPECT_EQ(bundle.tensors[4].role, TensorSpec::Role::Output);
  EXPECT_EQ(bundle.tensors[0].strides[3], 1);
  EXPECT_EQ(bundle.tensors[0].strides[2], std::nullopt);
  ASSERT_EQ(bundle.kernels.size(), 1u);
  const KernelSpec &kernel = bundle.kernels[0];
  EXPECT_EQ(kernel.grid[0].str(), "(seqlen_q ceildiv 64) * heads_q * batch");
  EXPECT_EQ(kernel.grid[1].str(), "1");
  EXPECT_EQ(kernel.arguments.size(), 8u);
  EXPECT_EQ(kernel.arguments[6].axis, 1u);
  EXPECT_EQ(kernel.resources->registers, 128);
}

TEST_F(BundleLoaderTest, readsKernelsThatShareAWorkspace) {
  Bundle bundle = loadTestBundle(splitManifest());
  ASSERT_EQ(bundle.kernels.size(), 2u);
  EXPECT_EQ(bundle.kernels[1].arguments[1].tensor, "workspace");
  EXPECT_EQ(bundle.workspace[0].bytes.str(),
            "seqlen_q * heads_q * batch * 120");
}

TEST_F(BundleLoaderTest, readsWhatChangesTheScores) {
  json manifest = testManifest();
  manifest["attention"]["window_left"] = 64;
  manifest["attention"]["window_right"] = 0;
  manifest["attention"]["softcap"] = 2.5;
  addBias(manifest, "bf16", {"batch", "1", "1", "seqlen_k"});
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(bundle.attention.mask.windowLeft, 64);
  EXPECT_EQ(bundle.attention.mask.windowRight, 0);
  EXPECT_EQ(bundle.attention.softcap, 2.5);
  const TensorSpec *bias = bundle.findTensor("bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->dtype, DType::BF16);
  EXPECT_EQ(bias->alignment, 2);
  EXPECT_EQ(bias->axes,
            (std::vector<std::string>{"batch", "1", "1", "seqlen_k"}));
  // A softcap may be written as an integer.
  manifest["attention"]["softcap"] = 30;
  EXPECT_EQ(loadTestBundle(manifest).attention.softcap, 30);
}

TEST_F(BundleLoaderTest, acceptsNullWhereNothingWasAssembled) {
  json manifest = testManifest();
  manifest["assembler"] = nullptr;
  manifest["cubins"] = json::array();
  manifest["kernels"][0]["resources"] = nullptr;
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_FALSE(bundle.assembler);
  EXPECT_FALSE(bundle.kernels[0].resources);
}

TEST_F(BundleLoaderTest, acceptsAnAttentionWithoutLse) {
  json manifest = testManifest();
  manifest["tensors"].erase(4);
  manifest["kernels"][0]["arguments"].erase(4);
  EXPECT_EQ(loadTestBundle(manifest).findTensor("lse"), nullptr);
}

// What a reader does not know may change what all else means.
TEST_F(BundleLoaderTest, namesTheKeysThatItDoesNotKnow) {
  for (auto [place, path] :
       {std::pair("/later", "later"),
        {"/variants/0/later", "variants[0].later"},
        {"/ops/0/later", "ops[0].later"},
        {"/ops/0/attributes/later", "ops[0].attributes.later"},
        {"/tensors/1/later", "tensors[1].later"},
        {"/variants/0/kernels/0/later", "variants[0].kernels[0].later"},
        {"/variants/0/kernels/0/arguments/2/later",
         "variants[0].kernels[0].arguments[2].later"}}) {
    json manifest = withVariants(testManifest());
    manifest[json::json_pointer(place)] = 1;
    EXPECT_EQ(refusal(manifest),
              "manifest.json: expects no key '" + std::string(path) +
                  "', which this version does not know" + remedy);
  }
  json manifest = withVariants(testManifest());
  manifest["ops"][0]["op"] = "convolution";
  EXPECT_TRUE(refusal(manifest).starts_with(
      "manifest.json: expects 'ops[0].op' to be 'attention' or "));
  EXPECT_TRUE(
      refusal(manifest).ends_with(", but got \"convolution\"" + remedy));
  manifest["ops"] = json::array();
  EXPECT_EQ(refusal(manifest), "manifest.json: expects 'ops' to be an array of "
                               "at least 1 element, but got an array of 0 "
                               "elements" +
                                   remedy);
}

TEST_F(BundleLoaderTest, readsWhatIsForSomeCallsOnly) {
  Bundle plain = loadTestBundle();
  EXPECT_TRUE(plain.values.empty());
  EXPECT_FALSE(plain.kernels[0].when);

  json manifest = testManifest();
  manifest["kernels"][0]["when"] = "seqlen_q >= 3 and seqlen_q <= 16";
  manifest["values"] = {
      {{"name", "key_splits"}, {"is", "min(32, seqlen_k floordiv 100)"}}};
  Bundle bundle = loadTestBundle(manifest);
  auto launches = [&](int64_t queries) {
    Numbers numbers = {{"seqlen_q", queries}};
    return *bundle.launches(bundle.kernels[0], numbers);
  };
  EXPECT_FALSE(launches(2));
  EXPECT_TRUE(launches(3));
  EXPECT_TRUE(launches(16));
  EXPECT_FALSE(launches(17));
  ASSERT_EQ(bundle.values.size(), 1u);
  EXPECT_EQ(bundle.values[0].name, "key_splits");
}

TEST_F(BundleLoaderTest, refusesExpressionsThatAreNone) {
  const std::string start = "manifest.json: expects 'variants[0].";
  auto noted = [](const std::string &note) { return "\n  note: " + note; };
  EXPECT_EQ(refusal("/kernels/0/when", "seqlen_q <= "),
            start +
                "kernels[0].when' to be an expression of sizes, but got "
                "\"seqlen_q <= \"" +
                noted("expects a number, a name or '(', but got the end in the "
                      "expression 'seqlen_q <= '"));
  EXPECT_EQ(refusal("/kernels/0/grid/1", 3),
            start + "kernels[0].grid[1]' to be a string, but got 3" + remedy);
  EXPECT_EQ(refusal("/values", {{{"name", "batch"}, {"is", "1"}}}),
            start +
                "values[0].name' to be a name that no size and no other "
                "value has, but got \"batch\"" +
                remedy);
  // Only a grid follows the device.
  EXPECT_EQ(refusal("/kernels/0/when", "multiprocessors > 4"),
            start +
                "kernels[0].when' to be an expression of sizes and values "
                "(batch, head_dim, head_dim_v, heads_kv, heads_q, seqlen_k, "
                "seqlen_q), but got \"multiprocessors > 4\"" +
                noted("there is no 'multiprocessors'"));
  EXPECT_TRUE(refusal("/attention/dims/min", 4)
                  .starts_with("manifest.json: expects 'sizes' to be an object "
                               "without the key 'min', which is a word of "
                               "expressions"));
}

TEST_F(BundleLoaderTest, refusesADirectoryWithoutManifest) {
  EXPECT_EQ(load(),
            "manifest.json: cannot read the file: No such file or directory\n"
            "  note: expects a bundle directory, as 'flashcore-compile "
            "--emit=bundle' writes it");
}

TEST_F(BundleLoaderTest, refusesATruncatedManifest) {
  writeBundle(scratch.path(), testManifest());
  scratch.write("manifest.json", "{\n  \"format\": \"flashcore-");
  EXPECT_EQ(load(), "manifest.json: expects JSON, but got a syntax error at "
                    "line 2, column 24\n"
                    "  note: the file ends there: it is truncated");
}

TEST_F(BundleLoaderTest, refusesTextThatIsNoJson) {
  writeBundle(scratch.path(), testManifest());
  scratch.write("manifest.json", "{ format = 1 }");
  EXPECT_EQ(load(), "manifest.json: expects JSON, but got a syntax error at "
                    "line 1, column 4\n"
                    "  note: the file was edited or is no JSON");
}

TEST_F(BundleLoaderTest, refusesANumberTooLargeForADouble) {
  writeBundle(scratch.path(), testManifest());
  scratch.write("manifest.json", "{\"version\": 1e999}");
  EXPECT_EQ(load(), "manifest.json: expects numbers that fit a double, but got "
                    "a larger one\n"
                    "  note: the file was edited or is damaged");
}

TEST_F(BundleLoaderTest, refusesAManifestThatIsNoObject) {
  EXPECT_EQ(refusal(json::array({1, 2})),
            "manifest.json: expects the document to be an object, but got an "
            "array of 2 elements" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesAnotherFormat) {
  EXPECT_EQ(refusal("/format", "zip"),
            "manifest.json: expects 'format' to be 'flashcore-bundle', but got "
            "\"zip\"" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesAnotherVersion) {
  for (int version : {10, 12})
    EXPECT_EQ(
        refusal("/version", version),
        "manifest.json: expects 'version' to be 11, but got " +
            std::to_string(version) +
            "\n  note: this runtime reads version 11: recompile the bundle "
            "with the flashcore-compile of this release");
}

TEST_F(BundleLoaderTest, readsWhatRegionsCapture) {
  json manifest = testManifest();
  json ids = {{"name", "ids"},     {"role", "input"}, {"dtype", "i32"},
              {"axes", {"ids_0"}}, {"strides", {1}},  {"offset", 0},
              {"alignment", 4}};
  manifest["attention"]["dims"]["ids_0"] = 8;
  manifest["tensors"].push_back(ids);
  EXPECT_EQ(refusal(manifest),
            "manifest.json: expects 'tensors[" +
                std::to_string(manifest["tensors"].size() - 1) +
                "].dtype' to be 'f16', 'bf16' or 'f32', but "
                "got \"i32\"" +
                remedy);
  json load = {
      {"op", "load"}, {"type", "i32"}, {"operands", {3}}, {"tensor", "ids"}};
  json same = {{"op", "arith.cmpi"},
               {"type", "i1"},
               {"operands", {5, 5}},
               {"predicate", "eq"}};
  manifest["attention"]["mask"] = {{"values", {load, same}}, {"result", 6}};
  EXPECT_EQ(refusal(manifest), "");
  auto other = [&](const char *key, const json &value) {
    json changed = manifest;
    changed["attention"]["mask"]["values"][0][key] = value;
    return refusal(changed);
  };
  std::string where =
      "manifest.json: expects 'ops[0].attributes.mask.values[0].";
  EXPECT_EQ(other("tensor", "idz"),
            where +
                "tensor' to be the name of a tensor in 'tensors', but got "
                "\"idz\"" +
                remedy);
  EXPECT_EQ(other("operands", {3, 4}),
            where +
                "operands' to be an array of 1 elements, the axes of "
                "'ids', but got an array of 2 elements" +
                remedy);
  EXPECT_EQ(other("type", "index"),
            where + "type' to be 'i32', that of 'ids', but got \"index\"" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesEveryMissingKey) {
  const json complete = testManifest();
  const json nested = withVariants(complete);
  for (const auto &item : complete.items()) {
    json manifest = complete;
    manifest.erase(item.key());
    if (item.key() == "attention")
      continue; // what is made of it is looked at below
    std::string parent = nested.contains(item.key()) ? "" : "variants[0].";
    EXPECT_EQ(refusal(manifest), "manifest.json: expects the key '" + parent +
                                     item.key() + "', but there is none" +
                                     remedy);
  }
  for (const char *key : {"ops", "sizes", "variants"}) {
    json empty = nested;
    empty.erase(key);
    scratch.write("manifest.json", empty.dump());
    EXPECT_EQ(load(), "manifest.json: expects the key '" + std::string(key) +
                          "', but there is none" + remedy);
  }
}

TEST_F(BundleLoaderTest, refusesEveryMissingNestedKey) {
  const std::pair<const char *, const char *> parents[] = {
      {"/attention", "ops[0].attributes"},
      {"/attention/dims", "sizes"},
      {"/tensors/0", "tensors[0]"},
      {"/kernels/0", "variants[0].kernels[0]"},
      {"/kernels/0/arguments/6", "variants[0].kernels[0].arguments[6]"},
      {"/kernels/0/resources", "variants[0].kernels[0].resources"},
      {"/ptx", "variants[0].ptx"},
      {"/cubins/0", "variants[0].cubins[0]"}};
  for (const auto &[parent, path] : parents) {
    json::json_pointer pointer(parent);
    const json complete = testManifest();
    for (const auto &item : complete[pointer].items()) {
      if (item.key() == "dims")
        continue; // stands elsewhere
      json manifest = complete;
      manifest[pointer].erase(item.key());
      std::string message = refusal(manifest);
      EXPECT_EQ(message, "manifest.json: expects the key '" +
                             std::string(path) + "." + item.key() +
                             "', but there is none" + remedy);
    }
  }
}

TEST_F(BundleLoaderTest, refusesWrongTypes) {
  EXPECT_EQ(refusal("/compiler", 7),
            "manifest.json: expects 'compiler' to be a string, but got 7" +
                remedy);
  EXPECT_EQ(refusal("/kernels", "none"),
            "manifest.json: expects 'variants[0].kernels' to be an array, but "
            "got \"none\"" +
                remedy);
  EXPECT_EQ(refusal("/attention/dims/batch", "many"),
            "manifest.json: expects 'sizes.batch' to be an integer or "
            "null, but got \"many\"" +
                remedy);
  EXPECT_EQ(refusal("/attention/softmax_scale", nullptr),
            "manifest.json: expects 'ops[0].attributes.softmax_scale' to be a "
            "number, "
            "but got null" +
                remedy);
  EXPECT_EQ(refusal("/ptx/bytes", 12.5),
            "manifest.json: expects 'variants[0].ptx.bytes' to be an integer "
            "from 0 to 1073741824, but got 12.5" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesWrongValues) {
  EXPECT_EQ(refusal("/chip", "ampere"),
            "manifest.json: expects 'variants[0].chip' to be a chip name such "
            "as 'sm_89' "
            "or 'sm_90a', but got \"ampere\"" +
                remedy);
  EXPECT_EQ(refusal("/attention/causal", "yes"),
            "manifest.json: expects 'ops[0].attributes.causal' to be 'none' or "
            "'bottom_right' or 'top_left', but got \"yes\"" +
                remedy);
  EXPECT_EQ(refusal("/attention/softmax_scale", 0),
            "manifest.json: expects 'ops[0].attributes.softmax_scale' to be a "
            "positive "
            "number, but got 0" +
                remedy);
  EXPECT_EQ(refusal("/attention/dims/batch", -1),
            "manifest.json: expects 'sizes.batch' to be an integer of "
            "at least 0, but got -1" +
                remedy);
  EXPECT_EQ(refusal("/kernels/0/block/0", 2048),
            "manifest.json: expects 'variants[0].kernels[0].block[0]' to be an "
            "integer "
            "from 1 to 1024, but got 2048" +
                remedy);
  EXPECT_EQ(refusal("/kernels/0/arguments/6/axis", 4),
            "manifest.json: expects 'variants[0].kernels[0].arguments[6].axis' "
            "to be an "
            "integer from 0 to 3, but got 4" +
                remedy);
  EXPECT_EQ(refusal("/tensors/0/alignment", 24),
            "manifest.json: expects 'tensors[0].alignment' to be a power of "
            "two that is a multiple of the size of f16, but got 24" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesWrongWindows) {
  for (const char *name : {"window_left", "window_right"}) {
    std::string pointer = "/attention/" + std::string(name);
    std::string start = "manifest.json: expects 'ops[0].attributes." +
                        std::string(name) + "' to be an integer ";
    EXPECT_EQ(refusal(pointer.c_str(), -1),
              start + "of at least 0, but got -1" + remedy);
    EXPECT_EQ(refusal(pointer.c_str(), 1.5),
              start + "or null, but got 1.5" + remedy);
    EXPECT_EQ(refusal(pointer.c_str(), "all"),
              start + "or null, but got \"all\"" + remedy);
    EXPECT_EQ(refusal(pointer.c_str(), uint64_t(1) << 63),
              start + "of at least 0, but got 9223372036854775808" + remedy);
  }
}

/// The manifest with scores, which the kernel takes last.
static json scoresManifest(const char *stage) {
  json manifest = testManifest();
  manifest["tensors"].push_back(
      {{"name", "scores"},
       {"role", "output"},
       {"dtype", "f32"},
       {"axes", {"batch", "heads_q", "seqlen_q", "seqlen_k"}},
       {"strides", {nullptr, nullptr, nullptr, 1}},
       {"offset", 0},
       {"alignment", 4}});
  manifest["attention"]["scores_stage"] = stage;
  return manifest;
}

TEST_F(BundleLoaderTest, readsTheStageOfScores) {
  EXPECT_FALSE(loadTestBundle().attention.scoresStage);
  for (ScoresStage stage :
       {ScoresStage::Scaled, ScoresStage::Capped, ScoresStage::Changed,
        ScoresStage::Masked, ScoresStage::Probabilities}) {
    Bundle bundle =
        loadTestBundle(scoresManifest(std::string(stringify(stage)).c_str()));
    EXPECT_EQ(bundle.attention.scoresStage, stage);
    EXPECT_EQ(bundle.findTensor(operand::Scores)->axes.back(), "seqlen_k");
  }
}

TEST_F(BundleLoaderTest, refusesWrongScores) {
  auto refusalOf = [&](const json &manifest) {
    writeBundle(scratch.path(), manifest);
    return load();
  };
  const std::string start = "manifest.json: expects ";
  json manifest = scoresManifest("all");
  EXPECT_EQ(
      refusalOf(manifest),
      start +
          "'ops[0].attributes.scores_stage' to be 'scaled' or 'capped' or "
          "'changed' or 'masked' or 'probabilities', but got \"all\"" +
          remedy);
  manifest = scoresManifest("masked");
  manifest["attention"].erase("scores_stage");
  EXPECT_EQ(
      refusalOf(manifest),
      start +
          "'tensors' to be an array without 'scores', as 'attributes' has "
          "no 'scores_stage', but got an array of 6 elements" +
          remedy);
  manifest = scoresManifest("masked");
  manifest["tensors"].erase(5);
  EXPECT_EQ(refusalOf(manifest),
            start +
                "'tensors' to be an array with 'scores', as 'attributes' has "
                "'scores_stage', but got an array of 5 elements" +
                remedy);
  manifest = scoresManifest("probabilities");
  manifest["tensors"].erase(4);
  manifest["kernels"][0]["arguments"].erase(4);
  EXPECT_EQ(refusalOf(manifest),
            start +
                "'tensors' to be an array with 'lse' where 'scores' are "
                "probabilities, but got an array of 5 elements" +
                remedy);
  manifest = scoresManifest("masked");
  manifest["tensors"][5]["role"] = "input";
  EXPECT_EQ(refusalOf(manifest),
            start + "'tensors[5].role' to be 'output', but got \"input\"" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesWrongSoftcaps) {
  const std::string start =
      "manifest.json: expects 'ops[0].attributes.softcap' to be a ";
  EXPECT_EQ(refusal("/attention/softcap", 0),
            start + "positive number or null, but got 0" + remedy);
  EXPECT_EQ(refusal("/attention/softcap", -2.5),
            start + "positive number or null, but got -2.5" + remedy);
  EXPECT_EQ(refusal("/attention/softcap", "none"),
            start + "number or null, but got \"none\"" + remedy);
  EXPECT_EQ(refusal("/attention/softcap", false),
            start + "number or null, but got false" + remedy);
}

TEST_F(BundleLoaderTest, refusesANumberThatIsNotFinite) {
  // JSON has no infinity; this is how one would be smuggled in.
  for (const char *name : {"softmax_scale", "softcap"}) {
    writeBundle(scratch.path(), testManifest());
    std::string manifest = *readFile(scratch.file("manifest.json"));
    std::string key = "\"" + std::string(name) + "\": ";
    size_t at = manifest.find(key) + key.size();
    manifest.replace(at, manifest.find_first_of(",\n", at) - at, "1e999");
    scratch.write("manifest.json", manifest);
    EXPECT_EQ(load(), "manifest.json: expects numbers that fit a double, but "
                      "got a larger one\n"
                      "  note: the file was edited or is damaged");
  }
}

TEST_F(BundleLoaderTest, refusesABiasThatFitsNoScores) {
  json manifest = testManifest();
  addBias(manifest);
  auto refusalAt = [&](const char *pointer, const json &value) {
    json changed = manifest;
    changed[json::json_pointer(pointer)] = value;
    return refusal(changed);
  };
  EXPECT_EQ(refusalAt("/tensors/5/role", "output"),
            "manifest.json: expects 'tensors[5].role' to be 'input', but got "
            "\"output\"" +
                remedy);
  EXPECT_EQ(refusalAt("/tensors/5/axes/2", "seqlen_k"),
            "manifest.json: expects 'tensors[5].axes[2]' to be 'seqlen_q' or "
            "'1', but got \"seqlen_k\"" +
                remedy);
  EXPECT_EQ(refusalAt("/tensors/5/axes/1", "heads_kv"),
            "manifest.json: expects 'tensors[5].axes[1]' to be 'heads_q' or "
            "'1', but got \"heads_kv\"" +
                remedy);
  manifest["tensors"][5]["axes"] = {"seqlen_q", "seqlen_k"};
  manifest["tensors"][5]["strides"] = {nullptr, nullptr};
  EXPECT_EQ(refusal(manifest),
            "manifest.json: expects 'tensors[5].axes' to be an array of 4 "
            "elements, but got an array of 2 elements" +
                remedy);
}

TEST_F(BundleLoaderTest, readsSinksAndLengths) {
  json manifest = testManifest();
  manifest["attention"]["dims"]["cu_seqlens"] = nullptr;
  manifest["attention"]["dims"]["entries"] = nullptr;
  addVector(manifest, "sink_logits", "f32", "heads_q");
  addVector(manifest, "cu_seqlens_q", "i32", "cu_seqlens");
  addVector(manifest, "cu_seqlens_k", "i32", "cu_seqlens");
  addVector(manifest, "seqused_k", "i32", "entries");
  manifest["kernels"][0]["grid"][0] = "(seqlen_q ceildiv 64) + cu_seqlens";
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_TRUE(bundle.hasCuSeqlens());
  EXPECT_TRUE(bundle.hasLengths());
  EXPECT_EQ(bundle.sequencesDim(), "entries");
  EXPECT_EQ(bundle.kernels[0].grid[0].names(),
            (std::vector<std::string>{"seqlen_q", "cu_seqlens"}));
  EXPECT_EQ(bundle.findTensor(operand::SequsedK)->dtype, DType::I32);

  manifest = testManifest();
  addVector(manifest, "seqused_k", "i32", "batch");
  bundle = loadTestBundle(manifest);
  EXPECT_FALSE(bundle.hasCuSeqlens());
  EXPECT_TRUE(bundle.hasLengths());
  EXPECT_EQ(bundle.sequencesDim(), "");
  EXPECT_FALSE(loadTestBundle().hasLengths());
}

TEST_F(BundleLoaderTest, refusesADropoutThatIsNone) {
  json manifest = dropoutManifest();
  auto refusalAt = [&](const char *pointer, const json &value) {
    json changed = manifest;
    changed[json::json_pointer(pointer)] = value;
    std::string message = refusal(changed);
    return message.substr(0, message.find(remedy));
  };
  const std::string prefix = "manifest.json: expects 'tensors[5]";
  for (double share : {0.0, 1.0, -0.5})
    EXPECT_EQ(refusalAt("/attention/dropout", share),
              "manifest.json: expects 'ops[0].attributes.dropout' to be a "
              "number from "
              "2^-17 to below 1 - 2^-17, but got " +
                  json(share).dump());
  EXPECT_EQ(refusalAt("/attention/dims/rng_0", 2),
            "manifest.json: expects 'sizes.rng_0' to be 4, the words "
            "of seed and offset, but got 2");
  EXPECT_EQ(refusalAt("/attention/dims/rng_0", nullptr),
            "manifest.json: expects 'sizes.rng_0' to be 4, the words "
            "of seed and offset, but got null");
  EXPECT_EQ(refusalAt("/tensors/5/dtype", "f32"),
            prefix + ".dtype' to be 'i32', but got \"f32\"");
  EXPECT_EQ(refusalAt("/tensors/5/role", "output"),
            prefix + ".role' to be 'input', but got \"output\"");
  EXPECT_EQ(refusalAt("/tensors/5/axes/0", "batch"),
            prefix + ".axes[0]' to be the name of a size of its own, of 4, but "
                     "got \"batch\"");
  EXPECT_EQ(refusalAt("/tensors/5/name", "other"),
            "manifest.json: expects 'tensors' to be an array with 'rng', as "
            "'attributes' has 'dropout', but got an array of 6 elements");
  manifest["attention"].erase("dropout");
  EXPECT_EQ(refusalAt("/attention/dims/batch", 1),
            "manifest.json: expects 'tensors' to be an array without 'rng', as "
            "'attributes' has no 'dropout', but got an array of 6 elements");
}

TEST_F(BundleLoaderTest, readsAnAppend) {
  Bundle bundle = loadTestBundle(appendManifest(/*isTurned=*/true));
  EXPECT_TRUE(bundle.appends());
  EXPECT_EQ(bundle.findTensor("k")->role, TensorSpec::Role::Updated);
  EXPECT_EQ(bundle.attention.rotary, RotaryStyle::Half);
  bundle = loadTestBundle(appendManifest(/*isTurned=*/false));
  EXPECT_TRUE(bundle.appends());
  EXPECT_FALSE(bundle.attention.rotary);
  EXPECT_FALSE(loadTestBundle(staticManifest()).appends());
}

TEST_F(BundleLoaderTest, refusesAnAppendThatIsNone) {
  json manifest = appendManifest(/*isTurned=*/true);
  auto refusalAt = [&](const char *pointer, const json &value) {
    json changed = manifest;
    changed[json::json_pointer(pointer)] = value;
    std::string message = refusal(changed);
    return message.substr(0, message.find(remedy));
  };
  const std::string prefix = "manifest.json: expects ";
  EXPECT_EQ(refusalAt("/tensors/1/role", "input"),
            prefix + "'tensors[1].role' to be 'updated', as rows are appended "
                     "to it, but got \"input\"");
  EXPECT_EQ(refusalAt("/tensors/6/role", "updated"),
            prefix + "'tensors[6].role' to be 'input', but got \"updated\"");
  EXPECT_EQ(refusalAt("/tensors/7/name", "other"),
            prefix + "'tensors' to be an array with both of 'k_new' and "
                     "'v_new', or neither of them, but got an array of 10 "
                     "elements");
  EXPECT_EQ(refusalAt("/tensors/6/dtype", "bf16"),
            prefix + "'tensors[6].dtype' to be 'f16', that of 'q', but got "
                     "\"bf16\"");
  EXPECT_EQ(refusalAt("/tensors/8/axes/0", "seqlen_k"),
            prefix + "'tensors[8].axes[0]' to be 'positions', but got "
                     "\"seqlen_k\"");
  EXPECT_EQ(refusalAt("/tensors/9/name", "other"),
            prefix + "'tensors' to be an array with 'rotary_sin', as "
                     "'attributes' has 'rotary', but got an array of 10 "
                     "elements");
  EXPECT_EQ(refusalAt("/attention/dims/rotary_pairs", 9),
            prefix + "'sizes.rotary_pairs' to be an integer from 1 to "
                     "8, but got 9");
  EXPECT_EQ(refusalAt("/attention/rotary", "quarter"),
            prefix +
                "'ops[0].attributes.rotary' to be 'interleaved' or 'half', but "
                "got \"quarter\"");
  manifest = appendManifest(/*isTurned=*/false);
  manifest["tensors"].erase(5);
  EXPECT_EQ(refusalAt("/attention/dims/batch", 1),
            prefix + "'tensors' to be an array with 'seqused_k' where there is "
                     "'k_new', but got an array of 7 elements");
}

TEST_F(BundleLoaderTest, refusesCopiesOfNothing) {
  json manifest = appendManifest(/*isTurned=*/true);
  json &arguments = manifest["kernels"][0]["arguments"];
  arguments = json::array({{{"kind", "pointer"},
                            {"tensor", "workspace"},
                            {"copy_of", "q"},
                            {"row", 16}},
                           {{"kind", "tensor_map"},
                            {"tensor", "workspace"},
                            {"copy_of", "q"},
                            {"row", 16},
                            {"box", {1, 1, 8, 16}},
                            {"swizzle", 32}}});
  setPtx(manifest, ptxFor(manifest));
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(bundle.kernels[0].arguments[1].copyOf, "q");
  EXPECT_EQ(bundle.kernels[0].arguments[1].copyRow, 16);
  auto refusalAt = [&](const char *pointer, const json &value) {
    json changed = manifest;
    changed["kernels"][0]["arguments"][json::json_pointer(pointer)] = value;
    std::string message = refusal(changed);
    return message.substr(0, message.find(remedy));
  };
  const std::string prefix =
      "manifest.json: expects 'variants[0].kernels[0].arguments[";
  EXPECT_EQ(refusalAt("/0/tensor", "k"),
            prefix + "0].tensor' to be 'workspace' beside 'copy_of', but got "
                     "\"k\"");
  EXPECT_EQ(refusalAt("/0/copy_of", "seqused_k"),
            prefix + "0].copy_of' to be a tensor of rows, but got "
                     "\"seqused_k\"");
  EXPECT_EQ(refusalAt("/0/row", 15),
            prefix + "0].row' to be an integer from 16 to 65536, but got 15");
  EXPECT_EQ(refusalAt("/1/row", 17),
            prefix + "1].row' to be rows of a multiple of 16 bytes, but got "
                     "17");
  manifest["kernels"][0]["arguments"][1].erase("copy_of");
  EXPECT_EQ(refusalAt("/0/row", 16),
            prefix + "1].tensor' to be the name of a tensor in 'tensors' (q, "
                     "k, v, o, lse, seqused_k, k_new, v_new, rotary_cos, "
                     "rotary_sin), but got \"workspace\"");
}

TEST_F(BundleLoaderTest, refusesSinksAndLengthsThatAreNone) {
  json manifest = varlenManifest(32, 48, 3, "none", true);
  addVector(manifest, "sink_logits", "f32", "heads_q");
  auto refusalAt = [&](const char *pointer, const json &value) {
    json changed = manifest;
    changed[json::json_pointer(pointer)] = value;
    std::string message = refusal(changed);
    return message.substr(0, message.find(remedy));
  };
  const std::string prefix = "manifest.json: expects 'tensors[";
  EXPECT_EQ(refusalAt("/tensors/8/dtype", "f16"),
            prefix + "8].dtype' to be 'f32', but got \"f16\"");
  EXPECT_EQ(refusalAt("/tensors/8/role", "output"),
            prefix + "8].role' to be 'input', but got \"output\"");
  EXPECT_EQ(refusalAt("/tensors/8/axes/0", "heads_kv"),
            prefix + "8].axes[0]' to be 'heads_q', but got \"heads_kv\"");
  EXPECT_EQ(refusalAt("/tensors/5/dtype", "f32"),
            prefix + "5].dtype' to be 'i32', but got \"f32\"");
  EXPECT_EQ(refusalAt("/tensors/6/axes/0", "batch"),
            prefix + "6].axes[0]' to be 'cu_seqlens', but got \"batch\"");
  EXPECT_EQ(refusalAt("/tensors/7/axes/0", "batch"),
            prefix + "7].axes[0]' to be the name of a size of its own, one "
                     "less than 'cu_seqlens', but got \"batch\"");
  EXPECT_EQ(refusalAt("/tensors/7/axes", json::array({"1", "sequences"})),
            "manifest.json: expects 'tensors[7].strides' to be an array of 2 "
            "elements, one an axis, but got an array of 1 elements");
  EXPECT_EQ(refusalAt("/tensors/6/name", "other"),
            "manifest.json: expects 'tensors' to be an array with both of "
            "'cu_seqlens_q' and 'cu_seqlens_k', or neither of them, but got an "
            "array of 9 elements");
  EXPECT_EQ(refusalAt("/attention/dims/batch", 2),
            "manifest.json: expects 'sizes.batch' to be 1 or null, of "
            "sequences one after another, but got 2");
  EXPECT_EQ(refusalAt("/attention/dims/cu_seqlens", 0),
            "manifest.json: expects 'sizes.cu_seqlens' to be at least "
            "1, one more than there are sequences, but got 0");
  EXPECT_EQ(refusalAt("/attention/dims/sequences", 4),
            "manifest.json: expects 'sizes.sequences' to be 3, one "
            "less than 'cu_seqlens', but got 4");
  EXPECT_EQ(
      refusalAt("/kernels/0/grid/0", "seqlen_q + total"),
      "manifest.json: expects 'variants[0].kernels[0].grid[0]' to be an "
      "expression of sizes and values (batch, cu_seqlens, head_dim, "
      "head_dim_v, heads_kv, heads_q, seqlen_k, seqlen_q, sequences), but "
      "got \"seqlen_q + total\"\n  note: there is no 'total'");
  manifest = testManifest();
  manifest["attention"]["dims"]["cu_seqlens"] = 4;
  EXPECT_EQ(refusal(manifest),
            "manifest.json: expects 'sizes' to be an object without "
            "the key 'cu_seqlens', which is that of 'cu_seqlens_q', but got an "
            "object of 8 keys" +
                remedy);
}

TEST_F(BundleLoaderTest, onlyABiasHasBroadcastAxes) {
  EXPECT_EQ(refusal("/tensors/1/axes/1", "1"),
            "manifest.json: expects 'tensors[1].axes' to be the axes batch, "
            "head_dim, heads_kv, seqlen_k in any order, but got an array of 4 "
            "elements" +
                remedy);
  EXPECT_EQ(refusal("/attention/dims/1", 1),
            "manifest.json: expects 'sizes' to be an object without "
            "the key '1', which names broadcast axes, but got an object of 8 "
            "keys" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesWrongLengths) {
  EXPECT_EQ(refusal("/kernels/0/grid", json::array()),
            "manifest.json: expects 'variants[0].kernels[0].grid' to be an "
            "array of 3 "
            "elements, but got an array of 0 elements" +
                remedy);
  EXPECT_EQ(refusal("/kernels/0/block", json::array({1})),
            "manifest.json: expects 'variants[0].kernels[0].block' to be an "
            "array of 3 "
            "elements, but got an array of 1 elements" +
                remedy);
  EXPECT_EQ(refusal("/tensors/4/strides", json::array({1})),
            "manifest.json: expects 'tensors[4].strides' to be an array of 3 "
            "elements, one an axis, but got an array of 1 elements" +
                remedy);
  EXPECT_EQ(refusal("/kernels", json::array()),
            "manifest.json: expects 'variants[0].kernels' to be an array of at "
            "least one "
            "kernel, but got an array of 0 elements" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesUnknownNames) {
  const std::string dims =
      "the name of a size in 'sizes' or 'values' (batch, head_dim, head_dim_v, "
      "heads_kv, heads_q, seqlen_k, seqlen_q)";
  const std::string numbers =
      "an expression of sizes and values (batch, head_dim, head_dim_v, "
      "heads_kv, heads_q, seqlen_k, seqlen_q)";
  EXPECT_EQ(refusal("/kernels/0/grid/0", "rows * 2"),
            "manifest.json: expects 'variants[0].kernels[0].grid[0]' to be " +
                numbers + ", but got \"rows * 2\"\n  note: there is no 'rows'");
  EXPECT_EQ(refusal("/tensors/0/axes/1", "heads"),
            "manifest.json: expects 'tensors[0].axes[1]' to be " + dims +
                ", but got \"heads\"" + remedy);
  EXPECT_EQ(refusal("/kernels/0/arguments/5/dim", "n"),
            "manifest.json: expects 'variants[0].kernels[0].arguments[5].dim' "
            "to be " +
                dims + ", but got \"n\"" + remedy);
  EXPECT_EQ(refusal("/workspace", {{{"bytes", "n"}}}),
            "manifest.json: expects 'variants[0].workspace[0].bytes' to be " +
                numbers + ", but got \"n\"\n  note: there is no 'n'");
  EXPECT_EQ(refusal("/kernels/0/arguments/0/tensor", "x"),
            "manifest.json: expects "
            "'variants[0].kernels[0].arguments[0].tensor' to be the "
            "name of a tensor in 'tensors' (q, k, v, o, lse), but got \"x\"" +
                remedy);
  EXPECT_EQ(
      refusal("/kernels/0/arguments/0/kind", "scalar"),
      "manifest.json: expects 'variants[0].kernels[0].arguments[0].kind' to be "
      "'pointer' or 'size' or 'stride' or 'offset' or 'tensor_map', but got "
      "\"scalar\"" +
          remedy);
}

TEST_F(BundleLoaderTest, comparesTheArgumentsWithTheLaunchOfThePtx) {
  auto withLaunch = [](const json &launch) {
    json manifest = testManifest();
    setPtx(manifest, "// By hand\n// flashcore-launch: " + launch.dump() +
                         "\n" + std::string(testPtx));
    return manifest;
  };
  // What the manifest has in the place of what the launch has.
  auto refusalOf = [&](const char *pointer, const json &value) {
    json launch = {{"kernels", testManifest()["kernels"]}};
    launch[json::json_pointer(pointer)] = value;
    return refusal(withLaunch(launch));
  };
  const std::string start =
      "manifest.json: expects 'variants[0].kernels[0].arguments";
  const std::string where = ", as in the launch that kernels.ptx describes, ";
  EXPECT_EQ(refusal(withLaunch({{"kernels", testManifest()["kernels"]}})), "");
  EXPECT_EQ(refusalOf("/kernels/0/name", "another"), "");
  EXPECT_EQ(refusalOf("/kernels/0/arguments/5/dim", "seqlen_q"),
            start + "[5].dim' to be 'seqlen_q'" + where +
                "but got \"seqlen_k\"" + remedy);
  EXPECT_EQ(refusalOf("/kernels/0/arguments/1/tensor", "q"),
            start + "[1].tensor' to be 'q'" + where + "but got \"k\"" + remedy);
  EXPECT_EQ(refusalOf("/kernels/0/arguments/6/axis", 2),
            start + "[6].axis' to be 2" + where + "but got 1" + remedy);
  EXPECT_EQ(refusalOf("/kernels/0/arguments/6/kind", "offset"),
            start + "[6].kind' to be 'offset'" + where + "but got \"stride\"" +
                remedy);
  EXPECT_EQ(refusalOf("/kernels/0/arguments", json::array()),
            start + "' to be an array of 0 elements" + where +
                "but got an array of 8 elements" + remedy);
  EXPECT_EQ(refusalOf("/kernels", 7),
            "kernels.ptx: flashcore-launch: expects 'kernels' to be an array, "
            "but got 7\n  note: compile the bundle again");
}

TEST_F(BundleLoaderTest, refusesTensorsThatMakeNoAttention) {
  EXPECT_EQ(refusal("/tensors/1/name", "q"),
            "manifest.json: expects 'tensors[1].name' to be a name that no "
            "other tensor has, but got \"q\"" +
                remedy);
  EXPECT_EQ(refusal("/tensors/1/name", "key"),
            "manifest.json: expects 'tensors' to be an array with a tensor "
            "named 'k', but got an array of 5 elements" +
                remedy);
  EXPECT_EQ(refusal("/tensors/1/axes/1", "heads_q"),
            "manifest.json: expects 'tensors[1].axes' to be the axes batch, "
            "head_dim, heads_kv, seqlen_k in any order, but got an array of 4 "
            "elements" +
                remedy);
  EXPECT_EQ(refusal("/tensors/3/role", "input"),
            "manifest.json: expects 'tensors[3].role' to be 'output', but got "
            "\"input\"" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesAFileOutsideTheBundle) {
  EXPECT_EQ(refusal("/ptx/file", "../kernels.ptx"),
            "manifest.json: expects 'variants[0].ptx.file' to be the name of a "
            "file in the bundle, of letters, digits, '_', '-' and '.', but got "
            "\"../kernels.ptx\"" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesNamesThatAreNoPlainNames) {
  const std::string file =
      "manifest.json: expects 'variants[0].cubins[0]"
      ".file' to be the name of a file in the bundle, of letters, digits, "
      "'_', '-' and '.', but got ";
  for (const char *name : {"", ".", "..", ".hidden", "a/b", "/etc/passwd",
                           "a\\b", "a\nb", "a b", "\x1b[2J", "k\u00e9y"})
    EXPECT_EQ(refusal("/cubins/0/file", name),
              file + json(name).dump() + remedy);
  for (const char *what : {"kernels", "tensors"})
    for (const char *name : {"", "a\x1b]0;", "a-b", "a\nb"}) {
      std::string path =
          (*what == 'k' ? "variants[0]." : "") + std::string(what) + "[0].name";
      EXPECT_EQ(refusal(("/" + std::string(what) + "/0/name").c_str(), name),
                "manifest.json: expects '" + path +
                    "' to be a name of letters, digits, '_', '$' and '%', but "
                    "got " +
                    json(name).dump() + remedy);
    }
  EXPECT_EQ(refusal("/attention/dims/\x1b[2J", 1),
            "manifest.json: expects 'sizes' to be an object whose "
            "keys are names of letters, digits, '_', '$' and '%', but got an "
            "object of 8 keys" +
                remedy);
}

TEST_F(BundleLoaderTest, refusesTextThatMovesTheCursor) {
  for (const char *key : {"compiler", "assembler"})
    EXPECT_EQ(refusal(("/" + std::string(key)).c_str(), "a\x1b[2J"),
              "manifest.json: expects '" +
                  std::string(*key == 'a' ? "variants[0]." : "") + key +
                  "' to be printable ASCII text, but got "
                  "\"a\\u001b[2J\"" +
                  remedy);
}

TEST_F(BundleLoaderTest, refusesSizesThatNoChipHas) {
  const std::string resources = "/kernels/0/resources/";
  for (const auto &[key, max] :
       {std::pair("registers", 1 << 16), std::pair("spill_stores", 1 << 30),
        std::pair("spill_loads", 1 << 30),
        std::pair("static_shared_memory", 1 << 24)})
    EXPECT_EQ(refusal((resources + key).c_str(), INT64_MAX),
              "manifest.json: expects 'variants[0].kernels[0].resources." +
                  std::string(key) + "' to be an integer from 0 to " +
                  std::to_string(max) + ", but got 9223372036854775807" +
                  remedy);
}

TEST_F(BundleLoaderTest, refusesFilesThatLeadAwayOrNeverEnd) {
  const std::string link =
      "expects a file, but got a link\n"
      "  note: a link may lead anywhere: put the file itself there";
  for (const char *name : {"manifest.json", "kernels.ptx"}) {
    writeBundle(scratch.path() / "real", testManifest());
    writeBundle(scratch.path(), testManifest());
    std::filesystem::remove(scratch.file(name));
    std::filesystem::create_symlink("real/" + std::string(name),
                                    scratch.file(name));
    EXPECT_TRUE(load().starts_with(std::string(name) + ": " + link)) << load();
    std::filesystem::remove(scratch.file(name));
    ASSERT_EQ(mkfifo(scratch.file(name).c_str(), 0600), 0);
    EXPECT_TRUE(load().starts_with(std::string(name) +
                                   ": expects a file, but got a pipe"))
        << load();
    std::filesystem::remove(scratch.file(name));
  }
}

TEST_F(BundleLoaderTest, refusesAHugeManifest) {
  writeBundle(scratch.path(), testManifest());
  std::filesystem::resize_file(scratch.file("manifest.json"), 1 << 30);
  EXPECT_EQ(load(),
            "manifest.json: expects at most 67108864 bytes, but got 1073741824"
            "\n  note: expects a bundle directory, as 'flashcore-compile "
            "--emit=bundle' writes it");
}

/// Puts a copy of `bundle` in the place of `path`, as the compiler does.
static void replaceBundle(const std::filesystem::path &bundle,
                          const std::filesystem::path &path) {
  std::filesystem::path copy = path.string() + ".tmp";
  std::filesystem::copy(bundle, copy);
  ASSERT_EQ(renameat2(AT_FDCWD, copy.c_str(), AT_FDCWD, path.c_str(),
                      RENAME_EXCHANGE),
            0);
  std::filesystem::remove_all(copy);
}

TEST_F(BundleLoaderTest, readsOneBundleWholeWhileItIsReplaced) {
  writeBundle(scratch.path() / "a", testManifest());
  json other = testManifest();
  setPtx(other, std::string(testPtx) + "// another\n");
  writeBundle(scratch.path() / "b", other);
  std::filesystem::path path = scratch.path() / "x.fcb";
  std::filesystem::copy(scratch.path() / "a", path);
  std::atomic<bool> isDone = false;
  std::thread writer([&] {
    for (int i = 0; !isDone; ++i)
      replaceBundle(scratch.path() / (i % 2 ? "a" : "b"), path);
  });
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(text(Bundle::load(path)), "");
  isDone = true;
  writer.join();
}

TEST_F(BundleLoaderTest, refusesAMissingFile) {
  EXPECT_EQ(refusal("/ptx/file", "other.ptx"),
            "other.ptx: cannot read the file: No such file or directory");
}

TEST_F(BundleLoaderTest, refusesAShortFile) {
  writeBundle(scratch.path(), testManifest());
  scratch.write("kernels.ptx", testPtx.substr(0, 5));
  EXPECT_EQ(load(), "kernels.ptx: expects " + std::to_string(testPtx.size()) +
                        " bytes, as manifest.json says, but got 5" +
                        copyRemedy);
}

TEST_F(BundleLoaderTest, refusesAChangedFile) {
  writeBundle(scratch.path(), testManifest());
  scratch.write("kernels.sm_89.cubin", "Test cubin");
  EXPECT_EQ(load(), "kernels.sm_89.cubin: expects the FNV-1a checksum " +
                        toHex(fnv1a64("test cubin")) +
                        ", as manifest.json says, but got " +
                        toHex(fnv1a64("Test cubin")) + copyRemedy);
}

TEST_F(BundleLoaderTest, refusesAMalformedChecksum) {
  EXPECT_EQ(refusal("/ptx/fnv1a64", "12"),
            "manifest.json: expects 'variants[0].ptx.fnv1a64' to be 16 "
            "hexadecimal digits, "
            "but got \"12\"" +
                remedy);
}

TEST(ChecksumTest, isFnv1a) {
  // From the authors' list of test vectors.
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

TEST(ChipTest, parsesNamesAndRefusesOthers) {
  EXPECT_EQ(parseChip("sm_90a")->str(), "sm_90a");
  EXPECT_EQ(parseChip("sm_120")->major(), 12);
  for (const char *name : {"", "sm_", "sm_9x", "sm_90ab", "compute_80", "sm_7"})
    EXPECT_EQ(text(parseChip(name)),
              "expects a chip name such as 'sm_89' or 'sm_90a', but got '" +
                  std::string(name) + "'");
}

/// A device of a compute capability, with so much shared memory a block.
static DeviceInfo deviceOf(int number, int64_t sharedBytes = 227 * 1024) {
  DeviceInfo device;
  device.name = "GPU";
  device.chip.number = number;
  device.limits.sharedMemoryPerBlock = sharedBytes;
  device.limits.threadsPerBlock = 1024;
  device.limits.block = {1024, 1024, 64};
  return device;
}

/// Variants for sm_80 with a cubin for sm_86, and for sm_90.
static json twoVariants() {
  json manifest = withVariants(testManifest());
  manifest["variants"][0]["cubins"][0]["chip"] = "sm_86";
  json newer = manifest["variants"][0];
  newer["chip"] = "sm_90";
  newer["cubins"] = json::array();
  newer["assembler"] = nullptr;
  newer["kernels"][0]["name"] = "attention_sm_90";
  newer["kernels"][0]["resources"] = nullptr;
  newer["workspace"] = {{{"bytes", "4"}}};
  manifest["variants"].push_back(newer);
  setPtxOfVariants(manifest);
  return manifest;
}

TEST_F(BundleLoaderTest, keepsTheVariantOfTheDevice) {
  writeBundle(scratch.path(), twoVariants());
  auto chipFor = [&](int number) {
    DeviceInfo device = deviceOf(number);
    return Bundle::load(scratch.path(), &device)->chip.str();
  };
  EXPECT_EQ(chipFor(90), "sm_90");
  EXPECT_EQ(chipFor(120), "sm_90");
  EXPECT_EQ(chipFor(89), "sm_80");
  EXPECT_EQ(chipFor(86), "sm_80"); // for its cubin
  // What runs wherever any variant does, and what no error can name better.
  EXPECT_EQ(Bundle::load(scratch.path())->chip.str(), "sm_80");
  EXPECT_EQ(chipFor(75), "sm_80");
}

TEST_F(BundleLoaderTest, ordersVariantsForADevice) {
  json manifest = twoVariants(), ofOneChip = manifest["variants"][1];
  ofOneChip["chip"] = "sm_90a";
  manifest["variants"].insert(manifest["variants"].begin(), ofOneChip);
  writeBundle(scratch.path(), manifest);
  std::vector<Bundle> variants = *Bundle::loadVariants(scratch.path());
  auto order = [&](const DeviceInfo &device) {
    std::string names;
    for (size_t i : orderVariants(variants, device))
      names += variants[i].chip.str() + " ";
    return names;
  };
  EXPECT_EQ(order(deviceOf(90)), "sm_90a sm_90 sm_80 ");
  EXPECT_EQ(order(deviceOf(100)), "sm_90 sm_80 ");
  EXPECT_EQ(order(deviceOf(86)), "sm_80 ");
  EXPECT_EQ(order(deviceOf(75)), "");
  variants[1].cubins[0].chip = {90, 0};
  EXPECT_EQ(order(deviceOf(90)), "sm_80 sm_90a sm_90 ");
}

// A newer chip may have less shared memory than an older one: 12.0 than 9.0.
TEST_F(BundleLoaderTest, passesOverVariantsThatADeviceHasNoRoomFor) {
  writeBundle(scratch.path(), twoVariants());
  std::vector<Bundle> variants = *Bundle::loadVariants(scratch.path());
  variants[1].kernels[0].dynamicSharedMemory = 192 * 1024;
  DeviceInfo large = deviceOf(100), small = deviceOf(120, 99 * 1024);
  EXPECT_EQ(chooseVariant(variants, &large), 1u);
  EXPECT_EQ(chooseVariant(variants, &small), 0u);
  EXPECT_EQ(orderVariants(variants, small), std::vector<size_t>{0});
  // Nor is a cubin for the chip a reason.
  variants[1].cubins = {{{120, 0}, "kernels.sm_120.cubin", ""}};
  EXPECT_EQ(chooseVariant(variants, &small), 0u);
  small.limits.threadsPerBlock = 64;
  EXPECT_TRUE(orderVariants(variants, small).empty());
}

TEST_F(BundleLoaderTest, theEmulatorRunsWhatNoDeviceOfItsChipDoes) {
  json manifest = twoVariants();
  manifest["variants"][0]["chip"] = "sm_120";
  writeBundle(scratch.path(), manifest);
  std::vector<Bundle> variants = *Bundle::loadVariants(scratch.path());
  DeviceInfo emulator = deviceOf(90);
  EXPECT_EQ(orderVariants(variants, emulator), std::vector<size_t>{1});
  EXPECT_FALSE(chooseCode(variants[0], emulator).ok());
  emulator.runsEveryChip = true;
  EXPECT_EQ(orderVariants(variants, emulator), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(chooseCode(variants[0], emulator)->str(), "PTX sm_120");
}

TEST_F(BundleLoaderTest, prefersACubinToANewerVariant) {
  json manifest = twoVariants();
  manifest["variants"][0]["cubins"][0]["chip"] = "sm_100";
  writeBundle(scratch.path(), manifest);
  DeviceInfo device = deviceOf(100);
  EXPECT_EQ(Bundle::load(scratch.path(), &device)->chip.str(), "sm_80");
}

TEST_F(BundleLoaderTest, prefersTheVariantOfOneChip) {
  // For 9.0 alone, for 9.0 and newer, and for 8.9 and newer.
  auto chipFor = [&](std::vector<const char *> chips, int number,
                     const char *cubin = nullptr) {
    json manifest = twoVariants(), newer = manifest["variants"][1];
    manifest["variants"] = json::array();
    for (const char *chip : chips) {
      newer["chip"] = chip;
      newer["cubins"] = json::array();
      if (cubin) {
        newer["cubins"] = twoVariants()["variants"][0]["cubins"];
        newer["cubins"][0]["chip"] = cubin;
      }
      manifest["variants"].push_back(newer);
    }
    writeBundle(scratch.path(), manifest);
    DeviceInfo device = deviceOf(number);
    StatusOr<Bundle> bundle = Bundle::load(scratch.path(), &device);
    EXPECT_EQ(text(bundle), "");
    return bundle->chip.str();
  };
  EXPECT_EQ(chipFor({"sm_89", "sm_90a"}, 90), "sm_90a");
  EXPECT_EQ(chipFor({"sm_90a", "sm_89"}, 90), "sm_90a");
  EXPECT_EQ(chipFor({"sm_89", "sm_90a"}, 100), "sm_89");
  EXPECT_EQ(chipFor({"sm_89", "sm_90a"}, 89), "sm_89");
  EXPECT_EQ(chipFor({"sm_89", "sm_90a"}, 80), "sm_89");
  for (const char *cubin : {(const char *)nullptr, "sm_90", "sm_90a"}) {
    EXPECT_EQ(chipFor({"sm_90", "sm_90a"}, 90, cubin), "sm_90a");
    EXPECT_EQ(chipFor({"sm_90a", "sm_90"}, 90, cubin), "sm_90a");
    EXPECT_EQ(chipFor({"sm_90a", "sm_90"}, 100, cubin), "sm_90");
  }
}

TEST_F(BundleLoaderTest, variantsShareAllButCodeAndLaunches) {
  writeBundle(scratch.path(), twoVariants());
  std::vector<Bundle> variants = *Bundle::loadVariants(scratch.path());
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0].tensors.size(), variants[1].tensors.size());
  EXPECT_EQ(variants[1].attention.softmaxScale, 0.25);
  EXPECT_EQ(variants[0].kernels[0].name, "attention");
  EXPECT_EQ(variants[1].kernels[0].name, "attention_sm_90");
  EXPECT_TRUE(variants[0].workspace.empty());
  EXPECT_EQ(variants[1].workspace.size(), 1u);
  EXPECT_EQ(variants[0].cubins.size(), 1u);
  EXPECT_TRUE(variants[1].cubins.empty());
  EXPECT_EQ(variants[1].assembler, std::nullopt);
}

TEST_F(BundleLoaderTest, refusesVariantsOfOneChip) {
  json manifest = twoVariants();
  manifest["variants"][1]["chip"] = "sm_80";
  EXPECT_EQ(refusal(manifest),
            "manifest.json: expects 'variants[1].chip' to be a chip that no "
            "other variant has, but got \"sm_80\"" +
                remedy);
  manifest["variants"] = json::array();
  EXPECT_EQ(refusal(manifest),
            "manifest.json: expects 'variants' to be an array of at least one "
            "variant, but got an array of 0 elements" +
                remedy);
}

TEST(ChooseCodeTest, prefersTheCubinAndFallsBackToPtx) {
  Bundle bundle = loadTestBundle();
  EXPECT_EQ(chooseCode(bundle, deviceOf(89))->str(), "cubin sm_89");
  EXPECT_EQ(chooseCode(bundle, deviceOf(80))->str(), "PTX sm_80");
  EXPECT_EQ(chooseCode(bundle, deviceOf(90))->str(), "PTX sm_80");
}

TEST(ChooseCodeTest, ptxWithASuffixIsNotPortable) {
  EXPECT_TRUE((Chip{90, 'a'}.ptxRunsOn(Chip{90, 0})));
  EXPECT_FALSE((Chip{90, 'a'}.ptxRunsOn(Chip{100, 0})));
  EXPECT_TRUE((Chip{100, 'f'}.ptxRunsOn(Chip{103, 0})));
  EXPECT_FALSE((Chip{100, 'f'}.ptxRunsOn(Chip{120, 0})));
}

TEST(ChooseCodeTest, codeOfOneChipRunsNowhereElse) {
  nlohmann::json manifest = testManifest();
  manifest["chip"] = "sm_90a";
  manifest["cubins"][0]["chip"] = "sm_90a";
  Bundle bundle = loadTestBundle(manifest);
  EXPECT_EQ(chooseCode(bundle, deviceOf(90))->str(), "cubin sm_90a");
  for (int number : {80, 89, 100, 103, 120})
    EXPECT_EQ(text(chooseCode(bundle, deviceOf(number))),
              "expects a device that runs sm_90a code, but got sm_" +
                  std::to_string(number) +
                  "\n  note: the bundle test.fcb holds PTX for sm_90a and "
                  "cubins for sm_90a\n  note: compile it again for sm_" +
                  std::to_string(number));
  bundle.cubins.clear();
  EXPECT_EQ(chooseCode(bundle, deviceOf(90))->str(), "PTX sm_90a");
}

TEST(ChooseCodeTest, refusesAnOlderDevice) {
  Bundle bundle = loadTestBundle();
  EXPECT_EQ(text(chooseCode(bundle, deviceOf(75))),
            "expects a device that runs sm_80 code, but got sm_75\n"
            "  note: the bundle test.fcb holds PTX for sm_80 and cubins for "
            "sm_89\n"
            "  note: compile it again for sm_75");
}
