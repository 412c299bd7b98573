//===- Cleanup.h - What a signal must not leave behind ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Temporary directories and child processes are known to a registry, so that a
// tool that is interrupted can remove the ones and end the others. Libraries
// register; only a tool calls `handleSignals`.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_CLEANUP_H
#define FLASHCORE_SUPPORT_CLEANUP_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <csignal>
#include <string>
#include <vector>

namespace mlir::flashcore {

/// From now on a signal that someone ends the process by (Ctrl-C and its like)
/// and a crash remove what is registered, and then end the process as ever. A
/// signal that is ignored stays so, and SIGXFSZ is ignored.
void handleSignals();

/// Finds out which signals are ignored; for before LLVM handles them.
void noteIgnoredSignals();

/// Removes what is registered. May be called from a signal handler.
void removeTemporaries();

/// Holds the signals back while it lives: for steps that are short and must be
/// done as one.
class SignalBlocker {
public:
  SignalBlocker();
  ~SignalBlocker();
  SignalBlocker(const SignalBlocker &) = delete;
  SignalBlocker &operator=(const SignalBlocker &) = delete;

  /// What was blocked before; of use to a child.
  const sigset_t &previous() const { return before; }

private:
  sigset_t before;
};

/// A directory with files that are known by name. It goes, with these files and
/// never with others, when its owner does or when a signal ends the process.
class TemporaryDirectory {
public:
  /// Makes a directory whose path is `prefix` and eight characters, for all
  /// that the umask allows, or (`isPrivate`) for this user only.
  static llvm::Expected<TemporaryDirectory> create(llvm::StringRef prefix,
                                                   bool isPrivate);
  TemporaryDirectory(TemporaryDirectory &&other) = default;
  TemporaryDirectory &operator=(TemporaryDirectory &&other) = delete;
  ~TemporaryDirectory();

  const std::string &path() const { return entries.front().path; }
  /// The path of a file in the directory, which may come to be.
  std::string file(llvm::StringRef name);
  /// Forgets all paths without removing anything: they are another's now.
  void release();

private:
  /// A path and the place where signal handlers find it.
  struct Entry {
    std::string path;
    size_t slot;
  };

  TemporaryDirectory() = default;
  /// The directory, then its files.
  std::vector<Entry> entries;
};

/// A child that a signal ends with the process, until it is gone.
void addChildProcess(pid_t child);
void dropChildProcess(pid_t child);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_CLEANUP_H
