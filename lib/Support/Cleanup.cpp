//===- Cleanup.cpp - What a signal must not leave behind ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A signal handler may neither allocate nor lock, so paths and children lie in
// fixed arrays, and each is taken out with one exchange.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/Cleanup.h"
#include "../../tools/OutputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Signals.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unistd.h>

using namespace mlir::flashcore;
using ::flashcore::kEndingSignals;

/// More than some compilations at once need. What finds no place is only
/// removed by its owner.
static constexpr size_t kNumSlots = 256;
static std::array<std::atomic<char *>, kNumSlots> slots;
static std::array<std::atomic<pid_t>, kNumSlots> children;

static size_t addPath(const std::string &path) {
  char *copy = strdup(path.c_str());
  for (size_t slot = 0; slot < kNumSlots; ++slot) {
    char *empty = nullptr;
    if (slots[slot].compare_exchange_strong(empty, copy))
      return slot;
  }
  free(copy);
  return kNumSlots;
}

static void dropPath(size_t slot) {
  if (slot < kNumSlots)
    free(slots[slot].exchange(nullptr));
}

/// Puts `after` into the first place with `before`.
static void replaceChild(pid_t before, pid_t after) {
  for (auto &child : children) {
    pid_t expected = before;
    if (child.compare_exchange_strong(expected, after))
      return;
  }
}

void mlir::flashcore::addChildProcess(pid_t child) { replaceChild(0, child); }
void mlir::flashcore::dropChildProcess(pid_t child) { replaceChild(child, 0); }

void mlir::flashcore::removeTemporaries() {
  ::flashcore::removeUnfinishedFile();
  for (auto &slot : children)
    if (pid_t child = slot.exchange(0))
      kill(child, SIGKILL);
  // Files first: a directory must be empty to go.
  for (auto &slot : slots)
    if (char *path = slot.load())
      unlink(path);
  for (auto &slot : slots)
    if (char *path = slot.load())
      rmdir(path);
}

static void onSignal(int signal) {
  removeTemporaries();
  llvm::sys::RunInterruptHandlers(); // the output files of LLVM's tools
  // The handler is gone (SA_RESETHAND): this ends the process as if there had
  // never been one, so that a shell sees why.
  raise(signal);
}

/// Of nohup, or a shell's background job; LLVM would handle them all the same.
static std::vector<int> ignoredSignals;

void mlir::flashcore::noteIgnoredSignals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (int signal : kEndingSignals) {
      struct sigaction now = {};
      if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN)
        ignoredSignals.push_back(signal);
    }
  });
}

void mlir::flashcore::handleSignals() {
  noteIgnoredSignals();
  llvm::sys::AddSignalHandler([](void *) { removeTemporaries(); }, nullptr);
  for (int signal : kEndingSignals) {
    if (signal == SIGABRT)
      continue; // LLVM reports it as a crash, which comes to us as well
    struct sigaction action = {};
    bool isIgnored = llvm::is_contained(ignoredSignals, signal);
    action.sa_handler = isIgnored ? SIG_IGN : onSignal;
    action.sa_flags = SA_RESETHAND | SA_NODEFER;
    sigaction(signal, &action, nullptr);
  }
  // A file over the limit of ulimit -f is an error like a full disk. LLVM would
  // report a crash.
  signal(SIGXFSZ, SIG_IGN);
}

SignalBlocker::SignalBlocker() {
  sigset_t blocked;
  sigemptyset(&blocked);
  for (int signal : kEndingSignals)
    sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
}

SignalBlocker::~SignalBlocker() {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

llvm::Expected<TemporaryDirectory>
TemporaryDirectory::create(llvm::StringRef prefix, bool isPrivate) {
  namespace fs = llvm::sys::fs;
  SignalBlocker blocker;
  for (int attempts = 0;; ++attempts) {
    llvm::SmallString<128> path;
    fs::createUniquePath(prefix + "%%%%%%%%", path, /*MakeAbsolute=*/false);
    std::error_code ec =
        fs::create_directory(path, /*IgnoreExisting=*/false,
                             isPrivate ? fs::owner_all : fs::all_all);
    if (ec == std::errc::file_exists && attempts < 100)
      continue;
    if (ec)
      return llvm::createStringError(ec, ec.message());
    TemporaryDirectory directory;
    directory.entries.push_back(
        {std::string(path), addPath(std::string(path))});
    return std::move(directory);
  }
}

std::string TemporaryDirectory::file(llvm::StringRef name) {
  std::string file = path() + "/" + name.str();
  entries.push_back({file, addPath(file)});
  return file;
}

void TemporaryDirectory::release() {
  for (const Entry &entry : entries)
    dropPath(entry.slot);
  entries.clear();
}

TemporaryDirectory::~TemporaryDirectory() {
  for (size_t i = entries.size(); i > 1; --i)
    unlink(entries[i - 1].path.c_str());
  if (!entries.empty())
    rmdir(path().c_str());
  release();
}
