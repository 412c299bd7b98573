//===- FlashCoreToNVVM.cpp - Phase 7: LLVM and NVVM ops only --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs upstream's expansions, then one conversion with upstream's patterns and
// ours, and sets what ptxas must know on the kernels.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Conversion/Passes.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/LoweringOptions.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

#include <algorithm>

namespace mlir::flashcore {
#define GEN_PASS_DEF_FLASHCORETONVVMPASS
#include "flashcore/Conversion/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Name of the dynamic shared memory of a kernel module.
constexpr llvm::StringLiteral kSharedSymbol = "flashcore_shared";
/// Its alignment, enough for every access: a panel with the 128-byte swizzle.
constexpr int64_t kSharedAlignment = 1024;
/// Bytes of a tensor map, and their alignment (CUtensorMap).
constexpr int64_t kTensorMapBytes = 128, kTensorMapAlignment = 64;

/// The coordinates of a block in a grid whose sizes are known at run time only,
/// by 32-bit divisions, a fraction of what 64-bit ones take. A grid has less
/// than 2^31 blocks, so no size of one that is launched has more bits.
struct ExpandBlockIds final
    : OpRewritePattern<affine::AffineDelinearizeIndexOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(affine::AffineDelinearizeIndexOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getLinearIndex().getDefiningOp<gpu::BlockIdOp>() ||
        op.getDynamicBasis().empty())
      return rewriter.notifyMatchFailure(op, "is no block of an open grid");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto narrow = [&](Value index) {
      return arith::IndexCastUIOp::create(b, b.getI32Type(), index);
    };
    Value rest = narrow(op.getLinearIndex());
    SmallVector<Value> ids(op.getNumResults());
    SmallVector<OpFoldResult> sizes = op.getMixedBasis();
    for (size_t i = ids.size(); i-- > 0;) {
      // The first takes all that is left.
      Value id = rest;
      if (i > 0) {
        Value size = narrow(getValueOrCreateConstantIndexOp(
            b, b.getLoc(), sizes[i - (ids.size() - sizes.size())]));
        rest = arith::DivUIOp::create(b, rest, size);
        id = arith::SubIOp::create(b, id, arith::MulIOp::create(b, rest, size));
      }
      ids[i] = arith::IndexCastUIOp::create(b, b.getIndexType(), id);
    }
    rewriter.replaceOp(op, ids);
    return success();
  }
};

struct FlashCoreToNVVMPass final
    : mlir::flashcore::impl::FlashCoreToNVVMPassBase<FlashCoreToNVVMPass> {
  /// The dynamic shared memory of all kernels: one external symbol without a
  /// size, which is the launch's. (Upstream's lowering aligns it to 16 bytes.)
  void nameSharedMemory() {
    SmallVector<gpu::DynamicSharedMemoryOp> uses;
    getOperation().walk(
        [&](gpu::DynamicSharedMemoryOp op) { uses.push_back(op); });
    if (uses.empty())
      return;
    MemRefType view = uses.front().getType();
    auto type = MemRefType::get({0}, view.getElementType(), view.getLayout(),
                                view.getMemorySpace());
    OpBuilder b(&getContext());
    auto global = memref::GlobalOp::create(
        b, getOperation().getLoc(), kSharedSymbol,
        /*sym_visibility=*/StringAttr(), type,
        /*initial_value=*/Attribute(), /*constant=*/false,
        b.getI64IntegerAttr(kSharedAlignment));
    StringAttr name = SymbolTable(getOperation())
                          .insert(global, getOperation().getBody()->begin());
    for (gpu::DynamicSharedMemoryOp op : uses) {
      b.setInsertionPoint(op);
      Value base = memref::GetGlobalOp::create(b, op.getLoc(), type, name);
      op.replaceAllUsesWith(
          memref::CastOp::create(b, op.getLoc(), op.getType(), base).getDest());
      op.erase();
    }
  }

  /// Whether nothing is left of warps and their tiles.
  LogicalResult checkPrecondition() {
    WalkResult result = getOperation().walk([](Operation *op) {
      bool isOfThreads =
          isa<gpu::GPUFuncOp>(op) ||
          (!isa_and_nonnull<fcgpu::FCGPUDialect>(op->getDialect()) &&
           !isa<scf::ForallOp>(op) && !fcgpu::awaitsTiles(op));
      if (isOfThreads)
        return WalkResult::advance();
      op->emitOpError("expects threads in the place of warps and their tiles; "
                      "run flashcore-distribute first");
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Whether the kernels' chip has tanh.approx.
  bool hasTanh() {
    constexpr unsigned firstChip = 75;
    for (auto kernel : getOperation().getOps<gpu::GPUFuncOp>())
      if (auto schedule = kernel->getAttrOfType<fcgpu::ScheduleAttr>(
              fcgpu::kScheduleAttrName))
        if (const TargetInfo *target = lookupTarget(schedule.getChip()))
          return target->capability >= firstChip;
    return true;
  }

  LogicalResult expand() {
    RewritePatternSet patterns(&getContext());
    memref::populateExpandStridedMetadataPatterns(patterns);
    patterns.add<ExpandBlockIds>(&getContext(), /*benefit=*/2);
    if (!hasTanh())
      math::populateExpansionPatterns(patterns, {"tanh"});
    affine::populateAffineExpandIndexOpsPatterns(patterns);
    populateAffineToStdConversionPatterns(patterns);
    // Not the whole of arith-expand, which would also take maxnumf apart.
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    vector::populateVectorFromElementsUnrollPatterns(patterns);
    vector::populateVectorBroadcastLoweringPatterns(patterns);
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return failure();
    OpPassManager pm(gpu::GPUModuleOp::getOperationName());
    pm.addPass(createCSEPass());
    pm.addPass(createSCFToControlFlowPass());
    return runPipeline(pm, getOperation());
  }

  LogicalResult convert() {
    MLIRContext *context = &getContext();
    LowerToLLVMOptions options(context);
    options.useBarePtrCallConv = true;
    options.overrideIndexBitwidth(64);
    LLVMTypeConverter converter(context, options);
    configureGpuToNVVMTypeConverter(converter);
    converter.addConversion([&](nvgpu::DeviceAsyncTokenType type) -> Type {
      return converter.convertType(IntegerType::get(type.getContext(), 32));
    });

    RewritePatternSet patterns(context);
    populateFlashCoreToNVVMPatterns(converter, patterns);
    populateNVGPUToNVVMConversionPatterns(converter, patterns);
    populateGpuToNVVMConversionPatterns(converter, patterns);
    populateGpuWMMAToNVVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    ub::populateUBToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);

    LLVMConversionTarget target(*context);
    configureGpuToNVVMConversionLegality(target);
    // Upstream forbids these because libdevice would replace them; NVPTX
    // selects single instructions for them.
    target.addLegalOp<LLVM::Exp2Op, LLVM::FMAOp, LLVM::FAbsOp, LLVM::FFloorOp,
                      LLVM::FCeilOp>();
    target.addDynamicallyLegalOp<LLVM::TanhOp>([](LLVM::TanhOp op) {
      return LLVM::bitEnumContainsAll(op.getFastmathFlags(),
                                      LLVM::FastmathFlags::afn);
    });
    return applyPartialConversion(getOperation(), target, std::move(patterns));
  }

  /// Postcondition: nothing but LLVM and NVVM ops, and no call that nobody
  /// would resolve (upstream turns some math ops into calls of libdevice).
  LogicalResult checkPostcondition() {
    WalkResult result = getOperation().walk([&](Operation *op) {
      if (op != getOperation() &&
          !isa_and_nonnull<LLVM::LLVMDialect, NVVM::NVVMDialect>(
              op->getDialect())) {
        op->emitOpError("cannot be lowered to the LLVM or NVVM dialect");
        return WalkResult::interrupt();
      }
      auto call = dyn_cast<LLVM::CallOp>(op);
      std::optional<StringRef> callee = call ? call.getCallee() : std::nullopt;
      if (callee && callee->starts_with("__nv_")) {
        op->emitOpError("needs ") << *callee
                                  << " of libdevice, which is not "
                                     "linked into kernels";
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  /// Tensor maps are passed by value, and stay where the launch put them: bulk
  /// copies take their address.
  static void passTensorMapsByValue(LLVM::LLVMFuncOp func,
                                    DictionaryAttr kernel) {
    auto arguments =
        kernel ? kernel.getAs<ArrayAttr>("arguments") : ArrayAttr();
    if (!arguments || arguments.size() != func.getNumArguments())
      return;
    Builder b(func.getContext());
    auto bytes = LLVM::LLVMArrayType::get(b.getI8Type(), kTensorMapBytes);
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      auto entry = dyn_cast<DictionaryAttr>(argument);
      if (!entry || entry.get("kind") != b.getStringAttr("tensor_map"))
        continue;
      func.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(bytes));
      func.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                      b.getI64IntegerAttr(kTensorMapAlignment));
      func.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(),
                      b.getUnitAttr());
    }
  }

  void setKernelAttributes(LLVM::LLVMFuncOp func) {
    auto schedule =
        func->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
    auto kernel = func->getAttrOfType<DictionaryAttr>(fcgpu::kKernelAttrName);
    auto threads =
        kernel ? kernel.getAs<IntegerAttr>("threads") : IntegerAttr();
    if (!schedule && !threads)
      return;
    Builder b(&getContext());
    auto *nvvm = getContext().getLoadedDialect<NVVM::NVVMDialect>();
    int64_t numThreads = schedule ? schedule.getNumThreads() : threads.getInt();
    // reqntid, not maxntid: the block size is exact, so ptxas knows how many
    // registers there are.
    func->removeAttr(nvvm->getMaxntidAttrName());
    func->setAttr(
        nvvm->getReqntidAttrName(),
        b.getDenseI32ArrayAttr({static_cast<int32_t>(numThreads), 1, 1}));
    // A kernel without a schedule waits for its loads once if it has the
    // registers for all of them; ptxas by itself would make room for blocks.
    int64_t minBlocks = schedule ? schedule.getMinBlocks() : 1;
    if (minBlocks > 0)
      func->setAttr(nvvm->getMinctasmAttrName(),
                    b.getI32IntegerAttr(minBlocks));
    func.setDenormalFpMathF32("preserve-sign,preserve-sign");
    passTensorMapsByValue(func, kernel);
  }

  /// Upstream's way to PTX learns what the kernels need from the targets of
  /// their module.
  void raisePTXVersion() {
    ArrayAttr targets = getOperation().getTargetsAttr();
    if (!targets)
      return;
    unsigned needed = fcgpu::getNeededPTXVersion(getOperation());
    SmallVector<Attribute> raised(targets.getValue());
    for (Attribute &target : raised) {
      auto nvvm = dyn_cast<NVVM::NVVMTargetAttr>(target);
      const TargetInfo *info = nvvm ? lookupTarget(nvvm.getChip()) : nullptr;
      if (!info)
        continue;
      std::string features = raisePTXFeature(
          nvvm.getFeatures(), std::max(needed, info->ptxVersion));
      target = NVVM::NVVMTargetAttr::get(
          &getContext(), nvvm.getO(), nvvm.getTriple(), nvvm.getChip(),
          features, nvvm.getFlags(), nvvm.getLink(), nvvm.getVerifyTarget());
    }
    getOperation().setTargetsAttr(ArrayAttr::get(&getContext(), raised));
  }

  void runOnOperation() override {
    // A module of somebody else's kernels is theirs to lower. A merge has no
    // schedule.
    auto isOurs = [](gpu::GPUFuncOp kernel) {
      return fcgpu::isOurKernel(kernel) ||
             kernel->hasAttr(fcgpu::kKernelAttrName);
    };
    if (llvm::none_of(getOperation().getOps<gpu::GPUFuncOp>(), isOurs))
      return;
    if (failed(checkPrecondition()))
      return signalPassFailure();
    nameSharedMemory();
    if (failed(expand()) || failed(convert()))
      return signalPassFailure();
    OpPassManager pm(gpu::GPUModuleOp::getOperationName());
    pm.addPass(createReconcileUnrealizedCastsPass());
    // What has no intrinsic becomes inline PTX.
    pm.addPass(createConvertNVVMToLLVMPass());
    if (failed(runPipeline(pm, getOperation())) || failed(checkPostcondition()))
      return signalPassFailure();
    getOperation().walk(
        [&](LLVM::LLVMFuncOp func) { setKernelAttributes(func); });
    raisePTXVersion();
  }
};
} // namespace
