//===- DistributeExchange.cpp - Shares of tiles between warps -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fcgpu.all_to_all through shared memory. Each warp writes its tiles into its
// own part of it, core by core, and after a barrier each reads its share of the
// tiles of its whole group. Neither has bank conflicts:
//
// A core is eight rows of 8 f32, so a row is 32 bytes, one of four groups of 8
// banks. A lane writes two columns of row lane / 4: 16 lanes write four rows at
// a time, all 32 banks. Reading shares of width 8, a lane wants a whole row of
// core lane % 4, 16 bytes at a time: eight lanes want two rows of four cores.
// So row i of core c lies in place i ^ (c % 4), and lanes of odd rows read the
// second half first. The (row, half) that lane 4 i + c reads first, by place:
//
//     place   0        1        2        3        group of 8 banks: place % 4
//     core 0  (0, lo)  (1, hi)
//     core 1  (1, hi)  (0, lo)
//     core 2                    (0, lo)  (1, hi)
//     core 3                    (1, hi)  (0, lo)
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::BitMap;
using flashcore::BitPoint;
using flashcore::TileLayout;

/// f32 elements of a core.
static constexpr int64_t kCoreElements = kCore * kCore;

int64_t mlir::fcgpu::getExchangeBytes(AllToAllOp op) {
  int64_t elements = 0;
  for (Type type : op.getTiles().getTypes())
    elements += cast<VectorType>(type).getNumElements();
  return elements * sizeof(float);
}

namespace {
/// Lanes whose cores lie next to each other in a row of them.
constexpr int64_t kQuad = 4;

/// A core in memory, row by row: what a lane's number adds to its place there.
SmallVector<int64_t> getBasesInCore(const TileLayout &layout) {
  BitMap memory(/*numOutputs=*/1, {{BitPoint{8}, BitPoint{16}, BitPoint{32}},
                                   {BitPoint{1}, BitPoint{2}, BitPoint{4}}});
  BitMap inMemory = memory.compose(layout.getMap());
  SmallVector<int64_t> bases;
  for (const BitPoint &basis : inMemory.getBases(TileLayout::Lane))
    bases.push_back(basis.front());
  return bases;
}

struct DistributeAllToAll final : ThreadPattern<AllToAllOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(AllToAllOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!llvm::all_of(op.getTiles(),
                      [&](Value tile) { return isOfCores(tile); }))
      return rewriter.notifyMatchFailure(op, "hands on a tile of other cores");
    IndexBuilder b(op.getLoc(), rewriter);
    store(b, op, adaptor);
    gpu::BarrierOp::create(b);
    rewriter.replaceOpWithMultiple(op, load(b, op, adaptor));
    return success();
  }

private:
  /// Whether a core of the tile is eight rows of eight columns, in pairs; or of
  /// the rows of such a tile.
  bool isOfCores(Value tile) const {
    const TileLayout *layout = thread.layouts->lookup(tile);
    const TileLayout &core = flashcore::getLdMatrixLayout();
    return layout &&
           (*layout == core || *layout == core.slice(TileLayout::Row));
  }
  /// Whether a lane holds a whole row of a core of the share.
  bool isWide(Value share) const {
    const TileLayout &layout = *thread.layouts->lookup(share);
    return layout.getRank() == 2 && layout.getRun(TileLayout::Column) == kCore;
  }

  /// The part of shared memory at `offset`, as f32.
  Value viewPart(IndexBuilder &b, AllToAllOp op, Value offset) const {
    auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                            gpu::AddressSpace::Workgroup);
    int64_t elements = getExchangeBytes(op) / sizeof(float);
    auto type = MemRefType::get({elements}, b.getF32Type(),
                                MemRefLayoutAttrInterface(), space);
    return memref::ViewOp::create(b, type, thread.sharedMemory, offset,
                                  ValueRange());
  }

  /// Writes the warp's tiles, one behind the other.
  void store(IndexBuilder &b, AllToAllOp op, OneToNOpAdaptor adaptor) const {
    Value memory = viewPart(b, op, thread.warpOffset);
    int64_t start = 0;
    for (auto [i, tile] : llvm::enumerate(op.getTiles())) {
      auto type = cast<VectorType>(tile.getType());
      ValueRange parts = adaptor.getTiles()[i];
      const TileLayout &layout = *thread.layouts->lookup(tile);
      if (type.getRank() == 1)
        storeRows(b, layout, parts, memory, start);
      else
        storeCores(b, layout, parts, type.getDimSize(1) / kCore, memory, start,
                   isWide(op.getSharesOf(i).front()));
      start += type.getNumElements();
    }
  }

  /// All lanes of a row hold its value; the first writes it.
  void storeRows(IndexBuilder &b, const TileLayout &layout, ValueRange rows,
                 Value memory, int64_t start) const {
    Value isFirst = isFirstReplica(b, layout, thread.lane);
    auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    Value row = getPlace(b, layout, TileLayout::Row, thread);
    for (auto [r, value] : llvm::enumerate(rows))
      memref::StoreOp::create(b, value, memory, b.add(row, start + r * kCore));
  }

  void storeCores(IndexBuilder &b, const TileLayout &layout, ValueRange cores,
                  int64_t coreCols, Value memory, int64_t start,
                  bool isWide) const {
    Value place = evaluate(b, getBasesInCore(layout), thread.lane);
    for (auto [i, core] : llvm::enumerate(cores)) {
      int64_t swizzle = isWide ? i % coreCols % kQuad : 0;
      Value element = b.bitXor(place, b.index(swizzle * kCore));
      vector::StoreOp::create(b, core, memory,
                              b.add(element, start + i * kCoreElements),
                              /*nontemporal=*/false, llvm::MaybeAlign(8));
    }
  }

  /// Reads this warp's share of the tiles of every part.
  SmallVector<SmallVector<Value>> load(IndexBuilder &b, AllToAllOp op,
                                       OneToNOpAdaptor adaptor) const {
    Value part = adaptor.getPart().front();
    Value group = b.sub(thread.warpOffset, b.mul(part, thread.warpBytes));
    SmallVector<Value> memories;
    for (uint64_t p = 0; p < op.getParts(); ++p)
      memories.push_back(viewPart(b, op, b.add(group, p * thread.warpBytes)));

    SmallVector<SmallVector<Value>> shares;
    int64_t start = 0;
    for (auto [i, tile] : llvm::enumerate(op.getTiles())) {
      auto type = cast<VectorType>(tile.getType());
      Value share = op.getSharesOf(i).front();
      ShareGrid grid = getShareGrid(type.getDimSize(0), op.getParts());
      Value rowShare = b.div(part, grid.cols),
            colShare = b.rem(part, grid.cols);
      for (Value memory : memories)
        shares.push_back(type.getRank() == 1
                             ? loadRows(b, share, rowShare, memory, start)
                             : loadCores(b, share, type.getDimSize(1) / kCore,
                                         rowShare, colShare, memory, start));
      start += type.getNumElements();
    }
    return shares;
  }

  SmallVector<Value> loadRows(IndexBuilder &b, Value share, Value rowShare,
                              Value memory, int64_t start) const {
    int64_t rows = cast<VectorType>(share.getType()).getDimSize(0);
    const TileLayout &layout = *thread.layouts->lookup(share);
    Value row = b.add(b.mul(rowShare, rows),
                      getPlace(b, layout, TileLayout::Row, thread));
    SmallVector<Value> result;
    for (int64_t r = 0; r < rows; r += kCore)
      result.push_back(
          memref::LoadOp::create(b, memory, b.add(row, start + r)));
    return result;
  }

  SmallVector<Value> loadCores(IndexBuilder &b, Value share, int64_t coreCols,
                               Value rowShare, Value colShare, Value memory,
                               int64_t start) const {
    auto type = cast<VectorType>(share.getType());
    int64_t shareRows = type.getDimSize(0) / kCore;
    int64_t shareCols = type.getDimSize(1) / kCore;
    Value firstCore = b.add(b.mul(rowShare, shareRows * coreCols),
                            b.mul(colShare, shareCols));
    Value first = b.mul(firstCore, kCoreElements);
    const TileLayout &layout = *thread.layouts->lookup(share);
    SmallVector<Value> result;
    for (int64_t r = 0; r < shareRows; ++r)
      for (int64_t c = 0; c < shareCols; c += isWide(share) ? kQuad : 1) {
        Value corner = b.add(first, start + (r * coreCols + c) * kCoreElements);
        if (isWide(share)) {
          loadRowOfCore(b, layout, memory, corner, result);
          continue;
        }
        Value place = evaluate(b, getBasesInCore(layout), thread.lane);
        result.push_back(loadVector(b, layout.getRun(TileLayout::Column),
                                    memory, b.add(corner, place)));
      }
    return result;
  }

  /// Appends the lane's row of the four cores from `corner` on.
  void loadRowOfCore(IndexBuilder &b, const TileLayout &layout, Value memory,
                     Value corner, SmallVectorImpl<Value> &result) const {
    Value row = getPlace(b, layout, TileLayout::Row, thread);
    SmallVector<int64_t> cores =
        getBases(layout, TileLayout::Lane, TileLayout::Column);
    for (int64_t &column : cores)
      column /= kCore;
    Value core = evaluate(b, cores, thread.lane);
    Value place = b.mul(b.bitXor(row, core), kCore);
    Value isOdd = b.rem(row, 2);
    Value firstHalf = b.mul(isOdd, kCore / 2);
    Value inCores = b.add(b.add(b.mul(core, kCoreElements), place), firstHalf);
    Value other = b.bitXor(inCores, b.index(kCore / 2));
    Value a = loadVector(b, 4, memory, b.add(corner, inCores));
    Value z = loadVector(b, 4, memory, b.add(corner, other));
    Value swapped =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, isOdd, b.index(0));
    for (Value half : {arith::SelectOp::create(b, swapped, z, a).getResult(),
                       arith::SelectOp::create(b, swapped, a, z).getResult()})
      for (int64_t column : {0, 2})
        result.push_back(vector::ShuffleOp::create(
            b, half, half, ArrayRef<int64_t>{column, column + 1}));
  }

  static Value loadVector(IndexBuilder &b, int64_t size, Value memory,
                          Value element) {
    return vector::LoadOp::create(
        b, VectorType::get({size}, b.getF32Type()), memory, element,
        /*nontemporal=*/false, llvm::MaybeAlign(size * sizeof(float)));
  }
};
} // namespace

void mlir::fcgpu::populateExchangePatterns(const TileTypeConverter &converter,
                                           const ThreadContext &context,
                                           RewritePatternSet &patterns) {
  patterns.add<DistributeAllToAll>(converter, patterns.getContext(), context);
}
