//===- CudaDevice.cpp - NVIDIA GPUs ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One GPU through the driver API: its primary context, one stream on which
// everything is ordered, modules and CUDA graphs for timing. The context is
// released with the device, which also clears an error that stuck to it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/CudaDevice.h"

#include "CudaContext.h"
#include "CudaModule.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <mutex>

using namespace flashcore;
using namespace flashcore::cuda;

namespace {

/// A graph of launches with the events around it.
struct Recording {
  explicit Recording(const CudaDriver &driver) : driver(driver) {}
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;
  ~Recording() {
    if (executable)
      driver.graphExecDestroy(executable);
    if (graph)
      driver.graphDestroy(graph);
    if (start)
      driver.eventDestroy(start);
    if (stop)
      driver.eventDestroy(stop);
  }

  const CudaDriver &driver;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  CUevent start = nullptr;
  CUevent stop = nullptr;
};

class CudaDevice final : public Device {
public:
  CudaDevice(const CudaDriver &driver,
             const std::optional<std::filesystem::path> &cubinCache)
      : driver(driver) {
    if (cubinCache)
      cache.emplace(*cubinCache);
  }
  ~CudaDevice() override;
  Status open(int ordinal);

  StatusOr<DevicePointer> allocate(int64_t bytes,
                                   const std::string &name) override;
  Status free(DevicePointer pointer) override;
  Status copyToDevice(DevicePointer to, const void *from,
                      int64_t bytes) override;
  Status copyToHost(void *to, DevicePointer from, int64_t bytes) override;
  Status fill(DevicePointer to, uint32_t pattern, int64_t bytes) override;
  Status synchronize(Stream of) override;

protected:
  using LaunchSets = std::span<const std::vector<KernelLaunch>>;

  StatusOr<std::unique_ptr<LoadedModule>>
  loadCode(const Bundle &bundle, const CodeChoice &choice) override;
  Status launchChecked(LoadedModule &module, const KernelLaunch &launch,
                       const LaunchArguments &arguments, Stream on) override;
  Status encodeTensorMap(const TensorMap &map, DevicePointer address,
                         TensorMapBytes &bytes) const override;
  StatusOr<Timing> timeChecked(LoadedModule &module, LaunchSets sets,
                               const TimingOptions &options) override;
  StatusOr<LaunchOverhead> measureOverheadChecked(LoadedModule &module,
                                                  const KernelLaunch &launch,
                                                  int samples) override;

private:
  Status check(CUresult result, std::string_view call) const {
    return result == CUDA_SUCCESS ? Status::success()
                                  : cudaError(driver, result, call);
  }
  Status queryLimits();
  Status enqueue(LoadedModule &module, const KernelLaunch &launch, CUstream on,
                 void **arguments) const;
  Status launchError(CUresult result, const LoadedModule &module,
                     const KernelLaunch &launch) const;
  StatusOr<std::shared_ptr<CudaImage>> shareImage(const Bundle &bundle,
                                                  const CodeChoice &choice);
  Status launchSets(LoadedModule &module, LaunchSets sets, int count);
  Status record(LoadedModule &module, LaunchSets sets, int count,
                Recording &recording);
  StatusOr<double> elapsed(const Recording &recording);
  StatusOr<double> replayOnce(const Recording &recording);
  StatusOr<int> calibrate(LoadedModule &module, LaunchSets sets,
                          const Recording &recording);

  const CudaDriver driver;
  std::optional<CubinCache> cache;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  /// The images that live, by what they were loaded from.
  std::mutex imagesMutex;
  std::map<std::string, std::weak_ptr<CudaImage>> images;
};

} // namespace

//===----------------------------------------------------------------------===//
// Opening and closing
//===----------------------------------------------------------------------===//

CudaDevice::~CudaDevice() {
  if (stream) {
    CurrentContext current(driver, context);
    driver.streamDestroy(stream);
  }
  if (context)
    driver.devicePrimaryCtxRelease(device);
}

Status CudaDevice::open(int ordinal) {
  CUresult result = driver.init(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    return Status::noDevice("no CUDA device: the driver found no GPU; run on "
                            "a machine with one");
  if (result)
    return cudaError(driver, result, "cuInit")
        .note("the driver is installed but does not start: check that its "
              "kernel module is loaded and of the same version");
  int count = 0;
  if (Status status = check(driver.deviceGetCount(&count), "cuDeviceGetCount");
      !status.ok())
    return status;
  if (count == 0)
    return Status::noDevice("no CUDA device: the driver found no GPU; run on "
                            "a machine with one");
  if (ordinal < 0 || ordinal >= count)
    return Status::error("expects a device number from 0 to " +
                         std::to_string(count - 1) + ", but got " +
                         std::to_string(ordinal));
  if (Status status = check(driver.deviceGet(&device, ordinal), "cuDeviceGet");
      !status.ok())
    return status;
  if (Status status = queryLimits(); !status.ok())
    return status;
  if (Status status = check(driver.devicePrimaryCtxRetain(&context, device),
                            "cuDevicePrimaryCtxRetain");
      !status.ok()) {
    context = nullptr;
    return status;
  }
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  return check(driver.streamCreate(&stream, CU_STREAM_NON_BLOCKING),
               "cuStreamCreate");
}

Status CudaDevice::queryLimits() {
  std::array<char, 256> name{};
  if (Status status =
          check(driver.deviceGetName(name.data(), name.size() - 1, device),
                "cuDeviceGetName");
      !status.ok())
    return status;
  DeviceLimits &limits = deviceInfo.limits;
  int64_t major = 0, minor = 0;
  const std::pair<CUdevice_attribute, int64_t *> queries[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
       &limits.sharedMemoryPerBlock},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limits.threadsPerBlock},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &limits.block[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &limits.block[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &limits.block[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &limits.grid[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &limits.grid[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &limits.grid[2]},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits.l2Bytes},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &limits.multiprocessors}};
  for (const auto &[attribute, value] : queries) {
    int number = 0;
    if (Status status =
            check(driver.deviceGetAttribute(&number, attribute, device),
                  "cuDeviceGetAttribute(" + std::to_string(attribute) + ")");
        !status.ok())
      return status;
    *value = number;
  }
  deviceInfo.kind = "cuda";
  deviceInfo.name = name.data();
  deviceInfo.chip.number = static_cast<int>(10 * major + minor);
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

StatusOr<DevicePointer> CudaDevice::allocate(int64_t bytes,
                                             const std::string &) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  CUdeviceptr pointer = 0;
  // cuMemAlloc refuses a size of 0, which an empty tensor may have.
  if (CUresult result = driver.memAlloc(
          &pointer, static_cast<size_t>(std::max<int64_t>(bytes, 1))))
    return cudaError(driver, result,
                     "cuMemAlloc(" + std::to_string(bytes) + " bytes)");
  return pointer;
}

Status CudaDevice::free(DevicePointer pointer) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  return check(driver.memFree(pointer), "cuMemFree");
}

Status CudaDevice::copyToDevice(DevicePointer to, const void *from,
                                int64_t bytes) {
  if (bytes == 0)
    return Status::success();
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  if (Status status = check(
          driver.memcpyHtoDAsync(to, from, static_cast<size_t>(bytes), stream),
          "cuMemcpyHtoDAsync");
      !status.ok())
    return status;
  return synchronize({}); // `from` may be freed as soon as this returns
}

Status CudaDevice::copyToHost(void *to, DevicePointer from, int64_t bytes) {
  if (bytes == 0)
    return Status::success();
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  if (Status status = check(
          driver.memcpyDtoHAsync(to, from, static_cast<size_t>(bytes), stream),
          "cuMemcpyDtoHAsync");
      !status.ok())
    return status;
  return synchronize({});
}

Status CudaDevice::fill(DevicePointer to, uint32_t pattern, int64_t bytes) {
  if (bytes == 0)
    return Status::success();
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  return check(driver.memsetD32Async(to, pattern,
                                     static_cast<size_t>(bytes / 4), stream),
               "cuMemsetD32Async");
}

Status CudaDevice::synchronize(Stream of) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  auto waited = of.handle ? static_cast<CUstream>(of.handle) : stream;
  return check(driver.streamSynchronize(waited), "cuStreamSynchronize");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// What an image is loaded from. Its functions carry their dynamic shared
/// memory, so that is a part of it.
static std::string imageKey(const Bundle &bundle, const CodeChoice &choice) {
  std::string key;
  for (const KernelSpec &kernel : bundle.kernels)
    key +=
        kernel.name + " " + std::to_string(kernel.dynamicSharedMemory) + "\n";
  return key + choice.str() + "\n" + choice.image->contents;
}

/// The lock is held while loading: a second thread that wants the same image
/// would otherwise assemble it a second time.
StatusOr<std::shared_ptr<CudaImage>>
CudaDevice::shareImage(const Bundle &bundle, const CodeChoice &choice) {
  std::lock_guard<std::mutex> lock(imagesMutex);
  std::erase_if(images, [](const auto &item) { return item.second.expired(); });
  std::weak_ptr<CudaImage> &known = images[imageKey(bundle, choice)];
  if (std::shared_ptr<CudaImage> image = known.lock())
    return image;
  auto image = std::make_shared<CudaImage>(driver, deviceInfo, context);
  if (Status status = image->load(choice, cache); !status.ok())
    return status;
  known = image;
  return image;
}

StatusOr<std::unique_ptr<LoadedModule>>
CudaDevice::loadCode(const Bundle &bundle, const CodeChoice &choice) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  std::string from = "loading " + choice.str() + " from " +
                     (bundle.directory / choice.image->file).string();
  StatusOr<std::shared_ptr<CudaImage>> image = shareImage(bundle, choice);
  if (!image.ok())
    return Status(image.status()).note(from);
  auto module = std::make_unique<CudaModule>(driver, deviceInfo, *image);
  if (Status status = module->load(bundle); !status.ok())
    return status.note(from);
  return std::unique_ptr<LoadedModule>(std::move(module));
}

namespace {
/// The arguments as the driver takes them: it copies them before it returns,
/// and writes none. On the stack, as every launch makes them.
class ArgumentPointers {
public:
  ArgumentPointers(const KernelLaunch &launch,
                   const LaunchArguments &arguments) {
    for (size_t i = 0; i < arguments.values.size(); ++i)
      pointers[i] = const_cast<uint64_t *>(&arguments.values[i]);
    for (size_t i = 0; i < arguments.maps.size(); ++i)
      pointers[launch.maps[i].argument] =
          const_cast<TensorMapBytes *>(&arguments.maps[i]);
  }
  void **data() { return pointers.data(); }

private:
  std::array<void *, MaxArguments> pointers;
};
} // namespace

Status CudaDevice::launchChecked(LoadedModule &module,
                                 const KernelLaunch &launch,
                                 const LaunchArguments &arguments, Stream on) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  return enqueue(module, launch,
                 on.handle ? static_cast<CUstream>(on.handle) : stream,
                 ArgumentPointers(launch, arguments).data());
}

static CUtensorMapDataType dataType(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DType::BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DType::F32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case DType::I32:
  case DType::I8:
    break; // no tile that is copied is of integers
  }
  assert(false && "unknown type");
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

static CUtensorMapSwizzle swizzleOf(const TensorMap &map) {
  return map.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : map.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : map.swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                             : CU_TENSOR_MAP_SWIZZLE_NONE;
}

/// A computation on the host: it touches neither a stream nor the tensor.
Status CudaDevice::encodeTensorMap(const TensorMap &map, DevicePointer address,
                                   TensorMapBytes &bytes) const {
  static constexpr uint32_t elementStrides[MaxTensorMapRank] = {1, 1, 1, 1, 1};
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  // The stride of axis 0 is not among those that the driver takes.
  return check(driver.tensorMapEncodeTiled(
                   &bytes, dataType(map.dtype), map.rank,
                   reinterpret_cast<void *>(address), map.sizes.data(),
                   map.strides.data() + 1, map.box.data(), elementStrides,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzleOf(map),
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
               "cuTensorMapEncodeTiled");
}

Status CudaDevice::enqueue(LoadedModule &module, const KernelLaunch &launch,
                           CUstream on, void **arguments) const {
  auto &loaded = static_cast<CudaModule &>(module);
  auto count = [](int64_t value) { return static_cast<unsigned>(value); };
  CUresult result = driver.launchKernel(
      loaded.function(launch.kernel), count(launch.grid[0]),
      count(launch.grid[1]), count(launch.grid[2]), count(launch.block[0]),
      count(launch.block[1]), count(launch.block[2]),
      count(launch.dynamicSharedMemory), on, arguments, nullptr);
  return result == CUDA_SUCCESS ? Status::success()
                                : launchError(result, module, launch);
}

Status CudaDevice::launchError(CUresult result, const LoadedModule &module,
                               const KernelLaunch &launch) const {
  auto text = [](const std::array<int64_t, 3> &sizes) {
    return std::to_string(sizes[0]) + "x" + std::to_string(sizes[1]) + "x" +
           std::to_string(sizes[2]);
  };
  return cudaError(driver, result, "cuLaunchKernel")
      .note("kernel '" + launch.name + "', grid " + text(launch.grid) +
            ", block " + text(launch.block) + ", " +
            std::to_string(launch.dynamicSharedMemory) +
            " bytes of dynamic shared memory, " +
            std::to_string(module.kernels()[launch.kernel].registers) +
            " registers a thread");
}

//===----------------------------------------------------------------------===//
// Timing
//===----------------------------------------------------------------------===//

Status CudaDevice::launchSets(LoadedModule &module, LaunchSets sets,
                              int count) {
  for (int i = 0; i < count; ++i)
    for (const KernelLaunch &next : sets[static_cast<size_t>(i) % sets.size()])
      if (Status status = launch(module, next); !status.ok())
        return status;
  return Status::success();
}

Status CudaDevice::record(LoadedModule &module, LaunchSets sets, int count,
                          Recording &recording) {
  if (Status status = check(driver.streamBeginCapture(
                                stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                            "cuStreamBeginCapture");
      !status.ok())
    return status;
  Status launched = launchSets(module, sets, count);
  // The capture must end whatever happened, or the stream stays unusable.
  Status ended = check(driver.streamEndCapture(stream, &recording.graph),
                       "cuStreamEndCapture");
  if (!launched.ok())
    return launched;
  if (!ended.ok())
    return ended;
  return check(
      driver.graphInstantiate(&recording.executable, recording.graph, 0),
      "cuGraphInstantiate");
}

/// Milliseconds between the two events, once they have happened.
StatusOr<double> CudaDevice::elapsed(const Recording &recording) {
  float milliseconds = 0;
  if (Status status =
          check(driver.eventSynchronize(recording.stop), "cuEventSynchronize");
      !status.ok())
    return status;
  if (Status status = check(driver.eventElapsedTime(
                                &milliseconds, recording.start, recording.stop),
                            "cuEventElapsedTime");
      !status.ok())
    return status;
  return milliseconds;
}

/// How many launch sequences fill a replay of 5 ms.
StatusOr<int> CudaDevice::calibrate(LoadedModule &module, LaunchSets sets,
                                    const Recording &recording) {
  constexpr int probes = 5;
  if (Status status = launchSets(module, sets, probes); !status.ok())
    return status; // warm-up
  if (Status status =
          check(driver.eventRecord(recording.start, stream), "cuEventRecord");
      !status.ok())
    return status;
  if (Status status = launchSets(module, sets, probes); !status.ok())
    return status;
  if (Status status =
          check(driver.eventRecord(recording.stop, stream), "cuEventRecord");
      !status.ok())
    return status;
  StatusOr<double> milliseconds = elapsed(recording);
  if (!milliseconds.ok())
    return milliseconds.status();
  double each = std::max(*milliseconds / probes, 1e-3);
  return static_cast<int>(std::clamp(5.0 / each, 4.0, 400.0));
}

/// Milliseconds of one replay.
StatusOr<double> CudaDevice::replayOnce(const Recording &recording) {
  if (Status status =
          check(driver.eventRecord(recording.start, stream), "cuEventRecord");
      !status.ok())
    return status;
  if (Status status = check(driver.graphLaunch(recording.executable, stream),
                            "cuGraphLaunch");
      !status.ok())
    return status;
  if (Status status =
          check(driver.eventRecord(recording.stop, stream), "cuEventRecord");
      !status.ok())
    return status;
  return elapsed(recording);
}

StatusOr<Timing> CudaDevice::timeChecked(LoadedModule &module, LaunchSets sets,
                                         const TimingOptions &options) {
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  Recording recording(driver);
  for (CUevent *event : {&recording.start, &recording.stop})
    if (Status status =
            check(driver.eventCreate(event, CU_EVENT_DEFAULT), "cuEventCreate");
        !status.ok())
      return status;
  int count = options.launchesPerReplay;
  if (count == 0) {
    StatusOr<int> calibrated = calibrate(module, sets, recording);
    if (!calibrated.ok())
      return calibrated.status();
    count = *calibrated;
  }
  if (Status status = record(module, sets, count, recording); !status.ok())
    return status;

  std::vector<double> samples;
  for (int replay = 0; replay <= options.replays; ++replay) {
    StatusOr<double> milliseconds = replayOnce(recording);
    if (!milliseconds.ok())
      return milliseconds.status();
    if (replay > 0) // the first replay uploads the graph
      samples.push_back(*milliseconds * 1e3 / count);
  }
  return summarizeTimings(std::move(samples), count);
}

namespace {
/// Microseconds of each call.
class HostTimer {
public:
  Status time(const std::function<Status()> &call) {
    auto start = std::chrono::steady_clock::now();
    Status status = call();
    std::chrono::duration<double, std::micro> duration =
        std::chrono::steady_clock::now() - start;
    samples.push_back(duration.count());
    return status;
  }
  double median() const { return summarizeTimings(samples, 1).median; }

private:
  std::vector<double> samples;
};
} // namespace

StatusOr<LaunchOverhead>
CudaDevice::measureOverheadChecked(LoadedModule &module,
                                   const KernelLaunch &next, int samples) {
  // Few enough that the driver never waits for room in its queue.
  constexpr int launchesPerBatch = 32;
  CurrentContext current(driver, context);
  if (!current.ok())
    return current.status();
  std::array<TensorMapBytes, MaxTensorMaps> maps;
  StatusOr<LaunchArguments> values = makeArguments(next, maps);
  if (!values.ok())
    return values.status();
  ArgumentPointers arguments(next, *values);
  const std::function<Status()> calls[] = {
      [&] { return enqueue(module, next, stream, arguments.data()); },
      [&] { return launch(module, next); }};
  HostTimer timers[2];
  // Batches alternate, so that a change of the clock rate hits both.
  for (int done = 0; done < samples; done += launchesPerBatch)
    for (size_t kind = 0; kind < 2; ++kind) {
      for (int i = 0; i < launchesPerBatch; ++i)
        if (Status status = timers[kind].time(calls[kind]); !status.ok())
          return status;
      if (Status status = synchronize({}); !status.ok())
        return status;
    }
  return LaunchOverhead{timers[0].median(), timers[1].median()};
}

StatusOr<std::unique_ptr<Device>> flashcore::createCudaDevice(
    const CudaDriver &driver, int ordinal,
    const std::optional<std::filesystem::path> &cubinCache) {
  auto device = std::make_unique<CudaDevice>(driver, cubinCache);
  if (Status status = device->open(ordinal); !status.ok())
    return status;
  return std::unique_ptr<Device>(std::move(device));
}

StatusOr<std::unique_ptr<Device>> flashcore::createCudaDevice(int ordinal) {
  StatusOr<CudaDriver> driver = loadCudaDriver();
  if (!driver.ok())
    return driver.status();
  return createCudaDevice(*driver, ordinal);
}
