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

#include <cstdio>

using namespace flashcore;

/// The bytes at `at` that a terminal may take for a command, 0 if there is
/// none: a control character of ASCII, or one of Latin 1 in UTF-8.
static size_t controlBytes(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x20 || byte(at) == 0x7f)
    return 1;
  bool isLatin1 =
      byte(at) == 0xc2 && at + 1 < text.size() && byte(at + 1) < 0xa0;
  return isLatin1 ? 2 : 0;
}

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
