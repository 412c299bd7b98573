//===- RingHazards.cpp - Waits and barriers of ring buffers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the program on an abstract machine (a queue of copy groups, the tiles
// published by barriers, the slots released since the last barrier) for enough
// iterations to reach the steady state, and adds a sync in front of the first
// event that would be a hazard, until there is none left. What no sync can make
// right is found before, by a machine of what the thread has acquired.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/RingHazards.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

using namespace mlir::flashcore;
using mlir::fcgpu::CopyScope;

namespace {
using Tile = std::pair<unsigned, int64_t>; // ring, tile number

Tile getTile(const RingEvent &event, int64_t iteration) {
  return {event.ring, event.offset + (event.perIteration ? iteration : 0)};
}

/// The abstract machine. Threads of a block run in step as far as it can tell;
/// what it tracks is what other threads may not have seen yet.
class Machine {
public:
  Machine(const RingProgram &program, RingPlan &plan)
      : program(program), plan(plan) {}

  /// Runs everything and adds or tightens syncs where there is a hazard; true
  /// if it had to. The key loop runs each of the given numbers of iterations.
  bool refine(llvm::ArrayRef<int64_t> numIterations) {
    refining = true;
    return run(numIterations);
  }
  /// Whether the program with the plan as it is has a hazard.
  bool hasHazard(llvm::ArrayRef<int64_t> numIterations) {
    refining = false;
    return run(numIterations);
  }

private:
  bool run(llvm::ArrayRef<int64_t> numIterations) {
    bool result = runList(program.prologue, plan.prologue, 0);
    for (int64_t end : numIterations) {
      result |= runList(program.before, plan.before, 0);
      for (int64_t i = 0; i < end; ++i)
        result |= runList(program.body, plan.body, i);
      result |= runList(program.after, plan.after, end);
    }
    return result;
  }

  bool runList(const std::vector<RingEvent> &events,
               std::vector<RingSync> &syncs, int64_t iteration) {
    bool result = false;
    for (size_t i = 0; i < events.size(); ++i) {
      if (refining)
        result |= refineSync(events, i, syncs[i], iteration);
      apply(syncs[i]);
      if (!refining)
        result |= isHazard(events[i], iteration);
      step(events[i], iteration);
    }
    return result;
  }

  bool isHazard(const RingEvent &event, int64_t iteration) const {
    switch (event.kind) {
    case RingEvent::AcquireToRead:
      return !published.count(getTile(event, iteration));
    case RingEvent::AcquireToFill:
      return needsBarrier(event, iteration) ||
             getAllowedBeforeWrite(event, iteration).has_value();
    case RingEvent::Reclaim:
      return reclaimedSinceBarrier || isAnyOfWarp(releasedSinceBarrier) ||
             hasUnpublishedTileOfWarp();
    case RingEvent::Copy:
    case RingEvent::Commit:
    case RingEvent::Read:
    case RingEvent::Release:
      return false;
    }
    return false;
  }

  /// Adds to `sync` what event `i` needs.
  bool refineSync(const std::vector<RingEvent> &events, size_t i,
                  RingSync &sync, int64_t iteration) {
    bool hazard = isHazard(events[i], iteration);
    if (!hazard && sync.empty())
      return false;
    RingSync before = sync;
    bool fills = events[i].kind == RingEvent::AcquireToFill;
    if (hazard && sync.barrier != CopyScope::Block &&
        (!fills || needsBarrier(events[i], iteration)))
      sync.barrier =
          isReclaimed(events[i]) ? CopyScope::Block : events[i].scope;
    // The tiles this barrier can publish, of those acquired to read from here
    // on, are waited for here if they are on their way. A barrier of a warp
    // costs next to nothing, so it is there for the next of them alone.
    bool isOfBlock = sync.barrier == CopyScope::Block;
    std::optional<int64_t> inFlight = sync.waitInFlight;
    for (size_t j = i; j < events.size(); ++j) {
      if (events[j].kind != RingEvent::AcquireToRead ||
          !(isOfBlock || events[j].scope == CopyScope::Warp))
        continue;
      if (auto allowed = getAllowedInFlight(getTile(events[j], iteration)))
        inFlight = std::min(inFlight.value_or(*allowed), *allowed);
      if (!isOfBlock)
        break;
    }
    if (hazard && events[i].kind == RingEvent::Reclaim && !pending.empty())
      inFlight = 0;
    if (fills)
      if (auto allowed = getAllowedBeforeWrite(events[i], iteration))
        inFlight = std::min(inFlight.value_or(*allowed), *allowed);
    sync.waitInFlight = inFlight;
    return before.waitInFlight != sync.waitInFlight ||
           before.barrier != sync.barrier;
  }

  /// How many groups may stay unfinished if `tile` must be there; none when it
  /// is there already (or was never copied).
  std::optional<int64_t> getAllowedInFlight(Tile tile) const {
    for (size_t g = pending.size(); g-- > 0;)
      if (pending[g].count(tile))
        return static_cast<int64_t>(pending.size() - 1 - g);
    return std::nullopt;
  }

  /// Whether an entry is of a ring that belongs to one warp.
  static bool isAnyOfWarp(const std::map<Tile, CopyScope> &tiles) {
    return llvm::any_of(tiles, [](const auto &entry) {
      return entry.second == CopyScope::Warp;
    });
  }

  /// Whether a copy by the warp has not arrived in all of its threads.
  bool hasUnpublishedTileOfWarp() const {
    auto isOfWarp = [&](Tile tile) {
      return scopes.at(tile) == CopyScope::Warp;
    };
    return llvm::any_of(arrived, isOfWarp) ||
           llvm::any_of(pending, [&](const std::set<Tile> &group) {
             return llvm::any_of(group, isOfWarp);
           });
  }

  static bool isSameSlot(const RingEvent &event, Tile a, Tile b) {
    return a.first == b.first && (a.second - b.second) % event.numStages == 0;
  }

  /// Whether the event writes to memory that warps exchanged values through.
  bool isReclaimed(const RingEvent &event) const {
    return reclaimedSinceBarrier && event.kind != RingEvent::AcquireToRead &&
           event.scope == CopyScope::Warp;
  }

  /// Whether other threads may still use what a copy overwrites.
  bool needsBarrier(const RingEvent &event, int64_t iteration) const {
    Tile tile = getTile(event, iteration);
    return isReclaimed(event) ||
           llvm::any_of(releasedSinceBarrier, [&](const auto &entry) {
             return isSameSlot(event, entry.first, tile);
           });
  }

  /// How many groups may stay unfinished when a copy overwrites a slot; none
  /// when no other copy into it is on its way. (A thread copies the same
  /// elements of every tile of a ring, so it has to wait for its own alone.)
  std::optional<int64_t> getAllowedBeforeWrite(const RingEvent &event,
                                               int64_t iteration) const {
    Tile tile = getTile(event, iteration);
    for (size_t g = pending.size(); g-- > 0;)
      if (llvm::any_of(pending[g], [&](Tile other) {
            return isSameSlot(event, other, tile);
          }))
        return static_cast<int64_t>(pending.size() - 1 - g);
    return std::nullopt;
  }

  void apply(const RingSync &sync) {
    if (sync.waitInFlight)
      while (static_cast<int64_t>(pending.size()) > *sync.waitInFlight) {
        for (Tile tile : pending.front())
          arrived.insert(tile);
        pending.pop_front();
      }
    if (!sync.barrier)
      return;
    reclaimedSinceBarrier &= *sync.barrier != CopyScope::Block;
    for (auto it = arrived.begin(); it != arrived.end();) {
      bool meets =
          *sync.barrier == CopyScope::Block || scopes[*it] == CopyScope::Warp;
      if (meets)
        published.insert(*it);
      it = meets ? arrived.erase(it) : std::next(it);
    }
    for (auto it = releasedSinceBarrier.begin();
         it != releasedSinceBarrier.end();)
      it = *sync.barrier == CopyScope::Block || it->second == CopyScope::Warp
               ? releasedSinceBarrier.erase(it)
               : std::next(it);
  }

  void step(const RingEvent &event, int64_t iteration) {
    switch (event.kind) {
    case RingEvent::Commit:
      pending.push_back(std::move(open));
      open.clear();
      return;
    case RingEvent::Copy: {
      Tile tile = getTile(event, iteration);
      // Whatever the slot held is gone, also if it was the same tile.
      for (std::set<Tile> *tiles : {&arrived, &published})
        for (auto it = tiles->begin(); it != tiles->end();)
          it = isSameSlot(event, *it, tile) ? tiles->erase(it) : std::next(it);
      open.insert(tile);
      scopes[tile] = event.scope;
      return;
    }
    case RingEvent::Release:
      releasedSinceBarrier[getTile(event, iteration)] = event.scope;
      return;
    case RingEvent::AcquireToFill:
    case RingEvent::AcquireToRead:
    case RingEvent::Read:
      return;
    case RingEvent::Reclaim:
      reclaimedSinceBarrier = true;
      for (auto it = published.begin(); it != published.end();)
        it = scopes.at(*it) == CopyScope::Warp ? published.erase(it)
                                               : std::next(it);
      return;
    }
  }

  const RingProgram &program;
  RingPlan &plan;
  bool refining = false;
  std::set<Tile> open;                ///< copied, not committed
  std::deque<std::set<Tile>> pending; ///< committed groups, oldest first
  std::set<Tile> arrived;             ///< waited for by each thread
  std::set<Tile> published;           ///< ... and behind a barrier
  std::map<Tile, CopyScope> releasedSinceBarrier;
  bool reclaimedSinceBarrier = false;
  std::map<Tile, CopyScope> scopes;
};

/// What a thread has acquired, and which tile is in each slot.
class Sides {
public:
  /// What is wrong if `event` comes next, or null.
  const char *step(const RingEvent &event, int64_t iteration) {
    Tile tile = getTile(event, iteration);
    Tile slot(tile.first, tile.second % event.numStages);
    switch (event.kind) {
    case RingEvent::AcquireToFill:
      toFill.insert(tile);
      return readers.count(slot) ? "acquires a slot to fill of which the tile "
                                   "is acquired to read, and not released"
                                 : nullptr;
    case RingEvent::Copy:
      contents[slot] = {tile.second, event.scope};
      return toFill.erase(tile) ? nullptr
                                : "copies into a slot that is not acquired to "
                                  "fill";
    case RingEvent::AcquireToRead:
      readers[slot] = event.scope;
      return holds(slot, tile) ? nullptr
                               : "acquires a tile to read that is not the last "
                                 "one copied into its slot";
    case RingEvent::Read:
      return readers.count(slot) && holds(slot, tile)
                 ? nullptr
                 : "reads a tile that is not acquired to read";
    case RingEvent::Release:
      return readers.erase(slot) ? nullptr
                                 : "releases a tile that is not acquired to "
                                   "read";
    case RingEvent::Reclaim:
      return reclaim();
    case RingEvent::Commit:
      return nullptr;
    }
    return nullptr;
  }

private:
  bool holds(Tile slot, Tile tile) const {
    auto it = contents.find(slot);
    return it != contents.end() && it->second.first == tile.second;
  }

  const char *reclaim() {
    for (auto it = contents.begin(); it != contents.end();)
      it = it->second.second == CopyScope::Warp ? contents.erase(it)
                                                : std::next(it);
    for (const auto &[slot, scope] : readers)
      if (scope == CopyScope::Warp)
        return "reclaims rings of which a tile is acquired to read, and not "
               "released";
    return nullptr;
  }

  std::set<Tile> toFill;
  /// The tile number in each slot, and who copied it.
  std::map<Tile, std::pair<int64_t, CopyScope>> contents;
  std::map<Tile, CopyScope> readers; ///< slots acquired to read
};

/// How often the key loop runs, in each round of the program.
using Run = std::vector<int64_t>;

/// Runs that meet all that can happen. A slot is used again after numStages
/// iterations; two rounds reach the steady state. The loop may also end before
/// that, so every shorter run counts too. What repeats meets the leftovers of
/// any run before.
std::vector<Run> getRuns(const RingProgram &program) {
  int64_t numStages = 1;
  for (const RingEvent &event : program.body)
    numStages = std::max(numStages, event.numStages);
  int64_t maxIterations = 2 * numStages + 1;
  std::vector<Run> runs;
  for (int64_t n = 0; n <= maxIterations; ++n) {
    if (!program.repeats)
      runs.push_back({n});
    for (int64_t next = 0; program.repeats && next <= maxIterations; ++next)
      runs.push_back({n, next});
  }
  return runs;
}

/// The first fault of a run.
std::optional<RingFault> findFault(const RingProgram &program, const Run &run) {
  Sides sides;
  std::optional<RingFault> fault;
  auto step = [&](const std::vector<RingEvent> &events, int64_t iteration) {
    for (const RingEvent &event : events)
      if (const char *text = sides.step(event, iteration); text && !fault)
        fault = RingFault{&event, text};
  };
  step(program.prologue, 0);
  for (int64_t end : run) {
    step(program.before, 0);
    for (int64_t i = 0; i < end; ++i)
      step(program.body, i);
    step(program.after, end);
  }
  return fault;
}

/// Finds the plan for some runs of a program.
class Planner {
public:
  Planner(const RingProgram &program, std::vector<Run> runs)
      : program(program), runs(std::move(runs)) {}

  RingPlan plan() {
    RingPlan plan;
    plan.before.resize(program.before.size());
    plan.body.resize(program.body.size());
    plan.after.resize(program.after.size());
    plan.prologue.resize(program.prologue.size());
    complete(plan);
    moveOutOfBody(plan);
    removeSuperfluous(plan);
    return plan;
  }

private:
  bool anyRun(RingPlan &plan, bool (Machine::*find)(llvm::ArrayRef<int64_t>)) {
    bool result = false;
    for (const Run &run : runs)
      result |= (Machine(program, plan).*find)(run);
    return result;
  }

  /// Adds all that is missing. Each pass adds or tightens a sync, and there are
  /// finitely many.
  void complete(RingPlan &plan) {
    while (anyRun(plan, &Machine::refine))
      ;
  }

  static int64_t countBlockBarriers(const RingPlan &plan) {
    return llvm::count_if(plan.body, [](const RingSync &sync) {
      return sync.barrier == CopyScope::Block;
    });
  }

  /// Removes barriers from the loop where others outside can do their work.
  void moveOutOfBody(RingPlan &plan) {
    for (size_t i = 0; i < plan.body.size(); ++i) {
      if (plan.body[i].barrier != CopyScope::Block)
        continue;
      RingPlan other = plan;
      other.body[i] = RingSync();
      complete(other);
      if (countBlockBarriers(other) < countBlockBarriers(plan))
        plan = std::move(other);
    }
  }

  /// A sync added early may have become superfluous through a later one.
  void removeSuperfluous(RingPlan &plan) {
    for (auto *syncs : {&plan.prologue, &plan.before, &plan.body, &plan.after})
      for (RingSync &sync : *syncs) {
        if (sync.empty())
          continue;
        RingSync saved = std::exchange(sync, RingSync());
        if (anyRun(plan, &Machine::hasHazard))
          sync = saved;
      }
  }

  const RingProgram &program;
  std::vector<Run> runs;
};
} // namespace

std::optional<RingFault>
mlir::flashcore::findRingFault(const RingProgram &program) {
  for (const Run &run : getRuns(program))
    if (auto fault = findFault(program, run))
      return fault;
  return std::nullopt;
}

RingPlan mlir::flashcore::planRingSync(const RingProgram &program) {
  return Planner(program, getRuns(program)).plan();
}
