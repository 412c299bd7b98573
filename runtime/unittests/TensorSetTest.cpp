//===- TensorSetTest.cpp - Inputs of a run --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random inputs by seed and kind, the inputs of each stage, and the errors of
// moving tensors to the device.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "HostDevice.h"
#include "TensorValues.h"
#include "TestBundle.h"

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/TensorSet.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
class TensorSetTest : public ::testing::Test {
protected:
  explicit TensorSetTest(const nlohmann::json &manifest = staticManifest(64,
                                                                         16))
      : bundle(loadTestBundle(manifest)), problem(*Problem::create(bundle, {})),
        set(std::move(*TensorSet::create(problem))) {}

  std::vector<double> values(const char *name) { return valuesOf(set, name); }

  static double deviation(const std::vector<double> &values) {
    double sum = 0;
    for (double value : values)
      sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  }

  Bundle bundle;
  Problem problem;
  TensorSet set;
};
} // namespace

TEST_F(TensorSetTest, aSeedGivesTheSameInputsAndAnotherDoesNot) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  std::vector<double> q = values("q"), k = values("k"), v = values("v");
  ASSERT_EQ(text(set.fillInputs(2, InputKind::Normal, Stage::All)), "");
  EXPECT_NE(values("q"), q);
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  EXPECT_EQ(values("q"), q);
  EXPECT_NE(k, v);
}

TEST_F(TensorSetTest, normalInputsHaveUnitDeviation) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  EXPECT_NEAR(deviation(values("q")), 1, 0.05);
  EXPECT_NEAR(deviation(values("k")), 1, 0.1);
}

TEST_F(TensorSetTest, risingKeysGrowAlongTheSequence) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Rising, Stage::All)), "");
  std::vector<double> k = values("k");
  std::vector<double> first(k.begin(), k.begin() + 16),
      last(k.begin() + 15 * 16, k.begin() + 16 * 16);
  EXPECT_LT(deviation(first), 0.3);
  EXPECT_GT(deviation(last), 1.5);
  EXPECT_NEAR(deviation(values("q")), 2, 0.1);
}

TEST_F(TensorSetTest, fallingKeysShrinkAlongTheSequence) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Falling, Stage::All)), "");
  std::vector<double> k = values("k");
  std::vector<double> first(k.begin(), k.begin() + 16),
      last(k.begin() + 15 * 16, k.begin() + 16 * 16);
  EXPECT_GT(deviation(first), 1.5);
  EXPECT_LT(deviation(last), 0.3);
  EXPECT_NEAR(deviation(values("q")), 2, 0.1);
}

TEST_F(TensorSetTest, spikedScoresOfKeyZeroAreOutOfRange) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Spiked, Stage::All)), "");
  std::vector<double> q = values("q"), k = values("k");
  auto getScore = [&](size_t row, size_t key) {
    return std::inner_product(q.begin() + row * 16, q.begin() + (row + 1) * 16,
                              k.begin() + key * 16, 0.0);
  };
  // In exponents of 2, of a scale of 1/4.
  constexpr double range = 128 / (std::numbers::log2e / 4);
  EXPECT_GT(getScore(0, 0), getScore(0, 1) + range);
  EXPECT_LT(getScore(1, 0), getScore(1, 1) - range);
  EXPECT_LT(std::abs(getScore(0, 1)), range);
}

TEST_F(TensorSetTest, shiftedScoresAreFarFromZero) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Shifted, Stage::All)), "");
  std::vector<double> q = values("q"), k = values("k");
  for (size_t row : {0, 1}) {
    double score = std::inner_product(
        q.begin() + row * 16, q.begin() + (row + 1) * 16, k.begin(), 0.0);
    EXPECT_GT(row ? -score : score, 100) << row;
  }
  EXPECT_NEAR(deviation(values("v")), 1, 0.1);
}

TEST_F(TensorSetTest, stagesIsolateAStep) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::PV)), "");
  EXPECT_EQ(deviation(values("q")), 0);
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::Softmax)), "");
  std::vector<double> v = values("v");
  for (size_t i = 0; i < 16 * 16; ++i)
    EXPECT_EQ(v[i], i / 16 == i % 16 ? 1 : 0);
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::QK)), "");
  // Scores of deviation 1/4: scale 1/4 times sqrt(head_dim) = 4 times 1/4.
  EXPECT_NEAR(deviation(values("q")), 0.25, 0.02);
}

namespace {
class BiasTest : public TensorSetTest {
protected:
  BiasTest() : TensorSetTest(manifest()) {}

  static nlohmann::json manifest() {
    nlohmann::json manifest = staticManifest(64, 16);
    manifest["attention"]["softcap"] = 20;
    manifest["attention"]["window_left"] = 5;
    addBias(manifest, "f16", {"1", "heads_q", "seqlen_q", "seqlen_k"});
    return manifest;
  }
  int64_t countHidden() {
    std::vector<double> bias = values("bias");
    return std::count(bias.begin(), bias.end(), -INFINITY);
  }
};
} // namespace

TEST_F(BiasTest, isNormalWithAStreamOfItsOwn) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  std::vector<double> bias = values("bias"), q = values("q");
  EXPECT_NEAR(deviation(bias), 1, 0.05);
  EXPECT_EQ(countHidden(), 0);
  for (const char *name : {"q", "k", "v"}) {
    std::vector<double> other = values(name);
    EXPECT_FALSE(std::equal(other.begin(), other.begin() + 16, bias.begin()))
        << name;
  }
  ASSERT_EQ(text(set.fillInputs(2, InputKind::Normal, Stage::All)), "");
  EXPECT_NE(values("bias"), bias);
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  EXPECT_EQ(values("bias"), bias);
}

TEST_F(BiasTest, doesNotChangeTheOtherInputs) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Rising, Stage::All)), "");
  Bundle plain = loadTestBundle(staticManifest(64, 16));
  Problem plainProblem = *Problem::create(plain, {});
  TensorSet without = std::move(*TensorSet::create(plainProblem));
  ASSERT_EQ(text(without.fillInputs(1, InputKind::Rising, Stage::All)), "");
  for (const char *name : {"q", "k", "v"}) {
    HostTensor &tensor = without.tensor(name);
    std::vector<double> expected;
    tensor.forEach(
        [&](int64_t, int64_t at) { expected.push_back(tensor.load(at)); });
    EXPECT_EQ(values(name), expected) << name;
  }
}

TEST_F(BiasTest, risingHidesOneKeyInEight) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Rising, Stage::All)), "");
  double part = static_cast<double>(countHidden()) / (2 * 64 * 16);
  EXPECT_NEAR(part, 0.125, 0.03);
}

TEST_F(BiasTest, stagesHideNothingAndPVHasNone) {
  for (Stage stage : {Stage::QK, Stage::Softmax, Stage::PV}) {
    ASSERT_EQ(text(set.fillInputs(1, InputKind::Rising, stage)), "");
    EXPECT_EQ(countHidden(), 0) << stringify(stage);
  }
  EXPECT_EQ(deviation(values("bias")), 0);
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::QK)), "");
  EXPECT_NEAR(deviation(values("bias")), 0.25, 0.02);
}

TEST_F(BiasTest, isStoredWithoutItsCopies) {
  EXPECT_EQ(set.tensor("bias").storageBytes(),
            2 * 64 * 16 * 2 + 2 * HostTensor::GuardBytes);
}

TEST_F(BiasTest, reachesTheReference) {
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  AttentionInputs inputs = set.inputs();
  EXPECT_EQ(inputs.softcap, 20);
  EXPECT_EQ(inputs.mask.windowLeft, 5);
  EXPECT_EQ(inputs.mask.windowRight, std::nullopt);
  ASSERT_TRUE(inputs.bias);
  EXPECT_EQ(inputs.bias->sizes, (std::array<int64_t, 4>{1, 2, 64, 16}));
  EXPECT_EQ(inputs.bias->strides, (std::array<int64_t, 4>{0, 1024, 16, 1}));
  EXPECT_EQ(loadBias(inputs, getSequence(inputs, 0), 1, 3, 4),
            values("bias")[1024 + 3 * 16 + 4]);
}

TEST_F(TensorSetTest, withoutABiasTheReferenceHasNone) {
  EXPECT_FALSE(set.inputs().bias);
  EXPECT_FALSE(set.inputs().softcap);
}

TEST_F(TensorSetTest, uploadPoisonsOutputsAndWorkspace) {
  HostDevice device;
  TensorSet moved = std::move(*TensorSet::create(problem));
  ASSERT_EQ(text(moved.fillInputs(1, InputKind::Normal, Stage::All)), "");
  ASSERT_EQ(text(moved.upload(device)), "");
  EXPECT_EQ(text(moved.download(device)),
            "expects every element of 'o' to be written, but 2048 of 2048 "
            "still hold the poison\n"
            "  note: the first is element 0 in packed order");
}

TEST_F(TensorSetTest, leavesGuardsOutWhereTheDeviceChecksBounds) {
  std::unique_ptr<Device> device = createEmulatorDevice();
  TensorSet set = std::move(*TensorSet::create(problem));
  ASSERT_EQ(text(set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  ASSERT_EQ(text(set.upload(*device)), "");
  DevicePointer q = (*set.launches(*device))[0].arguments[0];
  std::vector<std::byte> data(
      static_cast<size_t>(set.tensor("q").storageBytes()));
  int64_t bytes = set.tensor("q").storageBytes() - 2 * HostTensor::GuardBytes;
  ASSERT_EQ(text(device->copyToHost(data.data(), q, bytes)), "");
  EXPECT_EQ(std::memcmp(data.data(),
                        set.tensor("q").storage() + HostTensor::GuardBytes,
                        static_cast<size_t>(bytes)),
            0);
  EXPECT_NE(text(device->copyToHost(data.data(), q, bytes + 1)), "");
  EXPECT_NE(text(device->copyToHost(data.data(), q - 1, 1)), "");
  // Outputs come back, with their guards as they were on the host.
  EXPECT_EQ(text(set.download(*device)),
            "expects every element of 'o' to be written, but 2048 of 2048 "
            "still hold the poison\n"
            "  note: the first is element 0 in packed order");
}

TEST_F(TensorSetTest, namesTheTensorThatCouldNotBeMoved) {
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  TensorSet moved = std::move(*TensorSet::create(problem));
  fake.failAt("cuMemAlloc", 2, 1);
  EXPECT_EQ(text(moved.upload(*device)),
            "cuMemAlloc(1536 bytes) failed: CUDA_ERROR_OUT_OF_MEMORY (2): as "
            "planned\n  note: the device is full: free memory or use a smaller "
            "problem\n  note: allocating 'k'");
  fake.failAt("cuMemAlloc", 0);
  fake.failAt("cuMemsetD32Async", 999);
  EXPECT_EQ(text(moved.upload(*device)),
            "cuMemsetD32Async failed: CUDA_ERROR_FAKE (999): as planned\n"
            "  note: preparing 'o'");
  fake.failAt("cuMemsetD32Async", 0);
  ASSERT_EQ(text(moved.upload(*device)), "");
  fake.failAt("cuMemcpyDtoHAsync", 999);
  EXPECT_EQ(text(moved.download(*device)),
            "cuMemcpyDtoHAsync failed: CUDA_ERROR_FAKE (999): as planned\n"
            "  note: copying 'o' back");
}

TEST(TensorSetWorkspaceTest, allocatesAndPassesTheWorkspace) {
  nlohmann::json manifest = staticManifest();
  manifest["workspace"] = {{{"bytes", "10"}}};
  manifest["kernels"][0]["arguments"] = {
      {{"kind", "pointer"}, {"tensor", "workspace"}}};
  Bundle bundle = loadTestBundle(manifest);
  StatusOr<Problem> problem = Problem::create(bundle, {});
  HostDevice device;
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set->upload(device)), "");
  StatusOr<std::vector<KernelLaunch>> launches = set->launches(device);
  ASSERT_EQ(text(launches), "");
  uint32_t word = 0;
  ASSERT_EQ(text(device.copyToHost(&word, (*launches)[0].arguments[0], 4)), "");
  EXPECT_EQ(word, PoisonPattern);
}

TEST(TensorSetWorkspaceTest, aFailedAllocationNamesTheWorkspace) {
  Bundle bundle = loadTestBundle(splitManifest());
  StatusOr<Problem> problem = Problem::create(bundle, {});
  FakeCuda fake;
  std::unique_ptr<Device> device = fake.open();
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  fake.failAt("cuMemAlloc", 2, /*skip=*/5);
  EXPECT_EQ(text(set->upload(*device)),
            "cuMemAlloc(7680 bytes) failed: CUDA_ERROR_OUT_OF_MEMORY (2): as "
            "planned\n"
            "  note: the device is full: free memory or use a smaller problem\n"
            "  note: allocating the workspace");
}

// A launch sequence is both kernels, and each set has a workspace of its own.
TEST(TensorSetWorkspaceTest, timesAllKernelsOfASet) {
  Bundle bundle = loadTestBundle(splitManifest());
  StatusOr<Problem> problem = Problem::create(bundle, {});
  FakeCuda fake;
  fake.parameters.resize(2);
  std::unique_ptr<Device> device = fake.open();
  StatusOr<std::unique_ptr<LoadedModule>> module = device->load(bundle);
  ASSERT_EQ(text(module), "");
  TimingOptions options;
  options.launchesPerReplay = 2;
  ASSERT_EQ(
      text(timeProblem(*device, **module, *problem, randomInputs(1), options)),
      "");
  ASSERT_EQ(fake.launches.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(fake.launches[i].isCaptured);
    EXPECT_EQ(fake.launches[i].kernel, i % 2 ? "merge" : "attention");
    EXPECT_EQ(fake.launches[i].arguments[1],
              fake.launches[i / 2 * 2].arguments[1]);
  }
  EXPECT_NE(fake.launches[0].arguments[1], fake.launches[2].arguments[1]);
}

// So that a device that checks kernels can name elements.
TEST(TensorSetDescribeTest, saysWhereElementsLie) {
  Bundle bundle = loadTestBundle();
  ProblemRequest request = testRequest();
  request.offset = 8;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  ASSERT_EQ(text(problem), "");
  HostDevice device;
  StatusOr<TensorSet> set = TensorSet::create(*problem);
  ASSERT_EQ(text(set->upload(device)), "");
  StatusOr<std::vector<KernelLaunch>> launches = set->launches(device);
  ASSERT_EQ(text(launches), "");
  const TensorGeometry &q = *problem->findTensor("q");
  ASSERT_EQ(device.descriptions.size(), problem->tensors().size());
  const HostDevice::Description &said = device.descriptions[0];
  EXPECT_EQ(said.elementBytes, 2);
  EXPECT_EQ(said.sizes, q.sizes);
  EXPECT_EQ(said.strides, q.strides);
  // Behind the pointer that the kernel gets, by the offset.
  EXPECT_EQ(said.pointer, (*launches)[0].arguments[0] + 8 * 2);
}

TEST(StageTest, refusesProblemsThatDoNotFit) {
  Bundle bundle = loadTestBundle(staticManifest(32, 48));
  StatusOr<Problem> problem = Problem::create(bundle, {});
  for (const char *name : {"qk", "softmax"})
    EXPECT_EQ(text(verifyStage(*problem, std::string_view(name) == "qk"
                                             ? Stage::QK
                                             : Stage::Softmax)),
              "expects seqlen_k to be at most head_dim_v for stage '" +
                  std::string(name) +
                  "', but got 48 and 16\n"
                  "  note: this stage makes V an identity matrix: use a "
                  "shorter seqlen_k");
  EXPECT_EQ(text(verifyStage(*problem, Stage::PV)), "");

  nlohmann::json manifest = staticManifest(32, 16);
  manifest["tensors"].erase(4);
  manifest["kernels"][0]["arguments"].erase(4);
  bundle = loadTestBundle(manifest);
  problem = Problem::create(bundle, {});
  EXPECT_EQ(text(verifyStage(*problem, Stage::QK)),
            "expects a bundle with an lse output for stage 'qk', but got one "
            "without\n"
            "  note: this stage recovers the scores as ln(O) + lse: compile an "
            "attention that returns lse");
}

namespace {
/// A set of sequences, whose lengths are integers.
struct SequenceSet {
  explicit SequenceSet(const nlohmann::json &manifest)
      : bundle(loadTestBundle(manifest)), problem(*Problem::create(bundle, {})),
        set(std::move(*TensorSet::create(problem))) {}

  std::vector<int64_t> fill(uint64_t seed, const char *name) {
    EXPECT_EQ(text(set.fillInputs(seed, InputKind::Normal, Stage::All)), "");
    EXPECT_EQ(text(verifyLengths(set.inputs())), "");
    return lengths(name);
  }
  std::vector<int64_t> lengths(const char *name) {
    std::vector<int64_t> result;
    HostTensor &tensor = set.tensor(name);
    tensor.forEach([&](int64_t, int64_t at) {
      result.push_back(static_cast<int64_t>(tensor.load(at)));
    });
    return result;
  }
  void store(const char *name, int64_t index, int32_t value) {
    HostTensor &tensor = set.tensor(name);
    tensor.storeBits(tensor.position(index), static_cast<uint32_t>(value));
  }

  Bundle bundle;
  Problem problem;
  TensorSet set;
};
} // namespace

TEST(SequenceInputsTest, sequencesCoverAllRows) {
  SequenceSet set(varlenManifest(64, 48, 6));
  bool hasEmpty = false;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<int64_t> q = set.fill(seed, "cu_seqlens_q");
    std::vector<int64_t> k = set.lengths("cu_seqlens_k");
    EXPECT_EQ(q.front(), 0);
    EXPECT_EQ(q.back(), 64);
    EXPECT_EQ(k.front(), 0);
    EXPECT_EQ(k.back(), 48);
    EXPECT_NE(q, k);
    hasEmpty |= std::adjacent_find(q.begin(), q.end()) != q.end();
    EXPECT_NE(q, set.fill(seed + 100, "cu_seqlens_q"));
    EXPECT_EQ(q, set.fill(seed, "cu_seqlens_q"));
  }
  EXPECT_TRUE(hasEmpty);
}

TEST(SequenceInputsTest, asManyKeysAsQueriesAreOfTheSameSequences) {
  SequenceSet set(varlenManifest(64, 64, 6));
  for (uint64_t seed = 0; seed < 5; ++seed)
    EXPECT_EQ(set.fill(seed, "cu_seqlens_q"), set.lengths("cu_seqlens_k"));
}

TEST(SequenceInputsTest, fewSequencesAndRowsAreFilledToo) {
  for (int64_t sequences : {0, 1, 2})
    for (int64_t rows : {0, 1})
      for (bool hasUsed : {false, true}) {
        nlohmann::json manifest =
            varlenManifest(rows, 2, sequences, "none", hasUsed);
        // Static strides of no rows are 0, which outputs may not have.
        for (nlohmann::json &tensor : manifest["tensors"])
          for (nlohmann::json &stride : tensor["strides"])
            if (stride != 1)
              stride = nullptr;
        SequenceSet set(manifest);
        std::vector<int64_t> cu = set.fill(3, "cu_seqlens_q");
        EXPECT_EQ(cu.front(), 0);
        EXPECT_EQ(cu.back(), sequences ? rows : 0);
      }
}

TEST(SequenceInputsTest, usedKeysAreOfTheSequence) {
  SequenceSet set(varlenManifest(64, 48, 6, "none", true));
  int64_t shorter = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<int64_t> used = set.fill(seed, "seqused_k");
    std::vector<int64_t> cu = set.lengths("cu_seqlens_k");
    EXPECT_EQ(used[0], cu[1]);
    for (size_t i = 1; i < used.size(); ++i)
      shorter += used[i] < cu[i + 1] - cu[i];
  }
  EXPECT_GT(shorter, 10);
}

TEST(SequenceInputsTest, usedKeysFitOtherSequences) {
  SequenceSet set(varlenManifest(64, 48, 3, "none", true));
  set.fill(1, "seqused_k");
  for (auto [index, value] : {std::pair(1, 4), {2, 47}})
    set.store("cu_seqlens_k", index, value);
  fillSequsedK(set.set, 1);
  EXPECT_EQ(text(verifyLengths(set.set.inputs())), "");
  EXPECT_EQ(set.lengths("seqused_k")[0], 4);
  // Of sequences that are none they are none either, nor undefined.
  set.store("cu_seqlens_k", 2, -5);
  fillSequsedK(set.set, 1);
  EXPECT_EQ(set.lengths("seqused_k")[1], 0);
}

TEST(SequenceInputsTest, usedKeysOfABatch) {
  nlohmann::json manifest = staticManifest(64, 48);
  manifest["attention"]["dims"]["batch"] = 5;
  addVector(manifest, "seqused_k", "i32", "batch");
  SequenceSet set(manifest);
  std::vector<int64_t> used = set.fill(1, "seqused_k");
  EXPECT_EQ(used[0], 48);
  EXPECT_LT(*std::min_element(used.begin(), used.end()), 40);
  EXPECT_NE(used, set.fill(2, "seqused_k"));
}

TEST(SequenceInputsTest, sinksAreNormal) {
  nlohmann::json manifest = staticManifest(1, 1);
  manifest["attention"]["dims"]["heads_q"] = 500;
  manifest["tensors"][0]["strides"] = {nullptr, nullptr, nullptr, 1};
  manifest["tensors"][3]["strides"] = {nullptr, nullptr, nullptr, 1};
  manifest["tensors"][4]["strides"] = {nullptr, nullptr, nullptr};
  addVector(manifest, "sink_logits", "f32", "heads_q");
  SequenceSet set(manifest);
  ASSERT_EQ(text(set.set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  HostTensor &sinks = set.set.tensor("sink_logits");
  double sum = 0;
  sinks.forEach(
      [&](int64_t, int64_t at) { sum += sinks.load(at) * sinks.load(at); });
  EXPECT_NEAR(sum / 500, 1, 0.2);
  ASSERT_TRUE(set.set.inputs().sinkLogits);
  EXPECT_EQ(set.set.inputs().sinkLogits->sizes,
            (std::array<int64_t, 4>{1, 500, 1, 1}));
}

TEST(SequenceInputsTest, stagesAreOfPlainAttentions) {
  nlohmann::json manifest = staticManifest(16, 16);
  for (const auto &[name, dtype, axis] :
       {std::tuple("sink_logits", "f32", "heads_q"),
        {"seqused_k", "i32", "batch"}}) {
    nlohmann::json changed = manifest;
    addVector(changed, name, dtype, axis);
    SequenceSet set(changed);
    EXPECT_EQ(text(verifyStage(set.problem, Stage::All)), "");
    for (Stage stage : {Stage::QK, Stage::Softmax, Stage::PV})
      EXPECT_EQ(text(set.set.fillInputs(1, InputKind::Normal, stage)),
                "expects stage 'all' of an attention with sinks, seqused_k, "
                "cu_seqlens, page_table, block lists or dropout, but got '" +
                    std::string(stringify(stage)) +
                    "'\n  note: stages look at plain softmaxes of all keys");
  }
  SequenceSet set(varlenManifest(16, 16, 2));
  EXPECT_NE(text(verifyStage(set.problem, Stage::PV)), "");
  SequenceSet paged(pagedManifest(16, 16, 1, 2, 2));
  EXPECT_NE(text(verifyStage(paged.problem, Stage::PV)), "");
  SequenceSet dropout(dropoutManifest());
  EXPECT_NE(text(verifyStage(dropout.problem, Stage::PV)), "");
}

TEST(SequenceInputsTest, seedAndOffsetFollowTheSeed) {
  SequenceSet set(dropoutManifest());
  std::vector<int64_t> first = set.fill(1, "rng");
  EXPECT_EQ(first.size(), static_cast<size_t>(RngWords));
  EXPECT_NE(first, set.fill(2, "rng"));
  EXPECT_EQ(first, set.fill(1, "rng"));
  EXPECT_EQ(set.set.inputs().rng->sizes, (std::array<int64_t, 4>{4, 1, 1, 1}));
  EXPECT_EQ(set.set.inputs().dropout, 0.25);
}

TEST(SequenceInputsTest, kernelsGetNoLengthsOutsideOfTheTensors) {
  HostDevice device;
  SequenceSet set(varlenManifest(64, 48, 3));
  set.fill(1, "cu_seqlens_q");
  set.store("cu_seqlens_k", 3, 49);
  EXPECT_EQ(text(set.set.upload(device)),
            "expects cu_seqlens_k[3] to be at most the seqlen_k of the tensors "
            "(48), but got 49\n"
            "  note: sequences lie one after another on that axis");
}

TEST(PageInputsTest, noTwoEntriesNameAPageWhereThereAreEnough) {
  SequenceSet set(pagedManifest(64, 16, 4, 15, 3));
  bool isOrdered = true;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<int64_t> pages = set.fill(seed, "page_table");
    EXPECT_EQ(pages, set.fill(seed, "page_table"));
    EXPECT_NE(pages, set.fill(seed + 100, "page_table"));
    isOrdered &= std::is_sorted(pages.begin(), pages.end());
    std::sort(pages.begin(), pages.end());
    EXPECT_EQ(std::adjacent_find(pages.begin(), pages.end()), pages.end());
  }
  EXPECT_FALSE(isOrdered);
}

TEST(PageInputsTest, fewPagesAreNamedMoreThanOnce) {
  for (int64_t pages : {1, 3, 11}) {
    SequenceSet set(pagedManifest(64, 16, 4, pages, 3));
    std::vector<int64_t> table = set.fill(1, "page_table");
    std::sort(table.begin(), table.end());
    EXPECT_GE(table.front(), 0);
    EXPECT_LT(table.back(), pages);
    EXPECT_NE(std::adjacent_find(table.begin(), table.end()), table.end());
  }
}

TEST(PageInputsTest, usedKeysAreInThePagesOfTheEntry) {
  SequenceSet set(pagedVarlenManifest(64, 16, 4, 20, 5));
  std::vector<int64_t> used = set.fill(1, "seqused_k");
  EXPECT_EQ(used[0], 64);
  EXPECT_LT(*std::min_element(used.begin(), used.end()), 50);
  EXPECT_EQ(set.lengths("cu_seqlens_q").back(), 64);
}

TEST(PageInputsTest, withoutPagesThereAreNoKeys) {
  nlohmann::json manifest = pagedManifest(64, 16, 4, 0, 3);
  SequenceSet without(manifest);
  ASSERT_EQ(text(without.set.fillInputs(1, InputKind::Normal, Stage::All)), "");
  EXPECT_EQ(text(verifyLengths(without.set.inputs())),
            "expects page_table[0, 0] to be from 0 to pages - 1 (-1), but got "
            "0\n  note: batch entry 0 has 64 keys, in pages of 16");
  addVector(manifest, "seqused_k", "i32", "batch");
  SequenceSet set(manifest);
  EXPECT_EQ(set.fill(1, "seqused_k"), (std::vector<int64_t>{0, 0, 0}));
}

// The last page of the first entry is far beyond its first.
TEST(PageInputsTest, risingKeysGrowFromPageToPage) {
  SequenceSet set(pagedManifest(64, 4, 8, 20, 2));
  HostTensor &k = set.set.tensor("k"), &table = set.set.tensor("page_table");
  for (auto [kind, factor] :
       {std::pair(InputKind::Rising, 1), {InputKind::Falling, -1}}) {
    ASSERT_EQ(text(set.set.fillInputs(1, kind, Stage::All)), "");
    auto sumOfPage = [&](int64_t place) {
      auto page = static_cast<int64_t>(table.load(table.position(place)));
      double sum = 0;
      for (int64_t i = 0; i < 2 * 4 * 16; ++i)
        sum += std::abs(k.load(k.position(page * 2 * 4 * 16 + i)));
      return sum;
    };
    for (int64_t entry : {0, 8})
      EXPECT_GT(factor * std::log(sumOfPage(entry + 7) / sumOfPage(entry)), 1);
  }
  ASSERT_EQ(text(set.set.fillInputs(1, InputKind::Spiked, Stage::All)), "");
  TensorView view = k.view();
  for (int64_t entry : {0, 1})
    for (int64_t key : {0, 1, 4}) {
      AttentionInputs inputs = set.set.inputs();
      KeyPlace place = findKey(inputs, getSequence(inputs, entry), key);
      EXPECT_EQ(view.load(place.batch, 0, place.row, 0) > 32, key == 0);
    }
}

TEST(PageInputsTest, kernelsGetNoPagesOutsideOfTheTensors) {
  HostDevice device;
  nlohmann::json manifest = pagedManifest(64, 16, 4, 15, 3);
  addVector(manifest, "seqused_k", "i32", "batch");
  SequenceSet set(manifest);
  set.fill(1, "page_table");
  set.store("seqused_k", 1, 17);
  set.store("page_table", 6, 15); // of key 32 of entry 1, which is not used
  EXPECT_EQ(text(set.set.upload(device)), "");
  set.store("page_table", 5, -1);
  EXPECT_EQ(text(set.set.upload(device)),
            "expects page_table[1, 1] to be from 0 to pages - 1 (14), but got "
            "-1\n  note: batch entry 1 has 17 keys, in pages of 16");
}
