//===- Cleanup.cpp - Nothing is left behind by a signal -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A signal handler may not remove a directory, so a thread waits for the
// signals, which all others block. It takes the lock for good: whoever waits
// for it then, to start or to remove something, does not come to it any more.
// It takes the signal with the lock held, so that who has the lock sees whether
// one is on its way.
//
//===----------------------------------------------------------------------===//

#include "Cleanup.h"
#include "../OutputFile.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace flashcore;
using namespace flashcore::run;

namespace {
/// What a signal ends and removes.
struct Belongings {
  std::mutex mutex;
  std::set<std::filesystem::path> directories;
  pid_t child = 0;
  /// The signals that the thread waits for, and those that were blocked at the
  /// start.
  sigset_t watched, originalMask;
};
} // namespace

/// Never destroyed: the thread may use it while the process ends.
static Belongings &belongings() {
  static auto *instance = new Belongings;
  return *instance;
}

/// Whether the child has ended; it stays to be reaped by who started it.
static bool hasEnded(pid_t child, int options) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(child), &info,
                WEXITED | WNOWAIT | options) != 0 ||
         info.si_pid == child;
}

/// Gives the child two seconds to clean up after itself.
static void endChild(pid_t child, int signal) {
  kill(child, signal);
  for (int i = 0; i < 200; ++i) {
    if (hasEnded(child, WNOHANG))
      return;
    usleep(10'000);
  }
  kill(child, SIGKILL);
  hasEnded(child, 0);
}

/// `arrivals` can be read once there is a signal.
static void waitForSignals(int arrivals) {
  pollfd wait = {arrivals, POLLIN, 0};
  while (poll(&wait, 1, -1) < 0)
    if (errno != EINTR)
      return;
  Belongings &mine = belongings();
  mine.mutex.lock();
  int signal = 0;
  if (sigwait(&mine.watched, &signal))
    return mine.mutex.unlock();
  // To a compiler SIGABRT would be a crash of its own, to report.
  if (mine.child)
    endChild(mine.child, signal == SIGABRT ? SIGTERM : signal);
  removeUnfinishedFile();
  std::error_code ignored;
  for (const std::filesystem::path &directory : mine.directories)
    std::filesystem::remove_all(directory, ignored);
  // Whoever waits for this process learns which signal ended it.
  std::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal);
}

/// Starts the thread, once. Threads that are started later block the signals
/// too. What was ignored, as SIGHUP is under nohup, stays so.
static void watchSignals() {
  static std::once_flag once;
  std::call_once(once, [] {
    sigset_t &watched = belongings().watched;
    sigemptyset(&watched);
    for (int signal : kEndingSignals) {
      struct sigaction action = {};
      if (sigaction(signal, nullptr, &action) == 0 &&
          action.sa_handler == SIG_DFL)
        sigaddset(&watched, signal);
    }
    sigset_t &original = belongings().originalMask;
    pthread_sigmask(SIG_BLOCK, &watched, &original);
    int arrivals = signalfd(-1, &watched, SFD_CLOEXEC);
    try {
      if (arrivals >= 0)
        return std::thread(waitForSignals, arrivals).detach();
    } catch (const std::system_error &) {
      close(arrivals);
    }
    // Signals end us as if unwatched.
    pthread_sigmask(SIG_SETMASK, &original, nullptr);
    sigemptyset(&watched);
  });
}

/// Whether a signal has come that the thread has not taken yet.
static bool isSignalled() {
  sigset_t pending;
  sigpending(&pending);
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&pending, signal) == 1 &&
        sigismember(&belongings().watched, signal) == 1)
      return true;
  return false;
}

StatusOr<TemporaryDirectory> TemporaryDirectory::create() {
  std::error_code error;
  const char *chosen = std::getenv("TMPDIR");
  // An empty name is none, but not to the library.
  std::filesystem::path parent =
      chosen && !*chosen ? "/tmp" : std::filesystem::temp_directory_path(error);
  if (error)
    return Status::error("expects a directory for temporary files, but got " +
                         std::string(chosen ? chosen : "/tmp") + ": " +
                         error.message())
        .note("set TMPDIR to a directory that exists");
  watchSignals();
  std::lock_guard<std::mutex> lock(belongings().mutex);
  std::string name = (parent / "flashcore-run-XXXXXX").string();
  if (!mkdtemp(name.data()))
    return Status::error("cannot create a temporary directory in " +
                         parent.string() + ": " + std::strerror(errno))
        .note("set TMPDIR to a directory that can be written");
  belongings().directories.insert(name);
  return TemporaryDirectory(name);
}

TemporaryDirectory::~TemporaryDirectory() {
  if (directory.empty())
    return;
  std::lock_guard<std::mutex> lock(belongings().mutex);
  std::error_code ignored; // a leftover directory is not worth a message
  std::filesystem::remove_all(directory, ignored);
  belongings().directories.erase(directory);
}

namespace {
/// Gives a child the signals as this process found them.
class SpawnAttributes {
public:
  SpawnAttributes() {
    sigset_t ignoredHere;
    sigemptyset(&ignoredHere);
    for (int signal : {SIGPIPE, SIGXFSZ}) // flashcoreRunMain ignores them
      sigaddset(&ignoredHere, signal);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &belongings().originalMask);
    posix_spawnattr_setsigdefault(&attributes, &ignoredHere);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes); }

  posix_spawnattr_t attributes;
};
} // namespace

StatusOr<int> flashcore::run::runChild(std::vector<std::string> words) {
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  watchSignals();
  Belongings &mine = belongings();
  pid_t child = 0;
  {
    std::lock_guard<std::mutex> lock(mine.mutex);
    SpawnAttributes spawn;
    if (int error = posix_spawnp(&child, argv[0], nullptr, &spawn.attributes,
                                 argv.data(), environ))
      return Status::error("cannot start " + words[0] + ": " +
                           std::strerror(error));
    mine.child = child;
  }
  // Reaped under the lock, so that no signal goes to a number that is free.
  hasEnded(child, 0);
  std::unique_lock<std::mutex> lock(mine.mutex);
  // What came to both, as from Ctrl-C, ends both: the thread does so next.
  while (isSignalled()) {
    lock.unlock();
    usleep(1000);
    lock.lock();
  }
  mine.child = 0;
  int state = 0;
  while (waitpid(child, &state, 0) < 0)
    if (errno != EINTR)
      return Status::error("cannot wait for " + words[0] + ": " +
                           std::strerror(errno));
  return state;
}
