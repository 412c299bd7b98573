//===- DeltaOp.cpp - Constraints of flashcore.delta -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"

using namespace mlir;
using namespace mlir::flashcore;

MutableOperandRange DeltaOp::getDpsInitsMutable() { return getDeltaMutable(); }

SmallVector<OperandAccess> DeltaOp::getAccesses() {
  using Kind = OperandAccess::Kind;
  return {{"delta", getDelta(), Kind::Written},
          {"output_gradient", getOutputGradient(), Kind::Read},
          {"output", getOutput(), Kind::Read}};
}

void DeltaOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  getEffectsOfMemrefs(*this, effects);
}

LogicalResult DeltaOp::verify() {
  using Elements = OperandShape::Elements;
  constexpr size_t rank = 4;
  SmallVector<int64_t> rows(rank, ShapedType::kDynamic);
  if (getOutputType().getRank() == rank)
    rows = llvm::to_vector(getOutputType().getShape());
  StringLiteral axes = "(batch, heads, seqlen_q, head_dim_v)";
  // D1, D2, D4
  OperandShape operands[] = {
      {"output", axes, getOutput(), rows, Elements::Float},
      {"output_gradient", axes, getOutputGradient(), rows, Elements::Float},
      {"delta", "(batch, heads, seqlen_q)", getDelta(),
       llvm::to_vector(ArrayRef(rows).drop_back()), Elements::F32}};
  if (failed(verifyOperands(*this, operands)))
    return failure();
  // D2
  if (Type gradient =
          cast<ShapedType>(getOutputGradient().getType()).getElementType();
      gradient != getOutputType().getElementType())
    return emitOpError("expects output_gradient of ")
           << getOutputType().getElementType() << " like output, but got "
           << gradient;
  // D3
  if (failed(verifyStaticPositive(*this, "head_dim_v", getHeadDimV())))
    return failure();
  // D5
  if (failed(verifyBufferSemantics(*this)))
    return failure();
  // D6
  return checkOutputsApart(*this, std::equal_to<>());
}
