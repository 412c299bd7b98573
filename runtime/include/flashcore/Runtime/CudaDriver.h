//===- CudaDriver.h - The part of the CUDA driver API we use ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CudaDriver is a struct of function pointers filled once from libcuda.so.1, so
// the runtime builds and starts without CUDA, and tests fill it with fakes.
// Types and constants carry the names and values of cuda.h, but live in a
// namespace so that both headers can be included together; a unit test compares
// them where cuda.h is installed.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_CUDADRIVER_H
#define FLASHCORE_RUNTIME_CUDADRIVER_H

#include "flashcore/Runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace flashcore::cuda {

// Enumerations of cuda.h are passed as int: same size, and open to values that
// newer drivers add.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUdevice_attribute = int;
using CUfunction_attribute = int;
using CUjit_option = int;
using CUjitInputType = int;
using CUstreamCaptureMode = int;
using CUtensorMapDataType = int;
using CUtensorMapInterleave = int;
using CUtensorMapSwizzle = int;
using CUtensorMapL2promotion = int;
using CUtensorMapFloatOOBfill = int;
using CUcontext = struct OpaqueContext *;
using CUmodule = struct OpaqueModule *;
using CUfunction = struct OpaqueFunction *;
using CUstream = struct OpaqueStream *;
using CUlinkState = struct OpaqueLinkState *;
using CUevent = struct OpaqueEvent *;
using CUgraph = struct OpaqueGraph *;
using CUgraphExec = struct OpaqueGraphExec *;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
  CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
  CUDA_ERROR_INVALID_PC = 718,
  CUDA_ERROR_LAUNCH_FAILED = 719,
};

enum : CUdevice_attribute {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};

enum : CUfunction_attribute {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
};

enum : CUjit_option {
  CU_JIT_INFO_LOG_BUFFER = 3,
  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_JIT_LOG_VERBOSE = 12,
};

enum : CUjitInputType { CU_JIT_INPUT_PTX = 1 };
enum : CUstreamCaptureMode { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };
enum : CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 9,
};
enum : CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE = 0 };
enum : CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_32B = 1,
  CU_TENSOR_MAP_SWIZZLE_64B = 2,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
};
enum : CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum : CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };
enum : unsigned { CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned { CU_EVENT_DEFAULT = 0 };

} // namespace flashcore::cuda

namespace flashcore {

/// The entry points, by the names of cuda.h without "cu". The macro lists each
/// one once, as (member, symbol in libcuda, parameters); it is expanded for the
/// struct, for the loader and for the fakes of the tests. The functions that
/// explain errors come first, so that every later failure can be explained.
#define FLASHCORE_CUDA_ENTRY_POINTS(X)                                         \
  X(getErrorName, cuGetErrorName, (cuda::CUresult, const char **))             \
  X(getErrorString, cuGetErrorString, (cuda::CUresult, const char **))         \
  X(init, cuInit, (unsigned))                                                  \
  X(driverGetVersion, cuDriverGetVersion, (int *))                             \
  X(deviceGetCount, cuDeviceGetCount, (int *))                                 \
  X(deviceGet, cuDeviceGet, (cuda::CUdevice *, int))                           \
  X(deviceGetName, cuDeviceGetName, (char *, int, cuda::CUdevice))             \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                  \
    (int *, cuda::CUdevice_attribute, cuda::CUdevice))                         \
  X(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                          \
    (cuda::CUcontext *, cuda::CUdevice))                                       \
  X(devicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (cuda::CUdevice))   \
  X(ctxGetCurrent, cuCtxGetCurrent, (cuda::CUcontext *))                       \
  X(ctxSetCurrent, cuCtxSetCurrent, (cuda::CUcontext))                         \
  X(memAlloc, cuMemAlloc_v2, (cuda::CUdeviceptr *, size_t))                    \
  X(memFree, cuMemFree_v2, (cuda::CUdeviceptr))                                \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                     \
    (cuda::CUdeviceptr, const void *, size_t, cuda::CUstream))                 \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                     \
    (void *, cuda::CUdeviceptr, size_t, cuda::CUstream))                       \
  X(memsetD32Async, cuMemsetD32Async,                                          \
    (cuda::CUdeviceptr, unsigned, size_t, cuda::CUstream))                     \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                      \
    (cuda::CUmodule *, const void *, unsigned, cuda::CUjit_option *, void **)) \
  X(linkCreate, cuLinkCreate_v2,                                               \
    (unsigned, cuda::CUjit_option *, void **, cuda::CUlinkState *))            \
  X(linkAddData, cuLinkAddData_v2,                                             \
    (cuda::CUlinkState, cuda::CUjitInputType, void *, size_t, const char *,    \
     unsigned, cuda::CUjit_option *, void **))                                 \
  X(linkComplete, cuLinkComplete, (cuda::CUlinkState, void **, size_t *))      \
  X(linkDestroy, cuLinkDestroy, (cuda::CUlinkState))                           \
  X(moduleUnload, cuModuleUnload, (cuda::CUmodule))                            \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (cuda::CUfunction *, cuda::CUmodule, const char *))                        \
  X(funcGetAttribute, cuFuncGetAttribute,                                      \
    (int *, cuda::CUfunction_attribute, cuda::CUfunction))                     \
  X(funcSetAttribute, cuFuncSetAttribute,                                      \
    (cuda::CUfunction, cuda::CUfunction_attribute, int))                       \
  X(launchKernel, cuLaunchKernel,                                              \
    (cuda::CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,       \
     unsigned, unsigned, cuda::CUstream, void **, void **))                    \
  X(streamCreate, cuStreamCreate, (cuda::CUstream *, unsigned))                \
  X(streamDestroy, cuStreamDestroy_v2, (cuda::CUstream))                       \
  X(streamSynchronize, cuStreamSynchronize, (cuda::CUstream))                  \
  X(streamBeginCapture, cuStreamBeginCapture_v2,                               \
    (cuda::CUstream, cuda::CUstreamCaptureMode))                               \
  X(streamEndCapture, cuStreamEndCapture, (cuda::CUstream, cuda::CUgraph *))   \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (cuda::CUgraphExec *, cuda::CUgraph, unsigned long long))                  \
  X(graphLaunch, cuGraphLaunch, (cuda::CUgraphExec, cuda::CUstream))           \
  X(graphExecDestroy, cuGraphExecDestroy, (cuda::CUgraphExec))                 \
  X(graphDestroy, cuGraphDestroy, (cuda::CUgraph))                             \
  X(eventCreate, cuEventCreate, (cuda::CUevent *, unsigned))                   \
  X(eventRecord, cuEventRecord, (cuda::CUevent, cuda::CUstream))               \
  X(eventSynchronize, cuEventSynchronize, (cuda::CUevent))                     \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *, cuda::CUevent, cuda::CUevent))                                   \
  X(eventDestroy, cuEventDestroy_v2, (cuda::CUevent))

/// Those that not every driver has; without one its member is null.
#define FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(X)                                \
  X(funcGetParamInfo, cuFuncGetParamInfo, /* since CUDA 12.4 */                \
    (cuda::CUfunction, size_t, size_t *, size_t *))                            \
  X(tensorMapEncodeTiled, cuTensorMapEncodeTiled, /* since CUDA 12.0 */        \
    (void *, cuda::CUtensorMapDataType, uint32_t, void *, const uint64_t *,    \
     const uint64_t *, const uint32_t *, const uint32_t *,                     \
     cuda::CUtensorMapInterleave, cuda::CUtensorMapSwizzle,                    \
     cuda::CUtensorMapL2promotion, cuda::CUtensorMapFloatOOBfill))

struct CudaDriver {
#define FLASHCORE_CUDA_MEMBER(member, symbol, parameters)                      \
  cuda::CUresult(*member) parameters = nullptr;
  FLASHCORE_CUDA_ENTRY_POINTS(FLASHCORE_CUDA_MEMBER)
  FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(FLASHCORE_CUDA_MEMBER)
#undef FLASHCORE_CUDA_MEMBER
};

/// Fills a CudaDriver from symbols that `resolve` finds by name.
StatusOr<CudaDriver>
resolveCudaDriver(const std::function<void *(const char *)> &resolve);

/// Opens libcuda. The library is never closed: the driver keeps threads of its
/// own. A machine without it is a NoDevice status.
StatusOr<CudaDriver> loadCudaDriver();

/// "cuLaunchKernel failed: CUDA_ERROR_... (700): ...", and what to do where
/// that is known.
Status cudaError(const CudaDriver &driver, cuda::CUresult result,
                 std::string_view call);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_CUDADRIVER_H
