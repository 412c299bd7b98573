//===- ScoresChoice.h - The schedule of the kernel of scores ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Scores that are an output have a kernel of their own, of a block for each
// tile of them. Its schedule follows from the problem alone, whatever that of
// the attention is.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_SCORESCHOICE_H
#define FLASHCORE_SCHEDULE_SCORESCHOICE_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Schedule/AttentionProblem.h"

#include <optional>
#include <string>

namespace mlir::flashcore {

/// The schedule of the kernel of scores beside an attention of `attention`:
/// what the bits of a row may not depend on is that of both.
fcgpu::ScheduleChoice
chooseScoresSchedule(const AttentionProblem &problem,
                     const fcgpu::ScheduleChoice &attention);

/// Says why the kernel cannot be launched; nothing where it can, or sizes are
/// open.
std::optional<std::string> checkScoresGrid(const AttentionProblem &problem,
                                           const fcgpu::ScheduleChoice &choice);

/// The dynamic shared memory of a block: a tile of K, and of Q one a warp.
int64_t getScoresSharedMemoryBytes(const AttentionProblem &problem,
                                   const fcgpu::ScheduleChoice &choice);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_SCORESCHOICE_H
