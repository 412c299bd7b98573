//===- Operands.h - The tensors that an attention may have ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of flashcore/Operands.def by their names in a manifest: what a
// bundle may have, and what of it goes together. A tile's own operands are none
// of them.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_OPERANDS_H
#define FLASHCORE_RUNTIME_OPERANDS_H

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace flashcore {

/// Names of tensors: operand::AlibiSlopes is "alibi_slopes".
namespace operand {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ...)                  \
  inline constexpr std::string_view NAME = TENSOR;
#include "flashcore/Operands.def"
} // namespace operand

/// A row; the columns are described in Operands.def.
struct OperandInfo {
  enum class Elements {
#define FLASHCORE_OPERAND_ELEMENTS(WORD) WORD,
#include "flashcore/Operands.def"
  };
  enum class Role {
#define FLASHCORE_OPERAND_ROLE(WORD) WORD,
#include "flashcore/Operands.def"
  };
  enum class Access {
#define FLASHCORE_OPERAND_ACCESS(WORD) WORD,
#include "flashcore/Operands.def"
  };
  enum class Use {
#define FLASHCORE_OPERAND_USE(WORD) WORD,
#include "flashcore/Operands.def"
  };

  std::string_view name, clause;
  Elements elements;
  std::string_view axes;
  Role role;
  Access access;
  std::string_view keyword;
  Use use;

  struct Axis {
    std::string_view name;
    bool mayBroadcast = false;
  };
  std::vector<Axis> getAxes() const;
  /// Whether an element of -infinity hides a key, or is no sink.
  bool mayHide() const;
};

/// In the order of the op's operands.
std::span<const OperandInfo> getOperands();

/// The row of a tensor; null for one that only a region reads.
const OperandInfo *findOperand(std::string_view name);

/// Which operands go together, by their names.
struct OperandRelation {
  /// Both or neither; not the first without the second; not both.
  enum class Kind { Together, Needs, Apart };
  Kind kind;
  std::string_view first, second;
};
std::span<const OperandRelation> getOperandRelations();

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_OPERANDS_H
