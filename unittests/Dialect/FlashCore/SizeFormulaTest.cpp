//===- SizeFormulaTest.cpp - Numbers that follow from sizes ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The text of a formula and the value that host code computes are one.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/SizeFormula.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinOps.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class SizeFormulaTest : public testing::Test {
protected:
  SizeFormulaTest() {
    context.loadDialect<affine::AffineDialect, arith::ArithDialect>();
  }

  static std::string print(const SizeFormula &formula) {
    return formula.print([](Dim dim) { return stringifyDim(dim); });
  }

  /// Of constant sizes; host code folds it.
  std::optional<int64_t> evaluate(const SizeFormula &formula) {
    ImplicitLocOpBuilder b(UnknownLoc::get(&context), &context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(b.getLoc());
    b.setInsertionPointToStart(module->getBody());
    return getConstantIntValue(formula.build(b, [&](Dim dim) -> OpFoldResult {
      return b.getIndexAttr(getExtent(dim));
    }));
  }

  static int64_t getExtent(Dim dim) {
    return dim == Dim::SeqlenQ ? 130 : dim == Dim::Batch ? 3 : 8;
  }

  void expect(const SizeFormula &formula, StringRef text, int64_t value) {
    EXPECT_EQ(print(formula), text);
    EXPECT_EQ(evaluate(formula), value) << text.str();
    EXPECT_EQ(formula.evaluate([](Dim dim) { return getExtent(dim); }), value)
        << text.str();
  }

  MLIRContext context;
  const SizeFormula q = Dim::SeqlenQ, batch = Dim::Batch, heads = Dim::HeadsQ;
};

TEST_F(SizeFormulaTest, Arithmetic) {
  expect(7, "7", 7);
  expect(q, "seqlen_q", 130);
  expect(q.ceilDiv(64) * heads * batch,
         "(seqlen_q ceildiv 64) * heads_q * batch", 72);
  expect(q.floorDiv(64) + batch, "(seqlen_q floordiv 64) + batch", 5);
  expect(q + -1, "seqlen_q - 1", 129);
  expect((q + batch) * 4, "(seqlen_q + batch) * 4", 532);
  expect(q + batch * 4, "seqlen_q + batch * 4", 142);
  expect(q * (batch * heads), "seqlen_q * (batch * heads_q)", 3120);
  expect(q.ceilDiv(batch), "seqlen_q ceildiv batch", 44);
}

TEST_F(SizeFormulaTest, NumbersStandBehindSizes) {
  expect(SizeFormula(4) * q * 2, "seqlen_q * 8", 1040);
  expect(q * 16 * batch * 4, "seqlen_q * batch * 64", 24960);
  expect(q.ceilDiv(64) * 64 * heads * 2,
         "(seqlen_q ceildiv 64) * heads_q * 128", 3072);
}

TEST_F(SizeFormulaTest, AnUnknownSizeIsNoNumber) {
  auto knowBatch = [](Dim dim) {
    return dim == Dim::Batch ? std::optional<int64_t>(3) : std::nullopt;
  };
  EXPECT_EQ((batch * 2 + 1).evaluate(knowBatch), 7);
  EXPECT_EQ((batch * q).evaluate(knowBatch), std::nullopt);
  EXPECT_EQ(SizeFormula::max({batch, q}).evaluate(knowBatch), std::nullopt);
}

TEST_F(SizeFormulaTest, LeastAndLargest) {
  SizeFormula tiles = SizeFormula::max({1, q.ceilDiv(16) * batch});
  expect(SizeFormula::max(
             {1, SizeFormula::min({32, SizeFormula(256).floorDiv(tiles)})}),
         "max(1, min(32, 256 floordiv max(1, (seqlen_q ceildiv 16) * batch)))",
         9);
  expect(SizeFormula::min({q, batch}) * heads, "min(seqlen_q, batch) * heads_q",
         24);
}

// What changes nothing is not there.
TEST_F(SizeFormulaTest, NeutralNumbers) {
  expect(q.ceilDiv(1) * 1 + 0, "seqlen_q", 130);
  expect(SizeFormula(0) + batch, "batch", 3);
  expect(SizeFormula(1) * batch, "batch", 3);
  expect(SizeFormula(3) * 4 + 1, "13", 13);
  EXPECT_EQ((SizeFormula(3) * 4).getNumber(), 12);
  EXPECT_EQ((q * 4).getNumber(), std::nullopt);
}
} // namespace
