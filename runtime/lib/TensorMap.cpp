//===- TensorMap.cpp - Tensor maps of bulk copies -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The manifest's box, and strides and addresses that are multiples of 16 bytes,
// the loader and Problem have checked. Here are the limits that only sizes and
// strides of a call can break.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/TensorMap.h"

#include <algorithm>

using namespace flashcore;

static constexpr int64_t maxSize = int64_t(1) << 32,
                         maxStrideBytes = (int64_t(1) << 40) - 16;

static Status badAxis(const TensorGeometry &tensor, size_t axis,
                      const char *what, int64_t most, int64_t got) {
  return Status::error(
      "expects the " + std::string(what) + " of axis " + std::to_string(axis) +
      " (" + tensor.axes[axis] + ") of '" + tensor.name + "' to be at most " +
      std::to_string(most) + ", but got " + std::to_string(got));
}

/// The axis once more, outermost, and the map so far in front of the tensor
/// that the two coordinates of a row add up: that of the last row that there
/// is, and as many more as are behind.
static void addEnds(TensorMap &map, size_t ragged) {
  unsigned ends = map.rank++;
  map.sizes[ends] = map.sizes[ragged];
  map.strides[ends] = map.strides[ragged];
  map.box[ends] = 1;
  map.bytesInFront = (map.sizes[ragged] - 1) * map.strides[ragged];
}

StatusOr<TensorMap> flashcore::makeTensorMap(const TensorGeometry &tensor,
                                             const ArgumentSpec &argument) {
  TensorMap map;
  map.isEmpty = std::count(tensor.sizes.begin(), tensor.sizes.end(), 0) > 0;
  map.dtype = tensor.dtype;
  map.rank = static_cast<unsigned>(tensor.sizes.size());
  map.swizzle = argument.swizzle;
  int64_t elementBytes = byteSize(tensor.dtype);
  for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
    size_t to = tensor.sizes.size() - 1 - axis;
    int64_t size = map.isEmpty ? 1 : tensor.sizes[axis];
    int64_t stride = tensor.strides[axis];
    if (size > maxSize)
      return badAxis(tensor, axis, "size", maxSize, size)
          .note("the kernels copy it by a tensor map, which has no larger "
                "axes: split the call");
    // No address depends on the stride of an axis of one element.
    if (to > 0 && size > 1 && stride > maxStrideBytes / elementBytes)
      return badAxis(tensor, axis, "stride", maxStrideBytes / elementBytes,
                     stride)
          .note("the kernels copy it by a tensor map, whose strides are less "
                "than 2^40 bytes: copy the tensor to a packed one");
    map.sizes[to] = static_cast<uint64_t>(size);
    map.strides[to] = static_cast<uint64_t>(to == 0    ? elementBytes
                                            : size > 1 ? stride * elementBytes
                                                       : TensorMapStrideUnit);
    map.box[to] = argument.box[axis + (argument.raggedAxis ? 1 : 0)];
  }
  if (argument.raggedAxis)
    addEnds(map, tensor.sizes.size() - 1 - *argument.raggedAxis);
  return map;
}

TensorGeometry flashcore::geometryOf(const Problem &problem,
                                     const ArgumentSpec &argument) {
  if (argument.copyOf.empty())
    return *problem.findTensor(argument.tensor);
  TensorGeometry copy = *problem.findTensor(argument.copyOf);
  copy.name = "the copy of " + copy.name;
  copy.offset = 0;
  copy.alignment = TensorMapStrideUnit;
  int64_t stride = argument.copyRow;
  copy.strides.back() = 1;
  for (size_t axis = copy.strides.size() - 1; axis-- > 0;) {
    copy.strides[axis] = stride;
    stride *= copy.sizes[axis];
  }
  return copy;
}
