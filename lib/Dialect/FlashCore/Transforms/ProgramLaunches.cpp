//===- ProgramLaunches.cpp - Launches of a program's kernels --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes what a manifest says by the same formulas.
//
//===----------------------------------------------------------------------===//

#include "ProgramLaunches.h"
#include "flashcore/Target/TargetInfo.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::flashcore;

static Value asValue(ImplicitLocOpBuilder &b, OpFoldResult ofr) {
  return getValueOrCreateConstantIndexOp(b, b.getLoc(), ofr);
}

ProgramLaunches::ProgramLaunches(ImplicitLocOpBuilder &b,
                                 const KernelProgram &program)
    : b(b), program(program), host(b, *program.sizes) {
  // How many the device has is known to us from its chip alone; kernels are
  // right for any number of blocks.
  int64_t numSMs = lookupTarget(program.chip)->device.numSMs;
  host.setSize(Dim::Multiprocessors, b.getIndexAttr(numSMs));
}

Value ProgramLaunches::buildTest() {
  OpFoldResult number = host.build(program.condition.number);
  return arith::CmpIOp::create(
      b, arith::CmpIPredicate::sle, asValue(b, number),
      asValue(b, b.getIndexAttr(*program.condition.most)));
}

/// A pointer to elements of the type, which begin the workspace of so many
/// bytes.
Value ProgramLaunches::view(Type element, const SizeFormula &bytes) {
  int64_t elementBytes = element.getIntOrFloatBitWidth() / 8;
  Value count = asValue(b, host.build(bytes.floorDiv(elementBytes)));
  Value elements = memref::ViewOp::create(
      b, MemRefType::get({ShapedType::kDynamic}, element), workspace,
      asValue(b, b.getIndexAttr(0)), ValueRange{count});
  return memref::ExtractStridedMetadataOp::create(b, elements).getBaseBuffer();
}

void ProgramLaunches::allocateWorkspace() {
  SizeFormula bytes = 0;
  for (const SizeFormula &part : program.workspace)
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
  const KernelTensor &first = program.sizes->getTensors().front();
  pointers.typed = view(first.getType().getElementType(), bytes);
}

void ProgramLaunches::build(ArrayRef<gpu::GPUFuncOp> functions) {
  for (const ProgramValue &value : program.values)
    host.setSize(value.size, host.build(value.is));
  allocateWorkspace();
  for (auto [kernel, function] : llvm::zip_equal(program.kernels, functions))
    host.launch(function, kernel, pointers);
  if (workspace)
    gpu::DeallocOp::create(b, /*asyncToken=*/Type(),
                           /*asyncDependencies=*/ValueRange(), workspace);
}
