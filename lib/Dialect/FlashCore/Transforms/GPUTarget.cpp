//===- GPUTarget.cpp - Upstream's words for targets and memory ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See docs/Embedding.md for what upstream does with the attribute.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/Transforms/GPUTarget.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace mlir::flashcore;

static constexpr StringLiteral kDefaultChip = "sm_89";
/// Of LLVM and of the assembler.
static constexpr int kOptimizationLevel = 3;

/// sm_90a and sm_100f name sets of features of a chip, which our kernels for
/// the chip do not need.
static StringRef dropFeatureSet(StringRef chip) { return chip.rtrim("af"); }

static void forEachTarget(
    Operation *root,
    function_ref<void(gpu::GPUModuleOp, NVVM::NVVMTargetAttr)> callback) {
  root->walk<WalkOrder::PreOrder>([&](gpu::GPUModuleOp module) {
    if (ArrayAttr targets = module.getTargetsAttr())
      for (Attribute target : targets)
        if (auto nvvm = dyn_cast<NVVM::NVVMTargetAttr>(target))
          callback(module, nvvm);
    return WalkResult::skip();
  });
}

FailureOr<std::string> mlir::flashcore::findChip(Operation *root,
                                                 StringRef chosen) {
  std::string chip = chosen.str();
  gpu::GPUModuleOp origin, other;
  std::string otherChip;
  if (chosen.empty())
    forEachTarget(root,
                  [&](gpu::GPUModuleOp module, NVVM::NVVMTargetAttr target) {
                    StringRef name = dropFeatureSet(target.getChip());
                    if (!origin) {
                      origin = module;
                      chip = name;
                    } else if (name != chip && !other) {
                      other = module;
                      otherChip = name;
                    }
                  });
  if (other) {
    InFlightDiagnostic error =
        emitError(root->getLoc())
        << "expects the option chip, or one chip in all #nvvm.target, but got "
        << chip << " and " << otherChip;
    error.attachNote(origin.getLoc()) << chip << " stands here";
    error.attachNote(other.getLoc()) << otherChip << " stands here";
    return error;
  }
  if (chip.empty())
    return kDefaultChip.str();
  if (lookupTarget(chip))
    return chip;
  InFlightDiagnostic error = emitError(root->getLoc())
                             << unknownChipMessage(chip);
  if (origin)
    error.attachNote(origin.getLoc())
        << "the chip comes from the target of this module; the option chip "
           "names another";
  return error;
}

ArrayAttr mlir::flashcore::createGPUTargets(ModuleOp module, StringRef chip) {
  NVVM::NVVMTargetAttr model;
  forEachTarget(module, [&](gpu::GPUModuleOp, NVVM::NVVMTargetAttr target) {
    if (!model && dropFeatureSet(target.getChip()) == chip)
      model = target;
  });
  MLIRContext *context = module.getContext();
  StringRef triple = "nvptx64-nvidia-cuda";
  std::string features =
      model && !model.getFeatures().empty()
          ? model.getFeatures().str()
          : getPTXFeature(getPTXVersion(*lookupTarget(chip), /*needed=*/0));
  return ArrayAttr::get(context,
                        NVVM::NVVMTargetAttr::get(
                            context, kOptimizationLevel, triple, chip, features,
                            model ? model.getFlags() : DictionaryAttr()));
}

bool mlir::flashcore::isGlobalMemory(Attribute space) {
  if (auto gpuSpace = dyn_cast_or_null<gpu::AddressSpaceAttr>(space))
    return gpuSpace.getValue() == gpu::AddressSpace::Global;
  auto number = dyn_cast_or_null<IntegerAttr>(space);
  return !space ||
         (number && number.getValue() ==
                        static_cast<unsigned>(NVVM::NVVMMemorySpace::Global));
}

void mlir::flashcore::castToDefaultSpace(Operation *op) {
  OpBuilder b(op);
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type || !type.getMemorySpace())
      continue;
    auto plain = MemRefType::get(type.getShape(), type.getElementType(),
                                 type.getLayout());
    operand.set(memref::MemorySpaceCastOp::create(b, op->getLoc(), plain,
                                                  operand.get()));
  }
}

LogicalResult mlir::flashcore::checkIsOnMemrefs(Operation *op) {
  if (llvm::any_of(op->getOperandTypes(), llvm::IsaPred<TensorType>))
    return op->emitOpError(
        "is on tensors; bufferize it first (one-shot-bufferize)");
  return success();
}

LogicalResult mlir::flashcore::checkIsOnHost(Operation *op, ModuleOp module) {
  if (failed(checkIsOnMemrefs(op)))
    return failure();
  if (op->getParentOfType<gpu::LaunchOp>() ||
      op->getParentOfType<gpu::GPUModuleOp>())
    return op->emitOpError("stands in device code; it is launched from the "
                           "host");
  if (op->getParentOfType<ModuleOp>() != module)
    return op->emitOpError("stands in a nested module; compile that module by "
                           "itself");
  return success();
}

Location mlir::flashcore::dropDebugInfo(Location loc) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](FusedLoc fused) -> Attribute {
    return FusedLoc::get(fused.getLocations(), /*metadata=*/Attribute(),
                         fused.getContext());
  });
  return cast<LocationAttr>(replacer.replace(loc));
}
