//===- TensorMapArgument.cpp - Tensor maps on the command line ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   tensormap[BOX]:BUFFER     tensormap128[BOX]:BUFFER     tensormap64[BOX]:@q
//   tensormap128[1,8,64;0]:BUFFER     tensormap128[1,2,2,8,64/8]:BUFFER
//
// The box has the axes of the buffer, outermost first; those that are missing
// in front are 1. The number is the swizzle in bytes. Behind a semicolon stands
// the ragged axis, of which there are two: the map begins as many rows in front
// of the buffer as the axis has, and the outermost axis is one of as many rows
// and one. Row r of those that end at row e is at e and at as many rows - e +
// r.
//
// Behind a slash stand the rows of a group: the axes of a buffer (outer, inner,
// rows, columns) are then outer and inner in one, which counts the largest
// power of two that both strides are multiples of, groups of rows (not where
// rows are ragged), panels of as many columns as the box has, rows and columns.
//
//===----------------------------------------------------------------------===//

#include "TypedArgument.h"
#include "flashcore/Emulator/OptionText.h"
#include "flashcore/Emulator/TensorMap.h"

#include <algorithm>
#include <cstring>

using namespace flashcore::emu;

static constexpr std::string_view keyword = "tensormap";

static Error bad(const std::string &text, const std::string &why) {
  return {{}, "argument '" + text + "': " + why};
}

/// Reads "128[64,64]:", what stands before the buffer.
static bool parseBox(std::string_view head, TensorBox &box) {
  size_t bracket = head.find('[');
  if (bracket == head.npos || !head.ends_with("]"))
    return false;
  uint64_t swizzle = 0;
  std::string_view number = head.substr(0, bracket);
  if (!number.empty() && !parseNumber(number, swizzle))
    return false;
  box.swizzle = static_cast<unsigned>(std::min<uint64_t>(swizzle, 1024));
  std::string_view list = head.substr(bracket + 1);
  list.remove_suffix(1);
  if (size_t slash = list.find('/'); slash != list.npos) {
    uint64_t group = 0;
    if (!parseNumber(list.substr(slash + 1), group) || !group || group > 256)
      return false;
    box.group = static_cast<uint32_t>(group);
    list = list.substr(0, slash);
  }
  if (size_t semicolon = list.find(';'); semicolon != list.npos) {
    uint64_t axis = 0;
    if (!parseNumber(list.substr(semicolon + 1), axis))
      return false;
    box.raggedAxis = static_cast<size_t>(axis);
    list = list.substr(0, semicolon);
  }
  while (true) {
    size_t comma = std::min(list.find(','), list.size());
    uint64_t extent = 0;
    if (!parseNumber(list.substr(0, comma), extent) || extent > 256)
      return false;
    box.extents.push_back(static_cast<uint32_t>(extent));
    if (comma == list.size())
      return true;
    list.remove_prefix(comma + 1);
  }
}

Expected<TypedArgument> flashcore::emu::parseTensorMap(const std::string &text,
                                                       unsigned depth) {
  size_t end = text.find("]:");
  TensorBox box;
  if (end == text.npos ||
      !parseBox(std::string_view(text).substr(keyword.size(),
                                              end + 1 - keyword.size()),
                box))
    return bad(text, "expects tensormap[BOX]:BUFFER or tensormap128[BOX]:"
                     "BUFFER, with a box of 1 to 256 elements along each axis "
                     "such as [64,64]");
  if (box.swizzle != 0 && box.swizzle != 32 && box.swizzle != 64 &&
      box.swizzle != 128)
    return bad(text, "expects a swizzle of 32, 64 or 128 bytes, but got " +
                         std::to_string(box.swizzle));
  Expected<TypedArgument> of = parseArgument(text.substr(end + 2), depth + 1);
  if (!of)
    return of.error();
  if (!of->isPointer())
    return bad(text, "expects a buffer or an @NAME behind the box");
  TypedArgument out;
  out.type = ElementType::U8;
  out.data.resize(sizeof(TensorMapBytes));
  out.box = std::move(box);
  out.members.push_back({0, {}, std::move(*of)});
  return out;
}

/// The ragged axis once more, outermost, and the map so far in front of the
/// buffer that the two coordinates of a row add up.
static void addEnds(TensorMap &map, unsigned ragged) {
  unsigned ends = map.rank++;
  map.sizes[ends] = map.sizes[ragged];
  map.strides[ends] = map.strides[ragged];
  map.box[ends] = 1;
  map.address -= (map.sizes[ragged] - 1) * map.strides[ragged];
}

/// From the axes of a buffer to those of groups of panels.
static Error splitIntoGroups(TensorMap &map, const TensorBox &box,
                             bool isEmpty) {
  constexpr uint64_t maxUnit = 1 << 20;
  const uint32_t columns = box.extents.back();
  if (!isEmpty && (map.sizes[0] % columns || map.sizes[1] % box.group))
    return {{},
            "expects rows and columns in multiples of " +
                std::to_string(box.group) + " and " + std::to_string(columns) +
                ", but got " + std::to_string(map.sizes[1]) + " and " +
                std::to_string(map.sizes[0])};
  auto strideOf = [&](unsigned axis) {
    return map.sizes[axis] > 1 ? map.strides[axis] : 0;
  };
  uint64_t both = strideOf(3) | strideOf(2) | maxUnit * map.elementBytes;
  uint64_t unit = both & (~both + 1), last = 0;
  for (unsigned outer : {3u, 2u})
    last += (map.sizes[outer] - 1) * (strideOf(outer) / unit);
  if (last >= uint64_t(1) << 31)
    return {{},
            "expects the outer axes to reach less than 2^31 times " +
                std::to_string(unit) + " bytes, but got " +
                std::to_string(last)};
  unsigned axis = 2;
  auto add = [&](uint64_t size, uint64_t stride) {
    map.sizes[axis] = isEmpty ? 1 : size;
    map.strides[axis++] = stride;
  };
  add(map.sizes[0] / columns, uint64_t(columns) * map.elementBytes);
  if (!isEmpty)
    map.sizes[0] = columns;
  if (!box.raggedAxis) {
    add(map.sizes[1] / box.group, box.group * map.strides[1]);
    map.sizes[1] = isEmpty ? 1 : box.group;
  }
  add(last + 1, unit);
  map.rank = axis;
  return {};
}

Expected<std::vector<uint8_t>>
flashcore::emu::encodeTensorMap(const TypedArgument &argument,
                                const TypedArgument &buffer, uint64_t address) {
  const TensorView &view = buffer.view;
  const std::vector<uint32_t> &box = argument.box->extents;
  std::optional<size_t> ragged = argument.box->raggedAxis;
  const uint32_t group = argument.box->group;
  if (group && (view.shape.size() != 4 || ragged.value_or(2) != 2))
    return Error{{},
                 "expects a buffer of 4 axes, of which no other than 2 is "
                 "ragged, for groups of rows, but got " +
                     std::to_string(view.shape.size()) + " axes"};
  size_t rank = group ? maxTensorRank : view.shape.size() + (ragged ? 1 : 0);
  if (rank > maxTensorRank || box.size() > rank)
    return Error{{},
                 "expects a buffer of at most 5 axes, and a box of at most "
                 "as many, but got " +
                     std::to_string(rank) + " and " +
                     std::to_string(box.size())};
  if (ragged && *ragged + 1 >= view.shape.size())
    return Error{{},
                 "expects a ragged axis in front of the last of " +
                     std::to_string(view.shape.size()) + ", but got " +
                     std::to_string(*ragged)};
  // As the runtime makes that of a tensor without elements: of one element, of
  // which kernels copy nothing.
  bool isEmpty =
      std::find(view.shape.begin(), view.shape.end(), 0u) != view.shape.end();
  TensorMap map;
  map.elementBytes = elementBytes(buffer.type);
  map.address = isEmpty ? address : address + view.offset * map.elementBytes;
  map.rank = static_cast<uint32_t>(view.shape.size());
  uint64_t dense = map.elementBytes;
  for (size_t axis = 0; axis < map.rank; ++axis) {
    size_t from = map.rank - 1 - axis;
    map.sizes[axis] = isEmpty ? 1 : view.shape[from];
    map.strides[axis] =
        view.strides.empty() ? dense : view.strides[from] * map.elementBytes;
    if (axis && map.sizes[axis] == 1)
      map.strides[axis] = 16; // any that is allowed: no address depends on it
    dense *= view.shape[from];
  }
  if (!view.strides.empty() && view.strides.back() != 1)
    return Error{{},
                 "expects a stride of 1 along the last axis, but got " +
                     std::to_string(view.strides.back())};
  if (group)
    if (Error error = splitIntoGroups(map, *argument.box, isEmpty);
        !error.message.empty())
      return error;
  for (size_t axis = 0; axis < map.rank; ++axis)
    map.box[axis] = axis < box.size() ? box[box.size() - 1 - axis] : 1;
  if (ragged)
    addEnds(map, static_cast<unsigned>(view.shape.size() - 1 - *ragged));
  map.swizzle = argument.box->swizzle == 128  ? TensorSwizzle::Bytes128
                : argument.box->swizzle == 64 ? TensorSwizzle::Bytes64
                : argument.box->swizzle == 32 ? TensorSwizzle::Bytes32
                                              : TensorSwizzle::None;
  Expected<TensorMapBytes> bytes = flashcore::emu::encodeTensorMap(map);
  if (!bytes)
    return bytes.error();
  return std::vector<uint8_t>(bytes->begin(), bytes->end());
}
