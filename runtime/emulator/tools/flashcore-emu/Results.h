//===- Results.h - What a run leaves in its buffers -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --out and --expect. Both are checked before the run, so that a long one does
// not end with a spelling mistake.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_RESULTS_H
#define FLASHCORE_EMULATOR_TOOLS_RESULTS_H

#include "TypedArgument.h"
#include "flashcore/Emulator/Emulator.h"

namespace flashcore::emu {

/// An argument of the kernel, what one points to, or a tensor of the file's own
/// launch; `address` is that of its buffer, if it is one.
struct LoadedArgument {
  std::string name;
  /// "0" for an argument; "0.16" for what its byte 16 points to.
  std::string path;
  TypedArgument value;
  uint64_t address = 0;
};

/// What --out and --expect can name.
struct Results {
  std::vector<LoadedArgument> list;

  /// The one of this path or name, or null.
  const LoadedArgument *find(std::string_view key) const;

  size_t numArguments = 0;
  /// They are tensors, named by their names and not by an index.
  bool areTensors = false;
};

/// --out INDEX=FILE.npy, PATH=FILE.npy or NAME=FILE.npy
struct OutputRequest {
  size_t index = 0;
  std::string path;
};

/// --expect INDEX=[TYPE:]FILE.npy[:TOLERANCE]
struct ExpectRequest {
  size_t index = 0;
  std::string path;
  double tolerance = 0;
  TypedArgument reference;
};

Expected<OutputRequest> parseOutput(const std::string &text,
                                    const Results &results);
Expected<ExpectRequest> parseExpect(const std::string &text,
                                    const Results &results);

/// Saves a buffer; the error is empty if all of it was written.
std::string writeOutput(const OutputRequest &request,
                        const DeviceMemory &memory,
                        const LoadedArgument &argument);

/// Of a buffer that starts as poison, which of its elements were never written,
/// what lies between its strides left out; empty if all were.
std::string describeUnwritten(const DeviceMemory &memory,
                              const LoadedArgument &argument);

struct Comparison {
  bool differs = false;
  /// One line with the largest difference.
  std::string text;
};
Comparison compare(const ExpectRequest &request, const DeviceMemory &memory,
                   const LoadedArgument &argument);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_RESULTS_H
