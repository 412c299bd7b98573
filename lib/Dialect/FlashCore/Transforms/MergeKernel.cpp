//===- MergeKernel.cpp - Phase 2: merging partial results -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second kernel of an attention whose keys are split over blocks
// (Flash-Decoding, Dao et al. 2023). A block merges one query row; a thread
// owns four columns of it in all splits, so every sum has one order.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/RowAccess.h"
#include "flashcore/Dialect/FlashCore/Transforms/AttentionKernels.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::flashcore;

namespace {
constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
/// Columns of a thread: 16 bytes of a partial O.
constexpr int64_t kColumns = 4;
/// Splits whose loads of an LSE, and of 16 bytes of O, are under way at the
/// same time: registers for more than the usual number of splits. Each has an
/// address of its own where the batch is known at run time only.
struct Unroll {
  int64_t lse, output;
};
constexpr Unroll kUnroll = {64, 32}, kUnrollOfOpenBatch = {32, 16};
/// The same where their number is known at run time only: the last round may
/// load a part again.
constexpr Unroll kUnrollOfOpenParts = {32, 16};

class MergeBuilder {
public:
  MergeBuilder(ImplicitLocOpBuilder &b, KernelFrame &frame,
               OpFoldResult numParts, bool isInvariant)
      : b(b), frame(frame), numParts(numParts), isInvariant(isInvariant),
        partials(getPartialResults(frame, numParts)) {}

  /// `lse`, `sinkLogits` and `ends`, of sequences back to back, may be null.
  void build(Value output, Value lse, Value sinkLogits, Value ends);

private:
  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Value constant(float value) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
  }
  bool isOpen() const { return !getConstantIntValue(numParts); }
  Value getLastPart() {
    return getValueOrCreateConstantIndexOp(
        b, b.getLoc(),
        affine::makeComposedFoldedAffineApply(
            b, b.getLoc(), b.getAffineDimExpr(0) - 1, {numParts}));
  }
  Value isEqual(Value x, float y) {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, constant(y));
  }
  void findRow();
  Value isOfSequence(Value ends);
  /// Where a partial result of the batch entry is.
  Value getEntry(Value split);
  Value loadLse(Value split);
  Value loadOutput(Value split);
  /// The last values of what `next` makes from a split and the values before.
  SmallVector<Value>
  reduceSplits(ArrayRef<Value> init, int64_t unroll,
               function_ref<SmallVector<Value>(Value, ValueRange)> next);
  void writeOutput(Value output, Value acc, Value factor);
  void writeLse(Value lse, Value value);
  Value getExponent(Value partLse, Value offset);
  Value getZeros();

  ImplicitLocOpBuilder &b;
  KernelFrame &frame;
  OpFoldResult numParts;
  bool isInvariant;
  PartialResults partials;
  Value batch, head, query, column;
};
} // namespace

PartialResults mlir::flashcore::getPartialResults(KernelFrame &frame,
                                                  OpFoldResult numParts) {
  OpFoldResult entries = frame.multiply(frame.getSize(Dim::Batch), numParts);
  SmallVector<OpFoldResult> shape{entries, frame.getSize(Dim::HeadsQ),
                                  frame.getSize(Dim::SeqlenQ)};
  OpFoldResult rows =
      frame.multiply(frame.multiply(shape[0], shape[1]), shape[2]);
  OpFoldResult columns = frame.getBuilder().getIndexAttr(fcgpu::getTileColumns(
      *getConstantIntValue(frame.getSize(Dim::HeadDimV))));
  OpFoldResult end = frame.multiply(rows, columns);
  Value lse = frame.viewWorkspace(end, shape);
  shape.push_back(columns);
  OpFoldResult begin = frame.getBuilder().getIndexAttr(0);
  return {frame.viewWorkspace(begin, shape), lse};
}

void MergeBuilder::findRow() {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  SmallVector<OpFoldResult> basis{frame.getSize(Dim::Batch),
                                  frame.getSize(Dim::HeadsQ),
                                  frame.getSize(Dim::SeqlenQ)};
  auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
  batch = ids.getResult(0);
  head = ids.getResult(1);
  query = ids.getResult(2);
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  column = arith::MulIOp::create(b, thread, index(kColumns));
}

/// Rows in front of the first sequence and behind the last are nobody's, and
/// have no partial results.
Value MergeBuilder::isOfSequence(Value ends) {
  Value last = getValueOrCreateConstantIndexOp(
      b, b.getLoc(),
      affine::makeComposedFoldedAffineApply(b, b.getLoc(),
                                            b.getAffineDimExpr(0) - 1,
                                            {frame.getSize(Dim::CuSeqlens)}));
  auto load = [&](Value place) -> Value {
    return arith::IndexCastOp::create(b, b.getIndexType(),
                                      memref::LoadOp::create(b, ends, place));
  };
  Value begins = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, query,
                                       load(index(0)));
  Value goesOn =
      arith::CmpIOp::create(b, arith::CmpIPredicate::slt, query, load(last));
  return arith::AndIOp::create(b, begins, goesOn);
}

Value MergeBuilder::getEntry(Value split) {
  if (isOpen())
    split = arith::MinSIOp::create(b, split, getLastPart());
  Value numBatch =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), frame.getSize(Dim::Batch));
  return arith::AddIOp::create(b, arith::MulIOp::create(b, split, numBatch),
                               batch);
}

Value MergeBuilder::loadLse(Value split) {
  Value lse = memref::LoadOp::create(b, partials.lse,
                                     ValueRange{getEntry(split), head, query});
  if (!isOpen())
    return lse;
  // One that is not there holds nothing.
  Value isThere =
      arith::CmpIOp::create(b, arith::CmpIPredicate::sle, split, getLastPart());
  return arith::SelectOp::create(b, isThere, lse, constant(kMinusInf));
}

Value MergeBuilder::loadOutput(Value split) {
  auto type = VectorType::get({kColumns}, b.getF32Type());
  return vector::LoadOp::create(
      b, type, partials.output,
      ValueRange{getEntry(split), head, query, column},
      /*nontemporal=*/false, llvm::MaybeAlign(16));
}

SmallVector<Value> MergeBuilder::reduceSplits(
    ArrayRef<Value> init, int64_t unroll,
    function_ref<SmallVector<Value>(Value, ValueRange)> next) {
  SmallVector<Value> values(init);
  AffineExpr d0 = b.getAffineDimExpr(0);
  int64_t known = getConstantIntValue(numParts).value_or(0);
  OpFoldResult numRounds =
      isOpen() ? affine::makeComposedFoldedAffineApply(
                     b, b.getLoc(), d0.ceilDiv(unroll), {numParts})
               : OpFoldResult(b.getIndexAttr(known / unroll));
  if (getConstantIntValue(numRounds) != 0) {
    auto loop = scf::ForOp::create(
        b, index(0), getValueOrCreateConstantIndexOp(b, b.getLoc(), numRounds),
        index(1), values);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    values = llvm::to_vector_of<Value>(loop.getRegionIterArgs());
    Value first =
        arith::MulIOp::create(b, loop.getInductionVar(), index(unroll));
    for (int64_t i = 0; i < unroll; ++i)
      values = next(arith::AddIOp::create(b, first, index(i)), values);
    scf::YieldOp::create(b, values);
    values = llvm::to_vector_of<Value>(loop.getResults());
  }
  for (int64_t split = known / unroll * unroll; split < known; ++split)
    values = next(index(split), values);
  return values;
}

void MergeBuilder::writeOutput(Value output, Value acc, Value factor) {
  auto type = cast<VectorType>(acc.getType());
  Value factors = vector::BroadcastOp::create(b, type, factor);
  Value o = isInvariant
                ? math::FmaOp::create(b, acc, factors, getZeros()).getResult()
                : arith::MulFOp::create(b, acc, factors).getResult();
  Type element = cast<MemRefType>(output.getType()).getElementType();
  o = arith::TruncFOp::create(b, type.clone(element), o);
  // The columns of a thread are aligned as its first one is, or as rows are.
  int64_t elementBytes = element.getIntOrFloatBitWidth() / 8;
  int64_t width = std::min(kColumns, getAccessBytes(output) / elementBytes);
  int64_t numColumns = cast<MemRefType>(output.getType()).getDimSize(3);
  for (int64_t first = 0; first < kColumns; first += width) {
    Value part = o;
    if (width < kColumns)
      part = vector::ShuffleOp::create(
          b, o, o, llvm::to_vector(llvm::seq(first, first + width)));
    Value place = b.createOrFold<arith::AddIOp>(column, index(first));
    OpBuilder::InsertionGuard guard(b);
    if (numColumns != fcgpu::getTileColumns(numColumns)) {
      Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, place,
                                           index(numColumns));
      b.setInsertionPointToStart(
          scf::IfOp::create(b, exists, /*withElseRegion=*/false).thenBlock());
    }
    vector::StoreOp::create(
        b, part, output, ValueRange{batch, head, query, place},
        /*nontemporal=*/false, llvm::MaybeAlign(width * elementBytes));
  }
}

void MergeBuilder::writeLse(Value lse, Value value) {
  Value isFirst =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, column, index(0));
  auto ifOp = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  memref::StoreOp::create(b, value, lse, ValueRange{batch, head, query});
}

/// log2(e) * partLse + offset. That of the largest part is 0 if invariant, so
/// that a single part is the result.
Value MergeBuilder::getExponent(Value partLse, Value offset) {
  Value log2e = constant(llvm::numbers::log2ef);
  if (!isInvariant)
    return math::FmaOp::create(b, partLse, log2e, offset);
  return arith::AddFOp::create(b, arith::MulFOp::create(b, partLse, log2e),
                               offset);
}

Value MergeBuilder::getZeros() {
  auto type = VectorType::get({kColumns}, b.getF32Type());
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, b.getF32FloatAttr(0).getValue()));
}

void MergeBuilder::build(Value output, Value lse, Value sinkLogits,
                         Value ends) {
  OpBuilder::InsertionGuard guard(b);
  findRow();
  if (ends)
    b.setInsertionPointToStart(
        scf::IfOp::create(b, isOfSequence(ends), /*withElseRegion=*/false)
            .thenBlock());
  // A sink is one more part, of a single score and without a row of V.
  Value sink = sinkLogits
                   ? memref::LoadOp::create(b, sinkLogits, head).getResult()
                   : constant(kMinusInf);
  Unroll unroll = getConstantIntValue(frame.getSize(Dim::Batch))
                      ? kUnroll
                      : kUnrollOfOpenBatch;
  if (isOpen())
    unroll = kUnrollOfOpenParts;
  Value max =
      reduceSplits({sink}, unroll.lse, [&](Value split, ValueRange last) {
        return SmallVector<Value>{
            arith::MaxNumFOp::create(b, last.front(), loadLse(split))};
      }).front();
  // A row that sees no key has -inf everywhere; -inf - -inf is not computed.
  Value isEmpty = isEqual(max, kMinusInf);
  Value offset = arith::MulFOp::create(
      b, arith::SelectOp::create(b, isEmpty, constant(0), max),
      constant(-llvm::numbers::log2ef));
  auto type = VectorType::get({kColumns}, b.getF32Type());
  Value zeros = getZeros();
  auto getWeight = [&](Value partLse) -> Value {
    return math::Exp2Op::create(b, getExponent(partLse, offset));
  };
  Value start = sinkLogits ? getWeight(sink) : constant(0);
  SmallVector<Value> sums = reduceSplits(
      {start, zeros}, unroll.output, [&](Value split, ValueRange last) {
        Value weight = getWeight(loadLse(split));
        Value weights = vector::BroadcastOp::create(b, type, weight);
        return SmallVector<Value>{
            arith::AddFOp::create(b, last[0], weight),
            math::FmaOp::create(b, loadOutput(split), weights, last[1])};
      });
  // The largest part has weight 1, so only an empty row has a sum of 0.
  Value inverse = arith::DivFOp::create(b, constant(1), sums[0]);
  inverse = arith::SelectOp::create(b, isEmpty, constant(0), inverse);
  writeOutput(output, sums[1], inverse);
  if (!lse)
    return;
  Value log = arith::MulFOp::create(b, math::Log2Op::create(b, sums[0]),
                                    constant(llvm::numbers::ln2f));
  writeLse(lse, arith::SelectOp::create(b, isEmpty, constant(kMinusInf),
                                        arith::AddFOp::create(b, max, log)));
}

gpu::GPUFuncOp
mlir::flashcore::buildMergeKernel(ImplicitLocOpBuilder &b,
                                  const AttentionSignature &signature,
                                  StringRef name, bool isInvariant) {
  int64_t numThreads = signature.getPartialColumns() / kColumns;
  KernelFrame frame(b, signature, signature.getMergeArguments(), name,
                    numThreads,
                    signature.toMergeDictionary(b.getContext(), numThreads));
  auto find = [&](StringRef name) {
    bool isThere =
        llvm::any_of(signature.getTensors(), [&](const KernelTensor &tensor) {
          return tensor.name == name;
        });
    return isThere ? frame.getTensor(name) : Value();
  };
  OpFoldResult numParts = signature.getKeyParts().getNumber(
      b, [&](Dim dim) { return frame.getSize(dim); });
  MergeBuilder(b, frame, numParts, isInvariant)
      .build(frame.getTensor("o"), find("lse"), find("sink_logits"),
             find("cu_seqlens_q"));
  gpu::ReturnOp::create(b);
  return frame.getFunc();
}
