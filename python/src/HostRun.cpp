//===- HostRun.cpp - Run a plan on tensors of the host --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors keep their strides on the device, so that a kernel sees what it would
// see of a tensor that lay there.
//
//===----------------------------------------------------------------------===//

#include "Runtime.h"

#include <algorithm>
#include <cstring>

using namespace flashcore::python;

namespace {
/// Buffers of one call, freed at the end of a scope.
class Buffers {
public:
  explicit Buffers(FlashCoreDevice device) : device(device) {}
  ~Buffers() {
    for (uint64_t pointer : pointers)
      flashcoreStatusDestroy(flashcoreDeviceFree(device, pointer));
  }

  FlashCoreStatus add(int64_t bytes, const char *name) {
    uint64_t pointer = 0;
    FlashCoreStatus status =
        flashcoreDeviceAllocate(device, bytes, name, &pointer);
    if (flashcoreStatusIsSuccess(status))
      pointers.push_back(pointer);
    return status;
  }

  std::vector<uint64_t> pointers;

private:
  FlashCoreDevice device;
};
} // namespace

static FlashCoreStatus copyInputs(const Plan &plan, FlashCoreDevice device,
                                  const std::vector<uint64_t> &from,
                                  Buffers &buffers) {
  // Rows of no sequence are not written: they stay what the caller has there.
  bool hasSequences = std::any_of(
      plan.specs.begin(), plan.specs.end(),
      [](const TensorSpec &spec) { return spec.name == "cu_seqlens_q"; });
  for (size_t i = 0; i < plan.specs.size(); ++i) {
    const TensorSpec &spec = plan.specs[i];
    FlashCoreStatus status = buffers.add(spec.spanBytes(), spec.name.c_str());
    if (flashcoreStatusIsSuccess(status) && (!spec.isOutput || hasSequences))
      status = flashcoreDeviceCopyToDevice(
          device, buffers.pointers[i], reinterpret_cast<const void *>(from[i]),
          spec.spanBytes());
    if (!flashcoreStatusIsSuccess(status))
      return status;
  }
  return plan.workspaceBytes ? buffers.add(plan.workspaceBytes, "workspace")
                             : FlashCoreStatus{nullptr};
}

/// Whether a call writes rows of the tensor, which is an input.
static bool isUpdated(const Plan &plan, const TensorSpec &spec) {
  return (spec.name == "k" || spec.name == "v") &&
         std::any_of(
             plan.specs.begin(), plan.specs.end(),
             [](const TensorSpec &each) { return each.name == "k_new"; });
}

/// Copies the elements of a tensor and nothing between them, where another
/// tensor may lie.
static void copyElements(const TensorSpec &spec, const char *from, char *to) {
  int64_t count = 1;
  for (int64_t size : spec.sizes)
    count *= size;
  size_t bytes = static_cast<size_t>(spec.elementBytes);
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, place = 0;
    for (size_t axis = spec.sizes.size(); axis-- > 0; rest /= spec.sizes[axis])
      place += rest % spec.sizes[axis] * spec.strides[axis];
    std::memcpy(to + place * spec.elementBytes,
                from + place * spec.elementBytes, bytes);
  }
}

static FlashCoreStatus copyUpdated(const TensorSpec &spec,
                                   FlashCoreDevice device, uint64_t from,
                                   uint64_t to) {
  std::vector<char> bytes(static_cast<size_t>(spec.spanBytes()));
  FlashCoreStatus status =
      flashcoreDeviceCopyToHost(device, bytes.data(), from, spec.spanBytes());
  if (flashcoreStatusIsSuccess(status))
    copyElements(spec, bytes.data(), reinterpret_cast<char *>(to));
  return status;
}

static FlashCoreStatus copyOutputs(const Plan &plan, FlashCoreDevice device,
                                   const std::vector<uint64_t> &to,
                                   const Buffers &buffers) {
  FlashCoreStatus status = {nullptr};
  for (size_t i = 0; i < plan.specs.size(); ++i)
    if (isUpdated(plan, plan.specs[i]) && flashcoreStatusIsSuccess(status))
      status = copyUpdated(plan.specs[i], device, buffers.pointers[i], to[i]);
  for (size_t i = 0; i < plan.specs.size(); ++i)
    if (plan.specs[i].isOutput && flashcoreStatusIsSuccess(status))
      status = flashcoreDeviceCopyToHost(
          device, reinterpret_cast<void *>(to[i]), buffers.pointers[i],
          plan.specs[i].spanBytes());
  return status;
}

FlashCoreStatus
flashcore::python::runOnHost(const Plan &plan,
                             const std::vector<uint64_t> &pointers) {
  FlashCoreDevice device = plan.device().handle.get();
  Buffers buffers(device);
  FlashCoreStatus status = copyInputs(plan, device, pointers, buffers);
  if (!flashcoreStatusIsSuccess(status))
    return status;
  uint64_t workspace = plan.workspaceBytes ? buffers.pointers.back() : 0;
  status = flashcorePlanLaunch(plan.handle.get(), buffers.pointers.data(),
                               workspace, nullptr);
  if (flashcoreStatusIsSuccess(status))
    status = flashcoreDeviceSynchronize(device);
  if (flashcoreStatusIsSuccess(status))
    status = copyOutputs(plan, device, pointers, buffers);
  return status;
}
