//===- AttentionOp.h - flashcore.attention in the runtime -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOP_H
#define FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOP_H

#include "flashcore/Runtime/Check.h"

namespace flashcore {
struct HostCall;

// As Op says of each.
std::string describeAttention(const Problem &problem);
double countAttentionFlops(const TensorSet &set);
Status verifyAttentionStage(const Problem &problem, Stage stage);
Status verifyAttentionKind(const Problem &problem, InputKind kind);
void fillAttention(TensorSet &set, uint64_t seed, InputKind kind, Stage stage);
Status verifyAttentionData(const TensorSet &set);
Status verifyAttentionWritten(const TensorSet &set, const HostTensor &output);
std::function<bool(int64_t)> findAppendedRows(const TensorSet &set,
                                              const HostTensor &cache);
StatusOr<CheckReport> checkAttentionOutputs(const TensorSet &set, Stage stage,
                                            unsigned threads);
Status computeAttentionCall(const HostCall &call, unsigned threads);
Status computeAttentionYardstick(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkAttentionCall(const HostCall &call,
                                         unsigned threads);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOP_H
