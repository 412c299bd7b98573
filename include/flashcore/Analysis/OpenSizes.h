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

#ifndef FLASHCORE_ANALYSIS_OPENSIZES_H
#define FLASHCORE_ANALYSIS_OPENSIZES_H

#include "flashcore/Analysis/ScheduleChoice.h"

namespace mlir::flashcore {

/// A line for each size of `problem` that is left open and, with a small or a
/// large value, would change the default schedule; and one for all of them
/// together. Empty where nothing would change.
std::vector<std::string> describeOpenSizes(const AttentionProblem &problem,
                                           const TargetInfo &target,
                                           const ScheduleOptions &options);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_OPENSIZES_H
