//===- Runtime.h - Bundles, devices, modules and plans ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_PYTHON_RUNTIME_H
#define FLASHCORE_PYTHON_RUNTIME_H

#include "Object.h"
#include "Tensors.h"

#include "flashcore-c/Runtime.h"

#include <vector>

namespace flashcore::python {

/// A handle with what destroys it.
template <typename Handle, void (*destroy)(Handle)> class Owned {
public:
  explicit Owned(Handle handle) : handle(handle) {}
  Owned(Owned &&other) noexcept
      : handle(std::exchange(other.handle, {nullptr})) {}
  ~Owned() { destroy(handle); }
  Handle get() const { return handle; }

private:
  Handle handle;
};

struct Bundle {
  static PyObject *type;
  static constexpr const char *name = "Bundle";

  Owned<FlashCoreBundle, flashcoreBundleDestroy> handle;
};

struct Device {
  static PyObject *type;
  static constexpr const char *name = "Device";

  Owned<FlashCoreDevice, flashcoreDeviceDestroy> handle;
};

struct Module {
  static PyObject *type;
  static constexpr const char *name = "Module";

  Ref device;
  Owned<FlashCoreModule, flashcoreModuleDestroy> handle;
};

/// One tensor of a call.
struct TensorSpec {
  std::string name;
  int64_t elementBytes = 2;
  bool isOutput = false;
  std::vector<int64_t> sizes, strides;

  /// Bytes from the first element to the end of the last; 0 without elements.
  int64_t spanBytes() const;
};

/// Reads ((name, element bytes, is output, sizes, strides), ...).
bool readSpecs(PyObject *sequence, std::vector<TensorSpec> &specs);
/// As the C interface takes them; they point into `specs`.
std::vector<FlashCoreTensor> toTensors(const std::vector<TensorSpec> &specs);

struct Plan {
  static PyObject *type;
  static constexpr const char *name = "Plan";

  Ref module;
  Owned<FlashCorePlan, flashcorePlanDestroy> handle;
  std::vector<TensorSpec> specs;
  int64_t workspaceBytes = 0;

  Device &device() const {
    return Boxed<Device>::get(Boxed<Module>::get(module.get()).device.get());
  }
};

/// Runs a plan on tensors in host memory: copies there, launches, waits, and
/// copies the outputs back. Needs no GIL.
FlashCoreStatus runOnHost(const Plan &plan,
                          const std::vector<uint64_t> &pointers);

} // namespace flashcore::python

#endif // FLASHCORE_PYTHON_RUNTIME_H
