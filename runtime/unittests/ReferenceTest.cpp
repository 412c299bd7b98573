//===- ReferenceTest.cpp - The reference by hand --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values small enough to compute on paper: one key, two keys, masks, empty
// rows, grouped heads, and the roundings of the yardstick. Windows, softcaps
// and biases against the formula, one pair at a time.
//
//===----------------------------------------------------------------------===//

#include "ReferenceUtil.h"

#include "flashcore/Runtime/Float16.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <tuple>

using namespace flashcore;
using namespace flashcore::testing;

TEST(ReferenceTest, oneKeyCopiesItsValue) {
  Tensor q({1, 1, 1, 2}, {3, 4}), k({1, 1, 1, 2}, {1, 2}),
      v({1, 1, 1, 2}, {5, -7});
  for (Causal causal : {Causal::None, Causal::BottomRight, Causal::TopLeft}) {
    AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 0.5, causal);
    AttentionResult result = *computeReference(inputs);
    expectNear(result.o, {5, -7});
    expectNear(result.lse, {5.5}); // (3*1 + 4*2) / 2
  }
}

TEST(ReferenceTest, weighsTwoKeys) {
  // The scores are 0 and ln 3, the weights 1/4 and 3/4.
  float ln3 = std::log(3.0f);
  Tensor q({1, 1, 1, 1}, {2}), k({1, 1, 2, 1}, {0, ln3}),
      v({1, 1, 2, 1}, {4, 8});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 0.5, Causal::None);
  AttentionResult result = *computeReference(inputs);
  expectNear(result.o, {7}, 1e-6);
  expectNear(result.lse, {std::log(4.0)}, 1e-6);
}

TEST(ReferenceTest, scoresOfAnySizeStayFinite) {
  Tensor q({1, 1, 1, 1}, {1000}), k({1, 1, 2, 1}, {1000, -1000}),
      v({1, 1, 2, 1}, {1, 2});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  AttentionResult result = *computeReference(inputs);
  expectNear(result.o, {1});
  expectNear(result.lse, {1e6});
}

TEST(ReferenceTest, scoresThatAreNaNAreNoEmptyRow) {
  // The first row has such scores only, the second one beside a finite one.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor q({1, 1, 2, 2}, {nan, nan, 1, 0}), k({1, 1, 2, 2}, {1, 2, 3, nan}),
      v({1, 1, 2, 1}, {1, 2});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)})
    for (size_t row = 0; row < 2; ++row) {
      EXPECT_TRUE(std::isnan(result.o[row])) << row;
      EXPECT_TRUE(std::isnan(result.lse[row])) << row;
    }
}

TEST(ReferenceTest, visibleKeysOfBothCausalAlignments) {
  auto count = [](Causal causal, int64_t query, int64_t seqlenQ,
                  int64_t seqlenK) {
    KeyRange keys = visibleKeys({causal, {}, {}}, query, seqlenQ, seqlenK);
    EXPECT_EQ(keys.first, 0);
    return keys.end;
  };
  // 2 queries, 3 keys.
  EXPECT_EQ(count(Causal::None, 0, 2, 3), 3);
  EXPECT_EQ(count(Causal::TopLeft, 0, 2, 3), 1);
  EXPECT_EQ(count(Causal::TopLeft, 1, 2, 3), 2);
  EXPECT_EQ(count(Causal::BottomRight, 0, 2, 3), 2);
  EXPECT_EQ(count(Causal::BottomRight, 1, 2, 3), 3);
  // More queries than keys: the first see nothing, or the last see all.
  EXPECT_EQ(count(Causal::BottomRight, 0, 4, 2), 0);
  EXPECT_EQ(count(Causal::BottomRight, 1, 4, 2), 0);
  EXPECT_EQ(count(Causal::BottomRight, 3, 4, 2), 2);
  EXPECT_EQ(count(Causal::TopLeft, 3, 4, 2), 2);
  EXPECT_EQ(count(Causal::None, 0, 4, 0), 0);
}

TEST(ReferenceTest, visibleKeysAreThoseOfTheRules) {
  const int64_t lengths[] = {0, 1, 2, 5, 7};
  const Window windows[] = {std::nullopt, 0, 1, 3, 20};
  for (Causal causal : allCausals)
    for (Window left : windows)
      for (Window right : windows)
        for (int64_t seqlenQ : lengths)
          for (int64_t seqlenK : lengths) {
            Mask mask = {causal, left, right};
            KeyRange before;
            for (int64_t i = 0; i < seqlenQ; ++i) {
              KeyRange keys = visibleKeys(mask, i, seqlenQ, seqlenK);
              for (int64_t j = 0; j < seqlenK; ++j)
                ASSERT_EQ(keys.contains(j),
                          isVisible(mask, i, j, seqlenQ, seqlenK))
                    << i << " " << j << " of " << seqlenQ << "x" << seqlenK;
              ASSERT_GE(keys.count(), 0);
              ASSERT_LE(keys.end, seqlenK);
              ASSERT_GE(keys.first, before.first);
              ASSERT_GE(keys.end, before.end);
              before = keys;
            }
          }
}

TEST(ReferenceTest, theWidestWindowsDoNotOverflow) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  KeyRange keys = visibleKeys({Causal::None, most, most}, 3, 4, 9);
  EXPECT_EQ(keys.first, 0);
  EXPECT_EQ(keys.end, 9);
}

TEST(ReferenceTest, masksBothWays) {
  // Q = 0, so that a row of O is the mean of the visible values 1, 3, 8.
  Tensor q({1, 1, 2, 1}, {0, 0}), k({1, 1, 3, 1}, {5, 6, 7}),
      v({1, 1, 3, 1}, {1, 3, 8});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 1, Causal::TopLeft);
  AttentionResult result = *computeReference(inputs);
  expectNear(result.o, {1, 2});
  expectNear(result.lse, {0, std::numbers::ln2});
  inputs.mask.causal = Causal::BottomRight;
  result = *computeReference(inputs);
  expectNear(result.o, {2, 4});
  expectNear(result.lse, {std::numbers::ln2, std::log(3.0)});
}

TEST(ReferenceTest, emptyRowsAreZeroAndMinusInfinity) {
  Tensor q({1, 1, 3, 1}, {1, 1, 1}), k({1, 1, 1, 1}, {2}), v({1, 1, 1, 1}, {9});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 1, Causal::BottomRight);
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)}) {
    expectNear(result.o, {0, 0, 9});
    expectNear(result.lse, {-infinity, -infinity, 2});
  }
}

TEST(ReferenceTest, noKeysAtAll) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 0, 1}, {}), v({1, 1, 0, 1}, {});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  AttentionResult result = *computeReference(inputs);
  expectNear(result.o, {0, 0});
  expectNear(result.lse, {-infinity, -infinity});
}

TEST(ReferenceTest, noQueriesAndNoBatch) {
  Tensor q({1, 1, 0, 1}, {}), k({1, 1, 1, 1}, {1}), v({1, 1, 1, 1}, {1});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  EXPECT_TRUE(computeReference(inputs)->o.empty());
  Tensor none({0, 1, 1, 1}, {});
  inputs = makeInputs(none.view, none.view, none.view, 1, Causal::None);
  EXPECT_TRUE(computeReference(inputs)->lse.empty());
}

TEST(ReferenceTest, aHiddenInfinityDoesNotSpoilARow) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 2, 1}, {1, 1}),
      v({1, 1, 2, 1}, {3, INFINITY});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 1, Causal::TopLeft);
  AttentionResult result = *computeReference(inputs);
  EXPECT_EQ(result.o[0], 3);
  EXPECT_EQ(result.o[1], infinity);
}

TEST(ReferenceTest, groupsOfQueryHeadsShareAKeyHead) {
  Tensor q({1, 4, 1, 1}, {1, 1, 1, 1}), k({1, 2, 1, 1}, {2, 3}),
      v({1, 2, 1, 1}, {10, 20});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  AttentionResult result = *computeReference(inputs);
  expectNear(result.o, {10, 10, 20, 20});
  expectNear(result.lse, {2, 2, 3, 3});
}

TEST(ReferenceTest, readsThroughStrides) {
  // (batch 2, heads 1, seqlen 1) laid out with the batch innermost.
  std::vector<float> q = {1, 2}, k = {3, 4}, v = {5, 6};
  auto view = [](const std::vector<float> &data) {
    return TensorView{data.data(), DType::F32, {2, 1, 1, 1}, {1, 8, 8, 2}};
  };
  AttentionInputs inputs =
      makeInputs(view(q), view(k), view(v), 1, Causal::None);
  AttentionResult result = *computeReference(inputs);
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
  AttentionInputs inputs = makeInputs(tensorQ.view, tensorK.view, tensorV.view,
                                      1, Causal::BottomRight);
  AttentionResult one = *computeReference(inputs, 1);
  AttentionResult many = *computeReference(inputs, 7);
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

namespace {
/// Random inputs, and the attention by the formula, one pair at a time.
class NaiveAttention {
public:
  static constexpr int64_t batch = 2, headsQ = 4, headsKV = 2, headDim = 5,
                           headDimV = 3;

  NaiveAttention(int64_t seqlenQ, int64_t seqlenK)
      : q({batch, headsQ, seqlenQ, headDim},
          values(batch * headsQ * seqlenQ * headDim, 1)),
        k({batch, headsKV, seqlenK, headDim},
          values(batch * headsKV * seqlenK * headDim, 2)),
        v({batch, headsKV, seqlenK, headDimV},
          values(batch * headsKV * seqlenK * headDimV, 3)) {
    inputs = makeInputs(q.view, k.view, v.view, 0.7, Causal::None);
  }

  /// Adds a bias; `hidden` of 7 elements are -infinity.
  void addBias(std::array<int64_t, 4> sizes, int hidden = 0) {
    std::vector<float> elements =
        values(sizes[0] * sizes[1] * sizes[2] * sizes[3], 4);
    for (size_t i = 0; i < elements.size(); ++i)
      if (static_cast<int>(i * 5 % 7) < hidden)
        elements[i] = -INFINITY;
    bias.emplace(sizes, elements);
    inputs.bias = bias->view;
  }

  /// Compares the reference with the formula.
  void check() const {
    ASSERT_TRUE(verifyShapes(inputs).ok());
    AttentionResult actual = *computeReference(inputs, 1);
    int64_t seqlenQ = inputs.q.sizes[2];
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < headsQ; ++h)
        for (int64_t i = 0; i < seqlenQ; ++i)
          checkRow(b, h, i, (b * headsQ + h) * seqlenQ + i, actual);
  }

  AttentionInputs inputs;

private:
  static std::vector<float> values(int64_t count, int64_t kind) {
    std::vector<float> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(1.5f * std::sin(static_cast<float>(i * i + 7 * kind)));
    return result;
  }

  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < headDim; ++d)
      sum += inputs.q.load(b, h, i, d) * inputs.k.load(b, h / 2, j, d);
    sum *= inputs.softmaxScale;
    double cap = inputs.softcap.value_or(1);
    if (inputs.softcap)
      sum = cap * std::tanh(sum / cap);
    if (bias) {
      auto at = [&](size_t axis, int64_t index) {
        return bias->view.sizes[axis] == 1 ? 0 : index;
      };
      sum += bias->view.load(at(0, b), at(1, h), at(2, i), at(3, j));
      return static_cast<float>(sum);
    }
    return sum;
  }

  void checkRow(int64_t b, int64_t h, int64_t i, int64_t row,
                const AttentionResult &actual) const {
    double sum = 0, o[headDimV] = {};
    for (int64_t j = 0; j < inputs.k.sizes[2]; ++j) {
      if (!isVisible(inputs.mask, i, j, inputs.q.sizes[2], inputs.k.sizes[2]))
        continue;
      double weight = std::exp(score(b, h, i, j));
      sum += weight;
      for (int64_t d = 0; d < headDimV; ++d)
        o[d] += weight * inputs.v.load(b, h / 2, j, d);
    }
    if (sum == 0)
      EXPECT_EQ(actual.lse[row], -infinity);
    else
      EXPECT_NEAR(actual.lse[row], std::log(sum), 1e-12);
    for (int64_t d = 0; d < headDimV; ++d)
      EXPECT_NEAR(actual.o[row * headDimV + d], sum ? o[d] / sum : 0, 1e-12);
  }

  Tensor q, k, v;
  std::optional<Tensor> bias;
};
} // namespace

TEST(ReferenceTest, windowsFollowTheFormula) {
  const Window windows[] = {std::nullopt, 0, 2, 30};
  for (auto [seqlenQ, seqlenK] : {std::pair(1, 1), {9, 17}, {17, 9}, {8, 0}}) {
    NaiveAttention attention(seqlenQ, seqlenK);
    for (Causal causal : allCausals)
      for (Window left : windows)
        for (Window right : windows) {
          attention.inputs.mask = {causal, left, right};
          attention.check();
        }
  }
}

TEST(ReferenceTest, aWindowLongerThanABlockOfKeysFollowsTheFormula) {
  NaiveAttention attention(20, 300);
  attention.inputs.mask = {Causal::BottomRight, 200, std::nullopt};
  attention.check();
}

TEST(ReferenceTest, softcapsFollowTheFormula) {
  NaiveAttention attention(9, 17);
  for (double softcap : {0.5, 2.0, 30.0})
    for (Causal causal : allCausals) {
      attention.inputs.mask = {causal, 6, std::nullopt};
      attention.inputs.softcap = softcap;
      attention.check();
    }
}

TEST(ReferenceTest, everyBroadcastOfABiasFollowsTheFormula) {
  const std::array<int64_t, 4> whole = {2, 4, 9, 17};
  for (unsigned broadcast = 0; broadcast < 16; ++broadcast) {
    std::array<int64_t, 4> sizes = whole;
    for (size_t axis = 0; axis < 4; ++axis)
      if (broadcast >> axis & 1)
        sizes[axis] = 1;
    NaiveAttention attention(9, 17);
    attention.addBias(sizes);
    attention.check();
    attention.inputs.softcap = 2.5;
    attention.inputs.mask = {Causal::TopLeft, 3, std::nullopt};
    attention.check();
  }
}

TEST(ReferenceTest, minusInfinityInABiasHidesAKey) {
  for (int hidden : {2, 6, 7}) {
    NaiveAttention attention(9, 17);
    attention.addBias({1, 4, 9, 17}, hidden);
    attention.check();
    attention.inputs.mask = {Causal::BottomRight, 2, std::nullopt};
    attention.check();
  }
}

TEST(ReferenceTest, aRowThatABiasHidesIsZeroAndMinusInfinity) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 2, 1}, {2, 3}),
      v({1, 1, 2, 1}, {9, INFINITY}),
      bias({1, 1, 2, 2}, {-INFINITY, -INFINITY, 0.5, -INFINITY});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.bias = bias.view;
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)}) {
    expectNear(result.o, {0, 9});
    expectNear(result.lse, {-infinity, 2.5});
  }
}

TEST(ReferenceTest, aBiasComesAfterTheSoftcap) {
  // The cap makes ln(3) * tanh(1) of both scores; the bias is not capped, so
  // that -infinity hides a key and 2 ln(3) weighs 9 times as much as 0.
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 3, 1}, {1, 1, 1}),
      v({1, 1, 3, 1}, {10, 0, 5});
  Tensor bias({1, 1, 1, 3},
              {2 * std::log(3.0f), 0, -std::numeric_limits<float>::infinity()});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, std::log(3.0), Causal::None);
  inputs.bias = bias.view;
  inputs.softcap = std::log(3.0);
  double lse = std::log(3.0) * std::tanh(1.0) + std::log(10.0);
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)}) {
    expectNear(result.o, {9}, 1e-5);
    expectNear(result.lse, {lse}, 1e-5);
  }
}

TEST(ReferenceTest, theBiasNeedNotBePacked) {
  std::vector<float> bias = {1, -1, 2, -1};
  Tensor q({1, 1, 2, 1}, {0, 0}), k({1, 1, 1, 1}, {0}), v({1, 1, 1, 1}, {1});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.bias = TensorView{bias.data(), DType::F32, {1, 1, 2, 1}, {4, 4, 2, 7}};
  expectNear(computeReference(inputs)->lse, {1, 2});
}

TEST(YardstickTest, roundsEveryStepToTheInputType) {
  // Three equal scores: P is 1/3 in f16, which is 1365/4096; the sum of two of
  // them is exact in f16, but not 2/3.
  std::vector<uint16_t> zeros(3, 0), v = {floatToHalf(1), floatToHalf(1), 0};
  auto view = [](const std::vector<uint16_t> &data, int64_t rows) {
    return TensorView{data.data(), DType::F16, {1, 1, rows, 1}, {3, 3, 1, 1}};
  };
  AttentionInputs inputs =
      makeInputs(view(zeros, 1), view(zeros, 3), view(v, 3), 1, Causal::None);
  AttentionResult result = *computeYardstick(inputs);
  EXPECT_EQ(result.o[0], 2 * 1365.0 / 4096);
  EXPECT_NEAR(result.lse[0], std::log(3.0), 1e-7);
  EXPECT_NEAR(computeReference(inputs)->o[0], 2.0 / 3, 1e-15);
}

TEST(YardstickTest, roundsTheScoresBeforeAndAfterScaling) {
  // 33 * 63 = 2079 is no f16, which has steps of 2 there: 2080 (to even).
  // 2080 * 0.1 = 208 becomes 208 in f16; lse of a single key is its score.
  std::vector<uint16_t> q = {floatToHalf(33)}, k = {floatToHalf(63)},
                        v = {floatToHalf(1)};
  auto view = [](const std::vector<uint16_t> &data) {
    return TensorView{data.data(), DType::F16, {1, 1, 1, 1}, {1, 1, 1, 1}};
  };
  AttentionInputs inputs =
      makeInputs(view(q), view(k), view(v), 0.1, Causal::None);
  EXPECT_EQ(computeYardstick(inputs)->lse[0], 208);
  EXPECT_NEAR(computeReference(inputs)->lse[0], 207.9, 1e-9);
}

TEST(YardstickTest, roundsAfterEachStepOfTheSoftcapAndTheBias) {
  // One key: lse is the score. The bias is f32, and the result has steps of f16
  // wherever the formula has an operation.
  std::vector<uint16_t> one = {floatToHalf(1)}, two = {floatToHalf(2)};
  std::vector<float> bias = {0.333333f};
  auto view = [](const void *data, DType dtype) {
    return TensorView{data, dtype, {1, 1, 1, 1}, {1, 1, 1, 1}};
  };
  AttentionInputs inputs =
      makeInputs(view(one.data(), DType::F16), view(two.data(), DType::F16),
                 view(one.data(), DType::F16), 0.1, Causal::None);
  inputs.bias = view(bias.data(), DType::F32);
  auto round = [](float value) { return halfToFloat(floatToHalf(value)); };
  float scaled = round(2 * 0.1f);
  EXPECT_EQ(computeYardstick(inputs)->lse[0], round(scaled + 0.333333f));
  // Scores that a bias is added to are f32.
  EXPECT_EQ(computeReference(inputs)->lse[0],
            static_cast<float>(static_cast<float>(0.2) + bias[0]));

  // The roundings of the ratio and of tanh show only with some caps.
  bool showsRatio = false, showsTanh = false;
  for (float cap = 0.1f; cap < 4; cap += 0.1f) {
    inputs.softcap = cap;
    float ratio = round(scaled / cap);
    float capped = round(round(std::tanh(ratio)) * cap);
    EXPECT_EQ(computeYardstick(inputs)->lse[0], round(capped + 0.333333f));
    showsRatio |= capped != round(round(std::tanh(scaled / cap)) * cap);
    showsTanh |= capped != round(std::tanh(ratio) * cap);
    EXPECT_NEAR(computeReference(inputs)->lse[0],
                *inputs.softcap * std::tanh(0.2 / *inputs.softcap) + bias[0],
                0x1p-23); // a step of f32
  }
  EXPECT_TRUE(showsRatio);
  EXPECT_TRUE(showsTanh);
}

TEST(YardstickTest, staysNearTheReference) {
  NaiveAttention attention(17, 23);
  attention.addBias({1, 4, 17, 23}, 3);
  attention.inputs.mask = {Causal::BottomRight, 5, std::nullopt};
  attention.inputs.softcap = 4;
  // f32 inputs are rounded to f32: what is left is the arithmetic.
  AttentionResult reference = *computeReference(attention.inputs);
  AttentionResult yardstick = *computeYardstick(attention.inputs);
  expectNear(yardstick.o, reference.o, 1e-5);
  expectNear(yardstick.lse, reference.lse, 1e-5);
}

TEST(ReferenceTest, refusesShapesThatDoNotMatch) {
  auto refusal = [](auto change) {
    Tensor tensor({1, 2, 1, 1}, {0, 0});
    AttentionInputs inputs =
        makeInputs(tensor.view, tensor.view, tensor.view, 1, Causal::None);
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

// The sequences end together: query 0 is at the place of key 1. Slope 2.
TEST(ReferenceTest, alibiFallsWithTheDistance) {
  Tensor q({1, 1, 2, 1}, {0, 0}), k({1, 1, 3, 1}, {5, 5, 5}),
      v({1, 1, 3, 1}, {1, 3, 4}), slopes({1, 1, 1, 1}, {2});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.alibiSlopes = slopes.view;
  StatusOr<AttentionResult> result = computeReference(inputs, 1);
  ASSERT_TRUE(result.ok());
  double e2 = std::exp(-2.0), e4 = std::exp(-4.0);
  expectNear(result->o, {(e2 * 1 + 3 + e2 * 4) / (1 + 2 * e2),
                         (e4 * 1 + e2 * 3 + 4) / (1 + e2 + e4)});
}

// Scores of 0 and a region that adds 2 a key make weights of e^0 and e^2; the
// mask hides key 0 from query 1 and both from query 2.
TEST(ReferenceTest, regionsChangeAndHideScores) {
  auto read = [](const char *text, ScoreProgram::Type type) {
    nlohmann::json document = nlohmann::json::parse(text);
    JsonReader reader("test", "");
    std::vector<std::string> tensors;
    ScoreProgram program =
        ScoreProgram::read(reader, reader.root(document), type, tensors);
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return program;
  };
  ScoreProgram score = read(
      R"({"values": [{"op": "arith.sitofp", "type": "f32", "operands": [4]},
                     {"op": "arith.addf", "type": "f32", "operands": [5, 5]},
                     {"op": "arith.addf", "type": "f32", "operands": [0, 6]}],
          "result": 7})",
      ScoreProgram::Type::F32);
  ScoreProgram mask = read(
      R"({"values": [{"op": "arith.cmpi", "type": "i1", "operands": [4, 3],
                      "predicate": "sge"}], "result": 5})",
      ScoreProgram::Type::I1);
  Tensor q({1, 1, 3, 1}, {0, 0, 0}), k({1, 1, 2, 1}, {5, 5}),
      v({1, 1, 2, 1}, {1, 3});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.score = &score;
  inputs.maskRegion = &mask;
  StatusOr<AttentionResult> result = computeReference(inputs, 1);
  ASSERT_TRUE(result.ok());
  double e2 = std::exp(2.0);
  expectNear(result->o, {(1 + 3 * e2) / (1 + e2), 3, 0});
  expectNear({result->lse[0], result->lse[1]}, {std::log(1 + e2), 2});
  EXPECT_EQ(result->lse[2], -infinity);
}

TEST(ReferenceTest, aSinkTakesPartInTheSoftmax) {
  // Weights of e^0 each, and of 1, 0 (no sink) and 4 of the sinks.
  Tensor q({1, 3, 1, 1}, {0, 0, 0}), k({1, 1, 3, 1}, {5, 5, 5}),
      v({1, 1, 3, 1}, {1, 3, 8}),
      sinks({1, 3, 1, 1}, {0, -INFINITY, std::log(4.0f)});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.sinkLogits = sinks.view;
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)}) {
    expectNear(result.o, {12.0 / 4, 12.0 / 3, 12.0 / 7}, 1e-6);
    expectNear(result.lse, {std::log(4.0), std::log(3.0), std::log(7.0)}, 1e-6);
  }
}

TEST(ReferenceTest, aRowWithoutKeysHasTheLseOfItsSink) {
  Tensor q({1, 1, 3, 1}, {1, 1, 1}), k({1, 1, 1, 1}, {2}), v({1, 1, 1, 1}, {9}),
      sink({1, 1, 1, 1}, {-3.5});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 1, Causal::BottomRight);
  inputs.sinkLogits = sink.view;
  double lse = std::log(std::exp(2.0) + std::exp(-3.5));
  for (const AttentionResult &result :
       {*computeReference(inputs), *computeYardstick(inputs)}) {
    expectNear(result.o, {0, 0, 9 * std::exp(2 - lse)}, 1e-5);
    expectNear(result.lse, {-3.5, -3.5, lse}, 1e-6);
  }
  sink.values[0] = -INFINITY;
  expectNear(computeReference(inputs)->lse, {-infinity, -infinity, 2});
  sink.values[0] = NAN;
  AttentionResult result = *computeReference(inputs);
  for (double value : result.lse)
    EXPECT_TRUE(std::isnan(value));
}

TEST(ReferenceTest, aLargeSinkOverflowsNothing) {
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 1, 1}, {1}), v({1, 1, 1, 1}, {1}),
      sink({1, 1, 1, 1}, {1e4});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.sinkLogits = sink.view;
  expectNear(computeReference(inputs)->o, {0});
  expectNear(computeReference(inputs)->lse, {1e4});
}

/// Two keys with these scores, 3 and 5 as values, and a bias of one number.
static AttentionResult maskBoth(float mask, float slope = 0,
                                double scores = 1) {
  Tensor q({1, 1, 1, 1}, {1}), k({1, 1, 2, 1}, {1, 2}), v({1, 1, 2, 1}, {3, 5}),
      bias({1, 1, 1, 1}, {mask}), slopes({1, 1, 1, 1}, {slope});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, scores, Causal::None);
  inputs.bias = bias.view;
  if (slope)
    inputs.alibiSlopes = slopes.view;
  return *computeReference(inputs);
}

TEST(ReferenceTest, aMaskSwallowsScoresAsF32Does) {
  // Without the mask where it is small ...
  double e = std::exp(1), expected = (3 + 5 * e) / (1 + e);
  expectNear(maskBoth(0).o, {expected});
  expectNear(maskBoth(-1e4f).o, {expected});
  expectNear(maskBoth(-1e4f).lse, {-9999 + std::log(1 + e)});
  // ... and the mean of V where it leaves nothing of a score.
  for (float mask : {-1e9f, -std::numeric_limits<float>::max()}) {
    expectNear(maskBoth(mask).o, {4});
    expectNear(maskBoth(mask).lse, {mask + std::log(2.0)});
  }
  // Scores of this size are still there.
  expectNear(maskBoth(-1e9f, 0, 64).o, {5});
}

TEST(ReferenceTest, masksThatOverflowTogetherHide) {
  // The distances are 1 and 0.
  float lowest = -std::numeric_limits<float>::max();
  expectNear(maskBoth(lowest, 1e38f).o, {5});
  expectNear(maskBoth(lowest, 1e38f).lse, {lowest});
  expectNear(maskBoth(-infinity, 1).o, {0});
  expectNear(maskBoth(-infinity, 1).lse, {-infinity});
}

TEST(ReferenceTest, theYardstickKeepsScoresThatItHasNoDigitsFor) {
  // 30000 and 60000 have no room in f16, and 2500.5 and 2501 no digits.
  Tensor q({1, 1, 1, 1}, {1}), v({1, 1, 2, 1}, {3, 5});
  for (auto [scale, first, second] :
       {std::tuple(30000.0, 2.0f, 3.0f), {0.5, 5001.0f, 5002.0f}}) {
    Tensor k({1, 1, 2, 1}, {first, second});
    AttentionInputs inputs =
        makeInputs(q.view, k.view, v.view, scale, Causal::None);
    inputs.q.dtype = DType::F16;
    std::vector<uint16_t> one = {floatToHalf(1)};
    inputs.q.data = one.data();
    AttentionResult exact = *computeReference(inputs);
    AttentionResult yardstick = *computeYardstick(inputs);
    expectNear(yardstick.o, exact.o, 4e-3);
    expectNear(yardstick.lse, exact.lse, 1e-2);
  }
}

TEST(ReferenceTest, refusesABiasThatDoesNotMatch) {
  auto refusal = [](std::array<int64_t, 4> sizes) {
    Tensor q({1, 2, 3, 1}, std::vector<float>(6)),
        k({1, 1, 4, 1}, std::vector<float>(4));
    AttentionInputs inputs =
        makeInputs(q.view, k.view, k.view, 1, Causal::None);
    inputs.bias = TensorView{nullptr, DType::F16, sizes, {}};
    return verifyShapes(inputs).message();
  };
  EXPECT_EQ(refusal({1, 2, 3, 4}), "");
  EXPECT_EQ(refusal({1, 1, 1, 1}), "");
  EXPECT_EQ(refusal({2, 2, 3, 4}), "expects the batch of the bias to be 1 or "
                                   "that of the attention (1), but got 2");
  EXPECT_EQ(refusal({1, 4, 3, 4}), "expects the heads_q of the bias to be 1 or "
                                   "that of the attention (2), but got 4");
  EXPECT_EQ(refusal({1, 2, 4, 4}), "expects the seqlen_q of the bias to be 1 "
                                   "or that of the attention (3), but got 4");
  EXPECT_EQ(refusal({1, 2, 3, 3}), "expects the seqlen_k of the bias to be 1 "
                                   "or that of the attention (4), but got 3");
}

TEST(ReferenceTest, scoresHaveTheStagesOfTheirMaking) {
  // Two queries, three keys: the last is hidden from the first query. Products
  // are 0, 1 and 2, those of the second query twice that, and scaled by 3.
  Tensor q({1, 1, 2, 1}, {1, 2}), k({1, 1, 3, 1}, {0, 1, 2}),
      v({1, 1, 3, 1}, {1, 1, 1}), bias({1, 1, 1, 3}, {10, 20, 30}),
      sink({1, 1, 1, 1}, {25});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 3, Causal::BottomRight);
  inputs.softcap = 4;
  inputs.bias = bias.view;
  inputs.sinkLogits = sink.view;
  auto cap = [](double x) { return 4 * std::tanh(x / 4); };
  std::vector<double> scaled = {0, 3, 6, 0, 6, 12}, capped, changed;
  for (size_t i = 0; i < scaled.size(); ++i) {
    capped.push_back(cap(scaled[i]));
    changed.push_back(
        static_cast<float>(capped[i] + 10 * static_cast<double>(1 + i % 3)));
  }
  std::vector<double> masked = changed, weights;
  masked[2] = -infinity;
  for (size_t row = 0; row < 2; ++row) {
    double sum = std::exp(25.0);
    for (size_t j = 0; j < 3; ++j)
      sum += std::exp(masked[3 * row + j]);
    for (size_t j = 0; j < 3; ++j)
      weights.push_back(std::exp(masked[3 * row + j]) / sum);
  }
  for (const auto &[stage, expected] :
       {std::pair(ScoresStage::Scaled, scaled),
        {ScoresStage::Capped, capped},
        {ScoresStage::Changed, changed},
        {ScoresStage::Masked, masked},
        {ScoresStage::Probabilities, weights}}) {
    inputs.scoresStage = stage;
    expectNear(computeReference(inputs)->scores, expected, 1e-6);
    expectNear(computeYardstick(inputs)->scores, expected, 1e-5);
  }
  inputs.scoresStage = std::nullopt;
  EXPECT_TRUE(computeReference(inputs)->scores.empty());
}

TEST(ReferenceTest, scoresOfKeysThatAreNotThereAreHidden) {
  // One key of three is used, and the first of two queries does not see it.
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 3, 1}, {2, NAN, NAN}),
      v({1, 1, 3, 1}, {1, 1, 1}), bias({1, 1, 1, 1}, {5});
  Lengths used({1});
  AttentionInputs inputs =
      makeInputs(q.view, k.view, v.view, 1, Causal::BottomRight);
  inputs.bias = bias.view;
  inputs.sequsedK = used.view;
  for (const auto &[stage, expected] :
       {std::pair(ScoresStage::Scaled, std::vector<double>{2, 0, 0, 2, 0, 0}),
        {ScoresStage::Changed, {7, 0, 0, 7, 0, 0}},
        {ScoresStage::Masked,
         {-infinity, -infinity, -infinity, 7, -infinity, -infinity}},
        {ScoresStage::Probabilities, {0, 0, 0, 1, 0, 0}}}) {
    inputs.scoresStage = stage;
    expectNear(computeReference(inputs)->scores, expected);
    expectNear(computeYardstick(inputs)->scores, expected);
  }
}
