//===- WarpgroupChoiceTest.cpp - Schedules of kernels of warpgroups -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"

using namespace mlir::flashcore;
using namespace mlir::fcgpu;

namespace {
const TargetInfo &hopper() { return *lookupTarget("sm_90a"); }

/// Enough blocks to fill the chip.
AttentionProblem makeLarge(int64_t headDim, int64_t headDimV) {
  AttentionProblem problem = makeProblem(headDim, headDimV);
  problem.batch = 4;
  problem.headsQ = problem.headsKV = 16;
  problem.seqlenQ = problem.seqlenK = 3072;
  return problem;
}

std::string refuseOnHopper(const AttentionProblem &problem,
                           const ScheduleOptions &options) {
  auto result = chooseSchedule(problem, hopper(), options);
  auto *error = std::get_if<std::string>(&result);
  return error ? *error : "accepted";
}

/// As many queries as keys, in a batch that fills the chip.
AttentionProblem makeBatch(int64_t headDim, int64_t seqlen, bool isCausal) {
  AttentionProblem problem = makeLarge(headDim, headDim);
  problem.batch = 32;
  problem.seqlenQ = problem.seqlenK = seqlen;
  problem.isCausal = isCausal;
  return problem;
}

TEST(Warpgroups, HaveTheMeasuredShapes) {
  struct {
    int64_t headDim, seqlen;
    bool isCausal;
    int64_t numWarps, blockN;
    Overlap overlap;
    RowMax rowMax;
    Grid grid;
    int64_t minBlocks = 1;
  } expected[] = {
      {64, 512, false, 8, 64, Overlap::None, RowMax::Checked, Grid::Full, 2},
      {64, 1024, false, 8, 64, Overlap::None, RowMax::Checked, Grid::Full, 2},
      {64, 2048, false, 16, 80, Overlap::None, RowMax::Checked, Grid::Full},
      {32, 2048, false, 16, 64, Overlap::None, RowMax::Checked, Grid::Full},
      {64, 512, true, 8, 64, Overlap::None, RowMax::Checked, Grid::Full, 2},
      {64, 4096, true, 8, 64, Overlap::None, RowMax::Checked, Grid::Full, 2},
      {32, 4096, true, 8, 64, Overlap::None, RowMax::Checked, Grid::Full, 2},
      {128, 1024, false, 8, 128, Overlap::PV, RowMax::Stale, Grid::Persistent},
      {128, 2048, false, 12, 64, Overlap::PV, RowMax::Stale, Grid::Full},
      {128, 2048, true, 8, 128, Overlap::PV, RowMax::Stale, Grid::Persistent},
      {128, 4096, true, 12, 64, Overlap::PV, RowMax::Stale, Grid::Full},
      {160, 4096, false, 12, 64, Overlap::PV, RowMax::Stale, Grid::Full},
      {160, 4096, true, 8, 96, Overlap::PV, RowMax::Stale, Grid::Full},
      {256, 4096, false, 8, 64, Overlap::PV, RowMax::Stale, Grid::Persistent},
      {256, 4096, true, 8, 64, Overlap::PV, RowMax::Stale, Grid::Full},
  };
  for (auto &row : expected) {
    ScheduleChoice choice =
        choose(makeBatch(row.headDim, row.seqlen, row.isCausal), hopper());
    std::string name =
        std::to_string(row.headDim) + " " + std::to_string(row.seqlen);
    EXPECT_EQ(choice.product, Product::Warpgroup) << name;
    EXPECT_EQ(choice.numWarps, row.numWarps) << name;
    EXPECT_EQ(choice.blockM, row.numWarps * 16) << name;
    EXPECT_EQ(choice.blockN, row.blockN) << name;
    EXPECT_EQ(choice.overlap, row.overlap) << name;
    EXPECT_EQ(choice.rowMax, row.rowMax) << name;
    EXPECT_EQ(choice.grid, row.grid) << name;
    EXPECT_EQ(choice.minBlocks, row.minBlocks) << name;
  }
}

// What a softcap computes has no registers beside P and S.
TEST(Warpgroups, DoNotOverlapASoftcapOfNarrowHeads) {
  AttentionProblem problem = makeBatch(64, 4096, /*isCausal=*/true);
  problem.hasSpecials = true;
  ScheduleChoice choice = choose(problem, hopper());
  EXPECT_EQ(choice.numWarps, 16);
  EXPECT_EQ(choice.blockN, 64);
  EXPECT_EQ(choice.overlap, Overlap::None);
  EXPECT_EQ(choice.grid, Grid::Full);
}

// 256 blocks of 128 rows are no two for each of 132 SMs. (Under a causal mask
// so few are left to single warps.)
TEST(Warpgroups, AreOneBlockOfASmallGrid) {
  AttentionProblem window = makeBatch(64, 1024, /*isCausal=*/false);
  window.hasWindow = true;
  window.batch = 2;
  EXPECT_EQ(choose(window, hopper()).product, Product::Warpgroup);
  EXPECT_EQ(choose(window, hopper()).minBlocks, 1);
  window.batch = 3;
  EXPECT_EQ(choose(window, hopper()).minBlocks, 2);
  AttentionProblem problem = makeBatch(64, 1024, /*isCausal=*/true);
  problem.batch = 2;
  EXPECT_EQ(choose(problem, hopper()).minBlocks, 1);
  problem.batch = 3;
  EXPECT_EQ(choose(problem, hopper()).minBlocks, 2);
}

// Of 640 rows a head, 256 are a block's own only twice: 192 blocks are two
// waves of them, 320 blocks of 128 rows three of half the size.
TEST(Warpgroups, AreTwoWhereTallBlocksWasteTheChip) {
  AttentionProblem problem = makeBatch(64, 640, /*isCausal=*/false);
  problem.batch = 4;
  EXPECT_EQ(choose(problem, hopper()).numWarps, 8);
  problem.seqlenQ = 512;
  EXPECT_EQ(choose(problem, hopper()).numWarps, 16);
}

TEST(Warpgroups, AreOfOneChip) {
  for (const TargetInfo &target : getTargets())
    EXPECT_EQ(choose(makeLarge(128, 128), target).product,
              target.chip == "sm_90a"  ? Product::Warpgroup
              : target.chip == "sm_70" ? Product::Wmma
                                       : Product::Warp)
        << target.chip.str();
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  EXPECT_EQ(refuse(makeLarge(128, 128), options),
            "expects product warp for sm_89, which has no wgmma of f16, but "
            "got warpgroup");
}

TEST(Warpgroups, DoAllMasksAndSizes) {
  std::vector<AttentionProblem> problems(6, makeLarge(128, 128));
  problems[0].isCausal = true;
  problems[1].hasBias = problems[1].hasLongScores = true;
  problems[2].seqlenK = std::nullopt;
  problems[3].seqlenK = 3000;
  problems[4].hasWindow = true;
  problems[5].headDim = 96;
  for (const AttentionProblem &problem : problems)
    EXPECT_EQ(choose(problem, hopper()).product, Product::Warpgroup);
}

// Three are ahead where a short region changes the scores, of wide heads and of
// narrow ones, where it reads something, too.
TEST(Warpgroups, AreAsManyUnderShortRegions) {
  AttentionProblem wide = makeLarge(128, 128), narrow = makeLarge(64, 64);
  int64_t numWarps = choose(wide, hopper()).numWarps;
  EXPECT_EQ(choose(narrow, hopper()).overlap, Overlap::None);
  wide.hasBias = narrow.hasBias = true;
  EXPECT_EQ(choose(wide, hopper()).numWarps, numWarps);
  EXPECT_EQ(choose(narrow, hopper()).numWarps, 12);
  EXPECT_EQ(choose(narrow, hopper()).overlap, Overlap::PV);
  narrow.readsPerScore = true;
  EXPECT_EQ(choose(narrow, hopper()).numWarps, 12);
  EXPECT_EQ(choose(narrow, hopper()).overlap, Overlap::None);
  wide.hasLongScores = narrow.hasLongScores = true;
  EXPECT_LT(choose(wide, hopper()).numWarps, numWarps);
  EXPECT_EQ(choose(narrow, hopper()).numWarps, 8);
}

TEST(Warpgroups, AreLeftForWhatIsForced) {
  ScheduleOptions folded;
  folded.rowMax = RowMax::Folded;
  folded.rowSum = RowSum::Mma;
  EXPECT_EQ(choose(makeLarge(128, 128), hopper(), folded).product,
            Product::Warp);
  ScheduleOptions warp;
  warp.product = Product::Warp;
  EXPECT_EQ(choose(makeLarge(128, 128), hopper(), warp).product, Product::Warp);
  // What they can do as well is done.
  ScheduleOptions stages;
  stages.blockN = 64;
  stages.numStages = 3;
  ScheduleChoice choice = choose(makeLarge(128, 128), hopper(), stages);
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockN, 64);
  EXPECT_EQ(choice.numStages, 3);
}

// Where they have too few, ptxas lets products wait for each other.
TEST(Warpgroups, HaveRegistersBesideTheirFragments) {
  AttentionProblem wide = makeLarge(64, 256);
  ScheduleChoice choice = choose(wide, hopper());
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.blockN, 96);
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  options.blockN = 128;
  EXPECT_EQ(
      refuseOnHopper(wide, options),
      "needs 224 registers a thread for its fragments and 28 beside, but "
      "8 warps of product warpgroup have 240 where an SM holds 1 of their "
      "blocks; use a smaller block-n or min-blocks");
}

// Where blocks of 128 rows leave SMs idle, keys are shared out: wide heads of
// many keys, or narrow ones of very many; 2,048 keys of 256 a block fill no
// chip with four query tiles. 160 blocks of 128 rows are two waves, 120 of 192
// one. Fewer keys are of blocks of 64 rows.
TEST(Warpgroups, ShareOutTheKeysOfSmallGrids) {
  struct {
    int64_t headDim, heads, seqlenQ, seqlenK;
    Product product;
    int64_t keySplits, numWarps = 8;
  } expected[] = {{128, 8, 512, 512, Product::Warpgroup, 1, 4},
                  {128, 8, 512, 2048, Product::Warpgroup, 4},
                  {128, 8, 512, 8192, Product::Warpgroup, 4},
                  {128, 8, 1024, 65536, Product::Warpgroup, 2},
                  {128, 8, 1024, 1024, Product::Warpgroup, 1},
                  {128, 16, 1024, 1024, Product::Warpgroup, 1},
                  {128, 16, 256, 1024, Product::Warpgroup, 1, 4},
                  {128, 20, 1024, 3000, Product::Warpgroup, 1, 12},
                  {256, 8, 512, 4096, Product::Warpgroup, 4},
                  {64, 16, 512, 2048, Product::Warpgroup, 1, 4},
                  {64, 8, 512, 2048, Product::Warp, 1},
                  {64, 8, 512, 32768, Product::Warpgroup, 4},
                  {128, 2, 256, 2048, Product::Warp, 4}};
  for (auto &row : expected) {
    AttentionProblem problem = makeLarge(row.headDim, row.headDim);
    problem.batch = 1;
    problem.headsQ = problem.headsKV = row.heads;
    problem.seqlenQ = row.seqlenQ;
    problem.seqlenK = row.seqlenK;
    ScheduleChoice choice = choose(problem, hopper());
    std::string name =
        std::to_string(row.headDim) + " " + std::to_string(row.heads) + " " +
        std::to_string(row.seqlenQ) + " " + std::to_string(row.seqlenK);
    EXPECT_EQ(choice.product, row.product) << name;
    if (row.product == Product::Warp)
      continue;
    EXPECT_EQ(choice.keySplits, row.keySplits) << name;
    EXPECT_EQ(choice.numWarps, row.numWarps) << name;
    EXPECT_EQ(choice.grid, Grid::Full) << name;
  }
}

// Heads that take turns are those of a grid of whole rows.
TEST(Warpgroups, HaveNoTurnsOfHeadsWithSharedOutKeys) {
  AttentionProblem problem = makeLarge(128, 128);
  problem.batch = 1;
  problem.seqlenQ = 512;
  problem.seqlenK = 4096;
  problem.isCausal = true;
  ScheduleChoice choice = choose(problem, hopper());
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.keySplits, 2);
  EXPECT_EQ(choice.gridHeads, 0);
}

// 64 queries are one warpgroup's: the other has those of another head.
TEST(Warpgroups, OfFewQueriesTakeTwoHeads) {
  AttentionProblem problem = makeLarge(128, 128);
  problem.batch = 1;
  problem.headsQ = 32;
  problem.headsKV = 8;
  problem.seqlenQ = 64;
  problem.seqlenK = 8192;
  ScheduleChoice choice = choose(problem, hopper());
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.headGroup, 2);
  EXPECT_EQ(choice.blockM, 64);
  EXPECT_EQ(choice.keySplits, 8);
  problem.headsKV = 32;
  EXPECT_EQ(choose(problem, hopper()).headGroup, 1);
}

// They multiply 64 rows at a time, also where other sizes are open.
TEST(Warpgroups, AreNotForFewQueries) {
  AttentionProblem decode = makeLarge(128, 128);
  decode.batch = decode.seqlenK = std::nullopt;
  for (int64_t queries : {1, 16, 32}) {
    decode.seqlenQ = queries;
    EXPECT_EQ(choose(decode, hopper()).product, Product::Warp) << queries;
  }
  decode.seqlenQ = 512;
  EXPECT_EQ(choose(decode, hopper()).product, Product::Warpgroup);
  decode.seqlenQ = std::nullopt;
  EXPECT_EQ(choose(decode, hopper()).product, Product::Warpgroup);
}

TEST(Warpgroups, TakeWhatTheModelSays) {
  AttentionProblem problem = makeLarge(128, 128);
  problem.seqlenQ = problem.seqlenK = 1024;
  ScheduleOptions options;
  options.rowSum = RowSum::Add;
  ScheduleChoice choice = choose(problem, hopper(), options);
  // Q, two stages of K and V, two barriers a slot.
  int64_t bytes = 128 * 128 * 2 + 2 * 2 * 128 * 128 * 2 + 16 * (2 + 2 * 2);
  EXPECT_EQ(getSharedMemoryBytes(problem, choice), bytes);
  // O, S and P in pairs.
  EXPECT_EQ(getFragmentRegisters(problem, choice), 64 + 64 + 32);
  EXPECT_EQ(choice.getAllWarps(), 12);
  // Columns of ones: a panel of each slot of V, and a core of O.
  choice = choose(problem, hopper());
  EXPECT_EQ(choice.rowSum, RowSum::Mma);
  EXPECT_EQ(getSharedMemoryBytes(problem, choice), bytes + 2 * 128 * 64 * 2);
  EXPECT_EQ(getFragmentRegisters(problem, choice), 64 + 4 + 64 + 32);
  // Two barriers more for each of the five slots of the walk that is exact, and
  // the flag that asks for it.
  int64_t once = getSharedMemoryBytes(problem, choice);
  choice.rowMax = RowMax::Checked;
  EXPECT_EQ(getSharedMemoryBytes(problem, choice), once + 2 * 6 * 8 + 16);
}

// O has whole panels of its own, for each warpgroup, behind no barrier.
TEST(Warpgroups, HaveSlotsForOutputThatIsCopied) {
  AttentionProblem problem = makeLarge(128, 72);
  ScheduleOptions options;
  options.numWarps = 8;
  options.blockN = 64;
  int64_t direct =
      getSharedMemoryBytes(problem, choose(problem, hopper(), options));
  options.output = OutputRoute::Bulk;
  ScheduleChoice choice = choose(problem, hopper(), options);
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(getSharedMemoryBytes(problem, choice),
            direct + 2 * 64 * 2 * kPanelBytes);
  options.keySplits = 2;
  EXPECT_EQ(refuseOnHopper(problem, options),
            "expects output direct with product warp, but got bulk; use "
            "product warpgroup");
  options.product = Product::Warpgroup;
  EXPECT_EQ(refuseOnHopper(problem, options),
            "expects output direct with key-splits 2, whose results are "
            "partial, but got bulk");
}

TEST(Warpgroups, HaveSumsInColumnsOfWholePanels) {
  struct {
    int64_t headDim, headDimV;
    RowSum rowSum;
  } expected[] = {{64, 64, RowSum::Mma},  {128, 128, RowSum::Mma},
                  {72, 128, RowSum::Mma}, {192, 192, RowSum::Mma},
                  {128, 72, RowSum::Add}, {96, 96, RowSum::Add},
                  {256, 256, RowSum::Add}};
  for (auto [headDim, headDimV, rowSum] : expected)
    EXPECT_EQ(choose(makeLarge(headDim, headDimV), hopper()).rowSum, rowSum)
        << headDim << "/" << headDimV;
}

// Nothing but the sums of P is read for an LSE, so those are not of columns of
// ones, which a product multiplies with P as it is rounded.
TEST(Warpgroups, AddUpTheSumsOfAnLse) {
  for (int64_t headDim : {64, 128, 192}) {
    AttentionProblem problem = makeLarge(headDim, headDim);
    problem.hasLse = true;
    ScheduleChoice choice = choose(problem, hopper());
    EXPECT_EQ(choice.product, Product::Warpgroup) << headDim;
    EXPECT_EQ(choice.rowSum, RowSum::Add) << headDim;
  }
}

// A bias is loaded beside the fragments.
TEST(Warpgroups, AreTwoWhereABiasTakesRegisters) {
  AttentionProblem problem = makeLarge(64, 64);
  EXPECT_EQ(choose(problem, hopper()).numWarps, 16);
  problem.hasBias = problem.hasLongScores = true;
  EXPECT_EQ(choose(problem, hopper()).numWarps, 8);
}

// Under a causal mask the longest blocks start first, and heads take turns.
TEST(Warpgroups, AreOrderedByLengthUnderACausalMask) {
  for (auto [headDim, heads] : {std::pair(128, 8), {256, 4}}) {
    AttentionProblem problem = makeLarge(headDim, headDim);
    problem.seqlenQ = problem.seqlenK = 8192;
    ScheduleChoice choice = choose(problem, hopper());
    EXPECT_EQ(choice.gridOrder, GridOrder::QueryFastest);
    EXPECT_EQ(choice.gridHeads, 0);
    problem.isCausal = true;
    choice = choose(problem, hopper());
    EXPECT_EQ(choice.gridOrder, GridOrder::HeadFastest);
    EXPECT_EQ(choice.gridHeads, heads);
    ScheduleOptions options;
    options.gridOrder = GridOrder::QueryFastest;
    EXPECT_EQ(choose(problem, hopper(), options).gridHeads, 0);
  }
}

TEST(Warpgroups, PersistForShortSequences) {
  struct {
    int64_t headDim, longest, longestCausal;
  } expected[] = {{128, 1024, 2048}, {256, 4096, 2048}};
  for (auto [headDim, longest, longestCausal] : expected)
    for (bool isCausal : {false, true}) {
      int64_t last = isCausal ? longestCausal : longest;
      AttentionProblem problem = makeBatch(headDim, last, isCausal);
      ScheduleChoice choice = choose(problem, hopper());
      EXPECT_EQ(choice.grid, Grid::Persistent) << headDim << isCausal;
      // Blocks have long and short tiles in turn.
      EXPECT_EQ(choice.gridOrder, GridOrder::QueryFastest);
      problem.seqlenQ = problem.seqlenK = last + 1;
      EXPECT_EQ(choose(problem, hopper()).grid, Grid::Full)
          << headDim << isCausal;
      problem.seqlenK = std::nullopt;
      EXPECT_EQ(choose(problem, hopper()).grid, Grid::Full);
    }
}

TEST(Warpgroups, DoNotPersistForWindows) {
  AttentionProblem problem = makeBatch(128, 1024, /*isCausal=*/false);
  EXPECT_EQ(choose(problem, hopper()).grid, Grid::Persistent);
  problem.hasWindow = true;
  problem.windowKeys = 128;
  EXPECT_EQ(choose(problem, hopper()).grid, Grid::Full);
}

// Of a single tile, or two, none is copied while another is multiplied.
TEST(Warpgroups, AreLeftForFewKeys) {
  AttentionProblem problem = makeBatch(128, 256, /*isCausal=*/false);
  EXPECT_EQ(choose(problem, hopper()).product, Product::Warpgroup);
  problem.seqlenK = 255;
  EXPECT_EQ(choose(problem, hopper()).product, Product::Warp);
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  EXPECT_EQ(choose(problem, hopper(), options).product, Product::Warpgroup);
}

TEST(Warpgroups, RefuseColumnsOfOnesInsideOfAPanel) {
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  options.rowSum = RowSum::Mma;
  EXPECT_EQ(refuseOnHopper(makeLarge(128, 72), options),
            "expects row-sum add with product warpgroup and head_dim_v 72, "
            "which is no multiple of 64 below 256, but got mma");
  EXPECT_EQ(refuseOnHopper(makeLarge(128, 256), options),
            "expects row-sum add with product warpgroup and head_dim_v 256, "
            "which is no multiple of 64 below 256, but got mma");
}

// Where the rows of a tile end inside of a panel, the rest is there, too.
TEST(Warpgroups, HaveWholePanelsInSharedMemory) {
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  options.blockN = 64;
  AttentionProblem ragged = makeLarge(72, 72), whole = makeLarge(128, 128);
  options.rowSum = RowSum::Add;
  EXPECT_EQ(getSharedMemoryBytes(ragged, choose(ragged, hopper(), options)),
            getSharedMemoryBytes(whole, choose(whole, hopper(), options)));
}

/// Bulk copies end where sequences do, and find the pages of their rows.
TEST(Warpgroups, TakeLengthsAndPages) {
  AttentionProblem problem = makeLarge(128, 128);
  problem.hasLengths = true;
  EXPECT_EQ(choose(problem, hopper()).product, Product::Warpgroup);
  problem.isVarlen = true;
  problem.batch = problem.seqlenQ = problem.seqlenK = std::nullopt;
  ScheduleChoice choice = choose(problem, hopper());
  EXPECT_EQ(choice.product, Product::Warpgroup);
  EXPECT_EQ(choice.grid, Grid::Full);
  EXPECT_EQ(choice.keySplits, 1);

  problem = makeLarge(128, 128);
  problem.hasLengths = problem.isPaged = true;
  for (int64_t pageSize : {8, 16, 256}) {
    problem.pageSize = pageSize;
    EXPECT_EQ(choose(problem, hopper()).product, Product::Warpgroup);
  }
  ScheduleOptions options;
  options.product = Product::Warpgroup;
  for (int64_t pageSize : {1, 4}) {
    problem.pageSize = pageSize;
    EXPECT_EQ(choose(problem, hopper()).product, Product::Warp);
    EXPECT_EQ(refuseOnHopper(problem, options),
              "expects product warp with pages of " + std::to_string(pageSize) +
                  " keys and block-n 64, of which a bulk copy would move no 8 "
                  "rows, but got warpgroup");
  }
}

// Where bits must not depend on the batch, single warps are what all calls can
// have; who asks for warpgroups gets tiles by the head dims alone.
TEST(WarpgroupChoice, InvariantTilesAreTheSameForAllSizes) {
  ScheduleOptions options;
  options.invariance = Invariance::Batch;
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), hopper(), options).product,
            Product::Warp);
  options.product = Product::Warpgroup;
  for (auto [dim, dimV, blockN] : {std::tuple(16, 16, 128),
                                   {64, 64, 128},
                                   {72, 72, 128},
                                   {128, 128, 128},
                                   {192, 128, 64},
                                   {64, 256, 64},
                                   {136, 136, 64},
                                   {256, 256, 64}})
    for (AttentionProblem problem : makeProblems(dim, dimV))
      for (bool isHard : {false, true}) {
        problem.hasBias = problem.hasLongScores = problem.hasOpenStrides =
            isHard;
        for (int64_t splitKeys : {0, 1024}) {
          options.splitKeys = splitKeys;
          ScheduleChoice choice = choose(problem, hopper(), options);
          EXPECT_EQ(choice.blockN, blockN) << dim << " " << dimV;
          EXPECT_EQ(choice.product, Product::Warpgroup);
          EXPECT_EQ(choice.rowMax, RowMax::Exact);
          EXPECT_EQ(choice.rowSum, RowSum::Add);
          EXPECT_EQ(choice.keySplits, 1);
          EXPECT_EQ(choice.splitKeys, splitKeys);
        }
      }
}
} // namespace
