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
Status resolveAttentionSizes(const Bundle &bundle, Numbers &numbers);
/// Whether a size follows from others where its caller gives none.
bool isDerivedInAttention(const Bundle &bundle, std::string_view size);
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

// What an append has in common with one in front of an attention:
/// Writes the rows of k_new and v_new to k and v, as a kernel does.
void storeAppended(const AttentionInputs &inputs);
/// The rows of an append as k or v have them now, with where they came from:
/// `at` has the row of k_new or v_new.
ErrorReport compareAppended(const AttentionInputs &inputs, bool isKey);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_ATTENTIONOP_H
