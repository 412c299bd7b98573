//===- PlainChoice.cpp - Schedules of products without mma.sync ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of tiles in plain rows: wmma, and lanes with a row each. For chips
// without mma.sync, and where they are asked for.
//
//===----------------------------------------------------------------------===//

#include "ScheduleChooser.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Target/Atoms.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
/// What is tried until it fits shared memory.
struct Shape {
  int64_t blockM, blockN, numWarps;
};
} // namespace

/// Rows of a warp of two products of wmma.
static constexpr int64_t kTallRows = 32;

/// Of a warp with 32 rows of wmma each fragment of K and V serves two products,
/// if O leaves it registers and there are as many rows. Lanes have S and O in
/// registers.
static llvm::ArrayRef<Shape>
listShapes(Product product, const AttentionProblem &problem, bool isInvariant) {
  static constexpr Shape ofWmma[] = {{128, 64, 4}, {128, 32, 4}, {64, 64, 4},
                                     {64, 32, 4},  {32, 32, 2},  {32, 16, 2},
                                     {16, 16, 1}};
  static constexpr Shape ofThreads[] = {
      {128, 32, 4}, {128, 16, 4}, {64, 16, 2}, {32, 16, 1}};
  if (product == Product::Wmma) {
    constexpr int64_t numTall = 2, fewRows = 64, leavesRegisters = 128;
    llvm::ArrayRef<Shape> shapes = ofWmma;
    bool isTall =
        problem.getColumnsV() <= leavesRegisters &&
        (isInvariant || !problem.seqlenQ || *problem.seqlenQ > fewRows);
    return isTall ? shapes : shapes.drop_front(numTall);
  }
  constexpr int64_t leavesRegisters = 96;
  llvm::ArrayRef<Shape> shapes = ofThreads;
  return problem.getColumnsV() <= leavesRegisters ? shapes
                                                  : shapes.drop_front();
}

bool mlir::flashcore::canMultiply(const AttentionProblem &problem,
                                  const TargetInfo &target, Product product) {
  ScheduleChoice choice;
  choice.product = product;
  if (!hasAsyncCopies(target))
    choice.copies = CopyPath::Registers;
  return !checkProducts(problem, target, choice, FieldNames::Options);
}

std::optional<std::string>
mlir::flashcore::checkSupported(const AttentionProblem &problem,
                                const TargetInfo &target) {
  if (!problem.blocks || problem.blocks->queries % kWarpSize == 0 ||
      canMultiply(problem, target, Product::Warp) ||
      canMultiply(problem, target, Product::Wmma))
    return std::nullopt;
  bool isHalf = problem.element == ElementKind::F16;
  return llvm::formatv(
      "has block lists of {0} queries, but {1} has only products of threads "
      "for {2}, whose blocks have a multiple of {3} queries; make lists of "
      "such blocks (block_size), or use {4}",
      problem.blocks->queries, target.chip,
      isHalf ? llvm::formatv("head_dim {0} and head_dim_v {1}", problem.headDim,
                             problem.headDimV)
                   .str()
             : "bf16",
      kWarpSize, isHalf ? "head dims that are multiples of 16" : "f16");
}

/// As many blocks for the keys of a query tile as there are SMs for.
static int64_t chooseSplits(const AttentionProblem &problem,
                            const TargetInfo &target,
                            const ScheduleOptions &options,
                            const ScheduleChoice &choice) {
  if (choice.blockM < 1 || choice.headGroup < 1 || !problem.seqlenK ||
      problem.blocks || asksForInvariance(options))
    return 1;
  std::optional<int64_t> blocks =
      getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (!blocks || *blocks < 1)
    return 1;
  return std::clamp<int64_t>(
      std::min(target.device.numSMs / *blocks,
               getVisibleKeys(problem) / kMinKeysOfSplit),
      1, kMaxKeySplits);
}

/// Which blocks there are, and what they share.
static void decideGrid(const AttentionProblem &problem,
                       const TargetInfo &target, const ScheduleOptions &options,
                       ScheduleChoice &choice, ReasonWriter &reasons) {
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      problem.isCausal ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      problem.isCausal ? "causal: the longest rows of all heads go first"
                       : "blocks of one head share its K and V in L2");
  choice.gridHeads =
      reasons.decide("grid_heads", options.gridHeads, 0, "no head waits");
  choice.minBlocks = reasons.decide("min_blocks", options.minBlocks, 1,
                                    "registers are for what blocks keep");
  choice.headGroup = reasons.decide("head_group", options.headGroup, 1,
                                    "the rows of one head fill a block");
  int64_t keySplits = chooseSplits(problem, target, options, choice);
  choice.keySplits = reasons.decide(
      "key_splits", options.keySplits, keySplits,
      keySplits > 1 ? "blocks for SMs that would idle, of fewer keys each"
                    : "a query row is one block's, which needs no merge");
  choice.splitCount =
      reasons.decide("split_count", options.splitCount, SplitCount::Fixed,
                     "key_splits says how many blocks share the keys");
  choice.grid = reasons.decide("grid", options.grid, Grid::Full,
                               "the chip hands out tiles as blocks end");
  choice.output = reasons.decide("output", options.output, OutputRoute::Direct,
                                 "lanes store what they hold");
}

/// How the rows' maxima and sums are kept.
static void decideSoftmax(const ScheduleOptions &options,
                          ScheduleChoice &choice, ReasonWriter &reasons) {
  choice.overlap = reasons.decide("overlap", options.overlap, Overlap::None,
                                  "products are waited for");
  bool isInvariant = asksForInvariance(options);
  choice.rowMax = reasons.decide(
      "row_max", options.rowMax, isInvariant ? RowMax::Exact : RowMax::Stale,
      isInvariant ? kInvariantReason : "most tiles need no rescaling of O");
  choice.rowSum = reasons.decide("row_sum", options.rowSum, RowSum::Add,
                                 "needs no product of its own");
  choice.keyWarps = reasons.decide("key_warps", options.keyWarps, 1,
                                   "query rows are divided, not keys");
  choice.softmax = reasons.decide("softmax", options.softmax, Softmax::Online,
                                  "any number of key tiles, one at a time");
}

static ScheduleDecision decide(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleOptions &options, Product product,
                               const Shape &shape) {
  ReasonWriter reasons;
  ScheduleChoice choice;
  bool isOfThreads = product == Product::Thread;
  choice.product = reasons.decide(
      "product", options.product, product,
      llvm::Twine(target.chip) + " has no mma.sync that is used here" +
          (isOfThreads ? ", and no wmma for these types and sizes" : ""));
  choice.blockM =
      reasons.decide("block_m", options.blockM, shape.blockM,
                     isOfThreads ? "a query row a lane"
                     : shape.blockM == kTallRows * shape.numWarps
                         ? "32 rows a warp, for which K and V are read once"
                         : "16 rows a warp");
  choice.numWarps = reasons.decide("num_warps", options.numWarps,
                                   shape.numWarps, "as many as share K and V");
  choice.blockN =
      reasons.decide("block_n", options.blockN, shape.blockN,
                     isOfThreads ? "a lane has its scores in registers"
                                 : "the largest tiles that fit shared memory");
  choice.numStages =
      reasons.decide("num_stages", options.numStages, 2,
                     "one tile is copied while another is multiplied");
  choice.query = reasons.decide("query", options.query, QueryPlacement::Shared,
                                "products take it from there");
  choice.querySteps =
      reasons.decide("query_steps", options.querySteps, 0, "Q is in one place");
  decideSoftmax(options, choice, reasons);
  decideGrid(problem, target, options, choice, reasons);
  choice.copies = decideCopies(target, options, reasons);
  choice.exchange = reasons.decide(
      "exchange", options.exchange,
      isOfThreads ? Exchange::Padded : Exchange::Fragments,
      isOfThreads ? "the rows of eight lanes share no bank"
                  : "S and P alone go through memory, rows share no bank");
  decidePromises(options, choice, reasons);
  return {choice, reasons.take()};
}

std::optional<ScheduleDecision>
mlir::flashcore::choosePlain(const AttentionProblem &problem,
                             const TargetInfo &target,
                             const ScheduleOptions &options) {
  if (!options.product && canMultiply(problem, target, Product::Warp))
    return std::nullopt;
  Product product = options.product.value_or(
      canMultiply(problem, target, Product::Wmma) ? Product::Wmma
                                                  : Product::Thread);
  if (product != Product::Wmma && product != Product::Thread)
    return std::nullopt;
  std::optional<ScheduleDecision> smallest;
  for (const Shape &shape :
       listShapes(product, problem, asksForInvariance(options))) {
    smallest = decide(problem, target, options, product, shape);
    if (!checkSchedule(problem, target, smallest->choice, FieldNames::Options))
      break;
  }
  return smallest;
}
