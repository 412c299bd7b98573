//===- OptionText.h - Launch options from text ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The options of a launch as all tools spell them:
//
//   check             all, none, or a list such as memory,race
//   mma               auto, plain, sm80, sm90
//   schedule          seq, skew, random, random:SEED
//   async             lazy, eager, random, random:SEED
//   threads           a number; 0 means as many as the host has
//   max-instructions  a number; 0 means no limit
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_OPTIONTEXT_H
#define FLASHCORE_EMULATOR_OPTIONTEXT_H

#include "flashcore/Emulator/Emulator.h"

namespace flashcore::emu {

/// Sets one option. On a bad value or an unknown name `options` stay as they
/// are and the message of the Error is not empty. It goes after the name of the
/// option: "expects ..., but got ...".
Error setLaunchOption(LaunchOptions &options, std::string_view name,
                      const std::string &value);

/// Reads a whole text as a decimal number; false for anything else.
bool parseNumber(std::string_view text, uint64_t &number);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_OPTIONTEXT_H
