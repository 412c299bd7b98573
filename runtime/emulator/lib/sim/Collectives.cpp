//===- Collectives.cpp - Barriers, shuffles, votes ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A collective waits for the lanes it names: its group is set aside until the
// others come to the same instruction. If they never do, Launch.cpp reports it
// and lets the collective go on with the lanes that are there.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>
#include <utility>

using namespace flashcore::emu;

void Machine::setPredicate(Warp &warp, uint32_t granule, uint32_t value,
                           uint32_t lanes) {
  uint32_t *p = warp.reg<uint32_t>(granule);
  *p = (*p & ~lanes) | (value & lanes);
}

/// Whether an instruction needs all lanes that were launched: a vote, shfl and
/// the like wait for those of their membermask that have not exited, and a
/// barrier for the threads that have not.
static bool needsExited(const Inst &inst) {
  switch (inst.kind) {
  case InstKind::Barrier:
  case InstKind::ClusterArrive:
  case InstKind::ClusterWait:
  case InstKind::BarrierWarp:
  case InstKind::Shuffle:
  case InstKind::Vote:
  case InstKind::Match:
  case InstKind::Redux:
    return false;
  default:
    return true;
  }
}

/// Sets the group aside if lanes are missing that can still come.
Machine::Step Machine::waitForLanes(Warp &warp, const Inst &inst,
                                    uint32_t lanes, uint32_t required) {
  uint32_t missing = required & warp.launched & ~lanes;
  if (!missing || current(warp).forced) {
    current(warp).forced &= inst.kind == InstKind::Barrier; // it asks later
    return Step::Next;
  }
  uint32_t gone = missing & ~warp.live;
  uint32_t numGone = static_cast<uint32_t>(std::popcount(gone));
  if (gone && needsExited(inst) && isOn(CheckSync))
    find(FindingKind::DivergentCollective, warp, inst, gone, [&] {
      return Text{"a collective names " + std::to_string(numGone) +
                      " lanes that have exited",
                  "all lanes a collective names must execute it (PTX ISA "
                  "9.7.13, 9.7.14: .aligned)"};
    });
  if (!(missing & warp.live)) {
    if (gone && !needsExited(inst))
      noteExited(warp, inst, lanes, numGone, "lanes that the membermask names");
    return Step::Next;
  }
  splitGuarded(warp, lanes);
  current(warp).state = LaneGroup::State::AtCollective;
  return Step::Blocked;
}

/// What goes on without them is defined from sm_70 on, but a read of what they
/// would have written, or of their registers, is not.
void Machine::noteExited(Warp &warp, const Inst &inst, uint32_t lanes,
                         uint32_t threads, const char *where) {
  if (!isOn(CheckSync))
    return;
  find(FindingKind::ExitedThreads, warp, inst, lanes, [&] {
    return Text{std::to_string(threads) + " " + where +
                    " have exited, and this goes on without them",
                "from sm_70 on only threads that have not exited are waited "
                "for (CUDA C++ Programming Guide, __syncthreads and __syncwarp;"
                " PTX ISA 9.7.13)"};
  });
}

/// Lanes have exited: collectives that waited for them look again.
void Machine::wakeCollectives(Warp &warp) {
  for (LaneGroup &group : warp.groups)
    if (group.state == LaneGroup::State::AtCollective &&
        !needsExited(program.code[group.pc]))
      group.state = LaneGroup::State::Ready;
}

Machine::Step Machine::collective(Warp &warp, const Inst &inst,
                                  uint32_t lanes) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  unsigned numOperands = inst.numDsts + inst.numSrcs;
  if (inst.aligned) {
    if (waitForLanes(warp, inst, lanes, ~0u) == Step::Blocked)
      return Step::Blocked;
    runCollective(warp, inst, lanes, warp.launched);
    return Step::Next;
  }
  // The membermask is the last operand. Lanes may name different sets.
  const uint32_t *masks = warp.reg<uint32_t>(ops[numOperands - 1]);
  uint32_t required = 0;
  forEachLane(lanes, [&](unsigned lane) { required |= masks[lane]; });
  if (waitForLanes(warp, inst, lanes, required) == Step::Blocked)
    return Step::Blocked;
  for (uint32_t rest = lanes; rest;) {
    uint32_t members = masks[std::countr_zero(rest)];
    uint32_t same = 0;
    forEachLane(rest, [&](unsigned lane) {
      same |= masks[lane] == members ? 1u << lane : 0u;
    });
    if ((same & ~members) && isOn(CheckSync))
      find(FindingKind::DivergentCollective, warp, inst, same & ~members, [&] {
        return Text{"lanes execute a collective whose membermask leaves them "
                    "out",
                    "the executing thread must be in membermask (PTX ISA "
                    "9.7.9.6, 9.7.13)"};
      });
    runCollective(warp, inst, same, members);
    rest &= ~same;
  }
  return Step::Next;
}

void Machine::runCollective(Warp &warp, const Inst &inst, uint32_t lanes,
                            uint32_t members) {
  switch (inst.kind) {
  case InstKind::BarrierWarp:
    return syncLanes(warp, lanes, members);
  case InstKind::Shuffle:
    return shuffle(warp, inst, lanes, members);
  case InstKind::Vote:
    return vote(warp, inst, lanes, members);
  case InstKind::Match:
    return match(warp, inst, lanes, members);
  case InstKind::Redux:
    return redux(warp, inst, lanes, members);
  case InstKind::LoadMatrix:
    return loadMatrix(warp, inst, lanes);
  case InstKind::StoreMatrix:
    return storeMatrix(warp, inst, lanes);
  case InstKind::MoveMatrix:
    return moveMatrix(warp, inst, lanes);
  default:
    return mma(warp, inst, lanes);
  }
}

//===----------------------------------------------------------------------===//
// Exchange within a warp
//===----------------------------------------------------------------------===//

/// PTX ISA 9.7.9.6. Operands: d, p, a, b, c, membermask.
void Machine::shuffle(Warp &warp, const Inst &inst, uint32_t lanes,
                      uint32_t members) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t values[warpSize], result[warpSize];
  std::copy_n(warp.reg<uint32_t>(ops[2]), warpSize, values);
  const uint32_t *b = warp.reg<uint32_t>(ops[3]);
  const uint32_t *c = warp.reg<uint32_t>(ops[4]);
  uint8_t sources[warpSize] = {};
  uint32_t inRange = 0, stray = 0;
  forEachLane(lanes, [&](unsigned lane) {
    int clamp = static_cast<int>(c[lane] & 31),
        segment = static_cast<int>(c[lane] >> 8 & 31);
    int index = static_cast<int>(b[lane] & 31), self = static_cast<int>(lane);
    int maxLane = (self & segment) | (clamp & ~segment);
    int minLane = self & segment;
    int from = 0;
    bool valid = true;
    switch (static_cast<ShuffleMode>(inst.mode)) {
    case ShuffleMode::Up:
      from = self - index;
      valid = from >= maxLane;
      break;
    case ShuffleMode::Down:
      from = self + index;
      valid = from <= maxLane;
      break;
    case ShuffleMode::Bfly:
      from = self ^ index;
      valid = from <= maxLane;
      break;
    case ShuffleMode::Idx:
      from = minLane | (index & ~segment);
      valid = from <= maxLane;
      break;
    }
    if (!valid)
      from = self;
    inRange |= valid ? 1u << lane : 0u;
    if (!(lanes >> from & 1))
      stray |= 1u << lane;
    sources[lane] = static_cast<uint8_t>(from & 31);
    result[lane] = values[sources[lane]];
  });
  (void)members;
  if (isOn(CheckInit))
    followShuffle(warp, inst, lanes, sources);
  if (labelling)
    labelShuffle(warp, inst, lanes, sources);
  if (stray && isOn(CheckSync))
    find(FindingKind::DivergentCollective, warp, inst, stray, [&] {
      return Text{"shfl reads from lanes that do not take part",
                  "the value of an inactive lane is undefined (PTX ISA "
                  "9.7.9.6)"};
    });
  forEachLane(lanes, [&](unsigned lane) {
    warp.reg<uint32_t>(ops[0])[lane] = result[lane];
  });
  if (ops[1] != sinkGranule)
    setPredicate(warp, ops[1], inRange, lanes);
}

void Machine::vote(Warp &warp, const Inst &inst, uint32_t lanes,
                   uint32_t members) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  uint32_t taking = lanes & members;
  if (isOn(CheckInit))
    followVote(warp, inst, lanes, taking);
  uint32_t set = *warp.reg<uint32_t>(ops[1]) & taking;
  bool result = false;
  switch (static_cast<VoteMode>(inst.mode)) {
  case VoteMode::All:
    result = set == taking;
    break;
  case VoteMode::Any:
    result = set != 0;
    break;
  case VoteMode::Uni:
    result = set == 0 || set == taking;
    break;
  case VoteMode::Ballot:
    forEachLane(lanes,
                [&](unsigned lane) { warp.reg<uint32_t>(ops[0])[lane] = set; });
    return;
  }
  setPredicate(warp, ops[0], result ? ~0u : 0u, lanes);
}

void Machine::match(Warp &warp, const Inst &inst, uint32_t lanes,
                    uint32_t members) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  auto value = [&](unsigned lane) -> uint64_t {
    return inst.regBytes == 8 ? warp.reg<uint64_t>(ops[2])[lane]
                              : warp.reg<uint32_t>(ops[2])[lane];
  };
  uint32_t result[warpSize];
  uint32_t taking = lanes & members;
  if (isOn(CheckInit))
    followReduction(warp, inst, lanes, taking);
  forEachLane(lanes, [&](unsigned lane) {
    uint32_t same = 0;
    forEachLane(taking, [&](unsigned other) {
      same |= value(other) == value(lane) ? 1u << other : 0u;
    });
    result[lane] = same;
  });
  bool isAll = inst.mode == 1;
  bool all = lanes && result[std::countr_zero(lanes)] == taking;
  forEachLane(lanes, [&](unsigned lane) {
    warp.reg<uint32_t>(ops[0])[lane] =
        isAll ? (all ? taking : 0) : result[lane];
  });
  if (ops[1] != sinkGranule)
    setPredicate(warp, ops[1], all ? ~0u : 0u, lanes);
}

void Machine::redux(Warp &warp, const Inst &inst, uint32_t lanes,
                    uint32_t members) {
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  const uint32_t *a = warp.reg<uint32_t>(ops[1]);
  uint32_t taking = lanes & members;
  if (!taking)
    return;
  if (isOn(CheckInit))
    followReduction(warp, inst, lanes, taking);
  uint32_t result = a[std::countr_zero(taking)];
  Inst step = inst;
  step.elementBytes = 4;
  forEachLane(taking & (taking - 1), [&](unsigned lane) {
    result = static_cast<uint32_t>(
        applyAtomic(step, step.space, result, a[lane], 0));
  });
  forEachLane(
      lanes, [&](unsigned lane) { warp.reg<uint32_t>(ops[0])[lane] = result; });
}

//===----------------------------------------------------------------------===//
// Barriers of a CTA
//===----------------------------------------------------------------------===//

/// Operands: d, id, thread count (0: all), predicate.
Machine::Step Machine::barrier(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (inst.kind == InstKind::ClusterArrive)
    return clusterArrive(warp, inst, lanes);
  if (inst.kind == InstKind::ClusterWait)
    return clusterWait(warp, inst, lanes);
  const uint32_t *ops = program.operands.data() + inst.firstOperand;
  if (inst.aligned) {
    // Only lanes that live can be missing; Launch.cpp reports what exited.
    uint32_t missing = warp.live & ~lanes;
    if (missing && waitForLanes(warp, inst, lanes, warp.live) == Step::Blocked)
      return Step::Blocked;
  }
  bool forced = current(warp).forced;
  current(warp).forced = false;
  unsigned first = static_cast<unsigned>(std::countr_zero(lanes));
  uint32_t id = warp.reg<uint32_t>(ops[1])[first];
  uint32_t count = warp.reg<uint32_t>(ops[2])[first];
  if (id > 15 || count % warpSize || count > 1024) {
    find(FindingKind::BarrierMismatch, warp, inst, lanes, [&] {
      return Text{"barrier " + std::to_string(id) + " with thread count " +
                      std::to_string(count),
                  "barriers are 0 to 15 and thread counts multiples of 32 (PTX "
                  "ISA 9.7.13.1)"};
    });
    return Step::Next;
  }
  splitGuarded(warp, lanes);
  arrive(warp, inst, lanes, id, count);
  CtaBarrier &barrier = cta->barriers[id];
  barrier.divergent |= forced;
  bool waits = static_cast<BarrierMode>(inst.mode) != BarrierMode::Arrive;
  if (waits) {
    current(warp).state = LaneGroup::State::AtBarrier;
    barrier.waiters.push_back({warp.index, lanes, current(warp).pc});
    // Results of bar.red appear on release; mark them written now.
    for (unsigned i = 0; i < inst.numDsts; ++i)
      warp.defined[ops[i]] |= lanes;
  } else {
    ++current(warp).pc;
    warp.clock.startEpoch();
  }
  uint32_t mine = lanes;
  if (completeBarrier(barrier))
    releaseBarrier(barrier);
  // The release may have let this very group go on.
  for (size_t i = 0; i < warp.groups.size(); ++i)
    if (warp.groups[i].lanes == mine &&
        warp.groups[i].state == LaneGroup::State::Ready) {
      active = static_cast<uint32_t>(i);
      return Step::Jumped;
    }
  return Step::Blocked;
}

void Machine::arrive(Warp &warp, const Inst &inst, uint32_t lanes, uint32_t id,
                     uint32_t count) {
  CtaBarrier &barrier = cta->barriers[id];
  if (!barrier.active) {
    barrier = CtaBarrier();
    barrier.active = true;
    barrier.expected = count;
    barrier.firstPc = pcOf(inst);
    barrier.firstWarp = warp.index;
  } else if (barrier.expected != count && isOn(CheckSync)) {
    find(FindingKind::BarrierMismatch, warp, inst, lanes, [&] {
      auto words = [](uint32_t threads) {
        return threads ? std::to_string(threads) + " threads"
                       : std::string("all threads");
      };
      return Text{"barrier " + std::to_string(id) + " is used for " +
                      words(count) + " here, but for " +
                      words(barrier.expected) + " by warp " +
                      std::to_string(barrier.firstWarp) + " at line " +
                      lineOf(barrier.firstPc),
                  "all warps must give one barrier the same thread count (PTX "
                  "ISA 9.7.13.1)"};
    });
  }
  uint32_t present = static_cast<uint32_t>(std::popcount(lanes));
  barrier.arrived += count && inst.aligned ? warpSize : present;
  barrier.threads += present;
  uint32_t p = *warp.reg<uint32_t>(program.operands[inst.firstOperand + 3]);
  barrier.predicates += static_cast<uint32_t>(std::popcount(p & lanes));
  barrier.participants |= 1u << warp.index;
  tellBarrier(barrier, warp, lanes);
}

bool Machine::completeBarrier(CtaBarrier &barrier) {
  if (barrier.expected)
    return barrier.arrived >= barrier.expected;
  return barrier.arrived >= cta->liveThreads && barrier.arrived > 0;
}

/// A group that waited goes on.
void Machine::wakeAtBarrier(Warp &warp, const CtaBarrier::Waiter &waiter) {
  for (LaneGroup &group : warp.groups)
    if (group.state == LaneGroup::State::AtBarrier &&
        group.lanes == waiter.lanes && group.pc == waiter.pc) {
      group.state = LaneGroup::State::Ready;
      ++group.pc;
    }
}

void Machine::releaseBarrier(CtaBarrier &barrier) {
  if (&barrier == &cta->barriers[clusterBarrier])
    return releaseCluster();
  CtaBarrier done = std::move(barrier);
  barrier = CtaBarrier();
  ++changes;
  ++releases;
  if (!done.expected && !done.divergent &&
      done.threads < cta->launchedThreads && !done.waiters.empty()) {
    const CtaBarrier::Waiter &first = done.waiters.front();
    noteExited(cta->warps[first.warp], program.code[first.pc], first.lanes,
               cta->launchedThreads - done.threads, "threads of the CTA");
  }
  for (const CtaBarrier::Waiter &waiter : done.waiters) {
    Warp &warp = cta->warps[waiter.warp];
    const Inst &inst = program.code[waiter.pc];
    const uint32_t d = program.operands[inst.firstOperand];
    BarrierMode mode = static_cast<BarrierMode>(inst.mode);
    if (mode == BarrierMode::RedPopc)
      forEachLane(waiter.lanes, [&](unsigned lane) {
        warp.reg<uint32_t>(d)[lane] = done.predicates;
      });
    else if (mode == BarrierMode::RedAnd || mode == BarrierMode::RedOr)
      setPredicate(warp, d,
                   (mode == BarrierMode::RedAnd
                        ? done.predicates == done.threads
                        : done.predicates > 0)
                       ? ~0u
                       : 0u,
                   waiter.lanes);
    wakeAtBarrier(warp, waiter);
    learnFromBarrier(warp, done);
  }
}

//===----------------------------------------------------------------------===//
// The barrier of a cluster of one CTA
//===----------------------------------------------------------------------===//

/// Arrivals and waits take turns in each thread (PTX ISA 9.7.13.4). A relaxed
/// arrival publishes nothing.
Machine::Step Machine::clusterArrive(Warp &warp, const Inst &inst,
                                     uint32_t lanes) {
  if (inst.aligned &&
      waitForLanes(warp, inst, lanes, warp.live) == Step::Blocked)
    return Step::Blocked;
  uint32_t twice = lanes & (warp.clusterArrived | warp.clusterDone);
  if (twice && isOn(CheckSync))
    find(FindingKind::BarrierMismatch, warp, inst, twice, [] {
      return Text{"arrives at the barrier of the cluster again without a wait",
                  "barrier.cluster.arrive must be followed by "
                  "barrier.cluster.wait (PTX ISA 9.7.13.4)"};
    });
  lanes &= ~twice;
  CtaBarrier &barrier = cta->barriers[clusterBarrier];
  if (!barrier.active) {
    barrier = CtaBarrier();
    barrier.active = true;
  }
  barrier.arrived += static_cast<uint32_t>(std::popcount(lanes));
  warp.clusterArrived |= lanes;
  if (inst.isRelease) {
    tellBarrier(barrier, warp, lanes);
    warp.clock.startEpoch();
  }
  if (completeBarrier(barrier))
    releaseCluster();
  return Step::Next;
}

Machine::Step Machine::clusterWait(Warp &warp, const Inst &inst,
                                   uint32_t lanes) {
  if (inst.aligned &&
      waitForLanes(warp, inst, lanes, warp.live) == Step::Blocked)
    return Step::Blocked;
  uint32_t stray = lanes & ~(warp.clusterArrived | warp.clusterDone);
  if (stray && isOn(CheckSync))
    find(FindingKind::BarrierMismatch, warp, inst, stray, [] {
      return Text{"waits at the barrier of the cluster without an arrival",
                  "barrier.cluster.wait waits for the phase that "
                  "barrier.cluster.arrive of the same thread is of (PTX ISA "
                  "9.7.13.4)"};
    });
  if (!(lanes & warp.clusterArrived)) {
    warp.clusterDone &= ~lanes;
    learnFromCluster(warp, cta->clusterDone);
    return Step::Next;
  }
  splitGuarded(warp, lanes);
  current(warp).state = LaneGroup::State::AtBarrier;
  cta->barriers[clusterBarrier].waiters.push_back(
      {warp.index, lanes, current(warp).pc});
  return Step::Blocked;
}

/// All threads of the cluster have arrived that have not exited.
void Machine::releaseCluster() {
  CtaBarrier &barrier = cta->barriers[clusterBarrier];
  cta->clusterDone = std::move(barrier);
  barrier = CtaBarrier();
  ++changes;
  ++releases;
  for (Warp &warp : cta->warps)
    warp.clusterDone |= std::exchange(warp.clusterArrived, 0);
  for (const CtaBarrier::Waiter &waiter : cta->clusterDone.waiters) {
    Warp &warp = cta->warps[waiter.warp];
    warp.clusterDone &= ~waiter.lanes;
    wakeAtBarrier(warp, waiter);
    learnFromCluster(warp, cta->clusterDone);
  }
  cta->clusterDone.waiters.clear();
}
