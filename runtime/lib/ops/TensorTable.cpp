//===- TensorTable.cpp - The tensors of an op in a manifest ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TensorTable.h"

#include <algorithm>

using namespace flashcore;
using Field = JsonReader::Field;
using Elements = TensorRow::Elements;

static std::string quote(std::string_view name) {
  return "'" + std::string(name) + "'";
}

static std::string_view stringify(TensorSpec::Role role) {
  switch (role) {
  case TensorSpec::Role::Input:
    return "input";
  case TensorSpec::Role::Output:
    return "output";
  case TensorSpec::Role::Updated:
    return "updated";
  }
  return "?";
}

static void checkElements(Elements elements, DType dtype, Field field) {
  bool isHalf = dtype == DType::F16 || dtype == DType::BF16;
  if (elements == Elements::Half && !isHalf)
    field.refuse("'f16' or 'bf16'");
  if (elements == Elements::Float && !isHalf && dtype != DType::F32)
    field.refuse("'f16', 'bf16' or 'f32'");
  if (elements == Elements::F32 && dtype != DType::F32)
    field.refuse("'f32'");
  if (elements == Elements::I32 && dtype != DType::I32)
    field.refuse("'i32'");
}

static void checkTensor(const TensorRow &row, const TensorSpec &tensor,
                        Field field) {
  if (tensor.role != row.role)
    field["role"].refuse(quote(stringify(row.role)));
  checkElements(row.elements, tensor.dtype, field["dtype"]);
  if (std::equal(tensor.axes.begin(), tensor.axes.end(), row.axes.begin(),
                 row.axes.end()))
    return;
  std::string list;
  for (std::string_view axis : row.axes)
    list += (list.empty() ? "" : ", ") + std::string(axis);
  field["axes"].refuse("the axes " + list);
}

void flashcore::checkTensors(std::span<const TensorRow> table,
                             std::string_view what, const Bundle &bundle,
                             const JsonReader &reader, Field root) {
  std::vector<Field> fields = root["tensors"].elements();
  for (const TensorRow &row : table)
    if (!row.isOptional && !bundle.findTensor(row.name))
      root["tensors"].refuse("an array with a tensor named " + quote(row.name));
  const TensorSpec *firstHalf = nullptr;
  for (size_t i = 0; reader.ok() && i < fields.size(); ++i) {
    const TensorSpec &tensor = bundle.tensors[i];
    auto row = std::ranges::find(table, tensor.name, &TensorRow::name);
    if (row == table.end())
      return fields[i]["name"].refuse("the name of a tensor of " +
                                      std::string(what));
    checkTensor(*row, tensor, fields[i]);
    if (row->elements != Elements::Half)
      continue;
    firstHalf = firstHalf ? firstHalf : &tensor;
    if (tensor.dtype != firstHalf->dtype)
      fields[i]["dtype"].refuse(quote(flashcore::stringify(firstHalf->dtype)) +
                                ", that of " + quote(firstHalf->name));
  }
}
