//===- Reference.h - Attention on the CPU -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two ways to compute the same attention on the host. The reference works in
// double precision, straight from the formula. The yardstick works the way a
// user without a fused kernel would, in the precision of the inputs; its error
// says how much error is normal. All tools and tests use these two.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_REFERENCE_H
#define FLASHCORE_RUNTIME_REFERENCE_H

#include "flashcore/Runtime/Bundle.h"

#include <functional>

namespace flashcore {

/// A read-only strided tensor of rank 4: (batch, heads, seqlen, head_dim).
struct TensorView {
  const void *data = nullptr; ///< element (0, 0, 0, 0)
  DType dtype = DType::F16;
  std::array<int64_t, 4> sizes = {};
  std::array<int64_t, 4> strides = {}; ///< in elements

  double load(int64_t b, int64_t h, int64_t s, int64_t d) const;
};

/// Lists of blocks of `queries` and `keys` (docs/Bundle.md): counts are (batch,
/// heads_q, query_blocks, 1), indices (batch, heads_q, query_blocks,
/// key_blocks), and an axis of size 1 of batch or heads is broadcast.
struct BlockLists {
  TensorView counts, indices;
  /// Of blocks that no mask is asked in; both or neither.
  std::optional<TensorView> fullCounts = {}, fullIndices = {};
  int64_t queries = 1, keys = 1;
};

struct AttentionInputs {
  TensorView q, k, v;
  double softmaxScale = 1;
  Mask mask;
  std::optional<double> softcap;
  /// Of each query head, on the axis of the heads: a factor of its scores.
  std::optional<TensorView> headScales = {};
  /// (batch, heads_q, seqlen_q, seqlen_k); an axis of size 1 is broadcast.
  std::optional<TensorView> bias;
  /// Of each query head, of the distance of a key: on the axis of the heads.
  std::optional<TensorView> alibiSlopes = {};
  /// A logit of each query head, which takes part in the softmax and has no
  /// value: on the axis of the heads. -infinity is none.
  std::optional<TensorView> sinkLogits = {};
  /// Integers, on the axis of the batch: rows [cu[b], cu[b + 1]) of a batch of
  /// one are sequence b, and it uses its first sequsedK[b] keys.
  std::optional<TensorView> cuSeqlensQ = {}, cuSeqlensK = {}, sequsedK = {};
  /// Integers, on the first two axes. Then k and v are (pages, heads_kv,
  /// page_size, head_dim), and page pageTable[b, p] holds the keys from p *
  /// page_size on of batch entry or sequence b.
  std::optional<TensorView> pageTable = {};
  /// The share of P that meets no V, and what it is drawn with: words on the
  /// first axis (Dropout.h).
  std::optional<double> dropout = {};
  std::optional<TensorView> rng = {};
  std::optional<BlockLists> blocks = {};
  /// Of the regions; null where there is none. They read `captured`.
  const ScoreProgram *score = nullptr, *maskRegion = nullptr;
  std::vector<TensorView> captured = {};
  /// Rows that are keys and values behind those that sequsedK counts, wherever
  /// k and v have them: of (batch, heads_kv, seqlen_new, head_dim).
  std::optional<TensorView> kNew = {}, vNew = {};
  /// Of each position the cosine and sine of each pair, on the first two axes:
  /// what turns the rows of kNew and q.
  std::optional<TensorView> rotaryCos = {}, rotarySin = {};
  std::optional<RotaryStyle> rotary = {};
  /// Of the scores that are a result, if they are: without cu_seqlens or pages.
  std::optional<ScoresStage> scoresStage = {};
};

/// The inputs of the attention of `bundle`, which must outlive them. `find`
/// gives the tensor of a name, or nothing where the bundle has none.
AttentionInputs gatherInputs(
    const Bundle &bundle,
    const std::function<std::optional<TensorView>(std::string_view)> &find);

/// Packed results: o is (batch, heads_q, seqlen_q, head_dim_v), lse is
/// (batch, heads_q, seqlen_q) in natural logarithms. A query that sees no key,
/// because of the mask or its region, or as all its scores are -infinity, has o
/// = 0 and lse = -infinity, or that of its sink. Rows outside of queryRows are
/// not computed and hold zeros.
struct AttentionResult {
  std::vector<double> o;
  std::vector<double> lse;
  /// (batch, heads_q, seqlen_q, seqlen_k) at the stage of the inputs; empty
  /// without one. Keys from seqused_k on are 0 up to the mask.
  std::vector<double> scores;
};

/// The keys, or queries, from `first` to before `end`.
struct KeyRange {
  int64_t first = 0;
  int64_t end = 0;

  int64_t count() const { return end - first; }
  bool contains(int64_t key) const { return first <= key && key < end; }
};

/// The keys that `mask` shows to query `query`. Neither end of the range falls
/// from one query to the next.
KeyRange visibleKeys(const Mask &mask, int64_t query, int64_t seqlenQ,
                     int64_t seqlenK);

/// Queries and keys that meet: masks, ALiBi and regions count them from 0. Of a
/// plain attention it is a batch entry.
struct Sequence {
  int64_t batch = 0; ///< of the tensors
  int64_t entry = 0; ///< the batch entry that regions see
  int64_t firstQuery = 0, seqlenQ = 0, firstKey = 0, seqlenK = 0;
};

/// Checks that the shapes make an attention.
Status verifyShapes(const AttentionInputs &inputs);
/// Checks the lengths of sequences and the pages of their keys, of which the
/// rows of tensors follow, and lists of blocks: their shapes and then each
/// value. Nothing below may be called before.
Status verifyLengths(const AttentionInputs &inputs);

int64_t countSequences(const AttentionInputs &inputs);
Sequence getSequence(const AttentionInputs &inputs, int64_t index);
/// The most keys that a sequence may have.
int64_t maxSeqlenK(const AttentionInputs &inputs);

/// Where k and v have a key: on the axis of the batch, or of pages, and on that
/// of the rows.
struct KeyPlace {
  int64_t batch = 0, row = 0;
};
/// The place of key `key` of a sequence, counted from its first.
KeyPlace findKey(const AttentionInputs &inputs, const Sequence &sequence,
                 int64_t key);

/// The rows of kNew, and the keys of a sequence that were there before them. A
/// negative sequsedK with kNew is of an entry that is not there: it has no
/// keys.
int64_t countNewKeys(const AttentionInputs &inputs);
int64_t countOldKeys(const AttentionInputs &inputs, const Sequence &sequence);
/// Elements as scores and sums have them: of a key or query that is to be
/// turned, what it is then, rounded to its type. Key and query count from the
/// first of the sequence.
double loadQuery(const AttentionInputs &inputs, const Sequence &sequence,
                 int64_t head, int64_t query, int64_t column);
double loadKey(const AttentionInputs &inputs, const Sequence &sequence,
               int64_t headKV, int64_t key, int64_t column);
double loadValue(const AttentionInputs &inputs, const Sequence &sequence,
                 int64_t headKV, int64_t key, int64_t column);

/// The rows of q that are of a sequence; others are not computed.
KeyRange queryRows(const AttentionInputs &inputs);

/// The bias of one score and its ALiBi; 0 where there is neither. Query and key
/// count from the first of the sequence.
double loadBias(const AttentionInputs &inputs, const Sequence &sequence,
                int64_t head, int64_t query, int64_t key);

/// The score of a visible key: cap(scale * dot) + bias.
double computeScore(const AttentionInputs &inputs, double dot, double bias);

/// In double precision, but for sums with a bias or ALiBi and the steps of a
/// region, which are of f32. `threads` of 0 takes all cores. An error when the
/// host has not the memory for it, or verifyLengths finds one.
StatusOr<AttentionResult> computeReference(const AttentionInputs &inputs,
                                           unsigned threads = 0);

/// In the precision of q: S is a matmul with f32 accumulation rounded to the
/// dtype, and rounded again after each step from there (scale, that of the
/// head, the division, tanh and product of the softcap, bias, and regions), but
/// for scores whose neighbours in the dtype are 1 or more apart, which stay
/// f32; softmax runs in f32, as do sinks, and P is rounded; P V accumulates in
/// f32 and O is rounded. lse is that of the rounded S.
StatusOr<AttentionResult> computeYardstick(const AttentionInputs &inputs,
                                           unsigned threads = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_REFERENCE_H
