//===- WgmmaOperand.cpp - Operands of wgmma in shared memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See WgmmaOperand.h.
//
//===----------------------------------------------------------------------===//

#include "WgmmaOperand.h"
#include "Machine.h"

using namespace flashcore::emu;

static constexpr unsigned pieceBytes = 16;
static constexpr uint32_t addressMask = 0x3ffff;

WgmmaDescriptor::WgmmaDescriptor(uint64_t bits) {
  auto field = [&](unsigned at) {
    return static_cast<uint32_t>(bits >> at & 0x3fff) << 4;
  };
  start = field(0);
  leading = field(16);
  stride = field(32);
  base = static_cast<uint32_t>(bits >> 49 & 7);
  static constexpr TensorSwizzle swizzles[] = {
      TensorSwizzle::None, TensorSwizzle::Bytes128, TensorSwizzle::Bytes64,
      TensorSwizzle::Bytes32};
  swizzle = swizzles[bits >> 62];
}

uint32_t WgmmaDescriptor::pieceOf(bool transposed, unsigned mn,
                                  unsigned k) const {
  const unsigned bits = static_cast<unsigned>(swizzle);
  uint32_t address = start;
  if (swizzle == TensorSwizzle::None) {
    address += (transposed ? k : mn) % 8 * pieceBytes + mn / 8 * stride +
               k / 8 * leading;
    return address & addressMask;
  }
  const uint32_t width = pieceBytes << bits;
  if (transposed)
    address += k % 8 * width + k / 8 * stride + mn * 2 % width +
               mn * 2 / width * leading;
  else
    address += mn % 8 * width + mn / 8 * stride + k * 2;
  // The pattern starts where the base offset says.
  uint32_t row = ((address >> 7) - base) & ((1u << bits) - 1);
  return (address ^ row << 4) & addressMask;
}

/// Checks what a product reads of an operand, when it is issued; false if it is
/// not in shared memory.
bool Machine::checkMatrix(Warp &warp, const Inst &inst,
                          const WgmmaMatrix &matrix, unsigned firstRow,
                          unsigned numRows, AccessWord word) {
  ProxyAccess access;
  access.owner = severalLanes;
  access.bytes = pieceBytes;
  access.reader = warp.index / warpgroupWarps;
  access.word = word;
  bool ok = true;
  if (matrix.descriptor.swizzle != TensorSwizzle::None &&
      !matrix.descriptor.base)
    noteAlignment(warp, inst, 0, matrix.descriptor.start,
                  swizzleAtom(matrix.descriptor.swizzle));
  matrix.forEachPiece(
      firstRow, numRows, [&](unsigned, unsigned, uint32_t address) {
        ok = ok && isBulkShared(warp, inst, 0, address, pieceBytes, pieceBytes);
        access.address = address;
        if (ok && ordersAsync())
          checkProxyAccess(warp, inst, access);
      });
  return ok;
}

WgmmaOperand Machine::gather(Warp &warp, const Inst &inst,
                             const WgmmaMatrix &matrix) {
  WgmmaOperand out;
  out.elements.resize(size_t(matrix.rows) * wgmmaDepth);
  const unsigned step = matrix.transposed ? wgmmaDepth : 1;
  matrix.forEachPiece(
      0, matrix.rows, [&](unsigned mn, unsigned k, uint32_t address) {
        uint16_t piece[pieceBytes / 2];
        std::memcpy(piece, cta->shared.data() + address, pieceBytes);
        uint16_t *to = out.elements.data() + mn * wgmmaDepth + k;
        for (unsigned i = 0; i < pieceBytes / 2; ++i)
          to[i * step] = piece[i];
        if (!isOn(CheckInit) || cta->undefined.isDefined(address, pieceBytes))
          return;
        uint8_t bits[pieceBytes];
        Origin origin = readUndefined(warp, inst, StateSpace::Shared, 0,
                                      address, pieceBytes, nullptr, bits);
        out.origin = out.origin ? out.origin : origin;
        for (unsigned i = 0; i < pieceBytes; ++i)
          if (bits[i])
            out.undefined.set(matrix.transposed ? mn + i / 2 : mn);
      });
  return out;
}
