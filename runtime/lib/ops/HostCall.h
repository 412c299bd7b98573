//===- HostCall.h - A call in the memory of its caller ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_HOSTCALL_H
#define FLASHCORE_RUNTIME_LIB_OPS_HOSTCALL_H

#include "flashcore/Runtime/HostTensor.h"

#include <map>
#include <memory>
#include <optional>
#include <string_view>

namespace flashcore {

/// A tensor with the caller's strides, and where its first element is.
struct CallMemory {
  TensorGeometry geometry;
  void *data;
};

/// The tensors of a call, in sizes that are checked.
struct HostCall {
  /// With the call's sizes, whatever its strides are.
  std::shared_ptr<const Problem> problem;
  std::map<std::string_view, CallMemory> tensors; ///< by their names

  const Bundle &bundle() const { return problem->bundle(); }
  const CallMemory *find(std::string_view name) const {
    auto it = tensors.find(name);
    return it == tensors.end() ? nullptr : &it->second;
  }
  std::optional<TensorView> view(std::string_view name) const {
    const CallMemory *memory = find(name);
    return memory ? std::optional(makeView(memory->geometry, memory->data))
                  : std::nullopt;
  }
};

/// Stores `values`, which are packed, as the elements of `to`, rounded to its
/// type. Rows that are not computed stay as they are, as a kernel leaves them.
void storeAll(const TensorView &to, const std::vector<double> &values,
              KeyRange rows);
void storeRounded(const TensorView &to, int64_t index, double value);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_HOSTCALL_H
