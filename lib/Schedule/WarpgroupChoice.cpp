//===- WarpgroupChoice.cpp - Schedules of kernels of warpgroups -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For chips with products of warpgroups. The shapes are the winners of
// docs/performance-notebook.md ("Warpgroups").
//
//===----------------------------------------------------------------------===//

#include "ProblemClass.h"
#include "ScheduleChooser.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
/// What is tried until all of it fits.
struct Shape {
  int64_t numWarps; ///< that multiply
  int64_t blockN;
  RowSum rowSum;
  Overlap overlap;
  RowMax rowMax;
  bool isPersistent;
  int64_t minBlocks = 1;
};
} // namespace

/// Whether blocks that walk several tiles gain more by copying ahead than they
/// lose by an even share of them: those of short sequences.
static bool paysPersistence(const AttentionProblem &problem) {
  constexpr int64_t shortNarrow = 1024, shortWide = 2048, shortVeryWide = 4096;
  if (!problem.seqlenK || problem.hasWindow)
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
  if (!blocks)
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
                          std::vector<Shape> &shapes) {
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
                         const TargetInfo &target, std::vector<Shape> &shapes) {
  constexpr int64_t fewKeys = 512, blocksOfSM = 2;
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
                           std::vector<Shape> &shapes) {
  constexpr int64_t shortKeys = 1024, shortMaskedKeys = 2048;
  bool isShort =
      getSeqlenK(problem) <= (hidesKeys(problem) ? shortMaskedKeys : shortKeys);
  bool isMaskedVeryWide =
      hidesKeys(problem) && getHeadWidth(problem) == HeadWidth::VeryWide;
  if (isShort || isMaskedVeryWide)
    return;
  for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
    shapes.push_back({12, 64, rowSum, Overlap::PV, RowMax::Stale, false});
}

/// Whether blocks of 128 rows, fewer than fill the chip, do better than smaller
/// ones of single warps: where wide heads walk many keys, or narrow ones so
/// many that they are shared out, and parts of them fill it. Single warps have
/// all queries of a few in a tile.
static bool paysInSmallGrid(const AttentionProblem &problem,
                            const TargetInfo &target) {
  constexpr int64_t fewQueries = 32, blocksOfFewKeys = 64, manyKeys = 2048,
                    someKeys = 1024, keysOfNarrow = 8192;
  int64_t keys = getVisibleKeys(problem);
  int64_t blocks = *getNumBlocks(problem, 2 * kRowsOfGroup);
  if (*problem.seqlenQ <= fewQueries ||
      blocks * (keys / kMinKeysOfSplit) < target.device.numSMs)
    return false;
  if (getHeadWidth(problem) == HeadWidth::Narrow)
    return keys >= keysOfNarrow;
  return keys >= manyKeys || (keys >= someKeys && blocks >= blocksOfFewKeys);
}

/// Heads of a block: of a few queries, each warpgroup takes those of another
/// head, for which K and V are the same.
static int64_t chooseHeadGroup(const AttentionProblem &problem,
                               const ScheduleOptions &options) {
  bool isOpen = !options.numWarps && !options.blockM &&
                !(problem.blocks && problem.blocks->ofHeads);
  if (!isOpen || !problem.seqlenQ || *problem.seqlenQ > kRowsOfGroup ||
      !problem.headsQ || !problem.headsKV)
    return 1;
  return *problem.headsQ / *problem.headsKV % 2 == 0 ? 2 : 1;
}

/// Blocks for the keys of a query tile of a grid that does not fill the chip:
/// as many as end soonest, by how many keys a block walks in the time that the
/// rest takes: its beginning and end, the merge, and partial results, of which
/// there is one a block.
static int64_t chooseKeySplits(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice) {
  constexpr int64_t keysOfBlock = 512, keysOfMerge = 320, keysOfResults = 640;
  if (choice.blockM < 1 || choice.headGroup < 1)
    return 1; // refused later
  int64_t blocks = *getNumBlocks(problem, choice.blockM, choice.headGroup);
  int64_t numSMs = target.device.numSMs, keys = getVisibleKeys(problem);
  int64_t best = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t splits = 1; splits <= kMaxKeySplits; ++splits) {
    if (splits > 1 && keys / splits < kMinKeysOfSplit)
      break;
    int64_t waves = llvm::divideCeil(blocks * splits, numSMs);
    int64_t cost = waves * (llvm::divideCeil(keys, splits) + keysOfBlock);
    if (splits > 1)
      cost += keysOfMerge + keysOfResults * blocks * splits / numSMs;
    if (cost < least) {
      least = cost;
      best = splits;
    }
  }
  return best;
}

/// The shapes in the order of their speed. Scores that take long to compute
/// leave registers for two warpgroups; reads for every score of narrow heads
/// are not to wait for products. Columns of ones behind V need whole panels,
/// and a product has 256 columns at most.
static std::vector<Shape> listShapes(const AttentionProblem &problem,
                                     const TargetInfo &target, bool isSmall) {
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  std::vector<Shape> shapes;
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
  bool isPersistent = !isSmall && paysPersistence(problem);
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

/// The same where the bits of a row must not depend on what else is known: in
/// tiles that fit beside any scores, of head dims alone.
static std::vector<Shape> listInvariantShapes(const AttentionProblem &problem) {
  bool isVeryWide = getHeadWidth(problem) == HeadWidth::VeryWide;
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  std::vector<Shape> shapes;
  for (int64_t numWarps : {12, 8})
    if (numWarps == 8 || (isNarrow && !problem.hasLongScores))
      shapes.push_back({numWarps, isVeryWide ? 64 : 128, RowSum::Add,
                        Overlap::PV, RowMax::Exact, /*isPersistent=*/false});
  return shapes;
}

/// Fits the shape to blocks of lists that are smaller, where warpgroups are
/// asked for whatever they gain.
static void fitToBlocks(const AttentionProblem &problem, Shape &shape) {
  if (!problem.blocks)
    return;
  shape.blockN = fitBlockN(problem, shape.blockN);
  auto rows = [&] { return kRowsOfGroup * shape.numWarps / kWarpsOfGroup; };
  while (shape.numWarps > kWarpsOfGroup &&
         problem.blocks->queries % rows() != 0)
    shape.numWarps -= kWarpsOfGroup;
}

/// Which blocks run next to each other.
static void decideOrder(const AttentionProblem &problem,
                        const ScheduleOptions &options, ScheduleChoice &choice,
                        ReasonWriter &reasons) {
  // Heads whose K and V stay in L2 together.
  int64_t turn = getHeadWidth(problem) == HeadWidth::VeryWide ? 4 : 8;
  // Those of a persistent grid walk long and short tiles in turn.
  bool isUneven = problem.isCausal && choice.grid == Grid::Full &&
                  choice.keySplits == 1 && !options.splitKeys;
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      isUneven ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      isUneven ? "the longest blocks of a causal mask start first"
               : "blocks of one head share its K and V in L2");
  bool takesTurns =
      choice.gridOrder == GridOrder::HeadFastest && !options.splitKeys;
  choice.gridHeads =
      reasons.decide("grid_heads", options.gridHeads, takesTurns ? turn : 0,
                     takesTurns ? "heads take turns whose K and V fit in L2"
                                : "no head waits for others");
}

static llvm::StringRef explain(RowMax rowMax) {
  switch (rowMax) {
  case RowMax::Exact:
    return "exponentials are what such heads wait for";
  case RowMax::Stale:
  case RowMax::Folded:
    return "most tiles need no shuffles and no rescaling";
  case RowMax::Checked:
    return "no comparison delays an exponential";
  }
  llvm_unreachable("unknown row_max");
}

/// How the rows of S and P are followed and summed.
static void decideRowPolicies(const AttentionProblem &problem,
                              const ScheduleOptions &options,
                              const Shape &shape, ScheduleChoice &choice,
                              ReasonWriter &reasons) {
  bool isInvariant = asksForInvariance(options);
  choice.rowMax = reasons.decide("row_max", options.rowMax, shape.rowMax,
                                 isInvariant ? llvm::StringRef(kInvariantReason)
                                             : explain(shape.rowMax));
  choice.rowSum = reasons.decide(
      "row_sum", options.rowSum, shape.rowSum,
      isInvariant ? llvm::StringRef(kInvariantReason)
      : shape.rowSum == RowSum::Mma
          ? "columns of ones behind V cost P V less than additions"
      : problem.hasLse
          ? llvm::StringRef(kLseReason)
          : "V has no whole panels, no room for columns of ones, or a dropout");
}

/// What runs beside the softmax of a tile.
static void decideSoftmax(const ScheduleOptions &options, const Shape &shape,
                          ScheduleChoice &choice, ReasonWriter &reasons) {
  choice.overlap = reasons.decide(
      "overlap", options.overlap, shape.overlap,
      shape.overlap == Overlap::PV
          ? "the softmax of a tile runs beside P V of the one before"
          : "the softmax of a tile runs beside the products of other "
            "warpgroups");
  choice.softmax = reasons.decide("softmax", options.softmax, Softmax::Online,
                                  "any number of key tiles, one at a time");
}

/// How many blocks share the keys of a query tile.
static void decideSplits(const AttentionProblem &problem,
                         const TargetInfo &target,
                         const ScheduleOptions &options, bool isSmall,
                         ScheduleChoice &choice, ReasonWriter &reasons) {
  std::optional<int64_t> mostSplits =
      getMostSplits(problem, target, options, choice, /*paysSplitCount=*/false);
  int64_t keySplits = mostSplits ? *mostSplits
                      : isSmall && !problem.blocks
                          ? chooseKeySplits(problem, target, choice)
                          : 1;
  choice.keySplits = reasons.decide(
      "key_splits", options.keySplits, keySplits,
      keySplits > 1 ? "blocks for SMs that would idle, of fewer keys each"
                    : "a query row is one block's, which needs no merge");
  choice.splitCount =
      reasons.decide("split_count", options.splitCount, SplitCount::Fixed,
                     "key_splits says how many blocks share the keys");
}

/// Decides all fields, with `shape` where nothing else is asked for.
static ScheduleDecision decide(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleOptions &options,
                               const Shape &shape, bool isSmall) {
  ReasonWriter reasons;
  ScheduleChoice choice;
  choice.product = reasons.decide(
      "product", options.product, Product::Warpgroup,
      "wgmma multiplies faster, and bulk copies take no threads from it");
  int64_t headGroup = chooseHeadGroup(problem, options);
  choice.headGroup = reasons.decide(
      "head_group", options.headGroup, headGroup,
      headGroup == 1 ? "the rows of one head fill a block"
                     : "of few queries, heads share the copies of K and V");
  choice.numWarps =
      reasons.decide("num_warps", options.numWarps, shape.numWarps,
                     "as many warpgroups as have registers for S, P and O");
  choice.keyWarps = reasons.decide("key_warps", options.keyWarps, 1,
                                   "query rows are divided, not keys");
  int64_t rows = kRowsOfGroup * choice.numWarps / kWarpsOfGroup;
  choice.blockM = reasons.decide("block_m", options.blockM,
                                 rows / std::max<int64_t>(choice.headGroup, 1),
                                 "64 rows a warpgroup, those of one wgmma");
  choice.blockN = reasons.decide(
      "block_n", options.blockN, shape.blockN,
      asksForInvariance(options)
          ? llvm::StringRef(kInvariantReason)
          : "the largest tiles that fit registers and shared memory");
  choice.numStages =
      reasons.decide("num_stages", options.numStages, 2,
                     "one tile is copied while another is multiplied");
  choice.query = reasons.decide("query", options.query, QueryPlacement::Shared,
                                "wgmma reads it from there");
  choice.querySteps =
      reasons.decide("query_steps", options.querySteps, 0, "Q is in one place");
  choice.grid = reasons.decide(
      "grid", options.grid, shape.isPersistent ? Grid::Persistent : Grid::Full,
      shape.isPersistent
          ? "the next tile is copied beside the end of the one before"
          : "the chip hands out tiles as blocks end");
  decideSplits(problem, target, options, isSmall, choice, reasons);
  decideOrder(problem, options, choice, reasons);
  decideSoftmax(options, shape, choice, reasons);
  decideRowPolicies(problem, options, shape, choice, reasons);
  choice.minBlocks =
      reasons.decide("min_blocks", options.minBlocks, shape.minBlocks,
                     shape.minBlocks == 1
                         ? "a block takes most of an SM's registers"
                         : "one block multiplies while another begins or ends");
  choice.output =
      reasons.decide("output", options.output, OutputRoute::Direct,
                     "lanes store what they hold, 16 bytes at a time");
  choice.copies = decideCopies(target, options, reasons);
  choice.exchange = reasons.decide("exchange", options.exchange, Exchange::None,
                                   "wgmma takes tiles from panels");
  decidePromises(options, choice, reasons);
  return {choice, reasons.take()};
}

std::optional<ScheduleDecision>
mlir::flashcore::chooseWarpgroups(const AttentionProblem &problem,
                                  GridFill fill, const TargetInfo &target,
                                  const ScheduleOptions &options) {
  bool isForced = options.product == Product::Warpgroup;
  bool isInvariant = asksForInvariance(options);
  // Of few tiles none is copied while another is multiplied.
  constexpr int64_t fewKeys = 256;
  bool isShort = problem.seqlenK && *problem.seqlenK < fewKeys;
  bool hasProducts = !findMmaAtoms(target, OperandPlace::SharedMemory,
                                   problem.element, ElementKind::F32)
                          .empty();
  bool isSmall = !isThroughput(fill) && getNumBlocks(problem, kRowsOfGroup) &&
                 problem.seqlenK;
  bool pays =
      isThroughput(fill) || (isSmall && paysInSmallGrid(problem, target));
  if ((options.product && !isForced) ||
      (!isForced && (!hasProducts || isShort || !pays || isInvariant ||
                     !problem.hasBulkRows())))
    return std::nullopt;
  std::optional<ScheduleDecision> smallest;
  for (Shape shape : isInvariant ? listInvariantShapes(problem)
                                 : listShapes(problem, target, isSmall)) {
    if (isForced)
      fitToBlocks(problem, shape);
    smallest = decide(problem, target, options, shape, isSmall && !isInvariant);
    if (!checkSchedule(problem, target, smallest->choice, FieldNames::Options))
      return smallest;
  }
  // What is asked for is refused with the reason of the shape that needs least.
  return isForced ? std::move(smallest) : std::nullopt;
}
