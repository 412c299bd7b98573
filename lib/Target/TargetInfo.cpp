//===- TargetInfo.cpp - What each chip can do -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of chips, each with its usual card. The tensor rate of sm_90 is
// that of mma.sync as measured, two thirds of wgmma's, which sm_90a has; those
// of sm_120 and sm_121 are the data sheets', and nobody measured them here.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;

namespace {
struct Capability {
  unsigned number;
  SMLimits limits;
};
} // namespace

static constexpr int64_t KiB = 1024;
static constexpr Capability capabilities[] = {
#define FLASHCORE_CAPABILITY(number, sharedPerBlock, sharedPerSM, registers,   \
                             threads, blocks)                                  \
  {number,                                                                     \
   {sharedPerBlock * KiB, sharedPerSM * KiB, registers, threads, blocks}},
#include "flashcore/Target/Capabilities.def"
};

/// The table's limits of a capability, which stands in it.
static constexpr SMLimits getLimits(unsigned capability) {
  size_t row = 0;
  while (capabilities[row].number != capability)
    ++row;
  return capabilities[row].limits;
}

/// A chip that runs what is made for older ones.
static constexpr TargetInfo makeTarget(llvm::StringLiteral chip,
                                       unsigned capability, unsigned ptxVersion,
                                       TuningDevice device) {
  return {getLimits(capability),    chip,       capability,
          /*isChipSpecific=*/false, ptxVersion, device};
}

/// A chip's name with an a, which names more of its instructions.
static constexpr TargetInfo addOwnInstructions(TargetInfo target,
                                               llvm::StringLiteral chip,
                                               unsigned ptxVersion,
                                               int64_t tensorFlops) {
  target.chip = chip;
  target.isChipSpecific = true;
  target.ptxVersion = ptxVersion;
  target.device.tensorFlops = tensorFlops;
  return target;
}

static constexpr TargetInfo sm90 = makeTarget(
    "sm_90", 90, /*ptxVersion=*/78, {"H100 SXM", 132, 2730, 128, 1.76, 3350});

static constexpr TargetInfo targets[] = {
    makeTarget("sm_70", 70, /*ptxVersion=*/60,
               {"V100 SXM2", 80, 1024, 64, 1.53, 900}),
    makeTarget("sm_75", 75, /*ptxVersion=*/63, {"T4", 40, 1024, 64, 1.59, 320}),
    makeTarget("sm_80", 80, /*ptxVersion=*/70,
               {"A100 40GB", 108, 2048, 64, 1.41, 1555}),
    makeTarget("sm_86", 86, /*ptxVersion=*/71,
               {"RTX 3090", 82, 512, 128, 1.70, 936}),
    makeTarget("sm_89", 89, /*ptxVersion=*/78,
               {"RTX 4090", 128, 512, 128, 2.52, 1008}),
    sm90,
    addOwnInstructions(sm90, "sm_90a", /*ptxVersion=*/80,
                       /*tensorFlops=*/4096),
    makeTarget("sm_120", 120, /*ptxVersion=*/87,
               {"RTX 5090", 170, 512, 128, 2.41, 1792}),
    makeTarget("sm_121", 121, /*ptxVersion=*/88,
               {"GB10", 48, 512, 128, 2.52, 273}),
};

RegisterShares mlir::flashcore::getRegisterShares(const TargetInfo &target,
                                                  int64_t numBlocks,
                                                  int64_t numConsumers,
                                                  int64_t numProducers,
                                                  bool readsPages) {
  constexpr int64_t unit = 8, least = 24;
  // Two warpgroups leave 24 to those who copy, or 40.
  const int64_t most = readsPages ? 232 : 240;
  int64_t numThreads = numConsumers + numProducers;
  int64_t atLaunch =
      llvm::alignDown(std::min(target.registersPerSM / (numBlocks * numThreads),
                               kMaxRegistersPerThread),
                      unit);
  int64_t all = atLaunch * numThreads;
  int64_t ofConsumer = std::min<int64_t>(
      llvm::alignDown((all - least * numProducers) / numConsumers, unit), most);
  int64_t ofProducer = std::min<int64_t>(
      llvm::alignDown((all - ofConsumer * numConsumers) / numProducers, unit),
      atLaunch);
  return {atLaunch, ofConsumer, ofProducer};
}

unsigned mlir::flashcore::getPTXVersion(const TargetInfo &target,
                                        unsigned needed) {
  return std::max({kLeastPTXVersion, target.ptxVersion, needed});
}

static constexpr llvm::StringLiteral kPTXFeature = "+ptx";

std::string mlir::flashcore::getPTXFeature(unsigned version) {
  return (kPTXFeature + llvm::Twine(version)).str();
}

std::string mlir::flashcore::raisePTXFeature(llvm::StringRef features,
                                             unsigned version) {
  llvm::SmallVector<llvm::StringRef> all, others;
  features.split(all, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef feature : all) {
    unsigned given = 0;
    llvm::StringRef number = feature;
    if (number.consume_front(kPTXFeature) && !number.getAsInteger(10, given))
      version = std::max(version, given);
    else
      others.push_back(feature);
  }
  std::string ptx = getPTXFeature(version);
  others.insert(others.begin(), ptx);
  return llvm::join(others, ",");
}

llvm::ArrayRef<TargetInfo> mlir::flashcore::getTargets() { return targets; }

const TargetInfo *mlir::flashcore::lookupTarget(llvm::StringRef chip) {
  const auto *it = llvm::find_if(
      targets, [&](const TargetInfo &target) { return target.chip == chip; });
  return it == std::end(targets) ? nullptr : it;
}

/// 89 for sm_89, 90 for sm_90a; nothing for what is no chip.
static std::optional<unsigned> getNumber(llvm::StringRef chip) {
  unsigned number = 0;
  if (!chip.consume_front("sm_") || chip.consumeInteger(10, number) ||
      (!chip.empty() && chip != "a" && chip != "f"))
    return std::nullopt;
  return number;
}

const SMLimits *mlir::flashcore::lookupLimits(unsigned capability) {
  const auto *it = llvm::find_if(capabilities, [&](const Capability &known) {
    return known.number == capability;
  });
  return it == std::end(capabilities) ? nullptr : &it->limits;
}

std::vector<const TargetInfo *>
mlir::flashcore::findTargetsFor(llvm::StringRef device,
                                std::optional<int64_t> sharedMemoryPerBlock) {
  std::vector<const TargetInfo *> found;
  std::optional<unsigned> number = getNumber(device);
  if (!number)
    return found;
  const SMLimits *known = lookupLimits(*number);
  if (!sharedMemoryPerBlock && known)
    sharedMemoryPerBlock = known->sharedMemoryPerBlock;
  // The table has the better ones last.
  for (const TargetInfo &target : llvm::reverse(targets)) {
    bool runs = target.isChipSpecific ? target.capability == *number
                                      : target.capability <= *number;
    if (runs && (!sharedMemoryPerBlock ||
                 target.sharedMemoryPerBlock <= *sharedMemoryPerBlock))
      found.push_back(&target);
  }
  return found;
}

const TargetInfo *
mlir::flashcore::findTargetFor(llvm::StringRef device,
                               std::optional<int64_t> sharedMemoryPerBlock) {
  std::vector<const TargetInfo *> found =
      findTargetsFor(device, sharedMemoryPerBlock);
  return found.empty() ? nullptr : found.front();
}

std::string mlir::flashcore::unknownChipMessage(llvm::StringRef chip) {
  std::string text = "unknown chip '" + chip.str() + "': expects one of ";
  llvm::interleave(
      targets, [&](const TargetInfo &target) { text += target.chip.str(); },
      [&] { text += ", "; });
  if (!getNumber(chip))
    return text;
  // The driver assembles PTX for the chip it runs on.
  for (const TargetInfo *older : findTargetsFor(chip))
    if (!older->isChipSpecific)
      return text + "; " + chip.str() + " runs the PTX that is made for " +
             older->chip.str() + ": compile for that";
  return text + "; older chips have no tensor cores";
}
