//===- OutputFile.h - Files that are written whole or not at all -*- C++ -*-==//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every tool writes its files with: a new file beside the old one takes
// its place when it is whole. After an error, and after a signal, the old file
// is as it was, and there is no other.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TOOLS_OUTPUTFILE_H
#define FLASHCORE_TOOLS_OUTPUTFILE_H

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace flashcore {

/// Signals that end a process by someone's wish; SIGABRT may be its own.
inline constexpr int kEndingSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE,
                                         SIGALRM, SIGTERM, SIGUSR1, SIGUSR2,
                                         SIGXCPU, SIGABRT};

/// The new file of the process that is not in its place yet, if any. Never
/// freed while it is here: a signal handler may read it.
inline std::atomic<const char *> unfinishedFile = nullptr;

/// For who ends the process by a signal; a signal handler may call it.
inline void removeUnfinishedFile() {
  if (const char *path = unfinishedFile.exchange(nullptr))
    unlink(path);
}

/// Holds signals back in this thread. Where another one takes them, that one
/// calls removeUnfinishedFile().
class EndingSignalsHeld {
public:
  EndingSignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (int signal : kEndingSignals)
      sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before);
  }
  ~EndingSignalsHeld() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  EndingSignalsHeld(const EndingSignalsHeld &) = delete;
  EndingSignalsHeld &operator=(const EndingSignalsHeld &) = delete;

private:
  sigset_t before;
};

/// A file at a path. Devices, pipes and what links of /proc lead to have no
/// place for another file: they are written at once. /dev/stdout and its like
/// are the stream itself, and go on where that is.
class OutputFile {
public:
  explicit OutputFile(const std::filesystem::path &path) { openPath(path); }
  ~OutputFile() {
    if (file >= 0)
      close(file);
    if (!partial.empty())
      discard();
  }
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(std::string_view data) {
    while (!error && !data.empty()) {
      ssize_t written = ::write(file, data.data(), data.size());
      if (written >= 0)
        data.remove_prefix(static_cast<size_t>(written));
      else if (errno != EINTR)
        error = errno;
    }
  }

  /// Puts the file in its place; 0, or the errno of what failed first.
  int commit() {
    // A file system over a network may only now say that it is full.
    if (file >= 0 && close(file) != 0 && !error && errno != EINTR)
      error = errno;
    file = -1;
    if (!error && !partial.empty()) {
      if (rename(partial.c_str(), place.c_str()) == 0)
        finish();
      else
        error = errno;
    }
    return error;
  }

private:
  static constexpr mode_t kMode = 0666; // less the umask

  /// A link to a file is replaced itself, as by rename: it may be planted. What
  /// is no file is written by way of it.
  void openPath(const std::filesystem::path &output) {
    std::filesystem::path path = output;
    constexpr int maxLinks = 40; // as of Linux
    for (int links = 0; links < maxLinks; ++links) {
      struct stat info = {};
      bool isThere = lstat(path.c_str(), &info) == 0;
      if (isThere ? S_ISREG(info.st_mode) : errno == ENOENT)
        return makeBeside(output);
      if (!isThere || !S_ISLNK(info.st_mode))
        break;
      if (isInProc(path))
        return openInProc(path);
      std::error_code failed;
      std::filesystem::path target =
          std::filesystem::read_symlink(path, failed);
      if (failed)
        break;
      path = path.parent_path() / target; // which may be absolute
    }
    openInPlace(output);
  }

  static bool isInProc(const std::filesystem::path &path) {
    std::string folder = path.parent_path().string();
    struct statfs system = {};
    return statfs(folder.empty() ? "." : folder.c_str(), &system) == 0 &&
           system.f_type == PROC_SUPER_MAGIC;
  }

  void keep(int opened) {
    file = opened;
    error = file < 0 ? errno : 0;
  }

  void openInPlace(const std::filesystem::path &path) {
    keep(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  }

  void openInProc(const std::filesystem::path &path) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(path.parent_path(), "/proc/self/fd",
                                     ignored))
      return openInPlace(path);
    keep(fcntl(std::atoi(path.filename().c_str()), F_DUPFD_CLOEXEC, 3));
  }

  /// A new file; its name is not known before, so that nothing can lie in wait
  /// for it.
  void makeBeside(const std::filesystem::path &path) {
    place = path;
    // What open() would refuse to write is not replaced either.
    struct stat old = {};
    bool isOld = stat(place.c_str(), &old) == 0;
    if (isOld && access(place.c_str(), W_OK) != 0) {
      error = errno;
      return;
    }
    held.emplace();
    constexpr int maxAttempts = 100;
    int attempts = 0;
    do {
      unsigned random = 0;
      if (getentropy(&random, sizeof(random)) != 0)
        random = static_cast<unsigned>(getpid());
      std::string name = ".flashcore-" + std::to_string(random);
      partial = std::filesystem::path(place).replace_filename(name).string();
      keep(open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                kMode));
    } while (error == EEXIST && ++attempts < maxAttempts);
    if (error)
      return partial.clear();
    const char *none = nullptr;
    unfinishedFile.compare_exchange_strong(none, partial.c_str());
    if (isOld && fchmod(file, old.st_mode & 07777) != 0)
      error = errno;
  }

  void discard() {
    unlink(partial.c_str());
    finish();
  }
  /// Nothing is left to remove.
  void finish() {
    const char *mine = partial.c_str();
    unfinishedFile.compare_exchange_strong(mine, nullptr);
    partial.clear();
  }

  /// First, so that it outlives the file.
  std::optional<EndingSignalsHeld> held;
  /// What the new file replaces, and its own path; empty where there is none.
  std::filesystem::path place;
  std::string partial;
  int file = -1, error = 0;
};

/// Replaces the contents of the file at `path`; 0, or an errno.
inline int writeWholeFile(const std::filesystem::path &path,
                          std::string_view data) {
  OutputFile file(path);
  file.write(data);
  return file.commit();
}

} // namespace flashcore

#endif // FLASHCORE_TOOLS_OUTPUTFILE_H
