//===- UnfusedChoiceTest.cpp - Schedules of three kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScheduleProblems.h"
#include "flashcore/Schedule/ResourceModel.h"
#include "flashcore/Schedule/ScheduleCheck.h"
#include "flashcore/Schedule/ScoresChoice.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
ScheduleOptions makeOptions() {
  ScheduleOptions options;
  options.softmax = Softmax::Unfused;
  return options;
}

TEST(UnfusedChoice, TakesWmmaWhereTheChipHasIt) {
  auto chosen = [](llvm::StringRef chip, ElementKind element, int64_t dim) {
    return choose(makeOf(element, dim), *lookupTarget(chip), makeOptions())
        .product;
  };
  EXPECT_EQ(chosen("sm_70", ElementKind::F16, 64), Product::Wmma);
  EXPECT_EQ(chosen("sm_75", ElementKind::F16, 64), Product::Wmma);
  EXPECT_EQ(chosen("sm_89", ElementKind::F16, 64), Product::Wmma);
  EXPECT_EQ(chosen("sm_90a", ElementKind::F16, 64), Product::Wmma);
  EXPECT_EQ(chosen("sm_89", ElementKind::BF16, 64), Product::Warp);
  EXPECT_EQ(chosen("sm_89", ElementKind::F16, 72), Product::Warp);
  ScheduleOptions options = makeOptions();
  options.product = Product::Warp;
  EXPECT_EQ(choose(makeOf(ElementKind::F16), ada(), options).product,
            Product::Warp);
}

// One of few queries and long keys, too, which would be split or shared.
TEST(UnfusedChoice, FitsEveryChip) {
  for (const TargetInfo &target : getTargets())
    for (Product product : {Product::Wmma, Product::Warp})
      for (int64_t dim = 16; dim <= 256; dim += 16)
        for (int64_t queries : {1, 100, 4096}) {
          AttentionProblem problem = makeSmallProblem(2, 4096, dim);
          problem.seqlenQ = queries;
          ScheduleOptions options = makeOptions();
          options.product = product;
          if (product == Product::Warp && target.chip == "sm_70")
            continue;
          ScheduleChoice choice = choose(problem, target, options);
          EXPECT_TRUE(choice.isUnfused());
          EXPECT_LE(getSharedMemoryBytes(problem, choice),
                    target.sharedMemoryPerBlock)
              << target.chip.str() << " " << dim;
        }
}

TEST(UnfusedChoice, SaysWhatItsKernelsFix) {
  auto result = chooseSchedule(makeOf(ElementKind::F16), ada(), makeOptions());
  const auto &decision = std::get<ScheduleDecision>(result);
  auto find = [&](llvm::StringRef field) {
    return llvm::find_if(decision.reasons,
                         [&](const ScheduleReason &reason) {
                           return reason.field == field;
                         })
        ->reason;
  };
  EXPECT_EQ(find("softmax"), "asked for");
  EXPECT_EQ(find("row_max"), "as kernels of softmax unfused take it");
  EXPECT_EQ(find("product"), "as kernels of softmax unfused take it");
  EXPECT_EQ(find("num_warps"), "as many as share K and V");
}

// A block of 64 rows by 64 keys: Q, K and S, or P and V twice and O.
TEST(UnfusedChoice, HasTheSharedMemoryOfTheLargerKernel) {
  AttentionProblem problem = makeOf(ElementKind::F16);
  ScheduleOptions options = makeOptions();
  options.exchange = Exchange::Plain;
  options.blockM = 64;
  ScheduleChoice choice = choose(problem, ada(), options);
  ASSERT_EQ(choice.blockM, 64);
  ASSERT_EQ(choice.blockN, 64);
  EXPECT_EQ(getScoresSharedMemoryBytes(problem, choice),
            2 * 64 * 64 * 2 + 64 * 64 * 4);
  EXPECT_EQ(getValuesSharedMemoryBytes(problem, choice),
            2 * (2 * 64 * 64 * 2) + 64 * 64 * 4);
  EXPECT_EQ(getSharedMemoryBytes(problem, choice),
            getValuesSharedMemoryBytes(problem, choice));
  EXPECT_EQ(predictLimiter(problem, ada(), choice),
            "global memory: 16 bytes of each score");
}

TEST(UnfusedChoice, RefusesOtherFields) {
  auto refuseWith = [](auto change) {
    ScheduleOptions options = makeOptions();
    change(options);
    return refuse(makeOf(ElementKind::F16), options);
  };
  EXPECT_EQ(refuseWith([](auto &o) { o.rowMax = RowMax::Stale; }),
            "expects row-max exact with softmax unfused, but got stale; use "
            "softmax online");
  EXPECT_EQ(refuseWith([](auto &o) { o.keySplits = 2; }),
            "expects key-splits 1 with softmax unfused, but got 2; use softmax "
            "online");
  EXPECT_EQ(refuseWith([](auto &o) { o.splitKeys = 256; }),
            "expects split-keys 0 with softmax unfused, but got 256; use "
            "softmax online");
  EXPECT_EQ(refuseWith([](auto &o) { o.grid = Grid::Persistent; }),
            "expects grid full with softmax unfused, but got persistent; use "
            "softmax online");
  EXPECT_EQ(refuseWith([](auto &o) { o.product = Product::Thread; }),
            "expects softmax online with product thread, but got unfused; use "
            "product warp");
  EXPECT_EQ(refuseWith([](auto &o) {
              o.product = Product::Warp;
              o.query = QueryPlacement::Split;
              o.querySteps = 1;
            }),
            "expects query registers or shared with softmax unfused, but got "
            "split");
  EXPECT_EQ(refuseWith([](auto &o) { o.copies = CopyPath::Producer; }),
            "expects copies async or registers with softmax unfused, whose "
            "warps copy for each other, but got producer");
  EXPECT_EQ(refuseWith([](auto &o) { o.invariance = Invariance::Batch; }),
            "expects softmax online with invariance batch, since kernels of "
            "unfused promise nothing of rows, but got unfused");
}

TEST(UnfusedChoice, RefusesWhatItsKernelsDoNotKnow) {
  auto refuseOf = [](auto change) {
    AttentionProblem problem = makeOf(ElementKind::F16);
    change(problem);
    return refuse(problem, makeOptions());
  };
  auto textOf = [](llvm::StringRef clause) {
    return ("expects softmax online or one_pass with " + clause +
            ", but got unfused, whose three kernels do not know it; use "
            "softmax online")
        .str();
  };
  EXPECT_EQ(refuseOf([](auto &p) { p.isVarlen = p.hasLengths = true; }),
            textOf("cu_seqlens_q"));
  EXPECT_EQ(refuseOf([](auto &p) {
              p.isPaged = p.hasLengths = true;
              p.pageSize = 16;
            }),
            textOf("page_table"));
  EXPECT_EQ(refuseOf([](auto &p) { p.hasAppend = true; }), textOf("append"));
  EXPECT_EQ(refuseOf([](auto &p) { p.hasDropout = true; }), textOf("dropout"));
  EXPECT_EQ(refuseOf([](auto &p) {
              p.blocks = AttentionProblem::Blocks{128, 128, false};
            }),
            textOf("block_counts"));
  EXPECT_EQ(refuseOf([](auto &p) { p.seqlenQ = p.seqlenK = 1 << 20; }),
            "needs 8796093022208 blocks for its scores (batch 64, heads_q 32, "
            "seqlen_q 1048576, seqlen_k 1048576, tiles of 16 x 16), but CUDA "
            "launches at most 2147483647; compute it in several parts");
}
} // namespace
