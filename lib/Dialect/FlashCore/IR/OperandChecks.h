//===- OperandChecks.h - What verifiers ask of operands ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rules that ops of the dialect share: sizes that agree, layouts, tensors or
// memrefs.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_IR_OPERANDCHECKS_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_IR_OPERANDCHECKS_H

#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <string>

namespace mlir::flashcore {

/// Whether two extents are certainly different.
bool differ(int64_t a, int64_t b);

/// Prints an extent as IR does: `?` when dynamic.
std::string extent(int64_t size);

std::string shapeString(ArrayRef<int64_t> shape);

/// That a value, which may be null, has no other than the expected extents.
LogicalResult verifyShape(Operation *op, StringRef name, Value value,
                          ArrayRef<int64_t> expected);

/// What a kernel of a program reads and writes (ProgramOps.cpp).
void getEffectsOfKernel(
    ProgramKernelInterface kernel,
    SmallVectorImpl<MemoryEffects::EffectInstance> &effects);

/// Checks the kernels of a region of `op`, of which each has been checked alone
/// (ProgramOps.cpp).
LogicalResult verifyProgram(Operation *op, Region &program);

/// What an operand is, if there is one: its axes and, in `expected`, the sizes
/// that they should have.
struct OperandShape {
  /// Rows of Half and Float are copied as a whole, so that their elements lie
  /// side by side.
  using Elements = OperandInfo::Elements;

  StringLiteral name, axes;
  Value value;
  SmallVector<int64_t> expected;
  Elements elements;
};

/// That each operand that is there has its rank, elements, sizes and layout,
/// and spans less than 2^63 bytes.
LogicalResult verifyOperands(Operation *op, ArrayRef<OperandShape> operands);

/// That an operand spans less than 2^63 bytes from its first element to past
/// its last, with the offset. What is dynamic counts as least it can.
LogicalResult verifySpan(Operation *op, StringRef name, ShapedType type);

/// That a memref is strided, forwards, and if it `hasRows` with an innermost
/// stride of 1.
LogicalResult verifyLayout(Operation *op, StringRef name, MemRefType type,
                           bool hasRows);

/// That a size is known where kernels are made for it, and not 0.
LogicalResult verifyStaticPositive(Operation *op, const Twine &name,
                                   int64_t size);

/// That operands are all tensors, with results like the inits, or all memrefs.
LogicalResult verifyBufferSemantics(DestinationStyleOpInterface op);

/// Which of the clauses about blocks come together, and that `size` are two
/// multiples of 16 (queries, keys).
LogicalResult verifyBlockClauses(Operation *op, Value counts, Value indices,
                                 std::optional<ArrayRef<int64_t>> size);

/// The arguments of regions, and what they yield.
LogicalResult verifyScoreRegions(ScoreOpInterface op);

/// Memrefs of inits are written, all others read.
void getEffectsOfMemrefs(
    DestinationStyleOpInterface op,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_IR_OPERANDCHECKS_H
