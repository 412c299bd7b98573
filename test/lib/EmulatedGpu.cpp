//===- EmulatedGpu.cpp - MLIR's GPU runtime on the emulator ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions that host code calls after upstream's gpu-to-llvm, as much of
// them as attention needs, so that mlir-runner runs whole programs without a
// GPU. Streams do nothing: everything is done when it is asked for. What the
// emulator finds wrong with a kernel ends the process.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/Emulator.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

using namespace flashcore::emu;

namespace {
/// A loaded binary: its PTX, and the kernels that were asked for.
struct LoadedModule {
  std::string ptx;
  std::map<std::string, Kernel> kernels;
};
} // namespace

static DeviceMemory &deviceMemory() {
  static DeviceMemory memory;
  return memory;
}

[[noreturn]] static void fail(const std::string &text) {
  std::fprintf(stderr, "emulated GPU: error: %s\n", text.c_str());
  std::exit(1);
}

static uint64_t address(const void *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

extern "C" {

void *mgpuModuleLoadJIT(const char *ptx, int /*optLevel*/) {
  return new LoadedModule{ptx, {}};
}

void *mgpuModuleLoad(void * /*image*/, size_t /*bytes*/) {
  fail("expects PTX (gpu-module-to-binary{format=isa}), but got machine code");
}

void mgpuModuleUnload(LoadedModule *module) { delete module; }

const Kernel *mgpuModuleGetFunction(LoadedModule *module, const char *name) {
  Expected<Kernel> kernel = Kernel::load(module->ptx, name);
  if (!kernel)
    fail(kernel.error().message);
  return &module->kernels.insert_or_assign(name, *kernel).first->second;
}

void mgpuLaunchKernel(const Kernel *kernel, intptr_t gridX, intptr_t gridY,
                      intptr_t gridZ, intptr_t blockX, intptr_t blockY,
                      intptr_t blockZ, int32_t sharedBytes, void * /*stream*/,
                      void **params, void ** /*extra*/, size_t numParams) {
  if (numParams != kernel->numParams())
    fail("expects " + std::to_string(kernel->numParams()) + " arguments for " +
         kernel->name() + ", but got " + std::to_string(numParams));
  Arguments arguments;
  for (size_t i = 0; i < numParams; ++i)
    arguments.addBytes(params[i], kernel->paramBytes(i));
  auto dim = [](intptr_t x, intptr_t y, intptr_t z) {
    return Dim3{static_cast<uint32_t>(x), static_cast<uint32_t>(y),
                static_cast<uint32_t>(z)};
  };
  Expected<Report> report =
      launch(*kernel, deviceMemory(),
             {dim(gridX, gridY, gridZ), dim(blockX, blockY, blockZ),
              static_cast<uint64_t>(sharedBytes)},
             arguments);
  if (!report)
    fail(report.error().message);
  if (!report->clean())
    fail("findings in " + kernel->name() + "; flashcore-emu lists them");
}

void *mgpuStreamCreate() { return nullptr; }
void mgpuStreamDestroy(void * /*stream*/) {}
void mgpuStreamSynchronize(void * /*stream*/) {}

void *mgpuMemAlloc(uint64_t bytes, void * /*stream*/, bool /*isHostShared*/) {
  uint64_t memory = deviceMemory().allocate("alloc", bytes);
  if (!memory)
    fail("cannot allocate " + std::to_string(bytes) + " bytes");
  return reinterpret_cast<void *>(memory);
}

void mgpuMemFree(void *pointer, void * /*stream*/) {
  if (!deviceMemory().release(address(pointer)))
    fail("expects memory of the device to free");
}

/// One of the two is memory of the host.
void mgpuMemcpy(void *to, void *from, size_t bytes, void * /*stream*/) {
  DeviceMemory &memory = deviceMemory();
  bool toDevice = memory.contains(address(to));
  if (toDevice == memory.contains(address(from)))
    fail("expects a copy between host and device");
  if (!(toDevice ? memory.write(address(to), from, bytes)
                 : memory.read(address(from), to, bytes)))
    fail("expects a copy inside of one buffer");
}

} // extern "C"
