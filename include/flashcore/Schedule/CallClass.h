//===- CallClass.h - Kernels by the sizes of a call -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One kernel runs all sizes that it leaves open, but none is the fastest for
// all of them. Calls fall into a few classes by how many blocks an SM they have
// and by their keys; a kernel of the class (expected_grid of its schedule) is
// within some percent of one for exactly these sizes. The borders are measured
// on an H200 (docs/performance-notebook.md, "Kernels by the sizes of a call")
// and taken over for other chips.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_CALLCLASS_H
#define FLASHCORE_SCHEDULE_CALLCLASS_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Schedule/AttentionProblem.h"
#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/ArrayRef.h"

namespace mlir::flashcore {

/// A call is of the first class whose conditions it meets.
struct CallClass {
  fcgpu::ExpectedGrid grid;
  /// Blocks of 64 query rows for each four SMs, at most.
  std::optional<int64_t> blocksOfFourSMs;
  std::optional<int64_t> seqlenK; ///< at most

  /// "at most 0.25 blocks of 64 query rows an SM", or the like.
  std::string describe() const;
};

/// Those of a chip; the last has no conditions, and is the only one of chips
/// whose kernels do not differ by it.
llvm::ArrayRef<CallClass> getCallClasses(const TargetInfo &target);

/// The class of a call with `heads` query heads in all of its batch, for a
/// device of `numSMs`. Any numbers from 0 on.
fcgpu::ExpectedGrid getCallClass(const TargetInfo &target, int64_t heads,
                                 int64_t seqlenQ, int64_t seqlenK,
                                 int64_t numSMs);

/// Parts of the keys that kernels for few queries know: a call takes one of
/// them where a kernel of `split_count = call` would make too few. One part
/// alone of chips without cp.async.
llvm::ArrayRef<int64_t> getKnownSplits(const TargetInfo &target);

/// `key_splits` of the kernel that is best for a call of few queries, of which
/// all sizes are known, on a device of `numSMs`: one of getKnownSplits, or 0
/// where the call is to say it (`split_count = call`).
int64_t getCallSplits(const TargetInfo &target, const AttentionProblem &call,
                      int64_t numSMs);

/// `problem` with the sizes of a usual call of the class in the place of those
/// that it leaves open.
AttentionProblem assumeSizesOf(AttentionProblem problem,
                               fcgpu::ExpectedGrid grid, int64_t numSMs);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_CALLCLASS_H
