//===- FCGPU.h - The fcgpu dialect ------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FCGPU_IR_FCGPU_H
#define FLASHCORE_DIALECT_FCGPU_IR_FCGPU_H

#include "flashcore/Dialect/FCGPU/IR/Schedule.h"
#include "flashcore/Target/Atoms.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "flashcore/Dialect/FCGPU/IR/FCGPUDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUTypes.h.inc"

namespace mlir::fcgpu {
/// The queue of asynchronous copies of a thread.
struct CopyQueueResource
    : public SideEffects::Resource::Base<CopyQueueResource> {
  StringRef getName() final { return "<copy queue>"; }
};

/// Names of the attributes this dialect puts on other dialects' ops.
inline constexpr StringLiteral kScheduleAttrName = "fcgpu.schedule";
inline constexpr StringLiteral kFewQueriesAttrName = "fcgpu.few_queries";
inline constexpr StringLiteral kChipAttrName = "fcgpu.chip";
inline constexpr StringLiteral kStagingAttrName = "fcgpu.staging";
inline constexpr StringLiteral kBlockTilesAttrName = "fcgpu.block_tiles";
inline constexpr StringLiteral kOverlapAttrName = "fcgpu.overlap";
inline constexpr StringLiteral kPairedAttrName = "fcgpu.paired";
inline constexpr StringLiteral kHomeAttrName = "fcgpu.home";
inline constexpr StringLiteral kProductAttrName = "fcgpu.product";
inline constexpr StringLiteral kKernelAttrName = "fcgpu.kernel";
inline constexpr StringLiteral kProgramAttrName = "fcgpu.program";
inline constexpr StringLiteral kPTXVersionAttrName = "fcgpu.ptx_version";

/// Whether `kernel` was made by flashcore-tile (or says that it wants to be
/// treated so): it carries a schedule.
inline bool isOurKernel(Operation *kernel) {
  return kernel->hasAttr(kScheduleAttrName);
}

/// Whether an op of a kernel is still to be written on tiles: it carries the
/// schedule by which that is done.
inline bool awaitsTiles(Operation *op) {
  return op->hasAttr(kScheduleAttrName);
}

/// The PTX ISA, times ten, that the instructions of the kernels in `module`
/// need, by their `fcgpu.ptx_version`; 0 if none has one.
unsigned getNeededPTXVersion(Operation *module);

/// Where the products of a schedule take their right operands from.
flashcore::OperandPlace getRightPlace(Product product);

/// What products take a type for; nothing for one that they do not know.
std::optional<flashcore::ElementKind> getElementKind(Type type);

/// Whether rings hold elements of this type: those of the operands of products.
bool isRingElement(Type type);

/// Group size g of the swizzle of a row of `chunks` chunks of 16 bytes (see
/// `!fcgpu.ring`): gcd(chunks, 8), a power of two. 1 means no swizzle.
int64_t getSwizzleGroup(int64_t chunks);

/// Physical chunk of logical chunk `chunk` in row `row` of `chunks`.
int64_t swizzleChunk(int64_t row, int64_t chunk, int64_t chunks);

/// How the parts of `fcgpu.all_to_all` divide a tile among them: part p gets
/// the p-th of rows x cols equal rectangles, in row-major order.
struct ShareGrid {
  int64_t rows, cols;
};
/// Divides the rows as far as whole cores allow, and then the columns.
ShareGrid getShareGrid(int64_t rows, int64_t parts);
/// What one of `parts` gets of a tile or row vector, or failure if the shares
/// would not be whole cores.
FailureOr<VectorType> getShareType(VectorType tile, int64_t parts);
} // namespace mlir::fcgpu

#define GET_OP_CLASSES
#include "flashcore/Dialect/FCGPU/IR/FCGPUOps.h.inc"

namespace mlir::vector {
class ContractionOp;
class TransferReadOp;
} // namespace mlir::vector

namespace mlir::fcgpu {
/// Whether the op reads a 16-bit tile: what has an `fcgpu.staging`.
bool isTileRead(vector::TransferReadOp read);
/// Whether a tile stays in its slot.
bool isInPlace(Value tile);
/// Whether a product is only started where it stands: it reads a tile in place
/// of panels.
bool isAsynchronous(vector::ContractionOp op);
} // namespace mlir::fcgpu

#endif // FLASHCORE_DIALECT_FCGPU_IR_FCGPU_H
