//===- ToolMain.cpp - main of an executable with one tool -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled once for each tool, with the name of its entry point. The multi-call
// executable calls the same entry points.
//
//===----------------------------------------------------------------------===//

#include "StandardStreams.h"

int FLASHCORE_TOOL_ENTRY(int argc, char **argv);

int main(int argc, char **argv) {
  flashcore::openStandardStreams();
  return FLASHCORE_TOOL_ENTRY(argc, argv);
}
