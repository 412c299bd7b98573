//===- AttentionCall.cpp - An attention where its caller has it -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionOp.h"
#include "HostCall.h"

using namespace flashcore;

void flashcore::storeAppended(const AttentionInputs &inputs) {
  if (!inputs.kNew)
    return;
  for (bool isKey : {true, false}) {
    const TensorView &cache = isKey ? inputs.k : inputs.v;
    const auto &sizes = (isKey ? inputs.kNew : inputs.vNew)->sizes;
    auto load = isKey ? loadKey : loadValue;
    for (int64_t b = 0; b < sizes[0]; ++b) {
      Sequence sequence = getSequence(inputs, b);
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t key = countOldKeys(inputs, sequence);
             key < sequence.seqlenK; ++key) {
          auto [batch, row] = findKey(inputs, sequence, key);
          for (int64_t d = 0; d < sizes[3]; ++d)
            storeRounded(cache,
                         batch * cache.strides[0] + h * cache.strides[1] +
                             row * cache.strides[2] + d * cache.strides[3],
                         load(inputs, sequence, h, key, d));
        }
    }
  }
}

static AttentionInputs getInputs(const HostCall &call) {
  return gatherInputs(call.bundle(),
                      [&](std::string_view name) { return call.view(name); });
}

static Status store(const HostCall &call, const AttentionInputs &inputs,
                    const StatusOr<AttentionResult> &result) {
  if (!result.ok())
    return result.status();
  KeyRange rows = queryRows(inputs);
  storeAll(*call.view("o"), result->o, rows);
  if (auto lse = call.view("lse"))
    storeAll(*lse, result->lse, rows);
  if (auto scores = call.view(operand::Scores))
    storeAll(*scores, result->scores, rows);
  storeAppended(inputs);
  return Status::success();
}

Status flashcore::computeAttentionCall(const HostCall &call, unsigned threads) {
  AttentionInputs inputs = getInputs(call);
  return store(call, inputs, computeReference(inputs, threads));
}

Status flashcore::computeAttentionYardstick(const HostCall &call,
                                            unsigned threads) {
  AttentionInputs inputs = getInputs(call);
  return store(call, inputs, computeYardstick(inputs, threads));
}
StatusOr<CheckReport> flashcore::checkAttentionCall(const HostCall &call,
                                                    unsigned threads) {
  return checkOutputs(
      getInputs(call),
      {*call.view("o"), call.view("lse"), call.view(operand::Scores)}, threads);
}
