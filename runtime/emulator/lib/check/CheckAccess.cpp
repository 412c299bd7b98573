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

#include "../lower/GuessSlice.h"
#include "../sim/Machine.h"
#include "PlainAccess.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// What an access does to memory, as a verb for now and one for before.
static const char *const *verbsOf(const Inst &inst, bool isWrite) {
  static constexpr const char *reads[] = {"reads", "read"};
  static constexpr const char *writes[] = {"writes", "written"};
  static constexpr const char *copies[] = {"cp.async writes", "written"};
  static constexpr const char *updates[] = {"updates", "updated"};
  static constexpr const char *bulkWrites[] = {"a bulk copy writes", "written"};
  static constexpr const char *bulkReads[] = {"a bulk copy reads", "read"};
  static constexpr const char *products[] = {"wgmma reads", "read"};
  if (inst.kind == InstKind::BulkCopy)
    return isWrite ? bulkWrites : bulkReads;
  if (inst.kind == InstKind::Wgmma)
    return products;
  return inst.kind == InstKind::Atomic               ? updates
         : inst.kind == InstKind::CpAsync && isWrite ? copies
         : isWrite                                   ? writes
                                                     : reads;
}

/// Two accesses without an order between them; they conflict unless both are
/// strong, of one size, and of scopes that include each other.
bool Machine::isMorallyStrong(AccessWord earlier, const Inst &inst) const {
  if (!inst.isStrong || !earlier.has(StrongAccess))
    return false;
  const Inst &other = program.code[earlier.pc()];
  if (other.elementBytes != inst.elementBytes)
    return false;
  return segments[earlier.segment()].cta == cta->index ||
         (inst.scope == MemoryScope::Device &&
          other.scope == MemoryScope::Device);
}

/// `what` meets a copy that has not been waited for.
static void explainInFlight(Finding &finding, const Program &program,
                            const Inst &copy, const std::string &what,
                            bool isWrite) {
  bool isBulk = copy.kind == InstKind::BulkCopy;
  finding.otherWhat = isBulk ? "bulk copy in flight" : "cp.async in flight";
  if (isWrite)
    finding.message = what + " while a " + (isBulk ? "bulk copy" : "cp.async") +
                      " to it is in flight";
  else
    finding.message =
        what + (isBulk ? ", to which a bulk copy is in flight"
                       : ", which a cp.async has not been waited for");
  finding.rule =
      isBulk ? "what a bulk copy writes may be touched after a wait for the "
               "phase of its mbarrier (PTX ISA 9.7.9.25.4)"
      : program.arrivesOnCopies
          ? "what a cp.async writes may be touched after a wait for the phase "
            "of an mbarrier at which a cp.async.mbarrier.arrive behind it "
            "arrives, or a cp.async.wait_group of its thread, and a barrier "
            "for other threads (PTX ISA 9.7.9.25.3, 9.7.13.15.15)"
          : "the thread that issued a cp.async must execute "
            "cp.async.wait_group (or wait_all) first; other threads also "
            "need a barrier (PTX ISA 9.7.9.25.3)";
}

static const char *raceRule(const Inst &inst, const Inst &other,
                            AccessWord earlier, bool earlierIsWrite,
                            bool isSame, bool isGlobal) {
  if (inst.isStrong && earlier.has(StrongAccess))
    return "atomic, volatile, relaxed, acquire and release accesses race "
           "unless "
           "the scope of each includes the thread of the other and both have "
           "one "
           "size (PTX ISA 8.7)";
  if (isSame)
    return "threads that store one value to one place race, though "
           "each outcome is the same (PTX ISA 8.7.1)";
  if (isGlobal && earlierIsWrite && other.kind == InstKind::BulkCopy)
    return "what a bulk store writes is there after a "
           "cp.async.bulk.wait_group of its thread, without .read, "
           "and may then be published (PTX ISA 9.7.9.25.4)";
  if (isGlobal)
    return "accesses of different threads need a barrier within a CTA, "
           "and atomics with fences between CTAs (PTX ISA 8.9)";
  return "other warps are ordered by bar.sync, or by a release that is "
         "acquired, other lanes also by bar.warp.sync; shfl, vote and mma "
         "order "
         "nothing (PTX ISA 8.9, 9.7.13)";
}

void Machine::reportRace(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address, unsigned bytes, AccessWord earlier,
                         bool earlierIsWrite, bool isWrite, Buffer *buffer) {
  bool isAsync = earlier.isAsync() && earlierIsWrite;
  if (!isOn(isAsync ? CheckAsync : CheckRace))
    return;
  const Inst &otherInst = program.code[earlier.pc()];
  if (earlierIsWrite ? otherInst.kind == InstKind::Atomic && isGuess(pcOf(inst))
                     : inst.kind == InstKind::Atomic && isGuess(earlier.pc()))
    return;
  bool isSame = !isAsync && earlierIsWrite &&
                otherInst.kind == InstKind::Store &&
                storesSame(warp, inst, lane, address, buffer);
  // A write that meets reads of a slot which cp.async refills is the ring bug.
  FindingKind kind =
      isAsync ? (isWrite ? FindingKind::AsyncOverwrite : FindingKind::AsyncRead)
      : isSame ? FindingKind::SameValue
      : buffer ? FindingKind::GlobalRace
               : FindingKind::SharedRace;
  uint64_t key = FindingSet::key(kind, pcOf(inst), earlier.pc());
  if (isRepeated(kind, key))
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
  std::string here = verbsOf(inst, isWrite)[0];
  bool isAtomic = otherInst.kind == InstKind::Atomic;
  finding.otherWhat = isAtomic ? "atomic" : earlierIsWrite ? "write" : "read";
  if (isAsync) {
    explainInFlight(finding, program, otherInst, here + " " + where, isWrite);
    addFinding(key, std::move(finding));
    return;
  }
  finding.message = here + " " + where + ", " +
                    verbsOf(otherInst, earlierIsWrite)[1] +
                    " by another thread with no synchronisation in between" +
                    (isSame ? ", with the value that it has already" : "");
  finding.rule = raceRule(inst, otherInst, earlier, earlierIsWrite, isSame,
                          buffer != nullptr);
  addFinding(key, std::move(finding));
}

/// Whether the instruction is a load that is only what an atom.cas compares
/// with.
bool Machine::isGuess(uint32_t pc) {
  const Inst &inst = program.code[pc];
  if (inst.kind != InstKind::Load || inst.isStrong)
    return false;
  auto [it, isNew] = guesses.try_emplace(pc, false);
  if (isNew)
    it->second = isCasGuess(program, pc);
  return it->second;
}

/// Whether memory holds what a lane is about to store.
bool Machine::storesSame(Warp &warp, const Inst &inst, unsigned lane,
                         uint64_t address, const Buffer *buffer) const {
  if (inst.kind != InstKind::Store)
    return false;
  const uint8_t *at = buffer ? buffer->data.data() + (address - buffer->base)
                             : cta->shared.data() + address;
  const uint32_t *values = program.operands.data() + inst.firstOperand + 1;
  for (unsigned v = 0; v < inst.vectorLength; ++v)
    if (std::memcmp(warp.reg<uint8_t>(values[v]) + size_t(lane) * inst.regBytes,
                    at + size_t(v) * inst.elementBytes, inst.elementBytes))
      return false;
  return true;
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

/// Part of a wmma.load or a wmma.store. PTX leaves open which lane has which
/// element of a fragment, so a store is one of any lane to what reads it later,
/// and a load is one of any lane to what wrote before. What is written over
/// what was loaded is left to the lanes that have it here: a tile that is
/// loaded, changed and stored again needs no barrier.
static bool isOfWmma(const Inst &inst) {
  return inst.cls == InstClass::Matrix &&
         (inst.kind == InstKind::Load || inst.kind == InstKind::Store);
}

void Machine::checkShared(Warp &warp, const Inst &inst,
                          const LaneAccess &access, SharedUse use) {
  if (!(options.checks & (CheckRace | CheckAsync)))
    return;
  startSegment(warp);
  const bool isWrite = use != SharedUse::Read && use != SharedUse::ReadAsWarp;
  const bool asWarp = use == SharedUse::ReadAsWarp ||
                      use == SharedUse::WriteAsWarp ||
                      (isWrite && isOfWmma(inst));
  const AccessFlag flag = use == SharedUse::Async        ? AsyncAccess
                          : inst.isStrong                ? StrongAccess
                          : use == SharedUse::ReadAsWarp ? MatrixRead
                                                         : PlainAccess;
  const unsigned shift = cta->shadow.grainShift;
  PlainCells cells(cta->shadow, {segments, warp.clock}, warp.index);
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    size_t first = address >> shift;
    size_t count = ((address + access.bytes - 1) >> shift) - first + 1;
    const AccessWord mine(warp.clock.segment, pcOf(inst),
                          asWarp ? severalLanes : lane, flag);
    bool isDone = isWrite ? !inst.isStrong &&
                                (count == 4 ? cells.write(first, 4, mine)
                                            : cells.write(first, count, mine))
                  : count == 4 ? cells.read(first, 4, mine)
                               : cells.read(first, count, mine);
    if (!isDone)
      checkSharedLane(warp, inst, lane, address, access.bytes, isWrite, mine);
  });
  if (cta->async)
    checkBesideAsync(warp, inst, access, isWrite, asWarp);
}

/// Whether a read still matters after a write that it does not conflict with.
/// Strong writes need not be ordered with each other, so what happened before
/// one of them did not happen before the next.
static bool outlives(AccessWord read, const Inst &write,
                     HappensBefore &isOrdered) {
  return write.isStrong && (!read.has(StrongAccess) || !isOrdered(read));
}

/// The read of `cell` by the first of the warps in `rest`.
static AccessWord &readOf(SharedShadow &shadow, size_t cell, uint32_t rest) {
  return shadow.reads[static_cast<unsigned>(std::countr_zero(rest))][cell];
}

/// Who read a value that was written before all of this happened.
static bool wasObserved(SharedShadow &shadow, size_t cell, AccessWord write,
                        HappensBefore &isOrdered) {
  bool observed = false;
  for (uint32_t rest = shadow.readers[cell]; rest && write.has(StrongAccess);
       rest &= rest - 1) {
    AccessWord read = readOf(shadow, cell, rest);
    observed |= !read.has(StaleRead) && isOrdered(read);
  }
  return observed;
}

void Machine::checkSharedLane(Warp &warp, const Inst &inst, unsigned lane,
                              uint64_t address, unsigned bytes, bool isWrite,
                              AccessWord mine) {
  SharedShadow &shadow = cta->shadow;
  size_t first = address >> shadow.grainShift;
  size_t last = (address + bytes - 1) >> shadow.grainShift;
  const WarpClock &clock = warp.clock;
  const uint32_t me = 1u << warp.index;
  HappensBefore isOrdered(segments, clock,
                          !isOfWmma(inst) ? mine.lane()
                          : isWrite       ? lane
                                          : severalLanes);
  AccessWord *writes = shadow.writes.data();
  AccessWord *reads = shadow.reads[warp.index].data();
  uint32_t *readers = shadow.readers.data();
  for (size_t cell = first; cell <= last; ++cell) {
    AccessWord write = writes[cell];
    // Lanes that write one place together are compared by value instead.
    bool together =
        isWrite && write.segment() == clock.segment && write.pc() == mine.pc();
    if (write && !together &&
        (write.isAsync() ||
         (!isOrdered(write) && !isMorallyStrong(write, inst) &&
          !wasObserved(shadow, cell, write, isOrdered))))
      reportRace(warp, inst, lane, address, bytes, write, true, isWrite,
                 nullptr);
    if (write.has(StrongAccess)) {
      AccessWord beneath = shadow.beneath.at(cell);
      if (beneath && !isOrdered(beneath))
        reportRace(warp, inst, lane, address, bytes, beneath, true, isWrite,
                   nullptr);
    }
    if (!isWrite) {
      AccessWord read = reads[cell];
      bool sameTime = (readers[cell] & me) && read.segment() == clock.segment;
      reads[cell] = sameTime ? merged(read, mine) : mine;
      readers[cell] |= me;
      continue;
    }
    uint32_t stay = 0;
    for (uint32_t rest = readers[cell]; rest; rest &= rest - 1) {
      AccessWord &read = readOf(shadow, cell, rest);
      // No lane of a warp stores before all have loaded.
      bool isInPlace = inst.kind == InstKind::StoreMatrix &&
                       read.has(MatrixRead) && (rest & -rest) == me;
      if (!isInPlace && !isOrdered(read) && !isMorallyStrong(read, inst)) {
        reportRace(warp, inst, lane, address, bytes, read, false, true,
                   nullptr);
      } else if (outlives(read, inst, isOrdered)) {
        read.add(StaleRead);
        stay |= rest & -rest;
      }
    }
    readers[cell] = stay;
    if (write.has(StrongAccess) || inst.isStrong)
      shadow.beneath.follow(cell, write, inst.isStrong, shadow.writes.size());
    writes[cell] = mine;
    if (write.has(StrongAccess) && !inst.isStrong)
      cta->messages.erase(messageKey(StateSpace::Shared, address));
  }
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

/// What ld.global.nc reads may be of a cache that no write reaches.
void Machine::checkReadOnly(Warp &warp, const Inst &inst, unsigned lane,
                            uint64_t address, unsigned bytes,
                            AccessWord write) {
  uint64_t key =
      FindingSet::key(FindingKind::GlobalRace, pcOf(inst), write.pc());
  if (isRepeated(FindingKind::GlobalRace, key))
    return;
  Finding finding;
  finding.kind = FindingKind::GlobalRace;
  finding.place = placeOf(warp, inst, 1u << lane);
  finding.message = "reads " + nameGlobal(address, bytes) +
                    " through the read-only path, which this kernel has "
                    "written";
  finding.rule = "what ld.global.nc reads must not be written while the kernel "
                 "runs, whatever is in between (PTX ISA 9.7.9.9)";
  finding.address = address;
  finding.bytes = bytes;
  finding.hasOther = true;
  finding.other = placeOf(write);
  finding.otherWhat = "write";
  addFinding(key, std::move(finding));
}

void Machine::checkGlobal(Warp &warp, const Inst &inst,
                          const LaneAccess &access,
                          Buffer *const (&buffers)[warpSize], bool isWrite) {
  if (!isOn(CheckRace))
    return;
  startSegment(warp);
  KnownBefore known(segments, warp.clock);
  forEachLane(access.lanes, [&](unsigned lane) {
    Buffer &buffer = *buffers[lane];
    GlobalShadow &shadow = globalShadows[memory.indexOf(buffer)];
    if (!shadow.reads)
      return;
    uint64_t offset = access.address[lane] - buffer.base;
    size_t first = offset >> shadow.grainShift;
    size_t count =
        ((offset + access.bytes - 1) >> shadow.grainShift) - first + 1;
    const AccessWord mine(warp.clock.segment, pcOf(inst), lane,
                          inst.isStrong ? StrongAccess : PlainAccess);
    auto isOrdered = [&](AccessWord read) {
      return known(read) || segments.isOrdered(read, warp.clock, lane);
    };
    if (inst.isReadOnly && shadow.everWritten)
      for (size_t cell = first; cell < first + count; ++cell)
        if (shadow.writes[cell])
          return checkReadOnly(warp, inst, lane, access.address[lane],
                               access.bytes, shadow.writes[cell]);
    if (isWrite ||
        !readPlainCells(shadow, known, isOrdered, first, count, mine))
      checkGlobalLane(warp, inst, buffer, lane, offset, access.bytes, isWrite,
                      mine);
  });
}

void Machine::checkGlobalLane(Warp &warp, const Inst &inst, Buffer &buffer,
                              unsigned lane, uint64_t offset, unsigned bytes,
                              bool isWrite, AccessWord mine) {
  GlobalShadow &shadow = globalShadows[memory.indexOf(buffer)];
  size_t first = offset >> shadow.grainShift;
  size_t last = (offset + bytes - 1) >> shadow.grainShift;
  const WarpClock &clock = warp.clock;
  uint64_t address = buffer.base + offset;
  HappensBefore isOrdered(segments, clock, lane);
  auto wasObserved = [&](size_t cell, AccessWord write) {
    auto isOrderedRead = [&](AccessWord read) {
      return read && !read.has(StaleRead) && isOrdered(read);
    };
    return write.has(StrongAccess) && (isOrderedRead(shadow.reads[cell]) ||
                                       isOrderedRead(shadow.otherReads[cell]));
  };
  /// A write meets an earlier read, which stays if both may be.
  auto meetRead = [&](AccessWord &read) {
    if (read && !isOrdered(read) && !isMorallyStrong(read, inst))
      reportRace(warp, inst, lane, address, bytes, read, false, true, &buffer);
    else if (read && outlives(read, inst, isOrdered))
      return read.add(StaleRead);
    read = AccessWord();
  };
  shadow.everWritten |= isWrite;
  for (size_t cell = first; cell <= last; ++cell) {
    AccessWord write = shadow.everWritten ? shadow.writes[cell] : AccessWord();
    // Lanes that write one place together are compared by value instead.
    bool together =
        isWrite && write.segment() == clock.segment && write.pc() == mine.pc();
    if (write && !together && !isOrdered(write) &&
        !isMorallyStrong(write, inst) && !wasObserved(cell, write))
      reportRace(warp, inst, lane, address, bytes, write, true, isWrite,
                 &buffer);
    if (write.has(StrongAccess)) {
      AccessWord beneath = shadow.beneath.at(cell);
      if (beneath && !isOrdered(beneath))
        reportRace(warp, inst, lane, address, bytes, beneath, true, isWrite,
                   &buffer);
    }
    AccessWord &read = shadow.reads[cell];
    if (isWrite) {
      meetRead(read);
      meetRead(shadow.otherReads[cell]);
      if (write.has(StrongAccess) || inst.isStrong)
        shadow.beneath.follow(cell, write, inst.isStrong, shadow.writes.size());
      shadow.writes[cell] = mine;
      if (write.has(StrongAccess) && !inst.isStrong)
        messages.erase(messageKey(StateSpace::Global, address));
      continue;
    }
    recordRead(read, shadow.otherReads[cell], mine, isOrdered);
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
      // The size of most is known to the compiler.
      bool isThere = inst.elementBytes == 4
                         ? std::memcmp(value, stored, 4) == 0
                         : std::memcmp(value, stored, inst.elementBytes) == 0;
      lost |= isThere ? 0u : 1u << lane;
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
