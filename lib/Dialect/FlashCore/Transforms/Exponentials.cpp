//===- Exponentials.cpp - Exponentials of differences ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Exponentials.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::flashcore;

Value mlir::flashcore::getConstantLike(ImplicitLocOpBuilder &b, float value,
                                       Value like) {
  TypedAttr attr = b.getF32FloatAttr(value);
  if (auto type = dyn_cast<VectorType>(like.getType()))
    attr = DenseElementsAttr::get(type, attr);
  return arith::ConstantOp::create(b, attr);
}

Value mlir::flashcore::getSafeMax(ImplicitLocOpBuilder &b, Value max) {
  Value isEmpty = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, max,
                                        getConstantLike(b, kMinusInf, max));
  return arith::SelectOp::create(b, isEmpty, getConstantLike(b, 0, max), max);
}

Value mlir::flashcore::exponentiateDifference(ImplicitLocOpBuilder &b, Value x,
                                              Value y, float scale) {
  Value difference = arith::SubFOp::create(b, x, y);
  return math::Exp2Op::create(
      b, arith::MulFOp::create(b, difference, getConstantLike(b, scale, x)));
}

SinkWeights mlir::flashcore::weighSink(ImplicitLocOpBuilder &b, Value rowMax,
                                       float scale, Value logit, Value rest) {
  auto constant = [&](float value) {
    return getConstantLike(b, value, rowMax);
  };
  Value zero = constant(0);
  // logit - scale * max, rounded once. A sink of -inf weighs nothing, also
  // where the row has no maximum.
  Value above = math::FmaOp::create(b, rowMax, constant(-scale), logit);
  if (rest)
    above = arith::SubFOp::create(b, above, rest);
  Value isNone = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, logit,
                                       constant(kMinusInf));
  above = arith::SelectOp::create(b, isNone, logit, above);
  Value isMax =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, above, zero);
  auto exponentiate = [&](Value exponent, float sign) -> Value {
    return math::Exp2Op::create(
        b, arith::MulFOp::create(b, exponent,
                                 constant(sign * llvm::numbers::log2ef)));
  };
  Value scaled = arith::MulFOp::create(b, rowMax, constant(scale));
  Value left = rest ? rest : zero;
  if (scale != 1)
    left = math::FmaOp::create(b, rowMax, constant(scale),
                               arith::NegFOp::create(b, scaled));
  return {arith::SelectOp::create(b, isMax, logit, scaled),
          arith::SelectOp::create(b, isMax, zero, left),
          exponentiate(arith::SelectOp::create(b, isMax, above, zero), -1),
          exponentiate(arith::SelectOp::create(b, isMax, zero, above), 1)};
}

LogSumExp mlir::flashcore::getLogSumExp(ImplicitLocOpBuilder &b, Value rowMax,
                                        float scale, Value sum, Value isEmpty,
                                        Value rest) {
  // ln(x) = log2(x) * ln(2)
  Value log =
      arith::MulFOp::create(b, math::Log2Op::create(b, sum),
                            getConstantLike(b, llvm::numbers::ln2f, sum));
  if (rest)
    log = arith::AddFOp::create(b, log, rest);
  Value lse =
      math::FmaOp::create(b, rowMax, getConstantLike(b, scale, rowMax), log);
  lse = arith::SelectOp::create(b, isEmpty, getConstantLike(b, kMinusInf, sum),
                                lse);
  return {lse, rowMax, log, isEmpty, scale};
}

/// Of the product by an fma, of the sum as Knuth's TwoSum has it.
Value LogSumExp::getRest(ImplicitLocOpBuilder &b) const {
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddFOp::create(b, x, y);
  };
  auto subtract = [&](Value x, Value y) -> Value {
    return arith::SubFOp::create(b, x, y);
  };
  Value factor = getConstantLike(b, scale, rowMax);
  Value product = arith::MulFOp::create(b, rowMax, factor);
  Value ofProduct =
      math::FmaOp::create(b, rowMax, factor, arith::NegFOp::create(b, product));
  Value added = subtract(value, product);
  Value ofSum =
      add(subtract(product, subtract(value, added)), subtract(logOfSum, added));
  return arith::SelectOp::create(b, isEmpty, getConstantLike(b, 0, rowMax),
                                 add(ofProduct, ofSum));
}
