//===- Dropout.h - Which elements of P a dropout leaves ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula of docs/Op.md, which kernels compute as well: what is dropped is
// a function of seed, offset, batch entry, head, query and key.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_RUNTIME_DROPOUT_H
#define FLASHCORE_RUNTIME_DROPOUT_H

#include <array>
#include <cstdint>

namespace flashcore {

using PhiloxWords = std::array<uint32_t, 4>;

/// Philox4x32-10 of Salmon, Moraes, Dror and Shaw: four random words of a
/// counter.
PhiloxWords philox(PhiloxWords counter, std::array<uint32_t, 2> key);

/// Of 2^16 random numbers, those that drop an element; from 1 to 65535 for the
/// shares that a kernel can have, see isDropoutShare.
int64_t dropoutThreshold(double share);
bool isDropoutShare(double share);

/// The elements of P of one head that meet V.
class DropoutMask {
public:
  /// `rng`: seed and offset, the lower half of each first.
  DropoutMask(double share, const PhiloxWords &rng, int64_t entry,
              int64_t head);

  bool keeps(int64_t query, int64_t key) const;
  /// What those that are kept are multiplied with.
  double scale() const;

private:
  int64_t threshold;
  PhiloxWords stream;
};

} // namespace flashcore

#endif // FLASHCORE_RUNTIME_DROPOUT_H
