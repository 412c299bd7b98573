//===- AttentionReader.cpp - What a manifest says of an attention ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionReader.h"
#include "AttentionOperands.h"

#include "../manifest/ProgramReader.h"

#include "flashcore/Runtime/Dropout.h"
#include "flashcore/Runtime/Operands.h"

#include <algorithm>
#include <cmath>

using namespace flashcore;
using Field = JsonReader::Field;

/// The sizes that every attention has; a manifest lists them all.
static constexpr std::string_view dimNames[] = {
    "batch", "heads_q", "heads_kv", "seqlen_q", "head_dim", "head_dim_v"};

/// That of keys which are rows, and those of keys in pages.
static constexpr std::string_view seqlenKName = "seqlen_k";
static constexpr std::string_view pageDimNames[] = {PagesDim, PageSizeDim,
                                                    PagesPerSequenceDim};

/// Far more than any list has.
static constexpr int64_t maxBlockSize = 1 << 16;

RotaryStyle flashcore::readRotaryStyle(Field field) {
  return readChoice<RotaryStyle>(
      field,
      {{"interleaved", RotaryStyle::Interleaved}, {"half", RotaryStyle::Half}});
}

/// The attributes of the op.
static void readAttributes(AttentionSpec &attention, JsonReader &reader,
                           Field field) {
  expectOnly(field, {"softmax_scale", "causal", "window_left", "window_right",
                     "softcap", "dropout", "block_size", "score", "mask",
                     "scores_stage", "rotary"});
  auto isPositive = [](double number) {
    return std::isfinite(number) && number > 0;
  };
  attention.softmaxScale = field["softmax_scale"].number();
  if (!isPositive(attention.softmaxScale))
    field["softmax_scale"].refuse("a positive number");
  attention.mask.causal = readChoice<Causal>(
      field["causal"], {{"none", Causal::None},
                        {"bottom_right", Causal::BottomRight},
                        {"top_left", Causal::TopLeft}});
  attention.mask.windowLeft = field["window_left"].integerOrNull();
  attention.mask.windowRight = field["window_right"].integerOrNull();
  attention.softcap = field["softcap"].numberOrNull();
  if (attention.softcap && !isPositive(*attention.softcap))
    field["softcap"].refuse("a positive number or null");
  if (field.has("dropout")) {
    attention.dropout = field["dropout"].number();
    if (!isDropoutShare(*attention.dropout))
      field["dropout"].refuse("a number from 2^-17 to below 1 - 2^-17");
  }
  if (field.has("block_size")) {
    std::vector<Field> size = field["block_size"].elements();
    if (reader.ok() && size.size() != 2)
      field["block_size"].refuse("an array of 2 elements, queries and keys");
    if (reader.ok())
      attention.blockSize = {size[0].integer(1, maxBlockSize),
                             size[1].integer(1, maxBlockSize)};
  }
  using Type = ScoreProgram::Type;
  for (auto [key, type, program] :
       {std::tuple("score", Type::F32, &attention.score),
        {"mask", Type::I1, &attention.maskRegion}})
    if (field.has(key))
      *program =
          ScoreProgram::read(reader, field[key], type, attention.captured);
  if (field.has("scores_stage"))
    attention.scoresStage = readChoice<ScoresStage>(
        field["scores_stage"], {{"scaled", ScoresStage::Scaled},
                                {"capped", ScoresStage::Capped},
                                {"changed", ScoresStage::Changed},
                                {"masked", ScoresStage::Masked},
                                {"probabilities", ScoresStage::Probabilities}});
  if (field.has("rotary"))
    attention.rotary = readRotaryStyle(field["rotary"]);
}

/// The sizes of its tensors.
static void checkSizes(Field dims) {
  for (std::string_view name : dimNames)
    dims[name];
  bool isPaged =
      std::any_of(std::begin(pageDimNames), std::end(pageDimNames),
                  [&](std::string_view name) { return dims.has(name); });
  if (!isPaged) {
    dims[seqlenKName];
    return;
  }
  for (std::string_view name : pageDimNames)
    dims[name];
  if (dims.has(seqlenKName))
    dims.refuse("an object without the key '" + std::string(seqlenKName) +
                "' where there is '" + std::string(PageSizeDim) + "'");
  // Kernels are made for one.
  dims[PageSizeDim].integer(1);
  if (!dims[PagesPerSequenceDim].isNull())
    dims[PagesPerSequenceDim].integer(1);
}

/// What regions read is there, with an axis for each coordinate; and only they,
/// lengths, tables and the words of a dropout are integers.
static void checkCaptured(const Bundle &bundle, Field attributes,
                          Field tensors) {
  const std::vector<std::string> &captured = bundle.attention.captured;
  for (const auto &[key, program] :
       {std::pair("score", &bundle.attention.score),
        {"mask", &bundle.attention.maskRegion}}) {
    if (!*program)
      continue;
    std::vector<Field> values = attributes[key]["values"].elements();
    for (size_t i = 0; i < values.size(); ++i)
      if (std::optional<ScoreProgram::Load> load = (*program)->findLoad(i)) {
        const TensorSpec *tensor = bundle.findTensor(captured[load->tensor]);
        if (!tensor)
          return values[i]["tensor"].refuse("the name of a tensor in "
                                            "'tensors'");
        if (load->rank != tensor->axes.size())
          return values[i]["operands"].refuse(
              "an array of " + std::to_string(tensor->axes.size()) +
              " elements, the axes of '" + tensor->name + "'");
        std::string type(stringify(tensor->dtype));
        if (values[i]["type"].string() != type)
          return values[i]["type"].refuse("'" + type + "', that of '" +
                                          tensor->name + "'");
      }
  }
  std::vector<Field> fields = tensors.elements();
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    const TensorSpec &tensor = bundle.tensors[i];
    bool isCaptured = std::count(captured.begin(), captured.end(), tensor.name);
    if (isCaptured && tensor.role != TensorSpec::Role::Input)
      fields[i]["role"].refuse("'input'");
    if (!isCaptured && !isReal(tensor.dtype) && !findOperand(tensor.name))
      fields[i]["dtype"].refuse("'f16', 'bf16' or 'f32'");
  }
}

void flashcore::readAttention(Bundle &bundle, JsonReader &reader,
                              Field attributes, Field root) {
  readAttributes(bundle.attention, reader, attributes);
  checkSizes(root["sizes"]);
}

void flashcore::checkAttention(const Bundle &bundle, const JsonReader &reader,
                               Field attributes, Field root) {
  checkOperands(bundle, reader, root);
  if (reader.ok())
    checkCaptured(bundle, attributes, root["tensors"]);
}
