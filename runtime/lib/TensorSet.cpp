//===- TensorSet.cpp - The tensors of one run -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The way to the device and back; what is of one op asks that (ops/Op.h).
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/TensorSet.h"

#include "ops/Op.h"

#include <cassert>

using namespace flashcore;

std::string_view flashcore::stringify(Stage stage) {
  switch (stage) {
  case Stage::All:
    return "all";
  case Stage::QK:
    return "qk";
  case Stage::Softmax:
    return "softmax";
  case Stage::PV:
    return "pv";
  }
  return "?";
}

StatusOr<TensorSet> TensorSet::create(const Problem &problem) {
  TensorSet set(problem);
  for (const TensorGeometry &geometry : problem.tensors()) {
    StatusOr<HostTensor> tensor = HostTensor::create(geometry);
    if (!tensor.ok())
      return tensor.status();
    set.tensors.push_back(std::move(*tensor));
  }
  return set;
}

HostTensor &TensorSet::tensor(std::string_view name) {
  for (HostTensor &tensor : tensors)
    if (tensor.geometry().name == name)
      return tensor;
  assert(false && "not a tensor of the problem");
  return tensors.front();
}

const HostTensor *TensorSet::findTensor(std::string_view name) const {
  for (const HostTensor &tensor : tensors)
    if (tensor.geometry().name == name)
      return &tensor;
  return nullptr;
}

AttentionInputs TensorSet::inputs() const {
  return gatherInputs(source->bundle(), [&](std::string_view name) {
    const HostTensor *tensor = findTensor(name);
    return tensor ? std::optional(tensor->view()) : std::nullopt;
  });
}

Status TensorSet::fillInputs(uint64_t seed, InputKind kind, Stage stage) {
  if (Status status = verifyStage(*source, stage); !status.ok())
    return status;
  if (Status status = verifyKind(*source, kind); !status.ok())
    return status;
  findOp(source->bundle()).fillInputs(*this, seed, kind, stage);
  return Status::success();
}

std::span<std::byte> TensorSet::deviceBytes(HostTensor &tensor) const {
  int64_t left = HostTensor::GuardBytes - guardBytes;
  return {tensor.storage() + left,
          static_cast<size_t>(tensor.storageBytes() - 2 * left)};
}

Status TensorSet::upload(Device &device) {
  const Op &op = findOp(source->bundle());
  if (Status status = op.verifyData(*this); !status.ok())
    return status;
  // What a kernel does not append stays poison.
  for (HostTensor &tensor : tensors)
    if (tensor.geometry().role == TensorSpec::Role::Updated) {
      auto isNew = op.findNewRows(*this, tensor);
      tensor.forEach([&](int64_t index, int64_t at) {
        if (isNew(index))
          tensor.storeBits(at, PoisonPattern);
      });
    }
  buffers.clear();
  workspace.reset();
  guardBytes = device.info().checksBounds ? 0 : HostTensor::GuardBytes;
  for (HostTensor &tensor : tensors) {
    std::span<std::byte> data = deviceBytes(tensor);
    int64_t bytes = static_cast<int64_t>(data.size());
    StatusOr<DeviceBuffer> buffer =
        DeviceBuffer::create(device, bytes, tensor.geometry().name);
    if (!buffer.ok())
      return Status(buffer.status())
          .note("allocating '" + tensor.geometry().name + "'");
    DevicePointer to = buffer->pointer();
    buffers.push_back(std::move(*buffer));
    bool isOutput = tensor.geometry().role == TensorSpec::Role::Output;
    Status status = isOutput ? device.fill(to, PoisonPattern, bytes)
                             : device.copyToDevice(to, data.data(), bytes);
    if (!status.ok())
      return status.note("preparing '" + tensor.geometry().name + "'");
    const TensorGeometry &geometry = tensor.geometry();
    int64_t elementBytes = byteSize(geometry.dtype);
    device.describe(to + static_cast<DevicePointer>(
                             guardBytes + geometry.offset * elementBytes),
                    elementBytes, geometry.sizes, geometry.strides);
  }
  if (source->workspaceBytes() == 0)
    return Status::success();
  // Rounded up, because fill works on 4 bytes at a time.
  int64_t bytes = (source->workspaceBytes() + 3) / 4 * 4;
  StatusOr<DeviceBuffer> buffer =
      DeviceBuffer::create(device, bytes, "workspace");
  if (!buffer.ok())
    return Status(buffer.status()).note("allocating the workspace");
  workspace = std::move(*buffer);
  return device.fill(workspace->pointer(), PoisonPattern, bytes);
}

/// Of an input that kernels write rows of.
Status TensorSet::downloadUpdated(Device &device, size_t number) {
  HostTensor &tensor = tensors[number];
  std::vector<std::byte> before;
  try {
    before.assign(tensor.storage(), tensor.storage() + tensor.storageBytes());
  } catch (const std::bad_alloc &) {
    return Status::error("cannot allocate " +
                         std::to_string(tensor.storageBytes()) +
                         " bytes of host memory to compare '" +
                         tensor.geometry().name + "' with what it was");
  }
  std::span<std::byte> data = deviceBytes(tensor);
  if (Status status = device.copyToHost(data.data(), buffers[number].pointer(),
                                        static_cast<int64_t>(data.size()));
      !status.ok())
    return status.note("copying '" + tensor.geometry().name + "' back");
  return tensor.verifyUpdated(
      before, findOp(source->bundle()).findNewRows(*this, tensor));
}

Status TensorSet::download(Device &device) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    HostTensor &tensor = tensors[i];
    if (tensor.geometry().role == TensorSpec::Role::Updated)
      if (Status status = downloadUpdated(device, i); !status.ok())
        return status;
    if (tensor.geometry().role != TensorSpec::Role::Output)
      continue;
    std::span<std::byte> data = deviceBytes(tensor);
    if (Status status = device.copyToHost(data.data(), buffers[i].pointer(),
                                          static_cast<int64_t>(data.size()));
        !status.ok())
      return status.note("copying '" + tensor.geometry().name + "' back");
    if (Status status = findOp(source->bundle()).verifyWritten(*this, tensor);
        !status.ok())
      return status;
  }
  return Status::success();
}

StatusOr<std::vector<KernelLaunch>>
TensorSet::launches(const Device &device) const {
  assert(buffers.size() == tensors.size() && "upload comes first");
  PointerMap pointers;
  for (size_t i = 0; i < tensors.size(); ++i)
    pointers[tensors[i].geometry().name] =
        buffers[i].pointer() + static_cast<DevicePointer>(guardBytes);
  if (workspace)
    pointers[std::string(WorkspaceName)] = workspace->pointer();
  return planLaunches(*source, pointers, device.info().limits.multiprocessors);
}

Status flashcore::verifyStage(const Problem &problem, Stage stage) {
  return findOp(problem.bundle()).verifyStage(problem, stage);
}

Status flashcore::verifyKind(const Problem &problem, InputKind kind) {
  return findOp(problem.bundle()).verifyKind(problem, kind);
}
