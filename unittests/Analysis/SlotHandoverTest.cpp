//===- SlotHandoverTest.cpp - Right and wrong handovers -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The programs are those of an attention kernel: K and V in rings of two slots,
// P V of a tile beside Q K^T of the next.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/SlotHandover.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
using Event = HandoverEvent;
enum Ring : unsigned { K, V };

TileRef tile(Ring ring, int64_t offset) { return {ring, 2, true, offset}; }
TileRef fixed(Ring ring, int64_t number) { return {ring, 2, false, number}; }
Event acquire(TileRef ref) { return {Event::Acquire, {ref}, 0}; }
Event copy(TileRef ref) { return {Event::Copy, {ref}, 0}; }
Event start(TileRef ref) { return {Event::Start, {ref}, 0}; }
Event release(TileRef ref) { return {Event::Release, {ref}, 0}; }
Event await(int64_t inFlight) { return {Event::Await, {}, inFlight}; }

RoleProgram makeFiller() {
  return {{},
          {acquire(tile(K, 0)), copy(tile(K, 0)), acquire(tile(V, 0)),
           copy(tile(V, 0))},
          {}};
}

/// The first product in front of the loop, the last one behind it.
RoleProgram makeReader(int64_t numTiles) {
  return {{acquire(fixed(K, 0)), start(fixed(K, 0)), await(0),
           release(fixed(K, 0))},
          {acquire(tile(K, 1)), start(tile(K, 1)), acquire(tile(V, 0)),
           start(tile(V, 0)), await(1), release(tile(K, 1)), await(0),
           release(tile(V, 0))},
          {acquire(fixed(V, numTiles - 1)), start(fixed(V, numTiles - 1)),
           await(0), release(fixed(V, numTiles - 1))}};
}

std::string check(const RoleProgram &reader, int64_t numTiles,
                  const RoleProgram &filler = makeFiller()) {
  return checkHandover(filler, reader, {{numTiles, numTiles - 1}}).value_or("");
}

TEST(SlotHandover, OneProductAheadIsRight) {
  for (int64_t numTiles = 1; numTiles <= 9; ++numTiles)
    EXPECT_EQ(check(makeReader(numTiles), numTiles), "") << numTiles;
}

TEST(SlotHandover, ReleaseBeforeTheWaitThatCoversTheRead) {
  RoleProgram reader = makeReader(5);
  std::swap(reader.body[4], reader.body[5]); // release K, then wait
  EXPECT_EQ(check(reader, 5),
            "tile 1 of ring 0 is released while a product reads it");
  reader = makeReader(5);
  reader.body[6].inFlight = 1; // the wait leaves P V under way
  EXPECT_EQ(check(reader, 5),
            "tile 0 of ring 1 is released while a product reads it");
}

TEST(SlotHandover, ReadWithoutAcquire) {
  RoleProgram reader = makeReader(5);
  reader.body.erase(reader.body.begin() + 2);
  EXPECT_EQ(check(reader, 5),
            "tile 0 of ring 1 is read, but not acquired or released");
}

TEST(SlotHandover, ReadAfterRelease) {
  RoleProgram reader = makeReader(5);
  reader.body.push_back(start(tile(K, 1)));
  EXPECT_EQ(check(reader, 5),
            "tile 1 of ring 0 is read, but not acquired or released");
}

TEST(SlotHandover, SlotsThatAreNeverReleased) {
  RoleProgram reader = makeReader(5);
  reader.body.pop_back();
  EXPECT_EQ(check(reader, 5), "tile 3 of ring 0 is read, but never filled");
  // As many tiles as slots need no release.
  reader = makeReader(2);
  reader.body.pop_back();
  EXPECT_EQ(check(reader, 2), "");
}

TEST(SlotHandover, TilesThatAreNeverRead) {
  RoleProgram reader = makeReader(5);
  EXPECT_EQ(checkHandover(makeFiller(), reader, {{9, 4}}).value_or(""),
            "tile 7 of ring 0 waits for a slot that is never released");
}

TEST(SlotHandover, TilesOutOfOrder) {
  RoleProgram reader = makeReader(5);
  for (Event &event : reader.body)
    for (TileRef &ref : event.tiles)
      if (ref.ring == V)
        ref.offset = 1;
  EXPECT_EQ(check(reader, 5),
            "tile 1 of ring 1 is read where tile 0 is the next");
  RoleProgram filler = makeFiller();
  filler.body[0] = acquire(tile(K, 1));
  EXPECT_EQ(check(makeReader(5), 5, filler),
            "tile 1 of ring 0 is filled where tile 0 is the next");
}

TEST(SlotHandover, FilledWithoutAcquire) {
  RoleProgram filler = makeFiller();
  filler.body.erase(filler.body.begin());
  EXPECT_EQ(check(makeReader(5), 5, filler),
            "tile 0 of ring 0 is filled, but not acquired");
}

TEST(SlotHandover, ProductsAtTheEnd) {
  RoleProgram reader = makeReader(5);
  reader.after.push_back(start(fixed(V, 4)));
  reader.after.erase(reader.after.begin() + 3); // the release
  EXPECT_EQ(check(reader, 5), "a product is never awaited");
}

// In a persistent kernel both roles run once for each block tile: the tiles of
// a round have the numbers behind those of the round before.
TEST(SlotHandover, RoundsFollowEachOther) {
  std::vector<HandoverRound> equal(4, {5, 4});
  EXPECT_EQ(checkHandover(makeFiller(), makeReader(5), equal).value_or(""), "");
}

/// Reads all tiles in its loop, as many as there are.
RoleProgram makeSimpleReader() {
  return {{},
          {acquire(tile(K, 0)), acquire(tile(V, 0)), start(tile(K, 0)),
           start(tile(V, 0)), await(0), release(tile(K, 0)),
           release(tile(V, 0))},
          {}};
}

TEST(SlotHandover, RoundsMayDifferInLength) {
  EXPECT_EQ(checkHandover(makeFiller(), makeSimpleReader(),
                          {{3, 3}, {0, 0}, {1, 1}, {5, 5}})
                .value_or(""),
            "");
  // A round that reads less than was filled: the next takes the wrong tiles.
  EXPECT_EQ(checkHandover(makeFiller(), makeSimpleReader(), {{3, 2}, {3, 3}})
                .value_or(""),
            "tile 3 of ring 0 is read where tile 2 is the next");
}

// What is kept in one round, the next has no slot for.
TEST(SlotHandover, RoundsThatKeepATile) {
  RoleProgram filler{{acquire(fixed(K, 0)), copy(fixed(K, 0)),
                      acquire(fixed(K, 1)), copy(fixed(K, 1))},
                     {},
                     {}};
  RoleProgram reader{{acquire(fixed(K, 0)), acquire(fixed(K, 1)),
                      start(fixed(K, 0)), start(fixed(K, 1)), await(0)},
                     {},
                     {}};
  EXPECT_EQ(checkHandover(filler, reader, {{0, 0}}).value_or(""), "");
  EXPECT_EQ(checkHandover(filler, reader, {{0, 0}, {0, 0}}).value_or(""),
            "tile 2 of ring 0 is read, but never filled");
  reader.after = {release(fixed(K, 0)), release(fixed(K, 1))};
  EXPECT_EQ(
      checkHandover(filler, reader, {{0, 0}, {0, 0}, {0, 0}}).value_or(""), "");
}

// A warpgroup whose rows see nothing of the first tiles takes them and gives
// them back, in front of its loop over the others.
TEST(SlotHandover, TilesThatArePassedBy) {
  RoleProgram reader = makeSimpleReader();
  reader.passing = {acquire(tile(K, 0)), release(tile(K, 0)),
                    acquire(tile(V, 0)), release(tile(V, 0))};
  for (int64_t passed = 0; passed <= 5; ++passed)
    EXPECT_EQ(checkHandover(makeFiller(), reader,
                            {{5, 5 - passed, passed}, {3, 3, 0}})
                  .value_or(""),
              "")
        << passed;
  // Those that are not are waited for in vain.
  reader.passing.pop_back();
  EXPECT_EQ(checkHandover(makeFiller(), reader, {{5, 2, 3}}).value_or(""),
            "tile 2 of ring 1 is read, but never filled");
  // The loop begins with the tile behind them.
  reader.passing.clear();
  EXPECT_EQ(checkHandover(makeFiller(), reader, {{5, 3, 2}}).value_or(""),
            "tile 2 of ring 0 is read, but never filled");
}

TEST(SlotHandover, CopiesAreCountedByRing) {
  RoleProgram filler = makeFiller();
  filler.before = {acquire(fixed(K, 0)), copy(fixed(K, 0))};
  filler.after = {acquire(fixed(K, 9)), copy(fixed(K, 9)), acquire(fixed(V, 9)),
                  copy(fixed(V, 9))};
  filler.body.push_back(acquire(tile(V, 1)));
  filler.body.push_back(copy(tile(V, 1)));
  CopyCounts counts = countCopies(filler);
  EXPECT_EQ(counts.fixed, (std::map<unsigned, int64_t>{{K, 2}, {V, 1}}));
  EXPECT_EQ(counts.perIteration, (std::map<unsigned, int64_t>{{K, 1}, {V, 2}}));
}
} // namespace
