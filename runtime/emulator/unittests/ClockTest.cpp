//===- ClockTest.cpp - Sets of accesses that happened before --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Clocks share what they have in common, which nobody may notice: a set says of
// each thread of each CTA what was put into it, and nothing else. And kernels
// in which all threads release and acquire, over and over.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include "check/Clock.h"

#include <random>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
/// The plainest clock there is: an epoch for each thread.
struct PlainClock {
  static constexpr uint32_t ctas = 5, warps = 3;
  uint32_t epochs[ctas][warps][severalLanes] = {};

  void add(uint32_t cta, uint32_t warp, unsigned lane, uint32_t epoch) {
    epochs[cta][warp][lane] = std::max(epochs[cta][warp][lane], epoch);
  }
  void join(const PlainClock &other) {
    forEach([&](uint32_t cta, uint32_t warp, unsigned lane) {
      add(cta, warp, lane, other.epochs[cta][warp][lane]);
    });
  }
  template <typename F> static void forEach(F f) {
    for (uint32_t cta = 0; cta < ctas; ++cta)
      for (uint32_t warp = 0; warp < warps; ++warp)
        for (unsigned lane = 0; lane < severalLanes; ++lane)
          f(cta, warp, lane);
  }
};
} // namespace

static void expectSame(const ClockPtr &clock, const PlainClock &plain) {
  PlainClock::forEach([&](uint32_t cta, uint32_t warp, unsigned lane) {
    const uint32_t epoch = plain.epochs[cta][warp][lane];
    bool isIn = clock && clock->covers(cta, warp, lane, std::max(epoch, 1u));
    EXPECT_EQ(isIn, epoch > 0);
    EXPECT_FALSE(clock && clock->covers(cta, warp, lane, epoch + 1));
  });
}

TEST(Clock, SaysWhatWasPutIntoIt) {
  std::mt19937 random(3);
  auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<ClockPtr> clocks(6);
  std::vector<PlainClock> plain(6);
  for (unsigned step = 0; step < 4000; ++step) {
    const uint32_t i = below(6), j = below(6), cta = below(5), warp = below(3),
                   epoch = 1 + step / 40;
    if (below(2) == 0) {
      clocks[i] = Clock::join(clocks[i], clocks[j]);
      plain[i].join(plain[j]);
    } else if (below(8) == 0) {
      clocks[i] = Clock::with(clocks[i], {cta, Clock::allLanes(warp), epoch});
      for (unsigned lane = 0; lane < severalLanes; ++lane)
        plain[i].add(cta, warp, lane, epoch);
    } else {
      const unsigned lane = below(severalLanes);
      clocks[i] =
          Clock::with(clocks[i], {cta, Clock::oneLane(warp, lane), epoch});
      plain[i].add(cta, warp, lane, epoch);
    }
    if (step % 100 == 0)
      for (unsigned k = 0; k < clocks.size(); ++k)
        expectSame(clocks[k], plain[k]);
  }
}

TEST(Clock, TwoLanesStandForSeveral) {
  ClockPtr clock = Clock::with(nullptr, {7, Clock::oneLane(1, 4), 9});
  EXPECT_FALSE(clock->covers(7, 1, severalLanes, 9));
  clock = Clock::with(clock, {7, Clock::oneLane(1, 5), 8});
  EXPECT_FALSE(clock->covers(7, 1, severalLanes, 9));
  EXPECT_TRUE(clock->covers(7, 1, severalLanes, 8));
}

TEST(Clock, AllThatIsKnownAlreadyIsTakenOut) {
  VectorClock known{};
  known[0] = 5;
  ClockPtr clock = Clock::with(nullptr, {2, Clock::oneLane(0, 3), 5});
  EXPECT_EQ(Clock::without(clock, 2, known), nullptr);
  EXPECT_EQ(Clock::without(clock, 3, known), clock);
  clock = Clock::with(clock, {2, Clock::oneLane(0, 4), 6});
  clock = Clock::with(clock, {4, Clock::oneLane(0, 4), 1});
  ClockPtr left = Clock::without(clock, 2, known);
  ASSERT_NE(left, nullptr);
  EXPECT_FALSE(left->covers(2, 0, 3, 5));
  EXPECT_TRUE(left->covers(2, 0, 4, 6));
  EXPECT_TRUE(left->covers(4, 0, 4, 1));
  EXPECT_EQ(Clock::without(left, 2, known), left);
}

TEST(Clock, EndedCtasAreKnownInWhole) {
  ClockPtr clock;
  for (uint32_t cta = 0; cta < 10; ++cta)
    clock = Clock::with(clock, {cta, Clock::oneLane(0, 0), 1});
  EXPECT_EQ(clock->numCtas(), 10u);
  ClockPtr folded = Clock::fold(clock, 4, {2});
  EXPECT_EQ(folded->numCtas(), 5u);
  EXPECT_TRUE(folded->covers(1, 9, 9, 99));
  EXPECT_FALSE(folded->covers(2, 0, 0, 2));
  EXPECT_FALSE(folded->covers(8, 0, 0, 2));
  // What has ended stays so, whatever else is added or joined.
  EXPECT_EQ(Clock::with(folded, {1, Clock::oneLane(0, 0), 7}), folded);
  EXPECT_EQ(Clock::join(folded, clock), folded);
  EXPECT_EQ(Clock::join(clock, folded), folded);
}

/// All threads of 80 CTAs take a ticket, three times, with what comes before
/// and after the atomic; those that hold the last one read what all others
/// stored.
static RunResult takeTickets(const std::string &before,
                             const std::string &after) {
  RunConfig config;
  config.grid = {80, 1, 1};
  config.block = {64, 1, 1};
  config.buffers[0] = bytesOf(std::vector<uint32_t>(80 * 64, 0));
  config.buffers[1] = bytesOf(std::vector<uint32_t>(1, 0));
  config.buffers[2] = bytesOf(std::vector<uint32_t>(1, 0));
  return runBody(
      "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %t; mov.u32 %r3, 0;"
      "mul.wide.u32 %d5, %r2, 4; add.s64 %d6, %g0, %d5;\n"
      "st.global.u32 [%d6], %r2;\nL: " +
          before + " atom.global.add.u32 %r4, [%g1], 1; " + after +
          " add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 3; @%p0 bra L;\n"
          "setp.ne.u32 %p1, %r4, 15359; @%p1 exit; mov.u32 %r5, 0;\n"
          "mov.u32 %r6, 0; mov.u64 %d7, %g0;\nS: ld.global.u32 %r7, [%d7];"
          "add.u32 %r6, %r6, %r7; add.s64 %d7, %d7, 4; add.u32 %r5, %r5, 1;"
          "setp.lt.u32 %p2, %r5, 5120; @%p2 bra S;\n"
          "st.global.u32 [%g2], %r6;",
      config);
}

TEST(Clock, EachThreadFencesAndCountsInALoop) {
  RunResult run = takeTickets("membar.gl;", "membar.gl;");
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(2, 0), 5120u * 5119u / 2);
  // One that counts no other CTA in orders nothing.
  run = takeTickets("membar.cta;", "membar.cta;");
  EXPECT_GE(run.count(FindingKind::GlobalRace), 1u) << run.text();
}
