//===- TargetInfo.cpp - What each chip can do -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of chips. numSMs is that of the usual card: A100, RTX 3090 (GA102),
// RTX 4090 (AD102), H100 SXM.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Target/TargetInfo.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir::flashcore;

static constexpr int64_t KiB = 1024;

static const TargetInfo targets[] = {
    {"sm_80", 163 * KiB, 164 * KiB, 65536, 2048, 108},
    {"sm_86", 99 * KiB, 100 * KiB, 65536, 1536, 82},
    {"sm_89", 99 * KiB, 100 * KiB, 65536, 1536, 128},
    {"sm_90", 227 * KiB, 228 * KiB, 65536, 2048, 132},
};

llvm::ArrayRef<TargetInfo> mlir::flashcore::getTargets() { return targets; }

const TargetInfo *mlir::flashcore::lookupTarget(llvm::StringRef chip) {
  const auto *it = llvm::find_if(
      targets, [&](const TargetInfo &target) { return target.chip == chip; });
  return it == std::end(targets) ? nullptr : it;
}

std::string mlir::flashcore::unknownChipMessage(llvm::StringRef chip) {
  std::string text = "unknown chip '" + chip.str() + "': expects one of ";
  llvm::interleave(
      targets, [&](const TargetInfo &target) { text += target.chip.str(); },
      [&] { text += ", "; });
  return text + "; older chips lack cp.async and bf16 mma.sync";
}
