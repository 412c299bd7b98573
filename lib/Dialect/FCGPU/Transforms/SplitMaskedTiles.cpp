//===- SplitMaskedTiles.cpp - Phase 5: full tiles without mask code -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Index-set splitting of a loop at a condition `iv < bound` or `iv >= bound`,
// or one on `iv + n`, as a pipelined loop has. Runs after waits and barriers
// are placed, which both halves then inherit.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-split-masked-tiles"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_SPLITMASKEDTILESPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct SplitMaskedTilesPass final
    : mlir::fcgpu::impl::SplitMaskedTilesPassBase<SplitMaskedTilesPass> {
  /// Where the condition of an if changes: in the iteration `bound` - `ahead`.
  struct SplitPoint {
    Value bound;
    int64_t ahead;

    bool operator==(const SplitPoint &other) const {
      return bound == other.bound && ahead == other.ahead;
    }
  };
  /// And whether it holds before.
  struct SplitCondition {
    SplitPoint point;
    bool holdsBefore;
  };

  /// That of `ifOp`, if it asks `iv + n < bound` or `iv + n >= bound`.
  static std::optional<SplitCondition> getSplitCondition(scf::ForOp loop,
                                                         scf::IfOp ifOp) {
    auto cmp = ifOp.getCondition().getDefiningOp<arith::CmpIOp>();
    if (!cmp || !loop.isDefinedOutsideOfLoop(cmp.getRhs()))
      return {};
    auto ahead = getDistance(cmp.getLhs(), loop.getInductionVar());
    bool holdsBefore = cmp.getPredicate() == arith::CmpIPredicate::slt;
    if (!ahead ||
        (!holdsBefore && cmp.getPredicate() != arith::CmpIPredicate::sge))
      return {};
    return SplitCondition{{cmp.getRhs(), *ahead}, holdsBefore};
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

  /// Splits `loop` at `point`, takes the sides of the ifs that ask for it, and
  /// returns the second loop.
  scf::ForOp split(scf::ForOp loop, SplitPoint point) {
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    Location loc = loop.getLoc();
    Value middle = point.bound;
    if (point.ahead != 0)
      middle = arith::SubIOp::create(
          rewriter, loc, middle,
          arith::ConstantIndexOp::create(rewriter, loc, point.ahead));
    // Never leave the range of the loop, whatever the bound.
    middle =
        arith::MinSIOp::create(rewriter, loc, middle, loop.getUpperBound());
    middle =
        arith::MaxSIOp::create(rewriter, loc, middle, loop.getLowerBound());
    auto second = cast<scf::ForOp>(rewriter.clone(*loop));
    second->moveAfter(loop);
    rewriter.replaceAllUsesWith(loop.getResults(), second.getResults());
    loop.setUpperBound(middle);
    second.setLowerBound(middle);
    second.getInitArgsMutable().assign(loop.getResults());
    for (auto [half, isBefore] : {std::pair(loop, true), {second, false}})
      for (scf::IfOp ifOp :
           llvm::make_early_inc_range(half.getBody()->getOps<scf::IfOp>()))
        if (auto condition = getSplitCondition(half, ifOp);
            condition && condition->point == point)
          takeSide(rewriter, ifOp, condition->holdsBefore == isBefore);
    ++numSplit;
    return second;
  }

  /// The first point at which `loop` can be split.
  static std::optional<SplitPoint> findSplitPoint(scf::ForOp loop) {
    // With another step the second half would not go on where the first ended.
    if (getConstantIntValue(loop.getStep()) != 1)
      return std::nullopt;
    for (scf::IfOp ifOp : loop.getBody()->getOps<scf::IfOp>())
      if (auto condition = getSplitCondition(loop, ifOp))
        return condition->point;
    return std::nullopt;
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    // Each split copies the loop: the bounds of a window's two ends, of partial
    // tiles and of hidden ones, are all there are in our kernels.
    constexpr int maxBounds = 4;
    SmallVector<std::pair<scf::ForOp, int>> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back({loop, 0}); });
    while (!loops.empty()) {
      auto [loop, numBounds] = loops.pop_back_val();
      while (numBounds < maxBounds) {
        std::optional<SplitPoint> point = findSplitPoint(loop);
        if (!point)
          break;
        LDBG() << "split where the iteration is " << point->bound << " - "
               << point->ahead;
        loops.push_back({split(loop, *point), ++numBounds});
      }
    }
  }
};
} // namespace
