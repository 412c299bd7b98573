//===- RowPolicies.h - How rows of scores become P and sums -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop over key tiles keeps O, a maximum and a sum of each row. How is the
// affair of two policies, which `row_max` and `row_sum` of the schedule choose:
// what they keep has a meaning of their own until `readMax` and `readSum`,
// which return row maximum and row sum whatever the policy. One more policy is
// a class and a row of the table in RowMaximum.cpp or RowSum.cpp, besides its
// word in FCGPUAttrs.td.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ROWPOLICIES_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ROWPOLICIES_H

#include "Exponentials.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <memory>

namespace mlir::flashcore {
/// What the exponentials of a row are relative to: P = exp2(c * (s -
/// subtrahend) + addend), with the c of getExponentScale(). Near 0 the
/// subtrahend is 0 and the addend -round(c * max), one operation a score. That
/// product is rounded by half of 2^-24 of it, so where it is large (kFarthest)
/// the maximum is subtracted from the scores instead, and the addend is 0.
/// `isFar` says where, for each row; a maximum of -inf is far, too.
struct RowReference {
  Value isFar, subtrahend, addend;
};

/// Builds ops on the tiles of a warp: of scores (warpM x blockN), of O (warpM x
/// headDimV), and values a row.
class TileBuilder : public ImplicitLocOpBuilder {
public:
  /// In front of an attention tile whose scores have this scale.
  TileBuilder(TileOpInterface op, float scoreScale);

  Value constant(float value, ArrayRef<int64_t> shape);
  /// `rows` (one value a row) as a tile of `cols` equal columns.
  Value broadcastRows(Value rows, int64_t cols);
  /// Columns 8 apart side by side: reduced, they leave eight partial results a
  /// row.
  Value groupColumns(Value tile);
  /// The larger of `init` and the largest score of each row.
  Value reduceMax(Value scores, Value init);
  /// lhs * rhs + acc; `rhs` is stored (n, k) if transposed, else (k, n).
  Value contract(Value lhs, Value rhs, Value acc, bool transposedRhs);
  /// P = exp2(c * s + addend), with the c of getExponentScale().
  Value exponentiate(Value scores, Value addend);
  /// The largest |c * max| of an addend. Below it the product is rounded by at
  /// most 2^-13, half a step of f32, and where a row comes from beyond it by
  /// twice as much: P changes by less than half a step of an f16 near 1, 2^-12.
  static constexpr float kFarthest = 4096;
  /// -c * max as the addend of rows that are not far.
  Value getAddend(Value rowMax);
  /// Whether such addends are of rows that are far.
  Value areFar(Value addends);
  RowReference getReference(Value rowMax);
  /// exp2 of what lies between two references, by which a state that is
  /// relative to `from` becomes relative to `to`, which is not of -inf.
  Value getFactors(const RowReference &from, const RowReference &to);
  /// The scores of a tile, less the subtrahend of each row.
  Value subtract(Value scores, const RowReference &reference);
  /// Whether any element of a tile or vector of i1 is true, or `orElse` (which
  /// may be null).
  Value isAnyTrue(Value tile, Value orElse = {});
  /// What `first` returns if the condition holds, else what `second` does, each
  /// built in its side of an scf.if.
  SmallVector<Value> branch(Value condition,
                            function_ref<SmallVector<Value>()> first,
                            function_ref<SmallVector<Value>()> second);

  /// What a score that is ready for the softmax still has to be multiplied
  /// with.
  float getScoreScale() const { return scoreScale; }
  /// The c in exp(scale * (s - max)) = exp2(c * s - c * max).
  float getExponentScale() const { return scoreScale * llvm::numbers::log2ef; }

  const int64_t warpM, blockN;
  const int64_t columnsV; ///< of tiles of V and O
  /// Of the elements that are multiplied.
  const Type half;
  /// Whether the bits of a row must not depend on the tiles that hide all keys
  /// from it, or on what else is known of the problem.
  const bool isInvariant;

private:
  fcgpu::ProductAttr getProduct(const fcgpu::ScheduleChoice &choice) const;

  float scoreScale;
  fcgpu::ProductAttr product; ///< null where the rings of tiles tell
  bool sumsInFragments;       ///< O stays in accumulators that nobody knows
};

/// What the key loop carries: the unnormalised output, and what the policies
/// keep of the row maximum and of the row sum.
struct RowState {
  Value acc, rowMax, rowSum;

  SmallVector<Value> getValues() const { return {acc, rowMax, rowSum}; }
  static RowState get(ValueRange values) {
    return {values[0], values[1], values[2]};
  }
};

/// What is written of a state: rows of the unnormalised output, the row
/// maximum, which `maxToLn` turns into a natural logarithm, and the row sum.
struct RowResult {
  Value acc, rowMax, rowSum;
  float maxToLn;
  Value accFactor = {}; ///< what O is still multiplied with; null for 1
  Value maxRest = {};   ///< what rounding left of rowMax * maxToLn; null for 0
};

/// P of a tile, in f32, and the state that it is relative to.
struct Exponentials {
  RowState state;
  Value p;
};

/// The mask of one tile, which a policy applies where it branches anyway.
struct TileMask {
  /// The scores, masked, in a branch that partial tiles take among others.
  function_ref<Value(Value)> apply;
  /// The scores, masked behind a branch of its own if the tile is partial.
  function_ref<Value(Value)> applyIfPartial;
  /// Whether the tile is partial; null if no tile is.
  function_ref<Value()> isPartial;
};

/// Adds P to the sums of rows, and P V to O.
class RowSumPolicy {
public:
  explicit RowSumPolicy(TileBuilder &b) : b(b) {}
  virtual ~RowSumPolicy() = default;

  /// Before the first tile.
  virtual Value getInitialOutput() const;
  virtual Value getInitialSum() const;
  /// With its rows multiplied.
  virtual Value rescaleOutput(Value acc, Value factors) const;
  virtual Value rescaleSum(Value rowSum, Value factors) const;
  /// Adds a tile: `unit` * P to the sums, and `kept` times what `readValue`
  /// reads to O: what a dropout leaves of P, which is P itself without one.
  virtual void accumulate(RowState &state, Value p, Value kept, float unit,
                          function_ref<Value()> readValue) const = 0;
  /// Of a state: rows of O, and columns of sums, which are all +0 before the
  /// first key of a row, and not after it.
  virtual Value getOutput(const RowState &state) const { return state.acc; }
  virtual Value getColumns(const RowState &state) const { return state.rowSum; }
  /// The sum of each row, of columns that count P in units of 1.
  virtual Value reduce(Value columns) const = 0;

protected:
  TileBuilder &b;
};

/// Follows the maximum of each row. What the state keeps is that of the raw
/// scores, -infinity before the first key of a row, unless a policy says
/// otherwise.
class RowMaxPolicy {
public:
  RowMaxPolicy(TileBuilder &b, const RowSumPolicy &sum) : b(b), sum(sum) {}
  virtual ~RowMaxPolicy() = default;

  /// Before the first tile.
  virtual Value getInitialMax() const;
  /// What the products of a tile start at.
  virtual Value getProductStart(const RowState &state) const;
  /// What the sums count a P of 1 as.
  virtual float getUnit() const { return 1; }
  /// P of a tile whose products started there, and the state relative to the
  /// same maximum.
  virtual Exponentials exponentiate(RowState state, Value scores,
                                    const TileMask &mask) const = 0;
  /// The row maximum of the raw scores, and the row sum.
  virtual Value readMax(const RowState &state) const;
  virtual Value readSum(const RowState &state) const;
  /// Whether a row of the warp is lost, behind the last tile, and the block has
  /// to walk its tiles again with an exact maximum; null if none can be.
  virtual Value isLost(const RowState &) const { return {}; }

protected:
  TileBuilder &b;
  const RowSumPolicy &sum;
};

std::unique_ptr<RowSumPolicy> createRowSum(fcgpu::ScheduleAttr schedule,
                                           TileBuilder &b);
std::unique_ptr<RowMaxPolicy> createRowMax(fcgpu::ScheduleAttr schedule,
                                           TileBuilder &b,
                                           const RowSumPolicy &sum);
} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ROWPOLICIES_H
