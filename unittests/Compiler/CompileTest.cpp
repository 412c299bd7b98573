//===- CompileTest.cpp - From a module to kernels -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tests of flashcore-compile cover what comes out; here is what a caller
// learns through the request.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/Compile.h"
#include "flashcore/Compiler/Shape.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
class Compile : public testing::Test {
protected:
  OwningOpRef<ModuleOp> parse(llvm::StringRef words) {
    Shape shape = llvm::cantFail(parseShape(words));
    return parseSourceString<ModuleOp>(writeShape(shape), context.get());
  }
  FailureOr<Compilation> compile(llvm::StringRef words,
                                 const CompileRequest &request = {}) {
    module = parse(words);
    return flashcore::compile(*module, request);
  }

  std::unique_ptr<MLIRContext> context = createCompilerContext();
  OwningOpRef<ModuleOp> module;
};

TEST_F(Compile, GivesPtxForEachChipAndCallsForEachPhase) {
  CompileRequest request;
  request.chips = llvm::cantFail(orderChips({"sm_90", "sm_80"}));
  std::string phases;
  request.onPhase = [&](ModuleOp, unsigned phase, StringRef chip) {
    phases += (chip + std::to_string(phase) + " ").str();
    return llvm::Error::success();
  };
  FailureOr<Compilation> result = compile("b1 h1 s64 d64", request);
  ASSERT_TRUE(succeeded(result));
  EXPECT_EQ(result->chips, (std::vector<std::string>{"sm_80", "sm_90"}));
  ASSERT_EQ(result->attentions.size(), 1u);
  EXPECT_EQ(result->attentions[0].name, "attention");
  for (auto [number, chip] : llvm::enumerate(result->chips))
    EXPECT_NE(result->getVariant(0, number)->ptx.find(".target " + chip),
              std::string::npos);
  EXPECT_EQ(phases, "0 sm_801 sm_802 sm_803 sm_804 sm_805 sm_806 sm_807 "
                    "sm_901 sm_902 sm_903 sm_904 sm_905 sm_906 sm_907 ");
}

TEST_F(Compile, StopsWhereAPhaseIsRefused) {
  CompileRequest request;
  request.onPhase = [](ModuleOp, unsigned phase, StringRef) {
    return phase < 3 ? llvm::Error::success()
                     : llvm::createStringError("no more");
  };
  std::string error;
  request.onError = [&](llvm::Error reason) {
    error = llvm::toString(std::move(reason));
  };
  EXPECT_TRUE(failed(compile("b1 h1 s64 d64", request)));
  EXPECT_EQ(error, "no more");
}

TEST_F(Compile, OnlyWhatNoPhaseLowersIsUnsupported) {
  auto kinds = [&](llvm::StringRef words, const CompileRequest &request) {
    std::string text;
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      text += isUnsupported(diagnostic) ? "unsupported " : "wrong ";
    });
    return succeeded(compile(words, request)) ? "compiled" : text;
  };
  EXPECT_EQ(kinds("d16", {}), "compiled");
  EXPECT_EQ(kinds("d264", {}), "unsupported ");
  CompileRequest request;
  request.schedule.blockN = 24;
  EXPECT_EQ(kinds("d64", request), "wrong ");
}

TEST(OrderChips, NamesWhatIsWrong) {
  auto message = [](llvm::ArrayRef<std::string> given) {
    return llvm::toString(orderChips(given).takeError());
  };
  EXPECT_EQ(message({"sm_80", "sm_89", "sm_80"}),
            "expects each chip once, but got sm_80 twice");
  EXPECT_EQ(message({"gfx90a"}),
            "unknown chip 'gfx90a': expects one of sm_70, "
            "sm_75, sm_80, sm_86, sm_89, sm_90, sm_90a, sm_120, "
            "sm_121");
}
} // namespace
