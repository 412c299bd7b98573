//===- ScheduleCheck.h - Schedules that cannot work -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_SCHEDULECHECK_H
#define FLASHCORE_SCHEDULE_SCHEDULECHECK_H

#include "flashcore/Schedule/ScheduleChoice.h"

namespace mlir::flashcore {

using fcgpu::FieldNames;

/// Blocks that CUDA launches at most along the x axis, where all of ours are.
inline constexpr uint64_t kMaxGrid = 2147483647;

/// Says why no block can own `headGroup` query heads of one kv head; nothing
/// when it can.
std::optional<std::string> checkHeadGroup(const AttentionProblem &problem,
                                          int64_t headGroup, FieldNames names);

/// The part of checkSchedule that does not depend on heads, on the grid or on
/// the chip: what the tile of a warp can tell of a schedule that is right by
/// itself.
std::optional<std::string> checkTileSchedule(const AttentionProblem &problem,
                                             const ScheduleChoice &choice,
                                             FieldNames names);

/// Whether the chip has the products of the choice, for operands and tiles like
/// those of the problem.
std::optional<std::string> checkProducts(const AttentionProblem &problem,
                                         const TargetInfo &target,
                                         const ScheduleChoice &choice,
                                         FieldNames names);

/// Says why no schedule can work on the chip, with what to change in the
/// problem; nothing when one can.
std::optional<std::string> checkSupported(const AttentionProblem &problem,
                                          const TargetInfo &target);

/// Says why `choice` cannot work: the offending value, the limit and what to
/// change; nothing when it can. All that is not seen in the IR alone is decided
/// here.
std::optional<std::string> checkSchedule(const AttentionProblem &problem,
                                         const TargetInfo &target,
                                         const ScheduleChoice &choice,
                                         FieldNames names);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_SCHEDULECHECK_H
