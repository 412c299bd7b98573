//===- ProcessTest.cpp - Running another program --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/Process.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
std::string text(llvm::Expected<std::string> result) {
  return result ? *result : llvm::toString(result.takeError());
}
std::string runShell(llvm::StringRef script) {
  return text(runProgram("/bin/sh", {"-c", script}));
}

TEST(RunProgram, ReturnsBothStreamsInOrder) {
  EXPECT_EQ(runShell("echo one; echo two >&2; echo three"),
            "one\ntwo\nthree\n");
  EXPECT_EQ(runShell(""), "");
}

TEST(RunProgram, ReturnsMoreThanAPipeHolds) {
  EXPECT_EQ(runShell("head -c 1000000 /dev/zero").size(), 1000000u);
}

TEST(RunProgram, GivesNoInput) { EXPECT_EQ(runShell("cat"), ""); }

TEST(RunProgram, SaysHowAProgramFailed) {
  EXPECT_EQ(runShell("echo reason; exit 3"),
            "'/bin/sh' failed with status 3\nreason\n");
  EXPECT_EQ(runShell("kill -TERM $$"),
            "'/bin/sh' was ended by signal 15 (Terminated)\n");
  EXPECT_EQ(text(runProgram("/nonexistent/ptxas", {})),
            "cannot run '/nonexistent/ptxas': No such file or directory");
}
} // namespace
