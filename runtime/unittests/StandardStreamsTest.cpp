//===- StandardStreamsTest.cpp - Closed standard streams ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In a child, since the streams of the test are needed.
//
//===----------------------------------------------------------------------===//

#include "../../tools/StandardStreams.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Closes the streams whose bit is set in `closed` and opens them again; the
/// exit code has the bits of those that are /dev/null then.
static int openedAgain(unsigned closed) {
  pid_t child = fork();
  if (child == 0) {
    int other = open("/dev/zero", O_RDWR); // to tell them apart
    for (int stream = 0; stream <= 2; ++stream)
      if (closed >> stream & 1)
        close(stream);
      else
        dup2(other, stream);
    flashcore::openStandardStreams();
    struct stat null = {};
    stat("/dev/null", &null);
    unsigned opened = 0;
    for (int stream = 0; stream <= 2; ++stream) {
      struct stat info = {};
      if (fstat(stream, &info) == 0 && info.st_rdev == null.st_rdev)
        opened |= 1u << stream;
    }
    _exit(static_cast<int>(opened));
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

TEST(StandardStreamsTest, opensThoseThatAreClosedAndNoOther) {
  for (unsigned closed = 0; closed < 8; ++closed)
    EXPECT_EQ(openedAgain(closed), static_cast<int>(closed));
}
