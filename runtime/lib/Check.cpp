//===- Check.cpp - Run a bundle and judge its results ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs and timings of any op; what its results are compared with says the op.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Check.h"

#include "Comparison.h"
#include "ops/Op.h"

#include <algorithm>
#include <cmath>

using namespace flashcore;

bool ErrorReport::pass() const {
  return error <= allowed && std::isfinite(allowed);
}

bool CheckReport::pass() const {
  return o.pass() && (!lse || lse->pass()) && (!scores || scores->pass()) &&
         (!k || k->pass()) && (!v || v->pass()) && (!stage || stage->pass());
}

/// Counts what is not finite.
static InputReport examine(const HostTensor &tensor) {
  InputReport report{tensor.geometry().name, 0, 0, {}};
  const OperandInfo *operand = findOperand(report.name);
  bool mayHide = operand && operand->mayHide();
  tensor.forEach([&](int64_t index, int64_t position) {
    double value = tensor.load(position);
    if (std::isfinite(value) || (mayHide && std::isinf(value) && value < 0))
      return;
    ++(std::isnan(value) ? report.nans : report.infinities);
    if (report.first.empty())
      report.first = unpack(index, tensor.geometry().sizes);
  });
  return report;
}

StatusOr<CheckReport> flashcore::checkOutputs(const TensorSet &set, Stage stage,
                                              unsigned threads) {
  StatusOr<CheckReport> checked =
      findOp(set.problem().bundle()).checkOutputs(set, stage, threads);
  if (!checked.ok())
    return checked.status();
  for (const TensorGeometry &tensor : set.problem().tensors()) {
    if (tensor.role == TensorSpec::Role::Output)
      continue;
    InputReport input = examine(*set.findTensor(tensor.name));
    if (!input.first.empty())
      checked->inputs.push_back(std::move(input));
  }
  return checked;
}

/// The directory of a bundle may be a temporary one, and says less.
static std::string kernelNames(const Problem &problem) {
  std::string names;
  for (const KernelSpec &kernel : problem.bundle().kernels)
    if (problem.launches(kernel))
      names += (names.empty() ? "" : " and ") + kernel.name;
  return names;
}

Status flashcore::runOnce(Device &device, LoadedModule &module,
                          TensorSet &set) {
  if (Status status = set.upload(device); !status.ok())
    return status;
  StatusOr<std::vector<KernelLaunch>> launches = set.launches(device);
  if (!launches.ok())
    return launches.status();
  for (const KernelLaunch &launch : *launches)
    if (Status status = device.launch(module, launch); !status.ok())
      return status;
  if (Status status = device.synchronize(); !status.ok())
    return Status::kernelFault(status.message())
        .note("while running " + kernelNames(set.problem()) + " for " +
              set.problem().str());
  return set.download(device);
}

InputFiller flashcore::randomInputs(uint64_t seed, InputKind kind,
                                    Stage stage) {
  return [=](TensorSet &set, uint64_t number) {
    return set.fillInputs(seed + number, kind, stage);
  };
}

StatusOr<Timing> flashcore::timeProblem(Device &device, LoadedModule &module,
                                        const Problem &problem,
                                        const InputFiller &fill,
                                        const TimingOptions &options) {
  int64_t bytes = 1;
  for (const TensorGeometry &tensor : problem.tensors())
    bytes += tensor.spanBytes();
  int64_t count = std::clamp<int64_t>(200'000'000 / bytes, 1, 8);

  std::vector<TensorSet> sets;
  std::vector<std::vector<KernelLaunch>> launches;
  for (int64_t i = 0; i < count; ++i) {
    StatusOr<TensorSet> set = TensorSet::create(problem);
    if (!set.ok())
      return set.status();
    if (Status status = fill(*set, static_cast<uint64_t>(i)); !status.ok())
      return status;
    if (Status status = set->upload(device); !status.ok())
      return status;
    StatusOr<std::vector<KernelLaunch>> planned = set->launches(device);
    if (!planned.ok())
      return planned.status();
    launches.push_back(std::move(*planned));
    sets.push_back(std::move(*set));
  }
  return device.time(module, launches, options);
}

double flashcore::countFlops(const Problem &problem) {
  return findOp(problem.bundle()).countFlops(problem);
}

double flashcore::countFlops(const TensorSet &set) {
  return findOp(set.problem().bundle()).countFlopsOf(set);
}
