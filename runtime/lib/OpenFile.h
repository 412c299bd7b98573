//===- OpenFile.h - Files and folders as descriptors ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is asked of a file and what is read from it must be the same file, even
// where someone else replaces names meanwhile. So it is opened first, and the
// questions go to the descriptor. Opening never waits, not even for a pipe.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPENFILE_H
#define FLASHCORE_RUNTIME_LIB_OPENFILE_H

#include "flashcore/Runtime/Status.h"

#include <cstdint>
#include <filesystem>

#include <sys/stat.h>

namespace flashcore {

class OpenFile {
public:
  /// A regular file; a link to one is followed.
  static StatusOr<OpenFile> file(const std::filesystem::path &path);
  static StatusOr<OpenFile> folder(const std::filesystem::path &path);

  OpenFile(OpenFile &&other) noexcept;
  OpenFile &operator=(OpenFile &&other) noexcept;
  ~OpenFile();

  /// A regular file in this folder. A link is refused: it may lead anywhere.
  StatusOr<OpenFile> child(const std::string &name) const;

  const std::filesystem::path &path() const { return shownPath; }
  const struct stat &info() const { return status; }
  /// Whether the path still leads here.
  bool isCurrent() const;

  /// The contents; an error when they are more than `maxBytes` or change while
  /// they are read.
  StatusOr<std::string> read(int64_t maxBytes) const;

private:
  OpenFile(std::filesystem::path path, int descriptor)
      : shownPath(std::move(path)), descriptor(descriptor) {}
  static StatusOr<OpenFile> open(int folder, const std::string &name,
                                 std::filesystem::path path, int flags);
  bool readInto(std::string &contents) const;

  std::filesystem::path shownPath;
  int descriptor;
  struct stat status = {};
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPENFILE_H
