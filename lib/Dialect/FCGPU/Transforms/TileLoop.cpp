//===- TileLoop.cpp - Loops over block tiles and key tiles ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A persistent kernel says so in its schedule; its loop over block tiles is the
// one that stands in the loop over warps.
//
//===----------------------------------------------------------------------===//

#include "TileLoop.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/IR/ValueBoundsOpInterfaceImpl.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fcgpu;

bool mlir::fcgpu::isTileLoop(scf::ForOp loop) {
  auto kernel = loop->getParentOfType<gpu::GPUFuncOp>();
  auto schedule = kernel
                      ? kernel->getAttrOfType<ScheduleAttr>(kScheduleAttrName)
                      : ScheduleAttr();
  return schedule && schedule.isPersistent() &&
         isa<scf::ForallOp>(loop->getParentOp());
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

bool mlir::fcgpu::hasProducer(Operation *kernel) {
  return kernel->walk([](ProduceOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
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
