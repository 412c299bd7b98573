//===- Runtime.h - Handles of devices that exist ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests of flashcore-c/Runtime.h with a device that it cannot make.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_CAPI_RUNTIME_H
#define FLASHCORE_RUNTIME_LIB_CAPI_RUNTIME_H

#include "flashcore-c/Runtime.h"

#include "flashcore/Runtime/Device.h"

namespace flashcore::capi {

FlashCoreDevice wrapDevice(std::unique_ptr<Device> device);

} // namespace flashcore::capi

#endif // FLASHCORE_RUNTIME_LIB_CAPI_RUNTIME_H
