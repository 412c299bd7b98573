//===- RingHazardsTest.cpp - Plans against a brute-force checker ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The checker follows each thread by itself: two warps of two threads run the
// whole trace, a wait ends a thread's own copies only, and two threads order
// their actions only where a barrier that joins them stands in between.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/RingHazards.h"
#include "gtest/gtest.h"

#include <random>
#include <set>
#include <string>

using namespace mlir::flashcore;
using mlir::fcgpu::CopyScope;

namespace {
//===----------------------------------------------------------------------===//
// The checker
//===----------------------------------------------------------------------===//

constexpr unsigned kNumThreads = 4;
unsigned warpOf(unsigned thread) { return thread / 2; }

/// One event of a run, with the sync in front of it.
struct Step {
  RingEvent event;
  RingSync sync;
  int64_t tile;
};

class Checker {
public:
  /// The key loop runs each of the given numbers of iterations.
  Checker(const RingProgram &program, const RingPlan &plan,
          llvm::ArrayRef<int64_t> numIterations) {
    append(program.prologue, plan.prologue, 0);
    for (int64_t end : numIterations) {
      append(program.before, plan.before, 0);
      for (int64_t i = 0; i < end; ++i)
        append(program.body, plan.body, i);
      append(program.after, plan.after, end);
    }
  }

  /// What goes wrong first, or an empty string.
  std::string findHazard() const {
    for (size_t i = 0; i < trace.size(); ++i) {
      std::string hazard;
      if (trace[i].event.kind == RingEvent::Read)
        hazard = checkRead(i);
      else if (trace[i].event.kind == RingEvent::Copy)
        hazard = checkCopy(i);
      else if (trace[i].event.kind == RingEvent::Reclaim)
        hazard = checkReclaim(i);
      if (!hazard.empty())
        return "step " + std::to_string(i) + ": " + hazard;
    }
    return "";
  }

private:
  void append(const std::vector<RingEvent> &events,
              const std::vector<RingSync> &syncs, int64_t iteration) {
    for (size_t i = 0; i < events.size(); ++i)
      trace.push_back(
          {events[i], syncs[i],
           events[i].offset + (events[i].perIteration ? iteration : 0)});
  }

  bool isSameSlot(size_t a, size_t b) const {
    return trace[a].event.ring == trace[b].event.ring &&
           (trace[a].tile - trace[b].tile) % trace[a].event.numStages == 0;
  }

  /// Whether what thread `t` did up to step `from` happens before what thread
  /// `u` does in step `to`. A barrier of step `from` itself counts: it stands
  /// behind the wait of that step.
  bool isOrdered(unsigned t, size_t from, unsigned u, size_t to) const {
    if (t == u)
      return true;
    for (size_t i = from; i <= to; ++i)
      if (trace[i].sync.barrier == CopyScope::Block ||
          (trace[i].sync.barrier == CopyScope::Warp && warpOf(t) == warpOf(u)))
        return true;
    return false;
  }

  /// The first step, up to `end`, whose wait ends a thread's part of the copy
  /// in step `copy`.
  std::optional<size_t> findWait(size_t copy, size_t end) const {
    int64_t group = 0, numGroups = 0;
    for (size_t i = 0; i < copy; ++i)
      group += trace[i].event.kind == RingEvent::Commit;
    for (size_t i = 0; i <= end; ++i) {
      const RingSync &sync = trace[i].sync;
      if (i > copy && sync.waitInFlight &&
          numGroups - *sync.waitInFlight > group)
        return i;
      numGroups += trace[i].event.kind == RingEvent::Commit;
    }
    return std::nullopt;
  }

  static bool share(const RingEvent &event, unsigned t, unsigned u) {
    return event.scope == CopyScope::Block || warpOf(t) == warpOf(u);
  }

  std::string checkRead(size_t read) const {
    std::optional<size_t> copy;
    for (size_t i = 0; i < read; ++i)
      if (trace[i].event.kind == RingEvent::Copy && isSameSlot(i, read))
        copy = i;
    if (!copy)
      return "reads a slot that nothing was copied into";
    if (trace[*copy].tile != trace[read].tile)
      return "reads a slot that holds another tile";
    std::optional<size_t> wait = findWait(*copy, read);
    if (!wait)
      return "reads a tile that may still be on its way";
    for (unsigned t = 0; t < kNumThreads; ++t)
      for (unsigned u = 0; u < kNumThreads; ++u)
        if (share(trace[*copy].event, t, u) && !isOrdered(t, *wait, u, read))
          return "reads what another thread may still be copying";
    return "";
  }

  /// Whether a step writes to memory through which warps may still exchange
  /// values.
  bool overtakesExchange(size_t step) const {
    if (trace[step].event.scope != CopyScope::Warp)
      return false;
    for (size_t i = 0; i < step; ++i)
      if (trace[i].event.kind == RingEvent::Reclaim &&
          !isOrdered(0, i + 1, kNumThreads - 1, step))
        return true;
    return false;
  }

  std::string checkCopy(size_t copy) const {
    if (overtakesExchange(copy))
      return "overwrites what another warp may still read";
    for (size_t i = 0; i < copy; ++i) {
      if (!isSameSlot(i, copy))
        continue;
      if (trace[i].event.kind == RingEvent::Copy && !findWait(i, copy))
        return "overwrites a slot that a copy is on its way to";
      if (trace[i].event.kind != RingEvent::Read)
        continue;
      for (unsigned t = 0; t < kNumThreads; ++t)
        for (unsigned u = 0; u < kNumThreads; ++u)
          // A barrier in front of the read itself comes too early.
          if (share(trace[copy].event, t, u) && !isOrdered(t, i + 1, u, copy))
            return "overwrites a slot that another thread may still read";
    }
    return "";
  }

  std::string checkReclaim(size_t reclaim) const {
    if (overtakesExchange(reclaim))
      return "overwrites what another warp may still read";
    for (size_t i = 0; i < reclaim; ++i) {
      const RingEvent &event = trace[i].event;
      if ((event.kind != RingEvent::Copy && event.kind != RingEvent::Read) ||
          event.scope == CopyScope::Block)
        continue;
      // A barrier in front of a read itself comes too early; that of a wait
      // stands behind it.
      std::optional<size_t> done =
          event.kind == RingEvent::Read ? i + 1 : findWait(i, reclaim);
      if (!done)
        return "reclaims a ring that a copy is on its way to";
      for (unsigned t = 0; t < kNumThreads; ++t)
        for (unsigned u = 0; u < kNumThreads; ++u)
          if (warpOf(t) == warpOf(u) && !isOrdered(t, *done, u, reclaim))
            return "reclaims a ring that another thread may still use";
    }
    return "";
  }

  std::vector<Step> trace;
};

constexpr int64_t kMaxIterations = 11;

/// The runs of the key loop to check, for a program that repeats or not.
std::vector<std::vector<int64_t>> makeRuns(bool repeats) {
  std::vector<std::vector<int64_t>> runs;
  if (!repeats) {
    for (int64_t n = 0; n <= kMaxIterations; ++n)
      runs.push_back({n});
    return runs;
  }
  for (int64_t first : {0, 1, 2, 5})
    for (int64_t second : {0, 1, 3, 4})
      for (int64_t third : {0, 2, 6})
        runs.push_back({first, second, third});
  return runs;
}

std::string findHazard(const RingProgram &program, const RingPlan &plan) {
  for (const std::vector<int64_t> &runs : makeRuns(program.repeats)) {
    std::string hazard = Checker(program, plan, runs).findHazard();
    if (hazard.empty())
      continue;
    std::string text;
    for (int64_t n : runs)
      text += std::to_string(n) + " ";
    return text + "iterations, " + hazard;
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

enum Ring : unsigned { Q, K, V };
constexpr int64_t kNumWarps = 2;

RingEvent commit() { return {}; }

/// Acquires in front of each copy and read, and releases behind each read.
std::vector<RingEvent> withSides(const std::vector<RingEvent> &accesses) {
  std::vector<RingEvent> events;
  auto add = [&](RingEvent event, RingEvent::Kind kind) {
    event.kind = kind;
    events.push_back(event);
  };
  for (const RingEvent &access : accesses) {
    if (access.kind == RingEvent::Copy)
      add(access, RingEvent::AcquireToFill);
    if (access.kind == RingEvent::Read)
      add(access, RingEvent::AcquireToRead);
    events.push_back(access);
    if (access.kind == RingEvent::Read)
      add(access, RingEvent::Release);
  }
  return events;
}

RingProgram withSides(RingProgram program) {
  for (auto *events :
       {&program.before, &program.body, &program.after, &program.prologue})
    *events = withSides(*events);
  return program;
}

/// Where in a list of accesses with their sides the acquire for the n-th of
/// them stands.
size_t findAcquire(const std::vector<RingEvent> &events, RingEvent::Kind kind,
                   size_t n) {
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].kind == kind && n-- == 0)
      return i;
  return events.size();
}

RingEvent reclaim() {
  RingEvent event;
  event.kind = RingEvent::Reclaim;
  event.scope = CopyScope::Warp;
  return event;
}

/// The warp's own tile of Q; its number is the same in all iterations.
RingEvent accessQ(RingEvent::Kind kind, CopyScope scope) {
  RingEvent event;
  event.kind = kind;
  event.ring = Q;
  event.numStages = kNumWarps;
  event.scope = scope;
  return event;
}

RingEvent accessTile(RingEvent::Kind kind, Ring ring, int64_t numStages,
                     bool perIteration, int64_t offset) {
  RingEvent event;
  event.kind = kind;
  event.ring = ring;
  event.numStages = numStages;
  event.perIteration = perIteration;
  event.offset = offset;
  return event;
}

enum class QueryReads { Before, InLoop };

struct Kernel {
  int64_t numStages;
  bool copiesFirst;
  QueryReads queryReads;
  CopyScope queryScope;
};

/// A key loop whose copies run numStages - 1 tiles ahead.
RingProgram makeProgram(const Kernel &kernel) {
  RingProgram program;
  int64_t numStages = kernel.numStages;
  program.before = {accessQ(RingEvent::Copy, kernel.queryScope), commit()};
  for (int64_t i = 0; i + 1 < numStages; ++i) {
    for (Ring ring : {K, V})
      program.before.push_back(
          accessTile(RingEvent::Copy, ring, numStages, false, i));
    program.before.push_back(commit());
  }
  RingEvent readQ = accessQ(RingEvent::Read, kernel.queryScope);
  std::vector<RingEvent> reads, copies;
  if (kernel.queryReads == QueryReads::Before)
    program.before.push_back(readQ);
  else
    reads.push_back(readQ);
  for (Ring ring : {K, V}) {
    reads.push_back(accessTile(RingEvent::Read, ring, numStages, true, 0));
    copies.push_back(
        accessTile(RingEvent::Copy, ring, numStages, true, numStages - 1));
  }
  copies.push_back(commit());
  program.body = kernel.copiesFirst ? copies : reads;
  const std::vector<RingEvent> &rest = kernel.copiesFirst ? reads : copies;
  program.body.insert(program.body.end(), rest.begin(), rest.end());
  return program;
}

std::vector<Kernel> makeKernels() {
  std::vector<Kernel> kernels;
  for (int64_t numStages : {2, 3, 4})
    for (bool copiesFirst : {true, false})
      for (QueryReads reads : {QueryReads::Before, QueryReads::InLoop})
        for (CopyScope scope : {CopyScope::Block, CopyScope::Warp})
          kernels.push_back({numStages, copiesFirst, reads, scope});
  return kernels;
}

std::string nameOf(const testing::TestParamInfo<Kernel> &info) {
  const Kernel &kernel = info.param;
  return std::to_string(kernel.numStages) + "Stages" +
         (kernel.copiesFirst ? "CopiesFirst" : "CopiesLast") +
         (kernel.queryReads == QueryReads::Before ? "QueryBefore"
                                                  : "QueryInLoop") +
         (kernel.queryScope == CopyScope::Block ? "ByBlock" : "ByWarp");
}

int64_t countBarriers(const std::vector<RingSync> &syncs, CopyScope scope) {
  int64_t count = 0;
  for (const RingSync &sync : syncs)
    count += sync.barrier == scope;
  return count;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

class RingHazards : public testing::TestWithParam<Kernel> {
protected:
  RingProgram program = withSides(makeProgram(GetParam()));
  RingPlan plan = planRingSync(program);
};

TEST_P(RingHazards, ProgramHasNoFault) { EXPECT_FALSE(findRingFault(program)); }

TEST_P(RingHazards, PlanHasASyncForEachEvent) {
  EXPECT_EQ(plan.before.size(), program.before.size());
  EXPECT_EQ(plan.body.size(), program.body.size());
  EXPECT_EQ(plan.after.size(), program.after.size());
}

TEST_P(RingHazards, ProgramNeedsSyncs) {
  RingPlan nothing;
  nothing.before.resize(program.before.size());
  nothing.body.resize(program.body.size());
  EXPECT_NE(findHazard(program, nothing), "");
}

TEST_P(RingHazards, PlanIsRight) { EXPECT_EQ(findHazard(program, plan), ""); }

TEST_P(RingHazards, EveryPlannedSyncIsNeeded) {
  for (std::vector<RingSync> *syncs : {&plan.before, &plan.body})
    for (RingSync &sync : *syncs) {
      if (sync.empty())
        continue;
      RingSync saved = sync;
      sync = {};
      EXPECT_NE(findHazard(program, plan), "");
      sync = saved;
    }
}

TEST_P(RingHazards, OneBlockBarrierAnIteration) {
  EXPECT_EQ(countBarriers(plan.body, CopyScope::Block), 1);
}

// A wait is for the tile of the iteration; what is further ahead stays in
// flight.
TEST_P(RingHazards, CopiesAheadStayInFlight) {
  for (const RingSync &sync : plan.body)
    if (sync.waitInFlight)
      EXPECT_GE(*sync.waitInFlight, GetParam().numStages - 2);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, RingHazards,
                         testing::ValuesIn(makeKernels()), nameOf);

// A warp that reads what it copied itself need not stop the block.
TEST(RingHazardsOfOneWarp, NeedsNoBlockBarrier) {
  RingProgram program;
  program.before =
      withSides({accessQ(RingEvent::Copy, CopyScope::Warp), commit(),
                 accessQ(RingEvent::Read, CopyScope::Warp)});
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
  size_t acquire = findAcquire(program.before, RingEvent::AcquireToRead, 0);
  EXPECT_EQ(plan.before[acquire].waitInFlight, 0);
  EXPECT_EQ(plan.before[acquire].barrier, CopyScope::Warp);
}

TEST(RingHazardsOfOneBlock, NeedsABlockBarrier) {
  RingProgram program;
  program.before =
      withSides({accessQ(RingEvent::Copy, CopyScope::Block), commit(),
                 accessQ(RingEvent::Read, CopyScope::Block)});
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
  size_t acquire = findAcquire(program.before, RingEvent::AcquireToRead, 0);
  EXPECT_EQ(plan.before[acquire].waitInFlight, 0);
  EXPECT_EQ(plan.before[acquire].barrier, CopyScope::Block);
}

// A tile copied in front of the loop and read behind it, whatever the trip
// count.
TEST(RingHazardsBehindTheLoop, ReadWaitsForItsCopy) {
  RingProgram program = makeProgram({/*numStages=*/2, /*copiesFirst=*/true,
                                     QueryReads::Before, CopyScope::Warp});
  constexpr unsigned kOther = 3;
  RingEvent copy;
  copy.kind = RingEvent::Copy;
  copy.ring = kOther;
  program.before.push_back(copy);
  program.before.push_back(commit());
  RingEvent read = copy;
  read.kind = RingEvent::Read;
  program.after = {read};
  program = withSides(program);
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
}

// The same tile again: what arrived before says nothing about the new copy.
TEST(RingHazardsOfASecondCopy, ReadWaitsAgain) {
  RingEvent copy = accessQ(RingEvent::Copy, CopyScope::Block);
  RingEvent read = accessQ(RingEvent::Read, CopyScope::Block);
  RingProgram program;
  program.before = withSides({copy, commit(), read, copy, commit(), read});
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
}

// Tiles of a warp in a row: each is waited for when it is read, and no copy
// behind it.
TEST(RingHazardsOfAStream, ReadsWaitOneByOne) {
  constexpr int64_t numTiles = 5, numStages = 3;
  auto access = [](RingEvent::Kind kind, int64_t tile) {
    RingEvent event =
        accessTile(kind, K, numStages, /*perIteration=*/false, tile);
    event.scope = CopyScope::Warp;
    return event;
  };
  RingProgram program;
  for (int64_t i = 0; i < numStages; ++i)
    program.before.insert(program.before.end(),
                          {access(RingEvent::Copy, i), commit()});
  for (int64_t i = 0; i < numTiles; ++i) {
    if (i >= 1 && i + numStages - 1 < numTiles)
      program.before.insert(
          program.before.end(),
          {access(RingEvent::Copy, i + numStages - 1), commit()});
    program.before.push_back(access(RingEvent::Read, i));
  }
  program = withSides(program);
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
  EXPECT_EQ(countBarriers(plan.before, CopyScope::Block), 0);
  // Behind the last copy, tiles are waited for as they are read.
  auto getWait = [&](size_t read) {
    return plan
        .before[findAcquire(program.before, RingEvent::AcquireToRead, read)]
        .waitInFlight;
  };
  EXPECT_EQ(getWait(0), 2);
  EXPECT_EQ(getWait(3), 1);
  EXPECT_EQ(getWait(4), 0);
}

// The memory of rings is free when all copies have arrived and all reads are
// done, within the warp.
TEST(RingHazardsOfAReclaim, WaitsForCopiesAndReads) {
  RingEvent copy = accessQ(RingEvent::Copy, CopyScope::Warp);
  RingEvent read = accessQ(RingEvent::Read, CopyScope::Warp);
  RingProgram program;
  program.before = withSides({copy, commit(), read, copy, commit()});
  program.after = {reclaim()};
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
  EXPECT_EQ(plan.after[0].waitInFlight, 0);
  EXPECT_EQ(plan.after[0].barrier, CopyScope::Warp);
}

TEST(RingHazardsOfAReclaim, NeedsNoWaitBehindAllReads) {
  RingProgram program;
  program.before =
      withSides({accessQ(RingEvent::Copy, CopyScope::Warp), commit(),
                 accessQ(RingEvent::Read, CopyScope::Warp)});
  program.after = {reclaim()};
  RingPlan plan = planRingSync(program);
  EXPECT_EQ(findHazard(program, plan), "");
  EXPECT_EQ(plan.after[0].waitInFlight, std::nullopt);
  EXPECT_EQ(plan.after[0].barrier, CopyScope::Warp);
}

TEST(RingHazardsOfAReclaim, LeavesRingsOfTheBlockAlone) {
  RingProgram program;
  program.before =
      withSides({accessQ(RingEvent::Copy, CopyScope::Block), commit(),
                 accessQ(RingEvent::Read, CopyScope::Block)});
  program.after = {reclaim()};
  RingPlan plan = planRingSync(program);
  EXPECT_TRUE(plan.after[0].empty());
}

//===----------------------------------------------------------------------===//
// Programs that repeat
//===----------------------------------------------------------------------===//

/// The program again and again; `early` starts the first copies of a round at
/// the end of the round before.
RingProgram repeat(RingProgram program, bool early) {
  program.repeats = true;
  if (!early)
    return program;
  for (const RingEvent &event : program.before)
    if (event.kind != RingEvent::Read)
      program.prologue.push_back(event);
  llvm::erase_if(program.before, [](const RingEvent &event) {
    return event.kind != RingEvent::Read;
  });
  program.after.insert(program.after.end(), program.prologue.begin(),
                       program.prologue.end());
  return program;
}

class RepeatedRingHazards
    : public testing::TestWithParam<std::tuple<Kernel, bool>> {
protected:
  Kernel kernel = std::get<0>(GetParam());
  RingProgram program =
      withSides(repeat(makeProgram(kernel), std::get<1>(GetParam())));
  RingPlan plan = planRingSync(program);
};

TEST_P(RepeatedRingHazards, ProgramHasNoFault) {
  EXPECT_FALSE(findRingFault(program));
}

TEST_P(RepeatedRingHazards, PlanIsRight) {
  EXPECT_EQ(findHazard(program, plan), "");
}

// Only what starts early meets the leftovers of a round in one run already.
TEST_P(RepeatedRingHazards, PlanOfOneRunIsNot) {
  RingProgram once = program;
  once.repeats = false;
  bool isEarly = std::get<1>(GetParam());
  EXPECT_EQ(findHazard(program, planRingSync(once)).empty(), isEarly);
}

TEST_P(RepeatedRingHazards, EveryPlannedSyncIsNeeded) {
  for (std::vector<RingSync> *syncs :
       {&plan.prologue, &plan.before, &plan.body, &plan.after})
    for (RingSync &sync : *syncs) {
      if (sync.empty())
        continue;
      RingSync saved = sync;
      sync = {};
      EXPECT_NE(findHazard(program, plan), "");
      sync = saved;
    }
}

// One barrier an iteration, as without repeating, and one more a round.
TEST_P(RepeatedRingHazards, OneMoreBlockBarrierARound) {
  EXPECT_EQ(countBarriers(plan.body, CopyScope::Block), 1);
  RingProgram once = withSides(makeProgram(kernel));
  RingPlan planOfOnce = planRingSync(once);
  EXPECT_LE(countBarriers(plan.before, CopyScope::Block) +
                countBarriers(plan.after, CopyScope::Block),
            countBarriers(planOfOnce.before, CopyScope::Block) + 1);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, RepeatedRingHazards,
                         testing::Combine(testing::ValuesIn(makeKernels()),
                                          testing::Bool()),
                         [](const auto &info) {
                           return nameOf(testing::TestParamInfo<Kernel>(
                                      std::get<0>(info.param), info.index)) +
                                  (std::get<1>(info.param) ? "Early" : "");
                         });

// Warps read what others wrote into the memory of their rings, so the next copy
// into one comes after all of them.
TEST(RepeatedRingHazardsOfAReclaim, NextCopyWaitsForTheBlock) {
  for (bool early : {false, true}) {
    RingProgram program;
    program.before = {accessQ(RingEvent::Copy, CopyScope::Warp), commit(),
                      accessQ(RingEvent::Read, CopyScope::Warp)};
    program.after = {reclaim()};
    program = withSides(repeat(program, early));
    RingPlan plan = planRingSync(program);
    EXPECT_EQ(findHazard(program, plan), "");
    EXPECT_EQ((early ? plan.after[1] : plan.before[0]).barrier,
              CopyScope::Block);
  }
}

//===----------------------------------------------------------------------===//
// Random programs
//===----------------------------------------------------------------------===//

/// Makes short programs on three rings, right or not.
class ProgramGenerator {
public:
  RingProgram next() {
    for (Shape &ring : rings)
      ring = {1 + pick(4), pick(3) ? CopyScope::Block : CopyScope::Warp};
    RingProgram program;
    addEvents(program.before, /*inLoop=*/false);
    addEvents(program.body, /*inLoop=*/true);
    if (pick(2))
      program.after.push_back(reclaim());
    return program;
  }

private:
  struct Shape {
    int64_t numStages;
    CopyScope scope;
  };

  int64_t pick(int64_t count) { return random() % count; }

  void addEvents(std::vector<RingEvent> &events, bool inLoop) {
    constexpr RingEvent::Kind kinds[] = {RingEvent::Copy, RingEvent::Commit,
                                         RingEvent::Read};
    for (int64_t i = 1 + pick(7); i > 0; --i) {
      RingEvent event;
      event.kind = kinds[pick(3)];
      event.ring = pick(3);
      event.numStages = rings[event.ring].numStages;
      event.scope = rings[event.ring].scope;
      event.perIteration = inLoop && pick(4) != 0;
      event.offset = pick(4);
      events.push_back(event);
    }
  }

  std::mt19937 random{/*seed=*/1};
  Shape rings[3];
};

/// Whether every tile is copied once, and read before its slot is used again.
bool isOrderly(const RingProgram &program) {
  using Tile = std::pair<unsigned, int64_t>; // ring, tile or slot number
  std::set<Tile> copied, unreadSlots;
  auto run = [&](const std::vector<RingEvent> &events, int64_t iteration) {
    for (const RingEvent &event : events) {
      int64_t tile = event.offset + (event.perIteration ? iteration : 0);
      Tile slot(event.ring, tile % event.numStages);
      if (event.kind == RingEvent::Read)
        unreadSlots.erase(slot);
      if (event.kind == RingEvent::Copy &&
          (!copied.insert({event.ring, tile}).second ||
           !unreadSlots.insert(slot).second))
        return false;
    }
    return true;
  };
  bool result = run(program.before, 0);
  for (int64_t i = 0; i < kMaxIterations; ++i)
    result &= run(program.body, i);
  return result;
}

/// Everything waited for, and everybody met, in front of every event.
RingPlan makeStrictestPlan(const RingProgram &program) {
  RingSync all{/*waitInFlight=*/0, CopyScope::Block};
  return {std::vector<RingSync>(program.before.size(), all),
          std::vector<RingSync>(program.body.size(), all),
          std::vector<RingSync>(program.after.size(), all),
          std::vector<RingSync>(program.prologue.size(), all)};
}

// Programs that no sync can make right (a tile that nobody copies, a slot that
// holds another one) are passed over.
TEST(RingHazardsOfRandomPrograms, PlansAreRight) {
  ProgramGenerator generator;
  int64_t numPrograms = 0, numRepeated = 0;
  for (int64_t i = 0; i < 300000; ++i) {
    RingProgram program = withSides(generator.next());
    if (!isOrderly(program) ||
        !findHazard(program, makeStrictestPlan(program)).empty())
      continue;
    ++numPrograms;
    EXPECT_FALSE(findRingFault(program)) << "program " << i;
    EXPECT_EQ(findHazard(program, planRingSync(program)), "")
        << "program " << i;
    program.repeats = true;
    if (!findHazard(program, makeStrictestPlan(program)).empty())
      continue;
    ++numRepeated;
    EXPECT_FALSE(findRingFault(program)) << "repeated program " << i;
    EXPECT_EQ(findHazard(program, planRingSync(program)), "")
        << "repeated program " << i;
  }
  EXPECT_GT(numPrograms, 1000);
  EXPECT_GT(numRepeated, 1000);
}

TEST(RingHazardsOfNothing, PlansNothing) {
  RingPlan plan = planRingSync({});
  EXPECT_TRUE(plan.before.empty());
  EXPECT_TRUE(plan.body.empty());
  EXPECT_TRUE(plan.after.empty());
}

TEST(RingHazardsWithoutReads, PlansNoSync) {
  RingProgram program;
  program.before =
      withSides({accessQ(RingEvent::Copy, CopyScope::Block), commit()});
  RingPlan plan = planRingSync(program);
  for (const RingSync &sync : plan.before)
    EXPECT_TRUE(sync.empty());
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// What is wrong with a program of one list, and with which of its events.
std::pair<int64_t, std::string>
findFault(const std::vector<RingEvent::Kind> &kinds) {
  RingProgram program;
  for (RingEvent::Kind kind : kinds)
    program.before.push_back(kind == RingEvent::Reclaim
                                 ? reclaim()
                                 : accessQ(kind, CopyScope::Warp));
  auto fault = findRingFault(program);
  if (!fault)
    return {-1, ""};
  return {fault->event - program.before.data(), fault->text};
}

using FaultAt = std::pair<int64_t, std::string>;
TEST(RingFaults, NoneWhereBothSidesAreAcquired) {
  EXPECT_EQ(
      findFault({RingEvent::AcquireToFill, RingEvent::Copy, RingEvent::Commit,
                 RingEvent::AcquireToRead, RingEvent::Read, RingEvent::Read,
                 RingEvent::Release, RingEvent::AcquireToRead, RingEvent::Read,
                 RingEvent::Release, RingEvent::Reclaim}),
      FaultAt(-1, ""));
}

TEST(RingFaults, CopyIntoWhatIsNotAcquired) {
  EXPECT_EQ(
      findFault({RingEvent::AcquireToFill, RingEvent::Copy, RingEvent::Copy}),
      FaultAt(2, "copies into a slot that is not acquired to fill"));
}

TEST(RingFaults, ReadOfWhatIsNotAcquired) {
  FaultAt fault(2, "reads a tile that is not acquired to read");
  EXPECT_EQ(
      findFault({RingEvent::AcquireToFill, RingEvent::Copy, RingEvent::Read}),
      fault);
  fault.first = 4;
  EXPECT_EQ(findFault({RingEvent::AcquireToFill, RingEvent::Copy,
                       RingEvent::AcquireToRead, RingEvent::Release,
                       RingEvent::Read}),
            fault);
}

TEST(RingFaults, AcquireOfWhatWasNotCopied) {
  FaultAt fault(0, "acquires a tile to read that is not the last one copied "
                   "into its slot");
  EXPECT_EQ(findFault({RingEvent::AcquireToRead}), fault);
  fault.first = 3;
  EXPECT_EQ(findFault({RingEvent::AcquireToFill, RingEvent::Copy,
                       RingEvent::Reclaim, RingEvent::AcquireToRead}),
            fault);
}

TEST(RingFaults, ReleaseOfWhatIsNotAcquired) {
  EXPECT_EQ(findFault({RingEvent::AcquireToFill, RingEvent::Copy,
                       RingEvent::Release}),
            FaultAt(2, "releases a tile that is not acquired to read"));
}

TEST(RingFaults, SlotIsStillRead) {
  EXPECT_EQ(findFault({RingEvent::AcquireToFill, RingEvent::Copy,
                       RingEvent::AcquireToRead, RingEvent::AcquireToFill}),
            FaultAt(3, "acquires a slot to fill of which the tile is acquired "
                       "to read, and not released"));
  EXPECT_EQ(findFault({RingEvent::AcquireToFill, RingEvent::Copy,
                       RingEvent::AcquireToRead, RingEvent::Reclaim}),
            FaultAt(3, "reclaims rings of which a tile is acquired to read, "
                       "and not released"));
}

// A loop that leaves a tile out is wrong only when it runs often enough.
TEST(RingFaults, AreFoundInLaterIterations) {
  RingProgram program = makeProgram({/*numStages=*/3, /*copiesFirst=*/false,
                                     QueryReads::Before, CopyScope::Warp});
  for (RingEvent &event : program.body)
    if (event.kind == RingEvent::Copy)
      ++event.offset;
  program = withSides(program);
  auto fault = findRingFault(program);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->text, "acquires a tile to read that is not the last one "
                         "copied into its slot");
}
} // namespace
