//===- SpecializeWarps.cpp - Phase 5: a program for each role -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the schedule asks for it, a warp of its own fills the rings: all copies
// of the loop over the others become its program: the same loops, of nothing
// but copies.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_SPECIALIZEWARPSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// Writes the program that fills the rings of one loop over warps, or
/// warpgroups.
class ProducerBuilder {
public:
  explicit ProducerBuilder(scf::ForallOp forall) : forall(forall), b(forall) {}

  LogicalResult build() {
    auto program = ProduceOp::create(b, forall.getLoc());
    b.setInsertionPointToStart(&program.getBody().emplaceBlock());
    SmallVector<CopyOp> copies;
    if (failed(build(*forall.getBody(), /*loop=*/{}, copies)))
      return failure();
    for (CopyOp copy : copies)
      copy.erase();
    return success();
  }

private:
  /// Clones the copies of a block, and its loops that have some.
  LogicalResult build(Block &block, scf::ForOp loop,
                      SmallVectorImpl<CopyOp> &copies) {
    for (Operation &op : block.without_terminator()) {
      if (auto copy = dyn_cast<CopyOp>(op)) {
        copies.push_back(copy);
        if (failed(buildCopies(copy)))
          return failure();
        continue;
      }
      auto inner = dyn_cast<scf::ForOp>(op);
      bool hasCopies = false;
      op.walk([&](CopyOp) { hasCopies = true; });
      if (!hasCopies)
        continue;
      if (!inner || (loop && !isTileLoop(loop)))
        return op.emitOpError("copies tiles in a region that is no loop of the "
                              "warps");
      if (failed(buildLoop(inner, copies)))
        return failure();
    }
    return success();
  }

  LogicalResult buildLoop(scf::ForOp loop, SmallVectorImpl<CopyOp> &copies) {
    IRMapping mapping = mapWarps(0);
    SmallVector<Value> bounds{loop.getLowerBound(), loop.getUpperBound(),
                              loop.getStep()};
    for (Value &bound : bounds) {
      auto cloned = cloneSlice(bound, mapping, loop);
      if (failed(cloned))
        return failure();
      bound = *cloned;
    }
    OpBuilder::InsertionGuard guard(b);
    auto own =
        scf::ForOp::create(b, loop.getLoc(), bounds[0], bounds[1], bounds[2]);
    if (isTileLoop(loop))
      own->setAttr(kBlockTilesAttrName, b.getUnitAttr());
    b.setInsertionPointToStart(own.getBody());
    iterations[loop.getInductionVar()] = own.getInductionVar();
    return build(*loop.getBody(), loop, copies);
  }

  /// A copy that all share once, one that each has for itself for each of them.
  LogicalResult buildCopies(CopyOp copy) {
    int64_t numCopies = 1;
    if (copy.getScope() == CopyScope::Warp) {
      auto bounds = forall.getStaticUpperBound();
      if (bounds.size() != 1 || ShapedType::isDynamic(bounds.front()))
        return copy.emitOpError("is each warp's own in a loop over warps of "
                                "several dimensions");
      numCopies = bounds.front();
    }
    for (int64_t warp = 0; warp < numCopies; ++warp) {
      IRMapping mapping = mapWarps(warp);
      for (Value operand : copy->getOperands())
        if (failed(cloneSlice(operand, mapping, copy)))
          return failure();
      b.clone(*copy, mapping);
    }
    return success();
  }

  IRMapping mapWarps(int64_t warp) {
    IRMapping mapping;
    for (Value id : forall.getInductionVars())
      mapping.map(id, arith::ConstantIndexOp::create(b, forall.getLoc(), warp));
    for (auto [iteration, own] : iterations)
      mapping.map(iteration, own);
    return mapping;
  }

  /// Clones what `value` is computed from inside of the loop over warps.
  FailureOr<Value> cloneSlice(Value value, IRMapping &mapping,
                              Operation *user) {
    if (isa<BlockArgument>(value))
      return mapping.lookupOrDefault(value);
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.omitBlockArguments = true;
    options.filter = [&](Operation *op) {
      return forall->isProperAncestor(op);
    };
    if (failed(getBackwardSlice(value, &slice, options)))
      return user->emitOpError("copies from where cannot be told");
    for (Operation *op : slice) {
      if (!isRepeatable(op))
        return user->emitOpError("depends on what the warps compute; a warp of "
                                 "its own cannot know it");
      if (!mapping.contains(op->getResult(0)))
        b.clone(*op, mapping);
    }
    return mapping.lookupOrDefault(value);
  }

  scf::ForallOp forall;
  OpBuilder b;
  llvm::MapVector<Value, Value> iterations;
};

/// With a role of its own for copies, a warpgroup that leaves out the first
/// tiles of its walk (fcgpu.skip_unless i >= first) begins it there: at its end
/// at the latest, or at the last tile where products overlap, which takes one.
/// Other hints are dropped.
void beginLater(scf::ForOp loop) {
  for (SkipUnlessOp skip :
       llvm::make_early_inc_range(loop.getBody()->getOps<SkipUnlessOp>())) {
    auto cmp = skip.getCondition().getDefiningOp<arith::CmpIOp>();
    bool isFirst = cmp && cmp.getPredicate() == arith::CmpIPredicate::sge &&
                   cmp.getLhs() == loop.getInductionVar() &&
                   loop.isDefinedOutsideOfLoop(cmp.getRhs()) &&
                   getConstantIntValue(loop.getLowerBound()) == 0;
    if (isFirst) {
      OpBuilder b(loop);
      Location loc = loop.getLoc();
      Value first =
          arith::MaxSIOp::create(b, loc, cmp.getRhs(), loop.getLowerBound());
      AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
      int64_t least = loop->hasAttr(kOverlapAttrName) ? 1 : 0;
      loop.setLowerBound(affine::AffineMinOp::create(
          b, loc, AffineMap::get(2, 0, {d0, d1 - least}, b.getContext()),
          ValueRange{first, loop.getUpperBound()}));
    }
    skip.erase();
  }
}

struct SpecializeWarpsPass final
    : mlir::fcgpu::impl::SpecializeWarpsPassBase<SpecializeWarpsPass> {
  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    if (Launch::get(getOperation()).producerWarps == 0)
      return;
    SmallVector<scf::ForallOp> foralls;
    getOperation().walk([&](scf::ForallOp op) { foralls.push_back(op); });
    for (scf::ForallOp forall : foralls) {
      // Numbers that are the same for all warps are those of both roles.
      moveLoopInvariantCode(forall);
      if (failed(ProducerBuilder(forall).build()))
        return signalPassFailure();
      ++numSeparated;
      forall.walk([](scf::ForOp loop) { beginLater(loop); });
    }
  }
};
} // namespace
