//===- HandOverSlots.cpp - Phase 5: slots acquired and released -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both sides of all rings: a slot is acquired in front of each copy, a tile in
// front of its first read, and released behind the last: where a product reads
// it in place, behind the wait for that, which stands in front of the first use
// of its result. Where a role of its own fills the rings,
// Analysis/SlotHandover then proves the two programs right together; where the
// same warps do, flashcore-insert-barriers does.
//
//===----------------------------------------------------------------------===//

#include "HandoverProof.h"
#include "Preconditions.h"
#include "TileLoop.h"
#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-hand-over-slots"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_HANDOVERSLOTSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct HandOverSlotsPass final
    : mlir::fcgpu::impl::HandOverSlotsPassBase<HandOverSlotsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    HandOverSlotsPassBase::getDependentDialects(registry);
    registerValueBounds(registry);
  }

  /// Awaits each product of the block in front of the first use of its result.
  void insertAwaits(Block &block) {
    SmallVector<vector::ContractionOp> started;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      for (size_t i = 0; i < started.size(); ++i)
        if (started[i] && isUsedBy(started[i], &op)) {
          insertAwait(started[i], &op, started.size() - 1 - i);
          started[i] = {};
        }
      auto contract = dyn_cast<vector::ContractionOp>(op);
      if (contract && isAsynchronous(contract))
        started.push_back(contract);
    }
  }

  /// Whether `op`, or an op in it, uses the result.
  static bool isUsedBy(vector::ContractionOp contract, Operation *op) {
    return llvm::any_of(contract->getUsers(),
                        [&](Operation *user) { return op->isAncestor(user); });
  }

  void insertAwait(vector::ContractionOp contract, Operation *before,
                   size_t numLater) {
    OpBuilder b(before);
    SmallVector<Value> operands;
    if (!isInPlace(contract.getLhs()))
      operands.push_back(contract.getLhs());
    auto wait = AwaitOp::create(b, contract.getLoc(),
                                cast<VectorType>(contract.getResultType()),
                                contract.getResult(), operands, numLater);
    contract.getResult().replaceAllUsesExcept(wait.getResult(), wait);
    ++numAwaits;
  }

  /// Where a role of its own fills rings, each acquire or release costs its
  /// readers an instruction. A tile that stays where it is, they acquire once,
  /// in front of the loops, and keep, or release behind all that reads it in
  /// this block tile. (A barrier serves all tiles at once, where the first of
  /// them is needed.)
  LogicalResult acquireForGood(ReadOp read) {
    if (!acquired.insert({read.getRing(), read.getTile()}).second)
      return success();
    Operation *place = read;
    auto loop = dyn_cast<scf::ForOp>(place->getParentOp());
    for (; loop && !isTileLoop(loop) &&
           loop.isDefinedOutsideOfLoop(read.getTile());
         loop = dyn_cast<scf::ForOp>(place->getParentOp()))
      place = loop;
    OpBuilder b(place);
    AcquireOp::create(b, read.getLoc(), read.getRing(), read.getTile(),
                      RingSide::Read);
    LDBG() << "acquired once, in front of "
           << OpWithFlags(place, OpPrintingFlags().skipRegions());
    if (!loop || !isTileLoop(loop))
      return success();
    Operation *last = place;
    for (Operation *user : read.getRing().getUsers()) {
      auto other = dyn_cast<ReadOp>(user);
      if (!other || other.getTile() != read.getTile())
        continue;
      Operation *use = loop.getBody()->findAncestorOpInBlock(*user);
      if (use == user) {
        FailureOr<Operation *> lastUse = getLastUse(other);
        if (failed(lastUse))
          return failure();
        use = *lastUse;
      }
      if (last->isBeforeInBlock(use))
        last = use;
    }
    b.setInsertionPointAfter(last);
    ReleaseOp::create(b, read.getLoc(), read.getRing(), read.getTile());
    return success();
  }

  /// A walk that begins at a later tile takes the ones before in passing, in
  /// front of all that `body` reads: `loop` is over the others.
  static void passBy(scf::ForOp loop, Block &body) {
    if (getConstantIntValue(loop.getLowerBound()) == 0)
      return;
    llvm::MapVector<Value, ReadOp> rings;
    for (auto read : loop.getBody()->getOps<ReadOp>())
      if (isRefilled(read.getRing()))
        rings.insert({read.getRing(), read});
    if (rings.empty())
      return;
    Operation *first = loop;
    for (auto acquire : body.getOps<AcquireOp>())
      if (rings.contains(acquire.getRing())) {
        first = acquire;
        break;
      }
    OpBuilder b(first);
    Location loc = loop.getLoc();
    Value zero = arith::ConstantIndexOp::create(b, loc, 0);
    Value one = arith::ConstantIndexOp::create(b, loc, 1);
    Value allLanes = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(-1));
    auto passing = scf::ForOp::create(b, loc, zero, loop.getLowerBound(), one);
    b.setInsertionPointToStart(passing.getBody());
    for (auto [ring, read] : rings)
      AcquireOp::create(b, loc, ring, passing.getInductionVar(),
                        RingSide::Read);
    // One lane gives a slot back for its warp. No product holds the others up
    // here: without this, the slot may be filled twice before they look.
    NVVM::SyncWarpOp::create(b, loc, allLanes);
    for (auto [ring, read] : rings)
      ReleaseOp::create(b, loc, ring, passing.getInductionVar());
  }

  /// The last op by which `read` needs its tile: itself or, where products take
  /// it from its slot, the last of them, or the last wait for one.
  static FailureOr<Operation *> getLastUse(ReadOp read) {
    if (!read.isInPlace())
      return read.getOperation();
    Operation *last = nullptr;
    for (Operation *user : read->getUsers()) {
      auto contract = cast<vector::ContractionOp>(user);
      if (!isAsynchronous(contract)) {
        if (contract->getBlock() != read->getBlock())
          return contract.emitOpError("stands in another block than the read "
                                      "of a tile in place that it takes");
        if (!last || last->isBeforeInBlock(contract))
          last = contract;
        continue;
      }
      for (Operation *after : contract->getUsers()) {
        auto wait = dyn_cast<AwaitOp>(after);
        if (!wait || wait->getBlock() != read->getBlock())
          return contract.emitOpError("is not awaited in the block in which it "
                                      "reads a tile in place");
        if (!last || last->isBeforeInBlock(wait))
          last = wait;
      }
    }
    if (!last)
      return read.emitOpError("is a tile in place that no product uses");
    return last;
  }

  /// Acquires each tile that the block reads, and that is not kept, in front of
  /// its first read there, and releases it behind the last use before it is
  /// copied anew.
  LogicalResult takeTiles(Block &block, bool hasRoles) {
    struct Taken {
      ReadOp first;
      Operation *lastUse;
    };
    SmallVector<Taken> tiles;
    DenseMap<std::pair<Value, Value>, size_t> open; // by ring and tile number
    for (Operation &op : block) {
      if (auto copy = dyn_cast<CopyOp>(op))
        open.erase({copy.getRing(), copy.getTile()});
      auto read = dyn_cast<ReadOp>(op);
      if (!read || (hasRoles && !isRefilled(read.getRing())))
        continue;
      FailureOr<Operation *> lastUse = getLastUse(read);
      if (failed(lastUse))
        return failure();
      auto [it, isFirst] =
          open.try_emplace({read.getRing(), read.getTile()}, tiles.size());
      if (isFirst)
        tiles.push_back({read, *lastUse});
      else if (tiles[it->second].lastUse->isBeforeInBlock(*lastUse))
        tiles[it->second].lastUse = *lastUse;
    }
    for (auto [read, lastUse] : tiles) {
      LDBG() << "acquired in front of " << *read << ", released behind "
             << OpWithFlags(lastUse, OpPrintingFlags().skipRegions());
      OpBuilder b(read);
      AcquireOp::create(b, read.getLoc(), read.getRing(), read.getTile(),
                        RingSide::Read);
      b.setInsertionPointAfter(lastUse);
      ReleaseOp::create(b, read.getLoc(), read.getRing(), read.getTile());
    }
    return success();
  }

  /// Whether the slots of a ring hold several tiles of a block tile, one after
  /// the other.
  static bool isRefilled(TypedValue<RingType> ring) {
    int64_t numCopies = 0;
    for (Operation *user : ring.getUsers())
      if (isa<CopyOp>(user) &&
          (++numCopies > ring.getType().getStages() || getKeyLoop(user)))
        return true;
    return false;
  }

  /// Roles of their own fill what is read in place, and nothing else fills
  /// panels that are.
  LogicalResult checkReads(bool hasRoles) {
    WalkResult result = getOperation().walk([&](ReadOp read) {
      bool isPlain = read.getRing().getType().isPlain();
      if (hasRoles ? read.isInPlace() : !read.isInPlace() || isPlain)
        return WalkResult::advance();
      if (hasRoles)
        read.emitOpError("reads a ring that is handed over, but not in place");
      else
        read.emitOpError("reads a tile in place, whose ring no fcgpu.produce "
                         "fills; run flashcore-specialize-warps first");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    acquired.clear();
    bool hasRoles = hasProducer(getOperation());
    if (failed(checkReads(hasRoles)))
      return signalPassFailure();
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      insertAwaits(*block);
    getOperation().walk([](CopyOp copy) {
      OpBuilder b(copy);
      AcquireOp::create(b, copy.getLoc(), copy.getRing(), copy.getTile(),
                        RingSide::Fill);
    });
    for (Block *block : blocks)
      if (failed(takeTiles(*block, hasRoles)))
        return signalPassFailure();
    if (!hasRoles)
      return;
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      if (!isTileLoop(loop) && !loop->getParentOfType<ProduceOp>())
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops)
      passBy(loop, *loop->getBlock());
    SmallVector<ReadOp> kept;
    getOperation().walk([&](ReadOp read) {
      if (!isRefilled(read.getRing()))
        kept.push_back(read);
    });
    for (ReadOp read : kept)
      if (failed(acquireForGood(read)))
        return signalPassFailure();
    getOperation().walk([&](scf::ForallOp forall) {
      auto programs = forall->getBlock()->getOps<ProduceOp>();
      if (!llvm::hasSingleElement(programs)) {
        forall.emitOpError("expects one fcgpu.produce beside it, which the "
                           "proof runs it against; run "
                           "flashcore-specialize-warps first");
        return signalPassFailure();
      }
      if (failed(proveHandover(*programs.begin(), forall)))
        return signalPassFailure();
      LDBG() << "the roles hand their slots over rightly";
    });
  }

  /// Tiles that stay where they are, and are acquired.
  llvm::DenseSet<std::pair<Value, Value>> acquired;
};
} // namespace
