//===- HiddenTiles.cpp - Tiles of which a warp sees nothing ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The warps of a block walk the same key tiles. Leaving some out takes bounds
// of each warp's own, and with them registers.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/HiddenTiles.h"
#include "ProblemClass.h"
#include "flashcore/Schedule/ScheduleChoice.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

bool mlir::flashcore::mayLackRows(std::optional<int64_t> seqlenQ,
                                  const ScheduleChoice &schedule) {
  if (!seqlenQ)
    return true;
  int64_t rest = *seqlenQ % schedule.blockM;
  return rest != 0 && rest <= schedule.blockM - schedule.getWarpM();
}

bool mlir::flashcore::skipsHiddenTiles(const AttentionProblem &problem,
                                       const ScheduleChoice &schedule) {
  bool hidesKeys = problem.isCausal || problem.hasWindow;
  // With a role of its own for copies, the others begin their walk later, which
  // takes no registers in the loop. Tiles as long as a block are those of all
  // its rows.
  if (schedule.hasProducer())
    return schedule.getRowWarps() > 1 &&
           ((hidesKeys && schedule.blockN < schedule.blockM) ||
            (problem.seqlenQ && mayLackRows(problem.seqlenQ, schedule)));
  // Others than warps of different rows see the same of each tile.
  bool isShared = schedule.getRowWarps() > 1 && schedule.keyWarps == 1;
  // With sizes known at run time only, or with Q of the widest heads, there are
  // no registers left to find out; with an overlap those of another tile take
  // them.
  bool hasSizes = problem.seqlenQ && problem.seqlenK && !problem.hasLengths;
  bool isFull = schedule.query != QueryPlacement::Shared &&
                getWidestDim(problem) > kWidestWithSpareRegisters;
  return hidesKeys && isShared && hasSizes && !isFull &&
         schedule.overlap == Overlap::None;
}
