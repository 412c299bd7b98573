//===- WmmaFragment.cpp - Which lane holds what of a wmma -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See WmmaFragment.h.
//
//===----------------------------------------------------------------------===//

#include "WmmaFragment.h"

using namespace flashcore::emu;

/// That of A or B: `isFirst` stands where A of the mma.sync does.
static void placeFactor(WmmaFragment &fragment, const WmmaShape &shape,
                        bool isFirst) {
  unsigned kStep = 4 * fragment.perRegister();
  fragment.innerStep = fragment.perRegister();
  unsigned extent = isFirst ? shape.rows() : shape.columns();
  unsigned tile = isFirst ? 16 : 8;
  for (unsigned block = 0; block < extent; block += tile)
    for (unsigned k = 0; k < shape.k; k += kStep)
      for (unsigned outer = 0; outer < tile; outer += 8)
        fragment.registers.push_back({block + outer, k});
}

static void placeAccumulator(WmmaFragment &fragment, const WmmaShape &shape) {
  fragment.innerStep = 2;
  for (unsigned mma = 0; mma < 2; ++mma)
    for (unsigned outer = 0; outer < 16; outer += 8)
      for (unsigned i = 0; i < 2; i += fragment.perRegister())
        fragment.registers.push_back(
            shape.rows() == 32 ? WmmaFragment::Place{16 * mma + outer, i}
                               : WmmaFragment::Place{outer, 8 * mma + i});
}

WmmaFragment flashcore::emu::makeFragment(char matrix, const WmmaShape &shape,
                                          ScalarType type) {
  WmmaFragment fragment;
  fragment.elementBytes = typeBytes(type);
  fragment.numRows = matrix == 'b' ? shape.k : shape.m;
  fragment.numColumns = matrix == 'a' ? shape.k : shape.n;
  if (matrix == 'a' || matrix == 'b') {
    fragment.outerIsRow = matrix == 'a';
    placeFactor(fragment, shape, (matrix == 'a') != shape.isSwapped());
  } else {
    fragment.outerIsRow = !shape.isSwapped();
    placeAccumulator(fragment, shape);
  }
  return fragment;
}

unsigned flashcore::emu::countRegisters(char matrix,
                                        const WmmaFragment &fragment,
                                        ScalarType type) {
  bool isFactor = matrix == 'a' || matrix == 'b';
  return isFactor && type == ScalarType::F16
             ? 8
             : static_cast<unsigned>(fragment.registers.size());
}
