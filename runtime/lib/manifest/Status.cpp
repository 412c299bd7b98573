//===- Status.cpp - Errors as values --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints a Status the way the compiler's diagnostics look: message, then notes.
// What a file holds cannot move the cursor or colour the terminal.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Status.h"

#include "../../tools/ControlCharacters.h"

#include <cstdio>

using namespace flashcore;

std::string flashcore::escapeControls(std::string_view text,
                                      std::string_view kept) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + controlBytes(text, i);
    if (end == i || kept.find(text[i]) != std::string_view::npos) {
      result += text[i++];
      continue;
    }
    for (; i < end; ++i) {
      char code[5];
      std::snprintf(code, sizeof(code), "\\x%02x",
                    static_cast<unsigned char>(text[i]));
      result += code;
    }
  }
  return result;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers move into it
Status::Status(Kind kind, std::string text)
    : kind(kind), text(escapeControls(text)) {}

Status &Status::note(std::string_view noteText) & {
  if (!noteText.empty())
    noteTexts.push_back(escapeControls(noteText, "\n\t"));
  return *this;
}

std::string Status::str() const {
  std::string result = text;
  for (const std::string &noteText : noteTexts)
    result += "\n  note: " + noteText;
  return result;
}
