//===- DistributeWrite.cpp - Results from lanes to memory -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lanes store what they hold, with what neighbours hand them where that makes
// wider stores, and no more at a time than rows move by (RowAccess.h).
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "flashcore/Analysis/RowAccess.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::TileLayout;

namespace {
/// A result tile (or vector): each lane stores what it holds of the rows and
/// columns that exist, 16 bytes at a time where these allow it.
struct DistributeWrite final : ThreadPattern<vector::TransferWriteOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::TransferWriteOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getVectorType();
    auto target = dyn_cast<MemRefType>(op.getBase().getType());
    const TileLayout *layout = thread.layouts->lookup(op.getVector());
    if (!target || !layout || !op.getPermutationMap().isMinorIdentity() ||
        op.getMask())
      return rewriter.notifyMatchFailure(op, "is not a plain memref write");
    int64_t columns = target.getShape().back();
    bool coversColumns = type.getRank() == 1 || op.isDimInBounds(1) ||
                         (columns == type.getShape().back() &&
                          getConstantIntValue(op.getIndices().back()) == 0);
    if (layout->getRank() != type.getRank())
      return rewriter.notifyMatchFailure(op, "has a layout of another rank");
    if (type.getRank() > 1 && !isOfRows(TileRegisters(*layout, type),
                                        getPartSize(type.getElementType())))
      return rewriter.notifyMatchFailure(op, "has several rows in a part");
    IndexBuilder b(op.getLoc(), rewriter);
    Memory memory{adaptor.getBase().front(), {}, {}, {}, 0};
    if (!coversColumns)
      memory.columns = memref::getMixedSize(b, op.getLoc(), memory.memref,
                                            target.getRank() - 1);
    if (type.getRank() > 1)
      memory.accessBytes = flashcore::getAccessBytes(op.getBase());
    for (ValueRange index : adaptor.getIndices())
      memory.indices.push_back(index.front());
    size_t rowAxis = target.getRank() - type.getRank();
    bool coversTarget = target.getDimSize(rowAxis) == type.getDimSize(0) &&
                        getConstantIntValue(op.getIndices()[rowAxis]) == 0;
    if (!op.isDimInBounds(0) && !coversTarget)
      memory.rowAxis = rowAxis;
    memory.indices[rowAxis] = b.add(
        memory.indices[rowAxis], getPlace(b, *layout, TileLayout::Row, thread));
    if (type.getRank() == 1)
      storeVector(b, adaptor.getValueToStore(), type, *layout, memory);
    else
      storeTile(b, adaptor.getValueToStore(), type, *layout, memory);
    rewriter.eraseOp(op);
    return success();
  }

private:
  /// Where the lane's first place is, the axis of rows that may not exist, how
  /// many columns do (null if all), and what can be stored of one at a time.
  struct Memory {
    Value memref;
    SmallVector<Value> indices;
    std::optional<size_t> rowAxis;
    OpFoldResult columns;
    int64_t accessBytes;

    /// Null where all rows exist.
    Value isRow(IndexBuilder &b, Value row) const {
      if (!rowAxis)
        return {};
      return b.lessThan(row, memref::DimOp::create(b, memref, *rowAxis));
    }
  };

  void storeVector(IndexBuilder &b, ValueRange values, VectorType type,
                   const TileLayout &layout, const Memory &memory) const {
    TileRegisters registers(layout, type);
    for (auto [reg, value] : llvm::enumerate(values)) {
      OpBuilder::InsertionGuard guard(b);
      SmallVector<Value> indices = memory.indices;
      indices.back() = b.add(indices.back(), registers.getRow(reg));
      Value exists = memory.isRow(b, indices.back());
      // Of the lanes that hold the same, the first stores it.
      Value isFirst = isFirstReplica(b, layout, thread.lane);
      Value stores = exists && isFirst
                         ? arith::AndIOp::create(b, exists, isFirst).getResult()
                         : (exists ? exists : isFirst);
      if (stores)
        b.setInsertionPointToStart(
            scf::IfOp::create(b, stores, /*withElseRegion=*/false).thenBlock());
      memref::StoreOp::create(b, value, memory.memref, indices);
    }
  }

  /// Of the rows of a lane, each after the other, with those of the other lanes
  /// of the warp.
  void storeTile(IndexBuilder &b, ValueRange parts, VectorType type,
                 const TileLayout &tileLayout, const Memory &memory) const {
    TileLayout layout = getLayoutOfRow(tileLayout);
    int64_t warpRows = layout.getBox()[TileLayout::Row];
    VectorType rowType =
        VectorType::get({warpRows, type.getDimSize(1)}, type.getElementType());
    int64_t wideCols = getWideColumns(rowType, layout, memory.accessBytes);
    TileRegisters registers(tileLayout, type);
    int64_t size = registers.size() / static_cast<int64_t>(parts.size());
    llvm::MapVector<int64_t, SmallVector<Value>> partsOfRow;
    for (auto [i, part] : llvm::enumerate(parts))
      partsOfRow[registers.getRow(static_cast<int64_t>(i) * size)].push_back(
          part);
    for (auto &[row, rowParts] : partsOfRow) {
      OpBuilder::InsertionGuard guard(b);
      SmallVector<Value> indices = memory.indices;
      Value &rowIndex = indices[indices.size() - 2];
      rowIndex = b.add(rowIndex, row);
      // Lanes whose row does not exist hand on what they hold, too.
      int64_t numWide =
          wideCols * static_cast<int64_t>(rowParts.size()) / type.getDimSize(1);
      SmallVector<Value> wide;
      auto wideType =
          VectorType::get({warpRows, wideCols}, type.getElementType());
      const TileLayout &store = flashcore::getStoreLayout();
      if (numWide)
        wide = convertParts(b, ArrayRef(rowParts).take_front(numWide), wideType,
                            layout, store, thread.lane);
      if (Value exists = memory.isRow(b, rowIndex))
        b.setInsertionPointToStart(
            scf::IfOp::create(b, exists, /*withElseRegion=*/false).thenBlock());
      if (numWide)
        storeRuns(b, wide, wideType, store, /*firstCol=*/0, memory, indices);
      if (wideCols < type.getDimSize(1))
        storeRuns(b, ArrayRef(rowParts).drop_front(numWide),
                  VectorType::get({warpRows, type.getDimSize(1) - wideCols},
                                  type.getElementType()),
                  layout, wideCols, memory, indices);
    }
  }

  /// Whether each part of `size` registers is of one row.
  static bool isOfRows(const TileRegisters &registers, int64_t size) {
    return llvm::all_of(llvm::seq<int64_t>(registers.size()), [&](int64_t reg) {
      return registers.getRow(reg) == registers.getRow(reg / size * size);
    });
  }

  /// What of a layout is in a warp's registers of one row.
  static TileLayout getLayoutOfRow(const TileLayout &layout) {
    TileLayout::Bases registers;
    for (const flashcore::BitPoint &basis :
         layout.getBases(TileLayout::Register))
      if (basis[TileLayout::Row] == 0)
        registers.push_back(basis);
    return {layout.getRank(), std::move(registers),
            TileLayout::Bases(layout.getBases(TileLayout::Lane))};
  }

  /// The first columns of a warp's rows that lanes can hand each other so that
  /// each gets 16 bytes next to each other; 0 where they are so already, or
  /// rows take less at a time.
  int64_t getWideColumns(VectorType rowType, const TileLayout &layout,
                         int64_t accessBytes) const {
    const TileLayout &store = flashcore::getStoreLayout();
    int64_t run = store.getRun(TileLayout::Column);
    int64_t bits = rowType.getElementTypeBitWidth();
    const flashcore::CopyAtom *atom = flashcore::findCopyAtom(
        *thread.target, flashcore::CopyRoute::RegistersToGlobal,
        flashcore::CopyCompletion::Immediate);
    int64_t cols = llvm::alignDown(rowType.getDimSize(1),
                                   store.getBox()[TileLayout::Column]);
    if (!atom || run * bits != 8 * atom->bytes || accessBytes < atom->bytes ||
        layout.getRun(TileLayout::Column) >= run || cols == 0 ||
        getBases(layout, TileLayout::Lane, TileLayout::Row) !=
            getBases(store, TileLayout::Lane, TileLayout::Row))
      return 0;
    auto type = VectorType::get({rowType.getDimSize(0), cols},
                                rowType.getElementType());
    return canConvert(type, layout, store) ? cols : 0;
  }

  /// Stores the parts of one row of boxes, which begins at column `firstCol`,
  /// as far as a lane has columns next to each other.
  void storeRuns(IndexBuilder &b, ValueRange parts, VectorType type,
                 const TileLayout &layout, int64_t firstCol,
                 const Memory &memory, SmallVector<Value> indices) const {
    TileRegisters registers(layout, type);
    int64_t size = registers.size() / static_cast<int64_t>(parts.size());
    int64_t run =
        std::min(layout.getRun(TileLayout::Column),
                 8 * memory.accessBytes / type.getElementTypeBitWidth());
    SmallVector<int64_t> lanes =
        getBases(layout, TileLayout::Lane, TileLayout::Column);
    int64_t lastLane = std::accumulate(lanes.begin(), lanes.end(), int64_t(0));
    std::optional<int64_t> begin = getConstantIntValue(indices.back());
    std::optional<int64_t> columns =
        memory.columns ? getConstantIntValue(memory.columns) : std::nullopt;
    Value col = b.add(indices.back(), evaluate(b, lanes, thread.lane));
    for (int64_t reg = 0; reg < registers.size(); reg += run) {
      int64_t ofReg = firstCol + registers.getColumn(reg);
      indices.back() = b.add(col, ofReg);
      OpBuilder::InsertionGuard guard(b);
      bool exists =
          !memory.columns ||
          (begin && columns && *begin + ofReg + lastLane + run <= *columns);
      if (!exists) {
        Value isColumn = b.lessThan(
            indices.back(),
            getValueOrCreateConstantIndexOp(b, b.getLoc(), memory.columns));
        b.setInsertionPointToStart(
            scf::IfOp::create(b, isColumn, /*withElseRegion=*/false)
                .thenBlock());
      }
      if (run < size) {
        memref::StoreOp::create(b, getElement(b, parts, reg), memory.memref,
                                indices);
        continue;
      }
      vector::StoreOp::create(
          b, concatenate(b, parts.slice(reg / size, run / size)), memory.memref,
          indices, /*nontemporal=*/false,
          llvm::MaybeAlign(run * type.getElementTypeBitWidth() / 8));
    }
  }

  /// The vectors, a power of two of them, as one.
  static Value concatenate(IndexBuilder &b, ValueRange vectors) {
    SmallVector<Value> level(vectors);
    while (level.size() > 1) {
      int64_t size = cast<VectorType>(level.front().getType()).getNumElements();
      SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(2 * size));
      SmallVector<Value> next;
      for (size_t i = 0; i < level.size(); i += 2)
        next.push_back(
            vector::ShuffleOp::create(b, level[i], level[i + 1], all));
      level = std::move(next);
    }
    return level.front();
  }
};
} // namespace

void mlir::fcgpu::populateWritePatterns(const TileTypeConverter &converter,
                                        const ThreadContext &context,
                                        RewritePatternSet &patterns) {
  patterns.add<DistributeWrite>(converter, patterns.getContext(), context);
}
