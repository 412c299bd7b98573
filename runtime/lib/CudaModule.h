//===- CudaModule.h - A bundle's code on a GPU ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads a cubin or PTX through the driver and looks up its kernels. Private to
// the CUDA device.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_CUDAMODULE_H
#define FLASHCORE_RUNTIME_LIB_CUDAMODULE_H

#include "CubinCache.h"

#include "flashcore/Runtime/CudaDriver.h"
#include "flashcore/Runtime/Device.h"

namespace flashcore {

class CudaModule final : public LoadedModule {
public:
  /// `device` and `driver` outlive the module.
  CudaModule(const CudaDriver &driver, const DeviceInfo &device)
      : driver(driver), device(device) {}
  ~CudaModule() override {
    if (module)
      driver.moduleUnload(module);
  }

  /// Takes assembled PTX from `cache` and puts it there, if there is one.
  Status load(const Bundle &bundle, const CodeChoice &choice,
              const std::optional<CubinCache> &cache);

  cuda::CUfunction function(size_t kernel) const { return functions[kernel]; }

private:
  Status loadImage(const std::string &image);
  bool loadThroughCache(const std::string &ptx, const CubinCache &cache);
  std::optional<std::string> assemble(const std::string &ptx) const;
  Status loadKernel(const KernelSpec &kernel);
  Status inspect(const KernelSpec &kernel, cuda::CUfunction function);
  Status loadError(cuda::CUresult result, const char *log) const;

  const CudaDriver &driver;
  const DeviceInfo &device;
  cuda::CUmodule module = nullptr;
  std::vector<cuda::CUfunction> functions;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_CUDAMODULE_H
