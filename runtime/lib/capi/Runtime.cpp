//===- Runtime.cpp - C interface of the runtime ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A handle shares what it stands for with the handles made from it, so that
// they may be destroyed in any order. The emulator is for one thread at a time:
// callers queue here.
//
//===----------------------------------------------------------------------===//

#include "capi/Runtime.h"

#include "KernelParameters.h"
#include "capi/Status.h"

#include "flashcore-c/Compiler.h"
#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/CudaDevice.h"
#include "flashcore/Runtime/EmulatorDevice.h"
#include "flashcore/Runtime/Overlap.h"
#include "flashcore/Runtime/Plan.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <sstream>

using namespace flashcore;
using namespace flashcore::capi;

namespace {
struct BundleState {
  std::vector<Bundle> variants;
};

struct DeviceState {
  explicit DeviceState(std::unique_ptr<Device> owned)
      : device(std::move(owned)), chip(device->info().chip.str()),
        isForAllThreads(device->info().kind == "cuda") {}

  /// Held while the device is used.
  std::unique_lock<std::mutex> lock() {
    return isForAllThreads ? std::unique_lock<std::mutex>()
                           : std::unique_lock<std::mutex>(mutex);
  }

  std::unique_ptr<Device> device;
  std::string chip;
  bool isForAllThreads;
  std::mutex mutex;
};

// Members are destroyed from last to first: a module before its device.
struct ModuleState {
  std::shared_ptr<DeviceState> device;
  std::shared_ptr<const Bundle> bundle;
  std::string chip;
  std::unique_ptr<LoadedModule> module;
};

struct PlanState {
  std::shared_ptr<ModuleState> module;
  Plan plan;
  std::string text;
};
} // namespace

/// What a handle of a shared object points to.
template <typename T, typename Handle>
static const std::shared_ptr<T> &shared(Handle handle) {
  return *unwrap<std::shared_ptr<T>>(handle);
}

//===----------------------------------------------------------------------===//
// Bundles
//===----------------------------------------------------------------------===//

using SharedBundle = std::shared_ptr<BundleState>;
using SharedDevice = std::shared_ptr<DeviceState>;
using SharedModule = std::shared_ptr<ModuleState>;

FlashCoreStatus flashcoreBundleLoad(const char *path, FlashCoreBundle *bundle) {
  return create<SharedBundle>(
      bundle, "a place for the bundle", [&]() -> StatusOr<SharedBundle> {
        if (!path)
          return Status::error("expects the path of a bundle, but got null");
        StatusOr<std::vector<Bundle>> variants = Bundle::loadVariants(path);
        if (!variants.ok())
          return variants.status();
        return std::make_shared<BundleState>(BundleState{std::move(*variants)});
      });
}
void flashcoreBundleDestroy(FlashCoreBundle bundle) {
  delete unwrap<SharedBundle>(bundle);
}
const char *flashcoreBundleGetManifest(FlashCoreBundle bundle) {
  return bundle.ptr
             ? shared<BundleState>(bundle)->variants.front().manifest->c_str()
             : "";
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

FlashCoreDevice capi::wrapDevice(std::unique_ptr<Device> device) {
  return {new SharedDevice(std::make_shared<DeviceState>(std::move(device)))};
}

static StatusOr<SharedDevice> share(StatusOr<std::unique_ptr<Device>> device) {
  if (!device.ok())
    return device.status();
  return std::make_shared<DeviceState>(std::move(*device));
}

/// "name=value" words.
static StatusOr<EmulatorOptions> parseOptions(const char *text) {
  EmulatorOptions options;
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    size_t equals = word.find('=');
    if (equals == std::string::npos)
      return Status::error("expects options of the emulator as name=value, but "
                           "got '" +
                           word + "'");
    options[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return options;
}

FlashCoreStatus flashcoreDeviceCreateCuda(int ordinal,
                                          FlashCoreDevice *device) {
  return create<SharedDevice>(device, "a place for the device",
                              [&] { return share(createCudaDevice(ordinal)); });
}
FlashCoreStatus flashcoreDeviceCreateEmulator(const char *options,
                                              FlashCoreDevice *device) {
  return create<SharedDevice>(
      device, "a place for the device", [&]() -> StatusOr<SharedDevice> {
        StatusOr<EmulatorOptions> parsed = parseOptions(options);
        if (!parsed.ok())
          return parsed.status();
        return share(createEmulatorDevice(*parsed));
      });
}
void flashcoreDeviceDestroy(FlashCoreDevice device) {
  delete unwrap<SharedDevice>(device);
}

/// Null for a null handle.
static const DeviceInfo *infoOf(FlashCoreDevice device) {
  return device.ptr ? &shared<DeviceState>(device)->device->info() : nullptr;
}

const char *flashcoreDeviceGetKind(FlashCoreDevice device) {
  const DeviceInfo *info = infoOf(device);
  return info ? info->kind.c_str() : "";
}
const char *flashcoreDeviceGetName(FlashCoreDevice device) {
  const DeviceInfo *info = infoOf(device);
  return info ? info->name.c_str() : "";
}
const char *flashcoreDeviceGetChip(FlashCoreDevice device) {
  return device.ptr ? shared<DeviceState>(device)->chip.c_str() : "";
}
int64_t flashcoreDeviceGetMultiprocessors(FlashCoreDevice device) {
  const DeviceInfo *info = infoOf(device);
  return info ? info->limits.multiprocessors : 0;
}
int64_t flashcoreDeviceGetSharedMemoryPerBlock(FlashCoreDevice device) {
  const DeviceInfo *info = infoOf(device);
  return info ? info->limits.sharedMemoryPerBlock : 0;
}
bool flashcoreDeviceRuns(FlashCoreDevice device, FlashCoreBundle bundle) {
  const DeviceInfo *info = infoOf(device);
  return info && bundle.ptr &&
         !orderVariants(shared<BundleState>(bundle)->variants, *info).empty();
}

/// Runs `body`, which returns a Status, on a device that is this thread's.
template <typename F>
static FlashCoreStatus withDevice(FlashCoreDevice device, F body) {
  return with<SharedDevice>(device, "a device", [&](SharedDevice &state) {
    std::unique_lock<std::mutex> lock = state->lock();
    return wrap(body(*state->device));
  });
}

static Status checkBytes(int64_t bytes, const void *host) {
  if (bytes < 0)
    return Status::error("expects at least 0 bytes, but got " +
                         std::to_string(bytes));
  if (bytes > 0 && !host)
    return Status::error("expects host memory to copy, but got null");
  return Status::success();
}

FlashCoreStatus flashcoreDeviceAllocate(FlashCoreDevice device, int64_t bytes,
                                        const char *name, uint64_t *pointer) {
  if (pointer)
    *pointer = 0;
  return withDevice(device, [&](Device &object) {
    if (!pointer)
      return Status::error("expects a place for the pointer, but got null");
    if (Status status = checkBytes(bytes, pointer); !status.ok())
      return status;
    StatusOr<DevicePointer> made = object.allocate(bytes, name ? name : "");
    if (made.ok())
      *pointer = *made;
    return made.status();
  });
}
FlashCoreStatus flashcoreDeviceFree(FlashCoreDevice device, uint64_t pointer) {
  return withDevice(device,
                    [&](Device &object) { return object.free(pointer); });
}
FlashCoreStatus flashcoreDeviceCopyToDevice(FlashCoreDevice device, uint64_t to,
                                            const void *from, int64_t bytes) {
  return withDevice(device, [&](Device &object) {
    Status status = checkBytes(bytes, from);
    return status.ok() ? object.copyToDevice(to, from, bytes) : status;
  });
}
FlashCoreStatus flashcoreDeviceCopyToHost(FlashCoreDevice device, void *to,
                                          uint64_t from, int64_t bytes) {
  return withDevice(device, [&](Device &object) {
    Status status = checkBytes(bytes, to);
    return status.ok() ? object.copyToHost(to, from, bytes) : status;
  });
}
FlashCoreStatus flashcoreDeviceSynchronize(FlashCoreDevice device) {
  return withDevice(device,
                    [](Device &object) { return object.synchronize(); });
}
FlashCoreStatus flashcoreDeviceSynchronizeStream(FlashCoreDevice device,
                                                 void *stream) {
  return withDevice(
      device, [&](Device &object) { return object.synchronize({stream}); });
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

static SharedModule share(const SharedDevice &device,
                          std::shared_ptr<const Bundle> bundle,
                          std::unique_ptr<LoadedModule> loaded) {
  std::string chip = bundle->chip.str();
  return std::make_shared<ModuleState>(ModuleState{
      device, std::move(bundle), std::move(chip), std::move(loaded)});
}

FlashCoreStatus flashcoreModuleLoad(FlashCoreDevice device,
                                    FlashCoreBundle bundle,
                                    FlashCoreModule *module) {
  return create<SharedModule>(
      module, "a place for the module", [&]() -> StatusOr<SharedModule> {
        if (!device.ptr)
          return Status::error("expects a device, but got null");
        if (!bundle.ptr)
          return Status::error("expects a bundle, but got null");
        const SharedDevice &on = shared<DeviceState>(device);
        const SharedBundle &from = shared<BundleState>(bundle);
        StatusOr<LoadedVariant> loaded = on->device->loadBest(from->variants);
        if (!loaded.ok())
          return loaded.status();
        std::shared_ptr<const Bundle> chosen(from,
                                             &from->variants[loaded->variant]);
        return share(on, std::move(chosen), std::move(loaded->module));
      });
}

/// One kernel of a PTX text as a bundle of its own, without tensors.
static StatusOr<Bundle> bundleOf(const char *ptx, const char *name,
                                 const int64_t *block, int64_t sharedBytes,
                                 Chip chip) {
  KernelSpec kernel;
  kernel.name = name;
  for (size_t i = 0; i < 3; ++i)
    if ((kernel.block[i] = block[i]) < 1)
      return Status::error(
          "expects a block of at least 1 thread in direction " +
          std::string(1, "xyz"[i]) + ", but got " + std::to_string(block[i]));
  if ((kernel.dynamicSharedMemory = sharedBytes) < 0)
    return Status::error("expects at least 0 bytes of shared memory, but got " +
                         std::to_string(sharedBytes));
  std::optional<std::vector<PtxParameter>> parameters =
      readPtxParameters(ptx, name);
  if (!parameters)
    return Status::error("expects PTX with a kernel '" + kernel.name +
                         "', but got none of that name");
  for (const PtxParameter &parameter : *parameters)
    if (parameter.bytes != ArgumentBytes)
      return Status::error("expects parameters of 8 bytes, but kernel '" +
                           kernel.name + "' has one of " +
                           std::to_string(parameter.bytes));
  kernel.arguments.resize(parameters->size());
  Bundle bundle;
  bundle.chip = chip; // whether the PTX suits it, the device says
  bundle.ptx = {chip, "memory", ptx};
  bundle.kernels.push_back(std::move(kernel));
  return bundle;
}

FlashCoreStatus flashcoreModuleLoadPtx(FlashCoreDevice device, const char *ptx,
                                       const char *kernel,
                                       const int64_t block[3],
                                       int64_t sharedBytes,
                                       FlashCoreModule *module) {
  return create<SharedModule>(
      module, "a place for the module", [&]() -> StatusOr<SharedModule> {
        if (!device.ptr)
          return Status::error("expects a device, but got null");
        if (!ptx || !kernel || !block)
          return Status::error("expects PTX, the name of a kernel and a block, "
                               "but got null");
        const SharedDevice &on = shared<DeviceState>(device);
        StatusOr<Bundle> bundle =
            bundleOf(ptx, kernel, block, sharedBytes, on->device->info().chip);
        if (!bundle.ok())
          return bundle.status();
        StatusOr<std::unique_ptr<LoadedModule>> loaded =
            on->device->load(*bundle);
        if (!loaded.ok())
          return loaded.status();
        return share(on, std::make_shared<const Bundle>(std::move(*bundle)),
                     std::move(*loaded));
      });
}
void flashcoreModuleDestroy(FlashCoreModule module) {
  delete unwrap<SharedModule>(module);
}
const char *flashcoreModuleGetCode(FlashCoreModule module) {
  return module.ptr ? shared<ModuleState>(module)->module->code().c_str() : "";
}
const char *flashcoreModuleGetChip(FlashCoreModule module) {
  return module.ptr ? shared<ModuleState>(module)->chip.c_str() : "";
}
const char *flashcoreModuleGetWarning(FlashCoreModule module) {
  return module.ptr ? shared<ModuleState>(module)->module->warning().c_str()
                    : "";
}
const char *flashcoreModuleGetLog(FlashCoreModule module) {
  return module.ptr ? shared<ModuleState>(module)->module->log().c_str() : "";
}

size_t flashcoreModuleGetNumKernels(FlashCoreModule module) {
  return module.ptr ? shared<ModuleState>(module)->bundle->kernels.size() : 0;
}

/// What the manifest and the loaded code say of a kernel; null if there is
/// none.
static const KernelSpec *specOf(FlashCoreModule module, size_t kernel) {
  return kernel < flashcoreModuleGetNumKernels(module)
             ? &shared<ModuleState>(module)->bundle->kernels[kernel]
             : nullptr;
}
static LoadedKernelInfo loadedOf(FlashCoreModule module, size_t kernel) {
  return kernel < flashcoreModuleGetNumKernels(module)
             ? shared<ModuleState>(module)->module->kernels()[kernel]
             : LoadedKernelInfo();
}

const char *flashcoreModuleGetKernelName(FlashCoreModule module,
                                         size_t kernel) {
  const KernelSpec *spec = specOf(module, kernel);
  return spec ? spec->name.c_str() : "";
}
int64_t flashcoreModuleGetKernelRegisters(FlashCoreModule module,
                                          size_t kernel) {
  return loadedOf(module, kernel).registers;
}
int64_t flashcoreModuleGetKernelLocalBytes(FlashCoreModule module,
                                           size_t kernel) {
  return loadedOf(module, kernel).localBytes;
}
int64_t flashcoreModuleGetKernelSharedBytes(FlashCoreModule module,
                                            size_t kernel) {
  const KernelSpec *spec = specOf(module, kernel);
  return spec ? spec->dynamicSharedMemory +
                    loadedOf(module, kernel).staticSharedMemory
              : 0;
}

FlashCoreStatus flashcoreModuleLaunch(FlashCoreModule module, size_t kernel,
                                      const int64_t grid[3],
                                      const uint64_t *arguments, size_t count,
                                      void *stream) {
  return with<SharedModule>(module, "a module", [&](SharedModule &state) {
    const KernelSpec *spec = specOf(module, kernel);
    if (!spec)
      return fail("expects the number of one of " +
                  std::to_string(flashcoreModuleGetNumKernels(module)) +
                  " kernels, but got " + std::to_string(kernel));
    if (!grid || (count && !arguments))
      return nullError(grid ? "arguments" : "a grid");
    if (count != spec->arguments.size())
      return fail("kernel '" + spec->name + "' expects " +
                  std::to_string(spec->arguments.size()) +
                  " arguments, but got " + std::to_string(count));
    KernelLaunch launch;
    launch.kernel = kernel;
    launch.name = spec->name;
    std::copy_n(grid, 3, launch.grid.begin());
    launch.block = spec->block;
    launch.dynamicSharedMemory = spec->dynamicSharedMemory;
    launch.arguments.assign(arguments, arguments + count);
    std::unique_lock<std::mutex> lock = state->device->lock();
    return wrap(
        state->device->device->launch(*state->module, launch, {stream}));
  });
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// The tensors of a caller, in C++.
static StatusOr<std::vector<CallTensor>>
readTensors(const FlashCoreTensor *tensors, size_t count) {
  std::vector<CallTensor> result;
  if (count && !tensors)
    return Status::error("expects tensors, but got null");
  for (size_t i = 0; i < count; ++i) {
    const FlashCoreTensor &tensor = tensors[i];
    if (!tensor.name)
      return Status::error("expects a name for tensor " + std::to_string(i) +
                           ", but got null");
    if (tensor.rank && (!tensor.sizes || !tensor.strides))
      return Status::error("expects " +
                           std::string(tensor.sizes ? "strides" : "sizes") +
                           " of '" + tensor.name + "', but got null");
    result.push_back({tensor.name,
                      {tensor.sizes, tensor.rank},
                      {tensor.strides, tensor.rank}});
  }
  return result;
}

FlashCoreStatus flashcorePlanCreate(FlashCoreModule module,
                                    const FlashCoreTensor *tensors,
                                    size_t count, FlashCorePlan *plan) {
  return create<PlanState>(
      plan, "a place for the plan", [&]() -> StatusOr<PlanState> {
        if (!module.ptr)
          return Status::error("expects a module, but got null");
        StatusOr<std::vector<CallTensor>> read = readTensors(tensors, count);
        if (!read.ok())
          return read.status();
        const SharedModule &on = shared<ModuleState>(module);
        if (!on->bundle->manifest)
          return Status::error("expects a module of a bundle, but got one of "
                               "other PTX: launch it with "
                               "flashcoreModuleLaunch");
        StatusOr<Plan> made =
            Plan::create(*on->device->device, *on->module, *on->bundle, *read);
        if (!made.ok())
          return made.status();
        std::string text = made->problem().str();
        return PlanState{on, std::move(*made), std::move(text)};
      });
}
void flashcorePlanDestroy(FlashCorePlan plan) {
  delete unwrap<PlanState>(plan);
}
int64_t flashcorePlanGetWorkspaceBytes(FlashCorePlan plan) {
  return plan.ptr ? unwrap<PlanState>(plan)->plan.workspaceBytes() : 0;
}
const char *flashcorePlanGetText(FlashCorePlan plan) {
  return plan.ptr ? unwrap<PlanState>(plan)->text.c_str() : "";
}

FlashCoreStatus flashcorePlanLaunch(FlashCorePlan plan,
                                    const uint64_t *pointers,
                                    uint64_t workspace, void *stream) {
  return with<PlanState>(plan, "a plan", [&](PlanState &state) {
    size_t count = state.plan.problem().tensors().size();
    if (!pointers)
      return nullError("pointers");
    std::unique_lock<std::mutex> lock = state.module->device->lock();
    return wrap(state.plan.launch({pointers, count}, workspace, {stream}));
  });
}

FlashCoreStatus flashcorePlanCheckOverlaps(FlashCorePlan plan,
                                           const uint64_t *pointers) {
  return with<PlanState>(plan, "a plan", [&](PlanState &state) {
    if (!pointers)
      return nullError("pointers");
    size_t count = state.plan.problem().tensors().size();
    return wrap(state.plan.checkOverlaps({pointers, count}));
  });
}

/// Null for what is no tensor.
static std::optional<StridedMemory>
readMemory(const FlashCoreTensor *tensor, uint64_t pointer, int64_t bytes) {
  if (!tensor || bytes < 1 ||
      (tensor->rank && !(tensor->sizes && tensor->strides)))
    return std::nullopt;
  StridedMemory memory = {pointer,
                          bytes,
                          {tensor->sizes, tensor->rank},
                          {tensor->strides, tensor->rank}};
  bool hasSizes = std::all_of(memory.sizes.begin(), memory.sizes.end(),
                              [](int64_t size) { return size >= 0; });
  return hasSizes ? std::optional(memory) : std::nullopt;
}

bool flashcoreTensorsShareBytes(const FlashCoreTensor *a, uint64_t pointerOfA,
                                int64_t bytesOfA, const FlashCoreTensor *b,
                                uint64_t pointerOfB, int64_t bytesOfB) {
  std::optional<StridedMemory> ofA = readMemory(a, pointerOfA, bytesOfA),
                               ofB = readMemory(b, pointerOfB, bytesOfB);
  return !ofA || !ofB || shareBytes(*ofA, *ofB);
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

// Of the compiler's header, but the runtime counts for its reports too.
double flashcoreShapeCountFlops(const FlashCoreShape *shape) {
  if (!shape || std::min({shape->batch, shape->headsQ, shape->seqlenQ,
                          shape->seqlenK, shape->headDim, shape->headDimV}) < 0)
    return 0;
  std::string_view name = shape->causal ? shape->causal : "none";
  Mask mask;
  for (Causal causal : {Causal::BottomRight, Causal::TopLeft})
    if (name == stringify(causal))
      mask.causal = causal;
  if (shape->windowLeft >= 0)
    mask.windowLeft = shape->windowLeft;
  if (shape->windowRight >= 0)
    mask.windowRight = shape->windowRight;
  return attentionFlops(mask,
                        {shape->batch, shape->headsQ, shape->seqlenQ,
                         shape->seqlenK, shape->headDim, shape->headDimV});
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Runs `body` on a bundle and on the caller's tensors in host memory.
template <typename F>
static FlashCoreStatus
withHostTensors(FlashCoreBundle bundle, const FlashCoreTensor *tensors,
                const uint64_t *pointers, size_t count, F body) {
  return with<SharedBundle>(bundle, "a bundle", [&](SharedBundle &state) {
    StatusOr<std::vector<CallTensor>> read = readTensors(tensors, count);
    if (!read.ok())
      return wrap(read.status());
    if (count && !pointers)
      return nullError("pointers");
    std::vector<void *> data;
    for (size_t i = 0; i < count; ++i)
      data.push_back(reinterpret_cast<void *>(pointers[i]));
    return wrap(body(state->variants.front(), *read, data));
  });
}

FlashCoreStatus flashcoreComputeReference(FlashCoreBundle bundle,
                                          const FlashCoreTensor *tensors,
                                          const uint64_t *pointers,
                                          size_t count, uint32_t threads) {
  return withHostTensors(
      bundle, tensors, pointers, count,
      [&](const Bundle &of, const auto &read, const auto &data) {
        return computeReference(of, read, data, threads);
      });
}

static FlashCoreOutputReport toReport(const ErrorReport &report) {
  FlashCoreOutputReport result = {
      report.pass(),    report.error,      report.allowed,
      report.yardstick, report.norm,       report.yardstickNorm,
      report.expected,  report.actual,     {},
      report.nans,      report.infinities, report.elements};
  std::copy(report.at.begin(), report.at.end(), result.at);
  return result;
}

FlashCoreStatus
flashcoreCheckOutputs(FlashCoreBundle bundle, const FlashCoreTensor *tensors,
                      const uint64_t *pointers, size_t count, uint32_t threads,
                      FlashCoreOutputReport *o, FlashCoreOutputReport *lse,
                      FlashCoreOutputReport *scores, FlashCoreOutputReport *k,
                      FlashCoreOutputReport *v) {
  for (FlashCoreOutputReport *report : {o, lse, scores, k, v})
    if (report)
      *report = {};
  return withHostTensors(
      bundle, tensors, pointers, count,
      [&](const Bundle &of, const auto &read, const auto &data) {
        StatusOr<CheckReport> report = checkOutputs(of, read, data, threads);
        if (report.ok() && o)
          *o = toReport(report->o);
        if (report.ok() && lse && report->lse)
          *lse = toReport(*report->lse);
        if (report.ok() && scores && report->scores)
          *scores = toReport(*report->scores);
        if (report.ok() && k && report->k)
          *k = toReport(*report->k);
        if (report.ok() && v && report->v)
          *v = toReport(*report->v);
        return Status(report.status());
      });
}
