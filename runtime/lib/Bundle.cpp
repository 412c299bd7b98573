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

const TensorSpec *Bundle::findTensor(std::string_view name) const {
  for (const TensorSpec &tensor : tensors)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

std::string CodeChoice::str() const {
  return (kind == Kind::Cubin ? "cubin " : "PTX ") + image->chip.str();
}

size_t flashcore::chooseVariant(const std::vector<Bundle> &variants,
                                std::optional<Chip> device) {
  size_t oldest = 0;
  std::optional<size_t> assembled, newest;
  auto isNewer = [&](size_t i, std::optional<size_t> than) {
    return !than || variants[*than].ptx.chip.isOlderThan(variants[i].ptx.chip);
  };
  for (size_t i = 0; i < variants.size(); ++i) {
    if (isNewer(oldest, i))
      oldest = i;
    if (!device)
      continue;
    for (const CodeImage &cubin : variants[i].cubins)
      if (cubin.chip.cubinRunsOn(*device) && isNewer(i, assembled))
        assembled = i;
    if (variants[i].ptx.chip.ptxRunsOn(*device) && isNewer(i, newest))
      newest = i;
  }
  return assembled.value_or(newest.value_or(oldest));
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
