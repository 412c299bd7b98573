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

/// Which lanes an access of several lanes had is not known: it counts as
/// ordered.
bool SegmentTable::isOrderedInWarp(unsigned other, uint32_t epoch,
                                   const WarpClock &clock, unsigned lane) {
  if (other == lane || other == severalLanes || clock.laneKnown.empty())
    return true;
  if (lane != severalLanes)
    return epoch <= clock.laneKnown[lane][other];
  return std::all_of(clock.laneKnown.begin(), clock.laneKnown.end(),
                     [&](const auto &known) { return epoch <= known[other]; });
}

void SharedShadow::reset(uint64_t bytes, unsigned grain, unsigned numWarps) {
  grainShift = static_cast<unsigned>(std::countr_zero(grain));
  size_t cells = static_cast<size_t>((bytes >> grainShift) + 32);
  writes.assign(cells, AccessWord());
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
