//===- Call.cpp - The tensors of a call as a caller has them --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matches the caller's tensors with the bundle's, and runs the reference on
// them where they lie.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Call.h"

#include "flashcore/Runtime/HostTensor.h"

#include <algorithm>
#include <cstring>

using namespace flashcore;

bool CallTensor::isEmpty() const {
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// "q, k, v, o".
static std::string tensorNames(const Bundle &bundle) {
  std::string names;
  for (const TensorSpec &spec : bundle.tensors)
    names += (names.empty() ? "" : ", ") + spec.name;
  return names;
}

static Status checkNames(const Bundle &bundle,
                         std::span<const CallTensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::string name(tensors[i].name);
    if (!bundle.findTensor(name))
      return Status::error("expects tensors of the bundle (" +
                           tensorNames(bundle) + "), but got '" + name + "'");
    for (size_t other = 0; other < i; ++other)
      if (tensors[other].name == tensors[i].name)
        return Status::error("expects each tensor once, but got '" + name +
                             "' twice");
  }
  return Status::success();
}

static Status checkRank(const TensorSpec &spec, const CallTensor &tensor) {
  std::string axes;
  for (const std::string &axis : spec.axes)
    axes += (axes.empty() ? "" : ", ") + axis;
  for (auto [what, count] : {std::pair("sizes", tensor.sizes.size()),
                             std::pair("strides", tensor.strides.size())})
    if (count != spec.axes.size())
      return Status::error("expects '" + spec.name + "' to have " +
                           std::to_string(spec.axes.size()) + " " + what +
                           " (" + axes + "), but got " + std::to_string(count));
  return Status::success();
}

namespace {
/// Collects the dimensions and who said them.
class DimCollector {
public:
  explicit DimCollector(MatchedTensors &matched) : matched(matched) {}

  Status add(const TensorSpec &spec, const CallTensor &tensor) {
    for (size_t i = 0; i < spec.axes.size(); ++i)
      if (Status status = add(spec, spec.axes[i], tensor.sizes[i]);
          !status.ok())
        return status;
    return Status::success();
  }

private:
  Status add(const TensorSpec &spec, const std::string &axis, int64_t size) {
    if (size < 0)
      return Status::error("expects the sizes of '" + spec.name +
                           "' to be at least 0, but got " +
                           std::to_string(size));
    if (axis == BroadcastAxis)
      return size == 1
                 ? Status::success()
                 : Status::error("expects broadcast axes of '" + spec.name +
                                 "' to have size 1, but got " +
                                 std::to_string(size));
    auto [known, isNew] = matched.dims.try_emplace(axis, size);
    if (isNew)
      saidBy[axis] = spec.name;
    if (known->second == size)
      return Status::success();
    return Status::error("expects '" + spec.name + "' to have " + axis + " " +
                         std::to_string(known->second) + ", as '" +
                         saidBy[axis] + "' has, but got " +
                         std::to_string(size));
  }

  MatchedTensors &matched;
  std::map<std::string, std::string> saidBy;
};
} // namespace

StatusOr<MatchedTensors>
flashcore::matchTensors(const Bundle &bundle,
                        std::span<const CallTensor> tensors) {
  if (Status status = checkNames(bundle, tensors); !status.ok())
    return status;
  MatchedTensors matched;
  DimCollector dims(matched);
  for (const TensorSpec &spec : bundle.tensors) {
    auto it = std::find_if(
        tensors.begin(), tensors.end(),
        [&](const CallTensor &tensor) { return tensor.name == spec.name; });
    if (it == tensors.end())
      return Status::error("expects all tensors of the bundle (" +
                           tensorNames(bundle) + "), but got no '" + spec.name +
                           "'");
    if (Status status = checkRank(spec, *it); !status.ok())
      return status;
    if (Status status = dims.add(spec, *it); !status.ok())
      return status;
    matched.positions.push_back(static_cast<size_t>(it - tensors.begin()));
  }
  return matched;
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

static void storeRounded(const TensorView &to, int64_t index, double value) {
  const DTypeInfo &info = infoOf(to.dtype);
  uint32_t bits = info.round(value);
  std::memcpy(static_cast<char *>(const_cast<void *>(to.data)) +
                  index * info.bytes,
              &bits, static_cast<size_t>(info.bytes));
}

/// Stores `values`, which are packed, as the elements of `to`. Rows that are
/// not computed stay as they are, as a kernel leaves them.
static void storeAll(const TensorView &to, const std::vector<double> &values,
                     KeyRange rows) {
  int64_t next = 0;
  for (int64_t b = 0; b < to.sizes[0]; ++b)
    for (int64_t h = 0; h < to.sizes[1]; ++h)
      for (int64_t s = 0; s < to.sizes[2]; ++s)
        for (int64_t d = 0; d < to.sizes[3]; ++d, ++next)
          if (rows.contains(s))
            storeRounded(to,
                         b * to.strides[0] + h * to.strides[1] +
                             s * to.strides[2] + d * to.strides[3],
                         values[static_cast<size_t>(next)]);
}

/// Appends the rows to k and v, as a kernel does.
static void storeAppended(const AttentionInputs &inputs) {
  if (!inputs.kNew)
    return;
  for (bool isKey : {true, false}) {
    const TensorView &cache = isKey ? inputs.k : inputs.v;
    const auto &sizes = (isKey ? inputs.kNew : inputs.vNew)->sizes;
    auto load = isKey ? loadKey : loadValue;
    for (int64_t b = 0; b < sizes[0]; ++b) {
      Sequence sequence = getSequence(inputs, b);
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t key = countOldKeys(inputs, sequence);
             key < sequence.seqlenK; ++key) {
          auto [batch, row] = findKey(inputs, sequence, key);
          for (int64_t d = 0; d < sizes[3]; ++d)
            storeRounded(cache,
                         batch * cache.strides[0] + h * cache.strides[1] +
                             row * cache.strides[2] + d * cache.strides[3],
                         load(inputs, sequence, h, key, d));
        }
    }
  }
}

namespace {
struct HostCall {
  AttentionInputs inputs;
  AttentionOutputs outputs;
};
} // namespace

/// The tensors of a call as the reference has them.
static StatusOr<HostCall> viewTensors(const Bundle &bundle,
                                      std::span<const CallTensor> tensors,
                                      std::span<void *const> data) {
  if (bundle.op != AttentionOpName)
    return Status::error("expects a bundle of an attention, but got one of a " +
                         bundle.op);
  StatusOr<MatchedTensors> matched = matchTensors(bundle, tensors);
  if (!matched.ok())
    return matched.status();
  // Checks the sizes. Strides are free here, so it is asked about packed ones.
  ProblemRequest request;
  request.dims = matched->dims;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  if (!problem.ok())
    return problem.status();

  std::map<std::string_view, TensorView> views;
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    const CallTensor &tensor = tensors[matched->positions[i]];
    void *first = data[matched->positions[i]];
    if (!first && !tensor.isEmpty())
      return Status::error("expects a pointer for '" + bundle.tensors[i].name +
                           "', but got null")
          .note("only a tensor without elements needs none");
    TensorGeometry shape = problem->tensors()[i];
    shape.strides.assign(tensor.strides.begin(), tensor.strides.end());
    views[bundle.tensors[i].name] = makeView(shape, first);
  }
  auto find = [&](std::string_view name) {
    auto view = views.find(name);
    return view != views.end() ? std::optional(view->second) : std::nullopt;
  };
  HostCall call = {gatherInputs(bundle, find),
                   {views["o"], find("lse"), find(operand::Scores)}};
  return call;
}

Status flashcore::computeReference(const Bundle &bundle,
                                   std::span<const CallTensor> tensors,
                                   std::span<void *const> data,
                                   unsigned threads) {
  StatusOr<HostCall> call = viewTensors(bundle, tensors, data);
  if (!call.ok())
    return call.status();
  StatusOr<AttentionResult> result = computeReference(call->inputs, threads);
  if (!result.ok())
    return result.status();
  KeyRange rows = queryRows(call->inputs);
  storeAll(call->outputs.o, result->o, rows);
  if (call->outputs.lse)
    storeAll(*call->outputs.lse, result->lse, rows);
  if (call->outputs.scores)
    storeAll(*call->outputs.scores, result->scores, rows);
  storeAppended(call->inputs);
  return Status::success();
}

StatusOr<CheckReport>
flashcore::checkOutputs(const Bundle &bundle,
                        std::span<const CallTensor> tensors,
                        std::span<void *const> data, unsigned threads) {
  StatusOr<HostCall> call = viewTensors(bundle, tensors, data);
  if (!call.ok())
    return call.status();
  return checkOutputs(call->inputs, call->outputs, threads);
}
