//===- Device.cpp - Something that runs a bundle --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all devices share: which variant of a bundle is loaded, and the checks
// of a launch against what was loaded and the limits of the device.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Device.h"

#include <algorithm>
#include <cassert>

using namespace flashcore;

StatusOr<std::unique_ptr<LoadedModule>> Device::load(const Bundle &bundle) {
  if (Status status = checkLimits(bundle, deviceInfo); !status.ok())
    return status;
  StatusOr<CodeChoice> choice = chooseCode(bundle, deviceInfo);
  if (!choice.ok())
    return choice.status();
  StatusOr<std::unique_ptr<LoadedModule>> module = loadCode(bundle, *choice);
  if (module.ok())
    (*module)->specs = bundle.kernels;
  return module;
}

StatusOr<LoadedVariant> Device::loadBest(const std::vector<Bundle> &variants) {
  size_t best = chooseVariant(variants, &deviceInfo);
  StatusOr<std::unique_ptr<LoadedModule>> module = load(variants[best]);
  if (module.ok())
    return LoadedVariant{best, std::move(*module)};
  for (size_t other : orderVariants(variants, deviceInfo)) {
    if (other == best)
      continue;
    StatusOr<std::unique_ptr<LoadedModule>> next = load(variants[other]);
    if (!next.ok())
      continue;
    (*next)->warningText = "the kernels for " + variants[other].chip.str() +
                           " run in the place of those for " +
                           variants[best].chip.str() + ": " +
                           module.status().str();
    return LoadedVariant{other, std::move(*next)};
  }
  return module.status();
}

static std::string str(const std::array<int64_t, 3> &sizes) {
  return std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]) + "x" +
         std::to_string(sizes[2]);
}

/// A launch that was planned for another bundle would make the device read
/// arguments that are not there.
static Status checkSpec(const std::vector<KernelSpec> &specs,
                        const KernelLaunch &launch) {
  if (launch.kernel >= specs.size())
    return Status::error(
        "expects the number of one of the " + std::to_string(specs.size()) +
        " kernels of the bundle, but got " + std::to_string(launch.kernel));
  const KernelSpec &spec = specs[launch.kernel];
  std::string expects = "kernel '" + spec.name + "' expects ";
  if (launch.arguments.size() != spec.arguments.size())
    return Status::error(expects + std::to_string(spec.arguments.size()) +
                         " arguments, but got " +
                         std::to_string(launch.arguments.size()));
  size_t maps = 0;
  for (size_t i = 0; i < spec.arguments.size(); ++i) {
    if (spec.arguments[i].kind != ArgumentSpec::Kind::TensorMap)
      continue;
    if (maps == launch.maps.size() || launch.maps[maps].argument != i)
      return Status::error(expects + "a tensor map as argument " +
                           std::to_string(i) + ", but got none");
    ++maps;
  }
  if (maps != launch.maps.size())
    return Status::error(expects + std::to_string(maps) +
                         " tensor maps, but got " +
                         std::to_string(launch.maps.size()));
  if (launch.block != spec.block)
    return Status::error(expects + "blocks of " + str(spec.block) +
                         " threads, but got " + str(launch.block));
  if (launch.dynamicSharedMemory != spec.dynamicSharedMemory)
    return Status::error(expects + std::to_string(spec.dynamicSharedMemory) +
                         " bytes of dynamic shared memory, but got " +
                         std::to_string(launch.dynamicSharedMemory));
  return Status::success();
}

Status Device::checkLaunch(const LoadedModule &module,
                           const KernelLaunch &launch) const {
  if (Status status = checkSpec(module.specs, launch); !status.ok())
    return status.note("plan the launch from the bundle that was loaded");
  for (size_t i = 0; i < 3; ++i) {
    if (launch.grid[i] < 0)
      return Status::error("kernel '" + launch.name +
                           "' expects a grid of at least 0 blocks in "
                           "direction " +
                           "xyz"[i] + ", but got " +
                           std::to_string(launch.grid[i]));
    if (launch.grid[i] > deviceInfo.limits.grid[i])
      return Status::error("kernel '" + launch.name + "' needs " +
                           std::to_string(launch.grid[i]) +
                           " blocks in direction " + "xyz"[i] + ", but " +
                           deviceInfo.name + " allows " +
                           std::to_string(deviceInfo.limits.grid[i]))
          .note("split the batch into several calls");
  }
  return Status::success();
}

Status Device::launch(LoadedModule &module, const KernelLaunch &launch,
                      Stream stream) {
  if (Status status = checkLaunch(module, launch); !status.ok())
    return status;
  if (launch.empty())
    return Status::success();
  std::array<TensorMapBytes, MaxTensorMaps> maps;
  StatusOr<LaunchArguments> arguments = makeArguments(launch, maps);
  if (!arguments.ok())
    return arguments.status();
  return launchChecked(module, launch, *arguments, stream);
}

Status Device::encodeTensorMap(const TensorMap &, DevicePointer,
                               TensorMapBytes &) const {
  return Status::error("expects a device with bulk copies, but got " +
                       deviceInfo.name);
}

Status Device::makeMap(const KernelLaunch &launch,
                       const KernelLaunch::MapArgument &map,
                       DevicePointer address, TensorMapBytes &bytes) const {
  Status status =
      encodeTensorMap(map.map, address - map.map.bytesInFront, bytes);
  if (!status.ok())
    status.note("making the tensor map that is argument " +
                std::to_string(map.argument) + " of kernel '" + launch.name +
                "'");
  return status;
}

StatusOr<LaunchArguments>
Device::makeArguments(const KernelLaunch &launch,
                      std::array<TensorMapBytes, MaxTensorMaps> &maps) const {
  for (size_t i = 0; i < launch.maps.size(); ++i) {
    const KernelLaunch::MapArgument &map = launch.maps[i];
    if (Status status =
            makeMap(launch, map, launch.arguments[map.argument], maps[i]);
        !status.ok())
      return status;
  }
  return LaunchArguments{launch.arguments, {maps.data(), launch.maps.size()}};
}

StatusOr<Timing> Device::time(LoadedModule &module,
                              std::span<const std::vector<KernelLaunch>> sets,
                              const TimingOptions &options) {
  if (sets.empty() || options.replays < 1 || options.launchesPerReplay < 0)
    return Status::error(
        "expects at least one set of launches and one replay, but got " +
        std::to_string(sets.size()) + " and " +
        std::to_string(options.replays));
  bool anyWork = false;
  for (const std::vector<KernelLaunch> &set : sets)
    for (const KernelLaunch &launch : set) {
      if (Status status = checkLaunch(module, launch); !status.ok())
        return status;
      anyWork |= !launch.empty();
    }
  if (!anyWork)
    return Status::error("expects a launch to time, but got only empty grids")
        .note("choose a batch, heads_q and seqlen_q of at least 1");
  return timeChecked(module, sets, options);
}

StatusOr<LaunchOverhead> Device::measureOverhead(LoadedModule &module,
                                                 const KernelLaunch &launch,
                                                 int samples) {
  if (Status status = checkLaunch(module, launch); !status.ok())
    return status;
  if (launch.empty() || samples < 1)
    return Status::error("expects a grid that is not empty and at least one "
                         "sample, but got " +
                         str(launch.grid) + " and " + std::to_string(samples));
  return measureOverheadChecked(module, launch, samples);
}

StatusOr<LaunchOverhead>
Device::measureOverheadChecked(LoadedModule &, const KernelLaunch &, int) {
  return Status::error("expects a GPU to measure the overhead of a launch on, "
                       "but got " +
                       deviceInfo.name);
}

StatusOr<DeviceBuffer> DeviceBuffer::create(Device &device, int64_t bytes,
                                            const std::string &name) {
  StatusOr<DevicePointer> address = device.allocate(bytes, name);
  if (!address.ok())
    return address.status();
  return DeviceBuffer(device, *address, bytes);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer &&other) noexcept
    : device(std::exchange(other.device, nullptr)), address(other.address),
      size(other.size) {}

DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&other) noexcept {
  if (this != &other) {
    release();
    device = std::exchange(other.device, nullptr);
    address = other.address;
    size = other.size;
  }
  return *this;
}

DeviceBuffer::~DeviceBuffer() { release(); }

void DeviceBuffer::release() {
  // Nothing can be done about a failure here, and a sticky device error has
  // already been reported by the call that met it.
  if (device)
    (void)device->free(address);
  device = nullptr;
}

Timing flashcore::summarizeTimings(std::vector<double> samples,
                                   int launchesPerReplay) {
  assert(!samples.empty() && "no timing without a sample");
  std::sort(samples.begin(), samples.end());
  size_t half = samples.size() / 2;
  Timing timing;
  timing.median = samples.size() % 2 ? samples[half]
                                     : (samples[half - 1] + samples[half]) / 2;
  timing.min = samples.front();
  timing.max = samples.back();
  timing.replays = static_cast<int>(samples.size());
  timing.launchesPerReplay = launchesPerReplay;
  return timing;
}
