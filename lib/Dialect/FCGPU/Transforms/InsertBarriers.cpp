//===- InsertBarriers.cpp - Phase 5: commits, waits and barriers ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lets the warps that fill rings and read them have the slots that they acquire
// by groups of copies, waits and barriers: translates both sides into the event
// lists of Analysis/RingHazards, and its answer back into ops. (Where a role of
// its own fills the rings, mbarriers do that, see DistributeHandover.cpp.)
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "WarpRoles.h"
#include "flashcore/Analysis/RingHazards.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/TypeSwitch.h"

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
/// The ops of a list of events.
using Ops = SmallVector<Operation *>;

struct InsertBarriersPass final
    : mlir::fcgpu::impl::InsertBarriersPassBase<InsertBarriersPass> {
  /// The tile number that a slot is filled with, or is acquired for that.
  static OpFoldResult getFilledTile(Operation &op) {
    if (auto copy = dyn_cast<CopyOp>(op))
      return getAsOpFoldResult(copy.getTile());
    if (auto acquire = dyn_cast<AcquireOp>(op))
      if (acquire.getSide() == RingSide::Fill)
        return getAsOpFoldResult(acquire.getTile());
    return {};
  }

  /// Closes a group behind the copies of each tile number.
  static void insertCommits(Block &block) {
    CopyOp last;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      OpFoldResult tile = getFilledTile(op);
      bool ends = tile ? last && tile != getFilledTile(*last)
                       : !isMemoryEffectFree(&op) ||
                             op.hasTrait<OpTrait::IsTerminator>();
      if (ends && last) {
        OpBuilder b(&op);
        CommitCopiesOp::create(b, last.getLoc());
        last = {};
      }
      if (auto copy = dyn_cast<CopyOp>(op))
        last = copy;
    }
  }

  /// Who copies into each ring.
  LogicalResult findScopes(scf::ForallOp forall) {
    WalkResult result = forall.walk([&](CopyOp copy) {
      auto alloc = copy.getRing().getDefiningOp<AllocRingOp>();
      if (alloc && alloc.getScope() == CopyScope::Warp &&
          copy.getScope() == CopyScope::Block) {
        copy.emitOpError("fills a ring that each warp has for itself, which is "
                         "copied into by warp only");
        return WalkResult::interrupt();
      }
      CopyScope scope =
          scopes.try_emplace(copy.getRing(), copy.getScope()).first->second;
      if (scope == copy.getScope())
        return WalkResult::advance();
      copy.emitOpError("expects to be by ")
          << stringifyCopyScope(scope) << " like the other copies into its "
          << "ring, but is by " << stringifyCopyScope(copy.getScope());
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// The event of an op on tile `tile` of a ring; `loop` is the loop it stands
  /// in, or null.
  LogicalResult addAccess(Operation &op, RingEvent::Kind kind,
                          TypedValue<RingType> ring, Value tile,
                          scf::ForOp loop, std::vector<RingEvent> &events) {
    RingEvent event;
    event.kind = kind;
    event.ring = rings.insert({ring, rings.size()}).first->second;
    event.numStages = ring.getType().getStages();
    auto scope = scopes.find(ring);
    if (scope == scopes.end())
      return op.emitOpError("is about a ring that nothing is copied into");
    event.scope = scope->second;
    std::optional<int64_t> distance =
        loop ? getDistance(tile, loop.getInductionVar()) : std::nullopt;
    if (distance) {
      event.perIteration = true;
      event.offset = *distance;
    } else if (auto constant = getConstantIntValue(tile)) {
      event.offset = *constant;
    } else {
      // One unknown number, the same everywhere: as good as 0.
      Value &known = unknownTile.try_emplace(ring, tile).first->second;
      if (known != tile || (loop && !loop.isDefinedOutsideOfLoop(tile)))
        return op.emitOpError("expects a tile number that is a constant, the "
                              "induction variable plus a constant, or one "
                              "value from outside the loop");
    }
    events.push_back(event);
    return success();
  }

  LogicalResult addExchange(Operation &op, scf::ForOp loop,
                            std::vector<RingEvent> &events) {
    if (loop)
      return op.emitOpError("stands in a loop, where the hazard analysis does "
                            "not follow it");
    if (std::exchange(hasExchange, true))
      return op.emitOpError("is a second one in the same memory, which the "
                            "hazard analysis does not follow");
    events.emplace_back();
    events.back().kind = RingEvent::Reclaim;
    events.back().scope = CopyScope::Warp;
    return success();
  }

  /// Whether the op alone is about a ring.
  static bool isRingOp(Operation *op) {
    return isa<AcquireOp, CopyOp, CommitCopiesOp, ReadOp, ReleaseOp,
               AllToAllOp>(op);
  }

  /// Adds the event of an op, if it is about a ring.
  LogicalResult addEvent(Operation &op, scf::ForOp loop,
                         std::vector<RingEvent> &events) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case([&](AcquireOp acquire) {
          bool fills = acquire.getSide() == RingSide::Fill;
          return addAccess(
              op, fills ? RingEvent::AcquireToFill : RingEvent::AcquireToRead,
              acquire.getRing(), acquire.getTile(), loop, events);
        })
        .Case([&](CopyOp copy) {
          return addAccess(op, RingEvent::Copy, copy.getRing(), copy.getTile(),
                           loop, events);
        })
        .Case([&](ReadOp read) {
          return addAccess(op, RingEvent::Read, read.getRing(), read.getTile(),
                           loop, events);
        })
        .Case([&](ReleaseOp release) {
          return addAccess(op, RingEvent::Release, release.getRing(),
                           release.getTile(), loop, events);
        })
        .Case([&](CommitCopiesOp) {
          events.emplace_back();
          return success();
        })
        .Case([&](AllToAllOp) { return addExchange(op, loop, events); })
        .Default([&](Operation *) {
          WalkResult nested = op.walk([](Operation *inner) {
            return isRingOp(inner) ? WalkResult::interrupt()
                                   : WalkResult::advance();
          });
          if (nested.wasInterrupted())
            return LogicalResult(
                op.emitOpError("accesses a ring in a nested region, which the "
                               "hazard analysis does not follow"));
          return success();
        });
  }

  LogicalResult collect(Operation &op, scf::ForOp loop,
                        std::vector<RingEvent> &events, Ops &ops) {
    size_t numEvents = events.size();
    if (failed(addEvent(op, loop, events)))
      return failure();
    if (events.size() != numEvents)
      ops.push_back(&op);
    return success();
  }

  void materialize(ArrayRef<RingSync> syncs, ArrayRef<Operation *> ops) {
    for (auto [sync, op] : llvm::zip_equal(syncs, ops)) {
      OpBuilder b(op);
      if (sync.waitInFlight && hasGroups) {
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

  /// Says at its op what no wait or barrier makes right.
  static LogicalResult checkSides(
      const RingProgram &program,
      ArrayRef<std::pair<const std::vector<RingEvent> *, const Ops *>> lists) {
    auto fault = flashcore::findRingFault(program);
    if (!fault)
      return success();
    for (auto [events, ops] : lists)
      for (auto [event, op] : llvm::zip_equal(*events, *ops))
        if (&event == fault->event)
          return op->emitOpError(fault->text);
    llvm_unreachable("a fault is that of an event of the program");
  }

  /// The events of a block of a loop over warps, and of the loop in it.
  LogicalResult collectTile(Block &block, RingProgram &program, Ops &before,
                            Ops &body, Ops &after) {
    scf::ForOp loop;
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
    return success();
  }

  LogicalResult synchronize(scf::ForallOp forall) {
    rings.clear();
    scopes.clear();
    unknownTile.clear();
    hasExchange = hasGroups = false;
    // What goes by way of registers is there when the copy ends.
    forall.walk([&](CopyOp copy) { hasGroups |= !copy.getViaRegisters(); });
    if (failed(findScopes(forall)))
      return failure();
    RingProgram program;
    Ops prologue, before, body, after;
    scf::ForOp tileLoop = getTileLoop(forall);
    program.repeats = static_cast<bool>(tileLoop);
    if (tileLoop) {
      insertCommits(*forall.getBody());
      for (Operation &op : forall.getBody()->without_terminator())
        if (&op != tileLoop &&
            failed(collect(op, {}, program.prologue, prologue)))
          return failure();
    }
    if (failed(collectTile(*getTileBody(forall), program, before, body, after)))
      return failure();
    if (failed(checkSides(program, {{&program.prologue, &prologue},
                                    {&program.before, &before},
                                    {&program.body, &body},
                                    {&program.after, &after}})))
      return failure();
    RingPlan plan = planRingSync(program);
    materialize(plan.prologue, prologue);
    materialize(plan.before, before);
    materialize(plan.body, body);
    materialize(plan.after, after);
    if (!hasGroups)
      forall.walk([](CommitCopiesOp commit) { commit.erase(); });
    return success();
  }

  void runOnOperation() override {
    // Slots that a role of its own fills change hands by mbarriers.
    if (!isOurKernel(getOperation()) || hasProducer(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Slots)))
      return signalPassFailure();
    WalkResult outside = getOperation().walk([](Operation *op) {
      if (!isRingOp(op) || op->getParentOfType<scf::ForallOp>())
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
    // Waits and barriers have taken their place.
    getOperation().walk([](Operation *op) {
      if (isa<AcquireOp, ReleaseOp>(op))
        op->erase();
    });
  }

  DenseMap<Value, unsigned> rings;
  DenseMap<Value, CopyScope> scopes;
  DenseMap<Value, Value> unknownTile;
  bool hasExchange = false;
  /// Whether some copies are asynchronous, so that groups of them are waited
  /// for.
  bool hasGroups = false;
};
} // namespace
