//===- CollectiveTest.cpp - Divergence, shuffles, votes, barriers ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

/// Stores %r0 of each thread to p0.
static const std::string storeR0 =
    "mul.wide.u32 %at, %t, 4; add.u64 %d31, %at, %g0;"
    "st.global.u32 [%d31], %r0;";

TEST(Divergence, LanesMeetAgain) {
  RunResult run = runBody("mov.u32 %r0, 0; setp.lt.u32 %p0, %t, 10;\n"
                          "@%p0 bra A;\n add.u32 %r0, %r0, 100;\n bra B;\n"
                          "A: add.u32 %r0, %r0, 7;\n"
                          "B: add.u32 %r0, %r0, %t;\n activemask.b32 %r1;\n"
                          "setp.ne.b32 %p1, %r1, -1;\n"
                          "@%p1 add.u32 %r0, %r0, 1000;\n" +
                          storeR0);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 3), 10u);
  EXPECT_EQ(run.word(0, 20), 120u);
}

TEST(Divergence, LoopsWithDifferentTripCounts) {
  RunResult run = runBody("mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
                          "L: add.u32 %r0, %r0, %r1; add.u32 %r1, %r1, 1;\n"
                          "setp.le.u32 %p0, %r1, %t; @%p0 bra L;\n" +
                          storeR0);
  EXPECT_TRUE(run.report.clean()) << run.text();
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(run.word(0, i), i * (i + 1) / 2);
}

TEST(Divergence, SpinningLanesLetOthersRun) {
  // Lane 0 sets the flag after the loop in which the others wait for it.
  std::vector<uint32_t> flag(32, 0);
  RunConfig config;
  config.buffers[1] = bytesOf(flag);
  RunResult run = runBody("setp.eq.u32 %p0, %t, 0; @%p0 bra SET;\n"
                          "L: ld.volatile.global.u32 %r1, [%g1];\n"
                          "setp.eq.u32 %p1, %r1, 0; @%p1 bra L;\n bra DONE;\n"
                          "SET: st.volatile.global.u32 [%g1], 5;\n"
                          "DONE: mov.u32 %r0, 1;\n" +
                              storeR0,
                          config);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 31), 1u);
}

TEST(Divergence, BranchTables) {
  RunResult run = runBody("and.b32 %r1, %t, 3; mov.u32 %r0, 9;\n"
                          "T: .branchtargets A, B, C, D;\n"
                          "brx.idx %r1, T;\n"
                          "A: mov.u32 %r0, 10; bra E;\n"
                          "B: mov.u32 %r0, 11; bra E;\n"
                          "C: mov.u32 %r0, 12; bra E;\n"
                          "D: mov.u32 %r0, 13;\nE:\n" +
                          storeR0);
  EXPECT_TRUE(run.report.clean()) << run.text();
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(run.word(0, i), 10 + i % 4);
}

TEST(Collective, Shuffles) {
  auto shuffled = [](const std::string &mode) {
    RunResult run = runBody("mul.lo.u32 %r1, %t, 10;\n"
                            "shfl.sync." +
                            mode +
                            " -1;\n"
                            "selp.u32 %r2, 1000, 0, %p0;\n"
                            "add.u32 %r0, %r0, %r2;\n" +
                            storeR0);
    EXPECT_TRUE(run.report.clean()) << run.text();
    return run;
  };
  EXPECT_EQ(shuffled("bfly.b32 %r0|%p0, %r1, 1, 31,").word(0, 4), 1050u);
  EXPECT_EQ(shuffled("idx.b32 %r0|%p0, %r1, 3, 31,").word(0, 9), 1030u);
  RunResult up = shuffled("up.b32 %r0|%p0, %r1, 2, 0,");
  EXPECT_EQ(up.word(0, 1), 10u);
  EXPECT_EQ(up.word(0, 2), 1000u);
  RunResult down = shuffled("down.b32 %r0|%p0, %r1, 4, 31,");
  EXPECT_EQ(down.word(0, 3), 1070u);
  EXPECT_EQ(down.word(0, 30), 300u);
  // Segments of 8 lanes: c = (32 - 8) << 8 | 31.
  EXPECT_EQ(shuffled("idx.b32 %r0|%p0, %r1, 1, 6175,").word(0, 20), 1170u);
}

TEST(Collective, VotesMatchAndRedux) {
  RunResult run = runBody(
      "setp.lt.u32 %p0, %t, 5; vote.sync.ballot.b32 %r1, %p0, -1;\n"
      "vote.sync.any.pred %p1, %p0, -1; vote.sync.all.pred %p2, %p0, -1;\n"
      "and.b32 %r2, %t, 1; match.any.sync.b32 %r3, %r2, -1;\n"
      "redux.sync.add.s32 %r4, %t, -1; redux.sync.max.u32 %r5, %t, -1;\n"
      "selp.u32 %r6, 1, 0, %p1; selp.u32 %r7, 1, 0, %p2;\n"
      "st.global.v4.u32 [%g0], {%r1, %r3, %r4, %r5};\n"
      "st.global.v2.u32 [%g0+16], {%r6, %r7};",
      [] {
        RunConfig config;
        config.options.checks = CheckAll & ~CheckRace; // all lanes store
        return config;
      }());
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 31u);
  EXPECT_EQ(run.word(0, 1), 0xaaaaaaaau); // lane 31 stores last
  EXPECT_EQ(run.word(0, 2), 496u);
  EXPECT_EQ(run.word(0, 3), 31u);
  EXPECT_EQ(run.word(0, 4), 1u);
  EXPECT_EQ(run.word(0, 5), 0u);
}

TEST(Collective, BarrierReductions) {
  RunConfig config;
  config.block = {96, 1, 1};
  RunResult run = runBody("setp.lt.u32 %p0, %t, 40;\n"
                          "bar.red.popc.u32 %r1, 0, %p0;\n"
                          "bar.red.and.pred %p1, 1, %p0;\n"
                          "bar.red.or.pred %p2, 2, %p0;\n"
                          "selp.u32 %r2, 100, 0, %p1;\n"
                          "selp.u32 %r3, 1000, 0, %p2;\n"
                          "add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3;\n" +
                              storeR0,
                          config);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 90), 1040u);
}

TEST(Collective, NamedBarriersOrderProducersAndConsumers) {
  // Warp 0 fills, warp 1 reads; the producer only arrives.
  std::string shared = ".shared .align 4 .b8 tile[128];";
  std::string body = "and.b32 %r1, %t, 31; shl.b32 %r1, %r1, 2;\n"
                     "mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;\n"
                     "setp.lt.u32 %p0, %t, 32; @%p0 bra PRODUCE;\n"
                     "bar.sync 1, 64; ld.shared.u32 %r0, [%r2];\n" +
                     storeR0 +
                     "ret;\nPRODUCE: st.shared.u32 [%r2], %r1;\n"
                     "bar.arrive 1, 64;\n";
  for (Schedule schedule :
       {Schedule::Sequential, Schedule::Skewed, Schedule::Random}) {
    RunConfig config;
    config.block = {64, 1, 1};
    config.options.schedule = schedule;
    RunResult run = runBody(body, config, shared);
    EXPECT_TRUE(run.report.clean()) << run.text();
    EXPECT_EQ(run.word(0, 40), 32u);
  }
}

TEST(Atomics, CountThreadsOfAllCtas) {
  std::vector<uint32_t> counter(4, 0);
  RunConfig config;
  config.grid = {3, 1, 1};
  config.block = {64, 1, 1};
  config.buffers[0] = bytesOf(counter);
  RunResult run = runBody("atom.global.add.u32 %r0, [%g0], 1;\n"
                          "red.global.max.u32 [%g0+4], %t;\n"
                          "atom.global.cas.b32 %r1, [%g0+8], 0, 7;\n"
                          "red.global.add.f32 [%g0+12], 0f3F800000;",
                          config);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 192u);
  EXPECT_EQ(run.word(0, 1), 63u);
  EXPECT_EQ(run.word(0, 2), 7u);
  EXPECT_EQ(run.word(0, 3), 0x43400000u); // 192.0
}

TEST(Matrix, MoveTransposes) {
  // Lane l holds elements 2 l and 2 l + 1 of an 8 x 8 matrix.
  RunResult run =
      runBody("shl.b32 %r1, %t, 1; add.u32 %r2, %r1, 1; cvt.u16.u32 %h1, %r1;"
              "cvt.u16.u32 %h2, %r2; mov.b32 %r3, {%h1, %h2};"
              "movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r3;"
              "mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %g0;"
              "st.global.u32 [%at], %r0;");
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned row = lane / 4, column = lane % 4 * 2;
    EXPECT_EQ(run.word(0, lane), (column * 8 + row) | ((column + 1) * 8 + row)
                                                          << 16);
  }
}

TEST(Matrix, GenericAddresses) {
  std::string shared = ".shared .align 16 .b8 tile[512];";
  std::string fill = "shl.b32 %r1, %t, 2; mov.u32 %r2, tile;"
                     "add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %t;"
                     "bar.sync 0; and.b32 %r3, %t, 7; mul.wide.u32 %d1, %r3, "
                     "16;";
  std::string load = "add.u64 %d3, %d2, %d1;"
                     "ldmatrix.sync.aligned.m8n8.x1.b16 {%r0}, [%d3];"
                     "mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %g0;"
                     "st.global.u32 [%at], %r0;";
  RunResult run = runBody(
      fill + "mov.u64 %d2, tile; cvta.shared.u64 %d2, %d2;" + load, {}, shared);
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  for (unsigned lane = 0; lane < 32; ++lane)
    EXPECT_EQ(run.word(0, lane), lane);
  run = runBody(fill + "mov.u64 %d2, %g1;" + load, {}, shared);
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
}

TEST(Atomics, AddF32FlushesInGlobalMemoryOnly) {
  std::string add = "st.SPACE.b32 [AT], 1; atom.SPACE.add.f32 %f0, [AT], "
                    "0f00000002; ld.SPACE.b32 %r0, [AT];";
  auto run = [&](const std::string &space, const std::string &at) {
    std::string body = add;
    for (const auto &[from, to] :
         {std::pair<std::string, std::string>{"SPACE", space}, {"AT", at}})
      for (size_t i; (i = body.find(from)) != std::string::npos;)
        body.replace(i, from.size(), to);
    RunConfig config;
    config.block = {1, 1, 1};
    return runBody(body + storeR0, config, ".shared .align 4 .b8 cell[4];");
  };
  EXPECT_EQ(run("global", "%g1").word(0, 0), 0u);
  EXPECT_EQ(run("shared", "cell").word(0, 0), 3u);
}

TEST(Atomics, FloatsGiveTheCanonicalNan) {
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody("st.global.b32 [%g1], 0x7f800000;\n"
                          "red.global.add.f32 [%g1], 0fFF800000;\n"
                          "st.global.b32 [%g2], 0x7c007c00;\n"
                          "mov.b32 %r1, 0xfc01fc00;\n"
                          "red.global.add.noftz.f16x2 [%g2], %r1;",
                          config);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(1, 0), 0x7fffffffu);
  EXPECT_EQ(run.word(2, 0), 0x7fff7fffu);
}

TEST(Matrix, LoadStoreRoundTrip) {
  // Four 8x8 matrices, loaded transposed and stored transposed again.
  std::string shared =
      ".shared .align 16 .b8 from[512]; .shared .align 16 .b8 to[512];";
  for (std::string trans : {"", ".trans"}) {
    std::string body =
        "shl.b32 %r1, %t, 4; mov.u32 %r2, from; add.u32 %r2, %r2, %r1;\n"
        "mov.u32 %r3, to; add.u32 %r3, %r3, %r1;\n"
        "mul.lo.u32 %r4, %t, 65537; add.u32 %r5, %r4, 1;\n"
        "add.u32 %r6, %r4, 2; add.u32 %r7, %r4, 3;\n"
        "st.shared.v4.b32 [%r2], {%r4,%r5,%r6,%r7}; bar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x4" +
        trans +
        ".shared.b16 {%r10,%r11,%r12,%r13}, [%r2];\n"
        "stmatrix.sync.aligned.m8n8.x4" +
        trans +
        ".shared.b16 [%r3], {%r10,%r11,%r12,%r13};\nbar.warp.sync -1;\n"
        "ld.shared.u32 %r0, [%r3+8];\n" +
        storeR0;
    RunResult run = runBody(body, {}, shared);
    EXPECT_TRUE(run.report.clean()) << run.text();
    EXPECT_EQ(run.word(0, 9), 9u * 65537 + 2);
  }
}
// Whatever the order in which groups of lanes run, those that stand at one
// collective meet there: a turn may end just when the last of them arrives.
TEST(Warp, DivergedLanesMeetInALoopUnderAnySchedule) {
  std::string body = "mov.u32 %r0, 0; mov.u32 %r1, 0;\n"
                     "LOOP: shfl.sync.bfly.b32 %r2, %t, 1, 31, -1;\n"
                     "add.u32 %r1, %r1, %r2; and.b32 %r3, %t, 7;\n"
                     "setp.ne.u32 %p0, %r3, 0; @%p0 bra SKIP;\n"
                     "add.u32 %r1, %r1, 1; add.u32 %r1, %r1, 1;\n"
                     "SKIP: add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, 40;\n"
                     "@%p1 bra LOOP;\n"
                     "mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %g0;\n"
                     "st.global.u32 [%at], %r1;";
  for (uint64_t seed = 0; seed < 200; ++seed) {
    RunConfig config;
    config.block = {64, 1, 1};
    config.options.schedule = Schedule::Random;
    config.options.scheduleSeed = seed;
    RunResult run = runBody(body, config);
    ASSERT_TRUE(run.error.empty() && run.report.clean())
        << "seed " << seed << ": " << run.text();
    for (unsigned thread = 0; thread < 64; ++thread)
      ASSERT_EQ(run.word(0, thread),
                40 * ((thread ^ 1) + (thread % 8 == 0 ? 2u : 0u)));
  }
}
