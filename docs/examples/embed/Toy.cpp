//===- Toy.cpp - The dialect and its lowering to FlashCore ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Toy.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#include "ToyDialect.cpp.inc"
#include "ToyEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ToyAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "ToyOps.cpp.inc"

void toy::ToyDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ToyAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ToyOps.cpp.inc"
      >();
}

namespace {
/// flashcore.attention is in destination style: it gets an empty tensor to
/// write to.
struct LowerSDPA : OpRewritePattern<toy::SDPAOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(toy::SDPAOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value output = tensor::EmptyOp::create(
        rewriter, loc, tensor::getMixedSizes(rewriter, loc, op.getQuery()),
        op.getQuery().getType().getElementType());
    auto attention = flashcore::AttentionOp::create(
        rewriter, loc, op.getQuery(), op.getKey(), op.getValue(), output);
    if (op.getMask() == toy::MaskKind::Causal)
      attention.setCausal(flashcore::CausalAlignment::BottomRight);
    rewriter.replaceOp(op, attention.getResults());
    return success();
  }
};

struct ToyToFlashCorePass : PassWrapper<ToyToFlashCorePass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ToyToFlashCorePass)

  StringRef getArgument() const override { return "toy-to-flashcore"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<flashcore::FlashCoreDialect, tensor::TensorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<LowerSDPA>(&getContext());
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};
} // namespace

std::unique_ptr<Pass> toy::createToyToFlashCorePass() {
  return std::make_unique<ToyToFlashCorePass>();
}
