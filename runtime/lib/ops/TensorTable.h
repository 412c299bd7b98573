//===- TensorTable.h - The tensors of an op in a manifest -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_TENSORTABLE_H
#define FLASHCORE_RUNTIME_LIB_OPS_TENSORTABLE_H

#include "flashcore/Runtime/Bundle.h"
#include "flashcore/Runtime/JsonReader.h"
#include "flashcore/Runtime/Operands.h"

#include <span>
#include <string_view>
#include <vector>

namespace flashcore {

/// A tensor that an op has, or may have.
struct TensorRow {
  /// Half is the same for all.
  using Elements = OperandInfo::Elements;

  std::string_view name;
  TensorSpec::Role role;
  Elements elements;
  bool isOptional;
  std::vector<std::string_view> axes; ///< in this order
};

/// Refuses tensors that are none of the table, or not as it says, and one that
/// is missing. `what` is "a merge".
void checkTensors(std::span<const TensorRow> table, std::string_view what,
                  const Bundle &bundle, const JsonReader &reader,
                  JsonReader::Field root);

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_TENSORTABLE_H
