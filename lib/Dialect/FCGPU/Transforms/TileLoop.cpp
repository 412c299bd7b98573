//===- TileLoop.cpp - Loops over block tiles and key tiles ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loop of a persistent kernel over its block tiles has fcgpu.block_tiles,
// from flashcore-tile.
//
//===----------------------------------------------------------------------===//

#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fcgpu;

bool mlir::fcgpu::isTileLoop(scf::ForOp loop) {
  return loop->hasAttr(kBlockTilesAttrName);
}

scf::ForOp mlir::fcgpu::getTileLoop(scf::ForallOp warps) {
  for (auto loop : warps.getBody()->getOps<scf::ForOp>())
    if (isTileLoop(loop))
      return loop;
  return {};
}

Block *mlir::fcgpu::getTileBody(scf::ForallOp warps) {
  scf::ForOp loop = getTileLoop(warps);
  return loop ? loop.getBody() : warps.getBody();
}

scf::ForOp mlir::fcgpu::getKeyLoop(Operation *op) {
  auto loop = op->getParentOfType<scf::ForOp>();
  return loop && !isTileLoop(loop) ? loop : scf::ForOp();
}

/// Whether it is a part of an argument that the kernel does not write, nor
/// anybody else while it runs.
static bool isInput(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  auto argument = dyn_cast<BlockArgument>(memref);
  if (!argument)
    return false;
  auto kernel = dyn_cast<gpu::GPUFuncOp>(argument.getOwner()->getParentOp());
  return kernel &&
         kernel.getArgAttr(argument.getArgNumber(),
                           LLVM::LLVMDialect::getReadonlyAttrName()) &&
         kernel.getArgAttr(argument.getArgNumber(),
                           LLVM::LLVMDialect::getNoAliasAttrName());
}

bool mlir::fcgpu::isRepeatable(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return isInput(load.getMemRef());
  return isMemoryEffectFree(op) && op->getNumRegions() == 0;
}

LogicalResult mlir::fcgpu::addBodySlice(scf::ForOp loop, Operation *op,
                                        SetVector<Operation *> &slice) {
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *other) {
    return other->getBlock() == loop.getBody();
  };
  return getBackwardSlice(op, &slice, options);
}

std::optional<int64_t> mlir::fcgpu::getDistance(Value value, Value base) {
  if (value == base)
    return 0;
  if (auto add = value.getDefiningOp<arith::AddIOp>())
    if (add.getLhs() == base)
      return getConstantIntValue(add.getRhs());
  return std::nullopt;
}

void mlir::fcgpu::registerValueBounds(DialectRegistry &registry) {
  affine::registerValueBoundsOpInterfaceExternalModels(registry);
  arith::registerValueBoundsOpInterfaceExternalModels(registry);
  memref::registerValueBoundsOpInterfaceExternalModels(registry);
  scf::registerValueBoundsOpInterfaceExternalModels(registry);
}
