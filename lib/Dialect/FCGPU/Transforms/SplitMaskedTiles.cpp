//===- SplitMaskedTiles.cpp - Phase 5: full tiles without mask code -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Index-set splitting of a loop at a condition `iv < bound`. Runs after waits
// and barriers are placed, which both halves then inherit.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_SPLITMASKEDTILESPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct SplitMaskedTilesPass final
    : mlir::fcgpu::impl::SplitMaskedTilesPassBase<SplitMaskedTilesPass> {
  /// The bound if `ifOp` asks `iv < bound`, and null otherwise.
  static Value getSplitPoint(scf::ForOp loop, scf::IfOp ifOp) {
    auto cmp = ifOp.getCondition().getDefiningOp<arith::CmpIOp>();
    if (!cmp || cmp.getPredicate() != arith::CmpIPredicate::slt ||
        cmp.getLhs() != loop.getInductionVar() ||
        !loop.isDefinedOutsideOfLoop(cmp.getRhs()))
      return {};
    return cmp.getRhs();
  }

  /// Replaces the if by its then (or else) side.
  static void takeSide(IRRewriter &rewriter, scf::IfOp ifOp, bool then) {
    Block *side = then ? ifOp.thenBlock() : ifOp.elseBlock();
    if (!side)
      return rewriter.eraseOp(ifOp);
    auto yield = cast<scf::YieldOp>(side->getTerminator());
    SmallVector<Value> results(yield.getOperands());
    rewriter.eraseOp(yield);
    rewriter.inlineBlockBefore(side, ifOp);
    rewriter.replaceOp(ifOp, results);
  }

  void split(scf::ForOp loop, scf::IfOp ifOp, Value bound) {
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    Location loc = loop.getLoc();
    // Never leave the range of the loop, whatever the bound.
    Value middle =
        arith::MinSIOp::create(rewriter, loc, bound, loop.getUpperBound());
    middle =
        arith::MaxSIOp::create(rewriter, loc, middle, loop.getLowerBound());
    IRMapping mapping;
    auto second = cast<scf::ForOp>(rewriter.clone(*loop, mapping));
    second->moveAfter(loop);
    rewriter.replaceAllUsesWith(loop.getResults(), second.getResults());
    loop.setUpperBound(middle);
    second.setLowerBound(middle);
    second.getInitArgsMutable().assign(loop.getResults());
    auto secondIf = cast<scf::IfOp>(mapping.lookup(ifOp.getOperation()));
    takeSide(rewriter, ifOp, /*then=*/true);
    takeSide(rewriter, secondIf, /*then=*/false);
    ++numSplit;
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (size_t i = 0; i < loops.size(); ++i)
      for (scf::IfOp ifOp : loops[i].getBody()->getOps<scf::IfOp>())
        if (Value bound = getSplitPoint(loops[i], ifOp)) {
          split(loops[i], ifOp, bound);
          break;
        }
  }
};
} // namespace
