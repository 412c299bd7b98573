//===- MemoryModelTest.cpp - Litmus tests of the race check ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chapter 8 of the PTX ISA, right and wrong: what orders threads must keep the
// check silent, and with one part missing it must speak.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

static void expectRace(const RunResult &run, FindingKind kind) {
  EXPECT_EQ(run.error, "");
  EXPECT_GE(run.count(kind), 1u) << run.text();
  EXPECT_EQ(run.count(kind), run.report.findings.size()) << run.text();
}

static RunConfig launchOf(uint32_t ctas, uint32_t threads) {
  RunConfig config;
  config.grid = {ctas, 1, 1};
  config.block = {threads, 1, 1};
  for (std::vector<uint8_t> &buffer : config.buffers)
    buffer = bytesOf(std::vector<uint32_t>(256, 0));
  return config;
}

/// How a value is passed on: what follows its store, the read of the flag that
/// ends the wait, and what comes before the value is read.
namespace {
struct Exchange {
  std::string publish, read, after;
};
} // namespace

static const std::string storage =
    ".shared .align 16 .b8 tile[1024]; .shared .align 4 .b8 flag[4];";

static RunResult runIn(const RunConfig &config, const std::string &body) {
  return runBody(body, config, storage);
}

/// Thread 0 of CTA 0 passes 42 to thread 0 of CTA 1.
static RunResult passBetweenCtas(const std::string &publish,
                                 const std::string &read,
                                 const std::string &after) {
  return runIn(launchOf(2, 32),
               "setp.ne.u32 %p0, %t, 0; @%p0 exit; mov.u32 %r9, %ctaid.x;"
               "setp.ne.u32 %p1, %r9, 0; @%p1 bra L;\n"
               "st.global.u32 [%g0], 42;\n" +
                   publish + "\nexit;\nL: " + read +
                   "setp.eq.u32 %p2, %r1, 0; @%p2 bra L;\n" + after +
                   "\nld.global.u32 %r2, [%g0]; st.global.u32 [%g2], %r2;");
}

/// Warp 0 passes 42 to warp 1 in shared memory; the flag is [%d4].
static RunResult passBetweenWarps(const std::string &publish,
                                  const std::string &read,
                                  const std::string &after) {
  return runIn(launchOf(1, 64),
               "cvta.shared.u64 %d4, flag; setp.eq.u32 %p0, %t, 0;"
               "@%p0 st.shared.u32 [flag], 0; bar.sync 0;\n"
               "and.b32 %r5, %t, 31; setp.ne.u32 %p1, %r5, 0; @%p1 exit;"
               "setp.ne.u32 %p2, %t, 0; @%p2 bra L;\n"
               "st.shared.u32 [tile], 42;\n" +
                   publish + "\nexit;\nL: " + read +
                   "setp.eq.u32 %p3, %r1, 0; @%p3 bra L;\n" + after +
                   "\nld.shared.u32 %r2, [tile]; st.global.u32 [%g2], %r2;");
}

//===----------------------------------------------------------------------===//
// Message passing
//===----------------------------------------------------------------------===//

TEST(MemoryModel, MessagesBetweenCtas) {
  const std::string one = " [%g1], 1;", load = " %r1, [%g1];";
  const Exchange right[] = {
      {"st.release.gpu.global.u32" + one, "ld.acquire.gpu.global.u32" + load,
       ""},
      {"st.release.sys.global.u32" + one, "ld.acquire.gpu.global.u32" + load,
       ""},
      {"membar.gl; st.volatile.global.u32" + one,
       "ld.volatile.global.u32" + load, "membar.gl;"},
      {"fence.acq_rel.gpu; st.relaxed.gpu.global.u32" + one,
       "ld.relaxed.gpu.global.u32" + load, "fence.acq_rel.gpu;"},
      {"fence.sc.sys; st.relaxed.gpu.global.u32" + one,
       "ld.acquire.gpu.global.u32" + load, ""},
      {"membar.sys; red.global.add.u32" + one, "ld.volatile.global.u32" + load,
       "membar.gl;"},
      {"atom.release.gpu.global.exch.b32 %r3," + one,
       "atom.acquire.gpu.global.or.b32 %r1, [%g1], 0;", ""},
      {"atom.acq_rel.gpu.global.cas.b32 %r3, [%g1], 0, 1;",
       "atom.global.cas.b32 %r1, [%g1], 7, 7;", "membar.gl;"},
      // What follows a release of the same thread belongs to it.
      {"st.release.gpu.global.u32 [%g1], 0; st.relaxed.gpu.global.u32" + one,
       "ld.acquire.gpu.global.u32" + load, ""},
  };
  for (const auto &[publish, read, after] : right) {
    RunResult run = passBetweenCtas(publish, read, after);
    EXPECT_TRUE(run.report.clean()) << publish << read << after << run.text();
    EXPECT_EQ(run.word(2, 0), 42u);
  }
  const Exchange wrong[] = {
      {"st.relaxed.gpu.global.u32" + one, "ld.acquire.gpu.global.u32" + load,
       ""},
      {"st.release.gpu.global.u32" + one, "ld.relaxed.gpu.global.u32" + load,
       ""},
      {"st.volatile.global.u32" + one, "ld.volatile.global.u32" + load, ""},
      {"membar.gl; st.volatile.global.u32" + one,
       "ld.volatile.global.u32" + load, ""},
      {"st.volatile.global.u32" + one, "ld.volatile.global.u32" + load,
       "membar.gl;"},
      // A fence on the wrong side.
      {"st.volatile.global.u32" + one + "membar.gl;",
       "ld.volatile.global.u32" + load, "membar.gl;"},
      {"membar.gl; st.volatile.global.u32" + one,
       "membar.gl; ld.volatile.global.u32" + load, ""},
      // A scope that leaves the other CTA out.
      {"membar.cta; st.volatile.global.u32" + one,
       "ld.volatile.global.u32" + load, "membar.gl;"},
      {"membar.gl; st.volatile.global.u32" + one,
       "ld.volatile.global.u32" + load, "membar.cta;"},
      {"st.release.cta.global.u32" + one, "ld.acquire.cta.global.u32" + load,
       ""},
      {"st.release.gpu.global.u32" + one, "ld.acquire.cta.global.u32" + load,
       ""},
      {"st.release.cluster.global.u32" + one,
       "ld.acquire.gpu.global.u32" + load, ""},
      // Atomics alone order nothing.
      {"red.global.add.u32" + one, "atom.global.or.b32 %r1, [%g1], 0;", ""},
      // A flag that is not strong.
      {"membar.gl; st.global.u32" + one, "ld.volatile.global.u32" + load,
       "membar.gl;"},
  };
  for (const auto &[publish, read, after] : wrong) {
    RunResult run = passBetweenCtas(publish, read, after);
    EXPECT_GE(run.count(FindingKind::GlobalRace), 1u)
        << publish << read << after << run.text();
  }
}

TEST(MemoryModel, MessagesBetweenWarps) {
  const Exchange right[] = {
      {"membar.cta; st.volatile.shared.u32 [flag], 1;",
       "ld.volatile.shared.u32 %r1, [flag];", "membar.cta;"},
      {"st.release.cta.u32 [%d4], 1;", "ld.acquire.cta.u32 %r1, [%d4];", ""},
      {"st.release.cta.shared.u32 [flag], 1;",
       "ld.acquire.gpu.shared.u32 %r1, [flag];", ""},
      {"fence.acq_rel.cta; atom.shared.add.u32 %r3, [flag], 1;",
       "atom.shared.or.b32 %r1, [flag], 0;", "fence.acq_rel.cta;"},
      {"red.release.cta.shared.add.u32 [flag], 1;",
       "ld.acquire.cta.shared.u32 %r1, [flag];", ""},
      // Through global memory.
      {"st.release.cta.global.u32 [%g1], 1;",
       "ld.acquire.cta.global.u32 %r1, [%g1];", ""},
      {"membar.cta; st.volatile.global.u32 [%g1], 1;",
       "ld.volatile.global.u32 %r1, [%g1];", "membar.gl;"},
  };
  for (const auto &[publish, read, after] : right) {
    RunResult run = passBetweenWarps(publish, read, after);
    EXPECT_TRUE(run.report.clean()) << publish << read << after << run.text();
    EXPECT_EQ(run.word(2, 0), 42u);
  }
  const Exchange wrong[] = {
      {"st.volatile.shared.u32 [flag], 1;",
       "ld.volatile.shared.u32 %r1, [flag];", ""},
      {"membar.cta; st.volatile.shared.u32 [flag], 1;",
       "ld.volatile.shared.u32 %r1, [flag];", ""},
      {"st.relaxed.cta.u32 [%d4], 1;", "ld.relaxed.cta.u32 %r1, [%d4];", ""},
      {"atom.shared.add.u32 %r3, [flag], 1;",
       "atom.shared.or.b32 %r1, [flag], 0;", "membar.cta;"},
      {"membar.cta; st.shared.u32 [flag], 1;",
       "ld.volatile.shared.u32 %r1, [flag];", "membar.cta;"},
  };
  for (const auto &[publish, read, after] : wrong) {
    RunResult run = passBetweenWarps(publish, read, after);
    EXPECT_GE(run.count(FindingKind::SharedRace), 1u)
        << publish << read << after << run.text();
  }
}

//===----------------------------------------------------------------------===//
// Causality through several threads
//===----------------------------------------------------------------------===//

/// CTA 0 writes, CTA 1 passes it on, CTA 2 reads.
static RunResult passOn(const std::string &first, const std::string &middle,
                        const std::string &last) {
  return runIn(launchOf(3, 1),
               "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p0, %r9, 1; @%p0 bra ONE;"
               "setp.eq.u32 %p0, %r9, 2; @%p0 bra TWO;\n"
               "st.global.u32 [%g0], 42;" +
                   first + "exit;\nONE: " + middle + "exit;\nTWO: " + last +
                   "ld.global.u32 %r2, [%g0];");
}

TEST(MemoryModel, CausalityIsTransitive) {
  const std::string write = "st.release.gpu.global.u32 [%g1], 1;";
  const std::string wait =
      "A: ld.acquire.gpu.global.u32 %r1, [%g1]; setp.ne.u32 %p1, %r1, 1;"
      "@%p1 bra A;\n";
  const std::string wait2 =
      "B: ld.acquire.gpu.global.u32 %r1, [%g1+4]; setp.ne.u32 %p1, %r1, 1;"
      "@%p1 bra B;\n";
  expectClean(
      passOn(write, wait + "st.release.gpu.global.u32 [%g1+4], 1;", wait2));
  expectRace(
      passOn(write, wait + "st.relaxed.gpu.global.u32 [%g1+4], 1;", wait2),
      FindingKind::GlobalRace);
  // Atomics at the flag pass on what was released there, stores do not.
  const std::string spin =
      "A: ld.relaxed.gpu.global.u32 %r1, [%g1]; setp.ne.u32 %p1, %r1, 1;"
      "@%p1 bra A;\n";
  const std::string wait3 =
      "B: ld.acquire.gpu.global.u32 %r1, [%g1]; setp.ne.u32 %p1, %r1, 2;"
      "@%p1 bra B;\n";
  expectClean(
      passOn(write, spin + "red.relaxed.gpu.global.add.u32 [%g1], 1;", wait3));
  expectRace(passOn(write, spin + "st.relaxed.gpu.global.u32 [%g1], 2;", wait3),
             FindingKind::GlobalRace);
}

/// All threads of CTA 0 write, and one tells all of CTA 1.
static RunResult betweenBlocks(const std::string &before,
                               const std::string &publish,
                               const std::string &wait,
                               const std::string &after) {
  return runIn(
      launchOf(2, 64),
      "mov.u32 %r9, %ctaid.x; mul.wide.u32 %at, %t, 4; add.u64 %d0, %g0, %at;"
      "setp.eq.u32 %p0, %t, 0; setp.ne.u32 %p1, %r9, 0; @%p1 bra READ;\n"
      "st.global.u32 [%d0], %t;" +
          before + "@%p0 " + publish + "exit;\nREAD: @!%p0 bra ALL;\nL: " +
          wait + "setp.eq.u32 %p2, %r1, 0; @%p2 bra L;\nALL: " + after +
          "\nxor.b32 %r3, %t, 33; mul.wide.u32 %at, %r3, 4;"
          "add.u64 %d1, %g0, %at; ld.global.u32 %r2, [%d1];");
}

TEST(MemoryModel, BarriersCarryKnowledge) {
  const std::string publish = "st.release.gpu.global.u32 [%g1], 1;";
  const std::string wait = "ld.acquire.gpu.global.u32 %r1, [%g1];";
  expectClean(betweenBlocks("bar.sync 0;", publish, wait, "bar.sync 0;"));
  expectRace(betweenBlocks("", publish, wait, "bar.sync 0;"),
             FindingKind::GlobalRace);
  expectRace(betweenBlocks("bar.sync 0;", publish, wait, ""),
             FindingKind::GlobalRace);
  // All fence, then one of them publishes; one reads, then all fence.
  const std::string add = "red.global.add.u32 [%g1], 1;";
  const std::string load = "ld.volatile.global.u32 %r1, [%g1];";
  expectClean(betweenBlocks("membar.gl; bar.sync 0;", add, load,
                            "bar.sync 0; membar.gl;"));
  expectRace(betweenBlocks("bar.sync 0;", add, load, "bar.sync 0; membar.gl;"),
             FindingKind::GlobalRace);
  expectRace(betweenBlocks("membar.gl; bar.sync 0;", add, load, "bar.sync 0;"),
             FindingKind::GlobalRace);
}

TEST(MemoryModel, LanesPublishForThemselves) {
  auto publish = [](const std::string &between) {
    return runIn(
        launchOf(1, 64),
        "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [flag], 0; bar.sync 0;\n"
        "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;"
        "setp.gt.u32 %p1, %t, 31; @%p1 bra READ;\n"
        "st.shared.u32 [%r2], %t;" +
            between +
            "@%p0 st.release.cta.shared.u32 [flag], 1; exit;\n"
            "READ: ld.acquire.cta.shared.u32 %r3, [flag];"
            "setp.eq.u32 %p2, %r3, 0; @%p2 bra READ;\n"
            "ld.shared.u32 %r4, [%r2+-128];");
  };
  expectClean(publish("bar.warp.sync -1;"));
  expectRace(publish(""), FindingKind::SharedRace);
  // Lanes that fence together are not ordered by that.
  expectRace(publish("membar.cta;"), FindingKind::SharedRace);
}

TEST(MemoryModel, ArrivalPublishesOnly) {
  // Warp 0 arrives, warp 1 waits: ordered in this direction alone.
  auto run = [](const std::string &zero, const std::string &one) {
    return runIn(launchOf(1, 64), "setp.gt.u32 %p0, %t, 31; @%p0 bra ONE;\n" +
                                      zero + "exit;\nONE: " + one);
  };
  expectClean(run("st.shared.u32 [tile], 1; bar.arrive 1, 64;",
                  "bar.sync 1, 64; ld.shared.u32 %r1, [tile];"));
  expectRace(run("bar.arrive 1, 64; st.shared.u32 [tile], 1;",
                 "bar.sync 1, 64; ld.shared.u32 %r1, [tile];"),
             FindingKind::SharedRace);
}

//===----------------------------------------------------------------------===//
// Locks and counters
//===----------------------------------------------------------------------===//

/// A counter behind a lock that all warps of all CTAs take.
static RunResult takeLock(const std::string &take, const std::string &enter,
                          const std::string &leave) {
  RunResult run = runIn(launchOf(4, 64),
                        "and.b32 %r5, %t, 31; setp.ne.u32 %p0, %r5, 0;"
                        "@%p0 exit;\n" +
                            take + enter +
                            "ld.global.u32 %r2, [%g1]; add.u32 %r2, %r2, 1;"
                            "st.global.u32 [%g1], %r2;\n" +
                            leave);
  EXPECT_EQ(run.word(1, 0), 8u);
  return run;
}

TEST(MemoryModel, Locks) {
  const std::string cas =
      "L: atom.global.cas.b32 %r1, [%g0], 0, 1; setp.ne.u32 %p1, %r1, 0;"
      "@%p1 bra L;\n";
  const std::string exch = "atom.global.exch.b32 %r3, [%g0], 0;";
  expectClean(takeLock(cas, "membar.gl;", "membar.gl;" + exch));
  expectClean(
      takeLock(cas, "membar.gl;", "st.release.gpu.global.u32 [%g0], 0;"));
  expectRace(takeLock(cas, "", "membar.gl;" + exch), FindingKind::GlobalRace);
  expectRace(takeLock(cas, "membar.gl;", exch), FindingKind::GlobalRace);
  expectRace(takeLock(cas, "membar.cta;", "membar.cta;" + exch),
             FindingKind::GlobalRace);
  const std::string acquire =
      "L: atom.acquire.gpu.global.cas.b32 %r1, [%g0], 0, 1;"
      "setp.ne.u32 %p1, %r1, 0; @%p1 bra L;\n";
  expectClean(takeLock(acquire, "", "st.release.gpu.global.u32 [%g0], 0;"));
  // A plain store is no way to unlock.
  expectRace(takeLock(acquire, "", "membar.gl; st.global.u32 [%g0], 0;"),
             FindingKind::GlobalRace);
}

TEST(MemoryModel, TicketLock) {
  const std::string take =
      "atom.global.add.u32 %r6, [%g0], 1;\n"
      "L: ld.volatile.global.u32 %r1, [%g0+4]; setp.ne.u32 %p1, %r1, %r6;"
      "@%p1 bra L;\n";
  const std::string next = "add.u32 %r6, %r6, 1;";
  const std::string serve = "st.volatile.global.u32 [%g0+4], %r6;";
  expectClean(takeLock(take, "membar.gl;", next + "membar.gl;" + serve));
  expectRace(takeLock(take, "membar.gl;", next + serve),
             FindingKind::GlobalRace);
  expectRace(takeLock(take, "", next + "membar.gl;" + serve),
             FindingKind::GlobalRace);
}

/// Each CTA leaves a word, the last one to finish reads all of them.
static RunResult lastBlock(uint32_t ctas, const std::string &before,
                           const std::string &after) {
  RunConfig config = launchOf(ctas, 64);
  config.buffers[0] = bytesOf(std::vector<uint32_t>(ctas, 0));
  return runIn(
      config,
      "mov.u32 %r9, %ctaid.x; mov.u32 %r8, %nctaid.x; sub.u32 %r7, %r8, 1;"
      "mul.wide.u32 %at, %r9, 4; add.u64 %d0, %g0, %at;"
      "setp.ne.u32 %p0, %t, 0; @%p0 bra JOIN;\n"
      "st.global.u32 [%d0], 5;" +
          before +
          "atom.global.inc.u32 %r1, [%g1], %r7; st.shared.u32 [flag], %r1;\n"
          "JOIN: bar.sync 0; ld.shared.u32 %r2, [flag];"
          "setp.ne.u32 %p1, %r2, %r7; @%p1 exit;\n" +
          after +
          "rem.u32 %r3, %t, %r8; mul.wide.u32 %at, %r3, 4;"
          "add.u64 %d1, %g0, %at; ld.global.u32 %r4, [%d1];\n"
          // Atomics of which one saw the others are over.
          "@%p0 exit; st.global.u32 [%g1], 0;");
}

TEST(MemoryModel, LastBlock) {
  expectClean(lastBlock(5, "membar.gl;", "membar.gl;"));
  expectRace(lastBlock(5, "", "membar.gl;"), FindingKind::GlobalRace);
  expectRace(lastBlock(5, "membar.gl;", ""), FindingKind::GlobalRace);
  expectRace(lastBlock(5, "membar.cta;", "membar.gl;"),
             FindingKind::GlobalRace);
}

TEST(MemoryModel, LastOfManyBlocks) {
  expectClean(lastBlock(3000, "membar.gl;", "membar.gl;"));
  expectRace(lastBlock(3000, "", "membar.gl;"), FindingKind::GlobalRace);
}

//===----------------------------------------------------------------------===//
// Atomics and plain accesses
//===----------------------------------------------------------------------===//

static RunResult histogram(const std::string &first,
                           const std::string &second) {
  return runIn(launchOf(1, 128),
               "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;"
               "mul.lo.u32 %r3, %t, 7; and.b32 %r3, %r3, 127;"
               "shl.b32 %r3, %r3, 2; mov.u32 %r4, tile; add.u32 %r4, %r4, %r3;"
               "st.shared.u32 [%r2], 0;" +
                   first + "atom.shared.add.u32 %r5, [%r4], 1;" + second +
                   "ld.shared.u32 %r6, [%r2];");
}

TEST(MemoryModel, Histograms) {
  expectClean(histogram("bar.sync 0;", "bar.sync 0;"));
  RunResult run = histogram("bar.sync 0;", "");
  expectRace(run, FindingKind::SharedRace);
  EXPECT_GE(histogram("", "bar.sync 0;").count(FindingKind::SharedRace), 1u);
  EXPECT_NE(run.text().find("updated by another thread"), std::string::npos)
      << run.text();
}

TEST(MemoryModel, ScopesOfAtomics) {
  auto both = [](const std::string &first, const std::string &second) {
    return runIn(launchOf(2, 1),
                 "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p0, %r9, 0;\n@%p0 " +
                     first + "\n@!%p0 " + second);
  };
  const std::string gpu = "red.relaxed.gpu.global.add.u32 [%g0], 1;";
  const std::string cta = "red.relaxed.cta.global.add.u32 [%g0], 1;";
  expectClean(both(gpu, gpu));
  expectClean(both(gpu, "red.global.add.u32 [%g0], 1;"));
  expectClean(both(gpu, "ld.volatile.global.u32 %r1, [%g0];"));
  expectRace(both(cta, cta), FindingKind::GlobalRace);
  expectRace(both(cta, gpu), FindingKind::GlobalRace);
  RunResult run = both(gpu, cta);
  expectRace(run, FindingKind::GlobalRace);
  EXPECT_NE(run.report.findings[0].rule.find("the scope of each includes"),
            std::string::npos);
  expectRace(both(gpu, "ld.global.u32 %r1, [%g0];"), FindingKind::GlobalRace);
  expectRace(both("st.global.u32 [%g0], 1;", gpu), FindingKind::GlobalRace);
  // Of two sizes: 8.7.2.
  expectRace(both(gpu, "red.global.add.u64 [%g0], 1;"),
             FindingKind::GlobalRace);
  // Within a CTA .cta is enough.
  expectClean(runIn(launchOf(1, 64), cta));
}

TEST(MemoryModel, AtomicsDoNotHidePlainAccesses) {
  // Thread 0 writes and then updates: the other warp meets both.
  expectRace(runIn(launchOf(1, 64),
                   "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [flag], 0;"
                   "atom.shared.add.u32 %r1, [flag], 1;"),
             FindingKind::SharedRace);
  expectRace(runIn(launchOf(1, 64),
                   "setp.eq.u32 %p0, %t, 0; @%p0 st.global.u32 [%g0], 0;"
                   "atom.global.add.u32 %r1, [%g0], 1;"),
             FindingKind::GlobalRace);
  // The same for a read.
  expectRace(runIn(launchOf(1, 64),
                   "setp.eq.u32 %p0, %t, 0; @%p0 ld.global.u32 %r2, [%g0];"
                   "atom.global.add.u32 %r1, [%g0], 1;"),
             FindingKind::GlobalRace);
}

TEST(MemoryModel, AtomicsReadWhatTheyUpdate) {
  auto count = [](const std::string &body) {
    RunConfig config;
    return runBody(body, config, storage)
        .count(FindingKind::UninitializedMemory);
  };
  const std::string use = "bar.sync 0; ld.shared.u32 %r2, [flag];"
                          "st.global.u32 [%g0], %r2;";
  EXPECT_EQ(count("red.global.add.u32 [%g0], 1;"), 1u);
  // What it made of undefined data matters where that is used.
  EXPECT_EQ(count("red.shared.add.u32 [flag], 1;"), 0u);
  EXPECT_EQ(count("red.shared.add.u32 [flag], 1;" + use), 1u);
  EXPECT_EQ(count("atom.shared.cas.b32 %r1, [flag], 0, 1;"
                  "st.global.u32 [%g0], %r1;"),
            1u);
  EXPECT_EQ(count("atom.shared.exch.b32 %r1, [flag], 1;" + use), 0u);
}

//===----------------------------------------------------------------------===//
// Notes
//===----------------------------------------------------------------------===//

TEST(MemoryModel, OneValueFromSeveralWarpsIsANote) {
  RunConfig config = launchOf(1, 64);
  const std::string store = "st.shared.u32 [flag], 1; st.global.u32 [%g0], 1;";
  RunResult run = runIn(config, store);
  expectClean(run);
  ASSERT_EQ(run.report.notes.size(), 2u) << run.text();
  EXPECT_EQ(run.report.notes[0].kind, FindingKind::SameValue);
  EXPECT_NE(run.text().find("note: "), std::string::npos);
  EXPECT_NE(run.text().find("0 findings, 2 notes;"), std::string::npos);
  EXPECT_NE(reportToJson(run.report, "").find("\"same-value\""),
            std::string::npos);
  config.options.checks = CheckAll | CheckSameValue;
  expectRace(runIn(config, store), FindingKind::SameValue);
  config.options.checks = CheckAll;
  // Another value, or a reader, makes it a race.
  EXPECT_GE(runIn(config, store + "shr.u32 %r1, %t, 5;"
                                  "st.shared.u32 [flag], %r1;")
                .count(FindingKind::SharedRace),
            1u);
  EXPECT_GE(runIn(config, store + "ld.shared.u32 %r1, [flag];")
                .count(FindingKind::SharedRace),
            1u);
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

TEST(MemoryModel, OldAccessesSurviveTheirSegments) {
  // Warp 0 stores in more segments than are kept; what warp 1 did before all
  // of them is still there, with its line.
  RunResult run = runIn(launchOf(1, 64),
                        "setp.gt.u32 %p0, %t, 31; @!%p0 bra ZERO;\n"
                        "st.shared.u32 [tile], %t; exit;\nZERO: mov.u32 %r1, "
                        "0;\nL: st.shared.u32 [flag], 7; bar.warp.sync -1;"
                        "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1100000;"
                        "@%p1 bra L;\nst.shared.u32 [tile], %t;");
  EXPECT_GE(run.count(FindingKind::SharedRace), 1u) << run.text();
  for (const Finding &finding : run.report.findings)
    if (finding.hasOther) {
      EXPECT_EQ(finding.other.warp + finding.place.warp, 1u);
      EXPECT_NE(finding.other.line, finding.place.line);
    }
}
