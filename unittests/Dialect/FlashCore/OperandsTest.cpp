//===- OperandsTest.cpp - The table of operands ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Of a name, which is there.
static const OperandInfo &get(StringRef name) {
  return *llvm::find_if(getOperandTable(), [&](const OperandInfo &row) {
    return row.name == name;
  });
}

/// With every operand, each a value of its own, of whatever type.
static std::string getText() {
  std::string arguments, clauses, types;
  auto getName = [](const OperandInfo &row) { return "%" + row.name.str(); };
  ArrayRef<OperandInfo> table = getOperandTable();
  for (const OperandInfo &row : table)
    arguments +=
        (arguments.empty() ? "" : ", ") + getName(row) + ": memref<4xf16>";
  for (size_t i = 0; i < table.size();) {
    size_t end = i;
    std::string names, types;
    for (; end < table.size() && table[end].clause == table[i].clause; ++end) {
      names += (end == i ? "" : ", ") + getName(table[end]);
      types += std::string(end == i ? "" : ", ") + "memref<4xf16>";
    }
    clauses += " " + table[i].clause.str() + "(" + names + " : " + types + ")";
    i = end;
  }
  return "func.func @f(" + arguments + ") { flashcore.attention" + clauses +
         " return }";
}

TEST(OperandsTest, RowsAreInTheOrderOfTheOp) {
  MLIRContext context;
  context.loadDialect<FlashCoreDialect, func::FuncDialect>();
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(getText(), config);
  ASSERT_TRUE(module);
  auto function = cast<func::FuncOp>(module->getBody()->front());
  auto op = cast<AttentionOp>(function.getBody().front().front());
  ASSERT_EQ(op->getNumOperands(), kNumOperandRows);
  for (unsigned row = 0; row < kNumOperandRows; ++row) {
    EXPECT_EQ(findOperand(op, row), op->getOperand(row)) << row;
    EXPECT_EQ(findOperand(op, row), function.getArgument(row)) << row;
  }
}

TEST(OperandsTest, InputsAreFirst) {
  const StringRef inputs[] = {"query", "key", "value"};
  for (auto [row, name] : llvm::enumerate(inputs))
    EXPECT_EQ(getOperandTable()[row].name, name);
  for (auto [row, info] : llvm::enumerate(getOperandTable()))
    EXPECT_EQ(info.clause == "ins", row < kNumInputs) << info.name.str();
}

TEST(OperandsTest, AxesAreNamedForMessages) {
  EXPECT_EQ(get("key").describeAxes(), "(batch, heads_kv, seqlen_k, head_dim)");
  EXPECT_EQ(get("bias").describeAxes(), "(batch, heads_q, seqlen_q, seqlen_k)");
  EXPECT_EQ(get("cu_seqlens_q").describeAxes(), "(sequences + 1)");
  EXPECT_EQ(get("rng").describeAxes(), "(4)");
  EXPECT_EQ(get("rng").getRank(), 1);
  EXPECT_EQ(get("bias").getAxes()[2], "seqlen_q");
}

TEST(OperandsTest, AxesOfOneAreBroadcastWhereTheTableSaysSo) {
  for (unsigned axis = 0; axis < 4; ++axis) {
    EXPECT_TRUE(get("bias").isBroadcast(axis));
    EXPECT_FALSE(get("scores").isBroadcast(axis));
    EXPECT_EQ(get("block_indices").isBroadcast(axis), axis < 2);
  }
}

TEST(OperandsTest, Elements) {
  MLIRContext context;
  Type f16 = Float16Type::get(&context), f32 = Float32Type::get(&context);
  Type i32 = IntegerType::get(&context, 32);
  EXPECT_TRUE(get("query").isElement(f16));
  EXPECT_FALSE(get("query").isElement(f32));
  EXPECT_FALSE(get("lse").isElement(f16));
  EXPECT_TRUE(get("seqused_k").isElement(i32));
  EXPECT_FALSE(get("seqused_k").isElement(f32));
  EXPECT_EQ(get("output").describeElements(), "f16 or bf16");
  EXPECT_EQ(get("scores").describeElements(), "f16, bf16 or f32");
}
