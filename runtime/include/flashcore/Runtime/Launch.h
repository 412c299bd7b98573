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

#include "flashcore/Runtime/TensorMap.h"

#include <span>

namespace flashcore {

/// An address in device memory.
using DevicePointer = uint64_t;

/// Far more than any kernel has; so many fit into the 4 KiB that every driver
/// passes to a kernel.
inline constexpr size_t MaxArguments = 512;

/// Tensor maps count as well: so many of them fill the 4 KiB.
inline constexpr size_t MaxTensorMaps =
    MaxArguments * sizeof(uint64_t) / TensorMapSize;

/// One kernel launch with every number known.
struct KernelLaunch {
  /// Position of the kernel in the bundle.
  size_t kernel = 0;
  std::string name;
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t dynamicSharedMemory = 0;
  /// Of an argument that is a tensor map, the address of the first element.
  std::vector<uint64_t> arguments;
  struct MapArgument {
    size_t argument = 0; ///< its position in `arguments`
    TensorMap map;
  };
  /// In the order of the arguments.
  std::vector<MapArgument> maps;

  /// An empty grid is valid and must not be launched.
  bool empty() const { return !grid[0] || !grid[1] || !grid[2]; }
};

/// What a kernel is given: `maps` has those of KernelLaunch::maps as its device
/// made them, and `values` all other arguments in their places.
struct LaunchArguments {
  std::span<const uint64_t> values;
  std::span<const TensorMapBytes> maps;
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
