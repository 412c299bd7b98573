//===- MergeOp.cpp - Constraints of flashcore.merge -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"

using namespace mlir;
using namespace mlir::flashcore;

MutableOperandRange MergeOp::getDpsInitsMutable() {
  // Output and lse are neighbours in the operand list.
  return {*this, getOutputMutable().getOperandNumber(), getLse() ? 2u : 1u};
}

SmallVector<OperandAccess> MergeOp::getAccesses() {
  using Kind = OperandAccess::Kind;
  return {{"output", getOutput(), Kind::Written},
          {"lse", getLse(), Kind::Written},
          {"outputs", getOutputs(), Kind::Read},
          {"lses", getLses(), Kind::Read},
          {"sink_logits", getSinkLogits(), Kind::Read}};
}

void MergeOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (hasPureBufferSemantics())
    getEffectsOfMemrefs(*this, effects);
}

LogicalResult MergeOp::verify() {
  // Sizes are those of the output, and the number of parts that of outputs.
  auto outputs = cast<ShapedType>(getOutputs().getType());
  constexpr int64_t rank = 4;
  SmallVector<int64_t> whole(rank, ShapedType::kDynamic);
  if (getOutputType().getRank() == rank)
    whole.assign(getOutputType().getShape().begin(),
                 getOutputType().getShape().end());
  SmallVector<int64_t> parts{outputs.getRank() == rank + 1
                                 ? outputs.getDimSize(0)
                                 : ShapedType::kDynamic};
  parts.append(whole);
  ArrayRef<int64_t> rows = ArrayRef(whole).drop_back();
  using Elements = OperandShape::Elements;
  // M1 to M4, M6
  OperandShape operands[] = {
      {"output", "(batch, heads, seqlen_q, head_dim_v)", getOutput(), whole,
       Elements::Float},
      {"outputs", "(parts, batch, heads, seqlen_q, head_dim_v)", getOutputs(),
       parts, Elements::Float},
      {"lses", "(parts, batch, heads, seqlen_q)", getLses(),
       llvm::to_vector(ArrayRef(parts).drop_back()), Elements::F32},
      {"sink_logits", "(heads)", getSinkLogits(), {whole[1]}, Elements::F32},
      {"lse", "(batch, heads, seqlen_q)", getLse(), llvm::to_vector(rows),
       Elements::F32}};
  if (failed(verifyOperands(*this, operands)))
    return failure();
  // M3
  if (failed(verifyStaticPositive(*this, "head_dim_v", getHeadDimV())))
    return failure();
  // M5
  if (failed(verifyBufferSemantics(*this)))
    return failure();
  // M7
  return checkOutputsApart(*this, std::equal_to<>());
}
