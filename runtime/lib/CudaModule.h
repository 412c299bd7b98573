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

/// A CUmodule, which unloads itself. Modules of the same code share one.
class CudaImage {
public:
  /// `device` and `driver` outlive the image.
  CudaImage(const CudaDriver &driver, const DeviceInfo &device,
            cuda::CUcontext context)
      : driver(driver), device(device), context(context) {}
  CudaImage(const CudaImage &) = delete;
  CudaImage &operator=(const CudaImage &) = delete;
  ~CudaImage();

  /// Takes assembled PTX from `cache` and puts it there, if there is one.
  Status load(const CodeChoice &choice, const std::optional<CubinCache> &cache);

  const std::string &code() const { return codeName; }
  /// What the assembler said; "" where it had nothing to do.
  const std::string &log() const { return assemblerLog; }
  cuda::CUmodule handle() const { return module; }

private:
  Status loadImage(const std::string &image);
  Status loadWholeProgram(const std::string &ptx,
                          const std::optional<CubinCache> &cache);
  bool loadThroughCache(const std::string &ptx, const CubinCache &cache);
  std::optional<std::string> assemble(const std::string &ptx);
  Status loadError(cuda::CUresult result, const char *log) const;

  const CudaDriver &driver;
  const DeviceInfo &device;
  cuda::CUcontext context;
  cuda::CUmodule module = nullptr;
  std::string codeName, assemblerLog;
};

class CudaModule final : public LoadedModule {
public:
  /// `device` and `driver` outlive the module.
  CudaModule(const CudaDriver &driver, const DeviceInfo &device,
             std::shared_ptr<CudaImage> image)
      : driver(driver), device(device), image(std::move(image)) {
    codeName = this->image->code();
    assemblerLog = this->image->log();
  }

  Status load(const Bundle &bundle);

  cuda::CUfunction function(size_t kernel) const { return functions[kernel]; }

private:
  Status loadKernel(const KernelSpec &kernel);
  Status inspect(const KernelSpec &kernel, cuda::CUfunction function);
  Status checkArguments(const KernelSpec &kernel,
                        cuda::CUfunction function) const;

  const CudaDriver &driver;
  const DeviceInfo &device;
  std::shared_ptr<CudaImage> image;
  std::vector<cuda::CUfunction> functions;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_CUDAMODULE_H
