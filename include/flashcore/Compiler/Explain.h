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

#ifndef FLASHCORE_COMPILER_EXPLAIN_H
#define FLASHCORE_COMPILER_EXPLAIN_H

#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Schedule/AttentionProblem.h"
#include "flashcore/Target/Bundle.h"
#include "llvm/Support/JSON.h"

namespace mlir::flashcore {

/// What one attention is and how it is scheduled.
struct Explanation {
  AttentionProblem problem;
  ScheduleReport report;
  unsigned op = 0; ///< its number among the ops of its program
};

/// Prints the explanation of the attention called `name`, which is empty where
/// there is only one. `variant` is what became of it, or null when nothing was
/// compiled; it has no cubin when ptxas has not run.
void print(llvm::raw_ostream &os, const Explanation &explanation,
           llvm::StringRef name, const TargetInfo &target,
           const BundleVariant *variant);

/// Why a thread keeps values in local memory, and what to do about it; "" where
/// none does. Without a cubin it says what is expected.
std::string explainSpills(const Explanation &explanation,
                          const TargetInfo &target,
                          const BundleVariant *variant);

/// The same, with what each kernel uses, for programs.
llvm::json::Object toJSON(const Explanation &explanation, llvm::StringRef name,
                          const TargetInfo &target,
                          const BundleVariant *variant);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILER_EXPLAIN_H
