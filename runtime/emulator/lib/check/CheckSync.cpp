//===- CheckSync.cpp - Fences, releases, acquires and barriers ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What synchronises threads (PTX ISA 8.7 to 8.9):
//
//   release pattern   a release at M, or a fence and then a strong write of M
//   acquire pattern   an acquire at M, or a strong read of M and then a fence
//
// The first synchronises with the second if the read sees the write, directly
// or through atomics at M, and if the scopes of both include the other thread.
// Barriers pass on all that their threads know. They pass on what was fenced or
// seen as well, so that one thread may fence for others that it meets at a
// barrier: between the writes of a CTA and the atomic of its first thread, and
// between that atomic and the reads of the others.
//
//===----------------------------------------------------------------------===//

#include "../sim/Machine.h"

#include <algorithm>

using namespace flashcore::emu;

static constexpr size_t minSegmentLimit = size_t(1) << 20;
/// CTAs that have ended of which a clock knows by thread.
static constexpr size_t keptCtas = 64;

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

std::vector<uint32_t> Machine::runningCtas() const {
  std::vector<uint32_t> running;
  for (const Cta &one : resident) {
    running.push_back(one.index);
    if (one.async)
      running.push_back(AsyncAgent::cta(one.index));
  }
  std::sort(running.begin(), running.end());
  return running;
}

/// Both, within bounds. What a thread knows by one scope it mostly knows by the
/// other, so the last answer is kept: equal clocks are then one, which is all
/// that the next join looks at.
ClockPtr Machine::joined(const ClockPtr &a, const ClockPtr &b) {
  if (!a || !b || a == b)
    return a ? a : b;
  if (lastJoin.a == a && lastJoin.b == b)
    return lastJoin.both;
  ClockPtr both = Clock::join(a, b);
  if (both->numCtas() > keptCtas + resident.size())
    both = Clock::fold(both, keptCtas / 2, runningCtas());
  lastJoin = {a, b, both};
  return both;
}

/// What a lane knows, but for what it did itself; of severalLanes, what all
/// lanes know.
ClockPtr Machine::knownOf(WarpClock &clock, unsigned lane) {
  if (clock.sumOf != clock.known || clock.sumWith != clock.all.known) {
    clock.sumOf = clock.known;
    clock.sumWith = clock.all.known;
    clock.sum = joined(Clock::ofCta(clock.cta, clock.known), clock.all.known);
  }
  return clock.lanes && lane != severalLanes
             ? joined(clock.sum, (*clock.lanes)[lane].known)
             : clock.sum;
}

/// Adds the accesses of a lane up to an epoch, unless it is 0.
static ClockPtr withLane(const ClockPtr &known, const WarpClock &clock,
                         unsigned lane, uint32_t epoch) {
  if (!epoch)
    return known;
  return Clock::with(known,
                     {clock.cta, Clock::oneLane(clock.warp, lane), epoch});
}

/// What fences let a strong write of this lane release.
ClockPtr Machine::fencedOf(const WarpClock &clock, unsigned scope,
                           unsigned lane) {
  const FencedClock &all = clock.all.fenced[scope];
  if (!clock.lanes)
    return withLane(all.clock, clock, lane, all.own);
  const FencedClock &own = (*clock.lanes)[lane].fenced[scope];
  return withLane(joined(all.clock, own.clock), clock, lane,
                  std::max(all.own, own.own));
}

/// Whether the last fences of a lane count for all scopes.
static bool hasOneFence(const WarpClock &clock, unsigned lane) {
  auto isOne = [](const Knowledge &knowledge) {
    return knowledge.fenced[0] == knowledge.fenced[1];
  };
  return isOne(clock.all) && (!clock.lanes || isOne((*clock.lanes)[lane]));
}

void Machine::join(Knowledge &into, const Knowledge &from) {
  into.known = joined(into.known, from.known);
  for (unsigned scope = 0; scope < 2; ++scope) {
    into.fenced[scope].clock =
        joined(into.fenced[scope].clock, from.fenced[scope].clock);
    into.seen[scope] = joined(into.seen[scope], from.seen[scope]);
  }
  into.proxied.clock = joined(into.proxied.clock, from.proxied.clock);
}

/// What some lanes know together.
Knowledge Machine::knowledgeOf(const Warp &warp, uint32_t lanes) {
  const WarpClock &clock = warp.clock;
  Knowledge sum;
  join(sum, clock.all);
  bool isWhole = (warp.live & ~lanes) == 0;
  // Of the accesses of the lanes themselves.
  auto addOwn = [&](ClockPtr &fenced, uint32_t own) {
    if (own && isWhole)
      fenced =
          Clock::with(fenced, {clock.cta, Clock::allLanes(clock.warp), own});
    else
      forEachLane(lanes, [&](unsigned lane) {
        fenced = withLane(fenced, clock, lane, own);
      });
  };
  for (unsigned scope = 0; scope < 2; ++scope)
    addOwn(sum.fenced[scope].clock, clock.all.fenced[scope].own);
  addOwn(sum.proxied.clock, clock.all.proxied.own);
  if (!clock.lanes)
    return sum;
  forEachLane(lanes, [&](unsigned lane) {
    const Knowledge &one = (*clock.lanes)[lane];
    join(sum, one);
    for (unsigned scope = 0; scope < 2; ++scope)
      sum.fenced[scope].clock =
          withLane(sum.fenced[scope].clock, clock, lane, one.fenced[scope].own);
    sum.proxied.clock =
        withLane(sum.proxied.clock, clock, lane, one.proxied.own);
  });
  return sum;
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// All lanes of the warp have met.
void Machine::tick(Warp &warp) {
  WarpClock &clock = warp.clock;
  clock.known[clock.warp] = clock.latest();
  if (clock.all || clock.lanes) {
    clock.all = knowledgeOf(warp, warp.launched);
    clock.all.known = Clock::without(clock.all.known, clock.cta, clock.known);
    clock.lanes.reset();
  }
  clock.startEpoch();
}

/// bar.warp.sync orders the lanes of its mask with each other.
void Machine::syncLanes(Warp &warp, uint32_t lanes, uint32_t members) {
  if ((members & warp.launched) == warp.launched)
    return tick(warp);
  WarpClock &clock = warp.clock;
  Knowledge sum = knowledgeOf(warp, lanes);
  forEachLane(lanes, [&](unsigned lane) {
    sum.known = withLane(sum.known, clock, lane, clock.latest());
  });
  forEachLane(lanes, [&](unsigned lane) { clock.of(lane) = sum; });
  clock.startEpoch();
}

/// Tells a barrier what the lanes know that arrive.
void Machine::tellBarrier(CtaBarrier &barrier, const Warp &warp,
                          uint32_t lanes) {
  const WarpClock &clock = warp.clock;
  for (unsigned u = 0; u < numWarps; ++u)
    barrier.joined[u] = std::max(barrier.joined[u], clock.known[u]);
  barrier.joined[clock.warp] = clock.latest();
  if (clock.all || clock.lanes)
    join(barrier.knowledge, knowledgeOf(warp, lanes));
}

/// What all knew who arrived at a barrier, the warp knows now.
void Machine::learnFromBarrier(Warp &warp, const CtaBarrier &barrier) {
  for (unsigned u = 0; u < numWarps; ++u)
    warp.clock.known[u] = std::max(warp.clock.known[u], barrier.joined[u]);
  if (barrier.knowledge)
    join(warp.clock.all, barrier.knowledge);
  tick(warp);
}

/// The same of the barrier of the cluster, where threads may go on between
/// their arrival and their wait: what they do there is not ordered.
void Machine::learnFromCluster(Warp &warp, const CtaBarrier &barrier) {
  for (unsigned u = 0; u < numWarps; ++u)
    warp.clock.known[u] = std::max(warp.clock.known[u], barrier.joined[u]);
  if (barrier.knowledge)
    join(warp.clock.all, barrier.knowledge);
}

//===----------------------------------------------------------------------===//
// Fences, releases and acquires
//===----------------------------------------------------------------------===//

void Machine::fence(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isOn(CheckRace))
    return;
  WarpClock &clock = warp.clock;
  unsigned scopes = inst.scope == MemoryScope::Device ? 2 : 1;
  auto apply = [&](Knowledge &knowledge, unsigned lane) {
    ClockPtr last;
    for (unsigned scope = 0; scope < scopes && inst.isAcquire; ++scope) {
      knowledge.known = joined(knowledge.known, clock.all.seen[scope]);
      if (knowledge.seen[scope] != last)
        knowledge.known = joined(knowledge.known, knowledge.seen[scope]);
      last = std::move(knowledge.seen[scope]);
      knowledge.seen[scope] = nullptr;
    }
    if (!inst.isRelease)
      return;
    FencedClock fenced = {knownOf(clock, lane), clock.latest()};
    for (unsigned scope = 0; scope < scopes; ++scope)
      knowledge.fenced[scope] = fenced;
  };
  if (lanes == warp.live && !clock.lanes)
    apply(clock.all, severalLanes);
  else
    forEachLane(lanes, [&](unsigned lane) { apply(clock.of(lane), lane); });
  if (inst.isRelease)
    clock.startEpoch();
}

std::unordered_map<uint64_t, Message> &Machine::messagesIn(StateSpace space) {
  return space == StateSpace::Shared ? cta->messages : messages;
}

uint64_t Machine::messageKey(StateSpace space, uint64_t address) const {
  unsigned grain =
      space == StateSpace::Shared ? program.sharedGrain : program.globalGrain;
  return address & ~uint64_t(grain - 1);
}

/// A lane made a strong write, which gives what it released to those who read
/// it. An atomic also passes on what the value before it carried.
void Machine::release(Warp &warp, const Inst &inst, StateSpace space,
                      unsigned lane, uint64_t address) {
  WarpClock &clock = warp.clock;
  ClockPtr given[2];
  if (inst.isRelease)
    given[0] = withLane(knownOf(clock, lane), clock, lane, clock.latest());
  else
    given[0] = fencedOf(clock, 0, lane);
  bool isSame = inst.isRelease ? inst.scope == MemoryScope::Device
                               : hasOneFence(clock, lane);
  given[1] = isSame ? given[0] : fencedOf(clock, 1, lane);
  std::unordered_map<uint64_t, Message> &all = messagesIn(space);
  if (!given[0] && all.empty())
    return;
  uint64_t key = messageKey(space, address);
  uint64_t thread =
      uint64_t(clock.cta + uint64_t(1)) << 10 | clock.warp << 5 | lane;
  auto it = all.find(key);
  bool isAtomic = inst.kind == InstKind::Atomic;
  // Strong writes that follow a release of the same thread belong to it.
  if (it != all.end() && !isAtomic && it->second.releaser != thread) {
    all.erase(it);
    it = all.end();
  }
  if (!given[0])
    return;
  Message &message = it == all.end() ? all[key] : it->second;
  message.device = joined(message.device, given[1]);
  auto mine = std::find_if(
      message.own.begin(), message.own.end(),
      [&](const Message::ForCta &one) { return one.cta == clock.cta; });
  if (mine == message.own.end()) {
    // None but the threads of a CTA itself want what it released to them alone.
    std::vector<uint32_t> running = runningCtas();
    std::erase_if(message.own, [&](const Message::ForCta &one) {
      return !std::binary_search(running.begin(), running.end(), one.cta);
    });
    message.own.push_back({clock.cta, given[0]});
  } else {
    mine->clock = joined(mine->clock, given[0]);
  }
  if (inst.isRelease)
    message.releaser = thread;
}

/// A lane made a strong read.
void Machine::acquire(Warp &warp, const Inst &inst, StateSpace space,
                      unsigned lane, uint64_t address) {
  std::unordered_map<uint64_t, Message> &all = messagesIn(space);
  if (all.empty())
    return;
  auto it = all.find(messageKey(space, address));
  if (it == all.end())
    return;
  Knowledge &knowledge = warp.clock.of(lane);
  const ClockPtr given[2] = {it->second.of(warp.clock.cta), it->second.device};
  for (unsigned scope = 0; scope < 2; ++scope) {
    knowledge.seen[scope] = joined(knowledge.seen[scope], given[scope]);
    if (inst.isAcquire && (scope == 0 || inst.scope == MemoryScope::Device))
      knowledge.known = joined(knowledge.known, given[scope]);
  }
}

/// What a strong load or store does for the order of others; an atomic does it
/// lane after lane.
void Machine::synchronize(Warp &warp, const Inst &inst, StateSpace space,
                          const LaneAccess &access) {
  if (!isOn(CheckRace))
    return;
  forEachLane(access.lanes, [&](unsigned lane) {
    for (unsigned v = 0; v < inst.vectorLength; ++v) {
      uint64_t address = access.address[lane] + uint64_t(v) * inst.elementBytes;
      if (inst.kind != InstKind::Store)
        acquire(warp, inst, space, lane, address);
      if (inst.kind != InstKind::Load)
        release(warp, inst, space, lane, address);
    }
  });
  if (inst.isRelease && inst.kind != InstKind::Load)
    warp.clock.startEpoch();
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

/// Numbers the segment of a warp that is about to access memory.
void Machine::startSegment(Warp &warp) {
  if (segments.size() >= segmentLimit)
    collectSegments();
  segments.ensure(warp.clock);
}

/// Calls f(word) for each access that is remembered.
template <typename F> void Machine::forEachAccess(F f) {
  auto forEachCell = [&](CellArray<AccessWord> &cells) {
    for (size_t cell = 0; cell < cells.size(); ++cell)
      if (cells[cell])
        f(cells[cell]);
  };
  for (Cta &one : resident) {
    SharedShadow &shadow = one.shadow;
    for (AccessWord &word : shadow.writes)
      f(word);
    forEachCell(shadow.beneath.all());
    for (size_t cell = 0; cell < shadow.readers.size(); ++cell)
      forEachLane(shadow.readers[cell],
                  [&](unsigned warp) { f(shadow.reads[warp][cell]); });
    if (one.async)
      one.async->forEachWord(f);
  }
  for (GlobalShadow &shadow : globalShadows)
    for (CellArray<AccessWord> *cells :
         {&shadow.writes, &shadow.reads, &shadow.otherReads,
          &shadow.beneath.all()})
      forEachCell(*cells);
}

/// Forgets the segments that no access is remembered of.
void Machine::collectSegments() {
  std::vector<bool> isUsed(segments.size(), false);
  auto forEachNumber = [&](auto f) {
    for (Cta &one : resident)
      for (Warp &warp : one.warps) {
        f(warp.clock.segment);
        for (AsyncCopy &copy : warp.copies)
          f(copy.segment);
      }
  };
  forEachAccess([&](AccessWord &word) { isUsed[word.segment()] = true; });
  forEachNumber([&](uint32_t &number) { isUsed[number] = true; });
  std::vector<uint32_t> renumbered = segments.compact(isUsed);
  forEachAccess(
      [&](AccessWord &word) { word.setSegment(renumbered[word.segment()]); });
  forEachNumber([&](uint32_t &number) { number = renumbered[number]; });
  segmentLimit = std::max(minSegmentLimit, 2 * segments.size());
}
