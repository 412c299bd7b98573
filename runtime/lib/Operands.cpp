//===- Operands.cpp - The tensors that an attention may have --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Operands.h"

#include <algorithm>

using namespace flashcore;

std::vector<OperandInfo::Axis> OperandInfo::getAxes() const {
  constexpr std::string_view separator = ", ", broadcast = "|1";
  std::vector<Axis> result;
  std::string_view rest = axes;
  for (bool isLast = false; !isLast;) {
    size_t end = rest.find(separator);
    isLast = end == std::string_view::npos;
    std::string_view axis = rest.substr(0, end);
    bool mayBroadcast = axis.ends_with(broadcast);
    if (mayBroadcast)
      axis.remove_suffix(broadcast.size());
    result.push_back({axis, mayBroadcast});
    if (!isLast)
      rest.remove_prefix(end + separator.size());
  }
  return result;
}

bool OperandInfo::mayHide() const {
  std::vector<Axis> names = getAxes();
  bool isOfKeys = std::any_of(names.begin(), names.end(), [](const Axis &axis) {
    return axis.name == "seqlen_k";
  });
  return use == Use::Sink || (use == Use::Score && isOfKeys);
}

std::span<const OperandInfo> flashcore::getOperands() {
  static constexpr OperandInfo table[] = {
#define FLASHCORE_OPERAND(NAME, OPERAND, CLAUSE, TENSOR, ELEMENTS, AXES, ROLE, \
                          ACCESS, KEYWORD, USE)                                \
  {TENSOR,                                                                     \
   CLAUSE,                                                                     \
   OperandInfo::Elements::ELEMENTS,                                            \
   AXES,                                                                       \
   OperandInfo::Role::ROLE,                                                    \
   OperandInfo::Access::ACCESS,                                                \
   KEYWORD,                                                                    \
   OperandInfo::Use::USE},
#include "flashcore/Operands.def"
  };
  return table;
}

const OperandInfo *flashcore::findOperand(std::string_view name) {
  std::span<const OperandInfo> table = getOperands();
  auto row =
      std::find_if(table.begin(), table.end(), [&](const OperandInfo &operand) {
        return operand.name == name;
      });
  return row == table.end() ? nullptr : &*row;
}

std::span<const OperandRelation> flashcore::getOperandRelations() {
  using Kind = OperandRelation::Kind;
  static constexpr OperandRelation table[] = {
#define FLASHCORE_OPERANDS_TOGETHER(FIRST, SECOND)                             \
  {Kind::Together, operand::FIRST, operand::SECOND},
#define FLASHCORE_OPERAND_NEEDS(FIRST, SECOND, HINT)                           \
  {Kind::Needs, operand::FIRST, operand::SECOND},
#define FLASHCORE_OPERANDS_APART(FIRST, SECOND, HINT)                          \
  {Kind::Apart, operand::FIRST, operand::SECOND},
#define FLASHCORE_OPERANDS_LATER(FIRST, SECOND)                                \
  {Kind::Apart, operand::FIRST, operand::SECOND},
#include "flashcore/Operands.def"
  };
  return table;
}
