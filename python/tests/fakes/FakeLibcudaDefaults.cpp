//===- FakeLibcudaDefaults.cpp - What the fake driver needs no code for ---===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime wants all of its entry points; these do nothing and succeed.
// FakeLibcuda.cpp defines the others.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/CudaDriver.h"

using namespace flashcore;

#define DEFINE(member, symbol, parameters)                                     \
  extern "C" __attribute__((weak)) cuda::CUresult symbol parameters {          \
    return cuda::CUDA_SUCCESS;                                                 \
  }
FLASHCORE_CUDA_ENTRY_POINTS(DEFINE)
