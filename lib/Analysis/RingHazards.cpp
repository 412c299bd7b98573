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
  /// if it had to.
  bool refine(int64_t numIterations) {
    refining = true;
    return run(numIterations);
  }
  /// Whether the program with the plan as it is has a hazard.
  bool hasHazard(int64_t numIterations) {
    refining = false;
    return run(numIterations);
  }

private:
  bool run(int64_t numIterations) {
    bool result = runList(program.before, plan.before, 0);
    for (int64_t i = 0; i < numIterations; ++i)
      result |= runList(program.body, plan.body, i);
    return result | runList(program.after, plan.after, numIterations);
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
      return isSlotInUse(event, iteration);
    case RingEvent::Reclaim:
      return isAnyOfWarp(readSinceBarrier) || hasUnpublishedTileOfWarp();
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
    if (hazard && sync.barrier != CopyScope::Block)
      sync.barrier = events[i].scope;
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

  bool isSlotInUse(const RingEvent &event, int64_t iteration) const {
    Tile tile = tileOf(event, iteration);
    return llvm::any_of(readSinceBarrier, [&](const auto &entry) {
      return entry.first.first == tile.first &&
             (entry.first.second - tile.second) % event.numStages == 0;
    });
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
      auto isSameSlot = [&](Tile other) {
        return other.first == tile.first &&
               (other.second - tile.second) % event.numStages == 0;
      };
      // Whatever the slot held is gone, also if it was the same tile.
      for (std::set<Tile> *tiles : {&arrived, &published})
        for (auto it = tiles->begin(); it != tiles->end();)
          it = isSameSlot(*it) ? tiles->erase(it) : std::next(it);
      open.insert(tile);
      scopes[tile] = event.scope;
      return;
    }
    case RingEvent::Read:
      readSinceBarrier[tileOf(event, iteration)] = event.scope;
      return;
    case RingEvent::Reclaim:
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
  std::map<Tile, CopyScope> scopes;
};
} // namespace

RingPlan mlir::flashcore::planRingSync(const RingProgram &program) {
  RingPlan plan;
  plan.before.resize(program.before.size());
  plan.body.resize(program.body.size());
  plan.after.resize(program.after.size());
  int64_t numStages = 1;
  for (const RingEvent &event : program.body)
    numStages = std::max(numStages, event.numStages);
  // A slot is reused after numStages iterations; two rounds reach the steady
  // state. The loop may also end before that, so every shorter run counts too.
  int64_t maxIterations = 2 * numStages + 1;
  auto anyRun = [&](auto &&predicate) {
    bool result = false;
    for (int64_t n = 0; n <= maxIterations; ++n)
      result |= predicate(Machine(program, plan), n);
    return result;
  };
  // Each pass adds or tightens a sync, and there are finitely many.
  while (anyRun([](Machine machine, int64_t n) { return machine.refine(n); }))
    ;
  // A sync added early may have become superfluous through a later one.
  for (auto *syncs : {&plan.before, &plan.body, &plan.after})
    for (RingSync &sync : *syncs) {
      if (sync.empty())
        continue;
      RingSync saved = std::exchange(sync, RingSync());
      if (anyRun(
              [](Machine machine, int64_t n) { return machine.hasHazard(n); }))
        sync = saved;
    }
  return plan;
}
