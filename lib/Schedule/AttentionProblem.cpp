//===- AttentionProblem.cpp - What a schedule depends on ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/AttentionProblem.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir::flashcore;

/// The extent of `axis`, if any of the values knows it.
static std::optional<int64_t> getExtent(llvm::ArrayRef<mlir::ShapedType> types,
                                        unsigned axis) {
  for (mlir::ShapedType type : types)
    if (!type.isDynamicDim(axis))
      return type.getDimSize(axis);
  return std::nullopt;
}

static bool hasOpenStrides(mlir::Value tensor) {
  auto type = llvm::dyn_cast<mlir::MemRefType>(tensor.getType());
  llvm::SmallVector<int64_t> strides;
  int64_t offset;
  return type && succeeded(type.getStridesAndOffset(strides, offset)) &&
         (mlir::ShapedType::isDynamic(offset) ||
          llvm::any_of(strides, mlir::ShapedType::isDynamic));
}

/// The most keys that the pages of an entry hold.
static std::optional<int64_t> getKeysOfPages(AttentionOp op) {
  auto table = llvm::cast<mlir::ShapedType>(op.getPageTable().getType());
  if (table.isDynamicDim(1))
    return std::nullopt;
  return table.getDimSize(1) * op.getKeyType().getDimSize(AttentionOp::Seqlen);
}

namespace {
/// What a region does for every score, other than for every row.
struct ScoreWork {
  unsigned numOps = 0, numReads = 0, numSpecials = 0, numFactors = 0;

  bool isLong() const { return numOps > 8 || numReads > 1; }
  bool hasOthers() const { return numOps > numSpecials + numFactors; }
};
} // namespace

static bool isFactor(mlir::Operation &op) {
  auto isConstant = [&](unsigned side) {
    return mlir::matchPattern(op.getOperand(side), mlir::m_Constant());
  };
  return (llvm::isa<mlir::arith::MulFOp, mlir::arith::DivFOp>(op) &&
          isConstant(1)) ||
         (llvm::isa<mlir::arith::MulFOp>(op) && isConstant(0));
}

/// What a multiprocessor has few units for.
static bool isSpecial(mlir::Operation &op) {
  return llvm::isa<mlir::math::TanhOp, mlir::math::ExpOp, mlir::math::Exp2Op,
                   mlir::math::LogOp, mlir::math::Log2Op, mlir::math::SqrtOp,
                   mlir::math::RsqrtOp, mlir::math::SinOp, mlir::math::CosOp,
                   mlir::arith::DivFOp>(op);
}

static ScoreWork getScoreWork(mlir::Region &region) {
  ScoreWork work;
  if (region.empty())
    return work;
  llvm::SmallDenseSet<mlir::Value> perScore{region.getArgument(0),
                                            region.getArgument(4)};
  for (mlir::Operation &op : region.front().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](mlir::Value operand) {
          return perScore.contains(operand);
        }))
      continue;
    perScore.insert(op.result_begin(), op.result_end());
    ++work.numOps;
    if (isFactor(op))
      ++work.numFactors;
    else if (isSpecial(op))
      ++work.numSpecials;
    work.numReads += llvm::any_of(op.getOperandTypes(), [](mlir::Type type) {
      return llvm::isa<mlir::ShapedType>(type);
    });
  }
  return work;
}

/// Sizes, as far as they are known, and what else says how long sequences are.
static void setSizes(AttentionOp op, AttentionProblem &problem) {
  problem.isPaged = static_cast<bool>(op.getPageTable());
  problem.batch =
      getExtent({op.getQueryType(),
                 problem.isPaged ? op.getQueryType() : op.getKeyType()},
                AttentionOp::Batch);
  problem.headsQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Head);
  problem.headsKV =
      getExtent({op.getKeyType(), op.getValueType()}, AttentionOp::Head);
  problem.seqlenQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Seqlen);
  problem.seqlenK =
      getExtent({op.getKeyType(), op.getValueType()}, AttentionOp::Seqlen);
  if (problem.isPaged) {
    problem.pageSize = op.getKeyType().getDimSize(AttentionOp::Seqlen);
    problem.seqlenK = getKeysOfPages(op);
  }
  problem.isVarlen = static_cast<bool>(op.getCuSeqlensQ());
  problem.hasAppend = static_cast<bool>(op.getKNew());
  problem.hasLengths = problem.isVarlen || problem.isPaged || op.getSequsedK();
  // Totals say nothing of a sequence.
  if (problem.isVarlen)
    problem.batch = problem.seqlenQ = problem.seqlenK = std::nullopt;
}

static ScoreWork getScoreWork(mlir::Region *region) {
  return region ? getScoreWork(*region) : ScoreWork();
}

/// What changes scores and hides keys.
static void setScores(ScoreOpInterface op, AttentionProblem &problem) {
  problem.hasRegion = op.hasRegion();
  KeyMask mask = KeyMask::get(op);
  problem.isTopLeft = mask.isTopLeft;
  bool hasMask = op.findMaskRegion() != nullptr;
  if (hasMask && !op.hasBlockLists()) // lists need none
    problem.maskProof = {mask.hasRegionBounds, !mask.hasOpaqueRegion,
                         std::max<size_t>(mask.ranges.size(), 1),
                         !mask.symbols.empty(), mask.hasDataOfQueries()};
  problem.isCausal =
      op.getCausal() || (hasMask && (mask.isTopLeft || mask.windowRight == 0));
  problem.hasWindow =
      op.getWindowLeft() || op.getWindowRight() ||
      (hasMask && (mask.hidesFirstKeys() || !mask.last.empty() ||
                   mask.windowRight.value_or(0) > 0 || mask.hasHoles()));
  ScoreWork change = getScoreWork(op.findScoreRegion()), hide;
  if (mask.hasOpaqueRegion)
    hide = getScoreWork(op.findMaskRegion());
  problem.hasSpecials = change.numSpecials + hide.numSpecials > 0;
  problem.hasBias = change.hasOthers() || mask.hasOpaqueRegion;
  problem.hasLongScores = change.isLong() || hide.isLong();
  problem.readsPerScore = change.numReads + hide.numReads > 0;
  if (mask.windowLeft && mask.windowRight)
    problem.windowKeys = *mask.windowLeft + *mask.windowRight + 1;
}

/// Of attentions and their tiles, which have lists of blocks.
template <typename Op> static void setBlocks(Op op, AttentionProblem &problem) {
  if (!op.getBlockCounts())
    return;
  auto counts = llvm::cast<mlir::ShapedType>(op.getBlockCounts().getType());
  problem.blocks = {op.getBlockQueries(), op.getBlockKeys(),
                    counts.getDimSize(AttentionOp::Head) != 1};
}

/// Element type, and how rows of all of them may be accessed.
static void setRows(llvm::ArrayRef<mlir::ShapedType> types,
                    AttentionProblem &problem) {
  for (mlir::ShapedType type : types)
    problem.accessBytes = std::min(problem.accessBytes, getAccessBytes(type));
  if (auto kind = mlir::fcgpu::getElementKind(types.front().getElementType()))
    problem.element = *kind;
}

AttentionProblem AttentionProblem::get(AttentionOp op) {
  AttentionProblem problem;
  setSizes(op, problem);
  setScores(op, problem);
  setBlocks(op, problem);
  setRows({op.getQueryType(), op.getKeyType(), op.getValueType(),
           op.getOutputType()},
          problem);
  problem.headDim = op.getHeadDim();
  problem.headDimV = op.getHeadDimV();
  problem.hasOpenStrides = llvm::any_of(
      std::initializer_list<mlir::Value>{op.getQuery(), op.getKey(),
                                         op.getValue(), op.getOutput()},
      ::hasOpenStrides);
  problem.hasSpecials |= op.getSoftcap().has_value();
  auto operands = listOperands(op);
  for (const OperandInfo &info : llvm::make_first_range(operands))
    if (info.use == OperandInfo::Use::Score) {
      problem.hasBias = true;
      // A bias is read, others are computed.
      problem.hasRegion |= info.tensor != operand::kBias;
    }
  problem.hasDropout = static_cast<bool>(op.getRng());
  problem.hasLse = static_cast<bool>(op.getLse());
  problem.hasLongScores |= op.getBias() || problem.hasDropout;
  return problem;
}

AttentionProblem AttentionProblem::getOfTile(TileOpInterface op) {
  AttentionProblem problem;
  problem.batch = problem.headsQ = problem.headsKV = 1;
  problem.seqlenQ = op.getKnownQueries();
  problem.seqlenK = op.getKnownKeys();
  setScores(op, problem);
  llvm::SmallVector<mlir::ShapedType> rows;
  for (mlir::Value value : {op.findQuery(), op.findKey(), op.findValue()})
    if (value)
      rows.push_back(llvm::cast<mlir::ShapedType>(value.getType()));
  problem.headDim = rows.front().getShape().back();
  problem.headDimV = rows.back().getShape().back();
  rows.push_back(llvm::cast<mlir::ShapedType>(op.getOutput().getType()));
  setRows(rows, problem);
  if (auto tile = llvm::dyn_cast<AttentionTileOp>(op.getOperation())) {
    setBlocks(tile, problem);
    problem.hasDropout = static_cast<bool>(tile.getRng());
    problem.hasLse = tile.getLse() && !tile.isPartOfKeys();
    problem.hasLongScores |= problem.hasDropout;
  }
  return problem;
}

std::optional<int64_t>
mlir::flashcore::getNumBlocks(const AttentionProblem &problem, int64_t blockM,
                              int64_t headGroup) {
  if (!problem.batch || !problem.headsQ || !problem.seqlenQ)
    return std::nullopt;
  return *problem.batch * llvm::divideCeil(*problem.headsQ, headGroup) *
         llvm::divideCeil(*problem.seqlenQ, blockM);
}

int64_t mlir::flashcore::getQuerySteps(const AttentionProblem &problem) {
  return llvm::divideCeil(problem.getColumns(), mlir::fcgpu::kQueryStep);
}
