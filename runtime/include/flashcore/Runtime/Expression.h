//===- Expression.h - Numbers that follow from sizes ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a manifest says of a number that the sizes of a call decide: blocks of a
// grid, bytes of a workspace, whether a kernel runs. The language is that of
// MLIR's affine maps, with names in the place of their dimensions:
//
//   condition ::= comparison ("and" comparison)*
//   comparison ::= sum (("<=" | ">=" | "<" | ">" | "==" | "!=") sum)?
//   sum ::= product (("+" | "-") product)*
//   product ::= value (("*" | "floordiv" | "ceildiv") value)*
//   value ::= "-"? (NUMBER | NAME | "(" condition ")"
//                   | ("min" | "max") "(" sum ("," sum)* ")")
//
// Numbers are of 64 bits, and one that does not fit is an error, not another
// number. Comparisons are 1 or 0.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_EXPRESSION_H
#define FLASHCORE_RUNTIME_EXPRESSION_H

#include "flashcore/Runtime/Status.h"

#include <cstdint>
#include <map>

namespace flashcore {

/// Sizes, and what follows from them, by their names.
using Numbers = std::map<std::string, int64_t, std::less<>>;

class Expression {
public:
  /// Reads all of `text`; the error says what is expected where.
  static StatusOr<Expression> parse(std::string_view text);

  /// 0 of an expression that was not parsed.
  Expression() = default;

  /// As it was read.
  const std::string &str() const { return text; }
  /// What must be known to evaluate it, each name once.
  const std::vector<std::string> &names() const { return nameTexts; }

  /// Its value, for `numbers` that have all of its names. Errors call it
  /// `what`: it does not fit 64 bits, or divides by a number that is not
  /// positive.
  StatusOr<int64_t> evaluate(const Numbers &numbers,
                             std::string_view what) const;

private:
  enum class Code : uint8_t {
    Number,
    Name,
    Add,
    Subtract,
    Multiply,
    FloorDiv,
    CeilDiv,
    Min,
    Max,
    LessEqual,
    Less,
    Equal,
    NotEqual,
    And
  };
  struct Step {
    Code code;
    int64_t number = 0; ///< of a name its position in `nameTexts`
  };
  class Parser;

  static bool apply(Code code, int64_t left, int64_t right, int64_t &result);

  std::string text = "0";
  std::vector<std::string> nameTexts;
  /// Operands stand in front of what takes them.
  std::vector<Step> steps = {{Code::Number}};
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_EXPRESSION_H
