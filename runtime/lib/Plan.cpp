//===- Plan.cpp - A call that is made often -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the caller's tensors into a Problem, plans its launches with stand-ins
// for the pointers, and keeps where those are. The path of a launch has no map,
// no text and no heap.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Plan.h"

#include "flashcore/Runtime/Overlap.h"

#include <algorithm>
#include <cassert>

using namespace flashcore;

/// Rows are read as a whole, so their elements must be neighbours.
static Status checkInnermost(const TensorSpec &spec, const CallTensor &tensor) {
  if (spec.axes.empty() || spec.strides.back() != 1 || tensor.sizes.back() <= 1)
    return Status::success();
  int64_t stride = tensor.strides.back();
  if (stride == 1)
    return Status::success();
  return Status::error("expects the elements of '" + spec.name +
                       "' to lie side by side along " + spec.axes.back() +
                       " (stride 1), but got stride " + std::to_string(stride))
      .note("copy the tensor to one where they do");
}

/// The layout of `tensor`, which has elements. Strides that no address depends
/// on become multiples of 16 bytes: kernels allow those, and take from the
/// strides of what they read whether pairs of elements are aligned.
static TensorLayout layoutOf(const TensorSpec &spec, const CallTensor &tensor) {
  TensorLayout layout;
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    constexpr int64_t widest = 16;
    bool isInnermost = i + 1 == spec.axes.size();
    int64_t allowed =
        isInnermost ? 1
                    : std::max(spec.alignment, widest) / byteSize(spec.dtype);
    layout.strides.push_back(tensor.sizes[i] == 1
                                 ? spec.strides[i].value_or(allowed)
                                 : tensor.strides[i]);
  }
  return layout;
}

StatusOr<Plan> Plan::create(Device &device, LoadedModule &module,
                            const Bundle &bundle,
                            std::span<const CallTensor> tensors) {
  StatusOr<MatchedTensors> matched = matchTensors(bundle, tensors);
  if (!matched.ok())
    return matched.status();
  ProblemRequest request;
  request.dims = std::move(matched->dims);
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    const TensorSpec &spec = bundle.tensors[i];
    const CallTensor &tensor = tensors[matched->positions[i]];
    if (tensor.isEmpty()) // the layout of nothing: any will do
      continue;
    if (Status status = checkInnermost(spec, tensor); !status.ok())
      return status;
    request.tensors[spec.name] = layoutOf(spec, tensor);
  }
  StatusOr<Problem> problem = Problem::create(bundle, request);
  if (!problem.ok())
    return problem.status();

  Plan plan(device, module, std::move(*problem));
  plan.checks.resize(tensors.size());
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    size_t position = matched->positions[i];
    bool isNeeded = !tensors[position].isEmpty();
    int64_t alignment = isNeeded ? bundle.tensors[i].alignment : 1;
    const TensorGeometry &geometry = plan.call.tensors()[i];
    bool isWritten = isNeeded && geometry.role != TensorSpec::Role::Input;
    plan.checks[position] = {
        static_cast<DevicePointer>(alignment - 1), isNeeded,
        static_cast<DevicePointer>(isNeeded ? geometry.spanBytes() : 0), i};
    if (isWritten)
      plan.written.push_back(position);
  }
  if (Status status = plan.addKernels(); !status.ok())
    return status;
  return plan;
}

size_t Plan::pointerNumber(std::string_view name) const {
  for (size_t i = 0; i < checks.size(); ++i)
    if (call.tensors()[checks[i].tensor].name == name)
      return i;
  assert(name == WorkspaceName && "the loader knows no other pointers");
  return checks.size();
}

Status Plan::addKernels() {
  constexpr DevicePointer standIn = 4096; // aligned to anything
  PointerMap pointers = {{std::string(WorkspaceName), standIn}};
  for (const TensorGeometry &tensor : call.tensors())
    pointers[tensor.name] = standIn;
  StatusOr<std::vector<KernelLaunch>> launches =
      planLaunches(call, pointers, device->info().limits.multiprocessors);
  if (!launches.ok())
    return launches.status();
  for (KernelLaunch &launch : *launches) {
    if (Status status = device->checkLaunch(*module, launch); !status.ok())
      return status;
    if (launch.empty())
      continue;
    Kernel kernel;
    const auto &arguments = call.bundle().kernels[launch.kernel].arguments;
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].kind == ArgumentSpec::Kind::Pointer ||
          arguments[i].kind == ArgumentSpec::Kind::TensorMap)
        kernel.patches.push_back(
            {i, pointerNumber(call.locate(arguments[i].tensor).name),
             launch.arguments[i] - standIn});
    if (!launch.maps.empty()) {
      kernel.maps = std::make_shared<MapCache>();
      kernel.maps->entries.resize(launch.maps.size());
    }
    kernel.launch = std::move(launch);
    kernels.push_back(std::move(kernel));
  }
  return Status::success();
}

bool Plan::accepts(std::span<const DevicePointer> pointers,
                   DevicePointer workspace) const {
  DevicePointer misaligned = workspace & (workspaceAlignment - 1);
  bool isMissing = !workspace && workspaceBytes();
  for (size_t i = 0; i < checks.size(); ++i) {
    misaligned |= pointers[i] & checks[i].misaligned;
    isMissing |= !pointers[i] && checks[i].isNeeded;
  }
  return !misaligned && !isMissing;
}

/// Whether the bytes between the ends of something that is written meet others:
/// a few comparisons, after which few launches need to look closer.
bool Plan::mayOverlap(std::span<const DevicePointer> pointers,
                      DevicePointer workspace) const {
  auto workspaceEnd = workspace + static_cast<DevicePointer>(workspaceBytes());
  bool meets = false;
  for (size_t i = 0; i < checks.size(); ++i) {
    DevicePointer begin = pointers[i], end = begin + checks[i].bytes;
    meets |= workspace < end && begin < workspaceEnd;
    for (size_t other : written)
      meets |= other != i && pointers[other] < end &&
               begin < pointers[other] + checks[other].bytes;
  }
  return meets;
}

Status Plan::checkOverlaps(std::span<const DevicePointer> pointers,
                           DevicePointer workspace) const {
  assert(pointers.size() == checks.size() && "one pointer a tensor");
  if (!mayOverlap(pointers, workspace))
    return Status::success();
  std::vector<DevicePointer> ofBundle(pointers.size());
  for (size_t i = 0; i < checks.size(); ++i)
    ofBundle[checks[i].tensor] = pointers[i];
  return verifyOverlaps(call, ofBundle, workspace);
}

/// What is wrong with pointers that are not accepted.
Status Plan::explain(std::span<const DevicePointer> pointers,
                     DevicePointer workspace) const {
  PointerMap named = {{std::string(WorkspaceName), workspace}};
  for (size_t i = 0; i < checks.size(); ++i)
    named[call.tensors()[checks[i].tensor].name] = pointers[i];
  if (Status status = verifyPointers(call, named); !status.ok())
    return status;
  return Status::error("expects the workspace to start at a multiple of " +
                       std::to_string(workspaceAlignment) +
                       " bytes, but got the address " +
                       std::to_string(workspace));
}

/// Views of one buffer may lie in each other's gaps, as the parts of a packed
/// qkv do. A checking device knows one layout a buffer, so it is told of none.
void Plan::describe(std::span<const DevicePointer> pointers) const {
  auto end = [&](size_t i) {
    return pointers[i] + static_cast<DevicePointer>(
                             call.tensors()[checks[i].tensor].spanBytes());
  };
  for (size_t i = 0; i < checks.size(); ++i) {
    const TensorGeometry &tensor = call.tensors()[checks[i].tensor];
    bool isShared = false;
    for (size_t other = 0; other < checks.size(); ++other)
      isShared |=
          other != i && pointers[i] < end(other) && pointers[other] < end(i);
    std::vector<int64_t> sizes = tensor.sizes;
    if (isShared)
      std::fill(sizes.begin(), sizes.end(), 0);
    device->describe(pointers[i], byteSize(tensor.dtype), sizes,
                     tensor.strides);
  }
}

Status Plan::fillMaps(const Kernel &kernel, const uint64_t *arguments,
                      TensorMapBytes *maps) const {
  std::lock_guard<std::mutex> lock(kernel.maps->mutex);
  for (size_t i = 0; i < kernel.launch.maps.size(); ++i) {
    const KernelLaunch::MapArgument &map = kernel.launch.maps[i];
    MapCache::Entry &entry = kernel.maps->entries[i];
    DevicePointer address = arguments[map.argument];
    if (entry.address != address) {
      entry.address = 0; // a device that fails may have written something
      if (Status status =
              device->makeMap(kernel.launch, map, address, entry.bytes);
          !status.ok())
        return status;
      entry.address = address;
    }
    maps[i] = entry.bytes;
  }
  return Status::success();
}

Status Plan::launch(std::span<const DevicePointer> pointers,
                    DevicePointer workspace, Stream stream) const {
  assert(pointers.size() == checks.size() && "one pointer a tensor");
  if (!accepts(pointers, workspace))
    return explain(pointers, workspace);
  if (mayOverlap(pointers, workspace))
    if (Status status = checkOverlaps(pointers, workspace); !status.ok())
      return status;
  if (device->info().checksBounds)
    describe(pointers);
  for (const Kernel &kernel : kernels) {
    const std::vector<uint64_t> &planned = kernel.launch.arguments;
    std::array<uint64_t, MaxArguments> arguments; // that Device::load allows
    std::copy(planned.begin(), planned.end(), arguments.begin());
    for (const Patch &patch : kernel.patches)
      arguments[patch.argument] =
          (patch.pointer < pointers.size() ? pointers[patch.pointer]
                                           : workspace) +
          patch.bytes;
    std::array<TensorMapBytes, MaxTensorMaps> maps; // that Device::load allows
    if (kernel.maps)
      if (Status status = fillMaps(kernel, arguments.data(), maps.data());
          !status.ok())
        return status;
    LaunchArguments passed = {{arguments.data(), planned.size()},
                              {maps.data(), kernel.launch.maps.size()}};
    if (Status status =
            device->launchChecked(*module, kernel.launch, passed, stream);
        !status.ok())
      return status;
  }
  return Status::success();
}
