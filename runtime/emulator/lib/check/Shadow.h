//===- Shadow.h - Who touched a byte last -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Happens-before with one clock a warp and lane ownership:
//
//   same thread                 ordered
//   other lane of the warp      ordered across bar.warp.sync or a barrier
//   other warp of the CTA       ordered across a barrier both took part in
//   other CTA                   ordered by fences and atomics only
//
// A warp's clock ticks at each of its synchronisations; the time between two
// ticks is a segment with a number of its own. An access is then one 64-bit
// word: segment, instruction, lane.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H
#define FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

namespace flashcore::emu {

inline constexpr unsigned maxWarps = 32;
/// In place of a lane: several lanes, or the warp as a whole.
inline constexpr unsigned severalLanes = 32;

/// segment:32 | async:1 | reserved:5 | lane:6 | pc:20; zero means "never".
class AccessWord {
public:
  AccessWord() = default;
  AccessWord(uint32_t segment, uint32_t pc, unsigned lane, bool async = false)
      : bits(uint64_t(segment) << 32 | uint64_t(async) << 31 |
             uint64_t(lane) << 20 | (pc & 0xfffffu)) {}

  explicit operator bool() const { return bits != 0; }
  bool operator==(const AccessWord &other) const = default;
  uint32_t segment() const { return static_cast<uint32_t>(bits >> 32); }
  uint32_t pc() const { return bits & 0xfffffu; }
  unsigned lane() const { return bits >> 20 & 63u; }
  bool isAsync() const { return bits >> 31 & 1u; }

private:
  uint64_t bits = 0;
};

struct Segment {
  uint32_t cta = 0;
  uint32_t warp = 0;
  uint32_t epoch = 0;
};

using VectorClock = std::array<uint32_t, maxWarps>;

/// The clock of one warp, and what it knows of the others.
struct WarpClock {
  uint32_t cta = 0;
  uint32_t warp = 0;
  uint32_t epoch = 1;
  uint32_t segment = 0;
  /// Accesses of warp u up to epoch known[u] happened before now.
  VectorClock known{};
  /// The same for this warp itself and all its lanes.
  uint32_t ownKnown = 0;
  /// Beyond that, per lane, what a bar.warp.sync of some lanes told it of the
  /// others. Empty until there is one.
  std::vector<std::array<uint32_t, 32>> laneKnown;
  /// The same for warps of other CTAs, filled by acquires only.
  std::unordered_map<uint32_t, VectorClock> knownCtas;
};

/// Numbers segments; number 0 is never given out.
class SegmentTable {
public:
  SegmentTable() { segments.emplace_back(); }
  void start(WarpClock &clock) {
    clock.segment = static_cast<uint32_t>(segments.size());
    segments.push_back({clock.cta, clock.warp, clock.epoch});
  }
  const Segment &operator[](uint32_t index) const { return segments[index]; }

  /// Whether `access` happened before what lane `lane` of `clock` does now.
  bool isOrdered(AccessWord access, const WarpClock &clock,
                 unsigned lane) const {
    if (access.segment() == clock.segment)
      return access.lane() == lane && lane != severalLanes;
    const Segment &segment = segments[access.segment()];
    if (segment.cta == clock.cta) {
      if (segment.warp == clock.warp)
        return segment.epoch <= clock.ownKnown ||
               isOrderedInWarp(access.lane(), segment.epoch, clock, lane);
      return segment.epoch <= clock.known[segment.warp];
    }
    auto it = clock.knownCtas.find(segment.cta);
    return it != clock.knownCtas.end() &&
           segment.epoch <= it->second[segment.warp];
  }

private:
  /// Since the last barrier of the whole warp only lanes met each other.
  static bool isOrderedInWarp(unsigned other, uint32_t epoch,
                              const WarpClock &clock, unsigned lane);

  std::vector<Segment> segments;
};

/// One bit a byte: whether it holds a defined value.
class InitMap {
public:
  void reset(uint64_t bytes) { words.assign(bytes / 64 + 2, 0); }
  void fill(uint64_t offset, uint64_t bytes, bool value);
  /// `bytes` is at most 32.
  bool isSet(uint64_t offset, unsigned bytes) const {
    uint64_t want = (uint64_t(1) << bytes) - 1;
    return (window(offset) & want) == want;
  }
  /// Sets bits while other threads read the map or set bits of their own.
  void setShared(uint64_t offset, unsigned bytes) {
    if (isSet(offset, bytes))
      return;
    uint64_t ones = (uint64_t(1) << bytes) - 1;
    unsigned shift = offset & 63;
    atomicWord(offset >> 6).fetch_or(ones << shift, std::memory_order_relaxed);
    if (shift + bytes > 64)
      atomicWord((offset >> 6) + 1)
          .fetch_or(ones >> (64 - shift), std::memory_order_relaxed);
  }
  uint64_t countUnset(uint64_t bytes) const;

private:
  uint64_t window(uint64_t offset) const {
    unsigned shift = offset & 63;
    uint64_t low = load(offset >> 6) >> shift;
    return shift ? low | load((offset >> 6) + 1) << (64 - shift) : low;
  }
  std::atomic_ref<uint64_t> atomicWord(size_t index) const {
    return std::atomic_ref<uint64_t>(words[index]);
  }
  uint64_t load(size_t index) const {
    return atomicWord(index).load(std::memory_order_relaxed);
  }
  /// Mutable because an atomic_ref to const is not in C++20.
  mutable std::vector<uint64_t> words;
};

/// Shadow of the shared memory of one CTA.
struct SharedShadow {
  unsigned grainShift = 2;
  std::vector<AccessWord> writes;
  /// Per cell: the warps that read it since it was last written.
  std::vector<uint32_t> readers;
  /// Per warp and cell; valid where `readers` has the warp's bit.
  std::vector<std::vector<AccessWord>> reads;

  void reset(uint64_t bytes, unsigned grain, unsigned numWarps);
};

/// Zeroed cells whose pages exist only once they are touched.
template <typename T> class CellArray {
public:
  void reset(size_t count) {
    cells.reset(static_cast<T *>(std::calloc(count, sizeof(T))));
  }
  explicit operator bool() const { return cells != nullptr; }
  T &operator[](size_t index) { return cells[index]; }

private:
  struct Free {
    void operator()(T *p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> cells;
};

/// Shadow of one global buffer. Reads keep the last reader; when several
/// segments read a cell the last one of another CTA is kept beside it, which is
/// enough to find a conflict between CTAs.
struct GlobalShadow {
  unsigned grainShift = 2;
  CellArray<AccessWord> writes;
  CellArray<AccessWord> reads;
  CellArray<AccessWord> otherReads;
  bool everWritten = false;

  /// False when there is no memory for it.
  bool reset(uint64_t bytes, unsigned grain);
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H
