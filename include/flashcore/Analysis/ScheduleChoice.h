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
  /// Causal, top-left: queries past the last key see all of them.
  bool isTopLeft = false;
  bool hasSoftcap = false, hasBias = false, hasWindow = false;
  /// Whether strides or offsets of the tensors are known at run time only.
  bool hasOpenStrides = false;
  /// Keys that one query sees at most, where a window bounds them.
  std::optional<int64_t> windowKeys;

  static AttentionProblem get(AttentionOp op);

  /// Whether addresses take registers for what is known at run time only.
  bool hasOpenAddresses() const {
    return hasOpenStrides || !batch || !headsQ || !headsKV || !seqlenQ ||
           !seqlenK;
  }
};

/// Blocks of the grid with `blockM` query rows of `headGroup` heads each, if
/// the sizes are known.
std::optional<int64_t> getNumBlocks(const AttentionProblem &problem,
                                    int64_t blockM, int64_t headGroup = 1);

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

/// Shared memory a block needs, in bytes: the query tile and the K and V rings
/// of 16-bit elements. Warps that share query rows have a query tile and rings
/// of their own, in whose place they hand on their O, row maximum and row sum.
int64_t getSharedMemoryBytes(int64_t headDim, int64_t headDimV,
                             const ScheduleChoice &choice);

/// Says why no block can own `headGroup` query heads of one kv head; nothing
/// when it can.
std::optional<std::string> checkHeadGroup(const AttentionProblem &problem,
                                          int64_t headGroup);

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
