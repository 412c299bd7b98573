//===- OutputFileTest.cpp - Files that are written whole or not at all ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../tools/OutputFile.h"
#include "TestBundle.h"
#include "gtest/gtest.h"

#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>

using namespace flashcore;
using flashcore::testing::ScratchDirectory;

namespace {
class OutputFileTest : public ::testing::Test {
protected:
  std::string read(const std::string &name) {
    std::ostringstream text;
    text << std::ifstream(scratch.file(name)).rdbuf();
    return text.str();
  }
  /// Names in the directory, in any order.
  std::set<std::string> names() {
    std::set<std::string> found;
    for (auto &entry : std::filesystem::directory_iterator(scratch.path()))
      found.insert(entry.path().filename());
    return found;
  }

  ScratchDirectory scratch;
};

TEST_F(OutputFileTest, ReplacesAFileWhole) {
  scratch.write("a", "old and longer");
  chmod(scratch.file("a").c_str(), 0640);
  OutputFile file(scratch.file("a"));
  file.write("n");
  EXPECT_EQ(read("a"), "old and longer");
  file.write("ew");
  EXPECT_EQ(file.commit(), 0);
  EXPECT_EQ(read("a"), "new");
  struct stat info = {};
  stat(scratch.file("a").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(OutputFileTest, ANewFileHasTheModeOfTheUmask) {
  mode_t before = umask(027);
  EXPECT_EQ(writeWholeFile(scratch.file("a"), "text"), 0);
  umask(before);
  struct stat info = {};
  stat(scratch.file("a").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

// A limit stands in for a full disk.
TEST_F(OutputFileTest, AnErrorLeavesTheOldFile) {
  scratch.write("a", "old");
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = {1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  int error = writeWholeFile(scratch.file("a"), std::string(2000, 'x'));
  int errorOfNew = writeWholeFile(scratch.file("b"), std::string(2000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignored);
  EXPECT_EQ(error, EFBIG);
  EXPECT_EQ(errorOfNew, EFBIG);
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

// Someone else may have made it.
TEST_F(OutputFileTest, ALinkToAFileIsReplaced) {
  scratch.write("victim", "precious");
  std::filesystem::create_symlink("victim", scratch.file("link"));
  std::filesystem::create_symlink("none", scratch.file("dangling"));
  for (const char *name : {"link", "dangling"}) {
    EXPECT_EQ(writeWholeFile(scratch.file(name), "text"), 0);
    EXPECT_FALSE(std::filesystem::is_symlink(scratch.file(name)));
    EXPECT_EQ(read(name), "text");
  }
  EXPECT_EQ(read("victim"), "precious");
  std::filesystem::create_symlink("loop", scratch.file("loop"));
  EXPECT_EQ(writeWholeFile(scratch.file("loop"), "text"), ELOOP);
}

TEST_F(OutputFileTest, WritesDevicesAndPipesAtOnce) {
  EXPECT_EQ(writeWholeFile("/dev/null", "text"), 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(writeWholeFile("/dev/full", "text"), ENOSPC);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  std::filesystem::create_symlink("/dev/full", scratch.file("full"));
  EXPECT_EQ(writeWholeFile(scratch.file("full"), "text"), ENOSPC);
  EXPECT_EQ(writeWholeFile(scratch.path(), "text"), EISDIR);

  ASSERT_EQ(mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read("pipe"); });
  EXPECT_EQ(writeWholeFile(scratch.file("pipe"), "text"), 0);
  reader.join();
  EXPECT_EQ(got, "text");
  EXPECT_TRUE(std::filesystem::is_fifo(scratch.file("pipe")));
}

// As after `> file` of a shell: the stream goes on where it is.
TEST_F(OutputFileTest, AStreamOfTheProcessGoesOn) {
  int stream = open(scratch.file("a").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_EQ(write(stream, "one ", 4), 4);
  std::string path = "/dev/fd/" + std::to_string(stream);
  EXPECT_EQ(writeWholeFile(path, "two "), 0);
  ASSERT_EQ(write(stream, "three", 5), 5);
  close(stream);
  EXPECT_EQ(read("a"), "one two three");
  EXPECT_EQ(writeWholeFile(path, "text"), ENOENT);
}

/// Ends a process that has written a part of the file, and says by what.
int interrupt(const std::filesystem::path &path, bool isOtherThread) {
  pid_t child = fork();
  if (child == 0) {
    {
      OutputFile file(path);
      file.write("new");
      if (isOtherThread)
        std::thread([] {
          removeUnfinishedFile();
          _exit(0);
        }).join();
      raise(SIGTERM); // comes when the file is gone
      file.write("more");
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST_F(OutputFileTest, ASignalLeavesTheOldFile) {
  scratch.write("a", "old");
  EXPECT_EQ(interrupt(scratch.file("a"), /*isOtherThread=*/false), SIGTERM);
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
  interrupt(scratch.file("a"), /*isOtherThread=*/true);
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}
} // namespace
