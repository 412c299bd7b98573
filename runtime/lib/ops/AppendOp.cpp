//===- AppendOp.cpp - Rows behind those of a cache ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AppendOp.h"
#include "../Comparison.h"
#include "../manifest/ProgramReader.h"
#include "AttentionOp.h"
#include "AttentionReader.h"
#include "HostCall.h"
#include "TensorTable.h"

#include <cmath>

using namespace flashcore;
using Field = JsonReader::Field;

/// What the turned rows of query are called.
static constexpr std::string_view turnedName = "q_turned";

static std::vector<TensorRow> listTensors(const Bundle &bundle) {
  using Role = TensorSpec::Role;
  using Elements = TensorRow::Elements;
  bool isPaged = bundle.isPaged();
  std::string_view entries = isPaged ? PagesDim : "batch",
                   keys = isPaged ? PageSizeDim : "seqlen_k";
  bool isTurned = bundle.attention.rotary.has_value();
  std::vector<std::string_view> angles = {PositionsDim, RotaryPairsDim},
                                queries = {"batch", "heads_q", "seqlen_q",
                                           "head_dim"};
  std::vector<TensorRow> table = {
      {operand::Key,
       Role::Updated,
       Elements::Half,
       false,
       {entries, "heads_kv", keys, "head_dim"}},
      {operand::Value,
       Role::Updated,
       Elements::Half,
       false,
       {entries, "heads_kv", keys, "head_dim_v"}},
      {operand::KNew,
       Role::Input,
       Elements::Half,
       false,
       {"batch", "heads_kv", SeqlenNewDim, "head_dim"}},
      {operand::VNew,
       Role::Input,
       Elements::Half,
       false,
       {"batch", "heads_kv", SeqlenNewDim, "head_dim_v"}},
      {operand::SequsedK, Role::Input, Elements::I32, false, {"batch"}},
      {operand::PageTable,
       Role::Input,
       Elements::I32,
       true,
       {"batch", PagesPerSequenceDim}}};
  if (!isTurned)
    return table;
  bool hasQueries =
      bundle.findTensor(operand::Query) || bundle.findTensor(turnedName);
  table.push_back(
      {operand::RotaryCos, Role::Input, Elements::Half, false, angles});
  table.push_back(
      {operand::RotarySin, Role::Input, Elements::Half, false, angles});
  table.push_back(
      {operand::Query, Role::Input, Elements::Half, !hasQueries, queries});
  table.push_back(
      {turnedName, Role::Output, Elements::Half, !hasQueries, queries});
  return table;
}

/// Queries are turned each at its own position, as under a causal mask.
void flashcore::readAppend(Bundle &bundle, JsonReader &, Field attributes,
                           Field root) {
  expectOnly(attributes, {"rotary"});
  if (attributes.has("rotary"))
    bundle.attention.rotary = readRotaryStyle(attributes["rotary"]);
  bundle.attention.mask.causal = Causal::BottomRight;
  for (std::string_view size : {"batch", "heads_kv", "head_dim", "head_dim_v"})
    root["sizes"][size];
}

void flashcore::checkAppend(const Bundle &bundle, const JsonReader &reader,
                            Field, Field root) {
  checkTensors(listTensors(bundle), "an append", bundle, reader, root);
}

std::string flashcore::describeAppend(const Problem &problem) {
  auto text = [&](std::string_view name) {
    return std::to_string(problem.dim(name));
  };
  const std::optional<RotaryStyle> &rotary = problem.bundle().attention.rotary;
  return "append of " + text(SeqlenNewDim) + " rows, B" + text("batch") + " H" +
         text("heads_kv") + " S" + std::to_string(problem.seqlenK()) + " D" +
         text("head_dim") +
         (problem.dim("head_dim") == problem.dim("head_dim_v")
              ? ""
              : "/" + text("head_dim_v")) +
         " " + std::string(stringify(problem.findTensor("k")->dtype)) +
         (problem.bundle().isPaged() ? " pages of " + text(PageSizeDim) : "") +
         (rotary ? " rotary " + std::string(stringify(*rotary)) : "");
}

Status flashcore::verifyAppendStage(const Problem & /*problem*/, Stage stage) {
  if (stage == Stage::All)
    return Status::success();
  return Status::error("expects stage 'all' of an append, but got '" +
                       std::string(stringify(stage)) + "'");
}

Status flashcore::verifyAppendKind(const Problem & /*problem*/,
                                   InputKind kind) {
  if (kind == InputKind::Normal || kind == InputKind::Large)
    return Status::success();
  return Status::error("expects inputs of kind 'normal' or 'large' for an "
                       "append, which moves both alike, but got '" +
                       std::string(stringify(kind)) + "'");
}

static AttentionInputs getInputs(const HostCall &call) {
  return gatherInputs(call.bundle(),
                      [&](std::string_view name) { return call.view(name); });
}

Status flashcore::computeAppendCall(const HostCall &call,
                                    unsigned /*threads*/) {
  AttentionInputs inputs = getInputs(call);
  if (Status status = verifyLengths(inputs); !status.ok())
    return status;
  // Queries stand where keys were before there are new ones.
  std::vector<double> turned;
  auto to = call.view(turnedName);
  if (to) {
    const auto &sizes = to->sizes;
    for (int64_t b = 0; b < sizes[0]; ++b)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t i = 0; i < sizes[2]; ++i)
          for (int64_t d = 0; d < sizes[3]; ++d)
            turned.push_back(
                loadQuery(inputs, getSequence(inputs, b), h, i, d));
  }
  storeAppended(inputs);
  if (to)
    storeAll(*to, turned, {0, to->sizes[2]});
  return Status::success();
}

/// Turned rows are off by one step of their type at most.
static ErrorReport compareTurned(const AttentionInputs &inputs,
                                 const TensorView &turned) {
  ErrorReport report;
  int64_t index = 0;
  for (int64_t b = 0; b < turned.sizes[0]; ++b)
    for (int64_t h = 0; h < turned.sizes[1]; ++h)
      for (int64_t i = 0; i < turned.sizes[2]; ++i)
        for (int64_t d = 0; d < turned.sizes[3]; ++d, ++index) {
          double expected = loadQuery(inputs, getSequence(inputs, b), h, i, d);
          double actual = turned.load(b, h, i, d);
          double error = difference(actual, expected);
          accumulate(report, {index, expected, actual, error,
                              stepAt(turned.dtype, expected)});
          report.norm += error * error;
        }
  locate(report, turned.sizes);
  report.norm = std::sqrt(report.norm);
  return report;
}

static StatusOr<CheckReport> check(const AttentionInputs &inputs,
                                   const std::optional<TensorView> &turned) {
  if (Status status = verifyLengths(inputs); !status.ok())
    return status;
  CheckReport report;
  report.k = compareAppended(inputs, /*isKey=*/true);
  report.v = compareAppended(inputs, /*isKey=*/false);
  if (turned)
    report.o = compareTurned(inputs, *turned);
  return report;
}

StatusOr<CheckReport> flashcore::checkAppendCall(const HostCall &call,
                                                 unsigned /*threads*/) {
  return check(getInputs(call), call.view(turnedName));
}

StatusOr<CheckReport> flashcore::checkAppendOutputs(const TensorSet &set,
                                                    Stage /*stage*/,
                                                    unsigned /*threads*/) {
  const HostTensor *turned = set.findTensor(turnedName);
  return check(set.inputs(),
               turned ? std::optional(turned->view()) : std::nullopt);
}
