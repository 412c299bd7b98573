//===- SlotHandover.h - Proof of slots that change hands --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RingHazards plans for warps that all fill and read the same rings; here a
// role of its own fills them, and each side waits for the other. Both programs
// are run against each other.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_ANALYSIS_SLOTHANDOVER_H
#define FLASHCORE_ANALYSIS_SLOTHANDOVER_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

/// A tile of a ring, by its number: `offset`, plus the iteration when
/// `perIteration`.
struct TileRef {
  unsigned ring = 0;
  int64_t numStages = 1;
  bool perIteration = false;
  int64_t offset = 0;
};

/// One thing that a role does, in program order.
struct HandoverEvent {
  /// Start: a product of `tiles`, asynchronous. Await: leaves `inFlight` of the
  /// products unfinished. The others are about one tile.
  enum Kind { Acquire, Copy, Start, Await, Release };
  Kind kind = Acquire;
  std::vector<TileRef> tiles;
  int64_t inFlight = 0;
};

/// What a role does before, in and after its loop over tiles, and in front of
/// all that with each of the first tiles, which it passes by.
struct RoleProgram {
  std::vector<HandoverEvent> before, body, after;
  std::vector<HandoverEvent> passing{};
};

/// Copies of a role, by ring: each time it runs, and in each iteration of its
/// loop.
struct CopyCounts {
  std::map<unsigned, int64_t> fixed, perIteration;
};
CopyCounts countCopies(const RoleProgram &filler);

/// How often the loops of both roles run, and how many tiles the reader passes
/// by in front of its.
struct HandoverRound {
  int64_t fillerIterations, readerIterations, numPassed = 0;
};

/// What goes wrong if `filler` and `reader` run at once, as often as there are
/// rounds, or nothing:
///  * a tile is filled, started to be read or released by who has not acquired
///    it, or has released it;
///  * it is released while a product that reads it is unfinished;
///  * a side takes the tiles of a ring in another order than that of their
///    numbers, of which a barrier with two phases could not tell;
///  * both wait for each other;
///  * products are unfinished at the end.
/// The tiles of a round have the numbers behind those of the round before.
std::optional<std::string> checkHandover(const RoleProgram &filler,
                                         const RoleProgram &reader,
                                         llvm::ArrayRef<HandoverRound> rounds);

} // namespace mlir::flashcore

#endif // FLASHCORE_ANALYSIS_SLOTHANDOVER_H
