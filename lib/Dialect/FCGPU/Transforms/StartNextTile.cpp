//===- StartNextTile.cpp - Phase 5: copies of the next block tile ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rotates the loop over block tiles of a persistent kernel: the copies that a
// tile begins with move behind the last ring access of the tile before, so that
// they are under way while that tile's results are written. Runs between
// flashcore-pipeline-loops, which makes most of these copies, and
// flashcore-insert-barriers.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-start-next-tile"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_STARTNEXTTILEPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

/// Whether `op`, or an op in it, accesses rings other than by starting copies.
static bool usesRing(Operation &op) {
  return op
      .walk([](Operation *inner) {
        return isa<ReadOp, AllToAllOp>(inner) ? WalkResult::interrupt()
                                              : WalkResult::advance();
      })
      .wasInterrupted();
}

namespace {
struct StartNextTilePass final
    : mlir::fcgpu::impl::StartNextTilePassBase<StartNextTilePass> {
  /// The copies in front of all other ring accesses of a tile.
  static SmallVector<CopyOp> getFirstCopies(scf::ForOp loop) {
    SmallVector<CopyOp> copies;
    for (Operation &op : *loop.getBody()) {
      if (auto copy = dyn_cast<CopyOp>(op))
        copies.push_back(copy);
      else if (usesRing(op))
        break;
    }
    return copies;
  }

  static Operation *getLastRingUse(scf::ForOp loop) {
    Operation *last = nullptr;
    for (Operation &op : *loop.getBody())
      if (isa<CopyOp>(op) || usesRing(op))
        last = &op;
    return last;
  }

  /// The copies and, in order, all ops of the tile that they are made of.
  static FailureOr<SetVector<Operation *>> getSlice(scf::ForOp loop,
                                                    ArrayRef<CopyOp> copies) {
    SetVector<Operation *> slice;
    for (CopyOp copy : copies)
      if (failed(addBodySlice(loop, copy, slice)))
        return failure();
    for (Operation *op : slice)
      if (!isa<CopyOp>(op) && !isRepeatable(op))
        return failure();
    SetVector<Operation *> ordered;
    for (Operation &op : *loop.getBody())
      if (slice.contains(&op))
        ordered.insert(&op);
    return ordered;
  }

  /// What `load` reads, or 0: of a tile that is not there its coordinates are
  /// not inside of anything.
  static Value loadIf(OpBuilder &b, Value condition, memref::LoadOp load,
                      const IRMapping &mapping) {
    auto read = [&](OpBuilder &inside, Location loc) {
      IRMapping own(mapping);
      scf::YieldOp::create(inside, loc, inside.clone(*load, own)->getResult(0));
    };
    auto skip = [&](OpBuilder &inside, Location loc) {
      TypedAttr zero = inside.getZeroAttr(load.getType());
      scf::YieldOp::create(
          inside, loc,
          arith::ConstantOp::create(inside, loc, zero).getResult());
    };
    return scf::IfOp::create(b, load.getLoc(), condition, read, skip)
        .getResult(0);
  }

  /// Clones `slice` for the tile of round `round`, if there is one.
  static void cloneFor(OpBuilder &b, scf::ForOp loop,
                       const SetVector<Operation *> &slice, Value round) {
    Location loc = loop.getLoc();
    Value exists = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                         round, loop.getUpperBound());
    IRMapping mapping;
    mapping.map(loop.getInductionVar(), round);
    for (Operation *op : slice) {
      if (auto load = dyn_cast<memref::LoadOp>(op)) {
        mapping.map(load.getResult(), loadIf(b, exists, load, mapping));
        continue;
      }
      Operation *clone = b.clone(*op, mapping);
      auto copy = dyn_cast<CopyOp>(clone);
      if (!copy)
        continue;
      Value predicate = exists;
      if (Value old = copy.getPredicate()) {
        b.setInsertionPoint(copy);
        predicate = arith::AndIOp::create(b, loc, old, exists);
        b.setInsertionPointAfter(copy);
      }
      copy.getPredicateMutable().assign(predicate);
    }
  }

  LogicalResult rotate(scf::ForOp loop) {
    SmallVector<CopyOp> copies = getFirstCopies(loop);
    if (copies.empty())
      return success();
    auto slice = getSlice(loop, copies);
    if (failed(slice))
      return copies.front().emitOpError(
          "copies from an address that depends on more than the number of the "
          "block tile; it cannot be started in the tile before");
    for (CopyOp copy : copies)
      LDBG() << "started in the block tile before: " << copy;
    OpBuilder b(loop);
    cloneFor(b, loop, *slice, loop.getLowerBound());
    b.setInsertionPointAfter(getLastRingUse(loop));
    Value next = arith::AddIOp::create(b, loop.getLoc(), loop.getInductionVar(),
                                       loop.getStep());
    cloneFor(b, loop, *slice, next);
    for (CopyOp copy : copies)
      copy.erase();
    numStarted += copies.size();
    return success();
  }

  void runOnOperation() override {
    // A producer is ahead by itself.
    if (!isOurKernel(getOperation()) || hasProducer(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    WalkResult result = getOperation().walk([&](scf::ForOp loop) {
      return isTileLoop(loop) && failed(rotate(loop)) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
