//===- ScheduleOptionsTest.cpp - Options of a schedule by name ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Compiler/ScheduleOptions.h"

#include <gtest/gtest.h>

using namespace mlir::flashcore;

static std::string set(ConfigurePassOptions &options, llvm::StringRef name,
                       llvm::StringRef value) {
  return llvm::toString(setScheduleOption(options, name, value));
}

TEST(ScheduleOptions, SetsNumbersAndWords) {
  ConfigurePassOptions options;
  EXPECT_EQ(set(options, "block-n", "64"), "");
  EXPECT_EQ(set(options, "row-max", "stale"), "");
  EXPECT_EQ(set(options, "tuning-file", "schedules.json"), "");
  EXPECT_EQ(options.blockN, 64);
  EXPECT_EQ(options.rowMax, "stale");
  EXPECT_EQ(options.tuningFile, "schedules.json");
  EXPECT_EQ(options.blockM, 0);
}

TEST(ScheduleOptions, LeavesOpenAgain) {
  ConfigurePassOptions options;
  EXPECT_EQ(set(options, "grid", "persistent"), "");
  EXPECT_EQ(set(options, "grid", ""), "");
  EXPECT_EQ(options.grid, "");
}

TEST(ScheduleOptions, NamesWhatIsUnknown) {
  ConfigurePassOptions options;
  EXPECT_EQ(
      set(options, "block_n", "64"),
      "expects a schedule option (tuning-file, few-queries, schedule, block-m, "
      "block-n, num-warps, num-stages, query, grid-order, min-blocks, overlap, "
      "row-max, row-sum, key-warps, softmax, head-group, key-splits, "
      "grid, query-steps, grid-heads, product, output, "
      "invariance, split-keys, split-count, expected-queries, "
      "expected-grid, copies, exchange), but got 'block_n'");
}

TEST(ScheduleOptions, AnErrorChangesNothing) {
  ConfigurePassOptions options;
  EXPECT_EQ(set(options, "block-n", "32"), "");
  EXPECT_EQ(set(options, "block-n", "wide"),
            "expects block-n to be a number, but got 'wide'");
  EXPECT_EQ(set(options, "block-n", "99999999999999999999"),
            "expects block-n to be a number, but got '99999999999999999999'");
  EXPECT_EQ(options.blockN, 32);
  EXPECT_EQ(set(options, "query", "local"),
            "expects query to be registers, shared or split, but got 'local'");
  EXPECT_EQ(options.query, "");
}
