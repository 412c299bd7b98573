//===- RareMaximum.h - Following a row maximum rarely -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_RAREMAXIMUM_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_RAREMAXIMUM_H

#include "RowPolicies.h"

namespace mlir::flashcore {

/// Follows the maximum only if some score of the warp's rows exceeds its row's
/// by a factor of 2^8 after exponentiation (FlashAttention-4's conditional
/// rescaling): P then stays within the range of f16, and O and the sum relative
/// to the old maximum are as good.
class RareMaximum : public RowMaxPolicy {
public:
  /// `isOutputLate`: O is rescaled by a branch of its own, since the product
  /// before is not done when the scores are.
  RareMaximum(TileBuilder &b, const RowSumPolicy &sum, bool isOutputLate)
      : RowMaxPolicy(b, sum), isOutputLate(isOutputLate) {}

protected:
  /// By how many powers of 2 P may exceed 1: within the range of f16.
  static constexpr float kSlack = 8;

  /// A state and the scores of a tile, and the addends of their exponents,
  /// where these are not one constant. In the place of an O that is late stand
  /// the factors that its rows wait for.
  struct TileState {
    RowState state;
    Value scores, addend;

    SmallVector<Value> getValues() const {
      SmallVector<Value> values = state.getValues();
      values.push_back(scores);
      if (addend)
        values.push_back(addend);
      return values;
    }
    static TileState get(ValueRange values) {
      return {RowState::get(values), values[3],
              values.size() > 4 ? values[4] : Value()};
    }
    /// P, of scores that are relative to `addend`.
    Value exponentiate(TileBuilder &b) const {
      return b.exponentiate(scores, b.broadcastRows(addend, b.blockN));
    }
  };

  /// The slack in units of the raw scores.
  float getSlack() const { return kSlack / b.getExponentScale(); }

  /// What a tile begins with.
  TileState begin(const RowState &state, Value scores, Value addend = {}) const;
  /// What `follow` makes of the tile if the condition holds, else the tile. The
  /// branch is about rows, so each warp of a warpgroup takes the side that its
  /// own rows need.
  TileState branch(Value condition, const TileState &tile,
                   function_ref<TileState(TileState)> follow) const;
  /// In such a branch: the state relative to `rowMax`.
  RowState makeRelativeTo(const RowState &state, Value rowMax,
                          Value factors) const;
  /// The tile relative to the maximum with its own scores.
  TileState followScores(const TileState &tile, Value tileMax) const;
  /// The state behind the exponentials: `followed` if any branch was taken,
  /// which began with the O of `state`.
  Exponentials end(const RowState &state, const TileState &tile, Value p,
                   Value followed) const;

  /// What `exponentiate` makes of `follow(tile)` if any of `exceeds` or
  /// `orElse` (which may be null) is true, else of the tile as it is. Partial
  /// tiles take that branch, too, and are masked in it: full tiles then need no
  /// loop of their own to be rid of the mask.
  Exponentials
  followRarely(const RowState &state, const TileState &tile, Value exceeds,
               Value orElse, function_ref<TileState(TileState)> follow,
               function_ref<Value(const TileState &)> exponentiate) const;
  /// A tile, masked if it is partial, in such a branch.
  static TileState applyMask(TileState tile, const TileMask &mask,
                             Value isPartial) {
    if (isPartial)
      tile.scores = mask.apply(tile.scores);
    return tile;
  }

  Value rescale(Value acc, Value factors) const;

private:
  Value rescaleIf(Value condition, Value acc, Value factors) const;

  bool isOutputLate;
};

// Each is one policy that does (RowMaximum.cpp has the table of all):
std::unique_ptr<RowMaxPolicy>
createStaleMaximum(TileBuilder &b, const RowSumPolicy &sum, bool isOutputLate);
std::unique_ptr<RowMaxPolicy>
createFoldedMaximum(TileBuilder &b, const RowSumPolicy &sum, bool isOutputLate);
std::unique_ptr<RowMaxPolicy> createCheckedMaximum(TileBuilder &b,
                                                   const RowSumPolicy &sum,
                                                   bool isOutputLate);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_RAREMAXIMUM_H
