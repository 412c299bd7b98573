//===- RegionFixture.h - Attentions with a mask region ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_UNITTESTS_ANALYSIS_REGIONFIXTURE_H
#define FLASHCORE_UNITTESTS_ANALYSIS_REGIONFIXTURE_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

namespace mlir::flashcore {

inline constexpr int64_t kQueries = 90, kKeys = 100;

class RegionFixture : public ::testing::Test {
protected:
  RegionFixture() {
    context
        .loadDialect<FlashCoreDialect, arith::ArithDialect, func::FuncDialect,
                     math::MathDialect, memref::MemRefDialect>();
  }

  /// An attention whose mask region is `body`, which yields %m, on sequences of
  /// kQueries and kKeys, or of open lengths.
  AttentionOp parse(const std::string &body, bool isOpen = false) {
    std::string q = isOpen ? "?" : std::to_string(kQueries);
    std::string k = isOpen ? "?" : std::to_string(kKeys);
    std::string text = "!q = memref<1x2x" + q + "x64xf16>\n!k = memref<1x2x" +
                       k +
                       "x64xf16>\n"
                       "func.func @f(%query: !q, %key: !k, %out: !q, %ids: "
                       "memref<100xi32>) {\n"
                       "flashcore.attention ins(%query, %key, %key : !q, !k, "
                       "!k) outs(%out : !q) mask {\n"
                       "^bb0(%s: f32, %b: index, %h: index, %q: index, %k: "
                       "index):\n" +
                       body + "flashcore.yield %m : i1\n}\nreturn\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    AttentionOp op;
    module->walk([&](AttentionOp found) { op = found; });
    return op;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_UNITTESTS_ANALYSIS_REGIONFIXTURE_H
