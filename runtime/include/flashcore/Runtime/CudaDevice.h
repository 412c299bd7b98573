//===- CudaDevice.h - NVIDIA GPUs -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Device that runs bundles through the CUDA driver API.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CUDADEVICE_H
#define FLASHCORE_RUNTIME_CUDADEVICE_H

#include "flashcore/Runtime/CudaDriver.h"
#include "flashcore/Runtime/Device.h"

namespace flashcore {

/// Opens GPU `ordinal`. A machine without a GPU is a NoDevice status.
StatusOr<std::unique_ptr<Device>> createCudaDevice(const CudaDriver &driver,
                                                   int ordinal = 0);

/// The same with the driver of this machine.
StatusOr<std::unique_ptr<Device>> createCudaDevice(int ordinal = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CUDADEVICE_H
