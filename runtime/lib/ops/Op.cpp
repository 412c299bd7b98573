//===- Op.cpp - The ops that the runtime knows ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Op.h"
#include "AppendOp.h"
#include "AttentionOp.h"
#include "AttentionReader.h"
#include "DeltaOp.h"
#include "MergeOp.h"
#include "MergeReader.h"
#include "ProgramOp.h"

#include <algorithm>
#include <cassert>

using namespace flashcore;

// What several ops say.
static Status takeAllSizes(const Bundle &, Numbers &) {
  return Status::success();
}
static bool derivesNone(const Bundle &, std::string_view) { return false; }
static double countNoFlops(const Problem &) { return 0; }
static double countNoFlopsOf(const TensorSet &) { return 0; }
static double countMergeFlopsOf(const TensorSet &set) {
  return countMergeFlops(set.problem());
}
static Status takeAllData(const TensorSet &) { return Status::success(); }
static Status verifyAllWritten(const TensorSet &, const HostTensor &output) {
  return output.verifyWritten();
}
static std::function<bool(int64_t)> findNone(const TensorSet &,
                                             const HostTensor &) {
  return [](int64_t) { return false; };
}

static constexpr Op ops[] = {
    {AttentionOpName, readAttention, checkAttention, resolveAttentionSizes,
     isDerivedInAttention, describeAttention, attentionFlops,
     countAttentionFlops, verifyAttentionStage, verifyAttentionKind,
     fillAttention, verifyAttentionData, verifyAttentionWritten,
     findAppendedRows, computeAttentionCall, computeAttentionYardstick,
     checkAttentionCall, checkAttentionOutputs},
    {MergeOpName, readMerge, checkMerge, takeAllSizes, derivesNone,
     describeMerge, countMergeFlops, countMergeFlopsOf, verifyMergeStage,
     verifyMergeKind, fillMerge, takeAllData, verifyAllWritten, findNone,
     computeMergeCall, computeMergeYardstick, checkMergeCall,
     checkMergeOutputs},
    {AppendOpName, readAppend, checkAppend, resolveAppendSizes, derivesNone,
     describeAppend, countNoFlops, countNoFlopsOf, verifyAppendStage,
     verifyAppendKind, fillAppend, verifyAttentionData, verifyAllWritten,
     findAppendedRows, computeAppendCall, computeAppendCall, checkAppendCall,
     checkAppendOutputs},
    {DeltaOpName, readDelta, checkDelta, takeAllSizes, derivesNone,
     describeDelta, countDeltaFlops, countDeltaFlops, verifyDeltaStage,
     verifyDeltaKind, fillDelta, takeAllData, verifyAllWritten, findNone,
     computeDeltaCall, computeDeltaYardstick, checkDeltaCall,
     checkDeltaOutputs},
    {ProgramOpName, /*read=*/nullptr, /*check=*/nullptr, takeAllSizes,
     derivesNone, describeProgram, countProgramFlops, countProgramFlops,
     verifyProgramStage, verifyProgramKind, fillProgram, verifyProgramData,
     verifyProgramWritten, findProgramRows, computeProgramCall,
     computeProgramYardstick, checkProgramCall, checkProgramOutputs}};

std::span<const Op> flashcore::getOps() { return ops; }

const Op &flashcore::findOp(const Bundle &bundle) {
  const Op *op = std::ranges::find(ops, bundle.op, &Op::name);
  assert(op != std::end(ops) && "the loader refuses others");
  return *op;
}
