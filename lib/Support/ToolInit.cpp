//===- ToolInit.cpp - What every LLVM tool of ours does first -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The process around a compilation: standard streams, signals, memory, stack.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ToolInit.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/ErrorStream.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

using namespace mlir::flashcore;

/// Of this process; needed where nothing can be passed on.
static const char *toolName = "flashcore";

/// Ends the process from wherever it is, with `text` and without allocating.
[[noreturn]] static void endWithError(const char *text, int code = 1) {
  removeTemporaries();
  llvm::sys::RunInterruptHandlers();
  for (const char *part : {toolName, ": error: ", text, "\n"}) {
    ssize_t written = write(STDERR_FILENO, part, strlen(part));
    (void)written; // there is no other place to say it
  }
  _exit(code);
}

/// What LLVM calls with an error that it does not return from, such as a
/// pipeline that nests a pass where it cannot be.
[[noreturn]] static void onFatalError(void *, const char *reason, bool) {
  std::string text = escapeControls(reason);
  std::replace(text.begin(), text.end(), '\n', ' ');
  endWithError(text.c_str(), 2);
}

/// Listings and helps go to llvm::outs(), whose destructor would call an error
/// that is still there a fatal one.
static void checkStandardOutput() {
  llvm::raw_fd_ostream &os = llvm::outs();
  os.flush();
  if (!os.has_error())
    return;
  std::string text =
      "cannot write the standard output: " + os.error().message();
  endWithError(text.c_str(), 2);
}

void mlir::flashcore::handleOutputErrors(const char *name) {
  toolName = name;
  llvm::outs(); // made first, it is destroyed after the check
  static const int isRegistered = std::atexit(checkStandardOutput);
  (void)isRegistered;
}

//===----------------------------------------------------------------------===//
// Stack overflow
//===----------------------------------------------------------------------===//

/// Where the stack of the main thread ends.
static uintptr_t stackEnd = 0;
static struct sigaction previousSegv;

static void onSegv(int, siginfo_t *info, void *) {
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  // A frame may be large: what it touches first need not be its end.
  constexpr uintptr_t reach = 1 << 20;
  if (address + reach >= stackEnd && address < stackEnd + reach)
    endWithError("the input is nested too deeply: the stack is full; see "
                 "ulimit -s");
  // Any other fault is ours: it happens again, and LLVM says where.
  sigaction(SIGSEGV, &previousSegv, nullptr);
}

/// Recursion over the input ends in an error, not in a report of a crash.
static void handleStackOverflow() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return;
  void *lowest = nullptr;
  size_t size = 0;
  pthread_attr_getstack(&attributes, &lowest, &size);
  pthread_attr_destroy(&attributes);
  stackEnd = reinterpret_cast<uintptr_t>(lowest);
  // LLVM has made the alternative stack on which this runs.
  struct sigaction action = {};
  action.sa_sigaction = onSegv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, &previousSegv);
}

//===----------------------------------------------------------------------===//
// Debug output
//===----------------------------------------------------------------------===//

#ifndef NDEBUG
namespace {
/// What --debug-only sets.
struct DebugTypes {
  void operator=(const std::string &text) {
    llvm::SmallVector<llvm::StringRef> types;
    llvm::StringRef(text).split(types, ',', /*MaxSplit=*/-1,
                                /*KeepEmpty=*/false);
    std::vector<std::string> names(types.begin(), types.end());
    std::vector<const char *> pointers;
    for (const std::string &name : names)
      pointers.push_back(name.c_str());
    llvm::DebugFlag = true;
    llvm::setCurrentDebugTypes(pointers.data(), pointers.size());
  }
};
} // namespace

/// What our passes say of their decisions, where they are compiled with
/// assertions. LLVM has the option only where it is, too.
static void addDebugOption() {
  if (llvm::cl::getRegisteredOptions().contains("debug-only"))
    return;
  static DebugTypes types;
  static llvm::cl::opt<DebugTypes, true, llvm::cl::parser<std::string>> option(
      "debug-only", llvm::cl::desc("Print what these passes decide"),
      llvm::cl::value_desc("name,..."), llvm::cl::location(types));
}
#endif

//===----------------------------------------------------------------------===//
// The start of a tool
//===----------------------------------------------------------------------===//

/// Before LLVM opens or handles anything.
static int &prepare(int &argc) {
  noteIgnoredSignals();
  if (std::error_code ec = llvm::sys::Process::FixupStandardFileDescriptors())
    _exit(1);
  return argc;
}

std::string mlir::flashcore::getVersion() {
  return "flashcore " FLASHCORE_VERSION ", LLVM " LLVM_VERSION_STRING;
}

ToolInit::ToolInit(int &argc, char **&argv, const char *name)
    : init(prepare(argc), argv) {
  handleOutputErrors(name);
#ifndef NDEBUG
  addDebugOption();
#endif
  llvm::install_fatal_error_handler(onFatalError);
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { endWithError("out of memory"); });
  handleSignals();
#if !LLVM_ADDRESS_SANITIZER_BUILD
  handleStackOverflow();
#endif
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &os) { os << getVersion() << "\n"; });
}
