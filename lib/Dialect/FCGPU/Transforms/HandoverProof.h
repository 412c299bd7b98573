//===- HandoverProof.h - Proof that slots change hands rightly --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_HANDOVERPROOF_H
#define FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_HANDOVERPROOF_H

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::fcgpu {

/// Whether what fills the rings of a loop over warpgroups, and that loop, are
/// right together, for numbers of tiles that reach the steady state. An error
/// at the loop if not.
///
/// In a persistent kernel, whose tiles are numbered anew for each block tile,
/// they then get the numbers behind those of the block tile before: how often a
/// slot was filled tells the phases of its barriers apart.
LogicalResult proveHandover(ProduceOp produce, scf::ForallOp forall);
} // namespace mlir::fcgpu

#endif // FLASHCORE_LIB_DIALECT_FCGPU_TRANSFORMS_HANDOVERPROOF_H
