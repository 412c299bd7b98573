//===- CudaHeaderTest.cpp - CudaDriver.h against cuda.h -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the constants and parameter lists that CudaDriver.h repeats with
// the toolkit's header, where it is installed.
//
//===----------------------------------------------------------------------===//

#include "flashcore-c/Runtime.h"
#include "flashcore/Runtime/CudaDriver.h"
#include "flashcore/Runtime/TensorMap.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace {
/// The parameters of a function pointer as sizes: the runtime's opaque handles
/// and enumerations have other types than cuda.h's, but the same layout.
template <typename Function> struct Signature;
template <typename Result, typename... Parameters>
struct Signature<Result (*)(Parameters...)> {
  static std::vector<size_t> sizes() {
    return {sizeof(Result), sizeof(Parameters)...};
  }
  static std::vector<bool> arePointers() {
    return {std::is_pointer_v<Parameters>...};
  }
};
} // namespace

// Scoped names first: the macros of cuda.h do not touch them.
#define EXPECT_SAME(name)                                                      \
  EXPECT_EQ(static_cast<long long>(flashcore::cuda::name),                     \
            static_cast<long long>(::name))

TEST(CudaHeaderTest, resultsAreEqual) {
  EXPECT_SAME(CUDA_SUCCESS);
  EXPECT_SAME(CUDA_ERROR_INVALID_VALUE);
  EXPECT_SAME(CUDA_ERROR_NO_DEVICE);
  EXPECT_SAME(CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_SAME(CUDA_ERROR_INVALID_PTX);
  EXPECT_SAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_SAME(CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_SAME(CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_SAME(CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_SAME(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_SAME(CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_SAME(CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_SAME(CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_SAME(CUDA_ERROR_INVALID_ADDRESS_SPACE);
  EXPECT_SAME(CUDA_ERROR_INVALID_PC);
  EXPECT_SAME(CUDA_ERROR_LAUNCH_FAILED);
}

TEST(CudaHeaderTest, deviceAttributesAreEqual) {
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  EXPECT_SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
}

TEST(CudaHeaderTest, otherConstantsAreEqual) {
  EXPECT_EQ(FLASHCORE_STREAM_LEGACY, (void *)CU_STREAM_LEGACY);
  EXPECT_EQ(FLASHCORE_STREAM_PER_THREAD, (void *)CU_STREAM_PER_THREAD);
  EXPECT_SAME(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_SAME(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_SAME(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_SAME(CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_SAME(CU_JIT_INFO_LOG_BUFFER);
  EXPECT_SAME(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
  EXPECT_SAME(CU_JIT_LOG_VERBOSE);
  EXPECT_SAME(CU_JIT_ERROR_LOG_BUFFER);
  EXPECT_SAME(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  EXPECT_SAME(CU_JIT_INPUT_PTX);
  EXPECT_SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_SAME(CU_STREAM_NON_BLOCKING);
  EXPECT_SAME(CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  EXPECT_SAME(CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  EXPECT_SAME(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  EXPECT_SAME(CU_TENSOR_MAP_INTERLEAVE_NONE);
  EXPECT_SAME(CU_TENSOR_MAP_SWIZZLE_NONE);
  EXPECT_SAME(CU_TENSOR_MAP_SWIZZLE_32B);
  EXPECT_SAME(CU_TENSOR_MAP_SWIZZLE_64B);
  EXPECT_SAME(CU_TENSOR_MAP_SWIZZLE_128B);
  EXPECT_SAME(CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  EXPECT_SAME(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  EXPECT_EQ(sizeof(flashcore::TensorMapBytes), sizeof(CUtensorMap));
  EXPECT_GE(alignof(flashcore::TensorMapBytes), alignof(CUtensorMap));
  EXPECT_SAME(CU_EVENT_DEFAULT);
}

// The macros that redirect cuMemAlloc to cuMemAlloc_v2 and the like do not act
// on the versioned names, which cuda.h declares only for these.
TEST(CudaHeaderTest, signaturesAreEqual) {
#define EXPECT_SAME_SIGNATURE(member, symbol)                                  \
  EXPECT_EQ(Signature<decltype(flashcore::CudaDriver::member)>::sizes(),       \
            Signature<decltype(&::symbol)>::sizes())                           \
      << #symbol;                                                              \
  EXPECT_EQ(Signature<decltype(flashcore::CudaDriver::member)>::arePointers(), \
            Signature<decltype(&::symbol)>::arePointers())                     \
      << #symbol
  EXPECT_SAME_SIGNATURE(ctxGetCurrent, cuCtxGetCurrent);
  EXPECT_SAME_SIGNATURE(ctxSetCurrent, cuCtxSetCurrent);
  EXPECT_SAME_SIGNATURE(memAlloc, cuMemAlloc);
  EXPECT_SAME_SIGNATURE(memFree, cuMemFree);
  EXPECT_SAME_SIGNATURE(memcpyHtoDAsync, cuMemcpyHtoDAsync);
  EXPECT_SAME_SIGNATURE(memcpyDtoHAsync, cuMemcpyDtoHAsync);
  EXPECT_SAME_SIGNATURE(memsetD32Async, cuMemsetD32Async);
  EXPECT_SAME_SIGNATURE(moduleLoadDataEx, cuModuleLoadDataEx);
  EXPECT_SAME_SIGNATURE(linkCreate, cuLinkCreate);
  EXPECT_SAME_SIGNATURE(linkAddData, cuLinkAddData);
  EXPECT_SAME_SIGNATURE(linkComplete, cuLinkComplete);
  EXPECT_SAME_SIGNATURE(linkDestroy, cuLinkDestroy);
  EXPECT_SAME_SIGNATURE(funcGetAttribute, cuFuncGetAttribute);
  EXPECT_SAME_SIGNATURE(funcSetAttribute, cuFuncSetAttribute);
  EXPECT_SAME_SIGNATURE(launchKernel, cuLaunchKernel);
  EXPECT_SAME_SIGNATURE(streamBeginCapture, cuStreamBeginCapture);
  EXPECT_SAME_SIGNATURE(streamEndCapture, cuStreamEndCapture);
  EXPECT_SAME_SIGNATURE(graphInstantiate, cuGraphInstantiateWithFlags);
  EXPECT_SAME_SIGNATURE(graphLaunch, cuGraphLaunch);
  EXPECT_SAME_SIGNATURE(eventElapsedTime, cuEventElapsedTime);
  EXPECT_SAME_SIGNATURE(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
  EXPECT_SAME_SIGNATURE(deviceGetAttribute, cuDeviceGetAttribute);
  EXPECT_SAME_SIGNATURE(tensorMapEncodeTiled, cuTensorMapEncodeTiled);
#if CUDA_VERSION >= 12040
  EXPECT_SAME_SIGNATURE(funcGetParamInfo, cuFuncGetParamInfo);
#endif
#undef EXPECT_SAME_SIGNATURE
}
#else
TEST(CudaHeaderTest, needsTheToolkit) { GTEST_SKIP() << "cuda.h not found"; }
#endif
