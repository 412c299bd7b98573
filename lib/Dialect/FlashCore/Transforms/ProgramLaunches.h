//===- ProgramLaunches.h - Launches of a program's kernels ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMLAUNCHES_H
#define FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMLAUNCHES_H

#include "HostLaunch.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h"

namespace mlir::flashcore {

/// Host code in the place of an op: sizes of the call, the workspace, and
/// launches of the kernels of one of its programs.
class ProgramLaunches {
public:
  /// Where `b` is.
  ProgramLaunches(ImplicitLocOpBuilder &b, const KernelProgram &program);

  /// Makes what says whether a call is one that the program is for, which says
  /// so by an upper bound.
  Value buildTest();
  /// Makes launches of `functions`, those of the program's kernels.
  void build(ArrayRef<gpu::GPUFuncOp> functions);

private:
  void allocateWorkspace();
  Value view(Type element, const SizeFormula &bytes);

  ImplicitLocOpBuilder &b;
  const KernelProgram &program;
  HostLaunch host;
  /// Bytes, and pointers to them of f32 and of the first tensor's type.
  Value workspace;
  HostLaunch::Workspace pointers;
};

} // namespace mlir::flashcore

#endif // FLASHCORE_LIB_DIALECT_FLASHCORE_TRANSFORMS_PROGRAMLAUNCHES_H
