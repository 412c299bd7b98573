//===- FakeLibcuda.cpp - A CUDA driver without a GPU ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two GPUs of sm_90 whose memory is the host's and whose kernels do nothing. A
// launch is noted: its stream, its context and its arguments, of a tensor map
// the address. Tests read that through the functions named fake*.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/CudaDriver.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

using namespace flashcore::cuda;

namespace {
struct Kernel {
  std::string name;
  size_t parameters;
};
struct Launch {
  uint64_t stream, context;
  std::vector<uint64_t> arguments;
};
Launch lastLaunch;
uint64_t launches, modulesLoaded, allocations, synchronizations;
std::vector<uint64_t> strides;
std::string linked, remark;
thread_local CUcontext current;
} // namespace

template <typename Handle> static Handle handle(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

extern "C" {
// What tests ask for.
uint64_t fakeLaunches() { return launches; }
uint64_t fakeModulesLoaded() { return modulesLoaded; }
uint64_t fakeAllocations() { return allocations; }
uint64_t fakeSynchronizations() { return synchronizations; }
uint64_t fakeStream() { return lastLaunch.stream; }
uint64_t fakeContext() { return lastLaunch.context; }
uint64_t fakeArgument(uint64_t index) { return lastLaunch.arguments.at(index); }
/// In how many tensor maps an axis had a stride of so many bytes.
uint64_t fakeMapsOfStride(uint64_t bytes) {
  return static_cast<uint64_t>(
      std::count(strides.begin(), strides.end(), bytes));
}
/// What the assembler says of PTX with wgmma from now on.
void fakeRemark(const char *text) { remark = text; }

// The driver.
CUresult cuGetErrorName(CUresult, const char **text) {
  *text = "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "as planned";
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  *count = 2;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                              CUdevice) {
  const std::map<int, int> values = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448}};
  auto found = values.find(attribute);
  *value = found == values.end() ? 65535 : found->second;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = handle<CUcontext>(static_cast<uintptr_t>(device) + 100);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  ++allocations;
  *pointer = reinterpret_cast<CUdeviceptr>(
      std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) {
  std::free(reinterpret_cast<void *>(pointer));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                              CUstream) {
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                              CUstream) {
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned) {
  *stream = handle<CUstream>(77);
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream) {
  ++synchronizations;
  return CUDA_SUCCESS;
}

// The assembled code is the PTX, of which a launch needs the parameters.
CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void *data, size_t size,
                          const char *, unsigned, CUjit_option *, void **) {
  linked.assign(static_cast<const char *>(data), size);
  return CUDA_SUCCESS;
}
CUresult cuLinkComplete(CUlinkState, void **image, size_t *bytes) {
  *image = linked.data();
  *bytes = linked.size();
  return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  ++modulesLoaded;
  if (std::strstr(static_cast<const char *>(image), "wgmma."))
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == CU_JIT_INFO_LOG_BUFFER)
        std::strcpy(static_cast<char *>(values[i]), remark.c_str());
  *module = handle<CUmodule>(reinterpret_cast<uintptr_t>(
      new std::string(static_cast<const char *>(image))));
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  const auto &ptx = *reinterpret_cast<std::string *>(module);
  size_t begin = ptx.find(std::string(".entry ") + name + "(");
  if (begin == std::string::npos)
    return CUDA_ERROR_INVALID_PTX;
  std::string list = ptx.substr(begin, ptx.find(')', begin) - begin);
  size_t count = 0;
  for (size_t at = 0; (at = list.find(".param", at)) != std::string::npos; ++at)
    ++count;
  *function =
      handle<CUfunction>(reinterpret_cast<uintptr_t>(new Kernel{name, count}));
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                            CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(void *map, CUtensorMapDataType, uint32_t rank,
                                void *address, const uint64_t *,
                                const uint64_t *steps, const uint32_t *,
                                const uint32_t *, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  std::memcpy(map, &address, sizeof address);
  strides.insert(strides.end(), steps, steps + rank - 1);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned,
                        unsigned, unsigned, unsigned, unsigned, CUstream stream,
                        void **arguments, void **) {
  const auto &kernel = *reinterpret_cast<Kernel *>(function);
  ++launches;
  lastLaunch.stream = reinterpret_cast<uint64_t>(stream);
  lastLaunch.context = reinterpret_cast<uint64_t>(current);
  lastLaunch.arguments.resize(kernel.parameters);
  for (size_t i = 0; i < kernel.parameters; ++i)
    lastLaunch.arguments[i] = *static_cast<uint64_t *>(arguments[i]);
  return CUDA_SUCCESS;
}
}
