//===- NamedSchedules.h - Schedules that have a name ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps by which this kernel became fast, from one thread a row to today's
// defaults: each a set of options, no code of its own (docs/Ladder.md).
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_NAMEDSCHEDULES_H
#define FLASHCORE_SCHEDULE_NAMEDSCHEDULES_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"

namespace mlir::flashcore {

struct NamedSchedule {
  llvm::StringLiteral name;
  llvm::StringLiteral chip; ///< that it is for, or any
  llvm::StringLiteral text; ///< what it does, or does otherwise, for a user
  /// Sets what is named here. What begins with + changes the one before.
  void (*apply)(fcgpu::ScheduleOptions &options);
};

/// In the order of the steps.
llvm::ArrayRef<NamedSchedule> getNamedSchedules();

/// Sets what `options` leave open as the schedule `name` has it. Returns what
/// is wrong with the name, if anything.
std::optional<std::string> applyNamedSchedule(llvm::StringRef name,
                                              fcgpu::ScheduleOptions &options);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_NAMEDSCHEDULES_H
