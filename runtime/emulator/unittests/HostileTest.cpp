//===- HostileTest.cpp - Locales, terminals, full disks, little memory ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the process around the emulator, or a hostile file, could do to it.
//
//===----------------------------------------------------------------------===//

#include "TestUtil.h"
#include "ToolUtil.h"
#include "flashcore/Emulator/Printable.h"

#include <clocale>
#include <cstdio>

using namespace flashcore::emu;
using namespace flashcore::emu::test;

//===----------------------------------------------------------------------===//
// Locales
//===----------------------------------------------------------------------===//

namespace {
/// The process in a locale that writes 1,5; `isSet` if there is one.
class CommaLocale {
public:
  CommaLocale() {
    for (const char *name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"})
      isSet = isSet || std::setlocale(LC_ALL, name);
    if (isSet)
      return;
    // One of our own, where the sources of the locales are installed.
    folder =
        testing::TempDir() + "flashcore-locale-" + std::to_string(getpid());
    std::string make = "mkdir -p '" + folder +
                       "' && localedef -i de_DE -f UTF-8 '" + folder +
                       "/de_DE.UTF-8' > /dev/null 2>&1";
    if (std::system(make.c_str()) == 0 &&
        setenv("LOCPATH", folder.c_str(), 1) == 0)
      isSet = std::setlocale(LC_ALL, "de_DE.UTF-8");
  }
  ~CommaLocale() {
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    std::error_code ignored;
    if (!folder.empty())
      std::filesystem::remove_all(folder, ignored);
  }
  bool isSet = false;

private:
  std::string folder;
};
} // namespace

/// The error of a body, with its position.
static std::string bodyError(const std::string &body,
                             const std::string &declarations = {}) {
  return loadError(kernelText(body, declarations));
}

/// A kernel whose text and output have numbers with a point.
static const std::string numbersBody =
    "mov.f64 %d0, 1.5; st.global.f64 [%g0], %d0;\n"
    "{ .param .b64 p0; .param .b64 p1; .param .b32 r;\n"
    ".local .align 8 .b8 args[8]; .reg .b64 %at;\n"
    "mov.u64 %at, args; cvta.local.u64 %at, %at;\n"
    "st.f64 [%at], %d0; st.param.b64 [p1], %at;\n"
    "mov.u64 %at, text; cvta.global.u64 %at, %at; st.param.b64 [p0], %at;\n"
    "call.uni (r), vprintf, (p0, p1); }\n";
static const std::string numbersDeclarations =
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .b8 text[6] = {37, 46, 50, 102, 10, 0};\n"; // "%.2f\n"

TEST(Hostile, NumbersAreTheSameInEveryLocale) {
  CommaLocale locale;
  if (!locale.isSet)
    GTEST_SKIP() << "no locale with a decimal comma can be had";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", 1.5);
  ASSERT_STREQ(text, "1,5");
  RunConfig config;
  config.block = {1, 1, 1};
  testing::internal::CaptureStderr();
  RunResult run = runBody(numbersBody, config, numbersDeclarations);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "1.50\n");
  EXPECT_EQ(run.error, "");
  ASSERT_EQ(run.buffers.at(0).size(), 4096u);
  EXPECT_EQ(run.word(0, 1), 0x3ff80000u);
  EXPECT_FALSE(contains(formatReport(run.report, "k.ptx"), ",000"));
  EXPECT_EQ(formatFixed(-1.25, 1), "-1.2");
  EXPECT_EQ(formatFixed(1e22, 1), "10000000000000000000000.0");
  EXPECT_EQ(formatShort(0.5), "0.5");
  EXPECT_EQ(formatShort(1e-7), "1e-07");
}

TEST(Hostile, FloatsThatDoNotFit) {
  EXPECT_EQ(bodyError("mov.f64 %d0, 1e999;"),
            "11:14: error: float does not fit 64 bits");
  EXPECT_EQ(bodyError("mov.f64 %d0, 1." + std::string(200, '3') + ";"), "");
}

//===----------------------------------------------------------------------===//
// Terminals
//===----------------------------------------------------------------------===//

TEST(Hostile, PrintableText) {
  EXPECT_EQ(printable("a\tb\n"), "a\\x09b\\x0a");
  EXPECT_EQ(printable("a\tb\n", Lines::Keep), "a\tb\n");
  EXPECT_EQ(printable("\x1b[2J\x7f\r", Lines::Keep), "\\x1b[2J\\x7f\\x0d");
  EXPECT_EQ(printable(std::string("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82"),
            "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x99\x82");
  // C1 in UTF-8, right-to-left override, cut off, overlong, a surrogate.
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xff\x9b"), "\\xff\\x9b");
}

TEST(Hostile, MessagesCannotDriveATerminal) {
  EXPECT_EQ(bodyError("mov.u32 %r0, \"\x1b[2J\";"),
            "11:14: error: expects an operand, but got '\\x1b[2J'");
  // A comment is a part of an opcode with blanks in it.
  EXPECT_EQ(bodyError("frob /*\x1b[2J\n*/ .s32 %r0;"),
            "11:1: error: unknown instruction 'frob /*\\x1b[2J\\x0a*/ .s32'");
  // The name of a source file and the text of an assertion.
  RunConfig config;
  config.block = {1, 1, 1};
  RunResult run = runText(kernelText(".loc 1 7 1\n"
                                     "st.global.u32 [%g0+99999], %t;",
                                     ".file 1 \"a\x1b[2J.cu\"\n"),
                          config);
  ASSERT_FALSE(run.report.findings.empty());
  EXPECT_EQ(run.report.findings[0].place.source, "a\\x1b[2J.cu:7:1");
  std::string json = reportToJson(run.report, "gr\xc3\xbc\x7f.ptx");
  EXPECT_TRUE(contains(json, "\"gr\\u00fc\\u007f.ptx\"")) << json;
}

TEST(Hostile, PrintfCannotDriveATerminal) {
  RunConfig config;
  config.block = {1, 1, 1};
  testing::internal::CaptureStderr();
  // "\x1b[2J\t\n"
  runBody(numbersBody, config,
          ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 "
          "a);\n.global .b8 text[8] = {27, 91, 50, 74, 9, 10, 0};\n");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\\x1b[2J\t\n");
}

TEST_F(Tool, TextOfTheCommandLineCannotDriveATerminal) {
  expectRefused(run("$(printf '\\033[2J.ptx')"),
                "cannot read '\\x1b[2J.ptx': No such file");
  expectRefused(run(ptx + " $(printf -- '--b\\033g')"), "--b\\x1bg");
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

TEST(Hostile, SizesThatOverflow) {
  // 2^32 times 2^32 bytes is no shared memory of size zero.
  for (const char *space : {".shared", ".global"})
    EXPECT_EQ(
        bodyError("", std::string(space) + " .b8 x[4294967296][4294967296];"),
        "4:13: error: variable 'x' is larger than 4 GiB");
  EXPECT_EQ(bodyError(".shared .b8 x[65536][65536][65536][65536];"),
            "11:13: error: variable 'x' is larger than 4 GiB");
  EXPECT_EQ(bodyError("", ".shared .b64 x[2305843009213693952];"),
            "4:16: error: expects an array size of at most 4294967296, but got "
            "2305843009213693952");
}

TEST_F(Tool, StridesThatOverflow) {
  for (const char *buffer :
       {"f16[1,8,4611686018427387904,64]:zeros",
        "f16[2,8,2:18446744073709551615,64,1]:zeros",
        "f16[2,2:9223372036854775808,9223372036854775808]:zeros",
        "f16[2:1+18446744073709551615]:zeros",
        "f16[2:99999999999999999999]:zeros"})
    expectRefused(runAdd("", std::string(buffer) + " i32[128]:iota i32:7"),
                  "8 G elements");
}

//===----------------------------------------------------------------------===//
// Files and streams
//===----------------------------------------------------------------------===//

TEST_F(Tool, OutputFollowsNoPlantedLink) {
  write("victim", "precious");
  for (const char *name : {"o.npy", "o.npy.partial"})
    std::filesystem::create_symlink(file("victim"), file(name));
  expectClean(runAdd("--out 0=" + file("o.npy")));
  EXPECT_EQ(read(file("victim")), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(file("o.npy")));
  EXPECT_EQ(fileNames(), (std::set<std::string>{"o.npy", "o.npy.partial",
                                                "stderr", "stdout", "victim"}));
}

TEST_F(Tool, OutputHasTheModeOfOtherFiles) {
  expectClean(runAdd("--out 0=" + file("o.npy")));
  auto mode = [&](const char *name) {
    return std::filesystem::status(file(name)).permissions();
  };
  EXPECT_EQ(mode("o.npy"), mode("stdout"));
}

TEST_F(Tool, FullDevices) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "there is no /dev/full";
  for (const std::string &arguments :
       {ptx + " --list", std::string("--help"), std::string("--version")}) {
    ToolResult result = run(arguments, "> /dev/full");
    EXPECT_EQ(result.exitCode, 2) << arguments;
    EXPECT_EQ(result.err,
              "flashcore-emu: error: cannot write to standard output: No "
              "space left on device\n");
  }
  EXPECT_EQ(run(ptx + " --list", "2> /dev/full").exitCode, 0);
  EXPECT_EQ(run("none.ptx", "2> /dev/full").exitCode, 2);
}

TEST_F(Tool, FilesOverTheLimit) {
  ToolResult result = run(ptx +
                              " --kernel add --grid 4 --block 32 --quiet --arg "
                              "i32[65536]:zeros i32[128]:iota i32:7 --out 0=" +
                              file("o.npy"),
                          "", "ulimit -f 16; ");
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_EQ(result.err, "flashcore-emu: error: cannot write '" + file("o.npy") +
                            "': File too large\n");
  EXPECT_EQ(fileNames(), (std::set<std::string>{"stderr", "stdout"}));
}

TEST_F(Tool, ClosedStreams) {
  // With standard error closed, the next file to be opened would get its
  // number, and the report of --trace with it.
  std::string add = ptx + " --kernel add --grid 4 --block 32 --arg "
                          "i32[128]:poison i32[128]:iota i32:7 ";
  expectClean(run(add + "--out 0=" + file("good.npy")));
  for (const char *closed : {"2>&-", "<&- 2>&-", "<&- >&- 2>&-"}) {
    run(add + "--trace --out 0=" + file("o.npy"), closed);
    EXPECT_EQ(read(file("o.npy")), read(file("good.npy"))) << closed;
  }
  ToolResult result = run(add, ">&-");
  EXPECT_EQ(result.exitCode, 2);
  EXPECT_EQ(result.err,
            "flashcore-emu: error: cannot write to standard output: Bad "
            "file descriptor\n");
  EXPECT_EQ(run(add, "2>&-").exitCode, 0);
}

TEST_F(Tool, EndlessFiles) {
  expectRefused(run("/dev/zero"),
                "expects PTX of at most 256 MiB, but there is more");
  expectRefused(run(ptx + " --kernel add --grid 4 --block 32 --arg "
                          "i32[128]:poison i32:7 i32[128]:iota --expect "
                          "0=/dev/zero.npy"),
                "cannot read '/dev/zero.npy'");
  std::filesystem::create_symlink("/dev/zero", file("zero.npy"));
  expectRefused(runAdd("", "i32[128]:poison " + file("zero.npy") + " i32:7"),
                "expects a .npy file, but the first bytes are not");
}

TEST_F(Tool, LittleMemory) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "ASan takes more memory than the limit leaves";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer takes more memory than the limit leaves";
#endif
#endif
  ToolResult result =
      run(ptx + " --kernel add --grid 4 --block 32 --arg i32[128]:poison "
                "i32[1000000000]:zeros i32:7",
          "", "ulimit -v 1000000; ");
  EXPECT_EQ(result.exitCode, 2) << result.err;
  EXPECT_EQ(
      result.err,
      "flashcore-emu: error: there is not enough memory for these buffers\n");
}

TEST_F(Tool, Version) {
  ToolResult result = run("--version");
  expectClean(result);
  EXPECT_TRUE(result.out.starts_with("flashcore-emu ")) << result.out;
  EXPECT_EQ(result.out.back(), '\n');
}
