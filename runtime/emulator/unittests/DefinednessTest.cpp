//===- DefinednessTest.cpp - Undefined data, followed to its use ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// %r1 is a word of shared memory that nobody has written, and of %r2 only the
// lowest byte is defined; %h1 and %f1 are undefined. A store to p1 is a use.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static const std::string tile = ".shared .align 32 .b8 tile[1024];";
static const std::string undefined =
    "mov.u32 %r60, tile; ld.shared.u32 %r1, [%r60];"
    "mov.b16 %h0, 1; st.shared.u8 [%r60+4], %h0; bar.warp.sync -1;"
    "ld.shared.u32 %r2, [%r60+4]; ld.shared.u16 %h1, [%r60];"
    "ld.shared.f32 %f1, [%r60];\n";
/// Each thread has its own word of p1.
static const std::string slots =
    "mul.wide.u32 %at, %t, 4; add.u64 %d10, %g1, %at;\n";

static RunConfig oneThread() {
  RunConfig config;
  config.block = {1, 1, 1};
  config.options.checks = CheckAll & ~CheckRace;
  return config;
}

static RunResult runUndefined(const std::string &body,
                              const RunConfig &config = oneThread()) {
  return runBody(undefined + slots + body, config, tile);
}

static void expectOne(const RunResult &run, FindingKind kind,
                      const std::string &message) {
  EXPECT_EQ(run.error, "");
  ASSERT_EQ(run.report.findings.size(), 1u) << run.text();
  EXPECT_EQ(run.report.findings[0].kind, kind);
  EXPECT_EQ(run.report.findings[0].message, message);
}

static void expectClean(const RunResult &run) {
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}

static const std::string fromTile =
    "shared memory nobody has written, byte 0 of 'tile' (1024 bytes)";

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {
struct Row {
  const char *body; // gives %r0
  bool isDefined;
};
} // namespace

class DefinedValue : public testing::TestWithParam<Row> {};

TEST_P(DefinedValue, Follows) {
  RunResult run =
      runUndefined(std::string(GetParam().body) + "st.global.u32 [%d10], %r0;");
  EXPECT_EQ(run.error, "") << GetParam().body;
  EXPECT_EQ(run.report.clean(), GetParam().isDefined) << GetParam().body << "\n"
                                                      << run.text();
}

static const Row moves[] = {
    {"mov.b32 %r0, %r1;", false},
    {"mov.b32 %r0, 7;", true},
    {"mov.b64 %d0, {%r1, %t}; mov.b64 {%r3, %r0}, %d0;", true},
    {"mov.b64 %d0, {%r1, %t}; mov.b64 {%r0, %r3}, %d0;", false},
    {"mov.b32 %r3, {%h1, %h0}; shr.u32 %r0, %r3, 16;", true},
    {"mov.b32 %r3, {%h0, %h1}; shr.u32 %r0, %r3, 16;", false},
    {"shl.b32 %r0, %r2, 24;", true},
    {"shl.b32 %r0, %r2, 16;", false},
    {"shr.u32 %r0, %r2, 8;", false},
    {"mov.u32 %r3, 8; shl.b32 %r0, %r3, %r1;", false},
    {"shf.l.wrap.b32 %r0, %r1, %t, 0;", true},
    {"shf.l.wrap.b32 %r0, %r1, %t, 1;", false},
    {"prmt.b32 %r0, %r2, 0, 0x4440;", true},
    {"prmt.b32 %r0, %r2, 0, 0x4441;", false},
    {"prmt.b32 %r0, %t, %t, %r1;", false},
    {"bfe.u32 %r0, %r2, 0, 8;", true},
    {"bfe.u32 %r0, %r2, 0, 9;", false},
    {"bfe.s32 %r0, %r2, 1, 7;", true},
    {"bfe.u32 %r0, %t, %r1, 8;", false},
    {"bfi.b32 %r0, %t, %r2, 8, 24;", true},
    {"bfi.b32 %r0, %t, %r2, 9, 23;", false},
    {"brev.b32 %r3, %r2; shr.u32 %r0, %r3, 24;", true},
    {"cvt.u32.u8 %r0, %r2;", true},
    {"cvt.s32.s8 %r0, %r2;", true},
    {"cvt.u32.u16 %r0, %h1;", false},
    {"cvt.u64.u32 %d0, %r1; shr.u64 %d0, %d0, 32; cvt.u32.u64 %r0, %d0;", true},
    {"cvt.s64.s32 %d0, %r1; shr.u64 %d0, %d0, 32; cvt.u32.u64 %r0, %d0;",
     false},
};
INSTANTIATE_TEST_SUITE_P(Moves, DefinedValue, testing::ValuesIn(moves));

static const Row logic[] = {
    {"and.b32 %r0, %r1, 0;", true},
    {"and.b32 %r0, %r2, 0xff;", true},
    {"and.b32 %r0, %r2, 0x1ff;", false},
    {"or.b32 %r0, %r1, -1;", true},
    {"or.b32 %r0, %r1, 0x7fffffff;", false},
    {"xor.b32 %r0, %r1, %t;", false},
    {"not.b32 %r3, %r2; and.b32 %r0, %r3, 0xff;", true},
    {"not.b32 %r0, %r2;", false},
    {"lop3.b32 %r0, %r1, 0, %t, 0xc0;", true}, // a & b
    {"lop3.b32 %r0, %r1, %t, 0, 0xac;", true}, // c ? a : b
    {"lop3.b32 %r0, %r1, %t, -1, 0xac;", false},
};
INSTANTIATE_TEST_SUITE_P(Logic, DefinedValue, testing::ValuesIn(logic));

static const Row arithmetic[] = {
    {"add.u32 %r3, %r2, 5; and.b32 %r0, %r3, 0xff;", true},
    {"sub.u32 %r3, 5, %r2; and.b32 %r0, %r3, 0xff;", true},
    {"mul.lo.u32 %r3, %r2, 3; and.b32 %r0, %r3, 0xff;", true},
    {"mad.lo.u32 %r3, %r2, 3, %r2; and.b32 %r0, %r3, 0xff;", true},
    {"neg.s32 %r3, %r2; and.b32 %r0, %r3, 0xff;", true},
    {"mul.hi.u32 %r0, %r1, 2;", false},
    {"shl.b32 %r3, %r1, 31; add.u32 %r3, %r3, 1; shl.b32 %r0, %r3, 1;", true},
    {"and.b32 %r3, %r1, 1; add.u32 %r3, %r3, 1; shr.u32 %r0, %r3, 31;", false},
    {"mul.wide.u32 %d0, %r2, 1; cvt.u32.u64 %r3, %d0; and.b32 %r0, %r3, 0xff;",
     true},
    {"add.cc.u32 %r3, %r1, 1; addc.u32 %r0, 0, 0;", false},
    {"add.cc.u32 %r3, %t, 1; addc.u32 %r0, 0, 0;", true},
    {"div.u32 %r0, %r2, 3;", false},
    {"add.f32 %f0, %f1, 0f3F800000; mov.b32 %r0, %f0;", false},
    {"mul.f32 %f0, %f1, 0f00000000; mov.b32 %r0, %f0;", false}, // NaN * 0
    {"mov.b32 %r3, {%h0, %h1}; add.f16x2 %r3, %r3, %r3; shl.b32 %r0, %r3, 16;",
     true},
    {"mov.b32 %r3, {%h0, %h1}; add.f16x2 %r3, %r3, %r3; shr.u32 %r0, %r3, 16;",
     false},
    {"mov.f32 %f0, 0f3F800000; cvt.rn.f16x2.f32 %r3, %f1, %f0;"
     "shl.b32 %r0, %r3, 16;",
     true},
    {"mov.f32 %f0, 0f3F800000; cvt.rn.f16x2.f32 %r3, %f1, %f0;"
     "shr.u32 %r0, %r3, 16;",
     false},
    {"mov.f32 %f0, 0f3F800000; cvt.rn.satfinite.e4m3x2.f32 %h2, %f1, %f0;"
     "cvt.u32.u16 %r3, %h2; and.b32 %r0, %r3, 0xff;",
     true},
    {"cvt.rn.f32.u32 %f0, %r2; mov.b32 %r0, %f0;", false},
    {"popc.b32 %r0, %r1;", false},
};
INSTANTIATE_TEST_SUITE_P(Arithmetic, DefinedValue,
                         testing::ValuesIn(arithmetic));

static const Row predicates[] = {
    {"setp.eq.u32 %p1, %r1, 0; selp.b32 %r0, 1, 2, %p1;", false},
    {"setp.eq.u32 %p1, %r1, 0; selp.b32 %r0, 5, 5, %p1;", true},
    {"setp.eq.u32 %p1, %r1, 0; selp.b32 %r3, 4, 5, %p1; and.b32 %r0, %r3, 4;",
     true},
    {"setp.eq.u32 %p1, %t, 0; selp.b32 %r0, 5, %r1, %p1;", true},
    {"setp.ne.u32 %p1, %t, 0; selp.b32 %r0, 5, %r1, %p1;", false},
    // A bit that is known decides.
    {"or.b32 %r3, %r1, 4; setp.eq.u32 %p1, %r3, 0; selp.b32 %r0, 1, 2, %p1;",
     true},
    {"or.b32 %r3, %r1, 4; setp.eq.u32 %p1, %r3, 4; selp.b32 %r0, 1, 2, %p1;",
     false},
    {"or.b32 %r3, %r1, 0x80000000; setp.lt.s32 %p1, %r3, 0;"
     "selp.b32 %r0, 1, 2, %p1;",
     true},
    {"or.b32 %r3, %r1, 0x80000000; setp.ge.u32 %p1, %r3, 0x80000000;"
     "selp.b32 %r0, 1, 2, %p1;",
     true},
    {"and.b32 %r3, %r1, 0x7f; setp.gt.s32 %p1, %r3, 0x7f;"
     "selp.b32 %r0, 1, 2, %p1;",
     true},
    {"and.b32 %r3, %r1, 0x7f; setp.ge.s32 %p1, %r3, 0x7f;"
     "selp.b32 %r0, 1, 2, %p1;",
     false},
    {"setp.lt.f32 %p1, %f1, 0f00000000; selp.b32 %r0, 1, 2, %p1;", false},
    {"testp.finite.f32 %p1, %f1; selp.b32 %r0, 1, 2, %p1;", false},
    // %p0 is false, %p2 true.
    {"setp.ne.u32 %p0, %t, 0; setp.eq.u32 %p1, %r1, 0;"
     "and.pred %p1, %p1, %p0; selp.b32 %r0, 1, 2, %p1;",
     true},
    {"setp.eq.u32 %p2, %t, 0; setp.eq.u32 %p1, %r1, 0;"
     "and.pred %p1, %p1, %p2; selp.b32 %r0, 1, 2, %p1;",
     false},
    {"setp.eq.u32 %p2, %t, 0; setp.eq.u32 %p1, %r1, 0;"
     "or.pred %p1, %p1, %p2; selp.b32 %r0, 1, 2, %p1;",
     true},
    {"setp.eq.u32 %p2, %t, 0; setp.eq.u32 %p1, %r1, 0;"
     "xor.pred %p1, %p1, %p2; selp.b32 %r0, 1, 2, %p1;",
     false},
    {"setp.eq.u32 %p1, %r1, 0; not.pred %p1, %p1; selp.b32 %r0, 1, 2, %p1;",
     false},
    {"setp.ne.u32 %p0, %t, 0; setp.eq.and.u32 %p1, %r1, 0, %p0;"
     "selp.b32 %r0, 1, 2, %p1;",
     true},
    {"setp.eq.u32 %p2, %t, 0; setp.eq.or.u32 %p1, %r1, 0, %p2;"
     "selp.b32 %r0, 1, 2, %p1;",
     true},
    {"setp.eq.u32 %p2, %t, 0; setp.eq.and.u32 %p1, %r1, 0, %p2;"
     "selp.b32 %r0, 1, 2, %p1;",
     false},
};
INSTANTIATE_TEST_SUITE_P(Predicates, DefinedValue,
                         testing::ValuesIn(predicates));

/// A branch that only chooses between values is a selp.
static const Row choices[] = {
    {"setp.eq.f32 %p1, %f1, 0f00000000; mov.b32 %r0, 1; @%p1 bra J;"
     "lg2.approx.f32 %f0, %f1; mov.b32 %r0, %f0; J:",
     false},
    {"setp.eq.f32 %p1, %f1, 0f00000000; mov.b32 %r0, 1; @%p1 bra J;"
     "lg2.approx.f32 %f0, %f1; mov.b32 %r3, %f0; J:",
     true},
    {"setp.eq.f32 %p1, %f1, 0f00000000; @%p1 bra J;"
     "mov.b32 %r0, 1; bra K; J: mov.b32 %r0, 2; K: add.u32 %r3, %r0, 1;"
     "mov.b32 %r0, 4;",
     true},
    {"setp.eq.f32 %p1, %f1, 0f00000000; @%p1 bra J;"
     "mov.b32 %r0, 1; bra K; J: mov.b32 %r0, 2; K: add.u32 %r0, %r0, 1;",
     false},
    {"mov.b32 %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 add.u32 %r0, %r0, 1;",
     false},
    {"mov.b32 %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 add.u32 %r3, %r0, 1;",
     true},
};
INSTANTIATE_TEST_SUITE_P(Choices, DefinedValue, testing::ValuesIn(choices));

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

TEST(DefinedUse, Address) {
  RunResult run = runUndefined("and.b32 %r3, %r1, 4; add.u32 %r3, %r60, %r3;"
                               "\nld.shared.u32 %r4, [%r3];");
  expectOne(run, FindingKind::UninitializedMemory,
            "the address depends on " + fromTile);
  const Finding &finding = run.report.findings[0];
  EXPECT_EQ(finding.place.line, 14u);
  // Where it was loaded.
  ASSERT_TRUE(finding.hasOther);
  EXPECT_EQ(finding.other.line, 11u);
  EXPECT_EQ(finding.otherWhat, "loaded");
  expectOne(runUndefined("and.b32 %r3, %r30, 4; add.u32 %r3, %r60, %r3;"
                         "st.shared.u32 [%r3], 1;"),
            FindingKind::UninitializedRegister,
            "the address depends on register %r30, which nothing has written");
}

TEST(DefinedUse, LoadIsNone) {
  expectClean(runUndefined("ld.global.u32 %r3, [%g0]; add.u32 %r3, %r3, %r1;"));
  expectClean(runBody("add.u32 %r0, %r1, 1;"));
}

TEST(DefinedUse, Branch) {
  std::string compare = "setp.eq.u32 %p1, %r1, 0;";
  std::string message = "the branch depends on " + fromTile;
  // On one side something happens that others see.
  expectOne(runUndefined(compare + "@%p1 bra J; st.global.u32 [%d10], 1; J:"),
            FindingKind::UninitializedMemory, message);
  expectOne(runUndefined(compare + "@%p1 bra J; bar.warp.sync -1; J:"),
            FindingKind::UninitializedMemory, message);
  // A loop is no choice.
  expectOne(runUndefined("mov.b32 %r3, 0; L: add.u32 %r3, %r3, 1;"
                         "and.b32 %r4, %r1, 3; setp.gt.u32 %p1, %r4, %r3;"
                         "@%p1 bra L;"),
            FindingKind::UninitializedMemory, message);
  expectOne(runUndefined("and.b32 %r3, %r1, 1; brx.idx %r3, T;"
                         "T: .branchtargets A, B; A: mov.b32 %r3, 1; B:"),
            FindingKind::UninitializedMemory, message);
}

TEST(DefinedUse, Predicate) {
  std::string compare = "setp.eq.u32 %p1, %r1, 0;";
  std::string message = "the predicate depends on " + fromTile;
  for (const char *use : {"@%p1 st.global.u32 [%d10], 1;", "@%p1 exit;",
                          "@%p1 ld.param.u64 %d0, [p0];", "@%p1 trap;"})
    expectOne(runUndefined(compare + use), FindingKind::UninitializedMemory,
              message);
}

TEST(DefinedUse, ReportedOnce) {
  expectOne(runUndefined("and.b32 %r3, %r1, 4; add.u32 %r3, %r60, %r3;"
                         "st.shared.u32 [%r3], 1; st.shared.u32 [%r3], 2;"),
            FindingKind::UninitializedMemory,
            "the address depends on " + fromTile);
}

TEST(DefinedUse, OtherOperands) {
  std::string registers = " depends on register %r30, which nothing has "
                          "written";
  struct Use {
    const char *body;
    const char *what;
  };
  // What the operand is set to after the report makes no second one.
  for (const Use &use : {
           Use{"and.b32 %r31, %r30, 32;"
               "shfl.sync.idx.b32 %r3, %t, %r31, 31, 1;",
               "the lane or the membermask"},
           Use{"and.b32 %r31, %r30, 8; cvt.u64.u32 %d0, %r31;"
               "cp.async.ca.shared.global [%r60], [%g0], 8, %r31;",
               "an address or the size"},
           Use{"and.b32 %r31, %r30, 1; bar.sync %r31;",
               "an operand of the barrier"},
       })
    expectOne(runUndefined(use.body), FindingKind::UninitializedRegister,
              use.what + registers);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

TEST(DefinedMemory, StoreThatStays) {
  std::string message = "stores undefined data to byte 0 of 'p1' (4096 bytes), "
                        "where it stays; it depends on " +
                        fromTile;
  RunResult run = runUndefined("\nst.global.u32 [%d10], %r1;");
  expectOne(run, FindingKind::UninitializedMemory, message);
  EXPECT_EQ(run.report.findings[0].place.line, 14u);
  EXPECT_EQ(run.report.findings[0].other.line, 11u);
  EXPECT_EQ(run.report.findings[0].address & 0xffff, 0u);
  // Overwritten by defined data.
  expectClean(
      runUndefined("st.global.u32 [%d10], %r1; st.global.u32 [%d10], 1;"));
  // A workspace: followed on from where it is loaded.
  expectClean(runUndefined("st.global.u32 [%d10], %r1;"
                           "ld.global.u32 %r3, [%d10]; and.b32 %r3, %r3, 0;"
                           "st.global.u32 [%d10+4], %r3;"));
  run = runUndefined("st.global.u32 [%d10], %r1;"
                     "ld.global.u32 %r3, [%d10]; st.global.u32 [%d10+4], %r3;");
  expectOne(run, FindingKind::UninitializedMemory,
            "stores undefined data to byte 4 of 'p1' (4096 bytes), where it "
            "stays; it depends on " +
                fromTile);
  // Not executed.
  expectClean(runUndefined("setp.ne.u32 %p1, %t, 0;"
                           "@%p1 st.global.u32 [%d10], %r1;"));
  // Bits that are not stored.
  expectClean(runUndefined("cvt.u16.u32 %h2, %r2;"
                           "st.global.u8 [%d10], %h2;"));
}

TEST(DefinedMemory, StoresAreCountedByInstruction) {
  RunConfig config = oneThread();
  config.block = {32, 1, 1};
  RunResult run = runUndefined("st.global.u32 [%d10], %r1;", config);
  ASSERT_EQ(run.report.findings.size(), 1u) << run.text();
  EXPECT_EQ(run.report.findings[0].count, 32u);
  EXPECT_EQ(run.report.findings[0].place.lanes, 1u);
}

TEST(DefinedMemory, ThroughSharedAndLocal) {
  expectOne(runUndefined("st.shared.u32 [%r60+64], %r1;"
                         "ld.shared.u32 %r3, [%r60+64];"
                         "st.global.u32 [%d10], %r3;"),
            FindingKind::UninitializedMemory,
            "stores undefined data to byte 0 of 'p1' (4096 bytes), where it "
            "stays; it depends on " +
                fromTile);
  std::string depot = "{ .local .align 8 .b8 depot[16]; .reg .b64 %s;"
                      " mov.u64 %s, depot;";
  expectClean(runUndefined(depot + "st.local.u8 [%s], %h0;"
                                   "ld.local.u32 %r3, [%s];"
                                   "and.b32 %r3, %r3, 0xff;"
                                   "st.global.u32 [%d10], %r3; }"));
  expectOne(runUndefined(depot + "st.local.u8 [%s], %h0;"
                                 "ld.local.u32 %r3, [%s];"
                                 "st.global.u32 [%d10], %r3; }"),
            FindingKind::UninitializedMemory,
            "stores undefined data to byte 0 of 'p1' (4096 bytes), where it "
            "stays; it depends on local memory that the thread has not "
            "written, byte 0 of 16");
  // Single bits survive, such as those of a bit field.
  std::string bits = "and.b32 %r3, %r1, 0xfffffff0; or.b32 %r3, %r3, 5;";
  expectClean(runUndefined(depot + bits +
                           "st.local.u32 [%s], %r3; ld.local.u32 %r4, [%s];"
                           "and.b32 %r4, %r4, 15; st.global.u32 [%d10], %r4;"
                           "}"));
}

TEST(DefinedMemory, VectorsAndExtension) {
  // Of two words one is defined.
  expectClean(runUndefined("st.shared.u32 [%r60+8], 1;"
                           "ld.shared.v2.u32 {%r3, %r4}, [%r60+8];"
                           "st.global.u32 [%d10], %r3;"));
  expectOne(runUndefined("st.shared.u32 [%r60+8], 1;"
                         "ld.shared.v2.u32 {%r3, %r4}, [%r60+8];"
                         "st.global.v2.u32 [%d10], {%r3, %r4};"),
            FindingKind::UninitializedMemory,
            "stores undefined data to byte 4 of 'p1' (4096 bytes), where it "
            "stays; it depends on shared memory nobody has written, byte 8 of "
            "'tile' (1024 bytes)");
  // The widest access, and its last word.
  std::string wide = "mov.b32 %r10, 0; st.shared.u32 [%r60+92], 1;"
                     "ld.shared.v8.b32 {%r11,%r12,%r13,%r14,%r15,%r16,%r17,"
                     "%r18}, [%r60+64];"
                     "st.shared.v8.b32 [%r60+96], {%r11,%r12,%r13,%r14,%r15,"
                     "%r16,%r17,%r18};";
  expectClean(runUndefined(wide + "ld.shared.u32 %r3, [%r60+124];"
                                  "st.global.u32 [%d10], %r3;"));
  EXPECT_FALSE(runUndefined(wide + "ld.shared.u32 %r3, [%r60+120];"
                                   "st.global.u32 [%d10], %r3;")
                   .report.clean());
  // Zeros above a byte are defined, copies of its sign are not.
  expectClean(runUndefined("ld.shared.u8 %r3, [%r60]; shr.u32 %r3, %r3, 8;"
                           "st.global.u32 [%d10], %r3;"));
  EXPECT_FALSE(runUndefined("ld.shared.s8 %r3, [%r60]; shr.u32 %r3, %r3, 8;"
                            "st.global.u32 [%d10], %r3;")
                   .report.clean());
}

TEST(DefinedMemory, CopiesAndZeroFill) {
  std::string wait = "cp.async.wait_all; ld.shared.u32 %r3, [%r60+28];"
                     "st.global.u32 [%d10], %r3;";
  expectOne(
      runUndefined("cp.async.ca.shared.global [%r60+16], [%g0], 16;" + wait),
      FindingKind::UninitializedMemory,
      "stores undefined data to byte 0 of 'p1' (4096 bytes), where it "
      "stays; it depends on global memory nobody has written, byte 0 of "
      "'p0' (4096 bytes)");
  expectClean(runUndefined(
      "cp.async.ca.shared.global [%r60+16], [%g0], 16, 4;" + wait));
  expectClean(runUndefined(
      "cp.async.ca.shared.global [%r60+16], [%g0], 16, 0;" + wait));
}

TEST(DefinedMemory, Atomics) {
  std::string stays = "stores undefined data to byte 0 of 'p1' (4096 bytes), "
                      "where it stays; it depends on ";
  // What is added to is undefined.
  expectOne(runUndefined("red.global.add.u32 [%d10], 1;"),
            FindingKind::UninitializedMemory,
            stays + "global memory nobody has written, byte 0 of 'p1' (4096 "
                    "bytes)");
  // What is added is undefined.
  expectOne(runUndefined("st.global.u32 [%d10], 0;"
                         "red.global.add.u32 [%d10], %r1;"),
            FindingKind::UninitializedMemory, stays + fromTile);
  expectClean(runUndefined("st.global.u32 [%d10], 0;"
                           "atom.global.add.u32 %r3, [%d10], 1;"
                           "st.global.u32 [%d10+4], %r3;"));
  // An exchange writes what it is given.
  expectClean(runUndefined("atom.global.exch.b32 %r3, [%d10], 1;"));
  EXPECT_FALSE(runUndefined("atom.global.exch.b32 %r3, [%d10], 1;"
                            "st.global.u32 [%d10+4], %r3;")
                   .report.clean());
  expectClean(runUndefined("st.shared.u32 [%r60+32], 0;"
                           "atom.shared.add.u32 %r3, [%r60+32], %r1;"
                           "st.global.u32 [%d10], %r3;"));
}

/// Bytes of p0 that hold no defined value after %r1 and 1 were stored to it.
static uint64_t bytesLeft(const std::string &end) {
  DeviceMemory memory;
  uint64_t buffer = memory.allocate("b", 12);
  Expected<Kernel> kernel = Kernel::load(kernelText(
      undefined + "st.global.u32 [%g0], %r1; st.global.u32 [%g0+4], 1;" + end,
      tile));
  EXPECT_TRUE(kernel.ok());
  Arguments arguments;
  for (unsigned i = 0; i < 4; ++i)
    arguments.addPointer(buffer);
  EXPECT_TRUE(launch(*kernel, memory, {{}, {1, 1, 1}, 0}, arguments).ok());
  return memory.uninitializedBytes(buffer);
}

TEST(DefinedMemory, UninitializedBytes) {
  // The store has been reported, and was one.
  EXPECT_EQ(bytesLeft(""), 4u);
  // A workspace still holds what it held.
  EXPECT_EQ(bytesLeft("ld.global.u32 %r3, [%g0];"), 8u);
}

TEST(DefinedMemory, ThreadsAgree) {
  RunConfig config = oneThread();
  config.grid = {16, 1, 1};
  std::string body = "mov.u32 %r20, %ctaid.x; mul.wide.u32 %d1, %r20, 4;"
                     "add.u64 %d10, %d10, %d1; st.global.u32 [%d10], %r1;";
  RunResult one = runUndefined(body, config);
  config.options.threads = 4;
  RunResult four = runUndefined(body, config);
  ASSERT_EQ(one.report.findings.size(), 1u) << one.text();
  EXPECT_EQ(one.comparable(), four.comparable());
}

//===----------------------------------------------------------------------===//
// Lanes together
//===----------------------------------------------------------------------===//

/// %r3 is undefined in lane 5 only.
static const std::string laneFive =
    "setp.eq.u32 %p5, %t, 5; selp.b32 %r3, %r1, %t, %p5;\n";

static RunConfig wholeWarp() {
  RunConfig config = oneThread();
  config.block = {32, 1, 1};
  return config;
}

/// The lanes that store undefined data.
static uint64_t undefinedWords(const std::string &body) {
  RunResult run = runUndefined(laneFive + body + "\nst.global.u32 [%d10], %r0;",
                               wholeWarp());
  EXPECT_EQ(run.error, "");
  EXPECT_LE(run.report.findings.size(), 1u) << run.text();
  return run.report.clean() ? 0 : run.report.findings[0].count;
}

TEST(DefinedLanes, Exchange) {
  EXPECT_EQ(undefinedWords("mov.b32 %r0, %r3;"), 1u);
  EXPECT_EQ(undefinedWords("shfl.sync.bfly.b32 %r0, %r3, 1, 31, -1;"), 1u);
  EXPECT_EQ(undefinedWords("shfl.sync.idx.b32 %r0, %r3, 5, 31, -1;"), 32u);
  EXPECT_EQ(undefinedWords("shfl.sync.idx.b32 %r0, %r3, 6, 31, -1;"), 0u);
  // In place.
  EXPECT_EQ(undefinedWords("shfl.sync.up.b32 %r3, %r3, 1, 0, -1;"
                           "mov.b32 %r0, %r3;"),
            1u);
  EXPECT_EQ(undefinedWords("redux.sync.add.u32 %r0, %r3, -1;"), 32u);
  EXPECT_EQ(undefinedWords("redux.sync.add.u32 %r0, %t, -1;"), 0u);
  EXPECT_EQ(undefinedWords("match.any.sync.b32 %r0, %r3, -1;"), 32u);
}

TEST(DefinedLanes, Votes) {
  auto vote = [](const std::string &compare, const std::string &vote) {
    return undefinedWords(compare + vote + "selp.b32 %r0, 1, 2, %p2;");
  };
  std::string some = "setp.lt.u32 %p1, %r3, 3;", none = "setp.gt.u32 %p1, %r3, "
                                                        "40;";
  // Lanes 0 to 2 decide it.
  EXPECT_EQ(vote(some, "vote.sync.any.pred %p2, %p1, -1;"), 0u);
  EXPECT_EQ(vote(some, "vote.sync.all.pred %p2, %p1, -1;"), 0u);
  EXPECT_EQ(vote(some, "vote.sync.uni.pred %p2, %p1, -1;"), 0u);
  EXPECT_EQ(vote(none, "vote.sync.any.pred %p2, %p1, -1;"), 32u);
  EXPECT_EQ(vote(none, "vote.sync.all.pred %p2, %p1, -1;"), 0u);
  EXPECT_EQ(vote(none, "vote.sync.uni.pred %p2, %p1, -1;"), 32u);
  EXPECT_EQ(undefinedWords(none + "vote.sync.ballot.b32 %r4, %p1, -1;"
                                  "and.b32 %r0, %r4, 0xffffffdf;"),
            0u);
  EXPECT_EQ(undefinedWords(none + "vote.sync.ballot.b32 %r4, %p1, -1;"
                                  "and.b32 %r0, %r4, 32;"),
            32u);
}

TEST(DefinedLanes, Matrices) {
  // Rows of 16 bytes from byte 128 on; all but row 3 are written.
  std::string rows = "mad.lo.u32 %r10, %t, 16, %r60; add.u32 %r10, %r10, 128;"
                     "setp.lt.u32 %p1, %t, 8; setp.ne.and.u32 %p1, %t, 3, %p1;"
                     "mov.b32 %r11, 0;"
                     "@%p1 st.shared.v4.u32 [%r10], {%r11,%r11,%r11,%r11};"
                     "bar.warp.sync -1;";
  std::string load = rows + "ldmatrix.sync.aligned.m8n8.x1";
  EXPECT_EQ(undefinedWords(load + ".shared.b16 {%r0}, [%r10];"), 4u);
  // A row of the transposed matrix is one half of each word.
  EXPECT_EQ(undefinedWords(load + ".trans.shared.b16 {%r0}, [%r10];"), 8u);
  EXPECT_EQ(undefinedWords(load + ".trans.shared.b16 {%r4}, [%r10];"
                                  "shl.b32 %r0, %r4, 16;"),
            0u);
  EXPECT_EQ(undefinedWords(load + ".shared.b16 {%r4}, [%r10];"
                                  "movmatrix.sync.aligned.m8n8.trans.b16 %r0,"
                                  " %r4;"),
            8u);
  // Lane 5 holds columns 2 and 3 of row 1.
  EXPECT_EQ(undefinedWords(rows +
                           "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r10], "
                           "{%r3}; bar.warp.sync -1; shl.b32 %r12, %t, 2;"
                           "add.u32 %r12, %r12, %r60;"
                           "ld.shared.u32 %r0, [%r12+128];"),
            1u);
}

TEST(DefinedLanes, Mma) {
  std::string zeros = "mov.b32 %r10, 0; mov.f32 %f10, 0f00000000;";
  auto mma = [&](const std::string &a, const std::string &b,
                 const std::string &c, const std::string &store) {
    return undefinedWords(zeros +
                          "mov.b32 %f9, %r3;"
                          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                          "{%f2,%f3,%f4,%f5}, {" +
                          a + "}, {" + b + "}, {" + c + "}; mov.b32 %r0, " +
                          store + ";");
  };
  std::string a = "%r10,%r10,%r10,%r10", b = "%r10,%r10",
              c = "%f10,%f10,%f10,%f10";
  EXPECT_EQ(mma(a, b, c, "%f2"), 0u);
  // Lane 5 holds row 1 of A: its four lanes of D, in registers 0 and 1.
  EXPECT_EQ(mma("%r3,%r10,%r10,%r10", b, c, "%f2"), 4u);
  EXPECT_EQ(mma("%r10,%r10,%r3,%r10", b, c, "%f3"), 4u);
  EXPECT_EQ(mma("%r3,%r10,%r10,%r10", b, c, "%f4"), 0u);
  EXPECT_EQ(mma("%r10,%r3,%r10,%r10", b, c, "%f2"), 0u);
  EXPECT_EQ(mma("%r10,%r3,%r10,%r10", b, c, "%f5"), 4u);
  // Column 1 of B: every fourth lane, in registers 1 and 3.
  EXPECT_EQ(mma(a, "%r3,%r10", c, "%f2"), 0u);
  EXPECT_EQ(mma(a, "%r3,%r10", c, "%f3"), 8u);
  EXPECT_EQ(mma(a, "%r10,%r3", c, "%f5"), 8u);
  // An accumulator stays for itself.
  EXPECT_EQ(mma(a, b, "%f10,%f9,%f10,%f10", "%f3"), 1u);
  EXPECT_EQ(mma(a, b, "%f10,%f9,%f10,%f10", "%f2"), 0u);
}

TEST(DefinedLanes, MmaOfHalves) {
  std::string zeros = "mov.b32 %r10, 0;";
  auto mma = [&](const std::string &a, const std::string &b,
                 const std::string &store) {
    return undefinedWords(
        zeros +
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r4,%r5}, {" + a +
        "}, {" + b + "}, {%r10,%r10};" + store);
  };
  EXPECT_EQ(mma("%r3,%r10,%r10,%r10", "%r10,%r10", "mov.b32 %r0, %r4;"), 4u);
  EXPECT_EQ(mma("%r3,%r10,%r10,%r10", "%r10,%r10", "mov.b32 %r0, %r5;"), 0u);
  std::string a = "%r10,%r10,%r10,%r10";
  EXPECT_EQ(mma(a, "%r3,%r10", "shr.u32 %r0, %r4, 16;"), 8u);
  EXPECT_EQ(mma(a, "%r3,%r10", "shl.b32 %r0, %r5, 16;"), 0u);
}

//===----------------------------------------------------------------------===//
// Divergence
//===----------------------------------------------------------------------===//

TEST(DefinedLanes, ChoicesOfSomeLanes) {
  // Lane 5 takes one way or the other, all meet at J.
  EXPECT_EQ(undefinedWords("setp.gt.u32 %p1, %r3, 9; mov.b32 %r0, 1;"
                           "@%p1 bra J; mov.b32 %r0, 2; J:"),
            1u);
  // One choice within another.
  EXPECT_EQ(undefinedWords("setp.gt.u32 %p1, %r3, 9; mov.b32 %r0, 1;"
                           "@%p1 bra J; mov.b32 %r0, 2;"
                           "setp.gt.u32 %p2, %t, 3; @%p2 bra K;"
                           "mov.b32 %r4, 3; K: add.u32 %r4, %r0, 0; J:"),
            1u);
}

TEST(DefinedLanes, CountersDoNotDependOnTheCheck) {
  std::string body = laneFive +
                     "setp.gt.u32 %p1, %r3, 9; mov.b32 %r0, 1;"
                     "L: @%p1 bra J; mov.b32 %r0, 2; J: add.u32 %r9, %t, 1;"
                     "mov.b32 %r8, 0; M: add.u32 %r8, %r8, 1;"
                     "setp.lt.u32 %p3, %r8, %t; @%p3 bra M;";
  RunConfig config = wholeWarp();
  uint64_t all = runUndefined(body, config).report.counters.warpInstructions;
  config.options.checks = CheckNone;
  EXPECT_EQ(runUndefined(body, config).report.counters.warpInstructions, all);
}
