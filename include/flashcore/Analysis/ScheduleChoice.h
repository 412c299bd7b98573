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
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <variant>

namespace mlir::flashcore {

/// What the choice depends on. Sizes that are not known at compile time are
/// `std::nullopt`.
struct AttentionProblem {
  std::optional<int64_t> batch, headsQ, headsKV, seqlenQ, seqlenK;
  int64_t headDim = 0, headDimV = 0;
  bool isCausal = false;
  bool hasSoftcap = false, hasBias = false, hasWindow = false;

  static AttentionProblem get(AttentionOp op);
};

/// Blocks of the grid with `blockM` query rows each, if the sizes are known.
std::optional<int64_t> getNumBlocks(const AttentionProblem &problem,
                                    int64_t blockM);

/// What a user forces; 0 or an empty optional leaves it to us.
struct ScheduleOptions {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  std::optional<fcgpu::QueryPlacement> query;
  std::optional<fcgpu::GridOrder> gridOrder;
  std::optional<fcgpu::Overlap> overlap;
  std::optional<fcgpu::RowMax> rowMax;
  std::optional<fcgpu::RowSum> rowSum;
};

/// The chosen schedule; the fields of `#fcgpu.schedule` without the chip.
struct ScheduleChoice {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  fcgpu::QueryPlacement query = fcgpu::QueryPlacement::Registers;
  fcgpu::GridOrder gridOrder = fcgpu::GridOrder::QueryFastest;
  fcgpu::Overlap overlap = fcgpu::Overlap::None;
  fcgpu::RowMax rowMax = fcgpu::RowMax::Exact;
  fcgpu::RowSum rowSum = fcgpu::RowSum::Add;

  bool operator==(const ScheduleChoice &other) const {
    auto tie = [](const ScheduleChoice &c) {
      return std::tie(c.blockM, c.blockN, c.numWarps, c.numStages, c.minBlocks,
                      c.query, c.gridOrder, c.overlap, c.rowMax, c.rowSum);
    };
    return tie(*this) == tie(other);
  }
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

/// Why a field of a schedule has its value, in words for a user.
struct ScheduleReason {
  llvm::StringLiteral field; ///< as in `#fcgpu.schedule`
  std::string value;
  std::string reason;
};
/// Chooses a schedule, or says why the forced options cannot be met: in the
/// error the offending value, the limit and what to change. Appends to
/// `reasons`, if given, why each field has its value.
std::variant<ScheduleChoice, std::string>
chooseSchedule(const AttentionProblem &problem, const TargetInfo &target,
               const ScheduleOptions &options,
               std::vector<ScheduleReason> *reasons = nullptr);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_SCHEDULECHOICE_H
