//===- CheckAccess.cpp - Races --------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks at the shadow of each cell an access touches, reports what is not
// ordered, and records the access. See Shadow.h for the model.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

void Machine::reportRace(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address, unsigned bytes, AccessWord earlier,
                         bool earlierIsWrite, bool isWrite, Buffer *buffer) {
  bool isAsync = earlier.isAsync() && earlierIsWrite;
  if (!isOn(isAsync ? CheckAsync : CheckRace))
    return;
  FindingKind kind =
      isAsync ? (isWrite ? FindingKind::AsyncOverwrite : FindingKind::AsyncRead)
      : buffer ? FindingKind::GlobalRace
               : FindingKind::SharedRace;
  // A write that meets reads of a slot which cp.async refills is the ring bug.
  uint64_t key = FindingSet::key(kind, pcOf(inst), earlier.pc());
  if (findings.countAgain(key))
    return;
  Finding finding;
  finding.kind = kind;
  finding.place = placeOf(warp, inst, lane < warpSize ? 1u << lane : warp.live);
  finding.address = address;
  finding.bytes = bytes;
  finding.hasOther = true;
  finding.other = placeOf(earlier);
  std::string where =
      buffer ? nameGlobal(address, bytes) : nameShared(address, bytes);
  bool copies = inst.kind == InstKind::CpAsync && isWrite;
  std::string here = copies ? "cp.async writes" : isWrite ? "writes" : "reads";
  if (isAsync) {
    finding.otherWhat = "cp.async in flight";
    finding.message = here + " " + where +
                      (isWrite ? " while a cp.async to it is in flight"
                               : ", which a cp.async has not been waited for");
    finding.rule = "the thread that issued a cp.async must execute "
                   "cp.async.wait_group (or wait_all) first; other threads "
                   "also need a barrier (PTX ISA 9.7.9.25.3)";
  } else {
    finding.otherWhat = earlierIsWrite ? "write" : "read";
    finding.message = here + " " + where + ", " +
                      (earlierIsWrite ? "written" : "read") +
                      " by another thread with no synchronisation in between";
    finding.rule =
        buffer
            ? "accesses of different threads need a barrier within a CTA, "
              "and atomics with fences between CTAs (PTX ISA 8.9)"
            : "other warps are ordered by bar.sync only, other lanes also by "
              "bar.warp.sync; shfl, vote and mma order nothing (PTX ISA "
              "8.9, 9.7.13)";
  }
  addFinding(key, std::move(finding));
}

namespace {
/// Whether an access happened before what a lane does now. The cells of one
/// access mostly have the same word, so the last answer is kept.
class HappensBefore {
public:
  HappensBefore(const SegmentTable &segments, const WarpClock &clock,
                unsigned lane)
      : segments(segments), clock(clock), lane(lane) {}

  bool operator()(AccessWord access) {
    if (access != last) {
      last = access;
      answer = segments.isOrdered(access, clock, lane);
    }
    return answer;
  }

private:
  const SegmentTable &segments;
  const WarpClock &clock;
  unsigned lane;
  /// Number 0 is of no segment.
  AccessWord last;
  bool answer = true;
};
} // namespace

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

void Machine::checkShared(Warp &warp, const Inst &inst,
                          const LaneAccess &access, bool isWrite, bool asWarp) {
  if (!(options.checks & (CheckRace | CheckAsync)))
    return;
  forEachLane(access.lanes, [&](unsigned lane) {
    checkSharedLane(warp, inst, lane, access.address[lane], access.bytes,
                    isWrite, asWarp ? severalLanes : lane, /*isAsync=*/false);
  });
}

void Machine::checkSharedLane(Warp &warp, const Inst &inst, unsigned lane,
                              uint64_t address, unsigned bytes, bool isWrite,
                              unsigned owner, bool isAsync) {
  SharedShadow &shadow = cta->shadow;
  size_t first = address >> shadow.grainShift;
  size_t last = (address + bytes - 1) >> shadow.grainShift;
  const WarpClock &clock = warp.clock;
  const uint32_t me = 1u << warp.index;
  const AccessWord mine(clock.segment, pcOf(inst), owner, isAsync);
  const AccessWord several(clock.segment, pcOf(inst), severalLanes);
  HappensBefore isOrdered(segments, clock, owner);
  AccessWord *writes = shadow.writes.data();
  AccessWord *reads = shadow.reads[warp.index].data();
  uint32_t *readers = shadow.readers.data();
  for (size_t cell = first; cell <= last; ++cell) {
    AccessWord write = writes[cell];
    // Lanes that write one place together are compared by value instead.
    bool together =
        isWrite && write.segment() == clock.segment && write.pc() == mine.pc();
    if (write && !together && (write.isAsync() || !isOrdered(write)))
      reportRace(warp, inst, lane, address, bytes, write, true, isWrite,
                 nullptr);
    if (!isWrite) {
      AccessWord read = reads[cell];
      bool sameTime = (readers[cell] & me) && read.segment() == clock.segment &&
                      read.lane() != owner;
      reads[cell] = sameTime ? several : mine;
      readers[cell] |= me;
      continue;
    }
    for (uint32_t rest = readers[cell]; rest; rest &= rest - 1) {
      AccessWord read =
          shadow.reads[static_cast<unsigned>(std::countr_zero(rest))][cell];
      if (!isOrdered(read))
        reportRace(warp, inst, lane, address, bytes, read, false, true,
                   nullptr);
    }
    readers[cell] = 0;
    writes[cell] = mine;
  }
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

void Machine::checkGlobal(Warp &warp, const Inst &inst,
                          const LaneAccess &access,
                          Buffer *const (&buffers)[warpSize], bool isWrite) {
  // Volatile, relaxed, acquire and release accesses are meant to race.
  if (!isOn(CheckRace) || inst.isVolatile)
    return;
  forEachLane(access.lanes, [&](unsigned lane) {
    checkGlobalLane(warp, inst, *buffers[lane], lane,
                    access.address[lane] - buffers[lane]->base, access.bytes,
                    isWrite);
  });
}

void Machine::checkGlobalLane(Warp &warp, const Inst &inst, Buffer &buffer,
                              unsigned lane, uint64_t offset, unsigned bytes,
                              bool isWrite) {
  GlobalShadow &shadow = globalShadows[memory.indexOf(buffer)];
  if (!shadow.reads)
    return;
  size_t first = offset >> shadow.grainShift;
  size_t last = (offset + bytes - 1) >> shadow.grainShift;
  const WarpClock &clock = warp.clock;
  const AccessWord mine(clock.segment, pcOf(inst), lane);
  uint64_t address = buffer.base + offset;
  HappensBefore isOrdered(segments, clock, lane);
  auto check = [&](AccessWord earlier, bool earlierIsWrite) {
    // Lanes that write one place together are compared by value instead.
    bool together = isWrite && earlierIsWrite &&
                    earlier.segment() == clock.segment &&
                    earlier.pc() == mine.pc();
    if (earlier && !together && !isOrdered(earlier))
      reportRace(warp, inst, lane, address, bytes, earlier, earlierIsWrite,
                 isWrite, &buffer);
  };
  shadow.everWritten |= isWrite;
  for (size_t cell = first; cell <= last; ++cell) {
    if (shadow.everWritten)
      check(shadow.writes[cell], true);
    AccessWord &read = shadow.reads[cell];
    if (isWrite) {
      check(read, false);
      check(shadow.otherReads[cell], false);
      read = shadow.otherReads[cell] = AccessWord();
      shadow.writes[cell] = mine;
      continue;
    }
    if (read && read.segment() == clock.segment) {
      if (read.lane() != lane)
        read = AccessWord(clock.segment, pcOf(inst), severalLanes);
      continue;
    }
    // Keep an unordered earlier reader: a later write must meet both.
    if (read && !isOrdered(read))
      shadow.otherReads[cell] = read;
    read = mine;
  }
}

/// After a store: a lane whose value is not in memory lost to another lane of
/// the same instruction.
void Machine::checkLostStores(Warp &warp, const Inst &inst, StateSpace space,
                              const LaneAccess &access,
                              uint8_t *const (&hosts)[warpSize]) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand + 1;
  uint32_t lost = 0;
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    forEachLane(access.lanes, [&](unsigned lane) {
      const uint8_t *value =
          warp.reg<uint8_t>(ops[v]) + size_t(lane) * inst.regBytes;
      const uint8_t *stored = hosts[lane] + size_t(v) * inst.elementBytes;
      lost |= std::memcmp(value, stored, inst.elementBytes) ? 1u << lane : 0u;
    });
  if (!lost)
    return;
  uint64_t address = access.address[std::countr_zero(lost)];
  bool isShared = space == StateSpace::Shared;
  find(
      isShared ? FindingKind::SharedRace : FindingKind::GlobalRace, warp, inst,
      lost,
      [&] {
        return Text{"lanes of one store write different values to " +
                        (isShared ? nameShared(address, access.bytes)
                                  : nameGlobal(address, access.bytes)),
                    "which value stays is undefined (PTX ISA 8.9)"};
      },
      address, access.bytes);
}

//===----------------------------------------------------------------------===//
// Edges between CTAs
//===----------------------------------------------------------------------===//

static void join(VectorClock &into, const VectorClock &from) {
  for (unsigned i = 0; i < maxWarps; ++i)
    into[i] = std::max(into[i], from[i]);
}

/// An atomic or release at `address` publishes all that happened before the
/// last tick (the fence) of this warp.
void Machine::releaseTo(Warp &warp, uint64_t address) {
  if (!isOn(CheckRace))
    return;
  SyncObject &object = syncObjects[address];
  VectorClock mine = warp.clock.known;
  mine[warp.index] = warp.clock.epoch - 1;
  join(object.released[warp.clock.cta], mine);
  for (const auto &[other, clock] : warp.clock.knownCtas)
    join(object.released[other], clock);
}

void Machine::acquireFrom(Warp &warp, uint64_t address) {
  if (!isOn(CheckRace))
    return;
  auto it = syncObjects.find(address);
  if (it == syncObjects.end())
    return;
  for (const auto &[other, clock] : it->second.released) {
    if (other == warp.clock.cta)
      join(warp.clock.known, clock);
    else
      join(warp.clock.knownCtas[other], clock);
  }
}
