//===- TileMerges.cpp - Phase 2: merges as kernels ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns each flashcore.merge into a kernel, that of attentions with split keys,
// and its launch.
//
//===----------------------------------------------------------------------===//

#include "HostLaunch.h"
#include "MergeKernel.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_TILEMERGESPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

static std::string getKernelName(MergeOp op) {
  std::string name = "merge_";
  llvm::raw_string_ostream(name) << op.getOutputType().getElementType();
  return name + "_d" + std::to_string(op.getHeadDimV());
}

static LogicalResult checkPrecondition(MergeOp op, ModuleOp module) {
  if (failed(checkIsOnHost(op, module, "a merge")))
    return failure();
  auto chip = op->getAttrOfType<StringAttr>(fcgpu::kChipAttrName);
  if (!chip)
    return op.emitOpError("has no fcgpu.chip; run flashcore-configure first");
  if (!lookupTarget(chip))
    return op.emitOpError("is for an ") << unknownChipMessage(chip);
  return success();
}

namespace {
struct TileMergesPass final
    : mlir::flashcore::impl::TileMergesPassBase<TileMergesPass> {
  gpu::GPUFuncOp buildKernel(MergeOp op, const MergeSignature &signature) {
    ImplicitLocOpBuilder b(dropDebugInfo(op.getLoc()), op);
    SymbolTable symbols(getOperation());
    b.setInsertionPointToEnd(getOperation().getBody());
    auto chip = op->getAttrOfType<StringAttr>(fcgpu::kChipAttrName);
    auto module = gpu::GPUModuleOp::create(
        b, getKernelName(op), createGPUTargets(getOperation(), chip));
    symbols.insert(module);
    b.setInsertionPointToEnd(module.getBody());
    ++numKernels;
    return buildMergeKernel(b, signature, getKernelName(op));
  }

  static void replaceByLaunch(MergeOp op, const MergeSignature &signature,
                              gpu::GPUFuncOp kernel) {
    ImplicitLocOpBuilder b(dropDebugInfo(op.getLoc()), op);
    HostLaunch host(b, signature);
    host.launch(kernel, signature.getArguments(), /*workspace=*/{},
                signature.getLaunch().grid);
    op.erase();
  }

  void runOnOperation() override {
    SmallVector<MergeOp> ops;
    bool anyFailed = false;
    getOperation().walk([&](MergeOp op) {
      anyFailed |= failed(checkPrecondition(op, getOperation()));
      ops.push_back(op);
    });
    if (anyFailed)
      return signalPassFailure();
    // Equal merges share a kernel.
    DenseMap<ArrayAttr, gpu::GPUFuncOp> kernels;
    for (MergeOp op : ops) {
      castToDefaultSpace(op);
      MergeSignature signature(op);
      auto key =
          ArrayAttr::get(&getContext(), {signature.toDictionary(&getContext()),
                                         op->getAttr(fcgpu::kChipAttrName)});
      gpu::GPUFuncOp &kernel = kernels[key];
      if (!kernel)
        kernel = buildKernel(op, signature);
      replaceByLaunch(op, signature, kernel);
    }
    if (!ops.empty())
      getOperation()->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                              UnitAttr::get(&getContext()));
  }
};
} // namespace
