//===- ProgramOpTest.cpp - Programs of several ops ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two merges, the second of what the first leaves in the workspace, which
// changes nothing: what the loader takes, where tensors lie, the reference.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/Call.h"
#include "flashcore/Runtime/Launch.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

namespace {
json programManifest() {
  json manifest = json::parse(R"({
    "ops": [
      {"op": "merge", "attributes": {},
       "sizes": {"parts": "parts", "batch": "batch", "heads_q": "heads_q", "seqlen_q": "rows", "head_dim_v": "columns"},
       "operands": [
         {"name": "outputs", "tensor": "outputs", "role": "input", "axes": ["parts", "batch", "heads_q", "seqlen_q", "head_dim_v"]},
         {"name": "lses", "tensor": "lses", "role": "input", "axes": ["parts", "batch", "heads_q", "seqlen_q"]},
         {"name": "o", "tensor": "first", "role": "output", "axes": ["batch", "heads_q", "seqlen_q", "head_dim_v"]},
         {"name": "lse", "tensor": "first_lse", "role": "output", "axes": ["batch", "heads_q", "seqlen_q"]}]},
      {"op": "merge", "attributes": {},
       "sizes": {"parts": "one", "batch": "batch", "heads_q": "heads_q", "seqlen_q": "rows", "head_dim_v": "columns"},
       "operands": [
         {"name": "outputs", "tensor": "all", "role": "input", "axes": ["parts", "batch", "heads_q", "seqlen_q", "head_dim_v"]},
         {"name": "lses", "tensor": "all_lses", "role": "input", "axes": ["parts", "batch", "heads_q", "seqlen_q"]},
         {"name": "o", "tensor": "o", "role": "output", "axes": ["batch", "heads_q", "seqlen_q", "head_dim_v"]}]}],
    "sizes": {"parts": 2, "one": 1, "batch": 1, "heads_q": 2, "rows": null, "columns": 16},
    "tensors": [
      {"name": "outputs", "role": "input", "dtype": "f16", "axes": ["parts", "batch", "heads_q", "rows", "columns"],
       "strides": [null, null, null, null, 1], "offset": 0, "alignment": 16},
      {"name": "lses", "role": "input", "dtype": "f32", "axes": ["parts", "batch", "heads_q", "rows"],
       "strides": [null, null, null, 1], "offset": 0, "alignment": 4},
      {"name": "o", "role": "output", "dtype": "f16", "axes": ["batch", "heads_q", "rows", "columns"],
       "strides": [null, null, null, 1], "offset": 0, "alignment": 16}],
    "intermediates": [
      {"name": "all", "dtype": "f16", "axes": ["one", "batch", "heads_q", "rows", "columns"],
       "strides": [null, null, null, 16, 1], "offset": 0, "alignment": 16},
      {"name": "all_lses", "dtype": "f32", "axes": ["one", "batch", "heads_q", "rows"],
       "strides": [null, null, null, 1], "offset": 0, "alignment": 4}],
    "views": [
      {"name": "first", "of": "all", "begin": [0, 0, 0, 0, 0], "base_axes": [1, 2, 3, 4], "dtype": "f16",
       "axes": ["batch", "heads_q", "rows", "columns"], "strides": [null, null, 16, 1], "offset": 0, "alignment": 16},
      {"name": "first_lse", "of": "all_lses", "begin": [0, 0, 0, 0], "base_axes": [1, 2, 3], "dtype": "f32",
       "axes": ["batch", "heads_q", "rows"], "strides": [null, null, 1], "offset": 0, "alignment": 4}]
  })");
  json base = testManifest();
  base.erase("attention");
  for (auto &[key, value] : manifest.items())
    base[key] = value;
  base["workspace"] = {{{"bytes", "rows * 10"}}};
  json kernel = base["kernels"][0];
  kernel["name"] = "merge";
  kernel["grid"][0] = "rows";
  auto pointers = [](std::initializer_list<const char *> names) {
    json arguments = json::array();
    for (const char *name : names)
      arguments.push_back({{"kind", "pointer"}, {"tensor", name}});
    return arguments;
  };
  json second = kernel;
  kernel["arguments"] = pointers({"outputs", "lses", "first", "first_lse"});
  second["arguments"] = pointers({"all", "all_lses", "o", "workspace"});
  base["kernels"] = {kernel, second};
  setPtx(base, ptxFor(base));
  return base;
}

std::string refusal(const char *pointer, const json &value) {
  return refusalWith(programManifest(), pointer, value);
}

ProblemRequest request(int64_t rows) {
  ProblemRequest request;
  request.dims = {{"rows", rows}};
  return request;
}
} // namespace

TEST(ProgramOpTest, namesItsOps) {
  Bundle bundle = loadTestBundle(programManifest());
  EXPECT_EQ(bundle.op, "program");
  ASSERT_EQ(bundle.parts.size(), 2u);
  EXPECT_EQ(bundle.parts[1].bundle->op, "merge");
  StatusOr<Problem> problem = Problem::create(bundle, request(3));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->str(), "program of merge of 2 parts, B1 H2 S3 D16 f16; "
                            "merge of 1 parts, B1 H2 S3 D16 f16");
}

// 30 bytes of terms, then 192 of f16 and 24 of f32.
TEST(ProgramOpTest, intermediatesLieBehindTheTermsOfTheWorkspace) {
  Bundle bundle = loadTestBundle(programManifest());
  StatusOr<Problem> problem = Problem::create(bundle, request(3));
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->locate("first").name, "workspace");
  EXPECT_EQ(problem->locate("first").bytes, 32);
  EXPECT_EQ(problem->locate("all_lses").bytes, 32 + 192);
  EXPECT_EQ(problem->workspaceBytes(), 32 + 192 + 24);
  EXPECT_EQ(problem->locate("o").name, "o");
  auto launches = planLaunches(
      *problem,
      {{"outputs", 16}, {"lses", 16}, {"o", 4096}, {"workspace", 1024}},
      /*multiprocessors=*/1);
  ASSERT_TRUE(launches.ok()) << launches.status().message();
  ASSERT_EQ(launches->size(), 2u);
  EXPECT_EQ((*launches)[0].arguments,
            (std::vector<uint64_t>{16, 16, 1056, 1248}));
  EXPECT_EQ((*launches)[1].arguments,
            (std::vector<uint64_t>{1056, 1248, 4096, 1024}));
}

TEST(ProgramOpTest, aViewHasTheStridesOfItsBase) {
  json manifest = programManifest();
  manifest["views"].push_back(manifest["views"][0]);
  json &view = manifest["views"].back();
  view["name"] = "second_row";
  view["of"] = "first";
  view["begin"] = {0, 0, 1, 0};
  view["base_axes"] = {1, 3};
  view["axes"] = {"heads_q", "columns"};
  view["strides"] = {nullptr, 1};
  view["offset"] = 16;
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, request(3));
  ASSERT_EQ(text(problem), "");
  const TensorGeometry &row = *problem->findTensor("second_row");
  EXPECT_EQ(row.strides, (std::vector<int64_t>{48, 1}));
  EXPECT_EQ(row.offset, 16);
  EXPECT_NE(
      text(Problem::create(bundle, request(1)))
          .find("expects axis 2 (rows) of 'first' to have at least 2 elements, "
                "but got 1"),
      std::string::npos);
  manifest["views"].back()["offset"] = 17;
  bundle = loadTestBundle(manifest);
  EXPECT_NE(text(Problem::create(bundle, request(3)))
                .find("expects the offset of 'second_row' to be 17"),
            std::string::npos);
}

TEST(ProgramOpTest, refusesWhatIsNone) {
  EXPECT_EQ(refusal("/ops/1/operands/0/tensor", "al"),
            "manifest.json: expects 'ops[1].operands[0].tensor' to be the name "
            "of a tensor, but got \"al\"");
  EXPECT_EQ(refusal("/ops/1/sizes/parts", "two"),
            "manifest.json: expects 'ops[1].sizes.parts' to be the name of a "
            "size in 'sizes', but got \"two\"");
  EXPECT_EQ(refusal("/ops/1/operands/1/role", "output"),
            "manifest.json, op 1 ('merge'): expects 'tensors[1].role' to be "
            "'input', but got \"output\"");
  EXPECT_EQ(refusal("/ops/0/attributes/causal", "none"),
            "manifest.json, op 0 ('merge'): expects no key 'attributes.causal',"
            " which this version does not know");
  EXPECT_TRUE(
      refusal("/ops/0/op", "program").ends_with(", but got \"program\""));
  EXPECT_EQ(refusal("/views/0/of", "o_"),
            "manifest.json: expects 'views[0].of' to be the name of a tensor in"
            " 'tensors' (outputs, lses, o, all, all_lses), but got \"o_\"");
  EXPECT_EQ(refusal("/views/0/begin", {0, 0}),
            "manifest.json: expects 'views[0].begin' to be an array of 5 "
            "elements, the axes of 'all', but got an array of 2 elements");
  EXPECT_EQ(refusal("/views/0/base_axes", {1, 3, 2, 4}),
            "manifest.json: expects 'views[0].base_axes[2]' to be an integer "
            "from 4 to 4, but got 2");
  EXPECT_EQ(refusal("/views/0/dtype", "bf16"),
            "manifest.json: expects 'views[0].dtype' to be 'f16', that of "
            "'all', but got \"bf16\"");
  EXPECT_EQ(refusal("/intermediates/0/offset", 8),
            "manifest.json: expects 'intermediates[0].offset' to be 0, but got "
            "8");
  EXPECT_EQ(refusal("/kernels/1/block", {64, 1, 1}),
            "manifest.json: expects 'variants[0].kernels[1].name' to be a name "
            "that no kernel has of another block, shared memory or number of "
            "arguments, but got \"merge\"");
}

TEST(ProgramOpTest, aBundleOfOneOpHasNoViews) {
  ScratchDirectory scratch;
  json manifest = testManifest();
  manifest["views"] = json::array();
  writeBundle(scratch.path(), manifest);
  StatusOr<Bundle> bundle = Bundle::load(scratch.path());
  ASSERT_FALSE(bundle.ok());
  EXPECT_NE(bundle.status().message().find("expects no key 'views'"),
            std::string::npos);
}

TEST(ProgramOpTest, theReferenceRunsOneOpAfterTheOther) {
  Bundle bundle = loadTestBundle(programManifest());
  constexpr int64_t rows = 3, elements = 2 * rows * 16;
  std::vector<float> lses(2 * 2 * rows, 0.0f);
  std::vector<uint16_t> outputs(2 * elements), o(elements, 0xffff);
  for (int64_t i = 0; i < 2 * elements; ++i)
    outputs[static_cast<size_t>(i)] = i < elements ? 0x3c00 : 0x4200; // 1, 3
  std::vector<int64_t> sizesOf[] = {
      {2, 1, 2, rows, 16}, {2, 1, 2, rows}, {1, 2, rows, 16}};
  std::vector<int64_t> stridesOf[] = {{elements, elements, rows * 16, 16, 1},
                                      {2 * rows, 2 * rows, rows, 1},
                                      {elements, rows * 16, 16, 1}};
  std::vector<CallTensor> tensors = {{"outputs", sizesOf[0], stridesOf[0]},
                                     {"lses", sizesOf[1], stridesOf[1]},
                                     {"o", sizesOf[2], stridesOf[2]}};
  std::vector<void *> data = {outputs.data(), lses.data(), o.data()};
  Status status = computeReference(bundle, tensors, data);
  ASSERT_TRUE(status.ok()) << status.message();
  for (uint16_t each : o)
    ASSERT_EQ(each, 0x4000); // both weigh the same: 2
  StatusOr<CheckReport> report = checkOutputs(bundle, tensors, data);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->pass());
  o[5] = 0x3c00;
  report = checkOutputs(bundle, tensors, data);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->pass());
  EXPECT_EQ(report->o.worst, 5);
}
