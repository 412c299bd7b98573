//===- GPUTarget.h - Upstream's words for targets and memory ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `#nvvm.target`, with which a compiler says what its kernels are for and
// upstream's gpu-module-to-binary learns it about ours, and the address spaces
// of memrefs.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_GPUTARGET_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_GPUTARGET_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::flashcore {

/// The chip to compile for: `chosen` if not empty, else the one that all
/// `#nvvm.target`s of the gpu.modules in `root` name (sm_90 for sm_90a), else
/// sm_89. Reports a chip that is not one of getTargets(), and targets that
/// disagree.
FailureOr<std::string> findChip(Operation *root, StringRef chosen);

/// The targets of a gpu.module with kernels for `chip`. Flags, and features if
/// there are any, are those of the first target for this chip in `module`.
ArrayAttr createGPUTargets(ModuleOp module, StringRef chip);

/// Whether a memory space is global memory: absent,
/// `#gpu.address_space<global>` or 1, NVPTX's number for it.
bool isGlobalMemory(Attribute space);

/// Casts memrefs to the default space. Kernels take pointers of that one,
/// whatever the space of a tensor is called on the host.
void castToDefaultSpace(Operation *op);

/// Reports an op on tensors.
LogicalResult checkIsOnMemrefs(Operation *op);

/// Whether `op` can become a launch of `module`: it is on memrefs and stands in
/// the host code of that module. Reports what is wrong.
LogicalResult checkIsOnHost(Operation *op, ModuleOp module);

/// `loc` without debug information, which says of which host function an op is
/// a part. LLVM would take the kernel for a part of it too, and its backend
/// crashes on that.
Location dropDebugInfo(Location loc);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_GPUTARGET_H
