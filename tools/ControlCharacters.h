//===- ControlCharacters.h - What drives a terminal -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names and strings of files end in messages, which must show them and not obey
// them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TOOLS_CONTROLCHARACTERS_H
#define FLASHCORE_TOOLS_CONTROLCHARACTERS_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flashcore {

/// C0, DEL and C1, the separators that some terminals break lines at, and what
/// changes the direction of the text around it.
inline bool isControlCharacter(uint32_t codePoint) {
  return codePoint < 0x20 || (codePoint >= 0x7f && codePoint < 0xa0) ||
         codePoint == 0x61c || codePoint == 0x200e || codePoint == 0x200f ||
         (codePoint >= 0x2028 && codePoint <= 0x202e) ||
         (codePoint >= 0x2066 && codePoint <= 0x2069);
}

/// Bytes of the UTF-8 character that begins with `lead`, of up to three: no
/// control character has more.
inline size_t utf8Length(unsigned char lead) {
  return lead >= 0xf0 ? 1 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
}

/// Bytes of the control character of UTF-8 at `at`; 0 if there is none.
inline size_t controlBytes(std::string_view text, size_t at) {
  auto byte = [&](size_t i) {
    return static_cast<unsigned char>(text[at + i]);
  };
  size_t length = utf8Length(byte(0));
  if (length == 1)
    return byte(0) < 0x80 && isControlCharacter(byte(0)) ? 1 : 0;
  if (text.size() - at < length)
    return 0;
  uint32_t codePoint = byte(0) & (length == 2 ? 0x1f : 0x0f);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
    codePoint = codePoint << 6 | (byte(i) & 0x3f);
  }
  return isControlCharacter(codePoint) ? length : 0;
}

} // namespace flashcore

#endif // FLASHCORE_TOOLS_CONTROLCHARACTERS_H
