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

  /// By Dim: a constant or a value; null for what no tensor has.
  ArrayRef<OpFoldResult> getSizes() const { return sizes; }
  /// One that no tensor has.
  void setSize(Dim dim, OpFoldResult size);

  /// Launches `grid` blocks of `kernel`, which takes `arguments`.
  void launch(gpu::GPUFuncOp kernel, ArrayRef<KernelArgument> arguments,
              const Workspace &workspace, OpFoldResult grid, int64_t numThreads,
              int64_t sharedMemory);

  /// The same with a block a query row, of as many threads, and as much shared
  /// memory, as the kernel says of itself.
  void launchForRows(gpu::GPUFuncOp kernel, ArrayRef<KernelArgument> arguments,
                     const Workspace &workspace);

private:
  Value asValue(OpFoldResult ofr);

  ImplicitLocOpBuilder &b;
  SmallVector<memref::ExtractStridedMetadataOp> metadata;
  SmallVector<OpFoldResult> sizes;
  SmallVector<Value> values;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_HOSTLAUNCH_H
