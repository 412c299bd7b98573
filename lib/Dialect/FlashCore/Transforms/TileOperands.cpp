//===- TileOperands.cpp - What kernels hand to their tiles ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileOperands.h"
#include "ScoreRegion.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

Value mlir::flashcore::sliceRows(ImplicitLocOpBuilder &b, Value tensor,
                                 OpFoldResult entry, Value head,
                                 OpFoldResult row, OpFoldResult rows) {
  auto type = cast<MemRefType>(tensor.getType());
  OpFoldResult one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> offsets{entry, head, row}, shape{one, one, rows};
  SmallVector<OpFoldResult> strides(type.getRank(), one);
  if (type.getRank() == 4) {
    offsets.push_back(zero);
    shape.push_back(memref::getMixedSize(b, b.getLoc(), tensor, 3));
  }
  return memref::SubViewOp::create(b, tensor, offsets, shape, strides);
}

OpFoldResult mlir::flashcore::countRows(ImplicitLocOpBuilder &b, int64_t warpM,
                                        int64_t blockM, OpFoldResult row,
                                        OpFoldResult seqlen) {
  auto known = getConstantIntValue(seqlen);
  if (known && *known % blockM == 0)
    return b.getIndexAttr(warpM);
  AffineMap map =
      AffineMap::get(2, 0,
                     {b.getAffineConstantExpr(warpM),
                      b.getAffineDimExpr(0) - b.getAffineDimExpr(1)},
                     b.getContext());
  auto asValue = [&](OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  };
  Value left = asValue(
      affine::makeComposedFoldedAffineMin(b, b.getLoc(), map, {seqlen, row}));
  return arith::MaxSIOp::create(b, left, asValue(b.getIndexAttr(0)))
      .getResult();
}

SmallVector<Value> mlir::flashcore::getCaptured(KernelFrame &frame,
                                                AttentionOp op) {
  SmallVector<Value> captured;
  for (unsigned i = 0, e = op.getCapturedTensors().size(); i < e; ++i)
    captured.push_back(frame.getTensor(getCaptureName(i)));
  return captured;
}
