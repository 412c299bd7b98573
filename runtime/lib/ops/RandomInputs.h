//===- RandomInputs.h - Random values of tensors ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_OPS_RANDOMINPUTS_H
#define FLASHCORE_RUNTIME_LIB_OPS_RANDOMINPUTS_H

#include "../RandomNumbers.h"
#include "flashcore/Runtime/HostTensor.h"

namespace flashcore {

/// Streams that do not overlap in practice: SplitMix64 walks its state by a
/// constant, so distant starts are needed.
inline uint64_t makeStream(uint64_t seed, uint64_t number) {
  return seed * 0x2545f4914f6cdd1d + (number << 61);
}

/// Normal values times `scale` around `mean`, both of which may depend on the
/// element's place.
template <typename Scale, typename Mean>
void fillNormal(HostTensor &tensor, uint64_t seed, Scale &&scale, Mean &&mean) {
  NormalGenerator generator(seed);
  tensor.forEach([&](int64_t index, int64_t position) {
    tensor.store(position, generator.next() * scale(index) + mean(index));
  });
}
template <typename Scale>
void fillNormal(HostTensor &tensor, uint64_t seed, Scale &&scale) {
  fillNormal(tensor, seed, scale, [](int64_t) { return 0.0f; });
}

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_OPS_RANDOMINPUTS_H
