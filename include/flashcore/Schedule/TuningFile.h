//===- TuningFile.h - Schedules measured on a card --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What flashcore-tune found: for classes of problems the schedule that was
// fastest on one card. docs/Tuning.md describes the format.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_TUNINGFILE_H
#define FLASHCORE_SCHEDULE_TUNINGFILE_H

#include "flashcore/Schedule/ScheduleChoice.h"
#include "llvm/Support/Error.h"

namespace mlir::flashcore {

/// The sizes an entry is for.
struct SizeRange {
  /// Sizes that are known at run time only, and no other.
  bool isDynamic = false;
  int64_t min = 1;
  std::optional<int64_t> max; ///< unbounded if empty

  bool contains(std::optional<int64_t> size) const;
};

/// One schedule and the problems it is for.
struct TuningEntry {
  int64_t headDim = 0, headDimV = 0;
  bool isCausal = false;
  bool hasSpecials = false, hasBias = false, hasWindow = false, hasLse = false;
  /// Without a range any size will do. Query blocks are those of 64 rows, over
  /// all heads and batches.
  std::optional<SizeRange> seqlenQ, seqlenK, headsPerKV, queryBlocks;
  ScheduleOptions schedule;

  bool matches(const AttentionProblem &problem) const;
};

/// A tuning file, read and validated.
struct TuningFile {
  std::string path, card, chip, date;
  std::vector<TuningEntry> entries;

  /// The error names the file, the key and the value.
  static llvm::Expected<TuningFile> read(llvm::StringRef path);
  /// `text` is what the file at `path` holds.
  static llvm::Expected<TuningFile> parse(llvm::StringRef text,
                                          llvm::StringRef path);

  /// The index of the first entry for `problem`.
  std::optional<size_t> lookup(const AttentionProblem &problem) const;
};

/// Adds to `options` the fields of `tuned` that they leave open.
ScheduleOptions addTunedFields(const ScheduleOptions &options,
                               const ScheduleOptions &tuned);

/// What chooseTunedSchedule decided.
struct TunedChoice {
  ScheduleResult result; ///< as chooseSchedule
  /// Why the schedule of the file's entry was not taken, for a remark; empty
  /// where it was, and where there is none.
  std::string refusal;
};

/// As chooseSchedule, except that what `options` leave open is taken from the
/// first entry of `tuning` for the problem, if there is one and it fits. The
/// reasons say which entry it was, or why it was none.
TunedChoice chooseTunedSchedule(const AttentionProblem &problem,
                                const TargetInfo &target,
                                const ScheduleOptions &options,
                                const TuningFile &tuning);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_TUNINGFILE_H
