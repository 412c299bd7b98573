//===- Options.h - Command line of flashcore-emu ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options as text, and what they mean for a launch.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_OPTIONS_H
#define FLASHCORE_EMULATOR_TOOLS_OPTIONS_H

#include "flashcore/Emulator/Emulator.h"

#include <optional>

namespace CLI {
class App;
}

namespace flashcore::emu {

struct ToolOptions {
  std::string ptxFile;
  std::string kernel;
  /// Of one kernel; what is left out comes from the file's own description, or
  /// is 1, 1 and 0.
  std::optional<std::string> grid, block, sharedBytes;
  std::vector<std::string> arguments;
  /// For a file that describes its launch.
  std::vector<std::string> dims;
  std::string seed = "1", multiprocessors = "132";
  std::vector<std::string> outputs, expected;
  std::string maxShared = "0";
  /// Names and values for setLaunchOption.
  std::vector<std::pair<std::string, std::string>> launch;
  std::string stats;
  bool trace = false, list = false, quiet = false, expectWritten = false;
};

void declareOptions(CLI::App &app, ToolOptions &options);

/// What is left of the launch; an error says which option is wrong.
Expected<LaunchOptions> launchOptions(const ToolOptions &options);

/// --grid, --block and --shared, where they are given.
Error overrideConfig(const ToolOptions &options, LaunchConfig &config);

/// --seed and --multiprocessors.
Expected<uint64_t> numberOption(const char *name, const std::string &value);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_OPTIONS_H
