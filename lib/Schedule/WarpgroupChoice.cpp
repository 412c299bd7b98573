//===- WarpgroupChoice.cpp - Schedules of kernels of warpgroups -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For chips with products of warpgroups, in the first of the shapes of
// WarpgroupShapes.h that fits.
//
//===----------------------------------------------------------------------===//

#include "ProblemClass.h"
#include "ScheduleChooser.h"
#include "WarpgroupShapes.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

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

/// Fits the shape to blocks of lists that are smaller, where warpgroups are
/// asked for whatever they gain.
static void fitToBlocks(const AttentionProblem &problem,
                        WarpgroupShape &shape) {
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
                              const WarpgroupShape &shape,
                              ScheduleChoice &choice, ReasonWriter &reasons) {
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
static void decideSoftmax(const ScheduleOptions &options,
                          const WarpgroupShape &shape, ScheduleChoice &choice,
                          ReasonWriter &reasons) {
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
                               const WarpgroupShape &shape, bool isSmall) {
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
  bool isTall = isThroughput(fill) || (isSmall && !problem.hasAssumedSizes &&
                                       paysInSmallGrid(problem, target));
  std::vector<WarpgroupShape> small;
  if (isSmall && !isTall && fill != GridFill::FewRows && !isForced &&
      !isInvariant)
    small = listSmallShapes(problem, target);
  bool pays = isTall || !small.empty();
  if ((options.product && !isForced) ||
      (!isForced && (!hasProducts || isShort || !pays || isInvariant ||
                     !problem.hasBulkRows())))
    return std::nullopt;
  std::vector<WarpgroupShape> shapes =
      isInvariant      ? listInvariantShapes(problem)
      : !small.empty() ? std::move(small)
                       : listShapes(problem, target, isSmall);
  bool sharesKeys = isSmall && !isInvariant && !problem.hasAssumedSizes;
  std::optional<ScheduleDecision> smallest;
  for (WarpgroupShape shape : shapes) {
    if (isForced)
      fitToBlocks(problem, shape);
    smallest = decide(problem, target, options, shape, sharesKeys);
    if (!checkSchedule(problem, target, smallest->choice, FieldNames::Options))
      return smallest;
  }
  // What is asked for is refused with the reason of the shape that needs least.
  return isForced ? std::move(smallest) : std::nullopt;
}
