//===- WarpRoleTest.cpp - setmaxnreg, elect, named barriers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel is made of whose warps do different work.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static RunResult runIn(uint32_t threads, const std::string &body) {
  RunConfig config;
  config.block = {threads, 1, 1};
  return runSm90(body, config, ".shared .align 16 .b8 data[256];");
}

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

static void expectOne(const RunResult &run, FindingKind kind,
                      const std::string &text) {
  ASSERT_TRUE(run.error.empty()) << run.error;
  ASSERT_GE(run.count(kind), 1u) << run.text();
  EXPECT_NE(run.text().find(text), std::string::npos) << run.text();
}

/// Warpgroup 0 gives registers, the others take them.
static std::string roles(unsigned producer, unsigned consumer) {
  return "setp.gt.u32 %p1, %t, 127; @%p1 bra C;\n"
         "setmaxnreg.dec.sync.aligned.u32 " +
         std::to_string(producer) +
         "; bra E;\nC: setmaxnreg.inc.sync.aligned.u32 " +
         std::to_string(consumer) + ";\nE: bar.sync 0;";
}

TEST(WarpRole, RegistersOfAPool) {
  // What three, four and five warpgroups can have of 65536 registers.
  expectClean(runIn(384, roles(24, 240)));
  expectClean(runIn(512, roles(32, 160)));
  expectClean(runIn(640, roles(24, 112)));
  for (auto [threads, producer, consumer] :
       {std::tuple(384u, 24u, 248u), {512u, 40u, 160u}, {640u, 24u, 120u}})
    expectOne(runIn(threads, roles(producer, consumer)),
              FindingKind::InvalidRegisterCount, "registers, of which");
}

TEST(WarpRole, RegistersInTheWrongDirection) {
  expectOne(runIn(384, "setmaxnreg.dec.sync.aligned.u32 176;"),
            FindingKind::InvalidRegisterCount,
            "setmaxnreg.dec to 176 registers of a warp that has 168");
  expectOne(runIn(384, "setmaxnreg.inc.sync.aligned.u32 160;"),
            FindingKind::InvalidRegisterCount,
            "setmaxnreg.inc to 160 registers of a warp that has 168");
}

TEST(WarpRole, RegistersOfAWholeWarpgroup) {
  expectOne(runIn(384, "setp.gt.u32 %p1, %t, 31;"
                       "@%p1 bra E;\nsetmaxnreg.dec.sync.aligned.u32 24;\nE:"),
            FindingKind::InvalidRegisterCount,
            "not all warps of the warpgroup execute this setmaxnreg");
  expectOne(runIn(160, "setp.lt.u32 %p1, %t, 128;"
                       "@%p1 bra E;\nsetmaxnreg.dec.sync.aligned.u32 24;\nE:"),
            FindingKind::DivergentCollective, "are no whole warpgroup");
  expectOne(runIn(128, "setp.eq.u32 %p1, %t, 0;"
                       "@%p1 bra E;\nsetmaxnreg.dec.sync.aligned.u32 24;\nE: "
                       "bar.warp.sync 0xffffffff;"),
            FindingKind::DivergentCollective, "");
}

TEST(WarpRole, RegisterCounts) {
  for (const char *count : {"16", "28", "264"})
    EXPECT_NE(loadError(sm90Text("setmaxnreg.inc.sync.aligned.u32 " +
                                 std::string(count) + ";"))
                  .find("expects a multiple of 8 from 24 to 256 registers, but "
                        "got " +
                        std::string(count)),
              std::string::npos);
}

TEST(WarpRole, Elect) {
  RunResult run =
      runIn(64, "elect.sync %r1|%p1, 0xffffffff; selp.u32 %r2, 1, 0, %p1;"
                "shl.b32 %r3, %r1, 8; or.b32 %r2, %r2, %r3;"
                "mul.wide.u32 %at, %t, 4; add.u64 %at, %at, %g0;"
                "st.global.u32 [%at], %r2;");
  expectClean(run);
  for (unsigned i = 0; i < 64; ++i)
    EXPECT_EQ(run.word(0, i), i % 32 == 0 ? 1u : 0u) << i;
  run = runIn(32, "setp.lt.u32 %p2, %t, 8; @%p2 exit;\n"
                  "elect.sync %r1|%p1, 0xffffff00; @%p1 st.global.u32 [%g0], "
                  "%r1;");
  expectClean(run);
  EXPECT_EQ(run.word(0, 0), 8u);
}

TEST(WarpRole, NamedBarriers) {
  // Warp 0 tells warp 1 by an arrival, and hears of it by another barrier.
  expectClean(runIn(64, "setp.gt.u32 %p1, %t, 31; @%p1 bra C;\n"
                        "setp.eq.u32 %p2, %t, 0; @%p2 st.shared.u32 [data], "
                        "%t; bar.arrive 1, 64; bar.sync 2, 64; bra E;\n"
                        "C: bar.sync 1, 64; ld.shared.u32 %r1, [data];"
                        "bar.arrive 2, 64;\nE:"));
  expectOne(runIn(64, "setp.gt.u32 %p1, %t, 31; @%p1 bra E;\nbar.sync 1, 64;\n"
                      "E:"),
            FindingKind::Deadlock, "wait at barrier 1 for 64 threads");
}
