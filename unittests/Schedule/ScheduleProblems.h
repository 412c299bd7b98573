//===- ScheduleProblems.h - Problems for tests of schedules -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_UNITTESTS_SCHEDULE_SCHEDULEPROBLEMS_H
#define FLASHCORE_UNITTESTS_SCHEDULE_SCHEDULEPROBLEMS_H

#include "flashcore/Schedule/ScheduleChoice.h"
#include "gtest/gtest.h"

namespace mlir::flashcore {

inline const TargetInfo &ada() { return *lookupTarget("sm_89"); }

inline AttentionProblem makeProblem(int64_t headDim, int64_t headDimV) {
  AttentionProblem problem;
  problem.headDim = headDim;
  problem.headDimV = headDimV;
  return problem;
}

/// Problems of one pair of head dims: sizes unknown, too few blocks to fill a
/// chip, and many; with and without causal.
inline std::vector<AttentionProblem> makeProblems(int64_t headDim,
                                                  int64_t headDimV) {
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

inline ScheduleChoice choose(const AttentionProblem &problem,
                             const TargetInfo &target,
                             const ScheduleOptions &options = {}) {
  auto result = chooseSchedule(problem, target, options);
  if (auto *error = std::get_if<std::string>(&result)) {
    ADD_FAILURE() << *error;
    return {};
  }
  return std::get<ScheduleDecision>(result).choice;
}

inline std::string refuse(const AttentionProblem &problem,
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

/// B1 H8 S512 and the like: fewer blocks of 64 rows than SMs.
inline AttentionProblem makeSmallProblem(int64_t heads, int64_t seqlen,
                                         int64_t headDim) {
  AttentionProblem problem = makeProblem(headDim, headDim);
  problem.batch = 1;
  problem.headsQ = problem.headsKV = heads;
  problem.seqlenQ = problem.seqlenK = seqlen;
  return problem;
}

/// Enough heads of `seqlen` tokens to fill any chip.
inline AttentionProblem makeLargeProblem(int64_t headDim, int64_t seqlen) {
  AttentionProblem problem = makeSmallProblem(32, seqlen, headDim);
  problem.batch = 64;
  return problem;
}

/// Such a one of these elements.
inline AttentionProblem makeOf(ElementKind element, int64_t dim = 64) {
  AttentionProblem problem = makeLargeProblem(dim, 4096);
  problem.element = element;
  return problem;
}

inline AttentionProblem makeDecode(int64_t batch, int64_t seqlenQ,
                                   int64_t seqlenK, int64_t headDim = 128) {
  AttentionProblem problem = makeProblem(headDim, headDim);
  problem.batch = batch;
  problem.headsQ = 32;
  problem.headsKV = 8;
  problem.seqlenQ = seqlenQ;
  problem.seqlenK = seqlenK;
  return problem;
}

} // namespace mlir::flashcore

#endif // FLASHCORE_UNITTESTS_SCHEDULE_SCHEDULEPROBLEMS_H
