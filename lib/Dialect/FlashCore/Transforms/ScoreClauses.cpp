//===- ScoreClauses.cpp - Clauses that become a score region --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Clauses that change scores become code of the score region when a kernel
// makes its tile: from there on the region is all that says how scores change.
//
//===----------------------------------------------------------------------===//

#include "ScoreRegion.h"
#include "TileOperands.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

/// Puts what `change` makes of the score in front of the score region, which
/// may be empty.
static void
prependChange(TileOpInterface tile,
              function_ref<Value(ImplicitLocOpBuilder &, Region &)> change) {
  Region &region = tile->getRegion(0); // the first is the score region
  ImplicitLocOpBuilder b(tile->getLoc(), tile.getContext());
  if (region.empty())
    createScoreRegion(b, region);
  b.setInsertionPointToStart(&region.front());
  Value score = region.getArgument(ScoreArgument::Score);
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : score.getUses())
    uses.push_back(&use);
  Value changed = change(b, region);
  for (OpOperand *use : uses)
    use->set(changed);
}

/// Whether lists name blocks that no mask is asked in.
static bool hasFullBlocks(TileOpInterface tile) {
  auto attention = dyn_cast<AttentionTileOp>(tile.getOperation());
  return attention && attention.getFullBlockCounts();
}

/// ALiBi, -slope * |query + seqlen_k - seqlen_q - key|, with the slope of the
/// head.
static void addAlibi(TileOpInterface tile, Value slopes) {
  prependChange(tile, [&](ImplicitLocOpBuilder &b, Region &region) -> Value {
    // Coordinates of 32 bits: those of 64 are slow to convert.
    auto toI32 = [&](Value index) {
      return arith::IndexCastOp::create(b, b.getI32Type(), index).getResult();
    };
    constexpr auto nsw = arith::IntegerOverflowFlags::nsw;
    Value shift =
        toI32(arith::SubIOp::create(b, tile.getSeqlenK(), tile.getSeqlenQ()));
    Value position = arith::AddIOp::create(
        b, toI32(region.getArgument(ScoreArgument::Query)), shift, nsw);
    Value distance = arith::SubIOp::create(
        b, position, toI32(region.getArgument(ScoreArgument::Key)), nsw);
    // Keys behind the query's position are hidden then, but in full blocks.
    KeyMask mask = KeyMask::get(tile);
    if (mask.windowRight != 0 || mask.isTopLeft || hasFullBlocks(tile))
      distance = math::AbsIOp::create(b, distance);
    distance = arith::SIToFPOp::create(b, b.getF32Type(), distance);
    Value slope = memref::LoadOp::create(
        b, slopes, region.getArgument(ScoreArgument::Head));
    return math::FmaOp::create(b, arith::NegFOp::create(b, slope), distance,
                               region.getArgument(ScoreArgument::Score));
  });
}

/// A bias of (batch, heads, queries, keys), whose axes of size 1 are for all.
static void addBias(TileOpInterface tile, Value bias) {
  prependChange(tile, [&](ImplicitLocOpBuilder &b, Region &region) -> Value {
    auto type = cast<MemRefType>(bias.getType());
    Value zero = arith::ConstantIndexOp::create(b, 0);
    SmallVector<Value> indices;
    for (auto [coordinate, size] :
         llvm::zip_equal(region.getArguments().drop_front(), type.getShape()))
      indices.push_back(size == 1 ? zero : coordinate);
    Value value = memref::LoadOp::create(b, bias, indices);
    if (!type.getElementType().isF32())
      value = arith::ExtFOp::create(b, b.getF32Type(), value);
    return arith::AddFOp::create(b, region.getArgument(ScoreArgument::Score),
                                 value);
  });
}

/// cap * tanh(score / cap).
static void addSoftcap(TileOpInterface tile, float cap) {
  prependChange(tile, [&](ImplicitLocOpBuilder &b, Region &region) -> Value {
    auto multiply = [&](Value value, float factor) {
      return arith::MulFOp::create(
          b, value, arith::ConstantOp::create(b, b.getF32FloatAttr(factor)));
    };
    Value ratio =
        multiply(region.getArgument(ScoreArgument::Score), 1.0f / cap);
    return multiply(math::TanhOp::create(b, ratio), cap);
  });
}

/// score * scale, with the scale of the head.
static void addHeadScale(TileOpInterface tile, Value scales) {
  prependChange(tile, [&](ImplicitLocOpBuilder &b, Region &region) -> Value {
    Value scale = memref::LoadOp::create(
        b, scales, region.getArgument(ScoreArgument::Head));
    return arith::MulFOp::create(b, region.getArgument(ScoreArgument::Score),
                                 scale);
  });
}

namespace {
/// An operand that changes scores.
struct ScoreClause {
  StringLiteral tensor;
  /// The first stage of scores that have it.
  ScoresStage stage;
  void (*add)(TileOpInterface tile, Value tensor);
};
} // namespace

/// What comes last stands first.
static constexpr ScoreClause kScoreClauses[] = {
    {operand::kAlibiSlopes, ScoresStage::Changed, addAlibi},
    {operand::kBias, ScoresStage::Changed, addBias},
    {operand::kHeadScales, ScoresStage::Scaled, addHeadScale},
};

bool mlir::flashcore::isInScores(StringRef tensor, ScoresStage stage) {
  const ScoreClause *clause =
      llvm::find_if(kScoreClauses, [&](const ScoreClause &clause) {
        return clause.tensor == tensor;
      });
  // What regions read is in what they change.
  return stage >= (clause == std::end(kScoreClauses) ? ScoresStage::Changed
                                                     : clause->stage);
}

void mlir::flashcore::addRegions(KernelFrame &frame, AttentionOp op,
                                 TileOpInterface tile, ScoresStage stage) {
  auto addClauses = [&](ScoresStage of) {
    for (const ScoreClause &clause : kScoreClauses)
      if (Value tensor = frame.findTensor(clause.tensor);
          tensor && clause.stage == of)
        clause.add(tile, tensor);
  };
  // Each goes in front of those before.
  if (stage >= ScoresStage::Changed) {
    cloneRegions(op, tile, getCaptured(frame, op));
    addClauses(ScoresStage::Changed);
  }
  if (auto cap = op.getSoftcap(); cap && stage >= ScoresStage::Capped)
    addSoftcap(tile, cap->convertToFloat());
  addClauses(ScoresStage::Scaled);
}
