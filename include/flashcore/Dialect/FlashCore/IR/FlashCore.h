//===- FlashCore.h - The flashcore dialect ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORE_H
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.h.inc"
#include "flashcore/Dialect/FlashCore/IR/FlashCoreEnums.h.inc"

namespace mlir::flashcore {
/// Where a tile stands in the whole attention (TileOpInterface), as `index`.
struct TilePlace {
  Value batch, head, firstQuery, seqlenQ, firstKey, keyEnd, seqlenK, blockQuery;
};

/// What an op on the host does with one of its operands (HostOpInterface).
struct OperandAccess {
  /// Of what is updated some rows are written, and which, data says.
  enum class Kind { Read, Updated, Written };

  StringRef name;
  Value value; ///< null where the op has none
  Kind kind;

  bool isMemref() const { return value && isa<MemRefType>(value.getType()); }
};

/// The tensors or memrefs from outside that regions of `op` read, in the order
/// of their first uses.
SmallVector<Value> getCapturedTensors(Operation *op);

/// Of 2^16 values of a random number, how many drop an element with the
/// dropout `share`: the T of flashcore.attention's description; 0 without one.
int64_t getDropoutThreshold(std::optional<APFloat> share);
} // namespace mlir::flashcore

#include "flashcore/Dialect/FlashCore/IR/FlashCoreInterfaces.h.inc"

#define GET_OP_CLASSES
#include "flashcore/Dialect/FlashCore/IR/FlashCoreOps.h.inc"

namespace mlir::flashcore {
/// Registers how ops of the dialect on tensors become ones on memrefs (one-shot
/// bufferization, destination style).
void registerBufferizableOpInterfaceExternalModels(DialectRegistry &registry);

/// Warns when query and key look as if they were (batch, seqlen, heads,
/// head_dim) and not (batch, heads, seqlen, head_dim), and says what to write.
void warnOfSwappedAxes(AttentionOp op);
/// The same of one operand, as a note to an error that follows from it.
void noteSwappedAxes(InFlightDiagnostic &error, llvm::StringRef name,
                     ShapedType type);
} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORE_H
