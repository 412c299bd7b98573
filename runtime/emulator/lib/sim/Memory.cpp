//===- Memory.cpp - Kernels and device memory -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of Emulator.h that live on the host's side of a launch. Each buffer
// starts in the middle of a 64 GiB window of its own, so that an address a long
// way before or after it still tells whose it was.
//
//===----------------------------------------------------------------------===//

#include "Machine.h"

#include <algorithm>

using namespace flashcore::emu;

//===----------------------------------------------------------------------===//
// Modules and kernels
//===----------------------------------------------------------------------===//

Expected<Module> Module::parse(std::string ptx) {
  Expected<PtxModule> parsed = parsePtx(std::move(ptx));
  if (!parsed)
    return parsed.error();
  Module module;
  module.impl = std::make_shared<const PtxModule>(std::move(*parsed));
  return module;
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const PtxFunction *kernel : impl->kernels())
    names.emplace_back(kernel->name);
  return names;
}

Expected<Kernel> Module::load(std::string_view name) const {
  std::string chosen(name);
  if (chosen.empty()) {
    std::vector<const PtxFunction *> kernels = impl->kernels();
    if (kernels.empty())
      return Error{{}, "the module has no kernel (.entry)"};
    chosen = kernels.front()->name;
    if (kernels.size() > 1)
      return Error{{},
                   "the module has several kernels ('" + chosen + "', '" +
                       std::string(kernels[1]->name) + "', ...); name one"};
  }
  Expected<Program> program = lowerKernel(*impl, chosen);
  if (!program)
    return program.error();
  Kernel kernel;
  kernel.impl = std::make_shared<const Program>(std::move(*program));
  kernel.module = impl;
  return kernel;
}

Expected<Kernel> Kernel::load(std::string ptx, std::string_view name) {
  Expected<Module> module = Module::parse(std::move(ptx));
  if (!module)
    return module.error();
  return module->load(name);
}

Expected<std::vector<std::string>> Kernel::list(std::string ptx) {
  Expected<Module> module = Module::parse(std::move(ptx));
  if (!module)
    return module.error();
  return module->kernels();
}

const std::string &Kernel::name() const { return impl->name; }
const std::string &Kernel::target() const { return impl->target; }
size_t Kernel::numParams() const { return impl->params.size(); }
uint32_t Kernel::paramBytes(size_t index) const {
  return impl->params[index].bytes;
}
const std::string &Kernel::paramName(size_t index) const {
  return impl->params[index].name;
}
uint64_t Kernel::staticSharedBytes() const { return impl->staticSharedBytes; }
Dim3 Kernel::requiredBlock() const {
  return {impl->reqntid[0], impl->reqntid[1], impl->reqntid[2]};
}

//===----------------------------------------------------------------------===//
// DeviceMemory
//===----------------------------------------------------------------------===//

Buffer *DeviceMemory::Impl::owner(uint64_t address) {
  if (address < globalWindow)
    return nullptr;
  uint64_t index = (address - globalWindow) / bufferStride;
  return index < buffers.size() ? &buffers[index] : nullptr;
}

Buffer *DeviceMemory::Impl::find(uint64_t address, uint64_t bytes) {
  Buffer *buffer = owner(address);
  if (!buffer || !buffer->live || address < buffer->base ||
      bytes > buffer->bytes || address - buffer->base > buffer->bytes - bytes)
    return nullptr;
  return buffer;
}

/// Makes a new buffer of one that is nothing but a window.
static Buffer &start(Buffer &buffer, std::string name, uint64_t bytes) {
  buffer.name = std::move(name);
  // Poison that is a NaN in every float type; slack for wide bit-map reads.
  // Without the memory for it the buffer stays dead.
  buffer.data.assign(bytes, 0xff);
  buffer.init.reset(bytes + 64);
  buffer.bytes = bytes;
  buffer.live = true;
  return buffer;
}

Buffer &DeviceMemory::Impl::create(std::string name, uint64_t bytes) {
  Buffer &buffer = buffers.emplace_back();
  buffer.base =
      globalWindow + (buffers.size() - 1) * bufferStride + bufferStride / 2;
  return start(buffer, std::move(name), bytes);
}

Buffer &DeviceMemory::Impl::recreate(std::string name, uint64_t bytes) {
  Buffer &buffer = buffers[released.front()];
  uint64_t base = buffer.base;
  buffer = Buffer();
  buffer.base = base;
  start(buffer, std::move(name), bytes);
  released.pop_front();
  return buffer;
}

DeviceMemory::DeviceMemory() : impl(std::make_unique<Impl>()) {}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory &&) noexcept = default;
DeviceMemory &DeviceMemory::operator=(DeviceMemory &&) noexcept = default;

static_assert(DeviceMemory::maxBufferBytes == bufferStride / 2,
              "a buffer reaches to the end of its window");

uint64_t DeviceMemory::allocate(std::string name, uint64_t bytes) {
  if (bytes > maxBufferBytes)
    return 0;
  // So many stay known after their release, for the findings of who uses them.
  // A program that runs for long takes no more memory than that.
  constexpr size_t maxReleased = 1024;
  return (impl->released.size() < maxReleased
              ? impl->create(std::move(name), bytes)
              : impl->recreate(std::move(name), bytes))
      .base;
}

bool DeviceMemory::contains(uint64_t address, uint64_t bytes) const {
  return impl->find(address, bytes) != nullptr;
}

bool DeviceMemory::release(uint64_t address) {
  Buffer *buffer = impl->find(address, 0);
  if (!buffer || buffer->base != address)
    return false;
  buffer->live = false;
  buffer->data = {};
  buffer->init = {};
  impl->released.push_back(Impl::indexOf(*buffer));
  return true;
}

bool DeviceMemory::write(uint64_t address, const void *data, uint64_t bytes) {
  Buffer *buffer = impl->find(address, bytes);
  if (!buffer)
    return false;
  uint64_t offset = address - buffer->base;
  std::copy_n(static_cast<const uint8_t *>(data), bytes,
              buffer->data.data() + offset);
  buffer->init.fill(offset, bytes, true);
  return true;
}

bool DeviceMemory::read(uint64_t address, void *data, uint64_t bytes) const {
  const Buffer *buffer = impl->find(address, bytes);
  if (!buffer)
    return false;
  std::copy_n(buffer->data.data() + (address - buffer->base), bytes,
              static_cast<uint8_t *>(data));
  return true;
}

bool DeviceMemory::fill(uint64_t address, uint8_t value, uint64_t bytes) {
  Buffer *buffer = impl->find(address, bytes);
  if (!buffer)
    return false;
  uint64_t offset = address - buffer->base;
  std::memset(buffer->data.data() + offset, value, bytes);
  buffer->init.fill(offset, bytes, true);
  return true;
}

bool DeviceMemory::describe(uint64_t address, unsigned elementBytes,
                            std::vector<uint64_t> shape,
                            std::vector<uint64_t> strides) {
  Buffer *buffer = impl->find(address, 0);
  if (!buffer)
    return false;
  TensorLayout layout{address - buffer->base, elementBytes, std::move(shape),
                      std::move(strides)};
  if (!completeLayout(layout, buffer->bytes))
    return false;
  buffer->layout = std::move(layout);
  return true;
}

bool DeviceMemory::poison(uint64_t address) {
  Buffer *buffer = impl->find(address, 0);
  if (!buffer)
    return false;
  std::fill(buffer->data.begin(), buffer->data.end(), uint8_t(0xff));
  buffer->init.fill(0, buffer->bytes, false);
  return true;
}

uint64_t DeviceMemory::uninitializedBytes(uint64_t address) const {
  const Buffer *buffer = impl->find(address, 0);
  return buffer ? buffer->init.countUnset(buffer->bytes) : 0;
}

bool DeviceMemory::isInitialized(uint64_t address, uint64_t bytes) const {
  constexpr uint64_t step = 32; // of InitMap::isSet
  const Buffer *buffer = impl->find(address, bytes);
  for (uint64_t at = 0; buffer && at < bytes; at += step)
    if (!buffer->init.isSet(address - buffer->base + at,
                            static_cast<unsigned>(std::min(step, bytes - at))))
      return false;
  return buffer;
}

//===----------------------------------------------------------------------===//
// Instruction sets
//===----------------------------------------------------------------------===//

const HandlerTable &flashcore::emu::selectHandlers() {
#ifdef FLASHCORE_EMU_X86_LEVELS
  static const HandlerTable *const best = [] {
    __builtin_cpu_init();
    bool hasV3 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    bool hasV4 = hasV3 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") &&
                 __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
    return hasV4 ? &v4::handlers : hasV3 ? &v3::handlers : &baseline::handlers;
  }();
  return *best;
#else
  return baseline::handlers;
#endif
}
