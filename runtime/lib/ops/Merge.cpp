//===- Merge.cpp - Attentions over parts of the keys, combined ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Merge.h"
#include "../Comparison.h"
#include "HostCall.h"
#include "MergeOp.h"
#include "RandomInputs.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace flashcore;

MergeTensor::MergeTensor(const HostTensor *tensor) {
  if (!tensor)
    return;
  sizes = tensor->geometry().sizes;
  load = [tensor](int64_t index) {
    return tensor->load(tensor->position(index));
  };
}

MergeTensor::MergeTensor(const TensorGeometry &geometry, const void *data)
    : sizes(geometry.sizes) {
  load = [geometry, data](int64_t index) {
    return loadElement(geometry, data, index);
  };
}

namespace {
/// Merges rows in the precision of T.
template <typename T> class Merger {
public:
  explicit Merger(const MergeInputs &inputs)
      : inputs(inputs), sizes(inputs.outputs.sizes) {}

  MergeResult run();

private:
  T outputAt(int64_t index) const {
    return static_cast<T>(inputs.outputs.load(index));
  }
  T lseAt(int64_t index) const {
    return static_cast<T>(inputs.lses.load(index));
  }
  T sinkOf(int64_t row) const {
    if (!inputs.sinks.load)
      return -std::numeric_limits<T>::infinity();
    int64_t head = row / sizes[3] % sizes[2];
    return static_cast<T>(inputs.sinks.load(head));
  }
  void mergeRow(int64_t row, int64_t numRows, MergeResult &result) const;

  const MergeInputs &inputs;
  const std::vector<int64_t> &sizes;
};
} // namespace

template <typename T>
void Merger<T>::mergeRow(int64_t row, int64_t numRows,
                         MergeResult &result) const {
  int64_t columns = sizes[4];
  T largest = sinkOf(row);
  for (int64_t part = 0; part < sizes[0]; ++part)
    largest = std::max(largest, lseAt(part * numRows + row));
  std::vector<T> o(static_cast<size_t>(columns));
  T sum = 0;
  if (largest == -std::numeric_limits<T>::infinity()) {
    result.lse.push_back(largest);
  } else {
    sum = std::exp(sinkOf(row) - largest);
    for (int64_t part = 0; part < sizes[0]; ++part) {
      T weight = std::exp(lseAt(part * numRows + row) - largest);
      if (weight == 0)
        continue;
      sum += weight;
      for (int64_t c = 0; c < columns; ++c)
        o[static_cast<size_t>(c)] +=
            weight * outputAt((part * numRows + row) * columns + c);
    }
    result.lse.push_back(largest + std::log(sum));
  }
  for (T value : o)
    result.o.push_back(sum > 0 ? value / sum : 0);
}

template <typename T> MergeResult Merger<T>::run() {
  MergeResult result;
  int64_t numRows = sizes[1] * sizes[2] * sizes[3];
  for (int64_t row = 0; row < numRows; ++row)
    mergeRow(row, numRows, result);
  return result;
}

MergeResult flashcore::computeMerge(const MergeInputs &inputs) {
  return Merger<double>(inputs).run();
}

MergeResult flashcore::computeMergeYardstick(const MergeInputs &inputs,
                                             DType o) {
  MergeResult result = Merger<float>(inputs).run();
  const DTypeInfo &info = infoOf(o);
  for (double &value : result.o)
    value = info.load(info.round(value));
  return result;
}

double flashcore::countMergeFlops(const Problem &problem) {
  double count = 2;
  for (int64_t size : problem.findTensor("outputs")->sizes)
    count *= static_cast<double>(size);
  return count;
}

std::string flashcore::describeMerge(const Problem &problem) {
  auto text = [&](std::string_view name) {
    return std::to_string(problem.dim(name));
  };
  return "merge of " + text("parts") + " parts, B" + text("batch") + " H" +
         text("heads_q") + " S" + text("seqlen_q") + " D" + text("head_dim_v") +
         " " + std::string(stringify(problem.findTensor("outputs")->dtype));
}

Status flashcore::verifyMergeStage(const Problem & /*problem*/, Stage stage) {
  if (stage == Stage::All)
    return Status::success();
  return Status::error("expects stage 'all' of a merge, but got '" +
                       std::string(stringify(stage)) + "'");
}

Status flashcore::verifyMergeKind(const Problem & /*problem*/, InputKind kind) {
  if (kind == InputKind::Normal || kind == InputKind::Large)
    return Status::success();
  return Status::error("expects inputs of kind 'normal' or 'large' for a "
                       "merge, but got '" +
                       std::string(stringify(kind)) + "'");
}

/// Results of attentions over parts of the keys, some of which saw none.
void flashcore::fillMerge(TensorSet &set, uint64_t seed, InputKind kind,
                          Stage /*stage*/) {
  HostTensor &lses = set.tensor("lses");
  float scale = kind == InputKind::Large ? 1e5f : 3.0f;
  fillNormal(set.tensor("outputs"), makeStream(seed, 1),
             [](int64_t) { return 1.0f; });
  fillNormal(lses, makeStream(seed, 2), [&](int64_t) { return scale; });
  constexpr int64_t share = 7;
  lses.forEach([&](int64_t index, int64_t position) {
    if (index % share == share - 1)
      lses.store(position, -std::numeric_limits<float>::infinity());
  });
  if (set.findTensor(operand::SinkLogits))
    fillNormal(set.tensor(operand::SinkLogits), makeStream(seed, 3),
               [](int64_t) { return 1.0f; });
}

static MergeInputs getInputs(const HostCall &call) {
  auto get = [&](std::string_view name) {
    const CallMemory *memory = call.find(name);
    return memory ? MergeTensor(memory->geometry, memory->data) : MergeTensor();
  };
  return {get("outputs"), get("lses"), get(operand::SinkLogits)};
}

static CheckReport compareOutputs(const MergeInputs &inputs,
                                  const TensorView &o,
                                  const std::optional<TensorView> &lse) {
  MergeResult reference = computeMerge(inputs);
  MergeResult yardstick = computeMergeYardstick(inputs, o.dtype);
  KeyRange rows = {0, o.sizes[2]};
  CheckReport report;
  report.o = compare(o, rows, reference.o, yardstick.o);
  if (lse)
    report.lse =
        compare(*lse, rows, reference.lse, yardstick.lse, {lseTolerance});
  return report;
}

static Status store(const HostCall &call, const MergeResult &result) {
  TensorView o = *call.view("o");
  KeyRange rows = {0, o.sizes[2]};
  storeAll(o, result.o, rows);
  if (auto lse = call.view("lse"))
    storeAll(*lse, result.lse, rows);
  return Status::success();
}

Status flashcore::computeMergeCall(const HostCall &call, unsigned /*threads*/) {
  return store(call, computeMerge(getInputs(call)));
}

Status flashcore::computeMergeYardstick(const HostCall &call,
                                        unsigned /*threads*/) {
  return store(call, computeMergeYardstick(getInputs(call),
                                           call.find("o")->geometry.dtype));
}

StatusOr<CheckReport> flashcore::checkMergeCall(const HostCall &call,
                                                unsigned /*threads*/) {
  return compareOutputs(getInputs(call), *call.view("o"), call.view("lse"));
}

StatusOr<CheckReport> flashcore::checkMergeOutputs(const TensorSet &set,
                                                   Stage /*stage*/,
                                                   unsigned /*threads*/) {
  const HostTensor *lse = set.findTensor("lse");
  return compareOutputs({set.findTensor("outputs"), set.findTensor("lses"),
                         set.findTensor(operand::SinkLogits)},
                        set.findTensor("o")->view(),
                        lse ? std::optional(lse->view()) : std::nullopt);
}
