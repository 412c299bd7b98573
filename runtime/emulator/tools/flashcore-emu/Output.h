//===- Output.h - Standard streams of the tool ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one way to a terminal: text of a PTX file or of the command line cannot
// drive it, and what cannot be written is an error.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_TOOLS_OUTPUT_H
#define FLASHCORE_EMULATOR_TOOLS_OUTPUT_H

#include <string>
#include <string_view>

namespace flashcore::emu {

/// Takes the numbers of closed standard streams, so that no file opened later
/// gets one of them, and with it what is meant for a terminal.
void reserveStandardStreams();

void printOut(std::string_view text);
void printError(std::string_view text);

/// Why standard output did not take all that was printed; empty if it did.
std::string finishOutput();

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_TOOLS_OUTPUT_H
