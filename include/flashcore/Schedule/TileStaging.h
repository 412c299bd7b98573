//===- TileStaging.h - How tiles go through shared memory -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `#fcgpu.staging` says of a tile: decided by its schedule and by what it
// is for, so that it can be tested without IR.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_TILESTAGING_H
#define FLASHCORE_SCHEDULE_TILESTAGING_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"

#include <optional>

namespace mlir::flashcore {

/// What a tile is for.
enum class TileRole { Query, Key, Value, Output, Probabilities };

/// The fields of `#fcgpu.staging`.
struct TileStaging {
  fcgpu::CopyScope copy, ring;
  int64_t slots;
  fcgpu::TileNumber number;
  int64_t kept;
  fcgpu::Home home;
  int64_t group = 0;
  fcgpu::RingLayout layout = fcgpu::RingLayout::Panels;
  bool viaRegisters = false;

  bool isInPlace() const { return home == fcgpu::Home::Shared; }

  bool operator==(const TileStaging &other) const;
};

/// Rows of K or V that a bulk copy moves: those of a tile, or of a part of it
/// that is in one page, if keys are in pages.
int64_t getBoxRows(const fcgpu::ScheduleChoice &schedule,
                   std::optional<int64_t> pageSize);

/// Rows of a group of panels of tiles of `cols` columns that bulk copies move,
/// so that one box fills all panels of the rows in one page; 0 where panels
/// have all rows of a tile.
int64_t getGroupRows(const fcgpu::ScheduleChoice &schedule, TileRole role,
                     int64_t cols, std::optional<int64_t> pageSize);

/// How a tile of `cols` columns goes through shared memory; `isInLoop` if it is
/// one of those of a loop, `pageSize` if its keys are in pages.
TileStaging chooseStaging(const fcgpu::ScheduleChoice &schedule, TileRole role,
                          int64_t cols, bool isInLoop,
                          std::optional<int64_t> pageSize = std::nullopt);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_TILESTAGING_H
