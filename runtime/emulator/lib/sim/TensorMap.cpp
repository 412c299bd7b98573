//===- TensorMap.cpp - Tensor maps of bulk copies -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The limits are those of the driver API's cuTensorMapEncodeTiled.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/TensorMap.h"

#include <cstring>
#include <string>
#include <type_traits>

using namespace flashcore::emu;

static constexpr char magic[8] = {'F', 'C', 'e', 'm', 'u', 'T', 'M', '1'};

namespace {
/// The 128 bytes of a map.
struct Encoded {
  char magic[8];
  uint64_t address;
  uint64_t strides[maxTensorRank - 1];
  uint32_t sizesLessOne[maxTensorRank];
  uint16_t box[maxTensorRank];
  uint8_t elementStrides[maxTensorRank];
  uint8_t elementBytes, rank, swizzle;
  uint8_t unused[8];
  uint64_t sum;
};
} // namespace
static_assert(sizeof(Encoded) <= sizeof(TensorMapBytes) &&
              std::is_trivially_copyable_v<Encoded>);

/// FNV-1a of all that comes before the sum itself.
static uint64_t sumOf(const Encoded &encoded) {
  uint64_t hash = 0xcbf29ce484222325;
  const unsigned char *bytes =
      reinterpret_cast<const unsigned char *>(&encoded);
  for (size_t i = 0; i < offsetof(Encoded, sum); ++i)
    hash = (hash ^ bytes[i]) * 0x100000001b3;
  return hash;
}

uint64_t flashcore::emu::swizzled(uint64_t address, TensorSwizzle swizzle) {
  unsigned bits = static_cast<unsigned>(swizzle);
  uint64_t mask = (uint64_t(1) << bits) - 1;
  return address ^ (address >> 7 & mask) << 4;
}

uint64_t TensorMap::boxBytes() const {
  uint64_t bytes = elementBytes;
  for (unsigned axis = 0; axis < rank; ++axis)
    bytes *= extent(axis);
  return bytes;
}

static Error bad(const std::string &what, uint64_t got) {
  return {{},
          "a tensor map expects " + what + ", but got " + std::to_string(got)};
}

static Error checkAxis(const TensorMap &map, unsigned axis) {
  const std::string of = " of axis " + std::to_string(axis);
  if (map.sizes[axis] < 1 || map.sizes[axis] > uint64_t(1) << 32)
    return bad("a size" + of + " from 1 to 2^32", map.sizes[axis]);
  if (map.box[axis] < 1 || map.box[axis] > 256)
    return bad("a box" + of + " from 1 to 256 elements", map.box[axis]);
  if (map.elementStrides[axis] < 1 || map.elementStrides[axis] > 8)
    return bad("an element stride" + of + " from 1 to 8",
               map.elementStrides[axis]);
  if (axis &&
      (map.strides[axis] % 16 || map.strides[axis] >= uint64_t(1) << 40))
    return bad("a stride" + of + " that is a multiple of 16 bytes below 2^40",
               map.strides[axis]);
  return {};
}

static Error check(const TensorMap &map) {
  if (map.rank < 1 || map.rank > maxTensorRank)
    return bad("a rank from 1 to 5", map.rank);
  if (map.elementBytes != 1 && map.elementBytes != 2 && map.elementBytes != 4 &&
      map.elementBytes != 8)
    return bad("elements of 1, 2, 4 or 8 bytes", map.elementBytes);
  if (map.address == 0 || map.address % 16)
    return bad("an address that is a multiple of 16", map.address);
  if (map.swizzle > TensorSwizzle::Bytes128)
    return bad("a swizzle of none, 32, 64 or 128 bytes",
               static_cast<uint64_t>(map.swizzle));
  for (unsigned axis = 0; axis < map.rank; ++axis)
    if (Error error = checkAxis(map, axis); !error.message.empty())
      return error;
  uint64_t inner = uint64_t(map.box[0]) * map.elementBytes;
  if (inner % 16)
    return bad("an innermost axis of the box of a multiple of 16 bytes", inner);
  uint64_t span = uint64_t(16) << static_cast<unsigned>(map.swizzle);
  if (map.swizzle != TensorSwizzle::None && inner > span)
    return bad("an innermost axis of the box of at most the " +
                   std::to_string(span) + " bytes of its swizzle",
               inner);
  return {};
}

Expected<TensorMapBytes> flashcore::emu::encodeTensorMap(const TensorMap &map) {
  if (Error error = check(map); !error.message.empty())
    return error;
  Encoded encoded{};
  std::memcpy(encoded.magic, magic, sizeof magic);
  encoded.address = map.address;
  encoded.elementBytes = static_cast<uint8_t>(map.elementBytes);
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.swizzle = static_cast<uint8_t>(map.swizzle);
  for (unsigned axis = 0; axis < map.rank; ++axis) {
    encoded.sizesLessOne[axis] = static_cast<uint32_t>(map.sizes[axis] - 1);
    encoded.box[axis] = static_cast<uint16_t>(map.box[axis]);
    encoded.elementStrides[axis] =
        static_cast<uint8_t>(map.elementStrides[axis]);
    if (axis)
      encoded.strides[axis - 1] = map.strides[axis];
  }
  encoded.sum = sumOf(encoded);
  TensorMapBytes bytes{};
  std::memcpy(bytes.data(), &encoded, sizeof encoded);
  return bytes;
}

std::optional<TensorMap> flashcore::emu::decodeTensorMap(const uint8_t *bytes) {
  Encoded encoded;
  std::memcpy(&encoded, bytes, sizeof encoded);
  if (std::memcmp(encoded.magic, magic, sizeof magic) ||
      encoded.sum != sumOf(encoded) || encoded.rank > maxTensorRank)
    return std::nullopt;
  TensorMap map;
  map.address = encoded.address;
  map.elementBytes = encoded.elementBytes;
  map.rank = encoded.rank;
  map.swizzle = static_cast<TensorSwizzle>(encoded.swizzle);
  map.strides[0] = encoded.elementBytes;
  for (unsigned axis = 0; axis < map.rank; ++axis) {
    map.sizes[axis] = uint64_t(encoded.sizesLessOne[axis]) + 1;
    map.box[axis] = encoded.box[axis];
    map.elementStrides[axis] = encoded.elementStrides[axis];
    if (axis)
      map.strides[axis] = encoded.strides[axis - 1];
  }
  // The sum is no secret.
  if (!check(map).message.empty())
    return std::nullopt;
  return map;
}
