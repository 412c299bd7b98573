//===- Clock.h - What happened before ---------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets of accesses that happened before, as releases publish and acquires take
// them (PTX ISA 8.7 to 8.9). What barriers order within a CTA is in plain
// arrays (Shadow.h); a Clock holds what is known of single threads and of other
// CTAs. Clocks do not change once made, so that threads and messages share
// them, and joining what is known already costs a look.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_CLOCK_H
#define FLASHCORE_EMULATOR_LIB_CHECK_CLOCK_H

#include "flashcore/Emulator/Program.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace flashcore::emu {

inline constexpr unsigned maxWarps = 32;
/// In place of a lane: several lanes, or the warp as a whole.
inline constexpr unsigned severalLanes = 32;

/// For each warp of a CTA: accesses of all its lanes up to this epoch.
using VectorClock = std::array<uint32_t, maxWarps>;

class Clock;
using ClockPtr = std::shared_ptr<const Clock>;

class Clock {
public:
  /// Accesses of one thread, or of all lanes of a warp, up to an epoch.
  struct Entry {
    uint32_t cta;
    /// All lanes of a warp come before its threads.
    uint32_t threads;
    uint32_t epoch;

    bool isBefore(const Entry &other) const {
      return cta != other.cta ? cta < other.cta : threads < other.threads;
    }
  };
  static constexpr uint32_t warpStride = 1 + severalLanes;
  static uint32_t allLanes(uint32_t warp) { return warp * warpStride; }
  static uint32_t oneLane(uint32_t warp, unsigned lane) {
    return warp * warpStride + 1 + lane;
  }

  Clock() = default;
  /// Null when there are none. Entries are sorted.
  static ClockPtr make(std::vector<Entry> entries);
  static ClockPtr join(const ClockPtr &a, const ClockPtr &b);
  /// Without what `known` says of the CTA already; null if nothing is left.
  static ClockPtr without(const ClockPtr &clock, uint32_t cta,
                          const VectorClock &known);
  /// Takes the CTAs that have ended as known in whole, all but the `keep`
  /// latest: a grid of millions then needs no memory for each. What a CTA did
  /// after it released for the last time is no longer found then.
  static ClockPtr fold(const ClockPtr &clock, size_t keep,
                       const std::vector<uint32_t> &running);

  /// Whether an access in that epoch is in the set. Which lanes an access of
  /// several lanes had is not known: two that are known suffice.
  bool covers(uint32_t cta, uint32_t warp, unsigned lane, uint32_t epoch) const;
  size_t numCtas() const { return ctas; }

private:
  struct Range {
    uint32_t first, last;
  };
  bool hasEnded(uint32_t cta) const;
  bool includes(const Clock &other) const;
  void addEnded(Range range);
  void append(const Entry &entry);
  void count();

  std::vector<Entry> entries;
  /// CTAs of which all is known; sorted and apart.
  std::vector<Range> ended;
  size_t ctas = 0; // that have entries
};

/// What a fence covered, for the strong writes that follow it.
struct FencedClock {
  ClockPtr clock;
  /// Accesses of the thread itself up to this epoch.
  uint32_t own = 0;
};

/// What a thread knows beyond the vector clock of its warp.
struct Knowledge {
  ClockPtr known;
  /// By the scope of the fence.
  FencedClock fenced[2];
  /// Released to those strong reads that no fence has followed yet, by the
  /// scope that this fence must have.
  ClockPtr seen[2];
  /// What a proxy fence has covered, for what the async proxy does next.
  FencedClock proxied;

  explicit operator bool() const {
    return known || fenced[0].clock || fenced[0].own || seen[0] || seen[1] ||
           proxied.clock || proxied.own;
  }
};

/// What was released at an address to those who read the value there.
struct Message {
  /// To all threads.
  ClockPtr device;
  /// To the threads of one CTA. All of its releases are here, those of wider
  /// scope too.
  struct ForCta {
    uint32_t cta;
    ClockPtr clock;
  };
  std::vector<ForCta> own;
  /// Who made the release operation here; 0 is nobody.
  uint64_t releaser = 0;

  ClockPtr of(uint32_t cta) const {
    auto it = std::find_if(own.begin(), own.end(),
                           [&](const ForCta &x) { return x.cta == cta; });
    return it == own.end() ? nullptr : it->clock;
  }
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_CLOCK_H
