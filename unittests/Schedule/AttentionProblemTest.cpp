//===- AttentionProblemTest.cpp - What schedules ask of an attention ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/AttentionProblem.h"
#include "../Analysis/RegionFixture.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
using AttentionProblemTest = RegionFixture;

// A region that says the same as a clause gets the same schedule.
TEST_F(AttentionProblemTest, ClausesAndRegionsAreOneMask) {
  AttentionProblem problem =
      AttentionProblem::get(parse("%c = arith.constant 10 : index\n"
                                  "%x = arith.addi %q, %c : index\n"
                                  "%m = arith.cmpi sle, %k, %x : index\n"));
  EXPECT_TRUE(problem.isCausal);
  EXPECT_FALSE(problem.hasBias);
  EXPECT_FALSE(problem.hasWindow);
}

// A few operations a score take no registers worth mentioning; what depends on
// the row alone is none of them.
TEST_F(AttentionProblemTest, LongRegions) {
  std::string rest = "%c = arith.constant 7 : index\n"
                     "%r0 = arith.remui %q, %c : index\n";
  for (int i = 0; i < 9; ++i)
    rest += "%r" + std::to_string(i + 1) + " = arith.addi %r" +
            std::to_string(i) + ", %q : index\n";
  std::string end = "%m = arith.cmpi ne, %k, %r9 : index\n";
  AttentionProblem problem = AttentionProblem::get(parse(rest + end));
  EXPECT_TRUE(problem.hasBias);
  EXPECT_FALSE(problem.hasLongScores);
  std::string long_;
  for (size_t i = 0; i < rest.size(); ++i)
    long_ += rest.compare(i, 2, "%q") == 0 ? (++i, std::string("%k"))
                                           : std::string(1, rest[i]);
  EXPECT_TRUE(AttentionProblem::get(parse(long_ + end)).hasLongScores);
  const char *twoReads = "%x = memref.load %ids[%k] : memref<100xi32>\n"
                         "%c = arith.constant 1 : index\n"
                         "%l = arith.subi %k, %c : index\n"
                         "%y = memref.load %ids[%l] : memref<100xi32>\n"
                         "%m = arith.cmpi ne, %x, %y : i32\n";
  EXPECT_TRUE(AttentionProblem::get(parse(twoReads)).hasLongScores);
}

// A region is what a clause is: a softcap by any name takes a special function,
// and factors are not work.
TEST_F(AttentionProblemTest, SpecialFunctions) {
  auto get = [&](const std::string &body) {
    return AttentionProblem::get(
        parse("%c = arith.constant 2.0 : f32\n" + body));
  };
  AttentionProblem problem = get("%t = math.tanh %s : f32\n"
                                 "%m = arith.cmpf ogt, %t, %c : f32\n");
  EXPECT_TRUE(problem.hasSpecials);
  problem = get("%t = arith.divf %s, %c : f32\n"
                "%m = arith.cmpf ogt, %t, %c : f32\n");
  EXPECT_FALSE(problem.hasSpecials);
  problem = get("%t = arith.divf %c, %s : f32\n"
                "%m = arith.cmpf ogt, %t, %c : f32\n");
  EXPECT_TRUE(problem.hasSpecials);
}
} // namespace
