//===- TileStaging.cpp - How tiles go through shared memory ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warps that divide the keys do all by themselves; others share what they all
// read, K and V, and each has rows of Q, O and P of its own.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/TileStaging.h"

#include <numeric>
#include <tuple>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

bool TileStaging::operator==(const TileStaging &other) const {
  auto tie = [](const TileStaging &s) {
    return std::tie(s.copy, s.ring, s.slots, s.number, s.kept, s.home, s.group,
                    s.layout, s.viaRegisters);
  };
  return tie(*this) == tie(other);
}

int64_t mlir::flashcore::getBoxRows(const ScheduleChoice &schedule,
                                    std::optional<int64_t> pageSize) {
  return pageSize ? std::gcd(schedule.blockN, *pageSize) : schedule.blockN;
}

/// Rows behind each other in groups of 8 are at equal distances, as products
/// want those of K. Columns of ones lie behind panels that one box fills, which
/// must be a group then.
int64_t mlir::flashcore::getGroupRows(const ScheduleChoice &schedule,
                                      TileRole role, int64_t cols,
                                      std::optional<int64_t> pageSize) {
  constexpr int64_t panelCols = kPanelBytes / 2; // of 16-bit elements
  bool isOfKeys = role == TileRole::Key || role == TileRole::Value;
  int64_t rows = getBoxRows(schedule, pageSize);
  if (!schedule.hasBulkCopies() || !isOfKeys || rows == schedule.blockN ||
      cols <= panelCols || cols % panelCols != 0)
    return 0;
  bool hasOnes = role == TileRole::Value && schedule.getOnesColumns() > 0;
  return hasOnes ? rows : kSwizzledRows;
}

TileStaging mlir::flashcore::chooseStaging(const ScheduleChoice &schedule,
                                           TileRole role, int64_t cols,
                                           bool isInLoop,
                                           std::optional<int64_t> pageSize) {
  bool isAlone = schedule.keyWarps > 1;
  TileStaging staging;
  staging.ring = isAlone ? CopyScope::Warp : CopyScope::Block;
  staging.home = schedule.multipliesInPlace() ? Home::Shared : Home::Registers;
  staging.layout = schedule.getTileLayout();
  staging.viaRegisters = schedule.copies == CopyPath::Registers;
  staging.group = getGroupRows(schedule, role, cols, pageSize);
  if (role == TileRole::Query || role == TileRole::Output) {
    staging.copy = CopyScope::Warp;
    staging.number = TileNumber::Holder;
    staging.slots = isAlone ? 1 : schedule.getNumHolders();
    staging.kept = staging.isInPlace() ? 0 : schedule.getKeptQueryColumns(cols);
    return staging;
  }
  staging.number = TileNumber::Turn;
  staging.slots = schedule.numStages;
  staging.kept = 0;
  if (role == TileRole::Probabilities) {
    staging.copy = staging.ring = CopyScope::Warp;
    return staging;
  }
  // The only warp of a block meets nobody. In a loop it copies as any block
  // does.
  bool isOnly = schedule.numWarps == 1 && !isInLoop;
  staging.copy = isAlone || isOnly ? CopyScope::Warp : CopyScope::Block;
  return staging;
}
