//===- Process.cpp - Running another program ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Own code and not llvm::sys::ExecuteAndWait, which writes a program's words to
// a file, that may be on a full disk, and does not say which child to end when
// a signal comes.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/Process.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/Errors.h"
#include "llvm/ADT/SmallVector.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace mlir::flashcore;

/// Starts the program with its words going to `words`; an errno, or 0.
static int start(const std::string &program, ArrayRef<char *> argv, int words,
                 pid_t &child) {
  // Of the parent's own masks and handlers the child gets nothing.
  SignalBlocker blocker;
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &blocker.previous());
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, words, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
  int error = posix_spawn(&child, program.c_str(), &actions, &attributes,
                          argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!error)
    addChildProcess(child);
  return error;
}

static std::string readAll(int descriptor) {
  std::string text;
  char buffer[4096];
  while (true) {
    ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0)
      text.append(buffer, static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR)
      return text;
  }
}

static int waitFor(pid_t child) {
  // As long as nobody has asked how it ended, no other process has its number.
  siginfo_t info;
  while (waitid(P_PID, child, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
    ;
  dropChildProcess(child);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return status;
}

Expected<std::string> mlir::flashcore::runProgram(StringRef program,
                                                  ArrayRef<StringRef> args) {
  SmallVector<std::string> words{program.str()};
  for (StringRef arg : args)
    words.push_back(arg.str());
  SmallVector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return formatError("cannot run '{0}': {1}", program, std::strerror(errno));
  pid_t child = 0;
  int error = start(words.front(), argv, ends[1], child);
  close(ends[1]);
  if (error) {
    close(ends[0]);
    return formatError("cannot run '{0}': {1}", program, std::strerror(error));
  }
  std::string text = readAll(ends[0]);
  close(ends[0]);
  int status = waitFor(child);
  if (WIFSIGNALED(status))
    return formatError("'{0}' was ended by signal {1} ({2})\n{3}", program,
                       WTERMSIG(status), strsignal(WTERMSIG(status)), text);
  if (WEXITSTATUS(status) != 0)
    return formatError("'{0}' failed with status {1}\n{2}", program,
                       WEXITSTATUS(status), text);
  return text;
}
