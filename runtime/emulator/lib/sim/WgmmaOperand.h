//===- WgmmaOperand.h - Operands of wgmma in shared memory ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matrix descriptor (PTX ISA 9.7.15.5.1) says where the 16-byte pieces of a
// tile lie. A piece has 8 elements along K, or along M or N for a transposed
// operand; "mn" is the row of A or the column of B:
//
//   bits 0-13 start, 16-29 leading offset, 32-45 stride offset (all in units of
//   16 bytes), 49-51 base offset, 62-63 swizzle: 0 none, 1 128, 2 64, 3 32 B
//
//   K-major, no swizzle   mn % 8 * 16 + mn / 8 * stride + k / 8 * leading
//   K-major, W bytes      mn % 8 * W + mn / 8 * stride + k * 2
//   MN-major, no swizzle  k % 8 * 16 + k / 8 * leading + mn / 8 * stride
//   MN-major, W bytes     k % 8 * W + k / 8 * stride + mn * 2 % W
//                         + mn * 2 / W * leading
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_SIM_WGMMAOPERAND_H
#define FLASHCORE_EMULATOR_LIB_SIM_WGMMAOPERAND_H

#include "../check/Definedness.h"
#include "flashcore/Emulator/TensorMap.h"

#include <bitset>
#include <vector>

namespace flashcore::emu {

inline constexpr unsigned wgmmaRows = 64;
inline constexpr unsigned wgmmaDepth = 16;
inline constexpr unsigned maxWgmmaColumns = 256;

struct WgmmaDescriptor {
  uint32_t start = 0, leading = 0, stride = 0, base = 0;
  TensorSwizzle swizzle = TensorSwizzle::None;

  explicit WgmmaDescriptor(uint64_t bits);
  /// Of the piece with element (mn, k), as an address of shared memory.
  uint32_t pieceOf(bool transposed, unsigned mn, unsigned k) const;
};

/// One operand: A with 64 rows or B with its columns, of depth 16.
struct WgmmaMatrix {
  WgmmaDescriptor descriptor;
  bool transposed = false;
  unsigned rows = 0;

  /// Calls f(mn, k, address) for each piece with rows first to first + count.
  template <typename F>
  void forEachPiece(unsigned first, unsigned count, F f) const {
    unsigned stepMn = transposed ? 8 : 1, stepK = transposed ? 1 : 8;
    for (unsigned mn = first; mn < first + count; mn += stepMn)
      for (unsigned k = 0; k < wgmmaDepth; k += stepK)
        f(mn, k, descriptor.pieceOf(transposed, mn, k));
  }
};

/// What was read: 16 elements a row.
struct WgmmaOperand {
  std::vector<uint16_t> elements;
  /// Rows with an undefined element, and where one of them comes from.
  std::bitset<maxWgmmaColumns> undefined;
  Origin origin;

  /// Elements k and k + 1, k even.
  uint32_t pair(unsigned mn, unsigned k) const {
    const uint16_t *at = elements.data() + mn * wgmmaDepth + k;
    return at[0] | uint32_t(at[1]) << 16;
  }
};

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_SIM_WGMMAOPERAND_H
