//===- PromoteShared.cpp - Phase 4: tiles through shared memory -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces each read of a tile by a copy into a ring and a read of the
// ring, and each write that says so by a store through one, as fcgpu.staging
// says: nothing is decided here.
//
//===----------------------------------------------------------------------===//

#include "Preconditions.h"
#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

#define DEBUG_TYPE "flashcore-promote-shared"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_PROMOTESHAREDPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct PromoteSharedPass final
    : mlir::fcgpu::impl::PromoteSharedPassBase<PromoteSharedPass> {
  static StagingAttr getStaging(vector::TransferReadOp read) {
    return read->getAttrOfType<StagingAttr>(kStagingAttrName);
  }

  LogicalResult checkPrecondition(vector::TransferReadOp read) {
    StagingAttr staging = getStaging(read);
    if (!staging)
      return read.emitOpError("reads a 16-bit tile, but has no fcgpu.staging; "
                              "run flashcore-online-softmax first");
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
    if (getConstantIntValue(read.getIndices().back()) != 0)
      return read.emitOpError("expects a tile that starts at column 0");
    int64_t cols = cast<ShapedType>(read.getBase().getType()).getShape().back();
    if (ShapedType::isDynamic(cols) ||
        getTileColumns(cols) != type.getDimSize(1))
      return read.emitOpError("expects a tile of whole rows, but got ")
             << type.getDimSize(1) << " columns of "
             << (ShapedType::isDynamic(cols) ? "?" : std::to_string(cols));
    if (staging.getCopy() == CopyScope::Block && dependsOnWarp(read, forall))
      return read.emitOpError("reads a tile that differs between warps, but "
                              "its fcgpu.staging has copy = block; use copy = "
                              "warp");
    if (isSplit(read) && failed(checkSplit(read)))
      return failure();
    return checkLoop(read);
  }

  /// Whether the tiles of the loop around `read`, if there is one, can be
  /// numbered as its staging says.
  static LogicalResult checkLoop(vector::TransferReadOp read) {
    auto loop = getKeyLoop(read);
    if (!loop)
      return success();
    if (getStaging(read).getNumber() == TileNumber::Holder)
      return read.emitOpError("stands in a loop, but its fcgpu.staging has "
                              "number = holder; use number = turn");
    if (getConstantIntValue(loop.getLowerBound()) != 0 ||
        getConstantIntValue(loop.getStep()) != 1)
      return read.emitOpError("expects its loop to start at 0 with step 1");
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

  /// Whether some of the columns stay in registers, and others do not.
  static bool isSplit(vector::TransferReadOp read) {
    int64_t kept = getStaging(read).getKept();
    return kept > 0 && kept < read.getVectorType().getDimSize(1);
  }

  /// Whether `read` can be split along its columns: those of products with
  /// tiles stored (n, k).
  static LogicalResult checkSplit(vector::TransferReadOp read) {
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
                                "k) to use it with kept = ")
               << getStaging(read).getKept() << "; use kept = 0 or "
               << read.getVectorType().getDimSize(1);
    }
    return success();
  }

  /// The op that puts columns of a constant behind those of a tile in place, if
  /// that is all the tile is for.
  static vector::InsertStridedSliceOp getWidening(vector::TransferReadOp read) {
    if (!read->hasOneUse() || !getStaging(read).isInPlace())
      return {};
    auto insert = dyn_cast<vector::InsertStridedSliceOp>(*read->user_begin());
    DenseElementsAttr value;
    bool isWidening =
        insert && insert.getValueToStore() == read.getResult() &&
        matchPattern(insert.getDest(), m_Constant(&value)) && value.isSplat() &&
        llvm::all_of(insert.getOffsets().getAsValueRange<IntegerAttr>(),
                     [](const APInt &offset) { return offset.isZero(); }) &&
        insert.getDestVectorType().getDimSize(0) ==
            read.getVectorType().getDimSize(0);
    return isWidening ? insert : vector::InsertStridedSliceOp();
  }

  /// The tile that products take of what is read.
  static VectorType getTileType(vector::TransferReadOp read) {
    auto widening = getWidening(read);
    return widening ? widening.getDestVectorType() : read.getVectorType();
  }

  /// The columns behind those that copies write are written once.
  static void fillColumns(OpBuilder &b, vector::TransferReadOp read,
                          Value ring) {
    auto widening = getWidening(read);
    if (!widening)
      return;
    DenseElementsAttr value;
    matchPattern(widening.getDest(), m_Constant(&value));
    FillOp::create(b, read.getLoc(), ring,
                   b.getI64IntegerAttr(read.getVectorType().getDimSize(1)),
                   value.getSplatValue<FloatAttr>());
  }

  /// A ring of `slots` for tiles like that of `read`, at the start of the block
  /// that the loop over warps stands in.
  static Value allocRing(vector::TransferReadOp read, int64_t slots) {
    OpBuilder b = OpBuilder::atBlockBegin(
        read->getParentOfType<scf::ForallOp>()->getBlock());
    VectorType type = getTileType(read);
    StagingAttr staging = getStaging(read);
    auto ringType = RingType::get(b.getContext(), slots, type.getDimSize(0),
                                  type.getDimSize(1), type.getElementType(),
                                  staging.isInPlace() ? staging.getLayout()
                                                      : RingLayout::Rows,
                                  staging.getGroup());
    Value ring =
        AllocRingOp::create(b, read.getLoc(), ringType, staging.getRing());
    LDBG() << ringType << " for " << read;
    fillColumns(b, read, ring);
    return ring;
  }

  /// A read of tile `tile` of `ring` in the place of `read`.
  static ReadOp createRead(OpBuilder &b, vector::TransferReadOp read,
                           Value ring, Value tile) {
    auto result = ReadOp::create(b, read.getLoc(), getTileType(read), ring,
                                 tile, /*column=*/0);
    if (getStaging(read).isInPlace())
      result->setAttr(kHomeAttrName, SharedAttr::get(b.getContext()));
    return result;
  }

  /// Replaces `read` by a copy into tile `tile` of `ring` and a read of that,
  /// or where `isReread` a read by each user. Returns the read that is left.
  ReadOp replace(vector::TransferReadOp read, Value ring, Value tile,
                 bool isReread) {
    OpBuilder b(read);
    CopyOp::create(b, read.getLoc(), read.getBase(), read.getIndices(), ring,
                   tile, /*predicate=*/Value(), getStaging(read).getCopy(),
                   getStaging(read).getViaRegisters());
    ReadOp result;
    if (isReread) {
      for (OpOperand &use : llvm::make_early_inc_range(read->getUses())) {
        b.setInsertionPoint(use.getOwner());
        use.set(createRead(b, read, ring, tile));
      }
    } else {
      result = createRead(b, read, ring, tile);
      if (auto widening = getWidening(read)) {
        widening.replaceAllUsesWith(result.getResult());
        widening.erase();
      } else {
        read.replaceAllUsesWith(result.getResult());
      }
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
  static void splitQuery(ReadOp query, int64_t kept) {
    int64_t cols = query.getRing().getType().getCols();
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
    Value ring = allocRing(read, getStaging(read).getSlots());
    replace(read, ring, loop.getInductionVar(), /*isReread=*/false);
  }

  /// A tile of each holder's own.
  void promoteOwn(vector::TransferReadOp read) {
    auto forall = read->getParentOfType<scf::ForallOp>();
    StagingAttr staging = getStaging(read);
    bool mustSplit = isSplit(read);
    ReadOp result = replace(read, allocRing(read, staging.getSlots()),
                            forall.getInductionVars().back(),
                            /*isReread=*/staging.getKept() == 0);
    if (mustSplit)
      splits.emplace_back(result, staging.getKept());
  }

  /// A result that goes by way of a slot of each holder's own, of which the
  /// last has left when the loop over warps ends.
  LogicalResult promoteWrite(vector::TransferWriteOp write) {
    auto staging = write->getAttrOfType<StagingAttr>(kStagingAttrName);
    auto forall = write->getParentOfType<scf::ForallOp>();
    if (!forall)
      return write.emitOpError("writes a tile outside of an scf.forall over "
                               "warps");
    VectorType type = write.getVectorType();
    OpBuilder b = OpBuilder::atBlockBegin(forall->getBlock());
    auto ringType = RingType::get(b.getContext(), staging.getSlots(),
                                  type.getDimSize(0), type.getDimSize(1),
                                  type.getElementType(), RingLayout::Panels);
    Value ring =
        AllocRingOp::create(b, write.getLoc(), ringType, staging.getRing());
    b.setInsertionPoint(write);
    StoreOp::create(b, write.getLoc(), write.getVector(), write.getBase(),
                    write.getIndices(), ring, forall.getInductionVars().back());
    b.setInsertionPoint(forall.getTerminator());
    AwaitStoresOp::create(b, write.getLoc());
    write.erase();
    return success();
  }

  /// Tiles outside of loops go through the rings in program order: K and V
  /// through one for both, where their tiles have the same shape.
  void promoteStream(ArrayRef<vector::TransferReadOp> reads) {
    using Kind = std::pair<Type, Attribute>;
    auto getKind = [](vector::TransferReadOp read) {
      return Kind(getTileType(read), getStaging(read));
    };
    llvm::MapVector<Kind, SmallVector<vector::TransferReadOp>> byKind;
    for (vector::TransferReadOp read : reads)
      byKind[getKind(read)].push_back(read);
    llvm::SmallDenseMap<Kind, Value> rings;
    for (auto &[kind, sameKind] : byKind) {
      llvm::SmallDenseSet<Value> tensors;
      for (vector::TransferReadOp read : sameKind)
        tensors.insert(read.getBase());
      vector::TransferReadOp first = sameKind.front();
      int64_t slots = getStaging(first).getSlots() * tensors.size();
      rings[kind] = allocRing(first, std::min<int64_t>(slots, sameKind.size()));
    }
    // The slots of a ring that is handed over are taken in order, so that its
    // tiles have numbers of their own.
    int64_t number = 0;
    llvm::SmallDenseMap<Value, int64_t> numbers;
    for (vector::TransferReadOp read : reads) {
      OpBuilder b(read);
      Value ring = rings[getKind(read)];
      int64_t &next = getStaging(read).isInPlace() ? numbers[ring] : number;
      Value tile = arith::ConstantIndexOp::create(b, read.getLoc(), next++);
      replace(read, ring, tile, /*isReread=*/false);
    }
  }

  void runOnOperation() override {
    gpu::GPUFuncOp func = getOperation();
    if (!isOurKernel(func))
      return;
    if (failed(checkReached(func, Reached::Tiles)))
      return signalPassFailure();
    SmallVector<vector::TransferReadOp> reads;
    bool anyFailed = false;
    func.walk([&](vector::TransferReadOp read) {
      if (!isTileRead(read))
        return;
      anyFailed |= failed(checkPrecondition(read));
      reads.push_back(read);
    });
    SmallVector<vector::TransferWriteOp> writes;
    func.walk([&](vector::TransferWriteOp write) {
      if (write->hasAttr(kStagingAttrName))
        writes.push_back(write);
    });
    for (vector::TransferWriteOp write : writes)
      anyFailed |= failed(promoteWrite(write));
    if (anyFailed)
      return signalPassFailure();
    // By the loop over warps that they stand in.
    llvm::MapVector<Operation *, SmallVector<vector::TransferReadOp>> streams;
    for (vector::TransferReadOp read : reads) {
      if (getStaging(read).getNumber() == TileNumber::Holder)
        promoteOwn(read);
      else if (auto loop = getKeyLoop(read))
        promoteInLoop(read, loop);
      else
        streams[read->getParentOfType<scf::ForallOp>()].push_back(read);
    }
    for (auto &[forall, stream] : streams)
      promoteStream(stream);
    for (auto [query, kept] : splits)
      splitQuery(query, kept);
    splits.clear();
  }

  /// Reads of which only the first columns are kept, and how many.
  SmallVector<std::pair<ReadOp, int64_t>> splits;
};
} // namespace
