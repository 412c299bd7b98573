//===- Ptxas.cpp - Running NVIDIA's assembler -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ptxas is run as a program, with its input and output in temporary files that
// are gone afterwards whatever happens.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Ptxas.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace llvm;
using namespace mlir::flashcore;

template <typename... Args>
static Error makeError(const char *format, Args &&...args) {
  return createStringError(std::make_error_code(std::errc::invalid_argument),
                           formatv(format, std::forward<Args>(args)...).str());
}

Expected<std::string> mlir::flashcore::findPtxas(StringRef explicitPath,
                                                 StringRef programPath) {
  if (!explicitPath.empty()) {
    if (sys::fs::can_execute(explicitPath))
      return explicitPath.str();
    return makeError("cannot run ptxas at '{0}': no such program",
                     explicitPath);
  }
  if (std::optional<std::string> home = sys::Process::GetEnv("CUDA_HOME")) {
    SmallString<128> path(*home);
    sys::path::append(path, "bin", "ptxas");
    if (sys::fs::can_execute(path))
      return std::string(path);
  }
  if (ErrorOr<std::string> path = sys::findProgramByName("ptxas"))
    return *path;
  SmallString<128> path(sys::path::parent_path(programPath));
  sys::path::append(path, "..", "ptxas", "bin", "ptxas");
  if (sys::fs::can_execute(path))
    return std::string(path);
  return makeError("cannot find ptxas in $CUDA_HOME/bin, on PATH or at '{0}'; "
                   "install the CUDA toolkit, run scripts/get-ptxas.sh, or "
                   "pass --ptxas=PATH",
                   path);
}

StringMap<KernelResources> mlir::flashcore::parsePtxasReport(StringRef report) {
  // ptxas info    : Compiling entry function 'k' for 'sm_89'
  //     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
  // ptxas info    : Used 128 registers, used 1 barriers, 8 bytes smem
  Regex entry("Compiling entry function '([^']+)'");
  Regex stack("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, "
              "([0-9]+) bytes spill loads");
  Regex used("Used ([0-9]+) registers");
  Regex shared("([0-9]+) bytes smem");
  StringMap<KernelResources> kernels;
  KernelResources *current = nullptr;
  SmallVector<StringRef> lines, match;
  auto number = [](StringRef text) {
    int64_t value = 0;
    text.getAsInteger(10, value);
    return value;
  };
  report.split(lines, '\n');
  for (StringRef line : lines) {
    if (entry.match(line, &match))
      current = &kernels[match[1]];
    if (!current)
      continue;
    if (stack.match(line, &match)) {
      current->stackFrame = number(match[1]);
      current->spillStores = number(match[2]);
      current->spillLoads = number(match[3]);
    }
    if (used.match(line, &match))
      current->registers = number(match[1]);
    if (shared.match(line, &match))
      current->staticSharedMemory = number(match[1]);
  }
  return kernels;
}

/// Runs a program and returns what it wrote to both streams.
static Expected<std::string> run(StringRef program, ArrayRef<StringRef> args) {
  SmallString<128> logPath;
  if (std::error_code ec =
          sys::fs::createTemporaryFile("flashcore", "log", logPath))
    return makeError("cannot create a temporary file: {0}", ec.message());
  FileRemover removeLog(logPath);
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(logPath),
                                          StringRef(logPath)};
  SmallVector<StringRef> argv{program};
  argv.append(args.begin(), args.end());
  std::string message;
  int status =
      sys::ExecuteAndWait(program, argv, std::nullopt, redirects,
                          /*SecondsToWait=*/0, /*MemoryLimit=*/0, &message);
  std::string log;
  if (auto buffer = MemoryBuffer::getFile(logPath))
    log = (*buffer)->getBuffer().str();
  if (status != 0)
    return makeError("'{0}' failed with status {1}{2}{3}\n{4}", program, status,
                     message.empty() ? "" : ": ", message, log);
  return log;
}

Expected<Cubin> mlir::flashcore::assemble(StringRef ptxas, StringRef ptx,
                                          StringRef chip) {
  SmallString<128> input, output;
  if (std::error_code ec =
          sys::fs::createTemporaryFile("flashcore", "ptx", input))
    return makeError("cannot create a temporary file: {0}", ec.message());
  FileRemover removeInput(input);
  if (std::error_code ec =
          sys::fs::createTemporaryFile("flashcore", "cubin", output))
    return makeError("cannot create a temporary file: {0}", ec.message());
  FileRemover removeOutput(output);
  std::error_code ec;
  raw_fd_ostream os(input, ec);
  os << ptx;
  os.close();
  if (ec || os.has_error())
    return makeError("cannot write '{0}': {1}", input, ec.message());

  std::string arch = ("-arch=" + chip).str();
  Expected<std::string> log =
      run(ptxas, {"-v", "-O3", arch, input, "-o", output});
  if (!log)
    return log.takeError();
  Expected<std::string> version = run(ptxas, {"--version"});
  if (!version)
    return version.takeError();
  auto image = MemoryBuffer::getFile(output, /*IsText=*/false,
                                     /*RequiresNullTerminator=*/false);
  if (!image)
    return makeError("cannot read what ptxas wrote to '{0}': {1}", output,
                     image.getError().message());
  Cubin cubin;
  cubin.chip = chip.str();
  cubin.image = (*image)->getBuffer().str();
  cubin.kernels = parsePtxasReport(*log);
  SmallVector<StringRef> match;
  cubin.assembler = "ptxas";
  if (Regex(" V([0-9.]+)").match(*version, &match))
    cubin.assembler += " " + match[1].str();
  return cubin;
}
