//===- flashcore.cpp - All tools in one -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the tool named by the first argument, or by the name under which the
// executable was called: `flashcore compile` and a link called
// flashcore-compile do the same.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ErrorStream.h"
#include "flashcore/Support/ToolInit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

int flashcoreOptMain(int argc, char **argv);
int flashcoreCompileMain(int argc, char **argv);
int flashcoreRunMain(int argc, char **argv);
int flashcoreEmuMain(int argc, char **argv);
void flashcoreRunHoldsAllTools();

namespace {
struct Tool {
  llvm::StringLiteral subcommand;
  /// As an executable of its own; what the tool calls itself in messages.
  const char *name;
  llvm::StringLiteral description;
  int (*entry)(int argc, char **argv);
};

constexpr Tool tools[] = {
    {"opt", "flashcore-opt", "run any pass on MLIR", flashcoreOptMain},
    {"compile", "flashcore-compile", "compile MLIR to PTX, cubin or a bundle",
     flashcoreCompileMain},
    {"run", "flashcore-run", "run a bundle on a GPU or the emulator, and check",
     flashcoreRunMain},
    {"emu", "flashcore-emu", "run PTX on the CPU and check every access",
     flashcoreEmuMain},
};

/// Subcommands of the command that the Python package installs under the same
/// name, beside those above.
constexpr llvm::StringLiteral ofPython[] = {
    "attention", "doctor", "cache", "bench", "tune", "completion"};
} // namespace

static void printHelp(llvm::raw_ostream &os) {
  os << "OVERVIEW: FlashCore, a compiler for attention on GPUs\n\n"
        "USAGE: flashcore SUBCOMMAND [arguments]\n\n"
        "SUBCOMMANDS:\n";
  for (const Tool &tool : tools)
    os << "  " << tool.subcommand
       << std::string(10 - tool.subcommand.size(), ' ') << tool.description
       << "\n";
  os << "\n'flashcore SUBCOMMAND --help' lists the arguments. Called through a "
        "link named\nflashcore-SUBCOMMAND, the executable is that tool.\n";
}

static int usageError(const llvm::Twine &text) {
  mlir::flashcore::getErrorStream()
      << "flashcore: error: " << text << "; see flashcore --help\n";
  return 2;
}

int flashcoreAllToolsMain(int argc, char **argv) {
  flashcoreRunHoldsAllTools();
  llvm::StringRef program =
      argc > 0 ? llvm::sys::path::stem(argv[0]) : llvm::StringRef();
  for (const Tool &tool : tools)
    if (program == tool.name)
      return tool.entry(argc, argv);

  mlir::flashcore::handleOutputErrors("flashcore");
  if (argc < 2)
    return usageError("expects a subcommand");
  llvm::StringRef first = argv[1];
  if (first == "--help" || first == "-h" || first == "help") {
    printHelp(llvm::outs());
    return 0;
  }
  if (first == "--version") {
    llvm::outs() << "flashcore " FLASHCORE_VERSION ", LLVM " LLVM_VERSION_STRING
                    "\n";
    return 0;
  }
  const Tool *tool = llvm::find_if(
      tools, [&](const Tool &each) { return each.subcommand == first; });
  if (llvm::is_contained(ofPython, first))
    return usageError("expects opt, compile, run or emu as subcommand, but got "
                      "'" +
                      first +
                      "', which the flashcore of the Python package has "
                      "(scripts/wheel.sh builds it)");
  if (tool == std::end(tools))
    return usageError("expects opt, compile, run or emu as subcommand, but got "
                      "'" +
                      first + "'");
  argv[1] = const_cast<char *>(tool->name);
  return tool->entry(argc - 1, argv + 1);
}
