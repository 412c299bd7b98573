//===- WarpgroupShapes.h - Shapes of kernels of warpgroups ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a block of warpgroups may look like, best first, by the sizes of a
// problem: the winners of docs/performance-notebook.md ("Warpgroups", "Kernels
// by the sizes of a call").
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_SCHEDULE_WARPGROUPSHAPES_H
#define FLASHCORE_LIB_SCHEDULE_WARPGROUPSHAPES_H

#include "ProblemClass.h"
#include "flashcore/Schedule/ScheduleChoice.h"

#include <vector>

namespace mlir::flashcore {

/// What is tried until all of it fits.
struct WarpgroupShape {
  int64_t numWarps; ///< that multiply
  int64_t blockN;
  fcgpu::RowSum rowSum;
  fcgpu::Overlap overlap;
  fcgpu::RowMax rowMax;
  bool isPersistent = false;
  int64_t minBlocks = 1;
};

/// In the order of their speed. `isSmall` where blocks of 128 rows do not fill
/// the chip.
std::vector<WarpgroupShape> listShapes(const AttentionProblem &problem,
                                       const TargetInfo &target, bool isSmall);

/// Those of grids of a few blocks of 64 rows an SM; empty where these are more,
/// or warps that divide the keys are faster. The sizes are known or assumed.
std::vector<WarpgroupShape> listSmallShapes(const AttentionProblem &problem,
                                            const TargetInfo &target);

/// Where the bits of a row must not depend on what else is known: in tiles that
/// fit beside any scores, of head dims alone.
std::vector<WarpgroupShape>
listInvariantShapes(const AttentionProblem &problem);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_SCHEDULE_WARPGROUPSHAPES_H
