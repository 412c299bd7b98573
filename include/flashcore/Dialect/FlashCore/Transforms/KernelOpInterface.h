//===- KernelOpInterface.h - Ops that become kernels ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an op says of its kernels, and what the tile pass makes functions,
// launches and the dictionaries of a manifest from. An op that becomes kernels
// has a model of the interface, in a file of its own, and is named nowhere
// else.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_H
#define FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelFrame.h"
#include "mlir/IR/OpDefinition.h"

#include <functional>
#include <memory>
#include <vector>

namespace mlir::flashcore {

class AttentionSignature;

/// One kernel of a program.
struct Kernel {
  /// What stands behind the program's name in the kernel's. The kernel that the
  /// op is about has none; there is one in each program.
  StringRef suffix;
  SmallVector<KernelArgument> arguments;
  KernelLaunch launch;
  /// Of the tiles in its body; null for a body of upstream ops alone.
  fcgpu::ScheduleAttr schedule;
  /// Makes the body, with its gpu.return, where the frame's builder is.
  std::function<void(KernelFrame &)> buildBody;
};

/// Which calls a program is for: those where a number is in a range.
struct CallCondition {
  SizeFormula number;
  int64_t least = 0;
  std::optional<int64_t> most = {};

  bool isAlways() const { return least == 0 && !most; }
};

/// A number that host code, or the runtime, computes once a call and that
/// formulas and kernels take as they take a size.
struct ProgramValue {
  Dim size;
  SizeFormula is;
};

/// Kernels that one call launches, in this order, and what they share.
struct KernelProgram {
  std::string name;                       ///< of its main kernel
  StringRef chip;                         ///< of the table of chips
  std::shared_ptr<KernelSignature> sizes; ///< the tensors, and their sizes
  CallCondition condition = {0};
  SmallVector<ProgramValue> values = {};
  /// Bytes of the parts of the workspace.
  SmallVector<SizeFormula> workspace = {};
  SmallVector<Kernel> kernels = {};
  /// The attributes of the op, as a manifest has them. Null where it has none.
  DictionaryAttr attributes = {};
};

} // namespace mlir::flashcore

#include "flashcore/Dialect/FlashCore/Transforms/KernelOpInterface.h.inc"

namespace mlir::flashcore {

/// The ops of a function that are launched as one program, in their order: of
/// one with several ops that become kernels, and otherwise nothing but what
/// makes, views and measures memrefs in ways that a manifest can say. Empty for
/// all others, each of whose ops is a program of its own.
SmallVector<KernelOpInterface> findProgram(Operation *function);

/// Lets the ops of the dialect that become kernels have the interface.
void registerKernelOpInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_TRANSFORMS_KERNELOPINTERFACE_H
