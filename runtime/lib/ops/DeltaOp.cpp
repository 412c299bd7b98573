//===- DeltaOp.cpp - What gradients of scores subtract --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// delta[i] = sum_d dO[i,d] * O[i,d]: in double precision, and as a yardstick in
// f32 from the first column to the last.
//
//===----------------------------------------------------------------------===//

#include "DeltaOp.h"
#include "../Comparison.h"
#include "../manifest/ProgramReader.h"
#include "HostCall.h"
#include "RandomInputs.h"
#include "TensorTable.h"

#include <cmath>

using namespace flashcore;
using Field = JsonReader::Field;

static constexpr std::string_view gradientName = "do", deltaName = "delta";

static const std::vector<TensorRow> &deltaTensors() {
  using Role = TensorSpec::Role;
  using Elements = TensorRow::Elements;
  static const std::vector<std::string_view> axes = {"batch", "heads_q",
                                                     "seqlen_q", "head_dim_v"};
  static const std::vector<TensorRow> tensors = {
      {gradientName, Role::Input, Elements::Float, false, axes},
      {operand::Output, Role::Input, Elements::Float, false, axes},
      {deltaName,
       Role::Output,
       Elements::F32,
       false,
       {"batch", "heads_q", "seqlen_q"}}};
  return tensors;
}

void flashcore::readDelta(Bundle &, JsonReader &, Field attributes,
                          Field root) {
  expectOnly(attributes, {});
  for (std::string_view axis : deltaTensors().front().axes)
    root["sizes"][axis];
}

void flashcore::checkDelta(const Bundle &bundle, const JsonReader &reader,
                           Field, Field root) {
  checkTensors(deltaTensors(), "a delta", bundle, reader, root);
  if (!reader.ok())
    return;
  DType type = bundle.findTensor(operand::Output)->dtype;
  for (size_t i = 0; i < bundle.tensors.size(); ++i)
    if (bundle.tensors[i].name == gradientName &&
        bundle.tensors[i].dtype != type)
      root["tensors"].elements()[i]["dtype"].refuse(
          "'" + std::string(stringify(type)) + "', that of 'o'");
}

std::string flashcore::describeDelta(const Problem &problem) {
  auto text = [&](std::string_view name) {
    return std::to_string(problem.dim(name));
  };
  return "delta of B" + text("batch") + " H" + text("heads_q") + " S" +
         text("seqlen_q") + " D" + text("head_dim_v") + " " +
         std::string(stringify(problem.findTensor(operand::Output)->dtype));
}

double flashcore::countDeltaFlops(const Problem &problem) {
  double count = 2;
  for (int64_t size : problem.findTensor(operand::Output)->sizes)
    count *= static_cast<double>(size);
  return count;
}

double flashcore::countDeltaFlops(const TensorSet &set) {
  return countDeltaFlops(set.problem());
}

Status flashcore::verifyDeltaStage(const Problem & /*problem*/, Stage stage) {
  if (stage == Stage::All)
    return Status::success();
  return Status::error("expects stage 'all' of a delta, but got '" +
                       std::string(stringify(stage)) + "'");
}

Status flashcore::verifyDeltaKind(const Problem & /*problem*/, InputKind kind) {
  if (kind == InputKind::Normal || kind == InputKind::Large)
    return Status::success();
  return Status::error("expects inputs of kind 'normal' or 'large' for a "
                       "delta, but got '" +
                       std::string(stringify(kind)) + "'");
}

void flashcore::fillDelta(TensorSet &set, uint64_t seed, InputKind kind,
                          Stage /*stage*/) {
  float scale = kind == InputKind::Large ? 64.0f : 1.0f;
  fillNormal(set.tensor(gradientName), makeStream(seed, 1),
             [&](int64_t) { return scale; });
  fillNormal(set.tensor(operand::Output), makeStream(seed, 2),
             [&](int64_t) { return scale; });
}

/// Packed, in the precision of T.
template <typename T>
static std::vector<double> compute(const TensorView &gradient,
                                   const TensorView &output) {
  std::vector<double> delta;
  const auto &sizes = output.sizes;
  for (int64_t b = 0; b < sizes[0]; ++b)
    for (int64_t h = 0; h < sizes[1]; ++h)
      for (int64_t i = 0; i < sizes[2]; ++i) {
        T sum = 0;
        for (int64_t d = 0; d < sizes[3]; ++d)
          sum += static_cast<T>(gradient.load(b, h, i, d)) *
                 static_cast<T>(output.load(b, h, i, d));
        delta.push_back(static_cast<double>(sum));
      }
  return delta;
}

template <typename T> static Status store(const HostCall &call) {
  TensorView delta = *call.view(deltaName);
  storeAll(delta,
           compute<T>(*call.view(gradientName), *call.view(operand::Output)),
           {0, delta.sizes[2]});
  return Status::success();
}

Status flashcore::computeDeltaCall(const HostCall &call, unsigned /*threads*/) {
  return store<double>(call);
}

Status flashcore::computeDeltaYardstick(const HostCall &call,
                                        unsigned /*threads*/) {
  return store<float>(call);
}

/// A sum of n terms in f32, in whatever order, is off by at most n steps of the
/// sum of their sizes (Higham, Accuracy and Stability of Numerical Algorithms,
/// 4.2); in any order that is used, by far less.
static CheckReport check(const TensorView &gradient, const TensorView &output,
                         const TensorView &delta) {
  std::vector<double> sizes;
  for (int64_t b = 0; b < output.sizes[0]; ++b)
    for (int64_t h = 0; h < output.sizes[1]; ++h)
      for (int64_t i = 0; i < output.sizes[2]; ++i) {
        double size = 0;
        for (int64_t d = 0; d < output.sizes[3]; ++d)
          size += std::abs(gradient.load(b, h, i, d) * output.load(b, h, i, d));
        sizes.push_back(size);
      }
  Tolerance tolerance;
  tolerance.hasYardstick = false;
  tolerance.ofElement = [&](size_t index, double) {
    constexpr double steps = 8 * 0x1p-24;
    return steps * sizes[index];
  };
  CheckReport report;
  report.o =
      compare(delta, {0, delta.sizes[2]}, compute<double>(gradient, output),
              compute<float>(gradient, output), tolerance);
  return report;
}

StatusOr<CheckReport> flashcore::checkDeltaCall(const HostCall &call,
                                                unsigned /*threads*/) {
  return check(*call.view(gradientName), *call.view(operand::Output),
               *call.view(deltaName));
}

StatusOr<CheckReport> flashcore::checkDeltaOutputs(const TensorSet &set,
                                                   Stage /*stage*/,
                                                   unsigned /*threads*/) {
  return check(set.findTensor(gradientName)->view(),
               set.findTensor(operand::Output)->view(),
               set.findTensor(deltaName)->view());
}
