//===- Bundle.cpp - What the compiler hands to the runtime ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The queries on a loaded bundle: which tensor has a name, and which of its
// code images a chip runs. BundleLoader.cpp reads it.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Bundle.h"

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

const TensorSpec *Bundle::findTensor(std::string_view name) const {
  for (const TensorSpec &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

std::string Bundle::sequencesDim() const {
  const TensorSpec *used = findTensor(SequsedKName);
  return used && hasCuSeqlens() ? used->axes.front() : std::string();
}

std::string CodeChoice::str() const {
  return (kind == Kind::Cubin ? "cubin " : "PTX ") + image->chip.str();
}

/// Whether a device runs machine code, or PTX alone; unset for neither.
static std::optional<CodeChoice::Kind> findCode(const Bundle &variant,
                                                Chip device) {
  StatusOr<CodeChoice> choice = chooseCode(variant, device);
  if (!choice.ok())
    return std::nullopt;
  return choice->kind;
}

std::vector<size_t>
flashcore::orderVariants(const std::vector<Bundle> &variants, Chip device) {
  std::vector<size_t> order;
  for (size_t i = 0; i < variants.size(); ++i)
    if (findCode(variants[i], device))
      order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    auto codeOfA = findCode(variants[a], device),
         codeOfB = findCode(variants[b], device);
    if (codeOfA != codeOfB)
      return codeOfA == CodeChoice::Kind::Cubin;
    return variants[b].ptx.chip.isOlderThan(variants[a].ptx.chip);
  });
  return order;
}

size_t flashcore::chooseVariant(const std::vector<Bundle> &variants,
                                std::optional<Chip> device) {
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

StatusOr<CodeChoice> flashcore::chooseCode(const Bundle &bundle, Chip device) {
  for (const CodeImage &cubin : bundle.cubins)
    if (cubin.chip.cubinRunsOn(device))
      return CodeChoice{CodeChoice::Kind::Cubin, &cubin};
  if (bundle.ptx.chip.ptxRunsOn(device))
    return CodeChoice{CodeChoice::Kind::PTX, &bundle.ptx};

  std::string cubins;
  for (const CodeImage &cubin : bundle.cubins)
    cubins += (cubins.empty() ? "" : ", ") + cubin.chip.str();
  return Status::error("expects a device that runs " + bundle.chip.str() +
                       " code, but got " + device.str())
      .note("the bundle " + bundle.directory.string() + " holds PTX for " +
            bundle.ptx.chip.str() +
            (cubins.empty() ? " and no cubin" : " and cubins for " + cubins))
      .note("compile it again for " + device.str());
}

uint64_t flashcore::fnv1a64(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}
