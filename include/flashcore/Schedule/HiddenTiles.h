//===- HiddenTiles.h - Tiles of which a warp sees nothing -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Whether it pays to find out, in words of problem and schedule alone, so that
// it can be tested without IR.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_HIDDENTILES_H
#define FLASHCORE_SCHEDULE_HIDDENTILES_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Schedule/AttentionProblem.h"

namespace mlir::flashcore {

/// Whether warps leave out the key tiles that their own rows see nothing of,
/// among those that their block walks together (`fcgpu.skip_unless`).
bool skipsHiddenTiles(const AttentionProblem &problem,
                      const fcgpu::ScheduleChoice &schedule);

/// Whether the last query block may have warps without a row.
bool mayLackRows(std::optional<int64_t> seqlenQ,
                 const fcgpu::ScheduleChoice &schedule);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_HIDDENTILES_H
