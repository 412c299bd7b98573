//===- LoweringTest.cpp - Strict checks at load ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

TEST(Lowering, RefusesUnknownOpcodes) {
  EXPECT_EQ(loadBodyError("frob.s32 %r0, %r1;"),
            "unknown instruction 'frob.s32'");
  EXPECT_EQ(loadBodyError("add.wide.s32 %r0, %r1, %r2;"),
            "modifier '.wide' is not supported on 'add.wide.s32'");
  std::string text = kernelText("nop;\n  frob.s32 %r0, %r1;");
  EXPECT_NE(loadError(kernelText("\n  frob %r0;")).find(":3: error: unknown"),
            std::string::npos);
}

TEST(Lowering, TakesTypeFromOpcodeAndWidthFromRegister) {
  EXPECT_EQ(loadBodyError("selp.b64 %r0, %r1, %r2, %p0;"),
            "expects a register for type .b64, but got '%r1' of type .b32");
  EXPECT_EQ(loadBodyError("add.f32 %r0, %r1, %r2;"), "");
  EXPECT_EQ(loadBodyError("add.s32 %f0, %f1, %f2;"),
            "expects a register for type .s32, but got '%f1' of type .f32");
  EXPECT_EQ(loadBodyError("add.s32 %p0, %r1, %r2;"),
            "expects a register for type .s32, but got '%p0' of type .pred");
  EXPECT_EQ(loadBodyError("mov.u32 %r0, 4294967296;"),
            "literal 4294967296 does not fit type .u32");
  EXPECT_EQ(loadBodyError("add.f32 %f0, %f1, 1;"),
            "expects a float literal for type .f32, but got an integer");
  // Loads and stores may use a wider register, cvt too.
  EXPECT_EQ(loadBodyError("ld.global.u8 %r0, [%g0]; cvt.u16.u32 %h0, %r0;"
                          "cvt.u32.u8 %r1, %h0;"),
            "");
  EXPECT_EQ(loadBodyError("ld.global.u64 %r0, [%g0];"),
            "expects a register for type .u64, but got '%r0' of type .b32");
}

TEST(Lowering, ChecksStateSpaces) {
  std::string shared = ".shared .align 16 .b8 tile[64];";
  EXPECT_EQ(loadBodyError("ld.global.u32 %r0, [tile];", shared),
            "'tile' is in state space .shared, but the instruction accesses "
            ".global");
  EXPECT_EQ(loadBodyError("ld.shared.u32 %r0, [tile+4];", shared), "");
  EXPECT_EQ(loadBodyError("ld.global.u32 %r0, [%r1];"),
            "expects a 64-bit address for state space .global, but got the "
            "32-bit register '%r1'");
  EXPECT_EQ(loadBodyError("st.param.u32 [p0], %r1;"),
            "cannot store to state space .param");
}

TEST(Lowering, ResolvesNames) {
  EXPECT_EQ(loadBodyError("add.s32 %r0, %r1, %q;"), "undefined register '%q'");
  EXPECT_EQ(loadBodyError("mov.u32 %r0, %r64;"), "undefined register '%r64'");
  EXPECT_EQ(loadBodyError("bra NOWHERE;"), "undefined label 'NOWHERE'");
  EXPECT_EQ(loadBodyError("L: L: ret;"),
            "label 'L' is defined twice in one scope");
  EXPECT_EQ(loadBodyError("call.uni missing;", ".extern .func missing;"),
            "unresolved function 'missing'; link its definition into the "
            "module");
  // An inner scope may reuse names.
  EXPECT_EQ(loadBodyError("{ .reg .b64 %r0; mov.u64 %r0, 1; bra L; L: }"
                          "{ L: mov.u32 %r0, 1; }"),
            "");
}

TEST(Lowering, ChecksCopiesAndMatrices) {
  EXPECT_EQ(loadBodyError("cp.async.cg.shared.global [%r0], [%d0], 8;"),
            "cp.async.cg copies 16 bytes; use .ca for 4 or 8");
  EXPECT_EQ(loadBodyError("cp.async.ca.shared.global [%r0], [%d0], 3;"),
            "expects a copy size of 4, 8 or 16 bytes");
  EXPECT_EQ(loadBodyError("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                          "{%r0,%r1}, [%r2];"),
            "expects 4 registers in a matrix move, but got 2");
  EXPECT_EQ(loadBodyError("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 "
                          "{%f0,%f1,%f2,%f3}, {%r2,%r3,%r4,%r5}, {%r6,%r7}, "
                          "{%f0,%f1,%f2,%f3};"),
            "");
  EXPECT_EQ(loadBodyError("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
                          "{%r0,%r1}, {%r2,%r3,%r4,%r5}, {%r6,%r7}, "
                          "{%r8,%r9};"),
            "");
  for (const char *bad :
       {"m16n8k4.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f32.f16.bf16.f32",
        "m16n8k16.row.col.f16.bf16.bf16.f16", "m16n8k8.row.col.f32.s8.s8.f32",
        "m16n8k32.row.col.s32.s8.e4m3.s32", "m16n8k8.row.col.f32.f16.f16.f16",
        "m16n8k16.row.col.satfinite.f32.f16.f16.f32"})
    EXPECT_NE(loadBodyError(std::string("mma.sync.aligned.") + bad +
                            " {%r0,%r1}, {%r2,%r3}, {%r4}, {%r5,%r6};")
                  .find("expects mma.sync.aligned.row.col"),
              std::string::npos)
        << bad;
}

TEST(Lowering, InlinesCalls) {
  std::string twice = ".func (.param .b32 result) twice(.param .b32 x) {\n"
                      ".reg .b32 %r<3>; .reg .pred %p;\n"
                      "ld.param.b32 %r0, [x];\n"
                      "setp.gt.u32 %p, %r0, 5;\n"
                      "st.param.b32 [result], %r0;\n"
                      "@%p ret;\n"
                      "add.u32 %r1, %r0, %r0;\n"
                      "st.param.b32 [result], %r1;\nret;\n}\n";
  RunResult run =
      runBody("{ .param .b32 arg; .param .b32 res; st.param.b32 [arg], %t;\n"
              "call.uni (res), twice, (arg);\nld.param.b32 %r5, [res]; }\n"
              "mad.wide.u32 %at, %t, 4, %g0; st.global.u32 [%at], %r5;",
              {}, twice);
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 3), 6u);
  EXPECT_EQ(run.word(0, 7), 7u);
  EXPECT_EQ(loadBodyError("call.uni loop;", ".func loop() { call.uni loop; }"),
            "recursive call of 'loop' is not supported");
}

TEST(Lowering, ChecksLaunches) {
  RunConfig config;
  config.block = {2048, 1, 1};
  EXPECT_EQ(runBody("", config).error,
            "error: expects a block of 1 to 1024 threads, but got 2048x1x1");
  config.block = {32, 1, 1};
  config.buffers.pop_back();
  EXPECT_EQ(runBody("", config).error,
            "error: kernel 'test' takes 4 arguments, but got 3");
  config.buffers.push_back({});
  config.shared = 300000;
  EXPECT_EQ(runBody("", config).error,
            "error: kernel 'test' needs 300000 bytes of shared memory per "
            "block, but the limit of sm_89 is 101376");
  config.shared = 101377;
  config.options.maxSharedBytes = 101376;
  EXPECT_EQ(runBody("", config).error,
            "error: kernel 'test' needs 101377 bytes of shared memory per "
            "block, but the limit is 101376");
}

TEST(Lowering, SharedMemoryOfEachTarget) {
  auto kibibytes = [](std::string_view target) {
    return sharedBytesOf(target) / 1024;
  };
  for (const char *old : {"sm_52", "sm_61", "sm_", ""})
    EXPECT_EQ(kibibytes(old), 48u) << old;
  EXPECT_EQ(kibibytes("sm_70"), 96u);
  EXPECT_EQ(kibibytes("sm_75"), 64u);
  EXPECT_EQ(kibibytes("sm_80"), 163u);
  EXPECT_EQ(kibibytes("sm_86"), 99u);
  EXPECT_EQ(kibibytes("sm_87"), 163u);
  EXPECT_EQ(kibibytes("sm_89"), 99u);
  for (const char *large : {"sm_90", "sm_90a", "sm_100f", "sm_101", "sm_110"})
    EXPECT_EQ(kibibytes(large), 227u) << large;
  for (const char *newest : {"sm_120", "sm_120a", "sm_121"})
    EXPECT_EQ(kibibytes(newest), 99u) << newest;
}

TEST(Lowering, AddressesInInitialisers) {
  std::string declarations =
      ".global .align 8 .u64 first[3] = {second, generic(third)+8, first+8};\n"
      ".const .align 8 .u64 second = third;\n"
      ".global .align 8 .b64 third[2] = {11, 22};\n"
      ".global .align 4 .u32 unused[3];";
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody("mov.u64 %d0, first; ld.global.u64 %d1, [%d0];"
                          "ld.u64 %d2, [%d1]; ld.u64 %d3, [%d2];"
                          "ld.global.u64 %d4, [first+8]; ld.u64 %d5, [%d4];"
                          "mov.u64 %d6, first+16; ld.u64 %d6, [%d6];"
                          "ld.u64 %d6, [%d6]; sub.u64 %d6, %d6, %d4;"
                          "st.global.v2.u64 [%g0], {%d3, %d5};"
                          "cvta.global.u64 %d7, third+8; ld.u64 %d7, [%d7];"
                          "st.global.v2.u64 [%g0+16], {%d6, %d7};",
                          config, declarations);
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 11u);
  EXPECT_EQ(run.word(0, 2), 22u);
  EXPECT_EQ(run.word(0, 4), 0u);
  EXPECT_EQ(run.word(0, 6), 22u);
}

TEST(Lowering, SystemCalls) {
  std::string declarations =
      ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
      ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, "
      ".param .b64 n, .param .b64 c) .noreturn;\n"
      // "%d|%-4s|%*.*f|%c%%|%lx|%q\\n"
      ".global .b8 format[27] = {37,100,124,37,45,52,115,124,37,42,46,42,102,"
      "124,37,99,37,37,124,37,108,120,124,37,113,10,0};\n"
      ".global .b8 word[3] = {104, 105, 0};";
  std::string call =
      "{ .param .b64 p0; .param .b64 p1; .param .b32 r;\n"
      "st.param.b64 [p0], %d0; st.param.b64 [p1], %d1;\n"
      "call.uni (r), vprintf, (p0, p1); ld.param.b32 %r5, [r]; }\n";
  std::string arguments =
      ".local .align 8 .b8 a[64]; mov.u64 %d1, a; cvta.local.u64 %d1, %d1;"
      "mov.u64 %d0, format; st.local.u32 [a], -5; mov.u64 %d2, word;"
      "st.local.u64 [a+8], %d2; st.local.u32 [a+16], 7;"
      "st.local.u32 [a+20], 2; st.local.f64 [a+24], 0d3FF8000000000000;"
      "st.local.u32 [a+32], 33; st.local.u64 [a+40], 0xabcdef0123;";
  RunConfig config;
  config.block = {1, 1, 1};
  testing::internal::CaptureStderr();
  RunResult run = runBody(arguments + call + "st.global.u32 [%g0], %r5;",
                          config, declarations);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "-5|hi  |   1.50|!%|abcdef0123|%q\n");
  ASSERT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 7u);
  run =
      runBody("mov.u64 %d0, 16; mov.u64 %d1, 32;" + call, config, declarations);
  EXPECT_EQ(run.count(FindingKind::OutOfBounds), 1u) << run.text();
  EXPECT_EQ(loadBodyError("call.uni vprintf;", declarations),
            "'vprintf' expects 2 arguments, but got 0");
  EXPECT_EQ(loadBodyError("call.uni sin;", ".extern .func sin;"),
            "unresolved function 'sin'; link its definition into the module");
}

TEST(Lowering, InlinedScopesAreApart) {
  // Scopes and labels of a callee are its own each time.
  std::string twice = ".func spin() {\n.reg .pred %p; .reg .b32 %i;\n"
                      "mov.u32 %i, 3;\nL: sub.u32 %i, %i, 1;\n"
                      "setp.ne.u32 %p, %i, 0;\n@%p bra L;\n{ L: ret; }\n}\n";
  RunResult run = runBody("call spin; call.uni spin;", {}, twice);
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
}
