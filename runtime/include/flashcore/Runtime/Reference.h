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

struct AttentionInputs {
  TensorView q, k, v;
  double softmaxScale = 1;
  Mask mask;
  std::optional<double> softcap;
  /// (batch, heads_q, seqlen_q, seqlen_k); an axis of size 1 is broadcast.
  std::optional<TensorView> bias;
  /// Of each query head, of the distance of a key: on the axis of the heads.
  std::optional<TensorView> alibiSlopes = {};
  /// Of the regions; null where there is none. They read `captured`.
  const ScoreProgram *score = nullptr, *maskRegion = nullptr;
  std::vector<TensorView> captured = {};
};

/// The inputs of the attention of `bundle`, which must outlive them. `find`
/// gives the tensor of a name, or nothing where the bundle has none.
AttentionInputs gatherInputs(
    const Bundle &bundle,
    const std::function<std::optional<TensorView>(std::string_view)> &find);

/// Packed results: o is (batch, heads_q, seqlen_q, head_dim_v), lse is
/// (batch, heads_q, seqlen_q) in natural logarithms. A query that sees no key,
/// because of the mask or its region, or as all its scores are -infinity, has o
/// = 0 and lse = -infinity.
struct AttentionResult {
  std::vector<double> o;
  std::vector<double> lse;
};

/// The keys from `first` to before `end`.
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

/// Checks that the shapes make an attention.
Status verifyShapes(const AttentionInputs &inputs);

/// The bias of one score and its ALiBi; 0 where there is neither.
double loadBias(const AttentionInputs &inputs, int64_t batch, int64_t head,
                int64_t query, int64_t key);

/// The score of a visible key: cap(scale * dot) + bias.
double computeScore(const AttentionInputs &inputs, double dot, double bias);

/// In double precision. `threads` of 0 takes all cores. An error when the host
/// has not the memory for it.
StatusOr<AttentionResult> computeReference(const AttentionInputs &inputs,
                                           unsigned threads = 0);

/// In the precision of q: S is a matmul with f32 accumulation rounded to the
/// dtype, and rounded again after each step from there (scale, the division,
/// tanh and product of the softcap, bias, and regions); softmax runs in f32 and
/// P is rounded; P V accumulates in f32 and O is rounded. lse is that of the
/// rounded S.
StatusOr<AttentionResult> computeYardstick(const AttentionInputs &inputs,
                                           unsigned threads = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_REFERENCE_H
