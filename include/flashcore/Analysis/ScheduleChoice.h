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

#include "flashcore/Analysis/AttentionProblem.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <variant>

namespace mlir::flashcore {

/// What a user forces; 0 or an empty optional leaves it to us.
struct ScheduleOptions {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  int64_t keyWarps = 0;
  std::optional<fcgpu::QueryPlacement> query;
  std::optional<fcgpu::GridOrder> gridOrder;
  std::optional<fcgpu::Overlap> overlap;
  std::optional<fcgpu::RowMax> rowMax;
  std::optional<fcgpu::RowSum> rowSum;
  std::optional<fcgpu::Softmax> softmax;
  int64_t headGroup = 0, keySplits = 0;
  std::optional<fcgpu::Grid> grid;
  int64_t querySteps = 0, gridHeads = 0;
};

/// The widest head whose rows, 16 a warp, leave registers beside O, S and Q.
inline constexpr int64_t kWidestWithSpareRegisters = 248;

/// Fewer keys a block are not worth a merge.
inline constexpr int64_t kMinKeysOfSplit = 256;

/// The chosen schedule; the fields of `#fcgpu.schedule` without the chip.
struct ScheduleChoice {
  int64_t blockM = 0, blockN = 0, numWarps = 0, numStages = 0, minBlocks = 0;
  fcgpu::QueryPlacement query = fcgpu::QueryPlacement::Registers;
  fcgpu::GridOrder gridOrder = fcgpu::GridOrder::QueryFastest;
  fcgpu::Overlap overlap = fcgpu::Overlap::None;
  fcgpu::RowMax rowMax = fcgpu::RowMax::Exact;
  fcgpu::RowSum rowSum = fcgpu::RowSum::Add;
  int64_t keyWarps = 1;
  fcgpu::Softmax softmax = fcgpu::Softmax::Online;
  int64_t headGroup = 1, keySplits = 1;
  fcgpu::Grid grid = fcgpu::Grid::Full;
  int64_t querySteps = 0, gridHeads = 0;

  /// Groups of warps that own different query rows of one head; the numbers of
  /// warps, heads and key parts must come out even.
  int64_t getRowWarps() const { return numWarps / (keyWarps * headGroup); }
  /// Query rows a warp owns, alone or with the others of its group.
  int64_t getWarpM() const { return blockM / getRowWarps(); }
  /// Blocks of a persistent grid for each SM.
  int64_t getBlocksPerSM() const { return minBlocks ? minBlocks : 1; }
  /// Leading columns of Q, of `headDim`, that stay in registers.
  int64_t getKeptQueryColumns(int64_t headDim) const {
    return fcgpu::getKeptQueryColumns(query, querySteps, headDim);
  }
  /// Query rows of a block, of all its heads.
  int64_t getQueryRows() const { return blockM * headGroup; }

  bool operator==(const ScheduleChoice &other) const {
    auto tie = [](const ScheduleChoice &c) {
      return std::tie(c.blockM, c.blockN, c.numWarps, c.numStages, c.minBlocks,
                      c.query, c.gridOrder, c.overlap, c.rowMax, c.rowSum,
                      c.keyWarps, c.softmax, c.headGroup, c.keySplits, c.grid,
                      c.querySteps, c.gridHeads);
    };
    return tie(*this) == tie(other);
  }
};

/// Key tiles of each warp, of `seqlenK` keys.
int64_t getTilesOfPart(int64_t seqlenK, const ScheduleChoice &choice);

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
