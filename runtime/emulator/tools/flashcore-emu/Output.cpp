//===- Output.cpp - Standard streams of the tool --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Output.h.
//
//===----------------------------------------------------------------------===//

#include "Output.h"
#include "flashcore/Emulator/Printable.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace flashcore::emu;

/// Of the first write to standard output that failed.
static int outputError = 0;

void flashcore::emu::reserveStandardStreams() {
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(number, F_GETFD) != -1 || errno != EBADF)
      continue;
    // The lowest free number is this one. The wrong direction keeps its use an
    // error.
    int mode = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", mode) == -1)
      return;
  }
}

static bool print(std::FILE *stream, std::string_view text) {
  std::string safe = printable(text, Lines::Keep);
  return std::fwrite(safe.data(), 1, safe.size(), stream) == safe.size();
}

void flashcore::emu::printOut(std::string_view text) {
  errno = 0;
  if (!print(stdout, text) && !outputError)
    outputError = errno ? errno : EIO;
}

/// A flush that fails drops the text, so that a later one has nothing to say.
static void flushOut() {
  errno = 0;
  if (std::fflush(stdout) && !outputError)
    outputError = errno ? errno : EIO;
}

void flashcore::emu::printError(std::string_view text) {
  // What came before on standard output stays before it on a terminal.
  flushOut();
  print(stderr, text);
}

std::string flashcore::emu::finishOutput() {
  flushOut();
  return outputError ? std::string("cannot write to standard output: ") +
                           std::strerror(outputError)
                     : std::string();
}
