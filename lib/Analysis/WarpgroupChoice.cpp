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
#include "flashcore/Analysis/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
/// What is tried until all of it fits.
struct Shape {
  int64_t numWarps; ///< that multiply
  int64_t blockN;
  RowSum rowSum;
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

/// Narrow heads leave registers for a third warpgroup, but not where a bias is
/// loaded beside the fragments; in short sequences its rows would be too many
/// for a block. Columns of ones behind V need whole panels, and a product has
/// 256 columns at most.
static std::vector<Shape> listShapes(const AttentionProblem &problem) {
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  bool isShort = isNarrow && paysPersistence(problem);
  std::vector<Shape> shapes;
  for (int64_t numWarps : {12, 8}) {
    if (numWarps > 8 && (!isNarrow || isShort || problem.hasBias))
      continue;
    for (int64_t blockN : {128, 96, 64}) {
      if (problem.hasBias && blockN == 96) // a few registers too many
        continue;
      for (RowSum rowSum : {RowSum::Mma, RowSum::Add})
        shapes.push_back({numWarps, blockN, rowSum});
    }
  }
  return shapes;
}

/// Which blocks run next to each other.
static void decideOrder(const AttentionProblem &problem,
                        const ScheduleOptions &options, ScheduleChoice &choice,
                        ReasonWriter &reasons) {
  // Heads whose K and V stay in L2 together.
  int64_t turn = getHeadWidth(problem) == HeadWidth::VeryWide ? 4 : 8;
  // Those of a persistent grid walk long and short tiles in turn.
  bool isUneven = problem.isCausal && choice.grid == Grid::Full;
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      isUneven ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      isUneven ? "the longest blocks of a causal mask start first"
               : "blocks of one head share its K and V in L2");
  bool takesTurns = choice.gridOrder == GridOrder::HeadFastest;
  choice.gridHeads =
      reasons.decide("grid_heads", options.gridHeads, takesTurns ? turn : 0,
                     takesTurns ? "heads take turns whose K and V fit in L2"
                                : "no head waits for others");
}

/// Decides all fields, with `shape` where nothing else is asked for.
static ScheduleDecision decide(const AttentionProblem &problem,
                               const ScheduleOptions &options,
                               const Shape &shape) {
  ReasonWriter reasons;
  ScheduleChoice choice;
  choice.product = reasons.decide(
      "product", options.product, Product::Warpgroup,
      "wgmma multiplies faster, and bulk copies take no threads from it");
  choice.headGroup = reasons.decide("head_group", options.headGroup, 1,
                                    "the rows of one head fill a block");
  choice.numWarps =
      reasons.decide("num_warps", options.numWarps, shape.numWarps,
                     "as many warpgroups as have registers for S, P and O");
  choice.keyWarps = reasons.decide("key_warps", options.keyWarps, 1,
                                   "query rows are divided, not keys");
  choice.blockM = reasons.decide("block_m", options.blockM,
                                 kRowsOfGroup * choice.numWarps / kWarpsOfGroup,
                                 "64 rows a warpgroup, those of one wgmma");
  choice.blockN = reasons.decide("block_n", options.blockN, shape.blockN,
                                 "the largest tiles that fit registers and "
                                 "shared memory");
  choice.numStages =
      reasons.decide("num_stages", options.numStages, 2,
                     "one tile is copied while another is multiplied");
  choice.query = reasons.decide("query", options.query, QueryPlacement::Shared,
                                "wgmma reads it from there");
  choice.querySteps =
      reasons.decide("query_steps", options.querySteps, 0, "Q is in one place");
  bool isPersistent = paysPersistence(problem);
  choice.grid = reasons.decide(
      "grid", options.grid, isPersistent ? Grid::Persistent : Grid::Full,
      isPersistent ? "the next tile is copied beside the end of the one before"
                   : "the chip hands out tiles as blocks end");
  decideOrder(problem, options, choice, reasons);
  choice.overlap = reasons.decide("overlap", options.overlap, Overlap::PV,
                                  "the softmax of a tile runs beside P V of "
                                  "the one before");
  choice.softmax = reasons.decide("softmax", options.softmax, Softmax::Online,
                                  "any number of key tiles, one at a time");
  bool isNarrow = getHeadWidth(problem) == HeadWidth::Narrow;
  choice.rowMax = reasons.decide(
      "row_max", options.rowMax, isNarrow ? RowMax::Exact : RowMax::Stale,
      isNarrow ? "exponentials are what such heads wait for"
               : "most tiles need no shuffles and no rescaling");
  choice.rowSum = reasons.decide(
      "row_sum", options.rowSum, shape.rowSum,
      shape.rowSum == RowSum::Mma
          ? "columns of ones behind V cost P V less than additions"
          : "V has no whole panels, or there is no room for columns of ones");
  choice.minBlocks = reasons.decide("min_blocks", options.minBlocks, 1,
                                    "a block takes most of an SM's registers");
  choice.keySplits =
      reasons.decide("key_splits", options.keySplits, 1,
                     "a query row is one block's, which needs no merge");
  return {choice, reasons.take()};
}

std::optional<ScheduleDecision>
mlir::flashcore::chooseWarpgroups(const AttentionProblem &problem,
                                  GridFill fill, const TargetInfo &target,
                                  const ScheduleOptions &options) {
  bool isForced = options.product == Product::Warpgroup;
  // A grid that does not fill the chip wants smaller blocks; of few tiles none
  // is copied while another is multiplied.
  constexpr int64_t fewKeys = 256;
  bool isShort = problem.seqlenK && *problem.seqlenK < fewKeys;
  bool hasProducts =
      !findMmaAtoms(target, kWarpsOfGroup, problem.element, ElementKind::F32)
           .empty();
  if (options.product == Product::Warp ||
      (!isForced && (!hasProducts || isShort || !isThroughput(fill))))
    return std::nullopt;
  std::optional<ScheduleDecision> smallest;
  for (const Shape &shape : listShapes(problem)) {
    smallest = decide(problem, options, shape);
    if (!checkSchedule(problem, target, smallest->choice, FieldNames::Options))
      return smallest;
  }
  // What is asked for is refused with the reason of the shape that needs least.
  return isForced ? std::move(smallest) : std::nullopt;
}
