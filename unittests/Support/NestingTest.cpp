//===- NestingTest.cpp - How deep MLIR may be nested ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Support/ToolInit.h"
#include "gtest/gtest.h"

using namespace mlir::flashcore;

namespace {
std::string repeat(llvm::StringRef text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i)
    result += text;
  return result;
}
std::string refusal(llvm::StringRef text) {
  return checkNesting(text).value_or("");
}

TEST(Nesting, CountsEveryKindOfBracket) {
  for (const char *open : {"(", "[", "{", "<"}) {
    EXPECT_EQ(refusal(repeat(open, kMaxNesting)), "");
    EXPECT_EQ(refusal("a\n  " + repeat(open, kMaxNesting + 1)),
              "2:259: error: expects brackets and regions nested at most 256 "
              "deep, but got more");
  }
  EXPECT_NE(refusal(repeat("tuple<[{(", kMaxNesting / 4 + 1)), "");
}

TEST(Nesting, ForgetsWhatIsClosed) {
  EXPECT_EQ(refusal(repeat("(<[{}]>)\n", 10000)), "");
  EXPECT_EQ(refusal(repeat(")", 10000) + repeat("(", kMaxNesting)), "");
}

TEST(Nesting, TellsBracketsFromArrowsAndComparisons) {
  EXPECT_EQ(refusal(repeat("(a) -> b, a >= b, a <= b\n", 10000)), "");
  // A dialect may compare with `<`, too, but inside of something that ends.
  EXPECT_EQ(refusal(repeat("(a < b)\n", 10000)), "");
}

TEST(Nesting, IgnoresStringsAndComments) {
  EXPECT_EQ(refusal("\"" + repeat("(", 1000) + "\""), "");
  EXPECT_EQ(refusal("\"\\\"" + repeat("(", 1000) + "\""), "");
  EXPECT_EQ(refusal("// " + repeat("(", 1000)), "");
  EXPECT_EQ(refusal("// " + repeat("(", 1000) + "\n"), "");
  // A string ends with its line, as in MLIR.
  EXPECT_NE(refusal("\"a\n" + repeat("(", 1000)), "");
  EXPECT_NE(refusal("// a\n" + repeat("(", 1000)), "");
  EXPECT_EQ(refusal("\""), "");
  EXPECT_EQ(refusal("\"\\"), "");
}
} // namespace
