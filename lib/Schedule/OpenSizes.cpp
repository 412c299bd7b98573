//===- OpenSizes.cpp - What sizes known at run time cost ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tries values, so that it needs no knowledge of how the choice is made.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Schedule/OpenSizes.h"
#include "flashcore/Schedule/CallClass.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir::flashcore;

namespace {
using Size = std::optional<int64_t> AttentionProblem::*;

/// Values of sizes that belong together.
struct Trial {
  std::string name; ///< empty if of all sizes
  std::vector<std::pair<Size, int64_t>> values;
};
} // namespace

static bool isOpen(const AttentionProblem &problem, const Trial &trial) {
  return llvm::any_of(trial.values,
                      [&](auto value) { return !(problem.*value.first); });
}

/// The problem with the values of `trial` where it leaves them open.
static AttentionProblem close(AttentionProblem problem, const Trial &trial) {
  for (auto [size, value] : trial.values)
    if (!(problem.*size))
      problem.*size = value;
  return problem;
}

std::string mlir::flashcore::describeChange(const ScheduleChoice &now,
                                            const ScheduleChoice &then) {
  using fcgpu::printField;
  std::string text;
#define FLASHCORE_SCHEDULE_FIELD(Type, Name, name, key, option, initial, help) \
  if (now.name != then.name)                                                   \
    text += (text.empty() ? "" : ", ") + std::string(key " ") +                \
            printField(then.name) + " (not " + printField(now.name) + ")";
#include "flashcore/Dialect/FCGPU/IR/ScheduleFields.def"
  return text;
}

static std::string describeSizes(const AttentionProblem &problem) {
  return llvm::formatv("batch {0}, heads {1}/{2}, seqlen {3} x {4}",
                       *problem.batch, *problem.headsQ, *problem.headsKV,
                       *problem.seqlenQ, *problem.seqlenK);
}

/// One size at a time, then all.
static std::vector<std::vector<Trial>> getTrials(const AttentionProblem &p) {
  constexpr Size batch = &AttentionProblem::batch;
  constexpr Size headsQ = &AttentionProblem::headsQ;
  constexpr Size headsKV = &AttentionProblem::headsKV;
  constexpr Size seqlenQ = &AttentionProblem::seqlenQ;
  constexpr Size seqlenK = &AttentionProblem::seqlenK;
  auto single = [](const std::string &name, std::initializer_list<Size> sizes,
                   std::initializer_list<int64_t> values) {
    std::vector<Trial> trials;
    for (int64_t value : values) {
      Trial trial{name + " " + std::to_string(value), {}};
      for (Size size : sizes)
        trial.values.emplace_back(size, value);
      trials.push_back(trial);
    }
    return trials;
  };
  // Where one number of heads is known, the other is likely to be the same.
  int64_t fewHeads = p.headsQ.value_or(p.headsKV.value_or(8));
  int64_t manyHeads = p.headsQ.value_or(p.headsKV.value_or(64));
  return {single("batch", {batch}, {1, 64}),
          single("heads", {headsQ, headsKV}, {fewHeads, manyHeads}),
          single("seqlen_q", {seqlenQ}, {1, 4096}),
          single("seqlen_k", {seqlenK}, {512, 65536}),
          {{"",
            {{batch, 1},
             {headsQ, fewHeads},
             {headsKV, fewHeads},
             {seqlenQ, 512},
             {seqlenK, 512}}},
           {"",
            {{batch, 4},
             {headsQ, p.headsKV.value_or(32)},
             {headsKV, p.headsQ.value_or(32)},
             {seqlenQ, 4096},
             {seqlenK, 4096}}}}};
}

std::vector<std::string> mlir::flashcore::describeOpenSizes(
    const AttentionProblem &problem, const ScheduleChoice &now,
    llvm::function_ref<ScheduleResult(const AttentionProblem &)> choose) {
  std::vector<std::string> lines;
  std::vector<std::vector<Trial>> all = getTrials(problem);
  // Of a single open size, all of them together say nothing new.
  if (llvm::count_if(llvm::drop_end(all), [&](const auto &trials) {
        return isOpen(problem, trials.front());
      }) < 2)
    all.pop_back();
  for (const std::vector<Trial> &trials : all)
    for (const Trial &trial : trials) {
      if (!isOpen(problem, trial))
        continue;
      AttentionProblem closed = close(problem, trial);
      ScheduleResult result = choose(closed);
      auto *then = std::get_if<ScheduleDecision>(&result);
      if (!then)
        continue;
      std::string change = describeChange(now, then->choice);
      if (change.empty())
        continue;
      lines.push_back(
          "with " + (trial.name.empty() ? describeSizes(closed) : trial.name) +
          " known at compile time: " + change);
      break;
    }
  return lines;
}

std::vector<std::string> mlir::flashcore::describeCallClasses(
    const AttentionProblem &problem, const TargetInfo &target,
    const ScheduleChoice &now,
    llvm::function_ref<ScheduleResult(fcgpu::ExpectedGrid)> choose) {
  std::vector<std::string> lines;
  if (problem.seqlenQ || now.expectedGrid != fcgpu::ExpectedGrid::Any)
    return lines;
  for (const CallClass &calls : getCallClasses(target).drop_back()) {
    ScheduleResult result = choose(calls.grid);
    auto *then = std::get_if<ScheduleDecision>(&result);
    if (!then)
      continue;
    // The class is what the line is about.
    then->choice.expectedGrid = now.expectedGrid;
    std::string change = describeChange(now, then->choice);
    lines.push_back(llvm::formatv(
        "{0} (expected_grid {1}): {2}", calls.describe(),
        fcgpu::printField(calls.grid), change.empty() ? "the same" : change));
  }
  return lines;
}
