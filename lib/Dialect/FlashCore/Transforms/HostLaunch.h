//===- HostLaunch.h - Launches of kernels -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The other side of a KernelFrame: what the host has for a kernel's arguments.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_HOSTLAUNCH_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_HOSTLAUNCH_H

#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flashcore {

/// Sizes, strides and pointers of the tensors of a problem, on the host.
class HostLaunch {
public:
  /// Pointers to one workspace, where a kernel takes it: as f32, and as
  /// elements of a tensor's type, as the copy of a tensor that is in front of
  /// all else.
  struct Workspace {
    Value floats, typed;
  };

  /// Takes them from the memrefs where `b` is.
  HostLaunch(ImplicitLocOpBuilder &b, const KernelSignature &signature);

  /// One that no tensor has.
  void setSize(Dim dim, OpFoldResult size);
  /// The value of a formula of sizes.
  OpFoldResult build(const SizeFormula &formula) {
    return formula.build(b,
                         [&](Dim dim) { return sizes[static_cast<int>(dim)]; });
  }

  /// Launches `grid` blocks of `kernel`, which takes `arguments`, of as many
  /// threads, and as much shared memory, as it says of itself.
  void launch(gpu::GPUFuncOp kernel, ArrayRef<KernelArgument> arguments,
              const Workspace &workspace, const SizeFormula &grid);

private:
  Value asValue(OpFoldResult ofr);

  ImplicitLocOpBuilder &b;
  SmallVector<memref::ExtractStridedMetadataOp> metadata;
  SmallVector<OpFoldResult> sizes;
  SmallVector<Value> values;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_HOSTLAUNCH_H
