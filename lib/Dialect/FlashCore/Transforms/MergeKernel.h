//===- MergeKernel.h - The kernel of a flashcore.merge ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEKERNEL_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEKERNEL_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"

namespace mlir::flashcore {

/// The signature of the kernel of a merge: a block a query row.
class MergeSignature : public KernelSignature {
public:
  explicit MergeSignature(MergeOp op);

  ArrayRef<KernelArgument> getArguments() const { return arguments; }
  const KernelLaunch &getLaunch() const { return launch; }
  /// `fcgpu.kernel` of the kernel.
  DictionaryAttr toDictionary(MLIRContext *context) const;

private:
  SmallVector<KernelArgument> arguments;
  KernelLaunch launch;
};

/// Makes the kernel at the insertion point of `b`.
gpu::GPUFuncOp buildMergeKernel(ImplicitLocOpBuilder &b,
                                const MergeSignature &signature,
                                StringRef name);

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_MERGEKERNEL_H
