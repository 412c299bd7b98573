//===- Op.cpp - The ops that the runtime knows ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Op.h"
#include "AttentionOp.h"
#include "AttentionReader.h"
#include "MergeOp.h"
#include "MergeReader.h"
#include "ProgramOp.h"

#include <algorithm>
#include <cassert>

using namespace flashcore;

static constexpr Op ops[] = {
    {AttentionOpName, readAttention, checkAttention, describeAttention,
     attentionFlops, countAttentionFlops, verifyAttentionStage,
     verifyAttentionKind, fillAttention, verifyAttentionData,
     verifyAttentionWritten, findAppendedRows, computeAttentionCall,
     computeAttentionYardstick, checkAttentionCall, checkAttentionOutputs},
    {MergeOpName, readMerge, checkMerge, describeMerge, countMergeFlops,
     /*countFlopsOf=*/
     [](const TensorSet &set) { return countMergeFlops(set.problem()); },
     verifyMergeStage, verifyMergeKind, fillMerge,
     /*verifyData=*/[](const TensorSet &) { return Status::success(); },
     /*verifyWritten=*/
     [](const TensorSet &, const HostTensor &output) {
       return output.verifyWritten();
     },
     /*findNewRows=*/
     [](const TensorSet &, const HostTensor &) {
       return std::function([](int64_t) { return false; });
     },
     computeMergeCall, computeMergeYardstick, checkMergeCall,
     checkMergeOutputs},
    {ProgramOpName, /*read=*/nullptr, /*check=*/nullptr, describeProgram,
     countProgramFlops, countProgramFlops, verifyProgramStage,
     verifyProgramKind, fillProgram, verifyProgramData, verifyProgramWritten,
     findProgramRows, computeProgramCall, computeProgramYardstick,
     checkProgramCall, checkProgramOutputs}};

std::span<const Op> flashcore::getOps() { return ops; }

const Op &flashcore::findOp(const Bundle &bundle) {
  const Op *op = std::ranges::find(ops, bundle.op, &Op::name);
  assert(op != std::end(ops) && "the loader refuses others");
  return *op;
}
