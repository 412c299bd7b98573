//===- DistributeCompute.cpp - Tile arithmetic to lanes -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pattern for each kind of computation on tiles. All are 1:N: a tile
// operand arrives as the list of its parts (see DistributePatterns.h).
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <map>

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::BitPoint;
using flashcore::MmaAtom;
using flashcore::TileLayout;

namespace {
/// Any op that works on each element alone: the same op on each part.
struct DistributeElementwise final : ConversionPattern {
  DistributeElementwise(const TypeConverter &converter, MLIRContext *context)
      : ConversionPattern(converter, MatchAnyOpTypeTag(), /*benefit=*/1,
                          context) {}

  LogicalResult
  matchAndRewrite(Operation *op, ArrayRef<ValueRange> operands,
                  ConversionPatternRewriter &rewriter) const override {
    if (!OpTrait::hasElementwiseMappableTraits(op) || op->getNumResults() != 1)
      return rewriter.notifyMatchFailure(op, "is not elementwise");
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op->getResult(0), types)))
      return rewriter.notifyMatchFailure(op, "result is no tile");
    SmallVector<NamedAttribute> attrs;
    for (NamedAttribute attr : op->getAttrs())
      if (attr.getName() != kHomeAttrName)
        attrs.push_back(attr);
    SmallVector<Value> results;
    for (auto [i, type] : llvm::enumerate(types)) {
      SmallVector<Value> parts;
      for (ValueRange operand : operands)
        parts.push_back(operand.size() == 1 ? operand.front() : operand[i]);
      OperationState state(op->getLoc(), op->getName(), parts, type, attrs);
      results.push_back(rewriter.create(state)->getResult(0));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }
};

/// A splat is a splat in every part.
struct DistributeConstant final : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
    if (!splat)
      return rewriter.notifyMatchFailure(op, "is not a splat");
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getResult(), types)))
      return rewriter.notifyMatchFailure(op, "is no tile");
    auto value = splat.getSplatValue<TypedAttr>();
    if (auto vector = dyn_cast<VectorType>(types.front()))
      value = SplatElementsAttr::get(vector, splat.getSplatValue<Attribute>());
    Value part = arith::ConstantOp::create(rewriter, op.getLoc(), value);
    if (isa<gpu::MMAMatrixType>(types.front()))
      part = gpu::SubgroupMmaConstantMatrixOp::create(rewriter, op.getLoc(),
                                                      types.front(), part);
    SmallVector<Value> parts(types.size(), part);
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// One value a row, for every column, one a column, for every row, or one for
/// all.
struct DistributeBroadcast final : ThreadPattern<vector::BroadcastOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::BroadcastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    const TileLayout *from = thread.layouts->lookup(op.getSource());
    const TileLayout *to = thread.layouts->lookup(op.getResult());
    auto source = dyn_cast<VectorType>(op.getSourceType());
    VectorType type = op.getResultVectorType();
    if (!source)
      return repeatScalar(op, adaptor.getSource().front(), rewriter);
    if (!from || !to || from->getRank() != 1 || type.getRank() != 2)
      return rewriter.notifyMatchFailure(op, "does not repeat rows or columns");
    // One value a row has a column.
    auto axis = source.getRank() == 2 && source.getDimSize(1) == 1
                    ? TileLayout::Row
                    : TileLayout::Column;
    if (*from != to->slice(axis))
      return rewriter.notifyMatchFailure(op, "is of values in other lanes");
    IndexBuilder b(op.getLoc(), rewriter);
    TileRegisters given(*from, source), registers(*to, type);
    int64_t size = getPartSize(type.getElementType());
    auto partType = VectorType::get({size}, type.getElementType());
    std::map<SmallVector<int64_t>, Value> known;
    SmallVector<Value> parts;
    for (int64_t reg = 0; reg < registers.size(); reg += size) {
      SmallVector<int64_t> places;
      for (int64_t i = reg; i < reg + size; ++i)
        places.push_back(registers.getPlace(i)[axis]);
      Value &part = known[places];
      if (!part)
        part =
            makePart(b, partType, llvm::map_to_vector(places, [&](int64_t p) {
                       return adaptor.getSource()[given.find(p)];
                     }));
      parts.push_back(part);
    }
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }

  LogicalResult repeatScalar(vector::BroadcastOp op, Value scalar,
                             ConversionPatternRewriter &rewriter) const {
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getResult(), types)))
      return rewriter.notifyMatchFailure(op, "is no tile");
    Value part = scalar;
    if (auto vector = dyn_cast<VectorType>(types.front()))
      part = vector::BroadcastOp::create(rewriter, op.getLoc(), vector, scalar);
    rewriter.replaceOpWithMultiple(op,
                                   {SmallVector<Value>(types.size(), part)});
    return success();
  }

  static Value makePart(IndexBuilder &b, VectorType type,
                        ArrayRef<Value> elements) {
    if (llvm::all_equal(elements))
      return vector::BroadcastOp::create(b, type, elements.front());
    return vector::FromElementsOp::create(b, type, elements);
  }
};

/// Splitting columns into groups, or adding a unit dim to a vector, leaves
/// every register where it is.
struct DistributeShapeCast final : ThreadPattern<vector::ShapeCastOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ShapeCastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType from = op.getSourceVectorType(), to = op.getResultVectorType();
    const TileLayout *source = thread.layouts->lookup(op.getSource());
    const TileLayout *result = thread.layouts->lookup(op.getResult());
    bool isVector = source && source->getRank() == 1;
    if (!source || !result || *source != *result ||
        (!isVector && from.getDimSize(0) != to.getDimSize(0)))
      return rewriter.notifyMatchFailure(op,
                                         "moves elements between registers");
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource()});
    return success();
  }
};

/// Some of the columns of a tile are some of its parts.
struct DistributeSlice final : ThreadPattern<vector::ExtractStridedSliceOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ExtractStridedSliceOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType from = op.getSourceVectorType();
    auto to = cast<VectorType>(op.getType());
    const TileLayout *source = thread.layouts->lookup(op.getSource());
    const TileLayout *result = thread.layouts->lookup(op.getResult());
    if (!source || !result || *source != *result || from.getRank() != 2 ||
        from.getDimSize(0) != to.getDimSize(0))
      return rewriter.notifyMatchFailure(op, "is no slice of columns where "
                                             "they are");
    auto first = cast<IntegerAttr>(op.getOffsets()[1]).getInt();
    if (first % source->getBox()[TileLayout::Column] != 0)
      return rewriter.notifyMatchFailure(op, "begins inside of a box");
    TileRegisters given(*source, from), kept(*result, to);
    int64_t size = getPartSize(to.getElementType());
    SmallVector<Value> parts;
    for (int64_t reg = 0; reg < kept.size(); reg += size)
      parts.push_back(
          adaptor.getSource()[given.find({kept.getRow(reg),
                                          kept.getColumn(reg) + first}) /
                              size]);
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// `a op b` for the combining kinds the algorithm uses.
Value combine(OpBuilder &b, Location loc, vector::CombiningKind kind, Value lhs,
              Value rhs) {
  if (kind == vector::CombiningKind::ADD)
    return arith::AddFOp::create(b, loc, lhs, rhs);
  if (kind == vector::CombiningKind::OR)
    return arith::OrIOp::create(b, loc, lhs, rhs);
  if (kind == vector::CombiningKind::MAXSI)
    return arith::MaxSIOp::create(b, loc, lhs, rhs);
  return arith::MaxNumFOp::create(b, loc, lhs, rhs);
}

/// Reductions of rows or columns, which end with the lanes that share them, and
/// over groups of columns, inside of lanes.
struct DistributeReduction final : ThreadPattern<vector::MultiDimReductionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::MultiDimReductionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getSourceVectorType();
    vector::CombiningKind kind = op.getKind();
    bool isTile = type.getRank() == 2;
    bool isFloat = isa<FloatType>(type.getElementType()) &&
                   (kind == vector::CombiningKind::ADD ||
                    kind == vector::CombiningKind::MAXNUMF);
    bool isInteger = type.getElementType().isInteger(32) &&
                     kind == vector::CombiningKind::MAXSI;
    bool isFlag = type.getElementType().isInteger(1) && !isTile &&
                  kind == vector::CombiningKind::OR;
    if (!isFloat && !isInteger && !isFlag)
      return rewriter.notifyMatchFailure(
          op, "is neither add nor maxnumf of floats, maxsi of i32, nor or of "
              "grouped i1");
    const TileLayout *from = thread.layouts->lookup(op.getSource());
    const TileLayout *to = thread.layouts->lookup(op.getResult());
    ArrayRef<int64_t> dims = op.getReductionDims();
    if (!from || !to || dims.size() != 1 || (!isTile && dims.front() != 1))
      return rewriter.notifyMatchFailure(op, "does not reduce one dimension");
    IndexBuilder b(op.getLoc(), rewriter);
    bool isReduced = isTile
                         ? reduceTile(b, op, adaptor, *from, *to, rewriter)
                         : reduceGroups(b, op, adaptor, *from, *to, rewriter);
    return isReduced ? success()
                     : rewriter.notifyMatchFailure(
                           op, "leaves values in other lanes than its result");
  }

private:
  /// The parts of a source by the places that their registers leave.
  using Groups = llvm::MapVector<SmallVector<int64_t>, SmallVector<Value>>;

  template <typename Fn>
  static Groups groupParts(ValueRange parts, const TileRegisters &registers,
                           Fn getKept) {
    Groups groups;
    int64_t size = registers.size() / static_cast<int64_t>(parts.size());
    for (auto [i, part] : llvm::enumerate(parts)) {
      SmallVector<int64_t> kept;
      for (int64_t reg = i * size; reg < static_cast<int64_t>(i + 1) * size;
           ++reg)
        kept.push_back(getKept(reg));
      groups[kept].push_back(part);
    }
    return groups;
  }

  /// Groups of columns: what is left is a tile of one.
  bool reduceGroups(IndexBuilder &b, vector::MultiDimReductionOp op,
                    OneToNOpAdaptor adaptor, const TileLayout &from,
                    const TileLayout &to,
                    ConversionPatternRewriter &rewriter) const {
    VectorType type = op.getSourceVectorType();
    auto resultType = cast<VectorType>(op.getType());
    int64_t cols = type.getDimSize(2);
    if (from != to || cols % from.getBox()[TileLayout::Column] != 0)
      return false;
    TileRegisters registers(from, type), kept(to, resultType);
    Groups groups =
        groupParts(adaptor.getSource(), registers, [&](int64_t reg) {
          return kept.find(
              {registers.getRow(reg), registers.getColumn(reg) % cols});
        });
    SmallVector<Value> results(groups.size());
    for (auto &[regs, parts] : groups) {
      size_t part = regs.front() / regs.size();
      results[part] =
          combine(b, b.getLoc(), op.getKind(), adaptor.getAcc()[part],
                  reduceParts(b, op.getKind(), parts));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return true;
  }

  bool reduceTile(IndexBuilder &b, vector::MultiDimReductionOp op,
                  OneToNOpAdaptor adaptor, const TileLayout &from,
                  const TileLayout &to,
                  ConversionPatternRewriter &rewriter) const {
    auto reduced = static_cast<TileLayout::Axis>(op.getReductionDims().front());
    auto axis =
        reduced == TileLayout::Row ? TileLayout::Column : TileLayout::Row;
    auto lanes = from.getSpread(TileLayout::Lane, reduced);
    if (to != from.slice(axis) || !lanes ||
        from.getSpread(TileLayout::Warp, reduced) != SmallVector<int64_t>())
      return false;
    TileRegisters registers(from, op.getSourceVectorType());
    TileRegisters kept(to, cast<VectorType>(op.getType()));
    Groups groups =
        groupParts(adaptor.getSource(), registers, [&](int64_t reg) {
          return kept.find(registers.getPlace(reg)[axis]);
        });
    SmallVector<Value> results(kept.size());
    for (auto &[regs, parts] : groups) {
      Value part = reduceParts(b, op.getKind(), parts);
      // A part of one row (or column) is one value more to combine.
      llvm::MapVector<int64_t, Value> values;
      for (auto [i, reg] : llvm::enumerate(regs)) {
        Value element = vector::ExtractOp::create(b, part, i);
        Value &value = values[reg];
        value = value ? combine(b, b.getLoc(), op.getKind(), value, element)
                      : element;
      }
      for (auto [reg, value] : values) {
        Value all = reduceLanes(b, op.getKind(), value, *lanes);
        results[reg] =
            combine(b, b.getLoc(), op.getKind(), adaptor.getAcc()[reg], all);
      }
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return true;
  }

  /// All parts into one, as a balanced tree: short dependency chains.
  static Value reduceParts(ImplicitLocOpBuilder &b, vector::CombiningKind kind,
                           ArrayRef<Value> parts) {
    SmallVector<Value> level(parts);
    while (level.size() > 1) {
      SmallVector<Value> next;
      for (size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(combine(b, b.getLoc(), kind, level[i], level[i + 1]));
      if (level.size() % 2)
        next.push_back(level.back());
      level = std::move(next);
    }
    return level.front();
  }

  /// A lane's value and those of the lanes that differ from it in `bits`.
  static Value reduceLanes(ImplicitLocOpBuilder &b, vector::CombiningKind kind,
                           Value value, ArrayRef<int64_t> bits) {
    for (int64_t bit : bits) {
      auto shuffle =
          gpu::ShuffleOp::create(b, value, static_cast<int32_t>(bit),
                                 /*width=*/32, gpu::ShuffleMode::XOR);
      value = combine(b, b.getLoc(), kind, value, shuffle.getShuffleResult());
    }
    return value;
  }
};

/// Whether any element of a tile of i1 is true, the same in all lanes: each
/// lane's own, then a vote.
struct DistributeAny final : OpConversionPattern<vector::MultiDimReductionOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(vector::MultiDimReductionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getSourceVectorType();
    if (op.getKind() != vector::CombiningKind::OR ||
        !type.getElementType().isInteger(1) ||
        static_cast<int64_t>(op.getReductionDims().size()) != type.getRank())
      return rewriter.notifyMatchFailure(op, "is no or of a whole tile of i1");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ValueRange parts = adaptor.getSource();
    Value any = parts.front();
    for (Value part : parts.drop_front())
      any = arith::OrIOp::create(b, any, part);
    if (auto part = dyn_cast<VectorType>(any.getType())) {
      Value all = any;
      any = vector::ExtractOp::create(b, all, 0);
      for (int64_t i = 1; i < part.getNumElements(); ++i)
        any =
            arith::OrIOp::create(b, any, vector::ExtractOp::create(b, all, i));
    }
    // What all lanes have in common comes before the vote: behind it, ptxas
    // takes the result through uniform registers and back.
    any = arith::OrIOp::create(b, any, adaptor.getAcc().front());
    Value all = arith::ConstantOp::create(b, b.getI32IntegerAttr(-1));
    rewriter.replaceOpWithNewOp<NVVM::VoteSyncOp>(op, b.getI1Type(), all, any,
                                                  NVVM::VoteSyncKind::any);
    return success();
  }
};

/// A contraction as products of the target's atoms: the largest along k, and
/// smaller ones for what is left.
struct DistributeContraction final : ThreadPattern<vector::ContractionOp> {
  using ThreadPattern::ThreadPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (isInPlace(op.getRhs()))
      return rewriter.notifyMatchFailure(op, "reads a tile in place");
    SmallVector<const MmaAtom *> atoms = findMmaAtoms(*thread.target, op);
    if (!isProduct(op) || atoms.empty())
      return rewriter.notifyMatchFailure(
          op, "is not (m, k) x (n, k) or (k, n) -> (m, n), of types that the "
              "chip multiplies");
    // rhs is (n, k) for Q K^T and (k, n) for P V.
    bool isNK = isStoredNK(op);
    const TileLayout *lhs = thread.layouts->lookup(op.getLhs());
    const TileLayout *rhs = thread.layouts->lookup(op.getRhs());
    const TileLayout *acc = thread.layouts->lookup(op.getResult());
    if (!lhs || !rhs || !acc || *thread.layouts->lookup(op.getAcc()) != *acc ||
        !fits(*atoms.front(), *lhs, isNK ? *rhs : rhs->transpose(), *acc))
      return rewriter.notifyMatchFailure(
          op, "has operands that are not where a product needs them");
    auto accType = cast<VectorType>(op.getAccType());
    int64_t k = op.getLhsType().getDimSize(1);
    const MmaAtom &smallest = *atoms.back();
    if (accType.getDimSize(0) % smallest.m ||
        accType.getDimSize(1) % smallest.n || k % smallest.k)
      return rewriter.notifyMatchFailure(op, "is no multiple of products");

    IndexBuilder b(op.getLoc(), rewriter);
    Tile a(adaptor.getLhs(), *lhs, op.getLhsType(), /*isTransposed=*/false);
    Tile bTile(adaptor.getRhs(), *rhs, op.getRhsType(), !isNK);
    Tile c(adaptor.getAcc(), *acc, accType, /*isTransposed=*/false);
    for (int64_t kk = 0; kk < k;) {
      // The last atom divides what is left.
      const MmaAtom &atom = **llvm::find_if(
          atoms, [&](const MmaAtom *each) { return each->k <= k - kk; });
      thread.use(atom);
      multiply(b, atom, a, bTile, c, kk);
      kk += atom.k;
    }
    rewriter.replaceOpWithMultiple(op, {c.parts});
    return success();
  }

private:
  /// The parts of an operand, and where they are.
  struct Tile {
    Tile(ValueRange parts, const TileLayout &layout, VectorType type,
         bool isTransposed)
        : parts(parts), registers(layout, type), isTransposed(isTransposed),
          rows(type.getDimSize(isTransposed ? 1 : 0)) {}

    SmallVector<Value> parts;
    TileRegisters registers;
    bool isTransposed;
    int64_t rows;

    /// The parts of an atom's operand at a place, as its fragment.
    SmallVector<size_t> find(const TileLayout &atom, int64_t row,
                             int64_t col) const {
      size_t size = registers.size() / parts.size();
      SmallVector<size_t> found;
      for (int64_t reg = 0; reg < atom.getNumRegisters();
           reg += static_cast<int64_t>(size)) {
        BitPoint place = atom.apply(reg, /*lane=*/0);
        BitPoint inTile{row + place[0], col + place[1]};
        if (isTransposed)
          std::swap(inTile[0], inTile[1]);
        found.push_back(registers.find(inTile) / size);
      }
      return found;
    }
    Value pack(ImplicitLocOpBuilder &b, const TileLayout &atom, int64_t row,
               int64_t col) const {
      SmallVector<size_t> found = find(atom, row, col);
      auto part = cast<VectorType>(parts.front().getType());
      Value result = ub::PoisonOp::create(
          b, VectorType::get(
                 {static_cast<int64_t>(found.size()), part.getNumElements()},
                 part.getElementType()));
      for (auto [i, index] : llvm::enumerate(found))
        result = vector::InsertOp::create(b, parts[index], result,
                                          static_cast<int64_t>(i));
      return result;
    }
  };

  /// c += a b, for the columns of a from `kk` on that the atom takes.
  static void multiply(ImplicitLocOpBuilder &b, const MmaAtom &atom,
                       const Tile &lhs, const Tile &rhs, Tile &acc,
                       int64_t kk) {
    SmallVector<Value> as;
    for (int64_t row = 0; row < lhs.rows; row += atom.m)
      as.push_back(lhs.pack(b, atom.lhs, row, kk));
    for (int64_t col = 0; col < rhs.rows; col += atom.n) {
      Value fragment = rhs.pack(b, *atom.rhs, col, kk);
      for (auto [i, a] : llvm::enumerate(as)) {
        int64_t row = static_cast<int64_t>(i) * atom.m;
        Value d = nvgpu::MmaSyncOp::create(b, a, fragment,
                                           acc.pack(b, atom.acc, row, col),
                                           ArrayRef{atom.m, atom.n, atom.k});
        for (auto [j, index] : llvm::enumerate(acc.find(atom.acc, row, col)))
          acc.parts[index] = vector::ExtractOp::create(b, d, j);
      }
    }
  }

  /// Whether the tiles repeat the operands of the atom.
  static bool fits(const MmaAtom &atom, const TileLayout &lhs,
                   const TileLayout &rhs, const TileLayout &acc) {
    return lhs == atom.lhs.getCore() && rhs == atom.rhs->getCore() &&
           acc == atom.acc.getCore();
  }

  /// Whether the op is a product of two matrices.
  static bool isProduct(vector::ContractionOp op) {
    auto accType = dyn_cast<VectorType>(op.getAccType());
    if (op.getKind() != vector::CombiningKind::ADD || !accType ||
        accType.getRank() != 2 || op.getLhsType().getRank() != 2 ||
        op.getRhsType().getRank() != 2)
      return false;
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    AffineExpr m = maps[2].getResult(0), n = maps[2].getResult(1);
    AffineExpr k = maps[0].getResult(1);
    bool isNK = maps[1].getResult(0) == n && maps[1].getResult(1) == k;
    bool isKN = maps[1].getResult(0) == k && maps[1].getResult(1) == n;
    return maps[0].getResult(0) == m && m != n && k != m && k != n &&
           (isNK || isKN);
  }
};
} // namespace

void mlir::fcgpu::populateComputePatterns(const TileTypeConverter &converter,
                                          const ThreadContext &context,
                                          RewritePatternSet &patterns) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<DistributeElementwise>(converter, ctx);
  patterns.add<DistributeConstant, DistributeAny>(converter, ctx,
                                                  /*benefit=*/2);
  patterns.add<DistributeBroadcast, DistributeShapeCast, DistributeSlice,
               DistributeReduction, DistributeContraction>(converter, ctx,
                                                           context);
}
