//===- CopyArrivalTest.cpp - cp.async.mbarrier.arrive ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async that arrives at an mbarrier: what it counts, when it comes, what a
// wait for it orders, and a kernel for sm_80 whose warps have roles: a warp
// that fills a ring by cp.async, four that read it, test_wait between them.
//
//===----------------------------------------------------------------------===//

#include "FindingUtil.h"
#include "ForeignUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static const std::string storage =
    ".shared .align 8 .b8 bars[128]; .shared .align 16 .b8 data[4096];";

static RunConfig launchOf(uint32_t threads) {
  RunConfig config;
  config.block = {threads, 1, 1};
  std::vector<uint32_t> words(4096);
  for (uint32_t i = 0; i < words.size(); ++i)
    words[i] = 1000 + i;
  config.buffers[0] = bytesOf(words);
  return config;
}

static std::string replaced(std::string text, const std::string &from,
                            const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  for (; at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// Thread 0 makes an mbarrier for `count` arrivals, and all see it.
static std::string init(const std::string &count, unsigned at = 0) {
  return "{ .reg .pred q; setp.eq.u32 q, %t, 0;"
         "@q mbarrier.init.shared.b64 [bars+" +
         std::to_string(at) + "], " + count + "; bar.sync 0; }\n";
}

static std::string waitFor(const std::string &parity,
                           const std::string &at = "bars") {
  return "{ .reg .pred done; LOOP: mbarrier.test_wait.parity.shared.b64 done, "
         "[" +
         at + "], " + parity + "; @!done bra LOOP; }\n";
}

/// Lane i copies 16 bytes from p0 to `data`, both at `at` + 16 i.
static std::string copy(unsigned at = 0) {
  const std::string offset = "+" + std::to_string(at);
  return "{ .reg .b32 a; .reg .b64 b; and.b32 a, %t, 31; shl.b32 a, a, 4;"
         "cvt.u64.u32 b, a; add.u64 b, b, %g0; mov.u32 %r20, data;"
         "add.u32 a, a, %r20; cp.async.cg.shared.global [a" +
         offset + "], [b" + offset + "], 16; }\n";
}

static std::string arrive(unsigned at = 0) {
  return "cp.async.mbarrier.arrive.noinc.shared.b64 [bars+" +
         std::to_string(at) + "];\n";
}

/// Warp 0 does `producer`, warp 1 `consumer`.
static std::string roles(const std::string &producer,
                         const std::string &consumer) {
  return "setp.gt.u32 %p9, %t, 31; @%p9 bra CONSUME;\n" + producer +
         "bra END;\nCONSUME:" + consumer + "END:\n";
}

/// Thread i reads a word that another lane has copied, and stores it in p1.
static std::string read(unsigned at = 0) {
  return "{ .reg .b32 a; .reg .b64 b; and.b32 a, %t, 31; mul.wide.u32 b, a, 4;"
         "add.u64 b, b, %g1; xor.b32 a, a, 1; shl.b32 a, a, 4; mov.u32 %r20, "
         "data; add.u32 a, a, %r20; ld.shared.u32 %r21, [a+" +
         std::to_string(at) + "]; st.global.u32 [b], %r21; }\n";
}

static void expectRead(const RunResult &run, unsigned at = 0) {
  expectClean(run);
  for (unsigned lane = 0; lane < 32; ++lane)
    EXPECT_EQ(run.word(1, lane), 1000 + (lane ^ 1) * 4 + at / 4) << lane;
}

/// Calls f(config) for each mode and schedule.
template <typename F> static void forEachMode(RunConfig config, F f) {
  for (AsyncMode async : {AsyncMode::Lazy, AsyncMode::Eager, AsyncMode::Random})
    for (Schedule schedule :
         {Schedule::Sequential, Schedule::Skewed, Schedule::Random})
      for (uint64_t seed : {1, 2}) {
        config.options.async = async;
        config.options.schedule = schedule;
        config.options.asyncSeed = config.options.scheduleSeed = seed;
        f(config);
      }
}

//===----------------------------------------------------------------------===//
// Counts and completion
//===----------------------------------------------------------------------===//

TEST(CopyArrival, OrdersCopiesForWhoWaits) {
  const std::string text =
      init("32") + roles(copy() + arrive(), waitFor("0") + read());
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    expectRead(runBody(text, config, storage));
  });
  const std::string tryWait =
      replaced(text, "mbarrier.test_wait", "mbarrier.try_wait");
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    expectRead(runBody(tryWait, config, storage));
  });
}

TEST(CopyArrival, AllSpellingsOfAddresses) {
  RunResult run = runBody(
      init("5") +
          "mov.u32 %r0, bars; cvt.u64.u32 %d0, %r0; cvta.shared.u64 %d1, %d0;"
          "cp.async.mbarrier.arrive.noinc.b64 [%d1];"
          "cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];"
          "cp.async.mbarrier.arrive.noinc.shared.b64 [%d0+0];"
          "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bars];"
          "cp.async.mbarrier.arrive.b64 [%d1];"
          "cp.async.mbarrier.arrive.shared.b64 [bars];"
          "cp.async.mbarrier.arrive.shared::cta.b64 [%r0];"
          "mbarrier.arrive.shared.b64 %d2, [bars];" +
          waitFor("0"),
      launchOf(1), storage);
  expectClean(run);
  for (const auto &[name, count] : run.report.counters.classes)
    if (name == "async") {
      EXPECT_EQ(count, 7u);
    }
}

TEST(CopyArrival, RaisesThePendingCount) {
  // What is pending before the arrival of the thread itself: its copy has come
  // with eager copies only.
  const std::string text =
      init("1") + copy() +
      "cp.async.mbarrier.arrive.shared.b64 [bars];"
      "mbarrier.arrive.shared.b64 %d0, [bars];"
      "mbarrier.pending_count.b64 %r0, %d0; st.global.u32 [%g1], %r0;"
      "mbarrier.test_wait.shared.b64 %p0, [bars], %d0;"
      "selp.u32 %r1, 1, 0, %p0; st.global.u32 [%g1+4], %r1;"
      "mbarrier.test_wait.parity.shared.b64 %p0, [bars], 1;"
      "selp.u32 %r1, 1, 0, %p0; st.global.u32 [%g1+8], %r1;"
      "ld.shared.u32 %r2, [data]; st.global.u32 [%g1+12], %r2;";
  RunConfig config = launchOf(1);
  for (AsyncMode async : {AsyncMode::Lazy, AsyncMode::Eager}) {
    config.options.async = async;
    RunResult run = runBody(text, config, storage);
    expectClean(run);
    EXPECT_EQ(run.word(1, 0), async == AsyncMode::Lazy ? 2u : 1u);
    EXPECT_EQ(run.word(1, 1), 1u);
    EXPECT_EQ(run.word(1, 2), 0u);
    EXPECT_EQ(run.word(1, 3), 1000u);
  }
}

TEST(CopyArrival, EachThreadTellsAll) {
  // As __pipeline_arrive_on: all copy, arrive and wait.
  const std::string text = init("64") + copy() +
                           "cp.async.mbarrier.arrive.shared.b64 [bars];"
                           "mbarrier.arrive.shared.b64 %d0, [bars];"
                           "L: mbarrier.test_wait.shared.b64 %p0, [bars], %d0;"
                           "@!%p0 bra L;\n" +
                           read();
  // Both warps copy the same: one of them alone.
  const std::string alone = replaced(
      text, "cp.async.cg", "setp.lt.u32 %p8, %t, 32;\n@%p8 cp.async.cg");
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    expectRead(runBody(alone, config, storage));
  });
}

TEST(CopyArrival, SeveralOnTheirWay) {
  // Two tiles, each with an mbarrier; a wait for the second is one for all
  // copies before it, a wait for the first is none for the second.
  auto kernel = [](unsigned wait, unsigned at) {
    return init("32") + init("32", 8) +
           roles(copy() + arrive() + copy(512) + arrive(8),
                 waitFor("0", "bars+" + std::to_string(wait)) + read(at));
  };
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    expectRead(runBody(kernel(0, 0), config, storage), 0);
    expectRead(runBody(kernel(8, 512), config, storage), 512);
    expectRead(runBody(kernel(8, 0), config, storage), 0);
    RunResult run = runBody(kernel(0, 512), config, storage);
    EXPECT_GE(run.count(FindingKind::AsyncRead) +
                  run.count(FindingKind::SharedRace),
              1u)
        << run.text();
  });
  // Two at one mbarrier.
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    expectRead(
        runBody(init("64") + roles(copy() + arrive() + copy(512) + arrive(),
                                   waitFor("0") + read(512)),
                config, storage),
        512);
  });
}

TEST(CopyArrival, GroupsThatWereWaitedForAreNotCopiedAgain) {
  // The thread overwrites what its copy brought, and the arrival comes later.
  RunConfig config = launchOf(32);
  for (const char *wait :
       {"cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"})
    for (AsyncMode async : {AsyncMode::Lazy, AsyncMode::Eager}) {
      config.options.async = async;
      RunResult run =
          runBody(init("32") + copy() + arrive() + wait +
                      "shl.b32 %r0, %t, 4; mov.u32 %r1, data;"
                      "add.u32 %r1, %r1, %r0;"
                      "st.shared.u32 [%r1], %t;" +
                      waitFor("0") + "bar.warp.sync 0xffffffff;" + read(),
                  config, storage);
      expectClean(run);
      EXPECT_EQ(run.word(1, 3), 2u);
    }
  // Those of an earlier wait are among the prior ones, too.
  forEachMode(launchOf(64), [&](const RunConfig &each) {
    expectRead(
        runBody(init("32") + roles(copy() + "cp.async.wait_all;" + arrive(),
                                   waitFor("0") + read()),
                each, storage));
  });
}

TEST(CopyArrival, WaitingForAGroupKnowsItsCopiesOnly) {
  const std::string text = init("32") + copy() + "cp.async.commit_group;" +
                           copy(512) + arrive() +
                           "cp.async.commit_group; cp.async.wait_group 1;";
  expectRead(runBody(replaced(text, "wait_group 1", "wait_group 0") +
                         "bar.warp.sync 0xffffffff;" + read(512),
                     launchOf(32), storage),
             512);
  expectRead(runBody(text + "bar.warp.sync 0xffffffff;" + read(), launchOf(32),
                     storage));
  expectOne(runBody(text + "bar.warp.sync 0xffffffff;" + read(512),
                    launchOf(32), storage),
            FindingKind::AsyncRead, "which a cp.async has not been waited for");
}

TEST(CopyArrival, OrdersNothingButCopies) {
  // What a thread stored goes with mbarrier.arrive.
  auto kernel = [](const std::string &arrival) {
    return init("32") +
           roles("shl.b32 %r0, %t, 4; mov.u32 %r1, data; add.u32 %r1, %r1, "
                 "%r0; st.shared.u32 [%r1], %t;" +
                     arrival,
                 waitFor("0") + read());
  };
  expectOne(runBody(kernel(arrive()), launchOf(64), storage),
            FindingKind::SharedRace, "written by another thread");
  expectClean(runBody(kernel("mbarrier.arrive.shared.b64 %d0, [bars];"),
                      launchOf(64), storage));
}

TEST(CopyArrival, TheAsyncProxyNeedsAFence) {
  auto kernel = [](const std::string &fence) {
    return init("32") + copy() + arrive() + waitFor("0") + fence +
           "setp.eq.u32 %p0, %t, 0; @%p0 cp.async.bulk.global.shared::cta."
           "bulk_group [%g1], [data], 512; cp.async.bulk.commit_group;"
           "cp.async.bulk.wait_group 0;";
  };
  expectClean(
      runSm90(kernel("fence.proxy.async.shared::cta;"), launchOf(32), storage));
  expectOne(runSm90(kernel(""), launchOf(32), storage),
            FindingKind::MissingProxyFence, "with no fence.proxy.async");
}

//===----------------------------------------------------------------------===//
// Misuse
//===----------------------------------------------------------------------===//

TEST(CopyArrival, Misuse) {
  const std::pair<std::string, const char *> cases[] = {
      {arrive(), "there is no mbarrier at byte 0 of 'bars' (128 bytes)"},
      {init("1") + arrive() + arrive() + waitFor("0"),
       "arrives behind cp.async at the mbarrier at byte 0 of 'bars' (128 "
       "bytes), of which 0 of 1 arrivals are missing in phase 0"},
      {init("1") + arrive() + "mbarrier.arrive.shared.b64 %d0, [bars];" +
           waitFor("0"),
       "arrives 1 times at the mbarrier at byte 0 of 'bars' (128 bytes), of "
       "which 0 of 1 arrivals are missing in phase 0"},
      {init("1048575") + "cp.async.mbarrier.arrive.shared.b64 [bars];",
       "raises the pending count of the mbarrier at byte 0 of 'bars' (128 "
       "bytes) to 1048576"},
      {init("1") + copy() + arrive() + "mbarrier.inval.shared.b64 [bars];",
       "mbarrier.inval at byte 0 of 'bars' (128 bytes), at which 1 arrivals of "
       "cp.async.mbarrier.arrive have not come"}};
  for (const auto &[body, text] : cases)
    expectOne(runBody(body, launchOf(1), storage), FindingKind::InvalidMbarrier,
              text);
  expectOne(runBody(arrive(4), launchOf(1), storage), FindingKind::Misaligned,
            "no multiple of 8");
  expectOne(runBody(arrive(128), launchOf(1), storage),
            FindingKind::OutOfBounds, "'bars'");
  EXPECT_EQ(runBody("cp.async.mbarrier.arrive.shared.b64 [%r7];", launchOf(1),
                    storage)
                .count(FindingKind::UninitializedRegister),
            1u);
  // A phase that it may have missed the end of.
  expectOne(runBody(init("1") +
                        "setp.eq.u32 %p0, %t, 32; setp.eq.u32 %p1, %t, 0;"
                        "@%p0 mbarrier.arrive.shared.b64 %d0, [bars];"
                        "@%p1 cp.async.mbarrier.arrive.noinc.shared.b64 "
                        "[bars];",
                    launchOf(64), storage),
            FindingKind::InvalidMbarrier, "nothing orders it behind the end");
  // One that is gone is forgotten with what was on its way.
  RunResult run = runBody(init("1") + copy() + arrive() +
                              "mbarrier.inval.shared.b64 [bars];"
                              "mbarrier.init.shared.b64 [bars], 1;"
                              "mbarrier.arrive.shared.b64 %d0, [bars];" +
                              waitFor("0"),
                          launchOf(1), storage);
  EXPECT_EQ(run.report.findings.size(), 1u) << run.text();
}

TEST(CopyArrival, DeadlockSaysWhoWaitsForWhat) {
  const std::string text =
      init("33") + roles(copy() + arrive(), waitFor("0") + read());
  const std::string what = "phase 0 (parity 0) of the mbarrier at byte 0 of "
                           "'bars' (128 bytes), of which 1 of 33 arrivals are "
                           "missing";
  forEachMode(launchOf(64), [&](const RunConfig &config) {
    RunResult run = runBody(text, config, storage);
    expectOne(run, FindingKind::Deadlock,
              "one warp repeats this loop, which waits for " + what +
                  "; nothing that runs will ever change it");
    EXPECT_LT(run.report.counters.warpInstructions, 10000u);
    run = runBody(replaced(text, "test_wait", "try_wait"), config, storage);
    expectOne(run, FindingKind::Deadlock, "warp 1 waits for " + what);
  });
}

TEST(CopyArrival, MemoryIsBoundedIfNobodyWaits) {
  RunResult run = runBody(init("1") + "mov.u32 %r0, 0;\nL: "
                                      "cp.async.mbarrier.arrive.shared.b64 "
                                      "[bars]; add.u32 %r0, %r0, 1;"
                                      "setp.lt.u32 %p0, %r0, 5000;"
                                      "@%p0 bra L;",
                          launchOf(1), storage);
  expectClean(run);
}

TEST(CopyArrival, FormsThatDoNotExist) {
  const std::string expects =
      "expects cp.async.mbarrier.arrive{.noinc}{.shared{::cta}}.b64";
  auto error = [](const std::string &body) {
    return loadBodyError(body, storage);
  };
  EXPECT_EQ(error("cp.async.mbarrier.shared.b64 [bars];"), expects);
  EXPECT_EQ(error("cp.async.mbarrier.arrive.shared.b32 [bars];"), expects);
  EXPECT_NE(error("cp.async.mbarrier.arrive.shared.b64 [bars], 1;"), "");
  EXPECT_NE(error("cp.async.mbarrier.arrive.noinc.relaxed.shared.b64 [bars];")
                .find("relaxed"),
            std::string::npos);
  EXPECT_NE(error("cp.async.mbarrier.arrive.shared::cluster.b64 [bars];")
                .find("clusters of sm_90"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// A ring
//===----------------------------------------------------------------------===//

static constexpr unsigned numTiles = 13, numSlots = 3, numConsumers = 4;

/// Waits in a loop of its own.
static std::string await(const std::string &label, const std::string &at) {
  return label + ": mbarrier.test_wait.parity.shared.b64 %p1, [" + at +
         "], %r3; @!%p1 bra " + label + ";\n";
}

/// Of tile %r1 in slot %r2; waits are for parity %r3.
static const std::string nextTile =
    "add.u32 %r1, %r1, 1; add.u32 %r2, %r2, 1;"
    "setp.eq.u32 %p2, %r2, 3; @%p2 mov.u32 %r2, 0; @%p2 xor.b32 %r3, %r3, 1;\n"
    "setp.lt.u32 %p2, %r1, %r9; ";
static const std::string place =
    "shl.b32 %r4, %r2, 3; mov.u32 %r5, bars; add.u32 %r4, %r4, %r5;"
    "shl.b32 %r6, %r2, 10; mov.u32 %r5, data; add.u32 %r6, %r6, %r5;\n";
static const std::string waitFree = await("FREE", "%r4+64");
static const std::string waitFull = await("FULL", "%r4");
static const std::string firstCopy =
    "cp.async.cg.shared.global [%r6], [%d1], 16;\n";
static const std::string secondCopy =
    "cp.async.cg.shared.global [%r6+512], [%d1+512], 16;\n";
static const std::string copied =
    "cp.async.mbarrier.arrive.noinc.shared.b64 [%r4];\n";
static const std::string loads =
    "ld.shared.u32 %r7, [%r6]; ld.shared.u32 %r8, [%r6+512];\n";
static const std::string warpSync = "bar.warp.sync 0xffffffff;\n";
static const std::string freed =
    "@%p3 mbarrier.arrive.shared.b64 %d9, [%r4+64];\n";

/// A producer warp and four that sum up words other lanes have copied. full
/// mbarriers of 32 arrivals at 0, free ones of 4 at 64.
static std::string ring() {
  std::string text = "setp.ne.u32 %p0, %t, 0; @%p0 bra INITIALISED;\n";
  for (unsigned slot = 0; slot < numSlots; ++slot)
    text += "mbarrier.init.shared.b64 [bars+" + std::to_string(8 * slot) +
            "], 32;\nmbarrier.init.shared.b64 [bars+" +
            std::to_string(64 + 8 * slot) + "], 4;\n";
  return text +
         "INITIALISED: bar.sync 0;\n"
         "mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r9, " +
         std::to_string(numTiles) +
         "; and.b32 %r10, %t, 31; setp.eq.u32 %p3, %r10, 0;\n"
         "setp.gt.u32 %p0, %t, 31; @%p0 bra CONSUME;\n"
         "mov.u32 %r3, 1; mul.wide.u32 %d1, %t, 16; add.u64 %d1, %d1, %g0;\n"
         "PRODUCE: " +
         place + waitFree + "shl.b32 %r11, %t, 4; add.u32 %r6, %r6, %r11;\n" +
         firstCopy + secondCopy + copied + "add.u64 %d1, %d1, 1024;\n" +
         nextTile + "@%p2 bra PRODUCE;\nexit;\n" +
         "CONSUME: mov.u32 %r3, 0; mov.u32 %r12, 0; shr.u32 %r13, %t, 5;"
         "sub.u32 %r13, %r13, 1; shl.b32 %r13, %r13, 2; xor.b32 %r11, %r10, 1;"
         "shl.b32 %r11, %r11, 4; add.u32 %r11, %r11, %r13;\n"
         "NEXT: " +
         place + waitFull + "add.u32 %r6, %r6, %r11;\n" + loads + warpSync +
         freed + "mad.lo.u32 %r12, %r12, 3, %r7; xor.b32 %r12, %r12, %r8;\n" +
         nextTile +
         "@%p2 bra NEXT;\n"
         "mul.wide.u32 %d2, %t, 4; add.u64 %d2, %d2, %g1;"
         "st.global.u32 [%d2], %r12;";
}

static void expectSums(const RunResult &run) {
  expectClean(run);
  for (unsigned thread = 32; thread < 32 * (1 + numConsumers); ++thread) {
    uint32_t sum = 0;
    for (unsigned tile = 0; tile < numTiles; ++tile) {
      uint32_t word =
          1000 + tile * 256 + (thread % 32 ^ 1) * 4 + thread / 32 - 1;
      sum = sum * 3 + word;
      sum ^= word + 128;
    }
    EXPECT_EQ(run.word(1, thread), sum) << thread;
  }
}

TEST(CopyArrival, Ring) {
  const RunConfig launch = launchOf(32 * (1 + numConsumers));
  forEachMode(launch, [](const RunConfig &config) {
    RunResult run = runBody(ring(), config, storage);
    expectSums(run);
    // Waiting is cheap, whoever comes first.
    EXPECT_LT(run.report.counters.warpInstructions, 6000u);
  });
  // The other ways to tell.
  const std::string others[] = {
      replaced(ring(), copied,
               "cp.async.wait_all; mbarrier.arrive.shared.b64 %d9, [%r4];\n"),
      replaced(ring(), copied, "cp.async.commit_group;\n" + copied),
      replaced(ring(), copied,
               "cp.async.mbarrier.arrive.shared.b64 [%r4];"
               "mbarrier.arrive.shared.b64 %d9, [%r4];\n"),
      replaced(ring(), "test_wait", "try_wait")};
  for (const std::string &text : others)
    forEachMode(launch, [&](const RunConfig &config) {
      expectSums(runBody(text, config, storage));
    });
}

TEST(CopyArrival, RingWithoutSomeChecks) {
  RunConfig config = launchOf(32 * (1 + numConsumers));
  for (unsigned checks : {CheckNone, CheckInit, CheckRace, CheckAsync}) {
    config.options.checks = checks;
    expectSums(runBody(ring(), config, storage));
  }
}

TEST(CopyArrival, RingOnSeveralThreads) {
  RunConfig config = launchOf(32 * (1 + numConsumers));
  config.grid = {6, 1, 1};
  const std::string text = replaced(
      ring(), "mul.wide.u32 %d2, %t, 4;",
      "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 160, %t; mul.wide.u32 %d2, "
      "%r1, 4;");
  RunResult alone = runBody(text, config, storage);
  expectSums(alone);
  config.options.threads = 3;
  RunResult together = runBody(text, config, storage);
  EXPECT_EQ(together.report.threads, 3u) << together.report.threadsNote;
  EXPECT_EQ(together.comparable(), alone.comparable());
  EXPECT_EQ(together.buffers[1], alone.buffers[1]);
}

namespace {
struct Mistake {
  const char *name;
  std::string from, to;
  /// One of these kinds is among the findings.
  std::vector<FindingKind> kinds;
};
} // namespace

static std::vector<Mistake> mistakes() {
  using K = FindingKind;
  // Consumers that never wait may be done before the producer begins: their
  // arrivals then count for phases of which they do not know the end.
  const std::vector<K> unready = {K::AsyncRead, K::SharedRace,
                                  K::InvalidMbarrier};
  const std::vector<K> unfree = {K::AsyncOverwrite, K::SharedRace};
  const std::vector<K> deadlock = {K::Deadlock};
  const std::vector<K> counts = {K::InvalidMbarrier};
  return {
      {"no wait for a full slot", waitFull, "", unready},
      {"the parity of full slots",
       "mov.u32 %r3, 0;",
       "mov.u32 %r3, 1;",
       {K::AsyncRead, K::SharedRace, K::InvalidMbarrier, K::Deadlock}},
      {"no wait for a free slot", waitFree, "", unfree},
      {"the parity of free slots", "mov.u32 %r3, 1;", "mov.u32 %r3, 0;",
       deadlock},
      {"no change of parity",
       "@%p2 xor.b32 %r3, %r3, 1;",
       "",
       {K::Deadlock, K::AsyncOverwrite, K::SharedRace, K::AsyncRead}},
      {"no arrival", copied, "", deadlock},
      {"an arrival that raises the count", ".noinc", "", deadlock},
      {"two arrivals", copied, copied + copied, counts},
      {"the arrival before the copies", firstCopy + secondCopy + copied,
       copied + firstCopy + secondCopy, unready},
      {"the arrival before one copy", secondCopy + copied, copied + secondCopy,
       unready},
      {"an arrival that does not wait for the copies", copied,
       "mbarrier.arrive.shared.b64 %d9, [%r4];\n", unready},
      {"a group that may stay in flight", copied,
       "cp.async.commit_group; cp.async.wait_group 1;"
       "mbarrier.arrive.shared.b64 %d9, [%r4];\n",
       unready},
      {"an arrival at the free slot",
       copied,
       "cp.async.mbarrier.arrive.noinc.shared.b64 [%r4+64];\n",
       {K::InvalidMbarrier, K::Deadlock}},
      {"one full arrival more than come", "], 32;\n", "], 33;\n", deadlock},
      {"one full arrival less", "], 32;\n", "], 31;\n", counts},
      {"one free arrival more than come", "], 4;\n", "], 5;\n", deadlock},
      {"one free arrival less",
       "], 4;\n",
       "], 3;\n",
       {K::InvalidMbarrier, K::SharedRace, K::AsyncOverwrite}},
      {"a slot never freed", freed, "", deadlock},
      {"a slot freed before it is read", loads + warpSync + freed,
       freed + loads + warpSync, unfree},
      {"a slot freed before other lanes have read it", warpSync, "", unfree},
      {"no barrier behind the init", "bar.sync 0;\n", "\n", counts},
      {"a copy to the next slot",
       "[%r6+512], [",
       "[%r6+1024], [",
       {K::SharedRace, K::AsyncOverwrite, K::OutOfBounds,
        K::UninitializedMemory}},
      {"a lane that does not arrive", "cp.async.mbarrier",
       "@!%p3 cp.async.mbarrier", deadlock}};
}

TEST(CopyArrival, MistakesInTheRingAreReported) {
  for (const Mistake &mistake : mistakes()) {
    const std::string text = replaced(ring(), mistake.from, mistake.to);
    forEachMode(launchOf(32 * (1 + numConsumers)),
                [&](const RunConfig &config) {
                  RunResult run = runBody(text, config, storage);
                  size_t count = 0;
                  for (FindingKind kind : mistake.kinds)
                    count += run.count(kind);
                  EXPECT_GE(count, 1u)
                      << mistake.name << " async " << int(config.options.async)
                      << " schedule " << int(config.options.schedule) << "\n"
                      << run.text();
                  EXPECT_LT(run.report.counters.warpInstructions, 60000u)
                      << mistake.name;
                });
  }
}

//===----------------------------------------------------------------------===//
// Inputs/copies.cu
//===----------------------------------------------------------------------===//

namespace {
class CopyKernels : public ForeignTest {
protected:
  /// Runs a kernel in each mode; `expected` are the values of its output.
  void run(const char *name, unsigned threads, uint64_t shared,
           const std::vector<float> &x, int count,
           const std::vector<float> &expected) {
    forEachMode({}, [&](const RunConfig &config) {
      Launcher l(file("copies"));
      l.options = config.options;
      l.input("x", x);
      uint64_t out = l.output("out", expected.size() * sizeof(float));
      l.arguments.addValue<int>(count);
      l.run(name, {1, 1, 1}, {threads, 1, 1}, shared);
      EXPECT_EQ(l.read<float>(out, expected.size()), expected);
    });
  }
};
} // namespace

FC_FOR_EACH_COMPILER(CopyKernels);

TEST_P(CopyKernels, Ring) {
  constexpr unsigned tiles = 9, rows = 32, ringColumns = 128;
  std::vector<float> x(tiles * rows * ringColumns), sums(ringColumns, 0.0f);
  for (unsigned i = 0; i < x.size(); ++i)
    sums[i % ringColumns] += x[i] = static_cast<float>(i * 7 % 33) - 16;
  run("ring", 160, 4 * rows * ringColumns * sizeof(float), x, tiles, sums);
}

TEST_P(CopyKernels, Reverse) {
  constexpr unsigned blocks = 6;
  std::vector<float> x(blocks * 256), reversed(x.size());
  for (unsigned i = 0; i < x.size(); ++i)
    reversed[i / 256 * 256 + 255 - i % 256] = x[i] = static_cast<float>(i);
  run("reverse", 256, 0, x, blocks, reversed);
}
