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

#include "TileLoop.h"
#include "WarpRoles.h"
#include "flashcore/Analysis/SlotHandover.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_HANDOVERSLOTSPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

using flashcore::HandoverEvent;
using flashcore::RoleProgram;
using flashcore::TileRef;

namespace {
/// Translates what a role does with rings into the events of the proof.
class RoleReader {
public:
  explicit RoleReader(DenseMap<Value, unsigned> &rings) : rings(rings) {}

  LogicalResult read(Block &block) {
    for (Operation &op : block) {
      auto inner = dyn_cast<scf::ForOp>(op);
      if (inner && isTileLoop(inner)) {
        tileLoop = inner;
        if (failed(read(*inner.getBody())))
          return failure();
        continue;
      }
      bool hasSlots = inner && op.walk([](Operation *nested) {
                                   return isa<AcquireOp, ReleaseOp>(nested)
                                              ? WalkResult::interrupt()
                                              : WalkResult::advance();
                                 }).wasInterrupted();
      if (!hasSlots) {
        // Behind the loop, its end is the number of the iteration.
        LogicalResult added = loop
                                  ? add(op, program.after, loop.getUpperBound())
                                  : add(op, program.before, /*iteration=*/{});
        if (failed(added))
          return failure();
        continue;
      }
      if (loop)
        return op.emitOpError("is a second loop over slots that change hands, "
                              "which the proof does not follow");
      loop = inner;
      for (Operation &nested : *loop.getBody())
        if (failed(add(nested, program.body, loop.getInductionVar())))
          return failure();
    }
    return success();
  }

  RoleProgram program;
  /// The loop over tiles, and that over block tiles around it, if there is one.
  scf::ForOp loop, tileLoop;

private:
  LogicalResult add(Operation &op, std::vector<HandoverEvent> &events,
                    Value iteration) {
    HandoverEvent event;
    if (auto acquire = dyn_cast<AcquireOp>(op)) {
      event.kind = HandoverEvent::Acquire;
      return add(event, events, acquire.getRing(), acquire.getTile(),
                 iteration);
    }
    if (auto release = dyn_cast<ReleaseOp>(op)) {
      event.kind = HandoverEvent::Release;
      return add(event, events, release.getRing(), release.getTile(),
                 iteration);
    }
    if (auto copy = dyn_cast<CopyOp>(op)) {
      event.kind = HandoverEvent::Copy;
      return add(event, events, copy.getRing(), copy.getTile(), iteration);
    }
    if (auto wait = dyn_cast<AwaitOp>(op)) {
      event.kind = HandoverEvent::Await;
      event.inFlight = wait.getInFlight();
      events.push_back(event);
    }
    auto contract = dyn_cast<vector::ContractionOp>(op);
    if (!contract || !isAsynchronous(contract))
      return success();
    event.kind = HandoverEvent::Start;
    for (Value operand : {contract.getLhs(), contract.getRhs()})
      if (isInPlace(operand)) {
        auto read = operand.getDefiningOp<ReadOp>();
        if (failed(
                addTile(event, &op, read.getRing(), read.getTile(), iteration)))
          return failure();
      }
    events.push_back(event);
    return success();
  }

  LogicalResult add(HandoverEvent &event, std::vector<HandoverEvent> &events,
                    TypedValue<RingType> ring, Value tile, Value iteration) {
    if (failed(addTile(event, ring.getDefiningOp(), ring, tile, iteration)))
      return failure();
    // One event a tile.
    for (const TileRef &ref : event.tiles) {
      events.push_back(event);
      events.back().tiles = {ref};
    }
    return success();
  }

  LogicalResult addTile(HandoverEvent &event, Operation *op,
                        TypedValue<RingType> ring, Value tile,
                        Value iteration) {
    TileRef ref;
    ref.ring = rings.insert({ring, rings.size()}).first->second;
    ref.numStages = ring.getType().getStages();
    std::optional<int64_t> distance =
        iteration ? getDistance(tile, iteration) : std::nullopt;
    if (distance) {
      ref.perIteration = true;
      ref.offset = *distance;
    } else if (auto constant = getConstantIntValue(tile)) {
      ref.offset = *constant;
    } else {
      auto forall =
          isa<BlockArgument>(tile)
              ? dyn_cast<scf::ForallOp>(tile.getParentBlock()->getParentOp())
              : scf::ForallOp();
      if (!forall || forall.getRank() != 1 ||
          ShapedType::isDynamic(forall.getStaticUpperBound().front()))
        return op->emitOpError("has a tile number that is no constant, "
                               "induction variable plus a constant, or number "
                               "of a warp");
      // Those of all warpgroups, which do the same.
      for (int64_t i = 1; i < forall.getStaticUpperBound().front(); ++i) {
        event.tiles.push_back(ref);
        ++ref.offset;
      }
    }
    event.tiles.push_back(ref);
    return success();
  }

  DenseMap<Value, unsigned> &rings;
};

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

  /// The last op by which `read` needs its tile: itself or, where products take
  /// it from its slot, the last wait for one of them.
  static FailureOr<Operation *> getLastUse(ReadOp read) {
    if (!read.getInPlace())
      return read.getOperation();
    Operation *last = nullptr;
    for (Operation *user : read->getUsers()) {
      auto contract = cast<vector::ContractionOp>(user);
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

  /// Tiles behind the loop have numbers of their own where it is known how
  /// often it runs. Makes them those of a loop that runs `fewer` times less.
  static void shorten(RoleProgram &program, int64_t fewer) {
    llvm::SmallDenseSet<unsigned> walked;
    for (const HandoverEvent &event : program.body)
      for (const TileRef &ref : event.tiles)
        if (ref.perIteration)
          walked.insert(ref.ring);
    for (HandoverEvent &event : program.after)
      for (TileRef &ref : event.tiles)
        if (walked.contains(ref.ring) && !ref.perIteration)
          ref.offset -= fewer;
  }

  static std::optional<int64_t> getTripCount(scf::ForOp loop) {
    if (!loop)
      return 0;
    auto first = getConstantIntValue(loop.getLowerBound());
    auto end = getConstantIntValue(loop.getUpperBound());
    if (!first || !end)
      return std::nullopt;
    return std::max<int64_t>(*end - *first, 0);
  }

  /// How many iterations more the first loop has, where both begin with the
  /// same and are there at all.
  static FailureOr<int64_t> getDifference(scf::ForOp first, scf::ForOp second) {
    if (auto a = getTripCount(first), b = getTripCount(second); a && b)
      return *a - *b;
    if (!first || !second ||
        !isEqualConstantIntOrValue(first.getLowerBound(),
                                   second.getLowerBound()))
      return failure();
    return ValueBoundsConstraintSet::computeConstantDelta(
        first.getUpperBound(), second.getUpperBound());
  }

  /// Whether what fills the rings of a loop over warpgroups, and the loop, are
  /// right together, for numbers of tiles that reach the steady state.
  static LogicalResult prove(ProduceOp produce, scf::ForallOp forall) {
    DenseMap<Value, unsigned> rings;
    RoleReader filler(rings), reader(rings);
    if (failed(filler.read(produce.getBody().front())) ||
        failed(reader.read(*forall.getBody())))
      return failure();
    auto fills = getTripCount(filler.loop), reads = getTripCount(reader.loop);
    bool isKnown = fills && reads;
    FailureOr<int64_t> more = getDifference(filler.loop, reader.loop);
    bool hasSameRounds =
        !filler.tileLoop == !reader.tileLoop &&
        (!filler.tileLoop ||
         filler.tileLoop.getUpperBound() == reader.tileLoop.getUpperBound());
    if (failed(more) || !hasSameRounds)
      return forall.emitOpError("walks another number of tiles than are "
                                "copied, as far as the proof can tell");
    if (filler.tileLoop && !fills)
      return forall.emitOpError("walks a number of key tiles that is not known "
                                "at compile time in a persistent kernel, whose "
                                "tiles have numbers across block tiles");
    // A slot is used again after as many iterations as its ring has.
    constexpr int64_t enough = 9, enoughRounds = 4;
    int64_t most = isKnown ? std::min(*reads, enough) : enough;
    int64_t least = isKnown ? most : 0;
    if (isKnown) {
      shorten(filler.program, *reads - most);
      shorten(reader.program, *reads - most);
    }
    for (int64_t count = least; count <= most; ++count)
      if (auto error = flashcore::checkHandover(
              filler.program, count + *more, reader.program, count,
              filler.tileLoop ? enoughRounds : 1))
        return forall.emitOpError("hands slots over wrongly: ") << *error;
    if (!filler.tileLoop)
      return success();
    // What was proved is what `shorten` left of the programs.
    flashcore::TileCounts tiles = flashcore::countTiles(filler.program, *fills);
    for (scf::ForOp tileLoop : {filler.tileLoop, reader.tileLoop})
      numberAcrossRounds(tileLoop, rings, tiles);
    return success();
  }

  /// The tiles of a block tile have the numbers behind those of the one before:
  /// how often a slot was filled tells the phases of its barriers apart.
  static void numberAcrossRounds(scf::ForOp tileLoop,
                                 const DenseMap<Value, unsigned> &rings,
                                 const flashcore::TileCounts &tiles) {
    OpBuilder b = OpBuilder::atBlockBegin(tileLoop.getBody());
    DenseMap<Value, Value> first;
    for (auto [ring, number] : rings) {
      Value count =
          arith::ConstantIndexOp::create(b, ring.getLoc(), tiles.at(number));
      first[ring] = arith::MulIOp::create(b, ring.getLoc(),
                                          tileLoop.getInductionVar(), count);
    }
    tileLoop.walk([&](Operation *op) {
      llvm::TypeSwitch<Operation *>(op)
          .Case<AcquireOp, ReleaseOp, CopyOp, ReadOp>([&](auto op) {
            b.setInsertionPoint(op);
            op.getTileMutable().set(arith::AddIOp::create(
                b, op.getLoc(), op.getTile(), first.lookup(op.getRing())));
          });
    });
  }

  /// Roles of their own fill what is read in place, and nothing else.
  LogicalResult checkReads(bool hasRoles) {
    WalkResult result = getOperation().walk([&](ReadOp read) {
      if (read.getInPlace() == hasRoles)
        return WalkResult::advance();
      if (hasRoles)
        read.emitOpError("reads a ring that is handed over, but not in place");
      else
        read.emitOpError("reads a tile in place, whose ring no fcgpu.produce "
                         "fills; run flashcore-separate-roles first");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  void runOnOperation() override {
    if (!isOurKernel(getOperation()))
      return;
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
                           "flashcore-separate-roles first");
        return signalPassFailure();
      }
      if (failed(prove(*programs.begin(), forall)))
        signalPassFailure();
    });
  }

  /// Tiles that stay where they are, and are acquired.
  llvm::DenseSet<std::pair<Value, Value>> acquired;
};
} // namespace
