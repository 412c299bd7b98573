//===- Launch.h - From a problem to kernel launches -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the manifest's grid formulas and argument lists into numbers. Needs no
// device: the pointers are the caller's.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LAUNCH_H
#define FLASHCORE_RUNTIME_LAUNCH_H

#include "flashcore/Runtime/Problem.h"

namespace flashcore {

/// An address in device memory.
using DevicePointer = uint64_t;

/// Far more than any kernel has; so many fit into the 4 KiB that every driver
/// passes to a kernel.
inline constexpr size_t MaxArguments = 512;

/// One kernel launch with every number known.
struct KernelLaunch {
  /// Position of the kernel in the bundle.
  size_t kernel = 0;
  std::string name;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t dynamicSharedMemory = 0;
  /// Every argument of the manifest is 8 bytes wide.
  std::vector<uint64_t> arguments;

  /// An empty grid is valid and must not be launched.
  bool empty() const { return !grid[0] || !grid[1] || !grid[2]; }
};

/// By tensor name; with the key "workspace" when the problem needs one.
using PointerMap = std::map<std::string, DevicePointer, std::less<>>;

/// Checks those pointers that are given: none is null or not as aligned as its
/// tensor, and none of a workspace that is needed is null.
Status verifyPointers(const Problem &problem, const PointerMap &pointers);

/// The launches of `problem`, in the order in which they must run, for a device
/// with so many multiprocessors (DeviceLimits).
StatusOr<std::vector<KernelLaunch>> planLaunches(const Problem &problem,
                                                 const PointerMap &pointers,
                                                 int64_t multiprocessors);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LAUNCH_H
