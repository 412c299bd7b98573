//===- ParallelTest.cpp - CTAs on several threads -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Memory, findings and counters are those of one thread, whatever CTAs do to
// each other; the report says how many threads could be used.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

#include <algorithm>
#include <thread>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

namespace {
/// %d0 = p0 + 4 * CTA, %d1 = p1 + 4 * CTA.
const std::string slots = "mov.u32 %r9, %ctaid.x; mul.wide.u32 %at, %r9, 4;"
                          "add.u64 %d0, %g0, %at; add.u64 %d1, %g1, %at;\n";
const std::string laneZero = "setp.ne.u32 %p0, %t, 0; @%p0 exit;\n";

const std::string tile = ".shared .align 4 .b8 tile[4];";

struct Parallel : testing::Test {
  RunConfig config;
  void SetUp() override { config.grid = {64, 1, 1}; }

  /// The run on four threads, after comparing runs on 2 and 4 with one.
  RunResult runBoth(const std::string &body) {
    config.options.threads = 1;
    RunResult alone = runBody(body, config, tile);
    EXPECT_EQ(alone.report.threads, 1u);
    EXPECT_EQ(alone.report.threadsNote, "");
    RunResult run;
    for (unsigned threads : {2u, 4u}) {
      config.options.threads = threads;
      run = runBody(body, config, tile);
      EXPECT_EQ(run.error, alone.error);
      EXPECT_EQ(run.buffers, alone.buffers);
      EXPECT_EQ(run.comparable(), alone.comparable());
    }
    return run;
  }
};
} // namespace

static const char *const dependNote =
    "CTAs depend on each other, or something was found";

TEST_F(Parallel, IndependentCtasShareTheThreads) {
  config.buffers[1] = bytesOf(std::vector<uint32_t>(64, 7));
  // All read all of p1, and each writes and rereads its word of p0.
  RunResult run = runBoth("mul.wide.u32 %at, %t, 4; add.u64 %d2, %g1, %at;"
                          "ld.global.u32 %r1, [%d2];\n" +
                          laneZero + slots +
                          "add.u32 %r1, %r1, %r9; st.global.u32 [%d0], %r1;"
                          "ld.global.u32 %r2, [%d0];");
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.report.threads, 4u);
  EXPECT_EQ(run.report.threadsNote, "");
  EXPECT_EQ(run.word(0, 63), 70u);
  EXPECT_NE(run.text().find(" s on 4 threads\n"), std::string::npos);
  EXPECT_NE(reportToJson(run.report, "").find("\"threads\": 4"),
            std::string::npos);
}

TEST_F(Parallel, ZeroThreadsAreThoseOfTheHost) {
  config.options.threads = 0;
  RunResult run = runBody(laneZero + slots + "st.global.u32 [%d0], 1;", config);
  EXPECT_EQ(run.report.threads,
            std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
}

TEST_F(Parallel, BytesOfOneInitWordAreSetByManyCtas) {
  // 64 CTAs write one byte each: one word of the map of written bytes.
  config.outputBytes = 64;
  RunResult run =
      runBoth(laneZero + "mov.u32 %r9, %ctaid.x; cvt.u64.u32 %d0, %r9;"
                         "add.u64 %d0, %d0, %g0; st.global.u8 [%d0], 5;"
                         "ld.global.u8 %h0, [%d0];");
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.report.threads, 4u);
  EXPECT_EQ(run.buffers[0], std::vector<uint8_t>(64, 5));
}

TEST_F(Parallel, RaceBetweenCtas) {
  RunResult run = runBoth(laneZero + slots + "st.global.u32 [%g0], %r9;");
  EXPECT_EQ(run.count(FindingKind::GlobalRace), 1u) << run.text();
  EXPECT_EQ(run.report.threads, 1u);
  EXPECT_EQ(run.report.threadsNote, dependNote);
  EXPECT_NE(run.text().find(std::string("on one thread: ") + dependNote),
            std::string::npos);
  EXPECT_NE(reportToJson(run.report, "").find("\"threads_note\""),
            std::string::npos);
}

TEST_F(Parallel, ConflictsRollMemoryBackWithoutAnyCheck) {
  // Each CTA adds the word of the one before to its own: the result tells the
  // order, and a second run over the words of a first one would be wrong.
  config.options.checks = CheckNone;
  config.buffers[0] = bytesOf(std::vector<uint32_t>(65, 1));
  RunResult run =
      runBoth(laneZero + slots +
              "ld.global.u32 %r1, [%d0]; ld.global.u32 %r2, [%d0+4];"
              "add.u32 %r1, %r1, %r2; st.global.u32 [%d0+4], %r1;");
  EXPECT_EQ(run.report.threadsNote, dependNote);
  EXPECT_EQ(run.word(0, 64), 65u);
}

TEST_F(Parallel, RollBackRestoresWhatIsInitialised) {
  // CTA 0 takes long before it reads a word that the last CTA has written by
  // then. Alone it comes first, and reads what nobody has written.
  RunResult run = runBoth(laneZero + slots +
                          "st.global.u32 [%d0], %r9;\n"
                          "setp.ne.u32 %p1, %r9, 0; @%p1 exit;\n"
                          "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\n"
                          "setp.lt.u32 %p1, %r1, 100000; @%p1 bra L;\n"
                          "ld.global.u32 %r2, [%g0+252];"
                          "st.global.u32 [%g1], %r2;");
  EXPECT_EQ(run.count(FindingKind::UninitializedMemory), 1u) << run.text();
  EXPECT_EQ(run.count(FindingKind::GlobalRace), 1u) << run.text();
  EXPECT_EQ(run.report.threadsNote, dependNote);
}

TEST_F(Parallel, FindingsAreThoseOfOneThread) {
  // p0 holds 64 words; the last CTA stores past it.
  config.outputBytes = 256;
  RunResult run = runBoth(laneZero + slots + "st.global.u32 [%d0+4], %r9;");
  ASSERT_EQ(run.report.findings.size(), 1u) << run.text();
  EXPECT_EQ(run.report.findings[0].kind, FindingKind::OutOfBounds);
  EXPECT_EQ(run.report.findings[0].place.cta[0], 63u);
  run = runBoth(slots + "setp.eq.u32 %p1, %r9, 9; @%p1 trap;");
  EXPECT_EQ(run.count(FindingKind::Trap), 1u) << run.text();
  // Some lanes of a store are good, others are not.
  run = runBoth("shl.b32 %r1, %t, 4; cvt.u64.u32 %d0, %r1;"
                "add.u64 %d0, %d0, %g0; st.global.u32 [%d0], %t;");
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
}

TEST_F(Parallel, InstructionLimitCountsAllThreads) {
  std::string body = "mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\n"
                     "setp.lt.u32 %p0, %r1, 1000; @%p0 bra L;";
  RunResult whole = runBoth(body);
  EXPECT_TRUE(whole.report.clean()) << whole.text();
  config.options.maxInstructions = whole.report.counters.warpInstructions;
  EXPECT_TRUE(runBoth(body).report.clean());
  config.options.maxInstructions -= 1;
  RunResult run = runBoth(body);
  EXPECT_EQ(run.count(FindingKind::InstructionLimit), 1u) << run.text();
  EXPECT_EQ(run.report.threads, 1u);
}

TEST_F(Parallel, UnwrittenRegistersHoldTheSamePoison) {
  config.options.checks = CheckNone;
  RunResult run =
      runBoth(laneZero + slots + "st.global.u32 [%d0], %r1; mov.u32 %r1, %r9;");
  EXPECT_EQ(run.report.threads, 4u);
  EXPECT_EQ(run.word(0, 0), ~0u);
  EXPECT_EQ(run.word(0, 63), ~0u);
}

//===----------------------------------------------------------------------===//
// Kernels that run in turn from the start
//===----------------------------------------------------------------------===//

TEST_F(Parallel, AtomicsRunInTurn) {
  config.buffers[0] = bytesOf(std::vector<uint32_t>(1, 0));
  RunResult run = runBoth(laneZero + slots +
                          "atom.global.add.u32 %r1, [%g0], 1;"
                          "st.global.u32 [%d1], %r1;");
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.report.threads, 1u);
  EXPECT_EQ(run.report.threadsNote, "line 13 is an atomic on global memory");
  EXPECT_EQ(run.word(1, 63), 63u);
}

TEST_F(Parallel, AtomicsOnSharedMemoryDoNot) {
  config.buffers[1] = bytesOf(std::vector<uint32_t>(64, 7));
  RunResult run = runBoth(laneZero + slots +
                          "st.shared.u32 [tile], 1;"
                          "atom.shared.add.u32 %r1, [tile], 2; membar.gl;"
                          "st.global.u32 [%d0], %r1;");
  EXPECT_EQ(run.report.threads, 4u);
}

TEST_F(Parallel, VolatileAccessesAndTheClockRunInTurn) {
  RunResult run =
      runBoth(laneZero + slots + "st.volatile.global.u32 [%d0], 1;");
  EXPECT_EQ(run.report.threadsNote,
            "line 13 is a volatile, relaxed, acquire or release access");
  run = runBoth(laneZero + slots +
                "mov.u32 %r1, %clock; st.global.u32 [%d0], %r1;");
  EXPECT_EQ(run.report.threadsNote, "line 13 is a read of the clock");
}

TEST_F(Parallel, SpinningGridBarrier) {
  config.grid = {2, 1, 1};
  config.buffers[0] = bytesOf(std::vector<uint32_t>(1, 0));
  std::string spin = "setp.lt.u32 %p1, %r2, 2; @%p1 bra L;\n"
                     "membar.gl; ld.global.u32 %r3, [%g1];";
  RunResult run = runBoth(laneZero + slots +
                          "st.global.u32 [%d1], %r9; membar.gl;"
                          "atom.global.add.u32 %r1, [%g0], 1;\n"
                          "L: atom.global.add.u32 %r2, [%g0], 0;\n" +
                          spin);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.report.threads, 1u);
}

TEST_F(Parallel, SpinningOnPlainLoadsEnds) {
  // CTA 0 waits for a word of the last one, without an atomic: a race, and no
  // endless loop on any number of threads.
  config.grid = {2, 1, 1};
  config.buffers[0] = bytesOf(std::vector<uint32_t>(1, 0));
  RunResult run = runBoth(laneZero + slots +
                          "setp.eq.u32 %p1, %r9, 1; @%p1 st.global.u32 [%g0], "
                          "1;\n@%p1 exit;\n"
                          "L: ld.global.u32 %r1, [%g0];\n"
                          "setp.eq.u32 %p1, %r1, 0; @%p1 bra L;");
  EXPECT_GE(run.count(FindingKind::GlobalRace), 1u) << run.text();
  EXPECT_EQ(run.report.threadsNote, dependNote);
}
