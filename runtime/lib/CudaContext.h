//===- CudaContext.h - The context of a thread ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Driver calls act on the context that is current on their thread. The CUDA
// runtime, and so PyTorch, takes the current device of a thread from it: a call
// of ours must leave it as it was.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_CUDACONTEXT_H
#define FLASHCORE_RUNTIME_LIB_CUDACONTEXT_H

#include "flashcore/Runtime/CudaDriver.h"

namespace flashcore {

/// Makes `context` current as long as it lives. Costs one query where it
/// already is.
class CurrentContext {
public:
  CurrentContext(const CudaDriver &driver, cuda::CUcontext context)
      : driver(driver) {
    result = driver.ctxGetCurrent(&before);
    if (result != cuda::CUDA_SUCCESS || before == context)
      return;
    call = "cuCtxSetCurrent";
    result = driver.ctxSetCurrent(context);
    isChanged = result == cuda::CUDA_SUCCESS;
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;
  ~CurrentContext() {
    if (isChanged)
      driver.ctxSetCurrent(before);
  }

  bool ok() const { return result == cuda::CUDA_SUCCESS; }
  Status status() const { return cudaError(driver, result, call); }

private:
  const CudaDriver &driver;
  cuda::CUcontext before = nullptr;
  cuda::CUresult result;
  const char *call = "cuCtxGetCurrent";
  bool isChanged = false;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_CUDACONTEXT_H
