//===- SharedMemoryLayout.h - Where a block keeps what ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that gives out shared memory: what predicts how much a kernel
// needs and what lays out its rings both ask it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_SHAREDMEMORYLAYOUT_H
#define FLASHCORE_ANALYSIS_SHAREDMEMORYLAYOUT_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::flashcore {

/// Bytes of an mbarrier, and of a flag: a word, and behind it the mbarrier at
/// which the roles of a block meet to test it.
inline constexpr int64_t kBarrierBytes = 8, kFlagBytes = 16,
                         kMeetingBarrierOffset = 8;

/// One `fcgpu.alloc_ring`.
struct SharedRing {
  /// One for the block, or one for each warp.
  fcgpu::CopyScope scope = fcgpu::CopyScope::Block;
  int64_t numStages = 1;
  int64_t slotBytes = 0;
  bool hasPanels = false;
  /// Whether its slots change hands by mbarriers.
  bool isHandedOver = false;
  /// The rings of a later walk of the block over its tiles take the memory of
  /// those of the one before, but have barriers of their own.
  int64_t walk = 0;
};

/// What a warp has for results of its products, and behind them for left
/// operands, that go through memory, one after the other. Rows are `isPadded`
/// or follow each other.
struct ProductScratch {
  int64_t resultBytes = 0, lhsBytes = 0;
  /// Whether left operands take the place of results, where no product has both
  /// there.
  bool takesTurns = false;

  /// Makes room for what is rows x cols: the f32 result of a product, and its
  /// left operand of 16-bit elements. What does not go there has no columns.
  void add(int64_t rows, int64_t lhsCols, int64_t resultCols, bool isPadded);
  int64_t getBytes() const {
    return getLhsStart() +
           (takesTurns ? std::max(resultBytes, lhsBytes) : lhsBytes);
  }
  int64_t getLhsStart() const { return takesTurns ? 0 : resultBytes; }

  /// Elements from a row to the next.
  static int64_t getLhsPitch(int64_t cols, bool isPadded);
  static int64_t getResultPitch(int64_t cols, bool isPadded);
};

/// What a block keeps in shared memory.
struct SharedMemoryNeeds {
  /// By their walk.
  std::vector<SharedRing> rings;
  /// What each warp hands on through the memory of its own rings.
  int64_t exchangeBytes = 0;
  /// Warps with rings of their own.
  int64_t numWarps = 1;
  int64_t numFlags = 0;
  /// What each warp has beside its own rings.
  ProductScratch scratch = {};
};

/// Where all of it is: the rings of the block, the barriers of those that are
/// handed over, flags, then a part for each warp. All in bytes.
struct SharedMemoryLayout {
  /// Of each ring, in the order of the needs: of those of a warp in its part.
  std::vector<int64_t> rings;
  /// Of the barriers of each ring that is handed over: for each slot one that
  /// tells when it is filled, then for each one that tells when it is free.
  std::vector<std::optional<int64_t>> barriers;
  int64_t flagStart = 0;
  int64_t warpStart = 0, warpBytes = 0;
  /// In the part of a warp.
  int64_t scratchStart = 0;
  int64_t bytes = 0;
};

SharedMemoryLayout layOutSharedMemory(const SharedMemoryNeeds &needs);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_SHAREDMEMORYLAYOUT_H
