//===- Ptxas.cpp - Running NVIDIA's assembler -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ptxas is run as a program, with its input and output in a temporary directory
// that is gone afterwards, also when a signal ends the process.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/Ptxas.h"
#include "flashcore/Support/Cleanup.h"
#include "flashcore/Support/Errors.h"
#include "flashcore/Support/Process.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"

using namespace llvm;
using namespace mlir::flashcore;

Expected<std::string> mlir::flashcore::findPtxas(StringRef explicitPath,
                                                 StringRef programPath) {
  if (!explicitPath.empty()) {
    if (sys::fs::can_execute(explicitPath))
      return explicitPath.str();
    return formatError("cannot run ptxas at '{0}': no such program",
                       explicitPath);
  }
  // An empty variable is none, as for a shell. With a relative one the program
  // that is run would depend on the directory we are in.
  std::string home = sys::Process::GetEnv("CUDA_HOME").value_or("");
  if (!home.empty()) {
    if (sys::path::is_relative(home))
      return formatError("expects CUDA_HOME to be an absolute path, but got "
                         "'{0}'; set it to the directory of the CUDA toolkit, "
                         "unset it, or pass --ptxas=PATH",
                         home);
    SmallString<128> path(home);
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
  return formatError(
      "cannot find ptxas in $CUDA_HOME/bin, on PATH or at '{0}'; "
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

std::string mlir::flashcore::findSerializedProducts(StringRef report) {
  // ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async ...
  Regex remark("\\(C75[0-9][0-9]\\)[^\n]*");
  SmallVector<StringRef> match;
  return remark.match(report, &match) ? match[0].rtrim().str() : "";
}

bool mlir::flashcore::isUnknownChip(StringRef report) {
  // ptxas fatal   : Value 'sm_70' is not defined for option 'gpu-name'
  return Regex("Value '[^']*' is not defined for option 'gpu-name'")
      .match(report);
}

/// Writes the input of ptxas. The disk of temporary files is often a small one.
static Error writeInput(StringRef path, StringRef ptx) {
  std::error_code ec;
  raw_fd_ostream os(path, ec);
  if (!ec) {
    os << ptx;
    os.close();
    ec = os.error();
    os.clear_error();
  }
  if (ec)
    return formatError(
        "cannot write '{0}': {1}; set TMPDIR to a directory with "
        "room for temporary files",
        path, ec.message());
  return Error::success();
}

/// Reads the output of ptxas. Some wrappers of it succeed without doing
/// anything.
static Expected<std::string> readOutput(StringRef path, StringRef ptxas) {
  auto image = MemoryBuffer::getFile(path, /*IsText=*/false,
                                     /*RequiresNullTerminator=*/false);
  if (!image && image.getError() != std::errc::no_such_file_or_directory)
    return formatError("cannot read what '{0}' wrote to '{1}': {2}", ptxas,
                       path, image.getError().message());
  StringRef contents = image ? (*image)->getBuffer() : "";
  if (!contents.starts_with("\x7f"
                            "ELF"))
    return formatError("'{0}' succeeded, but wrote {1}; check that it is "
                       "NVIDIA's ptxas, or pass another with --ptxas=PATH",
                       ptxas,
                       contents.empty() ? "no machine code"
                                        : "something that is no cubin");
  return contents.str();
}

/// A private directory for the files of one run.
static Expected<TemporaryDirectory> createWorkDirectory() {
  SmallString<128> parent;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, parent);
  SmallString<128> prefix(parent);
  sys::path::append(prefix, "flashcore-ptxas-");
  auto directory = TemporaryDirectory::create(prefix, /*isPrivate=*/true);
  if (!directory)
    return formatError(
        "cannot create a directory for temporary files in '{0}': "
        "{1}; set TMPDIR to a directory that can be written to",
        parent, toString(directory.takeError()));
  return directory;
}

Expected<std::optional<Cubin>>
mlir::flashcore::assemble(StringRef ptxas, StringRef ptx, StringRef chip) {
  auto directory = createWorkDirectory();
  if (!directory)
    return directory.takeError();
  std::string input = directory->file("kernels.ptx");
  std::string output = directory->file("kernels.cubin");
  if (Error error = writeInput(input, ptx))
    return error;
  std::string arch = ("-arch=" + chip).str();
  Expected<std::string> log =
      runProgram(ptxas, {"-v", "-O3", arch, input, "-o", output});
  if (!log) {
    std::string text = toString(log.takeError());
    if (isUnknownChip(text))
      return std::nullopt;
    return formatError("{0}", text);
  }
  if (std::string remark = findSerializedProducts(*log); !remark.empty())
    return formatError(
        "'{0}' serializes the products of a kernel for {1}: {2}; "
        "use smaller tiles or product warp",
        ptxas, chip, remark);
  Expected<std::string> image = readOutput(output, ptxas);
  if (!image)
    return image.takeError();
  Expected<std::string> version = runProgram(ptxas, {"--version"});
  if (!version)
    return version.takeError();
  Cubin cubin;
  cubin.chip = chip.str();
  cubin.image = std::move(*image);
  cubin.kernels = parsePtxasReport(*log);
  SmallVector<StringRef> match;
  cubin.assembler = "ptxas";
  if (Regex(" V([0-9.]+)").match(*version, &match))
    cubin.assembler += " " + match[1].str();
  return cubin;
}
