//===- FakeCuda.cpp - A CUDA driver for tests -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function an entry point. Handles are small numbers; device memory is
// malloc'ed, so that AddressSanitizer watches it.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>

using namespace flashcore;
using namespace flashcore::cuda;
using flashcore::testing::FakeCuda;

static FakeCuda *instance = nullptr;
static thread_local CUcontext currentContext = nullptr;

FakeCuda &FakeCuda::current() {
  assert(instance && "a fake driver function was called without a FakeCuda");
  return *instance;
}

FakeCuda::FakeCuda()
    : attributes(
          {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 8},
           {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 9},
           {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 101376},
           {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
           {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
           {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
           {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
           {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
           {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
           {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
           {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 25},
           {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 58}}),
      functionAttributes({{CU_FUNC_ATTRIBUTE_NUM_REGS, 128},
                          {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 0},
                          {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 16},
                          {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 512}}) {
  assert(!instance && "one FakeCuda at a time");
  instance = this;
  currentContext = nullptr;
}

FakeCuda::~FakeCuda() {
  EXPECT_EQ(liveObjects, 0) << "something was not destroyed";
  instance = nullptr;
}

int FakeCuda::calls(const std::string &symbol) const {
  return static_cast<int>(std::count(log.begin(), log.end(), symbol));
}

/// Whether the real function fails on a thread without a current context.
static bool needsContext(std::string_view symbol) {
  for (std::string_view free :
       {"cuGetError", "cuInit", "cuDriver", "cuDevice", "cuCtx"})
    if (symbol.starts_with(free))
      return false;
  return true;
}

CUresult FakeCuda::enter(const std::string &symbol) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  EXPECT_TRUE(currentContext || !needsContext(symbol)) << symbol;
  log.push_back(symbol);
  auto it = failures.find(symbol);
  if (it == failures.end() || it->second.skip-- > 0)
    return CUDA_SUCCESS;
  it->second.skip = 0;
  CUresult result = it->second.result;
  if (it->second.isOnce)
    failures.erase(it);
  return result;
}

/// Returns from the fake function when the test planned its failure.
#define ENTER(symbol)                                                          \
  FakeCuda &fake = FakeCuda::current();                                        \
  std::lock_guard<std::recursive_mutex> lock(fake.mutex);                      \
  if (CUresult result = fake.enter(symbol))                                    \
    return result;                                                             \
  (void)fake

/// A handle that is not null.
template <typename Handle> static Handle handle(uintptr_t number) {
  return reinterpret_cast<Handle>(number + 1);
}

static constexpr uintptr_t objectNumber = 41;

CUcontext FakeCuda::context() { return currentContext; }
void FakeCuda::setContext(CUcontext context) { currentContext = context; }
CUcontext FakeCuda::primaryContext() { return handle<CUcontext>(objectNumber); }

/// A function that creates an object and stores its handle.
template <typename Handle>
static CUresult create(const char *symbol, Handle *result) {
  ENTER(symbol);
  ++fake.liveObjects;
  *result = handle<Handle>(objectNumber);
  return CUDA_SUCCESS;
}

static CUresult destroy(const char *symbol) {
  FakeCuda &fake = FakeCuda::current();
  std::lock_guard<std::recursive_mutex> lock(fake.mutex);
  --fake.liveObjects;
  return fake.enter(symbol);
}

static CUresult getErrorName(CUresult result, const char **text) {
  ENTER("cuGetErrorName");
  *text = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == CUDA_ERROR_INVALID_PTX   ? "CUDA_ERROR_INVALID_PTX"
          : result == 2                        ? "CUDA_ERROR_OUT_OF_MEMORY"
                                               : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

static CUresult getErrorString(CUresult, const char **text) {
  ENTER("cuGetErrorString");
  *text = "as planned";
  return CUDA_SUCCESS;
}

static CUresult getAttribute(int *value, CUdevice_attribute attribute,
                             CUdevice) {
  ENTER("cuDeviceGetAttribute");
  *value = fake.attributes.at(attribute);
  return CUDA_SUCCESS;
}

static CUresult getName(char *name, int length, CUdevice) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}

static CUresult memAlloc(CUdeviceptr *pointer, size_t bytes) {
  EXPECT_GT(bytes, 0u) << "the driver refuses a size of 0";
  ENTER("cuMemAlloc");
  ++fake.liveObjects;
  // As aligned as cudaMalloc.
  void *memory = nullptr;
  if (posix_memalign(&memory, 256, bytes))
    return 2;
  *pointer = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

static CUresult memFree(CUdeviceptr pointer) {
  std::free(reinterpret_cast<void *>(pointer));
  return destroy("cuMemFree");
}

static CUresult copyIn(CUdeviceptr to, const void *from, size_t bytes,
                       CUstream) {
  ENTER("cuMemcpyHtoDAsync");
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return CUDA_SUCCESS;
}

static CUresult copyOut(void *to, CUdeviceptr from, size_t bytes, CUstream) {
  ENTER("cuMemcpyDtoHAsync");
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, unsigned value, size_t count, CUstream) {
  ENTER("cuMemsetD32Async");
  std::fill_n(reinterpret_cast<unsigned *>(to), count, value);
  return CUDA_SUCCESS;
}

/// The buffer of option `key`, or null.
static char *findLog(CUjit_option key, unsigned count, CUjit_option *keys,
                     void **values) {
  for (unsigned i = 0; i < count; ++i)
    if (keys[i] == key)
      return static_cast<char *>(values[i]);
  return nullptr;
}

static CUresult loadModule(CUmodule *module, const void *image, unsigned count,
                           CUjit_option *keys, void **values) {
  FakeCuda &fake = FakeCuda::current();
  std::lock_guard<std::recursive_mutex> lock(fake.mutex);
  fake.image = static_cast<const char *>(image);
  if (char *log = findLog(CU_JIT_ERROR_LOG_BUFFER, count, keys, values))
    std::strcpy(log, fake.jitLog.c_str());
  bool isPtx = fake.image.find(".entry") != std::string::npos;
  if (char *log = findLog(CU_JIT_INFO_LOG_BUFFER, count, keys, values);
      log && isPtx)
    std::strcpy(log, fake.infoLog.c_str());
  return create("cuModuleLoadDataEx", module);
}

static CUresult addData(CUlinkState, CUjitInputType type, void *data,
                        size_t size, const char *name, unsigned count,
                        CUjit_option *, void **) {
  EXPECT_EQ(type, CU_JIT_INPUT_PTX);
  EXPECT_NE(name, nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(static_cast<char *>(data)[size - 1], '\0');
  ENTER("cuLinkAddData");
  if (fake.linkerLog)
    std::strcpy(fake.linkerLog, fake.infoLog.c_str());
  return CUDA_SUCCESS;
}

static CUresult completeLink(CUlinkState, void **cubin, size_t *bytes) {
  ENTER("cuLinkComplete");
  *cubin = fake.assembled.data();
  *bytes = fake.assembled.size();
  return CUDA_SUCCESS;
}

static CUresult getFunction(CUfunction *function, CUmodule, const char *name) {
  ENTER("cuModuleGetFunction");
  *function = handle<CUfunction>(fake.functionNames.size());
  fake.functionNames.push_back(name);
  return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned gridX, unsigned gridY,
                       unsigned gridZ, unsigned blockX, unsigned blockY,
                       unsigned blockZ, unsigned sharedBytes, CUstream stream,
                       void **arguments, void **extra) {
  EXPECT_NE(stream, nullptr) << "the default stream is not used";
  EXPECT_EQ(extra, nullptr);
  ENTER("cuLaunchKernel");
  FakeCuda::Launch launch = {
      fake.functionNames.at(reinterpret_cast<uintptr_t>(function) - 1),
      {gridX, gridY, gridZ},
      {blockX, blockY, blockZ},
      sharedBytes,
      {},
      fake.isCapturing,
      stream};
  for (size_t i = 0; i < fake.parameters.size(); ++i)
    launch.arguments.push_back(*static_cast<uint64_t *>(arguments[i]));
  fake.launches.push_back(launch);
  return CUDA_SUCCESS;
}

static CUresult
encodeTensorMap(void *map, CUtensorMapDataType type, uint32_t rank,
                void *address, const uint64_t *sizes, const uint64_t *strides,
                const uint32_t *box, const uint32_t *elementStrides,
                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion promotion,
                CUtensorMapFloatOOBfill outside) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(map) % 128, 0u);
  ENTER("cuTensorMapEncodeTiled");
  std::memset(map, 0xff, 128);
  std::memcpy(map, &address, sizeof address);
  fake.tensorMaps.push_back({type,
                             reinterpret_cast<uint64_t>(address),
                             {sizes, sizes + rank},
                             {strides, strides + rank - 1},
                             {box, box + rank},
                             {elementStrides, elementStrides + rank},
                             interleave,
                             swizzle,
                             promotion,
                             outside});
  return CUDA_SUCCESS;
}

static CUresult elapsedTime(float *milliseconds, CUevent, CUevent) {
  ENTER("cuEventElapsedTime");
  *milliseconds = 1;
  if (!fake.elapsed.empty()) {
    *milliseconds = fake.elapsed.front();
    fake.elapsed.erase(fake.elapsed.begin());
  }
  return CUDA_SUCCESS;
}

static void fillQueries(CudaDriver &driver) {
  driver.getErrorName = getErrorName;
  driver.getErrorString = getErrorString;
  driver.init = [](unsigned) -> CUresult {
    ENTER("cuInit");
    return CUDA_SUCCESS;
  };
  driver.driverGetVersion = [](int *version) -> CUresult {
    ENTER("cuDriverGetVersion");
    *version = fake.driverVersion;
    return CUDA_SUCCESS;
  };
  driver.deviceGetCount = [](int *count) -> CUresult {
    ENTER("cuDeviceGetCount");
    *count = fake.deviceCount;
    return CUDA_SUCCESS;
  };
  driver.deviceGet = [](CUdevice *device, int ordinal) -> CUresult {
    ENTER("cuDeviceGet");
    *device = ordinal;
    return CUDA_SUCCESS;
  };
  driver.deviceGetName = getName;
  driver.deviceGetAttribute = getAttribute;
  driver.funcGetAttribute = [](int *value, CUfunction_attribute attribute,
                               CUfunction) -> CUresult {
    ENTER("cuFuncGetAttribute");
    *value = fake.functionAttributes.at(attribute);
    return CUDA_SUCCESS;
  };
  driver.funcGetParamInfo = [](CUfunction, size_t index, size_t *offset,
                               size_t *size) -> CUresult {
    ENTER("cuFuncGetParamInfo");
    if (index >= fake.parameters.size())
      return CUDA_ERROR_INVALID_VALUE;
    *offset = 8 * index;
    *size = fake.parameters[index];
    return CUDA_SUCCESS;
  };
  driver.funcSetAttribute = [](CUfunction, CUfunction_attribute attribute,
                               int value) -> CUresult {
    ENTER("cuFuncSetAttribute");
    fake.setAttributes[attribute] = value;
    return CUDA_SUCCESS;
  };
}

static void fillObjects(CudaDriver &driver) {
  driver.devicePrimaryCtxRetain = [](CUcontext *context, CUdevice) {
    return create("cuDevicePrimaryCtxRetain", context);
  };
  driver.devicePrimaryCtxRelease = [](CUdevice) {
    return destroy("cuDevicePrimaryCtxRelease");
  };
  driver.ctxGetCurrent = [](CUcontext *context) -> CUresult {
    ENTER("cuCtxGetCurrent");
    *context = currentContext;
    return CUDA_SUCCESS;
  };
  driver.ctxSetCurrent = [](CUcontext context) -> CUresult {
    ENTER("cuCtxSetCurrent");
    currentContext = context;
    return CUDA_SUCCESS;
  };
  driver.memAlloc = memAlloc;
  driver.memFree = memFree;
  driver.memcpyHtoDAsync = copyIn;
  driver.memcpyDtoHAsync = copyOut;
  driver.memsetD32Async = fill;
  driver.moduleLoadDataEx = loadModule;
  driver.linkCreate = [](unsigned count, CUjit_option *keys, void **values,
                         CUlinkState *state) {
    FakeCuda::current().linkerLog =
        findLog(CU_JIT_INFO_LOG_BUFFER, count, keys, values);
    return create("cuLinkCreate", state);
  };
  driver.linkAddData = addData;
  driver.linkComplete = completeLink;
  driver.linkDestroy = [](CUlinkState) { return destroy("cuLinkDestroy"); };
  driver.moduleUnload = [](CUmodule) { return destroy("cuModuleUnload"); };
  driver.moduleGetFunction = getFunction;
  driver.streamCreate = [](CUstream *stream, unsigned flags) {
    EXPECT_EQ(flags, CU_STREAM_NON_BLOCKING);
    return create("cuStreamCreate", stream);
  };
  driver.streamDestroy = [](CUstream) { return destroy("cuStreamDestroy"); };
  driver.streamSynchronize = [](CUstream) -> CUresult {
    EXPECT_FALSE(FakeCuda::current().isCapturing);
    ENTER("cuStreamSynchronize");
    return CUDA_SUCCESS;
  };
}

static void fillTiming(CudaDriver &driver) {
  driver.launchKernel = launch;
  driver.tensorMapEncodeTiled = encodeTensorMap;
  driver.streamBeginCapture = [](CUstream, CUstreamCaptureMode) -> CUresult {
    ENTER("cuStreamBeginCapture");
    fake.isCapturing = true;
    return CUDA_SUCCESS;
  };
  driver.streamEndCapture = [](CUstream, CUgraph *graph) {
    FakeCuda::current().isCapturing = false;
    return create("cuStreamEndCapture", graph);
  };
  driver.graphInstantiate = [](CUgraphExec *executable, CUgraph,
                               unsigned long long) {
    return create("cuGraphInstantiate", executable);
  };
  driver.graphLaunch = [](CUgraphExec, CUstream) -> CUresult {
    ENTER("cuGraphLaunch");
    return CUDA_SUCCESS;
  };
  driver.graphExecDestroy = [](CUgraphExec) {
    return destroy("cuGraphExecDestroy");
  };
  driver.graphDestroy = [](CUgraph) { return destroy("cuGraphDestroy"); };
  driver.eventCreate = [](CUevent *event, unsigned) {
    return create("cuEventCreate", event);
  };
  driver.eventRecord = [](CUevent, CUstream) -> CUresult {
    ENTER("cuEventRecord");
    return CUDA_SUCCESS;
  };
  driver.eventSynchronize = [](CUevent) -> CUresult {
    ENTER("cuEventSynchronize");
    return CUDA_SUCCESS;
  };
  driver.eventElapsedTime = elapsedTime;
  driver.eventDestroy = [](CUevent) { return destroy("cuEventDestroy"); };
}

CudaDriver FakeCuda::driver() const {
  CudaDriver driver;
  fillQueries(driver);
  fillObjects(driver);
  fillTiming(driver);
  return driver;
}

std::unique_ptr<Device> FakeCuda::open() {
  StatusOr<std::unique_ptr<Device>> device =
      createCudaDevice(driver(), 0, cubinCache);
  EXPECT_TRUE(device.ok()) << device.status().str();
  return device.ok() ? std::move(*device) : nullptr;
}
