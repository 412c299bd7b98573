//===- HandoverProof.cpp - Proof that slots change hands rightly ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translates the IR of both roles into the programs that Analysis/SlotHandover
// runs against each other.
//
//===----------------------------------------------------------------------===//

#include "HandoverProof.h"
#include "TileLoop.h"
#include "flashcore/Analysis/SlotHandover.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fcgpu;

using flashcore::HandoverEvent;
using flashcore::RoleProgram;
using flashcore::TileRef;

/// Rings by number, in the order in which the programs name them.
using RingNumbers = llvm::MapVector<Value, unsigned>;

namespace {
/// Translates what a role does with rings into the events of the proof.
class RoleReader {
public:
  explicit RoleReader(RingNumbers &rings) : rings(rings) {}

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
        // Between the loops, the number of the iteration is the end of the one
        // before.
        LogicalResult added =
            loop      ? add(op, program.after, loop.getUpperBound())
            : passing ? add(op, program.before, passing.getUpperBound())
                      : add(op, program.before, /*iteration=*/{});
        if (failed(added))
          return failure();
        continue;
      }
      if (isPassing(inner) && !passing && !loop) {
        if (!program.before.empty() &&
            failed(checkBefore(program.before, inner)))
          return failure();
        passing = inner;
        for (Operation &nested : *passing.getBody())
          if (failed(add(nested, program.passing, passing.getInductionVar())))
            return failure();
        continue;
      }
      if (loop)
        return op.emitOpError("is a second loop over slots that change hands, "
                              "which the proof does not follow");
      loop = inner;
      if (passing && loop.getLowerBound() != passing.getUpperBound())
        return op.emitOpError("does not begin with the tile behind those that "
                              "are passed by");
      for (Operation &nested : *loop.getBody())
        if (failed(add(nested, program.body, loop.getInductionVar())))
          return failure();
    }
    return success();
  }

  RoleProgram program;
  /// The loop over tiles, that over block tiles around it, and that over tiles
  /// that are only passed by, if they are there.
  scf::ForOp loop, tileLoop, passing;

private:
  /// Whether the loop does nothing but take tiles and give them back, all lanes
  /// of a warp together.
  static bool isPassing(scf::ForOp loop) {
    return llvm::all_of(loop.getBody()->without_terminator(),
                        [](Operation &op) {
                          return isa<AcquireOp, ReleaseOp, NVVM::SyncWarpOp>(
                              op);
                        }) &&
           getConstantIntValue(loop.getLowerBound()) == 0;
  }

  /// What is done in front of a loop that passes tiles by is done with tiles of
  /// other rings.
  LogicalResult checkBefore(ArrayRef<HandoverEvent> events, scf::ForOp loop) {
    for (const HandoverEvent &event : events)
      for (const TileRef &ref : event.tiles)
        for (auto acquire : loop.getBody()->getOps<AcquireOp>())
          if (rings.lookup(acquire.getRing()) == ref.ring &&
              rings.contains(acquire.getRing()))
            return loop.emitOpError("passes by tiles of a ring that was used "
                                    "before");
    return success();
  }

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

  RingNumbers &rings;
};
} // namespace

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

/// Whether both are computed in the same way of the same values, where the
/// numbers of the block tiles are the same.
static bool isSame(Value a, Value b, scf::ForOp tilesOfA, scf::ForOp tilesOfB) {
  if (a == b || (tilesOfA && a == tilesOfA.getInductionVar() &&
                 b == tilesOfB.getInductionVar()))
    return true;
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  if (!first || !second || first->getName() != second->getName() ||
      first->getAttrDictionary() != second->getAttrDictionary() ||
      first->getNumOperands() != second->getNumOperands() ||
      !isRepeatable(first))
    return false;
  return cast<OpResult>(a).getResultNumber() ==
             cast<OpResult>(b).getResultNumber() &&
         llvm::all_of(
             llvm::zip_equal(first->getOperands(), second->getOperands()),
             [&](auto operands) {
               auto [x, y] = operands;
               return isSame(x, y, tilesOfA, tilesOfB);
             });
}

/// The value and the constant whose difference `bound` is.
static std::pair<Value, int64_t> splitDifference(Value bound) {
  APInt constant;
  if (auto sub = bound.getDefiningOp<arith::SubIOp>())
    if (matchPattern(sub.getRhs(), m_ConstantInt(&constant)))
      return {sub.getLhs(), constant.getSExtValue()};
  return {bound, 0};
}

/// How many iterations the loop of the filler has more than the reader's.
static std::optional<int64_t> getDifference(const RoleReader &filler,
                                            const RoleReader &reader) {
  if (auto a = getTripCount(filler.loop), b = getTripCount(reader.loop); a && b)
    return *a - *b;
  scf::ForOp first = filler.loop, second = reader.loop;
  if (!first || !second)
    return std::nullopt;
  scf::ForOp passing = reader.passing;
  Value begin = (passing ? passing : second).getLowerBound();
  if (!isEqualConstantIntOrValue(first.getLowerBound(), begin))
    return std::nullopt;
  if (auto a = getConstantIntValue(first.getUpperBound()),
      b = getConstantIntValue(second.getUpperBound());
      a && b)
    return *a - *b;
  auto [end, fewer] = splitDifference(second.getUpperBound());
  if (!isSame(first.getUpperBound(), end, filler.tileLoop, reader.tileLoop))
    return std::nullopt;
  return fewer;
}

/// Whether both walk the same block tiles, if they walk any.
static bool haveSameTiles(const RoleReader &filler, const RoleReader &reader) {
  scf::ForOp first = filler.tileLoop, second = reader.tileLoop;
  if (!first || !second)
    return !first && !second;
  return isEqualConstantIntOrValue(first.getLowerBound(),
                                   second.getLowerBound()) &&
         isSame(first.getUpperBound(), second.getUpperBound(), {}, {});
}

/// Numbers of tiles of a block tile that show all that may happen: as many as
/// there are, or all numbers until slots are used again, in a persistent kernel
/// several times in a row, equal and not.
static std::vector<std::vector<int64_t>>
listRounds(std::optional<int64_t> known, bool isPersistent) {
  // A slot is used again after as many iterations as its ring has.
  constexpr int64_t enough = 9, enoughRounds = 4;
  if (known)
    return {
        std::vector(isPersistent ? enoughRounds : 1, std::min(*known, enough))};
  std::vector<std::vector<int64_t>> rounds;
  for (int64_t count = 0; count <= enough; ++count) {
    if (!isPersistent)
      rounds.push_back({count});
    for (int64_t other : {0, 1, 2, 5})
      if (isPersistent)
        rounds.push_back({count, other, count, other});
  }
  return rounds;
}

/// The tiles of a block tile get the numbers behind those of the one before:
/// those that are copied once each time, and those of all iterations of the
/// loop until then, whose number is carried where it is not known. `fewer`
/// iterations than there are tiles.
static void numberAcrossTiles(RoleReader &role, int64_t fewer,
                              const RingNumbers &rings,
                              const flashcore::CopyCounts &copies) {
  scf::ForOp tileLoop = role.tileLoop;
  Location loc = tileLoop.getLoc();
  IRRewriter rewriter(tileLoop.getContext());
  auto getIndex = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(rewriter, loc, value);
  };
  Value walked;
  if (auto count = getTripCount(role.loop)) {
    rewriter.setInsertionPointToStart(tileLoop.getBody());
    walked = arith::MulIOp::create(rewriter, loc, tileLoop.getInductionVar(),
                                   getIndex(*count + fewer));
  } else {
    rewriter.setInsertionPoint(tileLoop);
    Value end = role.loop.getUpperBound();
    FailureOr<LoopLikeOpInterface> carrying =
        tileLoop.replaceWithAdditionalYields(
            rewriter, getIndex(0), /*replaceInitOperandUsesInLoop=*/false,
            [&](OpBuilder &b, Location loc, ArrayRef<BlockArgument> args) {
              Value tiles = arith::AddIOp::create(
                  b, loc, end, arith::ConstantIndexOp::create(b, loc, fewer));
              return SmallVector<Value>{
                  arith::AddIOp::create(b, loc, args.back(), tiles)};
            });
    tileLoop = cast<scf::ForOp>(carrying->getOperation());
    tileLoop->setAttr(kBlockTilesAttrName, rewriter.getUnitAttr());
    walked = tileLoop.getRegionIterArgs().back();
  }
  rewriter.setInsertionPointToStart(tileLoop.getBody());
  if (walked.getDefiningOp())
    rewriter.setInsertionPointAfterValue(walked);
  DenseMap<Value, Value> first;
  for (const auto &entry : rings) {
    Value ring = entry.first;
    unsigned number = entry.second;
    auto add = [&](const std::map<unsigned, int64_t> &counts, Value times) {
      auto it = counts.find(number);
      if (it == counts.end())
        return;
      Value tiles =
          arith::MulIOp::create(rewriter, loc, times, getIndex(it->second));
      Value &sum = first[ring];
      sum = sum ? arith::AddIOp::create(rewriter, loc, sum, tiles).getResult()
                : tiles;
    };
    add(copies.fixed, tileLoop.getInductionVar());
    add(copies.perIteration, walked);
  }
  tileLoop.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<AcquireOp, ReleaseOp, CopyOp, ReadOp>([&](auto op) {
          rewriter.setInsertionPoint(op);
          op.getTileMutable().set(arith::AddIOp::create(
              rewriter, op.getLoc(), op.getTile(), first.lookup(op.getRing())));
        });
  });
}

LogicalResult mlir::fcgpu::proveHandover(ProduceOp produce,
                                         scf::ForallOp forall) {
  RingNumbers rings;
  RoleReader filler(rings), reader(rings);
  if (failed(filler.read(produce.getBody().front())) ||
      failed(reader.read(*forall.getBody())))
    return failure();
  std::optional<int64_t> more = getDifference(filler, reader);
  if (!more || !haveSameTiles(filler, reader))
    return forall.emitOpError("walks another number of tiles than are "
                              "copied, as far as the proof can tell");
  auto known =
      getTripCount(filler.loop) ? getTripCount(reader.loop) : std::nullopt;
  bool isPersistent = static_cast<bool>(filler.tileLoop);
  auto allRounds = listRounds(known, isPersistent);
  if (known) {
    shorten(filler.program, *known - allRounds.front().front());
    shorten(reader.program, *known - allRounds.front().front());
  }
  // Of those, the first are passed by, up to more than a ring holds.
  constexpr int64_t manyPassed = 5;
  for (const std::vector<int64_t> &counts : allRounds)
    for (int64_t passed = 0; passed <= (reader.passing ? manyPassed : 0);
         ++passed) {
      std::vector<flashcore::HandoverRound> rounds;
      for (int64_t count : counts) {
        int64_t left = std::max<int64_t>(count - passed, 0);
        rounds.push_back({count + *more, left, count - left});
      }
      if (auto error =
              flashcore::checkHandover(filler.program, reader.program, rounds))
        return forall.emitOpError("hands slots over wrongly: ") << *error;
    }
  if (!isPersistent)
    return success();
  flashcore::CopyCounts copies = flashcore::countCopies(filler.program);
  numberAcrossTiles(filler, 0, rings, copies);
  numberAcrossTiles(reader, *more, rings, copies);
  return success();
}
