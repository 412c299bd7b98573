//===- Overlaps.cpp - Memory that an op writes ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"
#include "flashcore/Dialect/FlashCore/IR/Operands.h"

using namespace mlir;
using namespace mlir::flashcore;

namespace {
enum class Access { Read, Updated, Written };

struct NamedOperand {
  StringRef name;
  Value value; ///< null where the op has none
  Access access = Access::Read;
};
} // namespace

static LogicalResult check(Operation *op, ArrayRef<NamedOperand> operands,
                           function_ref<bool(Value, Value)> share) {
  for (auto [number, written] : llvm::enumerate(operands)) {
    if (!written.value || written.access == Access::Read)
      continue;
    for (auto [otherNumber, other] : llvm::enumerate(operands)) {
      bool isSeen = otherNumber < number && other.access != Access::Read;
      bool mayShare =
          written.access == Access::Updated && other.access == Access::Updated;
      if (!other.value || otherNumber == number || isSeen || mayShare ||
          !share(written.value, other.value))
        continue;
      return op->emitOpError("expects ")
             << written.name << " in memory of its own, but got that of "
             << other.name
             << ": some blocks write it while others still read; use another "
                "buffer, or a copy";
    }
  }
  return success();
}

LogicalResult
mlir::flashcore::checkOutputsApart(AttentionOp op,
                                   function_ref<bool(Value, Value)> share) {
  if (!op.hasPureBufferSemantics())
    return success();
  using Role = OperandInfo::Role;
  auto getAccess = [&](const OperandInfo &row) {
    if (row.role == Role::Output)
      return Access::Written;
    return row.role == Role::Cache && op.getKNew() ? Access::Updated
                                                   : Access::Read;
  };
  // Of two that are written, messages name the first.
  SmallVector<NamedOperand> operands;
  for (Access access : {Access::Written, Access::Updated, Access::Read})
    for (auto [row, value] : listOperands(op))
      if (getAccess(row) == access)
        operands.push_back({row.name, value, access});
  for (Value tensor : op.getCapturedTensors())
    operands.push_back({"a tensor that a region reads", tensor});
  return check(op, operands, share);
}

LogicalResult
mlir::flashcore::checkOutputsApart(MergeOp op,
                                   function_ref<bool(Value, Value)> share) {
  if (!op.hasPureBufferSemantics())
    return success();
  return check(op,
               {{"output", op.getOutput(), Access::Written},
                {"lse", op.getLse(), Access::Written},
                {"outputs", op.getOutputs()},
                {"lses", op.getLses()},
                {"sink_logits", op.getSinkLogits()}},
               share);
}
