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

static OpPassManager &nestKernels(OpPassManager &pm) {
  return pm.nest<gpu::GPUModuleOp>().nest<gpu::GPUFuncOp>();
}

llvm::ArrayRef<Phase> mlir::flashcore::getPhases() {
  using namespace fcgpu;
  static const Phase phases[] = {
      {1, "what: attention with its schedule",
       [](OpPassManager &pm, const ConfigurePassOptions &options) {
         pm.addPass(createConfigurePass(options));
         pm.addPass(createDecomposePass());
       }},
      {2, "blocks and warps",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         pm.addPass(createTilePass());
         nestKernels(pm).addPass(createSimplifyKernelPass());
       }},
      {3, "algorithm: online softmax on warp tiles",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createOnlineSoftmaxPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {4, "memory: rings of tiles in shared memory",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createPromoteSharedPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {5, "schedule: copies ahead, waits and barriers",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createSpecializeWarpsPass());
         kernel.addPass(createPipelineLoopsPass());
         kernel.addPass(createSimplifyKernelPass());
         kernel.addPass(createStartNextTilePass());
         kernel.addPass(createHandOverSlotsPass());
         kernel.addPass(createInsertBarriersPass());
         kernel.addPass(createInferInBoundsPass());
         kernel.addPass(createSkipHiddenTilesPass());
         kernel.addPass(createSplitMaskedTilesPass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {6, "threads: fragments, ldmatrix, mma.sync, cp.async",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         OpPassManager &kernel = nestKernels(pm);
         kernel.addPass(createAssignLayoutsPass());
         kernel.addPass(createDistributePass());
         kernel.addPass(createSimplifyKernelPass());
       }},
      {7, "target: LLVM and NVVM",
       [](OpPassManager &pm, const ConfigurePassOptions &) {
         pm.nest<gpu::GPUModuleOp>().addPass(createFlashCoreToNVVMPass());
       }},
  };
  return phases;
}

void mlir::flashcore::buildLowerToNVVMPipeline(
    OpPassManager &pm, const ConfigurePassOptions &options) {
  for (const Phase &phase : getPhases())
    phase.build(pm, options);
}

void mlir::flashcore::buildBufferizePipeline(OpPassManager &pm) {
  bufferization::OneShotBufferizePassOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  // A layer writes no buffer that it reads, so what a loop carries is a buffer
  // of its own for each pass through the body.
  options.allowReturnAllocsFromLoops = true;
  pm.addPass(bufferization::createOneShotBufferizePass(options));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// A pipeline that begins with passes on modules: MLIR ends the process where
/// one of those is added below another op.
static void registerModulePipeline(
    StringRef name, StringRef description,
    llvm::unique_function<LogicalResult(
        OpPassManager &, StringRef, function_ref<LogicalResult(const Twine &)>)>
        build) {
  registerPassPipeline(
      name, description,
      [name, build = std::make_shared<decltype(build)>(std::move(build))](
          OpPassManager &pm, StringRef options,
          function_ref<LogicalResult(const Twine &)> errorHandler) {
        StringRef anchor = pm.getOpAnchorName();
        if (anchor != ModuleOp::getOperationName())
          return errorHandler("expects '" + name + "' in a pipeline of " +
                              ModuleOp::getOperationName() + ", but got " +
                              anchor + "; run it on the whole module");
        return (*build)(pm, options, errorHandler);
      },
      [](function_ref<void(const mlir::detail::PassOptions &)>) {});
}

void mlir::flashcore::registerPipelines() {
  registerModulePipeline(
      "flashcore-lower-to-nvvm",
      "Phases 1 to 7: every flashcore.attention on memrefs becomes a kernel of "
      "LLVM and NVVM ops",
      [](OpPassManager &pm, StringRef options,
         function_ref<LogicalResult(const Twine &)> errorHandler)
          -> LogicalResult {
        // The options are handed to the first pass, so they are listed once.
        std::unique_ptr<Pass> configure = createConfigurePass();
        if (failed(configure->initializeOptions(options, errorHandler)))
          return failure();
        pm.addPass(std::move(configure));
        pm.addPass(createDecomposePass());
        for (const Phase &phase : getPhases().drop_front())
          phase.build(pm, ConfigurePassOptions());
        return success();
      });
  registerModulePipeline(
      "flashcore-bufferize",
      "One-shot bufferization of whole modules, the prefix for tensors",
      [](OpPassManager &pm, StringRef options,
         function_ref<LogicalResult(const Twine &)> errorHandler)
          -> LogicalResult {
        if (!options.empty())
          return errorHandler("expects 'flashcore-bufferize' without options, "
                              "but got '" +
                              options + "'");
        buildBufferizePipeline(pm);
        return success();
      });
}
