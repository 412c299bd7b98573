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
// registers, and the result go through memory of the warp's own; sums may stay
// in fragments until somebody looks at them.
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
    if (!findMmaAtom(target, op, OperandPlace::Fragments))
      return;
    auto acc = cast<VectorType>(op.getAccType());
    bool stays = isa_and_nonnull<FragmentsAttr>(op->getAttr(kHomeAttrName));
    scratch.takesTurns |= stays;
    scratch.add(acc.getDimSize(0),
                isInPlace(op.getLhs()) ? 0 : op.getLhsType().getDimSize(1),
                stays ? kFragment : acc.getDimSize(1), hasPaddedRows(op));
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

/// Tiles on their way through the warp's own memory, as lanes hold them and as
/// products do.
class Passage {
public:
  Passage(IndexBuilder &b, const ThreadContext &thread)
      : b(b), thread(thread) {}

  /// Room for a tile, `offset` bytes into the warp's own memory.
  Matrix view(int64_t rows, Type element, int64_t offset, int64_t pitch) {
    auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                            gpu::AddressSpace::Workgroup);
    auto memory = MemRefType::get({rows * pitch}, element,
                                  MemRefLayoutAttrInterface(), space);
    Value start = b.add(thread.warpOffset, thread.scratchStart + offset);
    return {memref::ViewOp::create(b, memory, thread.sharedMemory, start,
                                   ValueRange()),
            pitch};
  }

  /// A lane's parts of `cols` columns from `firstCol` on go to a matrix, of
  /// which they are all.
  void store(ValueRange parts, VectorType type, const TileLayout &layout,
             const Matrix &matrix, int64_t firstCol, int64_t cols) {
    Places places(b, thread, type, layout, matrix.pitch);
    int64_t size = places.registers.size() / static_cast<int64_t>(parts.size());
    int64_t run = getRun(layout, size);
    for (int64_t reg = 0; reg < places.registers.size(); reg += run) {
      if (!places.isBetween(reg, firstCol, cols))
        continue;
      Value value = parts[reg / size];
      if (run > size)
        value = vector::ShuffleOp::create(b, value, parts[reg / size + 1],
                                          ArrayRef<int64_t>{0, 1, 2, 3});
      vector::StoreOp::create(
          b, value, matrix.memref, places.locate(b, reg, firstCol),
          /*nontemporal=*/false,
          llvm::MaybeAlign(run * type.getElementTypeBitWidth() / 8));
    }
  }

  /// A lane's parts of `cols` columns from `firstCol` on, which are all of a
  /// matrix of f32.
  void load(MutableArrayRef<Value> parts, VectorType type,
            const TileLayout &layout, const Matrix &matrix, int64_t firstCol,
            int64_t cols) {
    Places places(b, thread, type, layout, matrix.pitch);
    int64_t size = getPartSize(type.getElementType());
    int64_t run = getRun(layout, size);
    for (int64_t reg = 0; reg < places.registers.size(); reg += run) {
      if (!places.isBetween(reg, firstCol, cols))
        continue;
      Value loaded = vector::LoadOp::create(
          b, VectorType::get({run}, b.getF32Type()), matrix.memref,
          places.locate(b, reg, firstCol), /*nontemporal=*/false,
          llvm::MaybeAlign(run * sizeof(float)));
      if (run == size) {
        parts[reg / size] = loaded;
        continue;
      }
      for (int64_t first : {0, 2})
        parts[(reg + first) / size] = vector::ShuffleOp::create(
            b, loaded, loaded, ArrayRef<int64_t>{first, first + 1});
    }
  }

  Value loadFragment(const Matrix &matrix, Type element, int64_t row,
                     int64_t col, StringRef operand, bool isTurned = false) {
    return gpu::SubgroupMmaLoadMatrixOp::create(
        b, gpu::MMAMatrixType::get({kFragment, kFragment}, element, operand),
        matrix.memref, matrix.locate(b, row, col), b.getIndexAttr(matrix.pitch),
        isTurned ? b.getUnitAttr() : UnitAttr());
  }

  void storeFragment(Value fragment, const Matrix &matrix, int64_t row,
                     int64_t col) {
    gpu::SubgroupMmaStoreMatrixOp::create(
        b, fragment, matrix.memref, matrix.locate(b, row, col),
        b.getIndexAttr(matrix.pitch), /*transpose=*/UnitAttr());
  }

private:
  /// Where the lane's parts of a tile are in a matrix, each a constant behind
  /// the first.
  struct Places {
    Places(IndexBuilder &b, const ThreadContext &thread, VectorType type,
           const TileLayout &layout, int64_t pitch)
        : registers(layout, type), pitch(pitch),
          first(
              b.add(b.mul(getPlace(b, layout, TileLayout::Row, thread), pitch),
                    getPlace(b, layout, TileLayout::Column, thread))) {}

    /// Whether a register is of columns that stand in the matrix. A box of the
    /// layout is so as a whole.
    bool isBetween(int64_t reg, int64_t firstCol, int64_t cols) const {
      int64_t col = registers.getColumn(reg);
      return firstCol <= col && col < firstCol + cols;
    }
    Value locate(IndexBuilder &b, int64_t reg, int64_t firstCol) const {
      return b.add(first, registers.getRow(reg) * pitch +
                              registers.getColumn(reg) - firstCol);
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

  IndexBuilder &b;
  const ThreadContext &thread;
};

struct DistributeFragmentProduct final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const MmaAtom *found =
        findMmaAtom(*thread.target, op, OperandPlace::Fragments);
    if (!isInPlace(op.getRhs()) || !found)
      return rewriter.notifyMatchFailure(op, "is no product of fragments");
    const MmaAtom &atom = *found;
    auto type = cast<VectorType>(op.getAccType());
    if (type.getDimSize(0) % atom.m || type.getDimSize(1) % atom.n ||
        op.getLhsType().getDimSize(1) % atom.k)
      return rewriter.notifyMatchFailure(op, "is no multiple of products");
    thread.use(atom);
    IndexBuilder b(op.getLoc(), rewriter);
    Passage passage(b, thread);
    Matrix lhs = placeLeft(b, passage, op, adaptor);
    Matrix rhs = Matrix::get(op.getRhs(), adaptor.getRhs().front());
    if (thread.layouts->isInFragments(op.getResult())) {
      syncWarp(b); // others have written the left operand
      rewriter.replaceOpWithMultiple(
          op, {multiply(b, passage, op, lhs, rhs, adaptor.getAcc())});
      return success();
    }
    int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
    Matrix result =
        passage.view(rows, type.getElementType(), /*offset=*/0,
                     ProductScratch::getResultPitch(cols, hasPaddedRows(op)));
    // Others have written the left operand, and read the last result.
    syncWarp(b);
    multiply(b, passage, op, lhs, rhs, result);
    syncWarp(b);
    rewriter.replaceOpWithMultiple(
        op, {load(b, passage, op, adaptor.getAcc(), result)});
    return success();
  }

private:
  /// Where the left operand is, or goes.
  Matrix placeLeft(IndexBuilder &b, Passage &passage, vector::ContractionOp op,
                   OneToNOpAdaptor adaptor) const {
    if (isInPlace(op.getLhs()))
      return Matrix::get(op.getLhs(), adaptor.getLhs().front());
    VectorType type = op.getLhsType();
    int64_t cols = type.getDimSize(1);
    Matrix lhs = passage.view(
        type.getDimSize(0), type.getElementType(), thread.scratch.getLhsStart(),
        ProductScratch::getLhsPitch(cols, hasPaddedRows(op)));
    if (thread.scratch.takesTurns)
      syncWarp(b); // others have read what was there
    passage.store(adaptor.getLhs(), type, *thread.layouts->lookup(op.getLhs()),
                  lhs, /*firstCol=*/0, cols);
    return lhs;
  }

  /// The result, to which what is there already is added.
  SmallVector<Value> load(IndexBuilder &b, Passage &passage,
                          vector::ContractionOp op, ValueRange acc,
                          const Matrix &matrix) const {
    auto type = cast<VectorType>(op.getAccType());
    SmallVector<Value> parts(acc.size());
    passage.load(parts, type, *thread.layouts->lookup(op.getResult()), matrix,
                 /*firstCol=*/0, type.getDimSize(1));
    if (!matchPattern(op.getAcc(), m_AnyZeroFloat()))
      for (auto [part, old] : llvm::zip_equal(parts, acc))
        part = arith::AddFOp::create(b, old, part);
    return parts;
  }

  /// Fragments of left operands: of all rows, `col` columns on.
  static SmallVector<Value> loadLeft(Passage &passage, vector::ContractionOp op,
                                     const Matrix &lhs, int64_t col) {
    VectorType type = op.getLhsType();
    SmallVector<Value> left;
    for (int64_t row = 0; row < type.getDimSize(0); row += kFragment)
      left.push_back(
          passage.loadFragment(lhs, type.getElementType(), row, col, "AOp"));
    return left;
  }

  /// accs += left rhs, for 16 columns of all rows, k rows of rhs on.
  static void multiplyStep(IndexBuilder &b, Passage &passage,
                           vector::ContractionOp op, ValueRange left,
                           const Matrix &rhs, int64_t k, int64_t col,
                           MutableArrayRef<Value> accs) {
    Type element = op.getLhsType().getElementType();
    bool isNK = isStoredNK(op);
    Value right = isNK ? passage.loadFragment(rhs, element, col, k, "BOp",
                                              /*isTurned=*/true)
                       : passage.loadFragment(rhs, element, k, col, "BOp");
    // Products say how their operands were loaded: before sm_80 fragments of
    // the one are not those of the other.
    for (auto [ofRows, acc] : llvm::zip_equal(left, accs))
      acc = gpu::SubgroupMmaComputeOp::create(
          b, acc.getType(), ofRows, right, acc, /*a_transpose=*/UnitAttr(),
          isNK ? b.getUnitAttr() : UnitAttr());
  }

  /// result = lhs rhs, column block by column block, each of which goes to
  /// memory as soon as it is complete.
  static void multiply(IndexBuilder &b, Passage &passage,
                       vector::ContractionOp op, const Matrix &lhs,
                       const Matrix &rhs, const Matrix &result) {
    auto type = cast<VectorType>(op.getAccType());
    int64_t numK = op.getLhsType().getDimSize(1);
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    SmallVector<SmallVector<Value>> left;
    for (int64_t k = 0; k < numK; k += kFragment)
      left.push_back(loadLeft(passage, op, lhs, k));
    for (int64_t col = 0; col < type.getDimSize(1); col += kFragment) {
      SmallVector<Value> accs(
          left.front().size(),
          gpu::SubgroupMmaConstantMatrixOp::create(
              b, getFragmentType(type.getElementType()), zero));
      for (int64_t k = 0; k < numK; k += kFragment)
        multiplyStep(b, passage, op, left[k / kFragment], rhs, k, col, accs);
      for (auto [i, acc] : llvm::enumerate(accs))
        passage.storeFragment(acc, result, static_cast<int64_t>(i) * kFragment,
                              col);
    }
  }

  /// acc + lhs rhs, all in fragments: of the left operand a column block is
  /// enough at a time.
  static SmallVector<Value> multiply(IndexBuilder &b, Passage &passage,
                                     vector::ContractionOp op,
                                     const Matrix &lhs, const Matrix &rhs,
                                     ValueRange acc) {
    auto type = cast<VectorType>(op.getAccType());
    // By column block, then by row block.
    size_t perRow = type.getDimSize(1) / kFragment;
    SmallVector<SmallVector<Value>> sums(perRow);
    for (auto [i, sum] : llvm::enumerate(acc))
      sums[i % perRow].push_back(sum);
    for (int64_t k = 0; k < op.getLhsType().getDimSize(1); k += kFragment) {
      SmallVector<Value> left = loadLeft(passage, op, lhs, k);
      for (auto [i, accs] : llvm::enumerate(sums))
        multiplyStep(b, passage, op, left, rhs, k,
                     static_cast<int64_t>(i) * kFragment, accs);
    }
    SmallVector<Value> results;
    for (size_t i = 0; i < acc.size(); ++i)
      results.push_back(sums[i % perRow][i / perRow]);
    return results;
  }
};

/// Tiles that products alone know become such as lanes do, and back, some
/// columns at a time.
struct DistributeFragmentConversion final : ThreadPattern<ConvertLayoutOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(ConvertLayoutOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    bool isFrom = thread.layouts->isInFragments(op.getSource());
    const TileLayout *layout =
        thread.layouts->lookup(isFrom ? op.getResult() : op.getSource());
    auto type = cast<VectorType>(op.getType());
    if (!layout || (!isFrom && !thread.layouts->isInFragments(op.getResult())))
      return rewriter.notifyMatchFailure(op, "is not from or to fragments");
    int64_t rows = type.getDimSize(0), cols = type.getDimSize(1);
    int64_t most = getMostColumns(rows, cols);
    if (most == 0)
      return rewriter.notifyMatchFailure(
          op, "has no memory, since no product needs any");
    IndexBuilder b(op.getLoc(), rewriter);
    Passage passage(b, thread);
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getResult(), types)))
      return rewriter.notifyMatchFailure(op, "result is no tile");
    SmallVector<Value> to(types.size());
    ValueRange from = adaptor.getSource();
    Type element = type.getElementType();
    for (int64_t col = 0; col < cols; col += most) {
      int64_t some = std::min(most, cols - col);
      Matrix matrix = passage.view(rows, element, /*offset=*/0, getPitch(some));
      syncWarp(b); // others have read what was there
      auto forEachFragment = [&](auto visit) {
        for (int64_t row = 0; row < rows; row += kFragment)
          for (int64_t at = 0; at < some; at += kFragment)
            visit((row * cols / kFragment + col + at) / kFragment, row, at);
      };
      if (isFrom) {
        forEachFragment([&](int64_t i, int64_t row, int64_t at) {
          passage.storeFragment(from[i], matrix, row, at);
        });
        syncWarp(b);
        passage.load(to, type, *layout, matrix, col, some);
      } else {
        passage.store(from, type, *layout, matrix, col, some);
        syncWarp(b);
        forEachFragment([&](int64_t i, int64_t row, int64_t at) {
          to[i] = passage.loadFragment(matrix, element, row, at, "COp");
        });
      }
    }
    rewriter.replaceOpWithMultiple(op, {to});
    return success();
  }

private:
  /// Eight rows share no bank.
  static int64_t getPitch(int64_t cols) {
    return ProductScratch::getResultPitch(cols, /*isPadded=*/true);
  }

  /// How many of the columns the warp's memory has room for.
  int64_t getMostColumns(int64_t rows, int64_t cols) const {
    auto fits = [&](int64_t some) {
      return static_cast<int64_t>(sizeof(float)) * rows * getPitch(some) <=
             thread.scratch.resultBytes;
    };
    while (cols > 0 && !fits(cols))
      cols -= kFragment;
    return cols;
  }
};

/// A lane's row of a product: sums over k, each fma rounded once.
struct DistributeLaneProduct final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const MmaAtom *found = findMmaAtom(*thread.target, op, OperandPlace::Lanes);
    if (!isInPlace(op.getRhs()) || !found)
      return rewriter.notifyMatchFailure(op, "is no product of lanes");
    const MmaAtom &atom = *found;
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
  patterns.add<DistributeFragmentProduct, DistributeFragmentConversion,
               DistributeLaneProduct>(converter, patterns.getContext(),
                                      context);
}
