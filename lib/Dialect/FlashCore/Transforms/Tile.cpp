//===- Tile.cpp - Phase 2: blocks and warps -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns each attention into a kernel and its launch. The kernel is built here,
// not outlined, so that its arguments are the ones the manifest lists. Relies
// on fcgpu.schedule; what a tile computes is left to the next phase.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleChoice.h"
#include "flashcore/Dialect/FlashCore/Transforms/KernelSignature.h"
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/SymbolTable.h"

namespace mlir::flashcore {
#define GEN_PASS_DEF_TILEPASS
#include "flashcore/Dialect/FlashCore/Transforms/Passes.h.inc"
} // namespace mlir::flashcore

using namespace mlir;
using namespace mlir::flashcore;

namespace {
/// Builds the kernel of one attention, and its launch.
class KernelBuilder {
public:
  KernelBuilder(AttentionOp op, fcgpu::ScheduleAttr schedule)
      : op(op), schedule(schedule), signature(op), b(op.getLoc(), op) {}

  /// All that the kernel's code depends on.
  std::pair<DictionaryAttr, fcgpu::ScheduleAttr> getKey() {
    return {signature.toDictionary(op, schedule, getSharedMemory()), schedule};
  }
  /// Makes a gpu.module with the kernel at the end of `module`.
  gpu::GPUFuncOp buildKernel(ModuleOp module);
  /// Replaces the attention by a launch of `kernel`.
  void buildLaunch(gpu::GPUFuncOp kernel);

private:
  std::string getKernelName();
  void buildBody();
  void buildWarpTile(Value warp);
  /// The memref of tensor `i` inside the kernel.
  Value reinterpret(unsigned i);
  /// A rows x columns part of a tensor, one batch entry and head of it.
  Value slice(StringRef name, Value head, OpFoldResult row, OpFoldResult rows);

  OpFoldResult getSize(Dim dim) const { return sizes[static_cast<int>(dim)]; }
  int64_t getSharedMemory() {
    return getSharedMemoryBytes(op.getHeadDim(), op.getHeadDimV(),
                                schedule.getBlockM() * schedule.getHeadGroup(),
                                schedule.getBlockN(), schedule.getNumStages());
  }
  Value asValue(OpFoldResult ofr) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
  }
  OpFoldResult apply(AffineExpr expr, ArrayRef<OpFoldResult> operands) {
    return affine::makeComposedFoldedAffineApply(b, b.getLoc(), expr, operands);
  }
  OpFoldResult getNumQueryBlocks() {
    return apply(b.getAffineDimExpr(0).ceilDiv(schedule.getBlockM()),
                 {getSize(Dim::SeqlenQ)});
  }

  OpFoldResult getNumHeadGroups() {
    return apply(b.getAffineDimExpr(0).floorDiv(schedule.getHeadGroup()),
                 {getSize(Dim::HeadsQ)});
  }

  AttentionOp op;
  fcgpu::ScheduleAttr schedule;
  KernelSignature signature;
  ImplicitLocOpBuilder b;
  gpu::GPUFuncOp func;
  OpFoldResult sizes[kNumDims + 1];
  SmallVector<Value> tensors;
  /// What the block works on: query heads from firstHead on.
  Value batch, firstHead, headKV, queryBlock;
};
} // namespace

std::string KernelBuilder::getKernelName() {
  std::string type;
  llvm::raw_string_ostream(type) << op.getQueryType().getElementType();
  return "attention_" + type + "_d" + std::to_string(op.getHeadDim()) +
         (op.getCausal() ? "_causal" : "");
}

gpu::GPUFuncOp KernelBuilder::buildKernel(ModuleOp module) {
  MLIRContext *context = op.getContext();
  SymbolTable symbols(module);
  b.setInsertionPointToEnd(module.getBody());
  std::string name = getKernelName();
  auto gpuModule = gpu::GPUModuleOp::create(b, name);
  symbols.insert(gpuModule);

  b.setInsertionPointToStart(gpuModule.getBody());
  auto type =
      b.getFunctionType(signature.getArgumentTypes(context), TypeRange());
  func = gpu::GPUFuncOp::create(b, name, type);
  func->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr(
      {static_cast<int32_t>(schedule.getNumThreads()), 1, 1}));
  func->setAttr(fcgpu::kScheduleAttrName, schedule);
  func->setAttr(fcgpu::kKernelAttrName, getKey().first);
  for (auto [i, argument] : llvm::enumerate(signature.getArguments())) {
    if (argument.kind != KernelArgument::Pointer)
      continue;
    // The tensors do not overlap, rows start at 16 bytes (so does the pointer,
    // unless the offset is the caller's), and nobody else writes the inputs
    // while the kernel runs.
    func.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
    const KernelTensor &tensor = signature.getTensors()[argument.tensor];
    if (!ShapedType::isDynamic(tensor.offset))
      func.setArgAttr(i, "llvm.align", b.getI32IntegerAttr(tensor.alignment));
    if (!tensor.isOutput)
      func.setArgAttr(i, "llvm.readonly", b.getUnitAttr());
  }
  b.setInsertionPointToStart(&func.getBody().front());
  buildBody();
  return func;
}

Value KernelBuilder::reinterpret(unsigned i) {
  const KernelTensor &tensor = signature.getTensors()[i];
  OpFoldResult offset = b.getIndexAttr(tensor.offset);
  SmallVector<OpFoldResult> shape, strides;
  for (Dim dim : tensor.axes)
    shape.push_back(getSize(dim));
  for (int64_t stride : tensor.strides)
    strides.push_back(b.getIndexAttr(stride));
  Value base;
  for (auto [argument, value] :
       llvm::zip_equal(signature.getArguments(), func.getArguments())) {
    if (argument.kind == KernelArgument::Size || argument.tensor != i)
      continue;
    if (argument.kind == KernelArgument::Pointer)
      base = value;
    else if (argument.kind == KernelArgument::Offset)
      offset = value;
    else
      strides[argument.axis] = value;
  }
  auto layout =
      StridedLayoutAttr::get(op.getContext(), tensor.offset, tensor.strides);
  SmallVector<int64_t> staticShape;
  for (OpFoldResult size : shape)
    staticShape.push_back(
        getConstantIntValue(size).value_or(ShapedType::kDynamic));
  MemRefType original = tensor.getType();
  auto type = MemRefType::get(staticShape, original.getElementType(), layout,
                              original.getMemorySpace());
  return memref::ReinterpretCastOp::create(b, type, base, offset, shape,
                                           strides);
}

void KernelBuilder::buildBody() {
  for (unsigned d = 0; d <= kNumDims; ++d)
    if (auto extent = signature.getExtent(static_cast<Dim>(d)))
      sizes[d] = b.getIndexAttr(*extent);
  for (auto [argument, value] :
       llvm::zip_equal(signature.getArguments(), func.getArguments()))
    if (argument.kind == KernelArgument::Size)
      sizes[static_cast<int>(argument.dim)] = value;
  for (unsigned i = 0; i < signature.getTensors().size(); ++i)
    tensors.push_back(reinterpret(i));

  // The block's batch entry, head and query block, from one linear number: the
  // x axis of a grid is the only one without a small limit.
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  OpFoldResult numBlocks = getNumQueryBlocks();
  OpFoldResult numBatch = getSize(Dim::Batch), numGroups = getNumHeadGroups();
  Value headGroup;
  if (schedule.getGridOrder() == fcgpu::GridOrder::QueryFastest) {
    SmallVector<OpFoldResult> basis{numBatch, numGroups, numBlocks};
    auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
    batch = ids.getResult(0);
    headGroup = ids.getResult(1);
    queryBlock = ids.getResult(2);
  } else {
    SmallVector<OpFoldResult> basis{numBlocks, numBatch, numGroups};
    auto ids = affine::AffineDelinearizeIndexOp::create(b, block, basis);
    batch = ids.getResult(1);
    headGroup = ids.getResult(2);
    // The last query rows see the most keys: they go first.
    queryBlock =
        asValue(apply(b.getAffineDimExpr(0) - b.getAffineDimExpr(1) - 1,
                      {numBlocks, ids.getResult(0)}));
  }
  AffineExpr d0 = b.getAffineDimExpr(0);
  AffineExpr s0 = b.getAffineSymbolExpr(0), s1 = b.getAffineSymbolExpr(1);
  firstHead = asValue(apply(d0 * schedule.getHeadGroup(), {headGroup}));
  headKV =
      asValue(apply(d0.floorDiv(s0.floorDiv(s1)),
                    {firstHead, getSize(Dim::HeadsQ), getSize(Dim::HeadsKV)}));

  SmallVector<OpFoldResult> warps{b.getIndexAttr(schedule.getNumWarps())};
  auto mapping = b.getArrayAttr({gpu::GPUWarpMappingAttr::get(
      op.getContext(), gpu::MappingId::LinearDim0)});
  auto forall = scf::ForallOp::create(b, warps, ValueRange(), mapping);
  b.setInsertionPoint(forall.getTerminator());
  buildWarpTile(forall.getInductionVar(0));
  b.setInsertionPointAfter(forall);
  gpu::ReturnOp::create(b);
}

Value KernelBuilder::slice(StringRef name, Value head, OpFoldResult row,
                           OpFoldResult rows) {
  unsigned i = signature.getTensorIndex(name);
  const KernelTensor &tensor = signature.getTensors()[i];
  OpFoldResult one = b.getIndexAttr(1), zero = b.getIndexAttr(0);
  SmallVector<OpFoldResult> offsets{batch, head, row}, shape{one, one, rows};
  SmallVector<OpFoldResult> strides(tensor.axes.size(), one);
  if (tensor.axes.size() == 4) {
    offsets.push_back(zero);
    shape.push_back(getSize(tensor.axes[3]));
  }
  return memref::SubViewOp::create(b, tensors[i], offsets, shape, strides);
}

void KernelBuilder::buildWarpTile(Value warp) {
  int64_t warpM = schedule.getWarpM(), rowWarps = schedule.getRowWarps();
  AffineExpr d0 = b.getAffineDimExpr(0), d1 = b.getAffineDimExpr(1);
  // The warps of one head are neighbours.
  AffineExpr rowTile = d1;
  Value headQ = firstHead;
  if (schedule.getHeadGroup() > 1) {
    rowTile = d1 % rowWarps;
    headQ = asValue(apply(d0 + d1.floorDiv(rowWarps), {firstHead, warp}));
  }
  OpFoldResult row =
      apply(d0 * schedule.getBlockM() + rowTile * warpM, {queryBlock, warp});
  // Rows of the tile that exist: fewer, or none, at the end of the sequence.
  OpFoldResult rows = b.getIndexAttr(warpM);
  auto seqlenQ = signature.getExtent(Dim::SeqlenQ);
  if (!seqlenQ || *seqlenQ % schedule.getBlockM() != 0) {
    AffineMap map = AffineMap::get(
        2, 0, {b.getAffineConstantExpr(warpM), d0 - d1}, op.getContext());
    Value left = asValue(affine::makeComposedFoldedAffineMin(
        b, b.getLoc(), map, {getSize(Dim::SeqlenQ), row}));
    rows =
        arith::MaxSIOp::create(b, left, asValue(b.getIndexAttr(0))).getResult();
  }

  OpFoldResult zero = b.getIndexAttr(0), seqlenK = getSize(Dim::SeqlenK);
  Value q = slice("q", headQ, row, rows);
  Value k = slice("k", headKV, zero, seqlenK);
  Value v = slice("v", headKV, zero, seqlenK);
  Value o = slice("o", headQ, row, rows);
  Value lse = op.getLse() ? slice("lse", headQ, row, rows) : Value();
  // The bias stays whole: it is read by whole coordinates.
  Value bias =
      op.getBias() ? tensors[signature.getTensorIndex("bias")] : Value();
  SmallVector<Value> tile{batch,         headQ,
                          asValue(row),  asValue(getSize(Dim::SeqlenQ)),
                          asValue(zero), asValue(seqlenK)};
  auto tiled = AttentionOp::create(
      b, TypeRange(), q, k, v, bias, /*alibi_slopes=*/Value(),
      /*sink_logits=*/Value(), /*cu_seqlens_q=*/Value(),
      /*cu_seqlens_k=*/Value(), /*seqused_k=*/Value(), /*page_table=*/Value(),
      o, lse, tile, b.getF32FloatAttr(op.getEffectiveScale()),
      op.getSoftcapAttr(), op.getCausalAttr(), op.getWindowLeftAttr(),
      op.getWindowRightAttr());
  tiled->setAttr(fcgpu::kScheduleAttrName, schedule);
}

void KernelBuilder::buildLaunch(gpu::GPUFuncOp kernel) {
  b.setInsertionPoint(op);
  ArrayRef<KernelTensor> hostTensors = signature.getTensors();
  SmallVector<memref::ExtractStridedMetadataOp> metadata;
  for (const KernelTensor &tensor : hostTensors)
    metadata.push_back(
        memref::ExtractStridedMetadataOp::create(b, tensor.value));
  SmallVector<Value> hostSizes(kNumDims + 1);
  for (auto [tensor, data] : llvm::zip_equal(hostTensors, metadata))
    for (auto [dim, size] : llvm::zip_equal(tensor.axes, data.getSizes()))
      hostSizes[static_cast<int>(dim)] = size;
  for (unsigned d = 0; d <= kNumDims; ++d)
    sizes[d] = signature.getExtent(static_cast<Dim>(d))
                   ? OpFoldResult(b.getIndexAttr(
                         *signature.getExtent(static_cast<Dim>(d))))
                   : OpFoldResult(hostSizes[d]);

  SmallVector<Value> operands;
  for (const KernelArgument &argument : signature.getArguments()) {
    auto data = metadata[argument.tensor];
    switch (argument.kind) {
    case KernelArgument::Pointer:
      operands.push_back(data.getBaseBuffer());
      break;
    case KernelArgument::Size:
      operands.push_back(hostSizes[static_cast<int>(argument.dim)]);
      break;
    case KernelArgument::Stride:
      operands.push_back(data.getStrides()[argument.axis]);
      break;
    case KernelArgument::Offset:
      operands.push_back(data.getOffset());
      break;
    }
  }
  Value one = asValue(b.getIndexAttr(1));
  AffineExpr d0, d1, d2;
  bindDims(op.getContext(), d0, d1, d2);
  Value grid = asValue(
      apply(d0 * b.getAffineSymbolExpr(0) * b.getAffineSymbolExpr(1),
            {getNumQueryBlocks(), getNumHeadGroups(), getSize(Dim::Batch)}));
  Value threads = asValue(b.getIndexAttr(schedule.getNumThreads()));
  Value shared =
      arith::ConstantOp::create(b, b.getI32IntegerAttr(getSharedMemory()));
  gpu::LaunchFuncOp::create(b, kernel, gpu::KernelDim3{grid, one, one},
                            gpu::KernelDim3{threads, one, one}, shared,
                            operands);
  op.erase();
}

namespace {
struct TilePass final : mlir::flashcore::impl::TilePassBase<TilePass> {
  /// What the kernel builder relies on, beyond the op's verifier.
  LogicalResult checkPrecondition(AttentionOp op) {
    if (!op.hasPureBufferSemantics())
      return op.emitOpError(
          "is on tensors; bufferize it first (one-shot-bufferize)");
    if (op->getParentOfType<gpu::LaunchOp>() ||
        op->getParentOfType<gpu::GPUModuleOp>())
      return op.emitOpError("stands in device code; attention is launched from "
                            "the host");
    if (op->getParentOfType<ModuleOp>() != getOperation())
      return op.emitOpError("stands in a nested module; compile that module by "
                            "itself");
    if (!op->hasAttr(fcgpu::kScheduleAttrName))
      return op.emitOpError(
          "has no fcgpu.schedule; run flashcore-configure first");
    if (!op.getTile().empty())
      return op.emitOpError("is a tile already, but stands outside a kernel");
    auto schedule =
        op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
    if (auto error =
            checkHeadGroup(AttentionProblem::get(op), schedule.getHeadGroup()))
      return op.emitOpError(*error);
    return checkLowerable(op);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<AttentionOp> ops;
    bool anyFailed = false;
    module.walk([&](AttentionOp op) {
      if (op->getParentOfType<gpu::GPUFuncOp>())
        return;
      anyFailed |= failed(checkPrecondition(op));
      ops.push_back(op);
    });
    if (anyFailed)
      return signalPassFailure();
    // Equal attentions share a kernel.
    DenseMap<std::pair<DictionaryAttr, fcgpu::ScheduleAttr>, gpu::GPUFuncOp>
        kernels;
    for (AttentionOp op : ops) {
      auto schedule =
          op->getAttrOfType<fcgpu::ScheduleAttr>(fcgpu::kScheduleAttrName);
      KernelBuilder builder(op, schedule);
      gpu::GPUFuncOp &kernel = kernels[builder.getKey()];
      if (!kernel) {
        kernel = builder.buildKernel(module);
        ++numKernels;
      }
      builder.buildLaunch(kernel);
    }
    if (!ops.empty())
      module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                      UnitAttr::get(&getContext()));
  }
};
} // namespace
