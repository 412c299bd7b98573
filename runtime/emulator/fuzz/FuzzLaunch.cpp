//===- FuzzLaunch.cpp - Hostile PTX in the interpreter --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs what loads on a small grid with all checks. Eight-byte parameters point
// to buffers, those of 128 bytes are tensor maps, the others are a small
// number. The order of warps and of copies follows from the size of the text,
// so that an input says it all.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"
#include "flashcore/Emulator/TensorMap.h"

#include <algorithm>
#include <cstdlib>

using namespace flashcore::emu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/// A map of two axes with a box of 8 lines of 128 bytes.
static TensorMapBytes makeTensorMap(DeviceMemory &memory) {
  TensorMap map;
  map.rank = 2;
  map.sizes[0] = 64;
  map.sizes[1] = 12;
  map.strides[1] = 128;
  map.box[0] = 64;
  map.box[1] = 8;
  map.swizzle = TensorSwizzle::Bytes128;
  map.address = memory.allocate("tensor", 64 * 12 * 2);
  Expected<TensorMapBytes> bytes = encodeTensorMap(map);
  if (!bytes)
    std::abort();
  return *bytes;
}

static Arguments makeArguments(const Kernel &kernel, DeviceMemory &memory) {
  constexpr uint64_t bufferBytes = 4096;
  Arguments arguments;
  for (size_t i = 0; i < kernel.numParams(); ++i) {
    uint32_t bytes = kernel.paramBytes(i);
    if (bytes == 8) {
      uint64_t at = memory.allocate(kernel.paramName(i), bufferBytes);
      // Every other buffer is left poisoned.
      if (i % 2 == 0)
        memory.fill(at, 1, bufferBytes);
      arguments.addPointer(at);
      continue;
    }
    if (bytes == sizeof(TensorMapBytes)) {
      arguments.addBytes(makeTensorMap(memory).data(), bytes);
      continue;
    }
    std::vector<uint8_t> value(bytes, 0);
    if (!value.empty())
      value[0] = 16;
    arguments.addBytes(value.data(), value.size());
  }
  return arguments;
}

static void runKernel(const Kernel &kernel, size_t seed) {
  LaunchOptions options;
  options.maxInstructions = 10'000;
  options.maxFindings = 20;
  options.schedule = static_cast<Schedule>(seed % 3);
  options.async = static_cast<AsyncMode>(seed / 3 % 3);
  options.scheduleSeed = options.asyncSeed = seed;
  LaunchConfig config{{2, 1, 1}, {48, 1, 1}, 1024};
  if (Dim3 required = kernel.requiredBlock(); required.x)
    config.block = required;
  DeviceMemory memory;
  Arguments arguments = makeArguments(kernel, memory);
  Expected<Report> report = launch(kernel, memory, config, arguments, options);
  if (!report) {
    if (report.error().message.empty())
      std::abort();
    return;
  }
  if (formatReport(*report, "fuzz.ptx").empty() ||
      reportToJson(*report, "fuzz.ptx").empty())
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr size_t maxKernels = 4;
  std::string text(reinterpret_cast<const char *>(data), size);
  Expected<Module> module = Module::parse(text);
  if (!module)
    return 0;
  std::vector<std::string> names = module->kernels();
  for (size_t i = 0; i < std::min(names.size(), maxKernels); ++i)
    if (Expected<Kernel> kernel = module->load(names[i]))
      runKernel(*kernel, size);
  return 0;
}
