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

#include <map>

namespace flashcore {

/// By name: check, mma, schedule, async, threads, max-instructions, with the
/// values of flashcore-emu; and multiprocessors, for which persistent kernels
/// are launched.
using EmulatorOptions = std::map<std::string, std::string>;

/// With the defaults of flashcore-emu. The device cannot time kernels.
std::unique_ptr<Device> createEmulatorDevice();
/// Refuses options that the emulator does not know.
StatusOr<std::unique_ptr<Device>>
createEmulatorDevice(const EmulatorOptions &options);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_EMULATORDEVICE_H
