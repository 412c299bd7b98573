//===- TargetInfo.cpp - What each chip can do -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of chips. What differs between cards is that of the usual one: A100
// (40 GB), RTX 3090 (GA102), RTX 4090 (AD102), H100 SXM. The tensor rate of
// sm_90 is that of mma.sync as measured, two thirds of wgmma's.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::flashcore;

static constexpr int64_t KiB = 1024;

static const TargetInfo targets[] = {
    {"sm_80", 163 * KiB, 164 * KiB, 65536, 2048, 32, 108, 2048, 64, 1.41, 1555},
    {"sm_86", 99 * KiB, 100 * KiB, 65536, 1536, 16, 82, 512, 128, 1.70, 936},
    {"sm_89", 99 * KiB, 100 * KiB, 65536, 1536, 24, 128, 512, 128, 2.52, 1008},
    {"sm_90", 227 * KiB, 228 * KiB, 65536, 2048, 32, 132, 2730, 128, 1.76,
     3350},
};

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
    if (*getNumber(target.chip) <= *number)
      older = &target;
  if (!older)
    return text + "; older chips lack cp.async and bf16 mma.sync";
  return text + "; " + chip.str() + " runs the PTX that is made for " +
         older->chip.str() + ": compile for that";
}
