//===- RandomNumbers.h - What random inputs are made of ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The generator is written out because the standard distributions differ
// between libraries: a seed must give the same inputs everywhere.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_LIB_RANDOMNUMBERS_H
#define FLASHCORE_RUNTIME_LIB_RANDOMNUMBERS_H

#include "flashcore/Runtime/Problem.h"

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace flashcore {

/// SplitMix64 and the Box-Muller transform.
class NormalGenerator {
public:
  explicit NormalGenerator(uint64_t seed) : state(seed) {}

  float next() {
    if (hasSpare) {
      hasSpare = false;
      return spare;
    }
    uint64_t bits = nextBits();
    // In (0, 1], so that the logarithm is finite.
    float u = (static_cast<float>(bits >> 40) + 1) * 0x1p-24f;
    float angle = static_cast<float>(bits & 0xffffff) * 0x1p-24f * 2 *
                  std::numbers::pi_v<float>;
    float radius = std::sqrt(-2 * std::log(u));
    spare = radius * std::sin(angle);
    hasSpare = true;
    return radius * std::cos(angle);
  }

  uint64_t nextBits() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

private:
  uint64_t state;
  float spare = 0;
  bool hasSpare = false;
};

/// Bits of a place, whatever was drawn before it.
inline uint64_t drawBits(uint64_t seed, uint64_t first, uint64_t second = 0) {
  NormalGenerator outer(seed ^ (first << 32));
  return NormalGenerator(outer.nextBits() + second).nextBits();
}

/// Coordinate of packed element `index` along the axis named `name`.
inline int64_t coordinate(const TensorGeometry &tensor, int64_t index,
                          std::string_view name) {
  for (size_t axis = tensor.axes.size(); axis-- > 0;) {
    if (tensor.axes[axis] == name)
      return index % tensor.sizes[axis];
    index /= tensor.sizes[axis];
  }
  return 0;
}

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_LIB_RANDOMNUMBERS_H
