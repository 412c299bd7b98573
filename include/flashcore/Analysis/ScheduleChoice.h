//===- ScheduleChoice.h - Choosing a kernel's schedule ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the shapes of an attention and the limits of a chip to a schedule: a
// pure function, so that it can be tested without IR.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_SCHEDULECHOICE_H
#define FLASHCORE_ANALYSIS_SCHEDULECHOICE_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <variant>

namespace mlir::flashcore {

/// What the choice depends on. Sizes that are not known at compile time are
/// `std::nullopt`.
struct AttentionProblem {
  std::optional<int64_t> batch, headsQ, seqlenQ, seqlenK;
  int64_t headDim = 0, headDimV = 0;
  bool isCausal = false;
};

/// What a user forces; 0 or an empty optional leaves it to us.
struct ScheduleOptions {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  std::optional<fcgpu::QueryPlacement> query;
  std::optional<fcgpu::GridOrder> gridOrder;
};

/// The chosen schedule; the fields of `#fcgpu.schedule` without the chip.
struct ScheduleChoice {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  fcgpu::QueryPlacement query = fcgpu::QueryPlacement::Registers;
  fcgpu::GridOrder gridOrder = fcgpu::GridOrder::QueryFastest;
};

/// Shared memory a block needs, in bytes: the query tile and the K and V rings
/// of 16-bit elements.
int64_t getSharedMemoryBytes(int64_t headDim, int64_t headDimV, int64_t blockM,
                             int64_t blockN, int64_t numStages);

/// Says why `choice` cannot work: the offending value, the limit and what to
/// change; nothing when it can.
std::optional<std::string> checkSchedule(const AttentionProblem &problem,
                                         const TargetInfo &target,
                                         const ScheduleChoice &choice);

/// Chooses a schedule, or says why the forced options cannot be met: in the
/// error the offending value, the limit and what to change.
std::variant<ScheduleChoice, std::string>
chooseSchedule(const AttentionProblem &problem, const TargetInfo &target,
               const ScheduleOptions &options);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_SCHEDULECHOICE_H
