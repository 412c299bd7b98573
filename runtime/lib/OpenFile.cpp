//===- OpenFile.cpp - Files and folders as descriptors --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// O_NONBLOCK makes opening a pipe return at once; it has no effect on the
// regular files that are read in the end.
//
//===----------------------------------------------------------------------===//

#include "OpenFile.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace flashcore;

static Status cannotRead(const std::filesystem::path &path, int error) {
  return Status::error(path.string() + ": cannot read the file: " +
                       std::strerror(error ? error : EIO));
}

static const char *describe(mode_t mode) {
  return S_ISDIR(mode)    ? "a directory"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISLNK(mode)  ? "a link"
                          : "a device";
}

StatusOr<OpenFile> OpenFile::open(int folder, const std::string &name,
                                  std::filesystem::path path, int flags) {
  int descriptor = openat(folder, name.c_str(),
                          O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  if (descriptor < 0 && errno == ELOOP && (flags & O_NOFOLLOW))
    return Status::error(path.string() + ": expects a file, but got a link")
        .note("a link may lead anywhere: put the file itself there");
  if (descriptor < 0)
    return cannotRead(path, errno);
  OpenFile result(std::move(path), descriptor);
  if (fstat(descriptor, &result.status))
    return cannotRead(result.shownPath, errno);
  if (!(flags & O_DIRECTORY) && !S_ISREG(result.status.st_mode))
    return Status::error(result.shownPath.string() +
                         ": expects a file, but got " +
                         describe(result.status.st_mode));
  return result;
}

StatusOr<OpenFile> OpenFile::file(const std::filesystem::path &path) {
  return open(AT_FDCWD, path.string(), path, 0);
}

StatusOr<OpenFile> OpenFile::folder(const std::filesystem::path &path) {
  return open(AT_FDCWD, path.string(), path, O_DIRECTORY);
}

StatusOr<OpenFile> OpenFile::child(const std::string &name) const {
  return open(descriptor, name, shownPath / name, O_NOFOLLOW);
}

OpenFile::OpenFile(OpenFile &&other) noexcept
    : shownPath(std::move(other.shownPath)),
      descriptor(std::exchange(other.descriptor, -1)), status(other.status) {}

OpenFile &OpenFile::operator=(OpenFile &&other) noexcept {
  std::swap(shownPath, other.shownPath);
  std::swap(descriptor, other.descriptor);
  std::swap(status, other.status);
  return *this;
}

OpenFile::~OpenFile() {
  if (descriptor >= 0)
    close(descriptor);
}

bool OpenFile::isCurrent() const {
  struct stat now = {};
  return stat(shownPath.c_str(), &now) == 0 && now.st_dev == status.st_dev &&
         now.st_ino == status.st_ino;
}

/// Fills `contents`; false with errno, which is 0 at an early end.
bool OpenFile::readInto(std::string &contents) const {
  size_t filled = 0;
  while (filled < contents.size()) {
    ssize_t count =
        ::read(descriptor, &contents[filled], contents.size() - filled);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      errno = count ? errno : 0;
      return false;
    }
    filled += static_cast<size_t>(count);
  }
  return true;
}

StatusOr<std::string> OpenFile::read(int64_t maxBytes) const {
  std::string file = shownPath.string();
  if (status.st_size > maxBytes)
    return Status::error(file + ": expects at most " +
                         std::to_string(maxBytes) + " bytes, but got " +
                         std::to_string(status.st_size));
  std::string contents;
  try {
    contents.resize(static_cast<size_t>(status.st_size));
  } catch (const std::exception &) { // bad_alloc or length_error
    return Status::error(file + ": cannot allocate " +
                         std::to_string(status.st_size) +
                         " bytes of host memory to read the file");
  }
  bool isWhole = readInto(contents);
  if (!isWhole && errno)
    return cannotRead(shownPath, errno);
  struct stat after = {};
  if (!isWhole || fstat(descriptor, &after) ||
      after.st_size != status.st_size ||
      after.st_mtim.tv_sec != status.st_mtim.tv_sec ||
      after.st_mtim.tv_nsec != status.st_mtim.tv_nsec)
    return Status::error(file + ": the file changed while it was read")
        .note("wait until its writer is done");
  return contents;
}
