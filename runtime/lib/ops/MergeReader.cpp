//===- MergeReader.cpp - What a manifest says of a merge ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeReader.h"

#include "../manifest/ProgramReader.h"

#include <algorithm>

using namespace flashcore;
using Field = JsonReader::Field;

namespace {
/// A tensor of a merge.
struct MergeTensor {
  std::string_view name;
  TensorSpec::Role role;
  bool isF32, isOptional;
  std::vector<std::string_view> axes;
};
} // namespace

static const std::vector<MergeTensor> &mergeTensors() {
  using Role = TensorSpec::Role;
  static const std::vector<MergeTensor> tensors = {
      {"outputs",
       Role::Input,
       false,
       false,
       {"parts", "batch", "heads_q", "seqlen_q", "head_dim_v"}},
      {"lses",
       Role::Input,
       true,
       false,
       {"parts", "batch", "heads_q", "seqlen_q"}},
      {"o",
       Role::Output,
       false,
       false,
       {"batch", "heads_q", "seqlen_q", "head_dim_v"}},
      {"lse", Role::Output, true, true, {"batch", "heads_q", "seqlen_q"}},
      {"sink_logits", Role::Input, true, true, {"heads_q"}}};
  return tensors;
}

void flashcore::readMerge(Bundle &, JsonReader &, Field attributes,
                          Field root) {
  expectOnly(attributes, {});
  for (std::string_view axis : mergeTensors().front().axes)
    root["sizes"][axis];
}

static void checkTensor(const MergeTensor &expected, const TensorSpec &tensor,
                        Field field) {
  if (tensor.role != expected.role)
    field["role"].refuse(expected.role == TensorSpec::Role::Output ? "'output'"
                                                                   : "'input'");
  if (expected.isF32 && tensor.dtype != DType::F32)
    field["dtype"].refuse("'f32'");
  if (!expected.isF32 && !isReal(tensor.dtype))
    field["dtype"].refuse("'f16', 'bf16' or 'f32'");
  if (!std::equal(tensor.axes.begin(), tensor.axes.end(), expected.axes.begin(),
                  expected.axes.end())) {
    std::string list;
    for (std::string_view axis : expected.axes)
      list += (list.empty() ? "" : ", ") + std::string(axis);
    field["axes"].refuse("the axes " + list);
  }
}

void flashcore::checkMerge(const Bundle &bundle, const JsonReader &reader,
                           Field, Field root) {
  std::vector<Field> fields = root["tensors"].elements();
  for (const MergeTensor &expected : mergeTensors())
    if (!expected.isOptional && !bundle.findTensor(expected.name))
      root["tensors"].refuse("an array with a tensor named '" +
                             std::string(expected.name) + "'");
  for (size_t i = 0; reader.ok() && i < fields.size(); ++i) {
    const TensorSpec &tensor = bundle.tensors[i];
    auto it = std::find_if(
        mergeTensors().begin(), mergeTensors().end(),
        [&](const MergeTensor &each) { return each.name == tensor.name; });
    if (it == mergeTensors().end())
      return fields[i]["name"].refuse("the name of a tensor of a merge");
    checkTensor(*it, tensor, fields[i]);
  }
}
