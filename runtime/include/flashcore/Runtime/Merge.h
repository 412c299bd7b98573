//===- Merge.h - Attentions over parts of the keys, combined ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula of flashcore.merge on the host: of parts with O_i and LSE_i,
//
//   LSE = log(exp(sink) + sum exp(LSE_i)),  O = sum exp(LSE_i - LSE) O_i
//
// where a part whose LSE is -inf holds nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_MERGE_H
#define FLASHCORE_RUNTIME_MERGE_H

#include "flashcore/Runtime/HostTensor.h"

#include <functional>
#include <optional>

namespace flashcore {

/// A tensor that is merged, wherever it lies.
struct MergeTensor {
  std::vector<int64_t> sizes;
  /// An element by its number in packed order; empty where there is no tensor.
  std::function<double(int64_t)> load;

  MergeTensor() = default;
  /// Of a tensor that outlives this one; null for none.
  MergeTensor(const HostTensor *tensor);
  MergeTensor(const TensorGeometry &geometry, const void *data);
};

/// What is merged: outputs (parts, batch, heads, seqlen, columns), lses (parts,
/// batch, heads, seqlen) and sinks (heads) or none.
struct MergeInputs {
  MergeTensor outputs, lses, sinks;
};

/// O (batch, heads, seqlen, columns) and LSE (batch, heads, seqlen), packed.
struct MergeResult {
  std::vector<double> o, lse;
};

/// In double precision.
MergeResult computeMerge(const MergeInputs &inputs);
/// In f32, with O rounded to the type of `o`.
MergeResult computeMergeYardstick(const MergeInputs &inputs, DType o);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_MERGE_H
