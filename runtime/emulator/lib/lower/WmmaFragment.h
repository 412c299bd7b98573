//===- WmmaFragment.h - Which lane holds what of a wmma ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The PTX ISA leaves open which lane holds which element of a wmma fragment.
// sm_80 and later hold it as the fragments of two mma.sync, as an H200 shows
// for every shape, type and layout (unittests/WmmaTest.cpp).
//
// With lane = 4 * o + i, a register of A or B holds elements of row (column, of
// B) o + 8 r at k = i * n .. i * n + n - 1, n elements to a register:
//
//   m16n16k16   mma 0: A x columns 0-7 of B, mma 1: A x columns 8-15
//   m32n8k16    mma 0: rows 0-15 of A x B, mma 1: rows 16-31
//   m8n32k16    as m32n8k16 with A and B in each other's place and D transposed
//
// Fragments of f16 have 8 registers; where the elements need fewer, they come
// twice or four times.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_LOWER_WMMAFRAGMENT_H
#define FLASHCORE_EMULATOR_LIB_LOWER_WMMAFRAGMENT_H

#include "flashcore/Emulator/Ptx.h"

namespace flashcore::emu {

struct WmmaShape {
  unsigned m = 0, n = 0, k = 0;

  bool isSwapped() const { return m == 8; }
  /// Rows and columns of the two mma.sync together.
  unsigned rows() const { return isSwapped() ? n : m; }
  unsigned columns() const { return isSwapped() ? m : n; }
};

/// Which elements the registers of a lane hold.
struct WmmaFragment {
  /// Where the first element of a register lies for lane 0.
  struct Place {
    unsigned outer = 0, inner = 0;
    bool operator==(const Place &other) const {
      return outer == other.outer && inner == other.inner;
    }
  };
  std::vector<Place> registers;
  unsigned elementBytes = 0;
  /// How far apart lanes that follow each other lie on the inner axis.
  unsigned innerStep = 0;
  /// Whether the outer axis, which lane / 4 runs over, is that of rows.
  bool outerIsRow = true;
  unsigned numRows = 0, numColumns = 0;

  unsigned perRegister() const { return 4 / elementBytes; }
};

/// Of matrix a, b, c or d. Registers of f16 that repeat others are not among
/// them.
WmmaFragment makeFragment(char matrix, const WmmaShape &shape, ScalarType type);

/// Registers of a fragment as the instruction names them.
unsigned countRegisters(char matrix, const WmmaFragment &fragment,
                        ScalarType type);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_LOWER_WMMAFRAGMENT_H
