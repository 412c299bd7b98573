//===- Session.h - What a run needs -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels, memory and arguments: from the command line (--grid, --arg, ...), or
// from the launch that the PTX file describes, which the options may override.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_SESSION_H
#define FLASHCORE_EMULATOR_TOOLS_SESSION_H

#include "Options.h"
#include "Results.h"

namespace flashcore::emu {

/// One kernel, ready to run.
struct PlannedLaunch {
  Kernel kernel;
  LaunchConfig config;
  Arguments arguments;
};

struct Session {
  DeviceMemory memory;
  Results results;
  /// In the order in which they run.
  std::vector<PlannedLaunch> launches;
  /// Of random inputs that the command line does not name.
  std::optional<uint64_t> seed;
};

/// What a caller has to give a kernel, in several lines.
std::string describeKernel(const Kernel &kernel);

/// What the file says of its launch, in several lines; empty if nothing.
Expected<std::string> describeLaunch(const std::string &ptx);

/// Loads the kernels of `ptx` and all that they take.
Expected<Session> planSession(const ToolOptions &options,
                              const std::string &ptx);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_SESSION_H
