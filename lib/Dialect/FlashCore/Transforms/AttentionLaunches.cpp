//===- AttentionLaunches.cpp - Launches of an attention's kernels ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes what a manifest says by the same formulas (AttentionSizes.cpp).
//
//===----------------------------------------------------------------------===//

#include "AttentionLaunches.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

static Value asValue(ImplicitLocOpBuilder &b, OpFoldResult ofr) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
}

AttentionLaunches::AttentionLaunches(ImplicitLocOpBuilder &b,
                                     fcgpu::ScheduleAttr schedule,
                                     const AttentionSignature &signature)
    : b(b), schedule(schedule), signature(signature), host(b, signature) {
  // How many the device has is known to us from its chip alone; kernels are
  // right for any number of blocks.
  int64_t numSMs = lookupTarget(schedule.getChip())->device.numSMs;
  host.setSize(Dim::Multiprocessors, b.getIndexAttr(numSMs));
}

Value AttentionLaunches::buildQueryTest() {
  OpFoldResult rows = host.build(signature.getMeanQueries());
  return arith::CmpIOp::create(
      b, arith::CmpIPredicate::sle, asValue(b, rows),
      asValue(b, b.getIndexAttr(schedule.getExpectedQueries())));
}

/// A pointer to elements of the type, which begin the workspace of so many
/// bytes.
Value AttentionLaunches::view(Type element, const SizeFormula &bytes) {
  int64_t elementBytes = element.getIntOrFloatBitWidth() / 8;
  Value count = asValue(b, host.build(bytes.floorDiv(elementBytes)));
  Value elements = memref::ViewOp::create(
      b, MemRefType::get({ShapedType::kDynamic}, element), workspace,
      asValue(b, b.getIndexAttr(0)), ValueRange{count});
  return memref::ExtractStridedMetadataOp::create(b, elements).getBaseBuffer();
}

void AttentionLaunches::allocateWorkspace() {
  SizeFormula bytes = 0;
  for (const SizeFormula &part : signature.getWorkspace())
    bytes = bytes + part;
  if (bytes.getNumber() == 0)
    return;
  workspace = gpu::AllocOp::create(
                  b, MemRefType::get({ShapedType::kDynamic}, b.getI8Type()),
                  /*asyncToken=*/Type(), /*asyncDependencies=*/ValueRange(),
                  ValueRange{asValue(b, host.build(bytes))},
                  /*symbolOperands=*/ValueRange())
                  .getMemref();
  pointers.floats = view(b.getF32Type(), bytes);
  pointers.typed =
      view(signature.getTensors().front().getType().getElementType(), bytes);
}

void AttentionLaunches::build(ArrayRef<LaunchedKernel> kernels) {
  if (schedule.getSplitCount() == fcgpu::SplitCount::Call)
    host.setSize(Dim::KeySplits, host.build(signature.getKeySplits(schedule)));
  allocateWorkspace();
  for (const LaunchedKernel &each : kernels)
    host.launch(each.kernel, each.arguments, pointers, each.grid);
  if (workspace)
    gpu::DeallocOp::create(b, /*asyncToken=*/Type(),
                           /*asyncDependencies=*/ValueRange(), workspace);
}
