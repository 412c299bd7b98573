//===- WarpRoles.h - Who runs a kernel --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel's warps do follows from its IR: from the loops over warps or
// warpgroups, and from fcgpu.produce. Only what belongs to the launch is asked
// of the schedule, and only here.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_WARPROLES_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_WARPROLES_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::fcgpu {

/// What a kernel of ours is launched on, and with.
struct Launch {
  StringRef chip;
  int64_t numThreads = 0;
  /// Warps that only fill rings.
  int64_t producerWarps = 0;
  /// That an SM holds at once.
  int64_t numBlocks = 1;

  static Launch get(gpu::GPUFuncOp kernel);
};

/// Warps that hold a tile of the loop together: one, or those of a warpgroup.
int64_t getTileWarps(scf::ForallOp warps);

/// Whether a role of its own fills the rings of the kernel.
bool hasProducer(gpu::GPUFuncOp kernel);

/// How the warps of a launch divide the work.
struct WarpRoles {
  int64_t numWarps = 0;  ///< without those that only fill rings
  int64_t tileWarps = 1; ///< of those, how many hold a tile together
  bool hasProducer = false;

  static WarpRoles get(gpu::GPUFuncOp kernel, const Launch &launch);

  int64_t getNumHolders() const { return numWarps / tileWarps; }
  /// Threads of the warps that hold tiles.
  int64_t getNumConsumers() const;
};
} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_WARPROLES_H
