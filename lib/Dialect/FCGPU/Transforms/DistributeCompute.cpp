//===- DistributeCompute.cpp - Tile arithmetic to lanes -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pattern for each kind of computation on tiles. All are 1:N: a tile
// operand arrives as the list of its cores (see DistributePatterns.h).
//
//===----------------------------------------------------------------------===//

#include "DistributePatterns.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
/// Any op that works on each element alone: the same op on each core.
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
    if (failed(
            getTypeConverter()->convertType(op->getResult(0).getType(), types)))
      return rewriter.notifyMatchFailure(op, "result is no tile");
    SmallVector<NamedAttribute> attrs;
    for (NamedAttribute attr : op->getAttrs())
      if (attr.getName() != kLayoutAttrName)
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

/// A splat is a splat in every core.
struct DistributeConstant final : OpConversionPattern<arith::ConstantOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(arith::ConstantOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
    if (!splat)
      return rewriter.notifyMatchFailure(op, "is not a splat");
    SmallVector<Type> types;
    if (failed(getTypeConverter()->convertType(op.getType(), types)))
      return rewriter.notifyMatchFailure(op, "is no tile");
    TypedAttr value = splat.getSplatValue<TypedAttr>();
    if (auto vector = dyn_cast<VectorType>(types.front()))
      value = SplatElementsAttr::get(vector, splat.getSplatValue<Attribute>());
    Value part = arith::ConstantOp::create(rewriter, op.getLoc(), value);
    SmallVector<Value> parts(types.size(), part);
    rewriter.replaceOpWithMultiple(op, {parts});
    return success();
  }
};

/// One value a row, for every column: all cores of 8 rows get the row's value.
struct DistributeBroadcast final : OpConversionPattern<vector::BroadcastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(vector::BroadcastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (isColumnOrder(op.getResult()))
      return rewriter.notifyMatchFailure(op, "makes a tile in column order");
    auto source = dyn_cast<VectorType>(op.getSourceType());
    VectorType type = op.getResultVectorType();
    if (!source || type.getRank() != 2 || source.getRank() != 2 ||
        source.getDimSize(1) != 1 || source.getDimSize(0) != type.getDimSize(0))
      return rewriter.notifyMatchFailure(op, "does not repeat a column");
    auto coreType = VectorType::get({2}, type.getElementType());
    SmallVector<Value> cores;
    for (Value row : adaptor.getSource()) {
      Value core =
          vector::BroadcastOp::create(rewriter, op.getLoc(), coreType, row);
      cores.append(type.getDimSize(1) / kCore, core);
    }
    rewriter.replaceOpWithMultiple(op, {cores});
    return success();
  }
};

/// Splitting columns into groups of eight, or adding a unit dim to a row
/// vector, leaves every core where it is.
struct DistributeShapeCast final : OpConversionPattern<vector::ShapeCastOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(vector::ShapeCastOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType from = op.getSourceVectorType(), to = op.getResultVectorType();
    SmallVector<Type> types;
    bool keepsRows = from.getDimSize(0) == to.getDimSize(0);
    if (!keepsRows || !isWarpTile(from) ||
        failed(getTypeConverter()->convertType(to, types)) ||
        adaptor.getSource().getTypes() != TypeRange(types))
      return rewriter.notifyMatchFailure(op, "moves elements between cores");
    rewriter.replaceOpWithMultiple(op, {adaptor.getSource()});
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
  return arith::MaxNumFOp::create(b, loc, lhs, rhs);
}

/// Reductions along the columns (ending with the four lanes of a quad) and over
/// groups of columns (inside the lane).
struct DistributeReduction final
    : OpConversionPattern<vector::MultiDimReductionOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(vector::MultiDimReductionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType type = op.getSourceVectorType();
    vector::CombiningKind kind = op.getKind();
    bool isRow = type.getRank() == 2;
    bool isFloat = isa<FloatType>(type.getElementType()) &&
                   (kind == vector::CombiningKind::ADD ||
                    kind == vector::CombiningKind::MAXNUMF);
    bool isFlag = type.getElementType().isInteger(1) && !isRow &&
                  kind == vector::CombiningKind::OR;
    if (!isFloat && !isFlag)
      return rewriter.notifyMatchFailure(
          op, "is neither add nor maxnumf of floats, nor or of grouped i1");
    if (isColumnOrder(op.getSource()))
      return rewriter.notifyMatchFailure(op, "reduces a tile in column order");
    if ((!isRow && (type.getRank() != 3 || type.getDimSize(2) != kCore)) ||
        op.getReductionDims() != ArrayRef<int64_t>{1})
      return rewriter.notifyMatchFailure(op, "does not reduce dimension 1");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ValueRange cores = adaptor.getSource();
    size_t coresPerRow = cores.size() / (type.getDimSize(0) / kCore);
    SmallVector<Value> results;
    for (size_t first = 0; first < cores.size(); first += coresPerRow) {
      Value result = reduceCores(b, kind, cores.slice(first, coresPerRow));
      if (isRow)
        result = reduceQuad(b, kind, result);
      Value acc = adaptor.getAcc()[first / coresPerRow];
      results.push_back(combine(b, op.getLoc(), kind, acc, result));
    }
    rewriter.replaceOpWithMultiple(op, {results});
    return success();
  }

  /// All cores into one, as a balanced tree: short dependency chains.
  static Value reduceCores(ImplicitLocOpBuilder &b, vector::CombiningKind kind,
                           ValueRange cores) {
    SmallVector<Value> level(cores);
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

  /// A lane's two elements, then those of the other lanes of the row's quad.
  static Value reduceQuad(ImplicitLocOpBuilder &b, vector::CombiningKind kind,
                          Value core) {
    Value lo = vector::ExtractOp::create(b, core, 0);
    Value hi = vector::ExtractOp::create(b, core, 1);
    Value result = combine(b, b.getLoc(), kind, lo, hi);
    for (int32_t distance : {1, 2}) {
      auto shuffle = gpu::ShuffleOp::create(b, result, distance, /*width=*/32,
                                            gpu::ShuffleMode::XOR);
      result = combine(b, b.getLoc(), kind, result, shuffle.getShuffleResult());
    }
    return result;
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
    ValueRange cores = adaptor.getSource();
    Value any = cores.front();
    for (Value core : cores.drop_front())
      any = arith::OrIOp::create(b, any, core);
    if (isa<VectorType>(any.getType()))
      any = arith::OrIOp::create(b, vector::ExtractOp::create(b, any, 0),
                                 vector::ExtractOp::create(b, any, 1));
    // What all lanes have in common comes before the vote: behind it, ptxas
    // takes the result through uniform registers and back.
    any = arith::OrIOp::create(b, any, adaptor.getAcc().front());
    Value all = arith::ConstantOp::create(b, b.getI32IntegerAttr(-1));
    rewriter.replaceOpWithNewOp<NVVM::VoteSyncOp>(op, b.getI1Type(), all, any,
                                                  NVVM::VoteSyncKind::any);
    return success();
  }
};

/// A contraction as m16n8k16 products, two rows of cores at a time. What is
/// left of an odd number of cores along k is an m16n8k8 product.
struct DistributeContraction final
    : OpConversionPattern<vector::ContractionOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(vector::ContractionOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    VectorType lhsType = op.getLhsType(), rhsType = op.getRhsType();
    auto accType = dyn_cast<VectorType>(op.getAccType());
    if (!isMmaContraction(op))
      return rewriter.notifyMatchFailure(
          op, "is not (m, k) x (n, k) or (k, n) -> (m, n) of 16 x 8 x 8 tiles, "
              "16-bit into f32");
    int64_t m = accType.getDimSize(0) / kCore,
            n = accType.getDimSize(1) / kCore;
    int64_t k = lhsType.getDimSize(1) / kCore;
    // rhs is (n, k) for Q K^T and (k, n) for P V.
    bool isNK = op.getIndexingMapsArray()[1].getResult(0) ==
                op.getIndexingMapsArray()[2].getResult(1);
    int64_t rhsCols = rhsType.getDimSize(1) / kCore;
    auto rhsCore = [&](int64_t kk, int64_t nn) {
      return adaptor.getRhs()[isNK ? nn * rhsCols + kk : kk * rhsCols + nn];
    };

    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    ValueRange lhs = adaptor.getLhs();
    SmallVector<Value> acc(adaptor.getAcc());
    for (int64_t kk = 0; kk < k; kk += 2) {
      int64_t kCores = std::min<int64_t>(k - kk, 2);
      SmallVector<Value> a;
      for (int64_t mm = 0; mm < m; mm += 2) {
        SmallVector<Value> cores;
        for (int64_t i = 0; i < kCores; ++i)
          cores.append({lhs[mm * k + kk + i], lhs[(mm + 1) * k + kk + i]});
        a.push_back(pack(b, cores));
      }
      for (int64_t nn = 0; nn < n; ++nn) {
        SmallVector<Value> cores;
        for (int64_t i = 0; i < kCores; ++i)
          cores.push_back(rhsCore(kk + i, nn));
        Value bFragment = pack(b, cores);
        for (int64_t mm = 0; mm < m; mm += 2) {
          Value &top = acc[mm * n + nn], &bottom = acc[(mm + 1) * n + nn];
          Value c = pack(b, {top, bottom});
          Value d = nvgpu::MmaSyncOp::create(
              b, a[mm / 2], bFragment, c,
              ArrayRef<int64_t>{16, 8, kCores * kCore});
          top = vector::ExtractOp::create(b, d, 0);
          bottom = vector::ExtractOp::create(b, d, 1);
        }
      }
    }
    rewriter.replaceOpWithMultiple(op, {acc});
    return success();
  }

  /// Whether the op is what m16n8k16 and m16n8k8 compute together.
  static bool isMmaContraction(vector::ContractionOp op) {
    auto accType = dyn_cast<VectorType>(op.getAccType());
    VectorType lhsType = op.getLhsType();
    if (op.getKind() != vector::CombiningKind::ADD || !accType ||
        accType.getRank() != 2 || lhsType.getRank() != 2 ||
        op.getRhsType().getRank() != 2 || !accType.getElementType().isF32() ||
        !(lhsType.getElementType().isF16() ||
          lhsType.getElementType().isBF16()))
      return false;
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    AffineExpr m = maps[2].getResult(0), n = maps[2].getResult(1);
    AffineExpr k = maps[0].getResult(1);
    bool isNK = maps[1].getResult(0) == n && maps[1].getResult(1) == k;
    bool isKN = maps[1].getResult(0) == k && maps[1].getResult(1) == n;
    return maps[0].getResult(0) == m && m != n && k != m && k != n &&
           (isNK || isKN) && accType.getDimSize(0) % 16 == 0 &&
           accType.getDimSize(1) % 8 == 0 && lhsType.getDimSize(1) % 8 == 0;
  }

  /// Cores as the operand of one mma.sync: vector<count x 2 x T>.
  static Value pack(ImplicitLocOpBuilder &b, ArrayRef<Value> cores) {
    auto core = cast<VectorType>(cores.front().getType());
    auto type = VectorType::get({static_cast<int64_t>(cores.size()), 2},
                                core.getElementType());
    Value result = ub::PoisonOp::create(b, type);
    for (auto [i, value] : llvm::enumerate(cores))
      result =
          vector::InsertOp::create(b, value, result, static_cast<int64_t>(i));
    return result;
  }
};
} // namespace

void mlir::fcgpu::populateComputePatterns(const TileTypeConverter &converter,
                                          RewritePatternSet &patterns) {
  MLIRContext *ctx = patterns.getContext();
  patterns.add<DistributeElementwise>(converter, ctx);
  patterns.add<DistributeConstant, DistributeBroadcast, DistributeShapeCast,
               DistributeReduction, DistributeAny, DistributeContraction>(
      converter, ctx, /*benefit=*/2);
}
