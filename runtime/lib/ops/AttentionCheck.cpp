//===- AttentionCheck.cpp - Results of an attention -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each output beside that of the reference, by the error of a yardstick; new
// rows of a cache; single stages.
//
//===----------------------------------------------------------------------===//

#include "../Comparison.h"
#include "AttentionOp.h"
#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>
#include <cmath>

using namespace flashcore;

/// What a score may be off by, relative to what it is a sum of: a few steps of
/// f32, which products are summed in, and regions compute in.
static constexpr double scoreTolerance = 4 * 0x1p-23;

ErrorReport flashcore::compareAppended(const AttentionInputs &inputs,
                                       bool isKey) {
  ErrorReport report;
  const TensorView &cache = isKey ? inputs.k : inputs.v;
  bool isTurned = isKey && inputs.rotaryCos;
  const auto &sizes = (isKey ? inputs.kNew : inputs.vNew)->sizes;
  int64_t index = 0;
  for (int64_t b = 0; b < sizes[0]; ++b) {
    Sequence sequence = getSequence(inputs, b);
    if (sequence.seqlenK < sizes[2]) { // nothing of it is written
      index += sizes[1] * sizes[2] * sizes[3];
      continue;
    }
    int64_t old = countOldKeys(inputs, sequence);
    for (int64_t h = 0; h < sizes[1]; ++h)
      for (int64_t i = 0; i < sizes[2]; ++i) {
        auto [batch, row] = findKey(inputs, sequence, old + i);
        for (int64_t d = 0; d < sizes[3]; ++d, ++index) {
          double expected = isKey ? loadKey(inputs, sequence, h, old + i, d)
                                  : loadValue(inputs, sequence, h, old + i, d);
          double actual = cache.load(batch, h, row, d);
          // Of a copy less than any difference.
          double step = isTurned ? stepAt(cache.dtype, expected)
                                 : stepAt(cache.dtype, 0) / 2;
          double error = difference(actual, expected);
          accumulate(report, {index, expected, actual, error, step});
          report.norm += error * error;
        }
      }
  }
  locate(report, sizes);
  report.norm = std::sqrt(report.norm);
  return report;
}

namespace {
/// The comparisons of single stages. They walk rows of O in the order (batch,
/// head, query), and know which keys a row sees.
class StageCheck {
public:
  StageCheck(const TensorSet &set, const AttentionInputs &inputs)
      : inputs(inputs), o(set.findTensor("o")->view()) {
    if (const HostTensor *tensor = set.findTensor("lse"))
      lse = tensor->view();
    roundoff = unitRoundoff(o.dtype);
  }

  ErrorReport run(Stage stage);

private:
  struct Row {
    int64_t batch, head, query, headKV;
    KeyRange keys;
  };

  void compareScores(const Row &row);
  void compareRowSum(const Row &row);
  void compareMean(const Row &row);
  void record(double expected, double actual, double allowed, const Row &row,
              int64_t column);

  const AttentionInputs &inputs;
  TensorView o, lse;
  double roundoff;
  ErrorReport report;
};
} // namespace

void StageCheck::record(double expected, double actual, double allowed,
                        const Row &row, int64_t column) {
  int64_t index =
      ((row.batch * o.sizes[1] + row.head) * o.sizes[2] + row.query) *
          o.sizes[3] +
      column;
  accumulate(report,
             {index, expected, actual, difference(actual, expected), allowed});
}

/// With V = identity, O[i][j] is P[i][j], so ln(O) + lse is the score. P and O
/// are each rounded to 16 bits, and the logarithm turns a relative error into
/// an absolute one: 2 roundoffs, or 4 where a kernel truncates. 1e-4 covers
/// exp, lse and the f32 accumulation for scores of this size.
void StageCheck::compareScores(const Row &row) {
  double allowed = 4 * roundoff + 1e-4;
  double rowLse = lse.load(row.batch, row.head, row.query, 0);
  for (int64_t j = 0; j < o.sizes[3]; ++j) {
    double value = o.load(row.batch, row.head, row.query, j);
    if (!row.keys.contains(j)) { // a hidden key, or a column of zeros of V
      record(0, value, allowed, row, j);
      continue;
    }
    double dot = 0;
    for (int64_t d = 0; d < inputs.q.sizes[3]; ++d)
      dot += inputs.q.load(row.batch, row.head, row.query, d) *
             inputs.k.load(row.batch, row.headKV, j, d);
    double bias = loadBias(inputs, getSequence(inputs, row.batch), row.head,
                           row.query, j);
    double score = computeScore(inputs, dot, bias);
    record(score, std::log(value) + rowLse, allowed, row, j);
  }
}

/// With V = identity a row of O is a row of P and sums to 1. Each of its terms
/// is rounded twice relative to its size, or truncated; 2^-24 per key is the
/// absolute error of f16 where P is subnormal.
void StageCheck::compareRowSum(const Row &row) {
  double sum = 0;
  for (int64_t j = 0; j < o.sizes[3]; ++j)
    sum += o.load(row.batch, row.head, row.query, j);
  double count = static_cast<double>(row.keys.count());
  double allowed = 4 * roundoff + count * 0x1p-24;
  record(count ? 1 : 0, sum, allowed, row, 0);
}

/// With Q and bias of 0 all visible keys weigh the same, capped or not. P and O
/// are each rounded once, and a sum of n terms in f32 is off by at most n *
/// 2^-23 of the sum of the magnitudes, where the tensor cores truncate.
void StageCheck::compareMean(const Row &row) {
  for (int64_t d = 0; d < o.sizes[3]; ++d) {
    double sum = 0, magnitude = 0;
    for (int64_t j = row.keys.first; j < row.keys.end; ++j) {
      double value = inputs.v.load(row.batch, row.headKV, j, d);
      sum += value;
      magnitude += std::abs(value);
    }
    double count = static_cast<double>(row.keys.count());
    double mean = count ? sum / count : 0;
    double meanMagnitude = count ? magnitude / count : 0;
    double allowed = 2 * roundoff * std::abs(mean) +
                     (count + 4) * 0x1p-23 * meanMagnitude + 0x1p-24;
    record(mean, o.load(row.batch, row.head, row.query, d), allowed, row, d);
  }
}

ErrorReport StageCheck::run(Stage stage) {
  int64_t headsKV = inputs.k.sizes[1], seqlenK = inputs.k.sizes[2];
  int64_t group = headsKV ? o.sizes[1] / headsKV : 1;
  for (int64_t b = 0; b < o.sizes[0]; ++b)
    for (int64_t h = 0; h < o.sizes[1]; ++h)
      for (int64_t i = 0; i < o.sizes[2]; ++i) {
        Row row = {b, h, i, h / group,
                   visibleKeys(inputs.mask, i, o.sizes[2], seqlenK)};
        if (stage == Stage::QK)
          compareScores(row);
        else if (stage == Stage::Softmax)
          compareRowSum(row);
        else
          compareMean(row);
      }
  locate(report, o.sizes);
  return report;
}

/// The Euclidean norms of rows, in packed order.
static std::vector<double> getNorms(const TensorView &tensor) {
  std::vector<double> norms;
  for (int64_t b = 0; b < tensor.sizes[0]; ++b)
    for (int64_t h = 0; h < tensor.sizes[1]; ++h)
      for (int64_t s = 0; s < tensor.sizes[2]; ++s) {
        double sum = 0;
        for (int64_t d = 0; d < tensor.sizes[3]; ++d)
          sum += tensor.load(b, h, s, d) * tensor.load(b, h, s, d);
        norms.push_back(std::sqrt(sum));
      }
  return norms;
}

namespace {
/// Scores are sums of f32, whose errors follow |q| |k| (Higham, Accuracy and
/// Stability of Numerical Algorithms, 3.1), and of what regions make of them.
/// The probability of a key is off by its share of the score's error.
class ScoresTolerance {
public:
  ScoresTolerance(const AttentionInputs &inputs)
      : stage(*inputs.scoresStage), scale(inputs.softmaxScale),
        queries(getNorms(inputs.q)), keys(getNorms(inputs.k)),
        seqlenQ(inputs.q.sizes[2]), seqlenK(inputs.k.sizes[2]),
        group(inputs.k.sizes[1] == 0 ? 1
                                     : inputs.q.sizes[1] / inputs.k.sizes[1]) {}

  double operator()(size_t index, double expected) const {
    auto row = static_cast<int64_t>(index) / seqlenK;
    int64_t key = static_cast<int64_t>(index) % seqlenK;
    int64_t keyHead = row / seqlenQ / group;
    double size = scale * queries[static_cast<size_t>(row)] *
                  keys[static_cast<size_t>(keyHead * seqlenK + key)];
    if (stage != ScoresStage::Probabilities)
      return scoreTolerance * std::max(size, std::abs(expected));
    // Beyond, tests have inputs whose products f32 holds.
    constexpr double largest = 0x1p12;
    return scoreTolerance * std::min(size, largest) * expected;
  }

private:
  ScoresStage stage;
  double scale;
  std::vector<double> queries, keys;
  int64_t seqlenQ, seqlenK, group;
};
} // namespace

StatusOr<CheckReport> flashcore::checkOutputs(const AttentionInputs &inputs,
                                              const AttentionOutputs &outputs,
                                              unsigned threads) {
  if (Status status = verifyShapes(inputs); !status.ok())
    return status;
  if (Status status = verifyLengths(inputs); !status.ok())
    return status;

  StatusOr<AttentionResult> reference = computeReference(inputs, threads);
  if (!reference.ok())
    return reference.status();
  StatusOr<AttentionResult> yardstick = computeYardstick(inputs, threads);
  if (!yardstick.ok())
    return yardstick.status();
  CheckReport report;
  KeyRange rows = queryRows(inputs);
  report.o = compare(outputs.o, rows, reference->o, yardstick->o);
  // Functions of scores are the approximations of the PTX ISA: tanh is off by
  // 2^-11, which a softcap multiplies.
  bool isApproximate = inputs.softcap || inputs.score;
  if (outputs.lse)
    report.lse = compare(*outputs.lse, rows, reference->lse, yardstick->lse,
                         {lseTolerance, isApproximate});
  if (outputs.scores)
    report.scores =
        compare(*outputs.scores, rows, reference->scores, yardstick->scores,
                {0, true, ScoresTolerance(inputs)});
  if (inputs.kNew) {
    report.k = compareAppended(inputs, /*isKey=*/true);
    report.v = compareAppended(inputs, /*isKey=*/false);
  }
  return report;
}

StatusOr<CheckReport> flashcore::checkAttentionOutputs(const TensorSet &set,
                                                       Stage stage,
                                                       unsigned threads) {
  AttentionInputs inputs = set.inputs();
  AttentionOutputs outputs = {set.findTensor("o")->view(), {}};
  if (const HostTensor *lse = set.findTensor("lse"))
    outputs.lse = lse->view();
  if (const HostTensor *scores = set.findTensor(operand::Scores))
    outputs.scores = scores->view();
  StatusOr<CheckReport> report = checkOutputs(inputs, outputs, threads);
  if (report.ok() && stage != Stage::All)
    report->stage = StageCheck(set, inputs).run(stage);
  return report;
}

/// Pairs of a query and a key that it sees, by the convention of the field
/// where there is one.
static double countPairs(const Mask &mask, int64_t seqlenQ, int64_t seqlenK) {
  double all = static_cast<double>(seqlenQ) * static_cast<double>(seqlenK);
  if (!mask.windowLeft && !mask.windowRight) {
    if (mask.causal == Causal::None)
      return all;
    if (seqlenQ == seqlenK)
      return all / 2;
  }
  double pairs = 0;
  for (int64_t i = 0; i < seqlenQ; ++i)
    pairs +=
        static_cast<double>(visibleKeys(mask, i, seqlenQ, seqlenK).count());
  return pairs;
}

double flashcore::attentionFlops(const Mask &mask,
                                 const AttentionSizes &sizes) {
  double pairs = countPairs(mask, sizes.seqlenQ, sizes.seqlenK);
  // 4 * head_dim when both head dims are equal: two products of 2 operations.
  return 2 * static_cast<double>(sizes.batch) *
         static_cast<double>(sizes.headsQ) * pairs *
         static_cast<double>(sizes.headDim + sizes.headDimV);
}

double flashcore::attentionFlops(const AttentionInputs &inputs) {
  double flops = 0;
  if (inputs.blocks)
    return 2 * countListedPairs(inputs) *
           static_cast<double>(inputs.q.sizes[3] + inputs.v.sizes[3]);
  for (int64_t i = 0, count = countSequences(inputs); i < count; ++i) {
    Sequence sequence = getSequence(inputs, i);
    flops += attentionFlops(
        inputs.mask, {1, inputs.q.sizes[1], sequence.seqlenQ, sequence.seqlenK,
                      inputs.q.sizes[3], inputs.v.sizes[3]});
  }
  return flops;
}

double flashcore::attentionFlops(const Problem &problem) {
  return attentionFlops(problem.bundle().attention.mask,
                        {problem.dim("batch"), problem.dim("heads_q"),
                         problem.dim("seqlen_q"), problem.seqlenK(),
                         problem.dim("head_dim"), problem.dim("head_dim_v")});
}

double flashcore::countAttentionFlops(const TensorSet &set) {
  const Bundle &bundle = set.problem().bundle();
  if (!bundle.hasLengths() && !bundle.hasBlocks())
    return attentionFlops(set.problem());
  AttentionInputs inputs = set.inputs();
  return verifyLengths(inputs).ok() ? attentionFlops(inputs) : 0;
}
