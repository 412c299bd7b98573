//===- ProgramTest.cpp - Which functions are one program ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class ProgramTest : public testing::Test {
protected:
  ProgramTest() {
    DialectRegistry registry;
    registry.insert<FlashCoreDialect, arith::ArithDialect, func::FuncDialect,
                    memref::MemRefDialect, scf::SCFDialect>();
    registerKernelOpInterfaceExternalModels(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// The number of ops of the program that a function is, whose body is
  /// `between` two merges.
  size_t countOps(StringRef between, bool hasFirst = true) {
    std::string merge = "flashcore.merge ins(%os, %ls : memref<2x?x4x8x64xf16>,"
                        " memref<2x?x4x8xf32>) outs(%o : memref<?x4x8x64xf16>)";
    std::string text =
        "func.func @f(%os: memref<2x?x4x8x64xf16>, %ls: memref<2x?x4x8xf32>, "
        "%o: memref<?x4x8x64xf16>, %n: index) {\n" +
        (hasFirst ? merge : std::string()) + "\n" + between.str() + "\n" +
        merge + "\nreturn }";
    auto module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module ? findProgram(*module->getOps<func::FuncOp>().begin()).size()
                  : 0;
  }

  MLIRContext context;
};

TEST_F(ProgramTest, SeveralOpsAreOne) { EXPECT_EQ(countOps(""), 2u); }

TEST_F(ProgramTest, OneOpIsNone) { EXPECT_EQ(countOps("", false), 0u); }

TEST_F(ProgramTest, ViewsOfFixedPlacesStandBetween) {
  EXPECT_EQ(countOps("%v = memref.subview %os[1, 0, 0, 0, 0] [1, 2, 4, 8, 64] "
                     "[1, 1, 1, 1, 1] : memref<2x?x4x8x64xf16> to "
                     "memref<2x4x8x64xf16, strided<[2048, 512, 64, 1], "
                     "offset: ?>>"),
            2u);
}

TEST_F(ProgramTest, AnAxisMayBeWhole) {
  std::string dim = "%c1 = arith.constant 1 : index\n"
                    "%b = memref.dim %os, %c1 : memref<2x?x4x8x64xf16>\n";
  std::string view = "[1, %b, 4, 8, 64] [1, 1, 1, 1, 1] : "
                     "memref<2x?x4x8x64xf16> to memref<?x4x8x64xf16, "
                     "strided<[2048, 512, 64, 1], offset: ?>>";
  EXPECT_EQ(countOps(dim + "%v = memref.subview %os[1, 0, 0, 0, 0] " + view),
            2u);
  EXPECT_EQ(countOps(dim + "%v = memref.subview %os[%n, 0, 0, 0, 0] " + view),
            0u);
  EXPECT_EQ(countOps(dim + "%a = memref.alloc(%b) : memref<?xf32>"), 2u);
}

TEST_F(ProgramTest, NumbersThatNoManifestSaysDoNot) {
  EXPECT_EQ(countOps("%a = memref.alloc(%n) : memref<?xf32>"), 0u);
  EXPECT_EQ(countOps("%m = arith.addi %n, %n : index"), 0u);
}

TEST_F(ProgramTest, BranchesAndCallsDoNot) {
  EXPECT_EQ(countOps("%c = arith.constant true\nscf.if %c { }"), 0u);
  EXPECT_EQ(countOps("memref.copy %o, %o : memref<?x4x8x64xf16> to "
                     "memref<?x4x8x64xf16>"),
            0u);
}
} // namespace
