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

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"
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
  void setSize(Dim dim, OpFoldResult size) {
    sizes[static_cast<int>(dim)] = size;
  }
  /// The value of a formula of sizes.
  OpFoldResult build(const SizeFormula &formula) {
    return formula.build(b,
                         [&](Dim dim) { return sizes[static_cast<int>(dim)]; });
  }

  /// Launches `function`, which was made of `kernel`.
  void launch(gpu::GPUFuncOp function, const Kernel &kernel,
              const Workspace &workspace);

private:
  Value asValue(OpFoldResult ofr);

  ImplicitLocOpBuilder &b;
  SmallVector<memref::ExtractStridedMetadataOp> metadata;
  SmallVector<OpFoldResult> sizes;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_HOSTLAUNCH_H
