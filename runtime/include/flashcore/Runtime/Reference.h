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
  Causal causal = Causal::None;
};

/// Packed results: o is (batch, heads_q, seqlen_q, head_dim_v), lse is
/// (batch, heads_q, seqlen_q) in natural logarithms. A query that sees no key
/// has o = 0 and lse = -infinity.
struct AttentionResult {
  std::vector<double> o;
  std::vector<double> lse;
};

/// How many keys query `query` sees; they are the first ones.
int64_t visibleKeys(Causal causal, int64_t query, int64_t seqlenQ,
                    int64_t seqlenK);

/// Checks that the three shapes make an attention.
Status verifyShapes(const AttentionInputs &inputs);

/// In double precision. `threads` of 0 takes all cores.
AttentionResult computeReference(const AttentionInputs &inputs,
                                 unsigned threads = 0);

/// In the precision of q: S is a matmul with f32 accumulation rounded to the
/// dtype, scaled and rounded again; softmax runs in f32 and P is rounded; P V
/// accumulates in f32 and O is rounded. lse is that of the rounded S.
AttentionResult computeYardstick(const AttentionInputs &inputs,
                                 unsigned threads = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_REFERENCE_H
