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
    // One without elements may have no address.
    bool isRead = spec.spanBytes() > 0 && (!spec.isOutput || hasSequences);
    if (flashcoreStatusIsSuccess(status) && isRead)
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

/// Copies the elements of a tensor that a call changed and nothing between
/// them, where another tensor may lie. One may also lie on elements that it
/// left.
static void copyChanged(const TensorSpec &spec, const char *before,
                        const char *after, char *to) {
  int64_t count = 1;
  for (int64_t size : spec.sizes)
    count *= size;
  size_t bytes = static_cast<size_t>(spec.elementBytes);
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, place = 0;
    for (size_t axis = spec.sizes.size(); axis-- > 0; rest /= spec.sizes[axis])
      place += rest % spec.sizes[axis] * spec.strides[axis];
    place *= spec.elementBytes;
    if (std::memcmp(before + place, after + place, bytes) != 0)
      std::memcpy(to + place, after + place, bytes);
  }
}

/// Inputs that a call wrote rows of. They are compared with what they were
/// before any of them changes: k and v may be views of one pool.
static FlashCoreStatus copyUpdated(const Plan &plan, FlashCoreDevice device,
                                   const std::vector<uint64_t> &to,
                                   const Buffers &buffers) {
  FlashCoreStatus status = {nullptr};
  std::vector<std::vector<char>> before, after;
  std::vector<size_t> updated;
  for (size_t i = 0; i < plan.specs.size(); ++i)
    if (isUpdated(plan, plan.specs[i])) {
      const char *host = reinterpret_cast<const char *>(to[i]);
      before.emplace_back(host, host + plan.specs[i].spanBytes());
      updated.push_back(i);
    }
  for (size_t i : updated)
    if (flashcoreStatusIsSuccess(status)) {
      after.emplace_back(static_cast<size_t>(plan.specs[i].spanBytes()));
      status = flashcoreDeviceCopyToHost(device, after.back().data(),
                                         buffers.pointers[i],
                                         plan.specs[i].spanBytes());
    }
  for (size_t n = 0; n < after.size() && flashcoreStatusIsSuccess(status); ++n)
    copyChanged(plan.specs[updated[n]], before[n].data(), after[n].data(),
                reinterpret_cast<char *>(to[updated[n]]));
  return status;
}

static FlashCoreStatus copyOutputs(const Plan &plan, FlashCoreDevice device,
                                   const std::vector<uint64_t> &to,
                                   const Buffers &buffers) {
  FlashCoreStatus status = copyUpdated(plan, device, to, buffers);
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
  // Copies lie apart, whatever they are copies of.
  FlashCoreStatus status =
      flashcorePlanCheckOverlaps(plan.handle.get(), pointers.data());
  if (!flashcoreStatusIsSuccess(status))
    return status;
  Buffers buffers(device);
  status = copyInputs(plan, device, pointers, buffers);
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
