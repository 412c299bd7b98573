//===- QuoteLines.h - Findings with the lines they are about ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_REPORT_QUOTELINES_H
#define FLASHCORE_EMULATOR_LIB_REPORT_QUOTELINES_H

#include "flashcore/Emulator/Report.h"

#include <string_view>

namespace flashcore::emu {

/// Gives the places of findings the lines of the PTX that they are about.
void quoteLines(Report &report, std::string_view ptx);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_REPORT_QUOTELINES_H
