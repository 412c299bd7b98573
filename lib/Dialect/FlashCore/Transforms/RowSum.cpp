//===- RowSum.cpp - Adding up the rows of P -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Add: eight partial sums a row, of the f32 values. Mma: a product with eight
// columns of ones, of the rounded ones, whose results are all the sum.
//
//===----------------------------------------------------------------------===//

#include "RowPolicies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::flashcore;

Value RowSumPolicy::getInitialOutput() const {
  return b.constant(0.0f, {b.warpM, b.columnsV});
}

Value RowSumPolicy::getInitialSum() const {
  return b.constant(0.0f, {b.warpM, 8});
}

static Value rescaleRows(TileBuilder &b, Value tile, Value factors) {
  int64_t cols = cast<VectorType>(tile.getType()).getDimSize(1);
  return arith::MulFOp::create(b, tile, b.broadcastRows(factors, cols));
}

Value RowSumPolicy::rescaleOutput(Value acc, Value factors) const {
  return rescaleRows(b, acc, factors);
}

Value RowSumPolicy::rescaleSum(Value rowSum, Value factors) const {
  return rescaleRows(b, rowSum, factors);
}

/// P as the left operand of a product.
static Value roundP(TileBuilder &b, Value p) {
  auto type = VectorType::get({b.warpM, b.blockN}, b.half);
  return arith::TruncFOp::create(b, type, p);
}

static Value reduceColumns(TileBuilder &b, Value columns,
                           vector::CombiningKind kind) {
  return vector::MultiDimReductionOp::create(b, columns,
                                             b.constant(0.0f, {b.warpM}),
                                             ArrayRef<bool>{false, true}, kind);
}

namespace {
class AddedSum final : public RowSumPolicy {
public:
  using RowSumPolicy::RowSumPolicy;

  void accumulate(RowState &state, Value p, Value kept,
                  [[maybe_unused]] float unit,
                  function_ref<Value()> readValue) const override {
    assert(unit == 1 && "checkFields asks for row_sum mma with any other");
    Value pHalf = roundP(b, kept);
    state.rowSum = vector::MultiDimReductionOp::create(
        b, b.groupColumns(p), state.rowSum, ArrayRef<bool>{false, true, false},
        vector::CombiningKind::ADD);
    state.acc =
        b.contract(pHalf, readValue(), state.acc, /*transposedRhs=*/false);
  }

  Value reduce(Value columns) const override {
    return reduceColumns(b, columns, vector::CombiningKind::ADD);
  }
};

class MultipliedSum final : public RowSumPolicy {
public:
  using RowSumPolicy::RowSumPolicy;

  void accumulate(RowState &state, Value p, Value kept, float unit,
                  function_ref<Value()> readValue) const override {
    Value pHalf = roundP(b, p);
    auto type = VectorType::get({b.blockN, 8}, b.half);
    Value units = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getFloatAttr(b.half, unit)));
    state.rowSum =
        b.contract(pHalf, units, state.rowSum, /*transposedRhs=*/false);
    if (kept != p)
      pHalf = roundP(b, kept);
    state.acc =
        b.contract(pHalf, readValue(), state.acc, /*transposedRhs=*/false);
  }

  /// Any of eight equal ones.
  Value reduce(Value columns) const override {
    return reduceColumns(b, columns, vector::CombiningKind::MAXNUMF);
  }
};

/// O has columns of its own for the sums: P V of a V with columns of ones.
/// Rounded and rescaled they are as O is.
class OutputColumns final : public RowSumPolicy {
public:
  using RowSumPolicy::RowSumPolicy;

  Value getInitialOutput() const override {
    return b.constant(0.0f, {b.warpM, b.columnsV + fcgpu::kOnesColumns});
  }
  Value rescaleSum(Value rowSum, Value) const override { return rowSum; }

  void accumulate(RowState &state, Value p, [[maybe_unused]] Value kept,
                  [[maybe_unused]] float unit,
                  function_ref<Value()> readValue) const override {
    assert(unit == 1 && kept == p && "checkSchedule refuses any other");
    auto type =
        VectorType::get({b.blockN, b.columnsV + fcgpu::kOnesColumns}, b.half);
    Value ones = arith::ConstantOp::create(
        b, DenseElementsAttr::get(type, b.getFloatAttr(b.half, 1.0)));
    Value pHalf = roundP(b, p);
    Value wide = vector::InsertStridedSliceOp::create(
        b, readValue(), ones, ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{1, 1});
    state.acc = b.contract(pHalf, wide, state.acc, /*transposedRhs=*/false);
  }

  Value getOutput(const RowState &state) const override {
    return getColumnsOf(state, 0, b.columnsV);
  }
  Value getColumns(const RowState &state) const override {
    return getColumnsOf(state, b.columnsV, fcgpu::kOnesColumns);
  }
  Value reduce(Value columns) const override {
    return reduceColumns(b, columns, vector::CombiningKind::MAXNUMF);
  }

private:
  Value getColumnsOf(const RowState &state, int64_t first, int64_t cols) const {
    return vector::ExtractStridedSliceOp::create(
        b, state.acc, ArrayRef<int64_t>{0, first},
        ArrayRef<int64_t>{b.warpM, cols}, ArrayRef<int64_t>{1, 1});
  }
};

struct Entry {
  fcgpu::RowSum kind;
  fcgpu::Product product;
  std::unique_ptr<RowSumPolicy> (*create)(TileBuilder &b);
};

template <typename Policy>
std::unique_ptr<RowSumPolicy> create(TileBuilder &b) {
  return std::make_unique<Policy>(b);
}
} // namespace

static constexpr Entry table[] = {
    {fcgpu::RowSum::Add, fcgpu::Product::Warp, create<AddedSum>},
    {fcgpu::RowSum::Mma, fcgpu::Product::Warp, create<MultipliedSum>},
    {fcgpu::RowSum::Add, fcgpu::Product::Warpgroup, create<AddedSum>},
    {fcgpu::RowSum::Mma, fcgpu::Product::Warpgroup, create<OutputColumns>},
    {fcgpu::RowSum::Add, fcgpu::Product::Wmma, create<AddedSum>},
    {fcgpu::RowSum::Add, fcgpu::Product::Thread, create<AddedSum>},
};

std::unique_ptr<RowSumPolicy>
mlir::flashcore::createRowSum(fcgpu::ScheduleAttr schedule, TileBuilder &b) {
  for (const Entry &entry : table)
    if (entry.kind == schedule.getRowSum() &&
        entry.product == schedule.getProduct())
      return entry.create(b);
  llvm_unreachable("checkFields refuses what has no row in the table");
}
