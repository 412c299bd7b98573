//===- ResourceModel.cpp - What a kernel keeps busy -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See the header for what is modelled and what is not.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <tuple>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

SharedRing mlir::flashcore::getTileRing(const AttentionProblem &problem,
                                        const ScheduleChoice &choice,
                                        TileRole role, int64_t rows,
                                        int64_t cols, bool isInLoop) {
  TileStaging staging = chooseStaging(choice, role, cols, isInLoop);
  SharedRing ring;
  ring.scope = staging.ring;
  ring.numStages = staging.slots;
  ring.hasPanels = staging.isInPlace() && staging.layout == RingLayout::Panels;
  // O changes no hands: who writes it lets it be copied.
  ring.isHandedOver = choice.hasProducer() && role != TileRole::Output;
  if (staging.layout == RingLayout::Padded)
    cols = getPaddedColumns(cols);
  int64_t bytesOfRow = getBytes(problem.element) * cols;
  if (ring.hasPanels) // the last of which is filled up
    bytesOfRow = llvm::alignTo(bytesOfRow, kPanelBytes);
  ring.slotBytes = rows * bytesOfRow;
  return ring;
}

int64_t
mlir::flashcore::getValuesSharedMemoryBytes(const AttentionProblem &problem,
                                            const ScheduleChoice &choice) {
  SharedMemoryNeeds needs;
  int64_t warpM = choice.getWarpM(), columns = problem.getColumnsV();
  for (auto [role, rows, cols] :
       {std::tuple(TileRole::Probabilities, warpM, choice.blockN),
        {TileRole::Value, choice.blockN, columns}})
    needs.rings.push_back(
        getTileRing(problem, choice, role, rows, cols, /*isInLoop=*/true));
  if (choice.product == Product::Wmma)
    needs.scratch.add(warpM, /*lhsCols=*/0, columns,
                      choice.exchange != Exchange::Plain);
  needs.numWarps = choice.numWarps;
  return layOutSharedMemory(needs).bytes;
}

int64_t mlir::flashcore::getSharedMemoryBytes(const AttentionProblem &problem,
                                              const ScheduleChoice &choice) {
  if (choice.isUnfused())
    return std::max(getScoresSharedMemoryBytes(problem, choice),
                    getValuesSharedMemoryBytes(problem, choice));
  SharedMemoryNeeds needs;
  int64_t warpM = choice.getWarpM();
  bool isInLoop = choice.softmax != Softmax::OnePass;
  for (auto [role, rows, cols] :
       {std::tuple(TileRole::Query, warpM, problem.getColumns()),
        {TileRole::Key, choice.blockN, problem.getColumns()},
        {TileRole::Value, choice.blockN,
         problem.getColumnsV() + choice.getOnesColumns()}})
    needs.rings.push_back(
        getTileRing(problem, choice, role, rows, cols, isInLoop));
  if (choice.output == OutputRoute::Bulk)
    needs.rings.push_back(getTileRing(problem, choice, TileRole::Output, warpM,
                                      problem.getColumnsV(), isInLoop));
  if (choice.rowMax == RowMax::Checked) {
    // The walk that is exact.
    std::vector<SharedRing> again = needs.rings;
    for (SharedRing &ring : again)
      ring.walk = 1;
    needs.rings.insert(needs.rings.end(), again.begin(), again.end());
    needs.numFlags = 1;
  }
  constexpr int64_t floatBytes = 4;
  if (choice.keyWarps > 1) // O, row maximum and row sum
    needs.exchangeBytes = floatBytes * warpM * (problem.getColumnsV() + 2);
  if (choice.product == Product::Wmma) {
    bool isPadded = choice.exchange != Exchange::Plain;
    needs.scratch.add(warpM, /*lhsCols=*/0, choice.blockN, isPadded);
    bool hasResult = choice.exchange != Exchange::Fragments;
    needs.scratch.takesTurns = !hasResult;
    needs.scratch.add(warpM, choice.blockN,
                      hasResult ? problem.getColumnsV() : kQueryStep, isPadded);
  }
  needs.numWarps = choice.numWarps;
  return layOutSharedMemory(needs).bytes;
}

int64_t mlir::flashcore::getFragmentRegisters(const AttentionProblem &problem,
                                              const ScheduleChoice &choice) {
  constexpr int64_t registerBytes = 4;
  int64_t packed = registerBytes / getBytes(problem.element);
  int64_t colsOfQ = choice.getKeptQueryColumns(problem.getColumns()) / packed;
  int64_t cols = problem.getColumnsV() + choice.getOnesColumns() + colsOfQ +
                 choice.blockN * (choice.overlap == Overlap::QK ? 2 : 1);
  if (choice.overlap == Overlap::PV) // P, too
    cols += choice.blockN / packed;
  if (choice.softmax == Softmax::OnePass) {
    // O takes the place of Q and of that part of S which P leaves.
    int64_t colsOfS = choice.blockN * getTilesOfPart(*problem.seqlenK, choice);
    cols =
        std::max(colsOfS + colsOfQ, colsOfS / packed + problem.getColumnsV());
  }
  if (choice.isUnfused()) // S and O are of different kernels
    cols = std::max(choice.blockN + colsOfQ, problem.getColumnsV());
  return choice.getWarpM() * cols / (choice.getTileWarps() * kWarpSize);
}

bool mlir::flashcore::mustSpill(const AttentionProblem &problem,
                                const ScheduleChoice &choice) {
  // As ptxas 13.0 has it for sm_75: rows of 168 values fit, of 176 do not.
  constexpr int64_t besideRow = 84;
  return choice.product == Product::Thread &&
         getFragmentRegisters(problem, choice) + besideRow >
             kMaxRegistersPerThread;
}

Occupancy mlir::flashcore::getOccupancy(const TargetInfo &target,
                                        int64_t numWarps, int64_t registers,
                                        int64_t sharedBytes) {
  constexpr int64_t registerUnit = 256;
  int64_t registersPerWarp =
      llvm::alignTo(std::max<int64_t>(registers, 1) * kWarpSize, registerUnit);
  Occupancy result{target.maxBlocksPerSM, "blocks"};
  for (auto [blocks, limit] :
       {std::pair<int64_t, llvm::StringRef>(
            target.maxThreadsPerSM / (numWarps * kWarpSize), "threads"),
        {target.registersPerSM / registersPerWarp / numWarps, "registers"},
        {target.sharedMemoryPerSM /
             (sharedBytes + target.getReservedSharedMemory()),
         "shared memory"}})
    if (blocks < result.blocks)
      result = {blocks, limit};
  return result;
}

TileCost mlir::flashcore::getTileCost(const AttentionProblem &problem,
                                      const TargetInfo &target,
                                      const ScheduleChoice &choice) {
  double m = choice.getQueryRows(), n = choice.blockN;
  double warps = choice.numWarps / choice.keyWarps;
  double d = problem.getColumns(), dv = problem.getColumnsV();
  TileCost cost;
  cost.tensor = 2 * m * n * (d + dv) / target.device.tensorFlops;
  cost.special =
      m * n * (problem.hasSpecials ? 2 : 1) / TuningDevice::specialOps;
  // An element: maximum, scaling, row sum, half of a conversion of two. A
  // column of O: rescaling.
  cost.floats = m * (3.5 * n + dv) / target.device.floatOps;
  // K and V: written once, read by every warp; what of Q does not stay in
  // registers: read by its warp.
  double reads = warps * n * (d + dv);
  reads += m * (d - choice.getKeptQueryColumns(problem.getColumns()));
  cost.shared = static_cast<double>(getBytes(problem.element)) *
                (reads + n * (d + dv)) / TuningDevice::sharedBytes;
  constexpr double floatBytes = 4;
  if (choice.product == Product::Wmma) { // S, P and O there and back
    double results = n + (choice.exchange == Exchange::Fragments ? 0 : dv);
    cost.shared +=
        m * (2 * floatBytes * results + 2 * getBytes(problem.element) * n) /
        TuningDevice::sharedBytes;
  }
  if (choice.product == Product::Thread) {
    // Lanes that load the same 16 bytes take the time of 128.
    cost.tensor = 0;
    cost.floats += m * n * (d + dv) / target.device.floatOps;
    cost.shared += getBytes(problem.element) * reads / kChunkBytes;
  }
  return cost;
}

std::string mlir::flashcore::predictLimiter(const AttentionProblem &problem,
                                            const TargetInfo &target,
                                            const ScheduleChoice &choice) {
  // S is written once and read twice, P written once and read once.
  if (choice.isUnfused())
    return llvm::formatv("global memory: {0} bytes of each score",
                         3 * sizeof(float) + 2 * getBytes(problem.element));
  std::optional<int64_t> blocks =
      getNumBlocks(problem, choice.blockM, choice.headGroup);
  std::optional<int64_t> splits = getNumSplits(problem, choice);
  if (blocks && splits && *blocks * *splits < target.device.numSMs)
    return llvm::formatv("latency: {0} blocks for {1} SMs", *blocks * *splits,
                         target.device.numSMs);
  TileCost cost = getTileCost(problem, target, choice);
  std::pair<double, llvm::StringRef> units[] = {{cost.tensor, "tensor cores"},
                                                {cost.special, "exponentials"},
                                                {cost.floats, "f32 arithmetic"},
                                                {cost.shared, "shared memory"}};
  llvm::sort(units, [](auto a, auto b) { return a.first > b.first; });
  return llvm::formatv("{0}: {1:f0} cycles of an SM a key tile, then {2}: "
                       "{3:f0}",
                       units[0].second, units[0].first, units[1].second,
                       units[1].first);
}
