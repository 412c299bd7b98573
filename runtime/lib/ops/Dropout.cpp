//===- Dropout.cpp - Which elements of P a dropout leaves -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Straight from the formula; the compiler has it as ops
// (DistributeDropout.cpp).
//
//===----------------------------------------------------------------------===//

#include "flashcore/Runtime/Dropout.h"

#include <cmath>

using namespace flashcore;

PhiloxWords flashcore::philox(PhiloxWords counter,
                              std::array<uint32_t, 2> key) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    uint64_t first = uint64_t(0xD2511F53) * counter[0],
             second = uint64_t(0xCD9E8D57) * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

int64_t flashcore::dropoutThreshold(double share) {
  return std::llround(0x1p16 * share);
}

bool flashcore::isDropoutShare(double share) {
  return share >= 0x1p-17 && share < 1 - 0x1p-17; // false for NaN
}

DropoutMask::DropoutMask(double share, const PhiloxWords &rng, int64_t entry,
                         int64_t head)
    : threshold(dropoutThreshold(share)),
      stream(philox({rng[2], rng[3], static_cast<uint32_t>(entry),
                     static_cast<uint32_t>(head)},
                    {rng[0], rng[1]})) {}

bool DropoutMask::keeps(int64_t query, int64_t key) const {
  auto i = static_cast<uint32_t>(query);
  auto group = static_cast<uint32_t>(key / 32 * 4 + key % 8 / 2);
  PhiloxWords words =
      philox({i ^ stream[0], group ^ stream[1], stream[2], stream[3]}, {0, 0});
  uint32_t word = words[static_cast<size_t>(key % 32 / 8)];
  return static_cast<uint16_t>(word >> (16 * (key % 2))) >= threshold;
}

double DropoutMask::scale() const {
  return 1 / (1 - static_cast<double>(threshold) * 0x1p-16);
}
