//===- HostTensor.cpp - Tensors in host memory ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Element access by packed index, and the search for unwritten elements and
// stray writes.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/HostTensor.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

using namespace flashcore;

static_assert(HostTensor::GuardBytes % sizeof(PoisonPattern) == 0);

StatusOr<HostTensor> HostTensor::create(const TensorGeometry &geometry) {
  HostTensor tensor(geometry);
  int64_t words = (geometry.spanBytes() + 3) / 4;
  try {
    tensor.bytes.resize(static_cast<size_t>(words * 4 + 2 * GuardBytes));
  } catch (const std::exception &) { // bad_alloc or length_error
    return Status::error("cannot allocate " +
                         std::to_string(geometry.spanBytes()) +
                         " bytes of host memory for '" + geometry.name + "'");
  }
  tensor.poison();
  return tensor;
}

int64_t HostTensor::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape.sizes)
    count *= size;
  return count;
}

int64_t flashcore::findPlace(const TensorGeometry &shape, int64_t index) {
  int64_t result = 0;
  for (size_t axis = shape.sizes.size(); axis-- > 0;) {
    result += index % shape.sizes[axis] * shape.strides[axis];
    index /= shape.sizes[axis];
  }
  return result;
}

int64_t HostTensor::position(int64_t index) const {
  return shape.offset + findPlace(shape, index);
}

double flashcore::loadElement(const TensorGeometry &shape, const void *data,
                              int64_t index) {
  int64_t size = byteSize(shape.dtype);
  uint32_t bits = 0; // the host is little endian, as the device
  std::memcpy(&bits,
              static_cast<const char *>(data) + findPlace(shape, index) * size,
              static_cast<size_t>(size));
  return infoOf(shape.dtype).load(bits);
}

uint32_t HostTensor::bits(int64_t position) const {
  int64_t size = byteSize(shape.dtype);
  const std::byte *element = base() + position * size;
  uint32_t value = 0; // the host is little endian, as the device
  std::memcpy(&value, element, static_cast<size_t>(size));
  return value;
}

void HostTensor::storeBits(int64_t position, uint32_t value) {
  int64_t size = byteSize(shape.dtype);
  std::byte *element = bytes.data() + GuardBytes + position * size;
  std::memcpy(element, &value, static_cast<size_t>(size));
}

double HostTensor::load(int64_t position) const {
  return infoOf(shape.dtype).load(bits(position));
}

void HostTensor::store(int64_t position, float value) {
  storeBits(position, infoOf(shape.dtype).round(value));
}

void flashcore::fillWithPoison(std::span<std::byte> bytes) {
  for (size_t i = 0; i < bytes.size(); i += sizeof(PoisonPattern))
    std::memcpy(&bytes[i], &PoisonPattern, sizeof(PoisonPattern));
}

void HostTensor::poison() { fillWithPoison(bytes); }

Status
HostTensor::verifyWritten(const std::function<bool(int64_t)> &isOutput) const {
  const uint32_t unwritten = poisonOf(shape.dtype);
  int64_t missing = 0, first = 0;
  // With its elements poisoned again, the copy must be poison all over.
  HostTensor rest(shape);
  try {
    rest.bytes = bytes;
  } catch (const std::bad_alloc &) {
    return Status::error("cannot allocate " + std::to_string(bytes.size()) +
                         " bytes of host memory to look for writes outside '" +
                         shape.name + "'");
  }
  forEach([&](int64_t index, int64_t at) {
    if (isOutput && !isOutput(index))
      return;
    if (bits(at) == unwritten && missing++ == 0)
      first = index;
    rest.storeBits(at, unwritten);
  });
  if (missing)
    return Status::kernelFault(
               "expects every element of '" + shape.name +
               "' to be written, but " + std::to_string(missing) + " of " +
               std::to_string(numElements()) + " still hold the poison")
        .note("the first is element " + std::to_string(first) +
              " in packed order");
  for (size_t i = 0; i < rest.bytes.size(); i += sizeof(PoisonPattern))
    if (std::memcmp(&rest.bytes[i], &PoisonPattern, sizeof(PoisonPattern)))
      return Status::kernelFault(
                 "expects only elements of '" + shape.name +
                 "' to be written, but the 4 bytes at " +
                 std::to_string(static_cast<int64_t>(i) - GuardBytes) +
                 " from its pointer changed")
          .note("the tensor spans " + std::to_string(shape.spanBytes()) +
                " bytes");
  return Status::success();
}

Status
HostTensor::verifyUpdated(std::span<const std::byte> before,
                          const std::function<bool(int64_t)> &isUpdated) const {
  HostTensor rest(shape);
  try {
    rest.bytes.assign(before.begin(), before.end());
  } catch (const std::bad_alloc &) {
    return Status::error("cannot allocate " + std::to_string(bytes.size()) +
                         " bytes of host memory to look for writes outside the "
                         "new rows of '" +
                         shape.name + "'");
  }
  forEach([&](int64_t index, int64_t at) {
    if (isUpdated(index))
      rest.storeBits(at, bits(at));
  });
  auto [here, there] =
      std::mismatch(bytes.begin(), bytes.end(), rest.bytes.begin());
  if (here == bytes.end())
    return Status::success();
  return Status::kernelFault("expects only the new rows of '" + shape.name +
                             "' to be written, but the byte at " +
                             std::to_string(here - bytes.begin() - GuardBytes) +
                             " from its pointer changed")
      .note("the tensor spans " + std::to_string(shape.spanBytes()) + " bytes");
}

TensorView HostTensor::view() const {
  return makeView(shape, base() + shape.offset * byteSize(shape.dtype));
}

TensorView flashcore::makeView(const TensorGeometry &shape, const void *data) {
  TensorView result;
  result.data = data;
  result.dtype = shape.dtype;
  result.sizes.fill(1);
  for (size_t axis = 0; axis < shape.axes.size(); ++axis) {
    const std::string &name = shape.axes[axis];
    if (name == BroadcastAxis)
      continue; // size 1 and stride 0 already
    // A vector of heads lies on their axis.
    bool isOfHeads = shape.axes.size() == 1 && name.starts_with("heads_");
    size_t place = isOfHeads ? 1 : std::min<size_t>(axis, 3);
    result.sizes[place] = shape.sizes[axis];
    result.strides[place] = shape.strides[axis];
  }
  return result;
}
