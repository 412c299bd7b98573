//===- ResourceModel.h - What a kernel keeps busy ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a block takes, how many blocks an SM holds, and a first-order model of
// what limits a kernel: the work of one key tile divided by the rate of each
// unit of an SM. It leaves out latencies, which real kernels also pay, so it
// says which unit a kernel runs into, not how fast it is.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_SCHEDULE_RESOURCEMODEL_H
#define FLASHCORE_SCHEDULE_RESOURCEMODEL_H

#include "flashcore/Analysis/SharedMemoryLayout.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "flashcore/Schedule/TileStaging.h"

namespace mlir::flashcore {

/// Shared memory a block needs, in bytes: the query tile and the K and V rings.
/// Warps that share query rows have a query tile and rings
/// of their own, in whose place they hand on their O, row maximum and row sum.
/// Tiles outside of loops are given no more slots than there are of them, which
/// this does not know: it may be more than the kernel is laid out in.
int64_t getSharedMemoryBytes(const AttentionProblem &problem,
                             const ScheduleChoice &choice);

/// The same of the kernel of P V of `softmax = unfused`; of the larger one of
/// that and of Q K^T is getSharedMemoryBytes.
int64_t getValuesSharedMemoryBytes(const AttentionProblem &problem,
                                   const ScheduleChoice &choice);

/// The ring that tiles of `rows` x `cols` of a role go through.
SharedRing getTileRing(const AttentionProblem &problem,
                       const ScheduleChoice &choice, TileRole role,
                       int64_t rows, int64_t cols, bool isInLoop);

/// Registers a thread cannot do without: its part of the O and S accumulators
/// and of Q, when that is kept.
int64_t getFragmentRegisters(const AttentionProblem &problem,
                             const ScheduleChoice &choice);

/// Whether lanes that have a row of S and of O each have fewer registers than
/// that takes: ptxas keeps the rest in local memory.
bool mustSpill(const AttentionProblem &problem, const ScheduleChoice &choice);

/// How many blocks one SM holds at once, and what allows no more.
struct Occupancy {
  int64_t blocks = 0;
  llvm::StringRef limit; ///< "registers", "shared memory", "threads", "blocks"
};

/// Occupancy of blocks of `numWarps` warps with `registers` registers a thread
/// and `sharedBytes` bytes of shared memory. Registers are given out to warps
/// in units of 256, and from sm_80 on each block has 1 KiB of shared memory
/// reserved (CUDA C++ Programming Guide, "Compute Capabilities").
Occupancy getOccupancy(const TargetInfo &target, int64_t numWarps,
                       int64_t registers, int64_t sharedBytes);

/// Cycles of one SM that a block spends on one key tile in each unit.
struct TileCost {
  double tensor = 0;  ///< mma.sync
  double special = 0; ///< ex2, and tanh of a softcap
  double floats = 0;  ///< f32 arithmetic of the softmax and of rescaling
  double shared = 0;  ///< ldmatrix and cp.async
};
TileCost getTileCost(const AttentionProblem &problem, const TargetInfo &target,
                     const ScheduleChoice &choice);

/// One line: the unit that the kernel is predicted to run into, and by how much
/// it leads the next one; or that the grid is too small for the chip.
std::string predictLimiter(const AttentionProblem &problem,
                           const TargetInfo &target,
                           const ScheduleChoice &choice);

} // namespace mlir::flashcore

#endif // FLASHCORE_SCHEDULE_RESOURCEMODEL_H
