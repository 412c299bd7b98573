//===- ScheduleCheck.h - Schedules that cannot work -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_SCHEDULECHECK_H
#define FLASHCORE_ANALYSIS_SCHEDULECHECK_H

#include "flashcore/Analysis/ScheduleChoice.h"

namespace mlir::flashcore {

/// Warps of a block: a block has at most 1024 threads.
inline constexpr int64_t kMaxWarps = 32;

/// Larger than anything that fits a chip, small enough for products of sizes
/// not to overflow.
inline constexpr int64_t kMaxRows = 4096, kMaxStages = 1024, kMaxBlocks = 32;

/// Says why no block can own `headGroup` query heads of one kv head; nothing
/// when it can.
std::optional<std::string> checkHeadGroup(const AttentionProblem &problem,
                                          int64_t headGroup);

/// Says why `choice` cannot work: the offending value, the limit and what to
/// change; nothing when it can.
std::optional<std::string> checkSchedule(const AttentionProblem &problem,
                                         const TargetInfo &target,
                                         const ScheduleChoice &choice);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_SCHEDULECHECK_H
