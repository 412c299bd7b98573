//===- ScheduleChooser.h - A schedule, field by field -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a user forces is kept, even where it cannot work: that is
// checkSchedule's to refuse.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_SCHEDULE_SCHEDULECHOOSER_H
#define FLASHCORE_LIB_SCHEDULE_SCHEDULECHOOSER_H

#include "ProblemClass.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "llvm/ADT/Twine.h"

namespace mlir::flashcore {

/// Notes a reason for each value that is not forced.
class ReasonWriter {
public:
  /// `forced` if it is not 0, else `chosen`.
  int64_t decide(llvm::StringLiteral field, int64_t forced, int64_t chosen,
                 const llvm::Twine &reason) {
    int64_t value = forced ? forced : chosen;
    note(field, std::to_string(value), forced != 0, reason);
    return value;
  }
  template <typename Enum>
  Enum decide(llvm::StringLiteral field, std::optional<Enum> forced,
              Enum chosen, const llvm::Twine &reason) {
    Enum value = forced.value_or(chosen);
    note(field, fcgpu::printField(value), forced.has_value(), reason);
    return value;
  }

  std::vector<ScheduleReason> take() { return std::move(reasons); }

private:
  void note(llvm::StringLiteral field, std::string value, bool isForced,
            const llvm::Twine &reason) {
    reasons.push_back(
        {field, std::move(value), isForced ? "asked for" : reason.str()});
  }

  std::vector<ScheduleReason> reasons;
};

inline bool asksForInvariance(const ScheduleOptions &options) {
  return options.invariance == fcgpu::Invariance::Batch;
}

/// Why a field has the value that it has with it.
inline constexpr llvm::StringLiteral kInvariantReason =
    "invariance: the same for every batch";
inline constexpr llvm::StringLiteral kLseReason =
    "lse: its sums are of weights that are not rounded";

/// Decides the fields in the order of a block's making: some depend on those
/// before them.
class ScheduleChooser {
public:
  ScheduleChooser(const AttentionProblem &problem, const TargetInfo &target,
                  const ScheduleOptions &options);

  ScheduleDecision choose();

private:
  // BlockShape.cpp
  void decideBlockShape();
  void decideHeadGroup();
  void decideWarps();
  int64_t fitBlocks(int64_t warps) const;
  int64_t chooseRowWarps() const;
  bool hasManyWarps() const;
  void decideBlockM();
  void decideBlockN();
  int64_t chooseBlockN() const;
  bool hasSpareRegisters() const;
  bool fitsLargerTiles(bool isSmall) const;
  bool paysDividedStages() const;
  void decideNumStages();

  // ScheduleChoice.cpp
  void decideQuery();
  void decideOrder();
  void decideSoftmax();
  void decideRowMax();
  void decideBlocks();

  bool isInvariant() const { return asksForInvariance(options); }
  bool dividesKeys() const { return keyWarps > 1; }
  bool hasFewRows() const { return fill == GridFill::FewRows; }
  bool groupsHeads() const {
    return hasFewRows() && !dividesKeys() && !options.blockM &&
           !options.numWarps && !(problem.blocks && problem.blocks->ofHeads);
  }
  /// A sparse grid leaves copies with little work to hide behind: larger tiles
  /// or, where registers are short, more stages keep more bytes in flight.
  bool isSparse() const { return fill == GridFill::Sparse && warpM <= 16; }
  bool hasLargeTiles() const { return isSparse() && !problem.hasLongScores; }

  const AttentionProblem &problem;
  const TargetInfo &target;
  const ScheduleOptions &options;
  ReasonWriter reasons;

  GridFill fill;
  HeadWidth width;
  /// Whether throughput is all that counts.
  bool isFilled;
  /// Whether no registers are left for two rows of accumulators a warp.
  bool isTight;
  /// Warps that share query rows: 1, or as many as divide the keys.
  int64_t keyWarps;
  /// Query rows of a warp: the wanted ones, then those that come of the block.
  int64_t warpM;
  /// Where Q is best.
  fcgpu::QueryPlacement query;

  ScheduleChoice choice;
};

/// What is promised of rows, the same for all kernels.
void decidePromises(const ScheduleOptions &options, ScheduleChoice &choice,
                    ReasonWriter &reasons);

/// Blocks for the keys of a query tile: as many as end soonest.
int64_t chooseKeySplitsOfWarps(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice);

/// How tiles get to shared memory.
fcgpu::CopyPath decideCopies(const TargetInfo &target,
                             const ScheduleOptions &options,
                             ReasonWriter &reasons);

/// The schedule of a kernel of warpgroups, where the chip has them, they can do
/// what is asked for and they are worth it for a grid that fills the chip like
/// this, or are asked for.
std::optional<ScheduleDecision>
chooseWarpgroups(const AttentionProblem &problem, GridFill fill,
                 const TargetInfo &target, const ScheduleOptions &options);

/// The schedule of a kernel without mma.sync, where that is asked for or the
/// chip has none for these types.
std::optional<ScheduleDecision> choosePlain(const AttentionProblem &problem,
                                            const TargetInfo &target,
                                            const ScheduleOptions &options);

/// Whether the chip has the products, and the tiles are such as they take.
bool canMultiply(const AttentionProblem &problem, const TargetInfo &target,
                 fcgpu::Product product);

/// With `softmax = unfused`, sets what `options` leave open as its three
/// kernels want it.
ScheduleOptions closeUnfused(const AttentionProblem &problem,
                             const TargetInfo &target, ScheduleOptions options);

/// Says why the fields have their values that `asked` left open and
/// closeUnfused has set.
void explainUnfused(const ScheduleOptions &asked, ScheduleDecision &decision);

/// Warps of a block whose very wide heads share K and V among more of them.
inline constexpr int64_t kManyWarps = 8;

/// Whether the options leave the shapes of blocks, warps and tiles to us.
bool isShapeOpen(const ScheduleOptions &options);

/// How many warps share query rows, if that is not forced.
int64_t chooseKeyWarps(const AttentionProblem &problem,
                       const ScheduleOptions &options, GridFill fill);

/// Keys of a tile that divides the blocks of lists, where there are some: the
/// most up to `blockN`.
int64_t fitBlockN(const AttentionProblem &problem, int64_t blockN);

/// Query rows of warps that share them.
int64_t chooseSharedRows(const AttentionProblem &problem,
                         const TargetInfo &target, int64_t keyWarps);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_SCHEDULE_SCHEDULECHOOSER_H
