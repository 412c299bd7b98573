//===- PhiloxTest.cpp - Random numbers of a counter -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The known answers of Random123 (tests/kat_vectors, philox4x32 10), by folding
// what is built for constants.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OwningOpRef.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
using Words = std::array<uint32_t, 4>;

class PhiloxTest : public ::testing::Test {
protected:
  PhiloxTest()
      : module(ModuleOp::create(UnknownLoc::get(&context))),
        b(UnknownLoc::get(&context), &context) {
    context.loadDialect<arith::ArithDialect>();
    b.setInsertionPointToStart(module->getBody());
  }

  Value word(uint32_t value) {
    return arith::ConstantOp::create(
        b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

  Words fold(Words counter, std::array<uint32_t, 2> key) {
    PhiloxWords words = buildPhilox(b,
                                    {word(counter[0]), word(counter[1]),
                                     word(counter[2]), word(counter[3])},
                                    {word(key[0]), word(key[1])});
    Words result{};
    for (auto [value, number] : llvm::zip_equal(words, result)) {
      APInt constant;
      EXPECT_TRUE(matchPattern(value, m_ConstantInt(&constant)));
      number = static_cast<uint32_t>(constant.getZExtValue());
    }
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  ImplicitLocOpBuilder b;
};
} // namespace

TEST_F(PhiloxTest, hasTheKnownAnswers) {
  constexpr uint32_t ones = 0xffffffff;
  EXPECT_EQ(fold({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(fold({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(fold({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                 {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}
