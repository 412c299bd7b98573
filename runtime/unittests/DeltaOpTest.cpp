//===- DeltaOpTest.cpp - What gradients of scores subtract ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula on the host, and that a check finds a sum which is off.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/Call.h"
#include "flashcore/Runtime/Check.h"

#include <array>

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

namespace {
json deltaManifest() {
  json manifest = testManifest();
  manifest.erase("attention");
  manifest["ops"] = {{{"op", "delta"}, {"attributes", json::object()}}};
  manifest["sizes"] = {{"batch", nullptr},
                       {"heads_q", 1},
                       {"seqlen_q", nullptr},
                       {"head_dim_v", 16}};
  std::vector<std::string> sums = {"batch", "heads_q", "seqlen_q"}, rows = sums;
  rows.push_back("head_dim_v");
  manifest["tensors"] = {describeTensor("do", "input", "f16", rows),
                         describeTensor("o", "input", "f16", rows),
                         describeTensor("delta", "output", "f32", sums)};
  json &kernel = manifest["kernels"][0];
  kernel["name"] = "delta";
  kernel["grid"][0] = "seqlen_q";
  kernel["arguments"] = {{{"kind", "pointer"}, {"tensor", "do"}}};
  setPtx(manifest, ptxFor(manifest));
  return manifest;
}

/// One row of 16 columns, where dO is 2 and O is 3 but for one -1.
class DeltaOpTest : public ::testing::Test {
protected:
  DeltaOpTest() : bundle(loadTestBundle(deltaManifest())) {
    gradient.fill(0x4000);
    output.fill(0x4200);
    output[5] = 0xbc00;
  }

  Bundle bundle;
  std::array<uint16_t, 16> gradient = {}, output = {};
  float delta = -7;
  std::vector<int64_t> rows = {1, 1, 1, 16}, sums = {1, 1, 1},
                       rowStrides = {16, 16, 16, 1};
  std::vector<CallTensor> tensors = {
      {"do", rows, rowStrides}, {"o", rows, rowStrides}, {"delta", sums, sums}};
  std::vector<void *> data = {gradient.data(), output.data(), &delta};
};
} // namespace

TEST_F(DeltaOpTest, computesTheFormula) {
  ASSERT_TRUE(computeReference(bundle, tensors, data).ok());
  EXPECT_EQ(delta, 2 * (15 * 3 - 1));
}

TEST_F(DeltaOpTest, aCheckFindsASumThatIsOff) {
  delta = 88;
  EXPECT_TRUE(checkOutputs(bundle, tensors, data)->pass());
  delta = 88.001f;
  EXPECT_FALSE(checkOutputs(bundle, tensors, data)->pass());
}

TEST_F(DeltaOpTest, refusesWhatIsNone) {
  auto refusal = [](const char *pointer, const json &value) {
    return refusalWith(deltaManifest(), pointer, value);
  };
  EXPECT_EQ(refusal("/tensors/0/dtype", "bf16"),
            "manifest.json: expects 'tensors[0].dtype' to be 'f16', that of "
            "'o', but got \"bf16\"");
  EXPECT_EQ(refusal("/tensors/2/role", "updated"),
            "manifest.json: expects 'tensors[2].role' to be 'output', but got "
            "\"updated\"");
  EXPECT_EQ(refusal("/tensors/1/name", "output"),
            "manifest.json: expects 'tensors' to be an array with a tensor "
            "named 'o', but got an array of 3 elements");
}

TEST_F(DeltaOpTest, saysWhatItIs) {
  ProblemRequest request;
  request.dims = {{"batch", 2}, {"seqlen_q", 5}};
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  EXPECT_EQ(problem->str(), "delta of B2 H1 S5 D16 f16");
  EXPECT_EQ(countFlops(*problem), 2 * 2 * 5 * 16);
}
