//===- Operands.cpp - The table of an attention's operands ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Dialect/FlashCore/IR/Operands.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::flashcore;

static constexpr OperandInfo kTable[] = {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ELEMENTS, AXES, ROLE, \
                          ACCESS, KEYWORD, USE)                                \
  {#OPERAND,                                                                   \
   CLAUSE,                                                                     \
   TENSOR,                                                                     \
   OperandInfo::Elements::ELEMENTS,                                            \
   AXES,                                                                       \
   OperandInfo::Role::ROLE,                                                    \
   OperandInfo::Access::ACCESS,                                                \
   OperandInfo::Use::USE},
#include "flashcore/Operands.def"
};

namespace {
/// Positions in the table.
enum class Row : unsigned {
#define FLASHCORE_OPERAND(NAME, ...) NAME,
#include "flashcore/Operands.def"
};

struct Relation {
  enum Kind { Together, Needs, Apart, Later };
  Kind kind;
  Row first, second;
  StringRef hint;

  static const OperandInfo &getInfo(Row row) {
    return getOperandTable()[static_cast<unsigned>(row)];
  }
  StringRef getFirst() const { return getInfo(first).name; }
  StringRef getSecond() const { return getInfo(second).name; }
  static bool has(AttentionOp op, Row row) {
    return static_cast<bool>(findOperand(op, static_cast<unsigned>(row)));
  }
};
} // namespace

static constexpr Relation kRelations[] = {
#define FLASHCORE_OPERANDS_TOGETHER(FIRST, SECOND)                             \
  {Relation::Together, Row::FIRST, Row::SECOND, ""},
#define FLASHCORE_OPERAND_NEEDS(FIRST, SECOND, HINT)                           \
  {Relation::Needs, Row::FIRST, Row::SECOND, HINT},
#define FLASHCORE_OPERANDS_APART(FIRST, SECOND, HINT)                          \
  {Relation::Apart, Row::FIRST, Row::SECOND, HINT},
#define FLASHCORE_OPERANDS_LATER(FIRST, SECOND)                                \
  {Relation::Later, Row::FIRST, Row::SECOND, ""},
#include "flashcore/Operands.def"
};

static constexpr StringLiteral kBroadcast = "|1";

ArrayRef<OperandInfo> mlir::flashcore::getOperandTable() { return kTable; }

Value mlir::flashcore::findOperand(AttentionOp op, unsigned row) {
  unsigned number = 0;
#define FLASHCORE_OPERAND(NAME, ...)                                           \
  if (number++ == row)                                                         \
    return op.get##NAME();
#include "flashcore/Operands.def"
  llvm_unreachable("expects a row of the table");
}

SmallVector<std::pair<OperandInfo, Value>>
mlir::flashcore::listOperands(AttentionOp op) {
  SmallVector<std::pair<OperandInfo, Value>> operands;
  for (auto [row, info] : llvm::enumerate(kTable))
    if (Value value = findOperand(op, row))
      operands.emplace_back(info, value);
  return operands;
}

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

bool OperandInfo::isElement(Elements elements, Type type) {
  switch (elements) {
  case Elements::Half:
    return isHalf(type);
  case Elements::Float:
    return isHalf(type) || type.isF32();
  case Elements::F32:
    return type.isF32();
  case Elements::I32:
    return type.isSignlessInteger(32);
  }
  llvm_unreachable("every kind of elements has a case");
}

StringRef OperandInfo::describe(Elements elements) {
  switch (elements) {
  case Elements::Half:
    return "f16 or bf16";
  case Elements::Float:
    return "f16, bf16 or f32";
  case Elements::F32:
    return "f32";
  case Elements::I32:
    return "i32";
  }
  llvm_unreachable("every kind of elements has a case");
}

SmallVector<StringRef> OperandInfo::getAxes() const {
  SmallVector<StringRef> names;
  axes.split(names, ", ");
  for (StringRef &name : names)
    name.consume_back(kBroadcast);
  return names;
}

bool OperandInfo::isBroadcast(unsigned axis) const {
  SmallVector<StringRef> names;
  axes.split(names, ", ");
  return names[axis].ends_with(kBroadcast);
}

StringRef OperandInfo::describeAxis(StringRef axis) {
  return llvm::StringSwitch<StringRef>(axis)
      .Cases({"entries", "key_entries"}, "batch")
      .Case("keys", "seqlen_k")
      .Case("cu_seqlens", "sequences + 1")
      .Case("pages_per_sequence", "pages")
      .Case("rotary_pairs", "rotary_dim / 2")
      .Case("rng_0", "4")
      .Default(axis);
}

std::string OperandInfo::describeAxes() const {
  return "(" + llvm::join(llvm::map_range(getAxes(), describeAxis), ", ") + ")";
}

LogicalResult mlir::flashcore::verifyRelations(AttentionOp op) {
  for (const Relation &relation : kRelations) {
    bool hasFirst = Relation::has(op, relation.first);
    bool hasSecond = Relation::has(op, relation.second);
    StringRef first = relation.getFirst(), second = relation.getSecond();
    if (relation.kind == Relation::Together && hasFirst != hasSecond)
      return op.emitOpError("expects ")
             << first << " and " << second << " together, but got only "
             << (hasFirst ? first : second);
    if (relation.kind == Relation::Needs && hasFirst && !hasSecond)
      return op.emitOpError("expects ") << second << " with " << first
                                        << ", but got none; " << relation.hint;
    if (relation.kind == Relation::Apart && hasFirst && hasSecond)
      return op.emitOpError("expects no ")
             << first << " with " << second << ", but got both; "
             << relation.hint;
  }
  return success();
}

std::optional<std::pair<StringRef, StringRef>>
mlir::flashcore::findUnloweredPair(AttentionOp op) {
  for (const Relation &relation : kRelations)
    if (relation.kind == Relation::Later && Relation::has(op, relation.first) &&
        Relation::has(op, relation.second))
      return std::pair(relation.getFirst(), relation.getSecond());
  return std::nullopt;
}
