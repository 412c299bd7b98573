//===- HostDevice.h - A device that computes on the host ------ -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs bundles of static size by the reference, rounded to the type of the
// output, and makes the mistakes that a test asks for.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_UNITTESTS_HOSTDEVICE_H
#define FLASHCORE_RUNTIME_UNITTESTS_HOSTDEVICE_H

#include "flashcore/Runtime/Device.h"
#include "flashcore/Runtime/HostTensor.h"

namespace flashcore::testing {

enum class Mistake {
  None,
  WrongValue,   ///< adds 1 to the element 5 of o
  NotANumber,   ///< the element 5 of o is NaN
  WrongLse,     ///< adds 1 to the element 3 of lse
  Unwritten,    ///< leaves the element 5 of o alone
  PastTheEnd,   ///< writes behind o
  BeforeStart,  ///< writes in front of o
  Crash,        ///< the next synchronize() fails
  ScaleOutputs, ///< every element of o is 10% too large
  EveryRow,     ///< writes the rows of no sequence, too
};

class HostDevice final : public Device {
public:
  explicit HostDevice(Mistake mistake = Mistake::None);

  StatusOr<DevicePointer> allocate(int64_t bytes,
                                   const std::string &name) override;
  Status free(DevicePointer pointer) override;
  Status copyToDevice(DevicePointer to, const void *from,
                      int64_t bytes) override;
  Status copyToHost(void *to, DevicePointer from, int64_t bytes) override;
  Status fill(DevicePointer to, uint32_t pattern, int64_t bytes) override;
  Status synchronize(Stream) override;
  void describe(DevicePointer pointer, int64_t elementBytes,
                std::span<const int64_t> sizes,
                std::span<const int64_t> strides) override {
    descriptions.push_back({pointer,
                            elementBytes,
                            {sizes.begin(), sizes.end()},
                            {strides.begin(), strides.end()}});
  }

  struct Description {
    DevicePointer pointer;
    int64_t elementBytes;
    std::vector<int64_t> sizes, strides;
  };
  /// As a device that finds accesses outside of buffers.
  void setChecksBounds() { deviceInfo.checksBounds = true; }
  /// What describe() was told.
  std::vector<Description> descriptions;

  /// The sets of the last timing.
  size_t timedSets = 0;
  /// The bits of the first elements of q, k and v in each of them.
  std::vector<std::array<uint16_t, 3>> timedInputs;
  Mistake mistake;

protected:
  StatusOr<std::unique_ptr<LoadedModule>>
  loadCode(const Bundle &bundle, const CodeChoice &choice) override;
  Status launchChecked(LoadedModule &module, const KernelLaunch &launch,
                       const LaunchArguments &arguments,
                       Stream stream) override;
  StatusOr<Timing> timeChecked(LoadedModule &module,
                               std::span<const std::vector<KernelLaunch>> sets,
                               const TimingOptions &options) override;

private:
  void spoil(HostTensor &o, HostTensor &lse) const;

  bool hasCrashed = false;
};

} // namespace flashcore::testing

#endif // FLASHCORE_RUNTIME_UNITTESTS_HOSTDEVICE_H
