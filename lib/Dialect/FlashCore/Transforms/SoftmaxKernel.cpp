//===- SoftmaxKernel.cpp - Phase 2: the softmax of rows in memory ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second kernel of an attention with softmax unfused. A warp has a row: its
// lanes walk the scores, four columns at a time, for the maximum and the sum of
// exponentials relative to it, and once more for P. Rows are whole tiles, and
// keys that are not there are hidden like others, so that P is 0 there.
//
//===----------------------------------------------------------------------===//

#include "AttentionWorkspace.h"
#include "Exponentials.h"
#include "KernelOps.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Threads of a block, each warp of which has a row.
constexpr int64_t kLanes = 32, kThreads = 128;
constexpr int64_t kRows = kThreads / kLanes;
/// Columns of a lane: 16 bytes of scores.
constexpr int64_t kColumns = 4;

class SoftmaxBuilder {
public:
  /// P is of type `half`.
  SoftmaxBuilder(KernelFrame &frame, AttentionWorkspace &workspace, Type half)
      : b(frame.getBuilder()), frame(frame), half(half),
        lseRest(workspace.viewLseRest()),
        columns(asValue(workspace.getColumns())),
        scores(workspace.viewScores()), pairs(workspace.viewPairs()) {}

  void build();

private:
  /// The largest score of a row, and the sum of exponentials relative to it.
  struct Sums {
    Value max, sum;
  };

  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value constant(float value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value max(Value x, Value y) { return arith::MaxNumFOp::create(b, x, y); }
  Value isEqual(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, constant(y));
  }
  void findRow();
  scf::ForOp buildWalk(ValueRange init);
  SmallVector<Value> loadScores(Value column);
  Value exponentiate(Value score, Value max);
  Sums addColumns();
  Value reduce(Value value, function_ref<Value(Value, Value)> combine);
  Sums mergeLanes(Sums own);
  Sums addSink(Sums row);
  void writeProbabilities(Value max, Value inverse);
  void writeLse(Sums row, Value isEmpty);

  ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  Type half;
  Value lseRest, columns, scores, pairs;
  Value batch, head, query, lane;
};
} // namespace

/// The last warps of a block may have none: then the builder is where they are
/// not.
void SoftmaxBuilder::findRow() {
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  OpFoldResult seqlenQ = frame.getSize(Dim::SeqlenQ);
  auto apply = [&](AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  };
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  auto ids = affine::AffineDelinearizeIndexOp::create(
      b, block,
      SmallVector<OpFoldResult>{frame.getSize(Dim::Batch),
                                frame.getSize(Dim::HeadsQ),
                                apply(d0.ceilDiv(kRows), {seqlenQ})});
  batch = ids.getResult(0);
  head = ids.getResult(1);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  auto place = affine::AffineDelinearizeIndexOp::create(
      b, thread, ArrayRef<int64_t>{kRows, kLanes});
  lane = place.getResult(1);
  query =
      asValue(apply(d0 * kRows + d1, {ids.getResult(2), place.getResult(0)}));
  auto known = getConstantIntValue(seqlenQ);
  if (known && *known % kRows == 0)
    return;
  Value isRow = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, query,
                                      asValue(seqlenQ));
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isRow, /*withElseRegion=*/false).thenBlock());
}

/// A loop over the first of each of the lane's columns of the row.
scf::ForOp SoftmaxBuilder::buildWalk(ValueRange init) {
  Value first = arith::MulIOp::create(b, lane, index(kColumns));
  return scf::ForOp::create(b, first, columns, index(kLanes * kColumns), init);
}

SmallVector<Value> SoftmaxBuilder::loadScores(Value column) {
  Value loaded = vector::LoadOp::create(
      b, VectorType::get({kColumns}, b.getF32Type()), scores,
      ValueRange{batch, head, query, column}, /*nontemporal=*/false,
      llvm::MaybeAlign(kColumns * sizeof(float)));
  SmallVector<Value> elements;
  for (int64_t i = 0; i < kColumns; ++i)
    elements.push_back(vector::ExtractOp::create(b, loaded, i));
  return elements;
}

/// exp(score - max), where that is not -inf.
Value SoftmaxBuilder::exponentiate(Value score, Value max) {
  return exponentiateDifference(b, score, max, llvm::numbers::log2ef);
}

/// Those of the lane's columns.
SoftmaxBuilder::Sums SoftmaxBuilder::addColumns() {
  scf::ForOp loop = buildWalk({constant(kMinusInf), constant(0)});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value before = loop.getRegionIterArg(0), largest = before;
  SmallVector<Value> loaded = loadScores(loop.getInductionVar());
  for (Value score : loaded)
    largest = max(largest, score);
  Value safe = getSafeMax(b, largest);
  Value sum = arith::MulFOp::create(b, loop.getRegionIterArg(1),
                                    exponentiate(before, safe));
  for (Value score : loaded)
    sum = add(sum, exponentiate(score, safe));
  scf::YieldOp::create(b, ValueRange{largest, sum});
  return {loop.getResult(0), loop.getResult(1)};
}

/// In all lanes, of those of all lanes.
Value SoftmaxBuilder::reduce(Value value,
                             function_ref<Value(Value, Value)> combine) {
  for (int32_t distance = kLanes / 2; distance > 0; distance /= 2) {
    Value other = gpu::ShuffleOp::create(b, value, distance, kLanes,
                                         gpu::ShuffleMode::XOR)
                      .getShuffleResult();
    value = combine(value, other);
  }
  return value;
}

SoftmaxBuilder::Sums SoftmaxBuilder::mergeLanes(Sums own) {
  Value largest = reduce(own.max, [&](Value x, Value y) { return max(x, y); });
  Value sum = arith::MulFOp::create(
      b, own.sum, exponentiate(own.max, getSafeMax(b, largest)));
  return {largest, reduce(sum, [&](Value x, Value y) { return add(x, y); })};
}

/// One more score of the row, without a column.
SoftmaxBuilder::Sums SoftmaxBuilder::addSink(Sums row) {
  Value logits = frame.findTensor(operand::kSinkLogits);
  if (!logits)
    return row;
  Value logit = memref::LoadOp::create(b, logits, head);
  SinkWeights weights = weighSink(b, row.max, /*scale=*/1, logit);
  return {weights.max,
          math::FmaOp::create(b, row.sum, weights.row, weights.sink)};
}

void SoftmaxBuilder::writeProbabilities(Value max, Value inverse) {
  Value safe = getSafeMax(b, max);
  scf::ForOp loop = buildWalk({});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value column = loop.getInductionVar();
  SmallVector<Value> weights;
  for (Value score : loadScores(column))
    weights.push_back(
        arith::MulFOp::create(b, exponentiate(score, safe), inverse));
  Value p = vector::FromElementsOp::create(
      b, VectorType::get({kColumns}, b.getF32Type()), weights);
  p = arith::TruncFOp::create(b, VectorType::get({kColumns}, half), p);
  p = vector::BitCastOp::create(
      b, VectorType::get({kColumns / 2}, b.getF32Type()), p);
  Value pair = arith::DivUIOp::create(b, column, index(2));
  vector::StoreOp::create(b, p, pairs, ValueRange{batch, head, query, pair},
                          /*nontemporal=*/false,
                          llvm::MaybeAlign(kColumns / 2 * sizeof(float)));
}

void SoftmaxBuilder::writeLse(Sums row, Value isEmpty) {
  Value lse = frame.findTensor(operand::kLse);
  if (!lse)
    return;
  LogSumExp sum = getLogSumExp(b, row.max, /*scale=*/1, row.sum, isEmpty);
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane, index(0));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(
      scf::IfOp::create(b, isFirst, /*withElseRegion=*/false).thenBlock());
  SmallVector<Value> place{batch, head, query};
  memref::StoreOp::create(b, sum.value, lse, place);
  if (lseRest)
    memref::StoreOp::create(b, sum.getRest(b), lseRest, place);
}

void SoftmaxBuilder::build() {
  {
    OpBuilder::InsertionGuard guard(b);
    findRow();
    Sums row = addSink(mergeLanes(addColumns()));
    // The largest score has weight 1: only an empty row has a sum of 0.
    Value isEmpty = isEqual(row.sum, 0);
    Value inverse =
        arith::SelectOp::create(b, isEmpty, constant(0),
                                arith::DivFOp::create(b, constant(1), row.sum));
    writeProbabilities(row.max, inverse);
    writeLse(row, isEmpty);
  }
  gpu::ReturnOp::create(b);
}

static SmallVector<KernelArgument>
listArguments(Operation *kernel, const AttentionSignature &signature) {
  return signature.listArguments(
      getWorkspaceUse(kernel),
      [](const KernelTensor &tensor) {
        return tensor.name == operand::kLse ||
               AttentionSignature::getUse(tensor) == OperandInfo::Use::Sink;
      },
      [](Dim dim) {
        return dim == Dim::Batch || dim == Dim::HeadsQ || dim == Dim::SeqlenQ ||
               dim == Dim::SeqlenK;
      });
}

namespace {
struct SoftmaxKernel final
    : AttentionKernelOpInterface::ExternalModel<SoftmaxKernel,
                                                SoftmaxKernelOp> {
  Kernel getKernel(Operation *kernel,
                   const AttentionSignature &signature) const {
    Type half =
        kernel->getParentOfType<AttentionOp>().getQueryType().getElementType();
    SizeFormula grid =
        SizeFormula(Dim::SeqlenQ).ceilDiv(kRows) * Dim::HeadsQ * Dim::Batch;
    return {"_softmax",
            listArguments(kernel, signature),
            {grid, kThreads},
            /*schedule=*/nullptr,
            [=, &signature](KernelFrame &frame) {
              AttentionWorkspace workspace(frame, signature);
              SoftmaxBuilder(frame, workspace, half).build();
            }};
  }
};
} // namespace

void mlir::flashcore::attachSoftmaxKernel(MLIRContext *context) {
  SoftmaxKernelOp::attachInterface<SoftmaxKernel>(*context);
}
