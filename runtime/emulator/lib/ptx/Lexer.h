//===- Lexer.h - PTX tokens -------------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Splits PTX text into tokens. A dot and the word after it are one token
// (".f32", ".shared::cta"), since that is how every modifier is written.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_PTX_LEXER_H
#define FLASHCORE_EMULATOR_LIB_PTX_LEXER_H

#include "flashcore/Emulator/Error.h"

#include <string_view>

namespace flashcore::emu {

struct Token {
  enum class Kind : uint8_t {
    End,
    Bad,
    Identifier,
    Dotted, // text includes the dot
    Integer,
    Float,
    Double,
    String, // text excludes the quotes
    Punct,
  };

  Kind kind = Kind::End;
  std::string_view text;
  SrcLoc loc;
  /// Integer: the value; Float and Double: the bits.
  uint64_t value = 0;
  /// Integer: of type .u64, by its suffix or its size.
  bool isUnsigned = false;

  bool is(char c) const {
    return kind == Kind::Punct && text.size() == 1 && text[0] == c;
  }
  /// What follows the dot; empty for other tokens.
  std::string_view dottedWord() const {
    return kind == Kind::Dotted ? text.substr(1) : std::string_view();
  }
  bool isDotted(std::string_view word) const {
    return kind == Kind::Dotted && dottedWord() == word;
  }
};

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  /// The next token; Bad tokens leave the reason in badReason().
  Token next();
  /// The float that begins with a token `.5`, which elsewhere is a modifier.
  Token floatFrom(const Token &dotted);
  const char *badReason() const { return reason; }

private:
  bool skipBlanks();
  Token make(Token::Kind kind, size_t start) const;
  Token lexNumber(size_t start);
  Token lexHexFloat(size_t start, bool isDouble);
  Token lexDecimalFloat(size_t start);
  Token lexString(size_t start);
  Token bad(size_t start, const char *why);

  std::string_view text;
  size_t pos = 0;
  size_t lineStart = 0;
  uint32_t line = 1;
  const char *reason = "";
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_PTX_LEXER_H
