//===- Compile.h - Calling flashcore-compile --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns an .mlir file or the words of --shape into a bundle in a temporary
// directory. The compiler is a separate process, so that this tool stays free
// of LLVM, and it alone knows what the words mean.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_COMPILE_H
#define FLASHCORE_RUN_COMPILE_H

#include "flashcore/Runtime/Status.h"

#include <filesystem>
#include <string>
#include <vector>

namespace flashcore::run {

/// What a bundle is compiled from.
struct Source {
  enum class Kind { File, Shape };
  Kind kind = Kind::File;
  /// The path, or the words.
  std::string text;

  /// "a.mlir" or "--shape 'b1 h8'".
  std::string str() const;
};

/// The compiler to call: `chosen` unless it is empty, else this program where
/// it holds all tools, else flashcore-compile in its directory, else the
/// multi-call flashcore there, else flashcore-compile by its name, which means
/// PATH.
std::filesystem::path findCompiler(const std::filesystem::path &chosen);

/// Compiles `source` to the bundle `output`. The multi-call executable, which
/// is a compiler called flashcore or this program, gets the subcommand.
Status compile(const std::filesystem::path &compiler, const Source &source,
               const std::filesystem::path &output,
               const std::vector<std::string> &arguments);

} // namespace flashcore::run

/// Says that this program is the multi-call executable, whatever its file is
/// called: a release names it after version and architecture.
void flashcoreRunHoldsAllTools();

#endif // FLASHCORE_RUN_COMPILE_H
