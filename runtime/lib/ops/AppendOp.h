//===- AppendOp.h - Rows behind those of a cache ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An append has the tensors, lengths and pages of an attention that does one,
// and no more. What it is given is what such an attention would be: without
// queries, or with those that it turns.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_APPENDOP_H
#define FLASHCORE_RUNTIME_LIB_OPS_APPENDOP_H

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/JsonReader.h"

namespace flashcore {
struct HostCall;

void readAppend(Bundle &bundle, JsonReader &reader,
                JsonReader::Field attributes, JsonReader::Field root);
void checkAppend(const Bundle &bundle, const JsonReader &reader,
                 JsonReader::Field attributes, JsonReader::Field root);
Status resolveAppendSizes(const Bundle &bundle, Numbers &numbers);
std::string describeAppend(const Problem &problem);
Status verifyAppendStage(const Problem &problem, Stage stage);
Status verifyAppendKind(const Problem &problem, InputKind kind);
void fillAppend(TensorSet &set, uint64_t seed, InputKind kind, Stage stage);
Status computeAppendCall(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkAppendCall(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkAppendOutputs(const TensorSet &set, Stage stage,
                                         unsigned threads);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_APPENDOP_H
