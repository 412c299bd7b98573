//===- MergeTest.cpp - Merges of parts ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bundles of merges: what the loader takes, and the formula on the host.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/Call.h"
#include "flashcore/Runtime/Merge.h"

#include <cmath>
#include <limits>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

namespace {
json mergeManifest() {
  json manifest = testManifest();
  manifest.erase("attention");
  manifest["ops"] = {{{"op", "merge"}, {"attributes", json::object()}}};
  manifest["sizes"] = {{"parts", nullptr},
                       {"batch", nullptr},
                       {"heads_q", 2},
                       {"seqlen_q", nullptr},
                       {"head_dim_v", 16}};
  manifest["tensors"] = {
      describeTensor("outputs", "input", "f16",
                     {"parts", "batch", "heads_q", "seqlen_q", "head_dim_v"}),
      describeTensor("lses", "input", "f32",
                     {"parts", "batch", "heads_q", "seqlen_q"}),
      describeTensor("o", "output", "f16",
                     {"batch", "heads_q", "seqlen_q", "head_dim_v"}),
      describeTensor("lse", "output", "f32", {"batch", "heads_q", "seqlen_q"}),
      describeTensor("sink_logits", "input", "f32", {"heads_q"})};
  json &kernel = manifest["kernels"][0];
  kernel["name"] = "merge";
  kernel["grid"][0] = "seqlen_q * heads_q * batch";
  kernel["arguments"] = {{{"kind", "pointer"}, {"tensor", "outputs"}},
                         {{"kind", "size"}, {"dim", "parts"}}};
  setPtx(manifest, ptxFor(manifest));
  return manifest;
}

std::string refusal(const char *pointer, const json &value) {
  return refusalWith(mergeManifest(), pointer, value);
}

ProblemRequest request() {
  ProblemRequest request;
  request.dims = {{"parts", 2}, {"batch", 1}, {"seqlen_q", 3}};
  return request;
}

HostTensor makeTensor(const Problem &problem, std::string_view name) {
  return std::move(*HostTensor::create(*problem.findTensor(name)));
}
} // namespace

TEST(MergeTest, isLoadedAndPlanned) {
  Bundle bundle = loadTestBundle(mergeManifest());
  EXPECT_EQ(bundle.op, "merge");
  StatusOr<Problem> problem = Problem::create(bundle, request());
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->str(), "merge of 2 parts, B1 H2 S3 D16 f16");
  EXPECT_EQ((*problem->grid(bundle.kernels[0], 1))[0], 6);
}

/// Parts lie one behind another, whatever the order of heads and rows is.
TEST(MergeTest, partsAreTheOutermostAxis) {
  Bundle bundle = loadTestBundle(mergeManifest());
  for (bool isBshd : {false, true}) {
    ProblemRequest wanted = request();
    wanted.layout = isBshd ? Layout::BSHD : Layout::BHSD;
    StatusOr<Problem> problem = Problem::create(bundle, wanted);
    ASSERT_EQ(text(problem), "");
    std::vector<int64_t> strides =
        isBshd ? std::vector<int64_t>{96, 96, 16, 32, 1}
               : std::vector<int64_t>{96, 96, 48, 16, 1};
    EXPECT_EQ(problem->findTensor("outputs")->strides, strides);
    EXPECT_EQ(problem->findTensor("lses")->strides,
              (std::vector<int64_t>{6, 6, 3, 1}));
  }
}

TEST(MergeTest, refusesWhatIsNone) {
  EXPECT_EQ(refusal("/ops/0/attributes/softcap", 3),
            "manifest.json: expects no key 'ops[0].attributes.softcap', which "
            "this version does not know");
  EXPECT_EQ(refusal("/tensors/3/name", "lsd"),
            "manifest.json: expects 'tensors[3].name' to be the name of a "
            "tensor of a merge, but got \"lsd\"");
  EXPECT_EQ(refusal("/tensors/1/dtype", "f16"),
            "manifest.json: expects 'tensors[1].dtype' to be 'f32', but got "
            "\"f16\"");
  EXPECT_EQ(refusal("/tensors/2/role", "input"),
            "manifest.json: expects 'tensors[2].role' to be 'output', but got "
            "\"input\"");
  EXPECT_EQ(refusal("/tensors/4/axes/0", "batch"),
            "manifest.json: expects 'tensors[4].axes' to be the axes heads_q, "
            "but got an array of 1 elements");
}

TEST(MergeTest, computesTheFormula) {
  json manifest = mergeManifest();
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, request());
  ASSERT_EQ(text(problem), "");
  HostTensor outputs = makeTensor(*problem, "outputs");
  HostTensor lses = makeTensor(*problem, "lses");
  HostTensor sinks = makeTensor(*problem, "sink_logits");
  // The first part has ones and the second threes; the last row sees nothing.
  outputs.forEach([&](int64_t index, int64_t position) {
    outputs.store(position, index < 6 * 16 ? 1.0f : 3.0f);
  });
  constexpr float none = -std::numeric_limits<float>::infinity();
  lses.forEach([&](int64_t index, int64_t position) {
    lses.store(position, index % 6 == 5 ? none : index < 6 ? 2000.0f : 2001.0f);
  });
  for (int64_t head : {0, 1})
    sinks.store(head, none);
  MergeResult merged = computeMerge({&outputs, &lses, &sinks});
  double ratio = std::exp(1.0);
  EXPECT_DOUBLE_EQ(merged.o[0], (1 + 3 * ratio) / (1 + ratio));
  EXPECT_DOUBLE_EQ(merged.lse[0], 2000 + std::log(1 + ratio));
  EXPECT_EQ(merged.o.back(), 0);
  EXPECT_EQ(merged.lse.back(), none);
  // A sink takes its share.
  sinks.store(1, 2000.0f);
  merged = computeMerge({&outputs, &lses, &sinks});
  EXPECT_DOUBLE_EQ(merged.o[4 * 16], (1 + 3 * ratio) / (2 + ratio));
  EXPECT_EQ(merged.o.back(), 0);
  EXPECT_EQ(merged.lse.back(), 2000);
  MergeResult rounded =
      computeMergeYardstick({&outputs, &lses, &sinks}, DType::F16);
  EXPECT_NEAR(rounded.o[0], (1 + 3 * ratio) / (1 + ratio), 2e-3);
  EXPECT_EQ(rounded.o[0],
            infoOf(DType::F16).load(infoOf(DType::F16).round(rounded.o[0])));
}

// As a C program asks for it, in memory of its own and with strides of its own.
TEST(MergeTest, isCheckedWhereACallHasIt) {
  Bundle bundle = loadTestBundle(mergeManifest());
  constexpr int64_t parts = 2, heads = 2, queries = 3, columns = 16;
  std::vector<uint16_t> outputs(parts * heads * queries * columns, 0x3c00);
  std::vector<float> lses(parts * heads * queries, 1.0f), sinks(heads, 1.0f);
  // O lies query by query, with a row between two.
  std::vector<uint16_t> o(queries * (heads + 1) * columns, 0x5a5a);
  std::vector<float> lse(heads * queries);
  const int64_t outputSizes[] = {parts, 1, heads, queries, columns},
                outputStrides[] = {96, 96, 48, 16, 1},
                lsesSizes[] = {parts, 1, heads, queries},
                lsesStrides[] = {6, 6, 3, 1},
                oSizes[] = {1, heads, queries, columns},
                oStrides[] = {144, 16, 48, 1}, lseSizes[] = {1, heads, queries},
                lseStrides[] = {6, 3, 1}, sinkSizes[] = {heads},
                sinkStrides[] = {1};
  const CallTensor tensors[] = {{"outputs", outputSizes, outputStrides},
                                {"lses", lsesSizes, lsesStrides},
                                {"o", oSizes, oStrides},
                                {"lse", lseSizes, lseStrides},
                                {"sink_logits", sinkSizes, sinkStrides}};
  void *const data[] = {outputs.data(), lses.data(), o.data(), lse.data(),
                        sinks.data()};
  ASSERT_EQ(text(computeReference(bundle, tensors, data, 1)), "");
  // Two ones of three equal shares.
  const DTypeInfo &half = infoOf(DType::F16);
  EXPECT_EQ(o[0], half.round(2.0 / 3));
  EXPECT_EQ(o[static_cast<size_t>(heads * columns)], 0x5a5a);
  EXPECT_FLOAT_EQ(lse.back(), 1 + std::log(3.0f));
  StatusOr<CheckReport> report = checkOutputs(bundle, tensors, data, 1);
  ASSERT_EQ(text(report), "");
  EXPECT_TRUE(report->pass());
  o[columns] = 0x3c00;
  report = checkOutputs(bundle, tensors, data, 1);
  ASSERT_EQ(text(report), "");
  EXPECT_FALSE(report->pass());
  EXPECT_EQ(report->o.at[1], 1);
}
