//===- TileBuilder.cpp - Ops on the tiles of a warp -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the expansion of an attention tile and the policies of its rows share.
//
//===----------------------------------------------------------------------===//

#include "RowPolicies.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::flashcore;

static fcgpu::ScheduleAttr getSchedule(TileOpInterface op) {
  return op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
}

/// What the rings of tiles do not say of their products.
fcgpu::ProductAttr
TileBuilder::getProduct(const fcgpu::ScheduleChoice &choice) const {
  return choice.hasPlainTiles()
             ? fcgpu::ProductAttr::get(getContext(), choice.product,
                                       choice.hasWideTiles())
             : fcgpu::ProductAttr();
}

/// Rows of V, or where there are none those of K.
static MemRefType getValueType(TileOpInterface op) {
  Value value = op.findValue();
  return cast<MemRefType>((value ? value : op.findKey()).getType());
}

TileBuilder::TileBuilder(TileOpInterface op, float scoreScale)
    : ImplicitLocOpBuilder(op.getLoc(), op), warpM(getSchedule(op).getWarpM()),
      blockN(getSchedule(op).getBlockN()),
      columnsV(fcgpu::getTileColumns(getValueType(op).getShape().back())),
      half(getValueType(op).getElementType()),
      isInvariant(getSchedule(op).isInvariant()), scoreScale(scoreScale),
      product(getProduct(getSchedule(op).getChoice())),
      sumsInFragments(getSchedule(op).getChoice().sumsInFragments()) {}

Value TileBuilder::constant(float value, ArrayRef<int64_t> shape) {
  auto type = VectorType::get(shape, getF32Type());
  return arith::ConstantOp::create(
      *this, DenseElementsAttr::get(type, getF32FloatAttr(value).getValue()));
}

Value TileBuilder::broadcastRows(Value rows, int64_t cols) {
  int64_t numRows = cast<VectorType>(rows.getType()).getDimSize(0);
  Value column = vector::ShapeCastOp::create(
      *this, VectorType::get({numRows, 1}, getF32Type()), rows);
  return vector::BroadcastOp::create(
      *this, VectorType::get({numRows, cols}, getF32Type()), column);
}

Value TileBuilder::groupColumns(Value tile) {
  Type element = cast<VectorType>(tile.getType()).getElementType();
  return vector::ShapeCastOp::create(
      *this, VectorType::get({warpM, blockN / 8, 8}, element), tile);
}

Value TileBuilder::reduceMax(Value scores, Value init) {
  return vector::MultiDimReductionOp::create(*this, scores, init,
                                             ArrayRef<bool>{false, true},
                                             vector::CombiningKind::MAXNUMF);
}

Value TileBuilder::contract(Value lhs, Value rhs, Value acc,
                            bool transposedRhs) {
  AffineExpr m, n, k;
  bindDims(getContext(), m, n, k);
  auto map = [&](AffineExpr x, AffineExpr y) {
    return AffineMapAttr::get(AffineMap::get(3, 0, {x, y}, getContext()));
  };
  auto parallel = vector::IteratorTypeAttr::get(getContext(),
                                                vector::IteratorType::parallel);
  auto reduction = vector::IteratorTypeAttr::get(
      getContext(), vector::IteratorType::reduction);
  SmallVector<Attribute> maps{map(m, k), transposedRhs ? map(n, k) : map(k, n),
                              map(m, n)};
  SmallVector<Attribute> iterators{parallel, parallel, reduction};
  auto op = vector::ContractionOp::create(
      *this, lhs, rhs, acc, getArrayAttr(maps), getArrayAttr(iterators));
  if (product)
    op->setAttr(fcgpu::kProductAttrName, product);
  // Sums over the keys, of which there are several products.
  if (sumsInFragments && !transposedRhs)
    op->setAttr(fcgpu::kHomeAttrName, fcgpu::FragmentsAttr::get(getContext()));
  return op;
}

Value TileBuilder::exponentiate(Value scores, Value addend) {
  Value scale = constant(getExponentScale(), {warpM, blockN});
  return math::Exp2Op::create(
      *this, math::FmaOp::create(*this, scores, scale, addend));
}

Value TileBuilder::isAnyTrue(Value tile, Value orElse) {
  if (!orElse)
    orElse = arith::ConstantOp::create(*this, getBoolAttr(false));
  SmallVector<bool> all(cast<VectorType>(tile.getType()).getRank(), true);
  return vector::MultiDimReductionOp::create(*this, tile, orElse, all,
                                             vector::CombiningKind::OR);
}

SmallVector<Value>
TileBuilder::branch(Value condition, function_ref<SmallVector<Value>()> first,
                    function_ref<SmallVector<Value>()> second) {
  auto build = [&](function_ref<SmallVector<Value>()> side) {
    return [this, side](OpBuilder &builder, Location loc) {
      OpBuilder::InsertionGuard guard(*this);
      restoreInsertionPoint(builder.saveInsertionPoint());
      SmallVector<Value> values = side();
      scf::YieldOp::create(*this, loc, values);
    };
  };
  auto ifOp = scf::IfOp::create(*this, condition, build(first), build(second));
  return ifOp.getResults();
}

Value TileBuilder::getAddend(Value rowMax) {
  return arith::MulFOp::create(
      *this, rowMax, getConstantLike(*this, -getExponentScale(), rowMax));
}

Value TileBuilder::areFar(Value addends) {
  return arith::CmpFOp::create(*this, arith::CmpFPredicate::OGT,
                               math::AbsFOp::create(*this, addends),
                               getConstantLike(*this, kFarthest, addends));
}

RowReference TileBuilder::getReference(Value rowMax) {
  Value zero = getConstantLike(*this, 0, rowMax);
  Value addend = getAddend(rowMax);
  Value isFar = areFar(addend);
  return {isFar, arith::SelectOp::create(*this, isFar, rowMax, zero),
          arith::SelectOp::create(*this, isFar, zero, addend)};
}

Value TileBuilder::getFactors(const RowReference &from,
                              const RowReference &to) {
  Value difference =
      arith::SubFOp::create(*this, from.subtrahend, to.subtrahend);
  Value scale = getConstantLike(*this, getExponentScale(), difference);
  return math::Exp2Op::create(
      *this, math::FmaOp::create(
                 *this, difference, scale,
                 arith::SubFOp::create(*this, to.addend, from.addend)));
}

Value TileBuilder::subtract(Value scores, const RowReference &reference) {
  return arith::SubFOp::create(
      *this, scores,
      broadcastRows(reference.subtrahend,
                    cast<VectorType>(scores.getType()).getDimSize(1)));
}
