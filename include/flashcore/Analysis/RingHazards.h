//===- RingHazards.h - Waits and barriers of ring buffers -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where asynchronous copies into rings, and reads of them, need waits and
// barriers. Works on a list of events, not on IR, so that it can be tested
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_RINGHAZARDS_H
#define FLASHCORE_ANALYSIS_RINGHAZARDS_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"

#include <optional>
#include <vector>

namespace mlir::flashcore {

/// One thing a thread does, in program order.
struct RingEvent {
  /// Reclaim: the warp's own rings become ordinary memory, which its threads
  /// write.
  enum Kind { Copy, Commit, Read, Reclaim };
  Kind kind = Commit;
  /// Which ring (Copy, Read), how many slots it has, and who shares its copies
  /// (Reclaim: always the warp).
  unsigned ring = 0;
  int64_t numStages = 1;
  fcgpu::CopyScope scope = fcgpu::CopyScope::Block;
  /// Tile number: `offset`, plus the iteration when `perIteration`.
  bool perIteration = false;
  int64_t offset = 0;
};

/// What goes in front of an event.
struct RingSync {
  /// Unfinished copy groups to leave in flight; none: no wait.
  std::optional<int64_t> waitInFlight;
  /// The threads that meet after the wait; none: no barrier.
  std::optional<fcgpu::CopyScope> barrier;

  bool empty() const { return !waitInFlight && !barrier; }
};

/// The events before, in and after the key loop (which starts at iteration 0
/// and may run any number of times). With `repeats` all of that runs again and
/// again; the events of `prologue` come once, in front of it.
struct RingProgram {
  std::vector<RingEvent> before, body, after;
  std::vector<RingEvent> prologue;
  bool repeats = false;
};

/// A sync for each event of a program, in the same lists.
struct RingPlan {
  std::vector<RingSync> before, body, after, prologue;
};

/// Places the waits and barriers that make the program right:
///  * a read of a tile comes after a wait for the group of its copy, and after
///  a
///    barrier behind that wait (each thread waits only for its own part);
///  * a copy into a slot comes after a barrier behind the last read of the
///  slot, and after a wait for an unread copy into it;
///  * a copy into a warp's reclaimed rings comes after a barrier of the block,
///  whose other warps use them;
///  * a warp's rings are reclaimed after a wait for all copies into them, and
///  after a barrier behind that wait and all reads of them.
/// Where a barrier of the block is needed, the wait in front of it covers every
/// tile read from there to the end of the list, so one barrier an iteration is
/// enough when the copies come first. That of a warp covers the next read.
RingPlan planRingSync(const RingProgram &program);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_RINGHAZARDS_H
