//===- Status.cpp - Errors as values --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints a Status the way the compiler's diagnostics look: message, then notes.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Status.h"

using namespace flashcore;

std::string Status::str() const {
  std::string result = text;
  for (const std::string &noteText : noteTexts)
    result += "\n  note: " + noteText;
  return result;
}
