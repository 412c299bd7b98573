//===- AttentionWorkspace.cpp - What kernels hand on ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of S and P are row-major, but a tile of P V sees its own as tiles that
// lie next to each other, so that their number of columns is known whatever
// that of the keys is.
//
//===----------------------------------------------------------------------===//

#include "AttentionWorkspace.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::flashcore;

static OpFoldResult apply(ImplicitLocOpBuilder &b, AffineExpr expr,
                          ArrayRef<OpFoldResult> operands) {
  return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
}

SmallVector<OpFoldResult> LseRest::getShape() {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  OpFoldResult row = affine::makeComposedFoldedAffineApply(
      b, b.getLoc(), b.getAffineDimExpr(0).ceilDiv(kRowFloats) * kRowFloats,
      {frame.getSize(Dim::SeqlenQ)});
  return {frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ), row};
}

Value LseRest::view() {
  if (!isKept)
    return Value();
  ImplicitLocOpBuilder &b = frame.getBuilder();
  SmallVector<OpFoldResult> shape = getShape();
  Value rows = frame.viewWorkspace(b.getIndexAttr(0), shape);
  shape.back() = frame.getSize(Dim::SeqlenQ);
  SmallVector<OpFoldResult> begin(shape.size(), b.getIndexAttr(0)),
      strides(shape.size(), b.getIndexAttr(1));
  return memref::SubViewOp::create(b, rows, begin, shape, strides);
}

OpFoldResult LseRest::getEnd() {
  OpFoldResult end = frame.getBuilder().getIndexAttr(isKept);
  if (isKept)
    for (OpFoldResult size : getShape())
      end = frame.multiply(end, size);
  return end;
}

PartialResults
mlir::flashcore::viewPartialResults(KernelFrame &frame,
                                    const AttentionSignature &signature,
                                    ArrayRef<OpFoldResult> axes) {
  Builder &b = frame.getBuilder();
  SmallVector<OpFoldResult> shape(axes);
  shape.append({frame.getSize(Dim::HeadsQ), frame.getSize(Dim::SeqlenQ)});
  OpFoldResult columns = b.getIndexAttr(fcgpu::getTileColumns(
      *getConstantIntValue(frame.getSize(Dim::HeadDimV))));
  OpFoldResult rows = b.getIndexAttr(1);
  for (OpFoldResult size : shape)
    rows = frame.multiply(rows, size);
  OpFoldResult begin = LseRest(frame, signature).getEnd();
  OpFoldResult end = frame.add(begin, frame.multiply(rows, columns));
  Value lse = frame.viewWorkspace(end, shape);
  Value rest = frame.viewWorkspace(frame.add(end, rows), shape);
  shape.push_back(columns);
  return {frame.viewWorkspace(begin, shape), lse, rest};
}

UnfusedWorkspace::UnfusedWorkspace(KernelFrame &frame,
                                   const AttentionSignature &signature)
    : frame(frame), tileKeys(signature.getTileKeys()),
      begin(LseRest(frame, signature).getEnd()) {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  columns = apply(b, b.getAffineDimExpr(0).ceilDiv(tileKeys) * tileKeys,
                  {frame.getSize(Dim::SeqlenK)});
}

OpFoldResult UnfusedWorkspace::countRows() {
  return frame.multiply(
      frame.multiply(frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ)),
      frame.getSize(Dim::SeqlenQ));
}

Value UnfusedWorkspace::viewScores() {
  return frame.viewWorkspace(begin, {frame.getSize(Dim::Batch),
                                     frame.getSize(Dim::HeadsQ),
                                     frame.getSize(Dim::SeqlenQ), columns});
}

Value UnfusedWorkspace::viewPairs() {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  return frame.viewWorkspace(
      frame.add(begin, frame.multiply(countRows(), columns)),
      {frame.getSize(Dim::Batch), frame.getSize(Dim::HeadsQ),
       frame.getSize(Dim::SeqlenQ),
       apply(b, b.getAffineDimExpr(0).floorDiv(2), {columns})});
}

Value UnfusedWorkspace::viewTile(Value batch, Value head, OpFoldResult row,
                                 OpFoldResult rows) {
  ImplicitLocOpBuilder &b = frame.getBuilder();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1),
             d2 = b.getAffineDimExpr(2);
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  OpFoldResult place = apply(b, (d0 * s0 + d1) * s1 + d2,
                             {batch, head, row, frame.getSize(Dim::HeadsQ),
                              frame.getSize(Dim::SeqlenQ)});
  // Behind scores, and what is in front of them, whose floats are two elements
  // each.
  OpFoldResult first =
      frame.add(frame.multiply(begin, b.getIndexAttr(2)),
                apply(b, (d0 + s0 * 2) * s1, {place, countRows(), columns}));
  OpFoldResult one = b.getIndexAttr(1), keys = b.getIndexAttr(tileKeys);
  OpFoldResult tiles = apply(b, d0.floorDiv(tileKeys), {columns});
  return frame.viewWorkspaceOfType(first, {tiles, one, rows, keys},
                                   {keys, keys, columns, one});
}
