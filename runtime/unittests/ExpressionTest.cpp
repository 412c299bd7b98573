//===- ExpressionTest.cpp - Numbers that follow from sizes ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values of texts, what is no expression, and what does not fit.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Expression.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

using namespace flashcore;

static const Numbers numbers = {
    {"a", 7},  {"b", 2}, {"zero", 0}, {"most", INT64_MAX}, {"least", INT64_MIN},
    {"$x", 5}, {"%0", 9}};

static int64_t valueOf(std::string_view text) {
  StatusOr<Expression> expression = Expression::parse(text);
  EXPECT_TRUE(expression.ok()) << text << ": " << expression.status().str();
  if (!expression.ok())
    return -1;
  StatusOr<int64_t> value = expression->evaluate(numbers, "it");
  EXPECT_TRUE(value.ok()) << text << ": " << value.status().str();
  return value.ok() ? *value : -1;
}

static std::string refusal(std::string_view text) {
  StatusOr<Expression> expression = Expression::parse(text);
  if (!expression.ok())
    return expression.status().message();
  for (const std::string &name : expression->names())
    if (!numbers.contains(name))
      return "nothing is named '" + name + "'";
  StatusOr<int64_t> value = expression->evaluate(numbers, "it");
  return value.ok() ? "" : value.status().message();
}

// The package's reader (python/flashcore/bundle.py) answers the same texts.
TEST(ExpressionTest, answersAsTheOtherReader) {
  std::ifstream file(FLASHCORE_EXPRESSIONS);
  nlohmann::json expected = nlohmann::json::parse(file);
  ASSERT_EQ(Numbers(expected["numbers"]), numbers);
  ASSERT_FALSE(expected["values"].empty());
  for (const auto &[text, value] : expected["values"].items())
    EXPECT_EQ(valueOf(text), value) << text;
  for (const std::string &text :
       expected["refused"].get<std::vector<std::string>>())
    EXPECT_NE(refusal(text), "") << text;
}

TEST(ExpressionTest, listsItsNames) {
  StatusOr<Expression> expression =
      Expression::parse("(seqlen_q ceildiv 64) * $x + seqlen_q");
  ASSERT_TRUE(expression.ok());
  EXPECT_EQ(expression->names(), (std::vector<std::string>{"seqlen_q", "$x"}));
  EXPECT_EQ(expression->str(), "(seqlen_q ceildiv 64) * $x + seqlen_q");
}

TEST(ExpressionTest, refusesWhatIsNone) {
  EXPECT_EQ(refusal(""), "expects a number, a name or '(', but got the end in "
                         "the expression ''");
  EXPECT_EQ(refusal("a +"), "expects a number, a name or '(', but got the end "
                            "in the expression 'a +'");
  EXPECT_EQ(refusal("a b"), "expects an operator or the end, but got 'b' in "
                            "the expression 'a b'");
  EXPECT_EQ(refusal("(a"),
            "expects ')', but got the end in the expression '(a'");
  EXPECT_EQ(refusal("min a"),
            "expects '(', but got 'a' in the expression 'min a'");
  EXPECT_EQ(refusal("min(a; b)"),
            "expects ',' or ')', but got ';' in the expression 'min(a; b)'");
  EXPECT_EQ(refusal("a < b < 3"), "expects an operator or the end, but got '<' "
                                  "in the expression 'a < b < 3'");
  EXPECT_EQ(refusal("9223372036854775808"),
            "expects a number of less than 2^63, but got "
            "'9223372036854775808' in the expression '9223372036854775808'");
  EXPECT_EQ(refusal("2a"), "expects a number of less than 2^63, but got '2a' "
                           "in the expression '2a'");
  EXPECT_EQ(refusal(std::string(5000, '1')),
            "expects an expression of at most 4096 characters, but got 5000");
}

// The parser recurses: a file must not be able to use up the stack.
TEST(ExpressionTest, refusesDeepNesting) {
  std::string deep = std::string(2000, '(') + "a" + std::string(2000, ')');
  EXPECT_TRUE(refusal(deep).starts_with("expects less nesting, but got '('"));
  std::string signs = std::string(2000, '-') + "a";
  EXPECT_TRUE(refusal(signs).starts_with("expects less nesting, but got '-'"));
  EXPECT_EQ(valueOf("((((((((a))))))))"), 7);
}

TEST(ExpressionTest, refusesWhatDoesNotFit) {
  EXPECT_EQ(refusal("most + 1"),
            "expects it to be less than 2^63, but got 'most + 1' with most = "
            "9223372036854775807");
  EXPECT_EQ(refusal("least - 1"),
            "expects it to be less than 2^63, but got 'least - 1' with least = "
            "-9223372036854775808");
  EXPECT_EQ(refusal("-least"),
            "expects it to be less than 2^63, but got '-least' with least = "
            "-9223372036854775808");
  EXPECT_EQ(refusal("most * b"),
            "expects it to be less than 2^63, but got 'most * b' with most = "
            "9223372036854775807, b = 2");
  EXPECT_EQ(refusal("a floordiv zero"),
            "expects it to divide by positive numbers, but got 'a floordiv "
            "zero' with a = 7, zero = 0");
  EXPECT_EQ(refusal("a ceildiv (b - 3)"),
            "expects it to divide by positive numbers, but got 'a ceildiv (b - "
            "3)' with a = 7, b = 2");
  EXPECT_EQ(valueOf("most ceildiv 2"), int64_t(1) << 62);
  EXPECT_EQ(valueOf("least floordiv 2"), -(int64_t(1) << 62));
}
