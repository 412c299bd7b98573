//===- TileStaging.cpp - How tiles go through shared memory ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Warps that divide the keys do all by themselves; others share what they all
// read, K and V, and each has rows of Q and O of its own.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/TileStaging.h"

#include <tuple>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

bool TileStaging::operator==(const TileStaging &other) const {
  auto tie = [](const TileStaging &s) {
    return std::tie(s.copy, s.ring, s.slots, s.number, s.kept, s.inPlace);
  };
  return tie(*this) == tie(other);
}

TileStaging mlir::flashcore::chooseStaging(const ScheduleChoice &schedule,
                                           TileRole role, int64_t cols,
                                           bool isInLoop) {
  bool isAlone = schedule.keyWarps > 1;
  TileStaging staging;
  staging.ring = isAlone ? CopyScope::Warp : CopyScope::Block;
  // Warpgroups multiply from shared memory.
  staging.inPlace = schedule.hasProducer();
  if (role == TileRole::Query || role == TileRole::Output) {
    staging.copy = CopyScope::Warp;
    staging.number = TileNumber::Holder;
    staging.slots = isAlone ? 1 : schedule.getNumHolders();
    staging.kept = staging.inPlace ? 0 : schedule.getKeptQueryColumns(cols);
    return staging;
  }
  // The only warp of a block meets nobody. In a loop it copies as any block
  // does.
  bool isOnly = schedule.numWarps == 1 && !isInLoop;
  staging.copy = isAlone || isOnly ? CopyScope::Warp : CopyScope::Block;
  staging.number = TileNumber::Turn;
  staging.slots = schedule.numStages;
  staging.kept = 0;
  return staging;
}
