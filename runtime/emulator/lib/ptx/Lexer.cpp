//===- Lexer.cpp - PTX tokens ---------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Lexer.h. Works on bytes without locale; never reads past the text, so
// truncated and binary input end in a Bad or End token.
//
//===----------------------------------------------------------------------===//

#include "Lexer.h"

#include <algorithm>
#include <charconv>
#include <cstring>

using namespace flashcore::emu;

static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
static bool isWord(char c) {
  return isLetter(c) || isDigit(c) || c == '_' || c == '$';
}

static int hexValue(char c) {
  if (isDigit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

Token Lexer::make(Token::Kind kind, size_t start) const {
  Token token;
  token.kind = kind;
  token.text = text.substr(start, pos - start);
  token.loc = {line, static_cast<uint32_t>(start - lineStart + 1)};
  return token;
}

Token Lexer::bad(size_t start, const char *why) {
  reason = why;
  if (pos == start)
    ++pos;
  return make(Token::Kind::Bad, start);
}

/// Skips blanks and comments; false at an unterminated comment. As a C string,
/// which is what a driver takes, a text may end with NULs.
bool Lexer::skipBlanks() {
  constexpr std::string_view ends("\0 \t\r\n\f\v", 7);
  while (pos < text.size()) {
    char c = text[pos];
    if (c == '\0' &&
        text.find_first_not_of(ends, pos) == std::string_view::npos)
      pos = text.size();
    else if (c == '\n') {
      lineStart = ++pos;
      ++line;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++pos;
    } else if (text.substr(pos, 2) == "//") {
      while (pos < text.size() && text[pos] != '\n')
        ++pos;
    } else if (text.substr(pos, 2) == "/*") {
      size_t end = text.find("*/", pos + 2);
      if (end == std::string_view::npos)
        return false;
      for (; pos < end + 2; ++pos) {
        if (text[pos] == '\n') {
          lineStart = pos + 1;
          ++line;
        }
      }
    } else {
      break;
    }
  }
  return true;
}

Token Lexer::lexHexFloat(size_t start, bool isDouble) {
  unsigned digits = isDouble ? 16 : 8;
  uint64_t bits = 0;
  pos += 2;
  for (unsigned i = 0; i < digits; ++i, ++pos) {
    int digit = pos < text.size() ? hexValue(text[pos]) : -1;
    if (digit < 0)
      return bad(start, isDouble ? "expects 16 hex digits after 0d"
                                 : "expects 8 hex digits after 0f");
    bits = bits << 4 | static_cast<uint64_t>(digit);
  }
  Token token =
      make(isDouble ? Token::Kind::Double : Token::Kind::Float, start);
  token.value = bits;
  return token;
}

/// 1.5, 1e-3, and without digits on one side of the point.
Token Lexer::lexDecimalFloat(size_t start) {
  double number = 0;
  auto [end, error] =
      std::from_chars(text.data() + start, text.data() + text.size(), number);
  pos = static_cast<size_t>(end - text.data());
  if (error != std::errc())
    return bad(start, "float does not fit 64 bits");
  Token token = make(Token::Kind::Double, start);
  std::memcpy(&token.value, &number, sizeof number);
  return token;
}

Token Lexer::floatFrom(const Token &dotted) {
  size_t start = static_cast<size_t>(dotted.text.data() - text.data());
  return lexDecimalFloat(start);
}

Token Lexer::lexNumber(size_t start) {
  char second = pos + 1 < text.size() ? text[pos + 1] : '\0';
  if (text[pos] == '0' && (second == 'f' || second == 'F'))
    return lexHexFloat(start, /*isDouble=*/false);
  if (text[pos] == '0' && (second == 'd' || second == 'D'))
    return lexHexFloat(start, /*isDouble=*/true);

  unsigned base = 10;
  if (text[pos] == '0' && (second == 'x' || second == 'X')) {
    base = 16;
    pos += 2;
  } else if (text[pos] == '0' && (second == 'b' || second == 'B')) {
    base = 2;
    pos += 2;
  } else if (text[pos] == '0' && isDigit(second)) {
    base = 8;
    ++pos;
  }
  uint64_t value = 0;
  size_t firstDigit = pos;
  for (; pos < text.size(); ++pos) {
    int digit = hexValue(text[pos]);
    if (digit < 0 || digit >= static_cast<int>(base))
      break;
    if (value > (UINT64_MAX - static_cast<uint64_t>(digit)) / base)
      return bad(start, "integer does not fit 64 bits");
    value = value * base + static_cast<uint64_t>(digit);
  }
  if (pos == firstDigit)
    return bad(start, "expects a digit");

  if (base == 10 && pos < text.size() &&
      (text[pos] == '.' || text[pos] == 'e' || text[pos] == 'E'))
    return lexDecimalFloat(start);
  bool isUnsigned = pos < text.size() && (text[pos] == 'U' || text[pos] == 'u');
  pos += isUnsigned;
  Token token = make(Token::Kind::Integer, start);
  token.value = value;
  token.isUnsigned = isUnsigned || value > INT64_MAX;
  return token;
}

Token Lexer::lexString(size_t start) {
  size_t end = text.find_first_of("\"\n", pos + 1);
  if (end == std::string_view::npos || text[end] == '\n')
    return bad(start, "string has no end");
  pos = end + 1;
  Token token = make(Token::Kind::String, start);
  token.text = text.substr(start + 1, end - start - 1);
  return token;
}

Token Lexer::next() {
  if (!skipBlanks())
    return bad(pos, "comment has no end");
  size_t start = pos;
  if (pos >= text.size())
    return make(Token::Kind::End, start);

  char c = text[pos];
  if (isDigit(c))
    return lexNumber(start);
  if (c == '"')
    return lexString(start);
  bool percentWord = c == '%' && pos + 1 < text.size() && isWord(text[pos + 1]);
  if (isLetter(c) || c == '_' || c == '$' || percentWord) {
    ++pos;
    while (pos < text.size() && isWord(text[pos]))
      ++pos;
    return make(Token::Kind::Identifier, start);
  }
  if (c == '.' && pos + 1 < text.size() && isWord(text[pos + 1])) {
    ++pos;
    while (
        pos < text.size() &&
        (isWord(text[pos]) || (text.substr(pos, 2) == "::" &&
                               pos + 2 < text.size() && isWord(text[pos + 2]))))
      pos += text[pos] == ':' ? 2 : 1;
    return make(Token::Kind::Dotted, start);
  }
  if (c > 0 && std::strchr("@!,;:()[]{}<>|=+-*/~&%^?", c)) {
    constexpr std::string_view pairs[] = {
        "<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
    pos += std::find(std::begin(pairs), std::end(pairs), text.substr(pos, 2)) !=
                   std::end(pairs)
               ? 2
               : 1;
    return make(Token::Kind::Punct, start);
  }
  return bad(start, "unexpected character");
}
