//===- CheckTest.cpp - Judging results ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A host device computes the right result, then makes mistakes of each kind.
//
//===----------------------------------------------------------------------===//

#include "HostDevice.h"
#include "ReferenceUtil.h"
#include "TestBundle.h"

#include "flashcore/Runtime/Call.h"
#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/Float16.h"

#include <cmath>
#include <limits>
#include <utility>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
struct Outcome {
  Status status = Status::success();
  CheckReport report;
};
} // namespace

static Outcome run(Mistake mistake, const nlohmann::json &manifest,
                   Stage stage = Stage::All,
                   InputKind kind = InputKind::Normal) {
  HostDevice device(mistake);
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<std::unique_ptr<LoadedModule>> module = device.load(bundle);
  EXPECT_EQ(text(module), "");
  StatusOr<Problem> problem = Problem::create(bundle, {});
  EXPECT_EQ(text(problem), "");
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  EXPECT_EQ(text(set->fillInputs(7, kind, stage)), "");
  Outcome outcome;
  outcome.status = runOnce(device, **module, *set);
  if (!outcome.status.ok())
    return outcome;
  StatusOr<CheckReport> report = checkOutputs(*set, stage);
  EXPECT_EQ(text(report), "");
  outcome.report = *report;
  return outcome;
}

/// The kinds of inputs that a problem takes.
static std::vector<InputKind> kindsOf(const nlohmann::json &manifest) {
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  std::vector<InputKind> kinds;
  for (const InputKindInfo &info : InputKinds)
    if (verifyKind(*problem, info.kind).ok())
      kinds.push_back(info.kind);
  return kinds;
}

TEST(CheckTest, theRightResultPasses) {
  for (const char *causal : {"none", "bottom_right", "top_left"})
    for (InputKind kind : kindsOf(staticManifest(32, 48, causal))) {
      Outcome outcome =
          run(Mistake::None, staticManifest(32, 48, causal), Stage::All, kind);
      EXPECT_EQ(text(outcome.status), "");
      EXPECT_TRUE(outcome.report.pass()) << causal << " " << stringify(kind);
      EXPECT_LT(outcome.report.o.error, 1e-2);
      EXPECT_GT(outcome.report.o.error, 0);
      // In f32, of scores of some hundreds; of large ones the last digit.
      double limit = kind == InputKind::Spiked  ? 1e-4
                     : kind == InputKind::Large ? 1
                                                : 1e-5;
      EXPECT_LT(outcome.report.lse->error, limit);
    }
}

TEST(CheckTest, emptyRowsPassWithZeroAndMinusInfinity) {
  // 40 queries and 8 keys: the first 32 queries see nothing.
  Outcome outcome = run(Mistake::None, staticManifest(40, 8, "bottom_right"));
  EXPECT_EQ(text(outcome.status), "");
  EXPECT_TRUE(outcome.report.pass());
}

/// A static problem with everything that changes a score.
static nlohmann::json richManifest(int64_t seqlenQ, int64_t seqlenK,
                                   const char *biasType = "f16") {
  nlohmann::json manifest = staticManifest(seqlenQ, seqlenK, "bottom_right");
  manifest["attention"]["window_left"] = 9;
  manifest["attention"]["window_right"] = 2;
  manifest["attention"]["softcap"] = 3.5;
  addBias(manifest, biasType, {"1", "heads_q", "seqlen_q", "seqlen_k"});
  return manifest;
}

TEST(CheckTest, aBiasASoftcapAndAWindowPass) {
  for (const char *biasType : {"f16", "bf16", "f32"})
    for (InputKind kind : kindsOf(richManifest(40, 32, biasType))) {
      Outcome outcome =
          run(Mistake::None, richManifest(40, 32, biasType), Stage::All, kind);
      EXPECT_EQ(text(outcome.status), "");
      EXPECT_TRUE(outcome.report.pass()) << biasType << " " << stringify(kind);
    }
  Outcome outcome = run(Mistake::WrongValue, richManifest(32, 32));
  EXPECT_FALSE(outcome.report.pass());
}

TEST(CheckTest, rowsThatABiasHidesPass) {
  // One key: each eighth row sees nothing at all.
  nlohmann::json manifest = staticManifest(64, 1);
  addBias(manifest);
  Outcome outcome = run(Mistake::None, manifest, Stage::All, InputKind::Rising);
  EXPECT_EQ(text(outcome.status), "");
  EXPECT_TRUE(outcome.report.pass());
}

TEST(CheckTest, minusInfinityIsExact) {
  // Element 3 of lse is -inf; adding 1 changes nothing, so this passes ...
  EXPECT_TRUE(run(Mistake::WrongLse, staticManifest(40, 8, "bottom_right"))
                  .report.pass());
  // ... and a finite value in its place does not.
  ErrorReport report;
  report.error = std::numeric_limits<double>::infinity();
  report.allowed = 1;
  EXPECT_FALSE(report.pass());
}

TEST(CheckTest, aWrongElementFails) {
  Outcome outcome = run(Mistake::WrongValue, staticManifest());
  EXPECT_EQ(text(outcome.status), "");
  EXPECT_FALSE(outcome.report.pass());
  EXPECT_FALSE(outcome.report.o.pass());
  EXPECT_TRUE(outcome.report.lse->pass());
  EXPECT_NEAR(outcome.report.o.error, 1, 1e-2);
  EXPECT_EQ(outcome.report.o.worst, 5);
}

// Scores past the largest f16, as a mask of -1e9 or a large scale makes them,
// are judged by what f32 is off by: right results pass, and wrong ones do not.
TEST(CheckTest, scoresPastTheRangeOfTheInputsAreJudged) {
  for (double scale : {3e4, 1e6}) {
    nlohmann::json manifest = staticManifest();
    manifest["attention"]["softmax_scale"] = scale;
    Outcome right = run(Mistake::None, manifest);
    EXPECT_EQ(text(right.status), "");
    EXPECT_TRUE(right.report.pass()) << scale;
    EXPECT_LT(right.report.o.allowed, 0.2) << scale;
    Outcome wrong = run(Mistake::WrongValue, manifest);
    EXPECT_EQ(text(wrong.status), "");
    EXPECT_FALSE(wrong.report.o.pass()) << scale;
  }
}

TEST(CheckTest, normsAreOfAllErrors) {
  ErrorReport right = run(Mistake::None, staticManifest()).report.o;
  EXPECT_DOUBLE_EQ(right.allowed, 2 * right.yardstick + 1e-5);
  EXPECT_GT(right.norm, right.error);
  EXPECT_LT(right.norm, 2 * right.yardstickNorm);
  // One element that is off by 1 outweighs all roundings.
  ErrorReport wrong = run(Mistake::WrongValue, staticManifest()).report.o;
  EXPECT_NEAR(wrong.norm, 1, 2e-2);
  EXPECT_EQ(wrong.yardstickNorm, right.yardstickNorm);
}

TEST(CheckTest, aWrongLseFails) {
  Outcome outcome = run(Mistake::WrongLse, staticManifest());
  EXPECT_TRUE(outcome.report.o.pass());
  EXPECT_FALSE(outcome.report.lse->pass());
  EXPECT_EQ(outcome.report.lse->worst, 3);
  EXPECT_FALSE(outcome.report.pass());
}

TEST(CheckTest, aNaNFailsWhateverComesAfterIt) {
  Outcome outcome = run(Mistake::NotANumber, staticManifest());
  EXPECT_TRUE(std::isnan(outcome.report.o.error));
  EXPECT_EQ(outcome.report.o.worst, 5);
  EXPECT_FALSE(outcome.report.pass());
}

TEST(CheckTest, neitherNaNNorAnInfiniteLimitPasses) {
  const double nan = NAN, infinity = std::numeric_limits<double>::infinity();
  EXPECT_FALSE((ErrorReport{nan, 1, 0}.pass()));
  EXPECT_FALSE((ErrorReport{0, nan, 0}.pass()));
  EXPECT_FALSE((ErrorReport{infinity, infinity, 0}.pass()));
  EXPECT_TRUE((ErrorReport{1, 1, 0}.pass()));
  EXPECT_FALSE((ErrorReport{std::nextafter(1.0, 2.0), 1, 0}.pass()));
}

TEST(CheckTest, theWorstElementIsNamed) {
  ErrorReport o = run(Mistake::WrongValue, staticManifest()).report.o;
  EXPECT_EQ(o.at, (std::array<int64_t, 4>{0, 0, 0, 5}));
  EXPECT_NEAR(o.actual - o.expected, 1, 1e-2);
  EXPECT_DOUBLE_EQ(o.error, std::abs(o.actual - o.expected));
  EXPECT_EQ(o.elements, 2 * 32 * 16);
  EXPECT_EQ(o.nans, 0);

  ErrorReport lse = *run(Mistake::WrongLse, staticManifest()).report.lse;
  EXPECT_EQ(lse.at, (std::array<int64_t, 4>{0, 0, 3, 0}));
  EXPECT_NEAR(lse.actual - lse.expected, 1, 1e-5);

  ErrorReport nan = run(Mistake::NotANumber, staticManifest()).report.o;
  EXPECT_TRUE(std::isnan(nan.actual));
  EXPECT_EQ(nan.at, (std::array<int64_t, 4>{0, 0, 0, 5}));
  EXPECT_EQ(nan.nans, 1);
  EXPECT_EQ(nan.infinities, 0);

  // Of a stage, too: here the mean of a column of V is 10 % too large.
  ErrorReport stage =
      *run(Mistake::ScaleOutputs, staticManifest(), Stage::PV).report.stage;
  EXPECT_DOUBLE_EQ(stage.actual, stage.expected + (stage.actual > stage.expected
                                                       ? stage.error
                                                       : -stage.error));
  EXPECT_EQ(stage.worst, (stage.at[1] * 32 + stage.at[2]) * 16 + stage.at[3]);
}

namespace {
/// One query and one key of one head, so that O is V and LSE the score: what
/// the reference and the formula in the input precision both compute exactly.
class HandMadeTest : public ::testing::Test {
protected:
  HandMadeTest() {
    manifest = staticManifest(1, 1);
    bundle.emplace(loadTestBundle(manifest));
    problem.emplace(*Problem::create(*bundle, {}));
    set.emplace(std::move(*TensorSet::create(*problem)));
    for (const char *name : {"q", "k"})
      fill(name, 1);
  }
  void fill(const char *name, float value) {
    HostTensor &tensor = set->tensor(name);
    tensor.forEach(
        [&](int64_t, int64_t position) { tensor.store(position, value); });
  }
  void setBits(const char *name, int64_t index, uint32_t bits) {
    HostTensor &tensor = set->tensor(name);
    tensor.storeBits(tensor.position(index), bits);
  }
  CheckReport check() {
    StatusOr<CheckReport> report = checkOutputs(*set, Stage::All);
    EXPECT_EQ(text(report), "");
    return *report;
  }

  nlohmann::json manifest;
  std::optional<Bundle> bundle;
  std::optional<Problem> problem;
  std::optional<TensorSet> set;
};
} // namespace

TEST_F(HandMadeTest, oneStepOfTheOutputIsAllowed) {
  // 16 * 1 * scale 0.25 is the score. In f16 1000 has the step 0.5.
  fill("v", 1000);
  fill("o", 1000);
  fill("lse", 4);
  CheckReport exact = check();
  EXPECT_TRUE(exact.pass());
  EXPECT_EQ(exact.o.yardstick, 0);
  EXPECT_EQ(exact.o.allowed, 0.5);
  EXPECT_EQ(exact.o.expected, 1000);
  for (float off : {999.5f, 1000.5f}) {
    setBits("o", 3, 0);
    set->tensor("o").store(set->tensor("o").position(3), off);
    CheckReport near = check();
    EXPECT_TRUE(near.pass()) << off;
    EXPECT_EQ(near.o.error, 0.5);
    EXPECT_EQ(near.o.worst, 3);
  }
  set->tensor("o").store(set->tensor("o").position(3), 1001);
  CheckReport far = check();
  EXPECT_FALSE(far.pass());
  EXPECT_EQ(far.o.error, 1);
  EXPECT_EQ(far.o.allowed, 0.5);
  EXPECT_EQ(far.o.actual, 1001);
}

TEST_F(HandMadeTest, smallValuesKeepTheSlack) {
  fill("v", 0.001f);
  fill("o", 0.001f);
  fill("lse", 4);
  EXPECT_EQ(check().o.allowed, 1e-5);
}

TEST_F(HandMadeTest, theWorstElementIsTheOneFurthestBeyondItsLimit) {
  // 2 off where 0.5 is allowed is worse than 4 off where 4 is.
  fill("v", 1000);
  fill("o", 1000);
  fill("lse", 4);
  HostTensor &v = set->tensor("v"), &o = set->tensor("o");
  v.store(v.position(7), 8000);
  o.store(o.position(7), 8004);
  o.store(o.position(2), 1002);
  ErrorReport report = check().o;
  EXPECT_EQ(report.worst, 2);
  EXPECT_EQ(report.error, 2);
  EXPECT_EQ(report.allowed, 0.5);
}

TEST_F(HandMadeTest, countsWhatIsNotFinite) {
  fill("v", 1);
  fill("o", 1);
  fill("lse", 4);
  setBits("o", 4, 0x7c00); // inf
  setBits("o", 6, 0x7e00); // NaN
  setBits("o", 7, 0x7e00);
  CheckReport report = check();
  EXPECT_EQ(report.o.nans, 2);
  EXPECT_EQ(report.o.infinities, 1);
  EXPECT_EQ(report.o.elements, 32);
  EXPECT_EQ(report.o.worst, 6);
  EXPECT_TRUE(report.inputs.empty());
}

TEST_F(HandMadeTest, namesInputsThatAreNotFinite) {
  fill("v", 1);
  fill("o", 1);
  fill("lse", 4);
  setBits("k", 17, 0x7e00);
  setBits("k", 18, 0xfc00);
  setBits("k", 19, 0x7c00);
  CheckReport report = check();
  EXPECT_FALSE(report.pass());
  ASSERT_EQ(report.inputs.size(), 1u);
  EXPECT_EQ(report.inputs[0].name, "k");
  EXPECT_EQ(report.inputs[0].nans, 1);
  EXPECT_EQ(report.inputs[0].infinities, 2);
  EXPECT_EQ(report.inputs[0].first, (std::vector<int64_t>{0, 1, 0, 1}));
}

TEST(CheckTest, scoresAreCompared) {
  // One query, scores of 0 and ln 3; the third key is hidden.
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 3, 1}, {0, std::log(3.0f), 9}),
      v({1, 1, 3, 1}, {4, 8, 0}), o({1, 1, 1, 1}, {7});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  Tensor bias({1, 1, 1, 3}, {0, 0, -INFINITY});
  inputs.bias = bias.view;
  Tensor masked({1, 1, 1, 3}, {0, std::log(3.0f), -INFINITY});
  Tensor weights({1, 1, 1, 3}, {0.25, 0.75, 0});
  for (auto [stage, scores] : {std::pair(ScoresStage::Masked, &masked),
                               {ScoresStage::Probabilities, &weights}}) {
    inputs.scoresStage = stage;
    AttentionOutputs outputs = {o.view, {}, scores->view};
    EXPECT_TRUE(checkOutputs(inputs, outputs)->pass());
    EXPECT_EQ(checkOutputs(inputs, outputs)->scores->elements, 3);
    float right = std::exchange(scores->values[2], 0.5f);
    CheckReport report = *checkOutputs(inputs, outputs);
    EXPECT_FALSE(report.pass());
    EXPECT_TRUE(report.o.pass());
    EXPECT_EQ(report.scores->at[3], 2);
    scores->values[2] = right;
  }
}

TEST(CheckTest, scoresMayBeOffByStepsOfWhatTheyAreSumsOf) {
  // One key, whose score is 1000 - 999 and whose probability is 1.
  Tensor q({1, 1, 1, 2}, {1, 1}), k({1, 1, 1, 2}, {1000, -999}),
      v({1, 1, 1, 1}, {4}), o({1, 1, 1, 1}, {4}), scores({1, 1, 1, 1}, {1});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  AttentionOutputs outputs = {o.view, {}, scores.view};
  double size = std::sqrt(2.0) * std::hypot(1000, 999);
  for (ScoresStage stage : {ScoresStage::Scaled, ScoresStage::Probabilities}) {
    inputs.scoresStage = stage;
    for (auto [steps, passes] : {std::pair(3.5, true), {4.5, false}}) {
      scores.values[0] = static_cast<float>(1 + steps * 0x1p-23 * size);
      EXPECT_EQ(checkOutputs(inputs, outputs)->pass(), passes) << steps;
    }
  }
}

TEST(CheckTest, lseIsOfF32WhateverPIsRoundedTo) {
  // One key: LSE is its score.
  for (float score : {0.0f, 3.0f, -1e6f}) {
    Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 1, 1}, {score}), v({1, 1, 1, 1}, {7}),
        o({1, 1, 1, 1}, {7}), lse({1, 1, 1, 1}, {score});
    AttentionInputs inputs =
        makeInputs(q.view, k.view, v.view, 1, Causal::None);
    const uint16_t half[] = {floatToHalf(1)};
    inputs.q.data = half;
    inputs.q.dtype = DType::F16;
    AttentionOutputs outputs = {o.view, lse.view};
    float allowed = 2e-5f * (1 + std::abs(score));
    for (auto [error, passes] : {std::pair(0.9f, true), {1.1f, false}}) {
      lse.values[0] = score + error * allowed;
      EXPECT_EQ(checkOutputs(inputs, outputs)->pass(), passes) << score;
    }
  }
}

TEST(CheckTest, lseOfChangedScoresIsOfF32AtLeast) {
  // The yardstick is exact: O would say that LSE must be, too.
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 1, 1}, {496}), v({1, 1, 1, 1}, {7}),
      o({1, 1, 1, 1}, {7}), lse({1, 1, 1, 1}, {496});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  nlohmann::json document = {{"values", nlohmann::json::array()},
                             {"result", 0}};
  JsonReader reader("test", "");
  std::vector<std::string> tensors;
  ScoreProgram same = ScoreProgram::read(reader, reader.root(document),
                                         ScoreProgram::Type::F32, tensors);
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  inputs.score = &same;
  AttentionOutputs outputs = {o.view, lse.view};
  for (auto [error, passes] : {std::pair(0.9f, true), {1.1f, false}}) {
    lse.values[0] = 496 + error * 2e-5f * 497;
    EXPECT_EQ(checkOutputs(inputs, outputs)->pass(), passes) << error;
  }
}

TEST(CheckTest, scoresWithoutRoomInTheirTypeAreInfinite) {
  // Scores of 1 and -1e9, of f16.
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 2, 1}, {1, 1}), v({1, 1, 2, 1}, {7, 8}),
      o({1, 1, 1, 1}, {7}), bias({1, 1, 1, 2}, {0, -1e9f});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.bias = bias.view;
  inputs.scoresStage = ScoresStage::Masked;
  std::vector<uint16_t> scores = {floatToHalf(1), floatToHalf(-INFINITY)};
  AttentionOutputs outputs = {
      o.view,
      {},
      TensorView{scores.data(), DType::F16, {1, 1, 1, 2}, {2, 2, 2, 1}}};
  EXPECT_TRUE(checkOutputs(inputs, outputs)->pass());
  scores[1] = floatToHalf(-65504);
  EXPECT_FALSE(checkOutputs(inputs, outputs)->pass());
}

TEST(CheckTest, aBiasThatHidesKeysIsFinite) {
  nlohmann::json manifest = staticManifest(64, 1);
  addBias(manifest);
  CheckReport report =
      run(Mistake::None, manifest, Stage::All, InputKind::Rising).report;
  EXPECT_TRUE(report.inputs.empty());
}

TEST(CheckTest, findsUnwrittenElements) {
  Outcome outcome = run(Mistake::Unwritten, staticManifest());
  EXPECT_EQ(text(outcome.status),
            "expects every element of 'o' to be written, but 1 of 1024 still "
            "hold the poison\n"
            "  note: the first is element 5 in packed order");
  EXPECT_TRUE(outcome.status.isKernelFault());
}

TEST(CheckTest, findsWritesBesideTheTensor) {
  EXPECT_EQ(text(run(Mistake::PastTheEnd, staticManifest()).status),
            "expects only elements of 'o' to be written, but the 4 bytes at "
            "2048 from its pointer changed\n"
            "  note: the tensor spans 2048 bytes");
  EXPECT_EQ(text(run(Mistake::BeforeStart, staticManifest()).status),
            "expects only elements of 'o' to be written, but the 4 bytes at "
            "-4 from its pointer changed\n"
            "  note: the tensor spans 2048 bytes");
}

TEST(CheckTest, aCrashIsAKernelFault) {
  Outcome outcome = run(Mistake::Crash, staticManifest());
  EXPECT_EQ(text(outcome.status),
            "the host device crashed\n"
            "  note: while running attention for B1 H2/2 S32x48 D16 f16 lse");
  EXPECT_TRUE(outcome.status.isKernelFault());
}

TEST(CheckTest, everyStagePassesAndFails) {
  for (const nlohmann::json &manifest :
       {staticManifest(24, 16), staticManifest(24, 16, "bottom_right"),
        richManifest(24, 16)})
    for (Stage stage : {Stage::QK, Stage::Softmax, Stage::PV}) {
      auto causal = manifest["attention"]["causal"].get<std::string>();
      Outcome good = run(Mistake::None, manifest, stage);
      ASSERT_TRUE(good.report.stage);
      EXPECT_TRUE(good.report.pass()) << stringify(stage) << " " << causal
                                      << " " << good.report.stage->error;
      Outcome bad = run(Mistake::ScaleOutputs, manifest, stage);
      EXPECT_FALSE(bad.report.stage->pass()) << stringify(stage);
      EXPECT_FALSE(run(Mistake::NotANumber, manifest, stage).report.pass());
    }
}

TEST(CheckTest, countsOperations) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(2, 4, 2, 32, 48));
  EXPECT_EQ(attentionFlops(*problem), 4.0 * 2 * 4 * 32 * 48 * 16);
  // Causal: row i of 32 sees i + 17 keys of 48, or i + 1.
  Mask &mask = bundle.attention.mask;
  mask.causal = Causal::BottomRight;
  EXPECT_EQ(attentionFlops(*problem),
            4.0 * 2 * 4 * (32 * 17 + 31 * 32 / 2) * 16);
  mask.causal = Causal::TopLeft;
  EXPECT_EQ(attentionFlops(*problem), 4.0 * 2 * 4 * (32 * 33 / 2) * 16);
  // With equal lengths the field counts half of the square.
  StatusOr<Problem> square =
      Problem::create(bundle, testRequest(2, 4, 2, 32, 32));
  EXPECT_EQ(attentionFlops(*square), 2.0 * 2 * 4 * 32 * 32 * 16);
}

TEST(CheckTest, countsOnlyTheOperationsOfAWindow) {
  Bundle bundle = loadTestBundle();
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(1, 2, 2, 10, 10));
  auto pairs = [&](Causal causal, std::optional<int64_t> left,
                   std::optional<int64_t> right) {
    bundle.attention.mask = {causal, left, right};
    return attentionFlops(*problem) / (4.0 * 2 * 16);
  };
  EXPECT_EQ(pairs(Causal::None, 0, 0), 10);
  EXPECT_EQ(pairs(Causal::None, 2, 1), 30 - 1 - 2 - 1 + 10);
  EXPECT_EQ(pairs(Causal::BottomRight, 2, std::nullopt), 30 - 1 - 2);
  EXPECT_EQ(pairs(Causal::BottomRight, 100, std::nullopt), 55);
}

TEST(CheckTest, aWindowTooFarLeftLeavesNothingToCount) {
  // 20 queries and 4 keys: the first 16 queries stand before all keys.
  Bundle bundle = loadTestBundle();
  bundle.attention.mask.windowRight = 0;
  StatusOr<Problem> problem =
      Problem::create(bundle, testRequest(1, 2, 2, 20, 4));
  EXPECT_EQ(attentionFlops(*problem), 4.0 * 2 * (1 + 2 + 3 + 4) * 16);
}

TEST(CheckTest, timesOverEightSmallSets) {
  HostDevice device;
  Bundle bundle = loadTestBundle(staticManifest());
  StatusOr<std::unique_ptr<LoadedModule>> module = device.load(bundle);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  StatusOr<Timing> timing =
      timeProblem(device, **module, *problem, randomInputs(1), {});
  ASSERT_EQ(text(timing), "");
  EXPECT_EQ(device.timedSets, 8u);
  EXPECT_EQ(timing->replays, 15);
}

TEST(CheckTest, sinksLengthsAndPagesPass) {
  for (const char *causal : {"none", "bottom_right", "top_left"}) {
    nlohmann::json sinks = staticManifest(32, 48, causal);
    addVector(sinks, "sink_logits", "f32", "heads_q");
    nlohmann::json used = staticManifest(32, 48, causal);
    addVector(used, "seqused_k", "i32", "batch");
    nlohmann::json varlen = varlenManifest(32, 48, 3, causal, true);
    addVector(varlen, "sink_logits", "f32", "heads_q");
    nlohmann::json paged = pagedManifest(32, 16, 3, 8, 2, causal);
    nlohmann::json usedPages = pagedManifest(32, 16, 3, 4, 2, causal);
    addVector(usedPages, "seqused_k", "i32", "batch");
    for (const nlohmann::json &manifest :
         {sinks, used, varlen, paged, usedPages,
          pagedVarlenManifest(32, 16, 3, 9, 3, causal)})
      for (InputKind kind : kindsOf(manifest)) {
        Outcome outcome = run(Mistake::None, manifest, Stage::All, kind);
        EXPECT_EQ(text(outcome.status), "");
        EXPECT_TRUE(outcome.report.pass()) << causal << " " << stringify(kind);
        EXPECT_FALSE(
            run(Mistake::WrongValue, manifest, Stage::All, kind).report.pass())
            << causal << " " << stringify(kind);
      }
  }
}

/// Runs with sequences that have the query rows from 2 to before 20 of 32.
static Outcome runSomeRows(Mistake mistake) {
  HostDevice device(mistake);
  Bundle bundle = loadTestBundle(varlenManifest(32, 48, 2));
  StatusOr<std::unique_ptr<LoadedModule>> module = device.load(bundle);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  EXPECT_EQ(text(set->fillInputs(7, InputKind::Normal, Stage::All)), "");
  HostTensor &cu = set->tensor("cu_seqlens_q");
  for (auto [index, value] : {std::pair(0, 2), {1, 9}, {2, 20}})
    cu.storeBits(cu.position(index), static_cast<uint32_t>(value));
  Outcome outcome;
  outcome.status = runOnce(device, **module, *set);
  if (outcome.status.ok())
    outcome.report = *checkOutputs(*set, Stage::All);
  return outcome;
}

TEST(CheckTest, rowsOfNoSequenceStayAsTheyWere) {
  Outcome outcome = runSomeRows(Mistake::None);
  EXPECT_EQ(text(outcome.status), "");
  EXPECT_TRUE(outcome.report.pass());
  EXPECT_EQ(outcome.report.o.elements, 2 * 18 * 16);
  EXPECT_EQ(outcome.report.lse->elements, 2 * 18);
  outcome = runSomeRows(Mistake::EveryRow);
  EXPECT_TRUE(outcome.status.isKernelFault());
  EXPECT_EQ(text(outcome.status),
            "expects only elements of 'o' to be written, but the 4 bytes at 0 "
            "from its pointer changed\n"
            "  note: the tensor spans 2048 bytes\n"
            "  note: sequences have the query rows from 2 to before 20");
  // The element 5 of o is of row 0.
  EXPECT_TRUE(runSomeRows(Mistake::Unwritten).report.pass());
}

TEST(CheckTest, anInfiniteSinkBelowAllIsNoBadInput) {
  nlohmann::json manifest = staticManifest(1, 1);
  addVector(manifest, "sink_logits", "f32", "heads_q");
  HostDevice device;
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<std::unique_ptr<LoadedModule>> module = device.load(bundle);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set->fillInputs(7, InputKind::Normal, Stage::All)), "");
  HostTensor &sinks = set->tensor("sink_logits");
  sinks.store(sinks.position(0), -INFINITY);
  ASSERT_EQ(text(runOnce(device, **module, *set)), "");
  CheckReport report = *checkOutputs(*set, Stage::All);
  EXPECT_TRUE(report.pass());
  EXPECT_TRUE(report.inputs.empty());
  sinks.store(sinks.position(1), INFINITY);
  report = *checkOutputs(*set, Stage::All);
  ASSERT_EQ(report.inputs.size(), 1u);
  EXPECT_EQ(report.inputs[0].first, std::vector<int64_t>{1});
}

TEST(CheckTest, countsTheOperationsOfSequences) {
  Bundle bundle = loadTestBundle(varlenManifest(32, 48, 2));
  StatusOr<Problem> problem = Problem::create(bundle, {});
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set->fillInputs(7, InputKind::Normal, Stage::All)), "");
  const std::pair<const char *, std::array<uint32_t, 3>> lengths[] = {
      {"cu_seqlens_q", {0, 5, 30}}, {"cu_seqlens_k", {8, 18, 48}}};
  for (const auto &[name, values] : lengths)
    for (int64_t i = 0; i < 3; ++i)
      set->tensor(name).storeBits(set->tensor(name).position(i), values[i]);
  EXPECT_EQ(attentionFlops(set->inputs()), 4.0 * 2 * (5 * 10 + 25 * 30) * 16);
}

TEST(CheckTest, aCallLeavesRowsOfNoSequenceAlone) {
  Bundle bundle = loadTestBundle(varlenManifest(4, 4, 1));
  std::vector<uint16_t> q(2 * 4 * 16, 0x3c00), o(2 * 4 * 16, 7);
  std::vector<float> lse(2 * 4, 7);
  std::vector<int32_t> cuQ = {1, 3}, cuK = {0, 4};
  const int64_t sizes[] = {1, 2, 4, 16}, strides[] = {128, 64, 16, 1};
  const int64_t sizesOfLse[] = {1, 2, 4}, stridesOfLse[] = {8, 4, 1};
  const int64_t two = 2, one = 1;
  const CallTensor tensors[] = {{"q", sizes, strides},
                                {"k", sizes, strides},
                                {"v", sizes, strides},
                                {"o", sizes, strides},
                                {"lse", sizesOfLse, stridesOfLse},
                                {"cu_seqlens_q", {&two, 1}, {&one, 1}},
                                {"cu_seqlens_k", {&two, 1}, {&one, 1}}};
  void *data[] = {q.data(),   q.data(),   q.data(),  o.data(),
                  lse.data(), cuQ.data(), cuK.data()};
  ASSERT_EQ(text(computeReference(bundle, tensors, data, 1)), "");
  for (size_t row = 0; row < 8; ++row) {
    bool isOfSequence = row % 4 == 1 || row % 4 == 2;
    EXPECT_EQ(lse[row] == 7, !isOfSequence) << row;
    EXPECT_EQ(o[row * 16], isOfSequence ? 0x3c00 : 7) << row;
  }
  StatusOr<CheckReport> report = checkOutputs(bundle, tensors, data, 1);
  ASSERT_EQ(text(report), "");
  EXPECT_TRUE(report->pass());
  cuQ[1] = 5;
  const char *refusal =
      "expects cu_seqlens_q[1] to be at most the seqlen_q of the tensors (4), "
      "but got 5\n  note: sequences lie one after another on that axis";
  EXPECT_EQ(text(computeReference(bundle, tensors, data, 1)), refusal);
  EXPECT_EQ(text(checkOutputs(bundle, tensors, data, 1)), refusal);
}

TEST(CheckTest, countsTheOperationsOfPages) {
  Bundle bundle = loadTestBundle(pagedManifest(32, 16, 3, 8, 2));
  StatusOr<Problem> problem = Problem::create(bundle, {});
  double whole = 4.0 * 2 * 2 * 32 * 48 * 16;
  EXPECT_EQ(attentionFlops(*problem), whole);
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set->fillInputs(7, InputKind::Normal, Stage::All)), "");
  EXPECT_EQ(attentionFlops(set->inputs()), whole);
}

// Two keys in pages of one: v of page 1, then of page 0, which is not used.
TEST(CheckTest, aCallReadsKeysThroughThePages) {
  nlohmann::json manifest = pagedManifest(1, 1, 2, 2, 1);
  addVector(manifest, "seqused_k", "i32", "batch");
  Bundle bundle = loadTestBundle(manifest);
  std::vector<uint16_t> q(2 * 16, 0x3c00), k(2 * 2 * 16, 0x3c00),
      v(2 * 2 * 16, 0x7e00), o(2 * 16);
  std::fill(v.begin() + 32, v.end(), 0x4000);
  std::vector<float> lse(2);
  std::vector<int32_t> table = {1, 5}, used = {1};
  const int64_t sizes[] = {1, 2, 1, 16}, strides[] = {32, 16, 16, 1};
  const int64_t sizesOfK[] = {2, 2, 1, 16}, sizesOfLse[] = {1, 2, 1},
                stridesOfLse[] = {2, 1, 1}, sizesOfTable[] = {1, 2},
                stridesOfTable[] = {2, 1}, one = 1;
  const CallTensor tensors[] = {{"q", sizes, strides},
                                {"k", sizesOfK, strides},
                                {"v", sizesOfK, strides},
                                {"o", sizes, strides},
                                {"lse", sizesOfLse, stridesOfLse},
                                {"page_table", sizesOfTable, stridesOfTable},
                                {"seqused_k", {&one, 1}, {&one, 1}}};
  void *data[] = {q.data(),   k.data(),     v.data(),   o.data(),
                  lse.data(), table.data(), used.data()};
  ASSERT_EQ(text(computeReference(bundle, tensors, data, 1)), "");
  EXPECT_EQ(o, std::vector<uint16_t>(2 * 16, 0x4000));
  StatusOr<CheckReport> report = checkOutputs(bundle, tensors, data, 1);
  ASSERT_EQ(text(report), "");
  EXPECT_TRUE(report->pass());
  used[0] = 2;
  const char *refusal =
      "expects page_table[0, 1] to be from 0 to pages - 1 (1), but got 5\n"
      "  note: batch entry 0 has 2 keys, in pages of 1";
  EXPECT_EQ(text(computeReference(bundle, tensors, data, 1)), refusal);
  EXPECT_EQ(text(checkOutputs(bundle, tensors, data, 1)), refusal);
}

// Three queries, twelve rows of two heads, five keys that are there.
TEST(CheckTest, rowsThatACallAppendsAreCompared) {
  for (bool isTurned : {false, true}) {
    Bundle bundle = loadTestBundle(appendManifest(isTurned));
    std::vector<uint16_t> q(2 * 3 * 16, 0x3c00), k(2 * 12 * 16, 0x3c00),
        v(2 * 12 * 16, 0x4000), o(2 * 3 * 16), kNew(2 * 2 * 16, 0x3c00),
        vNew(2 * 2 * 16, 0x4200), cos(8 * 4, 0), sin(8 * 4, 0x3c00);
    std::vector<float> lse(2 * 3);
    std::vector<int32_t> used = {5};
    const int64_t sizes[] = {1, 2, 3, 16}, strides[] = {96, 48, 16, 1};
    const int64_t sizesOfK[] = {1, 2, 12, 16}, stridesOfK[] = {384, 192, 16, 1};
    const int64_t sizesOfNew[] = {1, 2, 2, 16},
                  stridesOfNew[] = {64, 32, 16, 1};
    const int64_t sizesOfLse[] = {1, 2, 3}, stridesOfLse[] = {6, 3, 1},
                  sizesOfCos[] = {8, 4}, stridesOfCos[] = {4, 1}, one = 1;
    std::vector<CallTensor> tensors = {{"q", sizes, strides},
                                       {"k", sizesOfK, stridesOfK},
                                       {"v", sizesOfK, stridesOfK},
                                       {"o", sizes, strides},
                                       {"lse", sizesOfLse, stridesOfLse},
                                       {"seqused_k", {&one, 1}, {&one, 1}},
                                       {"k_new", sizesOfNew, stridesOfNew},
                                       {"v_new", sizesOfNew, stridesOfNew}};
    std::vector<void *> data = {q.data(),    k.data(),   v.data(),
                                o.data(),    lse.data(), used.data(),
                                kNew.data(), vNew.data()};
    if (isTurned) {
      tensors.push_back({"rotary_cos", sizesOfCos, stridesOfCos});
      tensors.push_back({"rotary_sin", sizesOfCos, stridesOfCos});
      data.insert(data.end(), {cos.data(), sin.data()});
    }
    ASSERT_EQ(text(computeReference(bundle, tensors, data, 1)), "");
    // Row 5 of head 0: x' = -y and y' = x, of columns 0 and 4.
    EXPECT_EQ(k[5 * 16], isTurned ? 0xbc00 : 0x3c00);
    EXPECT_EQ(k[5 * 16 + 8], 0x3c00);
    EXPECT_EQ(v[4 * 16], 0x4000);
    EXPECT_EQ(v[5 * 16], 0x4200);
    EXPECT_EQ(v[7 * 16], 0x4000);
    StatusOr<CheckReport> report = checkOutputs(bundle, tensors, data, 1);
    ASSERT_EQ(text(report), "");
    EXPECT_TRUE(report->pass());
    EXPECT_EQ(report->k->elements, 64);
    // One step is allowed of what was turned alone.
    k[(12 + 6) * 16 + 3] ^= 1;
    report = checkOutputs(bundle, tensors, data, 1);
    EXPECT_EQ(report->k->pass(), isTurned);
    EXPECT_EQ(report->k->at, (std::array<int64_t, 4>{0, 1, 1, 3}));
    v[5 * 16 + 15] ^= 1;
    report = checkOutputs(bundle, tensors, data, 1);
    EXPECT_FALSE(report->pass());
    EXPECT_FALSE(report->v->pass());
    // Of an entry that is not there nothing is written, nor compared.
    std::vector<uint16_t> before = k;
    used[0] = -1;
    ASSERT_EQ(text(computeReference(bundle, tensors, data, 1)), "");
    EXPECT_EQ(k, before);
    EXPECT_EQ(o, std::vector<uint16_t>(o.size(), 0));
    report = checkOutputs(bundle, tensors, data, 1);
    EXPECT_TRUE(report->pass());
    EXPECT_EQ(report->k->elements, 0);
  }
}

TEST(CheckTest, whatIsNoNewRowMustStay) {
  Bundle bundle = loadTestBundle(appendManifest(/*isTurned=*/false));
  StatusOr<Problem> problem = Problem::create(bundle, {});
  ASSERT_EQ(text(problem), "");
  StatusOr<HostTensor> tensor = HostTensor::create(*problem->findTensor("k"));
  HostTensor before = *tensor;
  std::span<const std::byte> bytes = {
      before.storage(), static_cast<size_t>(before.storageBytes())};
  auto isNew = [](int64_t index) { return index / 16 % 12 == 7; };
  tensor->storeBits(7 * 16 + 3, 1);
  EXPECT_EQ(text(tensor->verifyUpdated(bytes, isNew)), "");
  tensor->storeBits(6 * 16 + 3, 1);
  EXPECT_EQ(text(tensor->verifyUpdated(bytes, isNew)),
            "expects only the new rows of 'k' to be written, but the byte at "
            "198 from its pointer changed\n"
            "  note: the tensor spans 768 bytes");
}
