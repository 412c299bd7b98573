//===- GuessSlice.h - Loads that a CAS checks -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loop of CUDA's programming guide for atomics of one's own begins with a
// plain load, whose value is a guess: atom.cas compares memory with it, and
// what was computed from it is stored if it is still there. Nothing depends on
// the load alone, so it is no race with the atomics of others.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_LOWER_GUESSSLICE_H
#define FLASHCORE_EMULATOR_LIB_LOWER_GUESSSLICE_H

#include "flashcore/Emulator/Program.h"

namespace flashcore::emu {

/// Whether what the load at `pc` gives is used for nothing but an atom.cas at
/// the same address: compared by it, made into the value that it stores, and
/// compared with its result.
bool isCasGuess(const Program &program, uint32_t pc);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_LOWER_GUESSSLICE_H
