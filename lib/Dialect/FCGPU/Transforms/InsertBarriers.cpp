//===- InsertBarriers.cpp - Phase 5: commits, waits and barriers ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translates ring accesses into the event lists of Analysis/RingHazards, and
// its answer back into ops.
//
//===----------------------------------------------------------------------===//

#include "TileLoop.h"
#include "flashcore/Analysis/RingHazards.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_INSERTBARRIERSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::RingEvent;
using flashcore::RingPlan;
using flashcore::RingProgram;
using flashcore::RingSync;

namespace {
struct InsertBarriersPass final
    : mlir::fcgpu::impl::InsertBarriersPassBase<InsertBarriersPass> {
  /// Closes a group behind the copies of each tile number.
  static void insertCommits(Block &block) {
    CopyOp last;
    auto flush = [&](Operation *before) {
      OpBuilder b(before);
      if (last)
        CommitCopiesOp::create(b, last.getLoc());
      last = {};
    };
    for (Operation &op : llvm::make_early_inc_range(block)) {
      auto copy = dyn_cast<CopyOp>(op);
      bool ends = copy ? last && getAsOpFoldResult(copy.getTile()) !=
                                     getAsOpFoldResult(last.getTile())
                       : !isMemoryEffectFree(&op) ||
                             op.hasTrait<OpTrait::IsTerminator>();
      if (ends)
        flush(&op);
      if (copy)
        last = copy;
    }
  }

  /// The event of a ring access; `loop` is the loop it stands in, or null.
  template <typename AccessOp>
  LogicalResult addAccess(AccessOp op, RingEvent::Kind kind, scf::ForOp loop,
                          std::vector<RingEvent> &events) {
    RingEvent event;
    event.kind = kind;
    event.ring = rings.insert({op.getRing(), rings.size()}).first->second;
    event.numStages = op.getRing().getType().getStages();
    if constexpr (std::is_same_v<AccessOp, CopyOp>) {
      auto alloc = op.getRing().template getDefiningOp<AllocRingOp>();
      if (alloc && alloc.getScope() == CopyScope::Warp &&
          op.getScope() == CopyScope::Block)
        return op.emitOpError("fills a ring that each warp has for itself, "
                              "which is copied into by warp only");
      scopes[op.getRing()] = op.getScope();
    }
    auto scope = scopes.find(op.getRing());
    if (scope == scopes.end())
      return op.emitOpError("reads a ring that nothing was copied into");
    event.scope = scope->second;

    Value tile = op.getTile();
    std::optional<int64_t> distance =
        loop ? getDistance(tile, loop.getInductionVar()) : std::nullopt;
    if (distance) {
      event.perIteration = true;
      event.offset = *distance;
    } else if (auto constant = getConstantIntValue(tile)) {
      event.offset = *constant;
    } else {
      // One unknown number, the same everywhere: as good as 0.
      Value &known = unknownTile.try_emplace(op.getRing(), tile).first->second;
      if (known != tile || (loop && !loop.isDefinedOutsideOfLoop(tile)))
        return op.emitOpError("expects a tile number that is a constant, the "
                              "induction variable plus a constant, or one "
                              "value from outside the loop");
    }
    events.push_back(event);
    return success();
  }

  LogicalResult collect(Operation &op, scf::ForOp loop,
                        std::vector<RingEvent> &events,
                        SmallVectorImpl<Operation *> &ops) {
    size_t numEvents = events.size();
    if (isa<CommitCopiesOp>(op)) {
      events.emplace_back();
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      if (failed(addAccess(copy, RingEvent::Copy, loop, events)))
        return failure();
    } else if (auto read = dyn_cast<ReadOp>(op)) {
      if (failed(addAccess(read, RingEvent::Read, loop, events)))
        return failure();
    } else if (isa<AllToAllOp>(op)) {
      if (loop)
        return op.emitOpError("stands in a loop, where the hazard analysis "
                              "does not follow it");
      if (std::exchange(hasExchange, true))
        return op.emitOpError("is a second one in the same memory, which the "
                              "hazard analysis does not follow");
      events.emplace_back();
      events.back().kind = RingEvent::Reclaim;
      events.back().scope = CopyScope::Warp;
    } else {
      WalkResult nested = op.walk([](Operation *inner) {
        return isa<CopyOp, ReadOp, CommitCopiesOp, AllToAllOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      });
      if (nested.wasInterrupted())
        return op.emitOpError("accesses a ring in a nested region, which the "
                              "hazard analysis does not follow");
    }
    if (events.size() != numEvents)
      ops.push_back(&op);
    return success();
  }

  void materialize(ArrayRef<RingSync> syncs, ArrayRef<Operation *> ops) {
    for (auto [sync, op] : llvm::zip_equal(syncs, ops)) {
      OpBuilder b(op);
      if (sync.waitInFlight) {
        WaitCopiesOp::create(b, op->getLoc(), *sync.waitInFlight);
        ++numWaits;
      }
      if (sync.barrier == CopyScope::Block) {
        gpu::BarrierOp::create(b, op->getLoc());
        ++numBarriers;
      } else if (sync.barrier) {
        Value all =
            arith::ConstantOp::create(b, op->getLoc(), b.getI32IntegerAttr(-1));
        NVVM::SyncWarpOp::create(b, op->getLoc(), all);
      }
    }
  }

  LogicalResult synchronize(scf::ForallOp forall) {
    rings.clear();
    scopes.clear();
    unknownTile.clear();
    hasExchange = false;
    RingProgram program;
    SmallVector<Operation *> prologue, before, body, after;
    scf::ForOp loop, tileLoop = getTileLoop(forall);
    program.repeats = static_cast<bool>(tileLoop);
    if (tileLoop) {
      insertCommits(*forall.getBody());
      for (Operation &op : forall.getBody()->without_terminator())
        if (&op != tileLoop &&
            failed(collect(op, {}, program.prologue, prologue)))
          return failure();
    }
    Block &block = *getTileBody(forall);
    insertCommits(block);
    for (Operation &op : block.without_terminator()) {
      auto candidate = dyn_cast<scf::ForOp>(op);
      bool isKeyLoop =
          candidate && !candidate.getBody()->getOps<ReadOp>().empty();
      if (!isKeyLoop) {
        if (failed(collect(op, {}, loop ? program.after : program.before,
                           loop ? after : before)))
          return failure();
        continue;
      }
      if (loop)
        return candidate.emitOpError("is a second loop that reads rings, which "
                                     "the hazard analysis does not follow");
      loop = candidate;
      insertCommits(*loop.getBody());
      for (Operation &inner : loop.getBody()->without_terminator())
        if (failed(collect(inner, loop, program.body, body)))
          return failure();
    }
    RingPlan plan = planRingSync(program);
    materialize(plan.prologue, prologue);
    materialize(plan.before, before);
    materialize(plan.body, body);
    materialize(plan.after, after);
    return success();
  }

  void runOnOperation() override {
    // Where slots are handed over, they are so by themselves.
    if (!isOurKernel(getOperation()) ||
        getOperation()
            ->getAttrOfType<ScheduleAttr>(kScheduleAttrName)
            .hasProducer())
      return;
    WalkResult outside = getOperation().walk([](Operation *op) {
      if (!isa<CopyOp, ReadOp, AllToAllOp>(op) ||
          op->getParentOfType<scf::ForallOp>())
        return WalkResult::advance();
      op->emitOpError("accesses a ring outside of an scf.forall over warps");
      return WalkResult::interrupt();
    });
    if (outside.wasInterrupted())
      return signalPassFailure();
    SmallVector<scf::ForallOp> foralls;
    getOperation().walk([&](scf::ForallOp op) { foralls.push_back(op); });
    for (scf::ForallOp forall : foralls)
      if (failed(synchronize(forall)))
        return signalPassFailure();
  }

  DenseMap<Value, unsigned> rings;
  DenseMap<Value, CopyScope> scopes;
  DenseMap<Value, Value> unknownTile;
  bool hasExchange = false;
};
} // namespace
