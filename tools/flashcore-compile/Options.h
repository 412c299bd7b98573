//===- Options.h - The command line of flashcore-compile --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_COMPILE_OPTIONS_H
#define FLASHCORE_COMPILE_OPTIONS_H

#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

enum class Emit { Input, MLIR, LLVM, PTX, Cubin, Bundle };
llvm::StringRef stringify(Emit kind);

struct Options {
  std::string input;
  /// The words of --shape, in place of an input.
  std::optional<std::string> shape;
  bool allowUnregisteredDialects = false;

  Emit emit = Emit::PTX;
  std::string output;
  /// The attention to compile; empty for all.
  std::string function;
  bool noCubin = false;
  bool listSchedules = false, listChips = false, listOperands = false,
       listScheduleFields = false;

  /// Empty, or known and different, oldest first.
  std::vector<std::string> chips;
  std::string ptxas;

  /// Of the phases to print; empty for none.
  std::vector<unsigned> phases;
  /// Where to; empty for the error stream.
  std::string phasesDirectory;
  bool explain = false, verbose = false, timing = false;
  /// The file for what explain and verbose say; empty for none.
  std::string json;

  /// All but the chip.
  ConfigurePassOptions schedule;
};

/// Reads the command line. An error is one of usage. --help and --version end
/// the process, and so, with exit code 2, does what LLVM's parser refuses.
llvm::Expected<Options> parseOptions(int argc, char **argv);

} // namespace mlir::flashcore

#endif // FLASHCORE_COMPILE_OPTIONS_H
