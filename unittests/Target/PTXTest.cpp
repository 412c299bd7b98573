//===- PTXTest.cpp - Tests of the way to PTX ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/PTX.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
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

/// Those of the kernels here, with what makes PTX of them.
static DialectRegistry getDialects() {
  DialectRegistry registry;
  registry.insert<fcgpu::FCGPUDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                  NVVM::NVVMDialect>();
  registerPTXTranslations(registry);
  return registry;
}

/// An embedding process may have uses of its own for LLVM's NVPTX backend.
TEST(PTXTest, leavesTheBackendAsItWas) {
  MLIRContext context(getDialects());
  auto module = parseSourceString<ModuleOp>(kernels, &context);
  ASSERT_TRUE(module);
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>("kernels");

  auto &options = llvm::cl::getRegisteredOptions();
  for (const char *name : {"nvptx-short-ptr", "nvptx-no-f32x2"}) {
    ASSERT_TRUE(options.contains(name)) << name;
    auto *option = static_cast<llvm::cl::opt<bool> *>(options[name]);
    for (bool value : {true, false}) {
      option->setValue(value);
      FailureOr<std::string> ptx = emitPTX(kernel, "sm_89", PTXStage::PTX);
      ASSERT_TRUE(succeeded(ptx));
      EXPECT_NE(ptx->find("st.shared.b32 \t[%r"), std::string::npos) << *ptx;
      EXPECT_EQ(option->getValue(), value) << name;
    }
  }
}

/// Whatever LLVM has for a chip, kernels for it are those of older ones.
TEST(PTXTest, newerChipsHaveNoPairsOfFloats) {
  MLIRContext context(getDialects());
  auto module = parseSourceString<ModuleOp>(R"mlir(
    gpu.module @kernels {
      llvm.func @add(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
        %x = llvm.load %p : !llvm.ptr<1> -> vector<2xf32>
        %y = llvm.fadd %x, %x : vector<2xf32>
        llvm.store %y, %p : vector<2xf32>, !llvm.ptr<1>
        llvm.return
      }
    }
  )mlir",
                                            &context);
  ASSERT_TRUE(module);
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>("kernels");
  for (auto [chip, version] :
       {std::pair("sm_120", ".version 8.7\n"), {"sm_121", ".version 8.8\n"}}) {
    FailureOr<std::string> ptx = emitPTX(kernel, chip, PTXStage::PTX);
    ASSERT_TRUE(succeeded(ptx));
    EXPECT_NE(ptx->find(version), std::string::npos) << *ptx;
    EXPECT_NE(ptx->find(".target " + std::string(chip) + "\n"),
              std::string::npos)
        << *ptx;
    EXPECT_NE(ptx->find("add.rn.f32 "), std::string::npos) << *ptx;
    EXPECT_EQ(ptx->find("f32x2"), std::string::npos) << *ptx;
  }
}

/// What nothing needs is as old as drivers that matter.
TEST(PTXTest, isOfTheVersionThatTheKernelsNeed) {
  MLIRContext context(getDialects());
  auto module = parseSourceString<ModuleOp>(kernels, &context);
  ASSERT_TRUE(module);
  context.loadAllAvailableDialects();
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>("kernels");
  auto store = kernel.lookupSymbol<LLVM::LLVMFuncOp>("store");
  for (auto [needed, version] : {std::pair(0, ".version 8.0\n"),
                                 {70, ".version 8.0\n"},
                                 {80, ".version 8.0\n"},
                                 {84, ".version 8.4\n"},
                                 {90, ".version 9.0\n"}}) {
    if (needed)
      store->setAttr(fcgpu::kPTXVersionAttrName,
                     Builder(&context).getI64IntegerAttr(needed));
    FailureOr<std::string> ptx = emitPTX(kernel, "sm_89", PTXStage::PTX);
    ASSERT_TRUE(succeeded(ptx));
    EXPECT_NE(ptx->find(version), std::string::npos) << *ptx;
  }
}

TEST(PTXTest, leavesOutPassesThatCostMoreThanTheyGain) {
  constexpr const char *reduction = "Loop Strength Reduction";
  EXPECT_TRUE(isWorthRunning("slsr", {}));
  EXPECT_TRUE(isWorthRunning(reduction, {}));
  BackendTraits dynamic{/*hasDynamicSizes=*/true, /*seesOneKey=*/false};
  EXPECT_FALSE(isWorthRunning("slsr", dynamic));
  EXPECT_TRUE(isWorthRunning(reduction, dynamic));
  BackendTraits oneKey{/*hasDynamicSizes=*/false, /*seesOneKey=*/true};
  EXPECT_TRUE(isWorthRunning("slsr", oneKey));
  EXPECT_FALSE(isWorthRunning(reduction, oneKey));
  EXPECT_TRUE(isWorthRunning("nvptx-isel", {true, true}));
}

TEST(PTXTest, knowsMasksOfOneKey) {
  MLIRContext context;
  Builder b(&context);
  auto sees = [&](const char *causal, int64_t left, int64_t right) {
    DictionaryAttr attributes = b.getDictionaryAttr(
        {b.getNamedAttr("causal", b.getStringAttr(causal)),
         b.getNamedAttr("window_left", b.getI64IntegerAttr(left)),
         b.getNamedAttr("window_right", b.getI64IntegerAttr(right))});
    return seesOneKey(
        b.getDictionaryAttr(b.getNamedAttr("attributes", attributes)));
  };
  int64_t open = ShapedType::kDynamic;
  EXPECT_TRUE(sees("bottom_right", 0, open));
  EXPECT_TRUE(sees("none", 0, 0));
  EXPECT_FALSE(sees("none", 0, open));
  EXPECT_FALSE(sees("top_left", 0, open)); // more queries than keys
  EXPECT_FALSE(sees("bottom_right", 1, open));
  EXPECT_FALSE(sees("bottom_right", open, open));
  EXPECT_FALSE(seesOneKey(b.getDictionaryAttr({})));
}

/// LLVM would end the process.
TEST(PTXTest, reportsWhatTheBackendRefuses) {
  MLIRContext context(getDialects());
  auto module = parseSourceString<ModuleOp>(R"mlir(
gpu.module @kernels {
  llvm.func @kernel(%i: i32) attributes {nvvm.kernel} {
    llvm.inline_asm has_side_effects "foo $0;", "Q" %i : (i32) -> ()
    llvm.return
  }
}
)mlir",
                                            &context);
  ASSERT_TRUE(module);
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    text += diagnostic.str() + "\n";
  });
  auto kernel = module->lookupSymbol<gpu::GPUModuleOp>("kernels");
  EXPECT_TRUE(failed(emitPTX(kernel, "sm_89", PTXStage::PTX)));
  EXPECT_EQ(text, "LLVM refuses the kernel: unknown asm constraint 'Q'\n");
}
