//===- RowAccessTest.cpp - How much of a row moves at a time --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::flashcore;

static constexpr int64_t kOpen = ShapedType::kDynamic;

static int64_t choose(int64_t columns, std::initializer_list<int64_t> strides,
                      int64_t offset = 0, int64_t elementBytes = 2) {
  return chooseAccessBytes(
      {columns, elementBytes, llvm::ArrayRef<int64_t>(strides), offset});
}

// Wherever a row begins that the strides and the offset lead to, what is left
// of it is a whole number of accesses, each at a multiple of its size; no wider
// access does that.
TEST(RowAccess, IsTheWidestThatDividesAllRows) {
  for (int64_t columns = 1; columns <= 256; ++columns)
    for (int64_t extra : {0, 1, 2, 4, 8, 12})
      for (int64_t offset : {0, 1, 2, 4, 8, 24}) {
        int64_t stride = columns + extra, outer = 100 * stride;
        int64_t bytes = choose(columns, {outer, stride}, offset);
        auto fits = [&](int64_t access) {
          return 2 * columns % access == 0 && 2 * stride % access == 0 &&
                 2 * outer % access == 0 && 2 * offset % access == 0;
        };
        ASSERT_TRUE(bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16);
        ASSERT_TRUE(fits(bytes)) << columns << " " << stride << " " << offset;
        ASSERT_TRUE(bytes == 16 || !fits(2 * bytes))
            << columns << " " << stride << " " << offset;
      }
}

// What is known at run time only is a multiple of what is known allows: rows
// one behind the other always are.
TEST(RowAccess, LeavesWhatIsOpenToTheCaller) {
  EXPECT_EQ(choose(64, {kOpen, kOpen, kOpen}, kOpen), 16);
  EXPECT_EQ(choose(20, {kOpen, kOpen, kOpen}, kOpen), 8);
  EXPECT_EQ(choose(250, {kOpen, kOpen, kOpen}, kOpen), 4);
  EXPECT_EQ(choose(5, {kOpen, kOpen, kOpen}, kOpen), 2);
  EXPECT_EQ(choose(64, {kOpen, kOpen, 68}, kOpen), 8);
  EXPECT_EQ(choose(64, {kOpen, kOpen, kOpen}, 2), 4);
}

// Scores have a column for each key.
TEST(RowAccess, IsOneElementWhereColumnsAreOpen) {
  EXPECT_EQ(choose(kOpen, {kOpen, kOpen, kOpen}), 2);
  EXPECT_EQ(choose(kOpen, {4096, 512, 64}, 0, /*elementBytes=*/4), 4);
}

TEST(RowAccess, CountsBytesNotElements) {
  EXPECT_EQ(choose(16, {16}, 0, /*elementBytes=*/4), 16);
  EXPECT_EQ(choose(2, {2}, 0, /*elementBytes=*/4), 8);
  EXPECT_EQ(choose(5, {5}, 0, /*elementBytes=*/4), 4);
}

TEST(RowAccess, OfTensorsIsThatOfDenseRows) {
  MLIRContext context;
  Type f16 = Float16Type::get(&context);
  EXPECT_EQ(getAccessBytes(RankedTensorType::get({1, 2, kOpen, 64}, f16)), 16);
  EXPECT_EQ(getAccessBytes(RankedTensorType::get({1, 2, kOpen, 12}, f16)), 8);
}

// The type of a slice has an offset that is known at run time only, whatever
// that of the whole is.
TEST(RowAccess, OfViewsIsThatOfTheWhole) {
  MLIRContext context;
  context.loadDialect<fcgpu::FCGPUDialect, func::FuncDialect,
                      memref::MemRefDialect>();
  auto module = parseSourceString<ModuleOp>(R"mlir(
    !odd = memref<2x1x70x64xf16, strided<[4480, 4480, 64, 1], offset: 3>>
    !pool = memref<?x1x16x64xf16, strided<[1028, 1028, 64, 1]>>
    func.func @f(%odd: !odd, %pool: !pool, %bytes: memref<f16>,
                 %table: memref<1x?xi32>, %i: index) {
      %slice = memref.subview %odd[%i, 0, %i, 0] [1, 1, 16, 64] [1, 1, 1, 1]
          : !odd to memref<1x1x16x64xf16, strided<[4480, 4480, 64, 1], offset: ?>>
      %pages = fcgpu.view_pages %pool by %table rows(%i) step(64)
          : !pool, memref<1x?xi32> -> memref<1x1x?x64xf16, #fcgpu.pages>
      %whole = memref.reinterpret_cast %bytes to offset: [0], sizes: [2, 20],
          strides: [20, 1] : memref<f16> to memref<2x20xf16>
      return
    }
  )mlir",
                                            &context);
  ASSERT_TRUE(module);
  SmallVector<int64_t> bytes;
  module->walk([&](Operation *op) {
    if (op->getNumResults() == 1)
      bytes.push_back(getAccessBytes(op->getResult(0)));
  });
  EXPECT_EQ(bytes, (SmallVector<int64_t>{2, 8, 8}));
}
