//===- ShapeDescription.cpp - What words say, for other languages ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// By the names of flashcore.Problem in Python, with a word for all that has no
// name there, so that nothing is lost on the way.
//
//===----------------------------------------------------------------------===//

#include "ShapeTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::flashcore;
using llvm::StringRef;
namespace json = llvm::json;

template <typename T>
static json::Value orNull(const T &value, bool isThere = true) {
  return isThere ? json::Value(value) : json::Value(nullptr);
}

static json::Value text(StringRef value) {
  return orNull(value.str(), !value.empty());
}

static json::Value number(const std::optional<float> &value) {
  double result = 0;
  if (value)
    (void)StringRef(shortestText(*value)).getAsDouble(result);
  return orNull(result, value.has_value());
}

static json::Value size(int64_t value) {
  return orNull(value, value != Shape::Dynamic);
}

static json::Value orOpen(int64_t value) {
  return value == Shape::Dynamic ? json::Value("?") : json::Value(value);
}

/// The words of operands that no other key, and no attribute, brings along.
static json::Array listWords(const Shape &shape) {
  json::Array words;
  std::string blockAxes = shape.getBlockAxes();
  if (shape.blockQueries && blockAxes.empty())
    words.push_back("block_size=" + std::to_string(shape.blockQueries) + "x" +
                    std::to_string(shape.blockKeys));
  Shape::Operands implied = shape.getImplied();
  static constexpr StringRef ofKeys[] = {"bias", "lse", "scores", "append",
                                         "rotary"};
  for (const OperandInfo *info : getShapeOperands()) {
    const Shape::Operand *operand = shape.find(info->name);
    bool isBlocks = !blockAxes.empty() && info->axes.contains("query_blocks");
    if (!operand || isBlocks || llvm::is_contained(ofKeys, info->clause) ||
        implied.find(info->name.str()) != implied.end())
      continue;
    std::string value = operand->axes;
    if (!operand->type.empty())
      value += (value.empty() ? "" : ":") + operand->type;
    words.push_back(info->clause.str() + (value.empty() ? "" : "=" + value));
  }
  return words;
}

static json::Array listRegions(const Shape &shape) {
  json::Array words;
  // A region may have any bytes, in a comment.
  auto add = [&](const std::string &word) {
    words.push_back(json::fixUTF8(word));
  };
  for (const auto &[name, type] : shape.captures)
    add("%" + name + "=" + type);
  if (!shape.scoreRegion.empty())
    add("score=" + shape.scoreRegion);
  if (!shape.maskRegion.empty())
    add("mask=" + shape.maskRegion);
  return words;
}

static void describeOperands(const Shape &shape, json::Object &result) {
  auto axes = [&](StringRef name) {
    const Shape::Operand *operand = shape.find(name);
    return text(operand ? StringRef(operand->axes) : StringRef());
  };
  auto type = [&](StringRef name) {
    const Shape::Operand *operand = shape.find(name);
    return text(operand ? StringRef(operand->type) : StringRef());
  };
  std::optional<int64_t> rows = shape.findSize("seqlen_new");
  std::string blockAxes = shape.getBlockAxes();
  result["bias"] = axes("bias");
  result["bias_dtype"] = type("bias");
  result["lse"] = shape.has("lse");
  result["scores"] = text(shape.scoresStage);
  result["scores_dtype"] = type("scores");
  result["append"] = rows ? orOpen(*rows) : json::Value(nullptr);
  result["rotary"] =
      orNull(std::to_string(shape.getRotaryDim()) + ":" + shape.rotaryStyle,
             !shape.rotaryStyle.empty());
  result["blocks"] =
      orNull(std::to_string(shape.blockQueries) + "x" +
                 std::to_string(shape.blockKeys) + ":" + blockAxes,
             !blockAxes.empty());
  result["operands"] = listWords(shape);
  json::Object sizes;
  for (const auto &[axis, each] : shape.sizes)
    if (axis != "seqlen_new" && axis != "rotary_pairs")
      sizes[axis] = orOpen(each);
  result["sizes"] = std::move(sizes);
  result["regions"] = listRegions(shape);
}

json::Object mlir::flashcore::describeShape(const Shape &shape) {
  auto bound = [](const std::optional<int64_t> &keys) {
    return orNull(keys.value_or(0), keys.has_value());
  };
  json::Object result{{"batch", size(shape.batch)},
                      {"heads_q", size(shape.headsQ)},
                      {"heads_kv", size(shape.headsKV)},
                      {"seqlen_q", size(shape.seqlenQ)},
                      {"seqlen_k", size(shape.seqlenK)},
                      {"head_dim", shape.headDim},
                      {"head_dim_v", shape.headDimV},
                      {"dtype", shape.type},
                      {"causal", text(shape.causal.value_or(""))},
                      {"window_left", bound(shape.windowLeft)},
                      {"window_right", bound(shape.windowRight)},
                      {"softcap", number(shape.softcap)},
                      {"scale", number(shape.scale)},
                      {"dropout", number(shape.dropout)},
                      {"layout", stringifyLayout(shape.layout)}};
  describeOperands(shape, result);
  return result;
}
