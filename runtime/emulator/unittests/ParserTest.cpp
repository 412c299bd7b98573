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

TEST(Parser, ATextMayEndWithNuls) {
  const std::string kernel = header + ".visible .entry k() { ret; }\n";
  EXPECT_EQ(parseError(kernel + std::string(1, '\0')), "");
  EXPECT_EQ(parseError(kernel + std::string("\0 \n\0", 4)), "");
  EXPECT_EQ(parseError(kernel + "// end" + std::string(1, '\0')), "");
  EXPECT_NE(parseError(kernel + std::string("\0x", 2)), "");
  EXPECT_NE(parseError(header + std::string("\0", 1) + ".entry k() { ret; }"),
            "");
}

/// What a constant is as a .u64.
static std::string valueOf(const std::string &constant) {
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody(
      "mov.u64 %d0, " + constant + "; st.global.u64 [%g0], %d0;", config);
  if (!run.error.empty())
    return run.error;
  return std::to_string(
      static_cast<int64_t>(run.word(0, 0) | uint64_t(run.word(0, 1)) << 32));
}

// The values are those of ptxas 13.0.
TEST(Parser, EvaluatesConstantExpressions) {
  static constexpr std::pair<const char *, const char *> values[] = {
      {"(1 << 4) | 3", "19"},
      {"2 + 3 << 1", "10"},
      {"8 - 3 - 2", "3"},
      {"7 & 3 == 3", "1"},
      {"1 | 2 ^ 3 & 4", "3"},
      {"5 && 0 || 3", "1"},
      {"0 ? 2 : 0 ? 4 : 5", "5"},
      {"1 ? -5 : 3U", "-5"},
      {"!0x100000000 + 10", "10"},
      {"- -5", "5"},
      {"+-5", "-5"},
      {"-8 >> 1", "-4"},
      {"(.u64)-8 >> 1", "9223372036854775804"},
      {"(-1 < 1U) + 10", "10"},
      {"-7 / 2", "-3"},
      {"-7 / 2U", "9223372036854775804"},
      {"-7 % 4", "1"},
      {"-0x8000000000000000 / -1", "0"},
      {"(~0 >> 60) + 1", "16"},
      {"(-1 | 0) >> 1", "-1"},
      {"1 << 64", "1"},
      {"WARP_SZ * 2 - 1", "63"},
      {"1.0 < 2.0", "1"},
      {"(.s64)3U - 4 < 0", "1"}};
  for (const auto &[constant, value] : values)
    EXPECT_EQ(valueOf(constant), value) << constant;
  EXPECT_NE(valueOf("1 / 0").find("division by zero"), std::string::npos);
  EXPECT_NE(valueOf("(.u32)1").find("expects a cast to .s64 or .u64"),
            std::string::npos);
  EXPECT_NE(valueOf("1 + %d1").find("expects a constant, but got '%d1'"),
            std::string::npos);
  EXPECT_NE(valueOf("1 + 2.0").find("expects two integers or two floats"),
            std::string::npos);
  EXPECT_NE(valueOf(std::string(100, '(') + "1" + std::string(100, ')'))
                .find("nested more than 64 deep"),
            std::string::npos);
  EXPECT_NE(valueOf(std::string(100, '~') + "1").find("more than 64 deep"),
            std::string::npos);
}

TEST(Parser, TakesConstantsWhereverTheyMayStand) {
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runBody(
      "mov.f32 %f0, 0.; mov.f32 %f1, .5; mov.f32 %f2, 1.e1;"
      "mov.f32 %f3, 1.0 + 2.0 * 3.0;"
      "st.global.v4.f32 [%g0], {%f0, %f1, %f2, %f3};"
      "st.global.u32 [%g0 + 4 * 4], 1 | 4; mov.u32 %r0, s + (1 << 2);"
      "st.shared.u32 [%r0 + 16 - 8], WARP_SZ; ld.shared.u32 %r1, [s + 12];"
      "st.global.u32 [%g0+20], %r1; ld.global.u32 %r2, [v + 4];"
      "st.global.v2.u32 [%g0+24], {%r2, 2 + 1}; ld.global.f32 %f4, [w];"
      "st.global.f32 [%g0+32], %f4; bar.sync 0, WARP_SZ * 1;",
      config,
      ".shared .align 4 .b8 s[WARP_SZ]; .global .u32 v[2] = {1, 3 * 5};"
      ".global .f32 w = 1.5 - 1.;");
  EXPECT_TRUE(run.error.empty() && run.report.clean()) << run.text();
  const uint32_t expected[] = {0,  0x3f000000, 0x41200000, 0x40e00000, 5,
                               32, 15,         3,          0x3f000000};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(run.word(0, i), expected[i]) << i;
}
