//===- Bytecode.cpp - Bytecode that nobody vouches for --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The child answers through a pipe: 'T' and the text, or 'E' and what is wrong.
// One that ends without an answer has met a fault of the reader.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/Bytecode.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/Errors.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace mlir::flashcore;

/// Where a child answers; needed where nothing can be passed on.
static int answers = -1;

bool mlir::flashcore::isBytecode(StringRef text) {
  return text.starts_with("ML\xefR");
}

//===----------------------------------------------------------------------===//
// The child
//===----------------------------------------------------------------------===//

[[noreturn]] static void answer(char kind, StringRef text) {
  for (StringRef part : {StringRef(&kind, 1), text})
    while (!part.empty()) {
      ssize_t written = write(answers, part.data(), part.size());
      if (written < 0 && errno != EINTR)
        _exit(EXIT_FAILURE); // nobody reads
      part = part.drop_front(std::max<ssize_t>(written, 0));
    }
  _exit(EXIT_SUCCESS);
}

/// Signals end the child, and faults of LLVM's are answers: what the process of
/// the tool does then would remove that one's files.
static void handleFaults() {
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS,
                     SIGXCPU, SIGTERM, SIGINT, SIGHUP, SIGPIPE})
    signal == SIGPIPE ? ::signal(signal, SIG_IGN) : ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  llvm::remove_fatal_error_handler();
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { answer('E', reason); });
  llvm::remove_bad_alloc_error_handler();
  llvm::install_bad_alloc_error_handler(
      [](void *, const char *, bool) { answer('E', "out of memory"); });
  if (int null = open("/dev/null", O_RDWR); null >= 0)
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      dup2(null, stream);
}

static void limitResources(size_t size) {
  auto limit = [](auto resource, rlim_t most) {
    rlimit value = {most, most};
    setrlimit(resource, &value);
  };
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, 3 + (size >> 20));
#if !LLVM_ADDRESS_SANITIZER_BUILD // which takes terabytes of addresses
  limit(RLIMIT_AS, (rlim_t(4) << 30) + 64 * size);
#endif
}

[[noreturn]] static void translate(llvm::MemoryBufferRef bytecode,
                                   const DialectRegistry &registry,
                                   bool allowUnregisteredDialects) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects(allowUnregisteredDialects);
  std::string error;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (error.empty())
      error = diagnostic.str();
    return success();
  });
  // The parser of the text verifies it.
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> holder = ModuleOp::create(UnknownLoc::get(&context));
  Block *body = holder->getBody();
  if (failed(readBytecodeFile(bytecode, body, config)))
    answer('E', error);
  Operation *top = llvm::hasSingleElement(*body) ? &body->front() : *holder;
  std::string text;
  llvm::raw_string_ostream os(text);
  top->print(os, OpPrintingFlags().printGenericOpForm().enableDebugInfo(
                     /*enable=*/true, /*prettyForm=*/false));
  os << "\n";
  answer('T', text);
}

//===----------------------------------------------------------------------===//
// The parent
//===----------------------------------------------------------------------===//

/// All that comes until no one can write any more.
static std::string readAll(int descriptor) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0)
      text.append(buffer, static_cast<size_t>(count));
    else if (count == 0 || errno != EINTR)
      return text;
  }
}

/// What ended a child that gave no answer.
static std::string explainEnd(int status) {
  if (!WIFSIGNALED(status))
    return "MLIR's reader ended with exit code " +
           std::to_string(WEXITSTATUS(status));
  int signal = WTERMSIG(status);
  if (signal == SIGXCPU || signal == SIGKILL)
    return "MLIR's reader does not come to an end";
  return "MLIR's reader was ended by signal " + std::to_string(signal) + " (" +
         strsignal(signal) + ")";
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
mlir::flashcore::translateBytecode(const llvm::MemoryBuffer &bytecode,
                                   const DialectRegistry &registry,
                                   bool allowUnregisteredDialects) {
  StringRef name = bytecode.getBufferIdentifier();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return formatError("cannot read the bytecode of '{0}': {1}", name,
                       std::strerror(errno));
  pid_t child = 0;
  {
    SignalBlocker blocker; // until it is known which child to end
    child = fork();
    if (child == 0) {
      answers = ends[1];
      handleFaults();
      limitResources(bytecode.getBufferSize());
      translate(bytecode.getMemBufferRef(), registry,
                allowUnregisteredDialects);
    }
    if (child > 0)
      addChildProcess(child);
  }
  int error = errno;
  close(ends[1]);
  std::string reply = child > 0 ? readAll(ends[0]) : std::string();
  close(ends[0]);
  if (child < 0)
    return formatError("cannot read the bytecode of '{0}': {1}", name,
                       std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  dropChildProcess(child);
  StringRef text = StringRef(reply).drop_front(reply.empty() ? 0 : 1);
  bool isWhole = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
  if (isWhole && StringRef(reply).starts_with("T"))
    return llvm::MemoryBuffer::getMemBufferCopy(text, name);
  return formatError("cannot read the bytecode of '{0}': {1}; it is damaged, "
                     "or of another version of MLIR",
                     name, isWhole ? text.str() : explainEnd(status));
}
