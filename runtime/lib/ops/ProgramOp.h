//===- ProgramOp.h - Several ops, one after another -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_PROGRAMOP_H
#define FLASHCORE_RUNTIME_LIB_OPS_PROGRAMOP_H

#include "flashcore/Runtime/Check.h"

namespace flashcore {
struct HostCall;

std::string describeProgram(const Problem &problem);
double countProgramFlops(const Problem &problem);
double countProgramFlops(const TensorSet &set);
Status verifyProgramStage(const Problem &problem, Stage stage);
Status verifyProgramKind(const Problem &problem, InputKind kind);
void fillProgram(TensorSet &set, uint64_t seed, InputKind kind, Stage stage);
Status verifyProgramData(const TensorSet &set);
Status verifyProgramWritten(const TensorSet &set, const HostTensor &output);
std::function<bool(int64_t)> findProgramRows(const TensorSet &set,
                                             const HostTensor &tensor);
Status computeProgramCall(const HostCall &call, unsigned threads);
Status computeProgramYardstick(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkProgramCall(const HostCall &call, unsigned threads);
StatusOr<CheckReport> checkProgramOutputs(const TensorSet &set, Stage stage,
                                          unsigned threads);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_PROGRAMOP_H
