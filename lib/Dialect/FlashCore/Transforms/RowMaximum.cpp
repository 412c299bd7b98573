//===- RowMaximum.cpp - Following the maximum of a row --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact: with every tile. Stale: when a score exceeds it by too much. Folded:
// the same, of products that start at its negative. Checked: when an
// exponential does. These three have files of their own.
//
//===----------------------------------------------------------------------===//

#include "RareMaximum.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

Value RowMaxPolicy::getInitialMax() const {
  return b.constant(kMinusInf, {b.warpM});
}

Value RowMaxPolicy::getProductStart(const RowState &) const {
  return b.constant(0.0f, {b.warpM, b.blockN});
}

Value RowMaxPolicy::readMax(const RowState &state) const {
  return state.rowMax;
}

Value RowMaxPolicy::readSum(const RowState &state) const {
  return sum.reduce(sum.getColumns(state));
}

namespace {
class ExactMaximum final : public RowMaxPolicy {
public:
  using RowMaxPolicy::RowMaxPolicy;

  Exponentials exponentiate(RowState state, Value scores,
                            const TileMask &mask) const override {
    scores = mask.applyIfPartial(scores);
    Value rowMax = b.reduceMax(scores, state.rowMax);
    if (b.blockN <= kMostSubtractedKeys) {
      Value to = getSafeMax(b, rowMax);
      float scale = b.getExponentScale();
      Value factors = exponentiateDifference(b, state.rowMax, to, scale);
      state = {sum.rescaleOutput(state.acc, factors), rowMax,
               sum.rescaleSum(state.rowSum, factors)};
      return {state, exponentiateDifference(
                         b, scores, b.broadcastRows(to, b.blockN), scale)};
    }
    Value addend = b.getAddend(rowMax);
    auto isFar = [&]() -> SmallVector<Value> {
      RowReference to = b.getReference(getSafeMax(b, rowMax));
      return {b.subtract(scores, to), to.addend,
              b.getFactors(b.getReference(state.rowMax), to)};
    };
    auto isNear = [&]() -> SmallVector<Value> {
      // Rounded as the addend is that the state is relative to.
      Value before = arith::MulFOp::create(
          b, state.rowMax, b.constant(b.getExponentScale(), {b.warpM}));
      return {
          scores, addend,
          math::Exp2Op::create(b, arith::AddFOp::create(b, before, addend))};
    };
    auto related = b.branch(b.isAnyTrue(b.areFar(addend)), isFar, isNear);
    Value factors = related[2];
    state = {sum.rescaleOutput(state.acc, factors), rowMax,
             sum.rescaleSum(state.rowSum, factors)};
    return {state,
            b.exponentiate(related[0], b.broadcastRows(related[1], b.blockN))};
  }

private:
  /// In tiles of so many keys the maximum is subtracted from every score, one
  /// operation a score more: the kernels of small grids and of decoding wait
  /// longer for a branch and for its instructions.
  static constexpr int64_t kMostSubtractedKeys = 32;
};

std::unique_ptr<RowMaxPolicy> createExactMaximum(TileBuilder &b,
                                                 const RowSumPolicy &sum,
                                                 bool /*isOutputLate*/) {
  return std::make_unique<ExactMaximum>(b, sum);
}

struct Entry {
  fcgpu::RowMax kind;
  std::unique_ptr<RowMaxPolicy> (*create)(TileBuilder &b,
                                          const RowSumPolicy &sum,
                                          bool isOutputLate);
};
} // namespace

static constexpr Entry table[] = {
    {fcgpu::RowMax::Exact, createExactMaximum},
    {fcgpu::RowMax::Stale, createStaleMaximum},
    {fcgpu::RowMax::Folded, createFoldedMaximum},
    {fcgpu::RowMax::Checked, createCheckedMaximum},
};

std::unique_ptr<RowMaxPolicy>
mlir::flashcore::createRowMax(fcgpu::ScheduleAttr schedule, TileBuilder &b,
                              const RowSumPolicy &sum) {
  for (const Entry &entry : table)
    if (entry.kind == schedule.getRowMax())
      return entry.create(b, sum, schedule.getOverlap() == fcgpu::Overlap::PV);
  llvm_unreachable("every row_max has a row in the table");
}
