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

#ifndef FLASHCORE_SCHEDULE_SCHEDULECHOICE_H
#define FLASHCORE_SCHEDULE_SCHEDULECHOICE_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Schedule/AttentionProblem.h"
#include "flashcore/Target/TargetInfo.h"

#include <optional>
#include <string>
#include <variant>

namespace mlir::flashcore {

using fcgpu::ScheduleChoice;
using fcgpu::ScheduleOptions;

/// The widest head whose rows, 16 a warp, leave registers beside O, S and Q.
inline constexpr int64_t kWidestWithSpareRegisters = 248;

/// Fewer keys a block are not worth a merge.
inline constexpr int64_t kMinKeysOfSplit = 256;

/// Key tiles of each warp, of `seqlenK` keys.
int64_t getTilesOfPart(int64_t seqlenK, const ScheduleChoice &choice);

/// The most blocks that share a query tile, of which `choice` has the shape,
/// where a call says how many; `paysSplitCount` says that this is best where
/// the options leave it open. None where their number is fixed.
std::optional<int64_t> getMostSplits(const AttentionProblem &problem,
                                     const TargetInfo &target,
                                     const ScheduleOptions &options,
                                     const ScheduleChoice &choice,
                                     bool paysSplitCount);

/// Blocks that share a query tile, if their number is known.
std::optional<int64_t> getNumSplits(const AttentionProblem &problem,
                                    const ScheduleChoice &choice);

/// Blocks that stream keys an SM holds: with 32 KiB in flight each.
inline constexpr int64_t kStreamingBlocksPerSM = 2;

/// Whether a grid of `tiles` query tiles ends sooner where `more` blocks share
/// the keys of each than where `few` do, by enough to be seen.
bool paysMoreSplits(int64_t tiles, int64_t seqlenK, int64_t few, int64_t more,
                    int64_t numSMs);

/// How many blocks share a query tile where a call says it: `blocks` over the
/// query tiles that the call has, of `rows` query rows of `heads` heads each,
/// but from 1 to `most`, and not so many that one has fewer than `keys` keys.
/// docs/Bundle.md has the formula.
struct SplitFormula {
  int64_t most, blocks, rows, heads, keys;
};
SplitFormula getSplitFormula(const ScheduleChoice &choice,
                             const TargetInfo &target);

/// Why a field of a schedule has its value, in words for a user.
struct ScheduleReason {
  llvm::StringLiteral field; ///< as in `#fcgpu.schedule`
  std::string value;
  std::string reason;
};

/// A schedule, and why it is this one.
struct ScheduleDecision {
  ScheduleChoice choice;
  std::vector<ScheduleReason> reasons; ///< in the order of deciding
};

/// A decision, or why the forced options cannot be met: the offending value,
/// the limit and what to change.
using ScheduleResult = std::variant<ScheduleDecision, std::string>;

ScheduleResult chooseSchedule(const AttentionProblem &problem,
                              const TargetInfo &target,
                              const ScheduleOptions &options);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_SCHEDULECHOICE_H
