//===- Pipelines.h - The order of the passes --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that orders passes. Tools, the C API and Python call this
// pipeline and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PIPELINES_PIPELINES_H
#define FLASHCORE_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace mlir::flashcore {

/// What a user may force; the same names and meanings as the options of
/// flashcore-configure.
struct LowerToNVVMOptions : PassPipelineOptions<LowerToNVVMOptions> {
  PassOptions::Option<std::string> chip{
      *this, "chip", llvm::cl::init("sm_89"),
      llvm::cl::desc("Target chip: sm_80, sm_86, sm_89 or sm_90")};
  PassOptions::Option<int64_t> blockM{
      *this, "block-m", llvm::cl::init(0),
      llvm::cl::desc("Query rows per block; 0 chooses")};
  PassOptions::Option<int64_t> blockN{
      *this, "block-n", llvm::cl::init(0),
      llvm::cl::desc("Key rows per tile; 0 chooses")};
  PassOptions::Option<int64_t> numWarps{*this, "num-warps", llvm::cl::init(0),
                                        llvm::cl::desc("Warps per block; 0 "
                                                       "chooses")};
  PassOptions::Option<int64_t> numStages{
      *this, "num-stages", llvm::cl::init(0),
      llvm::cl::desc("Slots of the K and V rings; 0 chooses")};
  PassOptions::Option<int64_t> minBlocks{
      *this, "min-blocks", llvm::cl::init(0),
      llvm::cl::desc("Blocks an SM must hold at once; 0 sets no bound")};
  PassOptions::Option<std::string> query{
      *this, "query", llvm::cl::init(""),
      llvm::cl::desc("registers or shared; empty chooses")};
  PassOptions::Option<std::string> gridOrder{
      *this, "grid-order", llvm::cl::init(""),
      llvm::cl::desc("query_fastest or head_fastest; empty chooses")};
};

/// A phase of the pipeline: its number and name as docs/Pipeline.md has them,
/// and what adds its passes to a pass manager for modules.
struct Phase {
  int number;
  llvm::StringLiteral name;
  void (*build)(OpPassManager &pm, const LowerToNVVMOptions &options);
};
/// The phases after the input, in order.
llvm::ArrayRef<Phase> getPhases();

/// Phases 1 to 7, from memrefs: after them the kernels are LLVM and NVVM ops in
/// `gpu.module`s and the host code launches them.
void buildLowerToNVVMPipeline(OpPassManager &pm,
                              const LowerToNVVMOptions &options);

/// The optional prefix for tensors: one-shot bufferization across function
/// boundaries.
void buildBufferizePipeline(OpPassManager &pm);

/// Registers `flashcore-lower-to-nvvm` and `flashcore-bufferize`.
void registerPipelines();

} // namespace mlir::flashcore

#endif // FLASHCORE_PIPELINES_PIPELINES_H
