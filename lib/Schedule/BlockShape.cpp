//===- BlockShape.cpp - Warps, rows and key tiles of a block --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first fields of a schedule, which fit a block to the chip's registers and
// shared memory and the grid to its SMs.
//
//===----------------------------------------------------------------------===//

#include "ScheduleChooser.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

bool mlir::flashcore::isShapeOpen(const ScheduleOptions &options) {
  return !options.blockM && !options.blockN && !options.numWarps &&
         !options.numStages;
}

/// Key rows of a tile where warps divide the keys.
static constexpr int64_t kDividedBlockN = 32;

/// They pay for a merge in the end, so only a grid that leaves the chip idle
/// wants them, and each needs a tile of its own.
int64_t mlir::flashcore::chooseKeyWarps(const AttentionProblem &problem,
                                        const ScheduleOptions &options,
                                        GridFill fill) {
  HeadWidth width = getHeadWidth(problem);
  if (fill != GridFill::Sparse || width == HeadWidth::VeryWide ||
      !problem.seqlenK || problem.hasWindow || problem.blocks ||
      !isShapeOpen(options) || options.headGroup > 1 || options.keySplits > 1 ||
      asksForInvariance(options))
    return 1;
  // Four warps may have to divide the columns of O, by halves.
  bool hasFour = width == HeadWidth::Narrow && problem.getColumnsV() % 16 == 0;
  int64_t keyWarps = hasFour ? 4 : 2;
  return *problem.seqlenK >= keyWarps * kDividedBlockN ? keyWarps : 1;
}

/// The fewer, the more blocks. Causal
/// blocks then differ less in length; others want the least copies of K and V.
int64_t mlir::flashcore::chooseSharedRows(const AttentionProblem &problem,
                                          const TargetInfo &target,
                                          int64_t keyWarps) {
  std::optional<int64_t> blocks = getNumBlocks(problem, 16);
  bool isFilled = blocks && *blocks > target.device.numSMs;
  bool hasRegisters =
      getHeadWidth(problem) == HeadWidth::Narrow && !problem.hasLongScores;
  bool wants32 = keyWarps > 2 && isFilled && hasRegisters && !problem.isCausal;
  auto canShare = [&](int64_t rows) {
    return problem.getColumnsV() % (8 * getShareGrid(rows, keyWarps).cols) == 0;
  };
  int64_t rows = wants32 ? 32 : 16;
  while (!canShare(rows) && rows < 64)
    rows += 16;
  return rows;
}

/// Warps for a block of `blockM` rows: of `warpM` rows each if that comes out
/// even, else as many as do; at most 8.
static int64_t chooseNumWarps(int64_t blockM, int64_t warpM) {
  constexpr int64_t maxWarps = 8;
  if (blockM % warpM == 0 && blockM / warpM <= maxWarps)
    return blockM / warpM;
  for (int64_t warps = maxWarps; warps > 1; --warps)
    if (blockM % (16 * warps) == 0)
      return warps;
  return 1;
}

/// Keys of a tile when K and V are all that counts: 16 KiB of them, so that a
/// few stages keep as much in flight as an SM needs.
static int64_t chooseStreamedKeys(const AttentionProblem &problem) {
  constexpr int64_t tileBytes = 16 * 1024, elementBytes = 2;
  int64_t keyBytes =
      elementBytes * (problem.getColumns() + problem.getColumnsV());
  int64_t keys = llvm::bit_floor(static_cast<uint64_t>(tileBytes / keyBytes));
  return std::clamp<int64_t>(keys, 16, 64);
}

/// Whether the addresses of what a warp copies leave no registers for a third
/// stage: each row's has a stride of its own to add up.
static bool isFullOfAddresses(const AttentionProblem &problem,
                              const ScheduleChoice &choice) {
  constexpr int64_t manyColumns = 128;
  int64_t dim = getWidestDim(problem);
  return problem.hasOpenStrides &&
         (getHeadWidth(problem) == HeadWidth::VeryWide ||
          (dim >= manyColumns && choice.numWarps == 1));
}

/// Stages for 32 KiB of such tiles in flight, or as many as fit: what more
/// stages add to the start of a block costs more than they hide.
static int64_t chooseStreamedStages(const AttentionProblem &problem,
                                    const TargetInfo &target,
                                    const ScheduleChoice &choice) {
  ScheduleChoice streamed = choice;
  // What is too large is refused later.
  streamed.blockM = std::min(choice.blockM, kMaxRows);
  streamed.blockN = std::min(choice.blockN, kMaxRows);
  streamed.keyWarps = 1;
  streamed.numStages = isFullOfAddresses(problem, choice) ? 2 : 3;
  while (streamed.numStages > 2 &&
         getSharedMemoryBytes(problem, streamed) > target.sharedMemoryPerBlock)
    --streamed.numStages;
  return streamed.numStages;
}

/// Tiles for which S still fits beside an O of up to 32 x 128 a warp, where
/// sizes that are known leave registers, unless a mask and a softcap take them,
/// or LSE, whose sums are of P before it is rounded.
/// Another tile is a partial one for most sequences, which must be worth it. A
/// single block of queries has bounds that LLVM knows, and spreads over
/// registers.
static constexpr int64_t kMiddleBlockN = 48;
static bool fitsMiddleTiles(const AttentionProblem &problem, GridFill fill) {
  constexpr int64_t minKeys = 512, blockRows = 128;
  // Two ends to compare with: of the sequence, and of what a query sees.
  bool hasTwoEnds = problem.isTopLeft && problem.seqlenQ > problem.seqlenK;
  bool hasSpareRegisters = (!problem.hasSpecials || !problem.isCausal) &&
                           !problem.hasLse && !hasTwoEnds;
  return fill == GridFill::Full && hasSpareRegisters &&
         *problem.seqlenQ > blockRows && !problem.hasOpenAddresses() &&
         *problem.seqlenK >= minKeys;
}

int64_t mlir::flashcore::fitBlockN(const AttentionProblem &problem,
                                   int64_t blockN) {
  constexpr int64_t unit = 16;
  if (problem.blocks)
    while (blockN > unit && problem.blocks->keys % blockN != 0)
      blockN -= unit;
  return blockN;
}

void ScheduleChooser::decideHeadGroup() {
  bool isGrouped = groupsHeads();
  choice.headGroup = reasons.decide(
      "head_group", options.headGroup, isGrouped ? getFewRowHeads(problem) : 1,
      isGrouped ? "the heads of a kv head use the same copy of K and V"
                : "blocks of one kv head share its K and V in L2");
}

/// Very wide heads have few rows a warp: more warps share K and V, where Q has
/// to be read again and again.
bool ScheduleChooser::hasManyWarps() const {
  return width == HeadWidth::VeryWide && isFilled && !dividesKeys() &&
         query != QueryPlacement::Registers &&
         getSharedMemoryBytes(
             problem, {/*blockM=*/warpM * kManyWarps, /*blockN=*/32, kManyWarps,
                       /*numStages=*/2}) <= target.sharedMemoryPerBlock;
}

/// As many warps, or fewer whose rows divide those of a block of lists.
int64_t ScheduleChooser::fitBlocks(int64_t warps) const {
  if (problem.blocks && !options.blockM)
    while (warps > 1 && problem.blocks->queries % (warps * warpM) != 0)
      --warps;
  return warps;
}

/// Groups of warps with rows of their own.
int64_t ScheduleChooser::chooseRowWarps() const {
  if (groupsHeads())
    return fitBlocks(getFewRowWarps(problem));
  int64_t warps = dividesKeys() ? 1 : fill == GridFill::Sparse ? 2 : 4;
  if (options.blockM)
    warps = chooseNumWarps(options.blockM, warpM);
  else if (hasManyWarps())
    warps = kManyWarps;
  // The heads of a block share its warps.
  return fitBlocks(std::max<int64_t>(warps / choice.headGroup, 1));
}

void ScheduleChooser::decideWarps() {
  choice.numWarps = reasons.decide(
      "num_warps", options.numWarps,
      choice.headGroup * chooseRowWarps() * keyWarps,
      options.blockM ? "what block_m comes out even with" : describe(fill));
  choice.keyWarps = reasons.decide(
      "key_warps", options.keyWarps, keyWarps,
      dividesKeys() ? "few blocks: warps that wait for no other divide the keys"
                    : "the warps of a block share K and V, not query rows");
}

void ScheduleChooser::decideBlockM() {
  int64_t rowWarps = choice.getRowWarps();
  choice.blockM = reasons.decide(
      "block_m", options.blockM, warpM * rowWarps,
      llvm::Twine(warpM) + " rows a warp: " + describe(width) +
          (isTight ? ", short of registers, " : ", ") + describe(fill));
  if (rowWarps > 0)
    warpM = choice.getWarpM();
}

/// Whether registers are left for larger tiles: of 64 keys beside 16 rows a
/// warp, else of 48. The narrower of wide heads keep more of Q in them.
bool ScheduleChooser::hasSpareRegisters() const {
  constexpr int64_t narrowest = 80;
  return width == HeadWidth::Wide && getWidestDim(problem) > narrowest;
}

/// Whether tiles of 64 keys fit, in registers (of 16 rows a warp) or else in
/// the shared memory of blocks with many warps. They take fewer barriers, and
/// read Q from shared memory less often.
bool ScheduleChooser::fitsLargerTiles(bool isSmall) const {
  bool sharesKeys = width == HeadWidth::VeryWide &&
                    choice.numWarps == kManyWarps && isFilled &&
                    !problem.hasLongScores && !problem.hasWindow;
  bool hasFewAddresses = !problem.hasLongScores || !problem.hasOpenAddresses();
  // The widest O and S of 64 keys take all registers that addresses known when
  // compiling leave.
  bool isPlain = width == HeadWidth::VeryWide && fill == GridFill::Half &&
                 warpM <= 16 && !problem.isCausal && !problem.hasWindow &&
                 !problem.hasSpecials && !problem.hasLongScores &&
                 !problem.hasOpenAddresses();
  if (!sharesKeys && !isPlain && !(isSmall && hasFewAddresses))
    return false;
  if (choice.getRowWarps() < 1) // refused later
    return false;
  ScheduleChoice larger = choice;
  larger.blockN = 64;
  larger.numStages = options.numStages ? options.numStages : 2;
  return options.grid.value_or(Grid::Full) == Grid::Full &&
         getSharedMemoryBytes(problem, larger) <= target.sharedMemoryPerBlock;
}

/// Keys of a tile that fit whatever else is known of a problem with these head
/// dims: beside the most query rows of a block that streams keys, in the least
/// shared memory of all chips, and beside any O, S and addresses in registers.
static int64_t chooseInvariantKeys(const AttentionProblem &problem) {
  constexpr int64_t rows = 128, keys = 32, stages = 2, elementBytes = 2;
  constexpr int64_t leastSharedMemory = 99 * 1024, widestOutput = 224;
  if (getHeadWidth(problem) == HeadWidth::Narrow)
    return 64;
  int64_t bytes =
      elementBytes * (rows * problem.headDim +
                      stages * keys * (problem.headDim + problem.headDimV));
  bool fits = bytes <= leastSharedMemory && problem.headDimV <= widestOutput;
  return fits ? keys : 16;
}

/// Key rows of a tile.
int64_t ScheduleChooser::chooseBlockN() const {
  if (isInvariant())
    return chooseInvariantKeys(problem);
  // The widest O leaves room for the smallest S only, beside more addresses.
  bool hasFarRows =
      fill == GridFill::Sparse && problem.isCausal && problem.hasOpenStrides;
  if (problem.headDimV > 224 &&
      (problem.hasLongScores || problem.hasWindow || hasFarRows))
    return 16;
  if (hasFewRows())
    return chooseStreamedKeys(problem);
  if (dividesKeys())
    return kDividedBlockN;
  bool isSmall = hasSpareRegisters() && warpM <= 16 &&
                 (isFilled || fill == GridFill::Half);
  if (fitsLargerTiles(isSmall))
    return 64;
  if (!isSmall && hasSpareRegisters() && fitsMiddleTiles(problem, fill))
    return kMiddleBlockN;
  if (width != HeadWidth::Narrow)
    return 32;
  return hasLargeTiles() ? 128 : 64;
}

void ScheduleChooser::decideBlockN() {
  bool hidesLatency = hasFewRows() || (width == HeadWidth::Narrow &&
                                       hasLargeTiles() && !dividesKeys());
  choice.blockN = reasons.decide(
      "block_n", options.blockN, fitBlockN(problem, chooseBlockN()),
      isInvariant() ? llvm::Twine(kInvariantReason)
      : hidesLatency
          ? llvm::Twine("few blocks: more bytes in flight hide "
                        "latency")
          : llvm::Twine("S beside O in registers: ") + describe(width));
}

/// Of sizes that are not known, narrow heads whose keys warps divide wait
/// longer for their first tiles: a third stage of them, where it fits.
bool ScheduleChooser::paysDividedStages() const {
  if (width != HeadWidth::Narrow || !dividesKeys() || !problem.hasAssumedSizes)
    return false;
  ScheduleChoice deeper = choice;
  deeper.numStages = 3;
  return !checkFields(deeper, FieldNames::Options) &&
         getSharedMemoryBytes(problem, deeper) <= target.sharedMemoryPerBlock;
}

void ScheduleChooser::decideNumStages() {
  bool hasManyStages =
      (width == HeadWidth::Wide && isSparse() && !dividesKeys()) ||
      paysDividedStages();
  int64_t numStages = hasManyStages ? 3 : 2;
  // Fewer warps than heads are refused later.
  if (hasFewRows() && choice.getRowWarps() > 0)
    numStages = chooseStreamedStages(problem, target, choice);
  choice.numStages =
      reasons.decide("num_stages", options.numStages, numStages,
                     hasManyStages || hasFewRows()
                         ? "few blocks: more bytes in flight hide latency"
                         : "one tile is copied while one is used");
}

void ScheduleChooser::decideBlockShape() {
  decideHeadGroup();
  decideWarps();
  decideBlockM();
  decideBlockN();
  decideNumStages();
}
