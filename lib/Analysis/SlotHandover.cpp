//===- SlotHandover.cpp - Proof of slots that change hands ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Waiting is all that the roles know of each other, and no wait is undone by
// what the other does, so one order of steps stands for all.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/SlotHandover.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <deque>
#include <map>
#include <set>
#include <utility>

using namespace mlir::flashcore;

namespace {
using Tile = std::pair<unsigned, int64_t>; // ring, tile number

/// Tiles by ring.
using TileCounts = std::map<unsigned, int64_t>;

struct Step {
  const HandoverEvent *event;
  int64_t iteration;
  /// Those of the rounds before.
  const TileCounts *before;

  Tile getTile(const TileRef &ref) const {
    auto it = before->find(ref.ring);
    int64_t first = it == before->end() ? 0 : it->second;
    return {ref.ring, first + ref.offset + (ref.perIteration ? iteration : 0)};
  }
  Tile getTile() const { return getTile(event->tiles.front()); }
};

void unroll(const RoleProgram &program, int64_t numPassed,
            int64_t numIterations, const TileCounts &before,
            std::vector<Step> &steps) {
  auto append = [&](const std::vector<HandoverEvent> &events, int64_t i) {
    for (const HandoverEvent &event : events)
      steps.push_back({&event, i, &before});
  };
  for (int64_t i = 0; i < numPassed; ++i)
    append(program.passing, i);
  append(program.before, numPassed);
  int64_t end = numPassed + numIterations;
  for (int64_t i = numPassed; i < end; ++i)
    append(program.body, i);
  append(program.after, end);
}

std::string describe(Tile tile) {
  return llvm::formatv("tile {0} of ring {1}", tile.second, tile.first);
}

/// Both roles.
class Machine {
public:
  std::optional<std::string> run(std::vector<Step> filler,
                                 std::vector<Step> reader) {
    size_t nextOfFiller = 0, nextOfReader = 0;
    for (bool moves = true; moves && !error;) {
      moves = false;
      for (;
           !error && nextOfFiller < filler.size() && fill(filler[nextOfFiller]);
           ++nextOfFiller)
        moves = true;
      for (;
           !error && nextOfReader < reader.size() && read(reader[nextOfReader]);
           ++nextOfReader)
        moves = true;
    }
    if (error)
      return error;
    if (nextOfReader < reader.size())
      return describe(reader[nextOfReader].getTile()) +
             " is read, but never filled";
    if (nextOfFiller < filler.size())
      return describe(filler[nextOfFiller].getTile()) +
             " waits for a slot that is never released";
    if (!inFlight.empty())
      return "a product is never awaited";
    return std::nullopt;
  }

private:
  /// One step, unless it has to wait.
  bool fill(const Step &step) {
    Tile tile = step.getTile();
    int64_t before = tile.second - step.event->tiles.front().numStages;
    if (step.event->kind == HandoverEvent::Acquire) {
      if (before >= 0 && !released.count({tile.first, before}))
        return false;
      takeNext(nextToFill, tile, "filled");
      toFill.insert(tile);
    } else if (step.event->kind == HandoverEvent::Copy) {
      if (!toFill.erase(tile))
        fail(describe(tile) + " is filled, but not acquired");
      filled.insert(tile);
    } else {
      fail("who fills a ring does nothing but acquire and copy");
    }
    return true;
  }

  bool read(const Step &step) {
    switch (step.event->kind) {
    case HandoverEvent::Acquire:
      return acquire(step.getTile());
    case HandoverEvent::Start:
      inFlight.emplace_back();
      for (const TileRef &ref : step.event->tiles) {
        Tile tile = step.getTile(ref);
        if (!acquired.count(tile))
          fail(describe(tile) + " is read, but not acquired or released");
        inFlight.back().insert(tile);
      }
      return true;
    case HandoverEvent::Await:
      while (static_cast<int64_t>(inFlight.size()) > step.event->inFlight)
        inFlight.pop_front();
      return true;
    case HandoverEvent::Release:
      release(step.getTile());
      return true;
    case HandoverEvent::Copy:
      fail("who reads a ring does not copy into it");
      return true;
    }
    return true;
  }

  bool acquire(Tile tile) {
    if (!filled.count(tile))
      return false;
    takeNext(nextToRead, tile, "read");
    acquired.insert(tile);
    return true;
  }

  void release(Tile tile) {
    if (!acquired.erase(tile))
      fail(describe(tile) + " is released, but not acquired");
    for (const std::set<Tile> &product : inFlight)
      if (product.count(tile))
        fail(describe(tile) + " is released while a product reads it");
    released.insert(tile);
  }

  void takeNext(std::map<unsigned, int64_t> &next, Tile tile,
                llvm::StringRef what) {
    int64_t &expected = next[tile.first];
    if (tile.second != expected)
      fail(llvm::formatv("{0} is {1} where tile {2} is the next",
                         describe(tile), what, expected));
    ++expected;
  }

  void fail(std::string text) {
    if (!error)
      error = std::move(text);
  }

  std::map<unsigned, int64_t> nextToFill, nextToRead;
  std::set<Tile> toFill, filled, acquired, released;
  std::deque<std::set<Tile>> inFlight; ///< tiles of products, oldest first
  std::optional<std::string> error;
};
} // namespace

CopyCounts mlir::flashcore::countCopies(const RoleProgram &filler) {
  CopyCounts counts;
  auto add = [](const std::vector<HandoverEvent> &events, TileCounts &tiles) {
    for (const HandoverEvent &event : events)
      if (event.kind == HandoverEvent::Copy)
        ++tiles[event.tiles.front().ring];
  };
  add(filler.before, counts.fixed);
  add(filler.body, counts.perIteration);
  add(filler.after, counts.fixed);
  return counts;
}

std::optional<std::string>
mlir::flashcore::checkHandover(const RoleProgram &filler,
                               const RoleProgram &reader,
                               llvm::ArrayRef<HandoverRound> rounds) {
  CopyCounts copies = countCopies(filler);
  std::vector<TileCounts> before(1);
  for (const HandoverRound &round : rounds) {
    TileCounts next = before.back();
    for (auto [ring, count] : copies.fixed)
      next[ring] += count;
    for (auto [ring, count] : copies.perIteration)
      next[ring] += count * round.fillerIterations;
    before.push_back(std::move(next));
  }
  std::vector<Step> filling, reading;
  for (auto [i, round] : llvm::enumerate(rounds)) {
    unroll(filler, 0, round.fillerIterations, before[i], filling);
    unroll(reader, round.numPassed, round.readerIterations, before[i], reading);
  }
  return Machine().run(std::move(filling), std::move(reading));
}
