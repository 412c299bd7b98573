//===- AttentionOp.cpp - flashcore.attention ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builder, effects and interfaces of flashcore.attention.
//
//===----------------------------------------------------------------------===//

#include "OperandChecks.h"
#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::flashcore;

#define GET_OP_CLASSES
#include "flashcore/Dialect/FlashCore/IR/FlashCoreOps.cpp.inc"

void AttentionOp::build(OpBuilder &, OperationState &state, Value query,
                        Value key, Value value, Value output, Value lse) {
  SmallVector<Type, 2> results;
  for (Value init : {output, lse})
    if (init && isa<TensorType>(init.getType()))
      results.push_back(init.getType());
  // Of each row an operand or none; the attributes have setters.
  auto &sizes = state.getOrAddProperties<Properties>().operandSegmentSizes;
  auto given = [&](const OperandInfo &row) -> Value {
    return llvm::StringSwitch<Value>(row.name)
        .Case("query", query)
        .Case("key", key)
        .Case("value", value)
        .Case("output", output)
        .Case("lse", lse)
        .Default(Value());
  };
  for (auto [size, row] : llvm::zip(sizes, getOperandTable())) {
    Value operand = given(row);
    size = operand ? 1 : 0;
    if (operand)
      state.addOperands(operand);
  }
  for (unsigned region = 0; region < 2; ++region)
    state.addRegion();
  state.addTypes(results);
}

MutableOperandRange AttentionOp::getDpsInitsMutable() {
  // Output, lse and scores are neighbours in the operand list.
  unsigned first = getOutputMutable().getOperandNumber();
  unsigned count = 1;
  for (Value init : {getLse(), getScores()})
    count += init ? 1 : 0;
  return MutableOperandRange(*this, first, count);
}

std::optional<int64_t> AttentionOp::getKnownSeqlen(ShapedType rows) {
  if (rows.isDynamicDim(Seqlen) || getSequsedK() || getCuSeqlensQ() ||
      getPageTable())
    return std::nullopt;
  return rows.getDimSize(Seqlen);
}

float AttentionOp::getEffectiveScale() {
  if (std::optional<APFloat> scale = getSoftmaxScale())
    return scale->convertToFloat();
  return 1.0f / std::sqrt(static_cast<float>(getHeadDim()));
}

int64_t AttentionOp::getDropoutThreshold() {
  return flashcore::getDropoutThreshold(getDropout());
}

SmallVector<OperandAccess> AttentionOp::getAccesses() {
  using Kind = OperandAccess::Kind;
  auto getKind = [&](const OperandInfo &row) {
    if (row.role == OperandInfo::Role::Output)
      return Kind::Written;
    return row.role == OperandInfo::Role::Cache && getKNew() ? Kind::Updated
                                                             : Kind::Read;
  };
  // Of two that are written, messages name the first.
  SmallVector<OperandAccess> accesses;
  for (Kind kind : {Kind::Written, Kind::Updated, Kind::Read})
    for (auto [row, value] : listOperands(*this))
      if (getKind(row) == kind)
        accesses.push_back({row.name, value, kind});
  for (Value tensor : getCapturedTensors())
    accesses.push_back({"a tensor that a region reads", tensor, Kind::Read});
  return accesses;
}

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!hasPureBufferSemantics())
    return;
  getEffectsOfMemrefs(*this, effects);
  if (getKNew())
    for (OpOperand *operand : {&getKeyMutable(), &getValueMutable()})
      effects.emplace_back(MemoryEffects::Write::get(), operand);
  // Of what a region captures there is no operand to name.
  if (!getCapturedTensors().empty())
    effects.emplace_back(MemoryEffects::Read::get());
}
