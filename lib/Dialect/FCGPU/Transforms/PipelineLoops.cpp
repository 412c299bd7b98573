//===- PipelineLoops.cpp - Phase 5: copies ahead of their use -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each op of a loop a stage (copies 0, all else last) and lets upstream's
// pipeliner do the rewrite. What would make that fail is checked before, since
// its failure leaves half-transformed IR.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_PIPELINELOOPSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct PipelineLoopsPass final
    : mlir::fcgpu::impl::PipelineLoopsPassBase<PipelineLoopsPass> {
  /// The ops of the loop that only serve to say what `copy` copies where.
  static FailureOr<SetVector<Operation *>> getAddressSlice(scf::ForOp loop,
                                                           CopyOp copy) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.omitBlockArguments = true;
    options.filter = [&](Operation *op) {
      return op->getBlock() == loop.getBody();
    };
    if (failed(getBackwardSlice(copy.getOperation(), &slice, options)))
      return failure();
    auto usesIterArg = [&](Operation *op) {
      return llvm::any_of(op->getOperands(), [&](Value operand) {
        return llvm::is_contained(loop.getRegionIterArgs(), operand);
      });
    };
    for (Operation *op : slice)
      if (!isMemoryEffectFree(op) || op->getNumRegions() || usesIterArg(op))
        return failure();
    if (usesIterArg(copy))
      return failure();
    return slice;
  }

  /// Moves the copies, each with an address computation of its own, to the
  /// front of the loop. Returns the ops of stage 0 in order.
  FailureOr<SmallVector<Operation *>> hoistCopies(scf::ForOp loop,
                                                  ArrayRef<CopyOp> copies) {
    OpBuilder b(loop.getContext());
    SmallVector<SetVector<Operation *>> slices;
    for (CopyOp copy : copies) {
      auto slice = getAddressSlice(loop, copy);
      if (failed(slice))
        return copy.emitOpError("copies from an address that depends on what "
                                "the loop carries; it cannot be started early");
      slices.push_back(std::move(*slice));
    }
    SmallVector<Operation *> stage0;
    b.setInsertionPointToStart(loop.getBody());
    for (size_t i = 0; i < copies.size(); ++i) {
      CopyOp copy = copies[i];
      IRMapping mapping;
      for (Operation *op : slices[i])
        stage0.push_back(b.clone(*op, mapping));
      stage0.push_back(b.clone(*copy.getOperation(), mapping));
    }
    for (CopyOp copy : copies)
      copy.erase();
    return stage0;
  }

  /// Makes a copy happen only under `predicate`; address computations may run
  /// anyway.
  static Operation *predicate(RewriterBase &rewriter, Operation *op,
                              Value predicate) {
    auto copy = dyn_cast<CopyOp>(op);
    if (!copy)
      return op;
    rewriter.setInsertionPoint(op);
    if (Value old = copy.getPredicate())
      predicate = arith::AndIOp::create(rewriter, op->getLoc(), old, predicate);
    rewriter.modifyOpInPlace(
        op, [&] { copy.getPredicateMutable().assign(predicate); });
    return op;
  }

  LogicalResult pipeline(scf::ForOp loop) {
    SmallVector<CopyOp> copies(loop.getBody()->getOps<CopyOp>());
    if (copies.empty())
      return success();
    int64_t numStages = copies.front().getRing().getType().getStages();
    for (CopyOp copy : copies)
      if (copy.getRing().getType().getStages() != numStages)
        return copy.emitOpError("expects all rings of a loop to have ")
               << numStages << " stages, but got "
               << copy.getRing().getType().getStages();
    if (numStages < 2)
      return copies.front().emitOpError(
          "copies into a ring of one stage, which cannot be filled ahead");
    auto stage0 = hoistCopies(loop, copies);
    if (failed(stage0))
      return failure();

    scf::PipeliningOption options;
    options.supportDynamicLoops = true;
    options.peelEpilogue = false;
    options.predicateFn = predicate;
    options.getScheduleFn =
        [&](scf::ForOp loop,
            std::vector<std::pair<Operation *, unsigned>> &schedule) {
          for (Operation *op : *stage0)
            schedule.emplace_back(op, 0);
          for (Operation &op : loop.getBody()->without_terminator())
            if (!llvm::is_contained(*stage0, &op))
              schedule.emplace_back(&op, numStages - 1);
        };
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    Location loc = loop.getLoc();
    FailureOr<scf::ForOp> pipelined =
        scf::pipelineForLoop(rewriter, loop, options);
    if (failed(pipelined))
      return emitError(loc, "this loop cannot be pipelined");
    delayReads(*pipelined);
    return success();
  }

  /// Reads in front of the loop move behind the copies started for the loop, so
  /// that those are under way while a read waits for its own copy.
  static void delayReads(scf::ForOp loop) {
    for (Operation &op : llvm::make_early_inc_range(
             llvm::make_range(loop->getBlock()->begin(), loop->getIterator())))
      if (isa<ReadOp>(op) && llvm::all_of(op.getUsers(), [&](Operation *user) {
            Operation *ancestor =
                loop->getBlock()->findAncestorOpInBlock(*user);
            return ancestor == loop || loop->isBeforeInBlock(ancestor);
          }))
        op.moveBefore(loop);
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      if (failed(pipeline(loop)))
        return signalPassFailure();
    // Folds the first iterations' tile numbers to constants, which the next
    // pass reads.
    RewritePatternSet patterns(&getContext());
    scf::ForOp::getCanonicalizationPatterns(patterns, &getContext());
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};
} // namespace
