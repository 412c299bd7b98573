//===- PipelineLoops.cpp - Phase 5: copies ahead of their use -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gives each op of a loop a stage and lets upstream's pipeliner do the rewrite:
// copies as early as their ring has slots, all else last. With overlap = qk,
// what does not depend on earlier iterations (Q K^T) is computed one iteration
// before the rest. What would make the rewrite fail is checked before, since
// its failure leaves half-transformed IR.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Transforms.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "flashcore-pipeline-loops"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_PIPELINELOOPSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// Ops in the order of their execution, and how many iterations later than
/// those of stage 0 each runs.
using Stages = std::vector<std::pair<Operation *, unsigned>>;

/// A copy at the front of a loop, and all ops that serve only it.
struct HoistedCopy {
  CopyOp copy;
  SmallVector<Operation *> ops;
};

/// The ops of an iteration that are done in front of the late products of the
/// one before, and those behind.
struct OrderedOps {
  SmallVector<Operation *> before, behind;
};

/// Rewrites a loop that runs at least once so that the `late` ops of an
/// iteration are done in the next. (Upstream's pipeliner would ask at run time
/// whether there is a last iteration.)
class ProductDelay {
public:
  ProductDelay(scf::ForOp loop, const SetVector<Operation *> &late,
               OrderedOps others)
      : loop(loop), late(late), others(std::move(others)), b(loop) {
    for (Operation *op : late)
      for (Value operand : op->getOperands())
        if (operand != loop.getInductionVar() &&
            operand.getParentRegion() == &loop.getRegion() &&
            !late.contains(operand.getDefiningOp()))
          handed.insert(operand);
  }

  void rewrite() {
    IRMapping first;
    first.map(loop.getInductionVar(), loop.getLowerBound());
    for (auto [arg, init] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getInitArgs()))
      first.map(arg, init);
    clone(others.before, first);
    clone(others.behind, first);
    Location loc = loop.getLoc();
    Value last = b.createOrFold<arith::SubIOp>(loc, loop.getUpperBound(),
                                               loop.getStep());
    auto rotated = scf::ForOp::create(b, loc, loop.getLowerBound(), last,
                                      loop.getStep(), getCarried(first));
    buildBody(rotated);
    b.setInsertionPointAfter(rotated);
    IRMapping end;
    end.map(loop.getInductionVar(), last);
    mapCarried(rotated.getResults(), end);
    clone(late.getArrayRef(), end);
    for (auto [arg, result, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getResults(),
                         loop.getYieldedValues()))
      result.replaceAllUsesWith(isLate(yielded) ? end.lookup(yielded)
                                                : end.lookup(arg));
    loop.erase();
  }

private:
  bool isLate(Value value) { return late.contains(value.getDefiningOp()); }

  void clone(ArrayRef<Operation *> ops, IRMapping &mapping) {
    for (Operation *op : ops)
      b.clone(*op, mapping);
  }

  /// What goes from one iteration to the next: what the loop carries but for
  /// the results of late ops, and what these take from their own iteration.
  SmallVector<Value> getCarried(IRMapping &mapping) {
    SmallVector<Value> values;
    for (Value yielded : loop.getYieldedValues())
      if (!isLate(yielded))
        values.push_back(mapping.lookupOrDefault(yielded));
    for (Value value : handed)
      values.push_back(mapping.lookupOrDefault(value));
    return values;
  }

  void mapCarried(ValueRange values, IRMapping &mapping) {
    size_t next = 0;
    for (auto [arg, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()))
      if (!isLate(yielded))
        mapping.map(arg, values[next++]);
    for (Value value : handed)
      mapping.map(value, values[next++]);
  }

  void buildBody(scf::ForOp rotated) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(rotated.getBody());
    IRMapping before, next;
    Value iteration = rotated.getInductionVar();
    before.map(loop.getInductionVar(), iteration);
    next.map(
        loop.getInductionVar(),
        arith::AddIOp::create(b, loop.getLoc(), iteration, loop.getStep()));
    mapCarried(rotated.getRegionIterArgs(), before);
    clone(others.before, next);
    clone(late.getArrayRef(), before);
    for (auto [arg, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()))
      next.map(arg, before.lookup(isLate(yielded) ? yielded : Value(arg)));
    clone(others.behind, next);
    scf::YieldOp::create(b, loop.getLoc(), getCarried(next));
  }

  scf::ForOp loop;
  const SetVector<Operation *> &late;
  OrderedOps others;
  OpBuilder b;
  /// What late ops take from the other ops of their iteration.
  SetVector<Value> handed;
};

struct PipelineLoopsPass final
    : mlir::fcgpu::impl::PipelineLoopsPassBase<PipelineLoopsPass> {
  void getDependentDialects(DialectRegistry &registry) const override {
    PipelineLoopsPassBase::getDependentDialects(registry);
    registerValueBounds(registry);
  }

  static bool usesCarriedValue(scf::ForOp loop, Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return llvm::is_contained(loop.getRegionIterArgs(), operand);
    });
  }

  /// The ops of the loop that only serve to say what `copy` copies where.
  static FailureOr<SetVector<Operation *>> getAddressSlice(scf::ForOp loop,
                                                           CopyOp copy) {
    SetVector<Operation *> slice;
    if (failed(addBodySlice(loop, copy, slice)))
      return failure();
    slice.remove(copy);
    for (Operation *op : slice)
      if (!isRepeatable(op) || usesCarriedValue(loop, op))
        return failure();
    if (usesCarriedValue(loop, copy))
      return failure();
    return slice;
  }

  /// Moves the copies, each with an address computation of its own, to the
  /// front of the loop. Returns the copies with their computations.
  FailureOr<SmallVector<HoistedCopy>> hoistCopies(scf::ForOp loop,
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
    SmallVector<HoistedCopy> hoisted;
    b.setInsertionPointToStart(loop.getBody());
    for (auto [original, slice] : llvm::zip_equal(copies, slices)) {
      CopyOp copy = original;
      IRMapping mapping;
      HoistedCopy &result = hoisted.emplace_back();
      for (Operation *op : slice)
        result.ops.push_back(b.clone(*op, mapping));
      result.copy = cast<CopyOp>(b.clone(*copy.getOperation(), mapping));
      result.ops.push_back(result.copy);
    }
    for (CopyOp copy : copies)
      copy.erase();
    return hoisted;
  }

  /// The contractions of the loop that do not depend on what it carries, and
  /// all that they use.
  static SetVector<Operation *> getEarlyOps(scf::ForOp loop) {
    SetVector<Operation *> early;
    for (auto contract : loop.getBody()->getOps<vector::ContractionOp>()) {
      SetVector<Operation *> slice;
      if (failed(addBodySlice(loop, contract, slice)))
        continue;
      if (llvm::none_of(slice, [&](Operation *op) {
            return usesCarriedValue(loop, op) || op->getNumRegions();
          }))
        early.insert_range(slice);
    }
    return early;
  }

  /// Makes a copy happen only under `predicate`; address computations, reads
  /// and products may run anyway.
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

  /// The products of the loop whose results it only hands on to the next
  /// iteration, and the reads in place that only they use.
  static SetVector<Operation *> getLateOps(scf::ForOp loop) {
    SetVector<Operation *> late;
    for (auto contract : loop.getBody()->getOps<vector::ContractionOp>()) {
      if (!isAsynchronous(contract) ||
          !llvm::all_of(contract->getUsers(), [&](Operation *user) {
            return user == loop.getBody()->getTerminator();
          }))
        continue;
      if (auto read = contract.getRhs().getDefiningOp<ReadOp>();
          read && read->hasOneUse())
        late.insert(read);
      late.insert(contract);
    }
    return late;
  }

  /// Upstream's rewrite of the loop, which must not fail for other reasons than
  /// ours.
  static FailureOr<scf::ForOp> runPipeliner(scf::ForOp loop,
                                            const Stages &stages,
                                            scf::PipeliningOption options) {
    options.getScheduleFn = [&](scf::ForOp, Stages &result) {
      result = stages;
    };
    IRRewriter rewriter(loop.getContext());
    rewriter.setInsertionPoint(loop);
    Location loc = loop.getLoc();
    FailureOr<scf::ForOp> pipelined =
        scf::pipelineForLoop(rewriter, loop, options);
    if (failed(pipelined))
      emitError(loc, "this loop cannot be pipelined");
    return pipelined;
  }

  /// All that depends on what the late ops of the iteration before made.
  static SetVector<Operation *>
  getUsersOfCarried(scf::ForOp loop, const SetVector<Operation *> &late) {
    SetVector<Operation *> users;
    auto add = [&](Value value) {
      for (Operation *user : value.getUsers())
        if (Operation *op = loop.getBody()->findAncestorOpInBlock(*user))
          if (!late.contains(op) && !op->hasTrait<OpTrait::IsTerminator>())
            users.insert(op);
    };
    for (auto [arg, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), loop.getYieldedValues()))
      if (late.contains(yielded.getDefiningOp()))
        add(arg);
    // NOLINTNEXTLINE(modernize-loop-convert): add() makes it longer
    for (size_t i = 0; i < users.size(); ++i)
      for (Value result : users[i]->getResults())
        add(result);
    return users;
  }

  /// With overlap = pv: the products that an iteration ends with run beside the
  /// first ones of the next. Those of the last iteration follow the loop.
  LogicalResult delayProducts(scf::ForOp loop) {
    SetVector<Operation *> late = getLateOps(loop);
    if (late.empty())
      return success();
    if (!ValueBoundsConstraintSet::compare(loop.getLowerBound(),
                                           ValueBoundsConstraintSet::LT,
                                           loop.getUpperBound()) ||
        getConstantIntValue(loop.getStep()) != 1)
      return loop.emitOpError("expects to run at least once, in steps of 1, "
                              "with overlap = pv; use overlap = none");
    ProductDelay(loop, late, orderAround(loop, late)).rewrite();
    return success();
  }

  /// All but the late ops: what is done in front of them (the first products),
  /// then what waits for those, then what waits for the late ones.
  static OrderedOps orderAround(scf::ForOp loop,
                                const SetVector<Operation *> &late) {
    OrderedOps ops;
    SetVector<Operation *> early = getEarlyOps(loop);
    ops.before.assign(early.begin(), early.end());
    SetVector<Operation *> last = getUsersOfCarried(loop, late);
    for (bool isLast : {false, true})
      for (Operation &op : loop.getBody()->without_terminator())
        if (!early.contains(&op) && !late.contains(&op) &&
            last.contains(&op) == isLast)
          ops.behind.push_back(&op);
    return ops;
  }

  /// A ring is filled `numStages` - 1 iterations ahead of its reads, which come
  /// one earlier where they serve `early` ops.
  static Stages stage(scf::ForOp loop, MutableArrayRef<HoistedCopy> hoisted,
                      const SetVector<Operation *> &early, unsigned numStages) {
    unsigned last = early.empty() ? numStages - 1 : numStages;
    unsigned earlyStage = numStages - 1;
    DenseSet<Value> earlyRings;
    for (Operation *op : early)
      if (auto read = dyn_cast<ReadOp>(op))
        earlyRings.insert(read.getRing());
    Stages stages;
    for (HoistedCopy &copy : hoisted) {
      bool isEarly = earlyRings.contains(copy.copy.getRing());
      // The last iteration reads one tile too many, an empty loop the first.
      copy.copy.setZeroFill(isEarly);
      for (Operation *op : copy.ops)
        stages.emplace_back(op, isEarly ? 0 : last - (numStages - 1));
    }
    for (Operation *op : early)
      stages.emplace_back(op, earlyStage);
    DenseSet<Operation *> staged;
    for (auto [op, stage] : stages)
      staged.insert(op);
    for (Operation &op : loop.getBody()->without_terminator())
      if (!staged.contains(&op))
        stages.emplace_back(&op, last);
    return stages;
  }

  /// Which products of two iterations run together, which the loop says until
  /// they do.
  static Overlap takeOverlap(scf::ForOp loop) {
    auto overlap = loop->getAttrOfType<OverlapAttr>(kOverlapAttrName);
    loop->removeAttr(kOverlapAttrName);
    return overlap ? overlap.getValue() : Overlap::None;
  }

  LogicalResult pipeline(scf::ForOp loop) {
    Overlap overlap = takeOverlap(loop);
    if (overlap == Overlap::PV)
      return delayProducts(loop);
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
    auto hoisted = hoistCopies(loop, copies);
    if (failed(hoisted))
      return failure();
    LDBG() << copies.size() << " copies run " << numStages - 1
           << " tiles ahead, overlap " << stringifyOverlap(overlap);

    SetVector<Operation *> early;
    if (overlap == Overlap::QK)
      early = getEarlyOps(loop);
    Stages stages = stage(loop, *hoisted, early, numStages);
    scf::PipeliningOption options;
    options.supportDynamicLoops = true;
    options.peelEpilogue = false;
    options.predicateFn = predicate;
    FailureOr<scf::ForOp> pipelined = runPipeliner(loop, stages, options);
    if (failed(pipelined))
      return failure();
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

  /// Whether the tiles are numbered in order, each copied once and read in one
  /// place.
  static bool isStream(ArrayRef<CopyOp> copies, ArrayRef<ReadOp> reads) {
    if (copies.size() != reads.size())
      return false;
    std::optional<int64_t> number;
    for (auto [copy, read] : llvm::zip_equal(copies, reads)) {
      auto tile = getConstantIntValue(CopyOp(copy).getTile());
      if (!tile || getConstantIntValue(ReadOp(read).getTile()) != tile ||
          (number && *tile != *number + 1))
        return false;
      number = tile;
    }
    return true;
  }

  /// Starts the copies of streams outside of loops as early as their ring has
  /// slots: those of the first tiles in front of all reads, each other one in
  /// front of the read of the tile behind that which it replaces. A copy whose
  /// address is not known by then stays where it is.
  static void startCopiesEarly(scf::ForallOp forall) {
    Block *body = getTileBody(forall);
    llvm::MapVector<Value, SmallVector<CopyOp>> copiesOf;
    DenseMap<Value, SmallVector<ReadOp>> readsOf;
    for (auto copy : body->getOps<CopyOp>())
      copiesOf[copy.getRing()].push_back(copy);
    // The first of those that read parts of one tile.
    for (auto read : body->getOps<ReadOp>())
      if (auto &reads = readsOf[read.getRing()];
          reads.empty() || reads.back().getTile() != read.getTile())
        reads.push_back(read);
    if (readsOf.empty())
      return;
    Operation *firstRead = *body->getOps<ReadOp>().begin();
    IRRewriter rewriter(forall.getContext());
    for (auto &[ring, copies] : copiesOf) {
      ArrayRef<ReadOp> reads = readsOf[ring];
      if (!isStream(copies, reads))
        continue;
      size_t slots = cast<RingType>(ring.getType()).getStages();
      for (auto [i, copy] : llvm::enumerate(copies)) {
        Operation *target = firstRead;
        if (i >= slots)
          target = reads[i - slots + 1];
        if (target->isBeforeInBlock(copy) &&
            succeeded(moveOperationDependencies(rewriter, copy, target)))
          copy->moveBefore(target);
      }
    }
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
    if (failed(checkReached(getOperation(), Reached::Rings)))
      return signalPassFailure();
    getOperation().walk(startCopiesEarly);
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      // A producer is ahead by itself.
      if (!isTileLoop(loop) && !loop->getParentOfType<ProduceOp>())
        loops.push_back(loop);
    });
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
