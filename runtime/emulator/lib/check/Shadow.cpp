//===- Shadow.cpp - Who touched a byte last -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of Shadow.h that are not on the hot path.
//
//===----------------------------------------------------------------------===//

#include "Shadow.h"

#include <algorithm>
#include <bit>

using namespace flashcore::emu;

void InitMap::fill(uint64_t offset, uint64_t bytes, bool value) {
  for (uint64_t i = offset, end = offset + bytes; i < end;) {
    if ((i & 63) == 0 && end - i >= 64) {
      words[i >> 6] = value ? ~uint64_t(0) : 0;
      i += 64;
      continue;
    }
    uint64_t bit = uint64_t(1) << (i & 63);
    words[i >> 6] = value ? words[i >> 6] | bit : words[i >> 6] & ~bit;
    ++i;
  }
}

uint64_t InitMap::countUnset(uint64_t bytes) const {
  uint64_t set = 0;
  for (uint64_t i = 0; i < bytes; i += 64) {
    uint64_t word = words[i >> 6];
    if (bytes - i < 64)
      word &= (uint64_t(1) << (bytes - i)) - 1;
    set += static_cast<uint64_t>(std::popcount(word));
  }
  return bytes - set;
}

bool SegmentTable::isAcquired(const Segment &segment, unsigned other,
                              const WarpClock &clock, unsigned lane) {
  auto isIn = [&](const ClockPtr &known) {
    return known &&
           known->covers(segment.cta, segment.warp, other, segment.epoch);
  };
  if (isIn(clock.all.known))
    return true;
  if (!clock.lanes)
    return false;
  if (lane != severalLanes)
    return isIn((*clock.lanes)[lane].known);
  bool isOwnWarp = segment.cta == clock.cta && segment.warp == clock.warp;
  for (unsigned i = 0; i < severalLanes; ++i)
    if ((clock.threads >> i & 1) && !(isOwnWarp && other == i) &&
        !isIn((*clock.lanes)[i].known))
      return false;
  return true;
}

std::vector<uint32_t> SegmentTable::compact(const std::vector<bool> &isUsed) {
  std::vector<uint32_t> renumbered(segments.size(), 0);
  uint32_t next = 1;
  for (size_t i = 1; i < segments.size(); ++i)
    if (isUsed[i]) {
      segments[next] = segments[i];
      renumbered[i] = next++;
    }
  segments.resize(next);
  return renumbered;
}

void SharedShadow::reset(uint64_t bytes, unsigned grain, unsigned numWarps) {
  grainShift = static_cast<unsigned>(std::countr_zero(grain));
  size_t cells = static_cast<size_t>((bytes >> grainShift) + 32);
  writes.assign(cells, AccessWord());
  beneath.clear();
  readers.assign(cells, 0);
  reads.resize(numWarps);
  for (std::vector<AccessWord> &row : reads)
    row.resize(cells); // stale words are hidden by `readers`
}

bool GlobalShadow::reset(uint64_t bytes, unsigned grain) {
  grainShift = static_cast<unsigned>(std::countr_zero(grain));
  size_t cells = static_cast<size_t>((bytes >> grainShift) + 32);
  writes.reset(cells);
  reads.reset(cells);
  otherReads.reset(cells);
  everWritten = false;
  return writes && reads && otherReads;
}
