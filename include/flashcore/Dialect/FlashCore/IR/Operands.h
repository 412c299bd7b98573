//===- Operands.h - The table of an attention's operands --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of flashcore/Operands.def, for what is alike for all operands:
// types, syntax, layouts, kernel tensors. What one operand alone means asks the
// op.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_DIALECT_FLASHCORE_IR_OPERANDS_H
#define FLASHCORE_DIALECT_FLASHCORE_IR_OPERANDS_H

#include "flashcore/Dialect/FlashCore/IR/FlashCore.h"

#include <string>

namespace mlir::flashcore {

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

  StringRef name, clause, tensor;
  Elements elements;
  StringRef axes;
  Role role;
  Access access;
  Use use;

  static bool isElement(Elements elements, Type type);
  bool isElement(Type type) const { return isElement(elements, type); }
  /// "f16 or bf16", of messages.
  static StringRef describe(Elements elements);
  StringRef describeElements() const { return describe(elements); }
  /// The names of the axes, without what says that one may be broadcast.
  SmallVector<StringRef> getAxes() const;
  /// Whether an axis of size 1 is broadcast.
  bool isBroadcast(unsigned axis) const;
  int64_t getRank() const { return axes.count(',') + 1; }
  /// What messages call an axis.
  static StringRef describeAxis(StringRef axis);
  /// "(batch, heads_q, seqlen_q)", of messages.
  std::string describeAxes() const;
};

/// What kernels call the tensors of rows: operand::kAlibiSlopes is
/// "alibi_slopes".
namespace operand {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ...)                  \
  inline constexpr StringLiteral k##NAME = TENSOR;
#include "flashcore/Operands.def"
} // namespace operand

/// Rows of the table.
inline constexpr unsigned kNumOperandRows =
#define FLASHCORE_OPERAND(...) 1 +
#include "flashcore/Operands.def"
    0;
/// query, key and value, the first rows, which have one clause.
inline constexpr unsigned kNumInputs = 3;

/// In the order of the op's operands.
ArrayRef<OperandInfo> getOperandTable();

/// The value of a row, by its position; null where the op has none.
Value findOperand(AttentionOp op, unsigned row);

/// The operands that the op has, with their rows.
SmallVector<std::pair<OperandInfo, Value>> listOperands(AttentionOp op);

/// Checks which operands come with each other, by the table, but for what no
/// kernel is made for yet.
LogicalResult verifyRelations(AttentionOp op);

/// The names of two operands of the op that no kernel takes together yet.
std::optional<std::pair<StringRef, StringRef>>
findUnloweredPair(AttentionOp op);

} // namespace mlir::flashcore

#endif // FLASHCORE_DIALECT_FLASHCORE_IR_OPERANDS_H
