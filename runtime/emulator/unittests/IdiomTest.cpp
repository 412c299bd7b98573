//===- IdiomTest.cpp - What compilers and libraries rely on ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Good code that is close to a mistake must be silent, or a note, and the
// mistake next to it a finding.
//
//===----------------------------------------------------------------------===//

#include "FindingUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static RunConfig launchOf(uint32_t ctas, uint32_t threads,
                          uint64_t shared = 0) {
  RunConfig config;
  config.grid = {ctas, 1, 1};
  config.block = {threads, 1, 1};
  config.shared = shared;
  for (std::vector<uint8_t> &buffer : config.buffers)
    buffer = bytesOf(std::vector<uint32_t>(256, 0));
  return config;
}

/// No finding, and notes of one kind.
static void expectNote(const RunResult &run, FindingKind kind,
                       const std::string &text) {
  expectClean(run);
  ASSERT_GE(run.report.notes.size(), 1u) << run.text();
  for (const Finding &note : run.report.notes)
    EXPECT_EQ(note.kind, kind) << run.text();
  EXPECT_NE(run.report.notes[0].message.find(text), std::string::npos)
      << run.text();
}

static void expectSilent(const RunResult &run) {
  expectClean(run);
  EXPECT_EQ(run.report.notes.size(), 0u) << run.text();
}

//===----------------------------------------------------------------------===//
// The first guess of a CAS loop
//===----------------------------------------------------------------------===//

static RunResult runGuess(const std::string &load, const std::string &make,
                          const std::string &after = {}) {
  return runBody(load + "L: mov.u32 %r1, %r0;" + make +
                     "atom.global.cas.b32 %r0, [%g0], %r1, %r2;"
                     "setp.ne.u32 %p0, %r0, %r1; @%p0 bra L;" +
                     after,
                 launchOf(2, 32));
}

TEST(CasGuess, APlainLoadMayBeOneThatIsChecked) {
  RunResult run = runGuess("ld.global.u32 %r0, [%g0];", "add.u32 %r2, %r1, 1;");
  expectSilent(run);
  EXPECT_EQ(run.word(0, 0), 64u);
  // The result of the atomic is anybody's to use.
  expectSilent(runGuess("ld.global.u32 %r0, [%g0];", "add.u32 %r2, %r1, 1;",
                        "shl.b32 %r3, %t, 2; cvt.u64.u32 %d0, %r3;"
                        "add.u64 %d0, %d0, %g1; mov.u32 %r4, %ctaid.x;"
                        "setp.eq.u32 %p1, %r4, 0;"
                        "@%p1 st.global.u32 [%d0], %r0;"));
  // So is the guess once it is found to be that, as nvcc has it.
  const std::string own = "mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 32, %t;"
                          "mul.wide.u32 %d0, %r6, 4; add.u64 %d0, %d0, %g1;";
  expectSilent(runGuess("ld.global.u32 %r0, [%g0];", "add.u32 %r2, %r1, 1;",
                        own + "st.global.u32 [%d0], %r1;"));
  // As a float, by an address that is a copy, in 16 bits, and in shared memory.
  expectSilent(runBody("mov.u64 %d0, %g0; ld.global.f32 %f0, [%g0];"
                       "mov.b32 %r0, %f0;"
                       "L: mov.u32 %r1, %r0; mov.b32 %f1, %r1;"
                       "add.f32 %f2, %f1, 0f3f800000; mov.b32 %r2, %f2;"
                       "atom.global.cas.b32 %r0, [%d0], %r1, %r2;"
                       "setp.ne.u32 %p0, %r0, %r1; @%p0 bra L;",
                       launchOf(2, 32)));
  expectSilent(runBody("ld.global.u16 %h0, [%g0];"
                       "L: mov.u16 %h1, %h0; add.u16 %h2, %h1, 1;"
                       "atom.global.cas.b16 %h0, [%g0], %h1, %h2;"
                       "setp.ne.u16 %p0, %h0, %h1; @%p0 bra L;",
                       launchOf(2, 32)));
  expectSilent(runBody("mov.u32 %r5, s; st.shared.u32 [%r5], 0; bar.sync 0;"
                       "ld.shared.u32 %r0, [%r5];"
                       "L: mov.u32 %r1, %r0; add.u32 %r2, %r1, 1;"
                       "atom.shared.cas.b32 %r0, [%r5], %r1, %r2;"
                       "setp.ne.u32 %p0, %r0, %r1; @%p0 bra L;",
                       launchOf(1, 32), ".shared .align 4 .b8 s[4];"));
}

TEST(CasGuess, WhatDependsOnTheLoadAloneIsARace) {
  const std::string load = "ld.global.u32 %r0, [%g0];",
                    next = "add.u32 %r2, %r1, 1;";
  auto expectRace = [](const RunResult &run) {
    EXPECT_EQ(run.error, "");
    EXPECT_GE(run.count(FindingKind::GlobalRace), 1u) << run.text();
  };
  // The guess is kept, decides, or is an address.
  const std::string at = "mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 32, %t;"
                         "mul.wide.u32 %d0, %r6, 4; add.u64 %d0, %d0, %g1;";
  expectRace(runGuess(at + load + "st.global.u32 [%d0], %r0;", next));
  expectRace(runGuess(load + "setp.gt.u32 %p1, %r0, 40; @%p1 exit;", next));
  expectRace(runGuess(load + "mov.u32 %r7, %r0;", next,
                      at + "st.global.u32 [%d0], %r7;"));
  expectRace(runBody(at + load +
                         "add.u32 %r2, %r0, 1;"
                         "atom.global.cas.b32 %r3, [%g0], %r0, %r2;"
                         "setp.eq.u32 %p0, %r0, %r3; @%p0 bra E;"
                         "st.global.u32 [%d0], %r0;\nE:",
                     launchOf(2, 32)));
  // The CAS compares with something else, or with a part.
  expectRace(runBody(load + "add.u32 %r2, %r0, 1;"
                            "atom.global.cas.b32 %r3, [%g0], 0, %r2;",
                     launchOf(2, 32)));
  expectRace(runBody(load + "and.b32 %r1, %r0, 254; add.u32 %r2, %r0, 1;"
                            "atom.global.cas.b32 %r3, [%g0], %r1, %r2;",
                     launchOf(2, 32)));
  // It is at another place.
  expectRace(runBody(load + "add.u32 %r2, %r0, 1;"
                            "atom.global.cas.b32 %r3, [%g1], %r0, %r2;"
                            "atom.global.add.u32 %r4, [%g0], 1;",
                     launchOf(2, 32)));
  // Others store without an atomic.
  expectRace(runGuess(load, next, "st.global.u32 [%g0], %t;"));
}

//===----------------------------------------------------------------------===//
// stmatrix behind ldmatrix
//===----------------------------------------------------------------------===//

static const std::string tile = ".shared .align 16 .b8 s[256];";

static RunResult runMatrix(const std::string &body, uint32_t threads = 32) {
  return runSm90("and.b32 %r1, %t, 7; shl.b32 %r1, %r1, 4; mov.u32 %r0, s;"
                 "add.u32 %r1, %r1, %r0; and.b32 %r2, %t, 31;"
                 "shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r0;"
                 "setp.lt.u32 %p0, %t, 32; @%p0 st.shared.u32 [%r2], %t;"
                 "bar.sync 0;" +
                     body,
                 launchOf(1, threads), tile);
}

TEST(MatrixInPlace, AWarpStoresWhereItHasLoaded) {
  const std::string load =
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r3}, [%r1];";
  const std::string store =
      "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r3};";
  auto expectRace = [](const RunResult &run) {
    EXPECT_EQ(run.error, "");
    EXPECT_GE(run.count(FindingKind::SharedRace), 1u) << run.text();
  };
  expectSilent(runMatrix(load + store));
  // What lanes load or store by themselves is theirs alone.
  expectRace(runMatrix("ld.shared.u32 %r3, [%r2];" + store));
  expectRace(runMatrix(load + "ld.shared.u32 %r4, [%r2];" + store));
  expectRace(runMatrix("ld.shared.u32 %r4, [%r2];" + load + store));
  expectRace(runMatrix(load + "st.shared.u32 [%r2], %r3;"));
  // Other lanes read what was stored, and other warps are not waited for.
  expectRace(runMatrix("mov.u32 %r3, %t;" + store + load));
  expectRace(runMatrix(load + store, 64));
}

//===----------------------------------------------------------------------===//
// Threads that have exited
//===----------------------------------------------------------------------===//

TEST(ExitedThreads, ABarrierGoesOnWithoutThem) {
  // Half of a warp and two warps are gone.
  const std::string leave = "setp.ge.u32 %p0, %t, 48; @%p0 bra E;";
  for (Schedule schedule : {Schedule::Sequential, Schedule::Skewed}) {
    RunConfig config = launchOf(1, 128);
    config.options.schedule = schedule;
    RunResult run = runBody(
        leave + "mov.u32 %r0, s; shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1;"
                "st.shared.u32 [%r2], %t; bar.sync 0; sub.u32 %r3, 47, %t;"
                "shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r0;"
                "ld.shared.u32 %r4, [%r3]; mul.wide.u32 %d0, %t, 4;"
                "add.u64 %d0, %d0, %g0; st.global.u32 [%d0], %r4;\nE:",
        config, ".shared .align 4 .b8 s[512];");
    expectNote(run, FindingKind::ExitedThreads,
               "80 threads of the CTA have exited");
    EXPECT_EQ(run.word(0, 0), 47u);
    EXPECT_EQ(run.word(0, 47), 0u);
  }
  // One that waits when the others leave, and one that counts.
  RunResult run = runBody("setp.lt.u32 %p0, %t, 32; @%p0 bra W;\n"
                          "mov.u32 %r0, 0; exit;\n"
                          "W: setp.eq.u32 %p1, %t, %t;"
                          "bar.red.popc.u32 %r1, 0, %p1;"
                          "st.global.u32 [%g0], %r1;",
                          launchOf(1, 64));
  expectNote(run, FindingKind::ExitedThreads, "32 threads");
  EXPECT_EQ(run.word(0, 0), 32u);
}

TEST(ExitedThreads, SoDoesAVoteButNotAProduct) {
  const std::string leave = "setp.ge.u32 %p0, %t, 16; @%p0 exit;";
  expectNote(runBody(leave + "vote.sync.ballot.b32 %r0, %p1, -1;"
                             "bar.warp.sync -1;"
                             "shfl.sync.bfly.b32 %r1, %r0, 8, 31, -1;"),
             FindingKind::ExitedThreads, "16 lanes that the membermask names");
  // The value of a lane that is gone, and what needs all lanes.
  EXPECT_EQ(runBody(leave + "shfl.sync.bfly.b32 %r1, %t, 16, 31, -1;")
                .count(FindingKind::DivergentCollective),
            1u);
  EXPECT_EQ(runBody(leave + "mov.u32 %r0, s;"
                            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, "
                            "[%r0];",
                    {}, ".shared .align 16 .b8 s[128];")
                .count(FindingKind::DivergentCollective),
            1u);
  // What they would have written was not.
  RunResult run = runBody(
      "setp.ge.u32 %p0, %t, 32; @%p0 exit; mov.u32 %r0, s;"
      "shl.b32 %r1, %t, 2; add.u32 %r2, %r0, %r1; st.shared.u32 [%r2], %t;"
      "bar.sync 0; ld.shared.u32 %r3, [%r2+128]; mul.wide.u32 %d0, %t, 4;"
      "add.u64 %d0, %d0, %g0; st.global.u32 [%d0], %r3;",
      launchOf(1, 64), ".shared .align 4 .b8 s[256];");
  EXPECT_EQ(run.count(FindingKind::UninitializedMemory), 1u) << run.text();
}

//===----------------------------------------------------------------------===//
// Where dynamic shared memory begins
//===----------------------------------------------------------------------===//

static RunResult runDynamic(const std::string &align, SharedBase base,
                            const std::string &round = {},
                            const std::string &statics = {},
                            unsigned threads = 1) {
  RunConfig config = launchOf(4, 32, 4096);
  config.options.sharedBase = base;
  config.options.threads = threads;
  return runBody("mov.u32 %r0, smem;" + round +
                     "shl.b32 %r1, %t, 4; add.u32 %r1, %r1, %r0;"
                     "st.shared.v4.u32 [%r1+1024], {%t, %t, %t, %t};",
                 config,
                 ".extern .shared .align " + align + " .b8 smem[];" + statics);
}

TEST(SharedBase, IsADriversAndANoteSaysWhatIsNotDeclared) {
  expectSilent(runDynamic("16", SharedBase::Driver));
  expectSilent(runDynamic("16", SharedBase::Declared));
  for (unsigned threads : {1u, 3u}) {
    RunResult run = runDynamic("4", SharedBase::Driver, "", "", threads);
    expectNote(run, FindingKind::UndeclaredAlignment,
               "needs byte 1024 of dynamic shared memory to be aligned to 16 "
               "bytes, but the kernel declares an alignment of 4");
    EXPECT_EQ(run.report.threads, threads);
    EXPECT_EQ(run.report.notes[0].place.cta[0], 0u);
  }
  EXPECT_EQ(
      runDynamic("4", SharedBase::Declared).count(FindingKind::Misaligned), 1u);
  // A kernel that aligns it itself needs nobody for that.
  const std::string round = "add.u32 %r0, %r0, 15; and.b32 %r0, %r0, -16;";
  expectSilent(runDynamic("4", SharedBase::Driver, round));
  expectSilent(runDynamic("4", SharedBase::Declared, round));
  const std::string less = "add.u32 %r0, %r0, 7; and.b32 %r0, %r0, -8;";
  EXPECT_EQ(runDynamic("4", SharedBase::Driver, less).report.notes.size(), 1u);
}

TEST(SharedBase, IsAMultipleOf1024BehindStaticMemory) {
  for (const char *align : {"1", "16", "2048"}) {
    RunConfig config = launchOf(1, 1, 64);
    RunResult run =
        runBody("mov.u32 %r0, smem; mov.u32 %r1, s; st.shared.u8 [%r1], 0;"
                "st.global.u32 [%g0], %r0;",
                config,
                std::string(".extern .shared .align ") + align +
                    " .b8 smem[]; .shared .b8 s[40];");
    uint32_t least = std::max(1024, std::atoi(align));
    EXPECT_EQ(run.word(0, 0) % (2 * least), least) << run.text();
  }
}

//===----------------------------------------------------------------------===//
// A cluster of one CTA
//===----------------------------------------------------------------------===//

TEST(ClusterOfOne, HasTheRegistersOfOne) {
  RunResult run = runSm90(
      "mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 2; @%p0 exit;"
      "mov.u32 %r1, %cluster_ctaid.x; mov.u32 %r2, %cluster_nctaid.y;"
      "mov.u32 %r3, %cluster_ctarank; mov.u32 %r4, %cluster_nctarank;"
      "st.global.v4.u32 [%g0], {%r1, %r2, %r3, %r4};"
      "mov.u32 %r1, %clusterid.x; mov.u32 %r2, %nclusterid.x;"
      "mov.pred %p1, %is_explicit_cluster; selp.u32 %r3, 1, 0, %p1;"
      "mov.u32 %r5, s; mapa.shared::cluster.u32 %r6, %r5, %r4;"
      "mapa.shared::cluster.u32 %r6, %r5, 0; st.shared::cluster.u32 [%r6], 5;"
      "atom.shared::cluster.add.u32 %r7, [%r6], 2;"
      "ld.shared.u32 %r4, [%r5];"
      "st.global.v4.u32 [%g0+16], {%r1, %r2, %r3, %r4};"
      "getctarank.shared::cluster.u32 %r1, %r6; st.global.u32 [%g0+32], %r1;",
      launchOf(3, 1), ".shared .align 4 .b8 s[4];");
  expectSilent(run);
  const uint32_t expected[] = {0, 1, 0, 1, 2, 3, 0, 7, 0};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(run.word(0, i), expected[i]) << i;
  // A rank that is not there is the address of nothing.
  EXPECT_EQ(runSm90("mov.u32 %r5, s; mapa.shared::cluster.u32 %r6, %r5, 1;"
                    "st.shared::cluster.u32 [%r6], 5;",
                    launchOf(1, 1), ".shared .align 4 .b8 s[4];")
                .report.findings.size(),
            1u);
}

/// Each thread of two warps writes a word and reads one of the other warp.
static RunResult exchange(const std::string &between, Schedule schedule,
                          const std::string &late = {}) {
  RunConfig config = launchOf(1, 64);
  config.options.schedule = schedule;
  return runSm90("mov.u32 %r0, s; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r0;"
                 "st.shared.u32 [%r1], %t;" +
                     between +
                     "xor.b32 %r2, %t, 32; shl.b32 %r2, %r2, 2;"
                     "add.u32 %r2, %r2, %r0; ld.shared.u32 %r3, [%r2];"
                     "mul.wide.u32 %d0, %t, 4; add.u64 %d0, %d0, %g0;"
                     "st.global.u32 [%d0], %r3;" +
                     late,
                 config, ".shared .align 4 .b8 s[256];");
}

TEST(ClusterOfOne, ItsBarrierIsOneOfTheCta) {
  for (Schedule schedule :
       {Schedule::Sequential, Schedule::Skewed, Schedule::Random}) {
    for (const char *aligned : {"", ".aligned"}) {
      std::string arrive = std::string("barrier.cluster.arrive") + aligned;
      std::string wait = std::string("barrier.cluster.wait") + aligned + ";";
      RunResult run =
          exchange(arrive + ";" + wait + arrive + ".release;" + wait, schedule);
      expectSilent(run);
      EXPECT_EQ(run.word(0, 1), 33u);
      EXPECT_EQ(run.word(0, 63), 31u);
    }
    auto races = [&](const std::string &between) {
      return exchange(between, schedule).count(FindingKind::SharedRace);
    };
    const std::string arrive = "barrier.cluster.arrive.aligned;",
                      wait = "barrier.cluster.wait.aligned;";
    // Without a wait, or an arrival that publishes; what is stored in between.
    EXPECT_GE(races(arrive), 1u);
    EXPECT_GE(races("barrier.cluster.arrive.relaxed.aligned;" + wait), 1u);
    EXPECT_GE(races(arrive + "st.shared.u32 [%r1], %t;" + wait), 1u);
  }
}

TEST(ClusterOfOne, ItsBarrierIsUsedInTurns) {
  const std::string arrive = "barrier.cluster.arrive.aligned;",
                    wait = "barrier.cluster.wait.aligned;";
  expectOne(exchange("bar.sync 0;" + wait, Schedule::Sequential),
            FindingKind::BarrierMismatch, "without an arrival");
  expectOne(exchange("bar.sync 0;" + arrive + arrive, Schedule::Sequential),
            FindingKind::BarrierMismatch, "again without a wait");
  // A warp that never arrives; one that has exited is not waited for.
  const std::string second = "setp.ge.u32 %p0, %t, 32; @%p0 bra E;";
  RunResult run = runSm90(second + arrive + wait + "exit;\nE: bar.sync 1;",
                          launchOf(1, 64));
  EXPECT_EQ(run.count(FindingKind::Deadlock), 2u) << run.text();
  expectClean(
      runSm90(second + arrive + wait + "exit;\nE: ret;", launchOf(1, 64)));
  expectClean(runSm90("setp.ge.u32 %p0, %t, 32;" + arrive + "@%p0 exit;" + wait,
                      launchOf(1, 64)));
}

//===----------------------------------------------------------------------===//
// Caches and copies that are behind
//===----------------------------------------------------------------------===//

TEST(ReadOnlyPath, IsNotForWhatTheKernelWrites) {
  auto body = [](const std::string &load) {
    return "mul.wide.u32 %d0, %t, 4; add.u64 %d1, %d0, %g0;"
           "st.global.u32 [%d1], %t; bar.sync 0;" +
           load +
           " %r1, [%d1]; add.u64 %d2, %d0, %g1;"
           "st.global.u32 [%d2], %r1;";
  };
  expectOne(runBody(body("ld.global.nc.u32"), launchOf(1, 32)),
            FindingKind::GlobalRace, "through the read-only path");
  expectSilent(runBody(body("ld.global.u32"), launchOf(1, 32)));
  expectSilent(runBody("mul.wide.u32 %d0, %t, 4; add.u64 %d1, %d0, %g0;"
                       "ld.global.nc.u32 %r1, [%d1]; add.u64 %d2, %d0, %g1;"
                       "st.global.u32 [%d2], %r1;",
                       launchOf(1, 32)));
}

/// CTA 0 hands bytes to CTA 1 that a bulk store writes.
static RunResult handOver(const std::string &wait) {
  return runSm90(
      "mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 0; mov.u32 %r1, s;"
      "setp.ne.u32 %p1, %t, 0; @%p0 bra READ;\n"
      "shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t;"
      "fence.proxy.async.shared::cta; bar.sync 0; @%p1 exit;"
      "cp.async.bulk.global.shared::cta.bulk_group [%g0], [%r1], 128;"
      "cp.async.bulk.commit_group;" +
          wait +
          "fence.acq_rel.gpu; atom.global.exch.b32 %r3, [%g1], 1; exit;\n"
          "READ: @%p1 bra JOIN;\n"
          "AGAIN: atom.global.add.u32 %r3, [%g1], 0;"
          "setp.eq.u32 %p2, %r3, 0; @%p2 bra AGAIN; fence.acq_rel.gpu;\n"
          "JOIN: bar.sync 0; mul.wide.u32 %d0, %t, 4;"
          "add.u64 %d1, %d0, %g0; ld.global.u32 %r4, [%d1];"
          "add.u64 %d2, %d0, %g2; st.global.u32 [%d2], %r4;",
      launchOf(2, 32), ".shared .align 128 .b8 s[128];");
}

TEST(BulkStore, IsThereAfterAWaitThatIsNotOfReads) {
  expectSilent(handOver("cp.async.bulk.wait_group 0;"));
  expectSilent(handOver("cp.async.bulk.wait_group.read 0;"
                        "cp.async.bulk.wait_group 0;"));
  RunResult run = handOver("cp.async.bulk.wait_group.read 0;");
  expectOne(run, FindingKind::GlobalRace, "written by another thread");
  EXPECT_NE(run.report.findings[0].rule.find("without .read"),
            std::string::npos);
}
