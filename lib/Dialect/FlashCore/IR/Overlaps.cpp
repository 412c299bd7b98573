//===- Overlaps.cpp - Memory that an op writes ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/Overlaps.h"

using namespace mlir;
using namespace mlir::flashcore;

LogicalResult
mlir::flashcore::checkOutputsApart(HostOpInterface op,
                                   function_ref<bool(Value, Value)> share) {
  using Kind = OperandAccess::Kind;
  SmallVector<OperandAccess> operands = op.getAccesses();
  for (auto [number, written] : llvm::enumerate(operands)) {
    if (!written.isMemref() || written.kind == Kind::Read)
      continue;
    for (auto [otherNumber, other] : llvm::enumerate(operands)) {
      bool isSeen = otherNumber < number && other.kind != Kind::Read;
      bool mayShare =
          written.kind == Kind::Updated && other.kind == Kind::Updated;
      if (!other.isMemref() || otherNumber == number || isSeen || mayShare ||
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
