//===- ScheduleChoice.cpp - Choosing a kernel's schedule ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The defaults are the winners of the measurements in docs/performance.md;
// everything a user forces is kept, and refused when it cannot work.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleChoice.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

int64_t mlir::flashcore::getSharedMemoryBytes(int64_t headDim, int64_t headDimV,
                                              int64_t blockM, int64_t blockN,
                                              int64_t numStages) {
  constexpr int64_t elementBytes = 2;
  return elementBytes *
         (blockM * headDim + numStages * blockN * (headDim + headDimV));
}

/// Registers a thread cannot do without: its part of the O and S accumulators
/// and of Q, when that is kept.
static int64_t getFragmentRegisters(const AttentionProblem &problem,
                                    const ScheduleChoice &choice) {
  int64_t warpM = choice.blockM / choice.numWarps;
  int64_t tilesOfS = choice.overlap == Overlap::QK ? 2 : 1;
  int64_t elements = warpM * (problem.headDimV + tilesOfS * choice.blockN);
  if (choice.query == QueryPlacement::Registers)
    elements += warpM * problem.headDim / 2; // two 16-bit values a register
  return elements / kWarpSize;
}

/// What the head dims leave room for.
enum class HeadWidth {
  Narrow,   ///< up to 64: Q and O of 32 rows a warp fit the registers
  Wide,     ///< up to 128: O of 32 rows a warp takes half of the registers
  VeryWide, ///< O of 16 rows a warp does
};

static HeadWidth getHeadWidth(const AttentionProblem &problem) {
  int64_t dim = std::max(problem.headDim, problem.headDimV);
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
  problem.hasSoftcap = op.getSoftcap().has_value();
  problem.hasBias = static_cast<bool>(op.getBias());
  problem.hasWindow = op.getWindowLeft() || op.getWindowRight();
  return problem;
}

std::optional<int64_t>
mlir::flashcore::getNumBlocks(const AttentionProblem &problem, int64_t blockM) {
  if (!problem.batch || !problem.headsQ || !problem.seqlenQ)
    return std::nullopt;
  return *problem.batch * *problem.headsQ *
         llvm::divideCeil(*problem.seqlenQ, blockM);
}

/// How well a grid of 128-row blocks fills the chip.
enum class GridFill {
  Unknown, ///< sizes are known at run time only
  Full,    ///< at least one block of 128 rows an SM
  Half,    ///< enough for blocks of 64 rows
  Sparse,  ///< not even that
};

static GridFill getGridFill(const AttentionProblem &problem,
                            const TargetInfo &target) {
  std::optional<int64_t> blocks = getNumBlocks(problem, 128);
  if (!blocks)
    return GridFill::Unknown;
  if (*blocks >= target.numSMs)
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
    return "a grid that fills the chip with blocks of 128 rows";
  case GridFill::Half:
    return "a grid that fills the chip with blocks of 64 rows, not of 128";
  case GridFill::Sparse:
    return "a grid too small to fill the chip with blocks of 64 rows";
  }
  llvm_unreachable("unknown fill");
}

/// Fills in what the options leave open. The defaults are measured in
/// docs/performance.md ("Default schedules").
static ScheduleChoice complete(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleOptions &options,
                               ReasonWriter reasons) {
  GridFill fill = getGridFill(problem, target);
  HeadWidth width = getHeadWidth(problem);
  bool isFilled = fill == GridFill::Full || fill == GridFill::Unknown;
  // 32 rows a warp: two rows of accumulators use every K and V fragment twice.
  // A grid that does not fill the chip wants smaller blocks; very wide heads,
  // wide ones of unequal dims or with a window, and the addresses of a bias
  // leave no register to spare for it.
  bool isTight = width == HeadWidth::VeryWide || problem.hasBias ||
                 (width == HeadWidth::Wide &&
                  (problem.hasWindow || problem.headDim != problem.headDimV));
  int64_t warpM = isFilled && !isTight ? 32 : 16;

  ScheduleChoice choice;
  int64_t numWarps = fill == GridFill::Sparse ? 2 : 4;
  // Very wide heads have few rows a warp: more warps share K and V.
  constexpr int64_t manyWarps = 8;
  if (width == HeadWidth::VeryWide && isFilled &&
      getSharedMemoryBytes(problem.headDim, problem.headDimV, warpM * manyWarps,
                           /*blockN=*/32,
                           /*numStages=*/2) <= target.sharedMemoryPerBlock)
    numWarps = manyWarps;
  if (options.blockM)
    numWarps = chooseNumWarps(options.blockM, warpM);
  choice.numWarps = reasons.decide("num_warps", options.numWarps, numWarps,
                                   options.blockM ? "what block_m comes out "
                                                    "even with"
                                                  : describe(fill));
  choice.blockM = reasons.decide(
      "block_m", options.blockM, warpM * choice.numWarps,
      llvm::Twine(warpM) + " rows a warp: " + describe(width) +
          (isTight ? ", short of registers, " : ", ") + describe(fill));
  if (choice.numWarps > 0)
    warpM = choice.blockM / choice.numWarps;

  // A sparse grid leaves copies with little work to hide behind: larger tiles
  // (or, where registers are short, more stages) keep more bytes in flight.
  bool isSparse = fill == GridFill::Sparse && warpM <= 16;
  bool isNarrow = width == HeadWidth::Narrow;
  int64_t blockN = isNarrow ? (isSparse ? 128 : 64) : 32;
  // The widest O leaves room for the smallest S only, beside more addresses.
  if (problem.headDimV > 224 && (problem.hasBias || problem.hasWindow))
    blockN = 16;
  choice.blockN = reasons.decide(
      "block_n", options.blockN, blockN,
      isNarrow && isSparse
          ? llvm::Twine("few blocks: more bytes in flight hide latency")
          : llvm::Twine("S beside O in registers: ") + describe(width));
  bool hasManyStages = width == HeadWidth::Wide && isSparse;
  choice.numStages = reasons.decide(
      "num_stages", options.numStages, hasManyStages ? 3 : 2,
      hasManyStages ? "few blocks: more bytes in flight hide latency"
                    : "one tile is copied while one is used");

  // O of a wide head takes half of the registers, so Q is read again for every
  // tile.
  bool rereadsQuery =
      width == HeadWidth::VeryWide || (width == HeadWidth::Wide && isFilled);
  choice.query = reasons.decide("query", options.query,
                                rereadsQuery ? QueryPlacement::Shared
                                             : QueryPlacement::Registers,
                                stringifyQueryPlacement,
                                rereadsQuery ? "O takes half of the registers"
                                             : "O and S leave registers for Q");
  // Causal rows differ in length: the longest of all heads first keeps the tail
  // of the grid short. Otherwise the blocks of one head share its K and V in
  // L2.
  choice.gridOrder = reasons.decide(
      "grid_order", options.gridOrder,
      problem.isCausal ? GridOrder::HeadFastest : GridOrder::QueryFastest,
      stringifyGridOrder,
      problem.isCausal ? "causal: the longest rows of all heads go first"
                       : "blocks of one head share its K and V in L2");
  // One block an SM is enough for us: without a bound ptxas may spill a few
  // registers to fit one more.
  choice.overlap =
      reasons.decide("overlap", options.overlap, Overlap::None,
                     stringifyOverlap, "a second S would take registers");
  // A stale maximum pays where throughput counts; a sparse grid waits for its
  // copies anyway.
  choice.rowMax = reasons.decide(
      "row_max", options.rowMax, isFilled ? RowMax::Stale : RowMax::Exact,
      stringifyRowMax,
      isFilled ? "most tiles need no rescaling of O"
               : "rescaling O hides behind the copies of a small grid");
  choice.rowSum =
      reasons.decide("row_sum", options.rowSum,
                     choice.rowMax == RowMax::Stale ? RowSum::Mma : RowSum::Add,
                     stringifyRowSum,
                     choice.rowMax == RowMax::Stale
                         ? "cancels the rounding of P under a stale maximum"
                         : "needs no product of its own");
  choice.minBlocks =
      reasons.decide("min_blocks", options.minBlocks, 1,
                     "keeps ptxas from spilling to fit one more block");
  return choice;
}

/// Larger than anything that fits a chip, small enough for products of sizes
/// not to overflow.
static constexpr int64_t kMaxRows = 4096, kMaxStages = 1024, kMaxBlocks = 32;

std::optional<std::string>
mlir::flashcore::checkSchedule(const AttentionProblem &problem,
                               const TargetInfo &target,
                               const ScheduleChoice &choice) {
  if (choice.numWarps < 1 || choice.numWarps > 32)
    return llvm::formatv("expects num-warps from 1 to 32, but got {0}",
                         choice.numWarps);
  if (choice.blockM <= 0 || choice.blockM % (16 * choice.numWarps) != 0)
    return llvm::formatv(
        "expects block-m to be a positive multiple of 16 * num-warps = {0}, "
        "but got {1}",
        16 * choice.numWarps, choice.blockM);
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
  if (choice.minBlocks < 0)
    return llvm::formatv("expects min-blocks not to be negative, but got {0}",
                         choice.minBlocks);
  int64_t bytes =
      getSharedMemoryBytes(problem.headDim, problem.headDimV, choice.blockM,
                           choice.blockN, choice.numStages);
  if (bytes > target.sharedMemoryPerBlock)
    return llvm::formatv(
        "needs {0} bytes of shared memory (block-m {1}, block-n {2}, "
        "num-stages {3}, head_dim {4}), but {5} allows {6}; use fewer stages "
        "or smaller blocks",
        bytes, choice.blockM, choice.blockN, choice.numStages, problem.headDim,
        target.chip, target.sharedMemoryPerBlock);
  int64_t registers = getFragmentRegisters(problem, choice);
  if (registers > kMaxRegistersPerThread)
    return llvm::formatv(
        "needs {0} registers a thread for its fragments alone (block-m {1}, "
        "num-warps {2}, block-n {3}), but a thread has {4}; use more warps or "
        "a smaller block-n",
        registers, choice.blockM, choice.numWarps, choice.blockN,
        kMaxRegistersPerThread);
  return std::nullopt;
}

std::variant<ScheduleChoice, std::string> mlir::flashcore::chooseSchedule(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleOptions &options, std::vector<ScheduleReason> *reasons) {
  ScheduleChoice choice =
      complete(problem, target, options, ReasonWriter(reasons));
  if (std::optional<std::string> error = checkSchedule(problem, target, choice))
    return *error;
  return choice;
}
