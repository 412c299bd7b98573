//===- ParserTest.cpp - Syntax and its errors -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"
#include "flashcore/Emulator/Ptx.h"

using namespace flashcore::emu;
using namespace flashcore::emu::test;

static std::string parseError(const std::string &text) {
  Expected<PtxModule> module = parsePtx(text);
  return module ? std::string() : module.error().str();
}

static const std::string header =
    ".version 8.7\n.target sm_89\n.address_size 64\n";

TEST(Parser, KeepsStructure) {
  Expected<PtxModule> module = parsePtx(
      header + ".file 1 \"a.cu\"\n.global .align 4 .u32 table[2] = {1, 2};\n"
               ".visible .entry k(.param .u64 .ptr .align 16 x) "
               ".reqntid 128, 1, 1 {\n"
               ".reg .b32 %r<4>;\n.loc 1 7 3\nL: @!%p bra L; }\n");
  ASSERT_TRUE(module) << module.error().str();
  EXPECT_EQ(module->versionMajor, 8u);
  EXPECT_EQ(module->files[1], "a.cu");
  EXPECT_EQ(module->variables[0].init.size(), 8u);
  const PtxFunction *kernel = module->find("k");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->reqntid[0], 128u);
  ASSERT_EQ(kernel->instructions.size(), 1u);
  EXPECT_EQ(kernel->instructions[0].opcode, "bra");
  EXPECT_TRUE(kernel->instructions[0].guardNegated);
}

TEST(Parser, ReadsLiterals) {
  std::string body = "mov.u32 %r0, 0x1F; mov.u32 %r1, 0b101; mov.u32 %r2, 017;"
                     "mov.s32 %r3, -5; mov.f32 %f0, 0f3F800000;"
                     "mov.f32 %f1, 1.5; mov.b32 %r4, 7U;"
                     "st.global.v4.u32 [%g0], {%r0, %r1, %r2, %r3};"
                     "st.global.f32 [%g0+16], %f0; st.global.f32 [%g0+20], %f1;"
                     "st.global.u32 [%g0+24], %r4;";
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody(body, config);
  EXPECT_TRUE(run.report.clean()) << run.text();
  EXPECT_EQ(run.word(0, 0), 31u);
  EXPECT_EQ(run.word(0, 1), 5u);
  EXPECT_EQ(run.word(0, 2), 15u);
  EXPECT_EQ(run.word(0, 3), ~0u - 4);
  EXPECT_EQ(run.word(0, 4), 0x3f800000u);
  EXPECT_EQ(run.word(0, 5), 0x3fc00000u);
  EXPECT_EQ(run.word(0, 6), 7u);
}

TEST(Parser, ReportsPositions) {
  EXPECT_EQ(loadError(header + ".visible .entry k() {\n  add.s32 %r1 %r2;\n}"),
            "5:15: error: expects ';' after an instruction, but got '%r2'");
  EXPECT_EQ(parseError("int main() {}"),
            "1:1: error: expects '.version' at the start of a PTX module, but "
            "got 'int'");
  EXPECT_EQ(parseError(".version 5.9\n"),
            "1:10: error: expects a PTX version from 6.0, but got 5.9");
  EXPECT_EQ(parseError(header + ".visible .entry k() { ret;"),
            "4:27: error: expects '}' at the end of function 'k', but got the "
            "end of the file");
  EXPECT_EQ(parseError(header + "/* open"), "4:1: error: comment has no end");
  EXPECT_EQ(parseError(header + ".bogus 3;"),
            "4:1: error: unknown directive '.bogus'");
  EXPECT_EQ(parseError(header + ".global .u32 x = 99999999999999999999;"),
            "4:18: error: integer does not fit 64 bits");
}

TEST(Parser, SurvivesEveryPrefixAndNoise) {
  std::string text = readInput("attention.ptx");
  ASSERT_FALSE(text.empty());
  for (size_t n = 0; n < text.size(); n += 211)
    (void)parsePtx(text.substr(0, n));
  // A fixed pseudo-random walk over byte changes.
  uint32_t state = 1;
  std::string head = text.substr(0, 12000);
  for (int i = 0; i < 300; ++i) {
    std::string noisy = head;
    for (int j = 0; j < 8; ++j) {
      state = state * 1664525u + 1013904223u;
      noisy[(state >> 8) % noisy.size()] = static_cast<char>(state >> 24);
    }
    (void)Kernel::load(noisy);
  }
}

TEST(Parser, LimitsNesting) {
  std::string text = header + ".visible .entry k() {" + std::string(5000, '{');
  EXPECT_NE(parseError(text).find("nested more than 256 deep"),
            std::string::npos);
}

TEST(Parser, DirectivesOfCompilers) {
  // All that nvcc, clang and Triton write around the code.
  std::string text =
      "//\n.version 9.0\n.target sm_89, debug\n.address_size 64\n"
      ".file 1 \"a.cu\", 1700000000, 1234\n"
      ".weak .func (.param .b32 r) helper(.param .b32 x) .noreturn;\n"
      ".visible .func other() { ret; }\n.alias helper2, other;\n"
      ".weak .global .align 4 .u32 w;\n.common .global .u32 c;\n"
      ".pragma \"nounroll\";\n"
      ".visible .entry k(.param .align 8 .b8 p[16], .param .u64 .ptr .global "
      ".align 16 q)\n.maxntid 128, 1, 1\n.minnctapersm 2\n.maxnreg 64\n{\n"
      ".pragma \"nounroll\";\n$L__func_begin0:\n"
      ".loc 1 7 3\n.loc 2 9 5, function_name $L__info+12, inlined_at 1 7 3\n"
      "ret;\n$L__func_end0:\n}\n"
      ".section .debug_abbrev\n{\n.b8 1\n.b8 17,0\n}\n"
      ".section .debug_str { $L__info:\n.b8 0\n}\n"
      ".section .debug_loc\t{\t}\n";
  Expected<PtxModule> module = parsePtx(text);
  ASSERT_TRUE(module) << module.error().str();
  const PtxFunction *kernel = module->find("k");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->maxntid[0], 128u);
  EXPECT_EQ(kernel->instructions.size(), 1u);
  size_t numLocs = 0;
  for (const PtxStatement &statement : kernel->body)
    numLocs += statement.kind == PtxStatement::Kind::Loc;
  EXPECT_EQ(numLocs, 2u);
  EXPECT_EQ(loadError(text), "");
}
