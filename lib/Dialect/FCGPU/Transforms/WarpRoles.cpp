//===- WarpRoles.cpp - Who runs a kernel ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between flashcore-specialize-warps and flashcore-distribute, which gives each
// warp its side.
//
//===----------------------------------------------------------------------===//

#include "WarpRoles.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"
#include "flashcore/Target/TargetInfo.h"

using namespace mlir;
using namespace mlir::fcgpu;
using flashcore::kWarpSize;

Launch Launch::get(gpu::GPUFuncOp kernel) {
  auto schedule = kernel->getAttrOfType<ScheduleAttr>(kScheduleAttrName);
  return {schedule.getChip(), schedule.getNumThreads(),
          schedule.getProducerWarps(), schedule.getBlocksPerSM()};
}

int64_t mlir::fcgpu::getTileWarps(scf::ForallOp warps) {
  std::optional<ArrayAttr> mapping = warps.getMapping();
  bool isOfGroups = mapping && llvm::any_of(*mapping, [](Attribute dimension) {
                      return isa<gpu::GPUWarpgroupMappingAttr>(dimension);
                    });
  return isOfGroups ? kWarpsOfGroup : 1;
}

bool mlir::fcgpu::hasProducer(gpu::GPUFuncOp kernel) {
  return kernel->walk([](ProduceOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

WarpRoles WarpRoles::get(gpu::GPUFuncOp kernel, const Launch &launch) {
  WarpRoles roles;
  roles.hasProducer = fcgpu::hasProducer(kernel);
  roles.numWarps = launch.numThreads / kWarpSize;
  if (roles.hasProducer)
    roles.numWarps -= launch.producerWarps;
  kernel.walk([&](scf::ForallOp warps) {
    roles.tileWarps = std::max(roles.tileWarps, getTileWarps(warps));
  });
  return roles;
}

int64_t WarpRoles::getNumConsumers() const { return numWarps * kWarpSize; }
