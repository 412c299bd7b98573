//===- Bundle.cpp - What the compiler hands to the runtime ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The queries on a loaded bundle: which tensor has a name, which of its kernels
// a device has room for, and which of its code images it runs. Limits are
// checked here, so that a kernel that cannot run is named with its numbers, not
// with the driver's "invalid value". BundleLoader.cpp reads it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Launch.h"

#include <algorithm>

using namespace flashcore;

std::string_view flashcore::stringify(Causal causal) {
  switch (causal) {
  case Causal::None:
    return "none";
  case Causal::BottomRight:
    return "bottom_right";
  case Causal::TopLeft:
    return "top_left";
  }
  return "?";
}

std::string_view flashcore::stringify(ScoresStage stage) {
  switch (stage) {
  case ScoresStage::Scaled:
    return "scaled";
  case ScoresStage::Capped:
    return "capped";
  case ScoresStage::Changed:
    return "changed";
  case ScoresStage::Masked:
    return "masked";
  case ScoresStage::Probabilities:
    return "probabilities";
  }
  return "?";
}

std::string_view flashcore::stringify(RotaryStyle style) {
  return style == RotaryStyle::Half ? "half" : "interleaved";
}

std::string Bundle::sequencesDim() const {
  const TensorSpec *used = findOperand(operand::SequsedK);
  return used && hasCuSeqlens() ? used->axes.front() : std::string();
}

std::string Bundle::nameOfPart(size_t number) const {
  return "op " + std::to_string(number) + " ('" + parts[number].bundle->op +
         "') of the program";
}

std::string CodeChoice::str() const {
  return (kind == Kind::Cubin ? "cubin " : "PTX ") + image->chip.str();
}

static Status checkKernel(const KernelSpec &kernel, Chip chip,
                          const DeviceInfo &device) {
  const DeviceLimits &limits = device.limits;
  std::string name = "kernel '" + kernel.name + "'";
  int64_t staticBytes =
      kernel.resources ? kernel.resources->staticSharedMemory : 0;
  int64_t sharedBytes = kernel.dynamicSharedMemory + staticBytes;
  if (sharedBytes > limits.sharedMemoryPerBlock) {
    Status status =
        Status::error(name + " needs " + std::to_string(sharedBytes) +
                      " bytes of shared memory per block, but " + device.name +
                      " allows " + std::to_string(limits.sharedMemoryPerBlock));
    status.note("use fewer stages or a smaller BLOCK_N");
    // What other chips have may be more than the device has.
    if (chip.number != device.chip.number && !device.runsEveryChip)
      status.note("compile it again for " + device.chip.str());
    return status;
  }
  int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  if (threads > limits.threadsPerBlock)
    return Status::error(name + " needs " + std::to_string(threads) +
                         " threads per block, but " + device.name + " allows " +
                         std::to_string(limits.threadsPerBlock))
        .note("use fewer warps");
  if (kernel.arguments.size() > MaxArguments)
    return Status::error(name + " expects " +
                         std::to_string(kernel.arguments.size()) +
                         " arguments, but a launch passes at most " +
                         std::to_string(MaxArguments));
  auto maps = std::count_if(kernel.arguments.begin(), kernel.arguments.end(),
                            [](const auto &each) {
                              return each.kind == ArgumentSpec::Kind::TensorMap;
                            });
  if (static_cast<size_t>(maps) > MaxTensorMaps)
    return Status::error(name + " expects " + std::to_string(maps) +
                         " tensor maps, but a launch passes at most " +
                         std::to_string(MaxTensorMaps));
  for (size_t i = 0; i < 3; ++i)
    if (kernel.block[i] > limits.block[i])
      return Status::error(
          name + " needs a block of " + std::to_string(kernel.block[i]) +
          " threads in direction " + "xyz"[i] + ", but " + device.name +
          " allows " + std::to_string(limits.block[i]));
  return Status::success();
}

Status flashcore::checkLimits(const Bundle &bundle, const DeviceInfo &device) {
  for (const KernelSpec &kernel : bundle.kernels)
    if (Status status = checkKernel(kernel, bundle.chip, device); !status.ok())
      return status;
  return Status::success();
}

namespace {
/// How well a variant suits a device, the best the greatest.
struct Suitability {
  bool isForChip, isCubin;
  Chip chip;

  bool operator<(const Suitability &other) const {
    if (isForChip != other.isForChip)
      return other.isForChip;
    if (isCubin != other.isCubin)
      return other.isCubin;
    return chip.isOlderThan(other.chip);
  }
};
} // namespace

/// Unset where the device does not run the variant, or has no room for it.
static std::optional<Suitability> findSuitability(const Bundle &variant,
                                                  const DeviceInfo &device) {
  StatusOr<CodeChoice> code = chooseCode(variant, device);
  if (!code.ok() || !checkLimits(variant, device).ok())
    return std::nullopt;
  bool isCubin = code->kind == CodeChoice::Kind::Cubin;
  return Suitability{isCubin || variant.ptx.chip.ptxRunsOn(device.chip),
                     isCubin, variant.ptx.chip};
}

std::vector<size_t>
flashcore::orderVariants(const std::vector<Bundle> &variants,
                         const DeviceInfo &device) {
  std::vector<std::optional<Suitability>> found;
  std::vector<size_t> order;
  for (size_t i = 0; i < variants.size(); ++i)
    if (found.push_back(findSuitability(variants[i], device)); found[i])
      order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return *found[b] < *found[a]; });
  return order;
}

size_t flashcore::chooseVariant(const std::vector<Bundle> &variants,
                                const DeviceInfo *device) {
  std::vector<size_t> order =
      device ? orderVariants(variants, *device) : std::vector<size_t>();
  if (!order.empty())
    return order.front();
  auto oldest = std::min_element(variants.begin(), variants.end(),
                                 [](const Bundle &a, const Bundle &b) {
                                   return a.ptx.chip.isOlderThan(b.ptx.chip);
                                 });
  return static_cast<size_t>(oldest - variants.begin());
}

StatusOr<CodeChoice> flashcore::chooseCode(const Bundle &bundle,
                                           const DeviceInfo &device) {
  for (const CodeImage &cubin : bundle.cubins)
    if (cubin.chip.cubinRunsOn(device.chip))
      return CodeChoice{CodeChoice::Kind::Cubin, &cubin};
  if (device.runsEveryChip || bundle.ptx.chip.ptxRunsOn(device.chip))
    return CodeChoice{CodeChoice::Kind::PTX, &bundle.ptx};

  std::string cubins;
  for (const CodeImage &cubin : bundle.cubins)
    cubins += (cubins.empty() ? "" : ", ") + cubin.chip.str();
  return Status::error("expects a device that runs " + bundle.chip.str() +
                       " code, but got " + device.chip.str())
      .note("the bundle " + bundle.directory.string() + " holds PTX for " +
            bundle.ptx.chip.str() +
            (cubins.empty() ? " and no cubin" : " and cubins for " + cubins))
      .note("compile it again for " + device.chip.str());
}

uint64_t flashcore::fnv1a64(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}
