//===- TargetInfo.cpp - What each chip can do -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of chips, each with its usual card. The tensor rate of sm_90 is
// that of mma.sync as measured, two thirds of wgmma's, which sm_90a has.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;

static constexpr int64_t KiB = 1024;
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

static constexpr TargetInfo sm90{"sm_90",
                                 90,
                                 /*isChipSpecific=*/false,
                                 /*ptxVersion=*/78,
                                 227 * KiB,
                                 228 * KiB,
                                 65536,
                                 2048,
                                 32,
                                 {"H100 SXM", 132, 2730, 128, 1.76, 3350}};

static constexpr TargetInfo targets[] = {
    {"sm_70",
     70,
     /*isChipSpecific=*/false,
     /*ptxVersion=*/60,
     96 * KiB,
     96 * KiB,
     65536,
     2048,
     32,
     {"V100 SXM2", 80, 1024, 64, 1.53, 900}},
    {"sm_75",
     75,
     /*isChipSpecific=*/false,
     /*ptxVersion=*/63,
     64 * KiB,
     64 * KiB,
     65536,
     1024,
     16,
     {"T4", 40, 1024, 64, 1.59, 320}},
    {"sm_80",
     80,
     /*isChipSpecific=*/false,
     /*ptxVersion=*/70,
     163 * KiB,
     164 * KiB,
     65536,
     2048,
     32,
     {"A100 40GB", 108, 2048, 64, 1.41, 1555}},
    {"sm_86",
     86,
     /*isChipSpecific=*/false,
     /*ptxVersion=*/71,
     99 * KiB,
     100 * KiB,
     65536,
     1536,
     16,
     {"RTX 3090", 82, 512, 128, 1.70, 936}},
    {"sm_89",
     89,
     /*isChipSpecific=*/false,
     /*ptxVersion=*/78,
     99 * KiB,
     100 * KiB,
     65536,
     1536,
     24,
     {"RTX 4090", 128, 512, 128, 2.52, 1008}},
    sm90,
    addOwnInstructions(sm90, "sm_90a", /*ptxVersion=*/80,
                       /*tensorFlops=*/4096),
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

const TargetInfo *mlir::flashcore::findTargetFor(llvm::StringRef device) {
  std::optional<unsigned> number = getNumber(device);
  if (!number)
    return nullptr;
  const TargetInfo *best = nullptr; // the table has the better ones last
  for (const TargetInfo &target : targets)
    if (target.isChipSpecific ? target.capability == *number
                              : target.capability <= *number)
      best = &target;
  return best;
}

std::string mlir::flashcore::unknownChipMessage(llvm::StringRef chip) {
  std::string text = "unknown chip '" + chip.str() + "': expects one of ";
  llvm::interleave(
      targets, [&](const TargetInfo &target) { text += target.chip.str(); },
      [&] { text += ", "; });
  std::optional<unsigned> number = getNumber(chip);
  if (!number)
    return text;
  // The driver assembles PTX for the chip it runs on.
  const TargetInfo *older = nullptr;
  for (const TargetInfo &target : targets)
    if (target.capability <= *number && !target.isChipSpecific)
      older = &target;
  if (!older)
    return text + "; older chips have no tensor cores";
  return text + "; " + chip.str() + " runs the PTX that is made for " +
         older->chip.str() + ": compile for that";
}
