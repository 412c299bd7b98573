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

/// Accesses of the lanes of one warp, each up to an epoch.
struct LaneEpochs {
  /// Of all lanes; and of those of which more is known, otherwise 0.
  uint32_t all = 0;
  std::array<uint32_t, severalLanes> lanes = {};

  uint32_t of(unsigned lane) const { return std::max(all, lanes[lane]); }
  bool includes(const LaneEpochs &other) const;
  void add(const LaneEpochs &other);
  /// What is known of each lane is known of all.
  void normalize();
};

/// The same of the warps of a CTA that have any, in their order.
struct CtaEpochs {
  struct Warp {
    uint32_t warp;
    std::shared_ptr<const LaneEpochs> epochs;
  };
  std::vector<Warp> warps;

  const LaneEpochs *find(uint32_t warp) const;
  bool includes(const CtaEpochs &other) const;
};

/// A set of accesses. It grows by one thread at a time, so what it says of the
/// other warps and CTAs is shared with the sets it was made from, and is equal
/// wherever it is the same object.
class Clock {
public:
  /// Accesses of one thread, or of all lanes of a warp, up to an epoch.
  struct Entry {
    uint32_t cta;
    /// All lanes of a warp come before its threads.
    uint32_t threads;
    uint32_t epoch;
  };
  static constexpr uint32_t warpStride = 1 + severalLanes;
  static uint32_t allLanes(uint32_t warp) { return warp * warpStride; }
  static uint32_t oneLane(uint32_t warp, unsigned lane) {
    return warp * warpStride + 1 + lane;
  }

  Clock() = default;
  /// Accesses of all lanes of the warps of a CTA; null if there are none.
  static ClockPtr ofCta(uint32_t cta, const VectorClock &known);
  static ClockPtr join(const ClockPtr &a, const ClockPtr &b);
  /// A clock, which may be null, and one entry more.
  static ClockPtr with(const ClockPtr &clock, const Entry &entry);
  /// Only what it says of one CTA; null if that is nothing.
  static ClockPtr ofOne(const ClockPtr &clock, uint32_t cta);
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
  size_t numCtas() const { return others->ctas.size() + bool(latest.epochs); }

private:
  struct Cta {
    uint32_t cta = 0;
    std::shared_ptr<const CtaEpochs> epochs;
  };
  struct Range {
    uint32_t first, last;
  };
  struct Ctas {
    /// By their numbers.
    std::vector<Cta> ctas;
    /// CTAs of which all is known; sorted and apart.
    std::vector<Range> ended;

    const std::shared_ptr<const CtaEpochs> *find(uint32_t cta) const;
    bool hasEnded(uint32_t cta) const;
    bool hasEnded(const std::vector<Range> &ranges) const;
    void addEnded(Range range);
    /// Null removes it.
    void set(const Cta &one);
  };

  static ClockPtr make(Ctas all, uint32_t latest);
  Ctas all() const;
  const std::shared_ptr<const CtaEpochs> *find(uint32_t cta) const;
  bool includes(const Cta &theirs) const;
  bool includes(const Clock &other) const;
  bool isLike(const Clock &other) const {
    return others == other.others && latest.cta == other.latest.cta &&
           latest.epochs && other.latest.epochs;
  }

  /// The CTA that was added to last, if any, and all others.
  Cta latest;
  std::shared_ptr<const Ctas> others;
};

/// What a fence covered, for the strong writes that follow it.
struct FencedClock {
  ClockPtr clock;
  /// Accesses of the thread itself up to this epoch.
  uint32_t own = 0;

  bool operator==(const FencedClock &other) const = default;
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
