//===- KernelFrame.h - Kernels and their arguments --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels have in common, whatever they compute: a function made from a
// list of arguments, and what the arguments mean inside it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELFRAME_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELFRAME_H

#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::flashcore {

/// A kernel and the values of its arguments.
class KernelFrame {
public:
  /// Bytes that a workspace is aligned to.
  static constexpr int64_t kWorkspaceAlignment = 16;

  /// Makes the function at the insertion point of `b`, which then is in its
  /// body. `arguments` are those of one kernel of `signature`, `description`
  /// its `fcgpu.kernel`.
  KernelFrame(ImplicitLocOpBuilder &b, const KernelSignature &signature,
              ArrayRef<KernelArgument> arguments, StringRef name,
              int64_t numThreads, DictionaryAttr description);

  gpu::GPUFuncOp getFunc() { return func; }
  /// A constant or an argument. The kernel must take the size.
  OpFoldResult getSize(Dim dim) const {
    return sizes[static_cast<unsigned>(dim)];
  }
  /// The memref of a tensor, or of its copy if the kernel takes only that; null
  /// if it takes neither.
  Value getTensor(StringRef name) const {
    return tensors[signature.getTensorIndex(name)];
  }
  /// The same of one that not every problem has.
  Value findTensor(StringRef name) const;
  /// The copy of a tensor in the workspace, which the kernel must take.
  Value getCopy() const { return copy; }
  /// A row-major memref of f32 in the workspace, which the kernel must take,
  /// `offset` behind what is there of a copy.
  Value viewWorkspace(OpFoldResult offset, ArrayRef<OpFoldResult> shape);
  /// The same of the elements of a tensor's type that the kernel must take it
  /// as, from the workspace's beginning, with `strides`.
  Value viewWorkspaceOfType(OpFoldResult offset, ArrayRef<OpFoldResult> shape,
                            ArrayRef<OpFoldResult> strides);
  /// A product and a sum of sizes.
  OpFoldResult multiply(OpFoldResult x, OpFoldResult y);
  OpFoldResult add(OpFoldResult x, OpFoldResult y);
  ImplicitLocOpBuilder &getBuilder() { return b; }

private:
  void setArgumentAttributes();
  Value reinterpret(unsigned tensor);
  Value viewCopy(const KernelArgument &argument, Value base);
  OpFoldResult getEndOfCopy();
  Value findWorkspace(bool isOfType);
  Value makeView(Value base, OpFoldResult offset, ArrayRef<OpFoldResult> shape,
                 ArrayRef<OpFoldResult> strides);

  ImplicitLocOpBuilder &b;
  const KernelSignature &signature;
  ArrayRef<KernelArgument> arguments;
  gpu::GPUFuncOp func;
  SmallVector<OpFoldResult> sizes;
  SmallVector<Value> tensors;
  Value copy;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELFRAME_H
