//===- ToolInit.h - What every LLVM tool of ours does first -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SUPPORT_TOOLINIT_H
#define FLASHCORE_SUPPORT_TOOLINIT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>

namespace mlir::flashcore {

/// Lives in a tool's main function, from its first line on. Standard streams
/// that are closed lead to /dev/null, so that no file of ours gets their number
/// and with it messages; signals leave nothing behind; running out of memory or
/// stack is an error with exit code 1; a fatal error of LLVM's, and a standard
/// output that cannot be written, are errors with exit code 2; --version names
/// FlashCore and LLVM.
class ToolInit {
public:
  /// `name` is what the tool calls itself in messages, a literal.
  ToolInit(int &argc, char **&argv, const char *name);

private:
  llvm::InitLLVM init;
};

/// When the process ends, a standard output that could not be written is an
/// error of the tool called `name`, a literal, with exit code 2.
void handleOutputErrors(const char *name);

/// "flashcore 0.1.0, LLVM 22.1.8".
std::string getVersion();

/// Brackets in brackets that `checkNesting` accepts. MLIR's parser, printer and
/// passes recurse, and with the usual stack of 8 MiB fail above some thousand.
inline constexpr int kMaxNesting = 256;

/// "LINE:COLUMN: error: ..." where MLIR in `text` is nested deeper than that.
std::optional<std::string> checkNesting(llvm::StringRef text);

/// Bytes that `readInput` takes from a pipe or device, some of which never end.
inline constexpr size_t kMaxStream = 256 << 20;

/// Reads a file, or with "-" the standard input. The error says what went wrong
/// with which file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readInput(llvm::StringRef path);

/// Writes all of `data` to a file, or with "-" to the standard output. A file
/// is replaced as a whole or, after an error, not at all.
llvm::Error writeOutput(llvm::StringRef path, llvm::StringRef data);

} // namespace mlir::flashcore

#endif // FLASHCORE_SUPPORT_TOOLINIT_H
