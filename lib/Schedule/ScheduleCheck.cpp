//===- ScheduleCheck.cpp - Schedules that cannot work ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For schedules of the defaults, of a user and of files alike.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "flashcore/Target/Atoms.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

std::optional<std::string>
mlir::flashcore::checkHeadGroup(const AttentionProblem &problem,
                                int64_t headGroup, FieldNames names) {
  std::string name = spell("head_group", names);
  if (headGroup < 1)
    return llvm::formatv("expects {0} of at least 1, but got {1}", name,
                         headGroup);
  if (headGroup == 1)
    return std::nullopt;
  if (!problem.headsQ || !problem.headsKV)
    return llvm::formatv(
        "expects heads_q and heads_kv to be known at compile time for {0} {1}; "
        "make them static or use {0} 1",
        name, headGroup);
  int64_t group = *problem.headsQ / *problem.headsKV;
  if (group % headGroup != 0)
    return llvm::formatv(
        "expects {0} to divide heads_q / heads_kv = {1}, but got {2}", name,
        group, headGroup);
  return std::nullopt;
}

/// Whether the warps that share query rows can divide O among them.
static std::optional<std::string> checkShares(const AttentionProblem &problem,
                                              const ScheduleChoice &choice,
                                              FieldNames names) {
  ShareGrid grid = getShareGrid(choice.getWarpM(), choice.keyWarps);
  if (problem.getColumnsV() % (8 * grid.cols) == 0)
    return std::nullopt;
  return llvm::formatv("expects {0} to divide the {1} x {2} results of a warp "
                       "into shares of whole 8x8 cores, but got {3}; use fewer "
                       "{0} or a larger {4}",
                       spell("key_warps", names), choice.getWarpM(),
                       problem.getColumnsV(), choice.keyWarps,
                       spell("block_m", names));
}

/// Whether all scores of a warp are of a known number, and not too many.
static std::optional<std::string> checkOnePass(const AttentionProblem &problem,
                                               const ScheduleChoice &choice,
                                               FieldNames names) {
  if (choice.softmax != Softmax::OnePass)
    return std::nullopt;
  if (!problem.seqlenK || problem.hasLengths)
    return "expects a seqlen_k known at compile time for softmax one_pass; "
           "use softmax online";
  uint64_t cols = llvm::SaturatingMultiply<uint64_t>(
      choice.blockN, getTilesOfPart(*problem.seqlenK, choice));
  if (cols > static_cast<uint64_t>(kMaxRows))
    return llvm::formatv("expects at most {0} keys a warp with softmax "
                         "one_pass, but got {1}; use softmax online or more "
                         "{2}",
                         kMaxRows, cols, spell("key_warps", names));
  return std::nullopt;
}

/// Whether Q has a part to keep in registers, and one to read again.
static std::optional<std::string> checkSplit(const AttentionProblem &problem,
                                             const ScheduleChoice &choice,
                                             FieldNames names) {
  if (choice.query != QueryPlacement::Split)
    return std::nullopt;
  int64_t steps = getQuerySteps(problem);
  if (steps < 2)
    return llvm::formatv("expects query registers or shared with head_dim {0}, "
                         "which is a single step of {1} columns, but got split",
                         problem.headDim, kQueryStep);
  if (choice.querySteps >= steps)
    return llvm::formatv("expects {0} from 1 to {1} with query split and "
                         "head_dim {2}, but got {3}",
                         spell("query_steps", names), steps - 1,
                         problem.headDim, choice.querySteps);
  return std::nullopt;
}

/// What changes the scores after products that start at the maximum.
static std::optional<std::string> checkFolded(const AttentionProblem &problem,
                                              const ScheduleChoice &choice,
                                              FieldNames names) {
  if (choice.rowMax != RowMax::Folded ||
      !(problem.hasSpecials || problem.hasBias))
    return std::nullopt;
  return llvm::formatv("expects {0} exact or stale with a {1}, which changes "
                       "the scores, but got folded",
                       spell("row_max", names),
                       problem.hasRegion     ? "score or mask region"
                       : problem.hasSpecials ? "softcap"
                                             : "bias");
}

/// Columns of ones take the sums of the P that V meets, which a dropout has
/// changed.
static std::optional<std::string> checkDropout(const AttentionProblem &problem,
                                               const ScheduleChoice &choice,
                                               FieldNames names) {
  if (!problem.hasDropout || choice.getOnesColumns() == 0)
    return std::nullopt;
  return llvm::formatv("expects {0} add with product warpgroup and a dropout, "
                       "which the sums of rows do not see, but got mma",
                       spell("row_sum", names));
}

/// Products add up rounded P: fine for dividing O by, whose P are the same.
static std::optional<std::string> checkLse(const AttentionProblem &problem,
                                           const ScheduleChoice &choice,
                                           FieldNames names) {
  if (!problem.hasLse || choice.rowSum == RowSum::Add)
    return std::nullopt;
  return llvm::formatv("expects {0} add with lse, which is the logarithm of a "
                       "sum of weights that are not rounded, but got mma",
                       spell("row_sum", names));
}

/// What kernels that leave S and P in global memory cannot do. They have as
/// many columns for them as there are keys of the longest sequence.
static std::optional<std::string> checkUnfused(const AttentionProblem &problem,
                                               const ScheduleChoice &choice,
                                               FieldNames) {
  if (!choice.isUnfused())
    return std::nullopt;
  std::pair<llvm::StringRef, bool> unknown[] = {
      {"cu_seqlens_q", problem.isVarlen},
      {"page_table", problem.isPaged},
      {"append", problem.hasAppend},
      {"dropout", problem.hasDropout},
      {"block_counts", problem.blocks.has_value()}};
  for (auto [clause, isThere] : unknown)
    if (isThere)
      return llvm::formatv("expects softmax online or one_pass with {0}, but "
                           "got unfused, whose three kernels do not know it; "
                           "use softmax online",
                           clause);
  return checkScoresGrid(problem, choice);
}

/// Whether the queries of a block have one list, and its tiles are in one block
/// of keys each.
static std::optional<std::string> checkBlocks(const AttentionProblem &problem,
                                              const ScheduleChoice &choice,
                                              FieldNames names) {
  if (!problem.blocks)
    return std::nullopt;
  auto [queries, keys, ofHeads] = *problem.blocks;
  if (queries % choice.blockM != 0)
    return llvm::formatv("expects {0} to divide the {1} queries of a block of "
                         "the lists (block_size), but got {2}",
                         spell("block_m", names), queries, choice.blockM);
  if (keys % choice.blockN != 0)
    return llvm::formatv("expects {0} to divide the {1} keys of a block of the "
                         "lists (block_size), but got {2}",
                         spell("block_n", names), keys, choice.blockN);
  if (ofHeads && choice.headGroup > 1)
    return llvm::formatv("expects {0} 1 with block lists of each head, since "
                         "the heads of a block walk the same keys, but got {1}",
                         spell("head_group", names), choice.headGroup);
  if (choice.softmax == Softmax::OnePass)
    return "expects softmax online with block lists, whose lengths are data, "
           "but got one_pass";
  if (choice.keySplits > 1)
    return llvm::formatv("expects {0} 1 with block lists, which are walked by "
                         "one block, but got {1}",
                         spell("key_splits", names), choice.keySplits);
  if (choice.splitKeys)
    return llvm::formatv("expects {0} 0 with block lists, which are walked by "
                         "one block, but got {1}",
                         spell("split_keys", names), choice.splitKeys);
  if (choice.splitCount == SplitCount::Call)
    return llvm::formatv("expects {0} fixed with block lists, which are walked "
                         "by one block, but got call",
                         spell("split_count", names));
  return std::nullopt;
}

std::optional<std::string>
mlir::flashcore::checkTileSchedule(const AttentionProblem &problem,
                                   const ScheduleChoice &choice,
                                   FieldNames names) {
  for (auto check : {checkUnfused, checkBlocks, checkShares, checkOnePass,
                     checkFolded, checkSplit, checkDropout, checkLse})
    if (std::optional<std::string> error = check(problem, choice, names))
      return error;
  return std::nullopt;
}

/// Whether the blocks of a persistent grid can run at once: those that cannot
/// would walk their tiles when the others are done. `bytes` of shared memory
/// fit a block.
static std::optional<std::string> checkPersistent(const TargetInfo &target,
                                                  const ScheduleChoice &choice,
                                                  FieldNames names,
                                                  int64_t bytes) {
  int64_t warps = target.maxThreadsPerSM / kWarpSize;
  int64_t fitting = std::min(
      {target.sharedMemoryPerSM / (bytes + target.getReservedSharedMemory()),
       warps / choice.getAllWarps(), target.maxBlocksPerSM});
  if (choice.getBlocksPerSM() <= fitting)
    return std::nullopt;
  return llvm::formatv(
      "expects {7} of at most {0} with grid persistent, whose blocks "
      "run at once: each needs {1} bytes of shared memory of the {2} and {3} "
      "warps of the {4} that an SM of {5} has, but got {6}; use smaller blocks "
      "or fewer stages",
      fitting, bytes, target.sharedMemoryPerSM, choice.getAllWarps(), warps,
      target.chip, choice.minBlocks, spell("min_blocks", names));
}

std::optional<std::string>
mlir::flashcore::checkProducts(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice, FieldNames names) {
  auto has = [&](Product product) {
    return !findMmaAtoms(target, getRightPlace(product), problem.element,
                         ElementKind::F32)
                .empty();
  };
  // Whole fragments of 16 columns.
  bool isEven = problem.getColumns() % kQueryStep == 0 &&
                problem.getColumnsV() % kQueryStep == 0;
  Product better = has(Product::Warp) ? Product::Warp : Product::Thread;
  if (choice.copies != CopyPath::Registers && !hasAsyncCopies(target))
    return llvm::formatv("expects {0} registers for {1}, which has no "
                         "cp.async, but got {2}",
                         spell("copies", names), target.chip,
                         stringifyCopyPath(choice.copies));
  if (!has(choice.product))
    return llvm::formatv(
        "expects {0} {1} for {2}, which has no {3} of {4}, but got {5}",
        spell("product", names), printField(better), target.chip,
        choice.product == Product::Warpgroup ? "wgmma"
        : choice.product == Product::Wmma    ? "wmma"
                                             : "mma.sync",
        problem.element == ElementKind::BF16 ? "bf16" : "f16",
        printField(choice.product));
  if (choice.product == Product::Warp && choice.rowSum == RowSum::Mma &&
      !takesConstants(target, problem.element))
    return llvm::formatv("expects {0} add for {1}, whose mma.sync m16n8k8 is "
                         "assembled wrongly with constants, but got mma",
                         spell("row_sum", names), target.chip);
  if (choice.product == Product::Wmma && !isEven)
    return llvm::formatv(
        "expects {0} {1} with head_dim {2} and head_dim_v {3}, "
        "which in chunks of 8 are no multiples of {4}, but got "
        "wmma",
        spell("product", names), printField(better), problem.headDim,
        problem.headDimV, kQueryStep);
  return std::nullopt;
}

/// Whether the products of a problem can be those of warpgroups, whose right
/// operands and Q are tiles of panels that bulk copies fill.
static std::optional<std::string>
checkWarpgroup(const AttentionProblem &problem, const TargetInfo &target,
               const ScheduleChoice &choice, FieldNames names) {
  if (!choice.hasBulkCopies())
    return std::nullopt;
  if (!problem.hasBulkRows())
    return llvm::formatv(
        "expects product warp with rows of head_dim {0} and head_dim_v {1} "
        "that begin at multiples of {2} bytes, since bulk copies take rows of "
        "{3} elements or more that begin at multiples of {4}, but got "
        "warpgroup",
        problem.headDim, problem.headDimV, problem.accessBytes, kQueryStep,
        kChunkBytes);
  // Columns of ones are a panel's first, behind those that copies fill.
  int64_t ones = choice.getOnesColumns();
  int64_t panelCols = kPanelBytes / getBytes(problem.element);
  if (ones && (problem.headDimV % panelCols != 0 ||
               problem.headDimV + ones > kMaxColumnsOfGroup))
    return llvm::formatv(
        "expects {0} add with product warpgroup and head_dim_v "
        "{1}, which is no multiple of {2} below {3}, but got "
        "mma",
        spell("row_sum", names), problem.headDimV, panelCols,
        kMaxColumnsOfGroup);
  // ptxas lets products wait for each other rather than spill.
  constexpr int64_t besideFragments = 28;
  int64_t fragments = getFragmentRegisters(problem, choice);
  int64_t numConsumers = choice.numWarps * kWarpSize;
  int64_t registers =
      getRegisterShares(target, choice.getBlocksPerSM(), numConsumers,
                        choice.getAllWarps() * kWarpSize - numConsumers,
                        problem.isPaged)
          .ofConsumer;
  if (fragments + besideFragments > registers)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments and {1} beside, but "
        "{2} warps of product warpgroup have {3} where an SM holds {4} of "
        "their blocks; use a smaller {5} or {6}",
        fragments, besideFragments, choice.numWarps, registers,
        choice.getBlocksPerSM(), spell("block_n", names),
        spell("min_blocks", names));
  return std::nullopt;
}

/// Whether parts of tiles that are in one page are whole rows of the swizzle of
/// shared memory.
static bool canCopyPages(const AttentionProblem &problem,
                         const ScheduleChoice &choice) {
  return std::gcd(*problem.pageSize, choice.blockN) % kSwizzledRows == 0;
}

/// What works where tensors say how long sequences are.
static std::optional<std::string> checkLengths(const AttentionProblem &problem,
                                               const ScheduleChoice &choice,
                                               FieldNames names) {
  if (problem.isPaged && choice.product == Product::Warpgroup &&
      !canCopyPages(problem, choice))
    return llvm::formatv(
        "expects {0} warp with pages of {1} keys and {2} {3}, of which a bulk "
        "copy would move no {4} rows, but got warpgroup",
        spell("product", names), *problem.pageSize, spell("block_n", names),
        choice.blockN, kSwizzledRows);
  // How many parts a sequence may have at most, its pages say.
  if (problem.isVarlen && choice.splitKeys && !problem.isPaged)
    return llvm::formatv("expects {0} 0 with cu_seqlens and without "
                         "page_table, but got {1}",
                         spell("split_keys", names), choice.splitKeys);
  // Which sequence a tile is of takes a search.
  if (problem.isVarlen && choice.grid == Grid::Persistent)
    return llvm::formatv("expects {0} full with cu_seqlens, but got persistent",
                         spell("grid", names));
  return std::nullopt;
}

/// All blocks are along the x axis of the grid, which has a limit of its own.
static std::optional<std::string> checkGrid(const AttentionProblem &problem,
                                            const ScheduleChoice &choice,
                                            FieldNames names) {
  auto tiles = getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (!tiles)
    return std::nullopt;
  uint64_t blocks = 0, splits = getNumSplits(problem, choice).value_or(1);
  if (choice.grid == Grid::Full)
    blocks = llvm::SaturatingMultiply<uint64_t>(*tiles, splits);
  if (splits > 1) // a block merges the splits of a row
    blocks = std::max<uint64_t>(blocks, *getNumBlocks(problem, /*blockM=*/1));
  if (blocks <= kMaxGrid)
    return std::nullopt;
  return llvm::formatv("needs {0} blocks (batch {1}, heads_q {2}, seqlen_q "
                       "{3}, {6} {4}), but CUDA launches at most {5}; "
                       "compute it in several parts",
                       blocks, *problem.batch, *problem.headsQ,
                       *problem.seqlenQ, choice.blockM, kMaxGrid,
                       spell("block_m", names));
}

static std::optional<std::string>
checkSharedMemory(const AttentionProblem &problem, const TargetInfo &target,
                  const ScheduleChoice &choice, FieldNames names) {
  int64_t bytes = getSharedMemoryBytes(problem, choice);
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv(
        "needs {0} bytes of shared memory ({8} {1}, {9} {2}, {10} {3}, "
        "head_dim {4}{5}), but {6} allows {7}; use fewer stages or smaller "
        "blocks",
        bytes, choice.blockM, choice.blockN, choice.numStages, problem.headDim,
        choice.keyWarps == 1
            ? std::string()
            : llvm::formatv(", for each of {0} warps", choice.numWarps).str(),
        target.chip, target.sharedMemoryPerBlock, spell("block_m", names),
        spell("block_n", names), spell("num_stages", names));
  if (choice.grid == Grid::Persistent)
    if (auto error = checkPersistent(target, choice, names, bytes))
      return error;
  return std::nullopt;
}

static std::optional<std::string>
checkRegisters(const AttentionProblem &problem, const ScheduleChoice &choice,
               FieldNames names) {
  // Lanes with rows of their own keep in memory what does not fit.
  int64_t registers = getFragmentRegisters(problem, choice);
  if (choice.product != Product::Thread && registers > kMaxRegistersPerThread)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments alone ({7} {1}, {8} "
        "{2}, {9} {3}{4}), but a thread has {5}; use more warps or {6}",
        registers, choice.blockM, choice.numWarps, choice.blockN,
        choice.softmax == Softmax::OnePass ? ", softmax one_pass" : "",
        kMaxRegistersPerThread,
        choice.softmax == Softmax::OnePass
            ? "softmax online"
            : "a smaller " + spell("block_n", names),
        spell("block_m", names), spell("num_warps", names),
        spell("block_n", names));
  return std::nullopt;
}

std::optional<std::string>
mlir::flashcore::checkSchedule(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice, FieldNames names) {
  // What later checks divide by or multiply, earlier ones have bounded.
  if (auto error = checkFields(choice, names))
    return error;
  if (auto error = checkHeadGroup(problem, choice.headGroup, names))
    return error;
  if (auto error = checkTileSchedule(problem, choice, names))
    return error;
  if (auto error = checkGrid(problem, choice, names))
    return error;
  if (auto error = checkLengths(problem, choice, names))
    return error;
  if (auto error = checkProducts(problem, target, choice, names))
    return error;
  if (auto error = checkWarpgroup(problem, target, choice, names))
    return error;
  if (auto error = checkSharedMemory(problem, target, choice, names))
    return error;
  return checkRegisters(problem, choice, names);
}
