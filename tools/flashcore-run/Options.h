//===- Options.h - The command line of flashcore-run ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the command line into plain values and checks their combination.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUN_OPTIONS_H
#define FLASHCORE_RUN_OPTIONS_H

#include "Session.h"

namespace flashcore::run {

struct Options {
  /// A bundle directory or an .mlir file; empty with `shape` and `grid`.
  std::filesystem::path input;
  /// The words of an attention to compile, which may be none.
  std::optional<std::string> shape;
  std::string device = "auto";
  EmulatorOptions emulator;
  /// What one run does; its bundle is filled in after compiling.
  RunRequest request;
  std::optional<uint64_t> seed;
  int runs = 1;
  std::filesystem::path json;
  bool info = false;
  /// Measure the host time of a launch instead of running.
  bool overhead = false;
  std::filesystem::path grid;
  std::filesystem::path compiler;
  /// What follows "--".
  std::vector<std::string> compilerArguments;
  /// The text of --help or --version; when set, print it and stop.
  std::string message;
};

StatusOr<Options> parseOptions(const std::vector<std::string> &arguments);

/// By its name in InputKinds.
StatusOr<InputKind> parseInputKind(std::string_view name);
StatusOr<Layout> parseLayout(std::string_view name);
/// Sets the stage of `request`; "tile" is Stage::All on one tile.
Status parseStage(std::string_view name, RunRequest &request);

} // namespace flashcore::run

#endif // FLASHCORE_RUN_OPTIONS_H
