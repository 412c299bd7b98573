//===- SpinTest.cpp - Loops that wait for what never comes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A launch in which nothing can change any more ends, and says who waits where
// for what; one that makes progress is left alone, however slow.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static RunConfig launchOf(uint32_t ctas, uint32_t threads) {
  RunConfig config;
  config.grid = {ctas, 1, 1};
  config.block = {threads, 1, 1};
  for (std::vector<uint8_t> &buffer : config.buffers)
    buffer = bytesOf(std::vector<uint32_t>(256, 0));
  return config;
}

static const std::string storage = ".shared .align 4 .b8 flag[4];";

static RunResult runIn(const RunConfig &config, const std::string &body) {
  return runBody(body, config, storage);
}

static void expectDeadlock(const RunResult &run, const std::string &message) {
  ASSERT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  EXPECT_EQ(run.report.findings.size(), 1u) << run.text();
  EXPECT_EQ(run.report.findings[0].message, message);
}

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

static const std::string spin =
    "L: ld.volatile.global.u32 %r1, [%g0+8]; setp.eq.u32 %p0, %r1, 0;"
    "@%p0 bra L;";

TEST(Spin, SaysWhoWaitsForWhat) {
  RunResult run = runIn(launchOf(1, 32), spin);
  expectDeadlock(run, "one warp repeats this loop, which reads byte 8 "
                      "of 'p0' (1024 bytes), and finds 0; nothing that runs "
                      "will ever change it");
  EXPECT_EQ(run.report.findings[0].place.line, 11u);
  EXPECT_LT(run.report.counters.warpInstructions, 100000u);
  run = runIn(launchOf(7, 64), spin);
  expectDeadlock(run, "14 warps repeat this loop, which reads byte 8 "
                      "of 'p0' (1024 bytes), and finds 0; nothing that runs "
                      "will ever change it");
}

TEST(Spin, EndsWithAnyChecksAndSchedule) {
  RunConfig config = launchOf(4, 64);
  config.options.checks = CheckNone;
  EXPECT_EQ(runIn(config, spin).count(FindingKind::Deadlock), 1u);
  config.options.checks = CheckAll;
  for (Schedule schedule : {Schedule::Skewed, Schedule::Random}) {
    config.options.schedule = schedule;
    EXPECT_EQ(runIn(config, spin).count(FindingKind::Deadlock), 1u);
  }
}

TEST(Spin, CountsCtasThatHaveNoRoom) {
  RunResult run = runIn(launchOf(300, 32), spin);
  ASSERT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  EXPECT_NE(run.report.findings[0].message.find(
                "and 44 CTAs have not started, as 256 run at most"),
            std::string::npos)
      << run.text();
}

TEST(Spin, LocksThatNobodyFrees) {
  RunResult run =
      runIn(launchOf(3, 32), "setp.ne.u32 %p0, %t, 0; @%p0 exit;\n"
                             "L: atom.global.cas.b32 %r1, [%g0], 0, 1;"
                             "setp.ne.u32 %p1, %r1, 0; @%p1 bra L;");
  expectDeadlock(run, "2 warps repeat this loop, which reads byte 0 "
                      "of 'p0' (1024 bytes), and finds 1; nothing that runs "
                      "will ever change it");
  // Test and set stores the same value again and again.
  run = runIn(launchOf(3, 32), "setp.ne.u32 %p0, %t, 0; @%p0 exit;\n"
                               "L: atom.global.exch.b32 %r1, [%g0], 1;"
                               "setp.ne.u32 %p1, %r1, 0; @%p1 bra L;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
}

TEST(Spin, BackOffSettles) {
  RunResult run =
      runIn(launchOf(2, 32), "mov.u32 %r2, 1;\nL: nanosleep.u32 %r2;"
                             "shl.b32 %r2, %r2, 1; min.u32 %r2, %r2, 256;"
                             "ld.volatile.global.u32 %r1, [%g0];"
                             "setp.eq.u32 %p0, %r1, 0; @%p0 bra L;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
}

TEST(Spin, BesideABarrier) {
  // Warp 1 waits at a barrier for warp 0, which waits for warp 1.
  RunResult run =
      runIn(launchOf(1, 64), "setp.gt.u32 %p1, %t, 31; @%p1 bra END;\n" + spin +
                                 "\nEND: bar.sync 0; st.volatile.global.u32 "
                                 "[%g0+8], 1;");
  ASSERT_EQ(run.count(FindingKind::Deadlock), 2u) << run.text();
  EXPECT_NE(run.report.findings[1].message.find("wait at barrier 0"),
            std::string::npos);
}

TEST(Spin, DivergedLanesThatWait) {
  EXPECT_EQ(
      runIn(launchOf(1, 32), "setp.lt.u32 %p1, %t, 16; @%p1 bra M;\n" + spin +
                                 "\nM: ld.volatile.global.u32 %r2, [%g0+16];"
                                 "add.u32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 1;"
                                 "@%p2 bra M;")
          .count(FindingKind::Deadlock),
      1u);
}

TEST(Spin, ProgressIsLeftAlone) {
  // Two CTAs take turns a thousand times.
  expectClean(runIn(launchOf(2, 32),
                    "setp.ne.u32 %p0, %t, 0; @%p0 exit; mov.u32 %r9, %ctaid.x;"
                    "mov.u32 %r2, 0;\nL: ld.volatile.global.u32 %r1, [%g0];"
                    "and.b32 %r3, %r1, 1; setp.ne.u32 %p1, %r3, %r9;"
                    "@%p1 bra L;\nadd.u32 %r1, %r1, 1;"
                    "st.volatile.global.u32 [%g0], %r1; add.u32 %r2, %r2, 1;"
                    "setp.lt.u32 %p2, %r2, 1000; @%p2 bra L;"));
  // The one that all wait for starts last.
  expectClean(
      runIn(launchOf(40, 32), "mov.u32 %r9, %ctaid.x; setp.ne.u32 %p1, %r9, 39;"
                              "@%p1 bra L; st.volatile.global.u32 [%g0+8], 1;" +
                                  spin));
  // A count of tries, a look at the clock, a store at each try.
  expectClean(runIn(launchOf(1, 32),
                    "mov.u32 %r2, 0;\nM: ld.volatile.global.u32 %r1, [%g0];"
                    "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100000;"
                    "@%p1 bra M;"));
  expectClean(runIn(launchOf(1, 32),
                    "mov.u32 %r1, %clock;\nM: mov.u32 %r2, %clock;"
                    "sub.u32 %r2, %r2, %r1; setp.lt.u32 %p1, %r2, 50000;"
                    "@%p1 bra M;"));
  expectClean(runIn(launchOf(1, 32),
                    "M: atom.global.add.u32 %r1, [%g0], 1;"
                    "setp.lt.u32 %p1, %r1, 200000; @%p1 bra M;"));
}

TEST(Spin, WarpsOfACtaWaitForEachOther) {
  // Warp 0 waits for warp 1 in shared memory, however long that takes.
  expectClean(runIn(launchOf(1, 64),
                    "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [flag], 0;"
                    "bar.sync 0; setp.gt.u32 %p1, %t, 31; @%p1 bra ONE;\n"
                    "L: ld.volatile.shared.u32 %r1, [flag];"
                    "setp.eq.u32 %p0, %r1, 0; @%p0 bra L;\nexit;\n"
                    "ONE: mov.u32 %r2, 0;\nM: add.u32 %r2, %r2, 1;"
                    "setp.lt.u32 %p1, %r2, 300000; @%p1 bra M;\n"
                    "st.volatile.shared.u32 [flag], 1;"));
}

//===----------------------------------------------------------------------===//
// Loops of a CTA
//===----------------------------------------------------------------------===//

static const std::string forEver =
    " back to this barrier for ever, with the same registers and memory";

TEST(Repeat, BarriersForEver) {
  const std::string loop = "L: bar.sync 0; bra L;";
  RunResult run = runIn(launchOf(1, 64), loop);
  expectDeadlock(run, "all warps of a CTA come" + forEver);
  EXPECT_LT(run.report.counters.warpInstructions, 1000000u);
  expectDeadlock(runIn(launchOf(3, 32), loop),
                 "all warps of 3 CTAs come" + forEver);
  // Two barriers, a value that is exchanged, and lanes that go other ways.
  run = runIn(launchOf(1, 96),
              "setp.lt.u32 %p0, %t, 40;\nL: bar.red.popc.u32 %r1, 0, %p0;"
              "@%p0 bra M; add.u32 %r2, %r1, 1;\nM: st.shared.u32 [flag], %r1;"
              "bar.sync 1; ld.shared.u32 %r3, [flag]; setp.eq.u32 %p1, %r3, "
              "40; @%p1 bra L;");
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  // Nothing follows from a state in random order; the limit is what ends it.
  RunConfig config = launchOf(1, 64);
  config.options.schedule = Schedule::Random;
  config.options.maxInstructions = 2000000;
  EXPECT_EQ(runIn(config, loop).count(FindingKind::InstructionLimit), 1u);
}

TEST(Repeat, BesideWarpsThatSpin) {
  RunResult run =
      runIn(launchOf(2, 64), "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p1, %r9, 0;"
                             "@%p1 bra L;\nB: bar.sync 0; bra B;\n" +
                                 spin);
  ASSERT_EQ(run.count(FindingKind::Deadlock), 2u) << run.text();
  // Warps of one CTA, of which some meet and one waits for memory.
  run = runIn(launchOf(1, 96), "setp.lt.u32 %p1, %t, 32; @%p1 bra L;\n"
                               "B: bar.sync 1, 64; bra B;\n" +
                                   spin);
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
}

TEST(Repeat, ALongWayRound) {
  std::string body = "L: ";
  for (unsigned i = 0; i < 3000; ++i)
    body += "xor.b32 %r1, %t, 1;";
  expectDeadlock(runIn(launchOf(1, 32), body + "\nbra L;"),
                 "all warps of a CTA come back to this instruction for ever, "
                 "with the same registers and memory");
}

TEST(Repeat, ProgressIsLeftAlone) {
  // A count of barriers, a count in memory, and a flag that comes late.
  expectClean(runIn(launchOf(1, 64),
                    "mov.u32 %r1, 0;\nL: bar.sync 0; add.u32 %r1, %r1, 1;"
                    "setp.lt.u32 %p0, %r1, 300000; @%p0 bra L;"));
  expectClean(runIn(launchOf(1, 64),
                    "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [flag], 0;\n"
                    "L: bar.sync 0; @%p0 red.shared.add.u32 [flag], 1;"
                    "bar.sync 0; ld.shared.u32 %r1, [flag];"
                    "setp.lt.u32 %p1, %r1, 60000; @%p1 bra L;"));
  expectClean(
      runIn(launchOf(2, 64),
            "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p1, %r9, 1; @%p1 bra ONE;\n"
            "L: bar.sync 0; ld.volatile.global.u32 %r1, [%g0];"
            "setp.eq.u32 %p0, %r1, 0; bar.red.or.pred %p0, 0, %p0;"
            "@%p0 bra L;\nexit;\nONE: mov.u32 %r2, 0;\n"
            "M: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 500000;"
            "@%p2 bra M;\nst.volatile.global.u32 [%g0], 1;"));
}

TEST(Spin, OnSeveralThreads) {
  RunConfig config = launchOf(4, 32);
  RunResult alone = runIn(config, spin);
  config.options.threads = 4;
  EXPECT_EQ(runIn(config, spin).comparable(), alone.comparable());
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

TEST(Bounds, PrintfHasALimit) {
  std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n"
                     ".extern .func (.param .b32 r) vprintf(.param .b64 f, "
                     ".param .b64 a);\n"
                     ".global .align 1 .b8 words[9] = {49, 50, 51, 52, 53, 54, "
                     "55, 10, 0};\n.visible .entry test(.param .u64 p0, .param "
                     ".u64 p1, .param .u64 p2, .param .u64 p3)\n{\n"
                     ".reg .b64 %d<4>; .reg .b32 %r<4>; .reg .pred %p;\n"
                     "mov.u64 %d1, words; cvta.global.u64 %d1, %d1;"
                     "mov.u64 %d2, 0; mov.u32 %r1, 0;\nL: {\n"
                     ".param .b64 f; .param .b64 a; .param .b32 r;\n"
                     "st.param.b64 [f], %d1; st.param.b64 [a], %d2;\n"
                     "call.uni (r), vprintf, (f, a);\n"
                     "ld.param.b32 %r2, [r];\n}\nadd.u32 %r1, %r1, 1;"
                     "setp.lt.u32 %p, %r1, 200000; @%p bra L;\nret;\n}\n";
  testing::internal::CaptureStderr();
  RunResult run = runText(text, launchOf(1, 1));
  std::string printed = testing::internal::GetCapturedStderr();
  expectClean(run);
  EXPECT_EQ(run.report.droppedText, 200000u * 8 - Report::maxText);
  EXPECT_EQ(printed.substr(0, 16), "1234567\n1234567\n");
  EXPECT_EQ(printed.substr(Report::maxText),
            "test: 551424 bytes of printf text after the first 1048576 "
            "dropped\n");
}
