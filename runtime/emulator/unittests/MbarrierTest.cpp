//===- MbarrierTest.cpp - mbarriers ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Phases, counts, what waits order, and what is reported of each misuse.
//
//===----------------------------------------------------------------------===//

#include "FindingUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static const std::string storage =
    ".shared .align 8 .b8 bars[64]; .shared .align 16 .b8 data[256];";

static RunConfig launchOf(uint32_t threads) {
  RunConfig config;
  config.block = {threads, 1, 1};
  return config;
}

static RunResult runIn(uint32_t threads, const std::string &body) {
  return runSm90(body, launchOf(threads), storage);
}

/// Thread 0 makes an mbarrier for `count` arrivals, and all see it.
static std::string init(unsigned count, unsigned at = 0) {
  return "{ .reg .pred q; setp.eq.u32 q, %t, 0;"
         "@q mbarrier.init.shared::cta.b64 [bars+" +
         std::to_string(at) + "], " + std::to_string(count) +
         "; fence.mbarrier_init.release.cluster; bar.sync 0; }\n";
}

/// A loop as compilers write it.
static std::string waitFor(const std::string &parity,
                           const std::string &at = "bars") {
  return "{ .reg .pred done; LOOP: mbarrier.try_wait.parity.shared.b64 done, "
         "[" +
         at + "], " + parity +
         ", 10000000; @done bra.uni DONE; bra.uni LOOP; DONE: }\n";
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

TEST(Mbarrier, CountsArrivalsAndPhases) {
  // What is pending before each arrival, and whether the phase is over.
  RunResult run = runIn(
      1, init(3) +
             "mbarrier.arrive.shared.b64 %d0, [bars];"
             "mbarrier.pending_count.b64 %r0, %d0; st.global.u32 [%g0], %r0;"
             "mbarrier.test_wait.shared.b64 %p0, [bars], %d0;"
             "selp.u32 %r1, 1, 0, %p0; st.global.u32 [%g0+4], %r1;"
             "mbarrier.arrive.release.cta.shared::cta.b64 %d1, [bars], 2;"
             "mbarrier.pending_count.b64 %r0, %d1; st.global.u32 [%g0+8], %r0;"
             "mbarrier.test_wait.shared.b64 %p0, [bars], %d0;"
             "selp.u32 %r1, 1, 0, %p0; st.global.u32 [%g0+12], %r1;"
             "mbarrier.test_wait.parity.shared.b64 %p0, [bars], 0;"
             "mbarrier.test_wait.parity.shared.b64 %p1, [bars], 1;"
             "selp.u32 %r1, 1, 0, %p0; selp.u32 %r2, 1, 0, %p1;"
             "st.global.u32 [%g0+16], %r1; st.global.u32 [%g0+20], %r2;"
             "mbarrier.inval.shared.b64 [bars];");
  expectClean(run);
  const uint32_t expected[] = {3, 0, 2, 1, 1, 0};
  for (unsigned i = 0; i < 6; ++i)
    EXPECT_EQ(run.word(0, i), expected[i]) << i;
}

TEST(Mbarrier, BytesHoldAPhaseBack) {
  RunResult run = runIn(
      1, init(1) +
             "mbarrier.arrive.expect_tx.shared.b64 %d0, [bars], 48;"
             "mbarrier.test_wait.shared.b64 %p0, [bars], %d0;"
             "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], 32;"
             "mbarrier.test_wait.shared.b64 %p1, [bars], %d0;"
             "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bars], 16;"
             "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bars], 32;"
             "mbarrier.test_wait.shared.b64 %p2, [bars], %d0;"
             "selp.u32 %r1, 1, 0, %p0; selp.u32 %r2, 1, 0, %p1;"
             "selp.u32 %r3, 1, 0, %p2; st.global.u32 [%g0], %r1;"
             "st.global.u32 [%g0+4], %r2; st.global.u32 [%g0+8], %r3;");
  expectClean(run);
  EXPECT_EQ(run.word(0, 0), 0u);
  EXPECT_EQ(run.word(0, 1), 0u);
  EXPECT_EQ(run.word(0, 2), 1u);
}

TEST(Mbarrier, DropLowersTheCountOfLaterPhases) {
  RunResult run =
      runIn(1, init(2) + "mbarrier.arrive_drop.shared.b64 %d0, [bars];"
                         "mbarrier.arrive.shared.b64 %d0, [bars];"
                         "mbarrier.arrive.shared.b64 %d1, [bars];"
                         "mbarrier.pending_count.b64 %r0, %d1;"
                         "st.global.u32 [%g0], %r0;"
                         "mbarrier.test_wait.shared.b64 %p0, [bars], %d1;"
                         "selp.u32 %r1, 1, 0, %p0;"
                         "st.global.u32 [%g0+4], %r1;");
  expectClean(run);
  EXPECT_EQ(run.word(0, 0), 1u);
  EXPECT_EQ(run.word(0, 1), 1u);
}

TEST(Mbarrier, AllSpellingsOfAddresses) {
  expectClean(runIn(
      1, init(8) +
             "mov.u32 %r0, bars; cvt.u64.u32 %d0, %r0; cvta.shared.u64 %d1, "
             "%d0; cvta.to.shared::cluster.u64 %d2, %d1;"
             "mapa.shared::cluster.u32 %r1, %r0, 0; mapa.u64 %d3, %d1, 0;"
             "mbarrier.arrive.b64 %d9, [%d1];"
             "mbarrier.arrive.b64 %d9, [%d3];"
             "mbarrier.arrive.shared.b64 %d9, [%r0];"
             "mbarrier.arrive.shared.b64 _, [%r0+0];"
             "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];"
             "mbarrier.arrive.shared::cluster.b64 _, [%d2];"
             "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d9, "
             "[bars], 1;"
             "mbarrier.arrive.relaxed.cta.shared.b64 _, [%r0];" +
             waitFor("0")));
  RunResult run = runIn(1, init(1) + "mov.u32 %r0, bars; mov.u32 %r2, 1;"
                                     "mapa.shared::cluster.u32 %r1, %r0, %r2;"
                                     "mbarrier.arrive.shared::cluster.b64 _, "
                                     "[%r1];");
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
}

TEST(Mbarrier, WaitsOrderWhatWasBefore) {
  const std::string roles = "setp.gt.u32 %p1, %t, 31; @%p1 bra READ;\n";
  auto kernel = [&](const std::string &arrive, const std::string &wait) {
    return init(32) + roles +
           "mul.wide.u32 %d0, %t, 4; mov.u64 %d1, data; add.s64 %d1, %d1, %d0;"
           "st.shared.u32 [%d1], %t;" +
           arrive + "bra END;\nREAD:" + wait +
           "ld.shared.u32 %r1, [data+16]; st.global.u32 [%g0], %r1;\nEND:";
  };
  const std::string arrive = "mbarrier.arrive.shared.b64 _, [bars];";
  RunResult run = runIn(64, kernel(arrive, waitFor("0")));
  expectClean(run);
  EXPECT_EQ(run.word(0, 0), 4u);
  RunConfig config = launchOf(64);
  for (Schedule schedule : {Schedule::Skewed, Schedule::Random}) {
    config.options.schedule = schedule;
    expectClean(runSm90(kernel(arrive, waitFor("0")), config, storage));
  }
  // No wait, one for the phase before, and no release.
  for (const std::string &wait : {std::string(), waitFor("1")})
    EXPECT_EQ(runIn(64, kernel(arrive, wait)).count(FindingKind::SharedRace),
              1u);
  expectOne(runIn(64, kernel("mbarrier.arrive.relaxed.cta.shared.b64 _, "
                             "[bars];",
                             waitFor("0"))),
            FindingKind::SharedRace, "written by another thread");
}

//===----------------------------------------------------------------------===//
// Misuse
//===----------------------------------------------------------------------===//

TEST(Mbarrier, Misuse) {
  const std::pair<std::string, const char *> cases[] = {
      {"mbarrier.arrive.shared.b64 _, [bars];", "there is no mbarrier at"},
      {init(1) + "mbarrier.arrive.shared.b64 _, [bars], 2;",
       "arrives 2 times at the mbarrier at byte 0 of 'bars' (64 bytes), of "
       "which 1 of 1 arrivals are missing in phase 0"},
      {init(1) + "mbarrier.init.shared.b64 [bars], 1;", "where an mbarrier is"},
      {"mbarrier.init.shared.b64 [bars], 0;", "for 0 arrivals"},
      {"mbarrier.init.shared.b64 [bars], 1048576;", "for 1048576 arrivals"},
      {init(1) + "mbarrier.expect_tx.relaxed.cta.shared.b64 [bars], 1048575;"
                 "mbarrier.expect_tx.relaxed.cta.shared.b64 [bars], 1;",
       "becomes 1048576"},
      {init(1) + "mbarrier.complete_tx.relaxed.cta.shared.b64 [bars], 1048576;",
       "becomes -1048576"},
      {init(1) + "mbarrier.arrive.noComplete.shared.b64 %d0, [bars], 1;",
       "noComplete completes phase 0"},
      {init(1) + "ld.shared.u32 %r0, [bars+4];",
       "reads byte 4 of 'bars' (64 bytes), where an mbarrier is"},
      {init(1) + "mov.u32 %r0, 0; st.shared.u32 [bars], %r0;",
       "writes byte 0 of 'bars' (64 bytes), where an mbarrier is"}};
  for (const auto &[body, text] : cases)
    expectOne(runIn(1, body), FindingKind::InvalidMbarrier, text);
  expectOne(runIn(1, "mbarrier.init.shared.b64 [bars+4], 1;"),
            FindingKind::Misaligned, "no multiple of 8");
  expectOne(runIn(1, "mbarrier.init.shared.b64 [bars+64], 1;"),
            FindingKind::OutOfBounds, "past the end of 'bars'");
  // After inval the bytes are memory again.
  expectClean(runIn(1, init(1) + "mbarrier.inval.shared.b64 [bars];"
                                 "mov.u32 %r0, 0; st.shared.u32 [bars], %r0;"
                                 "mbarrier.init.shared.b64 [bars], 1;"));
}

TEST(Mbarrier, InitIsSeenBehindABarrierOnly) {
  const std::string body =
      "setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [bars], 64;"
      "BARRIER mbarrier.arrive.shared.b64 _, [bars];";
  auto with = [&](const std::string &barrier) {
    std::string text = body;
    return text.replace(text.find("BARRIER"), 7, barrier);
  };
  expectClean(runIn(64, with("bar.sync 0;")));
  expectOne(runIn(64, with("")), FindingKind::InvalidMbarrier,
            "with no synchronisation after its init at line");
}

TEST(Mbarrier, AnArrivalThatMayCountForThePhaseBefore) {
  // Two warps arrive where one is expected, with and without a wait between.
  auto kernel = [](const std::string &between) {
    return init(1) +
           "and.b32 %r1, %t, 31; setp.eq.u32 %p0, %r1, 0;"
           "setp.gt.u32 %p1, %t, 31; @%p1 bra SECOND;\n"
           "@%p0 mbarrier.arrive.shared.b64 _, [bars]; bra END;\n"
           "SECOND:" +
           between + "@%p0 mbarrier.arrive.shared.b64 _, [bars];\nEND:";
  };
  expectClean(runIn(64, kernel(waitFor("0"))));
  expectOne(runIn(64, kernel("")), FindingKind::InvalidMbarrier,
            "in phase 1, but nothing orders it behind the end of phase 0, for "
            "which it may count as well");
  // Alone one knows without a wait.
  expectClean(runIn(1, init(2) + "mbarrier.arrive.shared.b64 _, [bars];"
                                 "mbarrier.arrive.shared.b64 _, [bars];"
                                 "mbarrier.arrive.shared.b64 _, [bars];"));
}

TEST(Mbarrier, UndefinedOperands) {
  EXPECT_EQ(runIn(1, "mbarrier.init.shared.b64 [bars], %r7;")
                .count(FindingKind::UninitializedRegister),
            1u);
}

//===----------------------------------------------------------------------===//
// Deadlocks
//===----------------------------------------------------------------------===//

TEST(Mbarrier, DeadlockSaysWhoWaitsForWhat) {
  RunResult run =
      runIn(96, init(2, 8) + "setp.lt.u32 %p1, %t, 32; @%p1 bra ARRIVE;\n" +
                    waitFor("0", "bars+8") +
                    "ret;\nARRIVE: setp.eq.u32 %p0, %t, 0; @%p0 "
                    "mbarrier.arrive.expect_tx.shared.b64 _, [bars+8], 512;");
  expectOne(run, FindingKind::Deadlock,
            "warp 1, warp 2 wait for phase 0 (parity 0) of the mbarrier at "
            "byte 8 of 'bars' (64 bytes), of which 1 of 2 arrivals are missing "
            "and 512 bytes have not come, and nothing else can run");
  EXPECT_LT(run.report.counters.warpInstructions, 2000u);
  // With a count of tries, which a spinning loop would never be told by.
  run = runIn(32, init(1) + "mov.u32 %r1, 0;\nL: mbarrier.try_wait.parity."
                            "shared.b64 %p0, [bars], 0; add.u32 %r1, %r1, 1;"
                            "@!%p0 bra L;");
  expectOne(run, FindingKind::Deadlock, "1 of 1 arrivals are missing");
  EXPECT_LT(run.report.counters.warpInstructions, 2000u);
  // test_wait comes back at once and is found like any loop.
  run = runIn(32, init(1) + "L: mbarrier.test_wait.parity.shared.b64 %p0, "
                            "[bars], 0; @!%p0 bra L;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  EXPECT_LT(run.report.counters.warpInstructions, 100000u);
}

TEST(Mbarrier, DeadlockOfACtaThatHasRunLong) {
  // Found of the whole CTA, before it is of each warp.
  RunResult run = runIn(
      64, init(1) + "mov.u32 %r0, 0;\nW: add.u32 %r0, %r0, 1;"
                    "setp.lt.u32 %p0, %r0, 100000; @%p0 bra W;\n"
                    "L: mbarrier.test_wait.parity.shared.b64 %p0, [bars], 0;"
                    "@!%p0 bra L;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  EXPECT_NE(run.text().find("phase 0 (parity 0) of the mbarrier at byte 0 of "
                            "'bars' (64 bytes), of which 1 of 1 arrivals are "
                            "missing"),
            std::string::npos)
      << run.text();
  EXPECT_LT(run.report.counters.warpInstructions, 700000u);
}

TEST(Mbarrier, DeadlockBesideABarrier) {
  RunResult run = runIn(64, init(1) + "setp.lt.u32 %p1, %t, 32; @%p1 bra B;\n" +
                                waitFor("0") + "B: bar.sync 1;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 2u) << run.text();
}

TEST(Mbarrier, ATryMayFail) {
  // A look ahead, whose arrival this very thread makes afterwards.
  RunResult run =
      runIn(1, init(1) +
                   "mbarrier.try_wait.parity.shared.b64 %p0, [bars], 0;"
                   "selp.u32 %r1, 1, 0, %p0; st.global.u32 [%g0], %r1;"
                   "mbarrier.arrive.shared.b64 _, [bars];" +
                   waitFor("0"));
  expectClean(run);
  EXPECT_EQ(run.word(0, 0), 0u);
}

TEST(Mbarrier, OneLaneWaitsForTheOthers) {
  // Lane 0 waits while lanes 1 to 31, further on, arrive.
  expectClean(runIn(32, init(31) + "setp.ne.u32 %p1, %t, 0; @%p1 bra O;\n" +
                            waitFor("0") +
                            "bra E;\nO: mbarrier.arrive.shared.b64 _, [bars];\n"
                            "E: bar.warp.sync 0xffffffff;"));
}

TEST(Mbarrier, FormsThatDoNotExist) {
  auto error = [](const std::string &body) {
    return loadError(sm90Text(body, storage));
  };
  EXPECT_NE(error("mbarrier.arrive.shared.b32 %r0, [bars];").find(".b64"),
            std::string::npos);
  EXPECT_NE(error("mbarrier.try.shared.b64 %p0, [bars], 0;").find("operation"),
            std::string::npos);
}
