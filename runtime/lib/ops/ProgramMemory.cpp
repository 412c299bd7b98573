//===- ProgramMemory.cpp - A program's tensors on the host ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramMemory.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace flashcore;

/// Row-major, without gaps.
static void pack(TensorGeometry &geometry) {
  int64_t stride = 1;
  geometry.offset = 0;
  geometry.strides.resize(geometry.sizes.size());
  for (size_t axis = geometry.sizes.size(); axis-- > 0;) {
    geometry.strides[axis] = stride;
    stride *= geometry.sizes[axis];
  }
  geometry.span = stride;
}

Status ProgramMemory::add(TensorGeometry geometry, const CallMemory *from) {
  pack(geometry);
  int64_t bytes = geometry.spanBytes();
  Copy copy{std::move(geometry), {}};
  try {
    // In whole poison patterns.
    copy.bytes.resize((static_cast<size_t>(bytes) + 3) / 4 * 4);
  } catch (const std::bad_alloc &) {
    return Status::error("cannot allocate " + std::to_string(bytes) +
                         " bytes of host memory for '" + copy.geometry.name +
                         "' of the reference");
  }
  fillWithPoison(copy.bytes);
  if (from) {
    auto elementBytes = static_cast<size_t>(byteSize(copy.geometry.dtype));
    for (int64_t i = 0; i < copy.geometry.span; ++i)
      std::memcpy(&copy.bytes[static_cast<size_t>(i) * elementBytes],
                  static_cast<const std::byte *>(from->data) +
                      findPlace(from->geometry, i) *
                          static_cast<int64_t>(elementBytes),
                  elementBytes);
  }
  copies.push_back(std::move(copy));
  return Status::success();
}

/// Whether an op reads a tensor, or a view of it.
static bool isRead(const Bundle &bundle, std::string_view name) {
  for (const ViewSpec &view : bundle.views)
    if (view.base == name && isRead(bundle, view.name))
      return true;
  for (const ProgramPart &part : bundle.parts)
    for (const TensorSpec &operand : part.bundle->tensors)
      if (part.tensors.at(operand.name) == name &&
          operand.role != TensorSpec::Role::Output)
        return true;
  return false;
}

StatusOr<ProgramMemory> ProgramMemory::create(const Problem &problem,
                                              const HostCall &call,
                                              bool isExact) {
  ProgramMemory memory(problem);
  const Bundle &bundle = problem.bundle();
  for (const TensorGeometry &given : problem.tensors()) {
    bool isOutput = given.role == TensorSpec::Role::Output;
    TensorGeometry geometry = given;
    if (isExact && isOutput && !isRead(bundle, given.name))
      geometry.dtype = DType::F32;
    if (Status status = memory.add(std::move(geometry),
                                   isOutput ? nullptr : call.find(given.name));
        !status.ok())
      return status;
  }
  for (const TensorSpec &spec : bundle.intermediates)
    if (Status status = memory.add(*problem.findTensor(spec.name), nullptr);
        !status.ok())
      return status;
  return memory;
}

CallMemory ProgramMemory::view(std::string_view name) const {
  for (const Copy &copy : copies)
    if (copy.geometry.name == name)
      return {copy.geometry, const_cast<std::byte *>(copy.bytes.data())};
  auto spec = std::find_if(
      problem->bundle().views.begin(), problem->bundle().views.end(),
      [&](const ViewSpec &view) { return view.name == name; });
  assert(spec != problem->bundle().views.end() && "the loader has checked it");
  CallMemory base = view(spec->base);
  CallMemory result = {*problem->findTensor(name), base.data};
  int64_t offset = 0;
  for (size_t axis = 0; axis < spec->begin.size(); ++axis)
    offset += spec->begin[axis] * base.geometry.strides[axis];
  for (size_t i = 0; i < spec->baseAxes.size(); ++i)
    result.geometry.strides[i] = base.geometry.strides[spec->baseAxes[i]];
  result.geometry.dtype = base.geometry.dtype;
  result.geometry.offset = 0;
  result.data = static_cast<std::byte *>(base.data) +
                offset * byteSize(base.geometry.dtype);
  return result;
}

HostCall ProgramMemory::getCall(size_t number) const {
  const ProgramPart &part = problem->bundle().parts[number];
  const Problem &own = problem->parts()[number];
  HostCall call;
  call.problem = {std::shared_ptr<void>(), &own};
  for (const TensorGeometry &operand : own.tensors()) {
    CallMemory memory = view(part.tensors.at(operand.name));
    TensorGeometry geometry = operand;
    geometry.dtype = memory.geometry.dtype;
    geometry.strides = memory.geometry.strides;
    geometry.offset = 0;
    call.tensors.insert({operand.name, {std::move(geometry), memory.data}});
  }
  return call;
}

Status ProgramMemory::run(Status (*Op::*compute)(const HostCall &, unsigned),
                          unsigned threads) {
  for (size_t number = 0; number < problem->parts().size(); ++number) {
    const Bundle &bundle = *problem->bundle().parts[number].bundle;
    if (Status status = (findOp(bundle).*compute)(getCall(number), threads);
        !status.ok())
      return status.note("it is " + problem->bundle().nameOfPart(number));
  }
  return Status::success();
}
