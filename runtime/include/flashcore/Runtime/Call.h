//===- Call.h - The tensors of a call as a caller has them ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A caller with tensors of its own knows their sizes and strides, and nothing
// of the dimensions of a bundle. They are matched by name: each tensor's sizes
// say what its dimensions are, and tensors that disagree are refused by name.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CALL_H
#define FLASHCORE_RUNTIME_CALL_H

#include "flashcore/Runtime/Check.h"

#include <span>

namespace flashcore {

/// Sizes and strides are in the order of the bundle's axes, strides in
/// elements. That of an axis of size 1, or in a tensor without elements, may be
/// any number: no address depends on it.
struct CallTensor {
  std::string_view name;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;

  bool isEmpty() const;
};

struct MatchedTensors {
  /// Of each tensor of the bundle, its position in the caller's list.
  std::vector<size_t> positions;
  /// As a ProblemRequest takes them; not compared with the bundle's yet.
  std::map<std::string, int64_t, std::less<>> dims;
};

/// Matches `tensors`, each of the bundle's once and in any order.
StatusOr<MatchedTensors> matchTensors(const Bundle &bundle,
                                      std::span<const CallTensor> tensors);

/// The op of `bundle` in double precision on tensors in host memory,
/// whatever their strides. `data` has the places of their first elements, in
/// the order of `tensors`; outputs are rounded to their types. `threads` of 0
/// takes all cores.
Status computeReference(const Bundle &bundle,
                        std::span<const CallTensor> tensors,
                        std::span<void *const> data, unsigned threads = 0);

/// Compares what the tensors of a call hold, by the criterion of Check.h.
StatusOr<CheckReport> checkOutputs(const Bundle &bundle,
                                   std::span<const CallTensor> tensors,
                                   std::span<void *const> data,
                                   unsigned threads = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CALL_H
