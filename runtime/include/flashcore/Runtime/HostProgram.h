//===- HostProgram.h - How the kernels of a bundle are launched -----*- C++
//-*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes, tensors, and kernels whose launches follow from them: what a manifest
// says, and a comment in PTX, whatever the kernels compute (docs/Bundle.md).
// Runtime, emulator and Python package read it by this one reader and compute
// by it.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_HOSTPROGRAM_H
#define FLASHCORE_RUNTIME_HOSTPROGRAM_H

#include "flashcore/Runtime/Chip.h"
#include "flashcore/Runtime/DType.h"
#include "flashcore/Runtime/Expression.h"

#include <array>
#include <vector>

namespace flashcore {

/// The name under which kernels ask for the workspace pointer.
inline constexpr std::string_view WorkspaceName = "workspace";
/// The name of an axis of size 1, whatever the size of the problem.
inline constexpr std::string_view BroadcastAxis = "1";

/// What grids call the multiprocessors of the device.
inline constexpr std::string_view MultiprocessorsName = "multiprocessors";
/// For a host that does not know them: more than there are blocks.
inline constexpr int64_t UnknownMultiprocessors = 1 << 30;

struct TensorSpec {
  /// Updated is an input of which kernels write rows.
  enum class Role { Input, Output, Updated };

  std::string name;
  Role role = Role::Input;
  DType dtype = DType::F16;
  /// The name of the size of each axis, outermost first, or BroadcastAxis.
  std::vector<std::string> axes;
  /// In elements; nullopt means that the caller chooses at run time.
  std::vector<std::optional<int64_t>> strides;
  std::optional<int64_t> offset;
  /// Of the pointer after the offset is added, in bytes.
  int64_t alignment = 1;
};

/// A part of a tensor, or all of it, as a tensor of its own.
struct ViewSpec : TensorSpec {
  std::string base; ///< an argument, an intermediate or a view in front of it
  /// Where it begins on each axis of the base, and which of those it has.
  std::vector<int64_t> begin;
  std::vector<size_t> baseAxes;
};

/// Of a tensor map, the argument of a kernel that makes bulk copies (TMA):
/// bytes, and what they and the strides that they hold are multiples of.
inline constexpr int64_t TensorMapSize = 128, TensorMapAlignment = 64,
                         TensorMapStrideUnit = 16;
inline constexpr size_t MaxTensorMapRank = 5;

struct ArgumentSpec {
  enum class Kind { Pointer, Size, Stride, Offset, TensorMap };

  Kind kind = Kind::Pointer;
  std::string tensor; ///< Pointer, Stride, Offset, TensorMap
  std::string dim;    ///< Size
  size_t axis = 0;    ///< Stride
  /// TensorMap: the elements that a copy moves along each axis of the tensor,
  /// and the bytes of the swizzle of shared memory. With a ragged axis, which
  /// has a second coordinate that says where it ends, one side more in front.
  std::vector<uint32_t> box;
  unsigned swizzle = 0;
  std::optional<size_t> raggedAxis;
  /// TensorMap: the rows of a group, where its axes are those of groups of
  /// panels (docs/Bundle.md) and not those of the tensor; else 0.
  int64_t group = 0;
  /// Of Pointer and TensorMap, of what is in the workspace: the tensor that a
  /// copy there is of, empty without, and the elements from row to row of it.
  std::string copyOf;
  int64_t copyRow = 0;

  /// What the kernel takes.
  int64_t bytes() const {
    return kind == Kind::TensorMap ? TensorMapSize : sizeof(uint64_t);
  }
};

/// What ptxas reported for the kernel.
struct KernelResources {
  Chip chip;
  int64_t registers = 0;
  int64_t spillStores = 0;
  int64_t spillLoads = 0;
  int64_t staticSharedMemory = 0;
};

struct KernelSpec {
  std::string name;
  /// Whether a call launches it; all do without.
  std::optional<Expression> when;
  std::array<int64_t, 3> block = {1, 1, 1};
  std::array<Expression, 3> grid;
  int64_t dynamicSharedMemory = 0;
  std::vector<ArgumentSpec> arguments;
  std::optional<KernelResources> resources;
};

/// A number that follows from sizes and from values in front of it.
struct ValueSpec {
  std::string name;
  Expression is;
};

struct WorkspaceTerm {
  Expression bytes;
  /// Whether a call needs it; all do without.
  std::optional<Expression> when;
};

class HostProgram {
public:
  /// A tensor that the caller gives.
  const TensorSpec *findTensor(std::string_view name) const;
  /// One of any kind.
  const TensorSpec *findAnyTensor(std::string_view name) const;
  const KernelSpec *findKernel(std::string_view name) const;

  /// Adds the values that follow from `numbers`, which has all sizes.
  Status addValues(Numbers &numbers) const;
  /// Of numbers with the values, as those below.
  StatusOr<bool> launches(const KernelSpec &kernel,
                          const Numbers &numbers) const;
  /// The sum of the terms, in bytes: intermediates are not counted.
  StatusOr<int64_t> workspaceBytes(const Numbers &numbers) const;
  /// Blocks in each direction, any of which may be 0, on a device of so many
  /// multiprocessors.
  StatusOr<std::array<int64_t, 3>> grid(const KernelSpec &kernel,
                                        Numbers numbers,
                                        int64_t multiprocessors) const;

  /// nullopt means that the caller chooses at run time.
  std::map<std::string, std::optional<int64_t>, std::less<>> sizes;
  std::vector<TensorSpec> tensors;
  /// Packed tensors in the workspace, each behind the one in front of it.
  std::vector<TensorSpec> intermediates;
  std::vector<ViewSpec> views;

  // Of one variant:
  std::vector<ValueSpec> values;
  std::vector<WorkspaceTerm> workspace;
  /// In the order in which they run.
  std::vector<KernelSpec> kernels;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_HOSTPROGRAM_H
