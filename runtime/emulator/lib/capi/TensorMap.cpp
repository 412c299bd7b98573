//===- TensorMap.cpp - C interface of tensor maps -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See flashcore-c/Emulator.h.
//
//===----------------------------------------------------------------------===//

#include "flashcore/Emulator/TensorMap.h"
#include "Status.h"

#include <cstring>

using namespace flashcore::emu;
using namespace flashcore::emu::capi;

static_assert(sizeof(TensorMapBytes) == FLASHCORE_EMU_TENSOR_MAP_BYTES);

static Expected<TensorMap> convert(const FlashCoreEmuTensorMap &from) {
  TensorMap map;
  map.address = from.address;
  map.elementBytes = from.elementBytes;
  map.rank = from.rank;
  for (unsigned axis = 0; axis < maxTensorRank; ++axis) {
    map.sizes[axis] = from.sizes[axis];
    map.strides[axis] = from.strides[axis];
    map.box[axis] = from.box[axis];
    if (from.elementStrides[axis])
      map.elementStrides[axis] = from.elementStrides[axis];
  }
  switch (from.swizzleBytes) {
  case 0:
    return map;
  case 32:
    map.swizzle = TensorSwizzle::Bytes32;
    return map;
  case 64:
    map.swizzle = TensorSwizzle::Bytes64;
    return map;
  case 128:
    map.swizzle = TensorSwizzle::Bytes128;
    return map;
  default:
    return Error{{},
                 "a tensor map expects a swizzle of 0, 32, 64 or 128 "
                 "bytes, but got " +
                     std::to_string(from.swizzleBytes)};
  }
}

FlashCoreEmuStatus flashcoreEmuEncodeTensorMap(const FlashCoreEmuTensorMap *map,
                                               void *bytes) {
  return guarded([&] {
    if (!map)
      return nullError("a tensor map");
    if (!bytes)
      return nullError("a place for the bytes");
    Expected<TensorMap> converted = convert(*map);
    if (!converted)
      return fail(converted.error());
    Expected<TensorMapBytes> encoded = encodeTensorMap(*converted);
    if (!encoded)
      return fail(encoded.error());
    std::memcpy(bytes, encoded->data(), encoded->size());
    return success();
  });
}
