//===- CompileTest.cpp - Calling the compiler -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which compiler is called, with which words, and what is said when it fails.
//
//===----------------------------------------------------------------------===//

#include "Compile.h"
#include "Cleanup.h"
#include "TestBundle.h"

#include "flashcore/Runtime/FileUtils.h"

#include <csignal>

using namespace flashcore;
using namespace flashcore::run;
using namespace flashcore::testing;

namespace {
class CompileTest : public ::testing::Test {
protected:
  static Source file(const std::string &path) {
    return {Source::Kind::File, path};
  }

  /// A compiler that is a shell script.
  std::filesystem::path script(const std::string &body,
                               const std::string &name = "fc") {
    scratch.write(name, "#!/bin/sh\n" + body + "\n");
    std::filesystem::permissions(scratch.file(name),
                                 std::filesystem::perms::owner_all);
    return scratch.file(name);
  }

  /// Where a bundle is, as after a compilation.
  std::string output() const {
    std::filesystem::create_directory(scratch.file("out.fcb"));
    scratch.write("out.fcb/manifest.json", "");
    return scratch.file("out.fcb");
  }

  ScratchDirectory scratch;
};
} // namespace

TEST_F(CompileTest, passesInputOutputAndArguments) {
  std::string log = scratch.file("log"), out = output();
  EXPECT_EQ(text(compile(script("echo \"$@\" >" + log), file("a b.mlir"), out,
                         {"--chip=sm_90", "-x"})),
            "");
  EXPECT_EQ(*readFile(log),
            "a b.mlir --emit=bundle -o " + out + " --chip=sm_90 -x\n");
}

TEST_F(CompileTest, givesTheMultiCallExecutableItsSubcommand) {
  std::string log = scratch.file("log"), out = output();
  EXPECT_EQ(text(compile(script("echo \"$@\" >" + log, "flashcore"),
                         file("a.mlir"), out, {"-x"})),
            "");
  EXPECT_EQ(*readFile(log), "compile a.mlir --emit=bundle -o " + out + " -x\n");
}

TEST_F(CompileTest, reportsTheExitCode) {
  std::filesystem::path compiler = script("exit 3");
  EXPECT_EQ(text(compile(compiler, file("a.mlir"), "a.fcb", {"-x"})),
            "compiling a.mlir failed with exit code 3\n"
            "  note: the command was: " +
                compiler.string() + " a.mlir --emit=bundle -o a.fcb -x");
}

TEST_F(CompileTest, handsAShapeToTheCompiler) {
  std::string log = scratch.file("log"), out = output();
  Source shape = {Source::Kind::Shape, "b1 h32/8 causal"};
  EXPECT_EQ(
      text(compile(script("for i in \"$@\"; do echo \"$i\"; done >" + log),
                   shape, out, {"-x"})),
      "");
  EXPECT_EQ(*readFile(log),
            "--shape=b1 h32/8 causal\n--emit=bundle\n-o\n" + out + "\n-x\n");
  std::filesystem::path compiler = script("exit 2");
  EXPECT_EQ(text(compile(compiler, {Source::Kind::Shape, "it's"}, "a.fcb", {})),
            "compiling --shape 'it'\\''s' failed with exit code 2\n"
            "  note: the command was: " +
                compiler.string() +
                " '--shape=it'\\''s' --emit=bundle -o a.fcb");
}

TEST_F(CompileTest, reportsASignal) {
  EXPECT_TRUE(text(compile(script("kill -9 $$"), file("a.mlir"), "a.fcb", {}))
                  .starts_with("compiling a.mlir failed with signal 9\n"));
}

TEST_F(CompileTest, namesSeveralAttentions) {
  std::string out = scratch.file("several");
  std::filesystem::path compiler = script("mkdir -p " + out + "/b.1.fcb " +
                                          out + "/a.fcb " + out + "/b.0.fcb");
  EXPECT_EQ(text(compile(compiler, file("two.mlir"), out, {})),
            "expects one attention in two.mlir, but got 3 (a, b.0, b.1)\n"
            "  note: choose one: -- --function=a");
}

TEST_F(CompileTest, reportsACompilerThatWritesNoBundle) {
  EXPECT_EQ(text(compile(script("exit 0"), file("a.mlir"),
                         scratch.file("none.fcb"), {"--help"})),
            "expects a bundle of a.mlir, but the compiler wrote none");
}

TEST_F(CompileTest, reportsAMissingCompiler) {
  EXPECT_EQ(text(compile("/nonexistent/fc", file("a.mlir"), "a.fcb", {})),
            "cannot start /nonexistent/fc: No such file or directory\n"
            "  note: name the compiler with --compiler, or put it into PATH");
}

TEST_F(CompileTest, prefersTheChosenCompiler) {
  EXPECT_EQ(findCompiler("my-compiler"), "my-compiler");
  EXPECT_EQ(findCompiler("").filename(), "flashcore-compile");
}

TEST_F(CompileTest, reportsABadDirectoryForTemporaryFiles) {
  const char *set = std::getenv("TMPDIR");
  std::optional<std::string> before;
  if (set)
    before = set;
  scratch.write("file", "");
  const std::string start = "expects a directory for temporary files, but got ";
  const std::string remedy = "\n  note: set TMPDIR to a directory that exists";
  setenv("TMPDIR", scratch.file("none").c_str(), 1);
  EXPECT_EQ(text(TemporaryDirectory::create()),
            start + scratch.file("none") + ": No such file or directory" +
                remedy);
  setenv("TMPDIR", scratch.file("file").c_str(), 1);
  EXPECT_EQ(text(TemporaryDirectory::create()),
            start + scratch.file("file") + ": Not a directory" + remedy);
  setenv("TMPDIR", "/proc", 1); // takes no directories, not even of root
  EXPECT_EQ(text(TemporaryDirectory::create()),
            "cannot create a temporary directory in /proc: No such file or "
            "directory\n"
            "  note: set TMPDIR to a directory that can be written");
  setenv("TMPDIR", "", 1);
  StatusOr<TemporaryDirectory> directory = TemporaryDirectory::create();
  EXPECT_EQ(text(directory), "");
  if (directory.ok())
    EXPECT_EQ(directory->path().parent_path(), "/tmp");
  before ? setenv("TMPDIR", before->c_str(), 1) : unsetenv("TMPDIR");
}

TEST_F(CompileTest, aChildHasTheSignalsOfItsParent) {
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_IGN); // as in flashcoreRunMain
  std::string log = scratch.file("log");
  std::filesystem::path compiler =
      script("grep -E 'Sig(Blk|Ign)' /proc/self/status >" + log);
  EXPECT_EQ(text(compile(compiler, file("a.mlir"), output(), {})), "");
  for (int signal : {SIGPIPE, SIGXFSZ})
    std::signal(signal, SIG_DFL);
  // A line such as "SigBlk:\t0000000000000000" has a bit for each signal.
  std::string lines = *readFile(log);
  auto maskOf = [&](const char *name) {
    return std::stoull(lines.substr(lines.find(name) + 8, 16), nullptr, 16);
  };
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU})
    EXPECT_EQ(maskOf("SigBlk") >> (signal - 1) & 1, 0u) << lines;
  for (int signal : {SIGPIPE, SIGXFSZ})
    EXPECT_EQ(maskOf("SigIgn") >> (signal - 1) & 1, 0u) << lines;
}

TEST_F(CompileTest, removesItsTemporaryDirectory) {
  std::filesystem::path path;
  {
    StatusOr<TemporaryDirectory> directory = TemporaryDirectory::create();
    ASSERT_EQ(text(directory), "");
    path = directory->path();
    EXPECT_TRUE(std::filesystem::is_directory(path));
    TemporaryDirectory moved(std::move(*directory));
    EXPECT_EQ(moved.path(), path);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}
