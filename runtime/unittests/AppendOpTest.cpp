//===- AppendOpTest.cpp - Appends by themselves ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the loader takes of an append, and that a check finds a row which is not
// where or what it should be.
//
//===----------------------------------------------------------------------===//

#include "TestBundle.h"

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/TensorSet.h"

using namespace flashcore;
using namespace flashcore::testing;
using nlohmann::json;

namespace {
/// Two new rows behind those of twelve keys of two entries and, turned, three
/// queries of two heads.
json manifestOf(bool isTurned) {
  json manifest = testManifest();
  manifest.erase("attention");
  json attributes = json::object();
  manifest["sizes"] = {{"batch", 2},      {"heads_kv", 1},  {"seqlen_k", 12},
                       {"seqlen_new", 2}, {"head_dim", 16}, {"head_dim_v", 16}};
  manifest["tensors"] = {
      describeTensor("k", "updated", "f16",
                     {"batch", "heads_kv", "seqlen_k", "head_dim"}),
      describeTensor("v", "updated", "f16",
                     {"batch", "heads_kv", "seqlen_k", "head_dim_v"}),
      describeTensor("k_new", "input", "f16",
                     {"batch", "heads_kv", "seqlen_new", "head_dim"}),
      describeTensor("v_new", "input", "f16",
                     {"batch", "heads_kv", "seqlen_new", "head_dim_v"}),
      describeTensor("seqused_k", "input", "i32", {"batch"})};
  if (isTurned) {
    attributes["rotary"] = "half";
    for (auto [name, size] : {std::pair("heads_q", 2),
                              {"seqlen_q", 3},
                              {"positions", 20},
                              {"rotary_pairs", 4}})
      manifest["sizes"][name] = size;
    for (const char *name : {"rotary_cos", "rotary_sin"}) {
      manifest["tensors"].push_back(
          describeTensor(name, "input", "f16", {"positions", "rotary_pairs"}));
      manifest["tensors"].back()["alignment"] = 8;
    }
    for (auto [name, role] :
         {std::pair("q", "input"), std::pair("q_turned", "output")})
      manifest["tensors"].push_back(describeTensor(
          name, role, "f16", {"batch", "heads_q", "seqlen_q", "head_dim"}));
  }
  manifest["ops"] = {{{"op", "append"}, {"attributes", attributes}}};
  json &kernel = manifest["kernels"][0];
  kernel["name"] = "append";
  kernel["grid"][0] = "batch";
  kernel["arguments"] = {{{"kind", "pointer"}, {"tensor", "k"}}};
  setPtx(manifest, ptxFor(manifest));
  return manifest;
}

/// A set with random inputs, and the rows that an append would write.
class AppendOpTest : public ::testing::Test {
protected:
  void fill(bool isTurned) {
    bundle = loadTestBundle(manifestOf(isTurned));
    StatusOr<Problem> created = Problem::create(bundle, {});
    ASSERT_EQ(text(created), "");
    problem.emplace(std::move(*created));
    StatusOr<TensorSet> made = TensorSet::create(*problem);
    ASSERT_TRUE(made.ok());
    set.emplace(std::move(*made));
    ASSERT_TRUE(set->fillInputs(7, InputKind::Normal, Stage::All).ok());
    used[0] = 3;
    used[1] = 10;
    HostTensor &lengths = set->tensor("seqused_k");
    for (int64_t b : {0, 1})
      lengths.storeBits(b, static_cast<uint32_t>(used[b]));
  }
  bool passes() {
    StatusOr<CheckReport> report = checkOutputs(*set, Stage::All);
    EXPECT_TRUE(report.ok());
    return report.ok() && report->pass();
  }
  /// Copies of the new rows where they go.
  void append() {
    for (auto [cache, rows] : {std::pair("k", "k_new"), {"v", "v_new"}})
      for (int64_t b : {0, 1})
        for (int64_t i : {0, 1})
          for (int64_t d = 0; d < 16; ++d) {
            HostTensor &to = set->tensor(cache), &from = set->tensor(rows);
            to.storeBits(to.position((b * 12 + used[b] + i) * 16 + d),
                         from.bits(from.position((b * 2 + i) * 16 + d)));
          }
  }

  Bundle bundle;
  std::optional<Problem> problem;
  std::optional<TensorSet> set;
  int64_t used[2] = {};
};
} // namespace

TEST_F(AppendOpTest, isLoadedAndPlanned) {
  fill(/*isTurned=*/false);
  EXPECT_EQ(bundle.op, "append");
  EXPECT_EQ(problem->str(), "append of 2 rows, B2 H1 S12 D16 f16");
  fill(/*isTurned=*/true);
  EXPECT_EQ(problem->str(), "append of 2 rows, B2 H1 S12 D16 f16 rotary half");
}

TEST_F(AppendOpTest, refusesWhatIsNone) {
  json plain = manifestOf(false), turned = manifestOf(true);
  EXPECT_EQ(refusalWith(plain, "/ops/0/attributes/causal", "none"),
            "manifest.json: expects no key 'ops[0].attributes.causal', which "
            "this version does not know");
  EXPECT_EQ(refusalWith(plain, "/tensors/0/role", "input"),
            "manifest.json: expects 'tensors[0].role' to be 'updated', but got "
            "\"input\"");
  EXPECT_EQ(refusalWith(plain, "/tensors/3/dtype", "bf16"),
            "manifest.json: expects 'tensors[3].dtype' to be 'f16', that of "
            "'k', but got \"bf16\"");
  EXPECT_EQ(refusalWith(plain, "/tensors/4/name", "lengths"),
            "manifest.json: expects 'tensors' to be an array with a tensor "
            "named 'seqused_k', but got an array of 5 elements");
  EXPECT_EQ(refusalWith(turned, "/ops/0/attributes", json::object()),
            "manifest.json: expects 'tensors[5].name' to be the name of a "
            "tensor of an append, but got \"rotary_cos\"");
  EXPECT_EQ(refusalWith(turned, "/tensors/7/name", "query"),
            "manifest.json: expects 'tensors' to be an array with a tensor "
            "named 'q', but got an array of 9 elements");
}

TEST_F(AppendOpTest, sizesHaveToFit) {
  json manifest = manifestOf(true);
  manifest["sizes"]["positions"] = nullptr;
  Bundle open = loadTestBundle(manifest);
  ProblemRequest request;
  request.dims = {{"positions", 0}};
  EXPECT_NE(text(Problem::create(open, request))
                .find("expects positions to be at least 1"),
            std::string::npos);
  manifest["sizes"]["heads_kv"] = 0;
  open = loadTestBundle(manifest);
  request.dims = {{"positions", 20}};
  EXPECT_NE(text(Problem::create(open, request))
                .find("expects heads_q to be a multiple of heads_kv, but got 2 "
                      "and 0"),
            std::string::npos);
}

TEST_F(AppendOpTest, findsARowThatIsMissing) {
  fill(/*isTurned=*/false);
  EXPECT_FALSE(passes());
  append();
  EXPECT_TRUE(passes());
}

TEST_F(AppendOpTest, findsAnElementThatIsWrong) {
  fill(/*isTurned=*/false);
  append();
  HostTensor &v = set->tensor("v");
  int64_t last = v.position((12 + used[1] + 1) * 16 + 15);
  v.storeBits(last, v.bits(last) ^ 1);
  StatusOr<CheckReport> report = checkOutputs(*set, Stage::All);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->k->pass());
  EXPECT_FALSE(report->v->pass());
}

TEST_F(AppendOpTest, refusesLengthsWithoutRoom) {
  fill(/*isTurned=*/false);
  set->tensor("seqused_k").storeBits(0, 11);
  StatusOr<CheckReport> report = checkOutputs(*set, Stage::All);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find(
                "expects seqused_k[0] to leave room for 2 new keys among the "
                "12 of batch entry 0, but got 11"),
            std::string::npos);
}

// By 0 nothing is turned: cos 1, sin 0.
TEST_F(AppendOpTest, queriesAreTurnedWhereTheNewKeysStand) {
  fill(/*isTurned=*/true);
  HostTensor &cos = set->tensor("rotary_cos"), &sin = set->tensor("rotary_sin");
  cos.forEach([&](int64_t, int64_t at) { cos.store(at, 1); });
  sin.forEach([&](int64_t, int64_t at) { sin.store(at, 0); });
  append();
  HostTensor &q = set->tensor("q"), &turned = set->tensor("q_turned");
  q.forEach([&](int64_t, int64_t at) { turned.storeBits(at, q.bits(at)); });
  EXPECT_TRUE(passes());
  // The second query of the second entry is at position 11.
  for (int64_t pair = 0; pair < 4; ++pair)
    cos.store(11 * 4 + pair, 0.5f);
  StatusOr<CheckReport> report = checkOutputs(*set, Stage::All);
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->o.pass());
  EXPECT_EQ(report->o.at[0], 1);
  EXPECT_EQ(report->o.at[2], 1);
}
