//===- MergeOp.h - flashcore.merge in the runtime ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_MERGEOP_H
#define FLASHCORE_RUNTIME_LIB_OPS_MERGEOP_H

#include "flashcore/Runtime/Check.h"

namespace flashcore {
struct HostCall;

// As Op says of each.
std::string describeMerge(const Problem &problem);
double countMergeFlops(const Problem &problem);
Status verifyMergeStage(const Problem &problem, Stage stage);
Status verifyMergeKind(const Problem &problem, InputKind kind);
void fillMerge(TensorSet &set, uint64_t seed, InputKind kind, Stage stage);
StatusOr<CheckReport> checkMergeOutputs(const TensorSet &set, Stage stage,
                                        unsigned threads);
Status computeMergeCall(const HostCall &call, unsigned threads);
Status computeMergeYardstick(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkMergeCall(const HostCall &call, unsigned threads);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_MERGEOP_H
