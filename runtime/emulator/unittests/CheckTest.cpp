//===- CheckTest.cpp - Each check fires, and stays silent -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static const std::string tile = ".shared .align 16 .b8 tile[1024];";
/// %r2 = address of the thread's 4 bytes of tile, %r3 of its neighbour's.
static const std::string addresses =
    "shl.b32 %r1, %t, 2; mov.u32 %r2, tile; add.u32 %r2, %r2, %r1;\n"
    "xor.b32 %r4, %r1, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r4;\n"
    "xor.b32 %r5, %r1, 128; mov.u32 %r6, tile; add.u32 %r6, %r6, %r5;\n";

static RunConfig withThreads(uint32_t threads) {
  RunConfig config;
  config.block = {threads, 1, 1};
  return config;
}

static void expectOnly(const RunResult &run, FindingKind kind,
                       const std::string &message = {}) {
  EXPECT_EQ(run.error, "");
  EXPECT_GE(run.count(kind), 1u) << run.text();
  EXPECT_EQ(run.count(kind), run.report.findings.size()) << run.text();
  if (!run.report.findings.empty() && !message.empty()) {
    EXPECT_EQ(run.report.findings[0].message, message);
  }
}

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST(CheckMemory, NamesBufferAndDistance) {
  RunConfig config;
  config.outputBytes = 128;
  std::string body = "mul.wide.u32 %at, %t, 4; add.u64 %d0, %at, %g1;\n";
  expectClean(runBody(body + "st.global.u32 [%d0], %t;", config));
  RunResult run = runBody(body + "st.global.u32 [%d0+16], %t;", config);
  expectOnly(run, FindingKind::OutOfBounds,
             "global store of 4 bytes: 0 bytes past the end of 'p1' (128 "
             "bytes)");
  EXPECT_EQ(run.report.findings[0].place.lanes, 0xf0000000u);
  run = runBody(body + "ld.global.u32 %r0, [%d0+-8];", config);
  EXPECT_EQ(run.report.findings[0].message,
            "global load of 4 bytes: 8 bytes before the start of 'p1' (128 "
            "bytes)");
}

TEST(CheckMemory, NullAndWildPointers) {
  expectOnly(runBody("mov.u64 %d0, 0; ld.global.u32 %r0, [%d0];"),
             FindingKind::InvalidAddress,
             "global load of 4 bytes: address 0x0 belongs to no buffer");
  // An address at the very top must not wrap into shared memory.
  expectOnly(runBody("mov.u64 %d0, -4; ld.shared.v4.u32 {%r0,%r1,%r2,%r3}, "
                     "[%d0+-12];",
                     {}, tile),
             FindingKind::OutOfBounds);
}

TEST(CheckMemory, SharedBounds) {
  expectClean(runBody(addresses + "st.shared.u32 [%r2+896], 1;", {}, tile));
  expectOnly(runBody(addresses + "st.shared.u32 [%r2+900], 1;", {}, tile),
             FindingKind::OutOfBounds,
             "shared access of 4 bytes: 0 bytes past the end of 'tile' (1024 "
             "bytes)");
  expectOnly(runBody("cvta.shared.u64 %d0, tile; st.shared.u32 [%d0], 1;",
                     withThreads(1), tile),
             FindingKind::OutOfBounds,
             "shared access of 4 bytes: a generic address used as a shared "
             "one; convert it with cvta.to.shared");
  expectClean(runBody("cvta.shared.u64 %d0, tile; st.u32 [%d0], 1;",
                      withThreads(1), tile));
}

TEST(CheckMemory, DeclaredAlignmentIsExact) {
  std::string use = "mov.u32 %r0, x; mov.u32 %r1, 0;"
                    "st.shared.v4.u32 [%r0], {%r1,%r1,%r1,%r1};";
  expectClean(runBody(use, withThreads(1), ".shared .align 16 .b8 x[64];"));
  RunResult run = runBody(use, withThreads(1), ".shared .align 2 .b8 x[64];");
  expectOnly(run, FindingKind::Misaligned,
             "access of 16 bytes at an address that is only 2-byte aligned: "
             "byte 0 of 'x' (64 bytes)");
}

TEST(CheckMemory, LocalAndParameters) {
  std::string local = "{ .local .align 4 .b8 depot[8]; .reg .b64 %s;"
                      " mov.u64 %s, depot; cvta.local.u64 %s, %s;"
                      " st.u32 [%s+";
  expectClean(runBody(local + "4], 3; }"));
  expectOnly(runBody(local + "8], 3; }"), FindingKind::OutOfBounds);
  expectOnly(runBody("ld.param.u64 %d0, [p3+8];"), FindingKind::OutOfBounds);
}

//===----------------------------------------------------------------------===//
// Initialisation
//===----------------------------------------------------------------------===//

/// Stores %r0 to a word of each thread; DefinednessTest.cpp has what happens to
/// it before.
static const std::string storeR0 =
    "mul.wide.u32 %at, %t, 4; add.u64 %d9, %g1, %at; st.global.u32 [%d9], %r0;";

TEST(CheckInit, Registers) {
  expectOnly(runBody("add.u32 %r0, %r1, 1;" + storeR0),
             FindingKind::UninitializedRegister,
             "stores undefined data to byte 0 of 'p1' (4096 bytes), where it "
             "stays; it depends on register %r1, which nothing has written");
  // Written in some lanes only.
  std::string some = "setp.lt.u32 %p0, %t, 8; @%p0 mov.u32 %r1, 1;";
  expectOnly(runBody(some + "add.u32 %r0, %r1, 1;" + storeR0),
             FindingKind::UninitializedRegister);
  expectClean(
      runBody(some + "mov.u32 %r0, 2; @%p0 add.u32 %r0, %r1, 1;" + storeR0));
}

TEST(CheckInit, Memory) {
  expectOnly(
      runBody(addresses + "ld.shared.u32 %r0, [%r2];" + storeR0, {}, tile),
      FindingKind::UninitializedMemory);
  expectClean(runBody(addresses +
                          "st.shared.u32 [%r2], 1;"
                          "ld.shared.u32 %r0, [%r2];" +
                          storeR0,
                      {}, tile));
  expectOnly(runBody("ld.global.u32 %r0, [%g0];" + storeR0),
             FindingKind::UninitializedMemory);
  // One byte of the word is missing.
  expectOnly(runBody("mov.u32 %r1, tile; mov.b16 %h0, 1;"
                     "st.shared.b16 [%r1], %h0; st.shared.b8 [%r1+2], %h0;"
                     "ld.shared.u32 %r0, [%r1];" +
                         storeR0,
                     withThreads(1), tile),
             FindingKind::UninitializedMemory);
}

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

TEST(CheckRace, LanesOfAWarp) {
  std::string write = addresses + "st.shared.u32 [%r2], %t;\n";
  std::string read = "ld.shared.u32 %r0, [%r3];";
  expectOnly(runBody(write + read, {}, tile), FindingKind::SharedRace);
  expectClean(runBody(write + "bar.warp.sync -1;" + read, {}, tile));
  expectClean(runBody(write + "bar.sync 0;" + read, {}, tile));
  // A shuffle orders no memory.
  expectOnly(runBody(write + "shfl.sync.bfly.b32 %r9, %t, 1, 31, -1;" + read,
                     {}, tile),
             FindingKind::SharedRace);
}

/// Lanes 0 to 15 exchange through shared memory, the others do not take part.
static std::string exchangeAfter(const std::string &between,
                                 const std::string &partner) {
  return addresses + "st.shared.u32 [%r2], %t; setp.lt.u32 %p0, %t, 16;\n" +
         "@!%p0 bra DONE;\n" + between + "\nxor.b32 %r7, %r1, " + partner +
         "; mov.u32 %r8, tile; add.u32 %r8, %r8, %r7;\n" +
         "ld.shared.u32 %r9, [%r8];\nDONE:";
}

TEST(CheckRace, WarpBarrierOfSomeLanes) {
  // 60: the lane at the other end of the sixteen; 64: one of the upper half.
  expectClean(runBody(exchangeAfter("bar.warp.sync 0xffff;", "60"), {}, tile));
  expectOnly(runBody(exchangeAfter("", "60"), {}, tile),
             FindingKind::SharedRace);
  expectOnly(runBody(exchangeAfter("bar.warp.sync 0xffff;", "64"), {}, tile),
             FindingKind::SharedRace);
  // Lanes 0-7 and 8-15 each met by themselves: 28 stays within eight.
  std::string byEight = "setp.lt.u32 %p1, %t, 8; selp.b32 %r10, 0xff, 0xff00, "
                        "%p1; bar.warp.sync %r10;";
  expectClean(runBody(exchangeAfter(byEight, "28"), {}, tile));
  expectOnly(runBody(exchangeAfter(byEight, "32"), {}, tile),
             FindingKind::SharedRace);
  // What one barrier told some lanes the next one tells the others.
  std::string chain = "setp.lt.u32 %p1, %t, 8; @%p1 bar.warp.sync 0xff;"
                      "setp.gt.u32 %p2, %t, 3; @%p2 bar.warp.sync 0xfff0;";
  expectClean(runBody(addresses +
                          "st.shared.u32 [%r2], %t;"
                          "setp.lt.u32 %p0, %t, 16; @!%p0 bra DONE;" +
                          chain +
                          "setp.eq.u32 %p3, %t, 12; @%p3 ld.shared.u32 %r9, "
                          "[tile];\nDONE:",
                      {}, tile));
  // A barrier of the whole warp afterwards orders all lanes again.
  expectClean(runBody(addresses +
                          "st.shared.u32 [%r2], %t; setp.lt.u32 %p0, %t, 16;"
                          "@%p0 bar.warp.sync 0xffff; bar.warp.sync -1;"
                          "xor.b32 %r7, %r1, 64; mov.u32 %r8, tile;"
                          "add.u32 %r8, %r8, %r7; ld.shared.u32 %r9, [%r8];",
                      {}, tile));
  // A short warp is whole without the lanes it does not have.
  expectClean(
      runBody(exchangeAfter("bar.warp.sync -1;", "28"), withThreads(16), tile));
}

TEST(CheckRace, MatrixLoadsNeedAllLanesOrdered) {
  std::string load = addresses +
                     "st.shared.u32 [%r2], %t; bar.warp.sync -1;"
                     "setp.lt.u32 %p0, %t, 16; @%p0 st.shared.u32 [%r2], 7;\n";
  std::string matrix = "and.b32 %r7, %t, 7; shl.b32 %r7, %r7, 4;"
                       "mov.u32 %r8, tile; add.u32 %r8, %r8, %r7;"
                       "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, "
                       "[%r8];";
  expectOnly(runBody(load + "@%p0 bar.warp.sync 0xffff;" + matrix, {}, tile),
             FindingKind::SharedRace);
  expectClean(runBody(load + "bar.warp.sync -1;" + matrix, {}, tile));
}

TEST(CheckRace, WarpsNeedABarrier) {
  std::string write = addresses + "st.shared.u32 [%r2], %t;\n";
  std::string read = "ld.shared.u32 %r0, [%r6];";
  RunResult run =
      runBody(write + "bar.warp.sync -1;" + read, withThreads(64), tile);
  EXPECT_GE(run.count(FindingKind::SharedRace), 1u) << run.text();
  for (const Finding &finding : run.report.findings)
    if (finding.kind == FindingKind::SharedRace) {
      EXPECT_TRUE(finding.hasOther);
      EXPECT_NE(finding.place.warp, finding.other.warp);
      EXPECT_NE(finding.place.line, finding.other.line);
    }
  expectClean(runBody(write + "bar.sync 0;" + read, withThreads(64), tile));
}

TEST(CheckRace, WriteAfterReadNeedsTheTrailingBarrier) {
  std::string loop = addresses +
                     "mov.u32 %r8, 0;\nL: st.shared.u32 [%r2], %r8;\n"
                     "bar.sync 0; ld.shared.u32 %r0, [%r6];\n";
  std::string end = "add.u32 %r8, %r8, 1; setp.lt.u32 %p0, %r8, 3; @%p0 bra L;";
  expectOnly(runBody(loop + end, withThreads(64), tile),
             FindingKind::SharedRace);
  expectClean(runBody(loop + "bar.sync 0;" + end, withThreads(64), tile));
}

TEST(CheckRace, HalfWordsOfOneWordAreApart) {
  std::string body = "shl.b32 %r1, %t, 1; mov.u32 %r2, tile;"
                     "add.u32 %r2, %r2, %r1; cvt.u16.u32 %h0, %t;"
                     "st.shared.b16 [%r2], %h0;";
  expectClean(runBody(body, withThreads(64), tile));
}

TEST(CheckRace, NeighboursOfVectorsAreApart) {
  std::string tile = ".shared .align 1024 .b8 tile[1024];";
  // Each thread has a vector of 16 bytes; the other warp's lie beside them.
  std::string place = "mov.u32 %r1, tile; mad.lo.u32 %r2, %t, 16, %r1;";
  std::string vectors = "st.shared.v4.u32 [%r2], {%t,%t,%t,%t};";
  expectClean(runBody(place + vectors, withThreads(64), tile));
  std::string others = "xor.b32 %r2, %r2, 512;" + vectors;
  expectOnly(runBody(place + vectors + others, withThreads(64), tile),
             FindingKind::SharedRace);
  // With narrower accesses in the kernel, parts of a vector are apart too.
  std::string pairs = "st.shared.v2.u32 [%r2], {%t,%t};"
                      "xor.b32 %r2, %r2, 512; st.shared.u32 [%r2+8], %r1;";
  expectClean(runBody(place + pairs, withThreads(64), tile));
}

TEST(CheckRace, DifferentValuesToOnePlace) {
  expectOnly(runBody("st.global.u32 [%g0], %t;"), FindingKind::GlobalRace);
  expectClean(runBody("st.global.u32 [%g0], 5;"));
}

TEST(CheckRace, CtasNeedAtomicsAndFences) {
  std::vector<uint32_t> zero(64, 0);
  RunConfig config;
  config.grid = {2, 1, 1};
  config.block = {1, 1, 1};
  config.buffers[0] = config.buffers[1] = bytesOf(zero);
  std::string id = "mov.u32 %r9, %ctaid.x; setp.eq.u32 %p0, %r9, 0;\n";
  // Both write one word.
  expectOnly(runBody(id + "st.global.u32 [%g0], %r9;", config),
             FindingKind::GlobalRace);
  expectOnly(runBody(id + "@%p0 st.global.u32 [%g0], 1;"
                          "@!%p0 ld.global.u32 %r0, [%g0];",
                     config),
             FindingKind::GlobalRace);
  // The last CTA to arrive reads what the other one published.
  auto publish = [&](const std::string &fence) {
    return runBody("mov.u32 %r9, %ctaid.x; mul.wide.u32 %at, %r9, 4;"
                   "add.u64 %d0, %at, %g0; st.global.u32 [%d0], 1;\n" +
                       fence + "atom.global.add.u32 %r1, [%g1], 1;\n" + fence +
                       "setp.ne.u32 %p1, %r1, 1; @%p1 exit;\n"
                       "ld.global.u32 %r2, [%g0]; ld.global.u32 %r3, [%g0+4];",
                   config);
  };
  expectClean(publish("membar.gl;"));
  expectOnly(publish(""), FindingKind::GlobalRace);
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

namespace {
struct AsyncFixture : testing::Test {
  RunConfig config;
  void SetUp() override {
    std::vector<uint32_t> data(256);
    for (uint32_t i = 0; i < 256; ++i)
      data[i] = i;
    config.buffers[1] = bytesOf(data);
  }
  static std::string copy() {
    return addresses + "mul.wide.u32 %at, %t, 4; add.u64 %d0, %at, %g1;\n"
                       "cp.async.ca.shared.global [%r2], [%d0], 4;\n"
                       "cp.async.commit_group;\n";
  }
  static std::string store() {
    return "add.u64 %d2, %at, %g0; st.global.u32 [%d2], %r0;";
  }
};
} // namespace

TEST_F(AsyncFixture, MissingWaitGivesStaleDataAndAFinding) {
  std::string read = "ld.shared.u32 %r0, [%r2];\n" + store();
  RunResult good =
      runBody(copy() + "cp.async.wait_group 0;" + read, config, tile);
  expectClean(good);
  EXPECT_EQ(good.word(0, 7), 7u);
  RunResult lazy = runBody(copy() + read, config, tile);
  expectOnly(lazy, FindingKind::AsyncRead);
  EXPECT_NE(lazy.word(0, 7), 7u);
  config.options.async = AsyncMode::Eager;
  RunResult eager = runBody(copy() + read, config, tile);
  expectOnly(eager, FindingKind::AsyncRead);
  EXPECT_EQ(eager.word(0, 7), 7u);
}

TEST_F(AsyncFixture, WaitCoversOwnCopiesOnly) {
  std::string read = "ld.shared.u32 %r0, [%r3];\n" + store();
  expectOnly(runBody(copy() + "cp.async.wait_all;" + read, config, tile),
             FindingKind::SharedRace);
  expectClean(runBody(copy() + "cp.async.wait_all; bar.warp.sync -1;" + read,
                      config, tile));
}

TEST_F(AsyncFixture, GroupsCompleteInOrder) {
  std::string two = copy() + "cp.async.ca.shared.global [%r2+256], [%d0], 4;\n"
                             "cp.async.commit_group;\n";
  std::string first = "ld.shared.u32 %r0, [%r2];\n" + store();
  std::string second = "ld.shared.u32 %r0, [%r2+256];\n" + store();
  expectClean(runBody(two + "cp.async.wait_group 1;" + first, config, tile));
  expectOnly(runBody(two + "cp.async.wait_group 1;" + second, config, tile),
             FindingKind::AsyncRead);
  expectClean(runBody(two + "cp.async.wait_group 0;" + second, config, tile));
}

TEST_F(AsyncFixture, SlotMustBeFree) {
  std::string again = "cp.async.ca.shared.global [%r2], [%d0], 4;\n"
                      "cp.async.commit_group; cp.async.wait_all;";
  expectOnly(runBody(copy() + "st.shared.u32 [%r2], 1;", config, tile),
             FindingKind::AsyncOverwrite);
  expectOnly(runBody(copy() + again, config, tile),
             FindingKind::AsyncOverwrite);
  // A neighbour still reads when the next copy is issued.
  std::string read = "cp.async.wait_all; bar.warp.sync -1;"
                     "ld.shared.u32 %r0, [%r3];\n";
  expectOnly(runBody(copy() + read + again, config, tile),
             FindingKind::SharedRace);
  expectClean(
      runBody(copy() + read + "bar.warp.sync -1;" + again, config, tile));
}

TEST_F(AsyncFixture, ZeroFillNeedsNoSource) {
  RunResult run = runBody(addresses +
                              "mul.wide.u32 %at, %t, 4; mov.u64 %d0, 0;\n"
                              "cp.async.ca.shared.global [%r2], [%d0], 4, 0;\n"
                              "cp.async.wait_all; ld.shared.u32 %r0, [%r2];" +
                              store(),
                          config, tile);
  expectClean(run);
  EXPECT_EQ(run.word(0, 3), 0u);
}

//===----------------------------------------------------------------------===//
// Synchronisation
//===----------------------------------------------------------------------===//

TEST(CheckSync, DivergentCollectives) {
  std::string half = "setp.lt.u32 %p0, %t, 16;\n";
  // The others wait elsewhere.
  auto isDivergent = [&](const std::string &body) {
    RunResult run = runBody(half + body);
    return run.count(FindingKind::DivergentCollective) == 2 &&
           run.report.findings.size() == 2;
  };
  EXPECT_TRUE(isDivergent("@%p0 shfl.sync.bfly.b32 %r0, %t, 1, 31, -1;"
                          "bar.warp.sync -1;"));
  EXPECT_TRUE(isDivergent("@%p0 bar.sync 0; bar.warp.sync -1;"));
  expectClean(
      runBody(half + "@%p0 shfl.sync.bfly.b32 %r0, %t, 1, 31, 0xffff;"));
  expectOnly(runBody("shl.b32 %r1, %t, 4; mov.u32 %r2, tile;"
                     "add.u32 %r2, %r2, %r1; and.b32 %r3, %t, 31;"
                     "st.shared.v4.u32 [%r2], {%r3,%r3,%r3,%r3}; bar.sync 0;" +
                         half +
                         "@%p0 ldmatrix.sync.aligned.m8n8.x1.shared.b16 "
                         "{%r4}, [%r2];",
                     {}, tile),
             FindingKind::DivergentCollective);
}

TEST(CheckSync, LanesThatComeLaterAreWaitedFor) {
  // Both sides of the branch jump to the same shuffle.
  expectClean(runBody("setp.lt.u32 %p0, %t, 16; @%p0 bra A;\n"
                      "mov.u32 %r1, 1; bra B;\nA: mov.u32 %r1, 2;\n"
                      "B: shfl.sync.bfly.b32 %r0, %r1, 16, 31, -1;"));
}

TEST(CheckSync, BarrierMismatchAndDeadlock) {
  std::string second = "setp.ge.u32 %p0, %t, 32;\n";
  RunResult run = runBody(second + "@%p0 bra B;\nbar.sync 1;\nbra E;\n"
                                   "B: bar.sync 2;\nE:",
                          withThreads(64));
  EXPECT_EQ(run.count(FindingKind::Deadlock), 2u) << run.text();
  run = runBody(second + "@%p0 bra B;\nbar.sync 1, 64;\nbra E;\n"
                         "B: bar.sync 1, 32;\nE:",
                withThreads(64));
  EXPECT_GE(run.count(FindingKind::BarrierMismatch), 1u) << run.text();
  run = runBody(second + "@%p0 exit; bar.sync 0;", withThreads(64));
  expectClean(run); // IdiomTest.cpp has the note
  // A count is of threads that arrive.
  run = runBody(second + "@%p0 exit; bar.sync 0, 64;", withThreads(64));
  EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  expectClean(runBody("bar.sync 0; bar.sync 0;", withThreads(64)));
}

TEST(CheckSync, EndlessLoopsStop) {
  RunConfig config;
  config.options.maxInstructions = 100000;
  expectOnly(runBody("mov.u32 %r0, 0;\nL: add.u32 %r0, %r0, 1; bra L;", config),
             FindingKind::InstructionLimit);
  expectOnly(runBody("L: bra L;", config), FindingKind::Deadlock,
             "one warp repeats this loop; nothing that runs will "
             "ever change it");
  expectOnly(runBody("trap;"), FindingKind::Trap, "trap executed");
}

//===----------------------------------------------------------------------===//
// Counters and reports
//===----------------------------------------------------------------------===//

TEST(Counters, BankConflictsAndSectors) {
  std::string body = "mov.u32 %r2, tile; shl.b32 %r1, %t, ";
  std::string big = ".shared .align 128 .b8 tile[4096];";
  std::string store = "; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], 1;";
  RunResult good = runBody(body + "2" + store, {}, big);
  EXPECT_EQ(good.report.counters.wavefronts, 1u);
  RunResult bad = runBody(body + "7" + store, {}, big);
  EXPECT_EQ(bad.report.counters.wavefronts, 32u);
  EXPECT_EQ(bad.report.counters.idealWavefronts, 1u);

  std::string global = "mul.wide.u32 %at, %t, ";
  std::string end = "; add.u64 %d0, %at, %g0; st.global.u32 [%d0], 1;";
  EXPECT_EQ(runBody(global + "4" + end).report.counters.sectors, 4u);
  RunResult strided = runBody(global + "64" + end);
  EXPECT_EQ(strided.report.counters.sectors, 32u);
  EXPECT_EQ(strided.report.counters.idealSectors, 4u);
}

TEST(Report, MergesAndSelects) {
  RunConfig config;
  config.grid = {4, 1, 1};
  std::string body = "@%p1 bar.warp.sync -1;";
  RunResult run = runBody(body, config);
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].count, 4u);
  EXPECT_EQ(run.report.findings[0].place.line, 11u);
  config.options.checks = CheckAll & ~CheckInit;
  expectClean(runBody(body, config));
  std::string json = reportToJson(run.report, "test.ptx");
  EXPECT_NE(json.find("\"uninitialized-register\""), std::string::npos);
  unsigned set = 0;
  std::string unknown;
  EXPECT_TRUE(parseChecks("race,async", set, unknown));
  EXPECT_EQ(set, unsigned(CheckRace | CheckAsync));
  EXPECT_FALSE(parseChecks("race,bogus", set, unknown));
  EXPECT_EQ(unknown, "bogus");
}

TEST(Report, NamesTheSourceLine) {
  RunResult run = runBody(".loc 1 42 7\n@%p1 bar.warp.sync -1;", {},
                          ".file 1 \"kernel.cu\"");
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].place.source, "kernel.cu:42:7");
}
