//===- Device.cpp - Something that runs a bundle --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What all devices share: the checks against the limits, so that a kernel that
// cannot run is named with its numbers, not with the driver's "invalid value".
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Device.h"

#include <algorithm>
#include <cassert>

using namespace flashcore;

static Status checkKernel(const KernelSpec &kernel, const DeviceInfo &device) {
  const DeviceLimits &limits = device.limits;
  std::string name = "kernel '" + kernel.name + "'";
  int64_t staticBytes =
      kernel.resources ? kernel.resources->staticSharedMemory : 0;
  int64_t sharedBytes = kernel.dynamicSharedMemory + staticBytes;
  if (sharedBytes > limits.sharedMemoryPerBlock)
    return Status::error(name + " needs " + std::to_string(sharedBytes) +
                         " bytes of shared memory per block, but " +
                         device.name + " allows " +
                         std::to_string(limits.sharedMemoryPerBlock))
        .note("use fewer stages or a smaller BLOCK_N");
  int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  if (threads > limits.threadsPerBlock)
    return Status::error(name + " needs " + std::to_string(threads) +
                         " threads per block, but " + device.name + " allows " +
                         std::to_string(limits.threadsPerBlock))
        .note("use fewer warps");
  for (size_t i = 0; i < 3; ++i)
    if (kernel.block[i] > limits.block[i])
      return Status::error(
          name + " needs a block of " + std::to_string(kernel.block[i]) +
          " threads in direction " + "xyz"[i] + ", but " + device.name +
          " allows " + std::to_string(limits.block[i]));
  return Status::success();
}

StatusOr<std::unique_ptr<LoadedModule>> Device::load(const Bundle &bundle) {
  for (const KernelSpec &kernel : bundle.kernels)
    if (Status status = checkKernel(kernel, deviceInfo); !status.ok())
      return status;
  StatusOr<CodeChoice> choice = chooseCode(bundle, deviceInfo.chip);
  if (!choice.ok())
    return choice.status();
  return loadCode(bundle, *choice);
}

Status Device::checkLaunch(const KernelLaunch &launch) const {
  for (size_t i = 0; i < 3; ++i)
    if (launch.grid[i] > deviceInfo.limits.grid[i])
      return Status::error("kernel '" + launch.name + "' needs " +
                           std::to_string(launch.grid[i]) +
                           " blocks in direction " + "xyz"[i] + ", but " +
                           deviceInfo.name + " allows " +
                           std::to_string(deviceInfo.limits.grid[i]))
          .note("split the batch into several calls");
  return Status::success();
}

Status Device::launch(LoadedModule &module, const KernelLaunch &launch) {
  if (launch.empty())
    return Status::success();
  if (Status status = checkLaunch(launch); !status.ok())
    return status;
  return launchChecked(module, launch);
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
      if (Status status = checkLaunch(launch); !status.ok())
        return status;
      anyWork |= !launch.empty();
    }
  if (!anyWork)
    return Status::error("expects a launch to time, but got only empty grids")
        .note("choose a batch, heads_q and seqlen_q of at least 1");
  return timeChecked(module, sets, options);
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
