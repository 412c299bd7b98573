//===- Printable.cpp - Text that is safe to print -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Printable.h.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Printable.h"
#include "../../../../tools/ControlCharacters.h"

#include <charconv>
#include <cstddef>
#include <cstdint>

using namespace flashcore;
using namespace flashcore::emu;

/// Bytes of the UTF-8 character at the start of a text that is not empty, and
/// its code point; 0 if there is none: cut off, overlong, a surrogate, or past
/// the last one.
static size_t decode(std::string_view text, uint32_t &codePoint) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t lead = byte(0);
  size_t length = lead < 0x80   ? 1
                  : lead < 0xc0 ? 0
                  : lead < 0xe0 ? 2
                  : lead < 0xf0 ? 3
                  : lead < 0xf8 ? 4
                                : 0;
  if (length == 0 || length > text.size())
    return 0;
  codePoint = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80)
      return 0;
    codePoint = codePoint << 6 | (byte(i) & 0x3fu);
  }
  static constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isSurrogate = codePoint >= 0xd800 && codePoint < 0xe000;
  return codePoint < smallest[length] || isSurrogate || codePoint > 0x10ffff
             ? 0
             : length;
}

std::string flashcore::emu::printable(std::string_view text, Lines lines) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    uint32_t codePoint = 0;
    size_t length = decode(text.substr(at), codePoint);
    bool stays = lines == Lines::Keep && (text[at] == '\n' || text[at] == '\t');
    if (length && (stays || !isControlCharacter(codePoint))) {
      out += text.substr(at, length);
      at += length;
      continue;
    }
    for (size_t end = at + (length ? length : 1); at < end; ++at) {
      auto byte = static_cast<uint8_t>(text[at]);
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

std::string flashcore::emu::formatFixed(double number, int digits) {
  // The longest: 309 digits before the point.
  char text[400];
  auto [end, error] = std::to_chars(text, text + sizeof text, number,
                                    std::chars_format::fixed, digits);
  return error == std::errc() ? std::string(text, end) : std::string();
}

std::string flashcore::emu::formatShort(double number) {
  char text[64];
  auto [end, error] = std::to_chars(text, text + sizeof text, number,
                                    std::chars_format::general, 6);
  return error == std::errc() ? std::string(text, end) : std::string();
}
