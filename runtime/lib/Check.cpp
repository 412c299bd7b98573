//===- Check.cpp - Run a bundle and judge its results ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each comparison yields the worst error and what was allowed there. A NaN in
// either fails: every comparison is written so that it is false for a NaN.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/Merge.h"

#include "flashcore/Runtime/BlockLists.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

using namespace flashcore;

/// Added to twice the yardstick's error, as FlashAttention's tests do.
static constexpr double slack = 1e-5;
/// What LSE may be off by, relative to 1 + |LSE|: it is summed in f32 whatever
/// P is rounded to. Merges and backward passes take exponentials of it.
static constexpr double lseTolerance = 2e-5;
/// What a score may be off by, relative to what it is a sum of: a few steps of
/// f32, which products are summed in, and regions compute in.
static constexpr double scoreTolerance = 4 * 0x1p-23;

bool ErrorReport::pass() const {
  return error <= allowed && std::isfinite(allowed);
}

bool CheckReport::pass() const {
  return o.pass() && (!lse || lse->pass()) && (!scores || scores->pass()) &&
         (!k || k->pass()) && (!v || v->pass()) && (!stage || stage->pass());
}

/// |actual - expected|, where equal infinities differ by 0.
static double difference(double actual, double expected) {
  return actual == expected ? 0 : std::abs(actual - expected);
}

namespace {
/// One element that is compared.
struct Comparison {
  int64_t index;
  double expected, actual, error, allowed;
};
} // namespace

/// Keeps the element whose error is the larger part of what is allowed; a NaN
/// is worse than all.
static void accumulate(ErrorReport &report, const Comparison &element) {
  bool isFirst = report.elements++ == 0;
  report.nans += std::isnan(element.actual);
  report.infinities +=
      std::isinf(element.actual) && !std::isinf(element.expected);
  // Multiplied and not divided: 0 of 0 is no NaN. Limits that are not finite
  // fail whatever the error is.
  bool isWorse =
      std::isfinite(element.allowed)
          ? !(element.error * report.allowed <= report.error * element.allowed)
          : !(element.error <= report.error);
  if (!isFirst && (std::isnan(report.error) || !isWorse))
    return;
  report.error = element.error;
  report.allowed = element.allowed;
  report.worst = element.index;
  report.expected = element.expected;
  report.actual = element.actual;
}

/// The coordinates of packed element `index`.
static std::vector<int64_t> unpack(int64_t index,
                                   std::span<const int64_t> sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0; index /= sizes[axis])
    at[axis] = index % sizes[axis];
  return at;
}

/// Fills `at` of a report on a tensor of these sizes.
static void locate(ErrorReport &report, std::span<const int64_t> sizes) {
  if (report.elements == 0)
    return;
  std::vector<int64_t> at = unpack(report.worst, sizes);
  std::copy_n(at.begin(), std::min(at.size(), report.at.size()),
              report.at.begin());
}

/// Unit roundoff: half the distance from 1 to the next value.
static double unitRoundoff(DType dtype) {
  return std::ldexp(1, -infoOf(dtype).digits);
}

/// The distance between neighbours of the type at `value`; 0 where that is not
/// finite.
static double stepAt(DType dtype, double value) {
  const DTypeInfo &info = infoOf(dtype);
  if (!std::isfinite(value))
    return 0;
  int exponent = info.leastExponent;
  if (value != 0)
    exponent = std::max(exponent, std::ilogb(value) - info.digits + 1);
  return std::ldexp(1, exponent);
}

/// A score of -1e9 is -infinity in f16: there is no room for it in the type.
static double fitTo(DType dtype, double value) {
  const DTypeInfo &info = infoOf(dtype);
  double rounded = info.load(info.round(value));
  return std::isinf(rounded) ? rounded : value;
}

/// Calls `visit(index, value)` for every element of `rows` in packed order.
template <typename Visitor>
static void forEach(const TensorView &tensor, KeyRange rows, Visitor &&visit) {
  int64_t index = 0;
  for (int64_t b = 0; b < tensor.sizes[0]; ++b)
    for (int64_t h = 0; h < tensor.sizes[1]; ++h)
      for (int64_t s = 0; s < tensor.sizes[2]; ++s)
        for (int64_t d = 0; d < tensor.sizes[3]; ++d, ++index)
          if (rows.contains(s))
            visit(index, tensor.load(b, h, s, d));
}

namespace {
/// What a value may be off by, beside a step of its type.
struct Tolerance {
  /// Of 1 + its size.
  double relative = 0;
  /// Whether errors are those of P, too, so that the yardstick's count. They
  /// are reported in any case.
  bool hasYardstick = true;
  /// Of the element of this number, which the reference says is so; may be
  /// empty.
  std::function<double(size_t, double)> ofElement = {};
};
} // namespace

/// Rows that are not computed are not compared: both references have zeros.
static ErrorReport compare(const TensorView &actual, KeyRange rows,
                           const std::vector<double> &reference,
                           const std::vector<double> &yardstick,
                           const Tolerance &tolerance = {}) {
  auto [relative, hasYardstick, ofElement] = tolerance;
  ErrorReport report;
  for (size_t i = 0; i < reference.size(); ++i) {
    double usual = difference(yardstick[i], reference[i]);
    // Once it is a NaN it stays one.
    if (!(usual <= report.yardstick) && !std::isnan(report.yardstick))
      report.yardstick = usual;
    report.yardstickNorm += usual * usual;
  }
  double limit = hasYardstick ? 2 * report.yardstick + slack : relative;
  report.allowed = limit; // of no elements
  auto allowedAt = [&](size_t index, double expected) {
    double least = std::isfinite(expected) ? relative * (1 + std::abs(expected))
                                           : relative;
    if (hasYardstick)
      least = std::max(least, stepAt(actual.dtype, expected));
    if (ofElement && std::isfinite(expected))
      least += ofElement(index, expected);
    // std::max would drop a NaN.
    return least > limit ? least : limit;
  };
  forEach(actual, rows, [&](int64_t index, double value) {
    auto place = static_cast<size_t>(index);
    double expected = fitTo(actual.dtype, reference[place]);
    double error = difference(value, expected);
    accumulate(report,
               {index, expected, value, error, allowedAt(place, expected)});
    report.norm += error * error;
  });
  locate(report, actual.sizes);
  report.norm = std::sqrt(report.norm);
  report.yardstickNorm = std::sqrt(report.yardstickNorm);
  return report;
}

/// The rows of an append as k or v have them now, with where they came from:
/// `at` has the row of k_new or v_new.
static ErrorReport compareAppended(const AttentionInputs &inputs, bool isKey) {
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

/// Counts what is not finite.
static InputReport examine(const HostTensor &tensor) {
  InputReport report{tensor.geometry().name, 0, 0, {}};
  bool mayHide =
      report.name == operand::Bias || report.name == operand::SinkLogits;
  tensor.forEach([&](int64_t index, int64_t position) {
    double value = tensor.load(position);
    if (std::isfinite(value) || (mayHide && std::isinf(value) && value < 0))
      return;
    ++(std::isnan(value) ? report.nans : report.infinities);
    if (report.first.empty())
      report.first = unpack(index, tensor.geometry().sizes);
  });
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

/// Of the outputs of a merge.
static CheckReport checkMerge(const TensorSet &set) {
  MergeInputs inputs = {set.findTensor("outputs"), set.findTensor("lses"),
                        set.findTensor("sink_logits")};
  const HostTensor *o = set.findTensor("o"), *lse = set.findTensor("lse");
  MergeResult reference = computeMerge(inputs);
  MergeResult yardstick = computeMergeYardstick(inputs, o->geometry().dtype);
  TensorView view = o->view();
  KeyRange rows = {0, view.sizes[2]};
  CheckReport report;
  report.o = compare(view, rows, reference.o, yardstick.o);
  if (lse)
    report.lse = compare(lse->view(), rows, reference.lse, yardstick.lse,
                         {lseTolerance});
  return report;
}

StatusOr<CheckReport> flashcore::checkOutputs(const TensorSet &set, Stage stage,
                                              unsigned threads) {
  if (set.problem().bundle().op == MergeOpName)
    return checkMerge(set);
  AttentionInputs inputs = set.inputs();
  AttentionOutputs outputs = {set.findTensor("o")->view(), {}};
  if (const HostTensor *lse = set.findTensor("lse"))
    outputs.lse = lse->view();
  if (const HostTensor *scores = set.findTensor(operand::Scores))
    outputs.scores = scores->view();
  StatusOr<CheckReport> checked = checkOutputs(inputs, outputs, threads);
  if (!checked.ok())
    return checked.status();
  CheckReport report = std::move(*checked);
  if (stage != Stage::All)
    report.stage = StageCheck(set, inputs).run(stage);
  for (const TensorGeometry &tensor : set.problem().tensors()) {
    if (tensor.role == TensorSpec::Role::Output)
      continue;
    InputReport input = examine(*set.findTensor(tensor.name));
    if (!input.first.empty())
      report.inputs.push_back(std::move(input));
  }
  return report;
}

/// The directory of a bundle may be a temporary one, and says less.
static std::string kernelNames(const Problem &problem) {
  std::string names;
  for (const KernelSpec &kernel : problem.bundle().kernels)
    if (problem.launches(kernel))
      names += (names.empty() ? "" : " and ") + kernel.name;
  return names;
}

Status flashcore::runOnce(Device &device, LoadedModule &module,
                          TensorSet &set) {
  if (Status status = set.upload(device); !status.ok())
    return status;
  StatusOr<std::vector<KernelLaunch>> launches = set.launches(device);
  if (!launches.ok())
    return launches.status();
  for (const KernelLaunch &launch : *launches)
    if (Status status = device.launch(module, launch); !status.ok())
      return status;
  if (Status status = device.synchronize(); !status.ok())
    return Status::kernelFault(status.message())
        .note("while running " + kernelNames(set.problem()) + " for " +
              set.problem().str());
  return set.download(device);
}

InputFiller flashcore::randomInputs(uint64_t seed, InputKind kind,
                                    Stage stage) {
  return [=](TensorSet &set, uint64_t number) {
    return set.fillInputs(seed + number, kind, stage);
  };
}

StatusOr<Timing> flashcore::timeProblem(Device &device, LoadedModule &module,
                                        const Problem &problem,
                                        const InputFiller &fill,
                                        const TimingOptions &options) {
  int64_t bytes = 1;
  for (const TensorGeometry &tensor : problem.tensors())
    bytes += tensor.spanBytes();
  int64_t count = std::clamp<int64_t>(200'000'000 / bytes, 1, 8);

  std::vector<TensorSet> sets;
  std::vector<std::vector<KernelLaunch>> launches;
  for (int64_t i = 0; i < count; ++i) {
    StatusOr<TensorSet> set = TensorSet::create(problem);
    if (!set.ok())
      return set.status();
    if (Status status = fill(*set, static_cast<uint64_t>(i)); !status.ok())
      return status;
    if (Status status = set->upload(device); !status.ok())
      return status;
    StatusOr<std::vector<KernelLaunch>> planned = set->launches(device);
    if (!planned.ok())
      return planned.status();
    launches.push_back(std::move(*planned));
    sets.push_back(std::move(*set));
  }
  return device.time(module, launches, options);
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
  if (problem.bundle().op == MergeOpName)
    return mergeFlops(*problem.findTensor("outputs"));
  return attentionFlops(problem.bundle().attention.mask,
                        {problem.dim("batch"), problem.dim("heads_q"),
                         problem.dim("seqlen_q"), problem.seqlenK(),
                         problem.dim("head_dim"), problem.dim("head_dim_v")});
}
