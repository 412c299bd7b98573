//===- Device.h - Something that runs a bundle ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface between the runtime and what executes kernels. It names no CUDA
// type, because a GPU is only one of the devices behind it. Limits are checked
// here, once for all devices, before anything is loaded or launched.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_DEVICE_H
#define FLASHCORE_RUNTIME_DEVICE_H

#include "flashcore/Runtime/Launch.h"

#include <memory>

namespace flashcore {

/// What a kernel uses on this device; for PTX it is known only after loading.
struct LoadedKernelInfo {
  int64_t registers = 0;
  int64_t localBytes = 0;
  int64_t staticSharedMemory = 0;
};

/// A queue of work on a device, such as a CUstream; the default is the device's
/// own. To a GPU all are in the context of the device, capturing or not.
struct Stream {
  void *handle = nullptr;
};

/// A bundle's code on a device. Destroy it before its device.
class LoadedModule {
public:
  virtual ~LoadedModule() = default;
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;

  /// Which code is used, for example "cubin sm_89".
  const std::string &code() const { return codeName; }
  /// In the order of the bundle's kernels.
  const std::vector<LoadedKernelInfo> &kernels() const { return kernelInfos; }
  /// What the driver said when it assembled the code; "" if it did not.
  const std::string &log() const { return assemblerLog; }
  /// Why this is not the variant that is best on the device; "" if it is.
  const std::string &warning() const { return warningText; }

protected:
  LoadedModule() = default;
  std::string codeName;
  std::vector<LoadedKernelInfo> kernelInfos;
  std::string assemblerLog;

private:
  friend class Device;
  /// What a launch must agree with.
  std::vector<KernelSpec> specs;
  std::string warningText;
};

/// The variant of a bundle that was loaded, by its position.
struct LoadedVariant {
  size_t variant;
  std::unique_ptr<LoadedModule> module;
};

/// Microseconds of one launch sequence.
struct Timing {
  double median = 0;
  double min = 0;
  double max = 0;
  int replays = 0;
  int launchesPerReplay = 0;
};

/// What a launch costs the host, in microseconds; medians.
struct LaunchOverhead {
  double driver = 0;  ///< of the driver's own call
  double runtime = 0; ///< of Device::launch
  double added() const { return runtime - driver; }
};

struct TimingOptions {
  /// How often the recorded launches are replayed; one sample a replay.
  int replays = 15;
  /// Launch sequences in a replay; 0 sizes it so that a replay lasts 5 ms,
  /// long enough to make the event resolution of 0.5 us negligible.
  int launchesPerReplay = 0;
};

/// A GPU may be used by several threads at once, but for time(), which wants it
/// alone, and leaves each the context that was current. Any other device is for
/// one thread at a time.
class Device {
public:
  virtual ~Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const DeviceInfo &info() const { return deviceInfo; }

  /// `name` is for the messages of devices that know whose memory a kernel
  /// touches; it may be empty.
  virtual StatusOr<DevicePointer> allocate(int64_t bytes,
                                           const std::string &name) = 0;
  virtual Status free(DevicePointer pointer) = 0;
  virtual Status copyToDevice(DevicePointer to, const void *from,
                              int64_t bytes) = 0;
  virtual Status copyToHost(void *to, DevicePointer from, int64_t bytes) = 0;
  /// Fills with a repeated 32-bit pattern; `bytes` is a multiple of 4.
  virtual Status fill(DevicePointer to, uint32_t pattern, int64_t bytes) = 0;
  /// Says what lies at `pointer`: a device that checks kernels can then name
  /// elements. Sizes and strides count elements.
  virtual void describe(DevicePointer /*pointer*/, int64_t /*elementBytes*/,
                        std::span<const int64_t> /*sizes*/,
                        std::span<const int64_t> /*strides*/) {}
  /// Waits until the work of a stream is done, and reports the errors of that
  /// work.
  virtual Status synchronize(Stream stream = {}) = 0;

  /// Checks the kernels against the device's limits, then loads the code that
  /// chooseCode picks.
  StatusOr<std::unique_ptr<LoadedModule>> load(const Bundle &bundle);

  /// Loads the best of `variants`, which are not empty. Where it cannot be
  /// loaded, as code for one chip alone where the driver assembles it badly,
  /// another that the device runs is, with a warning. If none can be loaded,
  /// the error is that of the best.
  StatusOr<LoadedVariant> loadBest(const std::vector<Bundle> &variants);

  /// Starts `launch` after the work before it in `stream`; does nothing for an
  /// empty grid. Waits for nothing, so that a capturing stream records it.
  Status launch(LoadedModule &module, const KernelLaunch &launch,
                Stream stream = {});

  /// Times launch sequences. Sequence i of a replay is `sets[i % sets.size()]`,
  /// so that several sets of inputs keep the L2 cache from serving them all.
  StatusOr<Timing> time(LoadedModule &module,
                        std::span<const std::vector<KernelLaunch>> sets,
                        const TimingOptions &options);

  /// Compares Device::launch with the driver call that it makes, over at least
  /// `samples` launches of each.
  StatusOr<LaunchOverhead> measureOverhead(LoadedModule &module,
                                           const KernelLaunch &launch,
                                           int samples = 4096);

protected:
  Device() = default;
  virtual StatusOr<std::unique_ptr<LoadedModule>>
  loadCode(const Bundle &bundle, const CodeChoice &choice) = 0;
  /// The launch is within the limits and its grid is not empty. `arguments` are
  /// as many as those of `launch`, in whose place they stand.
  virtual Status launchChecked(LoadedModule &module, const KernelLaunch &launch,
                               const LaunchArguments &arguments,
                               Stream stream) = 0;
  /// `map` is of a tensor with elements. For as many threads as launches.
  /// Refused unless a device has bulk copies.
  virtual Status encodeTensorMap(const TensorMap &map, DevicePointer address,
                                 TensorMapBytes &bytes) const;
  virtual StatusOr<Timing>
  timeChecked(LoadedModule &module,
              std::span<const std::vector<KernelLaunch>> sets,
              const TimingOptions &options) = 0;
  /// Refused unless a device has a driver to compare with.
  virtual StatusOr<LaunchOverhead>
  measureOverheadChecked(LoadedModule &module, const KernelLaunch &launch,
                         int samples);

  DeviceInfo deviceInfo;

  /// The arguments of `launch`, of which the tensor maps are made in `maps`.
  StatusOr<LaunchArguments>
  makeArguments(const KernelLaunch &launch,
                std::array<TensorMapBytes, MaxTensorMaps> &maps) const;

private:
  friend class Plan; // checks once, launches often
  Status checkLaunch(const LoadedModule &module,
                     const KernelLaunch &launch) const;
  /// Makes the map of `launch` for a tensor at `address`.
  Status makeMap(const KernelLaunch &launch,
                 const KernelLaunch::MapArgument &map, DevicePointer address,
                 TensorMapBytes &bytes) const;
};

/// Device memory that is freed with its owner. Must not outlive the device.
class DeviceBuffer {
public:
  static StatusOr<DeviceBuffer> create(Device &device, int64_t bytes,
                                       const std::string &name = {});
  DeviceBuffer(DeviceBuffer &&other) noexcept;
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;
  ~DeviceBuffer();

  DevicePointer pointer() const { return address; }
  int64_t bytes() const { return size; }

private:
  DeviceBuffer(Device &device, DevicePointer address, int64_t size)
      : device(&device), address(address), size(size) {}
  void release();

  Device *device;
  DevicePointer address;
  int64_t size;
};

/// Median, minimum and maximum of microsecond samples; at least one sample.
Timing summarizeTimings(std::vector<double> samples, int launchesPerReplay);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_DEVICE_H
