//===- Op.h - What the runtime knows of an op -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All else knows tensors, sizes and kernels. An op is a row of the table in
// Op.cpp, and a file or a few in this folder.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_OP_H
#define FLASHCORE_RUNTIME_LIB_OPS_OP_H

#include "flashcore/Runtime/Check.h"
#include "flashcore/Runtime/JsonReader.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace flashcore {
struct HostCall;

struct Op {
  /// In a manifest.
  std::string_view name;

  /// Reads the attributes of a manifest and checks its sizes, before tensors
  /// are read. Null of a program, which other ops are read of.
  void (*read)(Bundle &, JsonReader &, JsonReader::Field attributes,
               JsonReader::Field root);
  /// Checks the tensors.
  void (*check)(const Bundle &, const JsonReader &,
                JsonReader::Field attributes, JsonReader::Field root);

  /// Checks the sizes of a call and adds those that follow from others, and
  /// says which of them need not be given.
  Status (*resolveSizes)(const Bundle &, Numbers &);
  bool (*isDerived)(const Bundle &, std::string_view size);

  /// One line: sizes and types, and what else makes a problem another.
  std::string (*describe)(const Problem &);
  /// Operations of the products of one call, by the convention of the field.
  double (*countFlops)(const Problem &);
  /// Of one with the lengths and lists of a set; 0 where these are wrong.
  double (*countFlopsOf)(const TensorSet &);

  /// Refuses a stage, and a kind of inputs, that the problem cannot have.
  Status (*verifyStage)(const Problem &, Stage);
  Status (*verifyKind)(const Problem &, InputKind);
  /// Fills the inputs of a set that both allow.
  void (*fillInputs)(TensorSet &, uint64_t seed, InputKind, Stage);

  /// Refuses data with which kernels would leave the tensors.
  Status (*verifyData)(const TensorSet &);
  /// That a call has written what it should of an output, and only that.
  Status (*verifyWritten)(const TensorSet &, const HostTensor &output);
  /// Which packed elements of an updated input a call writes.
  std::function<bool(int64_t)> (*findNewRows)(const TensorSet &,
                                              const HostTensor &);
  /// Stores the outputs of the reference, and what else a call writes.
  Status (*computeReference)(const HostCall &, unsigned threads);
  /// The same in the precision of the inputs, by which errors are judged.
  Status (*computeYardstick)(const HostCall &, unsigned threads);
  /// The outputs of a call beside those of the reference.
  StatusOr<CheckReport> (*checkCall)(const HostCall &, unsigned threads);
  /// The same of a set, and what a stage isolates.
  StatusOr<CheckReport> (*checkOutputs)(const TensorSet &, Stage,
                                        unsigned threads);
};

/// All of them.
std::span<const Op> getOps();
/// That of a bundle, which the loader has checked: of several ops the row of
/// programs.
const Op &findOp(const Bundle &bundle);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_OP_H
