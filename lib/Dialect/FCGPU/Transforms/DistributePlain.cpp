//===- DistributePlain.cpp - Products of tiles in plain rows --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products for chips without mma.sync, and for those who want to see what it is
// good for. K, V and Q stay in their slots.
//
// wmma: PTX does not say which lane has what of a fragment, so nothing but its
// loads, products and stores may look at one. The left operand, if it is in
// registers, and the result go through memory of the warp's own.
//
// Lanes with a row each: every lane loads all of the right operand, which is
// one access for all, and adds up its row in f32.
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::MmaAtom;
using flashcore::OperandPlace;
using flashcore::ProductScratch;
using flashcore::TileLayout;

/// Whether what goes through memory has rows like those of the right operand.
static bool hasPaddedRows(vector::ContractionOp op) {
  return op.getRhs().getDefiningOp<ReadOp>().getRing().getType().getLayout() ==
         RingLayout::Padded;
}

ProductScratch
mlir::fcgpu::getProductScratch(gpu::GPUFuncOp func,
                               const flashcore::TargetInfo &target) {
  ProductScratch scratch;
  func.walk([&](vector::ContractionOp op) {
    SmallVector<const MmaAtom *> atoms = findMmaAtoms(target, op);
    if (atoms.empty() || atoms.front()->rhsPlace != OperandPlace::Fragments)
      return;
    auto acc = cast<VectorType>(op.getAccType());
    scratch.add(acc.getDimSize(0),
                isInPlace(op.getLhs()) ? 0 : op.getLhsType().getDimSize(1),
                acc.getDimSize(1), hasPaddedRows(op));
  });
  return scratch;
}

namespace {
/// A matrix of rows at one distance in shared memory.
struct Matrix {
  Value memref; ///< of rank 1
  int64_t pitch;

  /// The slot of a tile in place.
  static Matrix get(Value tile, Value slot) {
    return {slot, tile.getDefiningOp<ReadOp>().getRing().getType().getPitch()};
  }

  Value locate(IndexBuilder &b, int64_t row, int64_t col) const {
    return b.index(row * pitch + col);
  }
};

struct DistributeFragmentProduct final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<const MmaAtom *> atoms = findMmaAtoms(*thread.target, op);
    if (!isInPlace(op.getRhs()) || atoms.empty() ||
        atoms.front()->rhsPlace != OperandPlace::Fragments)
      return rewriter.notifyMatchFailure(op, "is no product of fragments");
    const MmaAtom &atom = *atoms.front();
    auto type = cast<VectorType>(op.getAccType());
    if (type.getDimSize(0) % atom.m || type.getDimSize(1) % atom.n ||
        op.getLhsType().getDimSize(1) % atom.k)
      return rewriter.notifyMatchFailure(op, "is no multiple of products");
    thread.use(atom);
    IndexBuilder b(op.getLoc(), rewriter);
    Matrix lhs;
    if (isInPlace(op.getLhs())) {
      lhs = Matrix::get(op.getLhs(), adaptor.getLhs().front());
    } else {
      lhs = view(b, op.getLhsType(), thread.scratch.resultBytes,
                 ProductScratch::getLhsPitch(op.getLhsType().getDimSize(1),
                                             hasPaddedRows(op)));
      store(b, adaptor.getLhs(), op.getLhsType(),
            *thread.layouts->lookup(op.getLhs()), lhs);
    }
    Matrix result = view(
        b, type, /*offset=*/0,
        ProductScratch::getResultPitch(type.getDimSize(1), hasPaddedRows(op)));
    // Others have written the left operand, and read the last result.
    syncWarp(b);
    multiply(b, atom, op, lhs,
             Matrix::get(op.getRhs(), adaptor.getRhs().front()), result);
    syncWarp(b);
    rewriter.replaceOpWithMultiple(op, {load(b, op, adaptor.getAcc(), result)});
    return success();
  }

private:
  /// Room for a tile, `offset` bytes into the warp's own memory.
  Matrix view(IndexBuilder &b, VectorType type, int64_t offset,
              int64_t pitch) const {
    auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                            gpu::AddressSpace::Workgroup);
    auto memory =
        MemRefType::get({type.getDimSize(0) * pitch}, type.getElementType(),
                        MemRefLayoutAttrInterface(), space);
    Value start = b.add(thread.warpOffset, thread.scratchStart + offset);
    return {memref::ViewOp::create(b, memory, thread.sharedMemory, start,
                                   ValueRange()),
            pitch};
  }

  /// Where the lane's parts of a tile are in a matrix, each a constant behind
  /// the first.
  struct Places {
    Places(IndexBuilder &b, const ThreadContext &thread, VectorType type,
           const TileLayout &layout, int64_t pitch)
        : registers(layout, type), pitch(pitch),
          first(
              b.add(b.mul(getPlace(b, layout, TileLayout::Row, thread), pitch),
                    getPlace(b, layout, TileLayout::Column, thread))) {}

    Value locate(IndexBuilder &b, int64_t reg) const {
      return b.add(first,
                   registers.getRow(reg) * pitch + registers.getColumn(reg));
    }

    TileRegisters registers;
    int64_t pitch;
    Value first;
  };

  /// How many neighbours in a lane one access takes.
  static int64_t getRun(const TileLayout &layout, int64_t partSize) {
    constexpr int64_t most = 4;
    return std::clamp(layout.getRun(TileLayout::Column), partSize, most);
  }

  void store(IndexBuilder &b, ValueRange parts, VectorType type,
             const TileLayout &layout, const Matrix &matrix) const {
    Places places(b, thread, type, layout, matrix.pitch);
    int64_t size = places.registers.size() / static_cast<int64_t>(parts.size());
    int64_t run = getRun(layout, size);
    for (size_t i = 0; i < parts.size(); i += run / size) {
      Value value = parts[i];
      if (run > size)
        value = vector::ShuffleOp::create(b, value, parts[i + 1],
                                          ArrayRef<int64_t>{0, 1, 2, 3});
      vector::StoreOp::create(
          b, value, matrix.memref,
          places.locate(b, static_cast<int64_t>(i) * size),
          /*nontemporal=*/false,
          llvm::MaybeAlign(run * type.getElementTypeBitWidth() / 8));
    }
  }

  /// The result, to which what is there already is added.
  SmallVector<Value> load(IndexBuilder &b, vector::ContractionOp op,
                          ValueRange acc, const Matrix &matrix) const {
    auto type = cast<VectorType>(op.getAccType());
    const TileLayout &layout = *thread.layouts->lookup(op.getResult());
    Places places(b, thread, type, layout, matrix.pitch);
    auto partType = cast<VectorType>(acc.front().getType());
    int64_t size = partType.getNumElements(), run = getRun(layout, size);
    SmallVector<Value> parts;
    for (int64_t reg = 0; reg < places.registers.size(); reg += run) {
      Value loaded = vector::LoadOp::create(
          b, VectorType::get({run}, b.getF32Type()), matrix.memref,
          places.locate(b, reg), /*nontemporal=*/false,
          llvm::MaybeAlign(run * sizeof(float)));
      if (run == size)
        parts.push_back(loaded);
      else
        for (int64_t first : {0, 2})
          parts.push_back(vector::ShuffleOp::create(
              b, loaded, loaded, ArrayRef<int64_t>{first, first + 1}));
    }
    if (!matchPattern(op.getAcc(), m_AnyZeroFloat()))
      for (auto [part, old] : llvm::zip_equal(parts, acc))
        part = arith::AddFOp::create(b, old, part);
    return parts;
  }

  static Value loadFragment(IndexBuilder &b, const Matrix &matrix, Type element,
                            int64_t rows, int64_t cols, int64_t row,
                            int64_t col, StringRef operand, bool isTurned) {
    return gpu::SubgroupMmaLoadMatrixOp::create(
        b, gpu::MMAMatrixType::get({rows, cols}, element, operand),
        matrix.memref, matrix.locate(b, row, col), b.getIndexAttr(matrix.pitch),
        isTurned ? b.getUnitAttr() : UnitAttr());
  }

  /// result = lhs rhs, column block by column block.
  static void multiply(IndexBuilder &b, const MmaAtom &atom,
                       vector::ContractionOp op, const Matrix &lhs,
                       const Matrix &rhs, const Matrix &result) {
    auto type = cast<VectorType>(op.getAccType());
    Type element = op.getLhsType().getElementType();
    int64_t rows = type.getDimSize(0), k = op.getLhsType().getDimSize(1);
    bool isNK = isStoredNK(op);
    auto accType =
        gpu::MMAMatrixType::get({atom.m, atom.n}, b.getF32Type(), "COp");
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    DenseMap<std::pair<int64_t, int64_t>, Value> left;
    for (int64_t row = 0; row < rows; row += atom.m)
      for (int64_t kk = 0; kk < k; kk += atom.k)
        left[{row, kk}] = loadFragment(b, lhs, element, atom.m, atom.k, row, kk,
                                       "AOp", /*isTurned=*/false);
    for (int64_t col = 0; col < type.getDimSize(1); col += atom.n) {
      SmallVector<Value> accs(
          rows / atom.m,
          gpu::SubgroupMmaConstantMatrixOp::create(b, accType, zero));
      for (int64_t kk = 0; kk < k; kk += atom.k) {
        Value right =
            isNK ? loadFragment(b, rhs, element, atom.k, atom.n, col, kk, "BOp",
                                /*isTurned=*/true)
                 : loadFragment(b, rhs, element, atom.k, atom.n, kk, col, "BOp",
                                /*isTurned=*/false);
        // Products say how their operands were loaded: before sm_80 fragments
        // of the one are not those of the other.
        for (auto [i, acc] : llvm::enumerate(accs))
          acc = gpu::SubgroupMmaComputeOp::create(
              b, accType, left[{static_cast<int64_t>(i) * atom.m, kk}], right,
              acc, /*a_transpose=*/UnitAttr(),
              isNK ? b.getUnitAttr() : UnitAttr());
      }
      for (auto [i, acc] : llvm::enumerate(accs))
        gpu::SubgroupMmaStoreMatrixOp::create(
            b, acc, result.memref,
            result.locate(b, static_cast<int64_t>(i) * atom.m, col),
            b.getIndexAttr(result.pitch), /*transpose=*/UnitAttr());
    }
  }
};

/// A lane's row of a product: sums over k, each fma rounded once.
struct DistributeLaneProduct final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    SmallVector<const MmaAtom *> atoms = findMmaAtoms(*thread.target, op);
    if (!isInPlace(op.getRhs()) || atoms.empty() ||
        atoms.front()->rhsPlace != OperandPlace::Lanes)
      return rewriter.notifyMatchFailure(op, "is no product of lanes");
    const MmaAtom &atom = *atoms.front();
    if (*thread.layouts->lookup(op.getResult()) != atom.acc.getCore())
      return rewriter.notifyMatchFailure(op, "leaves its result elsewhere");
    thread.use(atom);
    IndexBuilder b(op.getLoc(), rewriter);
    Matrix rhs = Matrix::get(op.getRhs(), adaptor.getRhs().front());
    bool isNK = isStoredNK(op);
    if (isNK != isInPlace(op.getLhs()))
      return rewriter.notifyMatchFailure(
          op, "is neither of two tiles in place, the right one stored (n, k), "
              "nor of registers with one stored (k, n)");
    SmallVector<Value> acc = isNK ? multiplyRows(b, op, adaptor, rhs)
                                  : multiplyColumns(b, op, adaptor, rhs);
    rewriter.replaceOpWithMultiple(op, {acc});
    return success();
  }

private:
  /// Columns that a lane loads at a time.
  static constexpr int64_t chunkCols = kChunkBytes / 2;

  /// The next columns from `place` on, as f32.
  static Value loadChunk(IndexBuilder &b, const Matrix &matrix, Value place) {
    Type half = cast<MemRefType>(matrix.memref.getType()).getElementType();
    Value chunk = vector::LoadOp::create(
        b, VectorType::get({chunkCols}, half), matrix.memref, place,
        /*nontemporal=*/false, llvm::MaybeAlign(kChunkBytes));
    return arith::ExtFOp::create(
        b, VectorType::get({chunkCols}, b.getF32Type()), chunk);
  }

  /// Q K^T: both operands go on along their rows, by a loop.
  SmallVector<Value> multiplyRows(IndexBuilder &b, vector::ContractionOp op,
                                  OneToNOpAdaptor adaptor,
                                  const Matrix &rhs) const {
    auto type = cast<VectorType>(op.getAccType());
    Matrix lhs = Matrix::get(op.getLhs(), adaptor.getLhs().front());
    const TileLayout &layout = *thread.layouts->lookup(op.getResult());
    TileRegisters registers(layout, type);
    Value row = b.mul(getPlace(b, layout, TileLayout::Row, thread), lhs.pitch);
    SmallVector<Value> sums;
    for (int64_t reg = 0; reg < registers.size(); ++reg)
      sums.push_back(getElement(b, adaptor.getAcc(), reg));
    auto loop = scf::ForOp::create(b, b.index(0),
                                   b.index(op.getLhsType().getDimSize(1)),
                                   b.index(chunkCols), sums);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      Value col = loop.getInductionVar();
      DenseMap<int64_t, Value> ofLhs, ofRhs;
      sums.assign(loop.getRegionIterArgs().begin(),
                  loop.getRegionIterArgs().end());
      for (auto [reg, sum] : llvm::enumerate(sums)) {
        int64_t m = registers.getRow(reg), n = registers.getColumn(reg);
        Value &q = ofLhs[m], &k = ofRhs[n];
        if (!q)
          q = loadChunk(b, lhs, b.add(b.add(row, col), m * lhs.pitch));
        if (!k)
          k = loadChunk(b, rhs, b.add(col, n * rhs.pitch));
        for (int64_t i = 0; i < chunkCols; ++i)
          sum = math::FmaOp::create(b, vector::ExtractOp::create(b, q, i),
                                    vector::ExtractOp::create(b, k, i), sum);
      }
      scf::YieldOp::create(b, sums);
    }
    return packPairs(b, SmallVector<Value>(loop.getResults()));
  }

  /// P V: a row of V after the other, times what the lane has for it.
  SmallVector<Value> multiplyColumns(IndexBuilder &b, vector::ContractionOp op,
                                     OneToNOpAdaptor adaptor,
                                     const Matrix &rhs) const {
    auto type = cast<VectorType>(op.getAccType());
    TileRegisters registers(*thread.layouts->lookup(op.getResult()), type);
    TileRegisters ofLhs(*thread.layouts->lookup(op.getLhs()), op.getLhsType());
    SmallVector<Value> sums;
    for (int64_t reg = 0; reg < registers.size(); ++reg)
      sums.push_back(getElement(b, adaptor.getAcc(), reg));
    for (int64_t k = 0; k < op.getLhsType().getDimSize(1); ++k) {
      DenseMap<int64_t, Value> factors, chunks;
      for (auto [reg, sum] : llvm::enumerate(sums)) {
        int64_t m = registers.getRow(reg), n = registers.getColumn(reg);
        Value &factor = factors[m], &chunk = chunks[n / chunkCols];
        if (!factor)
          factor = arith::ExtFOp::create(
              b, b.getF32Type(),
              getElement(b, adaptor.getLhs(), ofLhs.find({m, k})));
        if (!chunk)
          chunk =
              loadChunk(b, rhs, rhs.locate(b, k, n / chunkCols * chunkCols));
        sum = math::FmaOp::create(
            b, factor, vector::ExtractOp::create(b, chunk, n % chunkCols), sum);
      }
    }
    return packPairs(b, sums);
  }
};
} // namespace

void mlir::fcgpu::populatePlainPatterns(const TileTypeConverter &converter,
                                        const ThreadContext &context,
                                        RewritePatternSet &patterns) {
  patterns.add<DistributeFragmentProduct, DistributeLaneProduct>(
      converter, patterns.getContext(), context);
}
