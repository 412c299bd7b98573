//===- PlainChoiceTest.cpp - Schedules without mma.sync -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
ScheduleOptions makeOptions(Product product) {
  ScheduleOptions options;
  options.product = product;
  return options;
}

TEST(PlainProducts, AreChosenWhereAChipHasNoOther) {
  auto choosen = [](llvm::StringRef chip, ElementKind element, int64_t dim) {
    return choose(makeOf(element, dim), *lookupTarget(chip)).product;
  };
  EXPECT_EQ(choosen("sm_70", ElementKind::F16, 64), Product::Wmma);
  EXPECT_EQ(choosen("sm_70", ElementKind::F16, 72), Product::Thread);
  EXPECT_EQ(choosen("sm_70", ElementKind::BF16, 64), Product::Thread);
  EXPECT_EQ(choosen("sm_75", ElementKind::F16, 64), Product::Warp);
  EXPECT_EQ(choosen("sm_75", ElementKind::F16, 72), Product::Warp);
  EXPECT_EQ(choosen("sm_75", ElementKind::BF16, 64), Product::Thread);
  EXPECT_EQ(choosen("sm_89", ElementKind::BF16, 64), Product::Warp);
}

// Of every head_dim, on every chip, also where the shapes that were measured
// are too large.
TEST(PlainProducts, FitEveryChip) {
  for (const TargetInfo &target : getTargets())
    for (ElementKind element : {ElementKind::F16, ElementKind::BF16})
      for (int64_t dim = 8; dim <= 256; dim += 8)
        for (int64_t queries : {1, 100, 4096}) {
          AttentionProblem problem = makeOf(element, dim);
          problem.seqlenQ = queries;
          ScheduleChoice choice = choose(problem, target);
          EXPECT_LE(getSharedMemoryBytes(problem, choice),
                    target.sharedMemoryPerBlock)
              << target.chip.str() << " " << dim;
          EXPECT_EQ(choice.copies, hasAsyncCopies(target)
                                       ? CopyPath::Async
                                       : CopyPath::Registers);
        }
}

TEST(PlainProducts, TakeTilesFromPlainRows) {
  for (Product product : {Product::Wmma, Product::Thread}) {
    ScheduleChoice choice =
        choose(makeLargeProblem(64, 4096), ada(), makeOptions(product));
    EXPECT_EQ(choice.product, product);
    EXPECT_EQ(choice.query, QueryPlacement::Shared);
    EXPECT_TRUE(choice.hasPlainTiles());
    EXPECT_FALSE(choice.hasProducer());
    EXPECT_EQ(choice.getTileLayout(), RingLayout::Padded);
    choice.exchange = Exchange::Plain;
    EXPECT_EQ(choice.getTileLayout(), RingLayout::Plain);
  }
  ScheduleChoice warp = choose(makeLargeProblem(64, 4096), ada());
  EXPECT_EQ(warp.exchange, Exchange::None);
  EXPECT_FALSE(warp.multipliesInPlace());
}

// Of a warp with 32 rows a fragment of K or V serves two products.
TEST(PlainProducts, AWarpOfWmmaHas32RowsWhereItPays) {
  auto chosen = [](int64_t dim, std::optional<int64_t> queries) {
    AttentionProblem problem = makeLargeProblem(dim, 4096);
    problem.seqlenQ = queries;
    return choose(problem, ada(), makeOptions(Product::Wmma));
  };
  EXPECT_EQ(chosen(64, 4096).getWarpM(), 32);
  EXPECT_EQ(chosen(64, 4096).exchange, Exchange::Fragments);
  EXPECT_EQ(chosen(128, 4096).getWarpM(), 32);
  EXPECT_EQ(chosen(64, std::nullopt).getWarpM(), 32);
  // O of 256 columns leaves no registers, and 64 rows are those of four warps.
  EXPECT_EQ(chosen(256, 4096).getWarpM(), 16);
  EXPECT_EQ(chosen(64, 64).getWarpM(), 16);
}

TEST(PlainProducts, AThreadHasARow) {
  ScheduleChoice choice =
      choose(makeLargeProblem(64, 4096), ada(), makeOptions(Product::Thread));
  EXPECT_EQ(choice.getWarpM(), 32);
  ScheduleOptions options = makeOptions(Product::Thread);
  options.blockM = 64;
  options.numWarps = 4;
  EXPECT_EQ(
      refuse(makeLargeProblem(64, 4096), options),
      "expects block-m to be a positive multiple of 32 * num-warps = 128, "
      "but got 64");
}

TEST(PlainProducts, RefuseWhatTheyCannotDo) {
  AttentionProblem problem = makeLargeProblem(64, 4096);
  ScheduleOptions options = makeOptions(Product::Wmma);
  options.rowSum = RowSum::Mma;
  EXPECT_EQ(refuse(problem, options),
            "expects row-sum add with product wmma, but got mma; use product "
            "warp");
  EXPECT_EQ(refuse(makeOf(ElementKind::BF16), makeOptions(Product::Wmma)),
            "expects product warp for sm_89, which has no wmma of bf16, but "
            "got wmma");
  EXPECT_EQ(refuse(makeLargeProblem(72, 4096), makeOptions(Product::Wmma)),
            "expects product warp with head_dim 72 and head_dim_v 72, which in "
            "chunks of 8 are no multiples of 16, but got wmma");
  options = makeOptions(Product::Thread);
  options.exchange = Exchange::Wide;
  EXPECT_EQ(refuse(problem, options),
            "expects exchange plain or padded with product thread, but got "
            "wide; use product wmma");
  options.exchange = Exchange::Fragments;
  EXPECT_EQ(refuse(problem, options),
            "expects exchange plain or padded with product thread, but got "
            "fragments; use product wmma");
  options = {};
  options.exchange = Exchange::Padded;
  EXPECT_EQ(refuse(problem, options),
            "expects exchange none with product warp, but got padded; use "
            "product wmma");
}

// ptxas gets constants of m16n8k8 wrong.
TEST(PlainProducts, TuringAddsUpItsRows) {
  const TargetInfo &turing = *lookupTarget("sm_75");
  AttentionProblem open = makeProblem(64, 64);
  EXPECT_EQ(choose(open, ada()).rowMax, RowMax::Folded);
  EXPECT_EQ(choose(open, turing).rowMax, RowMax::Stale);
  EXPECT_EQ(choose(open, turing).rowSum, RowSum::Add);
  EXPECT_EQ(choose(makeSmallProblem(8, 512, 64), turing).rowSum, RowSum::Add);
  ScheduleOptions options;
  options.rowSum = RowSum::Mma;
  ScheduleResult result = chooseSchedule(open, turing, options);
  ASSERT_TRUE(std::holds_alternative<std::string>(result));
  EXPECT_EQ(
      std::get<std::string>(result),
      "expects row-sum add for sm_75, whose mma.sync m16n8k8 is assembled "
      "wrongly with constants, but got mma");
}

TEST(PlainProducts, OldChipsHaveNoAsynchronousCopies) {
  ScheduleOptions options;
  options.copies = CopyPath::Async;
  ScheduleResult result = chooseSchedule(makeLargeProblem(64, 4096),
                                         *lookupTarget("sm_75"), options);
  ASSERT_TRUE(std::holds_alternative<std::string>(result));
  EXPECT_EQ(std::get<std::string>(result),
            "expects copies registers for sm_75, which has no cp.async, but "
            "got async");
  options.product = Product::Wmma;
  options.copies = CopyPath::Producer;
  result = chooseSchedule(makeLargeProblem(64, 4096), *lookupTarget("sm_70"),
                          options);
  ASSERT_TRUE(std::holds_alternative<std::string>(result));
  EXPECT_EQ(std::get<std::string>(result),
            "expects copies registers for sm_70, which has no cp.async, but "
            "got producer");
}

TEST(PlainProducts, MayHaveAWarpThatCopies) {
  AttentionProblem problem = makeLargeProblem(64, 4096);
  ScheduleOptions options = makeOptions(Product::Wmma);
  ScheduleChoice without = choose(problem, ada(), options);
  options.copies = CopyPath::Producer;
  ScheduleChoice choice = choose(problem, ada(), options);
  EXPECT_TRUE(choice.hasProducer());
  EXPECT_FALSE(choice.hasBulkCopies());
  EXPECT_EQ(choice.getAllWarps(), choice.numWarps + 1);
  // A pair of barriers a slot: two of K and of V, one of each warp's Q.
  EXPECT_EQ(getSharedMemoryBytes(problem, choice),
            getSharedMemoryBytes(problem, without) + 128);
  options.product = Product::Warp;
  EXPECT_EQ(refuse(problem, options),
            "expects copies async or registers with product warp, but got "
            "producer; use product wmma");
  options.product = Product::Wmma;
  options.numWarps = 32;
  options.blockM = 512;
  EXPECT_EQ(refuse(problem, options),
            "expects num-warps from 1 to 31 with copies producer, but got 32");
}

// A lane has a row of O and S. Of tensor cores warps share it.
TEST(MustSpill, ARowOfWhatExceedsTheRegistersOfAThread) {
  auto spills = [](llvm::StringRef chip, ElementKind element, int64_t dim) {
    AttentionProblem problem = makeOf(element, dim);
    return mustSpill(problem, choose(problem, *lookupTarget(chip)));
  };
  for (llvm::StringRef chip : {"sm_70", "sm_75"}) {
    EXPECT_FALSE(spills(chip, ElementKind::BF16, 64)) << chip.str();
    EXPECT_FALSE(spills(chip, ElementKind::BF16, 128)) << chip.str();
    EXPECT_TRUE(spills(chip, ElementKind::BF16, 240)) << chip.str();
    EXPECT_FALSE(spills(chip, ElementKind::F16, 240)) << chip.str();
  }
  EXPECT_FALSE(spills("sm_80", ElementKind::BF16, 240));
  // The last row that fits has 171 values: of O, 16 of S.
  AttentionProblem problem = makeOf(ElementKind::BF16);
  ScheduleChoice choice = choose(problem, *lookupTarget("sm_75"));
  choice.blockN = 16;
  problem.headDim = problem.headDimV = 152;
  EXPECT_EQ(getFragmentRegisters(problem, choice), 168);
  EXPECT_FALSE(mustSpill(problem, choice));
  problem.headDim = problem.headDimV = 160;
  EXPECT_EQ(getFragmentRegisters(problem, choice), 176);
  EXPECT_TRUE(mustSpill(problem, choice));
}

// Threads take 32 queries a warp, and a block of a list is of whole warps.
TEST(CheckSupported, BlockListsOfFewQueriesNeedTensorCores) {
  auto check = [](llvm::StringRef chip, ElementKind element, int64_t dim,
                  int64_t queries) {
    AttentionProblem problem = makeOf(element, dim);
    problem.blocks = {queries, 64, false};
    return checkSupported(problem, *lookupTarget(chip)).value_or("");
  };
  EXPECT_EQ(check("sm_70", ElementKind::F16, 64, 16), "");
  EXPECT_EQ(check("sm_70", ElementKind::F16, 72, 32), "");
  EXPECT_EQ(check("sm_70", ElementKind::F16, 72, 16),
            "has block lists of 16 queries, but sm_70 has only products of "
            "threads for head_dim 72 and head_dim_v 72, whose blocks have a "
            "multiple of 32 queries; make lists of such blocks (block_size), "
            "or use head dims that are multiples of 16");
  EXPECT_EQ(check("sm_75", ElementKind::F16, 72, 16), "");
  EXPECT_EQ(check("sm_75", ElementKind::BF16, 64, 48),
            "has block lists of 48 queries, but sm_75 has only products of "
            "threads for bf16, whose blocks have a multiple of 32 queries; "
            "make lists of such blocks (block_size), or use f16");
  EXPECT_EQ(check("sm_89", ElementKind::BF16, 72, 16), "");
  // Without lists nothing is asked.
  EXPECT_FALSE(
      checkSupported(makeOf(ElementKind::BF16, 72), *lookupTarget("sm_70")));
}
} // namespace
