//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that orders passes. The tools and the plugin call this pipeline
// and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PIPELINES_PIPELINES_H
#define FLASHCORE_PIPELINES_PIPELINES_H

#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::flashcore {

/// A phase of the pipeline: its number and name as docs/Pipeline.md has them,
/// and what adds its passes to a pass manager for modules.
struct Phase {
  int number;
  llvm::StringLiteral name;
  void (*build)(OpPassManager &pm, const ConfigurePassOptions &options);
};
/// The phases after the input, in order.
llvm::ArrayRef<Phase> getPhases();

/// Phases 1 to 7, from memrefs: after them the kernels are LLVM and NVVM ops in
/// `gpu.module`s and the host code launches them.
void buildLowerToNVVMPipeline(OpPassManager &pm,
                              const ConfigurePassOptions &options);

/// The optional prefix for tensors: one-shot bufferization across function
/// boundaries.
void buildBufferizePipeline(OpPassManager &pm);

/// Registers `flashcore-lower-to-nvvm`, whose options are those of
/// flashcore-configure, and `flashcore-bufferize`.
void registerPipelines();

} // namespace mlir::flashcore

#endif // FLASHCORE_PIPELINES_PIPELINES_H
