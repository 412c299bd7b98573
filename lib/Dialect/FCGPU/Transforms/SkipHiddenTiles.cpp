//===- SkipHiddenTiles.cpp - Phase 5: work that changes nothing -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The warps of a block walk the same key tiles, as far as the last that any of
// them sees. They meet at the barriers of each tile; what lies behind these is
// a warp's own, and a warp that sees nothing of the tile leaves it out.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-skip-hidden-tiles"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_SKIPHIDDENTILESPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct SkipHiddenTilesPass final
    : mlir::fcgpu::impl::SkipHiddenTilesPassBase<SkipHiddenTilesPass> {
  /// The first op behind everything that all warps must do.
  static Operation *getFirstOwn(Block &body) {
    auto isShared = [](Operation &op) {
      return op
          .walk([](Operation *inner) {
            return isa<CopyOp, CommitCopiesOp, WaitCopiesOp, AllToAllOp,
                       gpu::BarrierOp, NVVM::SyncWarpOp>(inner)
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          })
          .wasInterrupted();
    };
    auto last = llvm::find_if(llvm::reverse(body), isShared);
    return last == body.rend() ? &body.front() : last->getNextNode();
  }

  /// Whether nothing from `first` on has an effect besides its results.
  static bool hasOnlyResults(Operation *first) {
    for (Operation *op = first; op; op = op->getNextNode()) {
      if (op->hasTrait<OpTrait::IsTerminator>())
        continue;
      auto effects = getEffectsRecursively(op);
      if (!effects || !llvm::all_of(*effects, [](const auto &effect) {
            return isa<MemoryEffects::Read>(effect.getEffect());
          }))
        return false;
    }
    return true;
  }

  /// Makes a branch of what follows the last op that all warps must execute in
  /// the body of the loop, or in a branch of it, and returns that block. Leaves
  /// the body as it was where the condition is not known by then.
  Block *guard(Value condition, scf::ForOp loop, Block *body) {
    Operation *first = getFirstOwn(*body), *yield = body->getTerminator();
    if (first == yield || !hasOnlyResults(first)) {
      LDBG() << "all warps must do all of a tile, or write: " << condition;
      return body;
    }
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(first);
    auto ifOp =
        scf::IfOp::create(rewriter, loop.getLoc(), yield->getOperandTypes(),
                          condition, /*withElseRegion=*/true);
    if (failed(moveValueDefinitions(rewriter, condition, ifOp))) {
      rewriter.eraseOp(ifOp);
      LDBG() << "is known too late: " << condition;
      return body;
    }
    LDBG() << "a warp skips a tile unless " << condition;
    Block *then = ifOp.thenBlock(), *otherwise = ifOp.elseBlock();
    then->getOperations().splice(then->end(), body->getOperations(),
                                 std::next(ifOp->getIterator()),
                                 yield->getIterator());
    rewriter.setInsertionPointToEnd(then);
    scf::YieldOp::create(rewriter, loop.getLoc(), yield->getOperands());
    rewriter.setInsertionPointToEnd(otherwise);
    scf::YieldOp::create(rewriter, loop.getLoc(), loop.getRegionIterArgs());
    rewriter.modifyOpInPlace(yield,
                             [&] { yield->setOperands(ifOp.getResults()); });
    ++numGuarded;
    return then;
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Barriers)))
      return signalPassFailure();
    SmallVector<SkipUnlessOp> skips;
    getOperation().walk([&](SkipUnlessOp op) { skips.push_back(op); });
    llvm::MapVector<scf::ForOp, SmallVector<Value>> conditions;
    for (SkipUnlessOp skip : skips) {
      if (auto loop = dyn_cast<scf::ForOp>(skip->getParentOp()))
        conditions[loop].push_back(skip.getCondition());
      skip.erase();
    }
    for (auto &[loop, values] : conditions) {
      Block *body = loop.getBody();
      for (Value condition : values)
        body = guard(condition, loop, body);
    }
  }
};
} // namespace
