//===- TuningFileTest.cpp - Reading and choosing from a tuning file -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/TuningFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"

using namespace mlir::fcgpu;
using namespace mlir::flashcore;

namespace {
constexpr llvm::StringLiteral kProblem =
    R"("head_dim": 64, "head_dim_v": 64, "causal": false, "softcap": false,
       "bias": false, "window": false)";
constexpr llvm::StringLiteral kSchedule =
    R"("block_m": 64, "num_warps": 4, "query": "shared")";

/// The text of a file with these entries.
std::string makeFile(llvm::StringRef entries) {
  return llvm::formatv(R"({{"format": "flashcore-tuning", "version": 1,
      "card": "Card", "chip": "sm_89", "date": "2026-11-21",
      "entries": [{0}]})",
                       entries);
}

std::string makeEntry(const llvm::Twine &problem, const llvm::Twine &schedule) {
  return ("{\"problem\": {" + problem + "}, \"schedule\": {" + schedule + "}}")
      .str();
}

TuningFile parse(llvm::StringRef text) {
  llvm::Expected<TuningFile> file = TuningFile::parse(text, "t.json");
  if (file)
    return std::move(*file);
  ADD_FAILURE() << llvm::toString(file.takeError());
  return {};
}

/// What is wrong with `text`, without the name of the file.
std::string refuse(llvm::StringRef text) {
  llvm::Expected<TuningFile> file = TuningFile::parse(text, "t.json");
  if (file)
    return "accepted";
  std::string message = llvm::toString(file.takeError());
  llvm::StringRef rest = message;
  EXPECT_TRUE(rest.consume_front("tuning file 't.json': ")) << message;
  return rest.str();
}

AttentionProblem makeProblem() {
  AttentionProblem problem;
  problem.headDim = problem.headDimV = 64;
  problem.batch = 1;
  problem.headsQ = 8;
  problem.headsKV = 2;
  problem.seqlenQ = problem.seqlenK = 512; // 64 blocks of 64 rows
  return problem;
}

const TargetInfo &ada() { return *lookupTarget("sm_89"); }

/// Without a tuning file.
ScheduleChoice choosePlain(const ScheduleOptions &options) {
  return std::get<ScheduleDecision>(
             chooseSchedule(makeProblem(), ada(), options))
      .choice;
}
} // namespace

TEST(TuningFileTest, ReadsEverything) {
  TuningFile file = parse(makeFile(makeEntry(
      kProblem + ", \"seqlen_q\": [17, 1024], \"seqlen_k\": [1, null], "
                 "\"query_blocks\": \"dynamic\"",
      "\"block_m\": 64, \"block_n\": 32, \"num_warps\": 4, \"num_stages\": 3, "
      "\"min_blocks\": 2, \"query\": \"shared\", \"grid_order\": "
      "\"head_fastest\", \"overlap\": \"qk\", \"row_max\": \"stale\", "
      "\"row_sum\": \"mma\"")));
  EXPECT_EQ(file.card, "Card");
  EXPECT_EQ(file.chip, "sm_89");
  EXPECT_EQ(file.date, "2026-11-21");
  ASSERT_EQ(file.entries.size(), 1u);
  const TuningEntry &entry = file.entries.front();
  EXPECT_EQ(entry.seqlenQ->min, 17);
  EXPECT_EQ(entry.seqlenQ->max, 1024);
  EXPECT_FALSE(entry.seqlenK->max.has_value());
  EXPECT_TRUE(entry.queryBlocks->isDynamic);
  const ScheduleOptions &schedule = entry.schedule;
  EXPECT_EQ(schedule.blockM, 64);
  EXPECT_EQ(schedule.blockN, 32);
  EXPECT_EQ(schedule.numWarps, 4);
  EXPECT_EQ(schedule.numStages, 3);
  EXPECT_EQ(schedule.minBlocks, 2);
  EXPECT_EQ(schedule.query, QueryPlacement::Shared);
  EXPECT_EQ(schedule.gridOrder, GridOrder::HeadFastest);
  EXPECT_EQ(schedule.overlap, Overlap::QK);
  EXPECT_EQ(schedule.rowMax, RowMax::Stale);
  EXPECT_EQ(schedule.rowSum, RowSum::Mma);
}

TEST(TuningFileTest, EveryFieldCanBeTuned) {
  auto decision =
      std::get<ScheduleDecision>(chooseSchedule(makeProblem(), ada(), {}));
  ASSERT_FALSE(decision.reasons.empty());
  for (const ScheduleReason &reason : decision.reasons) {
    bool isNumber = llvm::all_of(reason.value, llvm::isDigit);
    std::string value = isNumber ? reason.value : "\"" + reason.value + "\"";
    EXPECT_EQ(refuse(makeFile(
                  makeEntry(kProblem, "\"" + reason.field + "\": " + value))),
              "accepted");
  }
}

TEST(TuningFileTest, RefusesBadFiles) {
  EXPECT_NE(refuse("{").find("not JSON: "), std::string::npos);
  EXPECT_EQ(refuse(std::string(100000, '[')),
            "not a tuning file: 1:257: error: expects brackets and regions "
            "nested at most 256 deep, but got more");
  EXPECT_EQ(refuse("[]"), ": expects an object, but got []");
  EXPECT_EQ(refuse(R"({"format": "x", "version": 1})"),
            "format: expects flashcore-tuning of version 1, but got x of "
            "version 1; tune again");
  EXPECT_EQ(refuse(R"({"format": 3})"), "format: expects a string, but got 3");
  EXPECT_EQ(refuse(makeFile("7")), "entries[0]: expects an object, but got 7");
  EXPECT_EQ(refuse(makeFile("{}")), "entries[0]: expects the key 'problem'");
}

TEST(TuningFileTest, RefusesBadProblems) {
  auto refuseProblem = [](const llvm::Twine &problem) {
    return refuse(makeFile(makeEntry(problem, kSchedule)));
  };
  EXPECT_EQ(refuseProblem("\"head_dim\": \"64\""),
            "entries[0].problem.head_dim: expects a positive integer, but got "
            "\"64\"");
  EXPECT_EQ(refuseProblem("\"head_dim\": 64"),
            "entries[0].problem: expects the key 'head_dim_v'");
  EXPECT_EQ(
      refuseProblem(kProblem + ", \"seqlen\": 3"),
      "entries[0].problem: expects one of the keys head_dim, head_dim_v, "
      "causal, softcap, bias, window, lse, seqlen_q, seqlen_k, heads_per_kv, "
      "query_blocks, but got 'seqlen'");
  for (llvm::StringRef range : {"[2,1]", "[0,1]", "[1]", "\"any\"", "7"})
    EXPECT_EQ(refuseProblem(kProblem + ", \"seqlen_q\": " + range),
              ("entries[0].problem.seqlen_q: expects 'dynamic' or [min, max] "
               "with 1 <= min <= max, where max may be null, but got " +
               range)
                  .str());
}

TEST(TuningFileTest, RefusesBadSchedules) {
  auto refuseSchedule = [](llvm::StringRef schedule) {
    return refuse(makeFile(makeEntry(kProblem, schedule)));
  };
  EXPECT_EQ(refuseSchedule("\"block_m\": -64"),
            "entries[0].schedule.block_m: expects a positive integer, but got "
            "-64");
  EXPECT_EQ(refuseSchedule("\"query\": \"smem\""),
            "entries[0].schedule.query: expects 'registers', 'shared' or "
            "'split', but got \"smem\"");
  EXPECT_EQ(refuseSchedule("\"query_steps\": -1"),
            "entries[0].schedule.query_steps: expects an integer of at least "
            "0, but got -1");
  EXPECT_EQ(refuseSchedule("\"row_max\": 1"),
            "entries[0].schedule.row_max: expects 'exact', 'stale', "
            "'folded' or 'checked', but got "
            "1");
  std::string unknown = refuseSchedule("\"blocks\": 1");
  EXPECT_NE(unknown.find("expected_grid, copies, exchange, but got 'blocks'"),
            std::string::npos)
      << unknown;
}

TEST(TuningFileTest, AnEntryIsForItsProblems) {
  TuningEntry entry;
  entry.headDim = entry.headDimV = 64;
  AttentionProblem problem = makeProblem();
  EXPECT_TRUE(entry.matches(problem));
  for (bool AttentionProblem::*feature :
       {&AttentionProblem::isCausal, &AttentionProblem::hasSpecials,
        &AttentionProblem::hasBias, &AttentionProblem::hasWindow,
        &AttentionProblem::hasLse}) {
    AttentionProblem other = problem;
    other.*feature = true;
    EXPECT_FALSE(entry.matches(other));
  }
  for (int64_t AttentionProblem::*dim :
       {&AttentionProblem::headDim, &AttentionProblem::headDimV}) {
    AttentionProblem other = problem;
    other.*dim = 128;
    EXPECT_FALSE(entry.matches(other));
  }
}

// Files from before there was the key are of problems without an LSE.
TEST(TuningFileTest, LseIsFalseWhereNothingSaysSo) {
  TuningFile file =
      parse(makeFile(makeEntry(kProblem, kSchedule) + "," +
                     makeEntry(kProblem + ", \"lse\": true", kSchedule) + "," +
                     makeEntry(kProblem + ", \"lse\": false", kSchedule)));
  ASSERT_EQ(file.entries.size(), 3u);
  EXPECT_FALSE(file.entries[0].hasLse);
  EXPECT_TRUE(file.entries[1].hasLse);
  EXPECT_FALSE(file.entries[2].hasLse);
  AttentionProblem problem = makeProblem();
  EXPECT_EQ(file.lookup(problem), 0u);
  problem.hasLse = true;
  EXPECT_EQ(file.lookup(problem), 1u);
  EXPECT_EQ(refuse(makeFile(makeEntry(kProblem + ", \"lse\": 1", kSchedule))),
            "entries[0].problem.lse: expects true or false, but got 1");
}

TEST(TuningFileTest, RangesAreInclusive) {
  AttentionProblem problem = makeProblem();
  AttentionProblem unknown = problem;
  unknown.seqlenQ = unknown.seqlenK = unknown.headsKV = std::nullopt;
  auto matches = [](const AttentionProblem &problem,
                    std::optional<SizeRange> TuningEntry::*member,
                    SizeRange range) {
    TuningEntry entry;
    entry.headDim = entry.headDimV = 64;
    entry.*member = range;
    return entry.matches(problem);
  };
  for (auto [member, size] : {std::pair(&TuningEntry::seqlenQ, 512),
                              {&TuningEntry::seqlenK, 512},
                              {&TuningEntry::headsPerKV, 4},
                              {&TuningEntry::queryBlocks, 64}}) {
    EXPECT_TRUE(matches(problem, member, {false, size, size}));
    EXPECT_TRUE(matches(problem, member, {false, 1, std::nullopt}));
    EXPECT_FALSE(matches(problem, member, {false, size + 1, std::nullopt}));
    EXPECT_FALSE(matches(problem, member, {false, 1, size - 1}));
    EXPECT_FALSE(matches(unknown, member, {false, 1, std::nullopt}));
    EXPECT_FALSE(matches(problem, member, {true, 1, std::nullopt}));
    EXPECT_TRUE(matches(unknown, member, {true, 1, std::nullopt}));
  }
}

TEST(TuningFileTest, TheFirstEntryWins) {
  TuningFile file = parse(makeFile(
      makeEntry(kProblem + ", \"seqlen_k\": [1, 100]", "\"block_m\": 16") +
      "," + makeEntry(kProblem, "\"block_m\": 32") + "," +
      makeEntry(kProblem, "\"block_m\": 64")));
  AttentionProblem problem = makeProblem();
  EXPECT_EQ(file.lookup(problem), 1u);
  problem.seqlenK = 100;
  EXPECT_EQ(file.lookup(problem), 0u);
  problem.isCausal = true;
  EXPECT_EQ(file.lookup(problem), std::nullopt);
}

TEST(TuningFileTest, OptionsWinOverTheFile) {
  ScheduleOptions options, tuned;
  options.blockM = 128;
  options.query = QueryPlacement::Registers;
  tuned.blockM = 64;
  tuned.query = QueryPlacement::Shared;
  tuned.numStages = 3;
  tuned.rowSum = RowSum::Mma;
  ScheduleOptions merged = addTunedFields(options, tuned);
  EXPECT_EQ(merged.blockM, 128);
  EXPECT_EQ(merged.query, QueryPlacement::Registers);
  EXPECT_EQ(merged.numStages, 3);
  EXPECT_EQ(merged.rowSum, RowSum::Mma);
  EXPECT_EQ(merged.blockN, 0);
}

TEST(TuningFileTest, ChoosesAndSaysWhy) {
  TuningFile file = parse(makeFile(makeEntry(kProblem, kSchedule)));
  ScheduleOptions options;
  options.numWarps = 2;
  TunedChoice tuned = chooseTunedSchedule(makeProblem(), ada(), options, file);
  EXPECT_EQ(tuned.refusal, "");
  auto *decision = std::get_if<ScheduleDecision>(&tuned.result);
  ASSERT_TRUE(decision) << std::get<std::string>(tuned.result);
  EXPECT_EQ(decision->choice.blockM, 64);
  EXPECT_EQ(decision->choice.numWarps, 2);
  EXPECT_EQ(decision->choice.query, QueryPlacement::Shared);
  auto reasonOf = [&](llvm::StringRef field) -> std::string {
    for (const ScheduleReason &reason : decision->reasons)
      if (reason.field == field)
        return reason.value + ": " + reason.reason;
    return "none";
  };
  EXPECT_EQ(reasonOf("tuning"),
            "entries[0]: tuned on Card, 2026-11-21, file t.json");
  EXPECT_EQ(reasonOf("block_m"), "64: tuned");
  EXPECT_EQ(reasonOf("num_warps"), "2: asked for");
  EXPECT_EQ(reasonOf("query"), "shared: tuned");
  EXPECT_NE(reasonOf("block_n").find("S beside O"), std::string::npos);
}

TEST(TuningFileTest, WithoutAnEntryTheDefaultIsKept) {
  TuningFile file = parse(makeFile(""));
  TunedChoice tuned = chooseTunedSchedule(makeProblem(), ada(), {}, file);
  auto &decision = std::get<ScheduleDecision>(tuned.result);
  EXPECT_EQ(decision.choice, choosePlain({}));
  EXPECT_EQ(tuned.refusal, "");
  ASSERT_FALSE(decision.reasons.empty());
  EXPECT_EQ(decision.reasons.front().reason,
            "no entry for this problem: Card, 2026-11-21, file t.json");
}

// What it says is of some sizes, and would be in the bits of their rows.
TEST(TuningFileTest, InvariantRowsTakeNoEntry) {
  TuningFile file = parse(makeFile(makeEntry(kProblem, "\"block_n\": 16")));
  ScheduleOptions options;
  EXPECT_EQ(std::get<ScheduleDecision>(
                chooseTunedSchedule(makeProblem(), ada(), options, file).result)
                .choice.blockN,
            16);
  options.invariance = Invariance::Batch;
  TunedChoice tuned = chooseTunedSchedule(makeProblem(), ada(), options, file);
  EXPECT_EQ(tuned.refusal, "");
  auto &[choice, reasons] = std::get<ScheduleDecision>(tuned.result);
  EXPECT_EQ(choice, choosePlain(options));
  EXPECT_NE(choice.blockN, 16);
  EXPECT_EQ(reasons.front().reason,
            "entries[0] is for some sizes only, but rows are to be the same in "
            "all: Card, 2026-11-21, file t.json");
}

TEST(TuningFileTest, AScheduleThatDoesNotFitIsRefused) {
  TuningFile file = parse(makeFile(makeEntry(
      kProblem, "\"block_m\": 128, \"block_n\": 512, \"num_warps\": 8")));
  ScheduleOptions options;
  options.numStages = 2;
  TunedChoice tuned = chooseTunedSchedule(makeProblem(), ada(), options, file);
  EXPECT_EQ(tuned.refusal.find("takes no schedule from entries[0] of 't.json', "
                               "which does not fit: needs "),
            0u)
      << tuned.refusal;
  auto &[choice, reasons] = std::get<ScheduleDecision>(tuned.result);
  EXPECT_EQ(choice, choosePlain(options));
  ASSERT_FALSE(reasons.empty());
  EXPECT_EQ(reasons.front().value, "none");
  EXPECT_EQ(reasons.front().reason.find("entries[0] does not fit: needs "), 0u);
  for (const ScheduleReason &reason : reasons)
    EXPECT_NE(reason.reason, "tuned");
}

TEST(TuningFileTest, AnotherChipIsAnError) {
  TuningFile file = parse(makeFile(makeEntry(kProblem, kSchedule)));
  TunedChoice result =
      chooseTunedSchedule(makeProblem(), *lookupTarget("sm_90"), {}, file);
  EXPECT_EQ(std::get<std::string>(result.result),
            "cannot take its schedule from 't.json', which is for sm_89: the "
            "target is sm_90");
}
