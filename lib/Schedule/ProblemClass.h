//===- ProblemClass.h - Problems that want one kind of kernel ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The classes that measurements of schedules divide problems into.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_SCHEDULE_PROBLEMCLASS_H
#define FLASHCORE_LIB_SCHEDULE_PROBLEMCLASS_H

#include "flashcore/Schedule/AttentionProblem.h"
#include "flashcore/Target/TargetInfo.h"

namespace mlir::flashcore {

/// What the head dims leave room for.
enum class HeadWidth {
  Narrow,   ///< up to 64: Q and O of 32 rows a warp fit the registers
  Wide,     ///< up to 128: O of 32 rows a warp takes half of the registers
  VeryWide, ///< O of 16 rows a warp does
};

HeadWidth getHeadWidth(const AttentionProblem &problem);

/// The larger head dim.
int64_t getWidestDim(const AttentionProblem &problem);

/// How well a grid of 128-row blocks fills the chip.
enum class GridFill {
  Unknown, ///< sizes are known at run time only
  Full,    ///< blocks of 128 rows keep it busy (see keepsBusy)
  Half,    ///< blocks of 64 rows do (see keepsMostBusy)
  Sparse,  ///< not even that
  FewRows, ///< few query rows over many keys
};

GridFill getGridFill(const AttentionProblem &problem, const TargetInfo &target);

/// Whether throughput is all that counts; sizes that are not known are taken to
/// be large.
bool isThroughput(GridFill fill);

/// In words for a user.
llvm::StringRef describe(HeadWidth width);
llvm::StringRef describe(GridFill fill);

/// Keys that the queries see at most; all sizes are known.
int64_t getVisibleKeys(const AttentionProblem &problem);

/// Where there are few query rows: warps for the rows of one head, and heads of
/// a block, as many as its warps allow. All sizes are known.
int64_t getFewRowWarps(const AttentionProblem &problem);
int64_t getFewRowHeads(const AttentionProblem &problem);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_SCHEDULE_PROBLEMCLASS_H
