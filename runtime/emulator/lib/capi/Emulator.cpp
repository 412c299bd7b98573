//===- Emulator.cpp - C interface of the PTX emulator ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Status.h for what the functions have in common.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"
#include "Status.h"

using namespace flashcore::emu;
using namespace flashcore::emu::capi;

using KernelNames = std::vector<std::string>;

//===----------------------------------------------------------------------===//
// Status and strings
//===----------------------------------------------------------------------===//

bool flashcoreEmuStatusIsSuccess(FlashCoreEmuStatus status) {
  return !status.ptr;
}
const char *flashcoreEmuStatusGetMessage(FlashCoreEmuStatus status) {
  return status.ptr ? unwrap<Error>(status)->message.c_str() : "";
}
uint32_t flashcoreEmuStatusGetLine(FlashCoreEmuStatus status) {
  return status.ptr ? unwrap<Error>(status)->loc.line : 0;
}
uint32_t flashcoreEmuStatusGetColumn(FlashCoreEmuStatus status) {
  return status.ptr ? unwrap<Error>(status)->loc.column : 0;
}
void flashcoreEmuStatusDestroy(FlashCoreEmuStatus status) {
  if (status.ptr != &outOfMemory)
    delete unwrap<Error>(status);
}

const char *flashcoreEmuStringGetData(FlashCoreEmuString string) {
  return string.ptr ? unwrap<std::string>(string)->c_str() : "";
}
size_t flashcoreEmuStringGetLength(FlashCoreEmuString string) {
  return string.ptr ? unwrap<std::string>(string)->size() : 0;
}
void flashcoreEmuStringDestroy(FlashCoreEmuString string) {
  delete unwrap<std::string>(string);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

FlashCoreEmuStatus flashcoreEmuKernelListCreate(const char *ptx,
                                                FlashCoreEmuKernelList *list) {
  return create<KernelNames>(list, "a place for the list", [&] {
    return ptx ? Kernel::list(ptx)
               : Error{{}, "expects the text of a PTX module, but got null"};
  });
}
size_t flashcoreEmuKernelListGetSize(FlashCoreEmuKernelList list) {
  return list.ptr ? unwrap<KernelNames>(list)->size() : 0;
}
const char *flashcoreEmuKernelListGetName(FlashCoreEmuKernelList list,
                                          size_t index) {
  bool exists = index < flashcoreEmuKernelListGetSize(list);
  return exists ? (*unwrap<KernelNames>(list))[index].c_str() : "";
}
void flashcoreEmuKernelListDestroy(FlashCoreEmuKernelList list) {
  delete unwrap<KernelNames>(list);
}

FlashCoreEmuStatus flashcoreEmuKernelCreate(const char *ptx, const char *name,
                                            FlashCoreEmuKernel *kernel) {
  return create<Kernel>(kernel, "a place for the kernel", [&] {
    return ptx ? Kernel::load(ptx, name ? name : "")
               : Error{{}, "expects the text of a PTX module, but got null"};
  });
}
const char *flashcoreEmuKernelGetName(FlashCoreEmuKernel kernel) {
  return kernel.ptr ? unwrap<Kernel>(kernel)->name().c_str() : "";
}
const char *flashcoreEmuKernelGetTarget(FlashCoreEmuKernel kernel) {
  return kernel.ptr ? unwrap<Kernel>(kernel)->target().c_str() : "";
}
size_t flashcoreEmuKernelGetNumParams(FlashCoreEmuKernel kernel) {
  return kernel.ptr ? unwrap<Kernel>(kernel)->numParams() : 0;
}
const char *flashcoreEmuKernelGetParamName(FlashCoreEmuKernel kernel,
                                           size_t index) {
  bool exists = index < flashcoreEmuKernelGetNumParams(kernel);
  return exists ? unwrap<Kernel>(kernel)->paramName(index).c_str() : "";
}
uint32_t flashcoreEmuKernelGetParamBytes(FlashCoreEmuKernel kernel,
                                         size_t index) {
  bool exists = index < flashcoreEmuKernelGetNumParams(kernel);
  return exists ? unwrap<Kernel>(kernel)->paramBytes(index) : 0;
}
uint64_t flashcoreEmuKernelGetStaticSharedBytes(FlashCoreEmuKernel kernel) {
  return kernel.ptr ? unwrap<Kernel>(kernel)->staticSharedBytes() : 0;
}
FlashCoreEmuDim3 flashcoreEmuKernelGetRequiredBlock(FlashCoreEmuKernel kernel) {
  Dim3 block{0, 0, 0};
  if (kernel.ptr)
    block = unwrap<Kernel>(kernel)->requiredBlock();
  return {block.x, block.y, block.z};
}
void flashcoreEmuKernelDestroy(FlashCoreEmuKernel kernel) {
  delete unwrap<Kernel>(kernel);
}

FlashCoreEmuStatus flashcoreEmuDescribe(const char *ptx,
                                        FlashCoreEmuString *json) {
  return create<std::string>(
      json, "a place for the description", [&]() -> Expected<std::string> {
        if (!ptx)
          return Error{{}, "expects the text of a PTX module, but got null"};
        Expected<Module> module = Module::parse(ptx);
        if (!module)
          return module.error();
        return module->describe();
      });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static constexpr const char *memoryHandle = "a memory";

static FlashCoreEmuStatus checkRange(bool isInside, uint64_t address,
                                     uint64_t bytes) {
  if (isInside)
    return success();
  return fail("expects a range inside one buffer, but got " +
              std::to_string(bytes) + " bytes at address " +
              std::to_string(address));
}

static FlashCoreEmuStatus checkBuffer(bool isBuffer, uint64_t address) {
  if (isBuffer)
    return success();
  return fail("expects the address of a buffer, but got " +
              std::to_string(address));
}

FlashCoreEmuStatus flashcoreEmuMemoryCreate(FlashCoreEmuMemory *memory) {
  return create<DeviceMemory>(memory, "a place for the memory", [] {
    return Expected<DeviceMemory>(DeviceMemory());
  });
}
void flashcoreEmuMemoryDestroy(FlashCoreEmuMemory memory) {
  delete unwrap<DeviceMemory>(memory);
}

FlashCoreEmuStatus flashcoreEmuMemoryAllocate(FlashCoreEmuMemory memory,
                                              const char *name, uint64_t bytes,
                                              uint64_t *address) {
  if (address)
    *address = 0;
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    if (!name)
      return nullError("a name for the buffer");
    if (!address)
      return nullError("a place for the address");
    *address = object.allocate(name, bytes);
    return *address ? success()
                    : fail("expects a buffer of at most " +
                           std::to_string(DeviceMemory::maxBufferBytes) +
                           " bytes, but got " + std::to_string(bytes));
  });
}
FlashCoreEmuStatus flashcoreEmuMemoryRelease(FlashCoreEmuMemory memory,
                                             uint64_t address) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    return checkBuffer(object.release(address), address);
  });
}
FlashCoreEmuStatus flashcoreEmuMemoryPoison(FlashCoreEmuMemory memory,
                                            uint64_t address) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    return checkBuffer(object.poison(address), address);
  });
}
FlashCoreEmuStatus flashcoreEmuMemoryWrite(FlashCoreEmuMemory memory,
                                           uint64_t address, const void *data,
                                           uint64_t bytes) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    if (!data && bytes)
      return nullError("data to write");
    return checkRange(object.write(address, data, bytes), address, bytes);
  });
}
FlashCoreEmuStatus flashcoreEmuMemoryFill(FlashCoreEmuMemory memory,
                                          uint64_t address, uint8_t value,
                                          uint64_t bytes) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    return checkRange(object.fill(address, value, bytes), address, bytes);
  });
}
FlashCoreEmuStatus flashcoreEmuMemoryRead(FlashCoreEmuMemory memory,
                                          uint64_t address, uint64_t bytes,
                                          void *data) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    if (!data && bytes)
      return nullError("a place for the data");
    return checkRange(object.read(address, data, bytes), address, bytes);
  });
}
FlashCoreEmuStatus
flashcoreEmuMemoryDescribe(FlashCoreEmuMemory memory, uint64_t address,
                           uint32_t elementBytes, size_t rank,
                           const uint64_t *shape, const uint64_t *strides) {
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    if (!shape && rank)
      return nullError("a shape");
    std::vector<uint64_t> extents(shape, shape + rank), steps;
    if (strides)
      steps.assign(strides, strides + rank);
    if (object.describe(address, elementBytes, extents, steps))
      return success();
    return fail("expects a tensor inside one buffer, each element at a place "
                "of its own, but got elements of " +
                std::to_string(elementBytes) + " bytes and " +
                std::to_string(rank) + " axes at address " +
                std::to_string(address));
  });
}
FlashCoreEmuStatus
flashcoreEmuMemoryGetUninitializedBytes(FlashCoreEmuMemory memory,
                                        uint64_t address, uint64_t *bytes) {
  if (bytes)
    *bytes = 0;
  return with<DeviceMemory>(memory, memoryHandle, [&](DeviceMemory &object) {
    if (!bytes)
      return nullError("a place for the number of bytes");
    *bytes = object.uninitializedBytes(address);
    return checkBuffer(object.contains(address), address);
  });
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

static FlashCoreEmuStatus addBytes(FlashCoreEmuArguments to, const void *data,
                                   size_t bytes) {
  return with<Arguments>(to, "arguments", [&](Arguments &object) {
    if (!data)
      return nullError("the bytes of an argument");
    object.addBytes(data, bytes);
    return success();
  });
}

FlashCoreEmuStatus
flashcoreEmuArgumentsCreate(FlashCoreEmuArguments *arguments) {
  return create<Arguments>(arguments, "a place for the arguments",
                           [] { return Expected<Arguments>(Arguments()); });
}
void flashcoreEmuArgumentsDestroy(FlashCoreEmuArguments arguments) {
  delete unwrap<Arguments>(arguments);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddPointer(FlashCoreEmuArguments to,
                                                   uint64_t address) {
  return addBytes(to, &address, sizeof address);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddInt32(FlashCoreEmuArguments to,
                                                 int32_t value) {
  return addBytes(to, &value, sizeof value);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddInt64(FlashCoreEmuArguments to,
                                                 int64_t value) {
  return addBytes(to, &value, sizeof value);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddFloat(FlashCoreEmuArguments to,
                                                 float value) {
  return addBytes(to, &value, sizeof value);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddDouble(FlashCoreEmuArguments to,
                                                  double value) {
  return addBytes(to, &value, sizeof value);
}
FlashCoreEmuStatus flashcoreEmuArgumentsAddBytes(FlashCoreEmuArguments to,
                                                 const void *data,
                                                 size_t bytes) {
  return addBytes(to, data, bytes);
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Runs `change` on the options.
template <typename F>
static FlashCoreEmuStatus setOption(FlashCoreEmuOptions options, F change) {
  return with<LaunchOptions>(options, "options", [&](LaunchOptions &object) {
    change(object);
    return success();
  });
}

/// Sets an option that has `count` values.
template <typename Value, typename F>
static FlashCoreEmuStatus setEnum(FlashCoreEmuOptions options, const char *what,
                                  int value, int count, F change) {
  return with<LaunchOptions>(options, "options", [&](LaunchOptions &object) {
    if (value < 0 || value >= count)
      return fail(std::string("expects ") + what + " of 0 to " +
                  std::to_string(count - 1) + ", but got " +
                  std::to_string(value));
    change(object, static_cast<Value>(value));
    return success();
  });
}

// The enumerations of both interfaces are the same numbers.
static_assert(int(FlashCoreEmuMmaAuto) == int(MmaRounding::Auto) &&
              int(FlashCoreEmuMmaPlain) == int(MmaRounding::Plain) &&
              int(FlashCoreEmuMmaSm80) == int(MmaRounding::Sm80) &&
              int(FlashCoreEmuMmaSm90) == int(MmaRounding::Sm90));
static_assert(int(FlashCoreEmuScheduleSequential) ==
                  int(Schedule::Sequential) &&
              int(FlashCoreEmuScheduleSkewed) == int(Schedule::Skewed) &&
              int(FlashCoreEmuScheduleRandom) == int(Schedule::Random));
static_assert(int(FlashCoreEmuAsyncLazy) == int(AsyncMode::Lazy) &&
              int(FlashCoreEmuAsyncEager) == int(AsyncMode::Eager) &&
              int(FlashCoreEmuAsyncRandom) == int(AsyncMode::Random));

FlashCoreEmuStatus flashcoreEmuOptionsCreate(FlashCoreEmuOptions *options) {
  return create<LaunchOptions>(options, "a place for the options", [] {
    return Expected<LaunchOptions>(LaunchOptions());
  });
}
void flashcoreEmuOptionsDestroy(FlashCoreEmuOptions options) {
  delete unwrap<LaunchOptions>(options);
}
FlashCoreEmuStatus flashcoreEmuOptionsSetChecks(FlashCoreEmuOptions options,
                                                const char *checks) {
  return with<LaunchOptions>(options, "options", [&](LaunchOptions &object) {
    if (!checks)
      return nullError("a list of checks");
    std::string unknown;
    return parseChecks(checks, object.checks, unknown)
               ? success()
               : fail("unknown check '" + unknown + "'");
  });
}
FlashCoreEmuStatus flashcoreEmuOptionsSetMma(FlashCoreEmuOptions options,
                                             FlashCoreEmuMma mma) {
  return setEnum<MmaRounding>(
      options, "a FlashCoreEmuMma", int(mma), 4,
      [](LaunchOptions &object, MmaRounding value) { object.mma = value; });
}
FlashCoreEmuStatus flashcoreEmuOptionsSetSchedule(FlashCoreEmuOptions options,
                                                  FlashCoreEmuSchedule schedule,
                                                  uint64_t seed) {
  return setEnum<Schedule>(options, "a FlashCoreEmuSchedule", int(schedule), 3,
                           [&](LaunchOptions &object, Schedule value) {
                             object.schedule = value;
                             object.scheduleSeed = seed;
                           });
}
FlashCoreEmuStatus flashcoreEmuOptionsSetAsync(FlashCoreEmuOptions options,
                                               FlashCoreEmuAsync async,
                                               uint64_t seed) {
  return setEnum<AsyncMode>(options, "a FlashCoreEmuAsync", int(async), 3,
                            [&](LaunchOptions &object, AsyncMode value) {
                              object.async = value;
                              object.asyncSeed = seed;
                            });
}
FlashCoreEmuStatus flashcoreEmuOptionsSetThreads(FlashCoreEmuOptions options,
                                                 uint32_t threads) {
  return setOption(options,
                   [&](LaunchOptions &object) { object.threads = threads; });
}
FlashCoreEmuStatus
flashcoreEmuOptionsSetMaxInstructions(FlashCoreEmuOptions options,
                                      uint64_t maxInstructions) {
  return setOption(options, [&](LaunchOptions &object) {
    object.maxInstructions = maxInstructions;
  });
}
FlashCoreEmuStatus
flashcoreEmuOptionsSetMaxSharedBytes(FlashCoreEmuOptions options,
                                     uint64_t maxSharedBytes) {
  return setOption(options, [&](LaunchOptions &object) {
    object.maxSharedBytes = maxSharedBytes;
  });
}
FlashCoreEmuStatus
flashcoreEmuOptionsSetSharedBase(FlashCoreEmuOptions options,
                                 FlashCoreEmuSharedBase base) {
  return setEnum<SharedBase>(options, "a FlashCoreEmuSharedBase", int(base), 2,
                             [](LaunchOptions &object, SharedBase value) {
                               object.sharedBase = value;
                             });
}
FlashCoreEmuStatus flashcoreEmuOptionsSetCounters(FlashCoreEmuOptions options,
                                                  bool counters) {
  return setOption(options,
                   [&](LaunchOptions &object) { object.counters = counters; });
}

//===----------------------------------------------------------------------===//
// Launch and report
//===----------------------------------------------------------------------===//

FlashCoreEmuStatus
flashcoreEmuLaunch(FlashCoreEmuKernel kernel, FlashCoreEmuMemory memory,
                   FlashCoreEmuDim3 grid, FlashCoreEmuDim3 block,
                   uint64_t dynamicSharedBytes, FlashCoreEmuArguments arguments,
                   FlashCoreEmuOptions options, FlashCoreEmuReport *report) {
  return create<Report>(
      report, "a place for the report", [&]() -> Expected<Report> {
        for (auto [handle, what] :
             {std::pair(kernel.ptr, "a kernel"),
              std::pair(memory.ptr, memoryHandle),
              std::pair(arguments.ptr, "arguments, which may be empty")})
          if (!handle)
            return Error{{}, std::string("expects ") + what + ", but got null"};
        return launch(*unwrap<Kernel>(kernel), *unwrap<DeviceMemory>(memory),
                      {{grid.x, grid.y, grid.z},
                       {block.x, block.y, block.z},
                       dynamicSharedBytes},
                      *unwrap<Arguments>(arguments),
                      options.ptr ? *unwrap<LaunchOptions>(options)
                                  : LaunchOptions());
      });
}

bool flashcoreEmuReportIsClean(FlashCoreEmuReport report) {
  return report.ptr && unwrap<Report>(report)->clean();
}
size_t flashcoreEmuReportGetNumFindings(FlashCoreEmuReport report) {
  return report.ptr ? unwrap<Report>(report)->findings.size() : 0;
}
size_t flashcoreEmuReportGetNumNotes(FlashCoreEmuReport report) {
  return report.ptr ? unwrap<Report>(report)->notes.size() : 0;
}
uint32_t flashcoreEmuReportGetNumThreads(FlashCoreEmuReport report) {
  return report.ptr ? unwrap<Report>(report)->threads : 0;
}

/// Makes the string that `format` writes of a report.
template <typename F>
static FlashCoreEmuStatus format(FlashCoreEmuReport report, const char *file,
                                 FlashCoreEmuString *text, F format) {
  return create<std::string>(
      text, "a place for the text", [&]() -> Expected<std::string> {
        if (!report.ptr)
          return Error{{}, "expects a report, but got null"};
        return format(*unwrap<Report>(report), file ? file : "");
      });
}
FlashCoreEmuStatus flashcoreEmuReportGetText(FlashCoreEmuReport report,
                                             const char *file,
                                             FlashCoreEmuString *text) {
  return format(report, file, text, formatReport);
}
FlashCoreEmuStatus flashcoreEmuReportGetJson(FlashCoreEmuReport report,
                                             const char *file,
                                             FlashCoreEmuString *json) {
  return format(report, file, json, reportToJson);
}
void flashcoreEmuReportDestroy(FlashCoreEmuReport report) {
  delete unwrap<Report>(report);
}
