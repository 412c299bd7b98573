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

#ifndef FLASHCORE_ANALYSIS_TILESTAGING_H
#define FLASHCORE_ANALYSIS_TILESTAGING_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"

namespace mlir::flashcore {

/// What a tile is for.
enum class TileRole { Query, Key, Value, Output };

/// The fields of `#fcgpu.staging`.
struct TileStaging {
  fcgpu::CopyScope copy, ring;
  int64_t slots;
  fcgpu::TileNumber number;
  int64_t kept;
  bool inPlace;

  bool operator==(const TileStaging &other) const;
};

/// How a tile of `cols` columns goes through shared memory; `isInLoop` if it is
/// one of those of a loop.
TileStaging chooseStaging(const fcgpu::ScheduleChoice &schedule, TileRole role,
                          int64_t cols, bool isInLoop);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_TILESTAGING_H
