//===- Explain.h - What was chosen, and why ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of --explain: the schedule with a reason for every field, then what
// the kernel uses of the chip and what it is predicted to run into.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TOOLS_FLASHCORE_COMPILE_EXPLAIN_H
#define FLASHCORE_TOOLS_FLASHCORE_COMPILE_EXPLAIN_H

#include "flashcore/Analysis/OpenSizes.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Target/Ptxas.h"

namespace mlir::flashcore {

/// What one attention is and how it is scheduled.
struct Explanation {
  AttentionProblem problem;
  ScheduleChoice choice;
  std::vector<ScheduleReason> reasons;
  /// How sizes that are left open would change the schedule.
  std::vector<std::string> openSizes;
};

/// Explains the schedule of `op`, which flashcore-configure has written.
Explanation explain(AttentionOp op, const ConfigurePassOptions &options);

/// Prints the explanation; `cubin` may be null when ptxas has not run. `kernel`
/// is the name of the attention kernel in it.
void print(llvm::raw_ostream &os, const Explanation &explanation,
           const TargetInfo &target, const Cubin *cubin, StringRef kernel);

} // namespace mlir::flashcore

#endif // FLASHCORE_TOOLS_FLASHCORE_COMPILE_EXPLAIN_H
