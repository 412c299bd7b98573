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

#include "ScheduleChooser.h"
#include "flashcore/Analysis/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

/// Decides all fields, of blocks of `numWarps` warps that multiply and tiles of
/// `blockN` keys where nothing else is asked for.
static ScheduleDecision decide(const ScheduleOptions &options, int64_t numWarps,
                               int64_t blockN) {
  ReasonWriter reasons;
  ScheduleChoice choice;
  choice.product = reasons.decide(
      "product", options.product, Product::Warpgroup,
      "wgmma multiplies faster, and bulk copies take no threads from it");
  choice.headGroup = reasons.decide("head_group", options.headGroup, 1,
                                    "the rows of one head fill a block");
  choice.numWarps =
      reasons.decide("num_warps", options.numWarps, numWarps,
                     "as many warpgroups as have registers for S, P and O");
  choice.keyWarps = reasons.decide("key_warps", options.keyWarps, 1,
                                   "query rows are divided, not keys");
  choice.blockM = reasons.decide("block_m", options.blockM,
                                 kRowsOfGroup * choice.numWarps / kWarpsOfGroup,
                                 "64 rows a warpgroup, those of one wgmma");
  choice.blockN = reasons.decide("block_n", options.blockN, blockN,
                                 "the largest tiles that fit registers and "
                                 "shared memory");
  choice.numStages =
      reasons.decide("num_stages", options.numStages, 2,
                     "one tile is copied while another is multiplied");
  choice.query = reasons.decide("query", options.query, QueryPlacement::Shared,
                                "wgmma reads it from there");
  choice.querySteps =
      reasons.decide("query_steps", options.querySteps, 0, "Q is in one place");
  choice.gridOrder =
      reasons.decide("grid_order", options.gridOrder, GridOrder::QueryFastest,
                     "blocks of one head share its K and V in "
                     "L2");
  choice.gridHeads = reasons.decide("grid_heads", options.gridHeads, 0,
                                    "no head waits for others");
  choice.overlap = reasons.decide("overlap", options.overlap, Overlap::PV,
                                  "the softmax of a tile runs beside P V of "
                                  "the one before");
  choice.softmax = reasons.decide("softmax", options.softmax, Softmax::Online,
                                  "any number of key tiles, one at a time");
  choice.rowMax = reasons.decide("row_max", options.rowMax, RowMax::Exact,
                                 "right for all scores");
  choice.rowSum = reasons.decide("row_sum", options.rowSum, RowSum::Add,
                                 "needs no product of its own");
  choice.minBlocks = reasons.decide("min_blocks", options.minBlocks, 1,
                                    "a block takes most of an SM's registers");
  choice.keySplits =
      reasons.decide("key_splits", options.keySplits, 1,
                     "a query row is one block's, which needs no merge");
  choice.grid = reasons.decide("grid", options.grid, Grid::Full,
                               "the chip hands out tiles as blocks end");
  return {choice, reasons.take()};
}

std::optional<ScheduleDecision>
mlir::flashcore::chooseWarpgroups(const AttentionProblem &problem,
                                  const TargetInfo &target,
                                  const ScheduleOptions &options) {
  bool isForced = options.product == Product::Warpgroup;
  // A grid that does not fill the chip wants smaller blocks.
  bool hasProducts =
      !findMmaAtoms(target, kWarpsOfGroup, problem.element, ElementKind::F32)
           .empty();
  if (options.product == Product::Warp ||
      (!isForced &&
       (!hasProducts || !isThroughput(getGridFill(problem, target)))))
    return std::nullopt;
  // Narrow heads leave registers for a third warpgroup.
  constexpr int64_t narrow = 64;
  SmallVector<int64_t> warps{8};
  if (std::max(problem.headDim, problem.headDimV) <= narrow)
    warps.insert(warps.begin(), 12);
  std::optional<ScheduleDecision> first;
  for (int64_t numWarps : warps)
    for (int64_t blockN : {128, 96, 64}) {
      ScheduleDecision decision = decide(options, numWarps, blockN);
      if (!checkSchedule(problem, target, decision.choice, FieldNames::Options))
        return decision;
      if (!first)
        first = std::move(decision);
    }
  // What is asked for is refused with a reason.
  return isForced ? first : std::nullopt;
}
