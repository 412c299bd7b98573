//===- Shadow.h - Who touched a byte last -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Causality order (PTX ISA 8.9) with one clock a warp and lane ownership:
//
//   same thread                 ordered
//   other lane of the warp      ordered across bar.warp.sync or a barrier
//   other warp of the CTA       ordered across a barrier both took part in
//   any thread                  ordered where a release of one is acquired by
//                               the other, and what follows from all of these
//
// A warp's clock ticks at each of its synchronisations. The accesses of a warp
// between two ticks are a segment, which gets a number with the first of them.
// An access is then one 64-bit word: segment, instruction, lane.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H
#define FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H

#include "Clock.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace flashcore::emu {

/// What an access is to those that conflict with it.
enum AccessFlag : uint32_t {
  PlainAccess = 0,
  AsyncAccess = 1u << 31,
  StrongAccess = 1u << 30,
  /// A strong read of an earlier value than the one that stands there now.
  StaleRead = 1u << 29,
  /// A read by ldmatrix, which all lanes of a warp end together.
  MatrixRead = 1u << 28,
};

/// segment:32 | flags:6 | lane:6 | pc:20; zero means "never".
class AccessWord {
public:
  AccessWord() = default;
  AccessWord(uint32_t segment, uint32_t pc, unsigned lane,
             uint32_t flags = PlainAccess)
      : bits(uint64_t(segment) << 32 | flags | uint64_t(lane) << 20 |
             (pc & 0xfffffu)) {}

  explicit operator bool() const { return bits != 0; }
  bool operator==(const AccessWord &other) const = default;
  uint32_t segment() const { return static_cast<uint32_t>(bits >> 32); }
  uint32_t pc() const { return bits & 0xfffffu; }
  unsigned lane() const { return bits >> 20 & 63u; }
  bool has(AccessFlag flag) const { return bits & flag; }
  bool isAsync() const { return has(AsyncAccess); }
  void add(AccessFlag flag) { bits |= flag; }
  void setSegment(uint32_t segment) {
    bits = uint64_t(segment) << 32 | static_cast<uint32_t>(bits);
  }

private:
  uint64_t bits = 0;
};

struct Segment {
  uint32_t cta = 0;
  uint32_t warp = 0;
  uint32_t epoch = 0;
  /// For messages: the warp that made the async proxy do it, if that did.
  uint32_t issuer = 0;
};

/// The clock of one warp, and what it knows of the others.
struct WarpClock {
  uint32_t cta = 0;
  uint32_t warp = 0;
  uint32_t threads = 0; // mask of the lanes that were launched
  uint32_t epoch = 1;
  /// 0 until there is an access in this epoch.
  uint32_t segment = 0;
  /// Accesses of warp u up to epoch known[u] happened before now. Of this warp
  /// itself: those of all its lanes.
  VectorClock known{};
  /// What all lanes know beyond that, and what single lanes do.
  Knowledge all;
  std::unique_ptr<std::array<Knowledge, severalLanes>> lanes;
  /// `known` and `all.known` together, as they were when it was asked for.
  ClockPtr sum, sumWith;
  VectorClock sumOf{};

  Knowledge &of(unsigned lane) {
    if (!lanes)
      lanes = std::make_unique<std::array<Knowledge, severalLanes>>();
    return (*lanes)[lane];
  }
  /// The epoch of the latest access.
  uint32_t latest() const { return segment ? epoch : epoch - 1; }
  /// What follows is no part of what has been published.
  void startEpoch() {
    epoch = latest() + 1;
    segment = 0;
  }
};

/// Numbers segments; number 0 is never given out.
class SegmentTable {
public:
  SegmentTable() { segments.emplace_back(); }
  /// Numbers the segment of the clock, if it has no number yet.
  void ensure(WarpClock &clock) {
    if (clock.segment)
      return;
    clock.segment = add({clock.cta, clock.warp, clock.epoch, clock.warp});
  }
  uint32_t add(const Segment &segment) {
    segments.push_back(segment);
    return static_cast<uint32_t>(segments.size() - 1);
  }
  const Segment &operator[](uint32_t index) const { return segments[index]; }
  size_t size() const { return segments.size(); }
  /// Keeps the segments that are marked, under new numbers; gives the new
  /// number of each.
  std::vector<uint32_t> compact(const std::vector<bool> &isUsed);

  /// Whether `access` happened before all that the warp does now, as barriers
  /// have told it.
  bool isKnown(AccessWord access, const WarpClock &clock) const {
    const Segment &segment = segments[access.segment()];
    return segment.cta == clock.cta &&
           segment.epoch <= clock.known[segment.warp];
  }
  /// Whether `access` happened before what lane `lane` of `clock` does now.
  bool isOrdered(AccessWord access, const WarpClock &clock,
                 unsigned lane) const {
    if (access.segment() == clock.segment)
      return access.lane() == lane && lane != severalLanes;
    if (isKnown(access, clock))
      return true;
    const Segment &segment = segments[access.segment()];
    if (segment.cta == clock.cta && segment.warp == clock.warp &&
        access.lane() == lane && lane != severalLanes)
      return true;
    return (clock.all.known || clock.lanes) &&
           isAcquired(segment, access.lane(), clock, lane);
  }

private:
  static bool isAcquired(const Segment &segment, unsigned other,
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

/// Zeroed cells whose pages exist only once they are touched.
template <typename T> class CellArray {
public:
  void reset(size_t count) {
    cells.reset(static_cast<T *>(std::calloc(count, sizeof(T))));
    numCells = cells ? count : 0;
  }
  void clear() {
    cells.reset();
    numCells = 0;
  }
  explicit operator bool() const { return cells != nullptr; }
  size_t size() const { return numCells; }
  T &operator[](size_t index) { return cells[index]; }

private:
  struct Free {
    void operator()(T *p) const { std::free(p); }
  };
  std::unique_ptr<T[], Free> cells;
  size_t numCells = 0;
};

/// The plain write that a cell had before strong ones: to those it is still a
/// conflict, while they are none to each other.
class WritesBeneath {
public:
  void clear() { cells.clear(); }
  CellArray<AccessWord> &all() { return cells; }
  AccessWord at(size_t cell) { return cells ? cells[cell] : AccessWord(); }
  /// Another write follows `write` to one of `numCells` cells.
  void follow(size_t cell, AccessWord write, bool isStrong, size_t numCells) {
    if (isStrong && write && !write.has(StrongAccess)) {
      if (!cells)
        cells.reset(numCells);
      if (cells)
        cells[cell] = write;
    } else if (!isStrong && cells) {
      cells[cell] = AccessWord();
    }
  }

private:
  /// There from the first of them on.
  CellArray<AccessWord> cells;
};

/// Shadow of the shared memory of one CTA.
struct SharedShadow {
  unsigned grainShift = 2;
  std::vector<AccessWord> writes;
  WritesBeneath beneath;
  /// Per cell: the warps that read it since it was last written.
  std::vector<uint32_t> readers;
  /// Per warp and cell; valid where `readers` has the warp's bit.
  std::vector<std::vector<AccessWord>> reads;

  void reset(uint64_t bytes, unsigned grain, unsigned numWarps);
};

/// Shadow of one global buffer. Reads keep the last reader; when several
/// segments read a cell the last one of another CTA is kept beside it, which is
/// enough to find a conflict between CTAs.
struct GlobalShadow {
  unsigned grainShift = 2;
  CellArray<AccessWord> writes;
  WritesBeneath beneath;
  CellArray<AccessWord> reads;
  CellArray<AccessWord> otherReads;
  bool everWritten = false;

  /// False when there is no memory for it.
  bool reset(uint64_t bytes, unsigned grain);
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_CHECK_SHADOW_H
