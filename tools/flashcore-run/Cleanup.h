//===- Cleanup.h - Nothing is left behind by a signal -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Signals that someone ends this process by do so by their default action, but
// only after its child was ended and its temporary directories were removed.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_CLEANUP_H
#define FLASHCORE_RUN_CLEANUP_H

#include "flashcore/Runtime/Status.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace flashcore::run {

/// A directory that is removed with its owner, and on a signal.
class TemporaryDirectory {
public:
  static StatusOr<TemporaryDirectory> create();
  TemporaryDirectory(TemporaryDirectory &&other) noexcept
      : directory(std::exchange(other.directory, {})) {}
  TemporaryDirectory &operator=(TemporaryDirectory &&) = delete;
  ~TemporaryDirectory();

  const std::filesystem::path &path() const { return directory; }

private:
  explicit TemporaryDirectory(std::filesystem::path directory)
      : directory(std::move(directory)) {}
  std::filesystem::path directory;
};

/// Runs a program, found in PATH, and waits for it; its state as of waitpid. A
/// signal to this process is passed on. One child at a time.
StatusOr<int> runChild(std::vector<std::string> words);

} // namespace flashcore::run

#endif // FLASHCORE_RUN_CLEANUP_H
