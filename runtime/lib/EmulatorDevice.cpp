//===- EmulatorDevice.cpp - Run kernels on the PTX emulator ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translates the Device interface into the emulator's. Launches run at once, so
// there is nothing to wait for.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/EmulatorDevice.h"

#include "KernelParameters.h"

#include "flashcore/Emulator/OptionText.h"
#include "flashcore/Emulator/TensorMap.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <new>

using namespace flashcore;

namespace {
/// Findings that are shown in full; the rest is counted.
constexpr size_t maxNotes = 8;
/// Those of the usual card of its chip.
constexpr int64_t defaultMultiprocessors = 132, maxMultiprocessors = 1 << 20;

class EmulatorModule final : public LoadedModule {
public:
  explicit EmulatorModule(const Bundle &bundle)
      : file((bundle.directory / bundle.ptx.file).string()) {
    codeName = "PTX " + bundle.chip.str() + " on the emulator";
  }

  /// Loads the next kernel of the bundle.
  Status add(const Bundle &bundle, const KernelSpec &spec) {
    emu::Expected<emu::Kernel> kernel =
        emu::Kernel::load(bundle.ptx.contents, spec.name);
    if (!kernel)
      return Status::error("the emulator cannot load kernel '" + spec.name +
                           "': " + kernel.error().str(file));
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < kernel->numParams(); ++i)
      bytes.push_back(kernel->paramBytes(i));
    if (Status status = verifyParameters(spec, bytes); !status.ok())
      return status.note("loading PTX " + bundle.ptx.chip.str() + " from " +
                         file);
    LoadedKernelInfo info;
    info.staticSharedMemory = static_cast<int64_t>(kernel->staticSharedBytes());
    kernels.push_back(*kernel);
    kernelInfos.push_back(info);
    return Status::success();
  }

  std::vector<emu::Kernel> kernels;
  std::string file;
};

class EmulatorDevice final : public Device {
public:
  explicit EmulatorDevice(const emu::LaunchOptions &options = {},
                          int64_t multiprocessors = defaultMultiprocessors)
      : options(options) {
    deviceInfo.kind = "emulator";
    deviceInfo.name = "the PTX emulator";
    // Of several variants it takes that of a device of 9.0, whose blocks may
    // have the most shared memory. A launch is held against the limit of the
    // chip that its PTX is for.
    deviceInfo.chip.number = 90;
    deviceInfo.runsEveryChip = true;
    deviceInfo.limits.sharedMemoryPerBlock =
        static_cast<int64_t>(emu::sharedBytesOf(deviceInfo.chip.str()));
    deviceInfo.limits.threadsPerBlock = 1024;
    deviceInfo.limits.block = {1024, 1024, 64};
    deviceInfo.limits.grid = {2147483647, 65535, 65535};
    deviceInfo.limits.multiprocessors = multiprocessors;
    deviceInfo.checksBounds = true;
  }

  StatusOr<DevicePointer> allocate(int64_t bytes,
                                   const std::string &name) override {
    std::string number = "buffer " + std::to_string(numBuffers++);
    try {
      uint64_t address = memory.allocate(name.empty() ? number : name,
                                         static_cast<uint64_t>(bytes));
      if (address)
        return address;
    } catch (const std::bad_alloc &) {
      return Status::error("cannot allocate " + std::to_string(bytes) +
                           " bytes of host memory for '" +
                           (name.empty() ? number : name) +
                           "' on the emulator");
    }
    return Status::error("the emulator has buffers of at most " +
                         std::to_string(emu::DeviceMemory::maxBufferBytes) +
                         " bytes, but got " + std::to_string(bytes));
  }
  Status free(DevicePointer pointer) override {
    return check(memory.release(pointer), "free");
  }
  Status copyToDevice(DevicePointer to, const void *from,
                      int64_t bytes) override {
    return check(memory.write(to, from, static_cast<uint64_t>(bytes)),
                 "copy to");
  }
  Status copyToHost(void *to, DevicePointer from, int64_t bytes) override {
    return check(memory.read(from, to, static_cast<uint64_t>(bytes)),
                 "copy from");
  }
  void describe(DevicePointer pointer, int64_t elementBytes,
                std::span<const int64_t> sizes,
                std::span<const int64_t> strides) override {
    auto bytes = static_cast<unsigned>(elementBytes);
    if (!memory.describe(pointer, bytes, {sizes.begin(), sizes.end()},
                         {strides.begin(), strides.end()}))
      // Elements that share places have no layout to check, nor has what was
      // there before.
      (void)memory.describe(pointer, bytes, {0});
  }

  Status fill(DevicePointer to, uint32_t pattern, int64_t bytes) override {
    // A piece at a time: the fill of a large buffer needs no second one.
    std::array<uint32_t, 4096> words;
    words.fill(pattern);
    constexpr int64_t pieceBytes = sizeof words;
    Status status = Status::success();
    for (int64_t done = 0; done < bytes && status.ok(); done += pieceBytes)
      status = copyToDevice(to + static_cast<DevicePointer>(done), words.data(),
                            std::min(pieceBytes, bytes - done));
    return status;
  }
  Status synchronize(Stream) override { return Status::success(); }

protected:
  StatusOr<std::unique_ptr<LoadedModule>>
  loadCode(const Bundle &bundle, const CodeChoice &) override {
    auto module = std::make_unique<EmulatorModule>(bundle);
    for (const KernelSpec &kernel : bundle.kernels)
      if (Status status = module->add(bundle, kernel); !status.ok())
        return status;
    return std::unique_ptr<LoadedModule>(std::move(module));
  }

  // A launch is done when this returns, so every stream is in order.
  Status launchChecked(LoadedModule &module, const KernelLaunch &launch,
                       const LaunchArguments &passed, Stream) override {
    auto &loaded = static_cast<EmulatorModule &>(module);
    emu::Arguments arguments;
    for (size_t i = 0, map = 0; i < passed.values.size(); ++i)
      if (map < passed.maps.size() && launch.maps[map].argument == i)
        arguments.addBytes(passed.maps[map++].bytes.data(), TensorMapSize);
      else
        arguments.addValue(passed.values[i]);
    emu::LaunchConfig config;
    config.grid = toDim3(launch.grid);
    config.block = toDim3(launch.block);
    config.dynamicSharedBytes =
        static_cast<uint64_t>(launch.dynamicSharedMemory);
    emu::Expected<emu::Report> report =
        run(loaded.kernels[launch.kernel], config, arguments);
    if (!report)
      return Status::error("the emulator cannot launch kernel '" + launch.name +
                           "': " + report.error().str());
    return describe(*report, launch.name, loaded.file);
  }

  Status encodeTensorMap(const TensorMap &map, DevicePointer address,
                         TensorMapBytes &bytes) const override {
    emu::TensorMap encoded;
    encoded.address = address;
    encoded.elementBytes = static_cast<uint32_t>(byteSize(map.dtype));
    encoded.rank = map.rank;
    std::copy(map.sizes.begin(), map.sizes.end(), encoded.sizes);
    std::copy(map.strides.begin(), map.strides.end(), encoded.strides);
    std::copy(map.box.begin(), map.box.end(), encoded.box);
    encoded.swizzle = map.swizzle == 128  ? emu::TensorSwizzle::Bytes128
                      : map.swizzle == 64 ? emu::TensorSwizzle::Bytes64
                      : map.swizzle == 32 ? emu::TensorSwizzle::Bytes32
                                          : emu::TensorSwizzle::None;
    emu::Expected<emu::TensorMapBytes> made = emu::encodeTensorMap(encoded);
    if (!made)
      return Status::error("on the emulator " + made.error().message);
    std::memcpy(bytes.bytes.data(), made->data(), made->size());
    return Status::success();
  }

  StatusOr<Timing> timeChecked(LoadedModule &,
                               std::span<const std::vector<KernelLaunch>>,
                               const TimingOptions &) override {
    return Status::error("the emulator cannot time a kernel: its speed says "
                         "nothing of a GPU's; use --device=cuda");
  }

private:
  static emu::Dim3 toDim3(const std::array<int64_t, 3> &sizes) {
    return {static_cast<uint32_t>(sizes[0]), static_cast<uint32_t>(sizes[1]),
            static_cast<uint32_t>(sizes[2])};
  }

  /// Its shadow memory grows with what a kernel touches.
  emu::Expected<emu::Report> run(const emu::Kernel &kernel,
                                 const emu::LaunchConfig &config,
                                 const emu::Arguments &arguments) {
    try {
      return emu::launch(kernel, memory, config, arguments, options);
    } catch (const std::bad_alloc &) {
      return emu::Error{{}, "the host has no memory left for its checks"};
    }
  }

  static Status check(bool isInside, const char *what) {
    if (isInside)
      return Status::success();
    return Status::error(std::string("cannot ") + what +
                         " a range that is not inside one buffer of the "
                         "emulator");
  }

  static Status describe(const emu::Report &report, const std::string &kernel,
                         const std::string &file) {
    if (report.clean())
      return Status::success();
    Status status = Status::kernelFault("kernel '" + kernel + "' has " +
                                        std::to_string(report.findings.size()) +
                                        " finding(s) in the emulator");
    size_t shown = std::min(report.findings.size(), maxNotes);
    for (size_t i = 0; i < shown; ++i)
      status.note(emu::formatFinding(report.findings[i], file, kernel));
    if (shown < report.findings.size())
      status.note(std::to_string(report.findings.size() - shown) +
                  " more; run flashcore-emu for all of them");
    return std::move(status).attachReport(emu::reportToJson(report, file));
  }

  emu::LaunchOptions options;
  emu::DeviceMemory memory;
  size_t numBuffers = 0;
};
} // namespace

std::unique_ptr<Device> flashcore::createEmulatorDevice() {
  return std::make_unique<EmulatorDevice>();
}

static StatusOr<int64_t> parseMultiprocessors(const std::string &text) {
  int64_t number = 0;
  auto [rest, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < 1 ||
      number > maxMultiprocessors)
    return Status::error("option 'multiprocessors' of the emulator expects 1 "
                         "to " +
                         std::to_string(maxMultiprocessors) + ", but got '" +
                         text + "'");
  return number;
}

StatusOr<std::unique_ptr<Device>>
flashcore::createEmulatorDevice(const EmulatorOptions &options) {
  emu::LaunchOptions launch;
  int64_t multiprocessors = defaultMultiprocessors;
  for (const auto &[name, value] : options)
    if (name == "multiprocessors") {
      StatusOr<int64_t> number = parseMultiprocessors(value);
      if (!number.ok())
        return number.status();
      multiprocessors = *number;
    } else if (emu::Error error = emu::setLaunchOption(launch, name, value);
               !error.message.empty())
      return Status::error("option '" + name + "' of the emulator " +
                           error.message);
  return std::unique_ptr<Device>(
      std::make_unique<EmulatorDevice>(launch, multiprocessors));
}
