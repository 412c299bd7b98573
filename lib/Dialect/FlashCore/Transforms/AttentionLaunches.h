//===- AttentionLaunches.h - Launches of an attention's kernels -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONLAUNCHES_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONLAUNCHES_H

#include "HostLaunch.h"
#include "flashcore/Dialect/FlashCore/Transforms/AttentionKernels.h"

namespace mlir::flashcore {

/// A kernel, what it takes, and how many blocks it is launched with.
struct LaunchedKernel {
  gpu::GPUFuncOp kernel;
  SmallVector<KernelArgument> arguments;
  SizeFormula grid;
};

/// Host code in the place of an attention: sizes of the call, the workspace,
/// and launches of its kernels.
class AttentionLaunches {
public:
  /// Where `b` is.
  AttentionLaunches(ImplicitLocOpBuilder &b, fcgpu::ScheduleAttr schedule,
                    const AttentionSignature &signature);

  /// Makes what says whether a call has as few queries as the kernels are for.
  Value buildQueryTest();
  /// Makes launches of `kernels` in their order.
  void build(ArrayRef<LaunchedKernel> kernels);

private:
  void allocateWorkspace();
  Value view(Type element, const SizeFormula &bytes);

  ImplicitLocOpBuilder &b;
  fcgpu::ScheduleAttr schedule;
  const AttentionSignature &signature;
  HostLaunch host;
  /// Bytes, and pointers to them of f32 and of query's type.
  Value workspace;
  HostLaunch::Workspace pointers;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_ATTENTIONLAUNCHES_H
