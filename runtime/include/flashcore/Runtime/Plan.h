//===- Plan.h - A call that is made often -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A call with its sizes and strides fixed. What they decide is decided, and
// checked, once; a launch puts pointers into a copy of the arguments and calls
// the driver.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_PLAN_H
#define FLASHCORE_RUNTIME_PLAN_H

#include "flashcore/Runtime/Call.h"
#include "flashcore/Runtime/Device.h"

#include <mutex>

namespace flashcore {

class Plan {
public:
  /// What `tensors` point to is copied; the rest must outlive the plan, and
  /// `module` have been loaded from `bundle` by `device`. Inputs may have
  /// strides of 0, as views have that repeat elements.
  static StatusOr<Plan> create(Device &device, LoadedModule &module,
                               const Bundle &bundle,
                               std::span<const CallTensor> tensors);

  /// A workspace starts at a multiple of so many bytes.
  static constexpr DevicePointer workspaceAlignment = 256;

  const Problem &problem() const { return call; }
  int64_t workspaceBytes() const { return call.workspaceBytes(); }

  /// Starts the kernels after the work before them in `stream`, and waits for
  /// nothing. `pointers` are those of the first elements, in the order of
  /// create's tensors, whose number they have. Allocates nothing on a GPU, so
  /// for as many threads as its device.
  Status launch(std::span<const DevicePointer> pointers,
                DevicePointer workspace, Stream stream = {}) const;

  /// The part of a launch's checks that says whether what it writes overlaps
  /// something else, for pointers of any memory: who copies tensors to a device
  /// asks it of where they come from.
  Status checkOverlaps(std::span<const DevicePointer> pointers,
                       DevicePointer workspace = 0) const;

private:
  /// What a launch looks at of each tensor, in the caller's order.
  struct PointerCheck {
    DevicePointer misaligned; ///< the bits that must be 0
    bool isNeeded;            ///< there are elements
    DevicePointer bytes;      ///< from its first element to behind its last
    size_t tensor;            ///< its position in the bundle
  };
  /// The argument that is pointer number `pointer`, or the workspace; of a
  /// tensor map, its address.
  struct Patch {
    size_t argument;
    size_t pointer;
    DevicePointer bytes; ///< that the argument lies behind it
  };
  /// The tensor maps of a kernel as they were last made: calls mostly come with
  /// the pointers of the call before.
  struct MapCache {
    struct Entry {
      DevicePointer address = 0; ///< where no tensor has elements
      TensorMapBytes bytes = {};
    };
    std::mutex mutex;
    std::vector<Entry> entries;
  };
  struct Kernel {
    KernelLaunch launch; ///< with arguments whose pointers are to be replaced
    std::vector<Patch> patches;
    std::shared_ptr<MapCache> maps; ///< null for a kernel without any
  };

  Plan(Device &device, LoadedModule &module, Problem problem)
      : device(&device), module(&module), call(std::move(problem)) {}
  Status addKernels();
  /// Copies the maps of `kernel` for these arguments.
  Status fillMaps(const Kernel &kernel, const uint64_t *arguments,
                  TensorMapBytes *maps) const;
  /// The number of tensors stands for the workspace.
  size_t pointerNumber(std::string_view name) const;
  bool accepts(std::span<const DevicePointer> pointers,
               DevicePointer workspace) const;
  bool mayOverlap(std::span<const DevicePointer> pointers,
                  DevicePointer workspace) const;
  Status explain(std::span<const DevicePointer> pointers,
                 DevicePointer workspace) const;
  void describe(std::span<const DevicePointer> pointers) const;

  Device *device;
  LoadedModule *module;
  Problem call;
  std::vector<PointerCheck> checks;
  /// The positions in `checks` of what launches write.
  std::vector<size_t> written;
  std::vector<Kernel> kernels;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_PLAN_H
