//===- RingHazards.h - Waits and barriers of ring buffers -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the warps that fill a ring read it, too: whether they acquire and
// release its slots rightly, and the waits and barriers that let them have what
// they acquire. Works on a list of events, not on IR, so that it can be tested
// alone.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_RINGHAZARDS_H
#define FLASHCORE_ANALYSIS_RINGHAZARDS_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

/// One thing a thread does, in program order.
struct RingEvent {
  /// A slot is acquired before something is copied into it, and a tile before
  /// it is read; behind the reads it is released. Commit: the copies since the
  /// last one are a group. Reclaim: the warp's own rings become ordinary
  /// memory, which its threads write.
  enum Kind {
    AcquireToFill,
    Copy,
    Commit,
    AcquireToRead,
    Read,
    Release,
    Reclaim
  };
  Kind kind = Commit;
  /// Which ring (all but Commit and Reclaim), how many slots it has, and who
  /// shares its copies (Reclaim: always the warp).
  unsigned ring = 0;
  int64_t numStages = 1;
  fcgpu::CopyScope scope = fcgpu::CopyScope::Block;
  /// Tile number: `offset`, plus the iteration when `perIteration`.
  bool perIteration = false;
  int64_t offset = 0;
};

/// What goes in front of an acquire or reclaim.
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

/// An event of a program that no sync makes right, and what is wrong with it.
struct RingFault {
  const RingEvent *event;
  std::string text;
};

/// The first event that does what its thread has not acquired, or nothing:
///  * a copy into a slot comes after an acquire to fill of its tile;
///  * a read of a tile comes between an acquire to read and a release of it;
///  * what is acquired to read was copied into the slot last;
///  * no slot is acquired to fill, and no ring reclaimed, while the tile in it
///    is acquired to read.
std::optional<RingFault> findRingFault(const RingProgram &program);

/// Places the waits and barriers that realise the acquires of a program without
/// fault:
///  * a tile is acquired to read after a wait for the group of its copy, and
///    after a barrier behind that wait (each thread waits only for its own
///    part);
///  * a slot is acquired to fill after a barrier behind the last release of
///  what
///    was in it, and after a wait for an unread copy into it;
///  * a slot of a warp's reclaimed rings is acquired to fill after a barrier of
///    the block, whose other warps use them;
///  * a warp's rings are reclaimed after a wait for all copies into them, and
///    after a barrier behind that wait and all releases of them.
/// Where a barrier of the block is needed, the wait in front of it covers every
/// tile acquired to read from there to the end of the list, so one barrier an
/// iteration is enough when the copies come first. That of a warp covers the
/// next one.
RingPlan planRingSync(const RingProgram &program);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_RINGHAZARDS_H
