//===- DeltaOp.h - What gradients of scores subtract ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_DELTAOP_H
#define FLASHCORE_RUNTIME_LIB_OPS_DELTAOP_H

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {
struct HostCall;

void readDelta(Bundle &bundle, JsonReader &reader, JsonReader::Field attributes,
               JsonReader::Field root);
void checkDelta(const Bundle &bundle, const JsonReader &reader,
                JsonReader::Field attributes, JsonReader::Field root);
std::string describeDelta(const Problem &problem);
double countDeltaFlops(const Problem &problem);
double countDeltaFlops(const TensorSet &set);
Status verifyDeltaStage(const Problem &problem, Stage stage);
Status verifyDeltaKind(const Problem &problem, InputKind kind);
void fillDelta(TensorSet &set, uint64_t seed, InputKind kind, Stage stage);
Status computeDeltaCall(const HostCall &call, unsigned threads);
Status computeDeltaYardstick(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkDeltaCall(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkDeltaOutputs(const TensorSet &set, Stage stage,
                                        unsigned threads);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_DELTAOP_H
