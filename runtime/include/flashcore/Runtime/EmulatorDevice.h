//===- EmulatorDevice.h - Run kernels on the PTX emulator -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second device: the bundle's PTX on the CPU, with every check of the
// emulator. What a check finds is a kernel fault, with the findings as notes.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_EMULATORDEVICE_H
#define FLASHCORE_RUNTIME_EMULATORDEVICE_H

#include "flashcore/Runtime/Device.h"

namespace flashcore {

/// Always succeeds; the device cannot time kernels.
std::unique_ptr<Device> createEmulatorDevice();

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_EMULATORDEVICE_H
