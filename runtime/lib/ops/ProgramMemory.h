//===- ProgramMemory.h - A program's tensors on the host --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_PROGRAMMEMORY_H
#define FLASHCORE_RUNTIME_LIB_OPS_PROGRAMMEMORY_H

#include "HostCall.h"
#include "Op.h"

#include <vector>

namespace flashcore {

/// Packed copies of the tensors of a call of several ops, intermediates
/// included, in which the ops run one after another. What nothing has written
/// is poison.
class ProgramMemory {
public:
  /// What a call's op `number` runs on: tensors by its own names, as parts of
  /// the copies.
  HostCall getCall(size_t number) const;
  /// A tensor of the program by its name.
  CallMemory view(std::string_view name) const;

  /// `call` has the tensors that the caller gives. Those that nothing reads
  /// are of f32 where `isExact`, so that a reference is not rounded to them.
  static StatusOr<ProgramMemory> create(const Problem &problem,
                                        const HostCall &call, bool isExact);

  /// Lets `compute` run each op.
  Status run(Status (*Op::*compute)(const HostCall &, unsigned),
             unsigned threads);

private:
  explicit ProgramMemory(const Problem &problem) : problem(&problem) {}
  Status add(TensorGeometry geometry, const CallMemory *from);

  struct Copy {
    TensorGeometry geometry;
    std::vector<std::byte> bytes;
  };
  const Problem *problem;
  std::vector<Copy> copies;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_PROGRAMMEMORY_H
