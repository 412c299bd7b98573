//===- CallClass.cpp - Kernels by the sizes of a call ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/CallClass.h"
#include "ProblemClass.h"
#include "flashcore/Schedule/ScheduleChoice.h"
#include "flashcore/Target/Atoms.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// Below it, blocks that begin and end are most of a grid's time.
static constexpr int64_t kShortKeys = 1024;

static llvm::ArrayRef<CallClass> getAllClasses() {
  static constexpr CallClass classes[] = {
      {ExpectedGrid::Quarter, 1, std::nullopt},
      {ExpectedGrid::Half, 2, std::nullopt},
      {ExpectedGrid::One, 4, std::nullopt},
      {ExpectedGrid::Two, 8, std::nullopt},
      {ExpectedGrid::Three, 12, std::nullopt},
      {ExpectedGrid::Short, std::nullopt, kShortKeys},
      {ExpectedGrid::Any, std::nullopt, std::nullopt}};
  return classes;
}

llvm::ArrayRef<CallClass>
mlir::flashcore::getCallClasses(const TargetInfo &target) {
  // Without cp.async blocks are chosen by what the chip's products take.
  llvm::ArrayRef<CallClass> classes = getAllClasses();
  return hasAsyncCopies(target) ? classes : classes.take_back(1);
}

std::string CallClass::describe() const {
  if (blocksOfFourSMs)
    return llvm::formatv("at most {0} blocks of {1} query rows an SM",
                         llvm::formatv("{0:F}", *blocksOfFourSMs / 4.0).str(),
                         kRowsOfGroup);
  if (seqlenK)
    return llvm::formatv("more blocks, over at most {0} keys", *seqlenK);
  return "all others";
}

/// Of any sizes: more blocks than a number holds are as many as one holds.
static int64_t countBlocks(int64_t heads, int64_t seqlenQ) {
  auto rows = static_cast<uint64_t>(std::max<int64_t>(seqlenQ, 0));
  uint64_t blocks = llvm::SaturatingMultiply(
      static_cast<uint64_t>(std::max<int64_t>(heads, 0)),
      llvm::divideCeil(rows, static_cast<uint64_t>(kRowsOfGroup)));
  return static_cast<int64_t>(
      std::min<uint64_t>(blocks, std::numeric_limits<int64_t>::max() / 4));
}

ExpectedGrid mlir::flashcore::getCallClass(const TargetInfo &target,
                                           int64_t heads, int64_t seqlenQ,
                                           int64_t seqlenK, int64_t numSMs) {
  constexpr int64_t mostSMs = 1 << 20; // of any device
  numSMs = std::clamp<int64_t>(numSMs, 0, mostSMs);
  int64_t blocks = countBlocks(heads, seqlenQ);
  auto meets = [&](const CallClass &found) {
    return (!found.blocksOfFourSMs ||
            4 * blocks <= *found.blocksOfFourSMs * numSMs) &&
           (!found.seqlenK || seqlenK <= *found.seqlenK);
  };
  return llvm::find_if(getCallClasses(target), meets)->grid;
}

llvm::ArrayRef<int64_t>
mlir::flashcore::getKnownSplits(const TargetInfo &target) {
  static constexpr int64_t splits[] = {1, 2, 3, 4, 5, 8};
  return hasAsyncCopies(target) ? llvm::ArrayRef<int64_t>(splits)
                                : llvm::ArrayRef<int64_t>(splits).take_front();
}

int64_t mlir::flashcore::getCallSplits(const TargetInfo &target,
                                       const AttentionProblem &call,
                                       int64_t numSMs) {
  constexpr int64_t largest = int64_t(1) << 31; // of all numbers
  auto fits = [](std::optional<int64_t> size) {
    return size && *size >= 1 && *size < largest;
  };
  if (!fits(call.batch) || !fits(call.headsQ) || !fits(call.headsKV) ||
      !fits(call.seqlenQ) || !fits(call.seqlenK) || !fits(numSMs) ||
      *call.headsQ % *call.headsKV != 0)
    return 1;
  int64_t groups = *call.headsQ / getFewRowHeads(call);
  int64_t tiles = llvm::SaturatingMultiply<uint64_t>(*call.batch, groups);
  // A growing cache changes its kernel seldom.
  int64_t keys = llvm::bit_floor(static_cast<uint64_t>(*call.seqlenK));
  if (tiles >= largest || keys < 2 * kMinKeysOfSplit)
    return 1;
  auto pays = [&](int64_t few, int64_t more) {
    return paysMoreSplits(tiles, keys, few, more, numSMs);
  };
  int64_t best = 1;
  for (int64_t splits : getKnownSplits(target))
    if (keys / splits >= kMinKeysOfSplit && pays(best, splits))
      best = splits;
  int64_t ofCall = std::clamp<int64_t>(kStreamingBlocksPerSM * numSMs / tiles,
                                       1, keys / kMinKeysOfSplit);
  // A number that the kernel knows is the faster of two that are the same.
  return ofCall > best && pays(best, ofCall) ? 0 : best;
}

AttentionProblem mlir::flashcore::assumeSizesOf(AttentionProblem problem,
                                                ExpectedGrid grid,
                                                int64_t numSMs) {
  // Of a grid that is large but short, and of sequences in any.
  constexpr int64_t manyBlocksOfFourSMs = 32, someQueries = 512;
  if (grid == ExpectedGrid::Any)
    return problem;
  auto assume = [&](std::optional<int64_t> &size, int64_t value) {
    problem.hasAssumedSizes |= !size;
    size = size.value_or(std::max<int64_t>(value, 1));
  };
  const CallClass *found =
      llvm::find_if(getAllClasses(),
                    [&](const CallClass &other) { return other.grid == grid; });
  int64_t blocks =
      found->blocksOfFourSMs.value_or(manyBlocksOfFourSMs) * numSMs / 4;
  assume(problem.seqlenK, kShortKeys);
  assume(problem.batch, 1);
  auto divide = [](int64_t blocks, int64_t by) {
    return blocks / std::max<int64_t>(by, 1);
  };
  if (problem.headsQ) // then there are as many queries as make the blocks
    assume(problem.seqlenQ,
           kRowsOfGroup * divide(blocks, *problem.batch * *problem.headsQ));
  assume(problem.seqlenQ, someQueries);
  int64_t ofHead = llvm::divideCeil(static_cast<uint64_t>(*problem.seqlenQ),
                                    static_cast<uint64_t>(kRowsOfGroup));
  assume(problem.headsQ, divide(blocks, *problem.batch * ofHead));
  assume(problem.headsKV, *problem.headsQ);
  return problem;
}
