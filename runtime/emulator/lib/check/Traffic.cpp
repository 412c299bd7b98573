//===- Traffic.cpp - Wavefronts and sectors -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared memory has 32 banks of 4 bytes; one wavefront serves each bank once.
// Accesses of 8 and 16 bytes go in halves and quarters of a warp:
//
//   bytes a lane   lanes together   ideal wavefronts of a full warp
//         <= 4          32                      1
//            8          16                      2
//           16           8                      4
//
// In loads of 8 and 16 bytes, twice as many lanes go together where each lane i
// of them shares its address with lane i ^ 1, or each with lane i ^ 2. Measured
// on sm_90 for one address in all lanes.
//
// Global memory moves 32-byte sectors. The ideal is what the distinct bytes of
// an instruction would need if they lay side by side. cp.async.cg requests a
// sector once for every 32-byte sector of shared memory that it goes to.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>
#include <utility>

using namespace flashcore::emu;

namespace {
struct Traffic {
  uint64_t actual = 0, ideal = 0;
};
} // namespace

/// Wavefronts of lanes [first, first + count).
static Traffic wavefronts(const LaneAccess &access, unsigned first,
                          unsigned count) {
  // Distinct words, up to 4 a lane; most accesses have no duplicates.
  uint64_t words[warpSize * 4];
  unsigned numWords = 0;
  uint32_t banks = 0;
  bool clash = false;
  for (unsigned lane = first; lane < first + count; ++lane) {
    if (!(access.lanes >> lane & 1))
      continue;
    uint64_t begin = access.address[lane] >> 2;
    uint64_t end = (access.address[lane] + access.bytes - 1) >> 2;
    for (uint64_t word = begin; word <= end; ++word) {
      uint32_t bank = 1u << (word & 31);
      clash |= (banks & bank) != 0;
      banks |= bank;
      words[numWords++] = word;
    }
  }
  if (numWords == 0)
    return {};
  if (!clash)
    return {1, 1};
  std::sort(words, words + numWords);
  numWords =
      static_cast<unsigned>(std::unique(words, words + numWords) - words);
  unsigned perBank[32] = {};
  unsigned most = 0;
  for (unsigned i = 0; i < numWords; ++i)
    most = std::max(most, ++perBank[words[i] & 31]);
  return {most, (numWords + 31) / 32};
}

/// Whether each active lane of [first, first + count) has the address of its
/// partner, lane ^ bit, or a partner that is not active.
static bool sharesAddresses(const LaneAccess &access, unsigned first,
                            unsigned count, unsigned bit) {
  for (unsigned lane = first; lane < first + count; ++lane) {
    bool bothActive = access.lanes >> lane & access.lanes >> (lane ^ bit) & 1;
    if (bothActive && access.address[lane] != access.address[lane ^ bit])
      return false;
  }
  return true;
}

void Machine::countShared(const Inst &inst, const LaneAccess &access) {
  PcCounters &counters = countersOf(inst);
  unsigned together = access.bytes <= 4 ? 32 : access.bytes <= 8 ? 16 : 8;
  for (unsigned first = 0; first < warpSize;) {
    unsigned twice = 2 * together;
    bool merges = inst.kind == InstKind::Load && together < warpSize &&
                  first % twice == 0 &&
                  (sharesAddresses(access, first, twice, 1) ||
                   sharesAddresses(access, first, twice, 2));
    unsigned count = merges ? twice : together;
    Traffic traffic = wavefronts(access, first, count);
    counters.wavefronts += traffic.actual;
    counters.idealWavefronts += traffic.ideal;
    first += count;
  }
  counters.sharedBytes += uint64_t(access.bytes) *
                          static_cast<unsigned>(std::popcount(access.lanes));
}

/// Distinct pairs of a global and a shared sector.
static unsigned bypassSectors(const LaneAccess &from, const LaneAccess &to) {
  std::pair<uint64_t, uint64_t> pairs[warpSize];
  unsigned count = 0;
  forEachLane(from.lanes, [&](unsigned lane) {
    pairs[count++] = {from.address[lane] >> 5, to.address[lane] >> 5};
  });
  std::sort(pairs, pairs + count);
  return static_cast<unsigned>(std::unique(pairs, pairs + count) - pairs);
}

/// `bypass` is where a cp.async.cg writes.
void Machine::countGlobal(const Inst &inst, const LaneAccess &access,
                          bool isWrite, const LaneAccess *bypass) {
  PcCounters &counters = countersOf(inst);
  uint64_t starts[warpSize], sectors[warpSize * 2];
  unsigned numStarts = 0, numSectors = 0;
  bool sorted = true;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    sorted &= numStarts == 0 || address >= starts[numStarts - 1];
    starts[numStarts++] = address;
  });
  if (!sorted)
    std::sort(starts, starts + numStarts);
  uint64_t distinctBytes = 0, covered = 0;
  for (unsigned i = 0; i < numStarts; ++i) {
    uint64_t end = starts[i] + access.bytes;
    distinctBytes += end - std::clamp(covered, starts[i], end);
    covered = std::max(covered, end);
    for (uint64_t sector = starts[i] >> 5; sector <= (end - 1) >> 5; ++sector)
      if (numSectors == 0 || sectors[numSectors - 1] < sector)
        sectors[numSectors++] = sector;
  }
  counters.sectors += bypass ? bypassSectors(access, *bypass) : numSectors;
  counters.idealSectors += (distinctBytes + 31) / 32;
  uint64_t bytes = uint64_t(access.bytes) *
                   static_cast<unsigned>(std::popcount(access.lanes));
  counters.globalBytes += bytes;
  (isWrite ? globalWriteBytes : globalReadBytes) += bytes;
}
