//===- Expression.cpp - Numbers that follow from sizes --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parser by recursive descent makes steps for a stack, which are evaluated
// without looking at the text again. Texts come from files: nesting has a
// limit.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>

using namespace flashcore;

/// Far more than any formula has.
static constexpr size_t maxText = 1 << 12;
static constexpr int maxDepth = 32;

static bool isWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
         c == '%';
}

class Expression::Parser {
public:
  explicit Parser(std::string_view text) : rest(text) { next(); }

  StatusOr<Expression> parse(std::string_view text) {
    expression.steps.clear();
    parseCondition();
    if (!token.empty())
      refuse("an operator or the end");
    if (!error.empty())
      return Status::error("expects " + error + " in the expression '" +
                           std::string(text) + "'");
    expression.text = text;
    return std::move(expression);
  }

private:
  /// Moves to the next word, number or sign; empty at the end.
  void next();
  bool take(std::string_view wanted) {
    if (token != wanted)
      return false;
    next();
    return true;
  }
  void refuse(std::string_view expected) {
    if (error.empty())
      error = std::string(expected) + ", but got " +
              (token.empty() ? "the end" : "'" + std::string(token) + "'");
    rest = token = {}; // ends every loop
  }
  void add(Code code, int64_t number = 0) {
    expression.steps.push_back({code, number});
  }
  void parseCondition();
  void parseComparison();
  void parseSum();
  void parseProduct();
  void parseValue();
  void parseName();
  void parseExtreme(Code code);

  std::string_view rest, token;
  std::string error;
  int depth = 0;
  Expression expression;
};

void Expression::Parser::next() {
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  size_t length = 0;
  while (length < rest.size() && isWord(rest[length]))
    ++length;
  bool isPair = length == 0 && rest.size() > 1 && rest[1] == '=' &&
                std::string_view("<>=!").find(rest[0]) != rest.npos;
  length = length ? length : isPair ? 2 : std::min<size_t>(rest.size(), 1);
  token = rest.substr(0, length);
  rest.remove_prefix(length);
}

void Expression::Parser::parseCondition() {
  parseComparison();
  while (take("and")) {
    parseComparison();
    add(Code::And);
  }
}

void Expression::Parser::parseComparison() {
  struct Comparison {
    std::string_view sign;
    Code code;
    bool isSwapped;
  };
  static constexpr Comparison comparisons[] = {
      {"<=", Code::LessEqual, false}, {">=", Code::LessEqual, true},
      {"<", Code::Less, false},       {">", Code::Less, true},
      {"==", Code::Equal, false},     {"!=", Code::NotEqual, false}};
  size_t begin = expression.steps.size();
  parseSum();
  for (const auto &[sign, code, isSwapped] : comparisons) {
    if (!take(sign))
      continue;
    auto middle = static_cast<std::ptrdiff_t>(expression.steps.size());
    parseSum();
    if (isSwapped)
      std::rotate(expression.steps.begin() + static_cast<std::ptrdiff_t>(begin),
                  expression.steps.begin() + middle, expression.steps.end());
    return add(code);
  }
}

void Expression::Parser::parseSum() {
  parseProduct();
  while (token == "+" || token == "-") {
    Code code = token == "+" ? Code::Add : Code::Subtract;
    next();
    parseProduct();
    add(code);
  }
}

void Expression::Parser::parseProduct() {
  parseValue();
  while (token == "*" || token == "floordiv" || token == "ceildiv") {
    Code code = token == "*"          ? Code::Multiply
                : token == "floordiv" ? Code::FloorDiv
                                      : Code::CeilDiv;
    next();
    parseValue();
    add(code);
  }
}

void Expression::Parser::parseValue() {
  if (++depth > maxDepth)
    refuse("less nesting");
  if (take("-")) {
    add(Code::Number, 0);
    parseValue();
    add(Code::Subtract);
  } else if (take("(")) {
    parseCondition();
    if (!take(")"))
      refuse("')'");
  } else if (take("min")) {
    parseExtreme(Code::Min);
  } else if (take("max")) {
    parseExtreme(Code::Max);
  } else {
    parseName();
  }
  --depth;
}

void Expression::Parser::parseExtreme(Code code) {
  if (!take("("))
    return refuse("'('");
  parseSum();
  while (take(",")) {
    parseSum();
    add(code);
  }
  if (!take(")"))
    refuse("',' or ')'");
}

void Expression::Parser::parseName() {
  if (token.empty() || !isWord(token.front()) || token == "and" ||
      token == "floordiv" || token == "ceildiv")
    return refuse("a number, a name or '('");
  if (std::isdigit(static_cast<unsigned char>(token.front()))) {
    int64_t number = 0;
    auto [end, failure] =
        std::from_chars(token.data(), token.data() + token.size(), number);
    if (failure != std::errc() || end != token.data() + token.size())
      return refuse("a number of less than 2^63");
    add(Code::Number, number);
  } else {
    auto &names = expression.nameTexts;
    auto it = std::find(names.begin(), names.end(), token);
    add(Code::Name, it - names.begin());
    if (it == names.end())
      names.emplace_back(token);
  }
  next();
}

StatusOr<Expression> Expression::parse(std::string_view text) {
  if (text.size() > maxText)
    return Status::error("expects an expression of at most " +
                         std::to_string(maxText) + " characters, but got " +
                         std::to_string(text.size()));
  return Parser(text).parse(text);
}

/// False where the result does not fit, or a divisor is not positive.
bool Expression::apply(Code code, int64_t left, int64_t right,
                       int64_t &result) {
  switch (code) {
  case Code::Number:
  case Code::Name:
    break;
  case Code::Add:
    return !__builtin_add_overflow(left, right, &result);
  case Code::Subtract:
    return !__builtin_sub_overflow(left, right, &result);
  case Code::Multiply:
    return !__builtin_mul_overflow(left, right, &result);
  case Code::FloorDiv:
  case Code::CeilDiv: {
    if (right <= 0)
      return false;
    int64_t rest = left % right;
    int64_t step = code == Code::CeilDiv ? (rest > 0) : -int64_t(rest < 0);
    result = left / right + step;
    return true;
  }
  case Code::Min:
    result = std::min(left, right);
    return true;
  case Code::Max:
    result = std::max(left, right);
    return true;
  case Code::LessEqual:
    result = left <= right;
    return true;
  case Code::Less:
    result = left < right;
    return true;
  case Code::Equal:
    result = left == right;
    return true;
  case Code::NotEqual:
    result = left != right;
    return true;
  case Code::And:
    result = left && right;
    return true;
  }
  return false;
}

StatusOr<int64_t> Expression::evaluate(const Numbers &numbers,
                                       std::string_view what) const {
  std::vector<int64_t> stack;
  for (const auto &[code, number] : steps) {
    if (code == Code::Number) {
      stack.push_back(number);
      continue;
    }
    if (code == Code::Name) {
      auto it = numbers.find(nameTexts[static_cast<size_t>(number)]);
      assert(it != numbers.end() && "whoever reads it has checked its names");
      stack.push_back(it->second);
      continue;
    }
    int64_t right = stack.back();
    stack.pop_back();
    if (apply(code, stack.back(), right, stack.back()))
      continue;
    bool isDivision = code == Code::FloorDiv || code == Code::CeilDiv;
    std::string given;
    for (const std::string &name : nameTexts)
      given += (given.empty() ? " with " : ", ") + name + " = " +
               std::to_string(numbers.find(name)->second);
    return Status::error("expects " + std::string(what) +
                         (isDivision ? " to divide by positive numbers"
                                     : " to be less than 2^63") +
                         ", but got '" + text + "'" + given);
  }
  return stack.back();
}
