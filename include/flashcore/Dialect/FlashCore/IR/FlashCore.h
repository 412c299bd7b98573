//===- FlashCore.h - The flashcore dialect ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORE_H
#define FLASHCORE_DIALECT_FLASHCORE_IR_FLASHCORE_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "flashcore/Dialect/FlashCore/IR/FlashCoreDialect.h.inc"
#include "flashcore/Dialect/FlashCore/IR/FlashCoreEnums.h.inc"
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
