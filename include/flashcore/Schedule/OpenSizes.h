//===- OpenSizes.h - What sizes known at run time cost ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A size that the type leaves open makes one kernel serve all of its values.
// This says where a kernel for one value would have been another.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_OPENSIZES_H
#define FLASHCORE_SCHEDULE_OPENSIZES_H

#include "flashcore/Schedule/ScheduleChoice.h"

namespace mlir::flashcore {

/// The fields of `then` that differ: "block_m 16 (not 128), ...".
std::string describeChange(const ScheduleChoice &now,
                           const ScheduleChoice &then);

/// A line for each size of `problem` that is left open and, with a small or a
/// large value, would change the schedule `now`; and one for all of them
/// together. Empty where nothing would change. `choose` is what chose `now`.
std::vector<std::string> describeOpenSizes(
    const AttentionProblem &problem, const ScheduleChoice &now,
    llvm::function_ref<ScheduleResult(const AttentionProblem &)> choose);

/// A line for each class of calls (CallClass.h) but the last, where `problem`
/// leaves open how many blocks a call has: what its kernel has otherwise than
/// `now`. `choose` is what chose `now`, for a class.
std::vector<std::string> describeCallClasses(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleChoice &now,
    llvm::function_ref<ScheduleResult(fcgpu::ExpectedGrid)> choose);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_OPENSIZES_H
