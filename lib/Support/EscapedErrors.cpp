//===- EscapedErrors.cpp - Messages of others for a terminal --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/EscapedErrors.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/ErrorStream.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir::flashcore;

/// Copies `from` to the standard error until no one can write to it any more.
[[noreturn]] static void escapeAll(int from) {
  // Whoever reads the output of the process waits for the process only.
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  char text[1 << 12];
  for (;;) {
    ssize_t size = read(from, text, sizeof(text));
    if (size > 0)
      getErrorStream() << llvm::StringRef(text, static_cast<size_t>(size));
    else if (size == 0 || errno != EINTR)
      _exit(0);
  }
}

llvm::Error EscapedErrors::start() {
  auto fail = [] {
    int error = errno;
    return llvm::createStringError(
        std::error_code(error, std::generic_category()),
        "cannot start the process that writes messages: %s", strerror(error));
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return fail();
  original = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (original < 0)
    return fail();
  // Ctrl-C goes to both; the child's end is that of what it reads.
  SignalBlocker blocker;
  child = fork();
  if (child == 0) {
    close(ends[1]);
    close(original);
    // A reader of messages who is gone ends both, as ever.
    signal(SIGPIPE, SIG_DFL);
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &pipe, nullptr);
    escapeAll(ends[0]);
  }
  close(ends[0]);
  if (child > 0)
    dup2(ends[1], STDERR_FILENO);
  llvm::Error result = child > 0 ? llvm::Error::success() : fail();
  close(ends[1]);
  return result;
}

void EscapedErrors::finish() {
  if (child <= 0)
    return;
  dup2(original, STDERR_FILENO);
  close(original);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
    ;
  child = 0;
}
