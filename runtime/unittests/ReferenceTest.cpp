//===- ReferenceTest.cpp - The reference by hand --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values small enough to compute on paper: one key, two keys, masks, empty
// rows, grouped heads, and the roundings of the yardstick.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Reference.h"
#include "flashcore/Runtime/Float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

using namespace flashcore;

static constexpr double infinity = std::numeric_limits<double>::infinity();

namespace {
/// A packed f32 tensor and its view.
struct Tensor {
  Tensor(std::array<int64_t, 4> sizes, std::vector<float> values)
      : values(std::move(values)) {
    int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    EXPECT_EQ(static_cast<int64_t>(this->values.size()), count);
    view = {this->values.data(),
            DType::F32,
            sizes,
            {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}};
  }
  Tensor(const Tensor &) = delete;

  std::vector<float> values;
  TensorView view;
};
} // namespace

static void expectNear(const std::vector<double> &actual,
                       const std::vector<double> &expected,
                       double tolerance = 1e-7) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::isinf(expected[i]))
      EXPECT_EQ(actual[i], expected[i]) << i;
    else
      EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
}

TEST(ReferenceTest, oneKeyCopiesItsValue) {
  Tensor q({1, 1, 1, 2}, {3, 4}), k({1, 1, 1, 2}, {1, 2}),
      v({1, 1, 1, 2}, {5, -7});
  for (Causal causal : {Causal::None, Causal::BottomRight, Causal::TopLeft}) {
    AttentionInputs inputs = {q.view, k.view, v.view, 0.5, causal};
    AttentionResult result = computeReference(inputs);
    expectNear(result.o, {5, -7});
    expectNear(result.lse, {5.5}); // (3*1 + 4*2) / 2
  }
}

TEST(ReferenceTest, weighsTwoKeys) {
  // The scores are 0 and ln 3, the weights 1/4 and 3/4.
  float ln3 = std::log(3.0f);
  Tensor q({1, 1, 1, 1}, {2}), k({1, 1, 2, 1}, {0, ln3}),
      v({1, 1, 2, 1}, {4, 8});
  AttentionInputs inputs = {q.view, k.view, v.view, 0.5, Causal::None};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {7}, 1e-6);
  expectNear(result.lse, {std::log(4.0)}, 1e-6);
}

TEST(ReferenceTest, scoresOfAnySizeStayFinite) {
  Tensor q({1, 1, 1, 1}, {1000}), k({1, 1, 2, 1}, {1000, -1000}),
      v({1, 1, 2, 1}, {1, 2});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::None};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {1});
  expectNear(result.lse, {1e6});
}

TEST(ReferenceTest, visibleKeysOfBothMasks) {
  // 2 queries, 3 keys.
  EXPECT_EQ(visibleKeys(Causal::None, 0, 2, 3), 3);
  EXPECT_EQ(visibleKeys(Causal::TopLeft, 0, 2, 3), 1);
  EXPECT_EQ(visibleKeys(Causal::TopLeft, 1, 2, 3), 2);
  EXPECT_EQ(visibleKeys(Causal::BottomRight, 0, 2, 3), 2);
  EXPECT_EQ(visibleKeys(Causal::BottomRight, 1, 2, 3), 3);
  // More queries than keys: the first see nothing, or the last see all.
  EXPECT_EQ(visibleKeys(Causal::BottomRight, 0, 4, 2), 0);
  EXPECT_EQ(visibleKeys(Causal::BottomRight, 1, 4, 2), 0);
  EXPECT_EQ(visibleKeys(Causal::BottomRight, 3, 4, 2), 2);
  EXPECT_EQ(visibleKeys(Causal::TopLeft, 3, 4, 2), 2);
  EXPECT_EQ(visibleKeys(Causal::None, 0, 4, 0), 0);
}

TEST(ReferenceTest, masksBothWays) {
  // Q = 0, so that a row of O is the mean of the visible values 1, 3, 8.
  Tensor q({1, 1, 2, 1}, {0, 0}), k({1, 1, 3, 1}, {5, 6, 7}),
      v({1, 1, 3, 1}, {1, 3, 8});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::TopLeft};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {1, 2});
  expectNear(result.lse, {0, std::numbers::ln2});
  inputs.causal = Causal::BottomRight;
  result = computeReference(inputs);
  expectNear(result.o, {2, 4});
  expectNear(result.lse, {std::numbers::ln2, std::log(3.0)});
}

TEST(ReferenceTest, emptyRowsAreZeroAndMinusInfinity) {
  Tensor q({1, 1, 3, 1}, {1, 1, 1}), k({1, 1, 1, 1}, {2}), v({1, 1, 1, 1}, {9});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::BottomRight};
  for (const AttentionResult &result :
       {computeReference(inputs), computeYardstick(inputs)}) {
    expectNear(result.o, {0, 0, 9});
    expectNear(result.lse, {-infinity, -infinity, 2});
  }
}

TEST(ReferenceTest, noKeysAtAll) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 0, 1}, {}), v({1, 1, 0, 1}, {});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::None};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {0, 0});
  expectNear(result.lse, {-infinity, -infinity});
}

TEST(ReferenceTest, noQueriesAndNoBatch) {
  Tensor q({1, 1, 0, 1}, {}), k({1, 1, 1, 1}, {1}), v({1, 1, 1, 1}, {1});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::None};
  EXPECT_TRUE(computeReference(inputs).o.empty());
  Tensor none({0, 1, 1, 1}, {});
  inputs = {none.view, none.view, none.view, 1, Causal::None};
  EXPECT_TRUE(computeReference(inputs).lse.empty());
}

TEST(ReferenceTest, aHiddenInfinityDoesNotSpoilARow) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 2, 1}, {1, 1}),
      v({1, 1, 2, 1}, {3, INFINITY});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::TopLeft};
  AttentionResult result = computeReference(inputs);
  EXPECT_EQ(result.o[0], 3);
  EXPECT_EQ(result.o[1], infinity);
}

TEST(ReferenceTest, groupsOfQueryHeadsShareAKeyHead) {
  Tensor q({1, 4, 1, 1}, {1, 1, 1, 1}), k({1, 2, 1, 1}, {2, 3}),
      v({1, 2, 1, 1}, {10, 20});
  AttentionInputs inputs = {q.view, k.view, v.view, 1, Causal::None};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {10, 10, 20, 20});
  expectNear(result.lse, {2, 2, 3, 3});
}

TEST(ReferenceTest, readsThroughStrides) {
  // (batch 2, heads 1, seqlen 1) laid out with the batch innermost.
  std::vector<float> q = {1, 2}, k = {3, 4}, v = {5, 6};
  auto view = [](const std::vector<float> &data) {
    return TensorView{data.data(), DType::F32, {2, 1, 1, 1}, {1, 8, 8, 2}};
  };
  AttentionInputs inputs = {view(q), view(k), view(v), 1, Causal::None};
  AttentionResult result = computeReference(inputs);
  expectNear(result.o, {5, 6});
  expectNear(result.lse, {3, 8});
}

TEST(ReferenceTest, theNumberOfThreadsChangesNothing) {
  // Long enough for the single head to be cut into chunks, the last a short
  // one; more keys than one inner block.
  const int64_t rows = 201, keys = 150;
  std::vector<float> q(rows * 2), k(keys * 2), v(keys * 2);
  for (std::vector<float> *values : {&q, &k, &v})
    for (size_t i = 0; i < values->size(); ++i)
      (*values)[i] = std::sin(static_cast<float>(i * values->size()));
  Tensor tensorQ({1, 1, rows, 2}, q), tensorK({1, 1, keys, 2}, k),
      tensorV({1, 1, keys, 2}, v);
  AttentionInputs inputs = {tensorQ.view, tensorK.view, tensorV.view, 1,
                            Causal::BottomRight};
  AttentionResult one = computeReference(inputs, 1);
  AttentionResult many = computeReference(inputs, 7);
  EXPECT_EQ(one.o, many.o);
  EXPECT_EQ(one.lse, many.lse);
  // One row by the formula, in the middle of a chunk.
  const int64_t row = 170, visible = row + keys - rows + 1;
  double sum = 0, expected = 0;
  for (int64_t j = 0; j < visible; ++j) {
    double weight = std::exp(double(q[row * 2]) * k[j * 2] +
                             double(q[row * 2 + 1]) * k[j * 2 + 1]);
    sum += weight;
    expected += weight * v[j * 2];
  }
  EXPECT_NEAR(one.o[row * 2], expected / sum, 1e-12);
  EXPECT_NEAR(one.lse[row], std::log(sum), 1e-12);
}

TEST(YardstickTest, roundsEveryStepToTheInputType) {
  // Three equal scores: P is 1/3 in f16, which is 1365/4096; the sum of two of
  // them is exact in f16, but not 2/3.
  std::vector<uint16_t> zeros(3, 0), v = {floatToHalf(1), floatToHalf(1), 0};
  auto view = [](const std::vector<uint16_t> &data, int64_t rows) {
    return TensorView{data.data(), DType::F16, {1, 1, rows, 1}, {3, 3, 1, 1}};
  };
  AttentionInputs inputs = {view(zeros, 1), view(zeros, 3), view(v, 3), 1,
                            Causal::None};
  AttentionResult result = computeYardstick(inputs);
  EXPECT_EQ(result.o[0], 2 * 1365.0 / 4096);
  EXPECT_NEAR(result.lse[0], std::log(3.0), 1e-7);
  EXPECT_NEAR(computeReference(inputs).o[0], 2.0 / 3, 1e-15);
}

TEST(YardstickTest, roundsTheScoresBeforeAndAfterScaling) {
  // 33 * 63 = 2079 is no f16, which has steps of 2 there: 2080 (to even).
  // 2080 * 0.1 = 208 becomes 208 in f16; lse of a single key is its score.
  std::vector<uint16_t> q = {floatToHalf(33)}, k = {floatToHalf(63)},
                        v = {floatToHalf(1)};
  auto view = [](const std::vector<uint16_t> &data) {
    return TensorView{data.data(), DType::F16, {1, 1, 1, 1}, {1, 1, 1, 1}};
  };
  AttentionInputs inputs = {view(q), view(k), view(v), 0.1, Causal::None};
  EXPECT_EQ(computeYardstick(inputs).lse[0], 208);
  EXPECT_NEAR(computeReference(inputs).lse[0], 207.9, 1e-9);
}

TEST(ReferenceTest, refusesShapesThatDoNotMatch) {
  auto refusal = [](auto change) {
    Tensor tensor({1, 2, 1, 1}, {0, 0});
    AttentionInputs inputs = {tensor.view, tensor.view, tensor.view, 1,
                              Causal::None};
    change(inputs);
    return verifyShapes(inputs).message();
  };
  EXPECT_EQ(refusal([](AttentionInputs &) {}), "");
  EXPECT_EQ(refusal([](AttentionInputs &i) { i.v.sizes[0] = 3; }),
            "expects the batches of q and of k and v to be equal, but got 1 "
            "and 3");
  EXPECT_EQ(refusal([](AttentionInputs &i) { i.v.sizes[1] = 3; }),
            "expects the heads of k and v to be equal, but got 2 and 3");
  EXPECT_EQ(refusal([](AttentionInputs &i) { i.v.sizes[2] = 3; }),
            "expects the lengths of k and v to be equal, but got 1 and 3");
  EXPECT_EQ(refusal([](AttentionInputs &i) { i.k.sizes[3] = 3; }),
            "expects the head_dim of q and k to be equal, but got 1 and 3");
  EXPECT_EQ(refusal([](AttentionInputs &i) { i.q.sizes[1] = 3; }),
            "expects heads_q to be a multiple of heads_kv, but got 3 and 2");
}
