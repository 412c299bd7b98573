//===- BadInputTest.cpp - Clear errors for all that is wrong --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Line and column of each mistake. The first line of a body is line 11.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static const std::string header =
    ".version 8.7\n.target sm_89\n.address_size 64\n";

/// The error of a body, with its position.
static std::string bodyError(const std::string &body,
                             const std::string &declarations = {}) {
  return loadError(kernelText(body, declarations));
}

TEST(BadInput, TruncatedText) {
  std::string text = kernelText("add.s32 %r0, %r1, %r2;");
  // Every prefix that ends before the closing brace is an error.
  for (size_t n = 0; n + 3 < text.size(); ++n)
    EXPECT_NE(loadError(text.substr(0, n)), "") << n;
  EXPECT_EQ(loadError(""), "1:1: error: expects '.version' at the start of a "
                           "PTX module, but got the end of the file");
  EXPECT_EQ(loadError(header + ".visible .entry k(.param .u64 p"),
            "4:32: error: expects ')' after parameters, but got the end of the "
            "file");
  EXPECT_EQ(loadError(header + ".visible .entry k("),
            "4:19: error: expects a state space, but got the end of the file");
  EXPECT_EQ(loadError(header + ".visible .entry k() { add.s32 %r0, "),
            "4:36: error: expects an operand, but got the end of the file");
  EXPECT_EQ(loadError(header + ".section .debug { .b8 1"),
            "4:24: error: expects '}', but got the end of the file");
}

TEST(BadInput, BinaryText) {
  std::string bytes(4096, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 167 >> 3);
  EXPECT_NE(loadError(bytes), "");
  EXPECT_EQ(loadError(header + std::string("\x7f\x45LF\0\0", 6)),
            "4:1: error: unexpected character");
  EXPECT_EQ(loadError(header + "\"open\n"), "4:1: error: string has no end");
  EXPECT_EQ(loadError(header + ".visible .entry k(\"\""),
            "4:19: error: expects a state space, but got ''");
}

TEST(BadInput, HugeText) {
  std::string body;
  for (int i = 0; i < 200000; ++i)
    body += "add.s32 %r0, %r1, %r2;\n";
  EXPECT_EQ(bodyError(body), "");
  EXPECT_EQ(bodyError(body + "frob;"),
            "200011:1: error: unknown instruction 'frob'");
  EXPECT_EQ(
      bodyError("mov.u32 %" + std::string(1 << 20, 'r') + ", 1;").substr(0, 43),
      "11:9: error: undefined register '%rrrrrrrrr");
  EXPECT_EQ(bodyError("add.s32 %r0" + std::string(3 << 10, ',') + ";"),
            "11:13: error: expects an operand, but got ','");
  std::string many = "add.s32 %r0";
  for (int i = 0; i < 300; ++i)
    many += ", %r1";
  EXPECT_EQ(bodyError(many + ";").substr(0, 50),
            "11:809: error: instruction has too many operands");
}

TEST(BadInput, HugeNumbers) {
  EXPECT_EQ(bodyError("mov.u64 %d0, 18446744073709551616;"),
            "11:14: error: integer does not fit 64 bits");
  EXPECT_EQ(bodyError("", ".reg .b32 %x<4>;"),
            "4:1: error: unknown directive '.reg'");
  EXPECT_EQ(bodyError(".reg .b32 %x<4000000000>;"),
            "11:14: error: expects a register count of at most 16777216, but "
            "got 4000000000");
  EXPECT_EQ(bodyError("", ".shared .b8 x[99999999999];"),
            "4:15: error: expects an array size of at most 4294967296, but got "
            "99999999999");
  EXPECT_EQ(bodyError("", ".shared .b64 x[65536][65536];"),
            "4:14: error: variable 'x' is larger than 4 GiB");
  EXPECT_EQ(bodyError(".local .b8 x[600000];"),
            "11:12: error: local memory is limited to 512 KiB a thread");
  EXPECT_EQ(bodyError("mov.u64 %d0, b;",
                      ".global .b8 a[400000000];\n.global .u64 b[40000000] = "
                      "{a};"),
            "4:13: error: the module variables of a kernel are limited to 512 "
            "MiB, which 'a' exceeds");
  // What the kernel does not name takes no memory.
  EXPECT_EQ(bodyError("", ".global .b8 a[4000000000];"), "");
  EXPECT_EQ(loadError(header + ".entry k(.param .b8 p[40000]) { ret; }"),
            "4:21: error: kernel parameters are limited to 32764 bytes");
  RunConfig config;
  EXPECT_EQ(
      runBody("mov.u32 %r0, x;", config, ".shared .b8 x[4294967296];").error,
      "error: kernel 'test' needs 4294967296 bytes of shared memory per "
      "block, but the limit of sm_89 is 101376");
}

TEST(BadInput, GrowthByInlining) {
  // Each function calls the one before it twice.
  auto tree = [](const std::string &leaf) {
    std::string text = header + ".func f0() { " + leaf + " }\n";
    for (int i = 1; i < 40; ++i) {
      std::string callee = "call f" + std::to_string(i - 1) + ";";
      text += ".func f" + std::to_string(i) + "() { " + callee + callee + "}\n";
    }
    return loadError(text + ".entry k() { call f39; ret; }");
  };
  EXPECT_EQ(tree(""), "6:22: error: kernel has more than 16384 calls after "
                      "inlining");
  EXPECT_NE(tree("membar.cta;").find("after inlining"), std::string::npos);
  std::string code;
  for (int i = 0; i < 400; ++i)
    code += "membar.cta;";
  EXPECT_NE(tree(code).find("error: kernel has more than 1048576 instructions "
                            "after inlining"),
            std::string::npos);
}

TEST(BadInput, UnknownInstructions) {
  EXPECT_EQ(bodyError("\n   frob.s32 %r0, %r1;"),
            "12:4: error: unknown instruction 'frob.s32'");
  EXPECT_EQ(bodyError("add.frob.s32 %r0, %r1, %r2;"),
            "11:1: error: modifier '.frob' is not supported on "
            "'add.frob.s32'");
  EXPECT_EQ(bodyError("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0}, "
                      "[%d0];"),
            "11:44: error: expects 8 registers in a wmma fragment, but got 1");
  EXPECT_EQ(bodyError("add.s128 %r0, %r1, %r2;"),
            "11:1: error: 'add' does not exist for type .none");
}

TEST(BadInput, UndefinedNames) {
  EXPECT_EQ(bodyError("add.s32 %r0, %r1, %nope;"),
            "11:19: error: undefined register '%nope'");
  EXPECT_EQ(bodyError("@%q bra L; L:"), "11:1: error: undefined register '%q'");
  EXPECT_EQ(bodyError("ret;\n  bra NOWHERE;"),
            "12:7: error: undefined label 'NOWHERE'");
  EXPECT_EQ(bodyError("brx.idx %r0, T;"),
            "11:14: error: undefined branch table 'T'");
  EXPECT_EQ(bodyError("T: .branchtargets L; brx.idx %r0, T;"),
            "11:22: error: undefined label 'L'");
  EXPECT_EQ(bodyError("ld.global.u32 %r0, [nowhere];"),
            "11:20: error: undefined name 'nowhere' in an address");
  EXPECT_EQ(bodyError("ld.param.u32 %r0, [p9];"),
            "11:19: error: undefined name 'p9' in an address");
  EXPECT_EQ(bodyError("mov.u64 %d0, x;", ".extern .global .u32 x;"),
            "4:22: error: unresolved variable 'x'; link its definition into "
            "the module");
  EXPECT_EQ(
      bodyError("mov.u64 %d0, x;", ".global .u64 x = y;"),
      "4:18: error: expects the name of a .global or .const variable, but "
      "got 'y'");
}

TEST(BadInput, WrongOperands) {
  EXPECT_EQ(bodyError("add.s32 %r0, %r1;"),
            "11:1: error: 'add.s32' expects 3 operands, but got 2");
  EXPECT_EQ(bodyError("add.s32;"),
            "11:1: error: 'add.s32' expects 3 operands, but got 0");
  EXPECT_EQ(bodyError("bar.red.u32 %r0, 0, %p0;"),
            "11:1: error: expects .popc, .and or .or on a barrier with .red");
  EXPECT_EQ(bodyError("ret %r0;"),
            "11:1: error: 'ret' expects 0 operands, but got 1");
  EXPECT_EQ(bodyError("add.s32 %r0, %r1, %d2;"),
            "11:19: error: expects a register for type .s32, but got '%d2' of "
            "type .b64");
  EXPECT_EQ(bodyError("add.s32 5, %r1, %r2;"),
            "11:9: error: expects a register");
  EXPECT_EQ(bodyError("add.s32 %r0, [%d1], %r2;"),
            "11:14: error: expects a register");
  EXPECT_EQ(bodyError("add.s32 %r0, !%r1, %r2;"),
            "11:14: error: '!' is only allowed on a predicate here");
  EXPECT_EQ(bodyError("add.s32 %r0, {%r1, %r2}, %r2;"),
            "11:14: error: expects a register");
  EXPECT_EQ(bodyError("mov.u32 %r0, %r1+4;"),
            "11:14: error: expects a register, but got an address");
  EXPECT_EQ(bodyError("mov.u64 %d0, f;", ".func f() { ret; }"),
            "11:14: error: the address of function 'f' needs function "
            "pointers, which the emulator does not have");
  EXPECT_EQ(bodyError("ld.global.v4.u32 {%r0, %r1}, [%g0];"),
            "11:18: error: expects 4 registers, but got 2");
  EXPECT_EQ(bodyError("call f, (%r0);", ".func f(.param .b32 x) { ret; }"),
            "11:10: error: expects a .param variable, but got '%r0'");
  EXPECT_EQ(bodyError("call f;", ".func f(.param .b32 x) { ret; }"),
            "11:1: error: call passes 0 parameters, but the function has 1");
}

TEST(BadInput, Declarations) {
  EXPECT_EQ(bodyError(".reg .b128 %x;"),
            "11:12: error: registers of type .b128 are not supported");
  EXPECT_EQ(bodyError(".reg .b32 %x; .reg .b32 %x;"),
            "11:25: error: '%x' is declared twice in one scope");
  EXPECT_EQ(bodyError("", ".global .u32 x = {1, 2};"),
            "4:22: error: initialiser is longer than the variable");
  EXPECT_EQ(bodyError("", ".global .u32 x = y;"),
            "4:18: error: expects a 64-bit integer type for the address of "
            "'y'");
  EXPECT_EQ(bodyError("", ".global .pred x = 1;"),
            "4:19: error: a variable of type .pred cannot be initialised");
  EXPECT_EQ(bodyError("", ".global .f16 x = 1.5;"),
            "4:18: error: a float literal cannot be of type .f16");
  EXPECT_EQ(bodyError("", ".global .f32 x = 0d3FF0000000000000;"), "");
  EXPECT_EQ(bodyError("", ".global .align 3 .b8 x;"),
            "4:18: error: expects an alignment that is a power of two, but got "
            "3");
  EXPECT_EQ(loadError(".version 5.0\n"),
            "1:10: error: expects a PTX version from 6.0, but got 5.0");
  EXPECT_EQ(loadError(".version 8.7\n.address_size 32\n"),
            "2:1: error: expects '.address_size 64', but got 32");
  EXPECT_EQ(loadError(header + ".entry k() { ret; }\n.entry k() { ret; }"),
            "5:8: error: function 'k' is defined twice");
  EXPECT_EQ(loadError(header), "error: the module has no kernel (.entry)");
}

TEST(BadInput, Launches) {
  RunConfig config;
  config.grid = {0, 1, 1};
  EXPECT_EQ(runBody("", config).error,
            "error: expects a grid of 1x1x1 to 2147483647x65535x65535, but got "
            "0x1x1");
  config.grid = {1, 65536, 1};
  EXPECT_EQ(runBody("", config).error,
            "error: expects a grid of 1x1x1 to 2147483647x65535x65535, but got "
            "1x65536x1");
  config.grid = {0x80000000u, 1, 1};
  EXPECT_NE(runBody("", config).error, "");
  config.grid = {0x7fffffffu, 65535, 65535};
  EXPECT_NE(runBody("", config).error, "");
  config.grid = {1, 1, 1};
  config.block = {1, 1, 65};
  EXPECT_EQ(runBody("", config).error,
            "error: expects a block of 1 to 1024 threads, but got 1x1x65");
  config.block = {64, 64, 64};
  EXPECT_NE(runBody("", config).error, "");
}

TEST(BadInput, EndlessLoops) {
  RunConfig config;
  config.options.maxInstructions = 10000;
  for (const char *body : {"L: bar.sync 0; bra L;",
                           "mov.u32 %r0, 0;\nL: add.u32 %r0, %r0, 1; bra L;"}) {
    RunResult run = runBody(body, config);
    EXPECT_EQ(run.count(FindingKind::InstructionLimit), 1u) << run.text();
  }
  // Nothing ever changes in these.
  for (const char *body :
       {"L: bra L;", "setp.eq.u32 %p0, %t, 0;\nL: @%p0 bra L; bar.sync 0;",
        "L: ld.volatile.global.u32 %r0, [%g0]; setp.ne.u32 %p0, %r0, 7;"
        "@%p0 bra L;"}) {
    config.buffers[0].assign(64, 0);
    RunResult run = runBody(body, config);
    EXPECT_EQ(run.count(FindingKind::Deadlock), 1u) << run.text();
  }
  // A large grid of kernels that end is stopped as well.
  config.grid = {0x7fffffffu, 1, 1};
  EXPECT_EQ(runBody("", config).count(FindingKind::InstructionLimit), 1u);
}
