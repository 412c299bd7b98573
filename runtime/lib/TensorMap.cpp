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
/// Coordinates of a copy are 32 bits with a sign.
static constexpr uint64_t maxCoordinate = (uint64_t(1) << 31) - 1;
/// The most elements that a coordinate of the two outermost axes counts.
static constexpr uint64_t maxEntryUnit = uint64_t(1) << 20;

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

static Status expectMultiple(const TensorGeometry &tensor, size_t axis,
                             uint64_t of) {
  return Status::error("expects the size of axis " + std::to_string(axis) +
                       " (" + tensor.axes[axis] + ") of '" + tensor.name +
                       "' to be a multiple of " + std::to_string(of) +
                       ", but got " + std::to_string(tensor.sizes[axis]));
}

/// The two outermost axes as one, which counts the largest power of two that
/// both strides are multiples of: its size and its stride.
static Status joinOuterAxes(const TensorGeometry &tensor, const TensorMap &map,
                            uint64_t &size, uint64_t &stride) {
  auto strideOf = [&](unsigned axis) {
    return map.sizes[axis] > 1 ? map.strides[axis] : 0;
  };
  uint64_t both = strideOf(3) | strideOf(2) |
                  maxEntryUnit * static_cast<uint64_t>(byteSize(tensor.dtype));
  stride = both & (~both + 1);
  uint64_t last = 0;
  for (unsigned axis : {3u, 2u}) {
    uint64_t steps = strideOf(axis) / stride;
    bool fits =
        steps == 0 || map.sizes[axis] - 1 <= (maxCoordinate - last) / steps;
    if (!fits)
      return Status::error(
                 "expects axes 0 (" + tensor.axes[0] + ") and 1 (" +
                 tensor.axes[1] + ") of '" + tensor.name +
                 "' to reach at most " + std::to_string(maxCoordinate) +
                 " times " + std::to_string(stride) +
                 " bytes, the largest power of two that both strides are "
                 "multiples of, but got sizes of " +
                 std::to_string(map.sizes[3]) + " and " +
                 std::to_string(map.sizes[2]))
          .note("the kernels copy it by a tensor map that has both as one "
                "axis: use strides that are multiples of more, or fewer pages");
    last += (map.sizes[axis] - 1) * steps;
  }
  size = last + 1;
  return Status::success();
}

/// From the axes of the tensor to those of groups of panels.
static Status splitIntoGroups(const TensorGeometry &tensor,
                              const ArgumentSpec &argument, TensorMap &map) {
  auto group = static_cast<uint64_t>(argument.group),
       columns = static_cast<uint64_t>(argument.box.back());
  uint64_t entries = 1, unit = 0;
  if (!map.isEmpty && map.sizes[0] % columns)
    return expectMultiple(tensor, 3, columns);
  if (!map.isEmpty && map.sizes[1] % group)
    return expectMultiple(tensor, 2, group);
  if (Status status = joinOuterAxes(tensor, map, entries, unit); !status.ok())
    return status;
  uint64_t rows = map.sizes[1], row = map.strides[1];
  uint64_t panels = map.isEmpty ? 1 : map.sizes[0] / columns;
  unsigned axis = 2;
  auto add = [&](uint64_t size, uint64_t stride) {
    map.sizes[axis] = size;
    map.strides[axis++] = stride;
  };
  map.sizes[0] = map.isEmpty ? 1 : columns;
  add(panels, columns * map.strides[0]);
  if (!argument.raggedAxis) {
    map.sizes[1] = map.isEmpty ? 1 : group;
    add(map.isEmpty ? 1 : rows / group, group * row);
  }
  add(entries, unit);
  map.rank = axis;
  return Status::success();
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
  }
  if (argument.group)
    if (Status status = splitIntoGroups(tensor, argument, map); !status.ok())
      return status;
  std::copy_n(argument.box.rbegin(), map.rank, map.box.begin());
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
