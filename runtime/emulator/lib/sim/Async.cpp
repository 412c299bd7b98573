//===- Async.cpp - cp.async -----------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A copy is in flight from its issue to the wait_group of its own thread. The
// issue counts as a write (a slot must be free by then); until the wait, any
// access to the bytes is an error; after it they are that thread's write. The
// bytes themselves move at the wait (lazy), at the issue (eager), or either.
//
// A cp.async.mbarrier.arrive (PTX ISA 9.7.13.15.15) is an arrival that comes
// when the earlier copies of its thread are done: as late as the rules allow
// when somebody waits for the phase and nothing but such arrivals and bytes is
// missing (lazy), with the instruction (eager), or either. Who waits for the
// phase knows of the copies, not of what else the thread did.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>

using namespace flashcore::emu;

/// Arrivals on their way of which each is kept.
static constexpr size_t maxArrivals = 1024;
/// Groups of a warp of which it is kept which copies they have.
static constexpr size_t maxCommits = 1024;

/// Whether a copy that is issued now moves its bytes at once.
bool Machine::isEager() {
  return options.async == AsyncMode::Eager ||
         (options.async == AsyncMode::Random && cta->asyncRandom() & 1);
}

//===----------------------------------------------------------------------===//
// Issue
//===----------------------------------------------------------------------===//

/// Puts a copy in flight.
AsyncCopy &Machine::recordCopy(Warp &warp, const Inst &inst,
                               const LaneAccess &to, uint32_t readable,
                               const uint32_t *sizes,
                               uint8_t *const (&fromHosts)[warpSize]) {
  startSegment(warp);
  AsyncCopy &copy = warp.copies.emplace_back();
  copy.pc = pcOf(inst);
  copy.lanes = to.lanes;
  copy.bytes = inst.elementBytes;
  copy.number = ++warp.issuedCopies;
  copy.segment = warp.clock.segment;
  forEachLane(to.lanes, [&](unsigned lane) {
    copy.group[lane] = warp.committed[lane];
    copy.to[lane] = static_cast<uint32_t>(to.address[lane]);
    bool reads = readable >> lane & 1;
    copy.from[lane] = reads ? fromHosts[lane] : nullptr;
    copy.fromBytes[lane] = static_cast<uint8_t>(
        reads ? std::min<uint32_t>(sizes[lane], inst.elementBytes) : 0);
  });
  return copy;
}

/// Operands: shared address, global address, source bytes.
void Machine::cpAsync(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  LaneAccess to, from;
  uint8_t *toHosts[warpSize], *fromHosts[warpSize];
  Buffer *buffers[warpSize];
  to.bytes = from.bytes = inst.elementBytes;
  computeAddresses(warp, ops[0], inst.addressIs64, inst.imm, lanes, to);
  computeAddresses(warp, ops[1], /*is64=*/true, inst.aux, lanes, from);
  const uint32_t *sizes = warp.reg<uint32_t>(ops[2]);
  // A source of zero bytes is not touched and may be any address.
  uint32_t full = 0, empty = 0;
  forEachLane(lanes, [&](unsigned lane) {
    full |= sizes[lane] >= inst.elementBytes ? 1u << lane : 0u;
    empty |= sizes[lane] == 0 ? 1u << lane : 0u;
  });
  to.lanes &= ~checkAlignment(warp, inst, StateSpace::Shared, to);
  resolveShared(warp, inst, to, toHosts);
  from.lanes = to.lanes & ~empty;
  from.lanes &= ~checkAlignment(warp, inst, StateSpace::Global, from);
  LaneAccess part = from;
  part.lanes = from.lanes & full;
  resolveGlobal(warp, inst, part, /*isWrite=*/false, fromHosts, buffers);
  uint32_t readable = part.lanes;
  checkGlobal(warp, inst, part, buffers, /*isWrite=*/false);
  if (options.counters && part.lanes)
    countGlobal(inst, part, /*isWrite=*/false, inst.bypassesL1 ? &to : nullptr);
  forEachLane(from.lanes & ~full, [&](unsigned lane) {
    LaneAccess one = from;
    one.lanes = 1u << lane;
    one.bytes = sizes[lane];
    resolveGlobal(warp, inst, one, /*isWrite=*/false, fromHosts, buffers);
    checkGlobal(warp, inst, one, buffers, /*isWrite=*/false);
    readable |= one.lanes;
  });

  AsyncCopy &copy = recordCopy(warp, inst, to, readable, sizes, fromHosts);
  if (isOn(CheckInit))
    followCopy(warp, inst, to, from, readable, sizes, buffers);
  checkShared(warp, inst, to, SharedUse::Async);
  if (options.counters)
    countShared(inst, to);
  bool eager = isEager();
  if (eager)
    transfer(copy, copy.lanes);
  copy.done = eager;
}

void Machine::cpAsyncCommit(Warp &warp, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) { ++warp.committed[lane]; });
  if (!program.arrivesOnCopies)
    return;
  warp.commits.push_back({lanes, warp.issuedCopies});
  if (warp.commits.size() > maxCommits)
    warp.commits.pop_front();
}

//===----------------------------------------------------------------------===//
// Completion
//===----------------------------------------------------------------------===//

/// Moves the bytes; a source shorter than the copy is padded with zeros.
void Machine::transfer(AsyncCopy &copy, uint32_t lanes) {
  if (copy.done)
    return;
  ++changes;
  if (!cta->labels.empty())
    labelCopy(copy, lanes);
  uint8_t *shared = cta->shared.data();
  forEachLane(lanes, [&](unsigned lane) {
    uint8_t *to = shared + copy.to[lane];
    unsigned bytes = copy.fromBytes[lane];
    if (bytes == 16 && copy.bytes == 16) {
      std::memcpy(to, copy.from[lane], 16);
      return;
    }
    if (bytes)
      std::memcpy(to, copy.from[lane], bytes);
    std::memset(to + bytes, 0, copy.bytes - bytes);
  });
}

/// From now on the bytes are an ordinary write of this thread, or of the agent
/// of its copies, which others may hear of from an mbarrier.
void Machine::publish(Warp &warp, const AsyncCopy &copy, uint32_t lanes) {
  if (!lanes || !ordersAsync())
    return;
  uint32_t segment = 0;
  if (program.arrivesOnCopies) {
    segment = segments.add({AsyncAgent::cta(cta->index),
                            AsyncAgent::copiesOf(warp.index), copy.number,
                            warp.index});
  } else {
    startSegment(warp);
    segment = warp.clock.segment;
  }
  const unsigned shift = cta->shadow.grainShift;
  AccessWord *writes = cta->shadow.writes.data();
  forEachLane(lanes, [&](unsigned lane) {
    const AccessWord pending(copy.segment, copy.pc, lane, AsyncAccess);
    const AccessWord mine(segment, copy.pc, lane);
    size_t first = copy.to[lane] >> shift;
    size_t last = (copy.to[lane] + copy.bytes - 1u) >> shift;
    for (size_t cell = first; cell <= last; ++cell)
      if (writes[cell] == pending)
        writes[cell] = mine;
  });
}

void Machine::complete(Warp &warp, AsyncCopy &copy, uint32_t lanes) {
  transfer(copy, lanes);
  publish(warp, copy, lanes);
  copy.lanes &= ~lanes;
}

static void dropCompleted(std::vector<AsyncCopy> &copies) {
  std::erase_if(copies, [](const AsyncCopy &copy) { return copy.lanes == 0; });
}

/// imm: groups that may stay in flight; -1 for wait_all.
void Machine::cpAsyncWait(Warp &warp, const Inst &inst, uint32_t lanes) {
  for (AsyncCopy &copy : warp.copies) {
    uint32_t arrived = 0;
    forEachLane(copy.lanes & lanes, [&](unsigned lane) {
      int64_t committed = warp.committed[lane];
      // wait_all also completes copies that were never committed.
      int64_t newest = inst.imm < 0 ? committed : committed - 1 - inst.imm;
      arrived |= int64_t(copy.group[lane]) <= newest ? 1u << lane : 0u;
    });
    complete(warp, copy, arrived);
  }
  dropCompleted(warp.copies);
  if (program.arrivesOnCopies)
    learnCopies(warp, inst, lanes);
}

/// Lanes have waited for their groups, the copies of which may have arrived
/// long ago, for an mbarrier.
void Machine::learnCopies(Warp &warp, const Inst &inst, uint32_t lanes) {
  forEachLane(lanes, [&](unsigned lane) {
    uint32_t copies = inst.imm < 0 ? warp.issuedCopies : 0;
    int64_t left = inst.imm;
    for (auto it = warp.commits.rbegin(); it != warp.commits.rend(); ++it)
      if ((it->lanes >> lane & 1) && left-- == 0)
        copies = it->copies;
    if (copies)
      learnAgent(warp, 1u << lane, AsyncAgent::copiesOf(warp.index), 1 + lane,
                 copies);
  });
}

/// A warp has ended. Copies that nobody waited for arrive by themselves, but
/// for those that an mbarrier will still hear of.
void Machine::endCopies(Warp &warp) {
  for (AsyncCopy &copy : warp.copies) {
    uint32_t awaited = 0;
    if (cta->async)
      for (const CopyArrival &arrival : cta->async->arrivals)
        if (arrival.warp == warp.index && copy.number <= arrival.copies)
          awaited |= arrival.lanes;
    transfer(copy, copy.lanes & ~awaited);
    copy.lanes &= awaited;
  }
  dropCompleted(warp.copies);
}

//===----------------------------------------------------------------------===//
// Arrivals at mbarriers
//===----------------------------------------------------------------------===//

/// Makes room for an arrival of a lane, or takes one of those that a phase
/// expects; false if there is none left.
bool Machine::expectArrival(Warp &warp, const Inst &inst, unsigned lane,
                            Mbarrier &barrier, uint64_t address) {
  checkArrivalPhase(warp, inst, lane, barrier, address);
  const bool isCounted = inst.aux & MbarrierNoIncrement;
  if (isCounted ? barrier.missing() > 0 : barrier.pending < maxMbarrierCount) {
    barrier.pending += !isCounted;
    return true;
  }
  find(
      FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
      [&] {
        const std::string where = "the mbarrier at " + nameShared(address, 8);
        return isCounted
                   ? Text{"arrives behind cp.async at " + where +
                              ", of which 0 of " +
                              std::to_string(barrier.expected) +
                              " arrivals are missing in phase " +
                              std::to_string(barrier.phase),
                          "with .noinc each arrival must be one of those that "
                          "were given at init (PTX ISA 9.7.13.15.15)"}
                   : Text{"raises the pending count of " + where + " to " +
                              std::to_string(barrier.pending + 1),
                          "an mbarrier counts 1 to 1048575 arrivals (PTX ISA "
                          "9.7.13.15.1)"};
      },
      address, 8);
  return false;
}

/// Operand: the address.
void Machine::arriveBehindCopies(Warp &warp, const Inst &inst, uint32_t lanes) {
  std::deque<CopyArrival> &arrivals = cta->async->arrivals;
  std::vector<CopyArrival> mine; // one for each mbarrier
  const uint64_t *addresses =
      warp.reg<uint64_t>(program.operands[inst.firstOperand]);
  forEachLane(lanes, [&](unsigned lane) {
    const uint64_t address = addresses[lane];
    if (!isBulkShared(warp, inst, lane, address, 8, 8))
      return;
    Mbarrier *barrier = findMbarrier(warp, inst, lane, address);
    if (!barrier || !expectArrival(warp, inst, lane, *barrier, address))
      return;
    ++barrier->coming;
    auto it =
        std::find_if(mine.begin(), mine.end(), [&](const CopyArrival &one) {
          return one.mbarrier == address;
        });
    if (it == mine.end())
      it = mine.insert(it, {address, warp.index, 0, warp.issuedCopies, {}});
    it->lanes |= 1u << lane;
    notePhases(*it, warp, lane);
  });
  ++changes;
  for (CopyArrival &arrival : mine) {
    Mbarrier &barrier = cta->async->mbarriers.at(arrival.mbarrier);
    if (isEager()) {
      completeArrival(arrival);
      settle(barrier, arrival.mbarrier);
      continue;
    }
    if (barrier.missing() <= 0)
      wakeMbarrier(arrival.mbarrier);
    arrivals.push_back(std::move(arrival));
  }
  // A kernel that never waits must not take memory without bound.
  while (arrivals.size() > maxArrivals)
    deliver(arrivals.front().mbarrier);
  if (ordersAsync())
    warp.clock.startEpoch();
}

void Machine::completeArrival(const CopyArrival &arrival) {
  Warp &warp = cta->warps[arrival.warp];
  for (AsyncCopy &copy : warp.copies)
    if (copy.number <= arrival.copies)
      complete(warp, copy, copy.lanes & arrival.lanes);
  dropCompleted(warp.copies);
  Mbarrier &barrier = cta->async->mbarriers.at(arrival.mbarrier);
  const int64_t count = std::popcount(arrival.lanes);
  barrier.pending -= count;
  barrier.coming -= count;
  barrier.arriver = Mbarrier::several; // nobody knows of the end but by a wait
  giveCopies(barrier.arriving, arrival);
}

/// The mbarrier is none any more.
void Machine::dropArrivals(uint64_t mbarrier) {
  std::erase_if(cta->async->arrivals, [&](const CopyArrival &arrival) {
    return arrival.mbarrier == mbarrier;
  });
}
