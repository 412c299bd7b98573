//===- AttentionDropout.cpp - What of P meets no V ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A dropout sets elements of P to 0 on their way to P V, behind the sums of
// rows. Which ones is a function of coordinates, so nothing is kept from tile
// to tile; what the others are divided by is a factor of O.
//
//===----------------------------------------------------------------------===//

#include "AttentionExpander.h"
#include "flashcore/Dialect/FCGPU/IR/Philox.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

/// The `d` of the op's description, in front of the loop.
void AttentionExpander::buildStream() {
  if (!attention.getRng())
    return;
  SmallVector<Value> words;
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(memref::LoadOp::create(
        b, attention.getRng(), ValueRange{asValue(b.getIndexAttr(i))}));
  auto asWord = [&](Value coordinate) -> Value {
    return arith::IndexCastOp::create(b, b.getI32Type(), coordinate);
  };
  fcgpu::PhiloxWords counter{words[2], words[3], asWord(place.batch),
                             asWord(place.head)};
  llvm::append_range(stream,
                     fcgpu::buildPhilox(b, counter, {words[0], words[1]}));
}

/// P of the tile from `key` on, with 0 for the elements that are dropped.
Value AttentionExpander::dropElements(Value p, Value key) {
  if (stream.empty())
    return p;
  return fcgpu::DropoutOp::create(
      b, p.getType(), p, place.firstQuery, key, stream,
      b.getI64IntegerAttr(attention.getDropoutThreshold()));
}

/// What rows of O are multiplied with, for `factors` (null for 1) and the share
/// of elements that are left.
Value AttentionExpander::scaleKept(Value factors, int64_t rows) {
  double dropped =
      static_cast<double>(attention.getDropoutThreshold()) * 0x1p-16;
  if (factors && dropped == 0)
    return factors;
  Value scale = b.constant(static_cast<float>(1 / (1 - dropped)), {rows});
  return factors ? arith::MulFOp::create(b, factors, scale).getResult() : scale;
}
