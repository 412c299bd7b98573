//===- MergeReader.cpp - What a manifest says of a merge ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MergeReader.h"

#include "../manifest/ProgramReader.h"
#include "TensorTable.h"

using namespace flashcore;
using Field = JsonReader::Field;

static const std::vector<TensorRow> &mergeTensors() {
  using Role = TensorSpec::Role;
  using Elements = TensorRow::Elements;
  static const std::vector<TensorRow> tensors = {
      {"outputs",
       Role::Input,
       Elements::Float,
       false,
       {"parts", "batch", "heads_q", "seqlen_q", "head_dim_v"}},
      {"lses",
       Role::Input,
       Elements::F32,
       false,
       {"parts", "batch", "heads_q", "seqlen_q"}},
      {"o",
       Role::Output,
       Elements::Float,
       false,
       {"batch", "heads_q", "seqlen_q", "head_dim_v"}},
      {"lse",
       Role::Output,
       Elements::F32,
       true,
       {"batch", "heads_q", "seqlen_q"}},
      {"sink_logits", Role::Input, Elements::F32, true, {"heads_q"}}};
  return tensors;
}

void flashcore::readMerge(Bundle &, JsonReader &, Field attributes,
                          Field root) {
  expectOnly(attributes, {});
  for (std::string_view axis : mergeTensors().front().axes)
    root["sizes"][axis];
}

void flashcore::checkMerge(const Bundle &bundle, const JsonReader &reader,
                           Field, Field root) {
  checkTensors(mergeTensors(), "a merge", bundle, reader, root);
}
