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

void MergeOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (hasPureBufferSemantics())
    getEffectsOfMemrefs(*this, effects);
}

namespace {
/// What an operand is, if there is one: its axes and, in `expected`, the sizes
/// that they should have.
struct Operand {
  StringLiteral name, axes;
  Value value;
  SmallVector<int64_t> expected;
  bool hasAnyFloat = false; ///< else of f32
};
} // namespace

static LogicalResult verifyOperand(MergeOp op, const Operand &operand) {
  auto type = cast<ShapedType>(operand.value.getType());
  Type element = type.getElementType();
  // M1, M2
  if (type.getRank() != static_cast<int64_t>(operand.expected.size()))
    return op.emitOpError("expects ")
           << operand.name << " of rank " << operand.expected.size() << " "
           << operand.axes << ", but got " << type;
  if (!element.isF32() &&
      !(operand.hasAnyFloat && (element.isF16() || element.isBF16())))
    return op.emitOpError("expects ")
           << operand.name << " of "
           << (operand.hasAnyFloat ? "f16, bf16 or f32" : "f32") << ", but got "
           << element;
  // M3
  for (auto [want, got] : llvm::zip_equal(operand.expected, type.getShape()))
    if (differ(want, got))
      return op.emitOpError("expects ")
             << operand.name << " shape " << shapeString(operand.expected)
             << ", but got " << shapeString(type.getShape());
  // M4
  if (auto memref = dyn_cast<MemRefType>(type))
    if (failed(verifyLayout(op, operand.name, memref, operand.hasAnyFloat)))
      return failure();
  // M6
  return verifySpan(op, operand.name, type);
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
  Operand operands[] = {
      {"output", "(batch, heads, seqlen_q, head_dim_v)", getOutput(), whole,
       /*hasAnyFloat=*/true},
      {"outputs", "(parts, batch, heads, seqlen_q, head_dim_v)", getOutputs(),
       parts, /*hasAnyFloat=*/true},
      {"lses", "(parts, batch, heads, seqlen_q)", getLses(),
       llvm::to_vector(ArrayRef(parts).drop_back())},
      {"sink_logits", "(heads)", getSinkLogits(), {whole[1]}},
      {"lse", "(batch, heads, seqlen_q)", getLse(), llvm::to_vector(rows)}};
  for (const Operand &operand : operands)
    if (operand.value && failed(verifyOperand(*this, operand)))
      return failure();
  // M3
  if (ShapedType::isDynamic(getHeadDimV()) || getHeadDimV() <= 0)
    return emitOpError("expects a static positive head_dim_v, but got ")
           << extent(getHeadDimV());
  // M5
  if (failed(verifyBufferSemantics(*this)))
    return failure();
  // M7
  return checkOutputsApart(*this, std::equal_to<>());
}
