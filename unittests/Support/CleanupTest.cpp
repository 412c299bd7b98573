//===- CleanupTest.cpp - What a signal must not leave behind --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/Cleanup.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <cerrno>
#include <fcntl.h>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir::flashcore;
namespace fs = llvm::sys::fs;

namespace {
class Cleanup : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(fs::createUniqueDirectory("flashcore-cleanup", directory));
  }
  void TearDown() override { fs::remove_directories(directory); }

  std::string path(llvm::StringRef name) const {
    return (directory + "/" + name).str();
  }
  size_t countEntries() const {
    size_t count = 0;
    std::error_code ec;
    for (fs::directory_iterator it(directory, ec), end; it != end && !ec;
         it.increment(ec))
      ++count;
    return count;
  }
  static void write(llvm::StringRef path) {
    std::error_code ec;
    llvm::raw_fd_ostream(path, ec) << "text";
    ASSERT_FALSE(ec);
  }
  TemporaryDirectory make(bool isPrivate = true) {
    return llvm::cantFail(TemporaryDirectory::create(path("tmp-"), isPrivate));
  }
  /// What ended a process that did `work` with the handlers in place.
  template <typename Work> static int runInProcess(Work work) {
    pid_t child = fork();
    if (child == 0) {
      handleSignals();
      work();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  llvm::SmallString<128> directory;
};

TEST_F(Cleanup, RemovesTheDirectoryWithItsFiles) {
  {
    TemporaryDirectory temporary = make();
    write(temporary.file("a"));
    temporary.file("never-written");
    TemporaryDirectory moved = std::move(temporary);
    write(moved.file("b"));
    EXPECT_TRUE(fs::exists(moved.path() + "/a"));
  }
  EXPECT_EQ(countEntries(), 0u);
}

TEST_F(Cleanup, KeepsWhatItDoesNotKnow) {
  std::string kept;
  {
    TemporaryDirectory temporary = make();
    kept = temporary.path() + "/foreign";
    write(kept);
    write(temporary.file("ours"));
  }
  EXPECT_TRUE(fs::exists(kept));
  EXPECT_EQ(countEntries(), 1u);
}

TEST_F(Cleanup, LeavesWhatIsReleased) {
  {
    TemporaryDirectory temporary = make();
    write(temporary.file("a"));
    temporary.release();
  }
  EXPECT_EQ(countEntries(), 1u);
}

TEST_F(Cleanup, PrivateDirectoriesAreForTheirUserOnly) {
  mode_t before = umask(0022);
  TemporaryDirectory mine = make(/*isPrivate=*/true);
  TemporaryDirectory ours = make(/*isPrivate=*/false);
  umask(before);
  EXPECT_EQ(
      llvm::cantFail(llvm::errorOrToExpected(fs::getPermissions(mine.path()))),
      fs::perms(0700));
  EXPECT_EQ(
      llvm::cantFail(llvm::errorOrToExpected(fs::getPermissions(ours.path()))),
      fs::perms(0755));
}

TEST_F(Cleanup, NamesTheReasonWhenThereIsNoPlace) {
  auto temporary =
      TemporaryDirectory::create(path("missing/tmp-"), /*isPrivate=*/true);
  EXPECT_EQ(llvm::toString(temporary.takeError()), "No such file or directory");
}

TEST_F(Cleanup, ASignalRemovesDirectoriesAndStillEndsTheProcess) {
  for (int signal : {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU}) {
    EXPECT_EQ(runInProcess([&] {
                TemporaryDirectory first = make(), second = make();
                write(first.file("a"));
                write(second.file("b"));
                raise(signal);
              }),
              signal);
    EXPECT_EQ(countEntries(), 0u) << signal;
  }
}

TEST_F(Cleanup, ASignalEndsTheChildren) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto startChild = [] {
    pid_t child = fork();
    if (child == 0)
      while (true)
        pause(); // holds the pipe open
    addChildProcess(child);
    return child;
  };
  EXPECT_EQ(runInProcess([&] {
              startChild();
              pid_t gone = startChild();
              startChild();
              kill(gone, SIGKILL);
              waitpid(gone, nullptr, 0);
              dropChildProcess(gone);
              raise(SIGTERM);
            }),
            SIGTERM);
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0); // returns once nobody holds it
  close(ends[0]);
}

TEST_F(Cleanup, AnIgnoredSignalStaysIgnored) {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  EXPECT_EQ(runInProcess([] { raise(SIGHUP); }), 0);
  sigaction(SIGHUP, &before, nullptr);
}

TEST_F(Cleanup, AFileOverTheLimitIsAnError) {
  EXPECT_EQ(runInProcess([&] {
              rlimit limit = {0, 0};
              setrlimit(RLIMIT_FSIZE, &limit);
              int file = open(path("a").c_str(), O_CREAT | O_WRONLY, 0600);
              if (::write(file, "x", 1) != -1 || errno != EFBIG)
                raise(SIGABRT);
            }),
            0);
}

TEST_F(Cleanup, ABlockedSignalWaits) {
  EXPECT_EQ(runInProcess([&] {
              {
                SignalBlocker blocker;
                raise(SIGTERM);
                write(path("done"));
              }
              _exit(1);
            }),
            SIGTERM);
  EXPECT_TRUE(fs::exists(path("done")));
}
} // namespace
