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

#include <filesystem>

namespace flashcore {

/// The folder for code that the driver assembled: $FLASHCORE_CACHE_DIR, else
/// flashcore in $XDG_CACHE_HOME, else ~/.cache/flashcore; an absolute path.
/// Relative ones in $XDG_CACHE_HOME and $HOME are ignored. None when the first
/// is set to nothing.
std::optional<std::filesystem::path> defaultCubinCache();

/// Opens GPU `ordinal`. A machine without a GPU is a NoDevice status. Code that
/// the driver assembles is kept in the folder `cubinCache`, if there is one.
StatusOr<std::unique_ptr<Device>>
createCudaDevice(const CudaDriver &driver, int ordinal = 0,
                 const std::optional<std::filesystem::path> &cubinCache =
                     defaultCubinCache());

/// The same with the driver of this machine.
StatusOr<std::unique_ptr<Device>> createCudaDevice(int ordinal = 0);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CUDADEVICE_H
