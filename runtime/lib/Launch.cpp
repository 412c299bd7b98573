//===- Launch.cpp - From a problem to kernel launches ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest's argument list, evaluated. A pointer is passed without its
// offset: kernels add a static offset themselves and get a dynamic one as an
// argument of its own.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Launch.h"

#include <cassert>

using namespace flashcore;

static Status noPointer(const ArgumentSpec &argument) {
  return Status::error("expects a pointer for '" + argument.tensor +
                       "', but got none");
}

/// The number that an argument is, or the address that its tensor map has.
static StatusOr<uint64_t> evaluate(const ArgumentSpec &argument,
                                   const Problem &problem,
                                   const PointerMap &pointers) {
  switch (argument.kind) {
  case ArgumentSpec::Kind::Pointer: {
    Problem::Place place = problem.locate(argument.tensor);
    auto it = pointers.find(place.name);
    // Without query rows there is nothing to keep in a workspace.
    if (it == pointers.end() && place.name == WorkspaceName &&
        problem.workspaceBytes() == 0)
      return uint64_t(0);
    if (it == pointers.end())
      return noPointer(argument);
    return it->second + static_cast<uint64_t>(place.bytes);
  }
  case ArgumentSpec::Kind::Size:
    return static_cast<uint64_t>(problem.dim(argument.dim));
  case ArgumentSpec::Kind::Stride:
    return static_cast<uint64_t>(
        problem.findTensor(argument.tensor)->strides[argument.axis]);
  case ArgumentSpec::Kind::Offset:
    return static_cast<uint64_t>(problem.findTensor(argument.tensor)->offset);
  case ArgumentSpec::Kind::TensorMap: {
    Problem::Place place = problem.locate(argument.tensor);
    auto it = pointers.find(place.name);
    if (it == pointers.end() && place.name == WorkspaceName &&
        problem.workspaceBytes() == 0)
      return uint64_t(0);
    if (it == pointers.end())
      return noPointer(argument);
    TensorGeometry tensor = geometryOf(problem, argument);
    return it->second +
           static_cast<uint64_t>(place.bytes +
                                 tensor.offset * byteSize(tensor.dtype));
  }
  }
  assert(false && "unknown argument kind");
  return Status::error("unknown argument kind");
}

Status flashcore::verifyPointers(const Problem &problem,
                                 const PointerMap &pointers) {
  for (const TensorGeometry &tensor : problem.tensors()) {
    auto it = pointers.find(tensor.name);
    if (it == pointers.end())
      continue;
    if (!it->second &&
        tensor.spanBytes() > tensor.offset * byteSize(tensor.dtype))
      return Status::error("expects a pointer for '" + tensor.name +
                           "', but got null")
          .note("only a tensor without elements needs none");
    uint64_t offset =
        static_cast<uint64_t>(tensor.offset * byteSize(tensor.dtype));
    uint64_t first = it->second + offset;
    if (first % static_cast<uint64_t>(tensor.alignment))
      return Status::error(
          "expects '" + tensor.name + "' to start at a multiple of " +
          std::to_string(tensor.alignment) + " bytes, but got the address " +
          std::to_string(it->second) +
          (offset ? " and an offset of " + std::to_string(offset) + " bytes"
                  : ""));
  }
  auto workspace = pointers.find(WorkspaceName);
  if (workspace != pointers.end() && !workspace->second &&
      problem.workspaceBytes())
    return Status::error("expects " + std::to_string(problem.workspaceBytes()) +
                         " bytes of workspace, but got null");
  return Status::success();
}

static Status addArgument(KernelLaunch &launch, const ArgumentSpec &argument,
                          const Problem &problem, const PointerMap &pointers) {
  StatusOr<uint64_t> value = evaluate(argument, problem, pointers);
  if (!value.ok())
    return value.status();
  if (argument.kind == ArgumentSpec::Kind::TensorMap) {
    StatusOr<TensorMap> map =
        makeTensorMap(geometryOf(problem, argument), argument);
    if (!map.ok())
      return map.status();
    // A load of nothing reads where the map begins, which must be somewhere.
    for (auto it = pointers.begin(); map->isEmpty && !*value; ++it) {
      if (it == pointers.end())
        return Status::error("expects a pointer for an output, but got null");
      *value = it->second & ~uint64_t(TensorMapStrideUnit - 1);
    }
    launch.maps.push_back({launch.arguments.size(), *map});
  }
  launch.arguments.push_back(*value);
  return Status::success();
}

StatusOr<std::vector<KernelLaunch>>
flashcore::planLaunches(const Problem &problem, const PointerMap &pointers,
                        int64_t multiprocessors) {
  if (multiprocessors < 1)
    return Status::error("expects a device of at least one multiprocessor, but "
                         "got " +
                         std::to_string(multiprocessors));
  if (Status status = verifyPointers(problem, pointers); !status.ok())
    return status;
  std::vector<KernelLaunch> launches;
  const std::vector<KernelSpec> &kernels = problem.bundle().kernels;
  for (size_t number = 0; number < kernels.size(); ++number) {
    const KernelSpec &kernel = kernels[number];
    if (!problem.launches(kernel))
      continue;
    StatusOr<std::array<int64_t, 3>> grid =
        problem.grid(kernel, multiprocessors);
    if (!grid.ok())
      return grid.status();
    KernelLaunch launch;
    launch.kernel = number;
    launch.name = kernel.name;
    launch.grid = *grid;
    launch.block = kernel.block;
    launch.dynamicSharedMemory = kernel.dynamicSharedMemory;
    for (const ArgumentSpec &argument : kernel.arguments)
      if (Status status = addArgument(launch, argument, problem, pointers);
          !status.ok())
        return status.note("it is argument " +
                           std::to_string(launch.arguments.size()) +
                           " of kernel '" + kernel.name + "'");
    launches.push_back(std::move(launch));
  }
  return launches;
}
