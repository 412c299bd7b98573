//===- ReferenceSequencesTest.cpp - The reference of sequences ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lengths of each batch entry, sequences one after another, and rows that are
// appended to keys that are there.
//
//===----------------------------------------------------------------------===//

#include "ReferenceUtil.h"

#include <cmath>

using namespace flashcore;
using namespace flashcore::testing;

namespace {
/// Sequences, each of which is computed by the formula from its own rows.
struct NaiveSequences {
  static constexpr int64_t headsQ = 4, headsKV = 2, headDim = 3;

  NaiveSequences(int64_t batch, int64_t rows, int64_t keys)
      : q({batch, headsQ, rows, headDim},
          values(batch * headsQ * rows * headDim, 1)),
        k({batch, headsKV, keys, headDim},
          values(batch * headsKV * keys * headDim, 2)),
        v({batch, headsKV, keys, headDim},
          values(batch * headsKV * keys * headDim, 3)),
        slopes({1, headsQ, 1, 1}, values(headsQ, 4)),
        sinks({1, headsQ, 1, 1}, values(headsQ, 5)) {
    inputs = makeInputs(q.view, k.view, v.view, 0.7, Causal::None);
  }

  static std::vector<float> values(int64_t count, int64_t kind) {
    std::vector<float> result;
    for (int64_t i = 0; i < count; ++i)
      result.push_back(1.5f * std::sin(static_cast<float>(i * i + 7 * kind)));
    return result;
  }

  /// The rows of one sequence.
  void checkSequence(const AttentionResult &actual, int64_t batch,
                     int64_t firstQuery, int64_t seqlenQ, int64_t firstKey,
                     int64_t seqlenK) const {
    for (int64_t h = 0; h < headsQ; ++h)
      for (int64_t i = 0; i < seqlenQ; ++i) {
        double sum = inputs.sinkLogits ? std::exp(double(sinks.values[h])) : 0;
        double o[headDim] = {};
        for (int64_t j = 0; j < seqlenK; ++j) {
          if (!isVisible(inputs.mask, i, j, seqlenQ, seqlenK))
            continue;
          double score = 0;
          for (int64_t d = 0; d < headDim; ++d)
            score += inputs.q.load(batch, h, firstQuery + i, d) *
                     inputs.k.load(batch, h / 2, firstKey + j, d);
          score *= inputs.softmaxScale;
          if (inputs.alibiSlopes)
            score = static_cast<float>(
                score -
                double(slopes.values[h]) *
                    static_cast<double>(std::abs(i + seqlenK - seqlenQ - j)));
          double weight = std::exp(score);
          sum += weight;
          for (int64_t d = 0; d < headDim; ++d)
            o[d] += weight * inputs.v.load(batch, h / 2, firstKey + j, d);
        }
        int64_t row = (batch * headsQ + h) * inputs.q.sizes[2] + firstQuery + i;
        if (sum == 0)
          EXPECT_EQ(actual.lse[row], -infinity);
        else
          EXPECT_NEAR(actual.lse[row], std::log(sum), 1e-12);
        for (int64_t d = 0; d < headDim; ++d)
          EXPECT_NEAR(actual.o[row * headDim + d], sum ? o[d] / sum : 0, 1e-12);
      }
  }

  Tensor q, k, v, slopes, sinks;
  AttentionInputs inputs;
};
} // namespace

/// All masks, with and without ALiBi and sinks.
template <typename Check>
static void forEachModifier(NaiveSequences &attention, Check &&check) {
  const Window windows[] = {std::nullopt, 0, 3};
  for (Causal causal : allCausals)
    for (Window left : windows)
      for (Window right : windows)
        for (bool hasMore : {false, true}) {
          AttentionInputs &inputs = attention.inputs;
          inputs.mask = {causal, left, right};
          inputs.alibiSlopes.reset();
          inputs.sinkLogits.reset();
          if (hasMore) {
            inputs.alibiSlopes = attention.slopes.view;
            inputs.sinkLogits = attention.sinks.view;
          }
          check();
        }
}

TEST(ReferenceSequencesTest, usedKeysFollowTheFormula) {
  NaiveSequences attention(4, 9, 17);
  Lengths used({17, 5, 0, 9});
  attention.inputs.sequsedK = used.view;
  forEachModifier(attention, [&] {
    StatusOr<AttentionResult> result = computeReference(attention.inputs, 3);
    ASSERT_TRUE(result.ok());
    for (int64_t b = 0; b < 4; ++b)
      attention.checkSequence(*result, b, 0, 9, 0, used.values[b]);
  });
}

TEST(ReferenceSequencesTest, sequencesOneAfterAnotherFollowTheFormula) {
  // One without queries, one without keys, and rows and keys of none at both
  // ends; the last is cut into chunks.
  NaiveSequences attention(1, 180, 40);
  Lengths cuQ({2, 9, 9, 12, 170}), cuK({1, 12, 20, 20, 39});
  Lengths used({11, 0, 0, 7});
  attention.inputs.cuSeqlensQ = cuQ.view;
  attention.inputs.cuSeqlensK = cuK.view;
  ASSERT_TRUE(verifyShapes(attention.inputs).ok());
  for (bool hasUsed : {false, true}) {
    if (hasUsed)
      attention.inputs.sequsedK = used.view;
    forEachModifier(attention, [&] {
      StatusOr<AttentionResult> result = computeReference(attention.inputs, 3);
      ASSERT_TRUE(result.ok());
      for (size_t b = 0; b < 4; ++b)
        attention.checkSequence(
            *result, 0, cuQ.values[b], cuQ.values[b + 1] - cuQ.values[b],
            cuK.values[b],
            hasUsed ? used.values[b] : cuK.values[b + 1] - cuK.values[b]);
    });
  }
  KeyRange rows = queryRows(attention.inputs);
  EXPECT_EQ(rows.first, 2);
  EXPECT_EQ(rows.end, 170);
  // The yardstick of f32 inputs is off by its arithmetic alone.
  AttentionResult reference = *computeReference(attention.inputs);
  AttentionResult yardstick = *computeYardstick(attention.inputs);
  expectNear(yardstick.o, reference.o, 1e-5);
  expectNear(yardstick.lse, reference.lse, 1e-4);
}

TEST(ReferenceSequencesTest, noSequencesComputeNothing) {
  NaiveSequences attention(1, 3, 3);
  Lengths cu({1});
  attention.inputs.cuSeqlensQ = attention.inputs.cuSeqlensK = cu.view;
  EXPECT_EQ(queryRows(attention.inputs).count(), 0);
  EXPECT_EQ(computeReference(attention.inputs)->o,
            std::vector<double>(4 * 3 * 3));
}

// The mask shows key 0 and keys of the number of the sequence.
TEST(ReferenceSequencesTest, regionsCountFromTheFirstOfASequence) {
  nlohmann::json document = nlohmann::json::parse(
      R"({"values": [{"op": "arith.cmpi", "type": "i1", "operands": [4, 1],
                      "predicate": "eq"}], "result": 5})");
  JsonReader reader("test", "");
  std::vector<std::string> tensors;
  ScoreProgram mask = ScoreProgram::read(reader, reader.root(document),
                                         ScoreProgram::Type::I1, tensors);
  ASSERT_TRUE(reader.ok());
  Tensor q({1, 1, 3, 1}, {0, 0, 0}), k({1, 1, 5, 1}, {1, 2, 3, 4, 5}),
      v({1, 1, 5, 1}, {1, 2, 3, 4, 5});
  Lengths cuQ({0, 1, 3}), cuK({0, 2, 5});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.cuSeqlensQ = cuQ.view;
  inputs.cuSeqlensK = cuK.view;
  inputs.maskRegion = &mask;
  expectNear(computeReference(inputs)->o, {1, 4, 4});
}

TEST(ReferenceSequencesTest, refusesLengthsOutsideOfTheTensors) {
  NaiveSequences attention(1, 9, 17);
  auto refusal = [&](std::vector<int32_t> q, std::vector<int32_t> k,
                     std::optional<std::vector<int32_t>> used = {}) {
    Lengths cuQ(std::move(q)), cuK(std::move(k)),
        usedK(used.value_or(std::vector<int32_t>()));
    AttentionInputs inputs = attention.inputs;
    inputs.cuSeqlensQ = cuQ.view;
    inputs.cuSeqlensK = cuK.view;
    if (used)
      inputs.sequsedK = usedK.view;
    std::string message = verifyLengths(inputs).message();
    // None is ever used.
    EXPECT_EQ(computeReference(inputs).status().message(), message);
    EXPECT_EQ(computeYardstick(inputs).status().message(), message);
    return message;
  };
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, 17}), "");
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, 17}, {{0, 9}}), "");
  EXPECT_EQ(refusal({-1, 5, 9}, {0, 8, 17}),
            "expects cu_seqlens_q[0] to be at least 0, but got -1");
  EXPECT_EQ(refusal({0, 5, 4}, {0, 8, 17}),
            "expects cu_seqlens_q[2] to be at least cu_seqlens_q[1] (5), but "
            "got 4");
  EXPECT_EQ(refusal({0, 5, 10}, {0, 8, 17}),
            "expects cu_seqlens_q[2] to be at most the seqlen_q of the tensors "
            "(9), but got 10");
  EXPECT_EQ(refusal({0, 5, 9}, {0, INT32_MAX, 17}),
            "expects cu_seqlens_k[1] to be at most the seqlen_k of the tensors "
            "(17), but got 2147483647");
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, INT32_MIN}),
            "expects cu_seqlens_k[2] to be at least cu_seqlens_k[1] (8), but "
            "got -2147483648");
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, 17}, {{0, 10}}),
            "expects seqused_k[1] to be from 0 to 9, the keys of sequence 1, "
            "but got 10");
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, 17}, {{-1, 9}}),
            "expects seqused_k[0] to be from 0 to 8, the keys of sequence 0, "
            "but got -1");
  EXPECT_EQ(refusal({0, 5, 9}, {0, 8, 17}, {{1}}),
            "expects seqused_k to have 2 entries, one a sequence, but got 1");
  EXPECT_EQ(refusal({0, 9}, {0, 8, 17}),
            "expects cu_seqlens_q and cu_seqlens_k to have as many entries, "
            "one more than there are sequences, but got 2 and 3");
  EXPECT_EQ(refusal({}, {}),
            "expects cu_seqlens_q and cu_seqlens_k to have as many entries, "
            "one more than there are sequences, but got 0 and 0");
}

TEST(ReferenceSequencesTest, refusesLengthsThatDoNotMatch) {
  NaiveSequences attention(2, 9, 17);
  Lengths cu({0, 9}), used({17, 18});
  AttentionInputs &inputs = attention.inputs;
  auto message = [&] { return verifyLengths(inputs).message(); };
  inputs.sequsedK = used.view;
  EXPECT_EQ(message(), "expects seqused_k[1] to be from 0 to 17, the keys of "
                       "batch entry 1, but got 18");
  inputs.cuSeqlensQ = cu.view;
  EXPECT_EQ(message(), "expects cu_seqlens_q and cu_seqlens_k together, but "
                       "got one without the other");
  inputs.cuSeqlensK = cu.view;
  EXPECT_EQ(message(), "expects batch 1 with cu_seqlens_q, but got 2");
  inputs.bias = TensorView{nullptr, DType::F32, {1, 1, 1, 1}, {}};
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects no bias with cu_seqlens_q, but got one");
  inputs.sinkLogits = TensorView{nullptr, DType::F32, {1, 3, 1, 1}, {}};
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects heads_q and the size of sink_logits to be equal, but got "
            "4 and 3");
}

TEST(ReferenceSequencesTest, scoresAreNoResultOfSequences) {
  Tensor q({1, 1, 2, 1}, {1, 1}), k({1, 1, 2, 1}, {2, 2}),
      v({1, 1, 2, 1}, {1, 1});
  Lengths ends({0, 1, 2});
  AttentionInputs inputs = makeInputs(q.view, k.view, v.view, 1, Causal::None);
  inputs.cuSeqlensQ = inputs.cuSeqlensK = ends.view;
  inputs.scoresStage = ScoresStage::Masked;
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects no output of scores with cu_seqlens_q, but got one");
}

namespace {
/// One query and two heads of one key row each, of four columns; two rows to
/// append behind one key that is there, of three that there is room for.
struct Appended {
  Appended() : inputs(makeInputs(q.view, k.view, v.view, 1, Causal::None)) {
    inputs.sequsedK = used.view;
    inputs.kNew = kNew.view;
    inputs.vNew = vNew.view;
  }

  void turn(RotaryStyle style) {
    inputs.rotary = style;
    inputs.rotaryCos = cos.view;
    inputs.rotarySin = sin.view;
  }

  Tensor q{{1, 1, 2, 4}, {1, 2, 3, 4, 1, 2, 3, 4}},
      k{{1, 1, 3, 4}, {1, 0, 0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}},
      v{{1, 1, 3, 1}, {1, NAN, NAN}},
      kNew{{1, 1, 2, 4}, {0, 1, 0, 0, 0, 0, 1, 0}}, vNew{{1, 1, 2, 1}, {2, 4}};
  // Position p turns the only pair by p quarters.
  Tensor cos{{4, 1, 1, 1}, {1, 0, -1, 0}}, sin{{4, 1, 1, 1}, {0, 1, 0, -1}};
  Lengths used{{1}};
  AttentionInputs inputs;
};
} // namespace

TEST(ReferenceSequencesTest, appendedRowsAreKeysBehindThoseThatAreThere) {
  Appended rows;
  double e1 = std::exp(1.0), e2 = std::exp(2.0), e3 = std::exp(3.0);
  double expected = (e1 + 2 * e2 + 4 * e3) / (e1 + e2 + e3);
  expectNear(computeReference(rows.inputs)->o, {expected, expected}, 1e-12);
  // The last query sees the last key, and the first one less.
  rows.inputs.mask.causal = Causal::BottomRight;
  expectNear(computeReference(rows.inputs)->o,
             {(e1 + 2 * e2) / (e1 + e2), expected}, 1e-12);
}

TEST(ReferenceSequencesTest, rotaryTurnsNewKeysAndQueriesByTheirPositions) {
  Appended rows;
  Sequence sequence = getSequence(rows.inputs, 0);
  auto rowOf = [&](auto load, int64_t row) {
    std::vector<double> columns;
    for (int64_t d = 0; d < 4; ++d)
      columns.push_back(load(rows.inputs, sequence, 0, row, d));
    return columns;
  };
  using Row = std::vector<double>;
  // Key 1 by a quarter, key 2 by two; query rows by one, where the mask does
  // not count them.
  rows.turn(RotaryStyle::Interleaved);
  EXPECT_EQ(rowOf(loadKey, 0), (Row{1, 0, 0, 0}));
  EXPECT_EQ(rowOf(loadKey, 1), (Row{-1, 0, 0, 0}));
  EXPECT_EQ(rowOf(loadKey, 2), (Row{0, 0, 1, 0}));
  EXPECT_EQ(rowOf(loadQuery, 0), (Row{-2, 1, 3, 4}));
  EXPECT_EQ(rowOf(loadQuery, 1), (Row{-2, 1, 3, 4}));
  rows.inputs.mask.windowLeft = 5;
  EXPECT_EQ(rowOf(loadQuery, 1), (Row{-1, -2, 3, 4}));
  rows.inputs.mask = {Causal::BottomRight, {}, {}};
  EXPECT_EQ(rowOf(loadQuery, 0), (Row{-2, 1, 3, 4}));
  EXPECT_EQ(rowOf(loadQuery, 1), (Row{-1, -2, 3, 4}));
  // With two pairs, column c goes with column c + 2.
  Tensor cos({4, 2, 1, 1}, {1, 1, 0, 1, -1, 1, 0, 1}),
      sin({4, 2, 1, 1}, {0, 0, 1, 0, 0, 0, -1, 0});
  rows.turn(RotaryStyle::Half);
  rows.inputs.rotaryCos = cos.view;
  rows.inputs.rotarySin = sin.view;
  EXPECT_EQ(rowOf(loadKey, 1), (Row{0, 1, 0, 0}));
  EXPECT_EQ(rowOf(loadKey, 2), (Row{0, 0, -1, 0}));
  EXPECT_EQ(rowOf(loadQuery, 0), (Row{-3, 2, 1, 4}));
}

TEST(ReferenceSequencesTest, refusesAnAppendWithoutRoom) {
  Appended rows;
  rows.used.values[0] = 2;
  EXPECT_EQ(verifyLengths(rows.inputs).str(),
            "expects seqused_k[0] to leave room for 2 new keys among the 3 of "
            "batch entry 0, but got 2");
  rows.used.values[0] = 1;
  EXPECT_EQ(verifyLengths(rows.inputs).str(), "");
  rows.turn(RotaryStyle::Interleaved);
  rows.inputs.rotaryCos->sizes[0] = rows.inputs.rotarySin->sizes[0] = 2;
  EXPECT_EQ(verifyLengths(rows.inputs).str(),
            "expects rotary_cos and rotary_sin to have 3 positions or more, "
            "but got 2\n  note: seqused_k[0] is 1");
}

TEST(ReferenceSequencesTest, entryOfNegativeLengthIsNotThere) {
  Appended rows;
  rows.used.values[0] = -1;
  EXPECT_EQ(verifyLengths(rows.inputs).str(), "");
  Sequence sequence = getSequence(rows.inputs, 0);
  EXPECT_EQ(sequence.seqlenK, 0);
  EXPECT_EQ(countOldKeys(rows.inputs, sequence), 0);
  expectNear(computeReference(rows.inputs)->o, {0, 0}, 0);
  // Its query rows have positions all the same.
  rows.turn(RotaryStyle::Interleaved);
  rows.inputs.rotaryCos->sizes[0] = rows.inputs.rotarySin->sizes[0] = 1;
  EXPECT_EQ(verifyLengths(rows.inputs).str(),
            "expects rotary_cos and rotary_sin to have 2 positions or more, "
            "but got 1\n  note: seqused_k[0] is -1");
  // Without an append a length is no sign.
  rows.inputs.kNew.reset();
  rows.inputs.vNew.reset();
  rows.inputs.rotaryCos.reset();
  rows.inputs.rotarySin.reset();
  EXPECT_EQ(verifyLengths(rows.inputs).message(),
            "expects seqused_k[0] to be from 0 to 3, the keys of batch entry "
            "0, but got -1");
}

TEST(ReferenceSequencesTest, refusesAnAppendThatDoesNotMatch) {
  Appended rows;
  EXPECT_EQ(verifyShapes(rows.inputs).str(), "");
  AttentionInputs inputs = rows.inputs;
  inputs.vNew.reset();
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects k_new and v_new together, but got one without the other");
  inputs = rows.inputs;
  inputs.vNew->sizes[2] = 1;
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects the seqlen_new of v_new to be 2, but got 1");
  inputs = rows.inputs;
  inputs.sequsedK.reset();
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects seqused_k with k_new, but got none");
  rows.turn(RotaryStyle::Half);
  inputs = rows.inputs;
  inputs.rotaryCos->sizes[1] = 3;
  EXPECT_EQ(verifyShapes(inputs).message(),
            "expects rotary_cos of 1 to 2 pairs of columns, but got 3");
}

// Two entries of two keys each, in pages of two; both append to page 0.
TEST(ReferenceSequencesTest, refusesAnAppendToThePlaceOfAnother) {
  Tensor q({2, 1, 1, 1}, {1, 1}), k({2, 1, 2, 1}, {1, 1, 1, 1}),
      n({2, 1, 1, 1}, {1, 1});
  std::vector<int32_t> table = {0, 0};
  Lengths used({1, 1});
  AttentionInputs inputs = makeInputs(q.view, k.view, k.view, 1, Causal::None);
  inputs.pageTable = {table.data(), DType::I32, {2, 1, 1, 1}, {1, 1, 0, 0}};
  inputs.sequsedK = used.view;
  inputs.kNew = inputs.vNew = n.view;
  EXPECT_EQ(verifyLengths(inputs).message(),
            "expects the new keys of batch entry 1 to be in rows of their own, "
            "but row 1 of page 0 is of batch entry 0, too");
  used.values[1] = 0;
  EXPECT_EQ(verifyLengths(inputs).message(),
            "expects the new keys of batch entry 1 to be in rows of their own, "
            "but row 0 of page 0 is of batch entry 0, too");
  table[1] = 1;
  EXPECT_EQ(verifyLengths(inputs).str(), "");
}
