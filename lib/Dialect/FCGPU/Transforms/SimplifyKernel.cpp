//===- SimplifyKernel.cpp - Clean up between phases -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Upstream's canonicalizer and CSE, on our kernels only.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::fcgpu {
#define GEN_PASS_DEF_SIMPLIFYKERNELPASS
#include "flashcore/Dialect/FCGPU/Transforms/Passes.h.inc"
} // namespace mlir::fcgpu

using namespace mlir;
using namespace mlir::fcgpu;

namespace {
struct SimplifyKernelPass final
    : mlir::fcgpu::impl::SimplifyKernelPassBase<SimplifyKernelPass> {
  LogicalResult initialize(MLIRContext *) override {
    pipeline = OpPassManager(gpu::GPUFuncOp::getOperationName());
    // Bottom up: loops carry every fragment on its own, and the patterns on
    // loops, quadratic in that, are tried again for each operand that changes.
    pipeline.addPass(
        createCanonicalizerPass(GreedyRewriteConfig()
                                    .setUseTopDownTraversal(false)
                                    .setRegionSimplificationLevel(
                                        GreedySimplifyRegionLevel::Disabled)));
    pipeline.addPass(createCSEPass());
    return success();
  }

  void runOnOperation() override {
    if (isOurKernel(getOperation()) &&
        failed(runPipeline(pipeline, getOperation())))
      signalPassFailure();
  }

  OpPassManager pipeline;
};
} // namespace
