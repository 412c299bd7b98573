//===- WmmaSlice.h - Where fragments of wmma go -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which wmma.load a fragment of A or B comes from is followed through moves of
// its registers, and through nothing else: what arithmetic made of a fragment,
// or packed from numbers, comes from no load. A slice forwards from the loads
// says which registers these are; per instruction the plan says what happens to
// those that it writes.
//
//===----------------------------------------------------------------------===//

#ifndef FLASHCORE_EMULATOR_LIB_LOWER_WMMASLICE_H
#define FLASHCORE_EMULATOR_LIB_LOWER_WMMASLICE_H

#include "flashcore/Emulator/Program.h"

namespace flashcore::emu {

/// One register that an instruction writes.
struct WmmaStep {
  static constexpr uint32_t nowhere = UINT32_MAX;
  uint32_t to = 0;
  /// The slot that a move reads.
  uint32_t from = nowhere;
  /// Of a wmma.load its number, from 1; 0 of anything else.
  uint32_t load = 0;
};

struct WmmaPlan {
  /// The slot of each granule, or WmmaStep::nowhere.
  std::vector<uint32_t> slots;
  uint32_t numSlots = 0;
  std::vector<WmmaStep> steps;
  /// Those of an instruction begin here; one more than instructions.
  std::vector<uint32_t> firstStep;

  bool isEmpty() const { return numSlots == 0; }
};

/// Empty unless a wmma.load may give what a wmma.mma takes.
WmmaPlan planWmma(const Program &program);

} // namespace flashcore::emu

#endif // FLASHCORE_EMULATOR_LIB_LOWER_WMMASLICE_H
