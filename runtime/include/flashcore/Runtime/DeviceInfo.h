//===- DeviceInfo.h - What a device is and allows ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What decides which code of a bundle a device runs. A GPU's driver says it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_DEVICEINFO_H
#define FLASHCORE_RUNTIME_DEVICEINFO_H

#include "flashcore/Runtime/Chip.h"

#include <array>
#include <cstdint>
#include <string>

namespace flashcore {

struct DeviceLimits {
  /// Dynamic and static shared memory of one block, after opting in.
  int64_t sharedMemoryPerBlock = 0;
  int64_t threadsPerBlock = 0;
  std::array<int64_t, 3> block = {};
  std::array<int64_t, 3> grid = {};
  int64_t l2Bytes = 0;
  int64_t multiprocessors = 0;
};

struct DeviceInfo {
  std::string kind; ///< "cuda"
  std::string name; ///< "NVIDIA H100"
  Chip chip;
  /// Of the emulator: code for all chips runs, whatever `chip` is, which says
  /// what of several it takes.
  bool runsEveryChip = false;
  DeviceLimits limits;
  /// Whether the device itself reports each access outside a buffer.
  bool checksBounds = false;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_DEVICEINFO_H
