//===- SharesTest.cpp - How warps divide tiles among them -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shares of fcgpu.all_to_all, for every number of warps and rows.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
class Shares : public testing::Test {
protected:
  VectorType tile(ArrayRef<int64_t> shape) {
    return VectorType::get(shape, Float32Type::get(&context));
  }
  MLIRContext context;
};

TEST_F(Shares, GridHasAShareForEachPart) {
  for (int64_t rows = 16; rows <= 128; rows += 16)
    for (int64_t parts = 1; parts <= 32; ++parts) {
      ShareGrid grid = getShareGrid(rows, parts);
      EXPECT_EQ(grid.rows * grid.cols, parts);
      EXPECT_EQ(rows % (8 * grid.rows), 0) << rows << " rows, " << parts;
    }
}

TEST_F(Shares, RowsAreDividedFirst) {
  EXPECT_EQ(getShareType(tile({32, 64}), 4), tile({8, 64}));
  EXPECT_EQ(getShareType(tile({32, 64}), 2), tile({16, 64}));
  EXPECT_EQ(getShareType(tile({32}), 4), tile({8}));
}

TEST_F(Shares, ColumnsAreDividedWhereRowsDoNotSuffice) {
  EXPECT_EQ(getShareType(tile({16, 64}), 4), tile({8, 32}));
  EXPECT_EQ(getShareType(tile({16}), 4), tile({8}));
  EXPECT_EQ(getShareType(tile({48, 72}), 3), tile({16, 72}));
  EXPECT_EQ(getShareType(tile({16, 72}), 3), tile({16, 24}));
}

TEST_F(Shares, AreWholeCores) {
  EXPECT_TRUE(failed(getShareType(tile({16, 72}), 4)));
  EXPECT_TRUE(failed(getShareType(tile({16, 64}), 5)));
  EXPECT_TRUE(failed(getShareType(tile({12, 64}), 2)));
  EXPECT_TRUE(failed(getShareType(tile({16, 64}), 0)));
}
} // namespace
