//===- TargetInfo.h - What each chip can do ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place for chip numbers. Source: CUDA C++ Programming Guide, section
// "Compute Capabilities", table "Technical Specifications per Compute
// Capability", and section "Arithmetic Instructions" for rates; NVIDIA's data
// sheets of the usual cards for clocks and memory. What a chip multiplies at a
// time is in Atoms.h.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_TARGET_TARGETINFO_H
#define FLASHCORE_TARGET_TARGETINFO_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

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

/// What kernels for a chip may use, on whatever card.
struct TargetInfo {
  llvm::StringLiteral chip;
  /// 89 for sm_89: its instructions are those of all lower numbers, too.
  unsigned capability;
  /// Whether its name ends with an a: it has the instructions that no other
  /// chip has, and what is made for it runs nowhere else.
  bool isChipSpecific;
  /// The oldest PTX ISA that knows the chip, times ten.
  unsigned ptxVersion;
  /// Dynamic shared memory one block may ask for, in bytes.
  int64_t sharedMemoryPerBlock;
  /// Shared memory of one SM, in bytes.
  int64_t sharedMemoryPerSM;
  int64_t registersPerSM;
  int64_t maxThreadsPerSM;
  int64_t maxBlocksPerSM;
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

/// The target whose code is best on a device: that of this chip alone, else the
/// newest whose code newer chips run, too. Null for a name that is none, and a
/// device that is older than all.
const TargetInfo *findTargetFor(llvm::StringRef device);

/// "unknown chip 'x': expects one of sm_80, ...": why `lookupTarget` failed.
std::string unknownChipMessage(llvm::StringRef chip);

} // namespace mlir::flashcore

#endif // FLASHCORE_TARGET_TARGETINFO_H
