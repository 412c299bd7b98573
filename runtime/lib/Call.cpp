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

#include "ops/HostCall.h"
#include "ops/Op.h"

#include <algorithm>

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

/// The tensors of a call as the reference has them.
static StatusOr<HostCall> locateTensors(const Bundle &bundle,
                                        std::span<const CallTensor> tensors,
                                        std::span<void *const> data) {
  StatusOr<MatchedTensors> matched = matchTensors(bundle, tensors);
  if (!matched.ok())
    return matched.status();
  // Checks the sizes. Strides are free here, so it is asked about packed ones.
  ProblemRequest request;
  request.dims = matched->dims;
  StatusOr<Problem> problem = Problem::create(bundle, request);
  if (!problem.ok())
    return problem.status();

  HostCall call = {std::make_shared<const Problem>(std::move(*problem)), {}};
  for (size_t i = 0; i < bundle.tensors.size(); ++i) {
    const CallTensor &tensor = tensors[matched->positions[i]];
    void *first = data[matched->positions[i]];
    if (!first && !tensor.isEmpty())
      return Status::error("expects a pointer for '" + bundle.tensors[i].name +
                           "', but got null")
          .note("only a tensor without elements needs none");
    TensorGeometry shape = call.problem->tensors()[i];
    shape.strides.assign(tensor.strides.begin(), tensor.strides.end());
    call.tensors.insert({bundle.tensors[i].name, {std::move(shape), first}});
  }
  return call;
}

Status flashcore::computeReference(const Bundle &bundle,
                                   std::span<const CallTensor> tensors,
                                   std::span<void *const> data,
                                   unsigned threads) {
  StatusOr<HostCall> call = locateTensors(bundle, tensors, data);
  if (!call.ok())
    return call.status();
  return findOp(bundle).computeReference(*call, threads);
}

StatusOr<CheckReport>
flashcore::checkOutputs(const Bundle &bundle,
                        std::span<const CallTensor> tensors,
                        std::span<void *const> data, unsigned threads) {
  StatusOr<HostCall> call = locateTensors(bundle, tensors, data);
  if (!call.ok())
    return call.status();
  return findOp(bundle).checkCall(*call, threads);
}
