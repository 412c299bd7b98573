//===- PromoteShared.cpp - Phase 4: tiles through shared memory -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces each read of a tile by a copy into a ring and a read of the
// ring. Relies on fcgpu.schedule for the number of stages, the place of Q, and
// whether the warps of a block read the same key tiles.
//
//===----------------------------------------------------------------------===//

#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace mlir::fcgpu {
#define GEN_PASS_DEF_PROMOTESHAREDPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct PromoteSharedPass final
    : mlir::fcgpu::impl::PromoteSharedPassBase<PromoteSharedPass> {
  static bool isTileRead(vector::TransferReadOp read) {
    VectorType type = read.getVectorType();
    return type.getRank() == 2 && isRingElement(type.getElementType()) &&
           isa<MemRefType>(read.getBase().getType());
  }

  LogicalResult checkPrecondition(vector::TransferReadOp read) {
    auto forall = read->getParentOfType<scf::ForallOp>();
    if (!forall)
      return read.emitOpError("reads a tile outside of an scf.forall over "
                              "warps");
    if (!read.getPermutationMap().isMinorIdentity() || read.getMask() ||
        !matchPattern(read.getPadding(), m_AnyZeroFloat()))
      return read.emitOpError("expects an unmasked, untransposed tile padded "
                              "with zeros");
    VectorType type = read.getVectorType();
    if (type.getDimSize(0) % 16 != 0 || type.getDimSize(1) % 8 != 0 ||
        type.getDimSize(1) < 16)
      return read.emitOpError("expects rows in multiples of 16 and columns in "
                              "multiples of 8 from 16 on, but got ")
             << type.getDimSize(0) << " and " << type.getDimSize(1);
    int64_t panelCols = kPanelBytes * 8 / type.getElementTypeBitWidth();
    if (schedule.hasProducer() && type.getDimSize(1) % panelCols != 0)
      return read.emitOpError("expects columns in multiples of ")
             << panelCols << " with product = warpgroup, but got "
             << type.getDimSize(1) << "; use product = warp";
    if (getConstantIntValue(read.getIndices().back()) != 0)
      return read.emitOpError("expects a tile that starts at column 0");
    int64_t cols = cast<ShapedType>(read.getBase().getType()).getShape().back();
    if (cols != type.getDimSize(1))
      return read.emitOpError("expects a tile of whole rows, but got ")
             << type.getDimSize(1) << " columns of "
             << (ShapedType::isDynamic(cols) ? "?" : std::to_string(cols));
    auto loop = getKeyLoop(read);
    if (!loop)
      return success();
    if (getConstantIntValue(loop.getLowerBound()) != 0 ||
        getConstantIntValue(loop.getStep()) != 1)
      return read.emitOpError("expects its loop to start at 0 with step 1");
    if (schedule.getKeyWarps() == 1 && dependsOnWarp(read, forall))
      return read.emitOpError("reads a tile in a loop that differs between "
                              "warps");
    return success();
  }

  /// Whether what `read` reads is computed from the warp's number: then the
  /// warps cannot share the tile.
  static bool dependsOnWarp(vector::TransferReadOp read, scf::ForallOp forall) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    options.filter = [&](Operation *op) { return forall->isAncestor(op); };
    if (failed(getBackwardSlice(read.getOperation(), &slice, options)))
      return true;
    slice.remove(forall);
    return llvm::any_of(slice, [&](Operation *op) {
      return !isa<scf::ForOp>(op) &&
             llvm::any_of(forall.getInductionVars(), [&](Value warp) {
               return llvm::is_contained(op->getOperands(), warp);
             });
    });
  }

  /// Whether products use the tile as their right operand, as those of K and V.
  static bool isRightOperand(vector::TransferReadOp read) {
    return !read->use_empty() &&
           llvm::all_of(read->getUsers(), [&](Operation *user) {
             auto contract = dyn_cast<vector::ContractionOp>(user);
             return contract && contract.getRhs() == read.getResult() &&
                    contract.getLhs() != read.getResult();
           });
  }

  /// Whether a tile is the warp's own, as that of Q is.
  bool isOwnTile(vector::TransferReadOp read) {
    return !getKeyLoop(read) && !isRightOperand(read) &&
           getScope(read) == CopyScope::Warp;
  }

  /// Whether `read` can be split along its columns: those of products with
  /// tiles stored (n, k).
  LogicalResult checkSplit(vector::TransferReadOp read) {
    int64_t cols = read.getVectorType().getDimSize(1);
    int64_t kept = getKeptQueryColumns(schedule.getQuery(),
                                       schedule.getQuerySteps(), cols);
    if (kept >= cols)
      return read.emitOpError("expects fewer than the ")
             << llvm::divideCeil(cols, kQueryStep)
             << " steps of its columns in registers with query = split, but "
                "query_steps is "
             << schedule.getQuerySteps();
    for (Operation *user : read->getUsers()) {
      auto contract = dyn_cast<vector::ContractionOp>(user);
      bool isProduct = contract && contract.getLhs() == read.getResult() &&
                       contract.getRhs() != read.getResult() &&
                       contract.getKind() == vector::CombiningKind::ADD &&
                       contract.getRhsType().getRank() == 2;
      auto key = isProduct
                     ? contract.getRhs().getDefiningOp<vector::TransferReadOp>()
                     : vector::TransferReadOp();
      if (!key || !isTileRead(key) ||
          contract.getIndexingMapsArray()[0].getResult(1) !=
              contract.getIndexingMapsArray()[1].getResult(1))
        return read.emitOpError("expects only products with tiles stored (n, "
                                "k) to use it with query = split; use query = "
                                "registers or shared");
    }
    return success();
  }

  /// A ring for tiles of `type`. Warps that divide the keys do all by
  /// themselves, also this.
  Value allocRing(Location loc, VectorType type, int64_t stages) {
    OpBuilder b = OpBuilder::atBlockBegin(&getOperation().getBody().front());
    auto ringType = RingType::get(b.getContext(), stages, type.getDimSize(0),
                                  type.getDimSize(1), type.getElementType(),
                                  schedule.hasProducer() ? RingLayout::Panels
                                                         : RingLayout::Rows);
    return AllocRingOp::create(b, loc, ringType,
                               schedule.getKeyWarps() > 1 ? CopyScope::Warp
                                                          : CopyScope::Block);
  }

  /// Who copies a tile: the block where all its warps read the same.
  CopyScope getScope(vector::TransferReadOp read) {
    auto forall = read->getParentOfType<scf::ForallOp>();
    bool isSame = getKeyLoop(read) ||
                  (schedule.getNumWarps() > 1 && !dependsOnWarp(read, forall));
    return isSame && schedule.getKeyWarps() == 1 ? CopyScope::Block
                                                 : CopyScope::Warp;
  }

  /// A read of tile `tile` of `ring`, which stays there where products can take
  /// it from there.
  ReadOp createRead(OpBuilder &b, vector::TransferReadOp read, Value ring,
                    Value tile) {
    return ReadOp::create(b, read.getLoc(), read.getVectorType(), ring, tile,
                          /*column=*/0, /*in_place=*/schedule.hasProducer());
  }

  /// Replaces `read` by a copy into tile `tile` of `ring` and a read of that,
  /// or where `isReread` a read by each user. Returns the read that is left.
  ReadOp replace(vector::TransferReadOp read, Value ring, Value tile,
                 bool isReread) {
    OpBuilder b(read);
    CopyOp::create(b, read.getLoc(), read.getBase(), read.getIndices(), ring,
                   tile, /*predicate=*/Value(), getScope(read));
    ReadOp result;
    if (isReread) {
      for (OpOperand &use : llvm::make_early_inc_range(read->getUses())) {
        b.setInsertionPoint(use.getOwner());
        use.set(createRead(b, read, ring, tile));
      }
    } else {
      result = createRead(b, read, ring, tile);
      read.replaceAllUsesWith(result.getResult());
    }
    read.erase();
    ++numPromoted;
    return result;
  }

  /// The columns of a read from `first` up to `end`, read at `b`.
  static Value readColumns(OpBuilder &b, ReadOp read, int64_t first,
                           int64_t end) {
    RingType ring = read.getRing().getType();
    auto type =
        VectorType::get({ring.getRows(), end - first}, ring.getElementType());
    return ReadOp::create(b, read.getLoc(), type, read.getRing(),
                          read.getTile(), first);
  }

  /// Splits the products of all rows of Q in two along the columns: those up to
  /// `kept` are read in front of the loop, the others by each product.
  void splitQuery(ReadOp query) {
    int64_t cols = query.getRing().getType().getCols();
    int64_t kept = getKeptQueryColumns(schedule.getQuery(),
                                       schedule.getQuerySteps(), cols);
    OpBuilder b(query);
    Value keptQuery = readColumns(b, query, 0, kept);
    for (Operation *user : llvm::make_early_inc_range(query->getUsers())) {
      auto contract = cast<vector::ContractionOp>(user);
      auto key = contract.getRhs().getDefiningOp<ReadOp>();
      b.setInsertionPoint(key);
      Value keyStart = readColumns(b, key, 0, kept);
      Value keyEnd = readColumns(b, key, kept, cols);
      b.setInsertionPoint(contract);
      Value queryEnd = readColumns(b, query, kept, cols);
      auto multiply = [&](Value lhs, Value rhs, Value acc) -> Value {
        return vector::ContractionOp::create(b, contract.getLoc(), lhs, rhs,
                                             acc, contract.getIndexingMaps(),
                                             contract.getIteratorTypes());
      };
      Value scores = multiply(keptQuery, keyStart, contract.getAcc());
      contract.replaceAllUsesWith(multiply(queryEnd, keyEnd, scores));
      contract.erase();
      if (key->use_empty())
        key.erase();
    }
    query.erase();
  }

  /// A tile in a loop.
  void promoteInLoop(vector::TransferReadOp read, scf::ForOp loop) {
    Value ring =
        allocRing(read.getLoc(), read.getVectorType(), schedule.getNumStages());
    replace(read, ring, loop.getInductionVar(), /*isReread=*/false);
  }

  /// A tile of each warp's own. Returns the read that is left, if any.
  ReadOp promoteOwn(vector::TransferReadOp read) {
    auto forall = read->getParentOfType<scf::ForallOp>();
    int64_t slots = schedule.getKeyWarps() > 1 ? 1 : schedule.getNumHolders();
    Value ring = allocRing(read.getLoc(), read.getVectorType(), slots);
    // Q fragments that do not stay in registers are read anew by each user.
    return replace(read, ring, forall.getInductionVars().back(),
                   schedule.getQuery() == QueryPlacement::Shared);
  }

  /// Tiles outside of loops that no warp keeps for itself go through the rings
  /// in program order: K and V through one of twice the stages, where their
  /// tiles have the same shape.
  void promoteStream(ArrayRef<vector::TransferReadOp> reads) {
    llvm::MapVector<Type, SmallVector<vector::TransferReadOp>> byType;
    for (vector::TransferReadOp read : reads)
      byType[read.getVectorType()].push_back(read);
    llvm::SmallDenseMap<Type, Value> rings;
    for (auto &[type, sameType] : byType) {
      llvm::SmallDenseSet<Value> tensors;
      for (vector::TransferReadOp read : sameType)
        tensors.insert(read.getBase());
      int64_t slots = schedule.getNumStages() * tensors.size();
      rings[type] = allocRing(sameType.front().getLoc(), cast<VectorType>(type),
                              std::min<int64_t>(slots, sameType.size()));
    }
    int64_t number = 0;
    for (vector::TransferReadOp read : reads) {
      OpBuilder b(read);
      Value tile = arith::ConstantIndexOp::create(b, read.getLoc(), number++);
      replace(read, rings[read.getVectorType()], tile, /*isReread=*/false);
    }
  }

  void runOnOperation() override {
    gpu::GPUFuncOp func = getOperation();
    if (!isOurKernel(func))
      return;
    schedule = func->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
    SmallVector<vector::TransferReadOp> reads;
    bool anyFailed = false;
    func.walk([&](vector::TransferReadOp read) {
      if (!isTileRead(read))
        return;
      anyFailed |= failed(checkPrecondition(read));
      reads.push_back(read);
    });
    bool isSplit = schedule.getQuery() == QueryPlacement::Split;
    for (vector::TransferReadOp read : reads)
      if (!anyFailed && isSplit && isOwnTile(read))
        anyFailed = failed(checkSplit(read));
    if (anyFailed)
      return signalPassFailure();
    SmallVector<vector::TransferReadOp> stream;
    SmallVector<ReadOp> queries;
    for (vector::TransferReadOp read : reads) {
      if (auto loop = getKeyLoop(read))
        promoteInLoop(read, loop);
      else if (isOwnTile(read))
        queries.push_back(promoteOwn(read));
      else
        stream.push_back(read);
    }
    promoteStream(stream);
    if (isSplit)
      llvm::for_each(queries, [&](ReadOp query) { splitQuery(query); });
  }

  ScheduleAttr schedule;
};
} // namespace
