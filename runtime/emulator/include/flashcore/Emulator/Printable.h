//===- Printable.h - Text that is safe to print -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names and strings of PTX come from anywhere and end in messages, and the
// emulator runs in processes that have set a locale. What is made here neither
// drives a terminal nor depends on the locale.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_PRINTABLE_H
#define FLASHCORE_EMULATOR_PRINTABLE_H

#include <string>
#include <string_view>

namespace flashcore::emu {

enum class Lines { Escape, Keep };

/// `text` with control characters, and bytes that are not UTF-8, as \xNN. With
/// Lines::Keep new lines and tabs stay.
std::string printable(std::string_view text, Lines lines = Lines::Escape);

/// "%.Nf" and "%g" of the C locale, whatever the process has set.
std::string formatFixed(double number, int digits);
std::string formatShort(double number);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_PRINTABLE_H
