//===- Mbarrier.cpp - mbarriers, and lanes that wait ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.7.13.15. A phase is complete when no arrival is missing and all
// bytes that were expected have come. Its state lies beside shared memory,
// whose bytes at the address of an mbarrier nobody may look at.
//
// try_wait may take its time: lanes for which it would fail are set aside until
// the phase is complete. It may also fail at last, and a kernel may do
// something else then: when nothing else can run, all waits fail, a number of
// times in a row; what still waits then is a deadlock. A test_wait that fails
// ends the turn of its warp.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>

using namespace flashcore::emu;

/// Waits that fail in a row with no arrival in between.
static constexpr unsigned maxGiveUps = 64;

static MbarrierOp opOf(const Inst &inst) {
  return static_cast<MbarrierOp>(inst.mode);
}

Machine::Step Machine::asyncProxy(Warp &warp, const Inst &inst,
                                  uint32_t lanes) {
  if (inst.aligned && waitForLanes(warp, inst, lanes, ~0u) == Step::Blocked)
    return Step::Blocked;
  // Lanes that waited here may have been joined by others.
  std::erase_if(cta->async->waiters, [&](const AsyncWaiter &waiter) {
    return waiter.warp == warp.index && waiter.pc == pcOf(inst);
  });
  switch (inst.kind) {
  case InstKind::Elect:
    elect(warp, inst, lanes);
    return Step::Next;
  case InstKind::Mbarrier:
    return mbarrier(warp, inst, lanes);
  case InstKind::CpAsyncArrive:
    arriveBehindCopies(warp, inst, lanes);
    return Step::Next;
  case InstKind::BulkCopy:
    bulkCopy(warp, inst, lanes);
    return Step::Next;
  case InstKind::BulkCommit:
    forEachLane(lanes, [&](unsigned lane) {
      ++cta->async->bulk[warp.index * warpSize + lane].committed;
    });
    return Step::Next;
  case InstKind::BulkWait:
    bulkWait(warp, inst, lanes);
    return Step::Next;
  case InstKind::ProxyFence:
    fenceProxy(warp, lanes);
    return Step::Next;
  case InstKind::Wgmma:
    wgmma(warp, inst);
    return Step::Next;
  case InstKind::WgmmaFence:
    cta->async->warps[warp.index].hasFence = true;
    return Step::Next;
  case InstKind::WgmmaCommit: {
    AsyncWarp &mine = cta->async->warps[warp.index];
    mine.groups.push_back(mine.committed = mine.issued);
    return Step::Next;
  }
  case InstKind::WgmmaWait:
    return waitForProducts(warp, inst, lanes);
  default:
    return setMaxRegisters(warp, inst, lanes);
  }
}

/// The lowest lane of the membermask leads. The ISA leaves open which one.
void Machine::elect(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t leaders = 0;
  forEachLane(lanes, [&](unsigned lane) {
    uint32_t members = warp.reg<uint32_t>(ops[2])[lane];
    uint32_t leader = static_cast<uint32_t>(std::countr_zero(members));
    warp.reg<uint32_t>(ops[0])[lane] = leader;
    leaders |= leader == lane ? 1u << lane : 0u;
  });
  setPredicate(warp, ops[1], leaders, lanes);
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

/// Sets the lanes aside; they come back to this instruction.
Machine::Step Machine::waitHere(Warp &warp, uint32_t lanes,
                                const AsyncWaiter &waiter) {
  splitGuarded(warp, lanes);
  current(warp).state = LaneGroup::State::AtWait;
  cta->async->waiters.push_back(waiter);
  return Step::Blocked;
}

void Machine::resume(const AsyncWaiter &waiter, bool gaveUp) {
  ++changes;
  for (LaneGroup &group : cta->warps[waiter.warp].groups)
    if (group.state == LaneGroup::State::AtWait && group.pc == waiter.pc) {
      group.state = LaneGroup::State::Ready;
      group.forced = gaveUp;
    }
}

template <typename F> void Machine::wake(F isMet) {
  std::erase_if(cta->async->waiters, [&](const AsyncWaiter &waiter) {
    bool met = isMet(waiter);
    if (met)
      resume(waiter, /*gaveUp=*/false);
    return met;
  });
}

void Machine::wakeAll(AsyncWaiter::Kind kind) {
  wake([&](const AsyncWaiter &waiter) { return waiter.kind == kind; });
}

void Machine::wakeMbarrier(uint64_t address) {
  wake([&](const AsyncWaiter &waiter) {
    return waiter.kind == AsyncWaiter::Kind::Mbarrier &&
           waiter.object == address;
  });
}

/// Nothing else can run: lets each try_wait fail. False if that was tried often
/// enough, or nobody waits so.
bool Machine::endWaits(Cta &owner) {
  if (!owner.async || owner.async->giveUps >= maxGiveUps)
    return false;
  ++owner.async->giveUps;
  cta = &owner;
  bool any = false;
  std::erase_if(owner.async->waiters, [&](const AsyncWaiter &waiter) {
    bool mayFail = waiter.kind == AsyncWaiter::Kind::Mbarrier;
    if (mayFail)
      resume(waiter, /*gaveUp=*/true);
    any |= mayFail;
    return mayFail;
  });
  return any;
}

/// "phase 3 (parity 1) of the mbarrier at byte 8 of 'bars' (64 bytes), of which
/// 1 of 2 arrivals and 16384 bytes are missing".
std::string Machine::describeWait(const AsyncWaiter &waiter) const {
  const AsyncState &async = *cta->async;
  if (waiter.kind == AsyncWaiter::Kind::Product)
    return "a wgmma that not all warps of its warpgroup have issued";
  if (waiter.kind == AsyncWaiter::Kind::Registers)
    return std::to_string(waiter.object) + " registers, of which " +
           std::to_string(async.freeRegisters) + " are free";
  std::string text = "phase " + std::to_string(waiter.phase) + " (parity " +
                     std::to_string(waiter.phase & 1) +
                     ") of the mbarrier at " + nameShared(waiter.object, 8);
  auto it = async.mbarriers.find(waiter.object);
  if (it == async.mbarriers.end())
    return text + ", which is gone";
  const Mbarrier &barrier = it->second;
  text += ", of which " + std::to_string(barrier.missing()) + " of " +
          std::to_string(barrier.expected) + " arrivals are missing";
  if (barrier.bytes > 0)
    text += " and " + std::to_string(barrier.bytes) + " bytes have not come";
  if (barrier.bytes < 0)
    text += " and " + std::to_string(-barrier.bytes) +
            " bytes more have come than were expected";
  return text;
}

void Machine::reportWaits(Cta &owner) {
  cta = &owner;
  std::sort(owner.async->waiters.begin(), owner.async->waiters.end(),
            [](const AsyncWaiter &a, const AsyncWaiter &b) {
              return a.warp < b.warp;
            });
  for (const AsyncWaiter &waiter : owner.async->waiters) {
    if (!isOn(CheckSync))
      continue;
    FindingKind kind = waiter.kind == AsyncWaiter::Kind::Registers
                           ? FindingKind::InvalidRegisterCount
                           : FindingKind::Deadlock;
    find(kind, owner.warps[waiter.warp], program.code[waiter.pc], waiter.lanes,
         [&] {
           std::string warps;
           for (const AsyncWaiter &other : owner.async->waiters)
             if (other.pc == waiter.pc && other.object == waiter.object)
               warps += (warps.empty() ? "" : ", ") + std::string("warp ") +
                        std::to_string(other.warp);
           bool isOne = warps.find(',') == warps.npos;
           return Text{warps + (isOne ? " waits for " : " wait for ") +
                           describeWait(waiter) + ", and nothing else can run",
                       waiter.kind == AsyncWaiter::Kind::Registers
                           ? "setmaxnreg.inc waits until the pool of the CTA "
                             "has the registers (PTX ISA 9.7.19.5)"
                           : "what a thread waits for must be done by one that "
                             "runs (PTX ISA 9.7.13.15, 9.7.15.7)"};
         });
  }
}

//===----------------------------------------------------------------------===//
// The state of an mbarrier
//===----------------------------------------------------------------------===//

bool Machine::isOnMbarrier(uint64_t address, uint64_t bytes) const {
  const std::map<uint64_t, Mbarrier> &all = cta->async->mbarriers;
  auto it = all.upper_bound(address + bytes - 1);
  return it != all.begin() && std::prev(it)->first + 8 > address;
}

void Machine::initMbarrier(Warp &warp, const Inst &inst, unsigned lane,
                           uint64_t address, uint32_t count) {
  AsyncState &async = *cta->async;
  bool isTaken = isOnMbarrier(address, 8);
  if (isTaken || count < 1 || count > maxMbarrierCount)
    find(
        FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
        [&] {
          return isTaken
                     ? Text{"mbarrier.init at " + nameShared(address, 8) +
                                ", where an mbarrier is",
                            "mbarrier.inval must come first (PTX ISA "
                            "9.7.13.15.9)"}
                     : Text{"mbarrier.init for " + std::to_string(count) +
                                " arrivals",
                            "an mbarrier counts 1 to 1048575 arrivals (PTX ISA "
                            "9.7.13.15.1)"};
        },
        address, 8);
  dropArrivals(address);
  Mbarrier &barrier = async.mbarriers[address];
  barrier = Mbarrier();
  barrier.expected = std::max(1u, count);
  barrier.pending = barrier.expected;
  barrier.agent = AsyncAgent::mbarrier(async.numMbarriers++);
  if (!ordersAsync())
    return;
  startSegment(warp);
  barrier.init = AccessWord(warp.clock.segment, pcOf(inst), lane);
}

/// The mbarrier that an operation names; null after a finding.
Mbarrier *Machine::findMbarrier(Warp &warp, const Inst &inst, unsigned lane,
                                uint64_t address) {
  auto it = cta->async->mbarriers.find(address);
  if (it != cta->async->mbarriers.end()) {
    Mbarrier &barrier = it->second;
    if (barrier.init && !segments.isOrdered(barrier.init, warp.clock, lane) &&
        isOn(CheckRace))
      find(
          FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
          [&] {
            return Text{"uses the mbarrier at " + nameShared(address, 8) +
                            " with no synchronisation after its init at line " +
                            lineOf(barrier.init.pc()),
                        "other threads than the one that executes "
                        "mbarrier.init need a barrier behind it (PTX ISA 8.9)"};
          },
          address, 8);
    return &barrier;
  }
  find(
      FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
      [&] {
        return Text{"there is no mbarrier at " + nameShared(address, 8),
                    "mbarrier.init must come first, and a barrier between it "
                    "and other threads (PTX ISA 9.7.13.15.9)"};
      },
      address, 8);
  return nullptr;
}

/// Completes the phase if nothing is missing, and wakes those that waited.
void Machine::settle(Mbarrier &barrier, uint64_t address) {
  cta->async->giveUps = 0;
  ++changes;
  bool isOver = barrier.pending <= 0 && barrier.bytes == 0;
  if (isOver) {
    ++barrier.phase;
    barrier.pending = barrier.expected;
    barrier.arriver = Mbarrier::nobody;
    Released &complete = barrier.complete;
    complete.known = joined(complete.known, barrier.arriving.known);
    complete.proxied = joined(complete.proxied, barrier.arriving.proxied);
    if (ordersAsync())
      complete.known = Clock::with(
          complete.known, {AsyncAgent::cta(cta->index),
                           Clock::allLanes(barrier.agent), barrier.phase});
    barrier.arriving = {};
  }
  // Bytes and arrivals that only wait for somebody who waits for them.
  if (isOver || barrier.missing() <= 0)
    wakeMbarrier(address);
}

void Machine::addBytes(Warp &warp, const Inst &inst, unsigned lane,
                       Mbarrier &barrier, uint64_t address, int64_t bytes) {
  barrier.bytes += bytes;
  if (barrier.bytes >= -maxMbarrierCount && barrier.bytes <= maxMbarrierCount)
    return;
  find(
      FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
      [&] {
        return Text{"the tx-count of the mbarrier at " +
                        nameShared(address, 8) + " becomes " +
                        std::to_string(barrier.bytes),
                    "a tx-count is from -1048575 to 1048575 (PTX ISA "
                    "9.7.13.15.1)"};
      },
      address, 8);
  barrier.bytes = 0;
}

/// A lane arrives in another phase than the first: had it come a little
/// earlier, would it have counted for the one before?
void Machine::checkArrivalPhase(Warp &warp, const Inst &inst, unsigned lane,
                                const Mbarrier &barrier, uint64_t address) {
  if (!barrier.phase || !isOn(CheckRace))
    return;
  ClockPtr known = knownOf(warp.clock, lane);
  if (known && known->covers(AsyncAgent::cta(cta->index), barrier.agent, lane,
                             barrier.phase))
    return;
  find(
      FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
      [&] {
        return Text{"arrives at the mbarrier at " + nameShared(address, 8) +
                        " in phase " + std::to_string(barrier.phase) +
                        ", but nothing orders it behind the end of phase " +
                        std::to_string(barrier.phase - 1) +
                        ", for which it may count as well",
                    "an arrival counts for the phase that is current, so who "
                    "arrives again must know of the end of the one before, by "
                    "a wait (PTX ISA 9.7.13.15)"};
      },
      address, 8);
}

void Machine::arriveAt(Warp &warp, const Inst &inst, unsigned lane,
                       Mbarrier &barrier, uint64_t address, uint32_t count) {
  const uint32_t missing = static_cast<uint32_t>(barrier.missing());
  if (count < 1 || count > missing)
    find(
        FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
        [&] {
          return Text{"arrives " + std::to_string(count) +
                          " times at the mbarrier at " +
                          nameShared(address, 8) + ", of which " +
                          std::to_string(missing) + " of " +
                          std::to_string(barrier.expected) +
                          " arrivals are missing in phase " +
                          std::to_string(barrier.phase),
                      "a phase takes as many arrivals as were given at init "
                      "(PTX ISA 9.7.13.15.12)"};
        },
        address, 8);
  checkArrivalPhase(warp, inst, lane, barrier, address);
  const uint32_t thread = 1 + warp.index * warpSize + lane;
  barrier.arriver =
      barrier.arriver == Mbarrier::nobody || barrier.arriver == thread
          ? thread
          : Mbarrier::several;
  if (ordersAsync() && inst.isRelease)
    giveTo(barrier.arriving, warp, lane);
  barrier.pending -= std::min(count, missing);
  if ((inst.aux & MbarrierNoComplete) && barrier.pending == 0 &&
      barrier.bytes == 0)
    find(FindingKind::InvalidMbarrier, warp, inst, 1u << lane, [&] {
      return Text{"mbarrier.arrive.noComplete completes phase " +
                      std::to_string(barrier.phase),
                  "it must not be the last arrival of a phase (PTX ISA "
                  "9.7.13.15.12)"};
    });
}

void Machine::invalidate(Warp &warp, const Inst &inst, unsigned lane,
                         const Mbarrier &barrier, uint64_t address) {
  if (barrier.coming)
    find(
        FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
        [&] {
          return Text{"mbarrier.inval at " + nameShared(address, 8) +
                          ", at which " + std::to_string(barrier.coming) +
                          " arrivals of cp.async.mbarrier.arrive have not come",
                      "a wait for their phase must come first (PTX ISA "
                      "9.7.13.15.3)"};
        },
        address, 8);
  dropArrivals(address);
  cta->async->mbarriers.erase(address);
}

/// All operations but the waits, of one lane.
void Machine::updateMbarrier(Warp &warp, const Inst &inst, unsigned lane) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint64_t address = warp.reg<uint64_t>(ops[1])[lane];
  const MbarrierOp op = opOf(inst);
  if (!isBulkShared(warp, inst, lane, address, 8, 8))
    return;
  const uint32_t count = warp.reg<uint32_t>(ops[2])[lane];
  if (op == MbarrierOp::Init)
    return initMbarrier(warp, inst, lane, address, count);
  Mbarrier *barrier = findMbarrier(warp, inst, lane, address);
  if (!barrier)
    return;
  if (op == MbarrierOp::Inval)
    return invalidate(warp, inst, lane, *barrier, address);
  if (op == MbarrierOp::ExpectTx || op == MbarrierOp::CompleteTx) {
    int64_t bytes = count;
    addBytes(warp, inst, lane, *barrier, address,
             op == MbarrierOp::ExpectTx ? bytes : -bytes);
    return settle(*barrier, address);
  }
  addBytes(warp, inst, lane, *barrier, address,
           warp.reg<uint32_t>(ops[3])[lane]);
  uint64_t state =
      uint64_t(barrier->phase) << 32 | static_cast<uint32_t>(barrier->pending);
  arriveAt(warp, inst, lane, *barrier, address, count);
  if (op == MbarrierOp::ArriveDrop)
    barrier->expected -= std::min(count, barrier->expected - 1);
  if (ops[0] != sinkGranule)
    warp.reg<uint64_t>(ops[0])[lane] = state;
  // Who makes all arrivals of a phase knows of its end without a wait.
  const uint32_t phase = barrier->phase;
  const bool isAlone = barrier->arriver != Mbarrier::several;
  settle(*barrier, address);
  if (barrier->phase != phase && isAlone)
    learnAgent(warp, 1u << lane, barrier->agent, 0, barrier->phase);
}

Machine::Step Machine::mbarrier(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  MbarrierOp op = opOf(inst);
  if (op == MbarrierOp::TestWait || op == MbarrierOp::TryWait)
    return waitForPhase(warp, inst, lanes);
  forEachLane(lanes, [&](unsigned lane) {
    // The state has the arrivals that were missing in its low half.
    if (op == MbarrierOp::PendingCount)
      warp.reg<uint32_t>(ops[0])[lane] =
          static_cast<uint32_t>(warp.reg<uint64_t>(ops[2])[lane]);
    else
      updateMbarrier(warp, inst, lane);
  });
  if (ordersAsync())
    warp.clock.startEpoch();
  return Step::Next;
}

/// Whether the phase that a lane waits for is complete.
static bool isOver(const Mbarrier &barrier, const Inst &inst, uint32_t parity,
                   uint64_t state) {
  return inst.aux & MbarrierParity ? (barrier.phase & 1) != (parity & 1)
                                   : barrier.phase != state >> 32;
}

/// test_wait and try_wait. One for no mbarrier has been reported and succeeds.
Machine::Step Machine::waitForPhase(Warp &warp, const Inst &inst,
                                    uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint64_t *addresses = warp.reg<uint64_t>(ops[1]);
  Mbarrier *barriers[warpSize] = {};
  uint32_t done = 0;
  bool isOne = true;
  AsyncWaiter waiter{
      AsyncWaiter::Kind::Mbarrier, warp.index, pcOf(inst), lanes, 0, 0};
  const unsigned first = static_cast<unsigned>(std::countr_zero(lanes));
  forEachLane(lanes, [&](unsigned lane) {
    Mbarrier *barrier = barriers[lane] =
        findMbarrier(warp, inst, lane, addresses[lane]);
    isOne &= barrier == barriers[first];
    auto isMet = [&] {
      return !barrier ||
             isOver(*barrier, inst, warp.reg<uint32_t>(ops[2])[lane],
                    warp.reg<uint64_t>(ops[2])[lane]);
    };
    if (!isMet() && barrier->missing() <= 0)
      deliver(addresses[lane]);
    if (isMet()) {
      done |= 1u << lane;
    } else {
      waiter.object = addresses[lane];
      waiter.phase = barrier->phase;
    }
  });
  const bool gaveUp = current(warp).forced;
  current(warp).forced = false;
  if (!done && opOf(inst) == MbarrierOp::TryWait && !gaveUp)
    return waitHere(warp, lanes, waiter);
  if (done && inst.isAcquire && ordersAsync()) {
    if (isOne && barriers[first])
      takeFrom(warp, done, barriers[first]->complete);
    else
      forEachLane(done, [&](unsigned lane) {
        if (barriers[lane])
          takeFrom(warp, 1u << lane, barriers[lane]->complete);
      });
  }
  setPredicate(warp, ops[0], done, lanes);
  if (done || opOf(inst) != MbarrierOp::TestWait)
    return Step::Next;
  if (spin)
    spin->lastRead = {pcOf(inst), first, StateSpace::Shared, waiter.object,
                      8,          true,  waiter.phase};
  if (spin && !spin->isOfCta)
    return Step::Next;
  // It may well come back at once, for as long as nobody else gets a turn.
  givesWay = true;
  ++current(warp).pc;
  return Step::Blocked;
}
