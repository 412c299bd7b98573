//===- DeltaKernel.cpp - Phase 2: the kernel of flashcore.delta -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A few threads of a warp have a row: each takes turns at as many columns as it
// loads at once, and what they have meets by shuffles. Memory is read once, so
// that nothing else counts.
//
//===----------------------------------------------------------------------===//

#include "KernelOps.h"
#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

static constexpr StringLiteral kGradient = "do", kDelta = "delta";

namespace {
/// How the threads of a block share rows.
struct DeltaRows {
  static constexpr int64_t kLanes = 32, kThreads = 128;

  explicit DeltaRows(DeltaOp op)
      : columns(op.getHeadDimV()),
        width(std::min(getAccessBytes(op.getOutput()),
                       getAccessBytes(op.getOutputGradient())) *
              8 / op.getOutputType().getElementTypeBitWidth()),
        lanes(std::min<int64_t>(
            llvm::PowerOf2Ceil(llvm::divideCeil(columns, width)), kLanes)) {}

  int64_t getRows() const { return kThreads / lanes; }

  int64_t columns;
  int64_t width; ///< columns that a thread loads at once
  int64_t lanes; ///< threads of a row, a power of two
};

class DeltaBuilder {
public:
  DeltaBuilder(const DeltaRows &rows, KernelFrame &frame)
      : b(frame.getBuilder()), rows(rows), frame(frame) {}

  void build();

private:
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  void findRow();
  Value load(StringRef tensor, Value column);
  Value addColumns();
  Value addLanes(Value sum);

  ImplicitLocOpBuilder &b;
  const DeltaRows &rows;
  KernelFrame &frame;
  Value batch, head, query, lane;
};
} // namespace

void DeltaBuilder::findRow() {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  };
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  auto ids = affine::AffineDelinearizeIndexOp::create(
      b, block,
      SmallVector<OpFoldResult>{
          frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ),
          apply(d0.ceilDiv(rows.getRows()), {frame.getSize(Dim::SeqlenQ)})});
  batch = ids.getResult(0);
  head = ids.getResult(1);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  auto place = affine::AffineDelinearizeIndexOp::create(
      b, thread, ArrayRef<int64_t>{rows.getRows(), rows.lanes});
  lane = place.getResult(1);
  query = asValue(
      apply(d0 * rows.getRows() + d1, {ids.getResult(2), place.getResult(0)}));
}

/// Columns from `column` on of the row or, behind the last row, of that: all
/// lanes of a warp take part in its shuffles.
Value DeltaBuilder::load(StringRef tensor, Value column) {
  Value last =
      arith::SubIOp::create(b, asValue(frame.getSize(Dim::SeqlenQ)), index(1));
  Value row = arith::MinSIOp::create(b, query, last);
  Value memref = frame.getTensor(tensor);
  auto element = cast<MemRefType>(memref.getType()).getElementType();
  Value loaded = vector::LoadOp::create(
      b, VectorType::get({rows.width}, element), memref,
      ValueRange{batch, head, row, column}, /*nontemporal=*/false,
      llvm::MaybeAlign(rows.width * element.getIntOrFloatBitWidth() / 8));
  auto wide = VectorType::get({rows.width}, b.getF32Type());
  return element.isF32() ? loaded
                         : arith::ExtFOp::create(b, wide, loaded).getResult();
}

/// What the thread's columns are a sum of.
Value DeltaBuilder::addColumns() {
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  Value first = arith::MulIOp::create(b, lane, index(rows.width));
  auto loop = scf::ForOp::create(b, first, index(rows.columns),
                                 index(rows.lanes * rows.width), zero);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value column = loop.getInductionVar(), sum = loop.getRegionIterArg(0);
  Value products = arith::MulFOp::create(b, load(kGradient, column),
                                         load(operand::kOutput, column));
  for (int64_t i = 0; i < rows.width; ++i)
    sum = arith::AddFOp::create(b, sum,
                                vector::ExtractOp::create(b, products, i));
  scf::YieldOp::create(b, sum);
  return loop.getResult(0);
}

Value DeltaBuilder::addLanes(Value sum) {
  for (int32_t distance = rows.lanes / 2; distance > 0; distance /= 2)
    sum = arith::AddFOp::create(b, sum,
                                gpu::ShuffleOp::create(b, sum, distance,
                                                       DeltaRows::kLanes,
                                                       gpu::ShuffleMode::XOR)
                                    .getShuffleResult());
  return sum;
}

void DeltaBuilder::build() {
  findRow();
  Value sum = addLanes(addColumns());
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
  Value isRow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, query,
                                      asValue(frame.getSize(Dim::SeqlenQ)));
  auto ifOp = scf::IfOp::create(b, arith::AndIOp::create(b, isFirst, isRow),
                                /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(ifOp.thenBlock());
    memref::StoreOp::create(b, sum, frame.getTensor(kDelta),
                            ValueRange{batch, head, query});
  }
  gpu::ReturnOp::create(b);
}

static SmallVector<KernelTensor> getTensors(DeltaOp op) {
  SmallVector<Dim> axes{Dim::Batch, Dim::HeadsQ, Dim::SeqlenQ, Dim::HeadDimV};
  SmallVector<KernelTensor> tensors;
  for (auto [name, value] : {std::pair(kGradient, op.getOutputGradient()),
                             {operand::kOutput, op.getOutput()}})
    tensors.emplace_back(name, /*isOutput=*/false, value, axes,
                         getAccessBytes(cast<ShapedType>(value.getType())));
  tensors.emplace_back(kDelta, /*isOutput=*/true, op.getDelta(),
                       ArrayRef(axes).drop_back(), sizeof(float));
  return tensors;
}

namespace {
/// One kernel, on all tensors and sizes of the op.
struct DeltaKernels final
    : KernelOpInterface::ExternalModel<DeltaKernels, DeltaOp> {
  LogicalResult checkKernels(Operation *op) const { return checkHasChip(op); }

  std::vector<KernelProgram> getPrograms(Operation *operation) const {
    auto op = cast<DeltaOp>(operation);
    auto signature = std::make_shared<KernelSignature>(::getTensors(op));
    DeltaRows rows(op);
    return {getSingleKernelProgram(
        op, getKernelName("delta", op.getOutputType(), op.getHeadDimV()),
        signature,
        {SizeFormula(Dim::SeqlenQ).ceilDiv(rows.getRows()) * Dim::HeadsQ *
             Dim::Batch,
         DeltaRows::kThreads},
        [rows](KernelFrame &frame) { DeltaBuilder(rows, frame).build(); })};
  }
};
} // namespace

void mlir::flashcore::attachDeltaKernels(MLIRContext *context) {
  DeltaOp::attachInterface<DeltaKernels>(*context);
}
