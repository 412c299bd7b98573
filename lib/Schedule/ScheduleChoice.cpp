//===- ScheduleChoice.cpp - Choosing a kernel's schedule ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The defaults are the winners of the measurements that
// docs/performance-notebook.md keeps ("Default schedules"); everything a user
// forces is kept, and refused when it cannot work.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ScheduleChoice.h"
#include "ScheduleChooser.h"
#include "flashcore/Schedule/CallClass.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <tuple>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

void mlir::flashcore::decidePromises(const ScheduleOptions &options,
                                     ScheduleChoice &choice,
                                     ReasonWriter &reasons) {
  choice.invariance =
      reasons.decide("invariance", options.invariance, Invariance::None,
                     "a row may depend on its batch, which is faster");
  choice.splitKeys = reasons.decide("split_keys", options.splitKeys, 0,
                                    "key_splits says how keys are split");
  choice.expectedQueries = reasons.decide(
      "expected_queries", options.expectedQueries, 0,
      "where they are not known, there are enough to fill blocks of 128");
  choice.expectedGrid =
      reasons.decide("expected_grid", options.expectedGrid, ExpectedGrid::Any,
                     "where sizes are not known, they are large");
}

CopyPath mlir::flashcore::decideCopies(const TargetInfo &target,
                                       const ScheduleOptions &options,
                                       ReasonWriter &reasons) {
  bool hasAsync = hasAsyncCopies(target);
  return reasons.decide("copies", options.copies,
                        hasAsync ? CopyPath::Async : CopyPath::Registers,
                        hasAsync
                            ? "they run beside products"
                            : llvm::Twine(target.chip) + " has no cp.async");
}

/// One pass pays where every warp walks the same few tiles, as it does all that
/// any block may have.
static Softmax chooseSoftmax(const AttentionProblem &problem,
                             const ScheduleOptions &options,
                             const ScheduleChoice &choice) {
  constexpr int64_t maxKeys = 128;
  bool isPossible = options.rowMax.value_or(RowMax::Exact) == RowMax::Exact &&
                    options.overlap != Overlap::QK && isShapeOpen(options);
  if (choice.keyWarps < 2 || !isPossible || !problem.seqlenK ||
      problem.hasLengths || problem.isCausal || problem.hasWindow ||
      problem.hasBias || problem.blocks ||
      getHeadWidth(problem) != HeadWidth::Narrow)
    return Softmax::Online;
  bool isEven = *problem.seqlenK % (choice.keyWarps * choice.blockN) == 0;
  return isEven && *problem.seqlenK <= choice.keyWarps * maxKeys
             ? Softmax::OnePass
             : Softmax::Online;
}

/// Whether few warps have no registers for the widest Q: addresses take them, a
/// softcap or a window, or what LLVM knows and spreads over registers: the
/// bounds of a single block of queries, or of no more than two tiles of keys.
static bool isCrowded(const AttentionProblem &problem) {
  constexpr int64_t blockRows = 32, unrolledKeys = 64;
  return problem.hasOpenAddresses() || problem.hasSpecials ||
         problem.hasWindow || *problem.seqlenQ <= blockRows ||
         *problem.seqlenK <= unrolledKeys;
}

/// Where Q lives. In registers it is not read again for every tile: in wide
/// heads that reading is a fifth and more of all that warps read from shared
/// memory, which is what very wide ones wait for. 32 rows a warp leave
/// registers for 96 columns of Q beside as many of O, but for one step of them
/// under a mask; 16 rows do for all of it, except at 256 where sizes or strides
/// are known at run time only: there for half.
static QueryPlacement chooseQuery(const AttentionProblem &problem,
                                  const ScheduleOptions &options, GridFill fill,
                                  bool isTight) {
  constexpr int64_t fewColumns = 80, columnsOfQAndO = 2 * 96,
                    columnsBesideMask = 2 * 88;
  int64_t dim = getWidestDim(problem);
  switch (getHeadWidth(problem)) {
  case HeadWidth::Narrow:
    return QueryPlacement::Registers;
  case HeadWidth::Wide: {
    if (!isThroughput(fill))
      return QueryPlacement::Registers;
    // Small fragments let one more block run beside.
    int64_t columns = problem.headDim + problem.headDimV;
    bool pays = isTight ? dim > fewColumns : columns <= columnsOfQAndO;
    if (!pays || !isShapeOpen(options))
      return QueryPlacement::Shared;
    return !isTight && problem.isCausal && columns > columnsBesideMask
               ? QueryPlacement::Split
               : QueryPlacement::Registers;
  }
  case HeadWidth::VeryWide:
    if (fill == GridFill::FewRows || !isShapeOpen(options))
      return QueryPlacement::Shared;
    if (dim <= kWidestWithSpareRegisters || getQuerySteps(problem) < 2)
      return QueryPlacement::Registers;
    // Of a few warps, each has more addresses to copy from.
    if (fill == GridFill::Sparse)
      return isCrowded(problem) ? QueryPlacement::Shared
                                : QueryPlacement::Registers;
    return problem.hasOpenAddresses() ? QueryPlacement::Split
                                      : QueryPlacement::Registers;
  }
  llvm_unreachable("unknown width");
}

/// How many heads take turns in a grid that starts with the longest rows of
/// all. Blocks that run at the same time and share no K and V read all of them
/// from DRAM, which keeps up with blocks of 128 rows, but not of fewer.
static int64_t chooseGridHeads(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleOptions &options, GridFill fill,
                               const ScheduleChoice &choice) {
  constexpr int64_t enoughRows = 128, sharingBlocks = 4;
  if (choice.gridOrder != GridOrder::HeadFastest || fill != GridFill::Full ||
      options.keySplits > 1 || options.splitKeys ||
      choice.blockM >= enoughRows || *problem.seqlenQ <= choice.blockM ||
      !problem.headsKV || problem.hasAssumedSizes ||
      *problem.batch * *problem.headsKV < target.device.numSMs)
    return 0;
  // Powers of two, for which a block finds its tile without divisions.
  int64_t heads = llvm::bit_floor(
      static_cast<uint64_t>(target.device.numSMs / sharingBlocks));
  int64_t groups = *problem.headsQ / *problem.headsKV / choice.headGroup;
  return std::min(heads * groups, kMaxGridHeads);
}

/// How a row maximum is followed that most tiles leave alone. Folded costs the
/// least in full tiles, and takes two registers a row of lanes more, which wide
/// heads lack beside many rows.
static RowMax chooseRareMax(const AttentionProblem &problem,
                            const TargetInfo &target,
                            const ScheduleOptions &options, GridFill fill,
                            const ScheduleChoice &choice) {
  constexpr int64_t columnsWithSpareRegisters = 80;
  bool isPossible = !problem.hasSpecials && !problem.hasBias &&
                    !problem.hasLse && choice.overlap == Overlap::None &&
                    takesConstants(target, problem.element) &&
                    options.rowSum.value_or(RowSum::Mma) == RowSum::Mma;
  bool pays = fill == GridFill::FewRows ||
              getWidestDim(problem) <= columnsWithSpareRegisters;
  return isPossible && pays ? RowMax::Folded : RowMax::Stale;
}

/// 32 rows a warp: two rows of accumulators use every K and V fragment twice.
/// Very wide heads, wide ones with a window or a wide output of a narrower Q,
/// scores that are long to compute, and a softcap beside the three bounds of a
/// window under a top-left mask leave no register to spare for it.
static bool isShortOfRegisters(const AttentionProblem &problem) {
  HeadWidth width = getHeadWidth(problem);
  bool hasWideOutput = problem.headDimV > 96;
  bool hasThreeBounds = problem.isTopLeft && problem.hasWindow;
  return width == HeadWidth::VeryWide || problem.hasLongScores ||
         (hasThreeBounds && problem.hasSpecials) ||
         (width == HeadWidth::Wide &&
          (problem.hasWindow ||
           (problem.headDim != problem.headDimV && hasWideOutput)));
}

/// The same of an invariant kernel, whose maximum is exact and whose sums are
/// added, so that addresses take what wide heads would spare.
static bool isShortWhenInvariant(const AttentionProblem &problem) {
  constexpr int64_t widestWithSpareRegisters = 112;
  return problem.hasOpenAddresses() &&
         getWidestDim(problem) > widestWithSpareRegisters;
}

ScheduleChooser::ScheduleChooser(const AttentionProblem &problem,
                                 const TargetInfo &target,
                                 const ScheduleOptions &options)
    : problem(problem), target(target), options(options),
      fill(getGridFill(problem, target)), width(getHeadWidth(problem)),
      isFilled(isThroughput(fill)),
      isTight(isShortOfRegisters(problem) ||
              (asksForInvariance(options) && isShortWhenInvariant(problem))),
      keyWarps(std::clamp(options.keyWarps
                              ? options.keyWarps
                              : chooseKeyWarps(problem, options, fill),
                          int64_t(1), kMaxWarps)),
      query(chooseQuery(problem, options, fill, isTight)) {
  // A grid that does not fill the chip wants smaller blocks, and of a short
  // sequence blocks of 128 rows would be half empty.
  bool isShort = problem.seqlenQ && *problem.seqlenQ <= 64;
  warpM = isFilled && !isTight && !isShort ? 32 : 16;
  if (dividesKeys())
    warpM = chooseSharedRows(problem, target, keyWarps);
  if (problem.blocks && problem.blocks->queries % warpM != 0)
    warpM = 16; // block_size are multiples of it
}

ScheduleDecision ScheduleChooser::choose() {
  decideBlockShape();
  decideQuery();
  decideOrder();
  decideSoftmax();
  decideRowMax();
  decideBlocks();
  return {choice, reasons.take()};
}

void ScheduleChooser::decideQuery() {
  if (width == HeadWidth::VeryWide &&
      (dividesKeys() || choice.numWarps == kManyWarps))
    query = QueryPlacement::Shared;
  choice.query = reasons.decide(
      "query", options.query, query,
      query == QueryPlacement::Registers ? "O and S leave registers for Q"
      : query == QueryPlacement::Shared  ? "O takes half of the registers"
                                        : "O leaves registers for a part of Q");
  bool isSplit = choice.query == QueryPlacement::Split;
  bool isVeryWide = width == HeadWidth::VeryWide;
  int64_t steps = getQuerySteps(problem);
  // A softcap or the like takes registers of its own.
  int64_t half = steps / 2 - (problem.hasSpecials ? 2 : 0);
  int64_t kept = isVeryWide ? half : steps - 1;
  choice.querySteps =
      reasons.decide("query_steps", options.querySteps,
                     isSplit ? std::max<int64_t>(kept, 1) : 0,
                     !isSplit     ? "Q is in one place"
                     : isVeryWide ? "registers for about half of Q"
                                  : "registers for all of Q but a step");
}

/// Causal rows differ in length: the longest of all heads first keeps the tail
/// of the grid short. Otherwise the blocks of one head share its K and V in L2.
void ScheduleChooser::decideOrder() {
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      problem.isCausal ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      problem.isCausal ? "causal: the longest rows of all heads go first"
                       : "blocks of one head share its K and V in L2");
  int64_t gridHeads = chooseGridHeads(problem, target, options, fill, choice);
  choice.gridHeads = reasons.decide(
      "grid_heads", options.gridHeads, gridHeads,
      gridHeads ? "blocks of few rows: those that run at once share K and V"
                : "no head waits for others");
}

void ScheduleChooser::decideSoftmax() {
  choice.overlap = reasons.decide("overlap", options.overlap, Overlap::None,
                                  "a second S would take registers");
  Softmax softmax = chooseSoftmax(problem, options, choice);
  choice.softmax = reasons.decide(
      "softmax", options.softmax, softmax,
      softmax == Softmax::OnePass
          ? "the scores of few key tiles fit registers: nothing is rescaled"
          : "any number of key tiles, one at a time");
}

/// A stale maximum pays where throughput counts, and where a few query rows
/// meet many keys, whose time is that of a few tiles; a sparse grid waits for
/// its copies anyway, but under an exact maximum partial tiles have loops of
/// their own, which take as long again to compile, each, and registers: one at
/// either end of a window, or one with a softcap, a bias, the widest heads or
/// addresses known at run time only in it. The widest heads of few warps have
/// no registers even for the loop of a last tile that the keys do not fill.
void ScheduleChooser::decideRowMax() {
  if (isInvariant()) {
    choice.rowMax = reasons.decide("row_max", options.rowMax, RowMax::Exact,
                                   kInvariantReason);
    choice.rowSum = reasons.decide("row_sum", options.rowSum, RowSum::Add,
                                   kInvariantReason);
    return;
  }
  bool isOnePass = choice.softmax == Softmax::OnePass;
  bool isWidest = getWidestDim(problem) > kWidestWithSpareRegisters;
  bool isLong = problem.hasSpecials || problem.hasBias ||
                problem.hasOpenAddresses() || isWidest;
  bool hasLongLoops = problem.hasWindow || (problem.isCausal && isLong) ||
                      (isWidest && fill == GridFill::Sparse);
  bool paysStale = isFilled || fill == GridFill::Half || hasFewRows();
  bool wantsStale = (paysStale || hasLongLoops) && !isOnePass;
  choice.rowMax = reasons.decide(
      "row_max", options.rowMax,
      wantsStale ? chooseRareMax(problem, target, options, fill, choice)
                 : RowMax::Exact,
      wantsStale  ? (paysStale ? "most tiles need no rescaling of O"
                               : "one loop for full and partial tiles")
      : isOnePass ? "one pass takes one maximum"
                  : "rescaling O hides behind the copies of a small grid");
  bool isStale = choice.rowMax != RowMax::Exact;
  bool hasOnes = takesConstants(target, problem.element);
  choice.rowSum = reasons.decide(
      "row_sum", options.rowSum,
      hasOnes && !problem.hasLse && (isStale || isOnePass) ? RowSum::Mma
                                                           : RowSum::Add,
      !hasOnes         ? "no product of constants"
      : problem.hasLse ? llvm::StringRef(kLseReason)
      : isStale        ? "cancels the rounding of P under a stale maximum"
      : isOnePass      ? "tensor cores wait for exponentials anyway"
                       : "needs no product of its own");
}

void ScheduleChooser::decideBlocks() {
  // One block an SM is enough for us: without a bound ptxas may spill a few
  // registers to fit one more.
  choice.minBlocks =
      reasons.decide("min_blocks", options.minBlocks, 1,
                     "keeps ptxas from spilling to fit one more block");
  bool paysSplits = hasFewRows() && !isInvariant() && !problem.blocks;
  // What a call's sizes say is better than what is assumed of them.
  std::optional<int64_t> mostSplits = getMostSplits(
      problem, target, options, choice, paysSplits && problem.hasAssumedSizes);
  int64_t keySplits = mostSplits ? *mostSplits
                      : paysSplits
                          ? chooseKeySplitsOfWarps(problem, target, choice)
                          : 1;
  choice.keySplits = reasons.decide(
      "key_splits", options.keySplits, keySplits,
      isInvariant()    ? llvm::StringRef(kInvariantReason)
      : problem.blocks ? "the list of a query row is one block's"
      : keySplits > 1  ? "two blocks an SM, of 256 keys or more each"
                       : "a query row is one block's, which needs no merge");
  bool isOfCall = mostSplits && choice.keySplits > 1;
  choice.splitCount = reasons.decide(
      "split_count", options.splitCount,
      isOfCall ? SplitCount::Call : SplitCount::Fixed,
      isOfCall ? "batch and lengths of a call say how many are worth it"
               : "key_splits says how many blocks share the keys");
  choice.grid = reasons.decide("grid", options.grid, Grid::Full,
                               "the chip hands out tiles as blocks end");
  choice.product = reasons.decide(
      "product", options.product, Product::Warp,
      problem.hasBulkRows() ? "mma.sync does all that is asked for"
                            : "its tiles need no bulk copies, which take rows "
                              "of 16 elements or more, at multiples of 16 "
                              "bytes");
  choice.output =
      reasons.decide("output", options.output, OutputRoute::Direct,
                     problem.accessBytes == kChunkBytes
                         ? "lanes store what they hold, 16 bytes at a time"
                         : "lanes store what they hold");
  choice.copies = decideCopies(target, options, reasons);
  choice.exchange = reasons.decide("exchange", options.exchange, Exchange::None,
                                   "products take tiles from registers");
  decidePromises(options, choice, reasons);
}

/// Query rows of a sequence that are few.
static constexpr int64_t kFewRows = 32;

/// What the choice takes the sizes to be that are known at run time only. Few
/// query rows want another kernel than many, whatever the other sizes are: of
/// those, one batch entry with a long cache needs it the most, and more of them
/// lose little by it.
static AttentionProblem assumeSizes(AttentionProblem problem,
                                    const TargetInfo &target,
                                    const ScheduleOptions &options) {
  constexpr int64_t someHeads = 8, longCache = 65536;
  bool isExpected = options.expectedQueries && !problem.seqlenQ;
  if (isExpected)
    problem.seqlenQ = options.expectedQueries;
  if (!problem.seqlenQ || *problem.seqlenQ > kFewRows)
    return assumeSizesOf(problem,
                         options.expectedGrid.value_or(ExpectedGrid::Any),
                         target.device.numSMs);
  // What is assumed here still takes registers at run time.
  problem.hasAssumedSizes = isExpected || !problem.batch || !problem.headsQ ||
                            !problem.headsKV || !problem.seqlenK;
  auto assume = [](std::optional<int64_t> &size, int64_t value) {
    size = size.value_or(value);
  };
  assume(problem.batch, 1);
  // Heads are grouped only where both numbers are known.
  assume(problem.headsKV, problem.headsQ.value_or(someHeads));
  assume(problem.headsQ, *problem.headsKV);
  assume(problem.seqlenK, longCache);
  return problem;
}

/// Whether blocks of fewer rows are worth it in kernels of single warps for
/// calls of a class: not of very wide heads, which have small ones anyway, nor
/// where, without a mask, blocks of 128 rows are one to each SM (narrow heads),
/// or have almost two (wide ones, which read K and V less often).
static bool paysCallClass(const AttentionProblem &assumed,
                          const TargetInfo &target) {
  std::optional<int64_t> blocks = getNumBlocks(assumed, 64);
  if (!assumed.hasAssumedSizes || !blocks)
    return true;
  int64_t blocksOfSM = llvm::divideCeil(*blocks, target.device.numSMs);
  bool isEven = !assumed.isCausal && !assumed.hasWindow;
  switch (getHeadWidth(assumed)) {
  case HeadWidth::Narrow:
    return !isEven || blocksOfSM != 2;
  case HeadWidth::Wide:
    return !isEven || blocksOfSM != 3;
  case HeadWidth::VeryWide:
    return false;
  }
  llvm_unreachable("unknown width");
}

/// Whether a block of the choice has more shared memory than the chip, or one
/// of the same fields for another problem might.
static bool isTooLarge(const AttentionProblem &problem,
                       const TargetInfo &target, const ScheduleChoice &choice) {
  constexpr int64_t ofMeasured = 99 * 1024;
  if (choice.isInvariant() && !choice.multipliesInPlace() &&
      target.sharedMemoryPerBlock < ofMeasured)
    return true;
  return !checkFields(choice, FieldNames::Options) &&
         getSharedMemoryBytes(problem, choice) > target.sharedMemoryPerBlock;
}

/// For chips of less shared memory than the shapes were measured with: the
/// largest of smaller ones that fits. Tiles of an invariant kernel are the same
/// whatever the rest of the problem is.
static std::optional<ScheduleDecision>
chooseSmallShape(const AttentionProblem &problem, const TargetInfo &target,
                 ScheduleOptions options) {
  struct Shape {
    int64_t blockM, blockN, numWarps;
  };
  constexpr int64_t leastKeys = 16;
  // First smaller tiles of the blocks that were measured.
  constexpr Shape shapes[] = {{0, 32, 0},  {0, 16, 0},  {128, 32, 4},
                              {64, 64, 4}, {64, 32, 4}, {64, 16, 4},
                              {32, 16, 2}, {16, 16, 1}};
  for (auto [blockM, blockN, numWarps] : shapes) {
    if (asksForInvariance(options) && blockN != leastKeys)
      continue;
    std::tie(options.blockM, options.blockN, options.numWarps) =
        std::tie(blockM, blockN, numWarps);
    options.numStages = 2;
    ScheduleDecision decision =
        ScheduleChooser(problem, target, options).choose();
    if (checkSchedule(problem, target, decision.choice, FieldNames::Options))
      continue;
    for (ScheduleReason &reason : decision.reasons)
      if (llvm::is_contained({"block_m", "block_n", "num_warps", "num_stages"},
                             reason.field))
        reason.reason = "fits the shared memory of " + target.chip.str();
    return decision;
  }
  return std::nullopt;
}

ScheduleResult mlir::flashcore::chooseSchedule(const AttentionProblem &problem,
                                               const TargetInfo &target,
                                               const ScheduleOptions &asked) {
  ScheduleOptions options = closeUnfused(problem, target, asked);
  if (options.headGroup)
    if (auto error =
            checkHeadGroup(problem, options.headGroup, FieldNames::Options))
      return *error;
  AttentionProblem assumed = assumeSizes(problem, target, options);
  bool hasFewQueries = assumed.seqlenQ && *assumed.seqlenQ <= kFewRows;
  std::optional<ScheduleDecision> other = choosePlain(problem, target, options);
  if (!other)
    other = chooseWarpgroups(hasFewQueries ? problem : assumed,
                             getGridFill(assumed, target), target, options);
  if (!hasFewQueries && !paysCallClass(assumed, target))
    assumed = problem;
  ScheduleDecision decision =
      other ? std::move(*other)
            : ScheduleChooser(assumed, target, options).choose();
  if (isShapeOpen(options) && isTooLarge(problem, target, decision.choice))
    if (auto smaller = chooseSmallShape(assumed, target, options))
      decision = std::move(*smaller);
  explainUnfused(asked, decision);
  if (std::optional<std::string> error =
          checkSchedule(problem, target, decision.choice, FieldNames::Options))
    return *error;
  return decision;
}
