//===- PTXTest.cpp - Tests of the way to PTX ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/PTX.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::flashcore;

static constexpr const char *kernels = R"mlir(
gpu.module @kernels {
  llvm.mlir.global external @shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i32>
  llvm.func @store(%i: i32) attributes {nvvm.kernel} {
    %base = llvm.mlir.addressof @shared : !llvm.ptr<3>
    %p = llvm.getelementptr %base[%i] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
    llvm.store %i, %p : i32, !llvm.ptr<3>
    llvm.return
  }
}
)mlir";

/// An embedding process may have uses of its own for LLVM's NVPTX backend.
TEST(PTXTest, leavesTheBackendAsItWas) {
  DialectRegistry registry;
  registry.insert<gpu::GPUDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
  registerPTXTranslations(registry);
  MLIRContext context(registry);
  auto module = parseSourceString<ModuleOp>(kernels, &context);
  ASSERT_TRUE(module);
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>("kernels");

  auto &options = llvm::cl::getRegisteredOptions();
  ASSERT_TRUE(options.contains("nvptx-short-ptr"));
  auto *shortPointers =
      static_cast<llvm::cl::opt<bool> *>(options["nvptx-short-ptr"]);
  for (bool value : {false, true}) {
    shortPointers->setValue(value);
    FailureOr<std::string> ptx = emitPTX(kernel, "sm_89", PTXStage::PTX);
    ASSERT_TRUE(succeeded(ptx));
    EXPECT_NE(ptx->find("st.shared.b32 \t[%r"), std::string::npos) << *ptx;
    EXPECT_EQ(shortPointers->getValue(), value);
  }
  shortPointers->setValue(false);
}
