//===- ScheduleChoiceTest.cpp - Default and forced schedules --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Analysis/ScheduleChoice.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
constexpr int64_t kMaxWarps = 32;

const TargetInfo &ada() { return *lookupTarget("sm_89"); }

AttentionProblem makeProblem(int64_t headDim, int64_t headDimV) {
  AttentionProblem problem;
  problem.headDim = headDim;
  problem.headDimV = headDimV;
  return problem;
}

/// Problems of one pair of head dims: sizes unknown, too few blocks to fill a
/// chip, and many; with and without causal.
std::vector<AttentionProblem> makeProblems(int64_t headDim, int64_t headDimV) {
  AttentionProblem unknown = makeProblem(headDim, headDimV);
  std::vector<AttentionProblem> problems{unknown};
  for (int64_t batch : {1, 4, 64})
    for (int64_t seqlen : {1, 128, 1000, 4096}) {
      AttentionProblem problem = unknown;
      problem.batch = batch;
      problem.headsQ = problem.headsKV = 8;
      problem.seqlenQ = problem.seqlenK = seqlen;
      problems.push_back(problem);
      problem.seqlenK = std::nullopt;
      problems.push_back(problem);
    }
  size_t numProblems = problems.size();
  for (size_t i = 0; i < numProblems; ++i) {
    problems.push_back(problems[i]);
    problems.back().isCausal = true;
  }
  return problems;
}

ScheduleChoice choose(const AttentionProblem &problem, const TargetInfo &target,
                      const ScheduleOptions &options = {}) {
  auto result = chooseSchedule(problem, target, options);
  if (auto *error = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *error;
    return {};
  }
  return std::get<ScheduleChoice>(result);
}

std::string refuse(const AttentionProblem &problem,
                   const ScheduleOptions &options) {
  auto result = chooseSchedule(problem, ada(), options);
  auto *error = std::get_if<std::string>(&result);
  return error ? *error : "accepted";
}

/// Calls `check` with the default schedule of every problem on every chip.
template <typename Callback> void forEachDefault(Callback check) {
  for (const TargetInfo &target : getTargets())
    for (int64_t headDim = 16; headDim <= 256; headDim += 8)
      for (int64_t headDimV = 16; headDimV <= 256; headDimV += 8)
        for (const AttentionProblem &problem :
             makeProblems(headDim, headDimV)) {
          SCOPED_TRACE(target.chip.str() + ", head_dim " +
                       std::to_string(headDim) + ", head_dim_v " +
                       std::to_string(headDimV));
          check(problem, target, choose(problem, target));
        }
}

//===----------------------------------------------------------------------===//
// Defaults
//===----------------------------------------------------------------------===//

TEST(ScheduleDefaults, TileShapesSuitMmaSync) {
  forEachDefault([](const AttentionProblem &, const TargetInfo &,
                    const ScheduleChoice &choice) {
    ASSERT_GE(choice.numWarps, 1);
    ASSERT_LE(choice.numWarps, kMaxWarps);
    EXPECT_GT(choice.blockM, 0);
    ASSERT_EQ(choice.numWarps % choice.keyWarps, 0);
    EXPECT_EQ(choice.blockM % (16 * choice.numWarps / choice.keyWarps), 0);
    EXPECT_GT(choice.blockN, 0);
    EXPECT_EQ(choice.blockN % 16, 0);
    EXPECT_GE(choice.numStages, 2);
  });
}

// Q, and K and V of every stage, of two bytes an element.
TEST(ScheduleDefaults, FitSharedMemory) {
  forEachDefault([](const AttentionProblem &problem, const TargetInfo &target,
                    const ScheduleChoice &choice) {
    // Warps that share query rows have a copy of them, and rings of their own.
    int64_t numRings = choice.keyWarps > 1 ? choice.numWarps : 1;
    int64_t bytes = 2 * (choice.keyWarps * choice.blockM * problem.headDim +
                         numRings * choice.numStages * choice.blockN *
                             (problem.headDim + problem.headDimV));
    EXPECT_LE(bytes, target.sharedMemoryPerBlock);
  });
}

// The f32 accumulators of O and S, spread over the threads of the block.
TEST(ScheduleDefaults, AccumulatorsFitRegisters) {
  forEachDefault([](const AttentionProblem &problem, const TargetInfo &,
                    const ScheduleChoice &choice) {
    int64_t values = choice.getWarpM() * (problem.headDimV + choice.blockN);
    EXPECT_LT(values / kWarpSize, kMaxRegistersPerThread);
  });
}

/// B1 H8 S512 and the like: fewer blocks of 64 rows than SMs.
AttentionProblem makeSmallProblem(int64_t heads, int64_t seqlen,
                                  int64_t headDim) {
  AttentionProblem problem = makeProblem(headDim, headDim);
  problem.batch = 1;
  problem.headsQ = problem.headsKV = heads;
  problem.seqlenQ = problem.seqlenK = seqlen;
  return problem;
}

TEST(ScheduleOfSmallGrids, WarpsDivideTheKeys) {
  ScheduleChoice choice = choose(makeSmallProblem(8, 512, 64), ada());
  EXPECT_EQ(choice.keyWarps, 4);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.blockM, 32);
  EXPECT_EQ(choice.softmax, Softmax::OnePass);
  EXPECT_EQ(choice.rowSum, RowSum::Mma);
  EXPECT_EQ(choice.rowMax, RowMax::Exact);
}

TEST(ScheduleOfSmallGrids, WideHeadsHaveRoomForTwo) {
  ScheduleChoice choice = choose(makeSmallProblem(8, 512, 128), ada());
  EXPECT_EQ(choice.keyWarps, 2);
  EXPECT_EQ(choice.numWarps, 2);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.softmax, Softmax::Online);
}

TEST(ScheduleOfSmallGrids, CausalBlocksHaveFewerRows) {
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  problem.isCausal = true;
  ScheduleChoice choice = choose(problem, ada());
  EXPECT_EQ(choice.keyWarps, 4);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.softmax, Softmax::Online);
}

TEST(ScheduleOfSmallGrids, FewRowsMakeSmallerBlocks) {
  EXPECT_EQ(choose(makeSmallProblem(12, 128, 64), ada()).blockM, 16);
  EXPECT_EQ(choose(makeSmallProblem(1, 4096, 64), ada()).blockM, 32);
}

TEST(ScheduleOfSmallGrids, ManyOrUnevenKeysTakeALoop) {
  EXPECT_EQ(choose(makeSmallProblem(1, 4096, 64), ada()).softmax,
            Softmax::Online);
  EXPECT_EQ(choose(makeSmallProblem(8, 500, 64), ada()).softmax,
            Softmax::Online);
}

TEST(ScheduleOfSmallGrids, ColumnsOfOutputMustDivideToo) {
  EXPECT_EQ(choose(makeSmallProblem(8, 512, 40), ada()).keyWarps, 2);
  EXPECT_EQ(choose(makeSmallProblem(8, 512, 48), ada()).keyWarps, 4);
}

// Nothing but a small grid with a known number of keys, all of them seen by
// most rows, divides them.
TEST(ScheduleDefaults, OtherProblemsKeepTheKeysTogether) {
  AttentionProblem filled = makeSmallProblem(64, 1024, 64);
  AttentionProblem half = makeSmallProblem(16, 512, 64);
  AttentionProblem few = makeSmallProblem(8, 512, 64);
  few.seqlenK = 96;
  AttentionProblem unknown = makeSmallProblem(8, 512, 64);
  unknown.seqlenK = std::nullopt;
  AttentionProblem window = makeSmallProblem(8, 512, 64);
  window.hasWindow = true;
  AttentionProblem veryWide = makeSmallProblem(8, 512, 256);
  for (const AttentionProblem &problem :
       {makeProblem(64, 64), filled, half, few, unknown, window, veryWide}) {
    ScheduleChoice choice = choose(problem, ada());
    EXPECT_EQ(choice.keyWarps, 1);
    EXPECT_EQ(choice.softmax, Softmax::Online);
  }
}

// A forced shape is that of warps with rows of their own, as it always was.
TEST(ScheduleOptions, ForcedShapesKeepTheKeysTogether) {
  for (auto field : {&ScheduleOptions::blockM, &ScheduleOptions::blockN,
                     &ScheduleOptions::numWarps, &ScheduleOptions::numStages}) {
    ScheduleOptions options;
    options.*field = field == &ScheduleOptions::numWarps    ? 2
                     : field == &ScheduleOptions::numStages ? 3
                                                            : 32;
    auto result = chooseSchedule(makeSmallProblem(8, 512, 32), ada(), options);
    EXPECT_EQ(std::get<ScheduleChoice>(result).keyWarps, 1);
  }
}

TEST(ScheduleOptions, StaleMaximumOrOverlapTakeALoop) {
  ScheduleOptions stale, overlap;
  stale.rowMax = RowMax::Stale;
  overlap.overlap = Overlap::QK;
  for (const ScheduleOptions &options : {stale, overlap}) {
    auto result = chooseSchedule(makeSmallProblem(8, 512, 64), ada(), options);
    EXPECT_EQ(std::get<ScheduleChoice>(result).softmax, Softmax::Online);
  }
}

TEST(ScheduleOptions, KeyWarpsMakeTheirOwnShape) {
  for (int64_t keyWarps : {2, 3, 4})
    for (int64_t headDim : {16, 40, 64}) {
      ScheduleOptions options;
      options.keyWarps = keyWarps;
      EXPECT_EQ(refuse(makeProblem(headDim, headDim), options), "accepted")
          << keyWarps << " key warps, head_dim " << headDim;
    }
}

TEST(ScheduleOptions, KeyWarpsThatCannotShareAreRefused) {
  ScheduleOptions options;
  options.keyWarps = 4;
  options.numWarps = 6;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-warps to divide num-warps = 6, but got 4");
  options = {};
  options.keyWarps = 2;
  options.numWarps = 4;
  options.blockM = 48;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps / "
            "key-warps = 32, but got 48");
  options = {};
  options.keyWarps = 4;
  options.blockM = 16;
  EXPECT_EQ(refuse(makeProblem(40, 40), options),
            "expects key-warps to divide the 16 x 40 results of a warp into "
            "shares of whole 8x8 cores, but got 4; use fewer key-warps or a "
            "larger block-m");
  options = {};
  options.keyWarps = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options.keyWarps = -1;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
}

TEST(ScheduleOptions, OnePassThatCannotWorkIsRefused) {
  ScheduleOptions options;
  options.softmax = Softmax::OnePass;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects a seqlen_k known at compile time for softmax one_pass; "
            "use softmax online");
  AttentionProblem problem = makeSmallProblem(8, 512, 64);
  options.rowMax = RowMax::Stale;
  EXPECT_EQ(refuse(problem, options),
            "expects row-max exact with softmax one_pass, which has no earlier "
            "maximum, but got stale");
  options.rowMax = RowMax::Exact;
  options.overlap = Overlap::QK;
  EXPECT_EQ(refuse(problem, options),
            "expects overlap none with softmax one_pass, which has no loop, "
            "but got qk");
  options.overlap = Overlap::None;
  problem.headsKV = std::nullopt; // else few rows over many keys
  problem.seqlenK = 1 << 20;
  EXPECT_EQ(refuse(problem, options),
            "expects at most 4096 keys a warp with softmax one_pass, but got "
            "262144; use softmax online or more key-warps");
  // S of 16 rows and 1024 keys: 512 registers, and Q.
  problem.seqlenK = 4096;
  options.blockM = 16;
  options.numWarps = options.keyWarps = 4;
  EXPECT_EQ(refuse(problem, options),
            "needs 528 registers a thread for its fragments alone (block-m 16, "
            "num-warps 4, block-n 32, softmax one_pass), but a thread has 255; "
            "use more warps or softmax online");
}

TEST(ScheduleDefaults, CausalRunsTheLongestRowsOfAllHeadsFirst) {
  AttentionProblem problem = makeProblem(64, 64);
  EXPECT_EQ(choose(problem, ada()).gridOrder, GridOrder::QueryFastest);
  problem.isCausal = true;
  EXPECT_EQ(choose(problem, ada()).gridOrder, GridOrder::HeadFastest);
}

TEST(ScheduleDefaults, SmallGridGetsSmallerBlocks) {
  AttentionProblem large = makeProblem(64, 64);
  large.batch = 64;
  large.headsQ = 16;
  large.seqlenQ = large.seqlenK = 1024;
  AttentionProblem small = large;
  small.batch = 1;
  small.headsQ = 2;
  EXPECT_LT(choose(small, ada()).blockM, choose(large, ada()).blockM);
}

// Two rows of accumulators of O would take all registers, whatever the grid.
TEST(ScheduleDefaults, VeryWideHeadsGetWarpsOf16Rows) {
  for (const TargetInfo &target : getTargets())
    for (auto [headDim, headDimV] : {std::pair<int64_t, int64_t>(136, 136),
                                     {256, 256},
                                     {64, 256},
                                     {192, 128},
                                     {256, 16}})
      for (const AttentionProblem &problem : makeProblems(headDim, headDimV)) {
        SCOPED_TRACE(target.chip.str() + ", head_dim " +
                     std::to_string(headDim) + ", head_dim_v " +
                     std::to_string(headDimV));
        ScheduleChoice choice = choose(problem, target);
        EXPECT_EQ(choice.blockM / choice.numWarps, 16);
      }
}

TEST(ScheduleDefaults, HeadsUpTo128MayUseWarpsOf32Rows) {
  for (int64_t headDim : {64, 128}) {
    ScheduleChoice choice = choose(makeProblem(headDim, headDim), ada());
    EXPECT_EQ(choice.blockM / choice.numWarps, 32);
  }
}

// S of 64 keys fits beside O of 16 rows a warp: in registers up to 128, in the
// shared memory of eight warps beyond.
TEST(ScheduleDefaults, TilesOf64KeysWhereTheyFit) {
  auto blockN = [](int64_t headDim, const char *chip) {
    return choose(makeProblem(headDim, headDim), *lookupTarget(chip)).blockN;
  };
  EXPECT_EQ(blockN(80, "sm_89"), 32);
  EXPECT_EQ(blockN(96, "sm_89"), 32);
  EXPECT_EQ(blockN(128, "sm_90"), 32);
  EXPECT_EQ(blockN(192, "sm_89"), 32);
  EXPECT_EQ(blockN(256, "sm_80"), 32);
  EXPECT_EQ(blockN(256, "sm_90"), 64);
  EXPECT_EQ(choose(makeProblem(64, 128), ada()).blockN, 64);
  AttentionProblem windowed = makeProblem(96, 96), narrow = makeProblem(80, 80);
  windowed.hasWindow = narrow.hasWindow = true;
  EXPECT_EQ(choose(windowed, ada()).blockN, 64);
  EXPECT_EQ(choose(narrow, ada()).blockN, 32);
  // The addresses of a bias whose strides are not known take registers.
  windowed.hasBias = true;
  EXPECT_EQ(choose(windowed, ada()).blockN, 32);
}

/// Enough heads of `seqlen` tokens to fill any chip.
AttentionProblem makeLargeProblem(int64_t headDim, int64_t seqlen) {
  AttentionProblem problem = makeSmallProblem(32, seqlen, headDim);
  problem.batch = 64;
  return problem;
}

// 16 rows a warp of a very wide head leave registers for Q, but at 256 not
// beside sizes known at run time; there half of it stays.
TEST(ScheduleDefaults, VeryWideHeadsKeepQInRegistersWhereTheyCan) {
  auto query = [](const AttentionProblem &problem) {
    return choose(problem, ada()).query;
  };
  EXPECT_EQ(query(makeProblem(136, 136)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(248, 248)), QueryPlacement::Registers);
  AttentionProblem known = makeLargeProblem(256, 512);
  EXPECT_EQ(choose(known, *lookupTarget("sm_90")).numWarps, 4);
  AttentionProblem softcap = known, bias = known, causal = known;
  causal.isCausal = softcap.hasSoftcap = bias.hasBias = true;
  for (const AttentionProblem &problem : {known, causal, softcap, bias})
    EXPECT_EQ(query(problem), QueryPlacement::Registers);
  AttentionProblem strided = known;
  strided.hasOpenStrides = true;
  EXPECT_EQ(query(strided), QueryPlacement::Split);
  strided = makeSmallProblem(4, 247, 256);
  EXPECT_EQ(query(strided), QueryPlacement::Registers);
  strided.hasOpenStrides = true;
  EXPECT_EQ(query(strided), QueryPlacement::Shared);
  // Nor do few warps where anything else takes registers.
  AttentionProblem small = makeSmallProblem(4, 247, 256);
  small.hasSoftcap = true;
  EXPECT_EQ(query(small), QueryPlacement::Shared);
  small = makeSmallProblem(4, 247, 256);
  small.hasWindow = true;
  EXPECT_EQ(query(small), QueryPlacement::Shared);
  EXPECT_EQ(query(makeSmallProblem(4, 25, 256)), QueryPlacement::Shared);
  EXPECT_EQ(query(makeSmallProblem(4, 33, 256)), QueryPlacement::Registers);
  ScheduleChoice half = choose(makeProblem(256, 256), ada());
  EXPECT_EQ(half.query, QueryPlacement::Split);
  EXPECT_EQ(half.querySteps, 8);
  AttentionProblem capped = makeProblem(256, 256);
  capped.hasSoftcap = true;
  EXPECT_EQ(choose(capped, ada()).querySteps, 6);
  // Where eight warps fit, they share K and V instead.
  ScheduleChoice many = choose(makeProblem(256, 256), *lookupTarget("sm_90"));
  EXPECT_EQ(many.numWarps, 8);
  EXPECT_EQ(many.query, QueryPlacement::Shared);
  ScheduleOptions options;
  options.blockN = 64;
  auto forced = chooseSchedule(known, *lookupTarget("sm_90"), options);
  EXPECT_EQ(std::get<ScheduleChoice>(forced).query, QueryPlacement::Shared);
}

// 32 rows a warp leave registers for 96 columns of Q beside as many of O, 16
// rows for all; but small fragments of 16 rows let another block run beside.
TEST(ScheduleDefaults, WideHeadsKeepQInRegistersWhereThatPays) {
  auto query = [](const AttentionProblem &problem) {
    return choose(problem, ada()).query;
  };
  EXPECT_EQ(query(makeProblem(80, 80)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(96, 96)), QueryPlacement::Registers);
  EXPECT_EQ(query(makeProblem(104, 104)), QueryPlacement::Shared);
  for (auto [headDim, expected] : {std::pair(88, QueryPlacement::Registers),
                                   {96, QueryPlacement::Split}}) {
    AttentionProblem causal = makeProblem(headDim, headDim);
    causal.isCausal = true;
    EXPECT_EQ(query(causal), expected);
  }
  EXPECT_EQ(query(makeProblem(128, 64)), QueryPlacement::Registers);
  EXPECT_EQ(choose(makeProblem(128, 64), ada()).getWarpM(), 32);
  EXPECT_EQ(query(makeProblem(64, 128)), QueryPlacement::Registers);
  EXPECT_EQ(choose(makeProblem(64, 128), ada()).getWarpM(), 16);
  AttentionProblem narrow = makeProblem(80, 80), wide = makeProblem(128, 128);
  narrow.hasWindow = wide.hasWindow = true;
  EXPECT_EQ(query(narrow), QueryPlacement::Shared);
  EXPECT_EQ(query(wide), QueryPlacement::Registers);
}

TEST(ScheduleOptions, ASplitQueryKeepsAllButAStepOrWhatIsAskedFor) {
  ScheduleOptions options;
  options.query = QueryPlacement::Split;
  for (auto [headDim, steps] : {std::pair(64, 3), {40, 2}, {24, 1}, {192, 6}}) {
    ScheduleChoice choice =
        choose(makeProblem(headDim, headDim), ada(), options);
    EXPECT_EQ(choice.querySteps, steps);
    EXPECT_EQ(choice.getKeptQueryColumns(headDim), 16 * steps);
  }
  options.querySteps = 2;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).querySteps, 2);
}

TEST(ScheduleOptions, ASplitQueryThatCannotWorkIsRefused) {
  ScheduleOptions options;
  options.querySteps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps 0 unless query is split, but got 4 with query "
            "registers");
  options.query = QueryPlacement::Split;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps from 1 to 3 with query split and head_dim 64, "
            "but got 4");
  options.querySteps = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects query-steps from 1 to 3 with query split and head_dim 64, "
            "but got -1");
  EXPECT_EQ(refuse(makeProblem(16, 16), options),
            "expects query registers or shared with head_dim 16, which is a "
            "single step of 16 columns, but got split");
}

// Blocks of 64 rows are faster than half as many of 128 while those are few an
// SM, under a causal mask longer.
TEST(ScheduleDefaults, GridsOfFewWavesHaveSmallerBlocks) {
  auto blockM = [](int64_t heads, int64_t headDim, bool isCausal) {
    AttentionProblem problem = makeSmallProblem(heads, 1024, headDim);
    problem.isCausal = isCausal;
    return choose(problem, ada()).blockM;
  };
  for (int64_t headDim : {64, 128}) {
    EXPECT_EQ(blockM(24, headDim, false), 64);
    EXPECT_EQ(blockM(25, headDim, false), 128);
    EXPECT_EQ(blockM(40, headDim, true), 64);
    EXPECT_EQ(blockM(41, headDim, true), 128);
  }
  ScheduleChoice half = choose(makeSmallProblem(24, 1024, 128), ada());
  EXPECT_EQ(half.numWarps, 4);
  EXPECT_EQ(half.blockN, 64);
  EXPECT_EQ(half.query, QueryPlacement::Registers);
  EXPECT_EQ(half.rowMax, RowMax::Stale);
}

// Heads take turns where blocks of 64 rows would have all of them read K and V
// of their own.
TEST(ScheduleDefaults, HeadsTakeTurnsWhereBlocksAreSmall) {
  auto gridHeads = [](int64_t headDim, int64_t seqlen, int64_t headsKV) {
    AttentionProblem problem = makeLargeProblem(headDim, seqlen);
    problem.headsKV = headsKV;
    problem.isCausal = true;
    return choose(problem, ada()).gridHeads;
  };
  EXPECT_EQ(gridHeads(256, 512, 32), 32);
  EXPECT_EQ(gridHeads(256, 512, 8), 128);
  EXPECT_EQ(gridHeads(256, 512, 1), 0);
  // Also where all heads are more than can be named.
  AttentionProblem huge = makeLargeProblem(256, 512);
  huge.batch = 128;
  huge.headsQ = 1 << 17;
  huge.headsKV = 1;
  huge.isCausal = true;
  EXPECT_EQ(choose(huge, ada()).gridHeads, kMaxGridHeads);
  EXPECT_EQ(gridHeads(256, 64, 32), 0);
  EXPECT_EQ(gridHeads(128, 512, 32), 0);
  AttentionProblem dense = makeLargeProblem(256, 512);
  dense.headsKV = 32;
  EXPECT_EQ(choose(dense, ada()).gridHeads, 0);
}

// What one option forces never makes the defaults of the others impossible.
TEST(ScheduleDefaults, LeaveRoomForOneForcedOption) {
  AttentionProblem window = makeProblem(128, 128), half = window;
  window.hasWindow = true;
  half = makeSmallProblem(12, 1024, 128);
  AttentionProblem grouped = makeProblem(16, 256);
  grouped.headsQ = 6;
  grouped.headsKV = 2;
  AttentionProblem manyHeads = window;
  manyHeads.headsQ = 32;
  manyHeads.headsKV = 2;
  ScheduleOptions stages, heads, allHeads, persistent;
  stages.numStages = 3;
  heads.headGroup = 3;
  allHeads.headGroup = 16;
  persistent.grid = Grid::Persistent;
  persistent.minBlocks = 2;
  EXPECT_EQ(choose(window, ada(), stages).blockN, 32);
  EXPECT_EQ(choose(half, ada(), stages).blockN, 32);
  EXPECT_EQ(choose(grouped, ada(), heads).query, QueryPlacement::Registers);
  EXPECT_EQ(choose(manyHeads, ada(), allHeads).blockN, 32);
  EXPECT_EQ(choose(half, ada(), persistent).blockN, 32);
}

TEST(ScheduleOptions, HeadsThatCannotTakeTurnsAreRefused) {
  ScheduleOptions options;
  options.gridHeads = 8;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects grid-order head_fastest and key-splits 1 with grid-heads "
            "8, but got query_fastest and 1");
  options.gridHeads = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects grid-heads from 0 to 1048576, but got -1");
}

// Tiles of 48 keys take the registers of known sizes, and a partial tile more.
TEST(ScheduleDefaults, TilesOf48KeysForWideHeadsOfKnownLength) {
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(104, 512), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(96, 4096), ada()).blockN, 48);
  EXPECT_EQ(choose(makeLargeProblem(128, 256), ada()).blockN, 32);
  EXPECT_EQ(choose(makeProblem(128, 128), ada()).blockN, 32);
  EXPECT_EQ(choose(makeLargeProblem(80, 4096), ada()).blockN, 32);
  AttentionProblem softcap = makeLargeProblem(128, 4096);
  softcap.hasSoftcap = true;
  EXPECT_EQ(choose(softcap, ada()).blockN, 48);
  softcap.isCausal = true;
  EXPECT_EQ(choose(softcap, ada()).blockN, 32);
  AttentionProblem topLeft = makeLargeProblem(128, 4096);
  topLeft.isCausal = topLeft.isTopLeft = true;
  EXPECT_EQ(choose(topLeft, ada()).blockN, 48);
  topLeft.seqlenK = 4000;
  EXPECT_EQ(choose(topLeft, ada()).blockN, 32);
  // Strides and numbers of heads take registers, too.
  AttentionProblem strided = makeLargeProblem(128, 4096), heads = strided;
  strided.hasOpenStrides = true;
  heads.headsKV = std::nullopt;
  EXPECT_EQ(choose(strided, ada()).blockN, 32);
  EXPECT_EQ(choose(heads, ada()).blockN, 32);
}

// An exact maximum has a loop for each kind of tile.
TEST(ScheduleDefaults, SmallGridsWithManyKindsOfTilesTakeOneLoop) {
  AttentionProblem dense = makeSmallProblem(4, 100, 64), causal = dense,
                   window = dense, softcap = dense, both = dense;
  window.hasWindow = softcap.hasSoftcap = true;
  causal.isCausal = both.isCausal = both.hasBias = true;
  for (const AttentionProblem &problem : {dense, causal, softcap})
    EXPECT_EQ(choose(problem, ada()).rowMax, RowMax::Exact);
  for (const AttentionProblem &problem : {window, both})
    EXPECT_NE(choose(problem, ada()).rowMax, RowMax::Exact);
}

// Every score of a bias has an address.
TEST(ScheduleDefaults, SmallGridsWithABiasHaveSmallerTiles) {
  AttentionProblem problem = makeSmallProblem(4, 100, 64);
  EXPECT_EQ(choose(problem, ada()).blockN, 128);
  problem.hasBias = true;
  EXPECT_EQ(choose(problem, ada()).blockN, 64);
}

TEST(ScheduleDefaults, TheMaximumIsFoldedWhereThatPays) {
  for (int64_t headDim : {64, 80})
    for (bool isCausal : {false, true}) {
      AttentionProblem problem = makeProblem(headDim, headDim);
      problem.isCausal = isCausal;
      EXPECT_EQ(choose(problem, ada()).rowMax, RowMax::Folded);
      EXPECT_EQ(choose(problem, ada()).rowSum, RowSum::Mma);
    }
  EXPECT_EQ(choose(makeProblem(88, 88), ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(makeLargeProblem(128, 4096), ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(makeProblem(256, 256), ada()).rowMax, RowMax::Stale);
}

TEST(ScheduleDefaults, ChangedScoresAreNotFolded) {
  AttentionProblem softcap = makeProblem(64, 64), bias = softcap;
  softcap.hasSoftcap = bias.hasBias = true;
  EXPECT_EQ(choose(softcap, ada()).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(bias, ada()).rowMax, RowMax::Stale);
  ScheduleOptions adds, overlaps;
  adds.rowSum = RowSum::Add;
  overlaps.overlap = Overlap::QK;
  for (const ScheduleOptions &options : {adds, overlaps}) {
    auto result = chooseSchedule(makeProblem(64, 64), ada(), options);
    EXPECT_EQ(std::get<ScheduleChoice>(result).rowMax, RowMax::Stale);
  }
}

TEST(ScheduleOptions, AFoldedMaximumThatCannotWorkIsRefused) {
  ScheduleOptions options;
  options.rowMax = RowMax::Folded;
  AttentionProblem softcap = makeProblem(64, 64), bias = softcap;
  softcap.hasSoftcap = bias.hasBias = true;
  EXPECT_EQ(refuse(softcap, options),
            "expects row-max exact or stale with a softcap, which changes the "
            "scores, but got folded");
  EXPECT_EQ(refuse(bias, options),
            "expects row-max exact or stale with a bias, which changes the "
            "scores, but got folded");
  options.rowSum = RowSum::Add;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects row-sum mma with row-max folded, but got add");
  options.rowSum = RowSum::Mma;
  options.overlap = Overlap::QK;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects overlap none with row-max folded, which needs the maximum "
            "of all earlier tiles before a product, but got qk");
}

// The chips with the least shared memory: 99 KiB a block.
TEST(ScheduleDefaults, WidestHeadsFitTheSmallestSharedMemory) {
  for (const char *chip : {"sm_86", "sm_89"}) {
    const TargetInfo &target = *lookupTarget(chip);
    EXPECT_EQ(target.sharedMemoryPerBlock, 99 * 1024);
    for (const AttentionProblem &problem : makeProblems(256, 256)) {
      ScheduleChoice choice = choose(problem, target);
      EXPECT_LE(getSharedMemoryBytes(problem.headDim, problem.headDimV, choice),
                99 * 1024);
    }
  }
}

//===----------------------------------------------------------------------===//
// Few query rows over many keys
//===----------------------------------------------------------------------===//

AttentionProblem makeDecode(int64_t batch, int64_t seqlenQ, int64_t seqlenK,
                            int64_t headDim = 128) {
  AttentionProblem problem = makeProblem(headDim, headDim);
  problem.batch = batch;
  problem.headsQ = 32;
  problem.headsKV = 8;
  problem.seqlenQ = seqlenQ;
  problem.seqlenK = seqlenK;
  return problem;
}

void expectUnsplit(const ScheduleChoice &choice) {
  EXPECT_EQ(choice.headGroup, 1);
  EXPECT_EQ(choice.keySplits, 1);
}

TEST(FewRows, BlocksOwnTheHeadsOfAKeyHeadAndPartOfTheKeys) {
  ScheduleChoice choice = choose(makeDecode(1, 1, 8192), ada());
  EXPECT_EQ(choice.headGroup, 4);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.keySplits, 32);
  choice = choose(makeDecode(1, 33, 65536), ada());
  EXPECT_EQ(choice.headGroup, 4);
  EXPECT_EQ(choice.numWarps, 8);
  EXPECT_EQ(choice.blockM, 32);
}

// 8 kv heads and a batch of 16 are a block an SM already. With 11 splits of a
// batch of 3, eight blocks would wait for the others to end.
TEST(FewRows, SplitsRunAtOnce) {
  for (auto [batch, splits] : {std::pair(1, 32), {2, 16}, {3, 10}, {16, 2}})
    EXPECT_EQ(choose(makeDecode(batch, 1, 65536), ada()).keySplits, splits)
        << batch;
}

// 160, 320 and 512 blocks: 160 and 256 run at once; the 64 that are left of 320
// would not keep the memory busy, the 128 of 640 do.
TEST(FewRows, FullGridsAreSplitForAShortTail) {
  for (auto [batch, splits] : {std::pair(20, 1), {40, 2}, {64, 1}, {1000, 1}}) {
    ScheduleChoice choice = choose(makeDecode(batch, 1, 8192), ada());
    EXPECT_EQ(choice.keySplits, splits) << batch;
    EXPECT_EQ(choice.headGroup, 4) << batch;
    EXPECT_EQ(choice.blockM, 16) << batch;
  }
}

// Also where the keys are too few to share out; but not where more blocks than
// one would have to read them.
TEST(FewRows, FullGridsKeepTheRowsOfAHeadTogether) {
  EXPECT_EQ(choose(makeDecode(64, 1, 512), ada()).headGroup, 4);
  EXPECT_EQ(choose(makeDecode(64, 32, 8192), ada()).blockM, 32);
  expectUnsplit(choose(makeDecode(64, 33, 8192), ada()));
  expectUnsplit(choose(makeDecode(64, 16, 100), ada()));
}

TEST(FewRows, SplitsKeep256KeysEach) {
  EXPECT_EQ(choose(makeDecode(1, 1, 4096), ada()).keySplits, 16);
  EXPECT_EQ(choose(makeDecode(1, 1, 1023), ada()).keySplits, 1);
  AttentionProblem window = makeDecode(1, 1, 1 << 20);
  window.windowKeys = 2048;
  EXPECT_EQ(choose(window, ada()).keySplits, 8);
}

TEST(FewRows, KeepThirtyTwoKiBInFlight) {
  for (int64_t headDim : {64, 128, 256}) {
    ScheduleChoice choice = choose(makeDecode(1, 1, 8192, headDim), ada());
    EXPECT_EQ(2 * choice.blockN * 2 * headDim, 16 * 1024) << headDim;
    EXPECT_EQ(choice.numStages, 3) << headDim;
  }
}

// Every number of heads a kv head, on every chip.
TEST(FewRows, FitWhateverTheHeads) {
  for (const TargetInfo &target : getTargets())
    for (int64_t headDim = 16; headDim <= 256; headDim += 8)
      for (int64_t group : {1, 2, 3, 5, 6, 7, 8, 11, 12, 16, 64})
        for (int64_t seqlenQ : {1, 16, 17, 64}) {
          AttentionProblem problem = makeDecode(1, seqlenQ, 4096, headDim);
          problem.headsKV = 1;
          problem.headsQ = group;
          problem.hasBias = problem.hasWindow = group % 2;
          ScheduleChoice choice = choose(problem, target);
          EXPECT_EQ(group % choice.headGroup, 0);
          EXPECT_LE(choice.numWarps, 8);
          EXPECT_GT(choice.keySplits, 1);
        }
}

TEST(FewRows, OtherProblemsAreNotSplit) {
  // The grid is full, the keys are few, or there are as many rows as keys.
  for (AttentionProblem problem :
       {makeDecode(17, 33, 8192), makeDecode(1, 1, 1000),
        makeDecode(1, 8192, 8192), makeDecode(1, 512, 512, 64)})
    expectUnsplit(choose(problem, ada()));
  // There may be many rows.
  AttentionProblem open = makeDecode(1, 1, 8192);
  open.seqlenQ = std::nullopt;
  expectUnsplit(choose(open, ada()));
  open = makeDecode(1, 33, 8192);
  open.seqlenK = std::nullopt;
  expectUnsplit(choose(open, ada()));
}

// A batch or a cache of any length: few rows are few whatever they are.
TEST(FewRows, OtherSizesMayBeOpen) {
  for (auto size : {&AttentionProblem::batch, &AttentionProblem::seqlenK})
    for (int64_t seqlenQ : {1, 32}) {
      AttentionProblem problem = makeDecode(1, seqlenQ, 8192);
      ScheduleChoice known = choose(problem, ada());
      problem.*size = std::nullopt;
      EXPECT_EQ(choose(problem, ada()), known) << seqlenQ;
    }
  // What is known still counts.
  AttentionProblem batch = makeDecode(64, 1, 8192);
  batch.seqlenK = std::nullopt;
  EXPECT_EQ(choose(batch, ada()).keySplits, 1);
  AttentionProblem keys = makeDecode(1, 1, 512);
  keys.batch = std::nullopt;
  EXPECT_EQ(choose(keys, ada()).keySplits, 1);
}

TEST(FewRows, HeadsOfUnknownNumberAreNotGrouped) {
  for (auto size : {&AttentionProblem::headsQ, &AttentionProblem::headsKV}) {
    AttentionProblem problem = makeDecode(1, 1, 8192);
    problem.*size = std::nullopt;
    ScheduleChoice choice = choose(problem, ada());
    EXPECT_EQ(choice.blockM, 16);
    EXPECT_EQ(choice.headGroup, 1);
    EXPECT_GT(choice.keySplits, 1);
  }
}

// Warps and rows that are asked for leave no choice of a group.
TEST(FewRows, ForcedRowsAreNotGrouped) {
  ScheduleOptions options;
  options.blockM = 64;
  ScheduleChoice choice = choose(makeDecode(1, 1, 8192), ada(), options);
  EXPECT_EQ(choice.headGroup, 1);
  EXPECT_EQ(choice.numWarps, 4);
  EXPECT_EQ(choice.keySplits, 8);
}

//===----------------------------------------------------------------------===//
// Persistent grids
//===----------------------------------------------------------------------===//

TEST(PersistentGrid, IsNoDefault) {
  EXPECT_EQ(choose(makeProblem(64, 64), ada()).grid, Grid::Full);
  ScheduleOptions options;
  options.grid = Grid::Persistent;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).grid, Grid::Persistent);
}

// Of shared memory, then of warps.
TEST(PersistentGrid, HasBlocksThatRunAtOnce) {
  ScheduleOptions options;
  options.grid = Grid::Persistent;
  options.blockM = 64;
  options.blockN = 64;
  options.numWarps = 4;
  options.numStages = 2;
  options.minBlocks = 2;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).getBlocksPerSM(), 2);
  options.minBlocks = 3;
  EXPECT_NE(refuse(makeProblem(64, 64), options)
                .find("expects min-blocks of at most 2 with grid persistent"),
            std::string::npos);
  options.grid = Grid::Full;
  EXPECT_EQ(choose(makeProblem(64, 64), ada(), options).minBlocks, 3);
  options.grid = Grid::Persistent;
  options.blockM = 256;
  options.blockN = 16;
  options.numWarps = 16;
  options.minBlocks = 4;
  EXPECT_NE(refuse(makeProblem(16, 16), options)
                .find("each needs 10240 bytes of shared memory of the 102400 "
                      "and 16 warps of the 48"),
            std::string::npos);
  options.minBlocks = 0;
  EXPECT_EQ(choose(makeProblem(16, 16), ada(), options).getBlocksPerSM(), 1);
}

//===----------------------------------------------------------------------===//
// Forced options
//===----------------------------------------------------------------------===//

TEST(ScheduleOptions, EveryForcedOptionIsKept) {
  ScheduleOptions options;
  options.blockM = 96;
  options.blockN = 48;
  options.numWarps = 6;
  options.numStages = 4;
  options.minBlocks = 2;
  options.query = QueryPlacement::Shared;
  options.gridOrder = GridOrder::HeadFastest;
  options.headGroup = 2;
  options.keySplits = 3;
  AttentionProblem problem = makeProblem(64, 64);
  problem.headsQ = 4;
  problem.headsKV = 2;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.headGroup, 2);
  EXPECT_EQ(choice.keySplits, 3);
  EXPECT_EQ(choice.blockM, 96);
  EXPECT_EQ(choice.blockN, 48);
  EXPECT_EQ(choice.numWarps, 6);
  EXPECT_EQ(choice.numStages, 4);
  EXPECT_EQ(choice.minBlocks, 2);
  EXPECT_EQ(choice.query, QueryPlacement::Shared);
  EXPECT_EQ(choice.gridOrder, GridOrder::HeadFastest);
}

TEST(ScheduleOptions, OneForcedOptionIsKeptAndTheOthersFollow) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleOptions options;
  options.numWarps = 8;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.numWarps, 8);
  EXPECT_EQ(choice.blockM % (16 * 8), 0);

  options = {};
  options.blockM = 16;
  choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.blockM, 16);
  EXPECT_EQ(choice.numWarps, 1);

  options = {};
  options.numStages = 3;
  EXPECT_EQ(choose(problem, ada(), options).numStages, 3);
}

// The heads of a group share the warps, and each of them has all rows.
TEST(ScheduleOptions, AHeadGroupDividesTheWarps) {
  AttentionProblem problem = makeProblem(64, 64);
  problem.headsQ = 12;
  problem.headsKV = 2;
  ScheduleOptions options;
  for (auto [group, warps, rows] :
       {std::tuple(1, 4, 128), {2, 4, 64}, {3, 3, 32}, {6, 6, 32}}) {
    options.headGroup = group;
    ScheduleChoice choice = choose(problem, ada(), options);
    EXPECT_EQ(choice.numWarps, warps) << group;
    EXPECT_EQ(choice.blockM, rows) << group;
    EXPECT_EQ(choice.getWarpM(), 32) << group;
  }
}

TEST(ScheduleOptions, ForcedDefaultOfAnEnumIsKept) {
  AttentionProblem problem = makeProblem(64, 64);
  problem.isCausal = true;
  ScheduleOptions options;
  options.gridOrder = GridOrder::QueryFastest;
  options.query = QueryPlacement::Registers;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_EQ(choice.gridOrder, GridOrder::QueryFastest);
  EXPECT_EQ(choice.query, QueryPlacement::Registers);
}

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST(ScheduleRefusal, TooManyWarps) {
  ScheduleOptions options;
  options.numWarps = 33;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-warps from 1 to 32, but got 33");
}

TEST(ScheduleRefusal, NegativeWarps) {
  ScheduleOptions options;
  options.numWarps = -4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-warps from 1 to 32, but got -4");
}

TEST(ScheduleRefusal, BlockMIsNoMultiple) {
  ScheduleOptions options;
  options.blockM = 96;
  options.numWarps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps = 64, "
            "but got 96");
}

TEST(ScheduleRefusal, NegativeBlockM) {
  ScheduleOptions options;
  options.blockM = -64;
  options.numWarps = 4;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-m to be a positive multiple of 16 * num-warps = 64, "
            "but got -64");
}

TEST(ScheduleRefusal, BlockNIsNoMultiple) {
  ScheduleOptions options;
  options.blockN = 72;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-n to be a positive multiple of 16, but got 72");
}

TEST(ScheduleRefusal, NegativeBlockN) {
  ScheduleOptions options;
  options.blockN = -16;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects block-n to be a positive multiple of 16, but got -16");
}

TEST(ScheduleRefusal, OneStage) {
  ScheduleOptions options;
  options.numStages = 1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects num-stages of at least 2, but got 1");
}

TEST(ScheduleRefusal, NegativeMinBlocks) {
  ScheduleOptions options;
  options.minBlocks = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects min-blocks not to be negative, but got -1");
}

TEST(ScheduleRefusal, HeadGroups) {
  AttentionProblem problem = makeProblem(64, 64);
  ScheduleOptions options;
  options.headGroup = 2;
  EXPECT_EQ(refuse(problem, options),
            "expects heads_q and heads_kv to be known at compile time for "
            "head-group 2; make them static or use head-group 1");
  problem.headsQ = 6;
  problem.headsKV = 2;
  EXPECT_EQ(refuse(problem, options),
            "expects head-group to divide heads_q / heads_kv = 3, but got 2");
  options.headGroup = -3;
  EXPECT_EQ(refuse(problem, options),
            "expects head-group of at least 1, but got -3");
  options.headGroup = 3;
  options.numWarps = 4;
  EXPECT_EQ(refuse(problem, options),
            "expects num-warps to be a multiple of head-group = 3, but got 4");
  options.numWarps = 6;
  options.blockM = 48;
  EXPECT_EQ(refuse(problem, options),
            "expects block-m to be a positive multiple of 16 * num-warps / "
            "head-group = 32, but got 48");
}

TEST(ScheduleRefusal, KeySplits) {
  ScheduleOptions options;
  options.keySplits = -1;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-splits from 1 to 256, but got -1");
  options.keySplits = 257;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "expects key-splits from 1 to 256, but got 257");
}

// 2 * (64 * 128 + 4 * 64 * (128 + 128)) bytes.
TEST(ScheduleRefusal, TooMuchSharedMemory) {
  ScheduleOptions options;
  options.blockM = 64;
  options.blockN = 64;
  options.numWarps = 4;
  options.numStages = 4;
  EXPECT_EQ(refuse(makeProblem(128, 128), options),
            "needs 147456 bytes of shared memory (block-m 64, block-n 64, "
            "num-stages 4, head_dim 128), but sm_89 allows 101376; use fewer "
            "stages or smaller blocks");
}

// 128 rows a warp: (128 * (64 + 16) + 128 * 64 / 2) / 32 lanes.
TEST(ScheduleRefusal, TooManyRegisters) {
  ScheduleOptions options;
  options.blockM = 128;
  options.blockN = 16;
  options.numWarps = 1;
  options.query = QueryPlacement::Registers;
  EXPECT_EQ(refuse(makeProblem(64, 64), options),
            "needs 448 registers a thread for its fragments alone (block-m "
            "128, num-warps 1, block-n 16), but a thread has 255; use more "
            "warps or a smaller block-n");
}

// The bytes of these do not fit 64 bits; no limit may be passed by wrapping.
TEST(ScheduleRefusal, BlocksBeyondAnySize) {
  ScheduleOptions options;
  options.blockN = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.blockM = int64_t(1) << 62;
  options.numWarps = 4;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.numStages = int64_t(1) << 62;
  EXPECT_NE(refuse(makeProblem(64, 64), options), "accepted");
  options = {};
  options.headGroup = int64_t(1) << 62;
  EXPECT_NE(refuse(makeDecode(1, 1, 8192), options), "accepted");
  options = {};
  options.blockM = options.blockN = int64_t(1) << 62;
  EXPECT_NE(refuse(makeDecode(1, 1, 8192), options), "accepted");
}

TEST(SharedMemoryBytes, CountsTheQueryTileAndBothRings) {
  EXPECT_EQ(
      getSharedMemoryBytes(
          /*headDim=*/64, /*headDimV=*/128,
          {/*blockM=*/32, /*blockN=*/16, /*numWarps=*/2, /*numStages=*/3}),
      2 * (32 * 64 + 3 * 16 * 64 + 3 * 16 * 128));
}

TEST(SharedMemoryBytes, KeyWarpsHaveTheirOwn) {
  ScheduleChoice choice{/*blockM=*/32, /*blockN=*/32, /*numWarps=*/4,
                        /*numStages=*/2};
  choice.keyWarps = 4;
  EXPECT_EQ(getSharedMemoryBytes(/*headDim=*/64, /*headDimV=*/64, choice),
            4 * 2 * (32 * 64 + 2 * 32 * 64 + 2 * 32 * 64));
}

TEST(SharedMemoryBytes, PartialResultsMayBeTheLargerUse) {
  ScheduleChoice choice{/*blockM=*/64, /*blockN=*/16, /*numWarps=*/4,
                        /*numStages=*/2};
  choice.keyWarps = 2;
  EXPECT_EQ(getSharedMemoryBytes(/*headDim=*/16, /*headDimV=*/64, choice),
            4 * 4 * (32 * 64 + 32 + 32));
}
} // namespace
