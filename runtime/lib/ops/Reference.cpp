//===- Reference.cpp - Attention on the CPU -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both computations share one skeleton: threads take (sequence, head) pairs, a
// pair gathers its rows of q, k and v into packed arrays once, and then works
// on blocks of query rows with contiguous inner loops. They differ in the type
// of the arithmetic and in where values are rounded.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Reference.h"

#include "Lengths.h"
#include "flashcore/Runtime/BlockLists.h"
#include "flashcore/Runtime/Dropout.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <system_error>
#include <thread>

using namespace flashcore;

static constexpr double infinity = std::numeric_limits<double>::infinity();

double TensorView::load(int64_t b, int64_t h, int64_t s, int64_t d) const {
  int64_t index =
      b * strides[0] + h * strides[1] + s * strides[2] + d * strides[3];
  const DTypeInfo &info = infoOf(dtype);
  uint32_t bits = 0; // the host is little endian
  std::memcpy(&bits, static_cast<const char *>(data) + index * info.bytes,
              static_cast<size_t>(info.bytes));
  return info.load(bits);
}

AttentionInputs flashcore::gatherInputs(
    const Bundle &bundle,
    const std::function<std::optional<TensorView>(std::string_view)> &find) {
  const AttentionSpec &attention = bundle.attention;
  AttentionInputs inputs;
  inputs.k = *find("k");
  inputs.v = *find("v");
  inputs.kNew = find(operand::KNew);
  // An append may have no queries; what it adds says how many entries there
  // are.
  std::optional<TensorView> q = find("q");
  inputs.q = q ? *q : *inputs.kNew;
  if (!q)
    inputs.q.sizes[2] = 0;
  inputs.softmaxScale = attention.softmaxScale;
  inputs.mask = attention.mask;
  inputs.softcap = attention.softcap;
  inputs.headScales = find(operand::HeadScales);
  inputs.bias = find(operand::Bias);
  inputs.alibiSlopes = find(operand::AlibiSlopes);
  inputs.sinkLogits = find(operand::SinkLogits);
  inputs.cuSeqlensQ = find(operand::CuSeqlensQ);
  inputs.cuSeqlensK = find(operand::CuSeqlensK);
  inputs.sequsedK = find(operand::SequsedK);
  inputs.pageTable = find(operand::PageTable);
  inputs.dropout = attention.dropout;
  inputs.rng = find(operand::Rng);
  inputs.score = attention.score ? &*attention.score : nullptr;
  inputs.maskRegion = attention.maskRegion ? &*attention.maskRegion : nullptr;
  inputs.scoresStage = attention.scoresStage;
  inputs.vNew = find(operand::VNew);
  inputs.rotaryCos = find(operand::RotaryCos);
  inputs.rotarySin = find(operand::RotarySin);
  inputs.rotary = attention.rotary;
  if (attention.blockSize)
    inputs.blocks = {
        *find(operand::BlockCounts),    *find(operand::BlockIndices),
        find(operand::FullBlockCounts), find(operand::FullBlockIndices),
        (*attention.blockSize)[0],      (*attention.blockSize)[1]};
  for (const std::string &name : attention.captured)
    inputs.captured.push_back(*find(name));
  return inputs;
}

KeyRange flashcore::visibleKeys(const Mask &mask, int64_t query,
                                int64_t seqlenQ, int64_t seqlenK) {
  int64_t first = 0, last = seqlenK - 1;
  // The key at the position of the query, when the sequences end together.
  int64_t own = query + seqlenK - seqlenQ;
  // A wider window hides no less, and its sums might overflow.
  int64_t widest = seqlenQ + seqlenK;
  if (mask.causal == Causal::BottomRight)
    last = std::min(last, own);
  if (mask.causal == Causal::TopLeft)
    last = std::min(last, query);
  if (mask.windowLeft)
    first = std::max(first, own - std::min(*mask.windowLeft, widest));
  if (mask.windowRight)
    last = std::min(last, own + std::min(*mask.windowRight, widest));
  return {first, std::max(first, last + 1)};
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

int64_t flashcore::maxSeqlenK(const AttentionInputs &inputs) {
  return inputs.k.sizes[2] *
         (inputs.pageTable ? inputs.pageTable->sizes[1] : 1);
}

KeyPlace flashcore::findKey(const AttentionInputs &inputs,
                            const Sequence &sequence, int64_t key) {
  if (!inputs.pageTable)
    return {sequence.batch, sequence.firstKey + key};
  int64_t pageSize = inputs.k.sizes[2];
  return {loadPage(inputs, sequence.entry, key / pageSize), key % pageSize};
}

int64_t flashcore::countSequences(const AttentionInputs &inputs) {
  return inputs.cuSeqlensQ ? inputs.cuSeqlensQ->sizes[0] - 1
                           : inputs.q.sizes[0];
}

Sequence flashcore::getSequence(const AttentionInputs &inputs, int64_t index) {
  Sequence sequence = {
      index, index, 0, inputs.q.sizes[2], 0, maxSeqlenK(inputs)};
  if (inputs.cuSeqlensQ) {
    sequence.batch = 0;
    sequence.firstQuery = loadLength(*inputs.cuSeqlensQ, index);
    sequence.seqlenQ =
        loadLength(*inputs.cuSeqlensQ, index + 1) - sequence.firstQuery;
  }
  if (inputs.cuSeqlensK) {
    sequence.firstKey = loadLength(*inputs.cuSeqlensK, index);
    sequence.seqlenK =
        loadLength(*inputs.cuSeqlensK, index + 1) - sequence.firstKey;
  }
  if (!inputs.sequsedK)
    return sequence;
  int64_t used = loadLength(*inputs.sequsedK, index);
  bool isThere = !inputs.kNew || used >= 0;
  sequence.seqlenK = isThere ? used + countNewKeys(inputs) : 0;
  return sequence;
}

int64_t flashcore::countNewKeys(const AttentionInputs &inputs) {
  return inputs.kNew ? inputs.kNew->sizes[2] : 0;
}

int64_t flashcore::countOldKeys(const AttentionInputs &inputs,
                                const Sequence &sequence) {
  // An entry that is not there has fewer keys than there are new ones.
  return std::max<int64_t>(sequence.seqlenK - countNewKeys(inputs), 0);
}

KeyRange flashcore::queryRows(const AttentionInputs &inputs) {
  if (!inputs.cuSeqlensQ)
    return {0, inputs.q.sizes[2]};
  return {loadLength(*inputs.cuSeqlensQ, 0),
          loadLength(*inputs.cuSeqlensQ, inputs.cuSeqlensQ->sizes[0] - 1)};
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static float roundTo(DType dtype, float value);

/// A column of a row, which `load` gives, at a position: of a pair (x, y) the
/// one or the other of (x cos - y sin, x sin + y cos), in f32.
template <typename Load>
static double turnColumn(const AttentionInputs &inputs, int64_t position,
                         int64_t column, DType dtype, Load &&load) {
  int64_t pairs = inputs.rotaryCos ? inputs.rotaryCos->sizes[1] : 0;
  if (column >= 2 * pairs)
    return load(column);
  bool isHalf = inputs.rotary == RotaryStyle::Half;
  int64_t pair = isHalf ? column % pairs : column / 2;
  bool isSecond = isHalf ? column >= pairs : column % 2;
  auto x = static_cast<float>(load(isHalf ? pair : 2 * pair));
  auto y = static_cast<float>(load(isHalf ? pair + pairs : 2 * pair + 1));
  auto cos = static_cast<float>(inputs.rotaryCos->load(position, pair, 0, 0)),
       sin = static_cast<float>(inputs.rotarySin->load(position, pair, 0, 0));
  float ofX = x * (isSecond ? sin : cos), ofY = y * (isSecond ? cos : sin);
  return roundTo(dtype, isSecond ? ofX + ofY : ofX - ofY);
}

double flashcore::loadQuery(const AttentionInputs &inputs,
                            const Sequence &sequence, int64_t head,
                            int64_t query, int64_t column) {
  const Mask &mask = inputs.mask;
  bool isOnePlace =
      mask.causal == Causal::None && !mask.windowLeft && !mask.windowRight;
  int64_t position = countOldKeys(inputs, sequence) + (isOnePlace ? 0 : query);
  return turnColumn(inputs, position, column, inputs.q.dtype, [&](int64_t d) {
    return inputs.q.load(sequence.batch, head, sequence.firstQuery + query, d);
  });
}

double flashcore::loadKey(const AttentionInputs &inputs,
                          const Sequence &sequence, int64_t headKV, int64_t key,
                          int64_t column) {
  int64_t old = countOldKeys(inputs, sequence);
  if (key < old) {
    auto [batch, row] = findKey(inputs, sequence, key);
    return inputs.k.load(batch, headKV, row, column);
  }
  return turnColumn(inputs, key, column, inputs.k.dtype, [&](int64_t d) {
    return inputs.kNew->load(sequence.batch, headKV, key - old, d);
  });
}

double flashcore::loadValue(const AttentionInputs &inputs,
                            const Sequence &sequence, int64_t headKV,
                            int64_t key, int64_t column) {
  int64_t old = countOldKeys(inputs, sequence);
  if (key >= old)
    return inputs.vNew->load(sequence.batch, headKV, key - old, column);
  auto [batch, row] = findKey(inputs, sequence, key);
  return inputs.v.load(batch, headKV, row, column);
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

double flashcore::loadBias(const AttentionInputs &inputs,
                           const Sequence &sequence, int64_t head,
                           int64_t query, int64_t key) {
  double result = 0;
  if (inputs.alibiSlopes) {
    int64_t own = query + sequence.seqlenK - sequence.seqlenQ;
    result = -inputs.alibiSlopes->load(0, head, 0, 0) *
             static_cast<double>(std::abs(own - key));
  }
  if (!inputs.bias)
    return result;
  const auto &sizes = inputs.bias->sizes;
  return result + inputs.bias->load(std::min(sequence.entry, sizes[0] - 1),
                                    std::min(head, sizes[1] - 1),
                                    std::min(query, sizes[2] - 1),
                                    std::min(key, sizes[3] - 1));
}

static double capScore(const AttentionInputs &inputs, double score) {
  return inputs.softcap ? *inputs.softcap * std::tanh(score / *inputs.softcap)
                        : score;
}

/// What the scores of a head are multiplied by beside the softmax scale.
static double loadHeadScale(const AttentionInputs &inputs, int64_t head) {
  return inputs.headScales ? inputs.headScales->load(0, head, 0, 0) : 1;
}

double flashcore::computeScore(const AttentionInputs &inputs, double dot,
                               double bias) {
  return capScore(inputs, inputs.softmaxScale * dot) + bias;
}

/// A score that the score region changed. `values` is memory that calls use
/// again.
static double changeScore(const AttentionInputs &inputs, double score,
                          const Coordinates &at, ScoreProgram::Values &values) {
  if (!inputs.score)
    return score;
  return inputs.score->evaluate(score, at, inputs.captured, values).real;
}

/// A score that the regions changed; -infinity where they hide it.
static double applyRegions(const AttentionInputs &inputs, double score,
                           const Coordinates &at,
                           ScoreProgram::Values &values) {
  score = changeScore(inputs, score, at, values);
  bool isVisible =
      !inputs.maskRegion ||
      inputs.maskRegion->evaluate(score, at, inputs.captured, values).integer;
  return isVisible ? score : -infinity;
}

/// Rounds to the nearest value of `dtype`.
static float roundTo(DType dtype, float value) {
  const DTypeInfo &info = infoOf(dtype);
  return static_cast<float>(info.load(info.round(value)));
}

/// The largest of the scores and the sink; NaN if any is one, which std::max
/// would drop.
template <typename Scalar>
static Scalar findMax(const Scalar *row, int64_t count, Scalar sink) {
  Scalar max = sink;
  if (std::isnan(sink))
    return sink;
  for (int64_t j = 0; j < count; ++j) {
    if (std::isnan(row[j]))
      return row[j];
    max = std::max(max, row[j]);
  }
  return max;
}

namespace {

/// In double precision, from the formula. A score that something is added to
/// is one of f32 as the op has it: a large mask swallows what it is added to,
/// or the sum overflows, and in double precision neither would happen.
struct ExactMath {
  using Scalar = double;
  const AttentionInputs &inputs;

  double scale(double dot, double headScale) const {
    return inputs.softmaxScale * headScale * dot;
  }
  double cap(double score) const { return capScore(inputs, score); }
  double add(double score, double bias) const {
    bool isSum = inputs.bias || inputs.alibiSlopes;
    return isSum ? static_cast<float>(score + bias) : score;
  }
  double round(double score) const { return score; }
  /// Turns `count` scores into O's weights; returns lse and the factor that the
  /// weighted sum still needs. An lse of -infinity leaves the weights unset. A
  /// sink is a score without a weight; -infinity is none.
  std::pair<double, double> softmax(double *row, int64_t count,
                                    double sink) const {
    double max = findMax(row, count, sink);
    if (max == -infinity)
      return {-infinity, 0};
    double sum = std::exp(sink - max);
    for (int64_t j = 0; j < count; ++j)
      sum += row[j] = std::exp(row[j] - max);
    return {max + std::log(sum), 1 / sum};
  }
  double finish(double value, double factor) const { return value * factor; }
};

/// As a user without a fused kernel would: every intermediate result has the
/// type of the inputs. Scores that this type has no digits for, or no room, are
/// those of f32: errors of a softmax of noise would allow a kernel any result.
struct LowPrecisionMath {
  using Scalar = float;
  DType dtype;
  float softmaxScale;
  std::optional<float> softcap;

  /// Whether neighbours of the score in the type are 1 or more apart.
  bool isFar(float score) const {
    return !(std::abs(score) < std::ldexp(1.0f, infoOf(dtype).digits - 1));
  }
  float roundScore(float score) const {
    return isFar(score) ? score : roundTo(dtype, score);
  }
  float scale(float dot, float headScale) const {
    float score = dot * softmaxScale, rounded = roundTo(dtype, dot);
    if (!isFar(score) && std::isfinite(rounded))
      score = roundTo(dtype, rounded * softmaxScale);
    return headScale == 1 ? score : roundScore(score * headScale);
  }
  float cap(float score) const {
    if (!softcap)
      return score;
    float ratio = roundTo(dtype, score / *softcap);
    return roundScore(roundTo(dtype, std::tanh(ratio)) * *softcap);
  }
  float add(float score, float bias) const { return roundScore(score + bias); }
  float round(double score) const {
    return roundScore(static_cast<float>(score));
  }
  std::pair<double, double> softmax(float *row, int64_t count,
                                    float sink) const {
    float max = findMax(row, count, sink);
    if (max == -std::numeric_limits<float>::infinity())
      return {-infinity, 0};
    float sum = std::exp(sink - max);
    for (int64_t j = 0; j < count; ++j)
      sum += row[j] = std::exp(row[j] - max);
    for (int64_t j = 0; j < count; ++j)
      row[j] = roundTo(dtype, row[j] / sum);
    return {double(max) + std::log(double(sum)), 1};
  }
  double finish(float value, double) const { return roundTo(dtype, value); }
};

/// Rows of one (sequence, head) pair. Query rows are taken a block at a time,
/// so that each row of k and v that is read from memory serves several queries.
template <typename Math> class HeadWorker {
public:
  /// Allocates all that it needs, and may throw; nothing after it does.
  HeadWorker(const AttentionInputs &inputs, const Math &math,
             AttentionResult &result);
  /// Adds the bytes that the constructor allocates; false on overflow.
  static bool addBytes(const AttentionInputs &inputs, int64_t &bytes);

  /// Computes the query rows [firstRow, endRow) of one pair, counted from the
  /// first of `sequence`.
  void run(const Sequence &sequence, int64_t head, int64_t firstRow,
           int64_t endRow);

private:
  using Scalar = typename Math::Scalar;
  static constexpr int64_t blockRows = 8;
  static constexpr int64_t blockKeys = 128;

  void gather(int64_t head);
  void computeBlock(int64_t head, int64_t firstRow, int64_t rows);
  void computeProducts(int64_t firstRow, int64_t rows, KeyRange keys);
  void computeScores(int64_t head, int64_t query, Scalar *row, KeyRange keys);
  void computeListedScores(int64_t head, int64_t query, Scalar *row);
  double *scoresOfRow(int64_t row);
  void storeEarly(int64_t head, int64_t query, const Scalar *products,
                  double *to);
  void storeLate(const Scalar *row, KeyRange keys, double factor, double *to);
  void dropWeights(int64_t head, int64_t query, Scalar *row, KeyRange keys);
  void computeOutput(int64_t row, KeyRange keys);

  const AttentionInputs &inputs;
  const Math &math;
  AttentionResult &result;
  Sequence sequence; ///< whose rows the arrays hold
  // Room for the longest sequence there may be:
  std::vector<Scalar> q;           ///< seqlen_q x head_dim
  std::vector<Scalar> kTransposed; ///< head_dim x seqlen_k
  std::vector<Scalar> v;           ///< seqlen_k x head_dim_v
  std::vector<Scalar> scores;      ///< blockRows x seqlen_k
  std::vector<Scalar> output;      ///< blockRows x head_dim_v
  ScoreProgram::Values values;     ///< of the regions
  std::vector<BlockKind> kinds;    ///< of the blocks of keys of a query
};

} // namespace

/// Adds the product of `factors` to `sum`; false past 2^63.
static bool addProduct(int64_t &sum, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product))
      return false;
  return !__builtin_add_overflow(sum, product, &sum);
}

template <typename Math>
bool HeadWorker<Math>::addBytes(const AttentionInputs &inputs, int64_t &bytes) {
  constexpr int64_t scalarBytes = sizeof(Scalar);
  int64_t headDimV = inputs.v.sizes[3], seqlenK = maxSeqlenK(inputs);
  return addProduct(bytes,
                    {scalarBytes, inputs.q.sizes[2], inputs.q.sizes[3]}) &&
         addProduct(bytes, {scalarBytes, seqlenK, inputs.k.sizes[3]}) &&
         addProduct(bytes, {scalarBytes, seqlenK, headDimV}) &&
         addProduct(bytes, {scalarBytes, blockRows, seqlenK}) &&
         addProduct(bytes, {scalarBytes, blockRows, headDimV});
}

template <typename Math>
HeadWorker<Math>::HeadWorker(const AttentionInputs &inputs, const Math &math,
                             AttentionResult &result)
    : inputs(inputs), math(math), result(result) {
  int64_t seqlenK = maxSeqlenK(inputs), headDimV = inputs.v.sizes[3];
  q.resize(static_cast<size_t>(inputs.q.sizes[2] * inputs.q.sizes[3]));
  kTransposed.resize(static_cast<size_t>(seqlenK * inputs.k.sizes[3]));
  v.resize(static_cast<size_t>(seqlenK * headDimV));
  scores.resize(static_cast<size_t>(blockRows * seqlenK));
  output.resize(static_cast<size_t>(blockRows * headDimV));
  if (inputs.blocks)
    kinds.resize(
        static_cast<size_t>(countBlocks(seqlenK, inputs.blocks->keys)));
}

template <typename Math> void HeadWorker<Math>::gather(int64_t head) {
  int64_t seqlenQ = sequence.seqlenQ, seqlenK = sequence.seqlenK;
  int64_t headDim = inputs.q.sizes[3], headDimV = inputs.v.sizes[3];
  int64_t headKV = head / (inputs.q.sizes[1] / inputs.k.sizes[1]);
  for (int64_t i = 0; i < seqlenQ; ++i)
    for (int64_t d = 0; d < headDim; ++d)
      q[i * headDim + d] = Scalar(loadQuery(inputs, sequence, head, i, d));
  for (int64_t j = 0; j < seqlenK; ++j) {
    for (int64_t d = 0; d < headDim; ++d)
      kTransposed[d * seqlenK + j] =
          Scalar(loadKey(inputs, sequence, headKV, j, d));
    for (int64_t d = 0; d < headDimV; ++d)
      v[j * headDimV + d] = Scalar(loadValue(inputs, sequence, headKV, j, d));
  }
}

/// The products q.k of `rows` queries with `keys`.
template <typename Math>
void HeadWorker<Math>::computeProducts(int64_t firstRow, int64_t rows,
                                       KeyRange keys) {
  int64_t seqlenK = sequence.seqlenK, headDim = inputs.q.sizes[3];
  for (int64_t firstKey = keys.first; firstKey < keys.end;
       firstKey += blockKeys) {
    int64_t count = std::min(blockKeys, keys.end - firstKey);
    for (int64_t r = 0; r < rows; ++r) {
      Scalar accumulator[blockKeys] = {};
      for (int64_t d = 0; d < headDim; ++d) {
        Scalar factor = q[(firstRow + r) * headDim + d];
        const Scalar *column = &kTransposed[d * seqlenK + firstKey];
        for (int64_t j = 0; j < count; ++j)
          accumulator[j] += factor * column[j];
      }
      std::copy_n(accumulator, count, &scores[r * seqlenK + firstKey]);
    }
  }
}

/// Turns the products of one query into its scores.
template <typename Math>
void HeadWorker<Math>::computeScores(int64_t head, int64_t query, Scalar *row,
                                     KeyRange keys) {
  auto headScale = Scalar(loadHeadScale(inputs, head));
  for (int64_t j = keys.first; j < keys.end; ++j)
    row[j] = math.add(math.cap(math.scale(row[j], headScale)),
                      Scalar(loadBias(inputs, sequence, head, query, j)));
  if (inputs.blocks)
    return computeListedScores(head, query, row);
  if (!inputs.score && !inputs.maskRegion)
    return;
  for (int64_t j = keys.first; j < keys.end; ++j)
    row[j] = math.round(
        applyRegions(inputs, row[j], {sequence.entry, head, query, j}, values));
}

/// The same of all keys, of which those of full blocks are visible whatever the
/// mask says, and those of blocks in no list are not.
template <typename Math>
void HeadWorker<Math>::computeListedScores(int64_t head, int64_t query,
                                           Scalar *row) {
  readBlocks(*inputs.blocks, sequence.batch, head,
             query / inputs.blocks->queries, kinds);
  KeyRange seen =
      visibleKeys(inputs.mask, query, sequence.seqlenQ, sequence.seqlenK);
  for (int64_t j = 0; j < sequence.seqlenK; ++j) {
    BlockKind kind = kinds[static_cast<size_t>(j / inputs.blocks->keys)];
    Coordinates at = {sequence.entry, head, query, j};
    double score = -infinity;
    if (kind == BlockKind::Full)
      score = changeScore(inputs, row[j], at, values);
    else if (kind == BlockKind::Masked && seen.contains(j))
      score = applyRegions(inputs, row[j], at, values);
    row[j] = math.round(score);
  }
}

/// Where the scores of a row of o go; null where they are no result.
template <typename Math> double *HeadWorker<Math>::scoresOfRow(int64_t row) {
  return inputs.scoresStage ? result.scores.data() + row * inputs.k.sizes[2]
                            : nullptr;
}

/// Stores the scores of a row before the mask, from the products of all keys of
/// the sequence; those behind it are 0.
template <typename Math>
void HeadWorker<Math>::storeEarly(int64_t head, int64_t query,
                                  const Scalar *products, double *to) {
  ScoresStage stage = *inputs.scoresStage;
  auto headScale = Scalar(loadHeadScale(inputs, head));
  std::fill_n(to, inputs.k.sizes[2], 0.0);
  for (int64_t j = 0; j < sequence.seqlenK; ++j) {
    Scalar score = math.scale(products[j], headScale);
    if (stage >= ScoresStage::Capped)
      score = math.cap(score);
    if (stage >= ScoresStage::Changed)
      score = math.round(changeScore(
          inputs,
          math.add(score, Scalar(loadBias(inputs, sequence, head, query, j))),
          {sequence.entry, head, query, j}, values));
    to[j] = score;
  }
}

/// Stores scores behind the mask, or what became of them times `factor`, of
/// the keys that it shows; others are hidden.
template <typename Math>
void HeadWorker<Math>::storeLate(const Scalar *row, KeyRange keys,
                                 double factor, double *to) {
  bool areMasked = inputs.scoresStage == ScoresStage::Masked;
  std::fill_n(to, inputs.k.sizes[2], areMasked ? -infinity : 0.0);
  for (int64_t j = keys.first; j < keys.end; ++j)
    to[j] = areMasked ? row[j] : row[j] * factor;
}

/// What a dropout leaves of the weights of one query, whose sum is known.
template <typename Math>
void HeadWorker<Math>::dropWeights(int64_t head, int64_t query, Scalar *row,
                                   KeyRange keys) {
  if (!inputs.dropout)
    return;
  PhiloxWords words;
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<uint32_t>(static_cast<int64_t>(
        inputs.rng->load(static_cast<int64_t>(i), 0, 0, 0)));
  DropoutMask mask(*inputs.dropout, words, sequence.entry, head);
  double scale = mask.scale();
  for (int64_t j = keys.first; j < keys.end; ++j)
    row[j] =
        mask.keeps(query, j) ? Scalar(math.round(row[j] * scale)) : Scalar(0);
}

/// The weighted sum of v for one row. It reads visible keys only, and not those
/// of weight 0: a 0 would turn an infinity in v into a NaN.
template <typename Math>
void HeadWorker<Math>::computeOutput(int64_t row, KeyRange keys) {
  int64_t seqlenK = sequence.seqlenK, headDimV = inputs.v.sizes[3];
  Scalar *sum = output.data() + row * headDimV;
  std::fill_n(sum, headDimV, Scalar(0));
  const Scalar *weights = scores.data() + row * seqlenK; // null without keys
  for (int64_t j = keys.first; j < keys.end; ++j) {
    if (weights[j] == 0)
      continue;
    const Scalar *values = &v[j * headDimV];
    for (int64_t d = 0; d < headDimV; ++d)
      sum[d] += weights[j] * values[d];
  }
}

template <typename Math>
void HeadWorker<Math>::computeBlock(int64_t head, int64_t firstRow,
                                    int64_t rows) {
  int64_t headsQ = inputs.q.sizes[1], headDimV = inputs.v.sizes[3];
  int64_t seqlenQ = sequence.seqlenQ, seqlenK = sequence.seqlenK;
  auto sink = Scalar(inputs.sinkLogits ? inputs.sinkLogits->load(0, head, 0, 0)
                                       : -infinity);
  auto keysOf = [&](int64_t query) {
    if (inputs.blocks) // which may show any
      return KeyRange{0, seqlenK};
    return visibleKeys(inputs.mask, query, seqlenQ, seqlenK);
  };
  bool isEarly =
      inputs.scoresStage && *inputs.scoresStage < ScoresStage::Masked;
  KeyRange seen = {keysOf(firstRow).first, keysOf(firstRow + rows - 1).end};
  computeProducts(firstRow, rows, isEarly ? KeyRange{0, seqlenK} : seen);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t query = firstRow + r;
    KeyRange keys = keysOf(query);
    Scalar *weights = scores.data() + r * seqlenK;
    int64_t row = (sequence.batch * headsQ + head) * inputs.q.sizes[2] +
                  sequence.firstQuery + query;
    double *scoresTo = scoresOfRow(row);
    if (isEarly)
      storeEarly(head, query, weights, scoresTo);
    computeScores(head, query, weights, keys);
    if (inputs.scoresStage == ScoresStage::Masked)
      storeLate(weights, keys, 1, scoresTo);
    auto [lse, factor] = math.softmax(weights + keys.first, keys.count(), sink);
    if (inputs.scoresStage == ScoresStage::Probabilities)
      storeLate(weights, lse == -infinity ? KeyRange{} : keys, factor,
                scoresTo);
    double *o = result.o.data() + row * headDimV;
    result.lse[row] = lse;
    if (lse == -infinity) {
      std::fill_n(o, headDimV, 0.0);
      continue;
    }
    dropWeights(head, query, weights, keys);
    computeOutput(r, keys);
    for (int64_t d = 0; d < headDimV; ++d)
      o[d] = math.finish(output[r * headDimV + d], factor);
  }
}

template <typename Math>
void HeadWorker<Math>::run(const Sequence &next, int64_t head, int64_t firstRow,
                           int64_t endRow) {
  sequence = next;
  gather(head);
  for (int64_t row = firstRow; row < endRow; row += blockRows)
    computeBlock(head, row, std::min(blockRows, endRow - row));
}

namespace {
/// How the rows are cut into items for threads to take.
struct WorkPlan {
  WorkPlan(int64_t pairs, int64_t longest, unsigned threads) {
    if (threads == 0)
      threads = std::max(1u, std::thread::hardware_concurrency());
    // Few heads are cut into chunks of rows, so that no thread idles. Each
    // chunk reads all of k and v again, so it must not be short.
    constexpr int64_t minRows = 64;
    int64_t wanted = pairs ? (4 * int64_t(threads) + pairs - 1) / pairs : 1;
    rows = std::max(minRows, (longest + wanted - 1) / wanted);
    chunks = (longest + rows - 1) / rows;
    items = pairs * chunks;
    workers = std::min<int64_t>(threads, items);
  }

  int64_t rows, chunks, items, workers;
};
} // namespace

/// The queries of the longest sequence.
static int64_t findLongest(const AttentionInputs &inputs) {
  if (!inputs.cuSeqlensQ)
    return inputs.q.sizes[2];
  int64_t longest = 0;
  for (int64_t i = 0, count = countSequences(inputs); i < count; ++i)
    longest = std::max(longest, getSequence(inputs, i).seqlenQ);
  return longest;
}

/// Lets `workers` share the items, each on a thread of its own but the first.
template <typename Math>
static void runItems(std::vector<HeadWorker<Math>> &workers,
                     const WorkPlan &plan, const AttentionInputs &inputs) {
  int64_t headsQ = inputs.q.sizes[1];
  std::atomic<int64_t> next = 0;
  auto work = [&](HeadWorker<Math> &worker) {
    for (int64_t item = next++; item < plan.items; item = next++) {
      int64_t pair = item / plan.chunks, first = item % plan.chunks * plan.rows;
      Sequence sequence = getSequence(inputs, pair / headsQ);
      // A sequence may have fewer chunks than the longest.
      if (first < sequence.seqlenQ)
        worker.run(sequence, pair % headsQ, first,
                   std::min(first + plan.rows, sequence.seqlenQ));
    }
  };
  std::vector<std::thread> pool;
  pool.reserve(workers.size());
  try {
    for (size_t i = 1; i < workers.size(); ++i)
      pool.emplace_back(work, std::ref(workers[i]));
  } catch (const std::system_error &) {
    // The system has no more threads: those that run do the work of all.
  }
  if (!workers.empty())
    work(workers.front());
  for (std::thread &thread : pool)
    thread.join();
}

template <typename Math>
static StatusOr<AttentionResult> compute(const AttentionInputs &inputs,
                                         const Math &math, unsigned threads) {
  if (Status status = verifyLengths(inputs); !status.ok())
    return status;
  const auto &q = inputs.q.sizes;
  int64_t headDimV = inputs.v.sizes[3], bytes = 0, workerBytes = 0, items = 0;
  int64_t scoreKeys = inputs.scoresStage ? inputs.k.sizes[2] : 0;
  int64_t longest = findLongest(inputs);
  // Without rows there may be any number of heads.
  int64_t sequences = longest ? countSequences(inputs) : 0;
  bool fits =
      addProduct(bytes, {sizeof(double), q[0], q[1], q[2]}) &&
      addProduct(bytes, {sizeof(double), q[0], q[1], q[2], headDimV}) &&
      addProduct(bytes, {sizeof(double), q[0], q[1], q[2], scoreKeys}) &&
      addProduct(items, {sequences, q[1], longest}) &&
      HeadWorker<Math>::addBytes(inputs, workerBytes);
  if (!fits)
    return Status::error("expects a reference of less than 2^63 bytes, but got "
                         "more for " +
                         std::to_string(q[0]) + " x " + std::to_string(q[1]) +
                         " x " + std::to_string(q[2]) + " queries and " +
                         std::to_string(maxSeqlenK(inputs)) + " keys");
  WorkPlan plan(sequences * q[1], longest, threads);
  AttentionResult result;
  std::vector<HeadWorker<Math>> workers;
  try {
    result.lse.resize(static_cast<size_t>(q[0] * q[1] * q[2]));
    result.o.resize(result.lse.size() * static_cast<size_t>(headDimV));
    result.scores.resize(result.lse.size() * static_cast<size_t>(scoreKeys));
    workers.reserve(static_cast<size_t>(plan.workers));
    for (int64_t i = 0; i < plan.workers; ++i)
      workers.emplace_back(inputs, math, result);
  } catch (const std::exception &) { // bad_alloc or length_error
    return Status::error("cannot allocate " + std::to_string(bytes) +
                         " bytes of host memory for the reference, and " +
                         std::to_string(workerBytes) + " for each of its " +
                         std::to_string(plan.workers) + " threads")
        .note("use a smaller problem, or do not check it");
  }
  runItems(workers, plan, inputs);
  return result;
}

StatusOr<AttentionResult>
flashcore::computeReference(const AttentionInputs &inputs, unsigned threads) {
  return compute(inputs, ExactMath{inputs}, threads);
}

StatusOr<AttentionResult>
flashcore::computeYardstick(const AttentionInputs &inputs, unsigned threads) {
  LowPrecisionMath math{
      inputs.q.dtype, static_cast<float>(inputs.softmaxScale), {}};
  if (inputs.softcap)
    math.softcap = static_cast<float>(*inputs.softcap);
  return compute(inputs, math, threads);
}
