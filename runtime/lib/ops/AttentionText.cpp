//===- AttentionText.cpp - An attention in one line -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AttentionOp.h"

#include <charconv>
#include <cmath>

using namespace flashcore;

static std::string numberText(double value) {
  char text[32];
  auto end =
      std::to_chars(text, text + sizeof(text), static_cast<float>(value));
  return std::string(text, end.ptr);
}

/// "1h1k:f32": the axes that are not broadcast, and the type.
static std::string biasText(const TensorGeometry &bias) {
  std::string text;
  for (const std::string &axis : bias.axes)
    text += axis == BroadcastAxis ? '1'
            : axis == "seqlen_q"  ? 'q'
            : axis == "seqlen_k"  ? 'k'
                                  : axis[0];
  return text + ":" + std::string(stringify(bias.dtype));
}

static std::string maskText(const Mask &mask) {
  std::string text;
  if (mask.causal != Causal::None)
    text += " causal=" + std::string(stringify(mask.causal));
  auto bound = [](std::optional<int64_t> window) {
    return window ? std::to_string(*window) : "inf";
  };
  if (mask.windowLeft || mask.windowRight)
    text += " window=" + bound(mask.windowLeft) + "," + bound(mask.windowRight);
  return text;
}

std::string flashcore::describeAttention(const Problem &problem) {
  auto text = [&](std::string_view name) {
    return std::to_string(problem.dim(name));
  };
  std::string result = "B" + text("batch") + " H" + text("heads_q") + "/" +
                       text("heads_kv") + " S" + text("seqlen_q") + "x" +
                       std::to_string(problem.seqlenK()) + " D" +
                       text("head_dim");
  if (problem.dim("head_dim") != problem.dim("head_dim_v"))
    result += "/" + text("head_dim_v");
  if (const TensorGeometry *q = problem.findTensor("q"))
    result += " " + std::string(stringify(q->dtype));
  const AttentionSpec &attention = problem.bundle().attention;
  result += maskText(attention.mask);
  double usualScale =
      1 / std::sqrt(static_cast<double>(problem.dim("head_dim")));
  if (std::abs(attention.softmaxScale - usualScale) > 1e-6 * usualScale)
    result += " scale=" + numberText(attention.softmaxScale);
  if (attention.softcap)
    result += " softcap=" + numberText(*attention.softcap);
  if (attention.dropout)
    result += " dropout=" + numberText(*attention.dropout);
  if (const TensorGeometry *bias = problem.findTensor(operand::Bias))
    result += " bias=" + biasText(*bias);
  for (const OperandInfo &operand : getOperands())
    if (operand.axes == "heads_q" && problem.findTensor(operand.name))
      result += " " + std::string(operand.clause);
  if (const TensorGeometry *lists = problem.findTensor(operand::BlockIndices)) {
    auto axis = [&](size_t i) {
      return lists->axes[i] == BroadcastAxis ? '1' : lists->axes[i][0];
    };
    const auto &size = *attention.blockSize;
    result += " blocks=" + std::to_string(size[0]) + "x" +
              std::to_string(size[1]) + ":" + axis(0) + axis(1);
  }
  if (problem.bundle().isPaged())
    result += " page_size=" + text(PageSizeDim);
  if (problem.findTensor(operand::SequsedK))
    result += " seqused_k";
  if (problem.bundle().appends())
    result += " append=" + text(SeqlenNewDim);
  if (attention.rotary)
    result += " rotary=" + std::to_string(2 * problem.dim(RotaryPairsDim)) +
              ":" + std::string(stringify(*attention.rotary));
  if (problem.findTensor(operand::CuSeqlensQ))
    result += " sequences=" + std::to_string(problem.dim(CuSeqlensDim) - 1);
  if (problem.findTensor("lse"))
    result += " lse";
  if (const TensorGeometry *scores = problem.findTensor(operand::Scores))
    result += " scores=" + std::string(stringify(*attention.scoresStage)) +
              ":" + std::string(stringify(scores->dtype));
  return result;
}
