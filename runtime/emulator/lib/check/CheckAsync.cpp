//===- CheckAsync.cpp - Order between threads and the async proxy ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a bulk copy or a product does to shared memory happens after all that
// the thread knows which issues it, and before all that follows a wait for it
// (AsyncProxy.h). What threads have written the async proxy sees only if a
// fence.proxy.async stands on the way from the write to the issue (PTX ISA
// 8.6, 8.9.5), made by the one who wrote or by one who knows of the write.
//
// A register of a product in flight counts as undefined in all lanes, so that
// whoever reads it comes here, and a write shows when the product is waited
// for.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// What threads know
//===----------------------------------------------------------------------===//

/// Adds the accesses of a lane, or of the warp, up to an epoch.
static ClockPtr withOwn(const ClockPtr &known, const WarpClock &clock,
                        unsigned lane, uint32_t epoch) {
  if (!epoch)
    return known;
  uint32_t threads = lane == severalLanes ? Clock::allLanes(clock.warp)
                                          : Clock::oneLane(clock.warp, lane);
  return Clock::with(known, {clock.cta, threads, epoch});
}

/// What proxy fences have covered on the way to what a lane does now.
ClockPtr Machine::proxiedOf(const WarpClock &clock, unsigned lane) {
  auto with = [&](const FencedClock &fenced) {
    return withOwn(fenced.clock, clock, lane, fenced.own);
  };
  ClockPtr all = with(clock.all.proxied);
  return clock.lanes && lane != severalLanes
             ? joined(all, with((*clock.lanes)[lane].proxied))
             : all;
}

/// Whether a proxy fence stands between a write of a thread and an issue of
/// this lane; that the two are in order is known.
bool Machine::isProxied(AccessWord write, const WarpClock &clock,
                        unsigned lane) const {
  const Segment &segment = segments[write.segment()];
  auto covers = [&](const FencedClock &fenced) {
    if (segment.cta == clock.cta && segment.warp == clock.warp &&
        segment.epoch <= fenced.own)
      return true;
    return fenced.clock && fenced.clock->covers(segment.cta, segment.warp,
                                                write.lane(), segment.epoch);
  };
  if (covers(clock.all.proxied))
    return true;
  if (!clock.lanes)
    return false;
  if (lane != severalLanes)
    return covers((*clock.lanes)[lane].proxied);
  bool all = true;
  forEachLane(clock.threads, [&](unsigned one) {
    all = all && covers((*clock.lanes)[one].proxied);
  });
  return all;
}

void Machine::fenceProxy(Warp &warp, uint32_t lanes) {
  if (!ordersAsync())
    return;
  WarpClock &clock = warp.clock;
  if (lanes == warp.live && !clock.lanes)
    clock.all.proxied = {knownOf(clock, severalLanes), clock.latest()};
  else
    forEachLane(lanes, [&](unsigned lane) {
      clock.of(lane).proxied = {knownOf(clock, lane), clock.latest()};
    });
  clock.startEpoch();
}

/// A lane arrives at an mbarrier with release semantics.
void Machine::giveTo(Released &released, Warp &warp, unsigned lane) {
  WarpClock &clock = warp.clock;
  released.known = joined(released.known, withOwn(knownOf(clock, lane), clock,
                                                  lane, clock.latest()));
  released.proxied = joined(released.proxied, proxiedOf(clock, lane));
}

/// A lane arrives at an mbarrier behind its copies: what it did itself goes
/// with mbarrier.arrive only, but a phase that it saw end has ended.
void Machine::notePhases(CopyArrival &arrival, Warp &warp, unsigned lane) {
  if (ordersAsync())
    arrival.phases =
        joined(arrival.phases, Clock::ofOne(knownOf(warp.clock, lane),
                                            AsyncAgent::cta(cta->index)));
}

/// The copies that lanes had issued are done.
void Machine::giveCopies(Released &released, const CopyArrival &arrival) {
  if (!ordersAsync())
    return;
  released.known = joined(released.known, arrival.phases);
  if (!arrival.copies)
    return;
  const uint32_t agent = AsyncAgent::copiesOf(arrival.warp);
  auto give = [&](uint32_t threads) {
    released.known = Clock::with(
        released.known, {AsyncAgent::cta(cta->index), threads, arrival.copies});
  };
  if (arrival.lanes == cta->warps[arrival.warp].launched)
    return give(Clock::allLanes(agent));
  forEachLane(arrival.lanes,
              [&](unsigned lane) { give(Clock::oneLane(agent, lane)); });
}

/// Lanes have seen a phase complete, with acquire semantics.
void Machine::takeFrom(Warp &warp, uint32_t lanes, const Released &released) {
  auto take = [&](Knowledge &knowledge) {
    knowledge.known = joined(knowledge.known, released.known);
    knowledge.proxied.clock = joined(knowledge.proxied.clock, released.proxied);
  };
  if (lanes == warp.live)
    return take(warp.clock.all);
  forEachLane(lanes, [&](unsigned lane) { take(warp.clock.of(lane)); });
}

/// Lanes have waited for what an agent did up to an epoch.
void Machine::learnAgent(Warp &warp, uint32_t lanes, uint32_t agent,
                         uint32_t threads, uint32_t epoch) {
  if (!ordersAsync())
    return;
  Released released;
  released.known =
      Clock::with(nullptr, {AsyncAgent::cta(cta->index),
                            Clock::allLanes(agent) + threads, epoch});
  takeFrom(warp, lanes, released);
}

//===----------------------------------------------------------------------===//
// Accesses of the async proxy
//===----------------------------------------------------------------------===//

/// Checks and records an access, piece by piece of what a copy or product
/// touches, when it is issued.
void Machine::checkProxyAccess(Warp &warp, const Inst &inst,
                               const ProxyAccess &access) {
  SharedShadow &shadow = cta->shadow;
  const WarpClock &clock = warp.clock;
  size_t first = access.address >> shadow.grainShift;
  size_t last = (access.address + access.bytes - 1) >> shadow.grainShift;
  CellArray<AccessWord> &readers = cta->async->readers[access.reader];
  if (!access.isWrite && !readers)
    readers.reset(shadow.writes.size());
  auto report = [&](AccessWord earlier, bool earlierIsWrite) {
    reportRace(warp, inst, access.owner, access.address, access.bytes, earlier,
               earlierIsWrite, access.isWrite, nullptr);
  };
  // Cells of one tile mostly have the same writer.
  AccessWord good;
  for (size_t cell = first; cell <= last; ++cell) {
    AccessWord write = shadow.writes[cell];
    if (write && write != good) {
      if (write.isAsync() || !segments.isOrdered(write, clock, access.owner))
        report(write, true);
      else if (!AsyncAgent::isOfProxy(segments[write.segment()]) &&
               !isProxied(write, clock, access.owner))
        reportNoProxyFence(warp, inst, access, write);
      good = write;
    }
    if (!access.isWrite) {
      if (readers)
        readers[cell] = access.word;
      continue;
    }
    forEachLane(shadow.readers[cell], [&](unsigned reader) {
      AccessWord read = shadow.reads[reader][cell];
      if (!segments.isOrdered(read, clock, access.owner))
        report(read, false);
    });
    shadow.readers[cell] = 0;
    shadow.writes[cell] = access.word;
  }
  if (access.isWrite)
    checkAsyncReaders(warp, inst, access.owner, access.address, access.bytes);
}

/// A write meets what products and bulk stores read.
void Machine::checkAsyncReaders(Warp &warp, const Inst &inst, unsigned lane,
                                uint64_t address, unsigned bytes) {
  unsigned shift = cta->shadow.grainShift;
  for (CellArray<AccessWord> &cells : cta->async->readers) {
    if (!cells)
      continue;
    AccessWord good;
    for (size_t cell = address >> shift; cell <= (address + bytes - 1) >> shift;
         ++cell) {
      AccessWord read = cells[cell];
      if (!read || read == good)
        continue;
      good = read;
      if (!segments.isOrdered(read, warp.clock, lane))
        reportOverwrite(warp, inst, lane, address, bytes, read);
    }
  }
}

/// Threads access shared memory: mbarriers are not theirs to touch, nor is what
/// is read asynchronously theirs to write.
void Machine::checkBesideAsync(Warp &warp, const Inst &inst,
                               const LaneAccess &access, bool isWrite,
                               bool asWarp) {
  const std::map<uint64_t, Mbarrier> &barriers = cta->async->mbarriers;
  const bool hasBarriers = !barriers.empty();
  const uint64_t first = hasBarriers ? barriers.begin()->first : 0;
  const uint64_t end = hasBarriers ? barriers.rbegin()->first + 8 : 0;
  forEachLane(access.lanes, [&](unsigned lane) {
    uint64_t address = access.address[lane];
    if (isWrite)
      checkAsyncReaders(warp, inst, asWarp ? severalLanes : lane, address,
                        access.bytes);
    if (address >= end || address + access.bytes <= first ||
        !isOnMbarrier(address, access.bytes))
      return;
    find(
        FindingKind::InvalidMbarrier, warp, inst, 1u << lane,
        [&] {
          return Text{std::string(isWrite ? "writes " : "reads ") +
                          nameShared(address, access.bytes) +
                          ", where an mbarrier is",
                      "an mbarrier may be touched by mbarrier operations only, "
                      "until mbarrier.inval (PTX ISA 9.7.13.15.2)"};
        },
        address, access.bytes);
  });
}

void Machine::reportOverwrite(Warp &warp, const Inst &inst, unsigned lane,
                              uint64_t address, unsigned bytes,
                              AccessWord read) {
  if (!isOn(CheckAsync))
    return;
  uint64_t key =
      FindingSet::key(FindingKind::AsyncOverwrite, pcOf(inst), read.pc());
  if (isRepeated(FindingKind::AsyncOverwrite, key))
    return;
  bool isProduct = program.code[read.pc()].kind == InstKind::Wgmma;
  Finding finding;
  finding.kind = FindingKind::AsyncOverwrite;
  finding.place = placeOf(warp, inst, lane < warpSize ? 1u << lane : warp.live);
  finding.address = address;
  finding.bytes = bytes;
  finding.hasOther = true;
  finding.other = placeOf(read);
  finding.otherWhat = isProduct ? "wgmma" : "bulk copy";
  finding.message =
      (inst.kind == InstKind::BulkCopy ? "a bulk copy writes " : "writes ") +
      nameShared(address, bytes) + ", which a " + finding.otherWhat +
      " that has not been waited for may still read";
  finding.rule =
      isProduct ? "wgmma.wait_group must come first, and what it lets be known "
                  "must reach the writer, by an mbarrier or a barrier (PTX ISA "
                  "9.7.15.7)"
                : "cp.async.bulk.wait_group (.read suffices) of the thread "
                  "that issued the copy must come first (PTX ISA 9.7.9.25.4)";
  addFinding(key, std::move(finding));
}

void Machine::reportNoProxyFence(Warp &warp, const Inst &inst,
                                 const ProxyAccess &access, AccessWord write) {
  if (!isOn(CheckAsync))
    return;
  uint64_t key =
      FindingSet::key(FindingKind::MissingProxyFence, pcOf(inst), write.pc());
  if (isRepeated(FindingKind::MissingProxyFence, key))
    return;
  Finding finding;
  finding.kind = FindingKind::MissingProxyFence;
  finding.place = placeOf(
      warp, inst, access.owner < warpSize ? 1u << access.owner : warp.live);
  finding.address = access.address;
  finding.bytes = access.bytes;
  finding.hasOther = true;
  finding.other = placeOf(write);
  finding.otherWhat = "write";
  finding.message =
      std::string(inst.kind == InstKind::Wgmma ? "wgmma" : "a bulk copy") +
      (access.isWrite ? " writes " : " reads ") +
      nameShared(access.address, access.bytes) +
      ", which a thread has written, with no fence.proxy.async in between";
  finding.rule = "fence.proxy.async must stand between what threads write and "
                 "what the async proxy does there, of the writer or of one "
                 "that is ordered behind it (PTX ISA 8.6, 8.9.5)";
  addFinding(key, std::move(finding));
}

/// What a bulk store writes to global memory was recorded as a write of its
/// thread, but it is there only after a wait for its group.
void Machine::handToStores(Warp &warp, Buffer &buffer, const BulkCopy &copy,
                           uint64_t address, uint64_t bytes) {
  GlobalShadow &shadow = globalShadows[memory.indexOf(buffer)];
  if (!shadow.writes)
    return;
  const AccessWord issued(warp.clock.segment, copy.pc, copy.lane);
  const AccessWord stored(segments.add({AsyncAgent::cta(cta->index),
                                        AsyncAgent::storesOf(warp.index),
                                        copy.group + 1, warp.index}),
                          copy.pc, copy.lane);
  const uint64_t offset = address - buffer.base;
  for (size_t cell = offset >> shadow.grainShift;
       cell <= (offset + bytes - 1) >> shadow.grainShift; ++cell)
    if (shadow.writes[cell] == issued)
      shadow.writes[cell] = stored;
}

/// What a load wrote is there: from now on it happened before whatever follows
/// a wait for its agent.
void Machine::publishBulk(const BulkCopy &copy, uint32_t epoch,
                          uint32_t agent) {
  if (!ordersAsync())
    return;
  uint32_t number =
      segments.add({AsyncAgent::cta(cta->index), agent, epoch, copy.warp});
  SharedShadow &shadow = cta->shadow;
  const AccessWord done(number, copy.pc, severalLanes);
  for (const BulkCopy::Piece &piece : copy.pieces)
    for (size_t cell = piece.shared >> shadow.grainShift;
         cell <= (piece.shared + 15) >> shadow.grainShift; ++cell)
      if (shadow.writes[cell] == copy.pending)
        shadow.writes[cell] = done;
}

//===----------------------------------------------------------------------===//
// Registers of products
//===----------------------------------------------------------------------===//

static constexpr const char *registerRule =
    "the registers of a wgmma may be touched after a wgmma.wait_group for its "
    "group only, but for accumulators by products of the same shape (PTX ISA "
    "9.7.15.7)";

/// A register goes to a product.
void Machine::takeRegister(Warp &warp, const Inst &inst, uint32_t granule,
                           uint32_t number, bool isAccumulator) {
  if (!isOn(CheckInit))
    return;
  AsyncWarp &mine = cta->async->warps[warp.index];
  uint8_t columns = isAccumulator ? inst.vectorLength : 0;
  auto [it, isNew] = mine.inFlight.try_emplace(granule);
  RegisterInFlight &taken = it->second;
  if (!isNew && (taken.columns != columns || warp.defined[granule]))
    find(FindingKind::RegisterInFlight, warp, inst, warp.live, [&] {
      return Text{
          "takes " + describeOperand(granule) +
              (warp.defined[granule]
                   ? ", which was written while the wgmma at line "
                   : ", which belongs in another way to the wgmma at line ") +
              lineOf(taken.pc) + " was in flight",
          registerRule};
    });
  if (isNew || warp.defined[granule])
    taken.defined = warp.defined[granule];
  taken.product = number;
  taken.pc = pcOf(inst);
  taken.columns = columns;
  warp.defined[granule] = 0;
}

/// The registers of products up to one are the warp's again.
void Machine::giveBack(Warp &warp, const Inst &inst, uint32_t upTo) {
  auto &inFlight = cta->async->warps[warp.index].inFlight;
  for (auto it = inFlight.begin(); it != inFlight.end();) {
    const auto &[granule, taken] = *it;
    if (taken.product > upTo) {
      ++it;
      continue;
    }
    if (uint32_t written = warp.defined[granule]; written && isOn(CheckAsync))
      find(FindingKind::RegisterInFlight, warp, inst, written,
           [&, g = granule, pc = taken.pc] {
             return Text{describeOperand(g) +
                             " was written while the wgmma at line " +
                             lineOf(pc) + ", which has it, was in flight",
                         registerRule};
           });
    warp.defined[granule] |= taken.defined;
    it = inFlight.erase(it);
  }
}

/// Some source is undefined, perhaps because a product has it; true if that was
/// all.
bool Machine::touchInFlight(Warp &warp, const Inst &inst, uint32_t lanes) {
  auto &inFlight = cta->async->warps[warp.index].inFlight;
  if (inFlight.empty())
    return false;
  const uint32_t *sources =
      program.operands.data() + inst.firstOperand + inst.numDsts;
  uint32_t held = lanes;
  for (unsigned i = 0; i < inst.numSrcs; held &= warp.defined[sources[i++]]) {
    auto it = inFlight.find(sources[i]);
    if (it == inFlight.end())
      continue;
    if (isOn(CheckAsync))
      find(FindingKind::RegisterInFlight, warp, inst, warp.live, [&] {
        return Text{"reads " + describeOperand(sources[i]) +
                        ", which the wgmma at line " + lineOf(it->second.pc) +
                        " has until it is waited for",
                    registerRule};
      });
    // What has been reported is not reported again.
    warp.defined[sources[i]] = ~0u;
    inFlight.erase(it);
  }
  return held == lanes;
}
