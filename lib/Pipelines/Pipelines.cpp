//===- Pipelines.cpp - The order of the passes ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See docs/Pipeline.md for what the IR looks like after each phase.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Pipelines/Pipelines.h"
#include "flashcore/Conversion/Passes.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::flashcore;

static void buildConfigure(OpPassManager &pm,
                           const LowerToNVVMOptions &options) {
  ConfigurePassOptions configure;
  configure.chip = options.chip;
  configure.blockM = options.blockM;
  configure.blockN = options.blockN;
  configure.numWarps = options.numWarps;
  configure.numStages = options.numStages;
  configure.minBlocks = options.minBlocks;
  configure.query = options.query;
  configure.gridOrder = options.gridOrder;
  pm.addPass(createConfigurePass(configure));
}

static OpPassManager &nestKernels(OpPassManager &pm) {
  return pm.nest<gpu::GPUModuleOp>().nest<gpu::GPUFuncOp>();
}

llvm::ArrayRef<Phase> mlir::flashcore::getPhases() {
  using namespace fcgpu;
  static const Phase phases[] = {
      {1, "what: attention with its schedule", buildConfigure},
      {2, "blocks and warps",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         pm.addPass(createTilePass());
         nestKernels(pm).addPass(createSimplifyKernelPass());
       }},
      {3, "algorithm: online softmax on warp tiles",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createOnlineSoftmaxPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {4, "memory: rings of tiles in shared memory",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createPromoteSharedPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {5, "schedule: copies ahead, waits and barriers",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createPipelineLoopsPass());
         kernel.addPass(createSimplifyKernelPass());
         kernel.addPass(createInsertBarriersPass());
         kernel.addPass(createSplitMaskedTilesPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {6, "threads: fragments, ldmatrix, mma.sync, cp.async",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createAssignLayoutsPass());
         kernel.addPass(createDistributePass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {7, "target: LLVM and NVVM",
       [](OpPassManager &pm, const LowerToNVVMOptions &) {
         pm.nest<gpu::GPUModuleOp>().addPass(createFlashCoreToNVVMPass());
       }},
  };
  return phases;
}

void mlir::flashcore::buildLowerToNVVMPipeline(
    OpPassManager &pm, const LowerToNVVMOptions &options) {
  for (const Phase &phase : getPhases())
    phase.build(pm, options);
}

void mlir::flashcore::buildBufferizePipeline(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void mlir::flashcore::registerPipelines() {
  PassPipelineRegistration<LowerToNVVMOptions>(
      "flashcore-lower-to-nvvm",
      "Phases 1 to 7: every flashcore.attention on memrefs becomes a kernel of "
      "LLVM and NVVM ops",
      buildLowerToNVVMPipeline);
  PassPipelineRegistration<>(
      "flashcore-bufferize",
      "One-shot bufferization of whole modules, the prefix for tensors",
      buildBufferizePipeline);
}
