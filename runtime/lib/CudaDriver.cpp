//===- CudaDriver.cpp - The part of the CUDA driver API we use ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens libcuda at run time and explains its errors.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/CudaDriver.h"

#include <dlfcn.h>

using namespace flashcore;
using namespace flashcore::cuda;

StatusOr<CudaDriver> flashcore::resolveCudaDriver(
    const std::function<void *(const char *)> &resolve) {
  CudaDriver driver;
#define FLASHCORE_CUDA_RESOLVE(member, symbol, parameters)                     \
  driver.member = reinterpret_cast<CUresult(*) parameters>(resolve(#symbol));  \
  if (!driver.member)                                                          \
    return Status::error("expects the CUDA driver to have " #symbol            \
                         ", but it has not")                                   \
        .note("the driver is too old: install one for CUDA 12 or newer");
  FLASHCORE_CUDA_ENTRY_POINTS(FLASHCORE_CUDA_RESOLVE)
#undef FLASHCORE_CUDA_RESOLVE
#define FLASHCORE_CUDA_TRY(member, symbol, parameters)                         \
  driver.member = reinterpret_cast<CUresult(*) parameters>(resolve(#symbol));
  FLASHCORE_CUDA_OPTIONAL_ENTRY_POINTS(FLASHCORE_CUDA_TRY)
#undef FLASHCORE_CUDA_TRY
  return driver;
}

StatusOr<CudaDriver> flashcore::loadCudaDriver() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Status::noDevice("no CUDA device: cannot open libcuda.so.1 (" +
                            std::string(reason ? reason : "unknown reason") +
                            "); install the NVIDIA driver or run on a machine "
                            "with a GPU");
  }
  return resolveCudaDriver(
      [library](const char *symbol) { return dlsym(library, symbol); });
}

/// Whether a kernel caused `result`, which then stays with the context.
static bool isFault(CUresult result) {
  switch (result) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_LAUNCH_FAILED:
    return true;
  default:
    return false;
  }
}

static std::string_view advice(CUresult result) {
  if (isFault(result))
    return "an earlier kernel failed and spoiled the context: destroy the "
           "device and open it again";
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return "the device is full: free memory or use a smaller problem";
  if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return "the context is lost: destroy the device and open it again";
  return {};
}

Status flashcore::cudaError(const CudaDriver &driver, CUresult result,
                            std::string_view call) {
  const char *name = nullptr, *text = nullptr;
  if (driver.getErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "unknown CUresult";
  if (driver.getErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "no description";
  std::string message = std::string(call) + " failed: " + name + " (" +
                        std::to_string(result) + "): " + text;
  Status status =
      isFault(result) ? Status::kernelFault(message) : Status::error(message);
  return status.note(advice(result));
}
