//===- HostDevice.cpp - A device that computes on the host ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first arguments of a launch must be q, k, v, o and lse, in this order,
// and the last one the bias if there is one, each inside the guards that
// TensorSet puts around it.
//
//===----------------------------------------------------------------------===//

#include "HostDevice.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

using namespace flashcore;
using flashcore::testing::HostDevice;
using flashcore::testing::Mistake;

namespace {
class HostModule final : public LoadedModule {
public:
  HostModule(const Bundle &bundle, const CodeChoice &choice) : bundle(bundle) {
    codeName = choice.str();
    kernelInfos.push_back({100, 0, 0});
  }
  const Bundle &bundle;
};
} // namespace

HostDevice::HostDevice(Mistake mistake) : mistake(mistake) {
  deviceInfo.kind = "host";
  deviceInfo.name = "Host";
  deviceInfo.chip.number = 89;
  deviceInfo.limits = {1 << 20, 1024, {1024, 1024, 64}, {1 << 30, 1, 1}, 0, 1};
}

StatusOr<DevicePointer> HostDevice::allocate(int64_t bytes,
                                             const std::string &) {
  return reinterpret_cast<DevicePointer>(
      std::aligned_alloc(256, static_cast<size_t>(bytes + 255) / 256 * 256));
}

Status HostDevice::free(DevicePointer pointer) {
  std::free(reinterpret_cast<void *>(pointer));
  return Status::success();
}

Status HostDevice::copyToDevice(DevicePointer to, const void *from,
                                int64_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), from, static_cast<size_t>(bytes));
  return Status::success();
}

Status HostDevice::copyToHost(void *to, DevicePointer from, int64_t bytes) {
  std::memcpy(to, reinterpret_cast<void *>(from), static_cast<size_t>(bytes));
  return Status::success();
}

Status HostDevice::fill(DevicePointer to, uint32_t pattern, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 4)
    std::memcpy(reinterpret_cast<char *>(to) + i, &pattern, 4);
  return Status::success();
}

Status HostDevice::synchronize(Stream) {
  return hasCrashed ? Status::error("the host device crashed")
                    : Status::success();
}

StatusOr<std::unique_ptr<LoadedModule>>
HostDevice::loadCode(const Bundle &bundle, const CodeChoice &choice) {
  return std::unique_ptr<LoadedModule>(
      std::make_unique<HostModule>(bundle, choice));
}

/// Makes the mistakes that are wrong values or wrong places.
void HostDevice::spoil(HostTensor &o, HostTensor &lse) const {
  auto add = [](HostTensor &tensor, int64_t index, float value) {
    int64_t at = tensor.position(index);
    tensor.store(at, static_cast<float>(tensor.load(at)) + value);
  };
  if (mistake == Mistake::WrongValue)
    add(o, 5, 1);
  if (mistake == Mistake::NotANumber)
    add(o, 5, NAN);
  if (mistake == Mistake::WrongLse)
    add(lse, 3, 1);
  if (mistake == Mistake::Unwritten)
    o.storeBits(o.position(5), PoisonPattern & 0xffff);
  if (mistake == Mistake::PastTheEnd)
    o.storeBits(o.numElements(), 0);
  if (mistake == Mistake::BeforeStart)
    o.storeBits(-2, 0);
  if (mistake == Mistake::ScaleOutputs)
    o.forEach([&](int64_t, int64_t at) {
      o.store(at, static_cast<float>(1.1 * o.load(at)));
    });
}

Status HostDevice::launchChecked(LoadedModule &module, const KernelLaunch &,
                                 const LaunchArguments &passed, Stream) {
  std::span<const uint64_t> arguments = passed.values;
  hasCrashed = mistake == Mistake::Crash;
  const Bundle &bundle = static_cast<HostModule &>(module).bundle;
  StatusOr<Problem> problem = Problem::create(bundle, {});
  if (!problem.ok())
    return problem.status();
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < problem->tensors().size(); ++i) {
    // Those of more tensors are the last.
    size_t last = arguments.size() - problem->tensors().size() + i;
    DevicePointer from = arguments[i < 5 ? i : last];
    tensors.push_back(*HostTensor::create(problem->tensors()[i]));
    (void)copyToHost(tensors[i].storage(), from - HostTensor::GuardBytes,
                     tensors[i].storageBytes());
  }
  AttentionInputs inputs = gatherInputs(bundle, [&](std::string_view name) {
    for (const HostTensor &tensor : tensors)
      if (tensor.geometry().name == name)
        return std::optional(tensor.view());
    return std::optional<TensorView>();
  });
  AttentionResult result = *computeReference(inputs);
  KeyRange rows = queryRows(inputs);
  auto store = [&](HostTensor &tensor, const std::vector<double> &values,
                   int64_t columns) {
    tensor.forEach([&](int64_t index, int64_t at) {
      if (rows.contains(index / columns % inputs.q.sizes[2]) ||
          mistake == Mistake::EveryRow)
        tensor.store(at, static_cast<float>(values[index]));
    });
  };
  store(tensors[3], result.o, inputs.v.sizes[3]);
  store(tensors[4], result.lse, 1);
  spoil(tensors[3], tensors[4]);
  for (size_t i : {3, 4})
    (void)copyToDevice(arguments[i] - HostTensor::GuardBytes,
                       tensors[i].storage(), tensors[i].storageBytes());
  return Status::success();
}

StatusOr<Timing>
HostDevice::timeChecked(LoadedModule &,
                        std::span<const std::vector<KernelLaunch>> sets,
                        const TimingOptions &options) {
  timedSets = sets.size();
  timedInputs.clear();
  for (const std::vector<KernelLaunch> &launches : sets) {
    auto &firsts = timedInputs.emplace_back();
    for (size_t i = 0; i < firsts.size(); ++i)
      (void)copyToHost(&firsts[i], launches[0].arguments[i], 2);
  }
  Timing timing;
  timing.median = 2;
  timing.min = 1;
  timing.max = 4;
  timing.replays = options.replays;
  timing.launchesPerReplay = 10;
  return timing;
}
