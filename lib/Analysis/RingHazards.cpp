//===- RingHazards.cpp - Waits and barriers of ring buffers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the program on an abstract machine (a queue of copy groups, the tiles
// published by barriers, the slots read since the last barrier) for enough
// iterations to reach the steady state, and adds a sync in front of the first
// event that would be a hazard, until there is none left.
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

  static Tile tileOf(const RingEvent &event, int64_t iteration) {
    return {event.ring, event.offset + (event.perIteration ? iteration : 0)};
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
    case RingEvent::Commit:
      return false;
    case RingEvent::Read:
      return !published.count(tileOf(event, iteration));
    case RingEvent::Copy:
      return needsBarrier(event, iteration) ||
             getAllowedBeforeWrite(event, iteration).has_value();
    case RingEvent::Reclaim:
      return reclaimedSinceBarrier || isAnyOfWarp(readSinceBarrier) ||
             hasUnpublishedTileOfWarp();
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
    bool isCopy = events[i].kind == RingEvent::Copy;
    if (hazard && sync.barrier != CopyScope::Block &&
        (!isCopy || needsBarrier(events[i], iteration)))
      sync.barrier =
          isReclaimed(events[i]) ? CopyScope::Block : events[i].scope;
    // The tiles this barrier can publish, of those read from here on, are
    // waited for here if they are on their way. A barrier of a warp costs next
    // to nothing, so it is there for the next read alone.
    bool isOfBlock = sync.barrier == CopyScope::Block;
    std::optional<int64_t> inFlight = sync.waitInFlight;
    for (size_t j = i; j < events.size(); ++j) {
      if (events[j].kind != RingEvent::Read ||
          !(isOfBlock || events[j].scope == CopyScope::Warp))
        continue;
      if (auto allowed = getAllowedInFlight(tileOf(events[j], iteration)))
        inFlight = std::min(inFlight.value_or(*allowed), *allowed);
      if (!isOfBlock)
        break;
    }
    if (hazard && events[i].kind == RingEvent::Reclaim && !pending.empty())
      inFlight = 0;
    if (isCopy)
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
    return reclaimedSinceBarrier && event.kind != RingEvent::Read &&
           event.scope == CopyScope::Warp;
  }

  /// Whether other threads may still use what a copy overwrites.
  bool needsBarrier(const RingEvent &event, int64_t iteration) const {
    Tile tile = tileOf(event, iteration);
    return isReclaimed(event) ||
           llvm::any_of(readSinceBarrier, [&](const auto &entry) {
             return isSameSlot(event, entry.first, tile);
           });
  }

  /// How many groups may stay unfinished when a copy overwrites a slot; none
  /// when no other copy into it is on its way. (A thread copies the same
  /// elements of every tile of a ring, so it has to wait for its own alone.)
  std::optional<int64_t> getAllowedBeforeWrite(const RingEvent &event,
                                               int64_t iteration) const {
    Tile tile = tileOf(event, iteration);
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
    for (auto it = readSinceBarrier.begin(); it != readSinceBarrier.end();)
      it = *sync.barrier == CopyScope::Block || it->second == CopyScope::Warp
               ? readSinceBarrier.erase(it)
               : std::next(it);
  }

  void step(const RingEvent &event, int64_t iteration) {
    switch (event.kind) {
    case RingEvent::Commit:
      pending.push_back(std::move(open));
      open.clear();
      return;
    case RingEvent::Copy: {
      Tile tile = tileOf(event, iteration);
      // Whatever the slot held is gone, also if it was the same tile.
      for (std::set<Tile> *tiles : {&arrived, &published})
        for (auto it = tiles->begin(); it != tiles->end();)
          it = isSameSlot(event, *it, tile) ? tiles->erase(it) : std::next(it);
      open.insert(tile);
      scopes[tile] = event.scope;
      return;
    }
    case RingEvent::Read:
      readSinceBarrier[tileOf(event, iteration)] = event.scope;
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
  std::map<Tile, CopyScope> readSinceBarrier;
  bool reclaimedSinceBarrier = false;
  std::map<Tile, CopyScope> scopes;
};
} // namespace

namespace {
/// How often the key loop runs, in each round of the program.
using Run = std::vector<int64_t>;

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

RingPlan mlir::flashcore::planRingSync(const RingProgram &program) {
  int64_t numStages = 1;
  for (const RingEvent &event : program.body)
    numStages = std::max(numStages, event.numStages);
  // A slot is reused after numStages iterations; two rounds reach the steady
  // state. The loop may also end before that, so every shorter run counts too.
  // What repeats meets the leftovers of any run before.
  int64_t maxIterations = 2 * numStages + 1;
  std::vector<Run> runs;
  for (int64_t n = 0; n <= maxIterations; ++n) {
    if (!program.repeats)
      runs.push_back({n});
    for (int64_t next = 0; program.repeats && next <= maxIterations; ++next)
      runs.push_back({n, next});
  }
  return Planner(program, std::move(runs)).plan();
}
