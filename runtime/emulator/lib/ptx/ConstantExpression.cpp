//===- ConstantExpression.cpp - Constants of PTX --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 4.5: literals and what operators make of them, with the precedence of
// C. Integers are .s64 or .u64, and what they become is as in ptxas 13.0. A 0f
// literal, which is an f32, has no operator but a sign.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

#include <bit>

using namespace flashcore::emu;

static constexpr unsigned maxConstantDepth = 64;

namespace {
struct BinaryOperator {
  std::string_view text;
  /// The higher, the closer it binds.
  unsigned level;
};
} // namespace

static constexpr BinaryOperator binaryOperators[] = {
    {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},  {"-", 9},  {"<<", 8},
    {">>", 8}, {"<", 7},  {">", 7},  {"<=", 7}, {">=", 7}, {"==", 6},
    {"!=", 6}, {"&", 5},  {"^", 4},  {"|", 3},  {"&&", 2}, {"||", 1}};

/// 0 for a token that is no binary operator.
static unsigned levelOf(const Token &token) {
  for (const BinaryOperator &op : binaryOperators)
    if (token.kind == Token::Kind::Punct && token.text == op.text)
      return op.level;
  return 0;
}

/// Whether a float begins here that has no digit before its point.
static bool isPointFloat(const Token &token) {
  std::string_view word = token.dottedWord();
  return !word.empty() && word[0] >= '0' && word[0] <= '9';
}

static bool startsConstantAt(const Token &token) {
  return token.kind == Token::Kind::Integer ||
         token.kind == Token::Kind::Float ||
         token.kind == Token::Kind::Double || isPointFloat(token) ||
         token.is('(') || token.is('+') || token.is('-') || token.is('~') ||
         (token.kind == Token::Kind::Identifier && token.text == "WARP_SZ");
}

/// `!` may also stand in front of a predicate.
bool Parser::startsConstant() const {
  if (!token.is('!'))
    return startsConstantAt(token);
  Lexer ahead = lexer;
  Token next = ahead.next();
  while (next.is('!'))
    next = ahead.next();
  return startsConstantAt(next);
}

/// The value of the expression that begins here.
bool Parser::parseConstant(PtxOperand &operand) {
  Constant value;
  if (!parseTernary(value))
    return false;
  bool isInteger = value.kind == Constant::Kind::Integer;
  operand.kind = isInteger ? PtxOperand::Kind::Int : PtxOperand::Kind::Float;
  operand.isDouble = value.kind == Constant::Kind::Double;
  operand.value = static_cast<int64_t>(value.bits);
  return true;
}

/// a ? b : c, of integers.
bool Parser::parseTernary(Constant &out) {
  SrcLoc loc = token.loc;
  bool isTernary = false;
  if (++constantDepth > maxConstantDepth)
    return fail(loc, "constant expressions are nested more than 64 deep");
  if (!parseBinary(1, out) || !consume('?', isTernary))
    return false;
  if (isTernary) {
    Constant yes, no;
    if (!parseTernary(yes) || !expect(':', "in a constant expression") ||
        !parseTernary(no))
      return false;
    for (const Constant *value : {&out, &yes, &no})
      if (value->kind != Constant::Kind::Integer)
        return fail(loc, "expects integers around '?' and ':'");
    out = out.bits ? yes : no;
  }
  --constantDepth;
  return true;
}

/// Operators of a level and of those that bind closer.
bool Parser::parseBinary(unsigned level, Constant &out) {
  if (!parseUnary(out))
    return false;
  for (unsigned next = levelOf(token); next >= level; next = levelOf(token)) {
    Token op = token;
    Constant right;
    if (!advance() || !parseBinary(next + 1, right) ||
        !applyBinary(op.loc, op.text, out, right))
      return false;
  }
  return true;
}

bool Parser::parseUnary(Constant &out) {
  if (!token.is('-') && !token.is('+') && !token.is('~') && !token.is('!'))
    return parseConstantPrimary(out);
  Token op = token;
  if (++constantDepth > maxConstantDepth)
    return fail(op.loc, "constant expressions are nested more than 64 deep");
  if (!advance() || !parseUnary(out) || !applyUnary(op.loc, op.text[0], out))
    return false;
  --constantDepth;
  return true;
}

/// A literal, or an expression or a cast in parentheses.
bool Parser::parseConstantPrimary(Constant &out) {
  if (token.is('(')) {
    if (!advance())
      return false;
    return token.kind == Token::Kind::Dotted && !isPointFloat(token)
               ? parseCast(out)
               : parseTernary(out) && expect(')', "in a constant expression");
  }
  if (isPointFloat(token)) {
    token = lexer.floatFrom(token);
    if (token.kind == Token::Kind::Bad)
      return fail(token.loc, lexer.badReason());
  }
  out.bits = token.value;
  out.isUnsigned = token.isUnsigned;
  switch (token.kind) {
  case Token::Kind::Integer:
    out.kind = Constant::Kind::Integer;
    break;
  case Token::Kind::Float:
    out.kind = Constant::Kind::Float;
    break;
  case Token::Kind::Double:
    out.kind = Constant::Kind::Double;
    break;
  default:
    if (token.kind != Token::Kind::Identifier || token.text != "WARP_SZ")
      return fail(token.loc, "expects a constant, but got " + describe(token));
    out.bits = warpSize;
  }
  return advance();
}

/// What follows the parenthesis of `(.s64)` or `(.u64)`.
bool Parser::parseCast(Constant &out) {
  SrcLoc loc = token.loc;
  bool isUnsigned = token.isDotted("u64");
  if (!isUnsigned && !token.isDotted("s64"))
    return fail(loc, "expects a cast to .s64 or .u64 in a constant "
                     "expression, but got " +
                         describe(token));
  if (++constantDepth > maxConstantDepth)
    return fail(loc, "constant expressions are nested more than 64 deep");
  if (!advance() || !expect(')', "after a cast") || !parseUnary(out))
    return false;
  if (out.kind != Constant::Kind::Integer)
    return fail(loc, "expects an integer behind a cast");
  out.isUnsigned = isUnsigned;
  --constantDepth;
  return true;
}

bool Parser::applyUnary(SrcLoc loc, char op, Constant &value) {
  if (value.kind == Constant::Kind::Integer) {
    if (op == '-')
      value.bits = 0 - value.bits;
    else if (op == '~')
      value = {Constant::Kind::Integer, true, ~value.bits};
    else if (op == '!')
      value = {Constant::Kind::Integer, false, !value.bits};
    return true;
  }
  if (op == '~' || op == '!')
    return fail(loc, std::string("expects an integer behind '") + op + "'");
  if (op == '-')
    value.bits ^= uint64_t(1)
                  << (value.kind == Constant::Kind::Double ? 63 : 31);
  return true;
}

/// Whether `a op b` holds, of an operator that compares.
template <typename T>
static std::optional<bool> compare(std::string_view op, T a, T b) {
  if (op == "<")
    return a < b;
  if (op == ">")
    return a > b;
  if (op == "<=")
    return a <= b;
  if (op == ">=")
    return a >= b;
  if (op == "==")
    return a == b;
  if (op == "!=")
    return a != b;
  return std::nullopt;
}

static std::optional<double> combine(char op, double a, double b) {
  switch (op) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return a / b;
  default:
    return std::nullopt;
  }
}

/// Arithmetic modulo 2^64; shifts use the low six bits of their count. Sums
/// and products are the same of both types.
static uint64_t combine(std::string_view op, uint64_t a, uint64_t b,
                        bool isUnsigned) {
  int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (op == "<<")
    return a << (b & 63);
  if (op == ">>")
    return isUnsigned ? a >> (b & 63) : static_cast<uint64_t>(x >> (b & 63));
  if (op == "&&" || op == "||")
    return op == "&&" ? a && b : a || b;
  switch (op[0]) {
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    // The quotient of the smallest number and -1 does not exist.
    return isUnsigned ? a / b : y == -1 ? 0 - a : static_cast<uint64_t>(x / y);
  case '%':
    return a % b;
  case '&':
    return a & b;
  case '^':
    return a ^ b;
  default:
    return a | b;
  }
}

bool Parser::applyBinary(SrcLoc loc, std::string_view op, Constant &left,
                         const Constant &right) {
  using Kind = Constant::Kind;
  std::string quoted = "'" + std::string(op) + "'";
  if (left.kind != right.kind || left.kind == Kind::Float)
    return fail(loc, "expects two integers or two floats in decimal around " +
                         quoted + " in a constant expression");
  if (left.kind == Kind::Double) {
    double a = std::bit_cast<double>(left.bits),
           b = std::bit_cast<double>(right.bits);
    std::optional<bool> holds = compare(op, a, b);
    std::optional<double> value =
        op.size() == 1 && !holds ? combine(op[0], a, b) : std::nullopt;
    if (!holds && !value)
      return fail(loc, "expects integers around " + quoted);
    left = holds
               ? Constant{Kind::Integer, false, *holds}
               : Constant{Kind::Double, false, std::bit_cast<uint64_t>(*value)};
    return true;
  }
  if ((op == "/" || op == "%") && !right.bits)
    return fail(loc, "division by zero in a constant expression");
  bool isUnsigned = left.isUnsigned || right.isUnsigned;
  std::optional<bool> holds = isUnsigned
                                  ? compare(op, left.bits, right.bits)
                                  : compare(op, static_cast<int64_t>(left.bits),
                                            static_cast<int64_t>(right.bits));
  if (holds) {
    left = {Kind::Integer, false, *holds};
    return true;
  }
  bool isShift = op == "<<" || op == ">>", isLogic = op == "&&" || op == "||";
  left.bits = combine(op, left.bits, right.bits,
                      isShift ? left.isUnsigned : isUnsigned);
  // ptxas takes a remainder, as the bits of ~, for unsigned.
  left.isUnsigned =
      op == "%" || (isShift ? left.isUnsigned : isUnsigned && !isLogic);
  return true;
}
