//===- WarpgroupShapes.cpp - Shapes of kernels of warpgroups --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WarpgroupShapes.h"
#include "flashcore/Dialect/FCGPU/IR/FCGPU.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// Whether blocks that walk several tiles gain more by copying ahead than they
/// lose by an even share of them: those of short sequences.
static bool paysPersistence(const AttentionProblem &problem) {
  constexpr int64_t shortNarrow = 1024, shortWide = 2048, shortVeryWide = 4096;
  if (!problem.seqlenK || problem.hasWindow)
    return false;
  // Of sizes that are not known blocks hold more registers, and tensors of
  // lengths may leave some of them little to do.
  if (problem.hasAssumedSizes && (problem.hasLengths || problem.hasLongScores))
    return false;
  switch (getHeadWidth(problem)) {
  case HeadWidth::Narrow:
    return getVisibleKeys(problem) <= shortNarrow;
  case HeadWidth::Wide:
    return getVisibleKeys(problem) <= shortWide;
  case HeadWidth::VeryWide:
    return getVisibleKeys(problem) <=
           (problem.isCausal ? shortWide : shortVeryWide);
  }
  llvm_unreachable("unknown width");
}

static bool hidesKeys(const AttentionProblem &problem) {
  return problem.isCausal || problem.hasWindow;
}

/// Keys, or more than any where they are known at run time only.
static int64_t getSeqlenK(const AttentionProblem &problem) {
  return problem.seqlenK.value_or(std::numeric_limits<int64_t>::max());
}

/// How many rows the SMs work on, in waves of blocks of `blockM` rows, for each
/// row that there is.
static double getGridLoss(const AttentionProblem &problem,
                          const TargetInfo &target, int64_t blockM) {
  std::optional<int64_t> blocks = getNumBlocks(problem, blockM);
  if (!blocks || problem.hasAssumedSizes)
    return 1;
  int64_t numSMs = target.device.numSMs;
  double rows =
      static_cast<double>(*problem.batch * *problem.headsQ * *problem.seqlenQ);
  return llvm::divideCeil(*blocks, numSMs) * numSMs * blockM / rows;
}

/// Whether a grid of blocks of `blockM` rows wastes less than they gain over
/// those of two warpgroups.
static bool paysTallBlocks(const AttentionProblem &problem,
                           const TargetInfo &target, int64_t blockM) {
  constexpr double gain = 1.1;
  constexpr int64_t ofTwo = 2 * kRowsOfGroup;
  return getGridLoss(problem, target, blockM) <=
         gain * getGridLoss(problem, target, ofTwo);
}

/// Four warpgroups of narrow heads: of few registers each, but some multiply
/// while others take exponentials. Under a mask, a warpgroup's own walk leaves
/// fewer of them with work, which overlap makes up for; a softcap needs the
/// registers.
static void addFourGroups(const AttentionProblem &problem,
                          std::vector<WarpgroupShape> &shapes) {
  constexpr int64_t shortKeys = 2048;
  RowMax checkedIfLong =
      getSeqlenK(problem) > shortKeys ? RowMax::Checked : RowMax::Exact;
  bool isPersistent = paysPersistence(problem) && !hidesKeys(problem);
  // The larger tiles are those of whole heads of 64.
  bool isFull = problem.headDimV > 48 && !problem.hasSpecials;
  for (RowSum rowSum : {RowSum::Mma, RowSum::Add}) {
    if (hidesKeys(problem) && !problem.hasSpecials) {
      shapes.push_back({16, 64, rowSum, Overlap::PV, checkedIfLong, false});
      continue;
    }
    if (isFull && !isPersistent)
      shapes.push_back({16, 80, rowSum, Overlap::None, RowMax::Checked, false});
    shapes.push_back(
        {16, 64, rowSum, Overlap::None, RowMax::Checked, isPersistent});
  }
}

/// Two blocks an SM of two warpgroups each, of heads so narrow that half of the
/// registers is enough: one begins or ends, or takes exponentials, while the
/// other multiplies. Where all blocks walk as many tiles and not few, or wait
/// for the exponentials of a softcap, four warpgroups that share their copies
/// of K and V do better.
static void addTwoBlocks(const AttentionProblem &problem,
                         const TargetInfo &target,
                         std::vector<WarpgroupShape> &shapes) {
  constexpr int64_t fewKeys = 1024, blocksOfSM = 2;
  bool isEven = !hidesKeys(problem) || problem.hasSpecials;
  std::optional<int64_t> blocks = getNumBlocks(problem, 2 * kRowsOfGroup);
  if ((isEven && getSeqlenK(problem) > fewKeys) ||
      (blocks && *blocks <= blocksOfSM * target.device.numSMs))
    return;
  for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
    shapes.push_back(
        {8, 64, rowSum, Overlap::None, RowMax::Checked, false, blocksOfSM});
}

/// Three warpgroups of wide heads, of small tiles: in sequences that are long
/// enough for blocks that end one by one.
static void addThreeGroups(const AttentionProblem &problem,
                           std::vector<WarpgroupShape> &shapes) {
  constexpr int64_t shortKeys = 1024, shortMaskedKeys = 2048;
  bool isShort =
      getSeqlenK(problem) <= (hidesKeys(problem) ? shortMaskedKeys : shortKeys);
  // A window has as many keys in a longer sequence.
  isShort &= !(problem.hasAssumedSizes && problem.hasWindow);
  bool isMaskedVeryWide =
      hidesKeys(problem) && getHeadWidth(problem) == HeadWidth::VeryWide;
  if (isShort || isMaskedVeryWide)
    return;
  for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
    shapes.push_back({12, 64, rowSum, Overlap::PV, RowMax::Stale, false});
}

/// The shapes in the order of their speed. Scores that take long to compute
/// leave registers for two warpgroups; reads for every score of narrow heads
/// are not to wait for products. Columns of ones behind V need whole panels,
/// and a product has 256 columns at most.
std::vector<WarpgroupShape>
mlir::flashcore::listShapes(const AttentionProblem &problem,
                            const TargetInfo &target, bool isSmall) {
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  std::vector<WarpgroupShape> shapes;
  if (!problem.hasLongScores) {
    if (isNarrow && !isSmall && !problem.hasBias) {
      addTwoBlocks(problem, target, shapes);
      if (paysTallBlocks(problem, target, 4 * kRowsOfGroup))
        addFourGroups(problem, shapes);
    }
    if (isNarrow && !isSmall && problem.readsPerScore &&
        !problem.hasOpenAddresses())
      shapes.push_back({12, 128, RowSum::Mma, Overlap::None, RowMax::Checked,
                        /*isPersistent=*/false});
    if (!isNarrow && paysTallBlocks(problem, target, 3 * kRowsOfGroup))
      addThreeGroups(problem, shapes);
  }
  std::optional<int64_t> blocks = getNumBlocks(problem, 2 * kRowsOfGroup);
  bool isOneWave = blocks && *blocks <= target.device.numSMs;
  bool isPersistent = !isSmall && !isOneWave && paysPersistence(problem);
  bool isShort = isNarrow && isPersistent;
  RowMax rowMax = isNarrow ? RowMax::Exact : RowMax::Stale;
  for (int64_t numWarps : {12, 8}) {
    if (numWarps > 8 &&
        (!isNarrow || isShort || isSmall || problem.hasLongScores))
      continue;
    for (int64_t blockN : {128, 96, 64}) {
      if (problem.hasBias && blockN == 96) // a few registers too many
        continue;
      for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
        shapes.push_back(
            {numWarps, blockN, rowSum, Overlap::PV, rowMax, isPersistent});
    }
  }
  return shapes;
}

/// A warpgroup of 64 rows an SM: nothing runs beside it, so that its softmax
/// overlaps with its own P V.
static void addSingleBlocks(const AttentionProblem &problem,
                            std::vector<WarpgroupShape> &shapes) {
  constexpr int64_t fewKeys = 768;
  HeadWidth width = getHeadWidth(problem);
  bool isPlain = !problem.hasSpecials && !problem.hasBias &&
                 !problem.hasRegion && !problem.hasLongScores;
  RowMax rowMax =
      width == HeadWidth::Wide && isPlain ? RowMax::Stale : RowMax::Exact;
  bool isLarge = width == HeadWidth::Narrow ||
                 (width == HeadWidth::Wide && !problem.hasWindow &&
                  *problem.seqlenK >= fewKeys);
  for (int64_t blockN : {128, 64})
    for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
      if (isLarge || blockN == 64)
        shapes.push_back({4, blockN, rowSum, Overlap::PV, rowMax});
}

/// Several blocks of a warpgroup an SM, one of which multiplies while another
/// takes exponentials. What scores of narrow heads take longer is hidden by the
/// overlap within each.
static void addSeveralBlocks(const AttentionProblem &problem,
                             int64_t blocksOfSM,
                             std::vector<WarpgroupShape> &shapes) {
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  bool isChanged = problem.hasSpecials || problem.hasBias || problem.hasRegion;
  int64_t minBlocks = isNarrow ? blocksOfSM : 2;
  for (RowSum rowSum : {RowSum::Mma, RowSum::Add}) {
    if (isNarrow && isChanged)
      shapes.push_back({4, 64, rowSum, Overlap::PV, RowMax::Exact});
    else
      shapes.push_back({4, 64, rowSum, Overlap::None, RowMax::Checked,
                        /*isPersistent=*/false, minBlocks});
  }
}

/// Whether warps that divide the keys of 16 or 32 rows do better than a
/// warpgroup, whose 64 rows leave half of the chip idle.
static bool paysDividedKeys(const AttentionProblem &problem,
                            const TargetInfo &target, int64_t blocks) {
  HeadWidth width = getHeadWidth(problem);
  bool isSlow = width == HeadWidth::Wide && problem.hasLongScores;
  return 2 * blocks <= target.device.numSMs && !problem.hasWindow &&
         (width == HeadWidth::Narrow || isSlow);
}

std::vector<WarpgroupShape>
mlir::flashcore::listSmallShapes(const AttentionProblem &problem,
                                 const TargetInfo &target) {
  constexpr int64_t mostBlocksOfSM = 3;
  std::vector<WarpgroupShape> shapes;
  std::optional<int64_t> blocks = getNumBlocks(problem, kRowsOfGroup);
  if (!blocks || !problem.seqlenK || problem.blocks ||
      paysDividedKeys(problem, target, *blocks))
    return shapes;
  int64_t blocksOfSM = llvm::divideCeil(*blocks, target.device.numSMs);
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  if (blocksOfSM <= 1 && isNarrow && problem.hasWindow &&
      !problem.hasLongScores) // few tiles, of which most are partial
    addSeveralBlocks(problem, /*blocksOfSM=*/2, shapes);
  else if (blocksOfSM <= 1)
    addSingleBlocks(problem, shapes);
  else if (blocksOfSM > mostBlocksOfSM)
    return shapes;
  else if (problem.hasLongScores) // in which large blocks lose the least
    return problem.hasAssumedSizes
               ? listShapes(problem, target, /*isSmall=*/true)
               : shapes;
  else if (getHeadWidth(problem) == HeadWidth::VeryWide)
    shapes = {{8, 64, RowSum::Mma, Overlap::PV, RowMax::Stale},
              {8, 64, RowSum::Add, Overlap::PV, RowMax::Stale}};
  else
    addSeveralBlocks(problem, blocksOfSM, shapes);
  return shapes;
}

std::vector<WarpgroupShape>
mlir::flashcore::listInvariantShapes(const AttentionProblem &problem) {
  bool isVeryWide = getHeadWidth(problem) == HeadWidth::VeryWide;
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  std::vector<WarpgroupShape> shapes;
  for (int64_t numWarps : {12, 8})
    if (numWarps == 8 || (isNarrow && !problem.hasLongScores))
      shapes.push_back({numWarps, isVeryWide ? 64 : 128, RowSum::Add,
                        Overlap::PV, RowMax::Exact, /*isPersistent=*/false});
  return shapes;
}
