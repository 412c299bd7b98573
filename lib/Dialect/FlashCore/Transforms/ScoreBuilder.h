//===- ScoreBuilder.h - The scores of a tile --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What happens to scores before the exponentials: regions, which clauses have
// become parts of, and masks. ScoreReads.cpp has what they read of tensors.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREBUILDER_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREBUILDER_H

#include "KeyWalk.h"
#include "ScoreRegion.h"

namespace mlir::flashcore {

class ScoreBuilder : protected KeyWalk {
protected:
  explicit ScoreBuilder(TileOpInterface op)
      : ScoreBuilder(op, std::make_unique<ScoreFormulas>(op)) {}

  /// Q K^T of the tile from `key` on, added to `start`.
  Value buildScores(Value query, Value key, Value start);
  Value changeScores(Value scores, Value key);
  Value maskScores(Value scores, Value key);
  Value maskListed(Value scores, Value iteration, Value key);
  Value maskWhenPartial(Value scores, Value iteration, Value key);
  Value maskUnlessFull(Value scores, int64_t i, Value key);
  void skipUnlessVisible(Value iteration);
  /// A map_scores whose result is what `build(score, query, key)` returns.
  template <typename Builder>
  Value mapScores(Value scores, Value key, Builder build);
  Value getInside(Value index, Value extent);

private:
  ScoreBuilder(TileOpInterface op, std::unique_ptr<ScoreFormulas> computed)
      : KeyWalk(op, computed->scale), formulas(std::move(computed)),
        change(formulas->change), hide(formulas->hide) {}

  bool needsTailMask();
  Value mapReads(Value scores, Value key,
                 function_ref<Value(Value, Value, Value)> build);
  Value pairReads(fcgpu::MapScoresOp map);
  Value areAligned(Value memref);
  Value isWhole(Value key);
  bool hidesEverywhere() {
    return mask.hasOpaqueRegion && !mask.hasHoles() && !hasBlocks();
  }
  std::pair<Value, Value> getInside(Region &region, Value query, Value key);
  Value isVisibleToRegion(Value score, Value query, Value key);
  Value applyRegions(Value score, Value query, Value key);
  Value branch(Value condition, function_ref<Value()> first,
               function_ref<Value()> second);
  Value maskIf(Value condition, Value scores, Value key);
  Value maskTail(Value scores, Value key);

  /// The regions of the op as they are computed.
  std::unique_ptr<ScoreFormulas> formulas;
  Region &change, &hide;
  /// Whether what is built is for tiles that may reach past these ends.
  bool cutsQueries = true, cutsKeys = true;
};

template <typename Builder>
Value ScoreBuilder::mapScores(Value scores, Value key, Builder build) {
  auto map = fcgpu::MapScoresOp::create(b, scores.getType(), scores,
                                        place.firstQuery, key);
  OpBuilder::InsertionGuard guard(b);
  Type index = b.getIndexType();
  Block *body =
      b.createBlock(&map.getBody(), {}, {b.getF32Type(), index, index},
                    {b.getLoc(), b.getLoc(), b.getLoc()});
  Value result =
      build(body->getArgument(0), body->getArgument(1), body->getArgument(2));
  fcgpu::YieldOp::create(b, result);
  return map.getResult();
}

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_SCOREBUILDER_H
