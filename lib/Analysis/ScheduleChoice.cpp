//===- ScheduleChoice.cpp - Choosing a kernel's schedule ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The defaults are the winners of the measurements that
// docs/performance-notebook.md keeps; everything a user forces is kept, and
// refused when it cannot work.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleChoice.h"
#include "flashcore/Analysis/KeyTileBounds.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

int64_t mlir::flashcore::getSharedMemoryBytes(int64_t headDim, int64_t headDimV,
                                              const ScheduleChoice &choice) {
  constexpr int64_t elementBytes = 2, floatBytes = 4;
  auto getTiles = [&](int64_t rows) {
    return elementBytes * (rows * headDim + choice.numStages * choice.blockN *
                                                (headDim + headDimV));
  };
  if (choice.keyWarps == 1)
    return getTiles(choice.getQueryRows());
  int64_t warpM = choice.getWarpM();
  int64_t partial = floatBytes * warpM * (headDimV + 2);
  return choice.numWarps * std::max(getTiles(warpM), partial);
}

/// Warps of a block: a block has at most 1024 threads.
static constexpr int64_t kMaxWarps = 32;

int64_t mlir::flashcore::getTilesOfPart(int64_t seqlenK,
                                        const ScheduleChoice &choice) {
  return llvm::divideCeil(llvm::divideCeil(seqlenK, choice.blockN),
                          choice.keyWarps);
}

/// Registers a thread cannot do without: its part of the O and S accumulators
/// and of Q, when that is kept.
static int64_t getFragmentRegisters(const AttentionProblem &problem,
                                    const ScheduleChoice &choice) {
  // Of 16-bit values, a register holds two.
  int64_t colsOfQ = choice.getKeptQueryColumns(problem.headDim) / 2;
  int64_t cols = problem.headDimV + colsOfQ +
                 choice.blockN * (choice.overlap == Overlap::QK ? 2 : 1);
  if (choice.softmax == Softmax::OnePass) {
    // O takes the place of Q and of half of S, when that becomes P.
    int64_t colsOfS = choice.blockN * getTilesOfPart(*problem.seqlenK, choice);
    cols = std::max(colsOfS + colsOfQ, colsOfS / 2 + problem.headDimV);
  }
  return choice.getWarpM() * cols / kWarpSize;
}

/// Products of mma.sync along the columns of Q.
static int64_t getQuerySteps(const AttentionProblem &problem) {
  return llvm::divideCeil(problem.headDim, kQueryStep);
}

/// What the head dims leave room for.
enum class HeadWidth {
  Narrow,   ///< up to 64: Q and O of 32 rows a warp fit the registers
  Wide,     ///< up to 128: O of 32 rows a warp takes half of the registers
  VeryWide, ///< O of 16 rows a warp does
};

/// The larger head dim.
static int64_t getWidestDim(const AttentionProblem &problem) {
  return std::max(problem.headDim, problem.headDimV);
}

static HeadWidth getHeadWidth(const AttentionProblem &problem) {
  int64_t dim = getWidestDim(problem);
  return dim <= 64    ? HeadWidth::Narrow
         : dim <= 128 ? HeadWidth::Wide
                      : HeadWidth::VeryWide;
}

/// The extent of `axis`, if any of the values knows it.
static std::optional<int64_t> getExtent(llvm::ArrayRef<mlir::ShapedType> types,
                                        unsigned axis) {
  for (mlir::ShapedType type : types)
    if (!type.isDynamicDim(axis))
      return type.getDimSize(axis);
  return std::nullopt;
}

static bool hasOpenStrides(mlir::Value tensor) {
  auto type = llvm::dyn_cast<mlir::MemRefType>(tensor.getType());
  llvm::SmallVector<int64_t> strides;
  int64_t offset;
  return type && succeeded(type.getStridesAndOffset(strides, offset)) &&
         (mlir::ShapedType::isDynamic(offset) ||
          llvm::any_of(strides, mlir::ShapedType::isDynamic));
}

AttentionProblem AttentionProblem::get(AttentionOp op) {
  AttentionProblem problem;
  problem.batch =
      getExtent({op.getQueryType(), op.getKeyType()}, AttentionOp::Batch);
  problem.headsQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Head);
  problem.headsKV =
      getExtent({op.getKeyType(), op.getValueType()}, AttentionOp::Head);
  problem.seqlenQ =
      getExtent({op.getQueryType(), op.getOutputType()}, AttentionOp::Seqlen);
  problem.seqlenK =
      getExtent({op.getKeyType(), op.getValueType()}, AttentionOp::Seqlen);
  problem.headDim = op.getHeadDim();
  problem.headDimV = op.getHeadDimV();
  problem.isCausal = op.getCausal().has_value();
  problem.isTopLeft = op.getCausal() == CausalAlignment::TopLeft;
  problem.hasSoftcap = op.getSoftcap().has_value();
  problem.hasBias = static_cast<bool>(op.getBias());
  problem.hasWindow = op.getWindowLeft() || op.getWindowRight();
  problem.hasOpenStrides = llvm::any_of(
      std::initializer_list<mlir::Value>{op.getQuery(), op.getKey(),
                                         op.getValue(), op.getOutput()},
      ::hasOpenStrides);
  KeyMask mask = KeyMask::get(op);
  if (mask.causal == CausalAlignment::BottomRight)
    mask.windowRight = 0;
  if (mask.windowLeft && mask.windowRight)
    problem.windowKeys = *mask.windowLeft + *mask.windowRight + 1;
  return problem;
}

std::optional<int64_t>
mlir::flashcore::getNumBlocks(const AttentionProblem &problem, int64_t blockM,
                              int64_t headGroup) {
  if (!problem.batch || !problem.headsQ || !problem.seqlenQ)
    return std::nullopt;
  return *problem.batch * llvm::divideCeil(*problem.headsQ, headGroup) *
         llvm::divideCeil(*problem.seqlenQ, blockM);
}

/// How well a grid of 128-row blocks fills the chip.
enum class GridFill {
  Unknown, ///< sizes are known at run time only
  Full,    ///< blocks of 128 rows keep it busy (see keepsBusy)
  Half,    ///< at least one block of 64 rows an SM
  Sparse,  ///< not even that
  FewRows, ///< few query rows over many keys
};

/// Whether throughput is all that counts; sizes that are not known are taken to
/// be large.
static bool isThroughput(GridFill fill) {
  return fill == GridFill::Full || fill == GridFill::Unknown;
}

/// Keys that the queries see at most; all sizes are known.
static int64_t getVisibleKeys(const AttentionProblem &problem) {
  int64_t keys = *problem.seqlenK;
  if (problem.windowKeys)
    keys = std::min(keys, *problem.windowKeys + *problem.seqlenQ - 1);
  return keys;
}

/// Where there are few query rows: warps for the rows of one head, and heads of
/// a block, as many as its warps allow.
static int64_t getFewRowWarps(const AttentionProblem &problem) {
  return *problem.seqlenQ <= 16 ? 1 : 2;
}
static int64_t chooseHeadGroup(const AttentionProblem &problem) {
  constexpr int64_t maxWarps = 8;
  int64_t group = *problem.headsQ / *problem.headsKV;
  int64_t heads = std::min(group, maxWarps / getFewRowWarps(problem));
  while (group % heads != 0)
    --heads;
  return heads;
}

/// Whether blocks of few rows are enough for the chip: each has all rows of its
/// heads, so that K and V are read once; or there are too few blocks, but
/// enough keys to share out.
static bool hasFewLongRows(const AttentionProblem &problem,
                           const TargetInfo &target) {
  constexpr int64_t minKeys = 1024, minKeysPerRow = 8;
  if (!problem.batch || !problem.headsQ || !problem.headsKV ||
      !problem.seqlenQ || !problem.seqlenK)
    return false;
  int64_t keys = getVisibleKeys(problem);
  if (keys / minKeysPerRow < *problem.seqlenQ)
    return false;
  int64_t rows = 16 * getFewRowWarps(problem);
  if (*getNumBlocks(problem, rows, chooseHeadGroup(problem)) > target.numSMs)
    return *problem.seqlenQ <= rows;
  return keys >= minKeys;
}

/// Whether `blocks` of 128 rows keep the chip busy to the end. Of a few an SM,
/// some SMs get one more than others: twice as many blocks of 64 rows are then
/// faster, though each costs more than half as much; under a causal mask, where
/// blocks differ in length, longer. Very wide heads have 64 rows anyway.
static bool keepsBusy(const AttentionProblem &problem, const TargetInfo &target,
                      int64_t blocks) {
  if (getHeadWidth(problem) == HeadWidth::VeryWide)
    return blocks >= target.numSMs;
  return 2 * blocks > (problem.isCausal ? 5 : 3) * target.numSMs;
}

static GridFill getGridFill(const AttentionProblem &problem,
                            const TargetInfo &target) {
  std::optional<int64_t> blocks = getNumBlocks(problem, 128);
  if (!blocks)
    return GridFill::Unknown;
  if (hasFewLongRows(problem, target))
    return GridFill::FewRows;
  if (keepsBusy(problem, target, *blocks))
    return GridFill::Full;
  return *getNumBlocks(problem, 64) >= target.numSMs ? GridFill::Half
                                                     : GridFill::Sparse;
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

namespace {
/// Notes a reason for each value that is not forced.
class ReasonWriter {
public:
  explicit ReasonWriter(std::vector<ScheduleReason> *reasons)
      : reasons(reasons) {}

  /// `forced` if it is not 0, else `chosen`.
  int64_t decide(llvm::StringLiteral field, int64_t forced, int64_t chosen,
                 const llvm::Twine &reason) {
    int64_t value = forced ? forced : chosen;
    note(field, std::to_string(value), forced != 0, reason);
    return value;
  }
  template <typename Enum>
  Enum decide(llvm::StringLiteral field, std::optional<Enum> forced,
              Enum chosen, llvm::StringRef (*stringify)(Enum),
              const llvm::Twine &reason) {
    Enum value = forced.value_or(chosen);
    note(field, stringify(value).str(), forced.has_value(), reason);
    return value;
  }

private:
  void note(llvm::StringLiteral field, std::string value, bool isForced,
            const llvm::Twine &reason) {
    if (reasons)
      reasons->push_back(
          {field, std::move(value), isForced ? "asked for" : reason.str()});
  }

  std::vector<ScheduleReason> *reasons;
};
} // namespace

static llvm::StringRef describe(HeadWidth width) {
  switch (width) {
  case HeadWidth::Narrow:
    return "heads up to 64";
  case HeadWidth::Wide:
    return "heads up to 128";
  case HeadWidth::VeryWide:
    return "heads over 128";
  }
  llvm_unreachable("unknown width");
}

static llvm::StringRef describe(GridFill fill) {
  switch (fill) {
  case GridFill::Unknown:
    return "sizes known at run time only";
  case GridFill::Full:
    return "a grid that keeps the chip busy with blocks of 128 rows";
  case GridFill::Half:
    return "a grid that keeps the chip busy with blocks of 64 rows, not of 128";
  case GridFill::Sparse:
    return "a grid too small to fill the chip with blocks of 64 rows";
  case GridFill::FewRows:
    return "few query rows over many keys";
  }
  llvm_unreachable("unknown fill");
}

/// Key rows of a tile where warps divide the keys.
static constexpr int64_t kDividedBlockN = 32;

/// Whether the options leave the shapes of blocks, warps and tiles to us.
static bool isShapeOpen(const ScheduleOptions &options) {
  return !options.blockM && !options.blockN && !options.numWarps &&
         !options.numStages;
}

/// How many warps share query rows. They pay for a merge in the end, so only a
/// grid that leaves the chip idle wants them, and each needs a tile of its own.
static int64_t chooseKeyWarps(const AttentionProblem &problem,
                              const ScheduleOptions &options, GridFill fill) {
  HeadWidth width = getHeadWidth(problem);
  if (fill != GridFill::Sparse || width == HeadWidth::VeryWide ||
      !problem.seqlenK || problem.hasWindow || !isShapeOpen(options) ||
      options.headGroup > 1 || options.keySplits > 1)
    return 1;
  // Four warps may have to divide the columns of O, by halves.
  bool hasFour = width == HeadWidth::Narrow && problem.headDimV % 16 == 0;
  int64_t keyWarps = hasFour ? 4 : 2;
  return *problem.seqlenK >= keyWarps * kDividedBlockN ? keyWarps : 1;
}

/// Query rows of warps that share them: the fewer, the more blocks. Causal
/// blocks then differ less in length; others want the least copies of K and V.
static int64_t chooseSharedRows(const AttentionProblem &problem,
                                const TargetInfo &target, int64_t keyWarps) {
  std::optional<int64_t> blocks = getNumBlocks(problem, 16);
  bool isFilled = blocks && *blocks > target.numSMs;
  bool hasRegisters =
      getHeadWidth(problem) == HeadWidth::Narrow && !problem.hasBias;
  bool wants32 = keyWarps > 2 && isFilled && hasRegisters && !problem.isCausal;
  auto canShare = [&](int64_t rows) {
    return problem.headDimV % (8 * getShareGrid(rows, keyWarps).cols) == 0;
  };
  int64_t rows = wants32 ? 32 : 16;
  while (!canShare(rows) && rows < 64)
    rows += 16;
  return rows;
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
      problem.isCausal || problem.hasWindow || problem.hasBias ||
      getHeadWidth(problem) != HeadWidth::Narrow)
    return Softmax::Online;
  bool isEven = *problem.seqlenK % (choice.keyWarps * choice.blockN) == 0;
  return isEven && *problem.seqlenK <= choice.keyWarps * maxKeys
             ? Softmax::OnePass
             : Softmax::Online;
}

/// Larger than anything that fits a chip, small enough for products of sizes
/// not to overflow.
static constexpr int64_t kMaxRows = 4096, kMaxStages = 1024, kMaxBlocks = 32;

/// Keys of a tile when K and V are all that counts: 16 KiB of them, so that a
/// few stages keep as much in flight as an SM needs.
static int64_t chooseStreamedKeys(const AttentionProblem &problem) {
  constexpr int64_t tileBytes = 16 * 1024, elementBytes = 2;
  int64_t keyBytes = elementBytes * (problem.headDim + problem.headDimV);
  int64_t keys = llvm::bit_floor(static_cast<uint64_t>(tileBytes / keyBytes));
  return std::clamp<int64_t>(keys, 16, 64);
}

/// Blocks of such tiles that an SM holds: with 32 KiB in flight each.
static constexpr int64_t kStreamingBlocksPerSM = 2;

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
  streamed.numStages = 3;
  while (streamed.numStages > 2 &&
         getSharedMemoryBytes(problem.headDim, problem.headDimV, streamed) >
             target.sharedMemoryPerBlock)
    --streamed.numStages;
  return streamed.numStages;
}

/// What the last blocks of a grid add to its time, as a share of it. Blocks
/// that stream keys finish together, two an SM; what is left over then has the
/// memory for itself, which less than a block an SM cannot keep busy.
static double getTail(int64_t blocks, const TargetInfo &target) {
  int64_t rest = blocks % (kStreamingBlocksPerSM * target.numSMs);
  if (rest == 0)
    return 0;
  return static_cast<double>(std::max<int64_t>(target.numSMs - rest, 0)) /
         blocks;
}

/// Blocks for the keys of a query tile: as many as run at once, or as leave no
/// long tail, with enough keys each to be worth a merge.
static int64_t chooseKeySplits(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice) {
  constexpr int64_t maxExtraSplits = 3;
  constexpr double shortTail = 0.05;
  // Of any grid.
  constexpr int64_t maxBlocks = int64_t(1) << 31;
  if (choice.blockM < 1)
    return 1; // refused later
  int64_t blocks = *getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (blocks < 1 || blocks > maxBlocks)
    return 1;
  int64_t first =
      std::max<int64_t>(kStreamingBlocksPerSM * target.numSMs / blocks, 1);
  int64_t splits = first;
  for (int64_t more = first; more <= first + maxExtraSplits; ++more) {
    if (getTail(blocks * more, target) < getTail(blocks * splits, target))
      splits = more;
    if (getTail(blocks * splits, target) <= shortTail)
      break;
  }
  splits = std::min(splits, getVisibleKeys(problem) / kMinKeysOfSplit);
  return std::clamp<int64_t>(splits, 1, kMaxKeySplits);
}

/// Tiles for which S still fits beside an O of up to 32 x 128 a warp, where
/// sizes that are known leave registers, unless a mask and a softcap take them.
/// Another tile is a partial one for most sequences, which must be worth it. A
/// single block of queries has bounds that LLVM knows, and spreads over
/// registers.
static constexpr int64_t kMiddleBlockN = 48;
static bool fitsMiddleTiles(const AttentionProblem &problem, GridFill fill) {
  constexpr int64_t minKeys = 512, blockRows = 128;
  // Two ends to compare with: of the sequence, and of what a query sees.
  bool hasTwoEnds = problem.isTopLeft && problem.seqlenQ > problem.seqlenK;
  bool hasSpareRegisters =
      (!problem.hasSoftcap || !problem.isCausal) && !hasTwoEnds;
  return fill == GridFill::Full && hasSpareRegisters &&
         *problem.seqlenQ > blockRows && !problem.hasOpenAddresses() &&
         *problem.seqlenK >= minKeys;
}

/// Whether few warps have no registers for the widest Q: addresses take them, a
/// softcap or a window, or the bounds of a single block of queries, which LLVM
/// knows and spreads over registers.
static bool isCrowded(const AttentionProblem &problem) {
  constexpr int64_t blockRows = 32;
  return problem.hasOpenAddresses() || problem.hasSoftcap ||
         problem.hasWindow || *problem.seqlenQ <= blockRows;
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
      options.keySplits > 1 || choice.blockM >= enoughRows ||
      *problem.seqlenQ <= choice.blockM || !problem.headsKV ||
      *problem.batch * *problem.headsKV < target.numSMs)
    return 0;
  // Powers of two, for which a block finds its tile without divisions.
  int64_t heads =
      llvm::bit_floor(static_cast<uint64_t>(target.numSMs / sharingBlocks));
  int64_t groups = *problem.headsQ / *problem.headsKV / choice.headGroup;
  return std::min(heads * groups, kMaxGridHeads);
}

/// How a throughput schedule follows the row maximum. Folded costs the least in
/// full tiles, and takes two registers a row of lanes more, which wide heads
/// lack.
static RowMax chooseRareMax(const AttentionProblem &problem,
                            const ScheduleOptions &options,
                            const ScheduleChoice &choice) {
  constexpr int64_t columnsWithSpareRegisters = 80;
  bool isPossible = !problem.hasSoftcap && !problem.hasBias &&
                    choice.overlap == Overlap::None &&
                    options.rowSum.value_or(RowSum::Mma) == RowSum::Mma;
  bool pays = getWidestDim(problem) <= columnsWithSpareRegisters;
  return isPossible && pays ? RowMax::Folded : RowMax::Stale;
}

/// Fills in what the options leave open. The defaults are measured in
/// docs/performance-notebook.md ("Default schedules").
static ScheduleChoice complete(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleOptions &options,
                               ReasonWriter reasons) {
  GridFill fill = getGridFill(problem, target);
  HeadWidth width = getHeadWidth(problem);
  bool isFilled = isThroughput(fill);
  bool hasWideOutput = problem.headDimV > 96;
  // 32 rows a warp: two rows of accumulators use every K and V fragment
  // twice. A grid that does not fill the chip wants smaller blocks; very wide
  // heads, wide ones with a window or a wide output of a narrower Q, and the
  // addresses of a bias leave no register to spare for it.
  bool isTight = width == HeadWidth::VeryWide || problem.hasBias ||
                 (width == HeadWidth::Wide &&
                  (problem.hasWindow ||
                   (problem.headDim != problem.headDimV && hasWideOutput)));
  int64_t keyWarps =
      std::clamp(options.keyWarps ? options.keyWarps
                                  : chooseKeyWarps(problem, options, fill),
                 int64_t(1), kMaxWarps);
  bool dividesKeys = keyWarps > 1;
  // Blocks of 128 rows would be half empty.
  bool isShort = problem.seqlenQ && *problem.seqlenQ <= 64;
  int64_t warpM = isFilled && !isTight && !isShort ? 32 : 16;
  if (dividesKeys)
    warpM = chooseSharedRows(problem, target, keyWarps);

  ScheduleChoice choice;
  bool hasFewRows = fill == GridFill::FewRows;
  bool groupsHeads =
      hasFewRows && !dividesKeys && !options.blockM && !options.numWarps;
  choice.headGroup = reasons.decide(
      "head_group", options.headGroup,
      groupsHeads ? chooseHeadGroup(problem) : 1,
      groupsHeads ? "the heads of a kv head use the same copy of K and V"
                  : "blocks of one kv head share its K and V in L2");
  int64_t heads = choice.headGroup;
  // Groups of warps with rows of their own.
  int64_t rowWarps = dividesKeys ? 1 : fill == GridFill::Sparse ? 2 : 4;
  // Very wide heads have few rows a warp: more warps share K and V, where Q has
  // to be read again and again.
  constexpr int64_t manyWarps = 8;
  QueryPlacement query = chooseQuery(problem, options, fill, isTight);
  if (width == HeadWidth::VeryWide && isFilled && !dividesKeys &&
      query != QueryPlacement::Registers &&
      getSharedMemoryBytes(problem.headDim, problem.headDimV,
                           {/*blockM=*/warpM * manyWarps, /*blockN=*/32,
                            manyWarps, /*numStages=*/2}) <=
          target.sharedMemoryPerBlock)
    rowWarps = manyWarps;
  if (options.blockM)
    rowWarps = chooseNumWarps(options.blockM, warpM);
  // The heads of a block share its warps.
  rowWarps = groupsHeads ? getFewRowWarps(problem)
                         : std::max<int64_t>(rowWarps / heads, 1);
  choice.numWarps = reasons.decide(
      "num_warps", options.numWarps, heads * rowWarps * keyWarps,
      options.blockM ? "what block_m comes out even with" : describe(fill));
  choice.keyWarps = reasons.decide(
      "key_warps", options.keyWarps, keyWarps,
      dividesKeys ? "few blocks: warps that wait for no other divide the keys"
                  : "the warps of a block share K and V, not query rows");
  rowWarps = choice.getRowWarps();
  choice.blockM = reasons.decide(
      "block_m", options.blockM, warpM * rowWarps,
      llvm::Twine(warpM) + " rows a warp: " + describe(width) +
          (isTight ? ", short of registers, " : ", ") + describe(fill));
  if (rowWarps > 0)
    warpM = choice.getWarpM();

  // A sparse grid leaves copies with little work to hide behind: larger tiles
  // (or, where registers are short, more stages) keep more bytes in flight.
  bool isSparse = fill == GridFill::Sparse && warpM <= 16;
  bool isNarrow = width == HeadWidth::Narrow;
  // A bias has an address for every score.
  bool hasLargeTiles = isSparse && !problem.hasBias;
  int64_t blockN = isNarrow ? (hasLargeTiles ? 128 : 64) : 32;
  // Larger tiles take fewer barriers, and read Q from shared memory less often,
  // where registers (of 16 rows a warp, or with fewer keys) or else shared
  // memory (of blocks with many warps) allow.
  int64_t dim = getWidestDim(problem);
  bool hasRegisters = width == HeadWidth::Wide && dim > 80;
  ScheduleChoice larger = choice;
  larger.blockN = 64;
  larger.numStages = options.numStages ? options.numStages : 2;
  bool fitsLarger =
      !dividesKeys &&
      getSharedMemoryBytes(problem.headDim, problem.headDimV, larger) <=
          target.sharedMemoryPerBlock &&
      options.grid.value_or(Grid::Full) == Grid::Full;
  bool sharesKeys = width == HeadWidth::VeryWide &&
                    choice.numWarps == manyWarps && isFilled &&
                    !problem.hasBias && !problem.hasWindow;
  bool hasFewAddresses = !problem.hasBias || !problem.hasOpenAddresses();
  bool isSmall =
      hasRegisters && warpM <= 16 && (isFilled || fill == GridFill::Half);
  if (fitsLarger && (sharesKeys || (isSmall && hasFewAddresses)))
    blockN = 64;
  else if (!isSmall && hasRegisters && fitsMiddleTiles(problem, fill))
    blockN = kMiddleBlockN;
  if (dividesKeys)
    blockN = kDividedBlockN;
  if (hasFewRows)
    blockN = chooseStreamedKeys(problem);
  // The widest O leaves room for the smallest S only, beside more addresses.
  if (problem.headDimV > 224 && (problem.hasBias || problem.hasWindow))
    blockN = 16;
  choice.blockN = reasons.decide(
      "block_n", options.blockN, blockN,
      hasFewRows || (isNarrow && hasLargeTiles && !dividesKeys)
          ? llvm::Twine("few blocks: more bytes in flight hide latency")
          : llvm::Twine("S beside O in registers: ") + describe(width));
  bool hasManyStages = width == HeadWidth::Wide && isSparse && !dividesKeys;
  int64_t numStages = hasManyStages ? 3 : 2;
  if (hasFewRows)
    numStages = chooseStreamedStages(problem, target, choice);
  choice.numStages =
      reasons.decide("num_stages", options.numStages, numStages,
                     hasManyStages || hasFewRows
                         ? "few blocks: more bytes in flight hide latency"
                         : "one tile is copied while one is used");

  if (width == HeadWidth::VeryWide &&
      (dividesKeys || choice.numWarps == manyWarps))
    query = QueryPlacement::Shared;
  choice.query = reasons.decide(
      "query", options.query, query, stringifyQueryPlacement,
      query == QueryPlacement::Registers ? "O and S leave registers for Q"
      : query == QueryPlacement::Shared  ? "O takes half of the registers"
                                        : "O leaves registers for a part of Q");
  bool isSplit = choice.query == QueryPlacement::Split;
  int64_t steps = getQuerySteps(problem);
  // A softcap takes registers of its own.
  int64_t half = steps / 2 - (problem.hasSoftcap ? 2 : 0);
  int64_t kept = width == HeadWidth::VeryWide ? half : steps - 1;
  choice.querySteps = reasons.decide("query_steps", options.querySteps,
                                     isSplit ? std::max<int64_t>(kept, 1) : 0,
                                     !isSplit ? "Q is in one place"
                                     : width == HeadWidth::VeryWide
                                         ? "registers for about half of Q"
                                         : "registers for all of Q but a step");
  // Causal rows differ in length: the longest of all heads first keeps the
  // tail of the grid short. Otherwise the blocks of one head share its K and
  // V in L2.
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      problem.isCausal ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      stringifyGridOrder,
      problem.isCausal ? "causal: the longest rows of all heads go first"
                       : "blocks of one head share its K and V in L2");
  int64_t gridHeads = chooseGridHeads(problem, target, options, fill, choice);
  choice.gridHeads = reasons.decide(
      "grid_heads", options.gridHeads, gridHeads,
      gridHeads ? "blocks of few rows: those that run at once share K and V"
                : "no head waits for others");
  // One block an SM is enough for us: without a bound ptxas may spill a few
  // registers to fit one more.
  choice.overlap =
      reasons.decide("overlap", options.overlap, Overlap::None,
                     stringifyOverlap, "a second S would take registers");
  Softmax softmax = chooseSoftmax(problem, options, choice);
  choice.softmax = reasons.decide(
      "softmax", options.softmax, softmax, stringifySoftmax,
      softmax == Softmax::OnePass
          ? "the scores of few key tiles fit registers: nothing is rescaled"
          : "any number of key tiles, one at a time");
  bool isOnePass = choice.softmax == Softmax::OnePass;
  // A stale maximum pays where throughput counts; a sparse grid waits for its
  // copies anyway, but under an exact maximum partial tiles have loops of their
  // own, which take as long again to compile, each, and registers: one at
  // either end of a window, or one with a softcap, a bias, the widest heads or
  // addresses known at run time only in it.
  bool isLong = problem.hasSoftcap || problem.hasBias ||
                problem.hasOpenAddresses() ||
                getWidestDim(problem) > kWidestWithSpareRegisters;
  bool hasLongLoops = problem.hasWindow || (problem.isCausal && isLong);
  bool paysStale = isFilled || fill == GridFill::Half;
  bool isStale = (paysStale || hasLongLoops) && !isOnePass;
  choice.rowMax = reasons.decide(
      "row_max", options.rowMax,
      isStale ? chooseRareMax(problem, options, choice) : RowMax::Exact,
      stringifyRowMax,
      isStale     ? (paysStale ? "most tiles need no rescaling of O"
                               : "one loop for full and partial tiles")
      : isOnePass ? "one pass takes one maximum"
                  : "rescaling O hides behind the copies of a small grid");
  isStale = choice.rowMax != RowMax::Exact;
  choice.rowSum = reasons.decide(
      "row_sum", options.rowSum,
      isStale || isOnePass ? RowSum::Mma : RowSum::Add, stringifyRowSum,
      isStale     ? "cancels the rounding of P under a stale maximum"
      : isOnePass ? "tensor cores wait for exponentials anyway"
                  : "needs no product of its own");
  choice.minBlocks =
      reasons.decide("min_blocks", options.minBlocks, 1,
                     "keeps ptxas from spilling to fit one more block");
  int64_t keySplits = hasFewRows ? chooseKeySplits(problem, target, choice) : 1;
  choice.keySplits = reasons.decide(
      "key_splits", options.keySplits, keySplits,
      keySplits > 1 ? "two blocks an SM, of 256 keys or more each"
                    : "a query row is one block's, which needs no merge");
  choice.grid = reasons.decide("grid", options.grid, Grid::Full, stringifyGrid,
                               "the chip hands out tiles as blocks end");
  return choice;
}

std::optional<std::string>
mlir::flashcore::checkHeadGroup(const AttentionProblem &problem,
                                int64_t headGroup) {
  if (headGroup < 1)
    return llvm::formatv("expects head-group of at least 1, but got {0}",
                         headGroup);
  if (headGroup == 1)
    return std::nullopt;
  if (!problem.headsQ || !problem.headsKV)
    return llvm::formatv(
        "expects heads_q and heads_kv to be known at compile time for "
        "head-group {0}; make them static or use head-group 1",
        headGroup);
  int64_t group = *problem.headsQ / *problem.headsKV;
  if (group % headGroup != 0)
    return llvm::formatv(
        "expects head-group to divide heads_q / heads_kv = {0}, but got {1}",
        group, headGroup);
  return std::nullopt;
}

/// Whether the warps that share query rows can divide O among them.
static std::optional<std::string> checkShares(const AttentionProblem &problem,
                                              const ScheduleChoice &choice) {
  ShareGrid grid = getShareGrid(choice.getWarpM(), choice.keyWarps);
  if (problem.headDimV % (8 * grid.cols) == 0)
    return std::nullopt;
  return llvm::formatv(
      "expects key-warps to divide the {0} x {1} results of a warp into "
      "shares "
      "of whole 8x8 cores, but got {2}; use fewer key-warps or a larger "
      "block-m",
      choice.getWarpM(), problem.headDimV, choice.keyWarps);
}

/// What stands against taking all exponentials of a warp at once.
static std::optional<std::string> checkOnePass(const AttentionProblem &problem,
                                               const ScheduleChoice &choice) {
  if (!problem.seqlenK)
    return "expects a seqlen_k known at compile time for softmax one_pass; "
           "use "
           "softmax online";
  if (choice.rowMax != RowMax::Exact)
    return llvm::formatv("expects row-max exact with softmax one_pass, which "
                         "has no earlier maximum, but got {0}",
                         stringifyRowMax(choice.rowMax));
  if (choice.overlap != Overlap::None)
    return "expects overlap none with softmax one_pass, which has no loop, "
           "but "
           "got qk";
  if (choice.keySplits > 1)
    return llvm::formatv("expects key-splits 1 with softmax one_pass, but got "
                         "{0}",
                         choice.keySplits);
  int64_t cols = choice.blockN * getTilesOfPart(*problem.seqlenK, choice);
  if (cols > kMaxRows)
    return llvm::formatv("expects at most {0} keys a warp with softmax "
                         "one_pass, but got {1}; use softmax online or more "
                         "key-warps",
                         kMaxRows, cols);
  return std::nullopt;
}

/// What stands against keeping a part of Q in registers.
static std::optional<std::string> checkSplit(const AttentionProblem &problem,
                                             const ScheduleChoice &choice) {
  if (choice.query != QueryPlacement::Split) {
    if (choice.querySteps == 0)
      return std::nullopt;
    return llvm::formatv("expects query-steps 0 unless query is split, but got "
                         "{0} with query {1}",
                         choice.querySteps,
                         stringifyQueryPlacement(choice.query));
  }
  int64_t steps = getQuerySteps(problem);
  if (steps < 2)
    return llvm::formatv("expects query registers or shared with head_dim {0}, "
                         "which is a single step of {1} columns, but got split",
                         problem.headDim, kQueryStep);
  if (choice.querySteps < 1 || choice.querySteps >= steps)
    return llvm::formatv("expects query-steps from 1 to {0} with query split "
                         "and head_dim {1}, but got {2}",
                         steps - 1, problem.headDim, choice.querySteps);
  return std::nullopt;
}

/// What stands against products that start at the negative of the maximum.
static std::optional<std::string>
checkFoldedMax(const AttentionProblem &problem, const ScheduleChoice &choice) {
  if (choice.rowMax != RowMax::Folded)
    return std::nullopt;
  if (problem.hasSoftcap || problem.hasBias)
    return llvm::formatv("expects row-max exact or stale with a {0}, which "
                         "changes the scores, but got folded",
                         problem.hasSoftcap ? "softcap" : "bias");
  if (choice.rowSum != RowSum::Mma)
    return "expects row-sum mma with row-max folded, but got add";
  if (choice.overlap != Overlap::None)
    return "expects overlap none with row-max folded, which needs the maximum "
           "of all earlier tiles before a product, but got qk";
  return std::nullopt;
}

/// Whether the blocks of a persistent grid can run at once: those that cannot
/// would walk their tiles when the others are done. `bytes` of shared memory
/// fit a block.
static std::optional<std::string> checkPersistent(const TargetInfo &target,
                                                  const ScheduleChoice &choice,
                                                  int64_t bytes) {
  int64_t warps = target.maxThreadsPerSM / kWarpSize;
  int64_t fitting =
      std::min({target.sharedMemoryPerSM / (bytes + kReservedSharedMemory),
                warps / choice.numWarps, target.maxBlocksPerSM});
  if (choice.getBlocksPerSM() <= fitting)
    return std::nullopt;
  return llvm::formatv(
      "expects min-blocks of at most {0} with grid persistent, whose blocks "
      "run at once: each needs {1} bytes of shared memory of the {2} and {3} "
      "warps of the {4} that an SM of {5} has, but got {6}; use smaller blocks "
      "or fewer stages",
      fitting, bytes, target.sharedMemoryPerSM, choice.numWarps, warps,
      target.chip, choice.minBlocks);
}

/// All blocks are along the x axis of the grid, which has a limit of its own.
static std::optional<std::string> checkGrid(const AttentionProblem &problem,
                                            const ScheduleChoice &choice) {
  constexpr uint64_t kMaxGrid = 2147483647;
  auto tiles = getNumBlocks(problem, choice.blockM, choice.headGroup);
  if (!tiles)
    return std::nullopt;
  uint64_t blocks = 0;
  if (choice.grid == Grid::Full)
    blocks = llvm::SaturatingMultiply<uint64_t>(*tiles, choice.keySplits);
  if (choice.keySplits > 1) // a block merges the splits of a row
    blocks = std::max<uint64_t>(blocks, *getNumBlocks(problem, /*blockM=*/1));
  if (blocks <= kMaxGrid)
    return std::nullopt;
  return llvm::formatv("needs {0} blocks (batch {1}, heads_q {2}, seqlen_q "
                       "{3}, block-m {4}), but CUDA launches at most {5}; "
                       "compute it in several parts",
                       blocks, *problem.batch, *problem.headsQ,
                       *problem.seqlenQ, choice.blockM, kMaxGrid);
}

std::optional<std::string>
mlir::flashcore::checkSchedule(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice) {
  if (choice.numWarps < 1 || choice.numWarps > kMaxWarps)
    return llvm::formatv("expects num-warps from 1 to {0}, but got {1}",
                         kMaxWarps, choice.numWarps);
  if (choice.keyWarps < 1 || choice.numWarps % choice.keyWarps != 0)
    return llvm::formatv(
        "expects key-warps to divide num-warps = {0}, but got {1}",
        choice.numWarps, choice.keyWarps);
  if (auto error = checkHeadGroup(problem, choice.headGroup))
    return error;
  if (choice.numWarps % choice.headGroup != 0)
    return llvm::formatv(
        "expects num-warps to be a multiple of head-group = {0}, but got {1}",
        choice.headGroup, choice.numWarps);
  if (choice.keySplits < 1 || choice.keySplits > kMaxKeySplits)
    return llvm::formatv("expects key-splits from 1 to {0}, but got {1}",
                         kMaxKeySplits, choice.keySplits);
  if (choice.keyWarps > 1 && (choice.headGroup > 1 || choice.keySplits > 1))
    return llvm::formatv("expects key-warps 1 where head-group or key-splits "
                         "is over 1, but got {0}",
                         choice.keyWarps);
  int64_t rowMultiple = 16 * choice.getRowWarps();
  if (choice.blockM <= 0 || choice.blockM % rowMultiple != 0)
    return llvm::formatv("expects block-m to be a positive multiple of 16 * "
                         "num-warps{0} = {1}, "
                         "but got {2}",
                         choice.keyWarps > 1    ? " / key-warps"
                         : choice.headGroup > 1 ? " / head-group"
                                                : "",
                         rowMultiple, choice.blockM);
  if (choice.blockN <= 0 || choice.blockN % 16 != 0)
    return llvm::formatv(
        "expects block-n to be a positive multiple of 16, but got {0}",
        choice.blockN);
  if (choice.numStages < 2)
    return llvm::formatv("expects num-stages of at least 2, but got {0}",
                         choice.numStages);
  for (auto [name, value, limit] :
       {std::tuple("block-m", choice.blockM, kMaxRows),
        {"block-n", choice.blockN, kMaxRows},
        {"num-stages", choice.numStages, kMaxStages},
        {"min-blocks", choice.minBlocks, kMaxBlocks}})
    if (value > limit)
      return llvm::formatv("expects {0} of at most {1}, but got {2}", name,
                           limit, value);
  if (choice.gridHeads < 0 || choice.gridHeads > kMaxGridHeads)
    return llvm::formatv("expects grid-heads from 0 to {0}, but got {1}",
                         kMaxGridHeads, choice.gridHeads);
  if (choice.gridHeads &&
      (choice.gridOrder != GridOrder::HeadFastest || choice.keySplits > 1))
    return llvm::formatv(
        "expects grid-order head_fastest and key-splits 1 with "
        "grid-heads {0}, but got {1} and {2}",
        choice.gridHeads, stringifyGridOrder(choice.gridOrder),
        choice.keySplits);
  if (choice.minBlocks < 0)
    return llvm::formatv("expects min-blocks not to be negative, but got {0}",
                         choice.minBlocks);
  if (std::optional<std::string> error = checkShares(problem, choice))
    return error;
  if (choice.softmax == Softmax::OnePass)
    if (std::optional<std::string> error = checkOnePass(problem, choice))
      return error;
  if (auto error = checkFoldedMax(problem, choice))
    return error;
  if (auto error = checkSplit(problem, choice))
    return error;
  if (auto error = checkGrid(problem, choice))
    return error;
  int64_t bytes =
      getSharedMemoryBytes(problem.headDim, problem.headDimV, choice);
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv(
        "needs {0} bytes of shared memory (block-m {1}, block-n {2}, "
        "num-stages {3}, head_dim {4}{5}), but {6} allows {7}; use fewer "
        "stages or smaller blocks",
        bytes, choice.blockM, choice.blockN, choice.numStages, problem.headDim,
        choice.keyWarps == 1
            ? std::string()
            : llvm::formatv(", for each of {0} warps", choice.numWarps).str(),
        target.chip, target.sharedMemoryPerBlock);
  if (choice.grid == Grid::Persistent)
    if (auto error = checkPersistent(target, choice, bytes))
      return error;
  int64_t registers = getFragmentRegisters(problem, choice);
  if (registers > kMaxRegistersPerThread)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments alone (block-m {1}, "
        "num-warps {2}, block-n {3}{4}), but a thread has {5}; use more "
        "warps "
        "or {6}",
        registers, choice.blockM, choice.numWarps, choice.blockN,
        choice.softmax == Softmax::OnePass ? ", softmax one_pass" : "",
        kMaxRegistersPerThread,
        choice.softmax == Softmax::OnePass ? "softmax online"
                                           : "a smaller block-n");
  return std::nullopt;
}

/// What the choice takes the sizes to be that are known at run time only. Few
/// query rows want another kernel than many, whatever the other sizes are: of
/// those, one batch entry with a long cache needs it the most, and more of them
/// lose little by it.
static AttentionProblem assumeSizes(AttentionProblem problem) {
  constexpr int64_t fewRows = 32, someHeads = 8, longCache = 8192;
  if (!problem.seqlenQ || *problem.seqlenQ > fewRows)
    return problem;
  // What is assumed here still takes registers at run time.
  problem.hasOpenStrides = problem.hasOpenAddresses();
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

std::variant<ScheduleChoice, std::string> mlir::flashcore::chooseSchedule(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleOptions &options, std::vector<ScheduleReason> *reasons) {
  if (options.headGroup)
    if (auto error = checkHeadGroup(problem, options.headGroup))
      return *error;
  ScheduleChoice choice =
      complete(assumeSizes(problem), target, options, ReasonWriter(reasons));
  if (std::optional<std::string> error = checkSchedule(problem, target, choice))
    return *error;
  return choice;
}
