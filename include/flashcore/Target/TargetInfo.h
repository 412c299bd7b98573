//===- TargetInfo.h - What each chip can do ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place for chip numbers; what an SM has is in Capabilities.def, which
// the emulator reads, too. Source of the rates: CUDA C++ Programming Guide,
// section "Arithmetic Instructions"; of clocks and memory NVIDIA's data sheets
// of the usual cards. What a chip multiplies at a time is in Atoms.h.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_TARGETINFO_H
#define FLASHCORE_TARGET_TARGETINFO_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlir::flashcore {

/// A card that schedules are chosen for: what differs between those of one
/// chip.
struct TuningDevice {
  llvm::StringLiteral card;
  int64_t numSMs;
  /// Per SM and cycle: FLOP of mma.sync on f16 into f32, and f32 operations
  /// (an fma is one).
  int64_t tensorFlops, floatOps;
  double clockGHz;
  double memoryGBs; ///< 10^9 bytes a second

  /// Per SM and cycle, the same on every chip we know: ex2, rcp or tanh
  /// results, and bytes of shared memory.
  static constexpr int64_t specialOps = 16, sharedBytes = 128;
};

/// What an SM of a compute capability has.
struct SMLimits {
  /// Dynamic shared memory one block may ask for, in bytes.
  int64_t sharedMemoryPerBlock;
  /// Shared memory of one SM, in bytes.
  int64_t sharedMemoryPerSM;
  int64_t registersPerSM;
  int64_t maxThreadsPerSM;
  int64_t maxBlocksPerSM;
};

/// Of a compute capability that is known, 89 for 8.9, one that no kernels are
/// made for among them; else null.
const SMLimits *lookupLimits(unsigned capability);

/// What kernels for a chip may use, on whatever card.
struct TargetInfo : SMLimits {
  llvm::StringLiteral chip;
  /// 89 for sm_89: its instructions are those of all lower numbers, too.
  unsigned capability;
  /// Whether its name ends with an a: it has the instructions that no other
  /// chip has, and what is made for it runs nowhere else.
  bool isChipSpecific;
  /// The oldest PTX ISA that knows the chip, times ten.
  unsigned ptxVersion;
  /// The usual card, for which schedules are chosen.
  TuningDevice device;

  /// Shared memory of an SM, in bytes, that each block takes besides its own.
  int64_t getReservedSharedMemory() const { return capability < 80 ? 0 : 1024; }
};

/// The PTX ISA of CUDA 12.0, times ten: every driver that we care for accepts
/// it, so nothing is gained by an older one.
inline constexpr unsigned kLeastPTXVersion = 80;

/// The PTX ISA, times ten, for kernels for a chip of which some instruction
/// needs `needed`.
unsigned getPTXVersion(const TargetInfo &target, unsigned needed);

/// LLVM's name for a PTX version, e.g. +ptx80.
std::string getPTXFeature(unsigned version);

/// Features for LLVM, of which the PTX version is raised to `version` if it is
/// older or not said.
std::string raisePTXFeature(llvm::StringRef features, unsigned version);

/// Registers one thread can have on every chip we know.
inline constexpr int64_t kMaxRegistersPerThread = 255;
inline constexpr int64_t kWarpSize = 32;

/// Registers of each thread of a block, of which some only start copies, as
/// `setmaxnreg` hands them out: in units of 8, of what the launch gave to all,
/// which is the block's share where an SM holds `numBlocks` at once.
struct RegisterShares {
  int64_t atLaunch, ofConsumer, ofProducer;
};
/// Copies of pages (`readsPages`) take more than others.
RegisterShares getRegisterShares(const TargetInfo &target, int64_t numBlocks,
                                 int64_t numConsumers, int64_t numProducers,
                                 bool readsPages = false);

/// The chips FlashCore compiles for, oldest first. All of them have tensor
/// cores; which of their instructions are used is in Atoms.h.
llvm::ArrayRef<TargetInfo> getTargets();

/// The target called `chip`, or null.
const TargetInfo *lookupTarget(llvm::StringRef chip);

/// The targets whose kernels a device runs, whatever they ask for, best first:
/// that of this chip alone, then those whose code newer chips run, too, the
/// newest first. Those whose blocks may have more shared memory than the device
/// gives one are left out. What it gives is `sharedMemoryPerBlock`, in bytes,
/// as its driver says; else what is known of its capability, and without that
/// enough. Empty for a name that is none, and a device that is older than all.
std::vector<const TargetInfo *>
findTargetsFor(llvm::StringRef device,
               std::optional<int64_t> sharedMemoryPerBlock = std::nullopt);

/// The first of them, or null.
const TargetInfo *
findTargetFor(llvm::StringRef device,
              std::optional<int64_t> sharedMemoryPerBlock = std::nullopt);

/// "unknown chip 'x': expects one of sm_80, ...": why `lookupTarget` failed.
std::string unknownChipMessage(llvm::StringRef chip);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_TARGETINFO_H
